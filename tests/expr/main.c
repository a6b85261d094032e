/* SPDX-License-Identifier: Apache-2.0
 *
 * expr_test [--long] [--count N] [--seed N]
 */
#include <CUnit/Basic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/expr/test_expr.h"

test_options test_opts = {.seed = 20260101, .count = 200000};

int main(int argc, char **argv) {
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--long") == 0) {
      test_opts.count = 1000000;
    } else if (strcmp(argv[i], "--count") == 0 && i + 1 < argc) {
      test_opts.count = strtol(argv[++i], NULL, 10);
    } else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc) {
      test_opts.seed = strtoull(argv[++i], NULL, 10);
    } else {
      fprintf(stderr, "usage: %s [--long] [--count N] [--seed N]\n", argv[0]);
      return 2;
    }
  }
  if (CU_initialize_registry() != CUE_SUCCESS) return 1;
  test_table_suite();
  test_random_suite();
  CU_basic_set_mode(CU_BRM_VERBOSE);
  CU_basic_run_tests();
  unsigned failures = CU_get_number_of_failures();
  CU_cleanup_registry();
  return failures != 0;
}
