/* SPDX-License-Identifier: Apache-2.0 */
#include <CUnit/Basic.h>
#include <string.h>

#include "tests/pack/fixture.h"

int main(int argc, char **argv) {
  if (argc > 1 && strcmp(argv[1], "--child") == 0) return test_crash_child(argc, argv);
  if (CU_initialize_registry() != CUE_SUCCESS) return 1;
  test_basic_suite();
  test_damage_suite();
  test_cache_suite();
  test_crash_suite();
  test_keep_suite();
  CU_basic_set_mode(CU_BRM_VERBOSE);
  CU_basic_run_tests();
  unsigned failures = CU_get_number_of_failures();
  CU_cleanup_registry();
  return failures != 0;
}
