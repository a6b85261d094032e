/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums of bytes with one side unsigned: SUDOT for up to four rows of a, USMMLA for more, eight rows by eight outputs at
 * a time, where a register of sums is two rows by two outputs.
 */
#include <arm_neon.h>
#include <stdbool.h>

#include "plugins/cpu-neon-lut/kernels/kernels.h"

typedef int8x16_t codes16;
#define LOAD(p) vld1q_s8((const int8_t *)(p))
#define DOT(s, w, a, lane) vsudotq_laneq_s32(s, w, a, lane)
#include "plugins/cpu-neon-lut/kernels/bytes_template.h"

enum { TALL = 8 };

/* s i j: rows 2i, 2i + 1, outputs 2j, 2j + 1. */
#define ROWS(F) F(0) F(1) F(2) F(3)
#define FOUR(F, i) F(i, 0) F(i, 1) F(i, 2) F(i, 3)
#define EACH(F) FOUR(F, 0) FOUR(F, 1) FOUR(F, 2) FOUR(F, 3)
#define START(i, j) int32x4_t s##i##j = vdupq_n_s32(0);
#define BYTES(i) const uint8x16_t a##i = vcombine_u8(vld1_u8(a[2 * i] + k), vld1_u8(a[2 * i + 1] + k));
#define ADD(i, j) s##i##j = vusmmlaq_s32(s##i##j, a##i, w##j);
#define STORE(i, j)                                                            \
  if (2 * i < rows) vst1_s32(acc + 2 * i * 32 + 2 * j, vget_low_s32(s##i##j)); \
  if (2 * i + 1 < rows) vst1_s32(acc + (2 * i + 1) * 32 + 2 * j, vget_high_s32(s##i##j));

static inline int8x16_t zipped(const uint8_t *w, bool high) {
  const uint32x4_t a = vreinterpretq_u32_u8(vld1q_u8(w)), b = vreinterpretq_u32_u8(vld1q_u8(w + 64));
  return vreinterpretq_s8_u32(high ? vzip2q_u32(a, b) : vzip1q_u32(a, b));
}

/* w: from the first of eight outputs on. a: eight rows, of which the last may be one. */
static void tall_tile(const uint8_t *w, size_t quads, const uint8_t *const a[TALL], size_t rows, int32_t *acc) {
  EACH(START)
  for (size_t k = 0; k < 4 * quads; k += 8, w += 128) {
    ROWS(BYTES)
    const int8x16_t w0 = zipped(w, false), w1 = zipped(w, true), w2 = zipped(w + 16, false), w3 = zipped(w + 16, true);
    EACH(ADD)
  }
  EACH(STORE)
}
#undef STORE
#undef ADD
#undef BYTES
#undef START
#undef EACH
#undef FOUR
#undef ROWS

void tni_arm_bytes_s32_u8_s8_8x8_i8mm(const uint8_t *const *blocks, size_t quads, const uint8_t *a, size_t lda,
                                      size_t rows, const tni_clt_next *next, int32_t *acc) {
  (void)next;
  static const int32_t nothing[TILE_M] = {0};
  for (size_t m = 0; m < rows; m += TALL, a += TALL * lda, acc += TALL * 32) {
    const size_t n = rows - m < TALL ? rows - m : TALL;
    const uint8_t *row[TALL];
    if (n <= TILE_M) {
      multiply_bytes(blocks, quads, a, lda, n, nothing, acc);
      return;
    }
    for (size_t i = 0; i < TALL; i++) row[i] = a + (i < n ? i : n - 1) * lda;
    for (size_t i = 0; i < 4; i++) tall_tile(blocks[i / 2] + i % 2 * 32, quads, row, n, acc + 8 * i);
  }
}
