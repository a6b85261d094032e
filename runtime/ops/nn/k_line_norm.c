/* SPDX-License-Identifier: Apache-2.0
 *
 * LRN, LpNormalization and MeanVarianceNormalization. Sums in double and ascending order, elements in f32 (f64:
 * double).
 */
#include <math.h>

#include "runtime/ops/kernel/kernel.h"

/* --- LRN: y = x / (bias + alpha / size * sum of squares over `size` channels around)^beta */

typedef struct lrn {
  const tn_run *run;
  const tni_tensor *x;
  tni_tensor *y;
  int64_t c, plane, before, after; /* channels on each side */
  double scale, beta, bias;
} lrn;

/* Squares of the elements lo .. hi, `plane` apart; `at` is the first of them all. */
static double square_sum(const lrn *k, int64_t at, int64_t lo, int64_t hi, tni_poll *poll) {
  double sum = 0;
  for (int64_t j = lo, to; (to = tni_poll_until(poll, j, hi + 1)) > j;)
    for (; j < to; j++) {
      const double v = tni_get_f64(k->x, at + j * k->plane);
      sum += v * v;
    }
  return sum;
}

static void lrn_planes(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  const lrn *k = arg;
  tni_poll poll = {k->run, TNI_POLL};
  (void)worker;
  for (int64_t r = begin; r < end; r++) {
    const int64_t c = r % k->c, lo = c > k->before ? c - k->before : 0, last = k->c - 1 - c;
    const int64_t hi = c + (k->after < last ? k->after : last);
    for (int64_t i = 0, to; (to = tni_poll_until(&poll, i, k->plane)) > i;)
      for (; i < to; i++) {
        const double sum = square_sum(k, (r - c) * k->plane + i, lo, hi, &poll),
                     v = tni_get_f64(k->x, r * k->plane + i);
        tni_put_f64(k->y, r * k->plane + i, v / pow(k->bias + k->scale * sum, k->beta));
      }
  }
}

tn_status tni_k_lrn(const tni_kargs *a) {
  const tni_tensor *x = a->in[0];
  const int64_t size = tni_at_i(a->node, TNI_A_SIZE, 0);
  lrn k = {.run = a->run, .x = x, .y = a->out[0], .before = (size - 1) / 2, .after = size / 2};
  if (x->rank < 2 || size < 1) return tni_kfail(a, TN_E_INVALID, "LRN: size %lld, rank %u", (long long)size, x->rank);
  k.scale = tni_at_f(a->node, TNI_A_ALPHA, 1e-4) / (double)size;
  k.beta = tni_at_f(a->node, TNI_A_BETA, 0.75);
  k.bias = tni_at_f(a->node, TNI_A_BIAS, 1);
  k.c = x->dims[1];
  k.plane = tni_dim_product(x, 2, x->rank);
  const int64_t window = size < k.c ? size : k.c;
  tni_kfor(a->run, x->dims[0] * k.c, k.plane * (16 + window), lrn_planes, &k);
  return TN_OK;
}

/* --- LpNormalization: x / norm along one axis; a line of zeros stays one */

typedef struct lp {
  const tn_run *run;
  const tni_tensor *x;
  tni_tensor *y;
  int64_t n, inner, p;
} lp;

static void lp_lines(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  const lp *k = arg;
  tni_poll poll = {k->run, TNI_POLL};
  (void)worker;
  for (int64_t r = begin; r < end; r++) {
    const int64_t at = r / k->inner * k->n * k->inner + r % k->inner;
    double sum = 0;
    for (int64_t i = 0, to; (to = tni_poll_until(&poll, i, k->n)) > i;)
      for (; i < to; i++) {
        const double v = tni_get_f64(k->x, at + i * k->inner);
        sum += k->p == 1 ? fabs(v) : v * v;
      }
    const double norm = k->p == 1 ? sum : sqrt(sum);
    for (int64_t i = 0, to; (to = tni_poll_until(&poll, i, k->n)) > i;)
      for (; i < to; i++)
        tni_put_f64(k->y, at + i * k->inner, norm == 0 ? 0 : tni_get_f64(k->x, at + i * k->inner) / norm);
  }
}

