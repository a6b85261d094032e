/* SPDX-License-Identifier: Apache-2.0
 *
 * Tiles of bytes (dots.h), compiled once for SDOT and once for SMMLA. Six rows and sixteen columns are 24 registers of
 * sums.
 */
#include "runtime/ops/hot/dots.h"
#include "runtime/ops/hot/hot_lanes.h"
#include "runtime/ops/hot/hot_rows.h"

#if defined(TNI_HOT_NEON) && defined(__ARM_FEATURE_DOTPROD)

#define INLINE static inline __attribute__((always_inline))

INLINE int8x16_t zip_bytes(const int high, int8x16_t x, int8x16_t y) {
  return high ? vzip2q_s8(x, y) : vzip1q_s8(x, y);
}
INLINE int8x16_t zip_pairs(const int high, int8x16_t a, int8x16_t b) {
  const int16x8_t x = vreinterpretq_s16_s8(a), y = vreinterpretq_s16_s8(b);
  return vreinterpretq_s8_s16(high ? vzip2q_s16(x, y) : vzip1q_s16(x, y));
}
INLINE int8x16_t row_of(const uint8_t *row, uint8_t flip) {
  return vreinterpretq_s8_u8(veorq_u8(vld1q_u8(row), vdupq_n_u8(flip)));
}
/* Four rows' bytes side by side: columns 4 i to 4 i + 3 in to[i]. */
INLINE void four_rows(int8x16_t *to, const uint8_t *const *rows, uint8_t flip) {
  const int8x16_t r0 = row_of(rows[0], flip), r1 = row_of(rows[1], flip);
  const int8x16_t r2 = row_of(rows[2], flip), r3 = row_of(rows[3], flip);
  for (int i = 0; i < 2; i++) {
    const int8x16_t low = zip_bytes(i, r0, r1), high = zip_bytes(i, r2, r3);
    to[2 * i] = zip_pairs(0, low, high);
    to[2 * i + 1] = zip_pairs(1, low, high);
  }
}
INLINE void put(int32_t *c, int32x4_t sum, int first) { vst1q_s32(c, first ? sum : vaddq_s32(sum, vld1q_s32(c))); }

#ifdef __ARM_FEATURE_MATMUL_INT8

enum { UNIT = 8, TOGETHER = 2 };

INLINE int8x16_t zip_eights(const int high, int8x16_t a, int8x16_t b) {
  const int64x2_t x = vreinterpretq_s64_s8(a), y = vreinterpretq_s64_s8(b);
  return vreinterpretq_s8_s64(high ? vzip2q_s64(x, y) : vzip1q_s64(x, y));
}

static void columns(int8_t *dst, const uint8_t *const *rows, uint8_t flip) {
  int8x16_t low[4], high[4];
  four_rows(low, rows, flip);
  four_rows(high, rows + 4, flip);
  for (int i = 0; i < 4; i++) {
    const int32x4_t x = vreinterpretq_s32_s8(low[i]), y = vreinterpretq_s32_s8(high[i]);
    vst1q_s8(dst + 32 * i, vreinterpretq_s8_s32(vzip1q_s32(x, y)));
    vst1q_s8(dst + 32 * i + 16, vreinterpretq_s8_s32(vzip2q_s32(x, y)));
  }
}

/* By asm: gcc copies sums from register to register. A sum is of two rows and two columns. */
#define SMMLA(acc, x, y) __asm__("smmla %0.4s, %1.16b, %2.16b" : "+w"(acc) : "w"(x), "w"(y))

INLINE void micro(const int mr, int64_t kc, const int8_t *a, const int8_t *b, int32_t *c, int64_t ldc, int first) {
  const int pairs = (mr + 1) / 2;
  int32x4_t acc[3][8];
#pragma GCC unroll 8
  for (int p = 0; p < pairs; p++)
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) acc[p][i] = vdupq_n_s32(0);
  for (int64_t k = 0; k < kc; k += UNIT, a += 2 * UNIT, b += 16 * UNIT) {
    int8x16_t x[3];
#pragma GCC unroll 3
    for (int p = 0; p < pairs; p++) x[p] = vld1q_s8(a + 2 * p * kc);
#pragma GCC unroll 8
    for (int i = 0; i < 8; i++) {
      const int8x16_t y = vld1q_s8(b + 16 * i);
#pragma GCC unroll 3
      for (int p = 0; p < pairs; p++) SMMLA(acc[p][i], x[p], y);
    }
  }
