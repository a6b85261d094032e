/* SPDX-License-Identifier: Apache-2.0 */
#include <CUnit/Basic.h>

#include "tests/shape/table.h"

int main(void) {
  if (CU_initialize_registry() != CUE_SUCCESS) return 1;
  if (!suite_elementwise() || !suite_movement() || !suite_image() || !suite_index() || !suite_source() ||
      !suite_reduce() || !suite_sequence() || !suite_graph() || !suite_passes()) {
    CU_cleanup_registry();
    return 1;
  }
  CU_basic_set_mode(CU_BRM_VERBOSE);
  CU_basic_run_tests();
  unsigned failures = CU_get_number_of_failures();
  CU_cleanup_registry();
  return failures != 0;
}
