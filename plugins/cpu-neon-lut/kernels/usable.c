/* SPDX-License-Identifier: Apache-2.0
 *
 * Which of the processor's features are to be used. QEMU before 9 says that it has SME, and its SMOPA leaves out every
 * other row: one product is computed, and SME is used if it is right.
 */
#include "plugins/cpu-neon-lut/kernels/kernels.h"
#include "plugins/cpu-neon-lut/kernels/tiles_sme.h"

static bool smopa_is_right(void) {
  int8_t x[64], w[64];
  int32_t sums[16][16] = {{0}};
  for (int32_t i = 0; i < 64; i++) {
    x[i] = (int8_t)(i - 20);
    w[i] = (int8_t)(90 - 3 * i);
  }
  tni_arm_smopa(x, w, sums);
  for (size_t i = 0; i < 4; i++) /* as many rows as the shortest vector gives */
    for (size_t j = 0; j < 4; j++) {
      int32_t want = 0;
      for (size_t k = 0; k < 4; k++) want += x[4 * i + k] * w[4 * j + k];
      if (sums[i][j] != want) return false;
    }
  return true;
}

uint32_t tni_arm_usable(uint32_t features) {
  if (!(features & TNI_CPU_SME) || smopa_is_right()) return features;
  return features & ~(uint32_t)(TNI_CPU_SME | TNI_CPU_SME2);
}
