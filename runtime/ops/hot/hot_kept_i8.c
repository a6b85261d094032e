/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention over int8 (kept.h), compiled once for SDOT and once for SMMLA. Sums of at most 256 products of codes, and
 * of 64 in values, are below 2^22: they begin at 1.5 * 2^23 as a float's bits, and a subtraction makes floats of them.
 */
#include "runtime/ops/hot/hot_lanes.h"
#include "runtime/ops/hot/kept.h"

#if defined(TNI_HOT_NEON) && defined(__ARM_FEATURE_DOTPROD)

typedef int8_t i8u __attribute__((aligned(1), may_alias));

enum { KEYS = 8, PAIRS = 4, STEP = 16 };
#define LEAST 0x1p-120f /* TNI_KV_TINY */

static inline int8x16_t load_codes(const i8u *p) { return vld1q_s8((const int8_t *)p); }
static inline int32x4_t begin_sum(void) { return vdupq_n_s32(0x4B400000); }
static inline float32x4_t whole_sum(int32x4_t s) { return vreinterpretq_f32_s32(s) - vdupq_n_f32(MAGIC); }
static inline float scale_behind(const i8u *codes, int64_t size) { return *(const f32u *)(const void *)(codes + size); }
static inline const i8u *row_or_last(const i8u *b, int64_t pitch, int64_t i, int64_t n) {
  return b + (i < n ? i : n - 1) * pitch;
}
static inline int8x16_t zip_two(const int high, int8x16_t x, int8x16_t y) {
  return high ? vzip2q_s8(x, y) : vzip1q_s8(x, y);
}
static inline int8x16_t zip_pairs(const int high, int8x16_t a, int8x16_t b) {
  const int16x8_t x = vreinterpretq_s16_s8(a), y = vreinterpretq_s16_s8(b);
  return vreinterpretq_s8_s16(high ? vzip2q_s16(x, y) : vzip1q_s16(x, y));
}
static inline void fade(float *to, float decay, float step, float32x4_t sum) {
  storer(to, vaddq_f32(vmulq_n_f32(load4(to), decay), vmulq_n_f32(sum, step)));
}

#ifdef __ARM_FEATURE_MATMUL_INT8

enum { LANE = 8 }; /* elements of a row that lie together */

static inline int8x16_t zip_fours(const int high, int8x16_t a, int8x16_t b) {
  const int32x4_t x = vreinterpretq_s32_s8(a), y = vreinterpretq_s32_s8(b);
  return vreinterpretq_s8_s32(high ? vzip2q_s32(x, y) : vzip1q_s32(x, y));
}
static inline int8x16_t zip_eights(const int high, int8x16_t a, int8x16_t b) {
  const int64x2_t x = vreinterpretq_s64_s8(a), y = vreinterpretq_s64_s8(b);
  return vreinterpretq_s8_s64(high ? vzip2q_s64(x, y) : vzip1q_s64(x, y));
}
/* Four elements of one row of two blocks of two by two. */
static inline float32x4_t row_of_blocks(const int second, int32x4_t a, int32x4_t b) {
  return whole_sum(vreinterpretq_s32_s8(zip_eights(second, vreinterpretq_s8_s32(a), vreinterpretq_s8_s32(b))));
}

/* Two elements of every pair of keys times those of the pairs of rows. */
/* By asm: gcc moves sums from register to register. */
#define TIMES_ROWS(keys, q)                                                                \
  for (int r = 0; r < pairs; r++) {                                                        \
    const int8x16_t row = load_codes((q) + STEP * r);                                      \
    for (int p = 0; p < PAIRS; p++)                                                        \
      __asm__("smmla %0.4s, %1.16b, %2.16b" : "+w"(acc[p][r]) : "w"((keys)[p]), "w"(row)); \
  }

static inline __attribute__((always_inline)) void eight_keys(const int pairs, const i8u *const *key, int64_t size,
                                                             const i8u *at, const float32x4_t *by, float *c,
                                                             const char *next, int64_t ask) {
  int32x4_t acc[PAIRS][PAIRS];
  for (int p = 0; p < PAIRS; p++)
    for (int r = 0; r < pairs; r++) acc[p][r] = begin_sum();
  for (int64_t k = 0; k < size; k += STEP, at += STEP * KEYS, ask += 2) {
    int8x16_t x[PAIRS], y[PAIRS];
    for (int p = 0; p < PAIRS; p++) {
      const int8x16_t one = load_codes(key[2 * p] + k), two = load_codes(key[2 * p + 1] + k);
      x[p] = zip_eights(0, one, two);
      y[p] = zip_eights(1, one, two);
    }
    fetch(next, ask);
    fetch(next, ask + 1);
    TIMES_ROWS(x, at)
    TIMES_ROWS(y, at + LANE * KEYS)
  }
  for (int p = 0; p < PAIRS; p++)
    for (int s = 0; s < 2; s++, c += 8) {
      const float scale = scale_behind(key[2 * p + s], size);
      for (int h = 0; h < 2; h++)
        storer(c + 4 * h,
               2 * h < pairs
                   ? vmulq_n_f32(row_of_blocks(s, acc[p][h * 2 % pairs], acc[p][h * 2 % pairs + 1]), scale) * by[h]
                   : vdupq_n_f32(0));
    }
}
#undef TIMES_ROWS

