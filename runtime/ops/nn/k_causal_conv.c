/* SPDX-License-Identifier: Apache-2.0
 *
 * CausalConvWithState of ONNX 27: y[b, c, t] = act(bias[c] + sum over i < K of w[c, 0, i] * p[b, c, t + i]), p being
 * the past K - 1 positions (zeros without them) and the input. Sums in f32 in ascending order of i; the last K - 1
 * positions of p are the new state.
 */
#include <math.h>

#include "runtime/ops/kernel/kernel.h"

typedef struct causal {
  const tn_run *run;
  const tni_tensor *x, *w, *b, *past;
  tni_tensor *y, *state;
  int64_t C, L, K;
  bool silu;
} causal;

/* Position t of p, of row r. */
static float causal_at(const causal *c, int64_t r, int64_t t) {
  float v = 0;
  if (t >= c->K - 1)
    tni_load_f32(c->x->dtype, c->x->data, r * c->L + t - (c->K - 1), 1, &v);
  else if (c->past)
    tni_load_f32(c->past->dtype, c->past->data, r * (c->K - 1) + t, 1, &v);
  return v;
}

/* n results of row r from position t0 on. */
static void causal_piece(const causal *c, int64_t r, int64_t t0, int64_t n, tni_poll *poll) {
  float acc[TNI_CHUNK] = {0}, x[TNI_CHUNK], bias = 0;
  for (int64_t i = 0; i < c->K && !tni_poll_stop(poll, n); i++) {
    float w;
    const int64_t old = c->K - 1 - i - t0, head = old < 0 ? 0 : old < n ? old : n; /* the first ones lie in the past */
    tni_load_f32(c->w->dtype, c->w->data, r % c->C * c->K + i, 1, &w);
    for (int64_t j = 0; j < head; j++) x[j] = causal_at(c, r, t0 + i + j);
    if (n > head) tni_load_f32(c->x->dtype, c->x->data, r * c->L + t0 + i + head - (c->K - 1), n - head, x + head);
    for (int64_t j = 0; j < n; j++) acc[j] += w * x[j];
  }
  if (c->b) tni_load_f32(c->b->dtype, c->b->data, r % c->C, 1, &bias);
  for (int64_t j = 0; j < n; j++) {
    acc[j] += bias;
    if (c->silu) acc[j] = acc[j] / (1 + expf(-acc[j]));
  }
  tni_store_f32(c->y->dtype, c->y->data, r * c->L + t0, n, acc);
}

static void causal_rows(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  const causal *c = arg;
  tni_poll poll = {c->run, TNI_POLL};
  (void)worker;
  for (int64_t r = begin; r < end; r++) {
    for (int64_t t = 0; c->y && t < c->L; t += TNI_CHUNK)
      causal_piece(c, r, t, c->L - t < TNI_CHUNK ? c->L - t : TNI_CHUNK, &poll);
    for (int64_t i = 0; c->state && i < c->K - 1 && !tni_poll_stop(&poll, 1); i++) {
      const float v = causal_at(c, r, c->L + i);
      tni_store_f32(c->state->dtype, c->state->data, r * (c->K - 1) + i, 1, &v);
    }
  }
}

tn_status tni_k_causal_conv(const tni_kargs *a) {
  causal c = {.run = a->run,
              .x = a->in[0],
              .w = a->in[1],
              .b = a->n_in > 2 ? a->in[2] : NULL,
              .past = a->n_in > 3 ? a->in[3] : NULL,
              .y = a->out[0],
              .state = a->n_out > 1 ? a->out[1] : NULL};
  const uint32_t act = tni_at_word(a->node, TNI_A_ACTIVATION);
  c.silu = act && act != TN_WORD_CAUSAL_CONV_WITH_STATE_ACTIVATION_NONE; /* Swish is another name of it */
  if (!act) return tni_kfail(a, TN_E_INVALID, "activation '%.40s'", tni_at_s(a->node, TNI_A_ACTIVATION, ""));
  if (c.x->rank != 3 || c.w->rank != 3 || c.w->dims[1] != 1 || c.w->dims[0] != c.x->dims[1] || c.w->dims[2] < 1)
    return tni_kfail(a, TN_E_INVALID, "the weight does not fit [batch, channels, length]");
  c.C = c.x->dims[1];
  c.L = c.x->dims[2];
  c.K = c.w->dims[2];
  if ((c.b && tni_knumel(c.b) != c.C) || (c.past && (c.past->rank != 3 || c.past->dims[0] != c.x->dims[0] ||
                                                     c.past->dims[1] != c.C || c.past->dims[2] != c.K - 1)))
    return tni_kfail(a, TN_E_INVALID, "bias or past_state does not fit the channels");
  tni_kfor(a->run, c.x->dims[0] * c.C, (c.L + c.K) * c.K, causal_rows, &c);
  return TN_OK;
}
