/* SPDX-License-Identifier: Apache-2.0 */
#include "session_test.h"

int main(void) {
  static void (*const suites[])(void) = {suite_inputs, suite_runs, suite_plugins,
                                         suite_demo,   suite_keep, suite_lookups};
  return rig_run_suites(suites, sizeof suites / sizeof *suites);
}
