/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/quant/internal.h"

/* The weights of columns: second moments over their mean, and what is added to them: damp, 1 where the text says nothing. unit:
 * 1 / their mean, or 0. */
static tn_status damp_squares(tni_quant_rows *s, tn_error *err) {
  const tni_quant_task *t = s->task;
  const float *d = t->h ? t->h : t->squares;
  const int64_t K = t->K, step = t->h ? K + 1 : 1;
  double trace = 0;
  for (int64_t k = 0; d && k < K; k++) {
    trace += (double)d[k * step];
    if (d[k * step] < 0) return tni_fail(err, TN_E_INVALID, NULL, "a second moment below 0");
  }
  if (!isfinite(trace)) return tni_fail(err, TN_E_INVALID, NULL, "second moments are not finite");
  s->unit = trace > 0 ? (float)((double)K / trace) : 0;
  for (int64_t k = 0; k < K; k++) {
    s->weights[k] = d ? d[k * step] * s->unit : 0;
    s->weights[k] += trace > 0 ? t->damp : 1;
  }
  return TN_OK;
}

/* h becomes h / mean diagonal + damp I. */
static void damp_moments(const tni_quant_rows *s) {
  float *h = s->task->h;
  const int64_t K = s->task->K;
  for (int64_t i = 0; i < K * K; i++) h[i] *= s->unit;
  for (int64_t k = 0; k < K; k++) h[k * K + k] = s->weights[k];
}

static bool all_finite(const float *w, int64_t n) {
  float sum = 0; /* NaN once one of them is not finite */
  for (int64_t i = 0; i < n; i++) sum += w[i] * 0.f;
  return sum == 0;
}

/* A row's groups by its parent: what they leave. put: they are kept. */
static double fit_row(const tni_quant_rows *s, int64_t r, float parent, bool put, float *largest) {
  const tni_quant_grid *g = s->task->grid;
  const int64_t K = s->task->K;
  double sum = 0, err;
  for (int64_t k = 0; k < K; k += s->group) {
    const int64_t n = K - k < s->group ? K - k : s->group;
    const tni_quant_fit f = s->loops->fit_group(g, parent, s->w + (r - s->r0) * K + k, s->weights + k, n, &err);
    *largest = fmaxf(*largest, fabsf(f.scale));
    sum += err;
    if (put) tni_quant_fit_put(s, r, k, &f);
  }
  return sum;
}

/* The ratio of the largest step to the next one. */
static float ratio_of_steps(const tni_quant_grid *g) {
  float top = 0, next = 0;
  for (uint32_t i = 0; i < g->n_steps; i++) top = fmaxf(top, g->steps[i]);
  for (uint32_t i = 0; i < g->n_steps; i++)
    if (g->steps[i] < top) next = fmaxf(next, g->steps[i]);
  return next > 0 ? top / next : 1;
}

/* The parent by which a row's groups leave least, among those with which the largest scale is, or is nearly, the
 * largest step. */
static float search_parent(const tni_quant_rows *s, int64_t r) {
  enum { PARTS = 4 };
  const tni_quant_grid *g = s->task->grid;
  float largest = 0, none = 0;
  (void)fit_row(s, r, -1, false, &largest);
  const float by = powf(ratio_of_steps(g), 1.f / PARTS);
  float best = tni_quant_parent(g, largest), at = largest / by;
  double least = INFINITY;
  for (int i = 0; i < PARTS + 1 && largest > 0; i++, at *= by) {
    const float parent = tni_quant_parent(g, at);
    const double err = fit_row(s, r, parent, false, &none);
    if (err < least) {
      least = err;
      best = parent;
    }
  }
  return best;
}

/* First scales, from W and the diagonal: a row's parent, and what is not refitted later. */
static void first_fits(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  const tni_quant_rows *s = arg;
  const bool steps = s->task->grid->steps;
  (void)worker;
  for (int64_t r = s->r0 + begin; r < s->r0 + end; r++) {
    float parent = -1, largest = 0;
    if (steps) s->out->parents[r] = parent = search_parent(s, r);
    if (!steps || !s->refit) (void)fit_row(s, r, parent, true, &largest); /* else GPTQ fits the steps */
  }
}

