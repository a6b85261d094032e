/* SPDX-License-Identifier: Apache-2.0 */
#include "plugin_test.h"

int main(void) {
  static const struct {
    const char *name;
    const test_case *tests;
  } suites[] = {{"manifest", manifest_tests}, {"services", services_tests}, {"ticket", ticket_tests},
                {"offsets", offsets_tests},   {"options", options_tests},   {"engine", engine_tests}};
  if (CU_initialize_registry() != CUE_SUCCESS) return 1;
  for (size_t i = 0; i < sizeof suites / sizeof *suites; i++) {
    CU_pSuite s = CU_add_suite(suites[i].name, NULL, NULL);
    for (const test_case *t = suites[i].tests; t->name; t++)
      if (!s || !CU_add_test(s, t->name, t->fn)) return 1;
  }
  CU_basic_set_mode(CU_BRM_VERBOSE);
  CU_basic_run_tests();
  int failed = CU_get_number_of_failures() != 0;
  CU_cleanup_registry();
  return failed;
}
