/* SPDX-License-Identifier: Apache-2.0
 *
 * The damping of a task by what it gives on tokens that were kept out: some rows are solved with each, on the other
 * tokens.
 *
 * What a row q loses there, w x' + (r' - r) being what it is to give: with e = q - w and b = w D + A of those tokens,
 * it is e H e^T - 2 e b^T and a number that q does not change.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/quant/internal.h"

enum { ROWS = 64 };

typedef struct trial {
  const tni_quant_task *t;
  const tni_quant_held *held;
  int64_t rows, K;
  float *w, *b, *kept; /* [rows,K]: weights, what their errors meet on the tokens to solve on, and on those kept out */
  float *h, *use;      /* [K,K]: of the tokens to solve on */
  float *q, *y, *aim;  /* [rows,K]; aim: b, for the solver to work in */
  uint8_t *codes, *steps;
  float *scales, *zeros, *parents;
  void *scratch;
  tn_run *run;
} trial;

static bool make_room(trial *t) {
  const size_t n = (size_t)(t->rows * t->K), square = (size_t)(t->K * t->K);
  float **const sized[] = {&t->w, &t->b, &t->kept, &t->q, &t->y, &t->aim, &t->scales, &t->zeros};
  for (size_t i = 0; i < sizeof sized / sizeof *sized; i++)
    if (!(*sized[i] = malloc(n * sizeof(float)))) return false;
  t->h = malloc(square * sizeof(float));
  t->use = malloc(square * sizeof(float));
  t->parents = malloc((size_t)t->rows * sizeof(float));
  t->codes = malloc(n);
  t->steps = malloc(n);
  t->scratch = tni_quant_scratch(t->run);
  return t->h && t->use && t->parents && t->codes && t->steps && t->scratch;
}

static void trial_finish(trial *t) {
  void *const all[] = {t->w,   t->b,     t->kept,  t->q,      t->y,     t->aim,     t->h,
                       t->use, t->codes, t->steps, t->scales, t->zeros, t->parents, t->scratch};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
}

/* to [rows,K] = w D + A of the tokens that drift and added are of. */
static tn_status meet(trial *t, const float *drift, const float *added, float *to) {
  const int64_t K = t->K;
  const tn_status st =
      tni_quant_multiply(&(tni_quant_product){t->rows, K, K, t->w, drift, K, 1, K, 1, to}, t->scratch, t->run);
  for (int64_t i = 0; added && i < t->rows; i++) {
    const float *row = added + i * t->t->N / t->rows * K;
    for (int64_t k = 0; k < K; k++) to[i * K + k] += row[k];
  }
  return st;
}

static tn_status prepare(trial *t) {
  const int64_t K = t->K, square = K * K;
  for (int64_t i = 0; i < t->rows; i++)
    memcpy(t->w + i * K, t->t->w + i * t->t->N / t->rows * K, (size_t)K * sizeof(float));
  tn_status st = meet(t, t->t->drift, t->t->added, t->b);
  if (st == TN_OK) st = meet(t, t->held->drift, t->held->added, t->kept);
  for (int64_t i = 0; i < t->rows * K; i++) t->b[i] -= t->kept[i];
  for (int64_t i = 0; i < square; i++) t->h[i] = t->t->h[i] - t->held->h[i];
  return st;
}

/* The sum over rows of e H e^T - 2 e b^T. */
static tn_status lost(trial *t, double *out) {
  const int64_t K = t->K, n = t->rows * K;
  for (int64_t i = 0; i < n; i++) t->q[i] -= t->w[i];
  const tn_status st =
      tni_quant_multiply(&(tni_quant_product){t->rows, K, K, t->q, t->held->h, K, 1, K, 1, t->y}, t->scratch, t->run);
  *out = 0;
  for (int64_t i = 0; st == TN_OK && i < n; i++) *out += (double)t->q[i] * ((double)t->y[i] - 2 * (double)t->kept[i]);
  return st;
}

static tn_status try_damp(trial *t, float damp, double *out, tn_error *err) {
  const tni_quant_grid *g = t->t->grid;
  memcpy(t->use, t->h, (size_t)(t->K * t->K) * sizeof(float));
  memcpy(t->aim, t->b, (size_t)(t->rows * t->K) * sizeof(float));
  const tni_quant_task task = {.N = t->rows,
                               .K = t->K,
                               .w = t->w,
                               .h = t->use,
                               .added = t->aim,
                               .grid = g,
                               .damp = damp,
                               .sweeps = t->t->sweeps};
  const tni_quant_codes codes = {.codes = t->codes,
                                 .scales = t->scales,
                                 .zeros = g->levels ? NULL : t->zeros,
                                 .steps = g->steps ? t->steps : NULL,
                                 .parents = g->steps ? t->parents : NULL,
                                 .q = t->q};
  const tn_status st = tni_quant_solve(&task, &codes, t->run, err);
  return st == TN_OK ? lost(t, out) : st;
}

tn_status tni_quant_choose_damp(const tni_quant_task *task, const tni_quant_held *held, const float *damps, uint32_t n,
                                tn_run *run, float *out, tn_error *err) {
  trial t = {.t = task, .held = held, .rows = task->N < ROWS ? task->N : ROWS, .K = task->K, .run = run};
  tn_status st = make_room(&t) ? TN_OK : tni_fail_memory(err, NULL);
  double least = INFINITY, sum;
  if (st == TN_OK) st = prepare(&t);
  for (uint32_t i = 0; st == TN_OK && i < n; i++) {
    st = try_damp(&t, damps[i], &sum, err);
    if (st != TN_OK || !(sum < least)) continue;
    least = sum;
    *out = damps[i];
  }
  trial_finish(&t);
  return st;
}
