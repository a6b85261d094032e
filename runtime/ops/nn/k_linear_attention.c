/* SPDX-License-Identifier: Apache-2.0
 *
 * LinearAttention of ONNX 27: a state [d_k, d_v] per sequence and key head that every position decays, corrects and
 * reads.
 *
 *   S *= exp(g)                    gated, gated_delta; g one number per head, or one per row of S
 *   u  = beta * (v - S^T k)        delta, gated_delta; else u = v
 *   S += k u^T;  o = scale * q^T S  for every query head of the group
 *
 * f32, sums in ascending order of d_k; one task is one sequence's head.
 */
#include <math.h>

#include "runtime/ops/recurrent/recurrent.h"

typedef struct linear {
  const tn_run *run;
  const tni_tensor *q, *k, *v, *past, *decay, *beta;
  tni_tensor *y, *present;
  int64_t B, T, heads, kv_heads, dk, dv, decay_size, beta_heads; /* decay_size: 1 or dk, per head */
  float scale;
  float *room;
  int64_t per_worker;
} linear;

static int64_t room_of(int64_t dk, int64_t dv) { return dk * dv + 3 * dk + 2 * dv; }

/* acc [dv] = x [dk] * S [dk, dv] */
static void read_state(const float *restrict S, const float *x, int64_t dk, int64_t dv, float *restrict acc) {
  memset(acc, 0, (size_t)dv * sizeof *acc);
  for (int64_t i = 0; i < dk; i++)
    for (int64_t j = 0; j < dv; j++) acc[j] += x[i] * S[i * dv + j];
}

static void decay_state(const linear *l, float *restrict S, float *g, int64_t row, int64_t head) {
  const int64_t n = l->decay_size;
  tni_load_f32(l->decay->dtype, l->decay->data, (row * l->kv_heads + head) * n, n, g);
  for (int64_t i = 0; i < n; i++) g[i] = expf(g[i]);
  for (int64_t i = 0; i < l->dk; i++)
    for (int64_t j = 0; j < l->dv; j++) S[i * l->dv + j] *= g[n == 1 ? 0 : i];
}

static void linear_step(const linear *l, int64_t row, int64_t head, float *S) {
  const int64_t dk = l->dk, dv = l->dv, group = l->heads / l->kv_heads;
  float *k = S + dk * dv, *q = k + dk, *g = q + dk, *v = g + dk, *acc = v + dv, beta;
  tni_load_f32(l->k->dtype, l->k->data, (row * l->kv_heads + head) * dk, dk, k);
  tni_load_f32(l->v->dtype, l->v->data, (row * l->kv_heads + head) * dv, dv, v);
  if (l->decay) decay_state(l, S, g, row, head);
  if (l->beta) {
    tni_load_f32(l->beta->dtype, l->beta->data, row * l->beta_heads + (l->beta_heads == 1 ? 0 : head), 1, &beta);
    read_state(S, k, dk, dv, acc);
    for (int64_t j = 0; j < dv; j++) v[j] = beta * (v[j] - acc[j]);
  }
  for (int64_t i = 0; i < dk; i++)
    for (int64_t j = 0; j < dv; j++) S[i * dv + j] += k[i] * v[j];
  for (int64_t h = head * group; l->y && h < (head + 1) * group; h++) {
    tni_load_f32(l->q->dtype, l->q->data, (row * l->heads + h) * dk, dk, q);
    read_state(S, q, dk, dv, acc);
    for (int64_t j = 0; j < dv; j++) acc[j] *= l->scale;
    tni_store_f32(l->y->dtype, l->y->data, (row * l->heads + h) * dv, dv, acc);
  }
}

static void linear_heads(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  const linear *l = arg;
  const int64_t n = l->dk * l->dv;
  float *S = l->room + worker * l->per_worker;
  tni_poll poll = {l->run, TNI_POLL};
  for (int64_t i = begin; i < end; i++) {
    memset(S, 0, (size_t)n * sizeof *S);
    if (l->past) tni_load_f32(l->past->dtype, l->past->data, i * n, n, S);
    for (int64_t t = 0; t < l->T && !tni_poll_stop(&poll, 4 * n + 64); t++)
      linear_step(l, i / l->kv_heads * l->T + t, i % l->kv_heads, S);
    if (l->present) tni_store_f32(l->present->dtype, l->present->data, i * n, n, S);
  }
}

/* Dims of one head from packed ones; false where they do not divide. */
static bool head_dims(const tn_node *n, const tni_tensor *const *in, int64_t *heads_q, int64_t *heads_kv, int64_t *dk,
                      int64_t *dv) {
  *heads_q = tni_at_i(n, TNI_A_Q_NUM_HEADS, 0);
  *heads_kv = tni_at_i(n, TNI_A_KV_NUM_HEADS, 0);
  if (*heads_q < 1 || *heads_kv < 1 || *heads_q % *heads_kv) return false;
  for (int i = 0; i < 3; i++)
    if (!in[i] || in[i]->rank != 3 || in[i]->dims[2] % (i ? *heads_kv : *heads_q)) return false;
  *dk = in[0]->dims[2] / *heads_q;
  *dv = in[2]->dims[2] / *heads_kv;
  return in[1]->dims[2] / *heads_kv == *dk;
}

