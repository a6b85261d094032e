/* SPDX-License-Identifier: Apache-2.0
 *
 * ReduceSum, Mean, Max, Min, Prod, SumSquare, L1, L2, LogSum, LogSumExp over any axes.
 *
 * Dims are merged into kept and reduced groups. Where the innermost group is reduced, each row is summed in 16
 * interleaved partial sums that are added pairwise (hot.h), and rows in ascending order; where it is kept, every
 * element adds its terms in ascending order. Halves accumulate in f32, integers in int64 (wrapping). No order depends
 * on threads. LogSumExp is computed in double, relative to the largest element.
 */
#include <math.h>

#include "runtime/ops/hot/hot.h"
#include "runtime/ops/kernel/kernel.h"

typedef struct reduce {
  const tn_run *run;
  const tni_tensor *x;
  tni_tensor *y;
  const tni_hot *hot;
  uint32_t op, nk, nr; /* groups kept and reduced, outermost first, without the innermost */
  int64_t kd[TN_MAX_RANK], ks[TN_MAX_RANK], rd[TN_MAX_RANK], rs[TN_MAX_RANK];
  int64_t rows;         /* product of rd */
  int64_t inner, width; /* innermost group; width: outputs per unit row (inner if kept, else 1) */
  int64_t count;        /* elements per output */
  bool last_kept;
} reduce;

static void load_f(const reduce *r, int64_t at, int64_t n, float *v) {
  tni_load_f32(r->x->dtype, r->x->data, at, n, v);
  if (r->op == TN_OP_REDUCE_SUM_SQUARE || r->op == TN_OP_REDUCE_L2)
    for (int64_t i = 0; i < n; i++) v[i] *= v[i];
  if (r->op == TN_OP_REDUCE_L1)
    for (int64_t i = 0; i < n; i++) v[i] = fabsf(v[i]);
}
static void load_d(const reduce *r, int64_t at, int64_t n, double *v) {
  memcpy(v, (const f64u *)r->x->data + at, (size_t)n * 8);
  if (r->op == TN_OP_REDUCE_SUM_SQUARE || r->op == TN_OP_REDUCE_L2)
    for (int64_t i = 0; i < n; i++) v[i] *= v[i];
  if (r->op == TN_OP_REDUCE_L1)
    for (int64_t i = 0; i < n; i++) v[i] = fabs(v[i]);
}
static void load_i(const reduce *r, int64_t at, int64_t n, int64_t *v) {
  const bool sq = r->op == TN_OP_REDUCE_SUM_SQUARE || r->op == TN_OP_REDUCE_L2;
  for (int64_t i = 0; i < n; i++) {
    v[i] = tni_get_i64(r->x, at + i);
    if (sq) v[i] = (int64_t)((uint64_t)v[i] * (uint64_t)v[i]);
    if (r->op == TN_OP_REDUCE_L1 && v[i] < 0 && r->x->dtype != TN_DT_U64) v[i] = (int64_t)(0 - (uint64_t)v[i]);
  }
}

/* The neutral element of integers: the type's own bounds, so that an empty set answers them. */
static int64_t bound_i(uint32_t dtype, bool highest) {
  switch (dtype) {
    case TN_DT_BOOL:
      return highest;
#define X(DT, U, T, LO, HI) \
  case TN_DT_##DT:          \
    return highest ? (int64_t)(HI) : (int64_t)(LO);
      TNI_INT_TYPES(X)
#undef X
    default:
      return 0;
  }
}
static bool u64_less(uint32_t dtype, int64_t a, int64_t b) {
  return dtype == TN_DT_U64 ? (uint64_t)a < (uint64_t)b : a < b;
}

static float start_f(const reduce *r) {
  return r->op == TN_OP_REDUCE_PROD  ? 1
         : r->op == TN_OP_REDUCE_MAX ? -INFINITY
         : r->op == TN_OP_REDUCE_MIN ? INFINITY
                                     : 0;
}
static double start_d(const reduce *r) { return (double)start_f(r); }
static int64_t start_i(const reduce *r) {
  if (r->op == TN_OP_REDUCE_MAX || r->op == TN_OP_REDUCE_MIN) return bound_i(r->x->dtype, r->op == TN_OP_REDUCE_MIN);
  return r->op == TN_OP_REDUCE_PROD;
}

