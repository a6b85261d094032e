/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "runtime/shape/rules/table.h"

static tn_status gather_vals(tni_infer *in, uint32_t axis) {
  tni_vals data, idx;
  uint32_t n, outer = 1, inner = 1, src[TNI_MAX_ELEMS], at = 0;
  if (!tni_rule_wants_vals(in, 0, &n, NULL) || !tni_rule_vals(in, 0, &data) || !tni_rule_vals(in, 1, &idx)) {
    return TN_OK;
  }
  for (uint32_t d = 0; d < axis; d++) outer *= (uint32_t)data.dims[d];
  for (uint32_t d = axis + 1; d < data.rank; d++) inner *= (uint32_t)data.dims[d];
  uint32_t own = (uint32_t)data.dims[axis];
  for (uint32_t o = 0; o < outer; o++) {
    for (uint32_t k = 0; k < idx.n; k++) {
      int64_t c;
      uint32_t pos = 0;
      bool known = idx.e[k] != TNI_EXPR_NONE && tni_ex_is_const(in->x, idx.e[k], &c);
      if (known && !tni_rule_axis(c, own, &pos)) {
        return tni_rule_fail(in, "index %lld is outside the axis of %u", (long long)c, own);
      }
      for (uint32_t i = 0; i < inner; i++) src[at++] = known ? (o * own + pos) * inner + i : UINT32_MAX;
    }
  }
  tni_rule_pick_vals(in, 0, &data, src, n);
  return TN_OK;
}

tn_status tni_shape_gather(tni_infer *in) {
  const tni_value *x = tni_rule_in(in, 0), *idx = tni_rule_in(in, 1);
  tn_expr dims[2 * TN_MAX_RANK];
  uint32_t axis;
  if (!x || !idx) return tni_rule_fail(in, "an operand is missing");
  if (x->pub.rank == TNI_RANK_UNKNOWN || idx->pub.rank == TNI_RANK_UNKNOWN) {
    return tni_rule_set_unknown(in, 0, x->pub.dtype);
  }
  if (!tni_rule_axis(tni_attr_i(&in->node->pub, "axis", 0), x->pub.rank, &axis)) {
    return tni_rule_fail(in, "axis %lld is outside rank %u", (long long)tni_attr_i(&in->node->pub, "axis", 0),
                         x->pub.rank);
  }
  uint32_t n = 0;
  for (uint32_t d = 0; d < axis; d++) dims[n++] = x->pub.dims[d];
  for (uint32_t d = 0; d < idx->pub.rank; d++) dims[n++] = idx->pub.dims[d];
  for (uint32_t d = axis + 1; d < x->pub.rank; d++) dims[n++] = x->pub.dims[d];
  tn_status st = tni_rule_set(in, 0, x->pub.dtype, n, dims);
  return st == TN_OK ? gather_vals(in, axis) : st;
}

tn_status tni_shape_gather_elements(tni_infer *in) {
  const tni_value *x = tni_rule_in(in, 0), *idx = tni_rule_in(in, 1);
  if (!x || !idx) return tni_rule_fail(in, "an operand is missing");
  if (idx->pub.rank == TNI_RANK_UNKNOWN) return tni_rule_set_unknown(in, 0, x->pub.dtype);
  if (x->pub.rank != TNI_RANK_UNKNOWN && x->pub.rank != idx->pub.rank) {
    return tni_rule_fail(in, "data and indices differ in rank");
  }
  return tni_rule_set(in, 0, x->pub.dtype, idx->pub.rank, idx->pub.dims);
}

