/* SPDX-License-Identifier: Apache-2.0
 *
 * The format reference: what a kernel that obeys a tn_numerics must give, computed plainly.
 *
 * Bound. Let u = 2^-24 and T = sum of |sx * q * w| over all k (the `abs` output), and let the device compute, per
 * group, an inner sum S_g, then y = sum_g fl(sx*sw) * fl(S_g). Against the exact value of the declared formula it makes
 *   - per element: 1 rounding where unpack() writes code * scale as f32 (the device keeps them apart);
 *   - per group (acc_group, else act_group): 1 for the scale product sx*sw, 1 for S_g as f32, 1 for their product;
 *   - G - 1 for adding G groups in f32 in any order, 1 more for a first addition to a bias or to 0;
 *   - 1 for this reference's own rounding to f32.
 * With one scale for several sums in acc_inner (acc_group) the row's is a product at the end, in the place of sx*sw.
 * Every one is relative to a partial sum of absolute terms, which T bounds, so |y - device| <= gamma(G + 6) * T with
 * gamma(n) = n u / (1 - n u). Integer inner sums are exact; float inner sums add gamma of the group's length in their
 * own unit (f16: 2^-11, bf16: 2^-8). Float activations (no quantizer) are one group of K terms, each product rounded
 * once. The sums of this file run in double: their error, K * 2^-53, is far below one u and is covered by counting it
 * as one.
 *
 * Where halves are flushed (TN_DENORM_FLUSH, activations F16) a device may lose an activation below 2^-14, or as much of a sum:
 * 2^-14 for each weight, times it.
 *
 * Averages of table entries (avg_depth) put each group's sum off by a number of sx * w0, whatever its terms are
 * (tenon/plugin.h): tni_reference_product adds that, for the group and its rounding.
 *
 * A static scale with a wide integer sum (TN_ACT_STATIC, I64, F64) has bound 0: while |sum of q * code| < 2^36 and
 * scales of weights have 17 bits, every sum of this file is exact, sx times it is rounded once to double and then to
 * f32, as the declared formula is, and so the bits are the same.
 */
#include <float.h>
#include <math.h>
#include <string.h>

#include "runtime/ops/kernel/kernel.h"

enum { TILE_N = 64, CHUNK = 256, MAX_RUN = 8 };

typedef struct reference_product {
  const tn_numerics *num;
  const float *x, *w, *bias;
  float *y, *abs;
  int64_t M, N, K, group, n_tiles;
  float act_max;
  double rel, average; /* abs gets rel * terms + (1 + rel) * average * sx * w0 + flushed * |w| */
  double flushed;
} reference_product;

/* Elements of a run, for formats by lookup tables; 1: each element by itself. */
static int64_t run_of(const tn_numerics *num) { return num->act_scheme == TN_ACT_RUNSUM ? (int64_t)num->act_run : 1; }

/* Sum of magnitudes of a run in f32, neighbours first; what lies beyond n counts as 0. */
static float run_sum(const float *x, int64_t n, int64_t run) {
  float v[MAX_RUN];
  for (int64_t i = 0; i < run; i++) v[i] = i < n ? fabsf(x[i]) : 0;
  for (int64_t step = 1; step < run; step *= 2)
    for (int64_t i = 0; i < run; i += 2 * step) v[i] += v[i + step];
  return v[0];
}

/* Scale and reciprocal of one activation group; both 0 where every q is 0. */
static void group_scale(const reference_product *p, const float *x, int64_t n, float *s, float *inv) {
  const int64_t run = run_of(p->num);
  float max = 0;
  *s = *inv = 0;
  if (p->num->act_scheme == TN_ACT_STATIC) {
    *s = *inv = p->num->act_scale;
    return;
  }
  for (int64_t i = 0; i < n; i += run) {
    const float v = run_sum(x + i, n - i, run);
    if (isnan(v)) max = NAN;
    if (!(v <= max)) max = v;
  }
  if (max == 0) return;
  *s = max / p->act_max;
  *inv = p->act_max / max;
  /* Groups so small that the reciprocal overflows (or the scale is subnormal and those are flushed) are zeros. */
  if (isinf(*inv) || (p->num->denormals == TN_DENORM_FLUSH && *s < FLT_MIN)) *s = *inv = 0;
}

static float round_act(const reference_product *p, float v) {
  return p->num->act_round == TN_ROUND_HALF_AWAY ? roundf(v) : rintf(v);
}

/* A static scale knows nothing of what it will meet. */
static float clamped_act(const reference_product *p, float v) {
  if (isnan(v)) return 0;
  v = round_act(p, v);
  return v > p->act_max ? p->act_max : v < -p->act_max - 1 ? -p->act_max - 1 : v;
}

/* q[i] (an integer, or the activation in its dtype) of n elements from k0 on; inv: the scale itself where it is static.
 */
