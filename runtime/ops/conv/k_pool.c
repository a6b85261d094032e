/* SPDX-License-Identifier: Apache-2.0
 *
 * MaxPool, AveragePool and LpPool. f64 is computed in double, everything else in f32, which holds the halves and 8-bit
 * integers exactly; sums run over the taps in ascending order. A NaN in a window is its maximum.
 */
#include <math.h>

#include "runtime/ops/conv/im2col.h"

enum { MANY = 1024 }; /* taps that are asked about one by one */

typedef struct pool {
  const tn_run *run;
  tni_im2col im; /* one channel: batches are the planes of x */
  const tni_tensor *x;
  tni_tensor *y;
  i64u *index; /* MaxPool's second output, or NULL */
  uint32_t op;
  int64_t p;
  bool count_pad, column_major;
} pool;

/* n elements of x, `step` apart, from `at` on. */
static void fetch_float(const tni_tensor *x, int64_t at, int64_t step, int64_t n, float *dst) {
  const f32u *src = (const f32u *)x->data + (x->dtype == TN_DT_F32 ? at : 0);
  if (x->dtype != TN_DT_F32)
    for (int64_t i = 0; i < n; i++) tni_tensor_to_f32(x, at + i * step, 1, dst + i);
  else if (step == 1)
    memcpy(dst, src, (size_t)n * sizeof *dst);
  else if (step == 2)
    for (int64_t i = 0; i < n; i++) dst[i] = src[2 * i];
  else
    for (int64_t i = 0; i < n; i++) dst[i] = src[i * step];
}

static void fetch_double(const tni_tensor *x, int64_t at, int64_t step, int64_t n, double *dst) {
  for (int64_t i = 0; i < n; i++) dst[i] = ((const f64u *)x->data)[at + i * step];
}

static void store_float(const tni_tensor *y, int64_t at, int64_t n, const float *src) {
  if (y->dtype == TN_DT_I8)
    for (int64_t i = 0; i < n; i++) ((i8u *)y->data)[at + i] = (int8_t)src[i];
  else if (y->dtype == TN_DT_U8)
    for (int64_t i = 0; i < n; i++) ((u8u *)y->data)[at + i] = (uint8_t)src[i];
  else
    tni_store_f32(y->dtype, y->data, at, n, src);
}

static void store_double(const tni_tensor *y, int64_t at, int64_t n, const double *src) {
  memcpy((f64u *)y->data + at, src, (size_t)n * sizeof *src);
}

/* What a window that sees nothing but padding gives. */
static double lowest_value(uint32_t dtype) { return dtype == TN_DT_I8 ? -128 : dtype == TN_DT_U8 ? 0 : -INFINITY; }

/* Taps of dim d that count for output position o: those inside, or with count_pad also those in the padding. */
static int64_t taps_counted(const pool *c, uint32_t d, int64_t o) {
  const tni_window *w = &c->im.w;
  const int64_t from = o * w->stride[d] - w->begin[d], lo = c->count_pad ? -w->begin[d] : 0;
  const int64_t hi = c->im.in[d] + (c->count_pad ? w->end[d] : 0), dil = w->dilation[d];
  const int64_t first = from < lo ? (lo - from + dil - 1) / dil : 0;
  const int64_t past = hi > from ? (hi - from + dil - 1) / dil : 0;
  const int64_t end = past < w->kernel[d] ? past : w->kernel[d];
  return end > first ? end - first : 0;
}

/* Where input element `at` of a plane lies when the plane's first dim is the fastest. */
static int64_t column_index(const pool *c, int64_t at) {
  int64_t index = 0, pos[TNI_WINDOW_MAX] = {0};
  for (uint32_t d = c->im.w.rank; d-- > 0;) {
    pos[d] = at % c->im.in[d];
    at /= c->im.in[d];
  }
  for (uint32_t d = c->im.w.rank; d-- > 0;) index = index * c->im.in[d] + pos[d];
  return index;
}

