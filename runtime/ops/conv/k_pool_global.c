/* SPDX-License-Identifier: Apache-2.0
 *
 * GlobalAveragePool, GlobalMaxPool, GlobalLpPool: one value per plane. f32 and halves compute in f32, f64 in double.
 * Sums: those of f32 planes as hot.h states, for halves so within pieces of TNI_CHUNK elements, others in ascending
 * order.
 */
#include <math.h>

#include "runtime/ops/hot/hot.h"
#include "runtime/ops/kernel/kernel.h"

typedef struct global {
  const tn_run *run;
  const tni_tensor *x;
  tni_tensor *y;
  const tni_hot *hot;
  uint32_t op;
  int64_t n, p;
} global;

static double lp_power(double v, int64_t p) { return p == 1 ? fabs(v) : p == 2 ? v * v : pow(fabs(v), (double)p); }

static float merge_pooled(const global *c, float acc, const void *v, int64_t n, tni_poll *poll) {
  if (c->op == TN_OP_GLOBAL_AVERAGE_POOL) return acc + c->hot->sum(v, n);
  if (c->op == TN_OP_GLOBAL_LP_POOL && c->p == 2) return acc + c->hot->sum_sq(v, n, 0);
  if (c->op == TN_OP_GLOBAL_MAX_POOL) {
    const float m = c->hot->max(v, n);
    return m > acc || m != m ? m : acc;
  }
  for (int64_t i = 0; i < n && !tni_poll_stop(poll, 8); i++) acc += (float)lp_power((double)((const f32u *)v)[i], c->p);
  return acc;
}

static float plane_f32(const global *c, int64_t plane, tni_poll *poll) {
  float acc = c->op == TN_OP_GLOBAL_MAX_POOL ? -INFINITY : 0, v[TNI_CHUNK];
  if (c->x->dtype == TN_DT_F32)
    return c->n ? merge_pooled(c, acc, (const f32u *)c->x->data + plane * c->n, c->n, poll) : acc;
  for (int64_t i = 0; i < c->n && !tni_poll_stop(poll, TNI_CHUNK); i += TNI_CHUNK) {
    const int64_t n = c->n - i < TNI_CHUNK ? c->n - i : TNI_CHUNK;
    tni_load_f32(c->x->dtype, c->x->data, plane * c->n + i, n, v);
    acc = merge_pooled(c, acc, v, n, poll);
  }
  return acc;
}

static double plane_f64(const global *c, int64_t plane, tni_poll *poll) {
  const f64u *x = (const f64u *)c->x->data + plane * c->n;
  double acc = c->op == TN_OP_GLOBAL_MAX_POOL ? (double)-INFINITY : 0;
  for (int64_t i = 0, to; (to = tni_poll_until(poll, i, c->n)) > i;)
    for (; i < to; i++) {
      if (c->op == TN_OP_GLOBAL_MAX_POOL)
        acc = x[i] > acc || x[i] != x[i] ? x[i] : acc;
      else
        acc += c->op == TN_OP_GLOBAL_LP_POOL ? lp_power(x[i], c->p) : x[i];
    }
  return acc;
}

static void pool_planes_of(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  const global *c = arg;
  const bool wide = c->x->dtype == TN_DT_F64, mean = c->op == TN_OP_GLOBAL_AVERAGE_POOL;
  const bool root = c->op == TN_OP_GLOBAL_LP_POOL && c->p != 1;
  tni_poll poll = {c->run, TNI_POLL};
  (void)worker;
  for (int64_t i = begin; i < end; i++) {
    if (wide) {
      const double v = plane_f64(c, i, &poll);
      ((f64u *)c->y->data)[i] = mean ? v / (double)c->n : root ? pow(v, 1 / (double)c->p) : v;
    } else {
      const float v = plane_f32(c, i, &poll), r = mean ? v / (float)c->n : root ? powf(v, 1.f / (float)c->p) : v;
      tni_store_f32(c->y->dtype, c->y->data, i, 1, &r);
    }
  }
}

tn_status tni_k_global_pool(const tni_kargs *a) {
  const tni_tensor *x = a->in[0];
  global c = {.run = a->run,
              .x = x,
              .y = a->out[0],
              .hot = tni_hot_get(),
              .op = a->node->op,
              .p = tni_at_i(a->node, TNI_A_P, 2)};
  if (x->rank < 2 || tni_dim_product(x, 0, 2) != tni_knumel(c.y))
    return tni_kfail(a, TN_E_INVALID, "%s: the output does not fit", tni_op_by_id(c.op)->name);
  if (c.op == TN_OP_GLOBAL_LP_POOL && c.p < 1)
    return tni_kfail(a, TN_E_INVALID, "GlobalLpPool: attribute 'p' is %lld", (long long)c.p);
  c.n = tni_dim_product(x, 2, x->rank);
  tni_kfor(a->run, tni_knumel(c.y), c.n, pool_planes_of, &c);
  return TN_OK;
}
