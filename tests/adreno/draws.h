/* SPDX-License-Identifier: Apache-2.0
 *
 * Random numbers of the tests of e0m, the same in every run.
 */
#ifndef TENON_TESTS_ADRENO_DRAWS_H
#define TENON_TESTS_ADRENO_DRAWS_H

#include <stdint.h>

static uint64_t state = 7;
static float uniform(void) {
  state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
  return (float)(state >> 40) / (float)(1 << 24);
}
static float normal(void) {
  float s = 0;
  for (int i = 0; i < 12; i++) s += uniform();
  return s - 6;
}

#endif
