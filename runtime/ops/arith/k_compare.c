/* SPDX-License-Identifier: Apache-2.0
 *
 * Comparisons, logic and Where, with broadcasting.
 */
#include "runtime/ops/kernel/kernel.h"

typedef struct compare {
  uint32_t op, dtype;
} compare;

#define LOOP(T, E)                                                            \
  {                                                                           \
    const T *a = src[0], *b = src[1];                                         \
    if (step[0] && step[1])                                                   \
      for (int64_t i = 0; i < n; i++) d[i] = a[i] E b[i];                     \
    else                                                                      \
      for (int64_t i = 0; i < n; i++) d[i] = a[i * step[0]] E b[i * step[1]]; \
  }                                                                           \
  break;
#define COMPARE(NAME, T)                                                                                       \
  static void cmp_##NAME(const void *ctx, void *dst, const void *const *src, const int64_t *step, int64_t n) { \
    u8u *restrict d = dst;                                                                                     \
    switch (((const compare *)ctx)->op) {                                                                      \
      case TN_OP_EQUAL:                                                                                        \
        LOOP(T, ==)                                                                                            \
      case TN_OP_GREATER:                                                                                      \
        LOOP(T, >)                                                                                             \
      case TN_OP_GREATER_OR_EQUAL:                                                                             \
        LOOP(T, >=)                                                                                            \
      case TN_OP_LESS:                                                                                         \
        LOOP(T, <)                                                                                             \
      case TN_OP_LESS_OR_EQUAL:                                                                                \
        LOOP(T, <=)                                                                                            \
      default:                                                                                                 \
        break;                                                                                                 \
    }                                                                                                          \
  }
COMPARE(F32, f32u)
COMPARE(F64, f64u)
#define X(DT, U, T, LO, HI) COMPARE(DT, U)
TNI_INT_TYPES(X)
#undef X

static void cmp_half(const void *ctx, void *dst, const void *const *src, const int64_t *step, int64_t n) {
  float a[TNI_CHUNK], b[TNI_CHUNK];
  const void *in[2] = {a, b};
  const uint32_t dtype = ((const compare *)ctx)->dtype;
  for (int64_t at = 0; at < n; at += TNI_CHUNK) {
    const int64_t m = n - at < TNI_CHUNK ? n - at : TNI_CHUNK;
    tni_load_f32(dtype, src[0], at * step[0], step[0] ? m : 1, a);
    tni_load_f32(dtype, src[1], at * step[1], step[1] ? m : 1, b);
    cmp_F32(ctx, (u8u *)dst + at, in, step, m);
  }
}

static void cmp_bool(const void *ctx, void *dst, const void *const *src, const int64_t *step, int64_t n) {
  const u8u *a = src[0], *b = src[1];
  u8u *d = dst;
  const uint32_t op = ((const compare *)ctx)->op;
  for (int64_t i = 0; i < n; i++) {
    const bool x = a[i * step[0]] != 0, y = b[i * step[1]] != 0;
    d[i] = op == TN_OP_AND ? x && y : op == TN_OP_OR ? x || y : op == TN_OP_XOR ? x != y : x == y;
  }
}

static tni_bcast_fn compare_fn(uint32_t op, uint32_t dtype) {
  const bool logic = op == TN_OP_AND || op == TN_OP_OR || op == TN_OP_XOR;
  if (dtype == TN_DT_BOOL) return logic || op == TN_OP_EQUAL ? cmp_bool : NULL;
  if (logic) return NULL;
  switch (dtype) {
    case TN_DT_F32:
      return cmp_F32;
    case TN_DT_F64:
      return cmp_F64;
    case TN_DT_F16:
    case TN_DT_BF16:
      return cmp_half;
#define X(DT, U, T, LO, HI) \
  case TN_DT_##DT:          \
    return cmp_##DT;
      TNI_INT_TYPES(X)
#undef X
    default:
      return NULL;
  }
}

tn_status tni_k_compare(const tni_kargs *a) {
  const tni_tensor *x = a->in[0], *y = a->in[1];
  const compare k = {a->node->op, x->dtype};
  const tni_bcast_fn fn = compare_fn(k.op, k.dtype);
  tni_bcast b;
  if (!fn || y->dtype != x->dtype) return tni_kdtype(a, fn ? y->dtype : x->dtype);
  if (!tni_bcast_init(&b, a->out[0], a->in, 2)) return tni_kfail(a, TN_E_INVALID, "inputs do not broadcast");
  const void *src[2] = {x->data, y->data};
  const uint32_t size[2] = {tni_elem_size(x->dtype), tni_elem_size(y->dtype)};
  tni_bcast_run(a->run, &b, a->out[0]->data, 1, src, size, fn, &k);
  return TN_OK;
}

#define WHERE(NAME, T)                                                                                           \
  static void where_##NAME(const void *ctx, void *dst, const void *const *src, const int64_t *step, int64_t n) { \
    const u8u *c = src[0];                                                                                       \
    const T *x = src[1], *y = src[2];                                                                            \
    T *restrict d = dst;                                                                                         \
    (void)ctx;                                                                                                   \
    if (step[0] && step[1] && step[2])                                                                           \
      for (int64_t i = 0; i < n; i++) d[i] = c[i] ? x[i] : y[i];                                                 \
    else                                                                                                         \
      for (int64_t i = 0; i < n; i++) d[i] = c[i * step[0]] ? x[i * step[1]] : y[i * step[2]];                   \
  }
WHERE(1, u8u)
WHERE(2, u16u)
WHERE(4, u32u)
WHERE(8, u64u)

tn_status tni_k_where(const tni_kargs *a) {
  const uint32_t size[3] = {1, tni_elem_size(a->in[1]->dtype), tni_elem_size(a->in[2]->dtype)};
  const tni_bcast_fn fn = size[1] == 1 ? where_1 : size[1] == 2 ? where_2 : size[1] == 4 ? where_4 : where_8;
  tni_bcast b;
  if (a->in[0]->dtype != TN_DT_BOOL) return tni_kdtype(a, a->in[0]->dtype);
  if (size[1] == 0 || size[1] > 8 || a->in[1]->dtype != a->in[2]->dtype) return tni_kdtype(a, a->in[2]->dtype);
  if (!tni_bcast_init(&b, a->out[0], a->in, 3)) return tni_kfail(a, TN_E_INVALID, "inputs do not broadcast");
  const void *src[3] = {a->in[0]->data, a->in[1]->data, a->in[2]->data};
  tni_bcast_run(a->run, &b, a->out[0]->data, size[1], src, size, fn, NULL);
  return TN_OK;
}
