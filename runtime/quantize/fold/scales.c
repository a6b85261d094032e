/* SPDX-License-Identifier: Apache-2.0
 *
 * Scales of channels, by search. With s, a product reads x / s and holds W s: what rounding W s to the grid loses under
 * the moments of x / s says how good s is. Tried are powers of the root mean square of x and of W's columns. (AWQ,
 * arXiv 2306.00978, searches the power of x.)
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/quantize/fold/fold.h"

enum { ROWS = 256, OF_X = 5, OF_W = 3 };

typedef struct search {
  const tni_fold *f;
  const tni_fold_place *p;
  const float *h;
  const tni_quant_grid *grid;
  tn_run *run;
  tn_error *err;
  int64_t rows, K;
  float *w;        /* [rows,K]: some of all readers' */
  float *x2, *w2;  /* [head]: mean squares, 1 in the mean */
  float *ws, *q;   /* [rows,K] */
  float *hs;       /* [K,K] */
  float *squares;  /* [K]: its diagonal */
  uint8_t *codes, *steps;
  float *scales, *zeros, *parents;
} search;

static bool make_room(search *s) {
  const size_t n = (size_t)(s->rows * s->K), square = (size_t)(s->K * s->K), head = (size_t)s->p->head;
  s->w = malloc(n * sizeof(float));
  s->ws = malloc(n * sizeof(float));
  s->q = malloc(n * sizeof(float));
  s->codes = malloc(n);
  s->steps = malloc(n);
  s->scales = malloc(n * sizeof(float));
  s->zeros = malloc(n * sizeof(float));
  s->parents = malloc((size_t)s->rows * sizeof(float));
  s->hs = malloc(square * sizeof(float));
  s->squares = malloc((size_t)s->K * sizeof(float));
  s->x2 = calloc(head, sizeof(float));
  s->w2 = calloc(head, sizeof(float));
  return s->w && s->ws && s->q && s->codes && s->steps && s->scales && s->zeros && s->parents && s->hs && s->squares &&
         s->x2 && s->w2;
}

static void search_finish(search *s) {
  free(s->w);
  free(s->ws);
  free(s->q);
  free(s->codes);
  free(s->steps);
  free(s->scales);
  free(s->zeros);
  free(s->parents);
  free(s->hs);
  free(s->squares);
  free(s->x2);
  free(s->w2);
}

static const tni_tensor *matrix_of(const search *s, uint32_t i) {
  return tni_graph_value(s->f->g, s->p->reader[i].value)->tensor;
}

static int64_t rows_of(const search *s, uint32_t i) { return matrix_of(s, i)->dims[1 - s->p->reader[i].axis]; }

static int64_t some_of(const search *s, uint32_t i) {
  const int64_t most = ROWS / s->p->n_readers, n = rows_of(s, i);
  return n < most ? n : most;
}

/* Rows of each reader, taken evenly. */
static void read_rows(search *s) {
  float *to = s->w;
  for (uint32_t i = 0; i < s->p->n_readers; i++) {
    const tni_tensor *t = matrix_of(s, i);
    const int64_t N = rows_of(s, i), some = some_of(s, i);
    for (int64_t r = 0; r < some; r++, to += s->K) {
      const int64_t n = r * N / some;
      if (s->p->reader[i].axis == 1)
        tni_tensor_to_f32(t, n * s->K, s->K, to);
      else
        for (int64_t k = 0; k < s->K; k++) tni_tensor_to_f32(t, k * N + n, 1, to + k);
    }
  }
}

static void to_unit_mean(float *v, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; i++) sum += (double)v[i];
  for (int64_t i = 0; i < n; i++) v[i] = sum > 0 ? (float)((double)v[i] * (double)n / sum) : 1;
}

static void take_squares(search *s) {
  const int64_t head = s->p->head, K = s->K;
  for (int64_t k = 0; k < K; k++) s->x2[k % head] += s->h[k * K + k];
  for (int64_t i = 0; i < s->rows * K; i++) s->w2[i % K % head] += s->w[i] * s->w[i];
  to_unit_mean(s->x2, head);
  to_unit_mean(s->w2, head);
}

/* x2^a w2^-b, 1 in the geometric mean. */
static void make_scales(const search *s, float a, float b, float *out) {
  static const float LEAST = 1e-4f;
  const int64_t head = s->p->head;
  double sum = 0;
  for (int64_t k = 0; k < head; k++) {
    out[k] = a * logf(fmaxf(s->x2[k], LEAST)) - b * logf(fmaxf(s->w2[k], LEAST));
    sum += (double)out[k];
  }
  for (int64_t k = 0; k < head; k++) out[k] = expf(out[k] - (float)(sum / (double)head));
}

static tn_status try_scales(search *s, const float *by, double *error) {
  const int64_t K = s->K, head = s->p->head;
  const tni_quant_grid *g = s->grid;
  for (int64_t i = 0; i < s->rows * K; i++) s->ws[i] = s->w[i] * by[i % K % head];
  for (int64_t i = 0; i < K; i++)
    for (int64_t k = 0; k < K; k++) s->hs[i * K + k] = s->h[i * K + k] / (by[i % head] * by[k % head]);
  for (int64_t k = 0; k < K; k++) s->squares[k] = s->hs[k * K + k];
  const tni_quant_task task = {.N = s->rows, .K = K, .w = s->ws, .squares = s->squares, .grid = g, .damp = .1f};
  const tni_quant_codes codes = {.codes = s->codes,
                                 .scales = s->scales,
                                 .zeros = g->levels ? NULL : s->zeros,
                                 .steps = g->steps ? s->steps : NULL,
                                 .parents = g->steps ? s->parents : NULL,
                                 .q = s->q};
  const tn_status st = tni_quant_solve(&task, &codes, s->run, s->err);
  return st == TN_OK ? tni_quant_error(s->ws, s->q, s->hs, s->rows, K, s->run, error, s->err) : st;
}

static tn_status search_all(search *s, float *best, double *gain) {
  const int64_t head = s->p->head;
  float *by = malloc((size_t)head * sizeof *by);
  double least = INFINITY, plain = INFINITY;
  tn_status st = by ? TN_OK : tni_fail_memory(s->err, s->f->g->name);
  for (int a = 0; st == TN_OK && a < OF_X; a++)
    for (int b = 0; st == TN_OK && b < OF_W; b++) {
      double error = INFINITY;
      make_scales(s, (float)a / 16, (float)b / 8, by);
      st = try_scales(s, by, &error);
      if (!a && !b) plain = error;
      if (st != TN_OK || !(error < least)) continue;
      least = error;
      memcpy(best, by, (size_t)head * sizeof *by);
    }
  free(by);
  *gain = plain > 0 && isfinite(least) ? least / plain : 1;
  return st;
}

tn_status tni_fold_search(const tni_fold *f, const tni_fold_place *p, const float *h, const tni_quant_grid *grid,
                          tn_run *run, float *out, double *gain, tn_error *err) {
  search s = {.f = f, .p = p, .h = h, .grid = grid, .run = run, .err = err, .K = p->K};
  for (uint32_t i = 0; i < p->n_readers; i++) s.rows += some_of(&s, i);
  for (int64_t k = 0; k < p->head; k++) out[k] = 1;
  *gain = 1;
  tn_status st = make_room(&s) ? TN_OK : tni_fail_memory(err, f->g->name);
  if (st == TN_OK) {
    read_rows(&s);
    take_squares(&s);
    st = search_all(&s, out, gain);
  }
  search_finish(&s);
  return st;
}
