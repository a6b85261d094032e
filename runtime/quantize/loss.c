/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/quantize/loss.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/ops/kernel/kernel.h"

static bool is_float(const tni_value *v) { return v->pub.dtype == TN_DT_F32 || v->pub.dtype == TN_DT_F16; }

tn_status tni_qz_loss_find(tni_qz_loss *l, tni_qz_walker *w) {
  const tni_graph *g = w->g;
  l->output = TN_NONE;
  for (uint32_t i = 0; i < g->n_outputs && !l->logits; i++) {
    const tni_value *v = tni_graph_value(g, g->outputs[i]);
    if (!is_float(v) || v->pub.rank < 2 || w->fixed[g->outputs[i]]) continue;
    l->logits = strcmp(v->pub.name, "logits") == 0;
    if (l->logits || l->output == TN_NONE) l->output = g->outputs[i];
  }
  if (l->output == TN_NONE)
    return tni_fail(w->z->err, TN_E_UNSUPPORTED, w->z->path, "'%s' has no output of floats to measure", w->z->path);
  w->last[l->output] = g->n_nodes; /* to be kept */
  return TN_OK;
}

/* The rest of the model on a copy of a sequence's state: the output in f32. */
static tn_status run_rest(tni_qz_loss *l, tni_qz_walker *w, uint32_t seq, tn_id from, float **out, int64_t *rows) {
  tni_qz_kept **state = w->state + (size_t)seq * w->g->n_values;
  tni_qz_kept **copy = calloc((size_t)w->g->n_values + 1, sizeof *copy);
  tn_status st = copy ? TN_OK : tni_fail_memory(w->z->err, w->z->path);
  int64_t count = 1;
  *out = NULL;
  for (tn_id v = 0; st == TN_OK && v < w->g->n_values; v++)
    if (state[v]) st = tni_qz_hold_again(w->z, state[v], &copy[v]);
  if (st == TN_OK) st = tni_qz_run_nodes(w, copy, from, w->g->n_nodes);
  const tni_tensor *t = st == TN_OK && copy[l->output] ? &copy[l->output]->t : NULL;
  for (uint32_t i = 0; t && i < t->rank; i++) count *= t->dims[i];
  if (st == TN_OK && (!t || t->rank < 2 || count < 1))
    st = tni_fail(w->z->err, TN_E_UNSUPPORTED, w->z->path, "'%s' gave no output to measure", w->z->path);
  if (st == TN_OK && !(*out = malloc((size_t)count * sizeof **out))) st = tni_fail_memory(w->z->err, w->z->path);
  if (st == TN_OK) {
    tni_tensor_to_f32(t, 0, count, *out);
    l->V = t->dims[t->rank - 1];
    *rows = count / l->V;
  }
  for (tn_id v = 0; copy && v < w->g->n_values; v++) tni_qz_let_go(w->z, &copy[v]);
  free(copy);
  return st;
}

typedef struct rows {
  const float *base;
  float *y;
  double *sum;
  int64_t V;
  bool logits;
} rows;

static double log_of_sum(const float *y, int64_t n) {
  float most = y[0];
  double sum = 0;
  for (int64_t i = 1; i < n; i++) most = fmaxf(most, y[i]);
  for (int64_t i = 0; i < n; i++) sum += (double)expf(y[i] - most);
  return (double)most + log(sum);
}

static void normalise(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  const rows *r = arg;
  (void)worker;
  for (int64_t i = begin; i < end; i++) {
    float *y = r->y + i * r->V;
    const double sum = log_of_sum(y, r->V);
    for (int64_t k = 0; k < r->V; k++) y[k] = (float)((double)y[k] - sum);
  }
}

/* sum [2 rows]: what a row adds above the line, and below it. */
static void compare(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  const rows *r = arg;
  (void)worker;
  for (int64_t i = begin; i < end; i++) {
    const float *y = r->y + i * r->V, *b = r->base + i * r->V;
    const double sum = r->logits ? log_of_sum(y, r->V) : 0;
    double above = 0, below = 0;
    for (int64_t k = 0; k < r->V; k++) {
      if (b[k] == -INFINITY && (r->logits || y[k] == b[k])) continue; /* a word that a mask forbids */
      const double x = (double)b[k], d = x - ((double)y[k] - sum);
      above += r->logits ? (double)expf(b[k]) * d : d * d;
      below += x * x;
    }
    r->sum[2 * i] = above;
    r->sum[2 * i + 1] = r->logits ? 1 : below;
  }
}

tn_status tni_qz_loss_output(tni_qz_loss *l, tni_qz_walker *w, uint32_t seq, tn_id from, float **out, int64_t *n) {
  const tn_status st = run_rest(l, w, seq, from, out, n);
  rows r = {.y = *out, .V = l->V};
  tn_run *run = &w->z->run.run;
  if (st == TN_OK && l->logits) run->parallel_for(run, *n, 4, normalise, &r);
  return st;
}

tn_status tni_qz_loss_begin(tni_qz_loss *l, tni_qz_walker *w) {
  *l = (tni_qz_loss){.n_seqs = w->n_seqs,
                     .n = calloc(w->n_seqs, sizeof *l->n),
                     .base = calloc(w->n_seqs, sizeof *l->base)};
  tn_status st = l->n && l->base ? tni_qz_loss_find(l, w) : tni_fail_memory(w->z->err, w->z->path);
  for (uint32_t s = 0; st == TN_OK && s < w->n_seqs; s++) st = tni_qz_loss_output(l, w, s, 0, &l->base[s], &l->n[s]);
  return st;
}

void tni_qz_loss_end(tni_qz_loss *l) {
  for (uint32_t s = 0; l->base && s < l->n_seqs; s++) free(l->base[s]);
  free(l->base);
  free(l->n);
  *l = (tni_qz_loss){0};
}

tn_status tni_qz_loss_of(tni_qz_loss *l, tni_qz_walker *w, tn_id from, double *out) {
  double above = 0, below = 0;
  tn_status st = TN_OK;
  for (uint32_t s = 0; st == TN_OK && s < l->n_seqs; s++) {
    float *y;
    int64_t n = 0;
    st = run_rest(l, w, s, from, &y, &n);
    double *sum = st == TN_OK ? malloc(2 * (size_t)n * sizeof *sum) : NULL;
    if (st == TN_OK && !sum) st = tni_fail_memory(w->z->err, w->z->path);
    if (st == TN_OK) {
      rows r = {.base = l->base[s], .y = y, .sum = sum, .V = l->V, .logits = l->logits};
      tn_run *run = &w->z->run.run;
      run->parallel_for(run, n, 4, compare, &r);
      for (int64_t i = 0; i < n; i++) above += sum[2 * i], below += sum[2 * i + 1];
    }
    free(sum);
    free(y);
  }
  if (st == TN_OK && !(isfinite(above) && isfinite(below)))
    st = tni_fail(w->z->err, TN_E_UNSUPPORTED, w->z->path,
                  "losses of '%s' are no numbers: its '%s' has infinities or NaN", w->z->path,
                  tni_graph_value(w->g, l->output)->pub.name);
  *out = below > 0 && above > 0 ? above / below : 0;
  return st;
}
