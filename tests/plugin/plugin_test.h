/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TENON_TESTS_PLUGIN_TEST_H
#define TENON_TESTS_PLUGIN_TEST_H

#include <CUnit/Basic.h>
#include <stddef.h>

typedef struct test_case {
  const char *name;
  CU_TestFunc fn;
} test_case;

extern const test_case manifest_tests[], services_tests[], ticket_tests[], offsets_tests[], options_tests[],
    engine_tests[]; /* each ended by a NULL name */

#endif