#define FOLD_REAL(S, T)                                                                       \
  static void fold_##S(const reduce *r, T *restrict acc, const T *restrict v, int64_t n) {    \
    if (r->op == TN_OP_REDUCE_MAX)                                                            \
      for (int64_t i = 0; i < n; i++) acc[i] = v[i] > acc[i] || v[i] != v[i] ? v[i] : acc[i]; \
    else if (r->op == TN_OP_REDUCE_MIN)                                                       \
      for (int64_t i = 0; i < n; i++) acc[i] = v[i] < acc[i] || v[i] != v[i] ? v[i] : acc[i]; \
    else if (r->op == TN_OP_REDUCE_PROD)                                                      \
      for (int64_t i = 0; i < n; i++) acc[i] *= v[i];                                         \
    else                                                                                      \
      for (int64_t i = 0; i < n; i++) acc[i] += v[i];                                         \
  }
FOLD_REAL(f, float)
FOLD_REAL(d, double)
static void fold_i(const reduce *r, int64_t *acc, const int64_t *v, int64_t n) {
  for (int64_t i = 0; i < n; i++) {
    if (r->op == TN_OP_REDUCE_MAX)
      acc[i] = u64_less(r->x->dtype, acc[i], v[i]) ? v[i] : acc[i];
    else if (r->op == TN_OP_REDUCE_MIN)
      acc[i] = u64_less(r->x->dtype, v[i], acc[i]) ? v[i] : acc[i];
    else if (r->op == TN_OP_REDUCE_PROD)
      acc[i] = (int64_t)((uint64_t)acc[i] * (uint64_t)v[i]);
    else
      acc[i] = (int64_t)((uint64_t)acc[i] + (uint64_t)v[i]);
  }
}

static void store_f(const reduce *r, int64_t at, int64_t n, float *v) {
  for (int64_t i = 0; i < n && r->op == TN_OP_REDUCE_MEAN; i++) v[i] /= (float)r->count;
  for (int64_t i = 0; i < n && r->op == TN_OP_REDUCE_L2; i++) v[i] = sqrtf(v[i]);
  for (int64_t i = 0; i < n && r->op == TN_OP_REDUCE_LOG_SUM; i++) v[i] = logf(v[i]);
  tni_store_f32(r->y->dtype, r->y->data, at, n, v);
}
static void store_d(const reduce *r, int64_t at, int64_t n, double *v) {
  for (int64_t i = 0; i < n && r->op == TN_OP_REDUCE_MEAN; i++) v[i] /= (double)r->count;
  for (int64_t i = 0; i < n && r->op == TN_OP_REDUCE_L2; i++) v[i] = sqrt(v[i]);
  for (int64_t i = 0; i < n && r->op == TN_OP_REDUCE_LOG_SUM; i++) v[i] = log(v[i]);
  memcpy((f64u *)r->y->data + at, v, (size_t)n * 8);
}
static void store_i(const reduce *r, int64_t at, int64_t n, int64_t *v) {
  const bool no_sign = r->y->dtype == TN_DT_U64;
  for (int64_t i = 0; i < n && r->op == TN_OP_REDUCE_MEAN; i++)
    v[i] = !r->count ? 0 : no_sign ? (int64_t)((uint64_t)v[i] / (uint64_t)r->count) : v[i] / r->count;
  /* a sum of squares has no sign, so that it may take all 64 bits */
  for (int64_t i = 0; i < n && r->op == TN_OP_REDUCE_L2; i++) v[i] = (int64_t)sqrt((double)(uint64_t)v[i]);
  switch (r->y->dtype) {
    case TN_DT_BOOL:
      for (int64_t i = 0; i < n; i++) ((u8u *)r->y->data)[at + i] = v[i] != 0;
      return;
#define X(DT, U, T, LO, HI)                                              \
  case TN_DT_##DT:                                                       \
    for (int64_t i = 0; i < n; i++) ((U *)r->y->data)[at + i] = (T)v[i]; \
    return;
      TNI_INT_TYPES(X)
#undef X
    default:
      return;
  }
}

