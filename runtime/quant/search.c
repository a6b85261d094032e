/* SPDX-License-Identifier: Apache-2.0
 *
 * The scale and zero of a group by search: starts over a range of sizes, each refitted by least squares and brought
 * onto the grid, or the steps of a row's scale that lie there; the best of those stays.
 */
#include <math.h>

#include "runtime/quant/loops.h"

enum { STARTS = 10, PART = 16, LANES = TNI_QUANT_WIDE, PARTS = PART / LANES };

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

/* One weight a code: level by level over 16 weights, those past m of weight 0. Of equal costs the first code's level
 * stays. */
static void nearest_singles(const tni_quant_grid *g, float scale, const float *w, const float *wt, int64_t m,
                            float *costs, float *levels) {
  lanes x[PARTS] = {{0}}, weight[PARTS] = {{0}}, cost[PARTS], level[PARTS] = {{0}};
  memcpy(x, w, (size_t)m * sizeof *w);
  memcpy(weight, wt, (size_t)m * sizeof *wt);
  for (int i = 0; i < PARTS; i++) cost[i] = all_lanes(INFINITY);
  for (uint32_t c = 0; c < g->grid.n_codes; c++) {
    const lanes l = all_lanes(g->levels[c]), v = all_lanes(scale * g->levels[c]);
    for (int i = 0; i < PARTS; i++) {
      const lanes d = x[i] - v, e = weight[i] * d * d;
      const lanes_i less = e < cost[i];
      level[i] = chosen(less, l, level[i]);
      cost[i] = chosen(less, e, cost[i]);
    }
  }
  memcpy(costs, cost, sizeof cost);
  memcpy(levels, level, sizeof level);
}

static void tally_single(const tni_quant_grid *g, const tni_quant_fit *f, const float *w, const float *wt, int64_t n,
                         tally *t) {
  float cost[PART], level[PART];
  *t = (tally){0};
  for (int64_t k = 0; k < n; k += PART) {
    const int64_t m = n - k < PART ? n - k : PART;
    nearest_singles(g, f->scale, w + k, wt + k, m, cost, level);
    for (int64_t i = 0; i < m; i++) {
      const float l = level[i], at = wt[k + i];
      t->err += (double)cost[i];
      t->num += (double)(at * w[k + i] * l);
      t->den += (double)(at * l * l);
    }
  }
}

/* Its err alone; or some sum that is not below `most`, where it is not. */
static double error_single(const tni_quant_grid *g, const tni_quant_fit *f, const float *w, const float *wt, int64_t n,
                           double most) {
  float costs[PART];
  double err = 0;
  for (int64_t k = 0; k < n && err < most; k += PART) {
    const int64_t m = n - k < PART ? n - k : PART;
    lanes x[PARTS] = {{0}}, weight[PARTS] = {{0}}, cost[PARTS];
    memcpy(x, w + k, (size_t)m * sizeof *w);
    memcpy(weight, wt + k, (size_t)m * sizeof *wt);
    for (int i = 0; i < PARTS; i++) cost[i] = all_lanes(INFINITY);
    for (uint32_t c = 0; c < g->grid.n_codes; c++) {
      const lanes v = all_lanes(f->scale * g->levels[c]);
      for (int i = 0; i < PARTS; i++) {
        const lanes d = x[i] - v;
        cost[i] = lesser(weight[i] * d * d, cost[i]);
      }
    }
    memcpy(costs, cost, sizeof cost);
    for (int64_t i = 0; i < m; i++) err += (double)costs[i];
  }
  return err;
}

#define INLINE inline __attribute__((always_inline))

/* What m weights that share a code cost at LANES codes from c on. */
typedef struct shared {
  const tni_quant_grid *g;
  float scale;
  const float *w, *wt;
  uint32_t m;
#ifdef TNI_QUANT_PICKS
  lanes at_values[TNI_QUANT_VEC]; /* each weight's costs at the values that levels hold */
#endif
} shared;

static INLINE shared share(const tni_quant_grid *g, float scale, const float *w, const float *wt, uint32_t m) {
  shared s = {.g = g, .scale = scale, .w = w, .wt = wt, .m = m};
#ifdef TNI_QUANT_PICKS
  lanes v;
  if (!g->values) return s;
  memcpy(&v, g->values, sizeof v);
  for (uint32_t j = 0; j < m; j++) {
    const lanes d = w[j] - scale * v;
    s.at_values[j] = wt[j] * d * d;
  }
#endif
  return s;
}

