/* SPDX-License-Identifier: Apache-2.0
 *
 * npu-test [--seed N] PLUGIN.so
 */
#include <CUnit/Basic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/npu/minihost.h"

extern const char *npu_so;
const char *npu_so;

int main(int argc, char **argv) {
  for (int i = 1; i < argc; i++) {
    if (!strcmp(argv[i], "--seed") && i + 1 < argc)
      npu_seed = strtoull(argv[++i], NULL, 0);
    else
      npu_so = argv[i];
  }
  if (!npu_so) return 2;
  printf("seed %llu\n", (unsigned long long)npu_seed);
  if (CU_initialize_registry() != CUE_SUCCESS) return 1;
  if (!add_sim_suite() || !add_w8_suite() || !add_plugin_suite() || !add_device_suite()) return 1;
  CU_basic_set_mode(CU_BRM_VERBOSE);
  CU_basic_run_tests();
  const unsigned failures = CU_get_number_of_failures();
  CU_cleanup_registry();
  return failures != 0;
}