/* One row of `inner` elements to one value. */
static float row_f(const reduce *r, int64_t at, tni_poll *poll) {
  const uint32_t op = r->op;
  float v[TNI_CHUNK], acc = start_f(r);
  const bool sum = op == TN_OP_REDUCE_SUM || op == TN_OP_REDUCE_MEAN || op == TN_OP_REDUCE_LOG_SUM;
  if (r->x->dtype == TN_DT_F32) {
    const f32u *x = (const f32u *)r->x->data + at;
    if (sum) return r->hot->sum(x, r->inner);
    if (op == TN_OP_REDUCE_SUM_SQUARE || op == TN_OP_REDUCE_L2) return r->hot->sum_sq(x, r->inner, 0);
    if (op == TN_OP_REDUCE_MAX) return r->hot->max(x, r->inner);
  }
  for (int64_t i = 0; i < r->inner && !tni_poll_stop(poll, TNI_CHUNK); i += TNI_CHUNK) {
    const int64_t n = r->inner - i < TNI_CHUNK ? r->inner - i : TNI_CHUNK;
    load_f(r, at + i, n, v);
    if (sum || op == TN_OP_REDUCE_SUM_SQUARE || op == TN_OP_REDUCE_L2 || op == TN_OP_REDUCE_L1)
      acc += r->hot->sum(v, n);
    else
      for (int64_t j = 0; j < n; j++) fold_f(r, &acc, v + j, 1);
  }
  return acc;
}
#define ROW(S, T)                                                                          \
  static T row_##S(const reduce *r, int64_t at, tni_poll *poll) {                          \
    T v[TNI_CHUNK], acc = start_##S(r);                                                    \
    for (int64_t i = 0; i < r->inner && !tni_poll_stop(poll, TNI_CHUNK); i += TNI_CHUNK) { \
      const int64_t n = r->inner - i < TNI_CHUNK ? r->inner - i : TNI_CHUNK;               \
      load_##S(r, at + i, n, v);                                                           \
      for (int64_t j = 0; j < n; j++) fold_##S(r, &acc, v + j, 1);                         \
    }                                                                                      \
    return acc;                                                                            \
  }
ROW(d, double)
ROW(i, int64_t)

static int64_t offset_of(int64_t i, uint32_t n, const int64_t *dims, const int64_t *st) {
  int64_t off = 0;
  for (uint32_t d = n; d-- > 0;) {
    off += (i % dims[d]) * st[d];
    i /= dims[d];
  }
  return off;
}

/* A unit: up to TNI_CHUNK neighbouring outputs (kept), or one (reduced). */
#define UNIT(S, T)                                                                           \
  static void unit_##S(const reduce *r, int64_t u, tni_poll *poll) {                         \
    T acc[TNI_CHUNK], v[TNI_CHUNK];                                                          \
    const int64_t per = (r->width + TNI_CHUNK - 1) / TNI_CHUNK, col = (u % per) * TNI_CHUNK; \
    const int64_t n = r->width - col < TNI_CHUNK ? r->width - col : TNI_CHUNK;               \
    const int64_t base = offset_of(u / per, r->nk, r->kd, r->ks) + col;                      \
    for (int64_t i = 0; i < n; i++) acc[i] = start_##S(r);                                   \
    for (int64_t k = 0, to; (to = tni_poll_until(poll, k, r->rows)) > k;)                    \
      for (; k < to; k++) {                                                                  \
        if (!r->last_kept && tni_poll_stop(poll, r->inner)) return;                          \
        const int64_t at = base + offset_of(k, r->nr, r->rd, r->rs);                         \
        if (r->last_kept)                                                                    \
          load_##S(r, at, n, v);                                                             \
        else                                                                                 \
          v[0] = row_##S(r, at, poll);                                                       \
        fold_##S(r, acc, v, n);                                                              \
      }                                                                                      \
    store_##S(r, (u / per) * r->width + col, n, acc);                                        \
  }
UNIT(f, float)
UNIT(d, double)
UNIT(i, int64_t)

/* Every output on its own, twice over its elements: the largest, then the sum. */
static double log_sum_exp(const reduce *r, int64_t first, int64_t step, tni_poll *poll) {
  double max = -INFINITY, sum = 0;
  for (int pass = 0; pass < 2; pass++)
    for (int64_t k = 0; k < r->rows; k++) {
      const int64_t at = first + offset_of(k, r->nr, r->rd, r->rs);
      if (tni_poll_stop(poll, 4)) return 0;
      for (int64_t i = 0, to; (to = tni_poll_until(poll, i, step)) > i;)
        for (; i < to; i++) {
          const double v = tni_get_f64(r->x, at + i);
          if (pass)
            sum += exp(v - max);
          else
            max = v > max || isnan(v) ? v : max;
        }
      if (!pass && isnan(max)) return max;
    }
  return isinf(max) ? max : max + log(sum);
}

