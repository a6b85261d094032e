/* SPDX-License-Identifier: Apache-2.0
 *
 * Softmax and LogSoftmax: exp(x - max) / sum along one axis, or over everything from the axis on (coerce_2d, opset <
 * 13). f32 and halves compute in f32, f64 in double. Sums: as hot.h states for contiguous rows, else in ascending
 * order.
 */
#include <math.h>

#include "runtime/ops/hot/hot.h"
#include "runtime/ops/kernel/kernel.h"

typedef struct softmax {
  const tn_run *run;
  const tni_tensor *x;
  tni_tensor *y;
  const tni_hot *hot;
  int64_t n, inner;
  bool log;
} softmax;

static void rows_f32(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  const softmax *s = arg;
  const int64_t n = s->n; /* y may be anything to the compiler, and s then changes with it */
  (void)worker;
  for (int64_t r = begin; r < end; r++) {
    const f32u *x = (const f32u *)s->x->data + r * n;
    f32u *y = (f32u *)s->y->data + r * n;
    const float max = s->hot->max(x, n), sum = s->hot->exp_sum(y, x, n, max);
    if (s->log) {
      const float lse = logf(sum);
      for (int64_t i = 0; i < n; i++) y[i] = (x[i] - max) - lse;
    } else {
      for (int64_t i = 0; i < n; i++) y[i] = y[i] / sum;
    }
  }
}

/* Blocks of neighbouring columns; a contiguous row of halves is a block of width 1. */
static void softmax_columns(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  const softmax *s = arg;
  const int64_t per = (s->inner + TNI_CHUNK - 1) / TNI_CHUNK;
  const uint32_t t = s->x->dtype;
  float max[TNI_CHUNK], sum[TNI_CHUNK], v[TNI_CHUNK];
  tni_poll poll = {s->run, TNI_POLL};
  (void)worker;
  for (int64_t u = begin; u < end; u++) {
    const int64_t col = (u % per) * TNI_CHUNK, base = (u / per) * s->n * s->inner + col;
    const int64_t w = s->inner - col < TNI_CHUNK ? s->inner - col : TNI_CHUNK;
    for (int64_t j = 0; j < s->n && !tni_poll_stop(&poll, w); j++) {
      tni_load_f32(t, s->x->data, base + j * s->inner, w, v);
      for (int64_t i = 0; i < w; i++) max[i] = j == 0 || v[i] > max[i] || v[i] != v[i] ? v[i] : max[i];
    }
    for (int64_t i = 0; i < w; i++) sum[i] = 0;
    for (int64_t j = 0; j < s->n && !tni_poll_stop(&poll, w + 4); j++) {
      tni_load_f32(t, s->x->data, base + j * s->inner, w, v);
      for (int64_t i = 0; i < w; i++) v[i] -= max[i];
      s->hot->exp(v, v, w);
      for (int64_t i = 0; i < w; i++) sum[i] += v[i];
    }
    for (int64_t i = 0; i < w && s->log; i++) sum[i] = logf(sum[i]);
    for (int64_t j = 0; j < s->n && !tni_poll_stop(&poll, w + 4); j++) {
      tni_load_f32(t, s->x->data, base + j * s->inner, w, v);
      for (int64_t i = 0; i < w; i++) v[i] -= max[i];
      if (!s->log) s->hot->exp(v, v, w);
      for (int64_t i = 0; i < w; i++) v[i] = s->log ? v[i] - sum[i] : v[i] / sum[i];
      tni_store_f32(t, s->y->data, base + j * s->inner, w, v);
    }
  }
}

static void lines_f64(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  const softmax *s = arg;
  tni_poll poll = {s->run, TNI_POLL};
  (void)worker;
  for (int64_t r = begin; r < end; r++) {
    const int64_t at = (r / s->inner) * s->n * s->inner + r % s->inner, st = s->inner;
    const f64u *x = (const f64u *)s->x->data + at;
    f64u *y = (f64u *)s->y->data + at;
    double max = -INFINITY, sum = 0;
    for (int64_t j = 0; j < s->n && !tni_poll_stop(&poll, 1); j++)
      max = x[j * st] > max || isnan(x[j * st]) ? x[j * st] : max;
    for (int64_t j = 0; j < s->n && !tni_poll_stop(&poll, 4); j++) sum += exp(x[j * st] - max);
    for (int64_t j = 0; j < s->n && !tni_poll_stop(&poll, 4); j++)
      y[j * st] = s->log ? x[j * st] - max - log(sum) : exp(x[j * st] - max) / sum;
  }
}

tn_status tni_k_softmax(const tni_kargs *a) {
  softmax s = {
      .run = a->run, .x = a->in[0], .y = a->out[0], .hot = tni_hot_get(), .log = a->node->op == TN_OP_LOG_SOFTMAX};
  const bool coerce = tni_at_i(a->node, TNI_A_COERCE_2D, 0) != 0;
  int64_t axis = tni_at_i(a->node, TNI_A_AXIS, coerce ? 1 : -1);
  const uint32_t rank = s.x->rank, t = s.x->dtype;
  if (t != TN_DT_F32 && t != TN_DT_F64 && !tni_is_half(t)) return tni_kdtype(a, t);
  if (coerce && axis == rank) axis = (int64_t)rank + 1; /* [everything, 1]: every row is one element */
  const int32_t d = axis == (int64_t)rank + 1 ? (int32_t)rank : tni_kaxis(axis, rank);
  if (d < 0) return tni_kfail(a, TN_E_INVALID, "axis %lld of rank %u", (long long)axis, rank);
  s.n = coerce ? tni_dim_product(s.x, (uint32_t)d, rank) : rank ? s.x->dims[d] : 1;
  s.inner = coerce || !rank ? 1 : tni_dim_product(s.x, (uint32_t)d + 1, rank);
  const int64_t total = tni_knumel(s.x);
  if (!total) return TN_OK;
  const int64_t outer = total / s.n / s.inner, per = (s.inner + TNI_CHUNK - 1) / TNI_CHUNK;
  if (t == TN_DT_F64)
    tni_kfor(a->run, outer * s.inner, s.n * 16, lines_f64, &s);
  else if (t == TN_DT_F32 && s.inner == 1)
    tni_kfor(a->run, outer, s.n * 4, rows_f32, &s);
  else
    tni_kfor(a->run, outer * per, s.n * 8 * (s.inner < TNI_CHUNK ? s.inner : TNI_CHUNK), softmax_columns, &s);
  return TN_OK;
}
