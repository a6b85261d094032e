/* SPDX-License-Identifier: Apache-2.0 */
#include "memory_test.h"

int main(void) {
  static void (*const suites[])(void) = {suite_order, suite_chunk};
  return rig_run_suites(suites, sizeof suites / sizeof *suites);
}
