/* SPDX-License-Identifier: Apache-2.0 */
#include "plugins/common/dot_fit.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "plugins/common/f16.h"

enum { LANES = 8, GROUP = 128, STARTS = 8 };

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

/* What the codes of scale d take off the squared error once their scale is refitted, and that scale. */
typedef struct fit {
  float gain, scale;
} fit;

/* Loops that compilers turn into vectors. */
static fit try_scale(const float *w, float lo, float hi, float d) {
  float inv = 1.0f / d, wc[LANES] = {0}, cc[LANES] = {0};
  for (uint32_t i = 0; i < GROUP; i += LANES)
    for (uint32_t l = 0; l < LANES; l++) {
      float c = nearest(w[i + l] * inv, lo, hi);
      wc[l] += w[i + l] * c;
      cc[l] += c * c;
    }
  float a = lane_sum(wc), b = lane_sum(cc);
  return b > 0 ? (fit){a * (a / b), a / b} : (fit){0, d};
}

/* The weight of largest magnitude, the first of equals; 0 for all zeros. -1 for NaN or infinity. */
static int signed_extreme(const float *w, float *extreme) {
  float top[LANES] = {0}, best = 0;
  uint32_t odd = 0;
  for (uint32_t i = 0; i < GROUP; i += LANES)
    for (uint32_t l = 0; l < LANES; l++) {
      float m = fabsf(w[i + l]);
      odd |= (uint32_t) !(m <= FLT_MAX);
      top[l] = m > top[l] ? m : top[l];
    }
  if (odd) return -1;
  for (uint32_t l = 0; l < LANES; l++) best = top[l] > best ? top[l] : best;
  *extreme = 0;
  for (uint32_t i = 0; i < GROUP && best > 0; i++)
    if (fabsf(w[i]) == best) {
      *extreme = w[i];
      break;
    }
  return 0;
}

static float half_of(float v) { return tni_cm_f16_to_f32(tni_cm_f32_to_f16(v)); }

static int usable(float d, float absmax, const search *s) {
  float m = fabsf(d);
  return m > 0 && m <= 65504.0f && absmax <= s->most * m && absmax >= s->least * m;
}

static float best_scale(const float *w, float extreme, float lo, float hi, const search *s, float first) {
  float absmax = fabsf(extreme), best = -1, best_d = first, kept = first;
  for (uint32_t i = 0; i < STARTS + 1; i++) {
    float d = i < STARTS ? -extreme / s->start[i] : kept;
    fit f = try_scale(w, lo, hi, d);
    float refit = half_of(f.scale);
    if (!(f.gain > best) || !usable(refit, absmax, s)) continue;
    best = f.gain;
    best_d = kept = refit;
  }
  return best_d;
}

int tni_dot_fit(const float *w, uint32_t zero, uint32_t top, uint8_t *codes, uint16_t *scale) {
  const float lo = -(float)zero, hi = (float)(top - zero);
  float extreme;
  if (signed_extreme(w, &extreme)) return -1;
  float first = half_of(-extreme / (float)zero);
  if (!(fabsf(first) <= 65504.0f)) return -1;
  if (fabsf(first) < 0x1p-24f) { /* all zeros, or too small for any scale */
    memset(codes, (int)zero, GROUP);
    *scale = 0;
    return 0;
  }
  float d = best_scale(w, extreme, lo, hi, search_of(zero), first), inv = 1.0f / d;
  for (uint32_t i = 0; i < GROUP; i++) codes[i] = (uint8_t)(int32_t)(nearest(w[i] * inv, lo, hi) - lo);
  *scale = tni_cm_f32_to_f16(d);
  return 0;
}

/* --- eight bits, one bit ---------------------------------------------------------------------------------------- */

int tni_dot_fit_bytes(const float *w, uint8_t *codes, uint16_t *scale) {
  float extreme;
  if (signed_extreme(w, &extreme)) return -1;
  uint16_t half = tni_cm_f32_to_f16(fabsf(extreme) / 127.0f);
  if (tni_cm_f16_to_f32(half) < fabsf(extreme) / 127.0f) half++; /* upwards: nothing is clipped */
  const float d = tni_cm_f16_to_f32(half);
  if (!(d <= 65504.0f)) return -1;
  const float inv = d > 0 ? 1.0f / d : 0;
  for (uint32_t i = 0; i < GROUP; i++) codes[i] = (uint8_t)(int32_t)(nearest(w[i] * inv, -128.0f, 127.0f) + 128.0f);
  *scale = half;
  return 0;
}

