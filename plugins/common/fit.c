/* SPDX-License-Identifier: Apache-2.0 */
#include "plugins/common/fit.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "plugins/common/f16.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum { LANES = 8, TRIES = TNI_FIT_STARTS, SHORT = 32 };

/* Codes less their zero are clipped to lo .. hi; half is added to them. */
typedef struct range {
  float lo, hi, half;
} range;

/* Of each try: sums of w * level and level * level. */
typedef struct sums {
  float wc[TRIES], cc[TRIES];
} sums;

struct tni_fit {
  /* The weight of largest magnitude, the first of equals; 0 for all zeros. -1 for NaN or infinity. */
  int (*extreme)(const float *w, uint32_t n, float *out);
  void (*tries)(const float *w, uint32_t n, range r, const float *d, sums *out); /* levels d[8] apart */
  void (*one)(const float *w, uint32_t n, range r, const float *d, sums *out);   /* the first of them only */
  void (*codes)(const float *w, uint32_t n, range r, float inv, uint8_t *codes);
  int (*size)(const float *w, size_t n, tni_fit_size *out);
  void (*above)(const float *w, size_t n, float from, float *sum, float *count);
  void (*stairs)(const uint8_t *byte, const tni_fit_stairs *s, uint8_t *out);              /* of 256 */
  void (*products)(const float *w, const int8_t *level, uint32_t n, float *wl, float *ll); /* n: a multiple of 8 */
};

static float lane_sum(const float *s) { return ((s[0] + s[4]) + (s[1] + s[5])) + ((s[2] + s[6]) + (s[3] + s[7])); }

static tni_fit_size size_from(const float *sum, const float *squares, const float *most) {
  tni_fit_size z = {.sum = lane_sum(sum), .squares = lane_sum(squares)};
  for (uint32_t l = 0; l < LANES; l++) z.most = most[l] > z.most ? most[l] : z.most;
  return z;
}

/* --- portable --------------------------------------------------------------------------------------------------- */

/* Adding and subtracting 1.5 * 2^23 rounds to an integer, half to even, for |v| < 2^22. */
static inline float nearest(float v, range r) {
  const float magic = 12582912.0f;
  v = v < r.lo ? r.lo : v;
  v = v > r.hi ? r.hi : v;
  return (v + magic) - magic;
}

static int any_extreme(const float *w, uint32_t n, float *out) {
  float best = 0, at = 0;
  for (uint32_t i = 0; i < n; i++) {
    const float m = fabsf(w[i]);
    if (!(m <= FLT_MAX)) return -1;
    if (m > best) {
      best = m;
      at = w[i];
    }
  }
  *out = at;
  return 0;
}

static void any_one(const float *w, uint32_t n, range r, const float *d, sums *out) {
  const float inv = 1.0f / *d;
  float wc[LANES] = {0}, cc[LANES] = {0};
  for (uint32_t i = 0; i < n; i += LANES)
    for (uint32_t l = 0; l < LANES && i + l < n; l++) {
      const float c = nearest(w[i + l] * inv - r.half, r) + r.half;
      wc[l] += w[i + l] * c;
      cc[l] += c * c;
    }
  out->wc[0] = lane_sum(wc);
  out->cc[0] = lane_sum(cc);
}

static void any_tries(const float *w, uint32_t n, range r, const float *d, sums *out) {
  for (int t = 0; t < TRIES; t++) {
    sums s;
    any_one(w, n, r, d + t, &s);
    out->wc[t] = s.wc[0];
    out->cc[t] = s.cc[0];
  }
}

static void any_codes(const float *w, uint32_t n, range r, float inv, uint8_t *codes) {
  for (uint32_t i = 0; i < n; i++) codes[i] = (uint8_t)(int32_t)(nearest(w[i] * inv - r.half, r) - r.lo);
}

/* Elements [i, n) onto sums of those before; i: a multiple of 8. */
static uint32_t add_sizes(const float *w, size_t i, size_t n, float *sum, float *squares, float *most) {
  uint32_t odd = 0;
  for (; i < n; i += LANES)
    for (size_t l = 0; l < LANES && i + l < n; l++) {
      const float m = fabsf(w[i + l]);
      odd |= (uint32_t) !(m <= FLT_MAX);
      sum[l] += m;
      squares[l] += m * m;
      most[l] = m > most[l] ? m : most[l];
    }
  return odd;
}

static int any_size(const float *w, size_t n, tni_fit_size *out) {
  float sum[LANES] = {0}, squares[LANES] = {0}, most[LANES] = {0};
  const uint32_t odd = add_sizes(w, 0, n, sum, squares, most);
  *out = size_from(sum, squares, most);
  return odd ? -1 : 0;
}

