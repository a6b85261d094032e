/* SPDX-License-Identifier: Apache-2.0
 *
 * LayerNormalization (17) and RMSNormalization (23): rows from `axis` on. f32 and halves compute in f32 with the row
 * sums of hot.h, f64 in double. Outputs of LayerNormalization: Y, Mean, InvStdDev.
 */
#include <math.h>

#include "runtime/ops/hot/hot.h"
#include "runtime/ops/kernel/kernel.h"

typedef struct norm {
  const tn_run *run;
  const tni_tensor *x, *scale, *bias;
  tni_tensor *y, *mean, *inv;
  const tni_hot *hot;
  int64_t n;
  double eps;
  bool rms;
} norm;

/* Index into a scale or bias for element i of row r: dense over the row, one element, or broadcast against X. */
static int64_t weight_index(const norm *k, const tni_tensor *w, int64_t r, int64_t i) {
  int64_t at = r * k->n + i, off = 0, stride = 1;
  for (uint32_t d = k->x->rank, p = w->rank; d-- > 0 && p > 0;) {
    const int64_t c = at % k->x->dims[d], size = w->dims[--p];
    at /= k->x->dims[d];
    if (size != 1) off += c * stride;
    stride *= size;
  }
  return off;
}

/* y[i] = x[i] * w[i], or + w[i]: n elements of row r from element i0. */
static void apply_scale(const norm *k, const tni_tensor *w, bool add, int64_t r, int64_t i0, int64_t n, float *y,
                        bool dense) {
  float v[TNI_CHUNK];
  if (dense)
    tni_load_f32(w->dtype, w->data, i0, n, v);
  else
    for (int64_t i = 0; i < n; i++) tni_load_f32(w->dtype, w->data, weight_index(k, w, r, i0 + i), 1, v + i);
  if (add)
    for (int64_t i = 0; i < n; i++) y[i] += v[i];
  else
    for (int64_t i = 0; i < n; i++) y[i] *= v[i];
}

/* Dense: the trailing dims of X that w covers are w's own and make up one row exactly. */
static bool is_dense(const norm *k, const tni_tensor *w) {
  if (tni_knumel(w) != k->n) return false;
  int64_t n = 1;
  for (uint32_t d = k->x->rank, p = w->rank; p > 0 && d > 0;) {
    if (w->dims[--p] != k->x->dims[--d]) return false;
    n *= w->dims[p];
    if (n == k->n) return true;
  }
  return n == k->n;
}

static float row_stats(const norm *k, int64_t r, float *mean) {
  float sum = 0, sq = 0, v[TNI_CHUNK];
  const float inv_n = (float)k->n;
  const bool direct = k->x->dtype == TN_DT_F32;
  const f32u *x = (const f32u *)k->x->data + (direct ? r * k->n : 0);
  if (direct) {
    *mean = k->rms ? 0 : k->hot->sum(x, k->n) / inv_n;
    sq = k->hot->sum_sq(x, k->n, *mean);
  } else {
    for (int pass = k->rms; pass < 2; pass++) {
      *mean = pass ? sum / inv_n : 0;
      for (int64_t i = 0; i < k->n; i += TNI_CHUNK) {
        const int64_t n = k->n - i < TNI_CHUNK ? k->n - i : TNI_CHUNK;
        tni_load_f32(k->x->dtype, k->x->data, r * k->n + i, n, v);
        if (pass)
          sq += k->hot->sum_sq(v, n, *mean);
        else
          sum += k->hot->sum(v, n);
      }
    }
  }
  return 1.f / sqrtf(sq / inv_n + (float)k->eps);
}

