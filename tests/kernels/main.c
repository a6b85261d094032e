/* SPDX-License-Identifier: Apache-2.0
 *
 * kernels [--seed N] [--bench] [--only PARTS,OF,NAMES] [--bits] [PLUGIN.so]
 *
 * --bits: variants against the reference's bits alone; that these are within the bound another run tells.
 */
#include <CUnit/Basic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/kernels/bench.h"
#include "tests/kernels/harness.h"

int main(int argc, char **argv) {
  const char *so = NULL;
  bool bench = false;
  for (int i = 1; i < argc; i++) {
    if (!strcmp(argv[i], "--bench"))
      bench = true;
    else if (!strcmp(argv[i], "--seed") && i + 1 < argc)
      test_seed = strtoull(argv[++i], NULL, 0);
    else if (!strcmp(argv[i], "--only") && i + 1 < argc)
      test_only = argv[++i];
    else if (!strcmp(argv[i], "--bits"))
      test_bits = true;
    else
      so = argv[i];
  }
#if defined(__x86_64__)
  if (bench) {
    int rc = run_bench();
    return rc || !so ? rc : run_fused_bench(so);
  }
#else
  if (bench) return 1; /* under an emulator times say nothing */
#endif
  printf("seed %llu, cpu features 0x%x\n", (unsigned long long)test_seed, test_cpu_features());
  if (CU_initialize_registry() != CUE_SUCCESS) return 1;
  if (!add_kernel_suite() || !add_hole_suite() || !add_sme_suite() ||
      (!*test_only && (!add_format_suite() || !add_lut_suite() || !add_dot_suite() || !add_chain_suite())) ||
      (so && (!add_plugin_suite(so) || !add_fused_suite(so))))
    return 1;
#if defined(__x86_64__)
  if (so && !*test_only && !add_choice_suite(so)) return 1;
#endif
  CU_basic_set_mode(CU_BRM_VERBOSE);
  CU_basic_run_tests();
  unsigned failures = CU_get_number_of_failures();
  CU_cleanup_registry();
  return failures != 0;
}
