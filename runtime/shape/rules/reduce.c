/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "runtime/shape/rules/table.h"

/* Which axes go: operand 1, or all without it (none with noop_with_empty_axes). *known false: not decidable. */
static tn_status reduce_mask(tni_infer *in, uint32_t rank, bool *known, uint32_t *mask) {
  int64_t a[TN_MAX_RANK];
  uint32_t n = 0, d, len;
  bool noop = tni_attr_i(&in->node->pub, "noop_with_empty_axes", 0) != 0;
  *known = true;
  *mask = 0;
  if (tni_rule_in(in, 1)) {
    *known = tni_rule_ints(in, 1, a, TN_MAX_RANK, &n) || (tni_rule_length(in, 1, &len) && len == 0);
    if (!*known) return TN_OK;
  }
  if (n == 0) *mask = noop ? 0 : (1u << rank) - 1;
  for (uint32_t i = 0; i < n; i++) {
    if (rank == 0 && (a[i] == 0 || a[i] == -1)) continue; /* a scalar passes for one axis, as elsewhere */
    if (!tni_rule_axis(a[i], rank, &d)) {
      return tni_rule_fail(in, "axis %lld is outside rank %u", (long long)a[i], rank);
    }
    *mask |= 1u << d;
  }
  return TN_OK;
}

static tn_expr accumulate_values(const tni_infer *in, tn_expr a, tn_expr b) {
  switch (in->node->pub.op) {
    case TN_OP_REDUCE_SUM:
      return tni_ex_add(in->x, a, b);
    case TN_OP_REDUCE_PROD:
      return tni_ex_mul(in->x, a, b);
    case TN_OP_REDUCE_MIN:
      return tni_ex_min(in->x, a, b);
    case TN_OP_REDUCE_MAX:
      return tni_ex_max(in->x, a, b);
    default:
      return TNI_EXPR_NONE;
  }
}

static void reduce_vals(tni_infer *in, uint32_t mask) {
  tni_vals v;
  uint32_t n;
  uint32_t op = in->node->pub.op;
  if (!tni_rule_wants_vals(in, 0, &n, NULL) || !tni_rule_vals(in, 0, &v)) return;
  if (op != TN_OP_REDUCE_SUM && op != TN_OP_REDUCE_PROD && op != TN_OP_REDUCE_MIN && op != TN_OP_REDUCE_MAX) return;
  if (v.n == 0 && op != TN_OP_REDUCE_SUM && op != TN_OP_REDUCE_PROD) return;
  tn_expr *e = tni_rule_elems(in, n);
  bool seen[TNI_MAX_ELEMS] = {false};
  for (uint32_t i = 0; e && i < n; i++) e[i] = tni_rule_const(in, op == TN_OP_REDUCE_PROD);
  for (uint32_t i = 0; e && i < v.n; i++) {
    uint32_t flat = i, at = 0, stride = 1;
    for (uint32_t d = v.rank; d-- > 0;) {
      uint32_t pos = flat % (uint32_t)v.dims[d];
      flat /= (uint32_t)v.dims[d];
      if (mask >> d & 1) continue;
      at += pos * stride;
      stride *= (uint32_t)v.dims[d];
    }
    e[at] = seen[at] ? accumulate_values(in, e[at], v.e[i]) : v.e[i];
    seen[at] = true;
  }
  for (uint32_t i = 0; e && i < n; i++) e[i] = tni_val_fit(in->x, tni_rule_out(in, 0)->pub.dtype, e[i]);
  tni_rule_set_vals(in, 0, e, n);
}

/* Dims without the masked axes, or with 1 in their place. */
static tn_status set_reduced(tni_infer *in, uint32_t o, uint32_t dtype, const tni_value *x, uint32_t mask, bool keep) {
  tn_expr dims[TN_MAX_RANK];
  uint32_t n = 0;
  for (uint32_t d = 0; d < x->pub.rank; d++) {
    if (!(mask >> d & 1)) {
      dims[n++] = x->pub.dims[d];
    } else if (keep) {
      dims[n++] = tni_rule_const(in, 1);
    }
  }
  return tni_rule_set(in, o, dtype, n, dims);
}

tn_status tni_shape_reduce(tni_infer *in) {
  const tni_value *x = tni_rule_in(in, 0);
  bool keep = tni_attr_i(&in->node->pub, "keepdims", 1) != 0, known;
  uint32_t mask;
  if (!x) return tni_rule_fail(in, "operand 0 is missing");
  if (x->pub.rank == TNI_RANK_UNKNOWN) return tni_rule_set_unknown(in, 0, x->pub.dtype);
  tn_status st = reduce_mask(in, x->pub.rank, &known, &mask);
  if (st != TN_OK) return st;
  if (!known) {
    tn_expr dims[TN_MAX_RANK];
    memset(dims, 0xff, sizeof dims);
    if (!keep) return tni_rule_set_unknown(in, 0, x->pub.dtype);
    return tni_rule_set(in, 0, x->pub.dtype, x->pub.rank, dims);
  }
  st = set_reduced(in, 0, x->pub.dtype, x, mask, keep);
  if (st == TN_OK) reduce_vals(in, mask);
  return st;
}