/* [batch.., lead.., k] of [batch.., k axes.., rest..] gives [batch.., lead.., rest..]. */
tn_status tni_shape_gather_nd(tni_infer *in) {
  const tni_value *x = tni_rule_in(in, 0), *idx = tni_rule_in(in, 1);
  tn_expr dims[2 * TN_MAX_RANK];
  int64_t k, b = tni_attr_i(&in->node->pub, "batch_dims", 0);
  if (!x || !idx) return tni_rule_fail(in, "an operand is missing");
  if (x->pub.rank == TNI_RANK_UNKNOWN || idx->pub.rank == TNI_RANK_UNKNOWN || !idx->pub.rank) {
    return tni_rule_set_unknown(in, 0, x->pub.dtype);
  }
  uint32_t q = idx->pub.rank, n = 0;
  if (idx->pub.dims[q - 1] == TNI_EXPR_NONE || !tni_ex_is_const(in->x, idx->pub.dims[q - 1], &k)) {
    return tni_rule_set_unknown(in, 0, x->pub.dtype);
  }
  if (b < 0 || b >= q || k < 1 || k > (int64_t)x->pub.rank - b) {
    return tni_rule_fail(in, "%lld index columns after %lld batch axes do not fit", (long long)k, (long long)b);
  }
  for (uint32_t d = 0; d + 1 < q; d++) dims[n++] = idx->pub.dims[d];
  for (uint32_t d = (uint32_t)(b + k); d < x->pub.rank; d++) dims[n++] = x->pub.dims[d];
  return tni_rule_set(in, 0, x->pub.dtype, n, dims);
}

tn_status tni_shape_one_hot(tni_infer *in) {
  const tni_value *idx = tni_rule_in(in, 0), *values = tni_rule_in(in, 2);
  tn_expr dims[TN_MAX_RANK + 1], depth = tni_rule_scalar(in, 1);
  uint32_t axis;
  double f;
  if (!idx || !values) return tni_rule_fail(in, "an operand is missing");
  if (idx->pub.rank == TNI_RANK_UNKNOWN) return tni_rule_set_unknown(in, 0, values->pub.dtype);
  uint32_t rank = idx->pub.rank + 1;
  if (!tni_rule_axis(tni_attr_i(&in->node->pub, "axis", -1), rank, &axis)) {
    return tni_rule_fail(in, "the axis is outside rank %u", rank);
  }
  if (depth == TNI_EXPR_NONE && tni_rule_double(in, 1, &f) && f >= 0 && f < 2147483648.0) {
    depth = tni_rule_const(in, (int64_t)f);
  }
  for (uint32_t d = 0, at = 0; d < rank; d++) dims[d] = d == axis ? depth : idx->pub.dims[at++];
  return tni_rule_set(in, 0, values->pub.dtype, rank, dims);
}

/* How many elements of a constant (or of what a run has at hand) are not zero; NONE where it has none. */
static tn_expr count_non_zero(const tni_infer *in, const tni_value *x) {
  int64_t count, n = 0;
  uint64_t need;
  if (!x || !x->tensor || tni_dims_count(x->tensor->dims, x->tensor->rank, &count) != TN_OK) return TNI_EXPR_NONE;
  if (tni_dtype_bits(x->tensor->dtype) % 8 || tni_dtype_bytes(x->tensor->dtype, count, &need) != TN_OK ||
      x->tensor->bytes < need || (need && !x->tensor->data)) {
    return TNI_EXPR_NONE;
  }
  for (int64_t i = 0; i < count && !tni_poll_stop(in->poll, 1); i++) n += !tni_elem_is_zero(x->tensor, i);
  return tni_rule_const(in, n);
}

/* [rank, count]: how many is in the data only; a scalar has no index and gives [0, count]. */
tn_status tni_shape_non_zero(tni_infer *in) {
  const tni_value *x = tni_rule_ranked(in, 0);
  tn_expr dims[2] = {x ? tni_rule_const(in, x->pub.rank) : TNI_EXPR_NONE, count_non_zero(in, x)};
  if (dims[1] == TNI_EXPR_NONE) dims[1] = tni_rule_data_symbol(in, 0, 1);
  return tni_rule_set(in, 0, TN_DT_I64, 2, dims);
}
