/* SPDX-License-Identifier: Apache-2.0
 *
 * Det: elimination with partial pivoting, in double.
 */
#include <math.h>

#include "runtime/ops/kernel/kernel.h"

typedef struct det {
  const tn_run *run;
  const tni_tensor *x;
  tni_tensor *y;
  int64_t m;
  double *room; /* [m, m] per worker */
} det;

uint64_t tni_det_scratch(const tni_tensor *x, uint32_t n_workers) {
  if (x->rank < 2) return 0;
  const uint64_t m = (uint64_t)x->dims[x->rank - 1];
  uint64_t bytes;
  if (__builtin_mul_overflow(m, m * sizeof(double), &bytes) ||
      __builtin_mul_overflow(bytes, (uint64_t)(n_workers ? n_workers : 1), &bytes))
    return UINT64_MAX;
  return bytes;
}

static double eliminate_rows(double *w, int64_t m, tni_poll *poll) {
  double d = 1;
  for (int64_t k = 0; k < m; k++) {
    int64_t p = k;
    for (int64_t i = k + 1; i < m; i++)
      if (fabs(w[i * m + k]) > fabs(w[p * m + k])) p = i;
    const double pivot = w[p * m + k];
    if (pivot == 0) return 0;
    d *= p == k ? pivot : -pivot;
    for (int64_t j = k; j < m && p != k; j++) {
      const double t = w[k * m + j];
      w[k * m + j] = w[p * m + j];
      w[p * m + j] = t;
    }
    for (int64_t i = k + 1; i < m; i++) {
      if (tni_poll_stop(poll, m - k)) return 0;
      const double f = w[i * m + k] / pivot;
      for (int64_t j = k + 1; j < m; j++) w[i * m + j] -= f * w[k * m + j];
    }
  }
  return d;
}

static void det_body(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  const det *d = arg;
  const int64_t n = d->m * d->m;
  tni_poll poll = {d->run, TNI_POLL};
  double *w = n ? d->room + (int64_t)worker * n : d->room; /* 0 x 0 needs none */
  for (int64_t i = begin; i < end; i++) {
    for (int64_t k = 0, to; (to = tni_poll_until(&poll, k, n)) > k;)
      for (; k < to; k++) w[k] = tni_get_f64(d->x, i * n + k);
    tni_put_f64(d->y, i, eliminate_rows(w, d->m, &poll));
  }
}

tn_status tni_k_det(const tni_kargs *a) {
  det d = {.run = a->run, .x = a->in[0], .y = a->out[0], .room = a->scratch};
  const uint32_t rank = d.x->rank;
  if (rank < 2 || d.x->dims[rank - 1] != d.x->dims[rank - 2])
    return tni_kfail(a, TN_E_INVALID, "Det: no square matrix");
  d.m = d.x->dims[rank - 1];
  tni_kfor(a->run, tni_knumel(d.y), d.m * d.m * (d.m + 1) + 1, det_body, &d);
  return TN_OK;
}
