/* SPDX-License-Identifier: Apache-2.0
 *
 * Models loaded and run once on the host. Mutated as messages (mutate.c).
 */
#include "tests/fuzz/engine.h"
#include "tests/fuzz/mutate.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t most, unsigned seed);
size_t LLVMFuzzerCustomCrossOver(const uint8_t *a, size_t n_a, const uint8_t *b, size_t n_b, uint8_t *out, size_t most,
                                 unsigned seed);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  fz_model(data, n, true);
  return 0;
}

size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t n, size_t most, unsigned seed) {
  return fz_mutate(data, n, most, seed);
}

size_t LLVMFuzzerCustomCrossOver(const uint8_t *a, size_t n_a, const uint8_t *b, size_t n_b, uint8_t *out, size_t most,
                                 unsigned seed) {
  return fz_cross(a, n_a, b, n_b, out, most, seed);
}
