/* SPDX-License-Identifier: Apache-2.0 */
#include "quant_test.h"

int main(void) {
  if (CU_initialize_registry() != CUE_SUCCESS) return 1;
  CU_pSuite f = CU_add_suite("moments and their factor", NULL, NULL);
  CU_add_test(f, "moments are sums of products", test_moments);
  CU_add_test(f, "the factor's square is the inverse", test_factor);
  CU_add_test(f, "what is not positive definite is refused", test_factor_refuses);
  CU_pSuite s = CU_add_suite("solver", NULL, NULL);
  CU_add_test(s, "weights on the grid stay as they are", test_exact);
  CU_add_test(s, "no change of one code is better; brute force", test_brute_force);
  CU_add_test(s, "errors are below those of rounding", test_below_rounding);
  CU_add_test(s, "values are those of codes on the grid", test_on_grid);
  CU_add_test(s, "a row's scale is the one that suits most of its groups", test_parents);
  CU_add_test(s, "any number of threads gives the same bytes", test_threads);
  CU_add_test(s, "any instruction set gives the same bytes", test_variants);
  CU_add_test(s, "odd shapes, empty rows and channels", test_odd_shapes);
  CU_add_test(s, "what is not finite is refused", test_refuses);
  CU_pSuite d = CU_add_suite("inputs that have drifted", NULL, NULL);
  CU_add_test(d, "weights make up for them", test_drift);
  CU_add_test(d, "weights make up for sums that have drifted", test_drift_of_sums);
  CU_add_test(d, "any number of threads gives the same bytes", test_drift_threads);
  CU_add_test(d, "rows longer than what is multiplied at once", test_drift_of_long_rows);
  budget_tests(CU_add_suite("widths under a budget", NULL, NULL));
  spill_tests(CU_add_suite("blocks in memory and in a file", NULL, NULL));
  CU_basic_set_mode(CU_BRM_VERBOSE);
  CU_basic_run_tests();
  const unsigned failed = CU_get_number_of_failures();
  CU_cleanup_registry();
  return failed != 0;
}