/* Columns 8e to 8e + 7 of eight keys: four registers of two columns. */
static inline __attribute__((always_inline)) void columns_of(const int e, const int8x16_t *x, int8x16_t *to) {
  const int8x16_t a = zip_two(e, x[0], x[1]), b = zip_two(e, x[2], x[3]);
  const int8x16_t c = zip_two(e, x[4], x[5]), d = zip_two(e, x[6], x[7]);
  for (int h = 0; h < 2; h++) {
    const int8x16_t low = zip_pairs(h, a, b), high = zip_pairs(h, c, d);
    to[2 * h] = zip_fours(0, low, high);
    to[2 * h + 1] = zip_fours(1, low, high);
  }
}

/* 2 * pairs rows, 8 * eights columns from the first on: sixteen sums. */
static inline __attribute__((always_inline)) void values_of(const int pairs, const int eights, const int first,
                                                            int64_t n, const i8u *p, const float *step, const i8u *b,
                                                            int64_t pitch, const float *decay, float *c, int64_t ldc,
                                                            const char *next) {
  int32x4_t acc[PAIRS][2 * PAIRS];
  for (int r = 0; r < pairs; r++)
    for (int i = 0; i < 4 * eights; i++) acc[r][i] = begin_sum();
  int64_t k = 0;
#define EIGHT_KEYS(j)                                                                             \
  {                                                                                               \
    int8x16_t x[KEYS];                                                                            \
    for (int i = 0; i < KEYS; i++) x[i] = load_codes(b + (j)*pitch);                              \
    for (int e = 0; e < eights; e++) {                                                            \
      int8x16_t v[4];                                                                             \
      columns_of(first + e, x, v);                                                                \
      for (int r = 0; r < pairs; r++) {                                                           \
        const int8x16_t row = load_codes(p + STEP * r);                                           \
        for (int i = 0; i < 4; i++) acc[r][4 * e + i] = vmmlaq_s32(acc[r][4 * e + i], row, v[i]); \
      }                                                                                           \
    }                                                                                             \
  }
  for (; k + KEYS <= n; k += KEYS, p += 8 * KEYS, b += KEYS * pitch) {
    fetch(next, k / 4);
    fetch(next, k / 4 + 1);
    EIGHT_KEYS(i)
  }
  if (k < n) EIGHT_KEYS(k + i < n ? i : n - 1 - k)
#undef EIGHT_KEYS
  c += 8 * first;
  for (int r = 0; r < 2 * pairs; r++)
    for (int i = 0; i < 4 * eights; i += 2)
      fade(c + r * ldc + 2 * i, decay[r], step[r], row_of_blocks(r % 2, acc[r / 2][i], acc[r / 2][i + 1]));
}

#define VALUES(rows, eights, first, next) \
  values_of((rows) / 2, eights, first, n, p, step, b, pitch, decay, c, ldc, next)

#else

enum { LANE = 4 };

/* By asm: gcc moves sums from register to register. */
#define SDOT(acc, row, key, lane) __asm__("sdot %0.4s, %1.16b, %2.4b[" #lane "]" : "+w"(acc) : "w"(row), "w"(key))
#define TIMES_KEY(j, lane)            \
  SDOT(acc[j][0], row[0], key, lane); \
  if (pairs > 2) SDOT(acc[j][1], row[1], key, lane);

