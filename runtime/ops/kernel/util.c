/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stdio.h>

#include "runtime/ops/hot/hot.h"
#include "runtime/graph/kept_dtype.h"
#include "runtime/ops/kernel/elements.h"

int64_t tni_knumel(const tni_tensor *t) { return tni_dim_product(t, 0, t->rank); }

int64_t tni_dim_product(const tni_tensor *t, uint32_t from, uint32_t to) {
  int64_t n = 1;
  for (uint32_t i = from; i < to; i++) n *= t->dims[i];
  return n;
}

uint32_t tni_elem_size(uint32_t dtype) {
  switch (dtype) {
    case TN_DT_U8:
    case TN_DT_I8:
    case TN_DT_BOOL:
    case TN_DT_F8E4M3FN:
    case TN_DT_F8E4M3FNUZ:
    case TN_DT_F8E5M2:
    case TN_DT_F8E5M2FNUZ:
    case TN_DT_F8E8M0:
    case TNI_DT_KEYS:
    case TNI_DT_VALUES:
      return 1;
    case TN_DT_U16:
    case TN_DT_I16:
    case TN_DT_F16:
    case TN_DT_BF16:
      return 2;
    case TN_DT_F32:
    case TN_DT_I32:
    case TN_DT_U32:
      return 4;
    case TN_DT_F64:
    case TN_DT_I64:
    case TN_DT_U64:
    case TN_DT_C64:
      return 8;
    case TN_DT_C128:
      return 16;
    default:
      return 0;
  }
}

bool tni_is_half(uint32_t dtype) { return dtype == TN_DT_F16 || dtype == TN_DT_BF16; }

int32_t tni_kaxis(int64_t axis, uint32_t rank) {
  const int64_t r = rank ? (int64_t)rank : 1;
  if (axis < -r || axis >= r) return -1;
  return (int32_t)(axis < 0 ? axis + r : axis);
}

int64_t tni_get_i64(const tni_tensor *t, int64_t i) {
  switch (t->dtype) {
    case TN_DT_BOOL:
      return ((const u8u *)t->data)[i] != 0;
#define X(DT, U, T, LO, HI) \
  case TN_DT_##DT:          \
    return (int64_t)((const U *)t->data)[i];
      TNI_INT_TYPES(X)
#undef X
    default:
      return 0;
  }
}

double tni_get_f64(const tni_tensor *t, int64_t i) {
  float f;
  switch (t->dtype) {
    case TN_DT_F64:
      return ((const f64u *)t->data)[i];
    case TN_DT_U64:
      return (double)((const u64u *)t->data)[i];
    case TN_DT_F32:
    case TN_DT_F16:
    case TN_DT_BF16:
      tni_load_f32(t->dtype, t->data, i, 1, &f);
      return f;
    default:
      return (double)tni_get_i64(t, i);
  }
}

void tni_put_f64(const tni_tensor *t, int64_t i, double v) {
  const float f = (float)v;
  switch (t->dtype) {
    case TN_DT_F64:
      ((f64u *)t->data)[i] = v;
      break;
    case TN_DT_F32:
    case TN_DT_F16:
    case TN_DT_BF16:
      tni_store_f32(t->dtype, t->data, i, 1, &f);
      break;
    case TN_DT_BOOL:
      ((u8u *)t->data)[i] = v != 0;
      break;
    case TN_DT_U64:
      ((u64u *)t->data)[i] = v >= 18446744073709551616.0 ? UINT64_MAX : v > 0 ? (uint64_t)v : 0;
      break;
#define X(DT, U, T, LO, HI)                                                       \
  case TN_DT_##DT: {                                                              \
    const int64_t n = tni_clamp_i64(v);                                           \
    ((U *)t->data)[i] = n < (int64_t)LO ? (T)LO : n > (int64_t)HI ? (T)HI : (T)n; \
    break;                                                                        \
  }
      X(I8, i8u, int8_t, INT8_MIN, INT8_MAX)
      X(U8, u8u, uint8_t, 0, UINT8_MAX)
      X(I16, i16u, int16_t, INT16_MIN, INT16_MAX)
      X(U16, u16u, uint16_t, 0, UINT16_MAX)
      X(I32, i32u, int32_t, INT32_MIN, INT32_MAX)
      X(U32, u32u, uint32_t, 0, UINT32_MAX)
      X(I64, i64u, int64_t, INT64_MIN, INT64_MAX)
#undef X
    default:
      break;
  }
}

int64_t tni_clamp_i64(double v) {
  if (v != v) return 0;
  if (v >= 9223372036854775808.0) return INT64_MAX;
  if (v <= -9223372036854775808.0) return INT64_MIN;
  return (int64_t)v;
}

static inline uint16_t f32_to_half(float f) {
  const uint32_t u = tni_f32_bits(f), s = (u >> 16) & 0x8000, a = u & 0x7fffffff;
  const uint32_t tiny =
      tni_f32_bits(tni_bits_f32(a) + 0.5f) - 0x3f000000u; /* adds so that the last bits round to even */
  const uint32_t normal = (a - 0x38000000u + 0xfff + ((a >> 13) & 1)) >> 13;
  const uint32_t special = a > 0x7f800000u ? 0x7e00 : 0x7c00;
  const uint32_t r = a >= 0x477ff000u ? special : a < 0x38800000u ? tiny : normal;
  return (uint16_t)(s | r);
}

enum { WORTH_A_CALL = 32 };

void tni_load_f32(uint32_t dtype, const void *src, int64_t first, int64_t n, float *restrict dst) {
  const u16u *h = (const u16u *)src + (tni_is_half(dtype) ? first : 0);
  if (dtype == TN_DT_F32)
    memcpy(dst, (const f32u *)src + first, (size_t)n * 4);
  else if (dtype == TN_DT_F64)
    for (int64_t i = 0; i < n; i++) dst[i] = (float)((const f64u *)src)[first + i];
  else if (dtype == TN_DT_F16 && n >= WORTH_A_CALL)
    tni_hot_get()->from_half(dst, h, n);
  else if (dtype == TN_DT_F16)
    for (int64_t i = 0; i < n; i++) dst[i] = tni_half_to_f32(h[i]);
  else
    for (int64_t i = 0; i < n; i++) dst[i] = tni_bits_f32((uint32_t)h[i] << 16);
}

void tni_store_f32(uint32_t dtype, void *dst, int64_t first, int64_t n, const float *restrict src) {
  u16u *h = (u16u *)dst + (tni_is_half(dtype) ? first : 0);
  if (dtype == TN_DT_F32)
    memcpy((f32u *)dst + first, src, (size_t)n * 4);
  else if (dtype == TN_DT_F64)
    for (int64_t i = 0; i < n; i++) ((f64u *)dst)[first + i] = src[i];
  else if (dtype == TN_DT_F16)
    for (int64_t i = 0; i < n; i++) h[i] = f32_to_half(src[i]);
  else
    for (int64_t i = 0; i < n; i++) h[i] = tni_f32_to_brain(src[i]);
}

static const char *node_name(const tn_node *n) { return n && n->name && n->name[0] ? n->name : "node"; }

tn_status tni_kfail(const tni_kargs *a, tn_status st, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  tni_vfail(a->err, st, node_name(a->node), fmt, ap);
  va_end(ap);
  return st;
}

tn_status tni_kdtype(const tni_kargs *a, uint32_t dtype) {
  const tni_op *op = tni_op_by_id(a->node->op);
  return tni_kfail(a, TN_E_UNSUPPORTED, "%s: no host kernel for %s", op ? op->name : "?", tni_dtype_name(dtype));
}
