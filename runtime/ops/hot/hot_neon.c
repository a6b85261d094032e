/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention over few rows in registers of four lanes, for aarch64, in place of the loops of hot_attention.c and
 * hot_b16.c: gcc keeps vectors of eight lanes in memory where registers have four. Same sums, same bits.
 */
#include "runtime/ops/hot/hot_lanes.h"

#if defined(TNI_HOT_NEON)

typedef uint16_t u16u __attribute__((aligned(1), may_alias));

/* acc[i] += v[i] * lane of s, for registers i < n. */
#define BY_LANE(acc, n, v, s, lane) \
  for (int i = 0; i < (n); i++) (acc)[i] = vfmaq_laneq_f32((acc)[i], (v)[i], s, lane);

/* --- scores of floats: even and odd elements of two rows in a register --- */

enum { KEYS_8 = 6, KEYS_4 = 8 };

/* Elements k and k + 1, or the last one, of a key. */
static inline float32x4_t two_elements(const f32u *p) {
  return vreinterpretq_f32_f64(vdupq_n_f64(*(const f64u *)(const void *)p));
}
static inline float32x4_t last_element(const f32u *p) { return (float32x4_t){*p, 0, *p, 0}; }

#define PAIR(keys, registers, KEY)                                                        \
  {                                                                                       \
    float32x4_t a[4];                                                                     \
    for (int i = 0; i < (registers); i++) a[i] = load4(at + k * 2 * (registers) + 4 * i); \
    for (int j = 0; j < (keys); j++) {                                                    \
      const float32x4_t x = KEY(r[j] + k);                                                \
      for (int i = 0; i < (registers); i++) acc[j][i] = vfmaq_f32(acc[j][i], a[i], x);    \
    }                                                                                     \
  }

static inline __attribute__((always_inline)) void score_keys(const int keys, const int registers, const f32u *const *r,
                                                             int64_t kc, const float *at, float *c, const char *next,
                                                             int64_t ask) {
  float32x4_t acc[KEYS_4][4];
  for (int j = 0; j < keys; j++)
    for (int i = 0; i < registers; i++) acc[j][i] = vdupq_n_f32(0);
  int64_t k = 0;
  for (; k + 2 <= kc; k += 2, ask++) {
    if (keys == KEYS_4 || k % 8 != 6) fetch(next, ask - (keys == KEYS_4 ? 0 : k / 8)); /* as many lines as keys have */
    PAIR(keys, registers, two_elements)
  }
  if (k < kc) PAIR(keys, registers, last_element)
  for (int j = 0; j < keys; j++) {
    if (registers == 4) { /* rows 0 and 1, 4 and 5, 2 and 3, 6 and 7: tni_dots8_at */
      vst1q_f32(c + j * 8, vpaddq_f32(acc[j][0], acc[j][2]));
      vst1q_f32(c + j * 8 + 4, vpaddq_f32(acc[j][1], acc[j][3]));
    } else {
      vst1q_f32(c + j * 8, vpaddq_f32(acc[j][0], acc[j][1]));
      vst1q_f32(c + j * 8 + 4, vdupq_n_f32(0));
    }
  }
}
#undef PAIR

/* Keys past the last repeat it. */
void TNI_HOT_OWN(dots8)(int rows, int64_t n, int64_t kc, const float *at, const void *bv, int64_t ldb, float *c,
                        const void *next) {
  const f32u *b = bv, *r[KEYS_4];
  const int keys = rows <= 4 ? KEYS_4 : KEYS_8;
  for (int64_t j = 0; j < n; j += keys) {
    for (int64_t i = 0; i < keys; i++) r[i] = b + (j + i < n ? j + i : n - 1) * ldb;
    if (rows <= 4)
      score_keys(KEYS_4, 2, r, kc, at, c + j * 8, next, j * kc / 16);
    else
      score_keys(KEYS_8, 4, r, kc, at, c + j * 8, next, j * kc / 16);
  }
}

/* --- values of floats: four rows of sixteen columns --- */

static inline void fade_add(float *to, float decay, const float32x4_t *sum) {
  for (int i = 0; i < 4; i++) vst1q_f32(to + 4 * i, vaddq_f32(vmulq_n_f32(load4(to + 4 * i), decay), sum[i]));
}