static INLINE lanes shared_cost(const shared *s, uint32_t c) {
  const uint32_t n = s->g->grid.n_codes;
  lanes cost = {0}, l;
#ifdef TNI_QUANT_PICKS
  if (s->g->values) {
    lanes_i which;
    for (uint32_t j = 0; j < s->m; j++) {
      memcpy(&which, s->g->which + j * n + c, sizeof which);
      cost += picked(s->at_values[j], which);
    }
    return cost;
  }
#endif
  for (uint32_t j = 0; j < s->m; j++) {
    memcpy(&l, s->g->levels + j * n + c, sizeof l);
    const lanes d = s->w[j] - s->scale * l;
    cost += s->wt[j] * d * d;
  }
  return cost;
}

static INLINE float shared_cost_of(const shared *s, uint32_t c) {
  float cost = 0;
  for (uint32_t j = 0; j < s->m; j++) {
    const float d = s->w[j] - s->scale * s->g->levels[j * s->g->grid.n_codes + c];
    cost += s->wt[j] * d * d;
  }
  return cost;
}

/* The first code of least cost, some codes at a time. */
static INLINE uint32_t nearest_of(const shared *s, float *least) {
  const uint32_t n = s->g->grid.n_codes;
  lanes low = all_lanes(INFINITY);
  lanes_i at, now;
  uint32_t best = 0, c = 0;
  for (int i = 0; i < LANES; i++) at[i] = i;
  for (now = at; c + LANES <= n; c += LANES, now += LANES) {
    const lanes cost = shared_cost(s, c);
    const lanes_i less = cost < low;
    low = chosen(less, cost, low);
    at = (less & now) | (~less & at);
  }
  *least = least_lane(low);
  if (c) best = (uint32_t)first_lane(low, at, *least);
  for (; c < n; c++) {
    const float cost = shared_cost_of(s, c);
    if (!(cost < *least)) continue;
    *least = cost;
    best = c;
  }
  return best;
}

/* Its cost alone. */
static INLINE float least_of(const shared *s) {
  const uint32_t n = s->g->grid.n_codes;
  lanes low = all_lanes(INFINITY);
  uint32_t c = 0;
  for (; c + LANES <= n; c += LANES) low = lesser(shared_cost(s, c), low);
  float least = least_lane(low);
  for (; c < n; c++) {
    const float cost = shared_cost_of(s, c);
    least = cost < least ? cost : least;
  }
  return least;
}

/* m a constant, so that what belongs to each weight stays in registers. */
#define OF_COUNT(f, ...)             \
  switch (m) {                       \
    case 2:                          \
      s = share(g, scale, w, wt, 2); \
      return f(__VA_ARGS__);         \
    case 4:                          \
      s = share(g, scale, w, wt, 4); \
      return f(__VA_ARGS__);         \
    case 8:                          \
      s = share(g, scale, w, wt, 8); \
      return f(__VA_ARGS__);         \
    default:                         \
      s = share(g, scale, w, wt, m); \
      return f(__VA_ARGS__);         \
  }

static uint32_t nearest(const tni_quant_grid *g, float scale, const float *w, const float *wt, uint32_t m,
                        float *least) {
  shared s;
  OF_COUNT(nearest_of, &s, least)
}

static float least_cost(const tni_quant_grid *g, float scale, const float *w, const float *wt, uint32_t m) {
  shared s;
  OF_COUNT(least_of, &s)
}

/* As error_single, of codes that several weights share. */
static double error_shared(const tni_quant_grid *g, const tni_quant_fit *f, const float *w, const float *wt, int64_t n,
                           double most) {
  double err = 0;
  for (int64_t k = 0; k < n && err < most; k += g->vec) {
    const uint32_t m = n - k < g->vec ? (uint32_t)(n - k) : g->vec;
    err += (double)least_cost(g, f->scale, w + k, wt + k, m);
  }
  return err;
}

static void tally_levels(const tni_quant_grid *g, const tni_quant_fit *f, const float *w, const float *wt, int64_t n,
                         tally *t) {
  if (g->vec == 1) {
    tally_single(g, f, w, wt, n, t);
    return;
  }
  *t = (tally){0};
  for (int64_t k = 0; k < n; k += g->vec) {
    const uint32_t m = n - k < g->vec ? (uint32_t)(n - k) : g->vec;
    float cost;
    const uint32_t best = nearest(g, f->scale, w + k, wt + k, m, &cost);
    t->err += (double)cost;
    for (uint32_t j = 0; j < m; j++) {
      const float l = g->levels[j * g->grid.n_codes + best];
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

/* t: of AFFINE the tally. */
static void consider(search *s, const tni_quant_fit *f, tally *t) {
  if (s->g->levels)
    t->err = (s->g->vec == 1 ? error_single : error_shared)(s->g, f, s->w, s->wt, s->n, s->err);
  else
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
