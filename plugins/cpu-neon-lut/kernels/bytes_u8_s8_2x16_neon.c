/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums of bytes without SDOT, both sides unsigned: codes get 128, and 128 times the sum of the row of a is taken off.
 * A product of bytes fills 16 bits, so pairs of products are widened at once. Up to two rows of a times the 16 outputs
 * of a block.
 */
#include <arm_neon.h>
#include <string.h>

#include "plugins/cpu-neon-lut/kernels/kernels.h"

enum { TILE_M = 2 };

static inline uint8x16_t four_bytes(const uint8_t *a) {
  uint32_t v;
  memcpy(&v, a, sizeof v);
  return vreinterpretq_u8_u32(vdupq_n_u32(v));
}

static inline uint8x16_t raised(const uint8_t *w) { return veorq_u8(vld1q_u8(w), vdupq_n_u8(128)); }

#define REP1(F) F(0)
#define REP2(F) REP1(F) F(1)
#define EACH(F, i) F(i, 0) F(i, 1) F(i, 2) F(i, 3)
/* l, h i j: row i, outputs 4j, 4j + 1 and 4j + 2, 4j + 3, two halves of each. */
#define CLEAR(i) EACH(CLEAR_FOUR, i)
#define CLEAR_FOUR(i, j) uint32x4_t l##i##j = vdupq_n_u32(0), h##i##j = l##i##j;
#define ADD(i)                                    \
  {                                               \
    const uint8x16_t b = four_bytes(a + i * lda); \
    EACH(ADD_FOUR, i)                             \
  }
#define ADD_FOUR(i, j)                                                         \
  l##i##j = vpadalq_u16(l##i##j, vmull_u8(vget_low_u8(w##j), vget_low_u8(b))); \
  h##i##j = vpadalq_u16(h##i##j, vmull_high_u8(w##j, b));
#define STORE(i)                                                          \
  {                                                                       \
    const uint32x4_t take = vdupq_n_u32(raise_of(from + i * lda, quads)); \
    EACH(STORE_FOUR, i)                                                   \
  }
#define STORE_FOUR(i, j) \
  vst1q_s32(acc + i * 32 + 4 * j, vreinterpretq_s32_u32(vsubq_u32(vpaddq_u32(l##i##j, h##i##j), take)));

/* 128 times the sum of a row. */
static uint32_t raise_of(const uint8_t *a, size_t quads) {
  uint32x4_t sum = vdupq_n_u32(0);
  for (size_t q = 0; q < quads; q += 4, a += 16) sum = vpadalq_u16(sum, vpaddlq_u8(vld1q_u8(a)));
  return vaddvq_u32(sum) << 7;
}

#define TILE(M, REP)                                                                                  \
  static void tile_##M(const uint8_t *w, size_t quads, const uint8_t *a, size_t lda, int32_t *acc) {  \
    const uint8_t *from = a;                                                                          \
    REP(CLEAR)                                                                                        \
    for (size_t q = 0; q < quads; q++, w += 64, a += 4) {                                             \
      const uint8x16_t w0 = raised(w), w1 = raised(w + 16), w2 = raised(w + 32), w3 = raised(w + 48); \
      REP(ADD)                                                                                        \
    }                                                                                                 \
    REP(STORE)                                                                                        \
  }

TILE(1, REP1)
TILE(2, REP2)

void tni_arm_bytes_s32_u8_s8_2x16_neon(const uint8_t *const *blocks, size_t quads, const uint8_t *a, size_t lda,
                                       size_t rows, const tni_clt_next *next, int32_t *acc) {
  (void)next;
  for (size_t m = 0; m < rows; m += TILE_M, a += TILE_M * lda, acc += TILE_M * 32)
    for (size_t i = 0; i < 2; i++) (rows - m == 1 ? tile_1 : tile_2)(blocks[i], quads, a, lda, acc + 16 * i);
}
