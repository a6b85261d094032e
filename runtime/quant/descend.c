/* SPDX-License-Identifier: Apache-2.0
 *
 * Coordinate descent on (q - w) H (q - w)^T: scales of groups in closed form, then zeros, then each code. A block's
 * gradients come from one product; what changes inside the block is followed there.
 */
#include <math.h>

#include "runtime/quant/loops.h"

enum { CODES = TNI_QUANT_CODES, VEC = TNI_QUANT_VEC };
/* A change has to gain more than float32 sums of this many products lose. */
static const float LEAST_GAIN = 1e-6f;

typedef struct row {
  const tni_quant_rows *s;
  int64_t r, n;   /* the row, columns in the block */
  float *g;       /* [n]: gradients, half of them */
  float *d;       /* [n]: q - w */
  float *q;       /* [n] */
  uint8_t *codes; /* of the block */
} row;

/* Adds x to the value of column k of the block. */
static void move_value(const row *w, int64_t k, float x) {
  const float *h = w->s->task->h + (w->s->b0 + k) * w->s->task->K + w->s->b0;
  w->d[k] += x;
  for (int64_t i = 0; i < w->n; i++) w->g[i] += x * h[i];
}

/* What changes along `dir` [m] from column k0 gains at most: gradient and curvature. H is symmetric, so that the sums
 * of all rows are made side by side. */
static void slope(const row *w, int64_t k0, int64_t m, const float *dir, float *first, float *second) {
  const int64_t K = w->s->task->K, b = w->s->b0 + k0;
  float num = 0, den = 0, sum[TNI_QUANT_REFIT];
  for (int64_t k = 0; k < m; k++) sum[k] = 0;
  for (int64_t i = 0; i < m; i++) {
    const float *h = w->s->task->h + (b + i) * K + b, d = dir[i];
    for (int64_t k = 0; k < m; k++) sum[k] += h[k] * d;
  }
  for (int64_t k = 0; k < m; k++) {
    num += dir[k] * w->g[k0 + k];
    den += dir[k] * sum[k];
  }
  *first = num;
  *second = den;
}

static bool gains(float x, float first, float second) {
  const float linear = 2 * x * first, square = x * x * second;
  return linear + square < -LEAST_GAIN * (fabsf(linear) + square);
}

/* Values of columns k0 .. k0 + m become those of codes at the fit. */
static void set_fit(const row *w, int64_t k0, int64_t m, const tni_quant_fit *f, const float *levels) {
  for (int64_t k = 0; k < m; k++) {
    const float v = levels[k] * f->scale, x = v - w->q[k0 + k];
    w->q[k0 + k] = v;
    if (x != 0) move_value(w, k0 + k, x);
  }
  tni_quant_fit_put(w->s, w->r, w->s->b0 + k0, f);
}

static void move_scale(const row *w, int64_t k0, int64_t m, tni_quant_fit *f) {
  const tni_quant_grid *g = w->s->task->grid;
  float levels[TNI_QUANT_REFIT], num, den;
  for (int64_t k = 0; k < m; k++)
    levels[k] = tni_quant_level(g, w->codes[(k0 + k) / g->vec], (uint32_t)((k0 + k) % g->vec), f->zero);
  slope(w, k0, m, levels, &num, &den);
  tni_quant_fit next = *f;
  if (den > 0 && tni_quant_snap(g, tni_quant_parent_of(w->s, w->r), f->scale - num / den, &next) &&
      next.scale != f->scale && gains(next.scale - f->scale, num, den)) {
    *f = next;
    set_fit(w, k0, m, f, levels);
  }
}

/* w = (code - zero) scale: a zero that grows by 1 takes scale off every weight. */
static void move_zero(const row *w, int64_t k0, int64_t m, tni_quant_fit *f) {
  const tni_quant_grid *g = w->s->task->grid;
  float levels[TNI_QUANT_REFIT], num, den;
  for (int64_t k = 0; k < m; k++) levels[k] = 1;
  slope(w, k0, m, levels, &num, &den);
  const float zero = den > 0 && f->scale != 0 ? tni_quant_snap_zero(g, f->zero + num / den / f->scale) : f->zero;
  if (zero == f->zero || !gains((f->zero - zero) * f->scale, num, den)) return;
  f->zero = zero;
  for (int64_t k = 0; k < m; k++) levels[k] = (float)w->codes[k0 + k] - zero;
  set_fit(w, k0, m, f, levels);
}

static void move_affine(const row *w, int64_t k, const tni_quant_fit *f) {
  const int64_t b = w->s->b0 + k;
  const float curve = w->s->task->h[b * w->s->task->K + b];
  const uint32_t code = tni_quant_nearest(w->s->task->grid, w->q[k] - w->g[k] / curve, f);
  if (code == w->codes[k]) return;
  const float v = ((float)code - f->zero) * f->scale, x = v - w->q[k];
  if (!gains(x, w->g[k], curve)) return;
  w->codes[k] = (uint8_t)code;
  w->q[k] = v;
  move_value(w, k, x);
}

