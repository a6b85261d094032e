/* SPDX-License-Identifier: Apache-2.0 */
#include "oracle_test.h"
#include "tests/kit/rig.h"

int main(void) {
  static void (*const suites[])(void) = {suite_reference, suite_fused, suite_attend, suite_capture};
  return rig_run_suites(suites, sizeof suites / sizeof *suites);
}