tn_status tni_shape_arg_max(tni_infer *in) {
  const tni_value *x = tni_rule_ranked(in, 0);
  uint32_t axis;
  int64_t want = tni_attr_i(&in->node->pub, "axis", 0);
  if (!x) return tni_rule_set_unknown(in, 0, TN_DT_I64);
  if (!tni_rule_axis(want, x->pub.rank, &axis)) {
    return tni_rule_fail(in, "axis %lld is outside rank %u", (long long)want, x->pub.rank);
  }
  return set_reduced(in, 0, TN_DT_I64, x, 1u << axis, tni_attr_i(&in->node->pub, "keepdims", 1) != 0);
}

tn_status tni_shape_top_k(tni_infer *in) {
  const tni_value *x = tni_rule_in(in, 0);
  tn_expr dims[TN_MAX_RANK], k = tni_rule_scalar(in, 1);
  uint32_t axis;
  int64_t want = tni_attr_i(&in->node->pub, "axis", -1), ck, cd;
  tn_status st;
  if (!x) return tni_rule_fail(in, "operand 0 is missing");
  if (x->pub.rank == TNI_RANK_UNKNOWN) {
    st = tni_rule_set_unknown(in, 0, x->pub.dtype);
    return st == TN_OK ? tni_rule_set_unknown(in, 1, TN_DT_I64) : st;
  }
  if (!tni_rule_axis(want, x->pub.rank, &axis)) {
    return tni_rule_fail(in, "axis %lld is outside rank %u", (long long)want, x->pub.rank);
  }
  memcpy(dims, x->pub.dims, x->pub.rank * sizeof *dims);
  if (k != TNI_EXPR_NONE && dims[axis] != TNI_EXPR_NONE && tni_ex_is_const(in->x, k, &ck) &&
      tni_ex_is_const(in->x, dims[axis], &cd) && ck > cd) {
    return tni_rule_fail(in, "k = %lld is more than the axis has", (long long)ck);
  }
  dims[axis] = k != TNI_EXPR_NONE ? k : tni_rule_data_symbol(in, 0, axis);
  st = tni_rule_set(in, 0, x->pub.dtype, x->pub.rank, dims);
  return st == TN_OK ? tni_rule_set(in, 1, TN_DT_I64, x->pub.rank, dims) : st;
}

/* Outputs: Y like X, then Mean and InvStdDev with 1 from `axis` on. Scale and bias broadcast to X. */
tn_status tni_shape_layer_norm(tni_infer *in) {
  const tni_value *x = tni_rule_in(in, 0);
  uint32_t axis = 0, stash = (uint32_t)tni_attr_i(&in->node->pub, "stash_type", TN_DT_F32);
  int64_t want = tni_attr_i(&in->node->pub, "axis", -1);
  if (!x) return tni_rule_fail(in, "operand 0 is missing");
  if (stash != TN_DT_F32 && stash != TN_DT_F64 && stash != TN_DT_F16 && stash != TN_DT_BF16)
    return tni_rule_fail(in, "stash_type is %s", tni_dtype_name(stash));
  if (x->pub.rank == TNI_RANK_UNKNOWN) {
    tn_status st = tni_rule_set_unknown(in, 0, x->pub.dtype);
    for (uint32_t o = 1; st == TN_OK && o < 3; o++) st = tni_rule_set_unknown(in, o, stash);
    return st;
  }
  if (!tni_rule_axis(want, x->pub.rank, &axis)) {
    return tni_rule_fail(in, "axis %lld is outside rank %u", (long long)want, x->pub.rank);
  }
  for (uint32_t i = 1; i < in->node->pub.n_in; i++) {
    uint32_t rank = x->pub.rank;
    tn_expr dims[TN_MAX_RANK];
    memcpy(dims, x->pub.dims, rank * sizeof *dims);
    if (!tni_rule_in(in, i)) continue;
    tn_status st = tni_rule_broadcast_with(in, i, &rank, dims);
    if (st != TN_OK) return st;
    if (rank != TNI_RANK_UNKNOWN && rank > x->pub.rank) return tni_rule_fail(in, "operand %u has a higher rank", i);
  }
  uint32_t mask = ((1u << x->pub.rank) - 1) & ~((1u << axis) - 1);
  tn_status st = tni_rule_set(in, 0, x->pub.dtype, x->pub.rank, x->pub.dims);
  for (uint32_t o = 1; st == TN_OK && o < 3; o++) st = set_reduced(in, o, stash, x, mask, true);
  return st;
}