/* Whether no code of one weight may be chosen: none gains anything. */
static bool none_gains(const float *levels, uint32_t n, float scale, float q, float first, float curve) {
  lanes_i any = {0};
  lanes l;
  uint32_t c = 0, words[TNI_QUANT_WIDE], all = 0;
  for (; c + TNI_QUANT_WIDE <= n; c += TNI_QUANT_WIDE) {
    memcpy(&l, levels + c, sizeof l);
    const lanes d = scale * l - q;
    any |= d * (first + d * curve) < all_lanes(0);
  }
  memcpy(words, &any, sizeof words);
  for (int i = 0; i < TNI_QUANT_WIDE; i++) all |= words[i];
  for (; c < n; c++) {
    const float d = scale * levels[c] - q;
    all |= d * (first + d * curve) < 0;
  }
  return !all;
}

static void move_levels(const row *w, int64_t k, uint32_t m, const tni_quant_fit *f) {
  const tni_quant_grid *g = w->s->task->grid;
  const uint32_t n_codes = g->grid.n_codes, old = w->codes[k / g->vec];
  const int64_t K = w->s->task->K;
  const float *h = w->s->task->h + (w->s->b0 + k) * (K + 1);
  float cost[CODES], d[VEC][CODES], scale = 0;
  if (m == 1 && none_gains(g->levels, n_codes, f->scale, w->q[k], 2 * w->g[k], *h)) return;
  memset(cost, 0, n_codes * sizeof *cost);
  for (uint32_t j = 0; j < m; j++) {
    const float *l = g->levels + j * n_codes, q = w->q[k + j], first = 2 * w->g[k + j], curve = h[j * K + j];
    for (uint32_t c = 0; c < n_codes; c++) d[j][c] = f->scale * l[c] - q;
    for (uint32_t c = 0; c < n_codes; c++) cost[c] += d[j][c] * (first + d[j][c] * curve);
    for (uint32_t i = 0; i < j; i++)
      for (uint32_t c = 0; c < n_codes; c++) cost[c] += 2 * d[i][c] * d[j][c] * h[i * K + j];
  }
  const uint32_t best = first_least(cost, n_codes);
  for (uint32_t j = 0; j < m; j++)
    scale += fabsf(2 * d[j][best] * w->g[k + j]) + d[j][best] * d[j][best] * h[j * K + j];
  if (best == old || !(cost[best] < -LEAST_GAIN * scale)) return;
  w->codes[k / g->vec] = (uint8_t)best;
  for (uint32_t j = 0; j < m; j++) {
    const float v = tni_quant_level(g, best, j, 0) * f->scale, x = v - w->q[k + j];
    w->q[k + j] = v;
    if (x != 0) move_value(w, k + j, x);
  }
}

static void descend_row(const row *w) {
  const tni_quant_rows *s = w->s;
  const tni_quant_grid *g = s->task->grid;
  const bool zeros = !g->levels && g->grid.zero_kind != TN_ZERO_HALF;
  tni_quant_fit f = {0};
  for (int64_t k = 0; k < w->n; k += g->vec) {
    const int64_t left = w->n - k, m = left < s->group ? left : s->group;
    if (k == 0 || (s->b0 + k) % s->group == 0) {
      f = tni_quant_fit_at(s, w->r, s->b0 + k);
      if (s->refit) move_scale(w, k, m, &f);
      if (s->refit && zeros) move_zero(w, k, m, &f);
    }
    if (g->levels)
      move_levels(w, k, left < g->vec ? (uint32_t)left : g->vec, &f);
    else
      move_affine(w, k, &f);
  }
}

static void block_rows(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  const tni_quant_rows *s = arg;
  const int64_t K = s->task->K, n = s->b1 - s->b0, vec = s->task->grid->vec;
  (void)worker;
  for (int64_t i = begin; i < end; i++) {
    const int64_t r = s->r0 + i;
    descend_row(&(row){.s = s,
                       .r = r,
                       .n = n,
                       .g = s->y + i * n,
                       .d = s->e + i * K + s->b0,
                       .q = s->out->q + r * K + s->b0,
                       .codes = s->out->codes + r * ((K + vec - 1) / vec) + s->b0 / vec});
  }
}

static tn_status sweep(tni_quant_rows *s) {
  const int64_t K = s->task->K, rows = s->r1 - s->r0;
  for (s->b0 = 0; s->b0 < K; s->b0 = s->b1) {
    s->b1 = s->b0 + s->block < K ? s->b0 + s->block : K;
    const tn_status st = tni_quant_multiply(
        &(tni_quant_product){rows, s->b1 - s->b0, K, s->e, s->task->h + s->b0, K, 1, K, 1, s->y}, s->scratch, s->run);
    if (st) return st;
    s->run->parallel_for(s->run, rows, 4, block_rows, s);
    if (s->run->cancelled(s->run)) return TN_E_CANCELLED;
  }
  return TN_OK;
}

static void start_rows(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  const tni_quant_rows *s = arg;
  const int64_t K = s->task->K;
  (void)worker;
  for (int64_t i = begin; i < end; i++)
    for (int64_t k = 0; k < K; k++) s->e[i * K + k] = s->out->q[(s->r0 + i) * K + k] - s->w[i * K + k];
}

tn_status tni_quant_descend(tni_quant_rows *s) {
  tn_status st = TN_OK;
  s->run->parallel_for(s->run, s->r1 - s->r0, 4, start_rows, s);
  for (int i = 0; st == TN_OK && i < s->task->sweeps; i++) st = sweep(s);
  return st;
}
