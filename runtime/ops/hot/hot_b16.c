/* SPDX-License-Identifier: Apache-2.0
 *
 * Products of bfloat16, for attention over caches that are kept as such, compiled once per instruction set as hot.c.
 * aarch64 has products of its own: hot_neon.c, hot_b16_arm.c where there is BFMMLA.
 */
#include "runtime/ops/hot/hot_lanes.h"

#ifndef TNI_HOT_NEON
#define TILE_B16
#include "runtime/ops/hot/hot_tile.h"
#endif

typedef uint16_t u16u __attribute__((aligned(1), may_alias));
typedef uint32_t u32u __attribute__((aligned(1), may_alias));

#ifndef TNI_HOT_NEON
void TNI_HOT_OWN(gemm_b16)(int mr, int64_t kc, const void *a, int64_t lda, const void *b, int64_t ldb, float *c,
                           int64_t ldc, int first) {
  hot_tile(mr, kc, a, lda, b, ldb, c, ldc, first);
}

void TNI_HOT_OWN(gemm2_b16)(int mr, int64_t kc, const void *a, int64_t lda, const void *b, int64_t ldb, int64_t step,
                            float *c, int64_t ldc, int first) {
  tile2(mr, kc, a, lda, b, ldb, step, c, ldc, first);
}

/* --- few rows: lanes are rows for scores, columns for values --- */

enum { KEYS = 8 }; /* at once: there are no registers for more addresses */

void TNI_HOT_OWN(dots8_b16)(int64_t n, int64_t kc, const void *atv, const void *bv, int64_t ldb, float *c,
                            const void *nextv) {
  const f32u *at = atv, *b = bv;
  const char *next = nextv;
  const int64_t lines = next ? KEYS * kc / 16 : 0; /* that the keys of a turn are */
  for (int64_t j = 0, ask = 0; j < n; j += KEYS, ask += lines) {
    const f32u *r[KEYS];
    v8 acc[KEYS] = {{0}};
    for (int64_t i = 0; i < KEYS; i++) r[i] = b + (j + i < n ? j + i : n - 1) * ldb;
#pragma GCC unroll 1
    for (int64_t k = 0; k < kc; k++) {
      const v8 a = load8(at + k * 8);
      if (k < lines) __builtin_prefetch(next + (ask + k) * 64, 0, 2);
      for (int i = 0; i < KEYS; i++) acc[i] = pairs8(a, all8(r[i][k]), acc[i]);
    }
    for (int i = 0; i < KEYS; i++) store8(c + (j + i) * 8, acc[i]);
  }
}

/* Words of two rows' elements, as a register has them. */
#ifdef __AVX512F__
typedef __m512 columns;
static inline columns zip_columns(const u16u *low, const u16u *high) {
  const __m512i l = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)low));
  const __m512i h = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)high));
  return (columns)_mm512_or_si512(l, _mm512_slli_epi32(h, 16));
}
static inline columns add_pairs(float p, columns b, columns c) { return pairs16(_mm512_set1_ps(p), b, c); }
static inline columns faded_columns(columns c, float decay, columns sum) {
  return _mm512_add_ps(_mm512_mul_ps(c, _mm512_set1_ps(decay)), sum);
}
#else
typedef struct columns {
  v8 x[2];
} columns;
static inline columns zip_columns(const u16u *low, const u16u *high) {
  columns c;
  for (int i = 0; i < 2; i++) {
    uint32_t w[8];
    for (int k = 0; k < 8; k++) w[k] = low[i * 8 + k] | (uint32_t)high[i * 8 + k] << 16;
    memcpy(&c.x[i], w, sizeof w);
  }
  return c;
}
static inline columns add_pairs(float p, columns b, columns c) {
  for (int i = 0; i < 2; i++) c.x[i] = pairs8(all8(p), b.x[i], c.x[i]);
  return c;
}
static inline columns faded_columns(columns c, float decay, columns sum) {
  for (int i = 0; i < 2; i++) c.x[i] = c.x[i] * decay + sum.x[i];
  return c;
}
#endif