static void add_above(const float *w, size_t i, size_t n, float from, float *sum, float *count) {
  for (; i < n; i += LANES)
    for (size_t l = 0; l < LANES && i + l < n; l++) {
      const float m = fabsf(w[i + l]);
      sum[l] += m >= from ? m : 0;
      count[l] += m >= from ? 1.0f : 0;
    }
}

static void any_above(const float *w, size_t n, float from, float *sum, float *count) {
  float s[LANES] = {0}, c[LANES] = {0};
  add_above(w, 0, n, from, s, c);
  *sum = lane_sum(s);
  *count = lane_sum(c);
}

/* Loops over a constant count of bytes, that compilers turn into vectors of whichever length. */
static inline __attribute__((always_inline)) void climb(const uint8_t *restrict byte, const tni_fit_stairs *s,
                                                        uint8_t *restrict out) {
  memset(out, s->first, TNI_FIT_STEP);
  for (int j = 0; j < TNI_FIT_STAIRS; j++) {
    const uint8_t above = s->above[j], up = s->up[j];
    for (int i = 0; i < TNI_FIT_STEP; i++) out[i] = (uint8_t)(out[i] + (up & (uint8_t) - (byte[i] > above)));
  }
}

static void any_stairs(const uint8_t *byte, const tni_fit_stairs *s, uint8_t *out) { climb(byte, s, out); }

static void any_products(const float *w, const int8_t *level, uint32_t n, float *wl, float *ll) {
  for (uint32_t i = 0; i < n; i++) {
    const float v = (float)level[i];
    wl[i % LANES] += w[i] * v;
    ll[i % LANES] += v * v;
  }
}

static const tni_fit any_fit = {any_extreme, any_tries, any_one,    any_codes,
                                any_size,    any_above, any_stairs, any_products};

/* --- AVX2 ------------------------------------------------------------------------------------------------------- */

#if defined(__x86_64__)
#define AVX2 __attribute__((target("avx2")))

AVX2 static inline __m256 avx2_nearest(__m256 v, __m256 lo, __m256 hi) {
  v = _mm256_min_ps(_mm256_max_ps(v, lo), hi);
  return _mm256_round_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

AVX2 static inline __m256 avx2_abs(const float *w) {
  return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), _mm256_loadu_ps(w));
}

/* lane_sum of each. */
AVX2 static inline __m128 avx2_sums(__m256 a, __m256 b, __m256 c, __m256 d) {
  const __m128 x = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  const __m128 y = _mm_add_ps(_mm256_castps256_ps128(b), _mm256_extractf128_ps(b, 1));
  const __m128 z = _mm_add_ps(_mm256_castps256_ps128(c), _mm256_extractf128_ps(c, 1));
  const __m128 u = _mm_add_ps(_mm256_castps256_ps128(d), _mm256_extractf128_ps(d, 1));
  return _mm_hadd_ps(_mm_hadd_ps(x, y), _mm_hadd_ps(z, u));
}

AVX2 static int avx2_extreme(const float *w, uint32_t n, float *out) {
  const __m256 most = _mm256_set1_ps(FLT_MAX);
  __m256 max = _mm256_setzero_ps(), fine = _mm256_cmp_ps(max, max, _CMP_EQ_OQ);
  for (uint32_t i = 0; i < n; i += LANES) {
    const __m256 m = avx2_abs(w + i);
    fine = _mm256_and_ps(fine, _mm256_cmp_ps(m, most, _CMP_LE_OQ));
    max = _mm256_max_ps(max, m);
  }
  if (_mm256_movemask_ps(fine) != 255) return -1;
  max = _mm256_max_ps(max, _mm256_permute2f128_ps(max, max, 1));
  max = _mm256_max_ps(max, _mm256_shuffle_ps(max, max, 0x4e));
  max = _mm256_max_ps(max, _mm256_shuffle_ps(max, max, 0xb1));
  for (uint32_t i = 0; i < n; i += LANES) {
    const int at = _mm256_movemask_ps(_mm256_cmp_ps(avx2_abs(w + i), max, _CMP_EQ_OQ));
    if (!at) continue;
    *out = w[i + (uint32_t)__builtin_ctz((unsigned)at)];
    break;
  }
  return 0;
}

