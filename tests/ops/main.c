/* SPDX-License-Identifier: Apache-2.0 */
#include "ops_test.h"

int main(void) {
  if (CU_initialize_registry() != CUE_SUCCESS) return 1;
  bool ok = ht_add_kernels() && ht_add_bytes() && ht_add_dots() && ht_add_matmul() && ht_add_hot() && ht_add_kept() &&
            ht_add_few_bits() && ht_add_large() && ht_add_attention() && ht_add_fused() && ht_add_general() &&
            ht_add_stop();
  CU_basic_set_mode(CU_BRM_VERBOSE);
  if (ok) CU_basic_run_tests();
  const unsigned failed = CU_get_number_of_failures();
  CU_cleanup_registry();
  return !ok || failed != 0;
}
