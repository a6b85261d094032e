/* SPDX-License-Identifier: Apache-2.0 */
#include "isolate_test.h"

/* Arguments: names of suites; none: all. */
int main(int argc, char **argv) {
  static const struct {
    const char *name;
    void (*add)(void);
  } suites[] = {{"same", suite_same},       {"kill", suite_kill},   {"crash", suite_crash},
                {"wire", suite_wire},       {"start", suite_start}, {"device", suite_device},
                {"threads", suite_threads}, {"order", suite_order}, {"walls", suite_walls}, {"flip", suite_flip},
                {"cancel", suite_cancel}};
  if (CU_initialize_registry() != CUE_SUCCESS) return 2;
  for (size_t i = 0; i < sizeof suites / sizeof *suites; i++) {
    bool wanted = argc == 1;
    for (int k = 1; k < argc; k++) wanted = wanted || strcmp(argv[k], suites[i].name) == 0;
    if (wanted) suites[i].add();
  }
  CU_basic_set_mode(CU_BRM_VERBOSE);
  CU_basic_run_tests();
  const bool failed = CU_get_number_of_failures() || CU_get_number_of_suites_failed() || CU_get_error();
  CU_cleanup_registry();
  lab_cleanup();
  return failed;
}
