/* SPDX-License-Identifier: Apache-2.0
 *
 * Products of bfloat16 by BFMMLA, for processors that have it: in place of those of hot_neon.c. One instruction
 * multiplies two rows of two words with two columns of two words; its sums are those of tni_hot.odd_b16.
 */
#include "runtime/ops/hot/hot_lanes.h"

#ifdef __ARM_FEATURE_BF16_VECTOR_ARITHMETIC

typedef uint16_t u16u __attribute__((aligned(1), may_alias));
typedef uint32_t u32u __attribute__((aligned(1), may_alias));

static inline uint32x4_t load_words(const u32u *p) { return vreinterpretq_u32_u8(vld1q_u8((const uint8_t *)p)); }
static inline uint32x4_t two_rows(const u32u *first, const u32u *second) {
  return vreinterpretq_u32_u8(vcombine_u8(vld1_u8((const uint8_t *)first), vld1_u8((const uint8_t *)second)));
}
/* The last word of two rows, and no word after it. */
static inline uint32x4_t last_of_rows(const u32u *first, const u32u *second) {
  return (uint32x4_t){*first, 0, *second, 0};
}
/* By asm: gcc moves sums from register to register. */
static inline float32x4_t add_products(float32x4_t c, uint32x4_t a, uint32x4_t b) {
  __asm__("bfmmla %0.4s, %1.8h, %2.8h" : "+w"(c) : "w"(a), "w"(b));
  return c;
}
/* Four elements of the first row, and of the second, of two blocks of two by two. */
static inline float32x4_t upper_row(float32x4_t x, float32x4_t y) {
  return vreinterpretq_f32_f64(vzip1q_f64(vreinterpretq_f64_f32(x), vreinterpretq_f64_f32(y)));
}
static inline float32x4_t lower_row(float32x4_t x, float32x4_t y) {
  return vreinterpretq_f32_f64(vzip2q_f64(vreinterpretq_f64_f32(x), vreinterpretq_f64_f32(y)));
}
static inline uint32x4_t upper_words(uint32x4_t x, uint32x4_t y) {
  return vreinterpretq_u32_u64(vzip1q_u64(vreinterpretq_u64_u32(x), vreinterpretq_u64_u32(y)));
}
static inline uint32x4_t lower_words(uint32x4_t x, uint32x4_t y) {
  return vreinterpretq_u32_u64(vzip2q_u64(vreinterpretq_u64_u32(x), vreinterpretq_u64_u32(y)));
}

/* --- the tile --- */

enum { TILE_ROWS = 6, PAIRS = TNI_NR / 2 };

/* Columns by two of words k and k + 1 (x, y) times the pairs of rows a. */
#define TIMES_COLUMNS(x, y, at)                                                                          \
  {                                                                                                      \
    const uint32x4_t b0 = vzip1q_u32(x, y), b1 = vzip2q_u32(x, y);                                       \
    for (int p = 0; p < pairs; p++) acc[p][at] = add_products(acc[p][at], rows[p], b0);                  \
    for (int p = 0; p < pairs; p++) acc[p][(at) + 1] = add_products(acc[p][(at) + 1], rows[p], b1);      \
    __asm__("" ::: "memory"); /* the next columns are loaded after these: there are no more registers */ \
  }

static inline void put4(float *to, float32x4_t v, int first) { vst1q_f32(to, first ? v : vaddq_f32(vld1q_f32(to), v)); }

