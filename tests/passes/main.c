/* SPDX-License-Identifier: Apache-2.0 */
#include <CUnit/Basic.h>

#include "tests/passes/forms.h"

int main(void) {
  if (CU_initialize_registry() != CUE_SUCCESS) return 1;
  if (!suite_branch() || !suite_norm() || !suite_gelu() || !suite_conv() || !suite_qdq() || !suite_reshape() ||
      !suite_attention() || !suite_heads() || !suite_lanes() || !suite_mask() || !suite_siblings() || !suite_chain() || !suite_unfuse() ||
      !suite_cache() || !suite_last_rows()) {
    CU_cleanup_registry();
    return 1;
  }
  CU_basic_set_mode(CU_BRM_VERBOSE);
  CU_basic_run_tests();
  unsigned failures = CU_get_number_of_failures();
  CU_cleanup_registry();
  return failures != 0;
}