/* how many of d, and whether half counts: constants where it is called. */
AVX2 static inline __attribute__((always_inline)) void avx2_try(const float *w, uint32_t n, range r, const float *d,
                                                                float *out_wc, float *out_cc, const int how,
                                                                const int halves) {
  const __m256 none = _mm256_setzero_ps(), lo = _mm256_set1_ps(r.lo), hi = _mm256_set1_ps(r.hi);
  const __m256 half = _mm256_set1_ps(r.half);
  __m256 inv[4], wc[4] = {none, none, none, none}, cc[4] = {none, none, none, none};
  for (int t = 0; t < how; t++) inv[t] = _mm256_set1_ps(1.0f / d[t]);
  for (uint32_t i = 0; i < n; i += LANES) {
    const __m256 v = _mm256_loadu_ps(w + i);
#pragma GCC unroll 4
    for (int t = 0; t < how; t++) {
      __m256 c = _mm256_mul_ps(v, inv[t]);
      if (halves) c = _mm256_sub_ps(c, half);
      c = avx2_nearest(c, lo, hi);
      if (halves) c = _mm256_add_ps(c, half);
      wc[t] = _mm256_add_ps(wc[t], _mm256_mul_ps(v, c));
      cc[t] = _mm256_add_ps(cc[t], _mm256_mul_ps(c, c));
    }
  }
  _mm_storeu_ps(out_wc, avx2_sums(wc[0], wc[1], wc[2], wc[3]));
  _mm_storeu_ps(out_cc, avx2_sums(cc[0], cc[1], cc[2], cc[3]));
}

AVX2 static void avx2_tries(const float *w, uint32_t n, range r, const float *d, sums *out) {
  for (int t = 0; t < TRIES; t += 4)
    if (r.half > 0)
      avx2_try(w, n, r, d + t, out->wc + t, out->cc + t, 4, 1);
    else
      avx2_try(w, n, r, d + t, out->wc + t, out->cc + t, 4, 0);
}

AVX2 static void avx2_one(const float *w, uint32_t n, range r, const float *d, sums *out) {
  avx2_try(w, n, r, d, out->wc, out->cc, 1, 1);
}

AVX2 static void avx2_codes(const float *w, uint32_t n, range r, float inv, uint8_t *codes) {
  const __m256 by = _mm256_set1_ps(inv), lo = _mm256_set1_ps(r.lo), hi = _mm256_set1_ps(r.hi);
  const __m256 half = _mm256_set1_ps(r.half);
  for (uint32_t i = 0; i < n; i += LANES) {
    const __m256 c = avx2_nearest(_mm256_sub_ps(_mm256_mul_ps(_mm256_loadu_ps(w + i), by), half), lo, hi);
    const __m256i v = _mm256_cvtps_epi32(_mm256_sub_ps(c, lo));
    const __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    _mm_storel_epi64((__m128i *)(void *)(codes + i), _mm_packus_epi16(words, words));
  }
}

AVX2 static int avx2_size(const float *w, size_t n, tni_fit_size *out) {
  __m256 s = _mm256_setzero_ps(), q = s, m = s, fine = _mm256_cmp_ps(s, s, _CMP_EQ_OQ);
  float sum[LANES], squares[LANES], most[LANES];
  size_t i = 0;
  for (; i + LANES <= n; i += LANES) {
    const __m256 v = avx2_abs(w + i);
    fine = _mm256_and_ps(fine, _mm256_cmp_ps(v, _mm256_set1_ps(FLT_MAX), _CMP_LE_OQ));
    s = _mm256_add_ps(s, v);
    q = _mm256_add_ps(q, _mm256_mul_ps(v, v));
    m = _mm256_max_ps(v, m);
  }
  _mm256_storeu_ps(sum, s);
  _mm256_storeu_ps(squares, q);
  _mm256_storeu_ps(most, m);
  const uint32_t odd = add_sizes(w, i, n, sum, squares, most);
  *out = size_from(sum, squares, most);
  return odd || _mm256_movemask_ps(fine) != 255 ? -1 : 0;
}

AVX2 static void avx2_above(const float *w, size_t n, float from, float *sum, float *count) {
  const __m256 least = _mm256_set1_ps(from), one = _mm256_set1_ps(1.0f);
  __m256 s = _mm256_setzero_ps(), c = s;
  float sums_[LANES], counts[LANES];
  size_t i = 0;
  for (; i + LANES <= n; i += LANES) {
    const __m256 v = avx2_abs(w + i), is = _mm256_cmp_ps(v, least, _CMP_GE_OQ);
    s = _mm256_add_ps(s, _mm256_and_ps(v, is));
    c = _mm256_add_ps(c, _mm256_and_ps(one, is));
  }
  _mm256_storeu_ps(sums_, s);
  _mm256_storeu_ps(counts, c);
  add_above(w, i, n, from, sums_, counts);
  *sum = lane_sum(sums_);
  *count = lane_sum(counts);
}