static inline __attribute__((always_inline)) void tile_of(const int pairs, int mr, int64_t kc, const u32u *a,
                                                          int64_t lda, const u32u *b, int64_t ldb, float *c,
                                                          int64_t ldc, int first) {
  float32x4_t acc[TILE_ROWS / 2][PAIRS];
  const u32u *r[TILE_ROWS];
  for (int i = 0; i < 2 * pairs; i++) r[i] = a + (i < mr ? i : mr - 1) * lda;
  for (int p = 0; p < pairs; p++)
    for (int i = 0; i < PAIRS; i++) acc[p][i] = vdupq_n_f32(0);
  int64_t k = 0;
  for (; k + 2 <= kc; k += 2, b += 2 * ldb) {
    uint32x4_t rows[TILE_ROWS / 2];
    for (int p = 0; p < pairs; p++) rows[p] = two_rows(r[2 * p] + k, r[2 * p + 1] + k);
    TIMES_COLUMNS(load_words(b), load_words(b + ldb), 0)
    TIMES_COLUMNS(load_words(b + 4), load_words(b + ldb + 4), 2)
    TIMES_COLUMNS(load_words(b + 8), load_words(b + ldb + 8), 4)
    TIMES_COLUMNS(load_words(b + 12), load_words(b + ldb + 12), 6)
  }
  if (k < kc) {
    const uint32x4_t none = vdupq_n_u32(0);
    uint32x4_t rows[TILE_ROWS / 2];
    for (int p = 0; p < pairs; p++) rows[p] = last_of_rows(r[2 * p] + k, r[2 * p + 1] + k);
    TIMES_COLUMNS(load_words(b), none, 0)
    TIMES_COLUMNS(load_words(b + 4), none, 2)
    TIMES_COLUMNS(load_words(b + 8), none, 4)
    TIMES_COLUMNS(load_words(b + 12), none, 6)
  }
  for (int p = 0; p < pairs; p++) {
    float *to = c + 2 * p * ldc;
    for (int i = 0; i < PAIRS; i += 2) {
      put4(to + 2 * i, upper_row(acc[p][i], acc[p][i + 1]), first);
      if (2 * p + 1 < mr) put4(to + ldc + 2 * i, lower_row(acc[p][i], acc[p][i + 1]), first);
    }
  }
}
#undef TIMES_COLUMNS

void TNI_HOT_OWN(gemm_b16)(int mr, int64_t kc, const void *av, int64_t lda, const void *b, int64_t ldb, float *c,
                           int64_t ldc, int first) {
  const u32u *a = av;
  for (; mr > 4; mr -= TILE_ROWS, a += TILE_ROWS * lda, c += TILE_ROWS * ldc)
    tile_of(3, mr < TILE_ROWS ? mr : TILE_ROWS, kc, a, lda, b, ldb, c, ldc, first);
  if (mr > 2)
    tile_of(2, mr, kc, a, lda, b, ldb, c, ldc, first);
  else if (mr > 0)
    tile_of(1, mr, kc, a, lda, b, ldb, c, ldc, first);
}

void TNI_HOT_OWN(gemm2_b16)(int mr, int64_t kc, const void *a, int64_t lda, const void *b, int64_t ldb, int64_t step,
                            float *c, int64_t ldc, int first) {
  TNI_HOT_OWN(gemm_b16)(mr, kc, a, lda, b, ldb, c, ldc, first);
  TNI_HOT_OWN(gemm_b16)(mr, kc, a, lda, (const u32u *)b + step, ldb, c + TNI_NR, ldc, first);
}

/* --- few rows --- */

enum { KEYS = 8, FOURS = 4 }; /* keys at once; pairs of them, and of rows */

/* Two words of every pair of keys times those of the eight rows, which lie as tni_words8_at has them. */
#define TIMES_ROWS(KEY, q)                                                            \
  for (int r = 0; r < FOURS; r++) {                                                   \
    const uint32x4_t row = load_words((q) + 4 * r);                                   \
    for (int p = 0; p < FOURS; p++) acc[p][r] = add_products(acc[p][r], KEY(p), row); \
  }

