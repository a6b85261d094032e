/* SPDX-License-Identifier: Apache-2.0
 *
 * The recorder. Percentiles come from a histogram over the upper 16 bits of |x| as a float without its sign: exponent
 * and eight bits of the fraction. The bin's largest float is what is reported, so that the true percentile lies within
 * 2^-8 below it. Histograms add up: the order of runs does not matter. Sums are in double, in the order of rows.
 */
#include "runtime/calib/recorder.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/base.h"

enum { BIN_SHIFT = 15, STRIP = 4096 };
static const float ABOVE = 127.5f; /* what int8 codes cannot hold: |x / s| rounds to 128 or more */

static bool add_weight(tni_calib_watch *w, const char *name) {
  for (uint32_t i = 0; i < w->n_weights; i++)
    if (strcmp(w->weights[i], name) == 0) return true;
  if (w->n_weights == w->cap_weights) {
    const uint32_t cap = w->cap_weights ? w->cap_weights * 2 : 4;
    const char **grown = realloc(w->weights, cap * sizeof *grown);
    if (!grown) return false;
    w->weights = grown;
    w->cap_weights = cap;
  }
  w->weights[w->n_weights++] = name;
  return true;
}

static tni_calib_watch *find_watch(const tni_recorder *r, tn_id x) {
  for (uint32_t i = 0; i < r->n; i++)
    if (r->w[i].x == x) return &r->w[i];
  return NULL;
}

static bool start_watch(tni_recorder *r, const tni_graph *g, tn_id node, const tni_product *p) {
  tni_calib_watch *w = &r->w[r->n];
  *w = (tni_calib_watch){.x = p->x, .node = node, .name = tni_graph_value(g, p->x)->pub.name, .K = p->K};
  r->n++;
  w->bins = calloc(TNI_CALIB_BINS, sizeof *w->bins);
  w->sum = calloc((size_t)p->K, sizeof *w->sum);
  w->sum2 = calloc((size_t)p->K, sizeof *w->sum2);
  w->over = calloc((size_t)p->K, sizeof *w->over);
  r->of_node[node] = r->n - 1;
  return w->bins && w->sum && w->sum2 && w->over;
}

static bool watch_nodes(tni_recorder *r, const tni_graph *g) {
  tni_product p;
  for (tn_id i = 0; i < g->n_nodes; i++) {
    r->of_node[i] = TN_NONE;
    if (g->nodes[i]->dynamic || !tni_calib_product(g, i, &p)) continue;
    tni_calib_watch *w = find_watch(r, p.x);
    if (w && w->K != p.K) continue; /* no model has that: x has one last dim */
    if (!w && !start_watch(r, g, i, &p)) return false;
    if (!w) w = &r->w[r->n - 1];
    for (uint32_t k = 0; k < p.n_weights; k++)
      if (!add_weight(w, tni_graph_value(g, p.weights[k])->pub.name)) return false;
  }
  return true;
}

tn_status tni_recorder_create(const tni_graph *g, tni_recorder **out, tn_error *err) {
  tni_recorder *r = calloc(1, sizeof *r);
  if (!r) return tni_fail_memory(err, g->name);
  pthread_mutex_init(&r->lock, NULL);
  r->n_nodes = g->n_nodes;
  r->w = calloc((size_t)g->n_nodes + 1, sizeof *r->w);
  r->of_node = calloc((size_t)g->n_nodes + 1, sizeof *r->of_node);
  const bool ok = r->w && r->of_node && watch_nodes(r, g);
  const tn_status st = ok ? tni_calib_model_hash(g, r->graph, err) : tni_fail_memory(err, g->name);
  if (st == TN_OK)
    *out = r;
  else
    tni_recorder_destroy(r);
  return st;
}

void tni_recorder_destroy(tni_recorder *r) {
  if (!r) return;
  for (uint32_t i = 0; r->w && i < r->n; i++) {
    free(r->w[i].weights);
    free(r->w[i].bins);
    free(r->w[i].sum);
    free(r->w[i].sum2);
    free(r->w[i].over);
  }
  free(r->w);
  free(r->of_node);
  pthread_mutex_destroy(&r->lock);
  free(r);
}

tn_id tni_recorder_value(const tni_recorder *r, tn_id node) {
  return node < r->n_nodes && r->of_node[node] != TN_NONE ? r->w[r->of_node[node]].x : TN_NONE;
}

/* Elements [at, at + n) of the tensor, which starts a row. false: not finite. */
static bool measure_row(tni_calib_watch *w, const float *x, int64_t at, int64_t n) {
  for (int64_t i = 0, k = at % w->K; i < n; i++, k = k + 1 == w->K ? 0 : k + 1) {
    const float a = fabsf(x[i]);
    uint32_t bits;
    if (!isfinite(a)) return false;
    memcpy(&bits, &a, sizeof bits);
    w->bins[bits >> BIN_SHIFT]++;
    if (a > w->absmax) w->absmax = a;
    w->sum[k] += (double)x[i];
    w->sum2[k] += (double)x[i] * (double)x[i];
  }
  return true;
}

static void count_over(tni_calib_watch *w, const float *x, int64_t at, int64_t n) {
  for (int64_t i = 0, k = at % w->K; i < n; i++, k = k + 1 == w->K ? 0 : k + 1) w->over[k] += fabsf(x[i]) > w->limit;
}

