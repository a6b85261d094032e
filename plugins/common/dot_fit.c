/* SPDX-License-Identifier: Apache-2.0 */
#include "plugins/common/dot_fit.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "plugins/common/f16.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum { LANES = 8, GROUP = 128, STARTS = 8, TRIES = 4 /* at once */ };

/* Largest magnitude over scale, signed: the side on which the largest weight lies. `most`: what refits may reach. */
typedef struct search {
  float start[STARTS], least, most;
} search;
static const search two_bits = {{4.0f, 3.3f, 2.7f, 2.2f, -3.6f, -3.0f, -2.4f, -1.9f}, 1.25f, 5.0f};
static const search three_bits = {{5.2f, 4.8f, 4.4f, 4.0f, 3.6f, -4.4f, -4.0f, -3.6f}, 2.5f, 6.0f};

static const search *search_of(uint32_t zero) { return zero == 2 ? &two_bits : &three_bits; }

/* Clipped on the side with zero - 1 levels: |w| - (zero - 1) * |scale|. */
float tni_dot_err(uint32_t zero) { return 1.001f - (float)(zero - 1) / search_of(zero)->most; }

/* Adding and subtracting 1.5 * 2^23 rounds to an integer, half to even, for |v| < 2^22. */
static inline float nearest(float v, float lo, float hi) {
  const float magic = 12582912.0f;
  v = v < lo ? lo : v;
  v = v > hi ? hi : v;
  return (v + magic) - magic;
}

static float lane_sum(const float *s) { return ((s[0] + s[4]) + (s[1] + s[5])) + ((s[2] + s[6]) + (s[3] + s[7])); }

/* What the codes of a scale take off the squared error once the scale is refitted, and that scale. */
typedef struct fit {
  float gain, scale;
} fit;

/* Sums over a row in eight partial sums, and the largest magnitude. */
typedef struct size {
  float sum, squares, most; /* of magnitudes, of their squares */
} size;

/* What touches every weight; each has a portable form and one for AVX2, with the same bits. */
typedef struct passes {
  /* The codes of scales d[4] of w[128]. */
  void (*try_scales)(const float *w, float lo, float hi, const float *d, fit *out);
  void (*codes)(const float *w, uint32_t n, float lo, float hi, float inv, uint8_t *codes); /* n: a multiple of 8 */
  int (*size)(const float *w, size_t n, size *out);                                         /* -1 for NaN or infinity */
  /* The mean of magnitudes from `from` on as the scale of what has them. */
  fit (*mean_above)(const float *w, size_t n, float from);
} passes;

static fit fit_of(float wc, float cc, float otherwise) {
  return cc > 0 ? (fit){wc * (wc / cc), wc / cc} : (fit){0, otherwise};
}

static size size_from(const float *sum, const float *squares, const float *most) {
  size z = {.sum = lane_sum(sum), .squares = lane_sum(squares)};
  for (uint32_t l = 0; l < LANES; l++) z.most = most[l] > z.most ? most[l] : z.most;
  return z;
}

/* --- portable --------------------------------------------------------------------------------------------------- */

static void any_try(const float *w, float lo, float hi, const float *d, fit *out) {
  for (int t = 0; t < TRIES; t++) {
    float inv = 1.0f / d[t], wc[LANES] = {0}, cc[LANES] = {0};
    for (uint32_t i = 0; i < GROUP; i += LANES)
      for (uint32_t l = 0; l < LANES; l++) {
        float c = nearest(w[i + l] * inv, lo, hi);
        wc[l] += w[i + l] * c;
        cc[l] += c * c;
      }
    out[t] = fit_of(lane_sum(wc), lane_sum(cc), d[t]);
  }
}