static void unit_lse(const reduce *r, int64_t u, tni_poll *poll) {
  const int64_t per = (r->width + TNI_CHUNK - 1) / TNI_CHUNK, col = (u % per) * TNI_CHUNK;
  const int64_t n = r->width - col < TNI_CHUNK ? r->width - col : TNI_CHUNK, out = (u / per) * r->width + col;
  const int64_t base = offset_of(u / per, r->nk, r->kd, r->ks) + col;
  for (int64_t i = 0; i < n; i++)
    tni_put_f64(r->y, out + i, log_sum_exp(r, base + i, r->last_kept ? 1 : r->inner, poll));
}

static void reduce_body(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  const reduce *r = arg;
  tni_poll poll = {r->run, TNI_POLL};
  (void)worker;
  for (int64_t u = begin; u < end; u++) {
    if (r->op == TN_OP_REDUCE_LOG_SUM_EXP)
      unit_lse(r, u, &poll);
    else if (r->x->dtype == TN_DT_F64)
      unit_d(r, u, &poll);
    else if (r->x->dtype == TN_DT_F32 || tni_is_half(r->x->dtype))
      unit_f(r, u, &poll);
    else
      unit_i(r, u, &poll);
  }
}

/* Merges dims of the same sort that are neighbours; the innermost group goes to r->inner. */
static void group_axes(reduce *r, uint32_t mask) {
  const tni_tensor *x = r->x;
  int64_t gd[TN_MAX_RANK + 1], gs[TN_MAX_RANK + 1], st[TN_MAX_RANK];
  bool red[TN_MAX_RANK + 1];
  uint32_t n = 0;
  tni_kstrides(x, st);
  for (uint32_t d = 0; d < x->rank; d++) {
    const bool is = (mask >> d) & 1;
    if (x->dims[d] == 1) continue;
    if (n && red[n - 1] == is) {
      gd[n - 1] *= x->dims[d];
      gs[n - 1] = st[d];
    } else {
      gd[n] = x->dims[d];
      gs[n] = st[d];
      red[n++] = is;
    }
  }
  r->inner = n ? gd[n - 1] : 1;
  r->last_kept = n ? !red[n - 1] : false;
  r->width = r->last_kept ? r->inner : 1;
  r->rows = 1;
  r->count = r->last_kept ? 1 : r->inner;
  for (uint32_t i = 0; i + 1 < n; i++) {
    if (red[i]) {
      r->rd[r->nr] = gd[i];
      r->rs[r->nr++] = gs[i];
      r->rows *= gd[i];
      r->count *= gd[i];
    } else {
      r->kd[r->nk] = gd[i];
      r->ks[r->nk++] = gs[i];
    }
  }
}

tn_status tni_k_reduce(const tni_kargs *a) {
  reduce r = {.run = a->run, .x = a->in[0], .y = a->out[0], .op = a->node->op, .hot = tni_hot_get()};
  const tni_tensor *axes = a->n_in > 1 ? a->in[1] : NULL;
  const int64_t n = axes ? tni_knumel(axes) : 0;
  uint32_t mask = 0;
  if (r.x->dtype == TN_DT_BOOL ? r.op != TN_OP_REDUCE_MAX && r.op != TN_OP_REDUCE_MIN
                               : !tni_elem_size(r.x->dtype) || tni_elem_size(r.x->dtype) > 8 ||
                                     r.x->dtype > TN_DT_BF16 || r.x->dtype == TN_DT_C64)
    return tni_kdtype(a, r.x->dtype);
  for (int64_t i = 0; i < n; i++) {
    const int32_t d = tni_kaxis(tni_get_i64(axes, i), r.x->rank);
    if (d < 0) return tni_kfail(a, TN_E_INVALID, "axis %lld of rank %u", (long long)tni_get_i64(axes, i), r.x->rank);
    mask |= 1u << d;
  }
  if (n == 0 && !tni_at_i(a->node, TNI_A_NOOP_WITH_EMPTY_AXES, 0)) mask = UINT32_MAX;
  group_axes(&r, mask);
  const int64_t outputs = tni_knumel(r.y);
  if (!outputs) return TN_OK;
  int64_t expect = r.width;
  for (uint32_t d = 0; d < r.nk; d++) expect *= r.kd[d];
  if (outputs != expect) return tni_kfail(a, TN_E_INVALID, "the output does not fit the axes");
  const int64_t per = (r.width + TNI_CHUNK - 1) / TNI_CHUNK;
  tni_kfor(a->run, outputs / r.width * per, r.count * (r.width < TNI_CHUNK ? r.width : TNI_CHUNK), reduce_body, &r);
  return TN_OK;
}