void TNI_HOT_OWN(values8)(int rows, int64_t n, const float *p, const void *bv, int64_t ldb, const float *decay,
                          float *c, int64_t ldc, const void *next) {
  for (int h = 0; h < rows; h += 4, p += 4) {
    float32x4_t acc[4][4];
    const f32u *b = bv;
    for (int m = 0; m < 4; m++)
      for (int i = 0; i < 4; i++) acc[m][i] = vdupq_n_f32(0);
    for (int64_t k = 0; k < n; k++, b += ldb) {
      const float32x4_t s = load4(p + k * 8);
      float32x4_t v[4];
      for (int i = 0; i < 4; i++) v[i] = load4(b + 4 * i);
      if (!h) fetch(next, k);
      BY_LANE(acc[0], 4, v, s, 0)
      BY_LANE(acc[1], 4, v, s, 1)
      BY_LANE(acc[2], 4, v, s, 2)
      BY_LANE(acc[3], 4, v, s, 3)
    }
    for (int m = 0; m < 4; m++) fade_add(c + (h + m) * ldc, decay[h + m], acc[m]);
  }
}

#ifndef __ARM_FEATURE_BF16_VECTOR_ARITHMETIC

/* --- words of two bfloat16: each half is a float once the other one is off --- */

static inline float32x4_t high4(float32x4_t v) {
  return vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(v), vdupq_n_u32(0xffff0000u)));
}
static inline float32x4_t low4(float32x4_t v) {
  return vreinterpretq_f32_u32(vshlq_n_u32(vreinterpretq_u32_f32(v), 16));
}

enum { ROWS = 6, WORDS = 4 }; /* of the tile, and keys at once; a register of them */

/* Two registers of words, the high and the low halves of each. */
typedef struct halves {
  float32x4_t high[2], low[2];
} halves;
static inline halves halves_of(const f32u *p) {
  const float32x4_t x = load4(p), y = load4(p + 4);
  return (halves){{high4(x), high4(y)}, {low4(x), low4(y)}};
}

#define WORD(acc, v, high, low, lane)     \
  {                                       \
    BY_LANE(acc, 2, (v).high, high, lane) \
    BY_LANE(acc, 2, (v).low, low, lane)   \
  }

/* acc[rows] += rows of words s times eight columns of words v, which lie ldv apart. */
static inline __attribute__((always_inline)) void add_words(const int rows, float32x4_t (*acc)[2], const f32u *const *s,
                                                            int64_t kc, const f32u *v, int64_t ldv) {
  int64_t k = 0;
  for (; k + WORDS <= kc; k += WORDS, v += WORDS * ldv) {
    const halves v0 = halves_of(v), v1 = halves_of(v + ldv), v2 = halves_of(v + 2 * ldv), v3 = halves_of(v + 3 * ldv);
#pragma GCC unroll 6
    for (int m = 0; m < rows; m++) {
      const float32x4_t w = load4(s[m] + k), high = high4(w), low = low4(w);
      WORD(acc[m], v0, high, low, 0)
      WORD(acc[m], v1, high, low, 1)
      WORD(acc[m], v2, high, low, 2)
      WORD(acc[m], v3, high, low, 3)
      __asm__("" ::: "memory"); /* row by row, or registers run out */
    }
  }
  for (; k < kc; k++, v += ldv) {
    const halves v0 = halves_of(v);
#pragma GCC unroll 6
    for (int m = 0; m < rows; m++) {
      const float32x4_t w = vdupq_n_f32(s[m][k]), high = high4(w), low = low4(w);
      WORD(acc[m], v0, high, low, 0)
    }
  }
}

