/* SPDX-License-Identifier: Apache-2.0 */
#include "engine_test.h"

int main(void) {
  static void (*const suites[])(void) = {suite_executor};
  return rig_run_suites(suites, sizeof suites / sizeof *suites);
}
