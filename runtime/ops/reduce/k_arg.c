/* SPDX-License-Identifier: Apache-2.0
 *
 * Along one axis: ArgMax, ArgMin, Hardmax, CumSum, CumProd, TopK. The tensor is seen as [outer, n, inner].
 */
#include <math.h>

#include "runtime/ops/kernel/kernel.h"

typedef struct line {
  const tn_run *run;
  const tni_tensor *x;
  tni_tensor *y, *index;
  int64_t n, inner, lines, k;
  bool largest, last, exclusive, reverse, sorted, product;
  int64_t *scratch; /* TopK: n per worker */
} line;

static tn_status make_line(const tni_kargs *a, int64_t axis, line *l) {
  const int32_t d = tni_kaxis(axis, a->in[0]->rank);
  l->run = a->run;
  l->x = a->in[0];
  l->y = a->out[0];
  const uint32_t t = l->x->dtype;
  if (!tni_elem_size(t) || t > TN_DT_BF16 || t == TN_DT_BOOL || t == TN_DT_C64 || t == TN_DT_C128)
    return tni_kdtype(a, t);
  if (d < 0) return tni_kfail(a, TN_E_INVALID, "axis %lld of rank %u", (long long)axis, l->x->rank);
  l->n = l->x->rank ? l->x->dims[d] : 1;
  l->inner = tni_dim_product(l->x, (uint32_t)d + 1, l->x->rank);
  l->lines = tni_dim_product(l->x, 0, l->x->rank ? (uint32_t)d : 0) * l->inner;
  return TN_OK;
}

/* Start of line i. */
static int64_t line_at(const line *l, int64_t i) { return (i / l->inner) * l->n * l->inner + i % l->inner; }

/* Strictly better than; NaN beats everything, as in NumPy. */
#define ARG(T)                                                                                                \
  {                                                                                                           \
    const T *x = (const T *)l->x->data + at;                                                                  \
    for (int64_t j = from; j < to; j++) {                                                                     \
      const bool gt = l->largest ? x[j * s] > x[best * s] : x[j * s] < x[best * s];                           \
      if (x[best * s] == x[best * s] && (gt || x[j * s] != x[j * s] || (l->last && x[j * s] == x[best * s]))) \
        best = j;                                                                                             \
    }                                                                                                         \
  }                                                                                                           \
  break;
static int64_t better_index(const line *l, int64_t at, int64_t from, int64_t to, int64_t best) {
  const int64_t s = l->inner;
  switch (l->x->dtype) {
    case TN_DT_F32:
      ARG(f32u)
    case TN_DT_F64:
      ARG(f64u)
#define X(DT, U, T, LO, HI) \
  case TN_DT_##DT:          \
    ARG(U)
      TNI_INT_TYPES(X)
#undef X
    default:
      for (int64_t j = from; j < to; j++) {
        const double v = tni_get_f64(l->x, at + j * s), w = tni_get_f64(l->x, at + best * s);
        if (w == w && ((l->largest ? v > w : v < w) || v != v || (l->last && v == w))) best = j;
      }
  }
  return best;
}

static int64_t arg_best(const line *l, int64_t at, tni_poll *poll) {
  int64_t best = 0;
  for (int64_t j = 1, to; (to = tni_poll_until(poll, j, l->n)) > j; j = to) best = better_index(l, at, j, to, best);
  return best;
}

static void arg_body(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  const line *l = arg;
  tni_poll poll = {l->run, TNI_POLL};
  (void)worker;
  for (int64_t i = begin; i < end; i++) ((i64u *)l->y->data)[i] = arg_best(l, line_at(l, i), &poll);
}

tn_status tni_k_arg_max(const tni_kargs *a) {
  line l = {.largest = a->node->op == TN_OP_ARG_MAX, .last = tni_at_i(a->node, TNI_A_SELECT_LAST_INDEX, 0) != 0};
  tn_status s = make_line(a, tni_at_i(a->node, TNI_A_AXIS, 0), &l);
  if (s) return s;
  if (l.lines && !l.n) return tni_kfail(a, TN_E_INVALID, "no element along the axis");
  tni_kfor(a->run, l.lines, l.n, arg_body, &l);
  return TN_OK;
}