/* Rows past the last repeat it. */
void TNI_HOT_OWN(gemm_b16)(int mr, int64_t kc, const void *av, int64_t lda, const void *bv, int64_t ldb, float *c,
                           int64_t ldc, int first) {
  const f32u *a = av, *b = bv, *s[ROWS];
  for (; mr > 0; mr -= ROWS, a += ROWS * lda, c += ROWS * ldc) {
    const int rows = mr < ROWS ? mr : ROWS;
    for (int m = 0; m < ROWS; m++) s[m] = a + (m < rows ? m : rows - 1) * lda;
    for (int half = 0; half < TNI_NR; half += 8) {
      float32x4_t acc[ROWS][2];
      for (int m = 0; m < ROWS; m++) acc[m][0] = acc[m][1] = vdupq_n_f32(0);
      if (rows <= 2)
        add_words(2, acc, s, kc, b + half, ldb);
      else if (rows <= 4)
        add_words(4, acc, s, kc, b + half, ldb);
      else
        add_words(ROWS, acc, s, kc, b + half, ldb);
      for (int m = 0; m < rows; m++)
        for (int i = 0; i < 2; i++) {
          float *to = c + m * ldc + half + 4 * i;
          vst1q_f32(to, first ? acc[m][i] : vaddq_f32(load4(to), acc[m][i]));
        }
    }
  }
}

void TNI_HOT_OWN(gemm2_b16)(int mr, int64_t kc, const void *a, int64_t lda, const void *b, int64_t ldb, int64_t step,
                            float *c, int64_t ldc, int first) {
  TNI_HOT_OWN(gemm_b16)(mr, kc, a, lda, b, ldb, c, ldc, first);
  TNI_HOT_OWN(gemm_b16)(mr, kc, a, lda, (const f32u *)b + step, ldb, c + TNI_NR, ldc, first);
}

void TNI_HOT_OWN(dots8_b16)(int64_t n, int64_t kc, const void *at, const void *bv, int64_t ldb, float *c,
                            const void *next) {
  const f32u *b = bv, *key[ROWS];
  for (int64_t j = 0; j < n; j += ROWS) {
    float32x4_t acc[ROWS][2];
    for (int64_t i = 0; i < ROWS; i++) {
      key[i] = b + (j + i < n ? j + i : n - 1) * ldb;
      acc[i][0] = acc[i][1] = vdupq_n_f32(0);
    }
    for (int64_t i = 0; next && i < ROWS * kc / 16; i++) fetch(next, j * kc / 16 + i);
    add_words(ROWS, acc, key, kc, at, 8);
    for (int i = 0; i < ROWS; i++) {
      vst1q_f32(c + (j + i) * 8, acc[i][0]);
      vst1q_f32(c + (j + i) * 8 + 4, acc[i][1]);
    }
  }
}

/* Sixteen columns of a row. */
static inline void columns_of(const u16u *p, float32x4_t *v) {
  for (int i = 0; i < 2; i++) {
    const uint16x8_t h = vreinterpretq_u16_u8(vld1q_u8((const uint8_t *)(p + 8 * i)));
    v[2 * i] = vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(h), 16));
    v[2 * i + 1] = vreinterpretq_f32_u32(vshll_high_n_u16(h, 16));
  }
}

void TNI_HOT_OWN(values8_b16)(int rows, int64_t n, const float *p, const void *bv, int64_t ldb, const float *decay,
                              float *c, int64_t ldc, const void *next) {
  static const u16u none[TNI_NR] = {0};
  for (int h = 0; h < rows; h += 4) {
    float32x4_t acc[4][4], v[4];
    const u16u *b = bv;
    for (int m = 0; m < 4; m++)
      for (int i = 0; i < 4; i++) acc[m][i] = vdupq_n_f32(0);
    for (int64_t k = 0; k < n; k += 2, b += 2 * ldb) {
      const float32x4_t s = load4(p + k * 4 + h), high = high4(s), low = low4(s);
      if (!h) fetch(next, k / 2);
      columns_of(k + 1 < n ? b + ldb : none, v);
      BY_LANE(acc[0], 4, v, high, 0)
      BY_LANE(acc[1], 4, v, high, 1)
      BY_LANE(acc[2], 4, v, high, 2)
      BY_LANE(acc[3], 4, v, high, 3)
      columns_of(b, v);
      BY_LANE(acc[0], 4, v, low, 0)
      BY_LANE(acc[1], 4, v, low, 1)
      BY_LANE(acc[2], 4, v, low, 2)
      BY_LANE(acc[3], 4, v, low, 3)
    }
    for (int m = 0; m < 4; m++) fade_add(c + (h + m) * ldc, decay[h + m], acc[m]);
  }
}

#endif
#endif