static inline __attribute__((always_inline)) void values(const int rows, int64_t n, const f32u *p, const u16u *b,
                                                         int64_t ldb, const float *decay, float *c, int64_t ldc,
                                                         const char *next) {
  static const u16u none[TNI_NR] = {0};
  columns acc[8], o;
  memset(acc, 0, sizeof acc);
#pragma GCC unroll 1
  for (int64_t k = 0; k < n; k += 2, p += 8) {
    const columns x = zip_columns(b + k * ldb, k + 1 < n ? b + (k + 1) * ldb : none);
    fetch(next, k / 2);
    for (int i = 0; i < rows; i++) acc[i] = add_pairs(p[i], x, acc[i]);
  }
  for (int i = 0; i < rows; i++) {
    memcpy(&o, c + i * ldc, sizeof o);
    o = faded_columns(o, decay[i], acc[i]);
    memcpy(c + i * ldc, &o, sizeof o);
  }
}

/* Without wide registers four rows at a time: for more, b is read twice, from the nearest cache. */
void TNI_HOT_OWN(values8_b16)(int rows, int64_t n, const float *p, const void *b, int64_t ldb, const float *decay,
                              float *c, int64_t ldc, const void *next) {
#ifdef __AVX512F__
  if (rows > 4) {
    values(8, n, p, b, ldb, decay, c, ldc, next);
    return;
  }
#endif
  for (int h = 0; h < rows; h += 4) values(4, n, p + h, b, ldb, decay + h, c + h * ldc, ldc, h ? NULL : next);
}

#endif

/* --- into bfloat16 --- */

#ifndef __ARM_FEATURE_BF16_VECTOR_ARITHMETIC

#ifdef TNI_HOT_NEON
/* tni_f32_to_brain in the upper half of each lane. */
static inline uint32x4_t brains_above(vr x) {
  const uint32x4_t u = vreinterpretq_u32_f32(x), up = vaddq_u32(u, vdupq_n_u32(0x7fff));
  return vbslq_u32(vceqq_f32(x, x), vsraq_n_u32(up, vshlq_n_u32(u, 15), 31), vorrq_u32(u, vdupq_n_u32(0x400000)));
}
#endif

void TNI_HOT_OWN(to_b16)(void *dst, const void *src, int64_t n) {
  const f32u *x = src;
  u16u *to = dst;
  int64_t i = 0;
#ifdef TNI_HOT_NEON
  for (; i + 8 <= n; i += 8) {
    const uint32x4_t low = brains_above(loadr(x + i)), high = brains_above(loadr(x + i + 4));
    vst1q_u8((uint8_t *)(to + i), vreinterpretq_u8_u16(vshrn_high_n_u32(vshrn_n_u32(low, 16), high, 16)));
  }
#else
  for (; i + 16 <= n; i += 16) {
#ifdef __AVX512BF16__
    const __m256bh half = _mm512_cvtneps_pbh(_mm512_loadu_ps(x + i));
    memcpy(to + i, &half, sizeof half);
#else
    float from[16];
    uint16_t half[16];
    memcpy(from, x + i, sizeof from);
    for (int k = 0; k < 16; k++) half[k] = tni_f32_to_brain(from[k]);
    memcpy(to + i, half, sizeof half);
#endif
  }
#endif
  for (; i < n; i++) to[i] = tni_f32_to_brain(x[i]);
}

void TNI_HOT_OWN(words8_b16)(float *p, int64_t n) {
  for (int64_t j = 0; j < n; j += 2) {
#ifdef TNI_HOT_NEON
    const f32u *from = p + j * 8;
    uint32x4_t words[2];
    for (int i = 0; i < 2; i++)
      words[i] = vsriq_n_u32(brains_above(loadr(from + 8 + 4 * i)), brains_above(loadr(from + 4 * i)), 16);
#else
    uint16_t half[16];
    uint32_t words[8];
    TNI_HOT_OWN(to_b16)(half, p + j * 8, 16);
    for (int i = 0; i < 8; i++) words[i] = half[i] | (uint32_t)half[8 + i] << 16;
#endif
    memcpy(p + j / 2 * 8, words, sizeof words);
  }
}

#endif

void TNI_HOT_OWN(zip_b16)(void *restrict dst, const void *low, const void *high, int64_t n) {
  const u16u *l = low, *h = high;
  u32u *to = dst;
  for (int64_t i = 0; i < n; i++) to[i] = l[i] | (uint32_t)h[i] << 16;
}
