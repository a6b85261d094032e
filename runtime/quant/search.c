/* SPDX-License-Identifier: Apache-2.0
 *
 * The scale and zero of a group by search: starts over a range of sizes, each refitted by least squares and brought
 * onto the grid, or the steps of a row's scale that lie there; the best of those stays.
 */
#include <math.h>
#include <string.h>

#include "runtime/quant/internal.h"

enum { STARTS = 10 };

typedef float v4 __attribute__((vector_size(16)));
typedef int32_t v4i __attribute__((vector_size(16)));

static v4 lesser(v4 a, v4 b) {
  const v4i less = a < b;
  return (v4)((less & (v4i)a) | (~less & (v4i)b));
}

uint32_t tni_quant_least(const float *cost, uint32_t n) {
  v4 low[2] = {{INFINITY, INFINITY, INFINITY, INFINITY}, {INFINITY, INFINITY, INFINITY, INFINITY}}, c[2];
  uint32_t i = 0, at = 0;
  for (; i + 8 <= n; i += 8) {
    memcpy(c, cost + i, sizeof c);
    low[0] = lesser(c[0], low[0]);
    low[1] = lesser(c[1], low[1]);
  }
  low[0] = lesser(low[1], low[0]);
  float least = INFINITY;
  for (int k = 0; k < 4; k++) least = low[0][k] < least ? low[0][k] : least;
  for (; i < n; i++) least = cost[i] < least ? cost[i] : least;
  while (at < n && !(cost[at] <= least)) at++;
  return at < n ? at : 0;
}

/* What codes nearest to w at f leave, and the sums of the scale that would suit those codes best. */
typedef struct tally {
  double err, num, den, sum, weight; /* wt (w - v)^2; wt w l; wt l^2; wt (code - w / s); wt */
} tally;

static void tally_affine(const tni_quant_grid *g, const tni_quant_fit *f, const float *w, const float *wt, int64_t n,
                         tally *t) {
  const float inverse = 1 / f->scale, top = (float)(g->grid.n_codes - 1);
  float err = 0, num = 0, den = 0, sum = 0, weight = 0;
  for (int64_t k = 0; k < n; k++) {
    const float x = w[k] * inverse, at = x + f->zero, in = at > 0 ? (at < top ? at : top) : 0;
    const float code = in + 12582912.f - 12582912.f, l = code - f->zero, d = w[k] - l * f->scale;
    err += wt[k] * d * d;
    num += wt[k] * w[k] * l;
    den += wt[k] * l * l;
    sum += wt[k] * (code - x);
    weight += wt[k];
  }
  *t = (tally){(double)err, (double)num, (double)den, (double)sum, (double)weight};
}

static void tally_levels(const tni_quant_grid *g, const tni_quant_fit *f, const float *w, const float *wt, int64_t n,
                         tally *t) {
  const uint32_t n_codes = g->grid.n_codes;
  *t = (tally){0};
  for (int64_t k = 0; k < n; k += g->vec) {
    const uint32_t m = n - k < g->vec ? (uint32_t)(n - k) : g->vec;
    float cost[TNI_QUANT_CODES];
    memset(cost, 0, n_codes * sizeof *cost);
    for (uint32_t j = 0; j < m; j++) {
      const float *l = g->levels + j * n_codes, x = w[k + j], weight = wt[k + j];
      for (uint32_t c = 0; c < n_codes; c++) {
        const float d = x - f->scale * l[c];
        cost[c] += weight * d * d;
      }
    }
    const uint32_t best = tni_quant_least(cost, n_codes);
    t->err += (double)cost[best];
    for (uint32_t j = 0; j < m; j++) {
      const float l = g->levels[j * n_codes + best];
      t->num += (double)(wt[k + j] * w[k + j] * l);
      t->den += (double)(wt[k + j] * l * l);
    }
  }
}

static void take_tally(const tni_quant_grid *g, const tni_quant_fit *f, const float *w, const float *wt, int64_t n,
                       tally *t) {
  if (g->levels)
    tally_levels(g, f, w, wt, n, t);
  else
    tally_affine(g, f, w, wt, n, t);
}

typedef struct search {
  const tni_quant_grid *g;
  float parent;
  const float *w, *wt;
  int64_t n;
  tni_quant_fit best;
  double err;
} search;

static void consider(search *s, const tni_quant_fit *f, tally *t) {
  take_tally(s->g, f, s->w, s->wt, s->n, t);
  if (t->err < s->err) {
    s->err = t->err;
    s->best = *f;
  }
}

