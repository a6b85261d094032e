/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/shape/rules/table.h"

static void unary_vals(tni_infer *in) {
  tni_vals v;
  uint32_t n;
  if (!tni_rule_wants_vals(in, 0, &n, NULL) || !tni_rule_vals(in, 0, &v) || v.n != n) return;
  tn_expr *e = tni_rule_elems(in, n);
  uint32_t dtype = tni_rule_out(in, 0)->pub.dtype;
  for (uint32_t i = 0; e && i < n; i++) e[i] = tni_val_unary(in->x, in->node->pub.op, dtype, v.e[i]);
  tni_rule_set_vals(in, 0, e, n);
}

/* Data with single elements replaced: rank 1, constant indices. */
static void scatter_nd_vals(tni_infer *in) {
  tni_vals data, idx, upd;
  uint32_t n;
  const char *reduction = tni_attr_s(&in->node->pub, "reduction", "none");
  if (!tni_rule_wants_vals(in, 0, &n, NULL) || !tni_rule_vals(in, 0, &data) || !tni_rule_vals(in, 1, &idx)) return;
  if (!tni_rule_vals(in, 2, &upd) || data.rank != 1 || idx.n != upd.n) return;
  if (reduction && reduction[0] && reduction[0] != 'n') return;
  tn_expr *e = tni_rule_elems(in, n);
  for (uint32_t i = 0; e && i < n; i++) e[i] = data.e[i];
  for (uint32_t i = 0; e && i < idx.n; i++) {
    int64_t at;
    uint32_t pos;
    if (idx.e[i] == TNI_EXPR_NONE || !tni_ex_is_const(in->x, idx.e[i], &at) || !tni_rule_axis(at, n, &pos)) return;
    e[pos] = upd.e[i];
  }
  tni_rule_set_vals(in, 0, e, n);
}

static void clip_vals(tni_infer *in) {
  tni_vals v;
  uint32_t n;
  bool has_lo = tni_rule_in(in, 1) != NULL, has_hi = tni_rule_in(in, 2) != NULL;
  tn_expr lo = tni_rule_scalar(in, 1), hi = tni_rule_scalar(in, 2);
  if (!tni_rule_wants_vals(in, 0, &n, NULL) || !tni_rule_vals(in, 0, &v) || v.n != n) return;
  tn_expr *e = tni_rule_elems(in, n);
  for (uint32_t i = 0; e && i < n; i++) {
    e[i] = has_lo ? tni_ex_max(in->x, v.e[i], lo) : v.e[i];
    if (has_hi) e[i] = tni_ex_min(in->x, e[i], hi);
  }
  tni_rule_set_vals(in, 0, e, n);
}

tn_status tni_shape_same(tni_infer *in) {
  const tni_value *x = tni_rule_ranked(in, 0);
  uint32_t axis;
  if (x && x->pub.rank && tni_attr(&in->node->pub, "axis") &&
      !tni_rule_axis(tni_attr_i(&in->node->pub, "axis", 0), x->pub.rank, &axis)) {
    return tni_rule_fail(in, "axis %lld is outside rank %u", (long long)tni_attr_i(&in->node->pub, "axis", 0),
                         x->pub.rank);
  }
  tn_status st = tni_rule_set_like(in, 0, 0);
  if (st != TN_OK) return st;
  if (in->node->pub.op == TN_OP_SCATTER_ND) {
    scatter_nd_vals(in);
  } else if (in->node->pub.op == TN_OP_CLIP) {
    clip_vals(in);
  } else if (in->node->pub.n_in == 1) {
    unary_vals(in);
  }
  return TN_OK;
}

tn_status tni_shape_bool(tni_infer *in) {
  const tni_value *x = tni_rule_ranked(in, 0);
  if (!x) return tni_rule_set_unknown(in, 0, TN_DT_BOOL);
  return tni_rule_set(in, 0, TN_DT_BOOL, x->pub.rank, x->pub.dims);
}

/* Integer to bool asks for "not 0"; integer to integer keeps what fits. */
static tn_expr cast_elem(const tni_infer *in, uint32_t to, tn_expr e) {
  int64_t lo, hi;
  if (e == TNI_EXPR_NONE) return e;
  if (to != TN_DT_BOOL) return tni_val_fit(in->x, to, e);
  tni_ex_range(in->x, e, &lo, &hi);
  if (lo > 0 || hi < 0) return tni_rule_const(in, 1);
  return lo == 0 && hi == 0 ? tni_rule_const(in, 0) : TNI_EXPR_NONE;
}

