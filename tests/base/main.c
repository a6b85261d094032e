/* SPDX-License-Identifier: Apache-2.0 */
#include "base_test.h"

int main(void) {
  if (CU_initialize_registry() != CUE_SUCCESS) return 1;
  suite_memory();
  suite_error();
  suite_cpus();
  suite_json();
  suite_pool();
  suite_shares();
  CU_basic_set_mode(CU_BRM_VERBOSE);
  CU_basic_run_tests();
  unsigned failures = CU_get_number_of_failures();
  CU_cleanup_registry();
  return failures != 0;
}
