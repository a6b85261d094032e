/* SPDX-License-Identifier: Apache-2.0 */
#include "plugins/common/formats/dot_fit.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "plugins/common/formats/f16.h"

#include "plugins/common/formats/fit.h"

enum { LANES = 8, GROUP = 128 };

/* Starts are on both sides: the largest weight may lie where there is a level less. */
static const tni_fit_grid two_bits = {2, 3, 0, 1, 1.25f, 5.0f, {4.0f, 3.3f, 2.7f, 2.2f, -3.6f, -3.0f, -2.4f, -1.9f}};
static const tni_fit_grid three_bits = {4, 7, 0, 1, 2.5f, 6.0f, {5.2f, 4.8f, 4.4f, 4.0f, 3.6f, -4.4f, -4.0f, -3.6f}};

static const tni_fit_grid *grid_of(uint32_t zero) { return zero == 2 ? &two_bits : &three_bits; }

float tni_dot_err(uint32_t zero) { return tni_fit_err(grid_of(zero)); }

int tni_dot_fit(const tni_fit *f, const float *w, uint32_t zero, uint8_t *codes, uint16_t *scale) {
  return tni_fit_group(f, grid_of(zero), w, GROUP, codes, scale);
}

static float lane_sum(const float *s) { return ((s[0] + s[4]) + (s[1] + s[5])) + ((s[2] + s[6]) + (s[3] + s[7])); }

/* --- eight bits, one bit ---------------------------------------------------------------------------------------- */

int tni_dot_fit_bytes(const tni_fit *f, const float *w, uint8_t *codes, uint16_t *scale) {
  tni_fit_size z;
  if (tni_fit_size_of(f, w, GROUP, &z)) return -1;
  uint16_t half = tni_cm_f32_to_f16(z.most / 127.0f);
  if (tni_cm_f16_to_f32(half) < z.most / 127.0f) half++; /* upwards: nothing is clipped */
  const float d = tni_cm_f16_to_f32(half);
  if (!(d <= 65504.0f)) return -1;
  tni_fit_codes(f, w, GROUP, -128.0f, 127.0f, d > 0 ? 1.0f / d : 0, codes);
  *scale = half;
  return 0;
}

