/* SPDX-License-Identifier: Apache-2.0
 *
 * The last product gives the logits z. For small errors the divergence of softmax(z) is 1/2 e^T (diag p - p p^T) e, p
 * the float model's probabilities and e the logits' errors. Of that the diagonal is taken: the error of word v counts
 * p_v (1 - p_v) at a token, its Fisher information. Rows of words that are alike share their moments: k-means over the
 * rows' directions. Part of the plain moments is added, so that words which the texts hardly have keep their sense.
 */
#include "runtime/quantize/head.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/quantize/loss.h"

/* Texts have to have so many tokens for each channel: few tokens weigh most, and fewer fit the text and nothing else.
 */
enum { GROUPS = 32, TOKENS = 16, ROUNDS = 8, BYTES = 512 << 20 };
static const float OF_PLAIN = .3f;

typedef struct head {
  tni_qz_head *out;
  tni_qz_walker *w, *floats;
  const tni_qz_product *p;
  tni_qz_loss loss;
  float *rows;    /* [N,K]: of length 1 */
  float *centres; /* [n_groups,K] */
} head;

void tni_qz_head_finish(tni_qz_head *h) {
  free(h->group);
  free(h->h);
  free(h->drift);
  *h = (tni_qz_head){0};
}

/* --- groups of rows --- */

static void make_unit(float *v, int64_t n) {
  float sum = 0;
  for (int64_t k = 0; k < n; k++) sum += v[k] * v[k];
  const float inverse = sum > 0 ? 1 / sqrtf(sum) : 0;
  for (int64_t k = 0; k < n; k++) v[k] *= inverse;
}

static void nearest_centres(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  const head *h = arg;
  const int64_t K = h->p->K;
  (void)worker;
  for (int64_t r = begin; r < end; r++) {
    float most = -INFINITY;
    for (uint32_t g = 0; g < h->out->n_groups; g++) {
      float sum[8] = {0}, all = 0;
      const float *a = h->rows + r * K, *b = h->centres + g * K;
      int64_t k = 0;
      for (; k + 8 <= K; k += 8)
        for (int i = 0; i < 8; i++) sum[i] += a[k + i] * b[k + i];
      for (; k < K; k++) all += a[k] * b[k];
      for (int i = 0; i < 8; i++) all += sum[i];
      if (all > most) {
        most = all;
        h->out->group[r] = g;
      }
    }
  }
}

static void group_rows(head *h, tn_run *run) {
  const int64_t N = h->p->N, K = h->p->K, G = h->out->n_groups;
  for (int64_t r = 0; r < N; r++) make_unit(h->rows + r * K, K);
  for (int64_t g = 0; g < G; g++) memcpy(h->centres + g * K, h->rows + g * N / G * K, (size_t)K * sizeof(float));
  for (int i = 0; i < ROUNDS; i++) {
    run->parallel_for(run, N, 64, nearest_centres, h);
    if (i == ROUNDS - 1) break;
    memset(h->centres, 0, (size_t)(G * K) * sizeof(float));
    for (int64_t r = 0; r < N; r++)
      for (int64_t k = 0; k < K; k++) h->centres[h->out->group[r] * K + k] += h->rows[r * K + k];
    for (int64_t g = 0; g < G; g++) make_unit(h->centres + g * K, K);
  }
}

/* --- moments --- */

typedef struct counts {
  const head *h;
  const float *log_p; /* [T,V] */
  float *of;          /* [n_groups,T] */
  int64_t T;
} counts;

static void count_rows(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  const counts *c = arg;
  const int64_t V = c->h->p->N;
  (void)worker;
  for (int64_t t = begin; t < end; t++)
    for (int64_t v = 0; v < V; v++) {
      const float p = expf(c->log_p[t * V + v]);
      c->of[c->h->out->group[v] * c->T + t] += p * (1 - p);
    }
}

/* x, y [T,K] of the quantized and the float model, counts [n_groups,T]: what they add to each group. */
static tn_status add_tokens(head *h, const counts *c, const float *x, const float *y) {
  const int64_t K = h->p->K, T = c->T;
  const size_t n = (size_t)(T * K), square = (size_t)(K * K);
  tn_run *run = &h->w->z->run.run;
  tn_error *err = h->w->z->err;
  float *a = malloc(n * sizeof *a + 1), *b = malloc(n * sizeof *b + 1);
  tn_status st = a && b ? TN_OK : tni_fail_memory(err, h->p->name);
  for (uint32_t g = 0; st == TN_OK && g < h->out->n_groups; g++) {
    const float *of = c->of + g * T;
    for (int64_t t = 0; t < T; t++) {
      const float root = sqrtf(of[t]);
      for (int64_t k = t * K; k < (t + 1) * K; k++) a[k] = x[k] * root;
      for (int64_t k = t * K; k < (t + 1) * K; k++) b[k] = y[k] * root;
    }
    st = tni_quant_moments(h->out->h + g * square, a, T, K, run, err);
    if (st == TN_OK) st = tni_quant_drift(h->out->drift + g * square, &(tni_quant_drifts){T, K, K, a, a, b}, run, err);
  }
  free(a);
  free(b);
  return st;
}