AVX2 static void avx2_stairs(const uint8_t *byte, const tni_fit_stairs *s, uint8_t *out) { climb(byte, s, out); }

AVX2 static void avx2_products(const float *w, const int8_t *level, uint32_t n, float *wl, float *ll) {
  __m256 a = _mm256_loadu_ps(wl), b = _mm256_loadu_ps(ll);
  for (uint32_t i = 0; i < n; i += LANES) {
    const __m128i bytes = _mm_loadl_epi64((const __m128i *)(const void *)(level + i));
    const __m256 v = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes));
    a = _mm256_add_ps(a, _mm256_mul_ps(_mm256_loadu_ps(w + i), v));
    b = _mm256_add_ps(b, _mm256_mul_ps(v, v));
  }
  _mm256_storeu_ps(wl, a);
  _mm256_storeu_ps(ll, b);
}

/* Two tries share a register, so that each has its eight sums. */
__attribute__((target("avx512f,avx512dq"))) static void avx512_tries(const float *w, uint32_t n, range r,
                                                                     const float *d, sums *out) {
  enum { PAIRS = TRIES / 2 };
  const __m512 none = _mm512_setzero_ps(), lo = _mm512_set1_ps(r.lo), hi = _mm512_set1_ps(r.hi);
  const __m512 half = _mm512_set1_ps(r.half);
  __m512 inv[PAIRS], wc[PAIRS] = {none, none, none, none}, cc[PAIRS] = {none, none, none, none};
  for (int p = 0; p < PAIRS; p++)
    inv[p] = _mm512_insertf32x8(_mm512_set1_ps(1.0f / d[2 * p]), _mm256_set1_ps(1.0f / d[2 * p + 1]), 1);
  for (uint32_t i = 0; i < n; i += LANES) {
    const __m512 v = _mm512_broadcast_f32x8(_mm256_loadu_ps(w + i));
#pragma GCC unroll 4
    for (int p = 0; p < PAIRS; p++) {
      __m512 c = _mm512_sub_ps(_mm512_mul_ps(v, inv[p]), half);
      c = _mm512_min_ps(_mm512_max_ps(c, lo), hi);
      c = _mm512_add_ps(_mm512_roundscale_ps(c, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC), half);
      wc[p] = _mm512_add_ps(wc[p], _mm512_mul_ps(v, c));
      cc[p] = _mm512_add_ps(cc[p], _mm512_mul_ps(c, c));
    }
  }
  for (int p = 0; p < PAIRS; p += 2) {
    _mm_storeu_ps(out->wc + 2 * p, avx2_sums(_mm512_castps512_ps256(wc[p]), _mm512_extractf32x8_ps(wc[p], 1),
                                             _mm512_castps512_ps256(wc[p + 1]), _mm512_extractf32x8_ps(wc[p + 1], 1)));
    _mm_storeu_ps(out->cc + 2 * p, avx2_sums(_mm512_castps512_ps256(cc[p]), _mm512_extractf32x8_ps(cc[p], 1),
                                             _mm512_castps512_ps256(cc[p + 1]), _mm512_extractf32x8_ps(cc[p + 1], 1)));
  }
}

static const tni_fit avx2_fit = {avx2_extreme, avx2_tries, avx2_one,    avx2_codes,
                                 avx2_size,    avx2_above, avx2_stairs, avx2_products};
static const tni_fit avx512_fit = {avx2_extreme, avx512_tries, avx2_one,    avx2_codes,
                                   avx2_size,    avx2_above,   avx2_stairs, avx2_products};

