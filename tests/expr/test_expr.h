/* SPDX-License-Identifier: Apache-2.0
 *
 * The suites of the expression tests, and their options.
 */
#ifndef TENON_TEST_EXPR_H
#define TENON_TEST_EXPR_H

#include <stdint.h>

typedef struct test_options {
  uint64_t seed; /* 0: the fixed one */
  long count;    /* random expressions */
} test_options;

extern test_options test_opts;

void test_table_suite(void);
void test_random_suite(void);

#endif