static void any_codes(const float *w, uint32_t n, float lo, float hi, float inv, uint8_t *codes) {
  for (uint32_t i = 0; i < n; i++) codes[i] = (uint8_t)(int32_t)(nearest(w[i] * inv, lo, hi) - lo);
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

static int any_size(const float *w, size_t n, size *out) {
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

static fit any_mean(const float *w, size_t n, float from) {
  float sum[LANES] = {0}, count[LANES] = {0};
  add_above(w, 0, n, from, sum, count);
  return fit_of(lane_sum(sum), lane_sum(count), 0);
}

static const passes any_passes = {any_try, any_codes, any_size, any_mean};

/* --- AVX2 ------------------------------------------------------------------------------------------------------- */

#if defined(__x86_64__)
#define AVX2 __attribute__((target("avx2")))

AVX2 static inline __m256 avx2_code(__m256 v, __m256 lo, __m256 hi) {
  v = _mm256_min_ps(_mm256_max_ps(v, lo), hi);
  return _mm256_round_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

AVX2 static inline __m256 avx2_abs(const float *w) {
  return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), _mm256_loadu_ps(w));
}

AVX2 static void avx2_try(const float *w, float lo, float hi, const float *d, fit *out) {
  const __m256 none = _mm256_setzero_ps(), l = _mm256_set1_ps(lo), h = _mm256_set1_ps(hi);
  __m256 inv[TRIES], wc[TRIES] = {none, none, none, none}, cc[TRIES] = {none, none, none, none};
  for (int t = 0; t < TRIES; t++) inv[t] = _mm256_set1_ps(1.0f / d[t]);
  for (uint32_t i = 0; i < GROUP; i += LANES) {
    const __m256 v = _mm256_loadu_ps(w + i);
#pragma GCC unroll 4
    for (int t = 0; t < TRIES; t++) {
      const __m256 c = avx2_code(_mm256_mul_ps(v, inv[t]), l, h);
      wc[t] = _mm256_add_ps(wc[t], _mm256_mul_ps(v, c));
      cc[t] = _mm256_add_ps(cc[t], _mm256_mul_ps(c, c));
    }
  }
  for (int t = 0; t < TRIES; t++) {
    float a[LANES], b[LANES];
    _mm256_storeu_ps(a, wc[t]);
    _mm256_storeu_ps(b, cc[t]);
    out[t] = fit_of(lane_sum(a), lane_sum(b), d[t]);
  }
}

AVX2 static void avx2_codes(const float *w, uint32_t n, float lo, float hi, float inv, uint8_t *codes) {
  const __m256 by = _mm256_set1_ps(inv), l = _mm256_set1_ps(lo), h = _mm256_set1_ps(hi);
  for (uint32_t i = 0; i < n; i += LANES) {
    const __m256 c = avx2_code(_mm256_mul_ps(_mm256_loadu_ps(w + i), by), l, h);
    const __m256i v = _mm256_cvtps_epi32(_mm256_sub_ps(c, l));
    const __m128i half = _mm_packs_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    _mm_storel_epi64((__m128i *)(void *)(codes + i), _mm_packus_epi16(half, half));
  }
}

AVX2 static int avx2_size(const float *w, size_t n, size *out) {
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

AVX2 static fit avx2_mean(const float *w, size_t n, float from) {
  const __m256 least = _mm256_set1_ps(from), one = _mm256_set1_ps(1.0f);
  __m256 s = _mm256_setzero_ps(), c = s;
  float sum[LANES], count[LANES];
  size_t i = 0;
  for (; i + LANES <= n; i += LANES) {
    const __m256 v = avx2_abs(w + i), is = _mm256_cmp_ps(v, least, _CMP_GE_OQ);
    s = _mm256_add_ps(s, _mm256_and_ps(v, is));
    c = _mm256_add_ps(c, _mm256_and_ps(one, is));
  }
  _mm256_storeu_ps(sum, s);
  _mm256_storeu_ps(count, c);
  add_above(w, i, n, from, sum, count);
  return fit_of(lane_sum(sum), lane_sum(count), 0);
}

static const passes avx2_passes = {avx2_try, avx2_codes, avx2_size, avx2_mean};
static const passes *best_passes(void) { return __builtin_cpu_supports("avx2") ? &avx2_passes : &any_passes; }
#else
static const passes *best_passes(void) { return &any_passes; }
#endif

/* --- two and three bits ------------------------------------------------------------------------------------------ */

/* The first weight of magnitude `most`. */
static float extreme_of(const float *w, float most) {
  for (uint32_t i = 0; i < GROUP && most > 0; i++)
    if (fabsf(w[i]) == most) return w[i];
  return 0;
}

/* The nearest binary16, as a float; past 65504 some float past it. */
static inline float half_of(float v) {
  uint32_t b;
  memcpy(&b, &v, sizeof b);
  if ((b & 0x7fffffffu) < 0x38800000u) { /* multiples of 2^-24 */
    const float m = (fabsf(v) + 0.5f) - 0.5f;
    return v < 0 ? -m : m;
  }
  b += 0xfffu + (b >> 13 & 1u);
  b &= ~0x1fffu;
  memcpy(&v, &b, sizeof v);
  return v;
}

static int usable(float d, float absmax, const search *s) {
  float m = fabsf(d);
  return m > 0 && m <= 65504.0f && absmax <= s->most * m && absmax >= s->least * m;
}

static float best_scale(const passes *p, const float *w, float extreme, float lo, float hi, const search *s,
                        float first) {
  const float absmax = fabsf(extreme);
  float best = -1, best_d = first;
  for (uint32_t i = 0; i < STARTS + 1; i += TRIES) {
    float d[TRIES];
    fit f[TRIES];
    const uint32_t n = i < STARTS ? TRIES : 1; /* at last the best once more */
    for (uint32_t t = 0; t < TRIES; t++) d[t] = i < STARTS ? -extreme / s->start[i + t] : best_d;
    p->try_scales(w, lo, hi, d, f);
    for (uint32_t t = 0; t < n; t++) {
      const float refit = half_of(f[t].scale);
      if (!(f[t].gain > best) || !usable(refit, absmax, s)) continue;
      best = f[t].gain;
      best_d = refit;
    }
  }
  return best_d;
}

static int fit_levels(const passes *p, const float *w, uint32_t zero, uint32_t top, uint8_t *codes, uint16_t *scale) {
  const float lo = -(float)zero, hi = (float)(top - zero);
  size z;
  if (p->size(w, GROUP, &z)) return -1;
  const float extreme = extreme_of(w, z.most), first = half_of(-extreme / (float)zero);
  if (!(fabsf(first) <= 65504.0f)) return -1;
  if (fabsf(first) < 0x1p-24f) { /* all zeros, or too small for any scale */
    memset(codes, (int)zero, GROUP);
    *scale = 0;
    return 0;
  }
  const float d = best_scale(p, w, extreme, lo, hi, search_of(zero), first);
  p->codes(w, GROUP, lo, hi, 1.0f / d, codes);
  *scale = tni_cm_f32_to_f16(d);
  return 0;
}

int tni_dot_fit(const float *w, uint32_t zero, uint32_t top, uint8_t *codes, uint16_t *scale) {
  return fit_levels(best_passes(), w, zero, top, codes, scale);
}

int tni_dot_fit_portable(const float *w, uint32_t zero, uint32_t top, uint8_t *codes, uint16_t *scale) {
  return fit_levels(&any_passes, w, zero, top, codes, scale);
}

/* --- eight bits, one bit ---------------------------------------------------------------------------------------- */

int tni_dot_fit_bytes(const float *w, uint8_t *codes, uint16_t *scale) {
  const passes *p = best_passes();
  size z;
  if (p->size(w, GROUP, &z)) return -1;
  uint16_t half = tni_cm_f32_to_f16(z.most / 127.0f);
  if (tni_cm_f16_to_f32(half) < z.most / 127.0f) half++; /* upwards: nothing is clipped */
  const float d = tni_cm_f16_to_f32(half);
  if (!(d <= 65504.0f)) return -1;
  p->codes(w, GROUP, -128.0f, 127.0f, d > 0 ? 1.0f / d : 0, codes);
  *scale = half;
  return 0;
}

int tni_dot_fit_signs(const float *w, uint32_t n, uint8_t *codes, uint16_t *scale) {
  size z;
  if (best_passes()->size(w, n, &z)) return -1;
  const float d = half_of(z.sum / (float)n);
  if (!(d <= 65504.0f)) return -1;
  memset(codes, 0, GROUP);
  for (uint32_t i = 0; i < n; i++) codes[i] = w[i] >= 0 ? 2 : 0;
  *scale = tni_cm_f32_to_f16(d);
  return 0;
}

/* --- three levels of a row -------------------------------------------------------------------------------------- */

/* Looks at most at the first few where they are not. */
static int is_ternary(const float *w, size_t n, float s) {
  for (size_t i = 0; i < n; i++)
    if (w[i] != 0 && fabsf(w[i]) != s) return 0;
  return 1;
}

static int ternary_scale(const passes *p, const float *w, size_t n, float *scale) {
  size z;
  if (p->size(w, n, &z)) return -1;
  *scale = z.most < FLT_MIN ? 0 : z.most; /* declared: denormal scales count as zero */
  if (is_ternary(w, n, z.most)) return 0;
  float from = 0.75f * (z.sum / (float)n), best = -1;
  for (int step = 0; step < 5; step++) {
    const fit f = p->mean_above(w, n, from);
    if (f.gain > best) {
      best = f.gain;
      *scale = f.scale;
    }
    from = 0.5f * f.scale;
  }
  if (*scale < FLT_MIN) *scale = 0;
  return 0;
}

int tni_dot_ternary_scale(const float *w, size_t n, float *scale) { return ternary_scale(best_passes(), w, n, scale); }

int tni_dot_ternary_scale_portable(const float *w, size_t n, float *scale) {
  return ternary_scale(&any_passes, w, n, scale);
}

void tni_dot_ternary_codes(const float *w, uint32_t n, float scale, uint8_t *codes) {
  const float inv = scale > 0 ? 1.0f / scale : 0;
  best_passes()->codes(w, n / LANES * LANES, -1.0f, 1.0f, inv, codes);
  any_codes(w + n / LANES * LANES, n % LANES, -1.0f, 1.0f, inv, codes + n / LANES * LANES);
}

/* --- sixteen levels of a matrix --------------------------------------------------------------------------------- */

enum { LEVELS = 16, BINS = TNI_DOT_BINS };

static float root_mean_square(const size *z, size_t n) { return sqrtf(z->squares / (float)n); }

int tni_dot_count(tni_dot_histogram *h, const float *w, size_t n) {
  size z;
  if (best_passes()->size(w, n, &z)) return -1;
  const float rms = root_mean_square(&z, n), inv = rms > 0 ? 1.0f / rms : 0;
  if (!(rms > 0 && inv <= FLT_MAX)) return 0;
  for (size_t i = 0; i < n; i++) {
    const float v = w[i] * inv, at = v * 64.0f + (float)(BINS / 2);
    const int32_t bin = at < 0 ? 0 : at > (float)(BINS - 1) ? BINS - 1 : (int32_t)at;
    h->count[bin] += 1;
    h->sum[bin] += (double)v;
  }
  return 0;
}

/* Over bins [0, i): how many values, their sum, the sum of squares of the bins' means. */
typedef struct prefix {
  double count[BINS + 1], sum[BINS + 1], squares[BINS + 1];
} prefix;

/* Squared error of bins [a, b) around their mean. */
static double spread(const prefix *p, int32_t a, int32_t b) {
  const double n = p->count[b] - p->count[a], s = p->sum[b] - p->sum[a];
  return n > 0 ? p->squares[b] - p->squares[a] - s * s / n : 0;
}

typedef struct plan {
  const prefix *p;
  const double *before; /* least error of bins [0, i) in one level less */
  double *least;
  uint16_t *cut; /* where the last level of the best plan of [0, i) begins */
} plan;

/* For all i in [lo, hi]: the best cut lies in [a, b] and moves up with i. */
static void divide(const plan *d, int32_t lo, int32_t hi, int32_t a, int32_t b) {
  if (lo > hi) return;
  const int32_t i = (lo + hi) / 2;
  int32_t best = a;
  double least = DBL_MAX;
  for (int32_t c = a; c <= b && c <= i; c++) {
    const double e = d->before[c] + spread(d->p, c, i);
    if (e < least) least = e, best = c;
  }
  d->least[i] = least;
  d->cut[i] = (uint16_t)best;
  divide(d, lo, i - 1, a, best);
  divide(d, i + 1, hi, best, b);
}

static void cut_bins(const prefix *p, double *mean) {
  double error[2][BINS + 1];
  uint16_t cut[LEVELS][BINS + 1] = {{0}};
  for (int32_t i = 0; i <= BINS; i++) error[0][i] = spread(p, 0, i);
  for (int32_t k = 1; k < LEVELS; k++) {
    const plan d = {p, error[(k - 1) % 2], error[k % 2], cut[k]};
    divide(&d, 0, BINS, 0, BINS);
  }
  for (int32_t k = LEVELS - 1, end = BINS; k >= 0; k--) {
    const int32_t begin = cut[k][end];
    const double n = p->count[end] - p->count[begin];
    mean[k] = n > 0 ? (p->sum[end] - p->sum[begin]) / n : k < LEVELS - 1 ? mean[k + 1] : 0;
    end = begin;
  }
}

static void find_near(tni_dot_levels *out) {
  for (int32_t v = -128, i = 0; v < 128; v++) {
    while (i + 1 < LEVELS && v - out->level[i] > out->level[i + 1] - v) i++;
    out->near[v + 128] = (uint8_t)i;
  }
}

void tni_dot_levels_of(const tni_dot_histogram *h, tni_dot_levels *out) {
  prefix p = {{0}, {0}, {0}};
  double mean[LEVELS], most = 0;
  for (int32_t i = 0; i < BINS; i++) {
    const double n = h->count[i], s = h->sum[i];
    p.count[i + 1] = p.count[i] + n;
    p.sum[i + 1] = p.sum[i] + s;
    p.squares[i + 1] = p.squares[i] + (n > 0 ? s * s / n : 0);
  }
  cut_bins(&p, mean);
  for (int32_t i = 0; i < LEVELS; i++) most = fabs(mean[i]) > most ? fabs(mean[i]) : most;
  for (int32_t i = 0; i < LEVELS; i++)
    out->level[i] = (int8_t)(int32_t)nearest(most > 0 ? (float)(mean[i] * 127 / most) : 0, -127.0f, 127.0f);
  out->reach = (float)most;
  find_near(out);
}

void tni_dot_level_codes(const float *w, uint32_t n, const tni_dot_levels *l, float scale, uint8_t *index) {
  const float inv = scale > 0 ? 1.0f / scale : 0;
  for (uint32_t i = 0; i < n; i++) index[i] = l->near[(int32_t)nearest(w[i] * inv, -128.0f, 127.0f) + 128];
}

int tni_dot_level_scale(const float *w, size_t n, const tni_dot_levels *l, float *scale) {
  enum { STEP = 256 };
  size z;
  if (best_passes()->size(w, n, &z)) return -1;
  float s = root_mean_square(&z, n) * l->reach / 127.0f;
  *scale = 0;
  if (!(s > 0 && 1.0f / s <= FLT_MAX)) return 0;
  for (int step = 0; step < 2; step++) {
    float wl[LANES] = {0}, ll[LANES] = {0};
    for (size_t k = 0; k < n; k += STEP) {
      const uint32_t have = (uint32_t)(n - k < STEP ? n - k : STEP);
      uint8_t index[STEP];
      tni_dot_level_codes(w + k, have, l, s, index);
      for (uint32_t i = 0; i < have; i++) {
        const float v = (float)l->level[index[i]];
        wl[i % LANES] += w[k + i] * v;
        ll[i % LANES] += v * v;
      }
    }
    const float a = lane_sum(wl), b = lane_sum(ll);
    if (!(a > 0 && b > 0)) return 0;
    s = a / b;
  }
  *scale = s < FLT_MIN ? 0 : s;
  return 0;
}