static void round_activations(const reference_product *p, const float *x, int64_t n, float inv, double *q) {
  for (int64_t i = 0; i < n; i++) {
    float v = x[i];
    if (p->num->act_scheme == TN_ACT_STATIC)
      v = clamped_act(p, v / inv);
    else if (p->num->act_scheme != TN_ACT_NONE)
      v = inv == 0 ? 0 : round_act(p, v * inv);
    else if (tni_is_half(p->num->act_dtype)) {
      uint16_t h;
      tni_store_f32(p->num->act_dtype, &h, 0, 1, &v);
      tni_load_f32(p->num->act_dtype, &h, 0, 1, &v);
    }
    q[i] = (double)v;
  }
}

static double least_weight(const float *w, int64_t n) {
  float least = 0;
  for (int64_t i = 0; i < n; i++) {
    const float v = fabsf(w[i]);
    if (v > 0 && (least == 0 || v < least)) least = v;
  }
  return (double)least;
}

/* One row of x against up to TILE_N rows of w. */
static void row_tile(const reference_product *p, int64_t m, int64_t n0, int64_t n1) {
  double sum[TILE_N] = {0}, mag[TILE_N] = {0}, steps[TILE_N] = {0}, weights[TILE_N] = {0}, q[CHUNK];
  const float *x = p->x + m * p->K;
  for (int64_t g = 0; g < p->K; g += p->group) {
    const int64_t len = p->K - g < p->group ? p->K - g : p->group;
    double in[TILE_N] = {0}, in_mag[TILE_N] = {0};
    float s = 1, inv = 1;
    if (p->num->act_scheme != TN_ACT_NONE) group_scale(p, x + g, len, &s, &inv);
    for (int64_t k = 0; k < len; k += CHUNK) {
      const int64_t c = len - k < CHUNK ? len - k : CHUNK;
      round_activations(p, x + g + k, c, inv, q);
      for (int64_t n = n0; n < n1; n++) {
        const float *w = p->w + n * p->K + g + k;
        double a = 0, b = 0;
        for (int64_t i = 0; i < c; i++) {
          a += q[i] * (double)w[i];
          b += fabs(q[i] * (double)w[i]);
        }
        for (int64_t i = 0; p->flushed > 0 && i < c; i++) weights[n - n0] += fabs((double)w[i]);
        in[n - n0] += a;
        in_mag[n - n0] += b;
      }
    }
    for (int64_t n = n0; n < n1; n++) {
      sum[n - n0] += (double)s * in[n - n0];
      mag[n - n0] += fabs((double)s) * in_mag[n - n0];
      if (p->average > 0) steps[n - n0] += fabs((double)s) * least_weight(p->w + n * p->K + g, len);
    }
  }
  for (int64_t n = n0; n < n1; n++) {
    const double b = p->bias ? (double)p->bias[n] : 0;
    p->y[m * p->N + n] = (float)(sum[n - n0] + b);
    if (p->abs)
      p->abs[m * p->N + n] = (float)(p->rel * (mag[n - n0] + fabs(b)) + (1 + p->rel) * p->average * steps[n - n0] +
                                       p->flushed * weights[n - n0]);
  }
}

static void reference_tiles(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  const reference_product *p = arg;
  (void)worker;
  for (int64_t u = begin; u < end; u++) {
    const int64_t n0 = (u % p->n_tiles) * TILE_N, n1 = n0 + TILE_N < p->N ? n0 + TILE_N : p->N;
    row_tile(p, u / p->n_tiles, n0, n1);
  }
}

/* Groups of activations are made of whole ones of sums. */
static bool known_sums(const tn_numerics *num) {
  return !TN_HAS(num, tn_numerics, acc_group) || num->acc_group == 0 || num->act_group % num->acc_group == 0;
}

static bool knows_numerics(const tn_numerics *num) {
  const bool whole = num->act_dtype == TN_DT_I8 || num->act_dtype == TN_DT_I16;
  const bool act = whole || num->act_dtype == TN_DT_F32 || tni_is_half(num->act_dtype);
  const bool quantized = act && num->act_max > 0 && num->act_round <= TN_ROUND_HALF_AWAY;
  if (num->act_scheme == TN_ACT_ABSMAX) return quantized;
  if (num->act_scheme == TN_ACT_STATIC)
    return TN_HAS(num, tn_numerics, act_scale) && num->act_scale > 0 && isfinite(num->act_scale) && num->act_max > 0 &&
           num->act_group == 0 && num->act_round <= TN_ROUND_HALF_AWAY;
  if (num->act_scheme == TN_ACT_RUNSUM) {
    const uint32_t run = TN_HAS(num, tn_numerics, act_run) ? num->act_run : 0;
    return quantized && (run == 2 || run == 4 || run == MAX_RUN) && num->act_group % run == 0;
  }
  return num->act_scheme == TN_ACT_NONE && act && !whole;
}