static tn_status solve_rows(tni_quant_rows *s) {
  if (!s->refit || s->task->grid->steps) s->run->parallel_for(s->run, s->r1 - s->r0, 4, first_fits, s);
  tn_status st = s->loops->gptq(s);
  return st == TN_OK && s->task->h ? s->loops->descend(s) : st;
}

/* Without feedback: U is diagonal, and no earlier column owes anything. */
static void diagonal(const tni_quant_rows *s, float *u) {
  const int64_t K = s->task->K;
  memset(u, 0, (size_t)(K * s->u_row) * sizeof *u);
  for (int64_t k = 0; k < K; k++) u[k * s->u_row + k % s->block] = 1 / sqrtf(s->weights[k]);
}

/* y [M,K] = a [M,K] U^T, or a U. U is upper: where it is 0, in whole blocks of a sum, nothing is multiplied. part
 * [M, STRIPE]. */
enum { STRIPE = 4 * TNI_KC };
static tn_status times_factor(const tni_quant_rows *s, int64_t M, const float *a, bool turned, float *part, float *y) {
  const int64_t K = s->task->K;
  tn_status st = TN_OK;
  for (int64_t n = 0; st == TN_OK && n < K; n += STRIPE) {
    const int64_t cols = K - n < STRIPE ? K - n : STRIPE, k = turned ? n : 0, to = turned ? K : n + cols;
    const float *u = s->u + k * (turned ? 1 : K) + n * (turned ? K : 1);
    st = tni_quant_multiply(&(tni_quant_product){M, cols, to - k, a + k, u, K, 1, turned ? 1 : K, turned ? K : 1, part},
                            s->scratch, s->run);
    for (int64_t m = 0; st == TN_OK && m < M; m++) memcpy(y + m * K + n, part + m * cols, (size_t)cols * sizeof *y);
  }
  return st;
}

/* y [M,K] = a [M,K] H^-1, a in the unit of the task's moments and H the damped ones. y may be a. */
static tn_status divide(const tni_quant_rows *s, int64_t M, const float *a, float *y, tn_error *err) {
  const int64_t K = s->task->K, most = TNI_GEMM_MOST;
  float *half = malloc((size_t)((M < most ? M : most) * K) * sizeof *half),
        *part = malloc(sizeof *part * most * STRIPE);
  tn_status st = half && part ? TN_OK : tni_fail_memory(err, NULL);
  for (int64_t i = 0; st == TN_OK && i < M; i += most) {
    const int64_t m = M - i < most ? M - i : most;
    st = times_factor(s, m, a + i * K, true, part, half);
    for (int64_t k = 0; st == TN_OK && k < m * K; k++) half[k] *= s->unit;
    if (st == TN_OK) st = times_factor(s, m, half, false, part, y + i * K);
  }
  free(half);
  free(part);
  return st;
}

/* The rows' aim: W, or W moved. aim: room for the rows where nothing is added, or NULL where nothing moves. */
static tn_status set_aim(tni_quant_rows *s, float *aim, tn_error *err) {
  const tni_quant_task *t = s->task;
  const int64_t K = t->K, rows = s->r1 - s->r0;
  const float *w = s->w = t->w + s->r0 * K;
  tn_status st = TN_OK;
  if (!t->h || (!aim && !t->added)) return TN_OK;
  if (t->added) aim = t->added + s->r0 * K;
  if (t->added)
    st = divide(s, rows, aim, aim, err);
  else
    memset(aim, 0, (size_t)(rows * K) * sizeof *aim);
  for (int64_t i = 0; st == TN_OK && i < rows * K; i++) aim[i] += w[i];
  if (st == TN_OK && t->drift)
    st = tni_quant_multiply(&(tni_quant_product){rows, K, K, w, t->drift, K, 1, K, 1, s->e}, s->scratch, s->run);
  for (int64_t i = 0; st == TN_OK && t->drift && i < rows * K; i++) aim[i] += s->e[i];
  s->w = aim;
  return st;
}