static tn_status add_sequence(head *h, uint32_t s) {
  float *x = NULL, *y = NULL, *log_p = NULL, *of = NULL;
  const size_t at = (size_t)s * h->w->g->n_values;
  int64_t T = 0, T2 = 0, rows = 0;
  tn_status st = tni_qz_loss_output(&h->loss, h->floats, s, h->p->node, &log_p, &rows);
  if (st == TN_OK) st = tni_qz_value(h->w, h->w->state + at, h->p->x, h->p, h->p->K, &x, &T);
  if (st == TN_OK) st = tni_qz_value(h->floats, h->floats->state + at, h->p->x, h->p, h->p->K, &y, &T2);
  if (st == TN_OK && (T != T2 || rows != T || h->loss.V != h->p->N)) tni_qz_head_finish(h->out); /* some other shape */
  if (st == TN_OK && h->out->n_groups && !(of = calloc((size_t)T * h->out->n_groups + 1, sizeof *of)))
    st = tni_fail_memory(h->w->z->err, h->p->name);
  if (st == TN_OK && of) {
    counts c = {h, log_p, of, T};
    h->w->z->run.run.parallel_for(&h->w->z->run.run, T, 4, count_rows, &c);
    st = add_tokens(h, &c, x, y);
  }
  free(x);
  free(y);
  free(log_p);
  free(of);
  return st;
}

static float trace(const float *h, int64_t K) {
  float sum = 0;
  for (int64_t k = 0; k < K; k++) sum += h[k * K + k];
  return sum;
}

/* Each group's become 1 - OF_PLAIN of its own and OF_PLAIN of the plain ones, in parts of their traces. */
static void mix(head *h, const float *plain, const float *drift) {
  const int64_t K = h->p->K, n = K * K;
  const float all = trace(plain, K);
  for (uint32_t g = 0; g < h->out->n_groups; g++) {
    float *m = h->out->h + g * n, *d = h->out->drift + g * n;
    const float own = trace(m, K), part = own > 0 ? (1 - OF_PLAIN) / own : 0, rest = all > 0 ? OF_PLAIN / all : 0;
    for (int64_t i = 0; i < n; i++) m[i] = part * m[i] + rest * plain[i];
    for (int64_t i = 0; i < n; i++) d[i] = part * d[i] + rest * drift[i];
  }
}

static bool gives_logits(const tni_graph *g) {
  for (uint32_t i = 0; i < g->n_outputs; i++) {
    const tni_value *v = tni_graph_value(g, g->outputs[i]);
    if (strcmp(v->pub.name, "logits") == 0 && (v->pub.dtype == TN_DT_F32 || v->pub.dtype == TN_DT_F16)) return true;
  }
  return false;
}

static bool is_last(const tni_qz *z, const tni_qz_product *p) {
  for (const tni_qz_product *q = p + 1; q < z->products + z->n_products; q++)
    if (q->format != TNI_QZ_FLOAT) return false;
  return true;
}

tn_status tni_qz_head_begin(tni_qz_head *out, tni_qz_walker *w, tni_qz_walker *floats, const tni_qz_product *p,
                            const float *plain, const float *drift) {
  const size_t square = (size_t)(p->K * p->K), most = BYTES / (2 * square * sizeof(float));
  const size_t G = most < GROUPS ? most : GROUPS;
  tn_error *err = w->z->err;
  head h = {.out = out, .w = w, .floats = floats, .p = p};
  *out = (tni_qz_head){0};
  if (!gives_logits(w->g) || !is_last(w->z, p) || G < 2 || (size_t)p->N < G || w->z->tokens < TOKENS * (uint64_t)p->K)
    return TN_OK;
  tn_status st = tni_qz_loss_find(&h.loss, floats);
  if (st != TN_OK || !h.loss.logits) return st;
  *out = (tni_qz_head){.n_groups = (uint32_t)G,
                       .group = calloc((size_t)p->N, sizeof *out->group),
                       .h = calloc(G * square, sizeof *out->h),
                       .drift = calloc(G * square, sizeof *out->drift)};
  h.rows = malloc((size_t)(p->N * p->K) * sizeof *h.rows);
  h.centres = malloc(G * (size_t)p->K * sizeof *h.centres);
  if (!out->group || !out->h || !out->drift || !h.rows || !h.centres) st = tni_fail_memory(err, p->name);
  if (st == TN_OK) st = tni_qz_read_weight(w->z, p, h.rows);
  if (st == TN_OK) group_rows(&h, &w->z->run.run);
  for (uint32_t s = 0; st == TN_OK && out->n_groups && s < w->n_seqs; s++) st = add_sequence(&h, s);
  if (st == TN_OK) mix(&h, plain, drift);
  free(h.rows);
  free(h.centres);
  return st;
}