static tn_status add_rows(tni_recorder *r, tni_calib_watch *w, const tni_tensor *t, int64_t count, tn_error *err) {
  float strip[STRIP];
  for (int64_t at = 0; at < count; at += STRIP) {
    const int64_t n = count - at < STRIP ? count - at : STRIP;
    tni_tensor_to_f32(t, at, n, strip);
    if (r->pass)
      count_over(w, strip, at, n);
    else if (!measure_row(w, strip, at, n))
      return tni_fail(err, TN_E_INVALID, w->name, "activation '%s' has a value that is not finite", w->name);
  }
  w->rows[r->pass] += (uint64_t)(count / w->K);
  if (!r->pass) w->count += (uint64_t)count;
  return TN_OK;
}

tn_status tni_recorder_add(tni_recorder *r, tn_id x, const tni_tensor *t, tn_error *err) {
  tni_calib_watch *w = find_watch(r, x);
  int64_t count = 0;
  if (!w) return tni_fail(err, TN_E_INTERNAL, NULL, "a value that nobody records");
  if (tni_dims_count(t->dims, t->rank, &count) != TN_OK || !t->rank || t->dims[t->rank - 1] != w->K)
    return tni_fail(err, TN_E_INTERNAL, w->name, "activation '%s' does not have %lld channels", w->name,
                    (long long)w->K);
  pthread_mutex_lock(&r->lock);
  tn_status st = add_rows(r, w, t, count, err);
  pthread_mutex_unlock(&r->lock);
  return st;
}

/* The largest float of the bin that holds the value which 99.9 % of all are not above. */
static float watch_percentile(const tni_calib_watch *w) {
  const uint64_t below = w->count - w->count / 1000;
  uint64_t seen = 0;
  uint32_t bin = 0;
  while (bin < TNI_CALIB_BINS - 1 && (seen += w->bins[bin]) < below) bin++;
  const uint32_t bits = ((bin + 1) << BIN_SHIFT) - 1;
  float top;
  memcpy(&top, &bits, sizeof top);
  return top < w->absmax ? top : w->absmax;
}

void tni_calib_watch_next(tni_calib_watch *w, float p999) {
  w->p999 = p999;
  w->limit = (float)((double)p999 / 127 * (double)ABOVE);
  free(w->bins);
  w->bins = NULL;
}

tn_status tni_recorder_next(tni_recorder *r, tn_error *err) {
  if (r->pass) return tni_fail(err, TN_E_INVALID, NULL, "calibration has two passes, not more");
  for (uint32_t i = 0; i < r->n; i++) tni_calib_watch_next(&r->w[i], r->w[i].count ? watch_percentile(&r->w[i]) : 0);
  r->pass = 1;
  return TN_OK;
}

static bool fill_entry(const tni_calib_watch *w, tni_arena *arena, tni_calib_entry *e) {
  const size_t K = (size_t)w->K;
  float *over = TNI_NEW_ARRAY(arena, float, K), *mean = TNI_NEW_ARRAY(arena, float, K),
        *square = TNI_NEW_ARRAY(arena, float, K);
  const char **weights = TNI_NEW_ARRAY(arena, const char *, w->n_weights + 1);
  if (!over || !mean || !square || !weights || K > UINT32_MAX) return false;
  for (size_t k = 0; k < K; k++) {
    over[k] = (float)w->over[k];
    mean[k] = (float)(w->sum[k] / (double)w->rows[0]);
    square[k] = (float)(w->sum2[k] / (double)w->rows[0]);
  }
  for (uint32_t i = 0; i < w->n_weights; i++)
    if (!(weights[i] = tni_arena_strdup(arena, w->weights[i]))) return false;
  *e = (tni_calib_entry){.stats = {.h = TN_HDR(tn_stats),
                                   .absmax = w->absmax,
                                   .p999 = w->p999,
                                   .n = (uint32_t)K,
                                   .ch_over = over,
                                   .ch_mean = mean,
                                   .ch_weight = square,
                                   .rows = w->rows[0]},
                         .name = tni_arena_strdup(arena, w->name),
                         .weights = weights,
                         .n_weights = w->n_weights};
  return e->name != NULL;
}

tn_status tni_recorder_result(const tni_recorder *r, tni_arena *arena, const tni_calib_entry **out, uint32_t *n,
                              tn_error *err) {
  tni_calib_entry *list = TNI_NEW_ARRAY(arena, tni_calib_entry, r->n + 1);
  uint32_t m = 0;
  if (!list) return tni_fail_memory(err, NULL);
  for (uint32_t i = 0; i < r->n; i++) {
    const tni_calib_watch *w = &r->w[i];
    if (w->rows[0] != w->rows[1])
      return tni_fail(err, TN_E_INVALID, w->name, "activation '%s': %llu rows in the first pass, %llu in the second",
                      w->name, (unsigned long long)w->rows[0], (unsigned long long)w->rows[1]);
    if (!w->rows[0]) continue;
    if (!fill_entry(w, arena, &list[m++])) return tni_fail_memory(err, w->name);
  }
  *out = list;
  *n = m;
  return TN_OK;
}