tn_status tni_k_lp_norm(const tni_kargs *a) {
  const tni_tensor *x = a->in[0];
  const int32_t axis = tni_kaxis(tni_at_i(a->node, TNI_A_AXIS, -1), x->rank);
  lp k = {.run = a->run, .x = x, .y = a->out[0], .p = tni_at_i(a->node, TNI_A_P, 2), .n = 1, .inner = 1};
  if (axis < 0) return tni_kfail(a, TN_E_INVALID, "LpNormalization: the axis is outside rank %u", x->rank);
  if (k.p != 1 && k.p != 2) return tni_kfail(a, TN_E_INVALID, "LpNormalization: p is %lld", (long long)k.p);
  if (!tni_knumel(x)) return TN_OK;
  if (x->rank) {
    k.n = x->dims[axis];
    k.inner = tni_dim_product(x, (uint32_t)axis + 1, x->rank);
  }
  tni_kfor(a->run, tni_knumel(x) / k.n, k.n * 4, lp_lines, &k);
  return TN_OK;
}

/* --- MeanVarianceNormalization: (x - mean) / (deviation + 1e-9) over `axes` */

typedef struct mvn {
  const tn_run *run;
  const tni_tensor *x;
  tni_tensor *y;
  uint32_t n_kept, n_reduced;
  int64_t kept[TN_MAX_RANK], kept_st[TN_MAX_RANK], reduced[TN_MAX_RANK], reduced_st[TN_MAX_RANK];
  int64_t n_outer, n;
} mvn;

static int64_t line_offset(int64_t i, uint32_t rank, const int64_t *dims, const int64_t *st) {
  int64_t at = 0;
  for (uint32_t d = rank; d-- > 0; i /= dims[d]) at += i % dims[d] * st[d];
  return at;
}

static void mvn_cells(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  const mvn *k = arg;
  tni_poll poll = {k->run, TNI_POLL};
  (void)worker;
  for (int64_t r = begin; r < end; r++) {
    const int64_t base = line_offset(r, k->n_kept, k->kept, k->kept_st);
    double mean = 0, var = 0;
    for (int64_t i = 0, to; (to = tni_poll_until(&poll, i, k->n)) > i;)
      for (; i < to; i++) mean += tni_get_f64(k->x, base + line_offset(i, k->n_reduced, k->reduced, k->reduced_st));
    mean /= (double)k->n;
    for (int64_t i = 0, to; (to = tni_poll_until(&poll, i, k->n)) > i;)
      for (; i < to; i++) {
        const double v = tni_get_f64(k->x, base + line_offset(i, k->n_reduced, k->reduced, k->reduced_st)) - mean;
        var += v * v;
      }
    const double dev = sqrt(var / (double)k->n) + 1e-9;
    for (int64_t i = 0, to; (to = tni_poll_until(&poll, i, k->n)) > i;)
      for (; i < to; i++) {
        const int64_t at = base + line_offset(i, k->n_reduced, k->reduced, k->reduced_st);
        tni_put_f64(k->y, at, (tni_get_f64(k->x, at) - mean) / dev);
      }
  }
}

tn_status tni_k_mean_variance_norm(const tni_kargs *a) {
  static const int64_t usual[] = {0, 2, 3};
  const tni_tensor *x = a->in[0];
  const int64_t *axes;
  uint32_t n = tni_at_ints(a->node, TNI_A_AXES, &axes), seen = 0;
  int64_t st[TN_MAX_RANK];
  mvn k = {.run = a->run, .x = x, .y = a->out[0], .n_outer = 1, .n = 1};
  if (!axes) {
    axes = usual;
    n = 3;
  }
  for (uint32_t i = 0; i < n; i++) {
    const int32_t d = tni_kaxis(axes[i], x->rank);
    if (d < 0)
      return tni_kfail(a, TN_E_INVALID, "MeanVarianceNormalization: axis %lld, rank %u", (long long)axes[i], x->rank);
    seen |= 1u << d;
  }
  tni_kstrides(x, st);
  for (uint32_t d = 0; d < x->rank; d++) {
    const bool reduced = (seen >> d) & 1;
    const uint32_t to = reduced ? k.n_reduced++ : k.n_kept++;
    (reduced ? k.reduced : k.kept)[to] = x->dims[d];
    (reduced ? k.reduced_st : k.kept_st)[to] = st[d];
    *(reduced ? &k.n : &k.n_outer) *= x->dims[d];
  }
  if (tni_knumel(x)) tni_kfor(a->run, k.n_outer, k.n * 16, mvn_cells, &k);
  return TN_OK;
}
