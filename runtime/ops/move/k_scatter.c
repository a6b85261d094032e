/* SPDX-License-Identifier: Apache-2.0
 *
 * Indexed writes: ScatterND, ScatterElements, with the reductions none, add, mul, min, max. Updates are applied in
 * index order by one thread, so that duplicates are deterministic.
 */
#include "runtime/ops/kernel/kernel.h"

/* Both operators list the same words. */
enum {
  R_NONE = TN_WORD_SCATTER_ND_REDUCTION_NONE,
  R_ADD = TN_WORD_SCATTER_ND_REDUCTION_ADD,
  R_MUL = TN_WORD_SCATTER_ND_REDUCTION_MUL,
  R_MAX = TN_WORD_SCATTER_ND_REDUCTION_MAX,
  R_MIN = TN_WORD_SCATTER_ND_REDUCTION_MIN
};

static int scatter_reduction(const tni_kargs *a) {
  const uint32_t word = tni_at_word(a->node, TNI_A_REDUCTION);
  return word ? (int)word : -1;
}

#define REDUCE(T, D, W)                                 \
  for (int64_t i = 0; i < n; i++) {                     \
    const D x = ((T *)dst)[i], y = ((const T *)src)[i]; \
    ((T *)dst)[i] = r == R_ADD   ? (D)((W)x + (W)y)     \
                    : r == R_MUL ? (D)((W)x * (W)y)     \
                    : r == R_MIN ? (x < y ? x : y)      \
                                 : (x > y ? x : y);     \
  }                                                     \
  return;
static void reduce_into(uint32_t dtype, int r, void *dst, const void *src, int64_t n) {
  if (r == R_NONE) {
    memcpy(dst, src, (size_t)n * tni_elem_size(dtype));
    return;
  }
  switch (dtype) {
    case TN_DT_F32:
      REDUCE(f32u, float, float)
    case TN_DT_F64:
      REDUCE(f64u, double, double)
#define X(DT, U, T, LO, HI) \
  case TN_DT_##DT:          \
    REDUCE(U, T, uint64_t)
      TNI_INT_TYPES(X)
#undef X
    case TN_DT_BOOL: /* add is or, mul is and */
      for (int64_t i = 0; i < n; i++) {
        const bool x = ((u8u *)dst)[i] != 0, y = ((const u8u *)src)[i] != 0;
        ((u8u *)dst)[i] = r == R_ADD || r == R_MAX ? x || y : x && y;
      }
      return;
    default:
      break;
  }
  for (int64_t i = 0; i < n; i++) {
    float x, y;
    tni_load_f32(dtype, dst, i, 1, &x);
    tni_load_f32(dtype, src, i, 1, &y);
    x = r == R_ADD ? x + y : r == R_MUL ? x * y : r == R_MIN ? (x < y ? x : y) : (x > y ? x : y);
    tni_store_f32(dtype, dst, i, 1, &x);
  }
}

static tn_status bad_index(const tni_kargs *a, int64_t v, int64_t dim) {
  return tni_kfail(a, TN_E_INVALID, "index %lld is outside [-%lld, %lld)", (long long)v, (long long)dim,
                   (long long)dim);
}

static bool is_reducible(uint32_t dtype, int r) {
  const bool known = tni_elem_size(dtype) && dtype != TN_DT_C64 && dtype != TN_DT_C128 &&
                     !(dtype >= TN_DT_F8E4M3FN && dtype <= TN_DT_F8E5M2FNUZ) && dtype != TN_DT_F8E8M0;
  return r == R_NONE ? tni_elem_size(dtype) != 0 : known;
}

