/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "runtime/shape/rules/table.h"

/* Outer, own and inner element counts around an axis. */
static void split_dims(const int64_t *dims, uint32_t rank, uint32_t axis, uint32_t *outer, uint32_t *inner) {
  *outer = *inner = 1;
  for (uint32_t d = 0; d < axis; d++) *outer *= (uint32_t)dims[d];
  for (uint32_t d = axis + 1; d < rank; d++) *inner *= (uint32_t)dims[d];
}

static void concat_vals(tni_infer *in, uint32_t axis) {
  uint32_t n, outer, inner, at = 0;
  int64_t od[TN_MAX_RANK];
  if (!tni_rule_wants_vals(in, 0, &n, od)) return;
  tn_expr *e = tni_rule_elems(in, n);
  uint32_t rank = tni_rule_out(in, 0)->pub.rank;
  split_dims(od, rank, axis, &outer, &inner);
  for (uint32_t i = 0; e && i < in->node->pub.n_in; i++) {
    const tni_value *x = tni_rule_ranked(in, i);
    tni_vals v;
    int64_t own = 0;
    if (!x || x->pub.rank != rank) return;
    if (x->pub.dims[axis] == TNI_EXPR_NONE || !tni_ex_is_const(in->x, x->pub.dims[axis], &own)) return;
    bool known = tni_rule_vals(in, i, &v);
    for (uint32_t o = 0; known && o < outer; o++) {
      for (uint32_t k = 0; k < (uint32_t)own * inner; k++) {
        e[(o * (uint32_t)od[axis] + at) * inner + k] = v.e[o * (uint32_t)own * inner + k];
      }
    }
    at += (uint32_t)own;
  }
  tni_rule_set_vals(in, 0, e, n);
}

/* The operands' ranks must agree; those that are known give the others' dims, all but the axis. */
tn_status tni_shape_concat(tni_infer *in) {
  tn_expr dims[TN_MAX_RANK], sum = tni_rule_const(in, 0);
  uint32_t rank = TNI_RANK_UNKNOWN, axis = 0, dtype = TN_DT_UNDEFINED;
  int64_t want = tni_attr_i(&in->node->pub, "axis", 0);
  for (uint32_t i = 0; i < in->node->pub.n_in; i++) {
    const tni_value *x = tni_rule_in(in, i);
    if (!x) return tni_rule_fail(in, "operand %u is missing", i);
    if (x->pub.dtype != TN_DT_UNDEFINED) {
      if (dtype != TN_DT_UNDEFINED && dtype != x->pub.dtype) {
        return tni_rule_fail(in, "operand %u is %s, another %s", i, tni_dtype_name(x->pub.dtype),
                             tni_dtype_name(dtype));
      }
      dtype = x->pub.dtype;
    }
    if (x->pub.rank == TNI_RANK_UNKNOWN) {
      sum = TNI_EXPR_NONE;
      continue;
    }
    if (rank == TNI_RANK_UNKNOWN) {
      rank = x->pub.rank;
      if (!tni_rule_axis(want, rank, &axis)) {
        return tni_rule_fail(in, "axis %lld is outside rank %u", (long long)want, rank);
      }
      memcpy(dims, x->pub.dims, rank * sizeof *dims);
    }
    if (x->pub.rank != rank) return tni_rule_fail(in, "operand %u has rank %u, not %u", i, x->pub.rank, rank);
    for (uint32_t d = 0; d < rank; d++) {
      bool ok = true;
      if (d == axis) continue;
      if (d) { /* a batch of 1 that was traced is not what the name stands for */
        tni_rule_names_const(in, dims[d], x->pub.dims[d]);
        tni_rule_names_const(in, x->pub.dims[d], dims[d]);
      }
      dims[d] = tni_rule_same_dim(in, dims[d], x->pub.dims[d], &ok);
      if (!ok) return tni_rule_fail(in, "operand %u differs from the others on axis %u", i, d);
    }
    sum = tni_ex_add(in->x, sum, x->pub.dims[axis]);
  }
  if (rank == TNI_RANK_UNKNOWN) return tni_rule_set_unknown(in, 0, dtype);
  dims[axis] = sum;
  tn_status st = tni_rule_set(in, 0, dtype, rank, dims);
  if (st == TN_OK) concat_vals(in, axis);
  return st;
}