enum { MAX_DEPTH = 8 };

/* Trees of averages are whole in each group. Of numerics that are known otherwise. */
static bool known_averages(const tn_numerics *num) {
  if (!TN_HAS(num, tn_numerics, avg_unit) || num->avg_depth == 0) return true;
  return num->act_scheme == TN_ACT_RUNSUM && num->avg_depth <= MAX_DEPTH && num->avg_unit > 0 &&
         isfinite(num->avg_unit) && num->act_group && num->act_group / num->act_run % (1u << num->avg_depth) == 0;
}

static tn_status compute_product(reference_product *p, tn_run *run) {
  if (!p->num || p->M < 0 || p->K < 0 || p->N < 0) return TN_E_INVALID;
  if (!knows_numerics(p->num) || !known_sums(p->num) || !known_averages(p->num)) return TN_E_UNSUPPORTED;
  p->group = p->num->act_group ? p->num->act_group : p->K;
  if (p->group < 1) p->group = 1;
  p->n_tiles = (p->N + TILE_N - 1) / TILE_N;
  p->act_max = p->num->act_max;
  tni_kfor(run, p->M * p->n_tiles, TILE_N * (p->K + 1), reference_tiles, p);
  return TN_OK;
}

tn_status tni_reference_matmul(const tn_numerics *num, const float *x, int64_t M, int64_t K, const float *w, int64_t N,
                               const float *bias, float *y, float *abs, tn_run *run) {
  reference_product p = {
      .num = num, .x = x, .w = w, .bias = bias, .y = y, .abs = abs, .M = M, .N = N, .K = K, .rel = 1};
  return compute_product(&p, run);
}

tn_status tni_reference_product(const tn_numerics *num, const float *x, int64_t M, int64_t K, const float *w, int64_t N,
                                float *y, float *e, tn_run *run) {
  if (!num) return TN_E_INVALID;
  reference_product p = {.num = num, .x = x, .w = w, .y = y, .abs = e, .M = M, .N = N, .K = K};
  p.rel = tni_reference_bound(num, K);
  p.average = tni_reference_averages(num);
  if (num->act_dtype == TN_DT_F16 && num->denormals == TN_DENORM_FLUSH) p.flushed = 0x1p-14;
  return compute_product(&p, run);
}

double tni_reference_averages(const tn_numerics *num) {
  if (!TN_HAS(num, tn_numerics, avg_unit) || num->avg_depth == 0 || num->act_run == 0) return 0;
  return (double)(num->act_group / num->act_run) * num->avg_depth / 4 * (double)num->avg_unit;
}

double tni_reference_averages_at(const tn_numerics *num, const float *w, int64_t K, int64_t k, float x) {
  const double average = tni_reference_averages(num);
  if (average == 0) return 0;
  const int64_t group = num->act_group, from = k / group * group, n = K - from < group ? K - from : group;
  return average * fabs((double)x) / (double)num->act_max * least_weight(w + from, n) * (1 + 0x1p-20);
}

tn_numerics tni_numerics_of(const tn_numerics *declared) {
  tn_numerics n = {.h = TN_HDR(tn_numerics)};
  memcpy(&n, declared, declared->h.size < sizeof n ? declared->h.size : sizeof n);
  n.h = (tn_hdr)TN_HDR(tn_numerics);
  return n;
}

static double unit_roundoff(uint32_t dtype) {
  switch (dtype) {
    case TN_DT_F64:
      return 0x1p-53;
    case TN_DT_F32:
      return 0x1p-24;
    case TN_DT_F16:
      return 0x1p-11;
    case TN_DT_BF16:
      return 0x1p-8;
    default:
      return 0; /* integers */
  }
}

static double gamma_of(double n, double u) { return n * u < 0.5 ? n * u / (1 - n * u) : 1; }

double tni_reference_bound(const tn_numerics *num, int64_t K) {
  if (num->act_scheme == TN_ACT_STATIC && num->acc_inner == TN_DT_I64 && num->acc_outer == TN_DT_F64) return 0;
  const double k = K > 0 ? (double)K : 1;
  const uint32_t group = TN_HAS(num, tn_numerics, acc_group) && num->acc_group ? num->acc_group : num->act_group;
  const double len = group && group < k ? group : k;
  const bool quantized = num->act_scheme != TN_ACT_NONE;
  const double groups = quantized || group ? ceil(k / len) : 1;
  const double inner = gamma_of(len, unit_roundoff(num->acc_inner));
  const double u = unit_roundoff(num->acc_outer) > 0x1p-24 ? unit_roundoff(num->acc_outer) : 0x1p-24;
  return gamma_of(groups + 6, u) + inner;
}
