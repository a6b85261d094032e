/* SPDX-License-Identifier: Apache-2.0 */
#include "sched_test.h"

int main(void) {
  if (CU_initialize_registry() != CUE_SUCCESS) return 1;
  suite_inputs();
  suite_runs();
  suite_plugins();
  suite_demo();
  suite_order();
  suite_fused();
  suite_place();
  suite_executor();
  suite_keep();
  suite_lookups();
  suite_chunk();
  suite_pack();
  suite_embeddings();
  CU_basic_set_mode(CU_BRM_VERBOSE);
  CU_basic_run_tests();
  unsigned failures = CU_get_number_of_failures();
  CU_cleanup_registry();
  return failures != 0;
}