uint64_t tni_linear_attention_scratch(const tn_node *n, const tni_tensor *const *in, uint32_t n_in,
                                      uint32_t n_workers) {
  int64_t hq, hkv, dk, dv, s;
  uint64_t bytes;
  if (n_in < 3 || !head_dims(n, in, &hq, &hkv, &dk, &dv)) return 0;
  if (dk > INT32_MAX || dv > INT32_MAX || __builtin_mul_overflow(dk + 2, dv + 3, &s)) return UINT64_MAX;
  return __builtin_mul_overflow((uint64_t)s, 4 * (uint64_t)(n_workers ? n_workers : 1), &bytes) ? UINT64_MAX : bytes;
}

static tn_status read_rule(const tni_kargs *a, bool *gated, bool *delta) {
  const uint32_t rule = tni_at_word(a->node, TNI_A_UPDATE_RULE);
  *gated =
      rule == TN_WORD_LINEAR_ATTENTION_UPDATE_RULE_GATED || rule == TN_WORD_LINEAR_ATTENTION_UPDATE_RULE_GATED_DELTA;
  *delta =
      rule == TN_WORD_LINEAR_ATTENTION_UPDATE_RULE_DELTA || rule == TN_WORD_LINEAR_ATTENTION_UPDATE_RULE_GATED_DELTA;
  if (rule) return TN_OK;
  return tni_kfail(a, TN_E_INVALID, "update_rule '%.40s'", tni_at_s(a->node, TNI_A_UPDATE_RULE, ""));
}

static bool rows_fit(const linear *l, const tni_tensor *t) {
  return !t || (t->rank == 3 && t->dims[0] == l->B && t->dims[1] == l->T);
}

static tn_status check_linear(const tni_kargs *a, linear *l) {
  bool gated, delta;
  tn_status st = read_rule(a, &gated, &delta);
  if (st) return st;
  if (gated != (l->decay != NULL) || delta != (l->beta != NULL))
    return tni_kfail(a, TN_E_INVALID, "the update rule and the operands decay and beta do not fit");
  if (!rows_fit(l, l->k) || !rows_fit(l, l->v) || !rows_fit(l, l->decay) || !rows_fit(l, l->beta))
    return tni_kfail(a, TN_E_INVALID, "the operands' batches or lengths differ");
  l->decay_size = l->decay ? l->decay->dims[2] / l->kv_heads : 1;
  l->beta_heads = l->beta ? l->beta->dims[2] : 1;
  const bool past = !l->past || (l->past->rank == 4 && l->past->dims[0] == l->B && l->past->dims[1] == l->kv_heads &&
                                 l->past->dims[2] == l->dk && l->past->dims[3] == l->dv);
  if (!past || (l->decay && l->decay->dims[2] != l->kv_heads && l->decay->dims[2] != l->kv_heads * l->dk) ||
      (l->beta_heads != 1 && l->beta_heads != l->kv_heads))
    return tni_kfail(a, TN_E_INVALID, "past_state, decay or beta fit neither heads nor keys");
  return TN_OK;
}

tn_status tni_k_linear_attention(const tni_kargs *a) {
  linear l = {.run = a->run,
              .q = a->in[0],
              .k = a->in[1],
              .v = a->in[2],
              .past = a->n_in > 3 ? a->in[3] : NULL,
              .decay = a->n_in > 4 ? a->in[4] : NULL,
              .beta = a->n_in > 5 ? a->in[5] : NULL,
              .y = a->out[0],
              .present = a->n_out > 1 ? a->out[1] : NULL};
  if (!head_dims(a->node, a->in, &l.heads, &l.kv_heads, &l.dk, &l.dv))
    return tni_kfail(a, TN_E_INVALID, "query, key and value do not divide into %lld and %lld heads",
                     (long long)tni_at_i(a->node, TNI_A_Q_NUM_HEADS, 0),
                     (long long)tni_at_i(a->node, TNI_A_KV_NUM_HEADS, 0));
  l.B = l.q->dims[0];
  l.T = l.q->dims[1];
  const double scale = tni_at_f(a->node, TNI_A_SCALE, 0);
  l.scale = (float)(scale != 0 ? scale : 1 / sqrt((double)(l.dk ? l.dk : 1)));
  tn_status st = check_linear(a, &l);
  if (st) return st;
  l.room = a->scratch;
  l.per_worker = room_of(l.dk, l.dv);
  tni_kfor(a->run, l.B * l.kv_heads, (l.T + 1) * (l.dk * l.dv + 1), linear_heads, &l);
  return TN_OK;
}