static void rows_f32(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  const norm *k = arg;
  const bool ds = is_dense(k, k->scale), db = k->bias && is_dense(k, k->bias);
  const int64_t work = ds && (db || !k->bias) ? TNI_CHUNK : 8 * TNI_CHUNK;
  tni_poll poll = {k->run, TNI_POLL};
  (void)worker;
  for (int64_t r = begin; r < end; r++) {
    float mean = 0, y[TNI_CHUNK];
    const float inv = row_stats(k, r, &mean);
    for (int64_t i = 0; i < k->n && !tni_poll_stop(&poll, work); i += TNI_CHUNK) {
      const int64_t n = k->n - i < TNI_CHUNK ? k->n - i : TNI_CHUNK;
      tni_load_f32(k->x->dtype, k->x->data, r * k->n + i, n, y);
      for (int64_t j = 0; j < n; j++) y[j] = (y[j] - mean) * inv;
      apply_scale(k, k->scale, false, r, i, n, y, ds);
      if (k->bias) apply_scale(k, k->bias, true, r, i, n, y, db);
      tni_store_f32(k->y->dtype, k->y->data, r * k->n + i, n, y);
    }
    if (k->mean) tni_store_f32(k->mean->dtype, k->mean->data, r, 1, &mean);
    if (k->inv) tni_store_f32(k->inv->dtype, k->inv->data, r, 1, &inv);
  }
}

static void rows_f64(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  const norm *k = arg;
  tni_poll poll = {k->run, TNI_POLL};
  (void)worker;
  for (int64_t r = begin; r < end; r++) {
    const f64u *x = (const f64u *)k->x->data + r * k->n;
    double mean = 0, sq = 0;
    for (int64_t i = 0; i < k->n && !k->rms; i++) mean += x[i];
    mean /= (double)k->n;
    for (int64_t i = 0; i < k->n; i++) sq += (x[i] - mean) * (x[i] - mean);
    const double inv = 1 / sqrt(sq / (double)k->n + k->eps);
    for (int64_t i = 0; i < k->n && !tni_poll_stop(&poll, 4); i++) {
      double v = (x[i] - mean) * inv * tni_get_f64(k->scale, weight_index(k, k->scale, r, i));
      if (k->bias) v += tni_get_f64(k->bias, weight_index(k, k->bias, r, i));
      ((f64u *)k->y->data)[r * k->n + i] = v;
    }
    const float fm = (float)mean, fi = (float)inv;
    if (k->mean && k->mean->dtype == TN_DT_F64)
      ((f64u *)k->mean->data)[r] = mean;
    else if (k->mean)
      tni_store_f32(k->mean->dtype, k->mean->data, r, 1, &fm);
    if (k->inv && k->inv->dtype == TN_DT_F64)
      ((f64u *)k->inv->data)[r] = inv;
    else if (k->inv)
      tni_store_f32(k->inv->dtype, k->inv->data, r, 1, &fi);
  }
}

static bool is_real(uint32_t t) { return t == TN_DT_F32 || t == TN_DT_F64 || tni_is_half(t); }

static tn_status normalize_rows(const tni_kargs *a, norm *k) {
  const int32_t axis = tni_kaxis(tni_at_i(a->node, TNI_A_AXIS, -1), a->in[0]->rank);
  k->run = a->run;
  k->x = a->in[0];
  k->scale = a->in[1];
  k->y = a->out[0];
  k->hot = tni_hot_get();
  k->eps = tni_at_f(a->node, TNI_A_EPSILON, 1e-5);
  if (!is_real(k->x->dtype)) return tni_kdtype(a, k->x->dtype);
  if (axis < 0 || !k->x->rank) return tni_kfail(a, TN_E_INVALID, "axis out of range");
  for (int i = 0; i < 2; i++) {
    const tni_tensor *w = i ? k->bias : k->scale;
    tni_bcast b;
    if (w && !is_real(w->dtype)) return tni_kdtype(a, w->dtype);
    if (w && !tni_bcast_init(&b, k->x, &w, 1))
      return tni_kfail(a, TN_E_INVALID, "scale or bias do not broadcast to the input");
  }
  k->n = tni_dim_product(k->x, (uint32_t)axis, k->x->rank);
  const int64_t rows = k->n ? tni_knumel(k->x) / k->n : 0;
  tni_kfor(a->run, rows, k->n * 4, k->x->dtype == TN_DT_F64 ? rows_f64 : rows_f32, k);
  return TN_OK;
}

tn_status tni_k_layer_norm(const tni_kargs *a) {
  norm k = {.bias = a->n_in > 2 ? a->in[2] : NULL};
  k.mean = a->n_out > 1 ? a->out[1] : NULL;
  k.inv = a->n_out > 2 ? a->out[2] : NULL;
  return normalize_rows(a, &k);
}

tn_status tni_k_rms_norm(const tni_kargs *a) {
  norm k = {.rms = true};
  return normalize_rows(a, &k);
}
