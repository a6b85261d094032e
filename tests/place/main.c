/* SPDX-License-Identifier: Apache-2.0 */
#include "place_test.h"

int main(void) {
  static void (*const suites[])(void) = {suite_claims, suite_partition, suite_program, suite_taskgraph,
                                         suite_weight, suite_place,     suite_pack,    suite_embeddings};
  return rig_run_suites(suites, sizeof suites / sizeof *suites);
}
