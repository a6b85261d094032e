/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention over halves (kept.h), compiled once for products of halves (fp16) and once where there is FMLAL too, which
 * adds them to floats.
 */
#include "runtime/ops/hot/hot_lanes.h"
#include "runtime/ops/hot/kept.h"

#if defined(TNI_HOT_NEON) && defined(__ARM_FEATURE_FP16_VECTOR_ARITHMETIC)

typedef uint16_t u16u __attribute__((aligned(1), may_alias));

enum { KEYS = 4, ROWS = 4, AT_ONCE = 32 };
#define LEAST 0x1p-100f
#define MOST 0x1p100f

static inline float16x8_t load_halves(const u16u *p) { return vreinterpretq_f16_u8(vld1q_u8((const uint8_t *)p)); }

/* c + the lower four, or the upper four, * by, a power of two. */
#ifdef __ARM_FEATURE_FP16_FML
static inline float32x4_t add_low(float32x4_t c, float16x8_t x, float by) {
  return vfmlalq_low_f16(c, x, vdupq_n_f16((float16_t)by));
}
static inline float32x4_t add_high(float32x4_t c, float16x8_t x, float by) {
  return vfmlalq_high_f16(c, x, vdupq_n_f16((float16_t)by));
}
#else
static inline float32x4_t add_low(float32x4_t c, float16x8_t x, float by) {
  return vfmaq_n_f32(c, vcvt_f32_f16(vget_low_f16(x)), by);
}
static inline float32x4_t add_high(float32x4_t c, float16x8_t x, float by) {
  return vfmaq_n_f32(c, vcvt_high_f32_f16(x), by);
}
#endif

/* The power of two that x < 2^100 becomes at least 1/2 and less than 1 by. */
static float power_over(float most) { return tni_bits_f32((uint32_t)(253 - (int)(tni_f32_bits(most) >> 23)) << 23); }

static void query(void *at, int64_t r, const float *x, int64_t size) {
  u16u *to = at;
  float by = 1, room = 1;
  float32x4_t far[2] = {vdupq_n_f32(0), vdupq_n_f32(0)};
  for (int64_t i = 0; i < size; i += 8)
    for (int h = 0; h < 2; h++) far[h] = vmaxq_f32(far[h], vabsq_f32(load4(x + i + 4 * h)));
  const float most = vmaxvq_f32(vmaxq_f32(far[0], far[1])); /* a NaN where there is one */
  const bool bad = !(most < MOST);
  while (room * (float)size > 2) room /= 2;
  if (most >= LEAST && !bad) by = power_over(most) * room;
  for (int64_t i = 0; i < size; i += 8) {
    const float16x8_t half = vcvt_high_f16_f32(vcvt_f16_f32(load4(x + i) * by), load4(x + i + 4) * by);
    vst1q_u8((uint8_t *)(to + i * 8 + r * 8), vreinterpretq_u8_f16(half));
  }
  ((f32u *)(void *)(to + 8 * size))[r] = bad ? NAN : most >= LEAST ? 1 / by : 0;
}

/* Four rows and four keys: sixteen registers of sums. */
static inline __attribute__((always_inline)) void four_keys(const u16u *const *key, int64_t size, const u16u *at,
                                                            float32x4_t by, float *c, const char *next, int64_t ask) {
  float16x8_t acc[KEYS][ROWS];
  for (int j = 0; j < KEYS; j++)
    for (int r = 0; r < ROWS; r++) acc[j][r] = vdupq_n_f16(0);
  for (int64_t k = 0; k < size; k += 8, at += 64, ask++) {
    float16x8_t x[KEYS];
    for (int j = 0; j < KEYS; j++) x[j] = load_halves(key[j] + k);
    fetch(next, ask);
    for (int r = 0; r < ROWS; r++) {
      const float16x8_t row = load_halves(at + 8 * r);
      for (int j = 0; j < KEYS; j++) acc[j][r] = vfmaq_f16(acc[j][r], x[j], row);
    }
  }
  for (int j = 0; j < KEYS; j++) {
    const float16x8_t one = vpaddq_f16(acc[j][0], acc[j][1]), two = vpaddq_f16(acc[j][2], acc[j][3]);
    const float16x8_t both = vpaddq_f16(one, two);
    const float32x4_t zero = vdupq_n_f32(0);
    storer(c + 8 * j, vpaddq_f32(add_low(zero, both, 1), add_high(zero, both, 1)) * by);
  }
}

