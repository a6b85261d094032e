/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies of whole tensors and tensors made from shapes or attributes: Identity, the Reshape family, Shape, Size,
 * Constant, ConstantOfShape, Range.
 */
#include <math.h>

#include "runtime/ops/kernel/kernel.h"

/* dst bytes: the caller's out->bytes, which shape inference made equal to the input's. */
static tn_status copy_all(const tni_kargs *a) {
  if (a->out[0]->bytes != a->in[0]->bytes && tni_knumel(a->out[0]) != tni_knumel(a->in[0]))
    return tni_kfail(a, TN_E_INVALID, "the output has %lld elements, the input %lld", (long long)tni_knumel(a->out[0]),
                     (long long)tni_knumel(a->in[0]));
  tni_kcopy(a->run, a->out[0]->data, a->in[0]->data, a->out[0]->bytes);
  return TN_OK;
}

tn_status tni_k_identity(const tni_kargs *a) { return copy_all(a); }
tn_status tni_k_copy(const tni_kargs *a) { return copy_all(a); }

static int64_t clamp_axis(int64_t v, int64_t rank) {
  if (v < 0) v += rank;
  return v < 0 ? 0 : v > rank ? rank : v;
}

tn_status tni_k_shape(const tni_kargs *a) {
  const int64_t rank = a->in[0]->rank;
  const int64_t start = clamp_axis(tni_at_i(a->node, TNI_A_START, 0), rank);
  const int64_t end = clamp_axis(tni_at_i(a->node, TNI_A_END, rank), rank);
  i64u *y = a->out[0]->data;
  if (tni_knumel(a->out[0]) != (end > start ? end - start : 0))
    return tni_kfail(a, TN_E_INVALID, "Shape: wrong length");
  for (int64_t i = start; i < end; i++) y[i - start] = a->in[0]->dims[i];
  return TN_OK;
}

tn_status tni_k_size(const tni_kargs *a) {
  *(i64u *)a->out[0]->data = tni_knumel(a->in[0]);
  return TN_OK;
}

/* The one value attribute that is there: a tensor, a number or a list of numbers. */
tn_status tni_k_constant(const tni_kargs *a) {
  static const uint32_t names[] = {TNI_A_VALUE_INT, TNI_A_VALUE_INTS, TNI_A_VALUE_FLOAT, TNI_A_VALUE_FLOATS};
  const tni_tensor *t = tni_at_tensor(a->node, TNI_A_VALUE);
  const void *src = t ? t->data : NULL;
  uint64_t bytes = t ? t->bytes : UINT64_MAX;
  float f;
  for (int i = 0; i < 4 && !src; i++) {
    const tn_attr *v = tni_at(a->node, names[i]);
    if (!v || !v->n) continue;
    f = (float)v->u.f;
    src = i == 0 ? (const void *)&v->u.i : i == 1 ? v->u.ints : i == 2 ? (const void *)&f : v->u.floats;
    bytes = (i & 1 ? v->n : 1) * (i < 2 ? sizeof(int64_t) : sizeof(float));
  }
  if (bytes != a->out[0]->bytes)
    return tni_kfail(a, TN_E_UNSUPPORTED, "Constant: strings and sparse values have no kernel");
  tni_kcopy(a->run, a->out[0]->data, src, bytes);
  return TN_OK;
}

tn_status tni_k_constant_of_shape(const tni_kargs *a) {
  const tni_tensor *v = tni_at_tensor(a->node, TNI_A_VALUE);
  const uint32_t size = tni_elem_size(a->out[0]->dtype);
  const int64_t n = tni_knumel(a->out[0]);
  if (!size) return tni_kdtype(a, a->out[0]->dtype);
  if (v && (v->dtype != a->out[0]->dtype || tni_knumel(v) != 1))
    return tni_kfail(a, TN_E_INVALID, "ConstantOfShape: value is not one element of the output's type");
  const tni_scopy c = {.rank = 1, .dims = {n}, .ss = {0}, .ds = {1}};
  const uint64_t zero[2] = {0, 0};
  tni_copy_strided(a->run, size, &c, a->out[0]->data, v ? v->data : zero);
  return TN_OK;
}

/* start + i * delta, each element by itself. */
tn_status tni_k_range(const tni_kargs *a) {
  const int64_t n = tni_knumel(a->out[0]);
  const uint32_t dtype = a->out[0]->dtype;
  for (int i = 0; i < 3; i++)
    if (a->in[i]->dtype != dtype || tni_knumel(a->in[i]) != 1)
      return tni_kfail(a, TN_E_INVALID, "Range: input %d is not one element of the output's type", i);
  const double f0 = tni_get_f64(a->in[0], 0), fd = tni_get_f64(a->in[2], 0);
  const uint64_t i0 = (uint64_t)tni_get_i64(a->in[0], 0), id = (uint64_t)tni_get_i64(a->in[2], 0);
  tni_poll poll = {a->run, TNI_POLL};
  for (int64_t i = 0, to; (to = tni_poll_until(&poll, i, n)) > i;)
    for (; i < to; i++) {
      const float f = (float)(f0 + (double)i * fd);
      switch (dtype) {
        case TN_DT_F64:
          ((f64u *)a->out[0]->data)[i] = f0 + (double)i * fd;
          break;
        case TN_DT_F32:
        case TN_DT_F16:
        case TN_DT_BF16:
          tni_store_f32(dtype, a->out[0]->data, i, 1, &f);
          break;
#define X(DT, U, T, LO, HI)                                 \
  case TN_DT_##DT:                                          \
    ((U *)a->out[0]->data)[i] = (T)(i0 + (uint64_t)i * id); \
    break;
          TNI_INT_TYPES(X)
#undef X
        default:
          return tni_kdtype(a, dtype);
      }
    }
  return TN_OK;
}
