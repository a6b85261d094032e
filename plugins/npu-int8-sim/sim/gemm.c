/* SPDX-License-Identifier: Apache-2.0 */
#include "plugins/npu-int8-sim/sim/gemm.h"

enum { TILE = 32 };

/* Products of int16 are what compilers turn into multiply-add of pairs. */
static int32_t dot_words(const int16_t *a, const int16_t *b, int64_t n) {
  int32_t sum = 0;
  for (int64_t i = 0; i < n; i++) sum += (int32_t)a[i] * b[i];
  return sum;
}

void npusim_gemm_tile(const int8_t *x, const int8_t *w, int32_t *y, int64_t M, int64_t N, int64_t K, int64_t tile,
                      int16_t *panel) {
  const int64_t Kp = (K + TILE - 1) / TILE * TILE, Np = (N + TILE - 1) / TILE * TILE;
  const int8_t *from = w + tile * TILE * Kp;
  int16_t *row = panel + TILE * Kp;
  for (int64_t k = 0; k < Kp; k += TILE)
    for (int64_t n = 0; n < TILE; n++)
      for (int64_t i = 0; i < TILE; i++) panel[n * Kp + k + i] = *from++;
  for (int64_t m = 0; m < M; m++) {
    for (int64_t k = 0; k < Kp; k++) row[k] = x[m * Kp + k];
    for (int64_t n = 0; n < TILE; n++) y[m * Np + tile * TILE + n] = dot_words(row, panel + n * Kp, Kp);
  }
}