#pragma GCC unroll 8
  for (int m = 0; m < mr; m++)
#pragma GCC unroll 8
    for (int i = 0; i < 8; i += 2) {
      const int8x16_t x = vreinterpretq_s8_s32(acc[m / 2][i]), y = vreinterpretq_s8_s32(acc[m / 2][i + 1]);
      put(c + m * ldc + 2 * i, vreinterpretq_s32_s8(zip_eights(m % 2, x, y)), first);
    }
}

static void sums(int32_t *sum, const int8_t *b, int64_t kc) {
  const int8x16_t ones = vdupq_n_s8(1);
  int32x4_t acc[8];
  for (int i = 0; i < 8; i++) acc[i] = vdupq_n_s32(0);
  for (int64_t k = 0; k < kc; k += UNIT, b += 128)
    for (int i = 0; i < 8; i++) acc[i] = vdotq_s32(acc[i], vld1q_s8(b + 16 * i), ones);
  for (int i = 0; i < 8; i += 2) put(sum + 2 * i, vpaddq_s32(acc[i], acc[i + 1]), 0);
}

#else

enum { UNIT = 4, TOGETHER = 1 };

static void columns(int8_t *dst, const uint8_t *const *rows, uint8_t flip) {
  int8x16_t to[4];
  four_rows(to, rows, flip);
  for (int i = 0; i < 4; i++) vst1q_s8(dst + 16 * i, to[i]);
}

/* By asm: gcc copies sums from register to register. */
#define SDOT(acc, y, x, lane) __asm__("sdot %0.4s, %1.16b, %2.4b[" #lane "]" : "+w"(acc) : "w"(y), "w"(x))
#define LANE(lane)                                                                       \
  _Pragma("GCC unroll 4") for (int h = 0; h < 4; h++) {                                  \
    const int8x16_t y = vld1q_s8(b + 64 * (lane) + 16 * h);                              \
    _Pragma("GCC unroll 6") for (int m = 0; m < mr; m++) SDOT(acc[m][h], y, x[m], lane); \
  }

INLINE void micro(const int mr, int64_t kc, const int8_t *a, const int8_t *b, int32_t *c, int64_t ldc, int first) {
  int32x4_t acc[6][4];
#pragma GCC unroll 8
  for (int m = 0; m < mr; m++)
#pragma GCC unroll 8
    for (int h = 0; h < 4; h++) acc[m][h] = vdupq_n_s32(0);
  for (int64_t k = 0; k < kc; k += TNI_DOTS_STEP, b += 256) {
    int8x16_t x[6];
#pragma GCC unroll 8
    for (int m = 0; m < mr; m++) x[m] = vld1q_s8(a + m * kc + k);
    LANE(0)
    LANE(1)
    LANE(2)
    LANE(3)
  }
#pragma GCC unroll 8
  for (int m = 0; m < mr; m++)
#pragma GCC unroll 8
    for (int h = 0; h < 4; h++) put(c + m * ldc + 4 * h, acc[m][h], first);
}

static void sums(int32_t *sum, const int8_t *b, int64_t kc) {
  const int8x16_t ones = vdupq_n_s8(1);
  int32x4_t acc[4];
  for (int h = 0; h < 4; h++) acc[h] = vdupq_n_s32(0);
  for (int64_t k = 0; k < kc; k += UNIT, b += 64)
    for (int h = 0; h < 4; h++) acc[h] = vdotq_s32(acc[h], vld1q_s8(b + 16 * h), ones);
  for (int h = 0; h < 4; h++) put(sum + 4 * h, acc[h], 0);
}

#endif

#define TILE(n) micro(n, kc, a, b, c, ldc, first)

static void TNI_HOT_OWN(tile)(int mr, int64_t kc, const int8_t *a, const int8_t *b, int32_t *c, int64_t ldc,
                              int first) {
  TNI_ROWS(mr, TILE)
}

extern const tni_dots TNI_HOT_NAME;
const tni_dots TNI_HOT_NAME = {
    .name = TNI_HOT_TEXT, .unit = UNIT, .rows = TOGETHER, .tile = TNI_HOT_OWN(tile), .columns = columns, .sums = sums};

#endif
