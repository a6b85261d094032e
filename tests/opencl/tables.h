/* SPDX-License-Identifier: Apache-2.0
 *
 * The tables of kernels that are tested: the floor, and those of plugins that are built.
 */
#ifndef TENON_TESTS_OPENCL_TABLES_H
#define TENON_TESTS_OPENCL_TABLES_H

#include "plugins/common/opencl/clkern.h"

typedef struct test_table {
  const char *name; /* NULL: the end */
  const tni_cl_variant *variants;
  const uint32_t *n;
} test_table;

extern const test_table test_tables[];

#endif
