/* SPDX-License-Identifier: Apache-2.0
 *
 * Sequences with a rounded table of embeddings, and what rounding it loses. Only the Gather reads it so: a product that
 * has the same constant keeps its floats.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/quantize/loss.h"
#include "runtime/quantize/sense.h"
#include "runtime/quantize/walk.h"

static const tni_qz_product *table_of(const tni_qz *z) { return &z->products[z->n_products]; }

/* All sequences, which have run nothing yet, up to the Gather and with it. q [N,K]: the rows. */
static tn_status run_with(tni_qz_walker *w, const float *q) {
  const tni_qz_product *t = table_of(w->z);
  float *stored;
  tn_status st = tni_qz_run_segment(w, 0, t->node);
  if (st == TN_OK) st = tni_qz_stored(w, t, q, &stored);
  if (st != TN_OK) return st;
  void *before = tni_qz_swap(w, t, stored);
  st = tni_qz_run_segment(w, t->node, t->node + 1);
  (void)tni_qz_swap(w, t, before);
  free(stored);
  return st;
}

tn_status tni_qz_run_rounded_table(tni_qz_walker *w, uint32_t format) {
  const tni_qz_product *t = table_of(w->z);
  float *rows = malloc((size_t)(t->N * t->K) * sizeof *rows), *q = NULL;
  tn_status st = rows ? tni_qz_read_weight(w->z, t, rows) : tni_fail_memory(w->z->err, t->name);
  if (st == TN_OK) st = tni_qz_rounded(w->z, t, format, rows, t->N, NULL, &q);
  free(rows);
  if (st == TN_OK) st = run_with(w, q);
  free(q);
  return st;
}

tn_status tni_qz_run_solved_table(tni_qz_walker *w) {
  tni_qz_solved s;
  tn_status st = tni_qz_solve(w->z, w->z->n_products, NULL, &s);
  if (st != TN_OK) return st;
  st = run_with(w, s.q);
  tni_qz_solved_finish(&s);
  return st;
}

/* --- losses --- */

/* Rows that the texts take: [n] of K floats, for free(), and how often each is taken. */
typedef struct taken {
  int64_t n;
  float *rows;
  double *count;
} taken;

static tn_status take_rows(const tni_qz *z, uint32_t n_seqs, taken *out) {
  const tni_qz_product *t = table_of(z);
  const tni_tensor *w = tni_graph_value(z->import->graph, t->weight)->tensor;
  uint32_t *times = calloc((size_t)t->N, sizeof *times);
  *out = (taken){0};
  if (!times) return tni_fail_memory(z->err, t->name);
  for (uint32_t s = 0; s < n_seqs; s++)
    for (int64_t i = 0; i < z->seqs[s].n; i++) {
      const int64_t id = z->seqs[s].ids[i];
      if (id >= 0 && id < t->N) out->n += !times[id]++;
    }
  out->rows = malloc((size_t)(out->n * t->K) * sizeof *out->rows + 1);
  out->count = malloc((size_t)out->n * sizeof *out->count + 1);
  int64_t at = 0;
  for (int64_t r = 0; out->rows && out->count && r < t->N; r++) {
    if (!times[r]) continue;
    tni_tensor_to_f32(w, r * t->K, t->K, out->rows + at * t->K);
    out->count[at++] = times[r];
  }
  free(times);
  return out->rows && out->count ? TN_OK : tni_fail_memory(z->err, t->name);
}

/* What a Gather gives: the error of each format over the square. */
static tn_status try_formats(tni_qz *z, const taken *rows, tni_qz_sense *out) {
  const tni_qz_product *t = table_of(z);
  tn_status st = TN_OK;
  for (uint32_t f = 0; st == TN_OK && rows->n && f < z->n_formats; f++) {
    float *q;
    double error = 0, power = 0;
    st = tni_qz_rounded(z, t, f, rows->rows, rows->n, NULL, &q);
    for (int64_t i = 0; st == TN_OK && i < rows->n * t->K; i++) {
      const double w = (double)rows->rows[i], d = (double)q[i] - w;
      error += rows->count[i / t->K] * d * d;
      power += rows->count[i / t->K] * w * w;
    }
    free(q);
    out->error[f] = power > 0 ? error / power : 0;
  }
  return st;
}

/* The model's loss with the table alone in a format; loss has run the float model. */
static tn_status measure(tni_qz *z, tni_qz_loss *loss, uint32_t n_seqs, uint32_t format, double *out) {
  tni_qz_walker w;
  tn_status st = tni_qz_walk_begin(&w, z, z->import->graph, n_seqs);
  if (st == TN_OK) w.last[loss->output] = w.g->n_nodes; /* to be kept */
  if (st == TN_OK) st = tni_qz_run_rounded_table(&w, format);
  if (st == TN_OK) st = tni_qz_loss_of(loss, &w, table_of(z)->node + 1, out);
  tni_qz_walk_end(&w);
  tni_model_rest(z->import);
  return st;
}

tn_status tni_qz_sense_table(tni_qz *z, tni_qz_loss *loss, uint32_t n_seqs, uint32_t reference, tni_qz_sense *out) {
  const tni_qz_product *t = table_of(z);
  taken rows;
  tn_status st = z->o.progress ? z->o.progress(z->o.user, t->name, z->n_products, z->n_items) : TN_OK;
  if (st != TN_OK) return tni_fail(z->err, st, t->name, "stopped at '%s'", t->name);
  *out = (tni_qz_sense){.measured = 1};
  st = take_rows(z, n_seqs, &rows);
  if (st == TN_OK) st = try_formats(z, &rows, out);
  free(rows.rows);
  free(rows.count);
  return st == TN_OK ? measure(z, loss, n_seqs, reference, &out->loss) : st;
}
