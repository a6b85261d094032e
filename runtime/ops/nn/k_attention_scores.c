/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention's fourth output, for who wants to look inside: the scores, or what became of them. The kernel beside this
 * one never has them as a matrix, so they are computed once more, in double: q k^T times scale (mode 0), capped (1),
 * with mask, slopes and -inf where a query does not see a key (2), or the probabilities (3; a query without keys has
 * zeros).
 */
#include <math.h>

#include "runtime/ops/nn/attention_block.h"

typedef struct scores {
  const attention *a;
  tni_tensor *out; /* [batch, heads, length, keys], or Y */
  int64_t mode;
  bool results; /* out is the operator's first output */
} scores;

/* One query and what it sees. */
typedef struct query {
  int64_t b, h, i;
  tile t;
  tni_poll *poll;
} query;

static bool stop_query(const scores *s, const query *q) { return tni_poll_stop(q->poll, s->a->size + 8); }

/* n elements from `at` on. */
static void load_operand_row(const operand *x, int64_t at, int64_t n, double *y) {
  float f[TNI_CHUNK];
  if (x->dtype == TN_DT_F64) {
    memcpy(y, (const f64u *)x->data + at, (size_t)n * sizeof *y);
    return;
  }
  tni_load_f32(x->dtype, x->data, at, n, f);
  for (int64_t i = 0; i < n; i++) y[i] = (double)f[i];
}

/* Where the key's row begins, and in which of the two operands. */
static int64_t row_of(const attention *a, const query *q, int64_t key, const operand **from, const operand *past,
                      const operand *now) {
  *from = key < a->past ? past : now;
  return q->b * (*from)->batch + q->t.kv * (*from)->head + (key < a->past ? key : key - a->past) * (*from)->row;
}

static double dot_of_key(const attention *a, const query *q, int64_t key) {
  const operand *k;
  const int64_t at = row_of(a, q, key, &k, &a->past_k, &a->k);
  const int64_t from = q->b * a->q.batch + q->h * a->q.head + q->i * a->q.row;
  double x[TNI_CHUNK], y[TNI_CHUNK], sum = 0;
  for (int64_t d = 0; d < a->size; d += TNI_CHUNK) {
    const int64_t n = a->size - d < TNI_CHUNK ? a->size - d : TNI_CHUNK;
    load_operand_row(&a->q, from + d, n, x);
    load_operand_row(k, at + d, n, y);
    for (int64_t e = 0; e < n; e++) sum += x[e] * y[e];
  }
  return sum;
}

/* What the mask adds; -inf where it or the positions hide the key. */
static double bias_of_key(const attention *a, const query *q, int64_t key) {
  double v = 0;
  if (key < q->t.lo[0] || key >= q->t.hi[0]) return -INFINITY;
  if (a->slopes) v = (double)of_head(a, a->slopes, q->h) * (double)(key - q->t.at[0]);
  if (!a->mask) return v;
  if (key >= a->mask_keys) return -INFINITY;
  const int64_t at = q->b * a->mask_batch + q->h * a->mask_head + q->i * a->mask_row + key;
  if (a->mask->dtype == TN_DT_BOOL) return ((const u8u *)a->mask->data)[at] ? v : -INFINITY;
  return v + tni_get_f64(a->mask, at);
}

static double score_of_key(const scores *s, const query *q, int64_t key) {
  const attention *a = s->a;
  const double b = s->mode < 2 ? 0 : bias_of_key(a, q, key);
  if (b == -INFINITY) return b;
  double v = dot_of_key(a, q, key) * (double)a->scale;
  if (s->mode > 0 && a->cap != 0) v = (double)a->cap * tanh(v / (double)a->cap);
  return v + b;
}