const tni_fit *tni_fit_form(uint32_t i) {
  static const tni_fit *const forms[] = {&any_fit, &avx2_fit, &avx512_fit};
  if (i == 1 && !__builtin_cpu_supports("avx2")) return NULL;
  if (i == 2 && !(__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq"))) return NULL;
  return i < 3 ? forms[i] : NULL;
}
#undef AVX2
#else
const tni_fit *tni_fit_form(uint32_t i) { return i ? NULL : &any_fit; }
#endif

const tni_fit *tni_fit_best(void) {
  const tni_fit *best = &any_fit;
  for (uint32_t i = 1; i < TNI_FIT_FORMS; i++)
    if (tni_fit_form(i)) best = tni_fit_form(i);
  return best;
}

/* --- the search -------------------------------------------------------------------------------------------------- */

/* Both roundings, then a choice: a loop of it can be vectors. Of v >= 0. */
static inline float half_of(float v) {
  const float tiny = (v + 0.5f) - 0.5f; /* multiples of 2^-24 */
  uint32_t b;
  memcpy(&b, &v, sizeof b);
  b = (b + 0xfffu + (b >> 13 & 1u)) & ~0x1fffu;
  float other;
  memcpy(&other, &b, sizeof other);
  return v < 0x1p-14f ? tiny : other;
}

float tni_fit_half(float v) { return v < 0 ? -half_of(-v) : half_of(v); }

/* Clipped on the side with fewer levels, or half a step. */
float tni_fit_err(const tni_fit_grid *g) {
  const float clipped = 1.001f - ((float)(g->top - g->zero) + g->half) / g->most, step = 0.5005f / g->least;
  return clipped > step ? clipped : step;
}

typedef struct search {
  float least, most; /* of |d| */
  float gain, d;     /* the best: what it takes off the squared error */
} search;

static void consider(const tni_fit_grid *g, const sums *s, const float *d, int n, search *b) {
  const float unit = g->unit, whole = 1.0f / unit, least = b->least, most = b->most;
  float step[TRIES], gain[TRIES];
  for (int t = 0; t < TRIES; t++) {
    float m = s->cc[t] > 0 ? s->wc[t] / s->cc[t] : d[t];
    m = fabsf(m);
    m = m < least ? least : m;
    m = m > most ? most : m;
    m = half_of(m * unit) * whole;
    step[t] = d[t] < 0 ? -m : m;
    gain[t] = step[t] * (2 * s->wc[t] - step[t] * s->cc[t]);
  }
  for (int t = 0; t < n; t++)
    if (gain[t] > b->gain && step[t] != 0) {
      b->gain = gain[t];
      b->d = step[t];
    }
}

int tni_fit_group(const tni_fit *f, const tni_fit_grid *g, const float *w, uint32_t n, uint8_t *codes,
                  uint16_t *scale) {
  const range r = {-(float)g->zero, (float)(g->top - g->zero), g->half};
  const float widest = 65504.0f / g->unit;
  float extreme;
  sums s = {{0}, {0}};
  if (n % LANES) f = &any_fit;
  if (f->extreme(w, n, &extreme)) return -1;
  const float absmax = fabsf(extreme), from = r.hi + 2 * r.half == -r.lo ? absmax : -extreme;
  const float first = tni_fit_half(from / -(r.lo + r.half) * g->unit);
  if (!(fabsf(first) <= 65504.0f)) return -1;
  if (first == 0) { /* all zeros, or too small for any scale */
    memset(codes, (int)g->zero, n);
    *scale = 0;
    return 0;
  }
  search b = {absmax / g->most, absmax / g->least, -FLT_MAX, first / g->unit};
  if (b.most > widest) b.most = widest;
  float d[TRIES];
  for (uint32_t t = 0; t < TRIES; t++) d[t] = from / g->start[t];
  f->tries(w, n, r, d, &s);
  consider(g, &s, d, TRIES, &b);
  if (n > SHORT) {
    const float again[TRIES] = {b.d};
    f->one(w, n, r, again, &s);
    consider(g, &s, again, 1, &b);
  }
  f->codes(w, n, r, 1.0f / b.d, codes);
  *scale = tni_cm_f32_to_f16(b.d * g->unit);
  return 0;
}

void tni_fit_codes(const tni_fit *f, const float *w, uint32_t n, float lo, float hi, float inv, uint8_t *codes) {
  const uint32_t whole = n / LANES * LANES;
  const range r = {lo, hi, 0};
  f->codes(w, whole, r, inv, codes);
  any_codes(w + whole, n - whole, r, inv, codes + whole);
}

int tni_fit_size_of(const tni_fit *f, const float *w, size_t n, tni_fit_size *out) { return f->size(w, n, out); }

float tni_fit_mean_above(const tni_fit *f, const float *w, size_t n, float from, float *gain) {
  float sum, count;
  f->above(w, n, from, &sum, &count);
  *gain = count > 0 ? sum * (sum / count) : 0;
  return count > 0 ? sum / count : 0;
}

void tni_fit_climb(const tni_fit *f, const uint8_t *byte, const tni_fit_stairs *s, uint8_t *out) {
  f->stairs(byte, s, out);
}

void tni_fit_products(const tni_fit *f, const float *w, const int8_t *level, uint32_t n, float *wl, float *ll) {
  const uint32_t whole = n / LANES * LANES;
  f->products(w, level, whole, wl, ll);
  any_products(w + whole, level + whole, n - whole, wl, ll);
}