/* Cast says the type, CastLike shows it. */
tn_status tni_shape_cast(tni_infer *in) {
  const tni_value *x = tni_rule_ranked(in, 0), *like = tni_rule_in(in, 1);
  const bool shown = in->node->pub.op == TN_OP_CAST_LIKE;
  int64_t to = shown ? (like ? like->pub.dtype : TN_DT_UNDEFINED) : tni_attr_i(&in->node->pub, "to", 0);
  if (shown && to == TN_DT_UNDEFINED) return tni_rule_set_unknown(in, 0, TN_DT_UNDEFINED);
  if (to <= 0 || to >= TN_DT_COUNT) return tni_rule_fail(in, "target type %lld is unknown", (long long)to);
  if (!x) return tni_rule_set_unknown(in, 0, (uint32_t)to);
  tn_status st = tni_rule_set(in, 0, (uint32_t)to, x->pub.rank, x->pub.dims);
  if (st != TN_OK) return st;
  tni_vals v;
  uint32_t n;
  if (!tni_rule_wants_vals(in, 0, &n, NULL) || !tni_rule_vals(in, 0, &v) || v.n != n) return TN_OK;
  tn_expr *e = tni_rule_elems(in, n);
  for (uint32_t i = 0; e && i < n; i++) e[i] = cast_elem(in, (uint32_t)to, v.e[i]);
  tni_rule_set_vals(in, 0, e, n);
  return TN_OK;
}

/* The same bits under another type of the same width. */
tn_status tni_shape_bit_cast(tni_infer *in) {
  const tni_value *x = tni_rule_in(in, 0);
  const int64_t to = tni_attr_i(&in->node->pub, "to", 0);
  if (!x || x->pub.dtype == TN_DT_UNDEFINED) return tni_rule_set_unknown(in, 0, (uint32_t)to);
  if (to <= 0 || to >= TN_DT_COUNT || !tni_dtype_bits((uint32_t)to) ||
      tni_dtype_bits((uint32_t)to) != tni_dtype_bits(x->pub.dtype))
    return tni_rule_fail(in, "%s has not the width of type %lld", tni_dtype_name(x->pub.dtype), (long long)to);
  return x->pub.rank == TNI_RANK_UNKNOWN ? tni_rule_set_unknown(in, 0, (uint32_t)to)
                                         : tni_rule_set(in, 0, (uint32_t)to, x->pub.rank, x->pub.dims);
}

tn_status tni_shape_dropout(tni_infer *in) {
  const tni_value *x = tni_rule_ranked(in, 0);
  tn_status st = tni_rule_set_like(in, 0, 0);
  if (st != TN_OK) return st;
  if (!x) return tni_rule_set_unknown(in, 1, TN_DT_BOOL);
  return tni_rule_set(in, 1, TN_DT_BOOL, x->pub.rank, x->pub.dims);
}

/* Dims of all operands from `first` on, broadcast into output 0. */
static tn_status broadcast_dims(tni_infer *in, uint32_t dtype) {
  uint32_t rank = 0;
  tn_expr dims[TN_MAX_RANK];
  for (uint32_t i = 0; i < in->node->pub.n_in; i++) {
    tn_status st = tni_rule_broadcast_with(in, i, &rank, dims);
    if (st != TN_OK) return st;
  }
  return rank == TNI_RANK_UNKNOWN ? tni_rule_set_unknown(in, 0, dtype) : tni_rule_set(in, 0, dtype, rank, dims);
}

static tn_status same_dtypes(tni_infer *in, uint32_t first) {
  uint32_t dtype = TN_DT_UNDEFINED;
  for (uint32_t i = first; i < in->node->pub.n_in; i++) {
    const tni_value *v = tni_rule_in(in, i);
    if (!v || v->pub.dtype == TN_DT_UNDEFINED) continue;
    if (dtype != TN_DT_UNDEFINED && v->pub.dtype != dtype) {
      return tni_rule_fail(in, "operand %u is %s, another %s", i, tni_dtype_name(v->pub.dtype), tni_dtype_name(dtype));
    }
    dtype = v->pub.dtype;
  }
  return TN_OK;
}