/* The width of operand i's heads in the result: num_heads times what one of them has. */
static bool heads_width(tni_infer *in, uint32_t i, int64_t heads, int64_t *width) {
  const tni_value *x = tni_rule_in(in, i);
  const bool shared = tni_attr_i(&in->node->pub, "shared", 0) >> i & 1;
  int64_t n;
  if (x->pub.rank < 1 || x->pub.dims[x->pub.rank - 1] == TNI_EXPR_NONE ||
      !tni_ex_is_const(in->x, x->pub.dims[x->pub.rank - 1], &n) || (!shared && n % heads))
    return false;
  if (shared && __builtin_mul_overflow(n, heads, &n)) return false;
  return !__builtin_add_overflow(*width, n, width);
}

tn_status tni_shape_concat_heads(tni_infer *in) {
  const tni_value *x = tni_rule_in(in, 0);
  const int64_t heads = tni_attr_i(&in->node->pub, "num_heads", 1);
  tn_expr dims[TN_MAX_RANK];
  int64_t width = 0;
  if (!x) return tni_rule_fail(in, "operand 0 is missing");
  if (x->pub.rank == TNI_RANK_UNKNOWN) return tni_rule_set_unknown(in, 0, x->pub.dtype);
  memcpy(dims, x->pub.dims, x->pub.rank * sizeof *dims);
  for (uint32_t i = 0; i < in->node->pub.n_in; i++) {
    const tni_value *y = tni_rule_in(in, i);
    bool ok = true;
    if (!y) return tni_rule_fail(in, "operand %u is missing", i);
    if (y->pub.dtype != x->pub.dtype || y->pub.rank != x->pub.rank)
      return tni_rule_fail(in, "operand %u differs from the first in type or rank", i);
    for (uint32_t d = 0; d + 1 < x->pub.rank; d++) {
      dims[d] = tni_rule_same_dim(in, dims[d], y->pub.dims[d], &ok);
      if (!ok) return tni_rule_fail(in, "operand %u differs from the others on axis %u", i, d);
    }
    if (!heads_width(in, i, heads, &width))
      return tni_rule_fail(in, "operand %u is no row of %lld heads", i, (long long)heads);
  }
  dims[x->pub.rank - 1] = tni_ex_const(in->x, width);
  return tni_rule_set(in, 0, x->pub.dtype, x->pub.rank, dims);
}

/* --- Split */