/* --- Hardmax: one at the first of the largest, zero elsewhere --- */

static void hardmax_body(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  const line *l = arg;
  const float one = 1;
  tni_poll poll = {l->run, TNI_POLL};
  (void)worker;
  for (int64_t i = begin; i < end; i++) {
    const int64_t at = line_at(l, i);
    tni_store_f32(l->y->dtype, l->y->data, at + arg_best(l, at, &poll) * l->inner, 1, &one);
  }
}

tn_status tni_k_hardmax(const tni_kargs *a) {
  line l = {.largest = true};
  const tni_tensor *x = a->in[0];
  const bool coerce = tni_at_i(a->node, TNI_A_COERCE_2D, 0) != 0;
  const int64_t axis = tni_at_i(a->node, TNI_A_AXIS, coerce ? 1 : -1);
  tn_status s = make_line(a, axis, &l);
  if (s) return s;
  if (x->dtype != TN_DT_F32 && x->dtype != TN_DT_F64 && !tni_is_half(x->dtype)) return tni_kdtype(a, x->dtype);
  if (!tni_knumel(x)) return TN_OK;
  if (coerce) {
    l.n *= l.inner;
    l.inner = 1;
    l.lines = tni_knumel(x) / l.n;
  }
  memset(l.y->data, 0, (size_t)l.y->bytes);
  tni_kfor(a->run, l.lines, l.n, hardmax_body, &l);
  return TN_OK;
}

/* --- CumSum, CumProd --- */

#define CUM(U, W)                                                       \
  {                                                                     \
    const U *x = (const U *)l->x->data + at;                            \
    U *y = (U *)l->y->data + at;                                        \
    W acc = l->product;                                                 \
    for (int64_t j = 0, to; (to = tni_poll_until(&poll, j, l->n)) > j;) \
      for (; j < to; j++) {                                             \
        const int64_t p = (l->reverse ? l->n - 1 - j : j) * l->inner;   \
        const W before = acc;                                           \
        acc = l->product ? acc * (W)x[p] : acc + (W)x[p];               \
        y[p] = (U)(l->exclusive ? before : acc);                        \
      }                                                                 \
  }                                                                     \
  break;
static void cum_body(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  const line *l = arg;
  tni_poll poll = {l->run, TNI_POLL};
  (void)worker;
  for (int64_t i = begin; i < end; i++) {
    const int64_t at = line_at(l, i);
    switch (l->x->dtype) {
      case TN_DT_F32:
        CUM(f32u, float)
      case TN_DT_F64:
        CUM(f64u, double)
#define X(DT, U, T, LO, HI) \
  case TN_DT_##DT:          \
    CUM(U, uint64_t)
        TNI_INT_TYPES(X)
#undef X
      default: {
        float acc = l->product;
        for (int64_t j = 0; j < l->n && !tni_poll_stop(&poll, 1); j++) {
          const int64_t p = at + (l->reverse ? l->n - 1 - j : j) * l->inner;
          const float before = acc;
          float v;
          tni_load_f32(l->x->dtype, l->x->data, p, 1, &v);
          acc = l->product ? acc * v : acc + v;
          tni_store_f32(l->x->dtype, l->y->data, p, 1, l->exclusive ? &before : &acc);
        }
      }
    }
  }
}

tn_status tni_k_cum_sum(const tni_kargs *a) {
  line l = {.exclusive = tni_at_i(a->node, TNI_A_EXCLUSIVE, 0) != 0,
            .reverse = tni_at_i(a->node, TNI_A_REVERSE, 0) != 0,
            .product = a->node->op == TN_OP_CUM_PROD};
  if (tni_knumel(a->in[1]) != 1) return tni_kfail(a, TN_E_INVALID, "axis is not one element");
  tn_status s = make_line(a, tni_get_i64(a->in[1], 0), &l);
  if (s) return s;
  tni_kfor(a->run, l.lines, l.n, cum_body, &l);
  return TN_OK;
}