/* Folds the operands from left to right, element by element. */
static void broadcast_vals(tni_infer *in, bool compare) {
  tni_vals v;
  uint32_t n, rank = tni_rule_out(in, 0) ? tni_rule_out(in, 0)->pub.rank : 0;
  int64_t dims[TN_MAX_RANK];
  if (in->node->pub.op == TN_OP_MEAN || !tni_rule_wants_vals(in, 0, &n, dims)) return;
  uint32_t dtype = tni_rule_out(in, 0)->pub.dtype;
  tn_expr *e = tni_rule_elems(in, n);
  for (uint32_t i = 0; e && i < in->node->pub.n_in; i++) {
    bool known = tni_rule_vals(in, i, &v);
    for (uint32_t k = 0; k < n; k++) {
      tn_expr b = known ? v.e[tni_val_index(&v, rank, dims, k)] : TNI_EXPR_NONE;
      if (i == 0) {
        e[k] = b;
      } else {
        e[k] = compare ? tni_val_compare(in->x, in->node->pub.op, e[k], b)
                       : tni_val_binary(in->x, in->node, dtype, e[k], b);
      }
    }
  }
  tni_rule_set_vals(in, 0, e, n);
}

tn_status tni_shape_broadcast(tni_infer *in) {
  const tni_value *x = tni_rule_in(in, 0);
  if (!x) return tni_rule_fail(in, "operand 0 is missing");
  tn_status st = in->node->pub.op == TN_OP_POW ? TN_OK : same_dtypes(in, 0);
  if (st == TN_OK) st = broadcast_dims(in, x->pub.dtype);
  if (st == TN_OK) broadcast_vals(in, false);
  return st;
}

/* Two operands of one shape, without broadcasting. */
tn_status tni_shape_same_both(tni_infer *in) {
  const tni_value *x = tni_rule_ranked(in, 0), *y = tni_rule_ranked(in, 1);
  bool ok = true;
  tn_expr dims[TN_MAX_RANK];
  tn_status st = same_dtypes(in, 0);
  if (st) return st;
  if (!x || !y) return tni_rule_set_like(in, 0, x ? 0 : 1);
  if (x->pub.rank != y->pub.rank) return tni_rule_fail(in, "both operands need one shape");
  for (uint32_t d = 0; d < x->pub.rank && ok; d++) dims[d] = tni_rule_same_dim(in, x->pub.dims[d], y->pub.dims[d], &ok);
  if (!ok) return tni_rule_fail(in, "both operands need one shape");
  return tni_rule_set(in, 0, x->pub.dtype, x->pub.rank, dims);
}

tn_status tni_shape_broadcast_bool(tni_infer *in) {
  tn_status st = same_dtypes(in, 0);
  if (st == TN_OK) st = broadcast_dims(in, TN_DT_BOOL);
  if (st == TN_OK) broadcast_vals(in, true);
  return st;
}

tn_status tni_shape_where(tni_infer *in) {
  const tni_value *x = tni_rule_in(in, 1);
  if (!x) return tni_rule_fail(in, "operand 1 is missing");
  tn_status st = same_dtypes(in, 1);
  if (st == TN_OK) st = broadcast_dims(in, x->pub.dtype);
  if (st != TN_OK) return st;
  tni_vals v[3];
  bool known[3];
  uint32_t n;
  int64_t dims[TN_MAX_RANK];
  if (!tni_rule_wants_vals(in, 0, &n, dims)) return TN_OK;
  uint32_t rank = tni_rule_out(in, 0)->pub.rank;
  for (uint32_t i = 0; i < 3; i++) known[i] = tni_rule_vals(in, i, &v[i]);
  tn_expr *e = tni_rule_elems(in, n);
  for (uint32_t k = 0; e && k < n; k++) {
    tn_expr p[3];
    int64_t c;
    for (uint32_t i = 0; i < 3; i++) p[i] = known[i] ? v[i].e[tni_val_index(&v[i], rank, dims, k)] : TNI_EXPR_NONE;
    if (p[0] != TNI_EXPR_NONE && tni_ex_is_const(in->x, p[0], &c)) {
      e[k] = c ? p[1] : p[2];
    } else if (p[1] == p[2]) {
      e[k] = p[1];
    }
  }
  tni_rule_set_vals(in, 0, e, n);
  return TN_OK;
}