int tni_dot_fit_signs(const tni_fit *f, const float *w, uint32_t n, uint8_t *codes, uint16_t *scale) {
  tni_fit_size z;
  if (tni_fit_size_of(f, w, n, &z)) return -1;
  const float d = tni_fit_half(z.sum / (float)n);
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

int tni_dot_ternary_scale(const tni_fit *f, const float *w, size_t n, float *scale) {
  tni_fit_size z;
  if (tni_fit_size_of(f, w, n, &z)) return -1;
  *scale = z.most < FLT_MIN ? 0 : z.most; /* declared: denormal scales count as zero */
  if (is_ternary(w, n, z.most)) return 0;
  float from = 0.75f * (z.sum / (float)n), best = -1;
  for (int step = 0; step < 5; step++) {
    float gain;
    const float mean = tni_fit_mean_above(f, w, n, from, &gain);
    if (gain > best) {
      best = gain;
      *scale = mean;
    }
    from = 0.5f * mean;
  }
  if (*scale < FLT_MIN) *scale = 0;
  return 0;
}

void tni_dot_ternary_codes(const tni_fit *f, const float *w, uint32_t n, float scale, uint8_t *codes) {
  tni_fit_codes(f, w, n, -1.0f, 1.0f, scale > 0 ? 1.0f / scale : 0, codes);
}

/* --- sixteen levels of a matrix --------------------------------------------------------------------------------- */

enum { LEVELS = 16, BINS = TNI_DOT_BINS, STEP = TNI_FIT_STEP };

static float root_mean_square(const tni_fit_size *z, size_t n) { return sqrtf(z->squares / (float)n); }

int tni_dot_count(const tni_fit *f, tni_dot_histogram *h, const float *w, size_t n) {
  tni_fit_size z;
  if (tni_fit_size_of(f, w, n, &z)) return -1;
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
static double spread_of_run(const prefix *p, int32_t a, int32_t b) {
  const double n = p->count[b] - p->count[a], s = p->sum[b] - p->sum[a];
  return n > 0 ? p->squares[b] - p->squares[a] - s * s / n : 0;
}

typedef struct run_plan {
  const prefix *p;
  const double *before; /* least error of bins [0, i) in one level less */
  double *least;
  uint16_t *cut; /* where the last level of the best plan of [0, i) begins */
} run_plan;

/* For all i in [lo, hi]: the best cut lies in [a, b] and moves up with i. */
static void divide_runs(const run_plan *d, int32_t lo, int32_t hi, int32_t a, int32_t b) {
  if (lo > hi) return;
  const int32_t i = (lo + hi) / 2;
  int32_t best = a;
  double least = DBL_MAX;
  for (int32_t c = a; c <= b && c <= i; c++) {
    const double e = d->before[c] + spread_of_run(d->p, c, i);
    if (e < least) least = e, best = c;
  }
  d->least[i] = least;
  d->cut[i] = (uint16_t)best;
  divide_runs(d, lo, i - 1, a, best);
  divide_runs(d, i + 1, hi, best, b);
}

static void cut_bins(const prefix *p, double *mean) {
  double error[2][BINS + 1];
  uint16_t cut[LEVELS][BINS + 1] = {{0}};
  for (int32_t i = 0; i <= BINS; i++) error[0][i] = spread_of_run(p, 0, i);
  for (int32_t k = 1; k < LEVELS; k++) {
    const run_plan d = {p, error[(k - 1) % 2], error[k % 2], cut[k]};
    divide_runs(&d, 0, BINS, 0, BINS);
  }
  for (int32_t k = LEVELS - 1, end = BINS; k >= 0; k--) {
    const int32_t begin = cut[k][end];
    const double n = p->count[end] - p->count[begin];
    mean[k] = n > 0 ? (p->sum[end] - p->sum[begin]) / n : k < LEVELS - 1 ? mean[k + 1] : 0;
    end = begin;
  }
}

void tni_dot_levels_of(const tni_dot_histogram *h, tni_dot_levels *out) {
  prefix p = {{0}, {0}, {0}};
  memset(out, 0, sizeof *out);
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
    out->level[i] = (int8_t)(int32_t)rintf(most > 0 ? (float)(mean[i] * 127 / most) : 0);
  out->reach = (float)most;
  out->values.first = (uint8_t)out->level[0];
  for (int32_t i = 0; i + 1 < LEVELS; i++) {
    /* v + 128 is above where v is nearer to level i + 1 than to level i */
    out->values.above[i] = out->indices.above[i] = (uint8_t)((out->level[i] + out->level[i + 1] + 256) / 2);
    out->values.up[i] = (uint8_t)(out->level[i + 1] - out->level[i]);
    out->indices.up[i] = 1;
  }
  tni_fit_stairs_ready(&out->values);
  tni_fit_stairs_ready(&out->indices);
}

void tni_dot_level_codes(const tni_fit *f, const float *w, uint32_t n, const tni_dot_levels *l, float scale,
                         uint8_t *index) {
  const float inv = scale > 0 ? 1.0f / scale : 0;
  for (uint32_t k = 0; k < n; k += STEP) {
    const uint32_t have = n - k < STEP ? n - k : STEP;
    uint8_t byte[STEP] = {0}, found[STEP];
    tni_fit_codes(f, w + k, have, -128.0f, 127.0f, inv, byte);
    tni_fit_climb(f, byte, &l->indices, found);
    memcpy(index + k, found, have);
  }
}

int tni_dot_level_scale(const tni_fit *f, const float *w, size_t n, const tni_dot_levels *l, float *scale) {
  tni_fit_size z;
  if (tni_fit_size_of(f, w, n, &z)) return -1;
  float s = root_mean_square(&z, n) * l->reach / 127.0f;
  *scale = 0;
  if (!(s > 0 && 1.0f / s <= FLT_MAX)) return 0;
  for (int step = 0; step < 2; step++) {
    float wl[LANES] = {0}, ll[LANES] = {0};
    for (size_t k = 0; k < n; k += STEP) {
      const uint32_t have = (uint32_t)(n - k < STEP ? n - k : STEP);
      uint8_t byte[STEP] = {0}, value[STEP];
      tni_fit_codes(f, w + k, have, -128.0f, 127.0f, 1.0f / s, byte);
      tni_fit_climb(f, byte, &l->values, value);
      tni_fit_products(f, w + k, (const int8_t *)value, have, wl, ll);
    }
    const float a = lane_sum(wl), b = lane_sum(ll);
    if (!(a > 0 && b > 0)) return 0;
    s = a / b;
  }
  *scale = s < FLT_MIN ? 0 : s;
  return 0;
}