static inline __attribute__((always_inline)) void eight_keys(const int pairs, const i8u *const *from, int64_t size,
                                                             const i8u *at, const float32x4_t *by, float *c,
                                                             const char *next, int64_t ask) {
  int32x4_t acc[KEYS][2];
  for (int j = 0; j < KEYS; j++)
    for (int h = 0; h < pairs / 2; h++) acc[j][h] = begin_sum();
  for (int64_t k = 0; k < size; k += STEP, at += STEP * KEYS, ask += 2) {
    int8x16_t keys[KEYS];
    for (int j = 0; j < KEYS; j++) keys[j] = load_codes(from[j] + k);
    fetch(next, ask);
    fetch(next, ask + 1);
#define LANES(lane)                                                                                               \
  {                                                                                                               \
    const int8x16_t row[2] = {load_codes(at + 32 * (lane)), pairs > 2 ? load_codes(at + 32 * (lane) + 16) : at0}; \
    for (int j = 0; j < KEYS; j++) {                                                                              \
      const int8x16_t key = keys[j];                                                                              \
      TIMES_KEY(j, lane)                                                                                          \
    }                                                                                                             \
  }
    const int8x16_t at0 = vdupq_n_s8(0);
    LANES(0)
    LANES(1)
    LANES(2)
    LANES(3)
#undef LANES
  }
  for (int j = 0; j < KEYS; j++, c += 8)
    for (int h = 0; h < 2; h++)
      storer(c + 4 * h,
             2 * h < pairs ? vmulq_n_f32(whole_sum(acc[j][h]), scale_behind(from[j], size)) * by[h] : vdupq_n_f32(0));
}
#undef TIMES_KEY

/* 4 * fours rows, 16 columns or eight of them from the first on: sixteen sums. */
static inline __attribute__((always_inline)) void values_of(const int fours, const int eights, const int first,
                                                            int64_t n, const i8u *p, const float *step, const i8u *b,
                                                            int64_t pitch, const float *decay, float *c, int64_t ldc,
                                                            const char *next) {
  int32x4_t acc[8][4];
  for (int r = 0; r < 4 * fours; r++)
    for (int i = 0; i < 2 * eights; i++) acc[r][i] = begin_sum();
  int64_t k = 0;
#define FOUR_KEYS(j)                                                                              \
  {                                                                                               \
    int8x16_t x[4];                                                                               \
    for (int i = 0; i < 4; i++) x[i] = load_codes(b + (j)*pitch);                                 \
    for (int e = 0; e < eights; e++) {                                                            \
      const int8x16_t one = zip_two(first + e, x[0], x[1]), two = zip_two(first + e, x[2], x[3]); \
      for (int i = 0; i < 2; i++) {                                                               \
        const int8x16_t v = zip_pairs(i, one, two);                                               \
        for (int f = 0; f < fours; f++) {                                                         \
          const int8x16_t rows = load_codes(p + 16 * f);                                          \
          int32x4_t(*to)[4] = acc + 4 * f;                                                        \
          const int at = 2 * e + i;                                                               \
          to[0][at] = vdotq_laneq_s32(to[0][at], v, rows, 0);                                     \
          to[1][at] = vdotq_laneq_s32(to[1][at], v, rows, 1);                                     \
          to[2][at] = vdotq_laneq_s32(to[2][at], v, rows, 2);                                     \
          to[3][at] = vdotq_laneq_s32(to[3][at], v, rows, 3);                                     \
        }                                                                                         \
      }                                                                                           \
    }                                                                                             \
  }
  for (; k + 4 <= n; k += 4, p += 32, b += 4 * pitch) {
    fetch(next, k / 4);
    FOUR_KEYS(i)
  }
  if (k < n) FOUR_KEYS(k + i < n ? i : n - 1 - k)
#undef FOUR_KEYS
  c += 8 * first;
  for (int r = 0; r < 4 * fours; r++)
    for (int i = 0; i < 2 * eights; i++) fade(c + r * ldc + 4 * i, decay[r], step[r], whole_sum(acc[r][i]));
}

#define VALUES(rows, eights, first, next) \
  values_of((rows) / 4, eights, first, n, p, step, b, pitch, decay, c, ldc, next)

#endif

static void query(void *at, int64_t r, const float *x, int64_t size) {
  i8u *to = at;
  float32x4_t far[2] = {vdupq_n_f32(0), vdupq_n_f32(0)};
  for (int64_t i = 0; i < size; i += 8)
    for (int h = 0; h < 2; h++) far[h] = vmaxq_f32(far[h], vabsq_f32(load4(x + i + 4 * h)));
  const float most = vmaxvq_f32(vmaxq_f32(far[0], far[1])); /* a NaN where there is one */
  const bool bad = !(most < INFINITY), some = most >= LEAST && !bad;
  const float by = some ? 127 / most : 0;
  for (int64_t i = 0; i < size && some; i += 8) {
    const int32x4_t low = vcvtnq_s32_f32(load4(x + i) * by), high = vcvtnq_s32_f32(load4(x + i + 4) * by);
    const int8x8_t codes = vmovn_s16(vmovn_high_s32(vmovn_s32(low), high));
    for (int h = 0; h < 8 / LANE; h++)
      memcpy(to + ((i / LANE + h) * 8 + r) * LANE, (const int8_t *)&codes + h * LANE, LANE);
  }
  *(f32u *)(void *)(to + 8 * size + r * 4) = bad ? NAN : some ? most / 127 : 0;
}