#define POOL(T, ABS, POW)                                                                                        \
  static void take_##T(const pool *c, T *acc, int64_t *best, const T *v, int64_t n, int64_t at, int64_t step) {  \
    if (c->op == TN_OP_MAX_POOL && !c->index) {                                                                  \
      for (int64_t j = 0; j < n; j++) acc[j] = v[j] > acc[j] || v[j] != v[j] ? v[j] : acc[j];                    \
    } else if (c->op == TN_OP_MAX_POOL) {                                                                        \
      for (int64_t j = 0; j < n; j++) {                                                                          \
        const bool more = v[j] > acc[j] || v[j] != v[j] || best[j] < 0;                                          \
        acc[j] = more ? v[j] : acc[j];                                                                           \
        best[j] = more && acc[j] == acc[j] ? at + j * step : best[j];                                            \
      }                                                                                                          \
    } else if (c->op == TN_OP_AVERAGE_POOL) {                                                                    \
      for (int64_t j = 0; j < n; j++) acc[j] += v[j];                                                            \
    } else if (c->p == 1) {                                                                                      \
      for (int64_t j = 0; j < n; j++) acc[j] += ABS(v[j]);                                                       \
    } else if (c->p == 2) {                                                                                      \
      for (int64_t j = 0; j < n; j++) acc[j] += v[j] * v[j];                                                     \
    } else {                                                                                                     \
      for (int64_t j = 0; j < n; j++) acc[j] += POW(ABS(v[j]), (T)c->p);                                         \
    }                                                                                                            \
  }                                                                                                              \
  static void finish_##T(const pool *c, T *acc, const int64_t *o, int64_t o0, int64_t n) {                       \
    const uint32_t last = c->im.w.rank - 1;                                                                      \
    double outer = 1;                                                                                            \
    for (uint32_t d = 0; d < last; d++) outer *= (double)taps_counted(c, d, o[d]);                               \
    for (int64_t j = 0; j < n && c->op == TN_OP_AVERAGE_POOL; j++) {                                             \
      const double count = outer * (double)taps_counted(c, last, o0 + j);                                        \
      acc[j] = count > 0 ? acc[j] / (T)count : 0;                                                                \
    }                                                                                                            \
    for (int64_t j = 0; j < n && c->op == TN_OP_LP_POOL && c->p != 1; j++) acc[j] = POW(acc[j], (T)1 / (T)c->p); \
  }                                                                                                              \
  static void piece_##T(const pool *c, int64_t plane, const int64_t *o, int64_t o0, int64_t n, int64_t to,       \
                        tni_poll *poll) {                                                                        \
    const int64_t s = c->im.w.stride[c->im.w.rank - 1], work = c->op == TN_OP_LP_POOL && c->p > 2 ? 16 * n : n;  \
    const bool many = c->im.taps > MANY;                                                                         \
    T acc[TNI_CHUNK], v[TNI_CHUNK];                                                                              \
    int64_t best[TNI_CHUNK];                                                                                     \
    for (int64_t j = 0; j < n; j++) {                                                                            \
      acc[j] = c->op == TN_OP_MAX_POOL ? (T)lowest_value(c->x->dtype) : 0;                                       \
      best[j] = -1;                                                                                              \
    }                                                                                                            \
    tni_taps t;                                                                                                  \
    for (bool more = tni_taps_first(&c->im, o, o0, n, &t); more && !(many && tni_poll_stop(poll, work));         \
         more = tni_taps_next(&c->im, o, &t)) {                                                                  \
      int64_t lo, hi;                                                                                            \
      const int64_t shift = t.shift + o0 * s;                                                                    \
      tni_im2col_inside(&c->im, shift, n, &lo, &hi);                                                             \
      if (lo == hi) continue;                                                                                    \
      const int64_t at = t.row + shift + lo * s;                                                                 \
      fetch_##T(c->x, plane * c->im.plane + at, s, hi - lo, v);                                                  \
      take_##T(c, acc + lo, best + lo, v, hi - lo, at, s);                                                       \
    }                                                                                                            \
    finish_##T(c, acc, o, o0, n);                                                                                \
    store_##T(c->y, to, n, acc);                                                                                 \
    for (int64_t j = 0; j < n && c->index; j++)                                                                  \
      c->index[to + j] =                                                                                         \
          best[j] < 0 ? -1 : plane * c->im.plane + (c->column_major ? column_index(c, best[j]) : best[j]);       \
  }
POOL(float, fabsf, powf)
POOL(double, fabs, pow)
#undef POOL

static void pool_rows(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  const pool *c = arg;
  const uint32_t last = c->im.w.rank - 1;
  const int64_t n = c->im.out[last], rows = c->im.positions / n;
  tni_poll poll = {c->run, TNI_POLL};
  (void)worker;
  for (int64_t r = begin; r < end; r++) {
    int64_t o[TNI_WINDOW_MAX] = {0};
    tni_row_position(c->im.out, last, r % rows, o);
    for (int64_t i = 0; i < n; i += TNI_CHUNK) {
      const int64_t k = n - i < TNI_CHUNK ? n - i : TNI_CHUNK;
      if (c->x->dtype == TN_DT_F64)
        piece_double(c, r / rows, o, i, k, r * n + i, &poll);
      else
        piece_float(c, r / rows, o, i, k, r * n + i, &poll);
    }
  }
}

tn_status tni_k_pool(const tni_kargs *a) {
  const tni_tensor *x = a->in[0];
  tni_tensor *y = a->out[0], *index = a->n_out > 1 ? a->out[1] : NULL;
  pool c = {.run = a->run, .x = x, .y = y, .op = a->node->op, .p = tni_at_i(a->node, TNI_A_P, 2)};
  const char *name = tni_op_by_id(c.op)->name;
  tni_window w;
  char why[128];
  if (x->rank < 3 || !y || y->rank != x->rank) return tni_kfail(a, TN_E_INVALID, "%s: ranks differ", name);
  if (!tni_window_read(a->node, x->rank - 2, NULL, &w, why, sizeof why))
    return tni_kfail(a, TN_E_INVALID, "%s: %s", name, why);
  if (c.op == TN_OP_LP_POOL && c.p < 1)
    return tni_kfail(a, TN_E_INVALID, "%s: attribute 'p' is %lld", name, (long long)c.p);
  if (index && tni_knumel(index) != tni_knumel(y))
    return tni_kfail(a, TN_E_INVALID, "%s: the indices do not fit", name);
  if (!tni_knumel(y)) return TN_OK;
  tni_im2col_init(&c.im, &w, x, y, x->dims[1]);
  c.count_pad = tni_at_i(a->node, TNI_A_COUNT_INCLUDE_PAD, 0) != 0;
  c.column_major = tni_at_i(a->node, TNI_A_STORAGE_ORDER, 0) != 0;
  if (index) c.index = index->data;
  const int64_t n = c.im.out[w.rank - 1];
  tni_kfor(a->run, tni_knumel(y) / n, n * (c.im.taps < c.im.plane ? c.im.taps : c.im.plane), pool_rows, &c);
  return TN_OK;
}
