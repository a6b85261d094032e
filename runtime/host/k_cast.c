/* SPDX-License-Identifier: Apache-2.0
 *
 * Cast and Clip.
 *
 * Cast follows C with everything that C leaves undefined decided: a float outside the integer's range is clamped, NaN
 * becomes 0, integers wrap, bool is x != 0 and NaN is true. float64 reaches halves through float32.
 */
#include <math.h>

#include "runtime/host/internal.h"

typedef struct cast {
  const tni_tensor *x;
  tni_tensor *y;
} cast;

/* HI rounded up to a float is one past the range for 32 and 64 bits, and exact below: hence the two comparisons. */
#define FROM_REAL(DT, U, T, LO, HI)                                                                               \
  case TN_DT_##DT:                                                                                                \
    for (int64_t i = 0; i < n; i++)                                                                               \
      ((U *)y)[i] = x[i] != x[i] ? 0 : x[i] >= (double)(HI) ? (T)(HI) : x[i] <= (double)(LO) ? (T)(LO) : (T)x[i]; \
    return;
static void from_f64(uint32_t dtype, const double *x, void *y, int64_t n) {
  float f[TNI_CHUNK];
  switch (dtype) {
    TNI_INT_TYPES(FROM_REAL)
    case TN_DT_BOOL:
      for (int64_t i = 0; i < n; i++) ((u8u *)y)[i] = x[i] != 0;
      return;
    case TN_DT_F64:
      memcpy(y, x, (size_t)n * 8);
      return;
    default:
      for (int64_t i = 0; i < n; i++) f[i] = (float)x[i];
      tni_store_f32(dtype, y, 0, n, f);
  }
}

/* A chunk of integers goes through int64, which keeps every bit of every type. */
static void from_i64(uint32_t from, uint32_t dtype, const int64_t *x, void *y, int64_t n) {
  float f[TNI_CHUNK];
  const bool big = from == TN_DT_U64;
  switch (dtype) {
#define X(DT, U, T, LO, HI)                                \
  case TN_DT_##DT:                                         \
    for (int64_t i = 0; i < n; i++) ((U *)y)[i] = (T)x[i]; \
    return;
    TNI_INT_TYPES(X)
#undef X
    case TN_DT_BOOL:
      for (int64_t i = 0; i < n; i++) ((u8u *)y)[i] = x[i] != 0;
      return;
    case TN_DT_F64:
      for (int64_t i = 0; i < n; i++) ((f64u *)y)[i] = big ? (double)(uint64_t)x[i] : (double)x[i];
      return;
    default:
      for (int64_t i = 0; i < n; i++) f[i] = big ? (float)(uint64_t)x[i] : (float)x[i];
      tni_store_f32(dtype, y, 0, n, f);
  }
}

static bool is_real(uint32_t d) { return d == TN_DT_F32 || d == TN_DT_F64 || tni_is_half(d); }

static void cast_body(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  const cast *c = arg;
  const uint32_t from = c->x->dtype, to = c->y->dtype, size = tni_elem_size(to);
  (void)worker;
  for (int64_t at = begin; at < end; at += TNI_CHUNK) {
    const int64_t n = end - at < TNI_CHUNK ? end - at : TNI_CHUNK;
    char *y = (char *)c->y->data + at * size;
    if (is_real(from) && from != TN_DT_F64 && is_real(to) && to != TN_DT_F64) {
      float f[TNI_CHUNK];
      tni_load_f32(from, c->x->data, at, n, f);
      tni_store_f32(to, y, 0, n, f);
    } else if (is_real(from)) {
      double d[TNI_CHUNK];
      for (int64_t i = 0; i < n; i++) d[i] = tni_get_f64(c->x, at + i);
      from_f64(to, d, y, n);
    } else {
      int64_t v[TNI_CHUNK];
      for (int64_t i = 0; i < n; i++) v[i] = tni_get_i64(c->x, at + i);
      from_i64(from, to, v, y, n);
    }
  }
}

static bool castable(uint32_t d) {
  return tni_elem_size(d) && tni_elem_size(d) <= 8 && d != TN_DT_C64 &&
         !(d >= TN_DT_F8E4M3FN && d <= TN_DT_F8E5M2FNUZ) && d != TN_DT_F8E8M0;
}

tn_status tni_k_cast(const tni_kargs *a) {
  cast c = {a->in[0], a->out[0]};
  if (!castable(c.x->dtype)) return tni_kdtype(a, c.x->dtype);
  if (!castable(c.y->dtype)) return tni_kdtype(a, c.y->dtype);
  if (c.x->dtype == c.y->dtype)
    tni_kcopy(a->run, c.y->data, c.x->data, c.y->bytes);
  else
    tni_kfor(a->run, tni_knumel(c.x), 4, cast_body, &c);
  return TN_OK;
}

/* --- Clip --- */

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
  if (!castable(c.x->dtype) || c.x->dtype == TN_DT_BOOL) return tni_kdtype(a, c.x->dtype);
  for (int i = 0; i < 2; i++)
    if (bound[i] && (bound[i]->dtype != c.x->dtype || tni_knumel(bound[i]) != 1))
      return tni_kfail(a, TN_E_INVALID, "Clip: %s is not one element of the input's type", i ? "max" : "min");
  tni_kfor(a->run, tni_knumel(c.x), 1, clip_body, &c);
  return TN_OK;
}
