/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums of bytes by UDOT, both sides unsigned: codes get 128, and 128 times the sum of the row of a is taken off.
 */
#include <arm_neon.h>

#include "plugins/cpu-neon-lut/kernels/kernels.h"

typedef uint8x16_t codes16;
#define LOAD(p) veorq_u8(vld1q_u8(p), vdupq_n_u8(128))
#define DOT(s, w, a, lane) vreinterpretq_s32_u32(vdotq_laneq_u32(vreinterpretq_u32_s32(s), w, a, lane))
#include "plugins/cpu-neon-lut/kernels/bytes_template.h"

/* -128 times the sum of a row, modulo 2^32. */
static int32_t taken_off(const uint8_t *a, size_t quads) {
  uint32x4_t sum = vdupq_n_u32(0);
  for (size_t q = 0; q < quads; q += 4, a += 16) sum = vdotq_u32(sum, vld1q_u8(a), vdupq_n_u8(128));
  return (int32_t)(0u - vaddvq_u32(sum));
}

void tni_arm_bytes_s32_u8_s8_4x16_dotprod(const uint8_t *const *blocks, size_t quads, const uint8_t *a, size_t lda,
                                          size_t rows, const tni_clt_next *next, int32_t *acc) {
  (void)next;
  for (size_t m = 0; m < rows; m += TILE_M, a += TILE_M * lda, acc += TILE_M * 32) {
    const size_t n = rows - m < TILE_M ? rows - m : TILE_M;
    int32_t take[TILE_M];
    for (size_t i = 0; i < n; i++) take[i] = taken_off(a + i * lda, quads);
    multiply_bytes(blocks, quads, a, lda, n, take, acc);
  }
}