static void TNI_HOT_OWN(scores)(int rows, int64_t n, int64_t size, const void *atv, const void *bv, int64_t pitch,
                                float *c, const void *next) {
  const i8u *at = atv, *b = bv, *key[KEYS];
  const f32u *scale = (const f32u *)(const void *)(at + 8 * size);
  const float32x4_t by[2] = {load4(scale), load4(scale + 4)};
  for (int64_t j = 0; j < n; j += KEYS, c += 8 * KEYS) {
    for (int64_t i = 0; i < KEYS; i++) key[i] = row_or_last(b, pitch, j + i, n);
    if (rows <= 4)
      eight_keys(2, key, size, at, by, c, next, j * pitch / 64);
    else
      eight_keys(4, key, size, at, by, c, next, j * pitch / 64);
  }
}

/* Codes of four keys' probabilities, by row. */
static inline int8x16_t codes_of(const float32x4_t *w, float32x4_t by) {
  static const uint8_t order[16] = {0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15};
  int16x8_t t[4];
  for (int i = 0; i < 4; i++) t[i] = vreinterpretq_s16_f32(w[i] * by + vdupq_n_f32(MAGIC));
  const int8x16_t x = vreinterpretq_s8_s16(vuzp1q_s16(t[0], t[1])), y = vreinterpretq_s8_s16(vuzp1q_s16(t[2], t[3]));
  return vqtbl1q_s8(vuzp1q_s8(x, y), vld1q_u8(order));
}

static void probs8(float *p, int64_t n, const void *bv, int64_t pitch, int64_t size, float *step) {
  const i8u *b = bv;
  i8u *to = (i8u *)(void *)p;
  const float32x4_t zero = vdupq_n_f32(0), most = vdupq_n_f32(127);
  float32x4_t top[2] = {zero, zero}, by[2];
  for (int64_t j = 0; j < n; j++)
    for (int h = 0; h < 2; h++) {
      const float32x4_t w = vmulq_n_f32(load4(p + 8 * j + 4 * h), scale_behind(b + j * pitch, size));
      top[h] = vmaxq_f32(top[h], w); /* NaN, if there is one */
      storer(p + 8 * j + 4 * h, w);
    }
  for (int h = 0; h < 2; h++) {
    const uint32x4_t less = vcltq_f32(top[h], vdupq_n_f32(LEAST));
    by[h] = vbslq_f32(less, zero, vdivq_f32(most, top[h]));
    storer(step + 4 * h, vbslq_f32(less, zero, vdivq_f32(top[h], most)));
  }
  for (int64_t j = 0; j < n; j += KEYS) {
    int8x16_t codes[2][2];
    for (int h = 0; h < 2; h++)
      for (int f = 0; f < 2; f++) {
        float32x4_t w[4];
        for (int i = 0; i < 4; i++) w[i] = j + 4 * f + i < n ? load4(p + 8 * (j + 4 * f + i) + 4 * h) : zero;
        codes[f][h] = codes_of(w, by[h]);
      }
    for (int i = 0; i < 4; i++, to += 16) { /* below what is still to be read */
#ifdef __ARM_FEATURE_MATMUL_INT8
      vst1q_s8((int8_t *)to, zip_fours(i % 2, codes[0][i / 2], codes[1][i / 2]));
#else
      vst1q_s8((int8_t *)to, codes[i / 2][i % 2]);
#endif
    }
  }
}

static void TNI_HOT_OWN(values)(int rows, int64_t n, const float *pv, const float *step, const void *bv, int64_t pitch,
                                const float *decay, float *c, int64_t ldc, const void *next) {
  const i8u *p = (const i8u *)(const void *)pv, *b = bv;
  if (rows <= 4) {
    VALUES(4, 2, 0, next);
    return;
  }
  VALUES(8, 1, 0, next);
  VALUES(8, 1, 1, NULL);
}

extern const tni_kept TNI_HOT_NAME;
const tni_kept TNI_HOT_NAME = {.name = TNI_HOT_TEXT,
                               .kind = TNI_KEPT_I8,
                               .query = query,
                               .dots8 = TNI_HOT_OWN(scores),
                               .probs8 = probs8,
                               .values8 = TNI_HOT_OWN(values)};

#endif