/* From one start: its codes, the scale that suits them, on the grid. */
static void start_at(search *s, float scale, float zero) {
  const bool moves = !s->g->levels && s->g->grid.zero_kind != TN_ZERO_HALF;
  tni_quant_fit f = {.scale = scale, .zero = zero}, snapped = f;
  tally t;
  if (scale == 0 || !isfinite(scale)) return;
  if (moves) f.zero = snapped.zero = tni_quant_snap_zero(s->g, zero);
  take_tally(s->g, &f, s->w, s->wt, s->n, &t);
  if (!(t.den > 0) || !tni_quant_snap(s->g, s->parent, (float)(t.num / t.den), &snapped)) return;
  consider(s, &snapped, &t);
  if (!moves || !(t.weight > 0)) return;
  f = snapped;
  f.zero = tni_quant_snap_zero(s->g, (float)(t.sum / t.weight));
  if (f.zero == snapped.zero) return;
  take_tally(s->g, &f, s->w, s->wt, s->n, &t);
  if (t.den > 0 && tni_quant_snap(s->g, s->parent, (float)(t.num / t.den), &f)) consider(s, &f, &t);
}

/* The size of the smallest start beside the one at which the largest weight meets the largest level. */
static float least_start(const tni_quant_grid *g) {
  if (g->grid.n_codes > 64) return .9f;
  return g->grid.n_codes >= 12 ? .72f : g->grid.n_codes >= 6 ? .55f : g->grid.n_codes >= 3 ? .35f : .2f;
}

/* Scales that are steps of the row's: each of them between two sizes, and the one next to the middle. */
static void search_steps(search *s, float least, float most) {
  tally t;
  tni_quant_fit f = {.zero = s->g->grid.zero};
  for (uint32_t i = 0; i < s->g->n_steps; i++) {
    f.step = i;
    f.scale = s->parent * s->g->steps[i];
    if (f.scale >= least && f.scale <= most) consider(s, &f, &t);
  }
  if (isfinite(s->err) || !tni_quant_snap(s->g, s->parent, (least + most) / 2, &f)) return;
  consider(s, &f, &t);
}

static void search_symmetric(search *s) {
  const tni_quant_grid *g = s->g;
  float most = 0;
  double sum = 0, weight = 0;
  for (int64_t k = 0; k < s->n; k++) {
    if (fabsf(s->w[k]) > fabsf(most)) most = s->w[k];
    sum += (double)s->wt[k] * (double)s->w[k] * (double)s->w[k];
    weight += (double)s->wt[k];
  }
  const bool table = g->vec > 1;
  const float unit = table ? (float)sqrt(sum / weight) / g->level_rms : fabsf(most) / g->level_max;
  const float least = table ? .7f : least_start(g), top = table ? 1.6f : 1.25f, step = (top - least) / (STARTS - 1);
  if (g->steps && s->parent >= 0 && !g->signs) {
    search_steps(s, unit * least * .8f, unit * top * 1.25f); /* where refitted scales of the starts would lie */
    return;
  }
  for (int i = 0; i < STARTS; i++) {
    const float f = unit * (least + step * (float)i);
    start_at(s, f, g->grid.zero);
    if (g->signs) start_at(s, -f, g->grid.zero);
  }
}

static void search_affine(search *s) {
  const float top = (float)(s->g->grid.n_codes - 1), least = least_start(s->g), step = (1.05f - least) / (STARTS - 1);
  float lo = s->g->grid.zero_kind == TN_ZERO_CODES ? 0 : s->w[0], hi = lo;
  for (int64_t k = 0; k < s->n; k++) {
    lo = fminf(lo, s->w[k]);
    hi = fmaxf(hi, s->w[k]);
  }
  for (int i = 0; i < STARTS; i++) {
    const float f = least + step * (float)i, scale = (hi - lo) * f / top;
    start_at(s, scale, -lo * f / scale);
    start_at(s, scale, top / 2 - (hi + lo) / 2 / scale);
  }
}

tni_quant_fit tni_quant_fit_group(const tni_quant_grid *g, float parent, const float *w, const float *wt, int64_t n,
                                  double *err) {
  search s = {.g = g, .parent = parent, .w = w, .wt = wt, .n = n, .err = INFINITY};
  const tni_quant_fit nothing = {.zero = tni_quant_snap_zero(g, g->grid.zero)};
  s.best = nothing;
  if (!g->levels && g->grid.zero_kind != TN_ZERO_HALF)
    search_affine(&s);
  else
    search_symmetric(&s);
  double zeros = 0;
  for (int64_t k = 0; k < n; k++) zeros += (double)(wt[k] * w[k] * w[k]);
  if (err) *err = s.err < zeros ? s.err : zeros;
  if (s.err < zeros || !isfinite(zeros)) return s.best;
  (void)tni_quant_snap(g, parent, 0, &s.best); /* nothing is better than zeros: the smallest scale there is */
  s.best.zero = nothing.zero;
  return s.best;
}