/* Largest score, and the sum of exp of what the others, and the sink, are below it; -inf: the query sees no key. */
static double softmax_of(const scores *s, const query *q, double *sum) {
  const double sink = s->a->sinks ? (double)of_head(s->a, s->a->sinks, q->h) : -INFINITY;
  double max = -INFINITY;
  for (int64_t k = 0; k < s->a->keys && !stop_query(s, q); k++) max = fmax(max, score_of_key(s, q, k));
  if (max == -INFINITY) return max;
  max = fmax(max, sink);
  *sum = exp(sink - max);
  for (int64_t k = 0; k < s->a->keys && !stop_query(s, q); k++) *sum += exp(score_of_key(s, q, k) - max);
  return max;
}

static void one_query(const scores *s, const query *q, int64_t at) {
  double sum = 1;
  const double max = s->mode == 3 ? softmax_of(s, q, &sum) : 0;
  for (int64_t k = 0; k < s->a->keys && !stop_query(s, q); k++) {
    const double v = max == -INFINITY ? 0 : score_of_key(s, q, k);
    tni_put_f64(s->out, at + k, s->mode == 3 && max != -INFINITY ? exp(v - max) / sum : v);
  }
}

/* The first output, keys in ascending order. */
static void one_result(const scores *s, const query *q) {
  const attention *a = s->a;
  const operand *from;
  const int64_t to = q->b * a->y.batch + q->h * a->y.head + q->i * a->y.row;
  double sum = 1, v[TNI_CHUNK];
  const double max = softmax_of(s, q, &sum);
  for (int64_t d = 0; d < a->v_size; d += TNI_CHUNK) {
    const int64_t n = a->v_size - d < TNI_CHUNK ? a->v_size - d : TNI_CHUNK;
    double y[TNI_CHUNK] = {0};
    for (int64_t k = q->t.lo[0]; k < q->t.hi[0] && max != -INFINITY && !stop_query(s, q); k++) {
      const double x = score_of_key(s, q, k), p = x == -INFINITY ? 0 : exp(x - max) / sum;
      if (p == 0) continue;
      const int64_t row = row_of(a, q, k, &from, &a->past_v, &a->v);
      load_operand_row(from, row + d, n, v);
      for (int64_t e = 0; e < n; e++) y[e] += p * v[e];
    }
    for (int64_t e = 0; e < n; e++) tni_put_f64(s->out, to + d + e, y[e]);
  }
}

static void scores_body(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  const scores *s = arg;
  const attention *a = s->a;
  tni_poll poll = {a->run, TNI_POLL};
  (void)worker;
  for (int64_t u = begin; u < end; u++) {
    query q = {.b = u / a->length / a->heads, .h = u / a->length % a->heads, .i = u % a->length, .poll = &poll};
    q.t = (tile){.b = q.b, .kv = q.h / a->group, .row0 = q.i * a->group + q.h % a->group, .rows = 1};
    tni_attention_limits(a, &q.t);
    if (s->results)
      one_result(s, &q);
    else
      one_query(s, &q, u * a->keys);
  }
}

static tn_status run_scores(const tni_kargs *k, const scores *s) {
  const attention *a = s->a;
  if (a->k.ring || tni_kv_quantized(a->k.dtype) || tni_kv_quantized(a->v.dtype))
    return tni_kfail(k, TN_E_UNSUPPORTED, "Attention: the scores of a cache that wraps around or is quantized");
  tni_kfor(k->run, a->batch * a->heads * a->length, a->keys * a->size * 4 + 1, scores_body, (void *)(uintptr_t)s);
  return TN_OK;
}

tn_status tni_attention_scores(const tni_kargs *k, const attention *a, tni_tensor *out) {
  const scores s = {a, out, tni_at_i(k->node, TNI_A_QK_MATMUL_OUTPUT_MODE, 0), false};
  if (s.mode < 0 || s.mode > 3)
    return tni_kfail(k, TN_E_INVALID, "Attention: qk_matmul_output_mode %lld", (long long)s.mode);
  return run_scores(k, &s);
}

tn_status tni_attention_double(const tni_kargs *k, const attention *a) {
  const scores s = {a, k->out[0], 3, true};
  return run_scores(k, &s);
}