static void set_sizes(tni_quant_rows *s) {
  const tni_quant_task *t = s->task;
  const uint32_t group = t->grid->grid.group;
  s->group = group && group < t->K ? group : (t->K + t->grid->vec - 1) / t->grid->vec * t->grid->vec;
  s->groups = (t->K + s->group - 1) / s->group;
  s->refit = s->group <= TNI_QUANT_REFIT;
  const int64_t unit = s->refit ? s->group : t->grid->vec;
  s->block = unit * (unit < TNI_QUANT_BLOCK ? TNI_QUANT_BLOCK / unit : 1);
  s->u_row = t->h ? t->K : s->block;
}

static tn_status prepare(tni_quant_rows *s, float *u, tn_error *err) {
  const tni_quant_task *t = s->task;
  const int64_t K = t->K;
  tn_status st = damp_squares(s, err);
  if (st) return st;
  if (t->h) {
    damp_moments(s);
    memcpy(u, t->h, (size_t)(K * K) * sizeof *u);
    if ((st = tni_quant_factor(u, K, s->scratch, s->run, err))) return st;
  } else {
    diagonal(s, u);
  }
  for (int64_t k = 0; k < K; k++) {
    const float pivot = u[k * s->u_row + (t->h ? k : k % s->block)];
    s->pivots[k] = 1 / (pivot * pivot);
  }
  /* D becomes D H^-1: what a row is multiplied by to be moved. */
  return t->drift && t->h ? divide(s, K, t->drift, t->drift, err) : TN_OK;
}

static tn_status check_task(const tni_quant_task *t, const tni_quant_codes *out, tn_error *err) {
  const bool affine = !t->grid->levels;
  if (t->N < 1 || t->K < 1 || !(t->damp > 0) || affine != (out->zeros != NULL) ||
      (t->grid->steps != NULL) != (out->steps && out->parents))
    return tni_fail(err, TN_E_INTERNAL, NULL, "a solver's task that is not whole");
  if (!all_finite(t->w, t->N * t->K)) return tni_fail(err, TN_E_INVALID, NULL, "a weight is not finite");
  return TN_OK;
}

tn_status tni_quant_solve(const tni_quant_task *t, const tni_quant_codes *out, tn_run *run, tn_error *err) {
  return tni_quant_solve_by(tni_quant_loops_variant(0), t, out, run, err);
}

tn_status tni_quant_solve_by(const tni_quant_loops *loops, const tni_quant_task *t, const tni_quant_codes *out,
                             tn_run *run, tn_error *err) {
  tn_status st = check_task(t, out, err);
  if (st) return st;
  const size_t K = (size_t)t->K, rows = t->N < TNI_QUANT_ROWS ? (size_t)t->N : TNI_QUANT_ROWS;
  const bool moves = t->drift && !t->added && t->h;
  float *aim = moves ? malloc(rows * K * sizeof *aim) : NULL;
  tni_quant_rows s = {.task = t,
                      .out = out,
                      .e = malloc(rows * K * sizeof(float)),
                      .y = malloc(rows * TNI_QUANT_BLOCK_MOST * sizeof(float)),
                      .weights = malloc(K * sizeof(float)),
                      .pivots = malloc(K * sizeof(float)),
                      .scratch = tni_quant_scratch(run),
                      .run = run,
                      .loops = loops};
  set_sizes(&s);
  float *u = malloc(K * (size_t)s.u_row * sizeof *u);
  s.u = u;
  st = u && s.e && s.y && s.weights && s.pivots && s.scratch && (aim || !moves) ? prepare(&s, u, err)
                                                                                : tni_fail_memory(err, NULL);
  for (s.r0 = 0; st == TN_OK && s.r0 < t->N; s.r0 = s.r1) {
    s.r1 = s.r0 + TNI_QUANT_ROWS < t->N ? s.r0 + TNI_QUANT_ROWS : t->N;
    st = set_aim(&s, aim, err);
    if (st == TN_OK) st = solve_rows(&s);
  }
  free(u);
  free(aim);
  free(s.e);
  free(s.y);
  free(s.weights);
  free(s.pivots);
  free(s.scratch);
  return st;
}
