/* SPDX-License-Identifier: Apache-2.0 */
#include "plan_test.h"

int main(void) {
  if (CU_initialize_registry() != CUE_SUCCESS) return 1;
  suite_claims();
  suite_partition();
  suite_program();
  suite_taskgraph();
  suite_weight();
  CU_basic_set_mode(CU_BRM_VERBOSE);
  CU_basic_run_tests();
  unsigned failures = CU_get_number_of_failures();
  CU_cleanup_registry();
  return failures != 0;
}