/* Sums of magnitudes and their squares over a row, in eight partial sums; the largest. -1 for NaN or infinity. */
typedef struct size {
  float sum, squares, most;
} size;

static int size_of(const float *w, size_t n, size *out) {
  float sum[LANES] = {0}, squares[LANES] = {0}, most[LANES] = {0};
  uint32_t odd = 0;
  for (size_t i = 0; i < n; i += LANES)
    for (size_t l = 0; l < LANES && i + l < n; l++) {
      const float m = fabsf(w[i + l]);
      odd |= (uint32_t) !(m <= FLT_MAX);
      sum[l] += m;
      squares[l] += m * m;
      most[l] = m > most[l] ? m : most[l];
    }
  *out = (size){.sum = lane_sum(sum), .squares = lane_sum(squares)};
  for (uint32_t l = 0; l < LANES; l++) out->most = most[l] > out->most ? most[l] : out->most;
  return odd ? -1 : 0;
}

int tni_dot_fit_signs(const float *w, uint32_t n, uint8_t *codes, uint16_t *scale) {
  size z;
  if (size_of(w, n, &z)) return -1;
  const float d = half_of(z.sum / (float)n);
  if (!(d <= 65504.0f)) return -1;
  memset(codes, 0, GROUP);
  for (uint32_t i = 0; i < n; i++) codes[i] = w[i] >= 0 ? 2 : 0;
  *scale = tni_cm_f32_to_f16(d);
  return 0;
}

/* --- three levels of a row -------------------------------------------------------------------------------------- */

/* Mean of the magnitudes from `from` on, and what it takes off the squared error as their scale. */
static fit mean_above(const float *w, size_t n, float from) {
  float sum[LANES] = {0}, count[LANES] = {0};
  for (size_t i = 0; i < n; i += LANES)
    for (size_t l = 0; l < LANES && i + l < n; l++) {
      const float m = fabsf(w[i + l]);
      sum[l] += m >= from ? m : 0;
      count[l] += m >= from ? 1.0f : 0;
    }
  const float a = lane_sum(sum), b = lane_sum(count);
  return b > 0 ? (fit){a * (a / b), a / b} : (fit){0, 0};
}

static int is_ternary(const float *w, size_t n, float s) {
  uint32_t other = 0;
  for (size_t i = 0; i < n; i++) other |= (uint32_t)(w[i] != 0) & (uint32_t)(fabsf(w[i]) != s);
  return !other;
}

int tni_dot_ternary_scale(const float *w, size_t n, float *scale) {
  size z;
  if (size_of(w, n, &z)) return -1;
  *scale = z.most < FLT_MIN ? 0 : z.most; /* declared: denormal scales count as zero */
  if (is_ternary(w, n, z.most)) return 0;
  float from = 0.75f * (z.sum / (float)n), best = -1;
  for (int step = 0; step < 5; step++) {
    const fit f = mean_above(w, n, from);
    if (f.gain > best) {
      best = f.gain;
      *scale = f.scale;
    }
    from = 0.5f * f.scale;
  }
  if (*scale < FLT_MIN) *scale = 0;
  return 0;
}

void tni_dot_ternary_codes(const float *w, uint32_t n, float scale, uint8_t *codes) {
  const float inv = scale > 0 ? 1.0f / scale : 0;
  for (uint32_t i = 0; i < n; i++) codes[i] = (uint8_t)(int32_t)(nearest(w[i] * inv, -1.0f, 1.0f) + 1.0f);
}

/* --- sixteen levels of a matrix --------------------------------------------------------------------------------- */

enum { LEVELS = 16, BINS = TNI_DOT_BINS };

static float root_mean_square(const size *z, size_t n) { return sqrtf(z->squares / (float)n); }

int tni_dot_count(tni_dot_histogram *h, const float *w, size_t n) {
  size z;
  if (size_of(w, n, &z)) return -1;
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
  if (size_of(w, n, &z)) return -1;
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