/* Sizes of the parts along the axis, from operand 1, or equal ones (the last may be smaller with num_outputs). */
static tn_status split_sizes(tni_infer *in, tn_expr dim, tn_expr *part, uint32_t n) {
  tni_vals s;
  int64_t num = tni_attr_i(&in->node->pub, "num_outputs", 0), c;
  for (uint32_t i = 0; i < n; i++) part[i] = TNI_EXPR_NONE;
  if (tni_rule_in(in, 1)) {
    if (!tni_rule_vals(in, 1, &s)) return TN_OK;
    if (s.n != n) return tni_rule_fail(in, "%u sizes for %u outputs", s.n, n);
    tn_expr sum = tni_rule_const(in, 0);
    for (uint32_t i = 0; i < n; i++) {
      int64_t size, all;
      if (s.e[i] != TNI_EXPR_NONE && dim != TNI_EXPR_NONE && tni_ex_is_const(in->x, s.e[i], &size) &&
          tni_ex_is_const(in->x, dim, &all) && size > all) {
        return tni_rule_fail(in, "part %u is larger than the axis", i);
      }
      part[i] = s.e[i];
      sum = tni_ex_add(in->x, sum, s.e[i]);
    }
    bool ok;
    (void)tni_rule_same_dim(in, sum, dim, &ok);
    return ok ? TN_OK : tni_rule_fail(in, "the sizes do not add up to the axis");
  }
  if (dim == TNI_EXPR_NONE) return TN_OK;
  if (num > 0 && num != n) return tni_rule_fail(in, "num_outputs is %lld, there are %u", (long long)num, n);
  int divides = tni_ex_divides(in->x, dim, n);
  if (num <= 0 && divides == 0) return tni_rule_fail(in, "the axis does not divide into %u parts", n);
  tn_expr parts = tni_rule_const(in, n), last = dim;
  tn_expr even = num <= 0 || divides == 1
                     ? tni_ex_exactdiv(in->x, dim, parts)
                     : tni_ex_floordiv(in->x, tni_ex_add(in->x, dim, tni_rule_const(in, (int64_t)n - 1)), parts);
  for (uint32_t i = 0; i + 1 < n; i++) {
    part[i] = even;
    last = tni_ex_sub(in->x, last, even);
  }
  part[n - 1] = last;
  if (tni_ex_is_const(in->x, last, &c) && c < 0) return tni_rule_fail(in, "too few elements for %u parts", n);
  return TN_OK;
}

static void split_vals(tni_infer *in, uint32_t o, uint32_t axis, uint32_t first) {
  tni_vals v;
  uint32_t n, outer, inner, src[TNI_MAX_ELEMS], at = 0;
  int64_t od[TN_MAX_RANK];
  if (!tni_rule_wants_vals(in, o, &n, od) || !tni_rule_vals(in, 0, &v)) return;
  split_dims(od, v.rank, axis, &outer, &inner);
  for (uint32_t k = 0; k < outer; k++) {
    for (uint32_t i = 0; i < (uint32_t)od[axis] * inner; i++) {
      src[at++] = (k * (uint32_t)v.dims[axis] + first) * inner + i;
    }
  }
  tni_rule_pick_vals(in, o, &v, src, n);
}

tn_status tni_shape_split(tni_infer *in) {
  const tni_value *x = tni_rule_in(in, 0);
  tn_expr dims[TN_MAX_RANK];
  uint32_t axis, n = in->node->pub.n_out;
  if (!x) return tni_rule_fail(in, "operand 0 is missing");
  if (x->pub.rank == TNI_RANK_UNKNOWN) {
    for (uint32_t i = 0; i < n; i++) {
      tn_status st = tni_rule_set_unknown(in, i, x->pub.dtype);
      if (st != TN_OK) return st;
    }
    return TN_OK;
  }
  if (!tni_rule_axis(tni_attr_i(&in->node->pub, "axis", 0), x->pub.rank, &axis)) {
    return tni_rule_fail(in, "axis %lld is outside rank %u", (long long)tni_attr_i(&in->node->pub, "axis", 0),
                         x->pub.rank);
  }
  tn_expr *part = tni_rule_elems(in, n);
  if (!part) return tni_fail_memory(in->err, in->node->pub.name);
  if (n == 0) return TN_OK;
  tn_status st = split_sizes(in, x->pub.dims[axis], part, n);
  int64_t first = 0, len;
  bool placed = true;
  for (uint32_t i = 0; st == TN_OK && i < n; i++) {
    memcpy(dims, x->pub.dims, x->pub.rank * sizeof *dims);
    dims[axis] = part[i];
    st = tni_rule_set(in, i, x->pub.dtype, x->pub.rank, dims);
    placed = placed && part[i] != TNI_EXPR_NONE && tni_ex_is_const(in->x, part[i], &len);
    if (st != TN_OK || !placed || first > TNI_MAX_ELEMS || len > TNI_MAX_ELEMS) continue;
    split_vals(in, i, axis, (uint32_t)first);
    first += len;
  }
  return st;
}