tn_status tni_k_scatter_nd(const tni_kargs *a) {
  const tni_tensor *x = a->in[0], *idx = a->in[1], *up = a->in[2];
  tni_tensor *y = a->out[0];
  const int r = scatter_reduction(a);
  const uint32_t size = tni_elem_size(x->dtype);
  int64_t st[TN_MAX_RANK];
  if (r < 0) return tni_kfail(a, TN_E_INVALID, "ScatterND: unknown reduction");
  if (!is_reducible(x->dtype, r) || idx->dtype != TN_DT_I64) return tni_kdtype(a, size ? idx->dtype : x->dtype);
  if (!idx->rank || up->dtype != x->dtype)
    return tni_kfail(a, TN_E_INVALID, "ScatterND: indices or updates do not fit");
  const int64_t k = idx->dims[idx->rank - 1];
  if (k < 1 || k > x->rank) return tni_kfail(a, TN_E_INVALID, "ScatterND: index tuples of %lld", (long long)k);
  const int64_t inner = tni_dim_product(x, (uint32_t)k, x->rank), tuples = tni_knumel(idx) / k;
  if (tni_knumel(up) != tuples * inner) return tni_kfail(a, TN_E_INVALID, "ScatterND: updates do not fit the indices");
  tni_kcopy(a->run, y->data, x->data, y->bytes);
  tni_kstrides(x, st);
  tni_poll poll = {a->run, TNI_POLL};
  for (int64_t i = 0; i < tuples && inner && !tni_poll_stop(&poll, inner + 4); i++) {
    int64_t off = 0;
    for (int64_t j = 0; j < k; j++) {
      const int64_t v = tni_get_i64(idx, i * k + j), dim = x->dims[j];
      if (v < -dim || v >= dim) return bad_index(a, v, dim);
      off += (v < 0 ? v + dim : v) * st[j];
    }
    reduce_into(x->dtype, r, (char *)y->data + off * size, (const char *)up->data + i * inner * size, inner);
  }
  return TN_OK;
}

tn_status tni_k_scatter_elements(const tni_kargs *a) {
  const tni_tensor *x = a->in[0], *idx = a->in[1], *up = a->in[2];
  tni_tensor *y = a->out[0];
  const int r = scatter_reduction(a);
  const int32_t axis = tni_kaxis(tni_at_i(a->node, TNI_A_AXIS, 0), x->rank);
  const uint32_t size = tni_elem_size(x->dtype);
  int64_t st[TN_MAX_RANK];
  if (r < 0) return tni_kfail(a, TN_E_INVALID, "ScatterElements: unknown reduction");
  if (!is_reducible(x->dtype, r)) return tni_kdtype(a, x->dtype);
  if (idx->dtype != TN_DT_I64 && idx->dtype != TN_DT_I32) return tni_kdtype(a, idx->dtype);
  if (axis < 0 || !x->rank || idx->rank != x->rank || up->dtype != x->dtype || tni_knumel(up) != tni_knumel(idx))
    return tni_kfail(a, TN_E_INVALID, "ScatterElements: axis, indices or updates do not fit");
  for (uint32_t d = 0; d < x->rank; d++)
    if (d != (uint32_t)axis && idx->dims[d] > x->dims[d])
      return tni_kfail(a, TN_E_INVALID, "ScatterElements: indices exceed dim %u", d);
  tni_kcopy(a->run, y->data, x->data, y->bytes);
  tni_kstrides(x, st);
  const int64_t n = tni_knumel(idx), dim = x->dims[axis];
  tni_poll poll = {a->run, TNI_POLL};
  for (int64_t i = 0; i < n && !tni_poll_stop(&poll, 4); i++) {
    const int64_t v = tni_get_i64(idx, i);
    if (v < -dim || v >= dim) return bad_index(a, v, dim);
    int64_t off = (v < 0 ? v + dim : v) * st[axis], rest = i;
    for (uint32_t d = x->rank; d-- > 0;) {
      if (d != (uint32_t)axis) off += (rest % idx->dims[d]) * st[d];
      rest /= idx->dims[d];
    }
    reduce_into(x->dtype, r, (char *)y->data + off * size, (const char *)up->data + i * size, 1);
  }
  return TN_OK;
}