/* --- TopK: a heap of the k best indices, then sorted. Equal values: the lower index first. --- */

enum { SIFT = 32 }; /* elements that one takes as long as, about */

/* a comes before b in the result. */
static bool ranks_before(const line *l, int64_t at, int64_t a, int64_t b) {
  const tni_tensor *x = l->x;
  const int64_t pa = at + a * l->inner, pb = at + b * l->inner;
  if (x->dtype == TN_DT_F32 || x->dtype == TN_DT_F64 || tni_is_half(x->dtype)) {
    const double u = tni_get_f64(x, pa), v = tni_get_f64(x, pb);
    if (isnan(u) || isnan(v)) return isnan(u) && isnan(v) ? a < b : (isnan(u) != 0) == l->largest;
    return u == v ? a < b : (u > v) == l->largest;
  }
  const int64_t u = tni_get_i64(x, pa), v = tni_get_i64(x, pb);
  if (u == v) return a < b;
  return (x->dtype == TN_DT_U64 ? (uint64_t)u > (uint64_t)v : u > v) == l->largest;
}

/* Root: the one that comes last. */
static void sift_line(const line *l, int64_t at, int64_t *h, int64_t n, int64_t i) {
  for (;;) {
    int64_t c = 2 * i + 1;
    if (c >= n) return;
    if (c + 1 < n && ranks_before(l, at, h[c], h[c + 1])) c++;
    if (!ranks_before(l, at, h[i], h[c])) return;
    const int64_t t = h[i];
    h[i] = h[c];
    h[c] = t;
    i = c;
  }
}

static void top_body(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  const line *l = arg;
  int64_t *h = l->scratch + (int64_t)worker * l->n;
  const uint32_t size = tni_elem_size(l->x->dtype);
  tni_poll poll = {l->run, TNI_POLL};
  for (int64_t i = begin; i < end; i++) {
    const int64_t at = line_at(l, i), out = (i / l->inner) * l->k * l->inner + i % l->inner;
    for (int64_t j = 0; j < l->k; j++) h[j] = j;
    for (int64_t j = l->k / 2; j-- > 0 && !tni_poll_stop(&poll, SIFT);) sift_line(l, at, h, l->k, j);
    for (int64_t j = l->k, to; l->k && (to = tni_poll_until(&poll, j, l->n)) > j;)
      for (; j < to; j++)
        if (ranks_before(l, at, j, h[0])) {
          h[0] = j;
          sift_line(l, at, h, l->k, 0);
        }
    for (int64_t m = l->k - 1; m > 0 && !tni_poll_stop(&poll, SIFT); m--) {
      const int64_t t = h[0];
      h[0] = h[m];
      h[m] = t;
      sift_line(l, at, h, m, 0);
    }
    for (int64_t j = 0; j < l->k && !tni_poll_stop(&poll, 4); j++) {
      const int64_t p = out + j * l->inner;
      if (l->y) memcpy((char *)l->y->data + p * size, (const char *)l->x->data + (at + h[j] * l->inner) * size, size);
      if (l->index) ((i64u *)l->index->data)[p] = h[j];
    }
  }
}

tn_status tni_k_top_k(const tni_kargs *a) {
  line l = {.largest = tni_at_i(a->node, TNI_A_LARGEST, 1) != 0, .scratch = a->scratch};
  const int64_t axis = tni_at_i(a->node, TNI_A_AXIS, -1);
  tn_status s = make_line(a, axis, &l);
  if (s) return s;
  if (!l.x->rank) return tni_kfail(a, TN_E_INVALID, "TopK: the input is a scalar");
  l.index = a->n_out > 1 ? a->out[1] : NULL;
  const tni_tensor *y = l.y ? l.y : l.index;
  l.k = y->dims[tni_kaxis(axis, l.x->rank)];
  if (l.k < 0 || l.k > l.n)
    return tni_kfail(a, TN_E_INVALID, "TopK: k is %lld of %lld", (long long)l.k, (long long)l.n);
  tni_kfor(a->run, l.lines, l.n * 8, top_body, &l);
  return TN_OK;
}
