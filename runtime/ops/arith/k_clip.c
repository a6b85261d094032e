/* SPDX-License-Identifier: Apache-2.0
 *
 * Clip. A bound that is NaN bounds nothing.
 */
#include <math.h>

#include "runtime/ops/kernel/kernel.h"

static bool is_number_dtype(uint32_t d) {
  return d == TN_DT_F32 || d == TN_DT_F64 || tni_is_half(d) || (tni_elem_size(d) && d <= TN_DT_I64) || d == TN_DT_U32 ||
         d == TN_DT_U64;
}

typedef struct clip {
  const tni_tensor *x, *lo, *hi;
  tni_tensor *y;
} clip;

#define CLIP(U, T, LO, HI)                                                                                  \
  {                                                                                                         \
    const T lo = c->lo ? *(const U *)c->lo->data : (T)(LO), hi = c->hi ? *(const U *)c->hi->data : (T)(HI); \
    const U *x = (const U *)c->x->data;                                                                     \
    U *restrict y = (U *)c->y->data;                                                                        \
    for (int64_t i = begin; i < end; i++) {                                                                 \
      const T v = x[i] < lo ? lo : x[i];                                                                    \
      y[i] = v > hi ? hi : v;                                                                               \
    }                                                                                                       \
  }                                                                                                         \
  return;
static void clip_body(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  const clip *c = arg;
  const uint32_t dtype = c->x->dtype;
  (void)worker;
  switch (dtype) {
    case TN_DT_F32:
      CLIP(f32u, float, -INFINITY, INFINITY)
    case TN_DT_F64:
      CLIP(f64u, double, -INFINITY, INFINITY)
#define X(DT, U, T, LO, HI) \
  case TN_DT_##DT:          \
    CLIP(U, T, LO, HI)
      TNI_INT_TYPES(X)
#undef X
    default:
      break;
  }
  float lo = -INFINITY, hi = INFINITY, f[TNI_CHUNK];
  if (c->lo) tni_load_f32(dtype, c->lo->data, 0, 1, &lo);
  if (c->hi) tni_load_f32(dtype, c->hi->data, 0, 1, &hi);
  for (int64_t at = begin; at < end; at += TNI_CHUNK) {
    const int64_t n = end - at < TNI_CHUNK ? end - at : TNI_CHUNK;
    tni_load_f32(dtype, c->x->data, at, n, f);
    for (int64_t i = 0; i < n; i++) {
      f[i] = f[i] < lo ? lo : f[i];
      f[i] = f[i] > hi ? hi : f[i];
    }
    tni_store_f32(dtype, c->y->data, at, n, f);
  }
}

tn_status tni_k_clip(const tni_kargs *a) {
  clip c = {a->in[0], a->n_in > 1 ? a->in[1] : NULL, a->n_in > 2 ? a->in[2] : NULL, a->out[0]};
  const tni_tensor *bound[2] = {c.lo, c.hi};
  if (!is_number_dtype(c.x->dtype)) return tni_kdtype(a, c.x->dtype);
  for (int i = 0; i < 2; i++)
    if (bound[i] && (bound[i]->dtype != c.x->dtype || tni_knumel(bound[i]) != 1))
      return tni_kfail(a, TN_E_INVALID, "Clip: %s is not one element of the input's type", i ? "max" : "min");
  tni_kfor(a->run, tni_knumel(c.x), 1, clip_body, &c);
  return TN_OK;
}