static void TNI_HOT_OWN(scores)(int rows, int64_t n, int64_t size, const void *atv, const void *bv, int64_t pitch,
                                float *c, const void *nextv) {
  const u16u *at = atv;
  const char *b = bv, *next = nextv;
  const f32u *back = (const f32u *)(const void *)(at + 8 * size);
  for (int64_t j = 0; j < n; j += KEYS) {
    const u16u *key[KEYS];
    for (int64_t i = 0; i < KEYS; i++) key[i] = (const u16u *)(const void *)(b + (j + i < n ? j + i : n - 1) * pitch);
    four_keys(key, size, at, load4(back), c + 8 * j, next, j * pitch / 64);
    if (rows > 4)
      four_keys(key, size, at + 32, load4(back + 4), c + 8 * j + 4, NULL, 0);
    else
      for (int64_t i = 0; i < KEYS; i++) storer(c + 8 * (j + i) + 4, vdupq_n_f32(0));
  }
}

static void probs8(float *p, int64_t n, const void *b, int64_t pitch, int64_t size, float *step) {
  (void)b, (void)pitch, (void)size, (void)step;
  for (int64_t j = 0; j < n; j++) {
    const float32x4_t by = vdupq_n_f32(1.f / AT_ONCE), low = load4(p + 8 * j) * by, high = load4(p + 8 * j + 4) * by;
    vst1q_u8((uint8_t *)(p + 4 * j), vreinterpretq_u8_f16(vcvt_high_f16_f32(vcvt_f16_f32(low), high)));
  }
}

/* By asm: gcc copies a lane that is used twice into a register first. Lanes of halves are those of the lower sixteen.
 */
#define BY_LANE(acc, v, rows, lane) __asm__("fmla %0.8h, %1.8h, %2.h[" #lane "]" : "+w"(acc) : "w"(v), "x"(rows))
#define ROW(r)                       \
  BY_LANE(acc[r][0], v[0], rows, r); \
  BY_LANE(acc[r][1], v[1], rows, r);

static inline __attribute__((always_inline)) void values_of(const int count, int64_t n, const u16u *p, const char *b,
                                                            int64_t pitch, const float *decay, float *c, int64_t ldc,
                                                            const char *next) {
  for (int64_t from = 0; from < n; from += AT_ONCE) {
    const int64_t to = from + AT_ONCE < n ? from + AT_ONCE : n;
    float16x8_t acc[8][2];
    for (int r = 0; r < count; r++) acc[r][0] = acc[r][1] = vdupq_n_f16(0);
    for (int64_t k = from; k < to; k++) {
      const u16u *row = (const u16u *)(const void *)(b + k * pitch);
      const float16x8_t v[2] = {load_halves(row), load_halves(row + 8)}, rows = load_halves(p + 8 * k);
      if (k % 2 == 0) fetch(next, k / 2);
      ROW(0)
      ROW(1)
      ROW(2)
      ROW(3)
      if (count <= 4) continue;
      ROW(4)
      ROW(5)
      ROW(6)
      ROW(7)
    }
    for (int r = 0; r < count; r++)
      for (int i = 0; i < 2; i++) {
        float *o = c + r * ldc + 8 * i;
        const float by = from ? 1 : decay[r];
        storer(o, add_low(vmulq_n_f32(load4(o), by), acc[r][i], AT_ONCE));
        storer(o + 4, add_high(vmulq_n_f32(load4(o + 4), by), acc[r][i], AT_ONCE));
      }
  }
}

static void TNI_HOT_OWN(values)(int rows, int64_t n, const float *pv, const float *step, const void *b, int64_t pitch,
                                const float *decay, float *c, int64_t ldc, const void *next) {
  const u16u *p = (const u16u *)(const void *)pv;
  (void)step;
  if (rows <= 4)
    values_of(4, n, p, b, pitch, decay, c, ldc, next);
  else
    values_of(8, n, p, b, pitch, decay, c, ldc, next);
}

extern const tni_kept TNI_HOT_NAME;
const tni_kept TNI_HOT_NAME = {.name = TNI_HOT_TEXT,
                               .kind = TNI_KEPT_F16,
                               .query = query,
                               .dots8 = TNI_HOT_OWN(scores),
                               .probs8 = probs8,
                               .values8 = TNI_HOT_OWN(values)};

#endif