static inline __attribute__((always_inline)) void eight_keys(const u32u *const *key, int64_t kc, const u32u *at,
                                                             float *c, const char *next, int64_t ask) {
  float32x4_t acc[FOURS][FOURS];
  for (int p = 0; p < FOURS; p++)
    for (int r = 0; r < FOURS; r++) acc[p][r] = vdupq_n_f32(0);
  int64_t k = 0;
  for (; k + 4 <= kc; k += 4, at += 32, ask += 2) {
    uint32x4_t x[FOURS], y[FOURS];
    for (int p = 0; p < FOURS; p++) {
      const uint32x4_t one = load_words(key[2 * p] + k), two = load_words(key[2 * p + 1] + k);
      x[p] = upper_words(one, two);
      y[p] = lower_words(one, two);
    }
    fetch(next, ask);
    fetch(next, ask + 1);
#define KEY(p) x[p]
    TIMES_ROWS(KEY, at)
#undef KEY
#define KEY(p) y[p]
    TIMES_ROWS(KEY, at + 16)
#undef KEY
  }
#define KEY(p) two_rows(key[2 * (p)] + k, key[2 * (p) + 1] + k)
  for (; k + 2 <= kc; k += 2, at += 16) TIMES_ROWS(KEY, at)
#undef KEY
#define KEY(p) last_of_rows(key[2 * (p)] + k, key[2 * (p) + 1] + k)
  if (k < kc) TIMES_ROWS(KEY, at)
#undef KEY
  for (int p = 0; p < FOURS; p++, c += 16)
    for (int i = 0; i < FOURS; i += 2) {
      vst1q_f32(c + 2 * i, upper_row(acc[p][i], acc[p][i + 1]));
      vst1q_f32(c + 8 + 2 * i, lower_row(acc[p][i], acc[p][i + 1]));
    }
}
#undef TIMES_ROWS

/* Keys past the last repeat it. */
void TNI_HOT_OWN(dots8_b16)(int64_t n, int64_t kc, const void *at, const void *bv, int64_t ldb, float *c,
                            const void *next) {
  const u32u *b = bv;
  for (int64_t j = 0; j < n; j += KEYS) {
    const u32u *key[KEYS];
    for (int64_t i = 0; i < KEYS; i++) key[i] = b + (j + i < n ? j + i : n - 1) * ldb;
    eight_keys(key, kc, at, c + j * 8, next, j * kc / 16);
  }
}

/* Columns by two of four keys, times the pairs of rows. */
#define TIMES_KEYS(x, y, at)                                                                       \
  {                                                                                                \
    const uint32x4_t t = vreinterpretq_u32_u16(x), u = vreinterpretq_u32_u16(y);                   \
    const uint32x4_t v0 = vzip1q_u32(t, u), v1 = vzip2q_u32(t, u);                                 \
    for (int r = 0; r < pairs; r++) acc[r][at] = add_products(acc[r][at], row[r], v0);             \
    for (int r = 0; r < pairs; r++) acc[r][(at) + 1] = add_products(acc[r][(at) + 1], row[r], v1); \
  }
static inline uint16x8_t load_halves(const u16u *p) { return vreinterpretq_u16_u8(vld1q_u8((const uint8_t *)p)); }
#define FOUR_KEYS(b1, b2, b3)                                                                                     \
  {                                                                                                               \
    const u16u *one = b1, *two = b2, *three = b3;                                                                 \
    uint32x4_t row[FOURS];                                                                                        \
    for (int r = 0; r < pairs; r++) row[r] = load_words(p + 4 * r);                                               \
    _Pragma("GCC unroll 2") for (int e = 0; e < eights; e++) {                                                    \
      const uint16x8_t x0 = load_halves(b + 8 * e), x1 = load_halves(one + 8 * e), x2 = load_halves(two + 8 * e); \
      const uint16x8_t x3 = load_halves(three + 8 * e);                                                           \
      TIMES_KEYS(vzip1q_u16(x0, x1), vzip1q_u16(x2, x3), 4 * e)                                                   \
      TIMES_KEYS(vzip2q_u16(x0, x1), vzip2q_u16(x2, x3), 4 * e + 2)                                               \
    }                                                                                                             \
  }

/* 2 * pairs rows, 8 * eights columns: sixteen accumulators. */
static inline __attribute__((always_inline)) void values_of(const int pairs, const int eights, int64_t n, const u32u *p,
                                                            const u16u *b, int64_t ldb, const float *decay, float *c,
                                                            int64_t ldc, const char *next) {
  static const u16u none[TNI_NR] = {0};
  float32x4_t acc[FOURS][PAIRS];
#pragma GCC unroll 4
  for (int r = 0; r < pairs; r++)
#pragma GCC unroll 8
    for (int i = 0; i < FOURS * eights; i++) acc[r][i] = vdupq_n_f32(0);
  int64_t k = 0;
  for (; k + 4 <= n; k += 4, p += 16, b += 4 * ldb) {
    fetch(next, k / 2);
    fetch(next, k / 2 + 1);
    FOUR_KEYS(b + ldb, b + 2 * ldb, b + 3 * ldb)
  }
  if (k < n) FOUR_KEYS(k + 1 < n ? b + ldb : none, k + 2 < n ? b + 2 * ldb : none, none)
#pragma GCC unroll 4
  for (int r = 0; r < pairs; r++)
#pragma GCC unroll 4
    for (int i = 0; i < FOURS * eights; i += 2) {
      float *to = c + 2 * r * ldc + 2 * i, *under = to + ldc;
      vst1q_f32(to, vaddq_f32(vmulq_n_f32(vld1q_f32(to), decay[2 * r]), upper_row(acc[r][i], acc[r][i + 1])));
      vst1q_f32(under, vaddq_f32(vmulq_n_f32(vld1q_f32(under), decay[2 * r + 1]), lower_row(acc[r][i], acc[r][i + 1])));
    }
}
#undef FOUR_KEYS
#undef TIMES_KEYS

void TNI_HOT_OWN(values8_b16)(int rows, int64_t n, const float *pv, const void *bv, int64_t ldb, const float *decay,
                              float *c, int64_t ldc, const void *next) {
  const u32u *p = (const u32u *)(const void *)pv;
  const u16u *b = bv;
  if (rows <= 4) {
    values_of(2, 2, n, p, b, ldb, decay, c, ldc, next);
    return;
  }
  values_of(4, 1, n, p, b, ldb, decay, c, ldc, next);
  values_of(4, 1, n, p, b + 8, ldb, decay, c + 8, ldc, NULL);
}

/* --- into bfloat16 --- */

/* Words of two keys by row; keys lie one after the other. */
static inline void words_of_keys(const f32u *p, uint32x4_t *low, uint32x4_t *high) {
  uint16x8_t half[2];
  TNI_HOT_OWN(to_b16)(half, p, 16);
  *low = vreinterpretq_u32_u16(vzip1q_u16(half[0], half[1]));
  *high = vreinterpretq_u32_u16(vzip2q_u16(half[0], half[1]));
}

/* Two words of a row side by side, as BFMMLA takes them: the second ones are 0 where their number is odd. */
void TNI_HOT_OWN(words8_b16)(float *p, int64_t n) {
  for (int64_t j = 0; j < n; j += 4) {
    uint32x4_t now[2], then[2] = {vdupq_n_u32(0), vdupq_n_u32(0)};
    words_of_keys(p + j * 8, &now[0], &now[1]);
    if (j + 2 < n) words_of_keys(p + j * 8 + 16, &then[0], &then[1]);
    for (int h = 0; h < 2; h++) {
      const uint32x4_t words[2] = {vzip1q_u32(now[h], then[h]), vzip2q_u32(now[h], then[h])};
      memcpy(p + j * 4 + 8 * h, words, sizeof words);
    }
  }
}

void TNI_HOT_OWN(to_b16)(void *dst, const void *src, int64_t n) {
  const f32u *x = src;
  u16u *to = dst;
  int64_t i = 0;
  for (; i + 8 <= n; i += 8) {
    const float32x4_t low = vreinterpretq_f32_u32(load_words((const u32u *)(const void *)(x + i)));
    const float32x4_t high = vreinterpretq_f32_u32(load_words((const u32u *)(const void *)(x + i + 4)));
    const bfloat16x8_t half = vcvtq_high_bf16_f32(vcvtq_low_bf16_f32(low), high);
    memcpy(to + i, &half, sizeof half);
  }
  for (; i < n; i++) to[i] = tni_f32_to_brain(x[i]);
}

#endif
