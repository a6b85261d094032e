/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "runtime/shape/rules/table.h"

typedef struct slice_axis {
  tn_expr start, count;
  int64_t step;
} slice_axis;

/* min(a, b), decided where it can be. */
static tn_expr least_expr(const tni_infer *in, tn_expr a, tn_expr b) {
  if (a == TNI_EXPR_NONE || b == TNI_EXPR_NONE) return TNI_EXPR_NONE;
  if (tni_ex_proves_le(in->x, a, b)) return a;
  if (tni_ex_proves_le(in->x, b, a)) return b;
  return tni_ex_min(in->x, a, b);
}

static tn_expr most_expr(const tni_infer *in, tn_expr a, tn_expr b) {
  if (a == TNI_EXPR_NONE || b == TNI_EXPR_NONE) return TNI_EXPR_NONE;
  if (tni_ex_proves_le(in->x, a, b)) return b;
  if (tni_ex_proves_le(in->x, b, a)) return a;
  return tni_ex_max(in->x, a, b);
}

/* A bound of a forward slice brought into [0, dim]. A constant from INT32_MAX on means "to the end": no tensor has a
 * longer axis. Below 0 it counts from the end; -n of an n that may be 0 is 0 there, and dim - n elsewhere. NONE where
 * its sign is unknown. */
static tn_expr clamp_forward(const tni_infer *in, tn_expr e, tn_expr dim) {
  int64_t c, lo, hi;
  tn_expr zero = tni_rule_const(in, 0);
  if (e == TNI_EXPR_NONE) return e;
  if (tni_ex_is_const(in->x, e, &c)) {
    if (c == 0) return zero;
    if (c >= INT32_MAX) return dim;
    if (c <= -INT32_MAX) return zero;
  }
  if (dim == TNI_EXPR_NONE) return TNI_EXPR_NONE;
  tni_ex_range(in->x, e, &lo, &hi);
  if (lo >= 0) return least_expr(in, e, dim);
  if (hi > 0) return TNI_EXPR_NONE;
  const tn_expr counted = most_expr(in, zero, tni_ex_add(in->x, e, dim));
  if (hi < 0) return counted;
  return tni_ex_mul(in->x, tni_ex_min(in->x, tni_ex_sub(in->x, zero, e), tni_rule_const(in, 1)), counted);
}

static tn_expr forward_count(const tni_infer *in, slice_axis *s, tn_expr end, tn_expr dim) {
  tn_expr from = clamp_forward(in, s->start, dim), to = clamp_forward(in, end, dim), zero = tni_rule_const(in, 0);
  s->start = from;
  if (from == TNI_EXPR_NONE || to == TNI_EXPR_NONE) return TNI_EXPR_NONE;
  if (from == zero && to == dim && s->step == 1) return dim;
  tn_expr len = most_expr(in, zero, tni_ex_sub(in->x, to, from));
  if (s->step == 1) return len;
  return tni_ex_floordiv(in->x, tni_ex_add(in->x, len, tni_rule_const(in, s->step - 1)), tni_rule_const(in, s->step));
}

/* Backward: all constant, or from the last to the first element. */
static tn_expr backward_count(const tni_infer *in, slice_axis *s, tn_expr end, tn_expr dim) {
  int64_t a, b, d, back;
  if (s->step == INT64_MIN) return TNI_EXPR_NONE;
  back = -s->step;
  if (s->start == TNI_EXPR_NONE || end == TNI_EXPR_NONE || dim == TNI_EXPR_NONE) return TNI_EXPR_NONE;
  if (!tni_ex_is_const(in->x, s->start, &a) || !tni_ex_is_const(in->x, end, &b)) return TNI_EXPR_NONE;
  if (tni_ex_is_const(in->x, dim, &d)) {
    if (d == 0) return dim;
    a = a < 0 ? (a < -d ? 0 : a + d) : a > d - 1 ? d - 1 : a; /* the start stays inside, the end may pass below */
    b = b < 0 ? (b < -d ? -1 : b + d) : b > d - 1 ? d - 1 : b;
    s->start = tni_rule_const(in, a);
    return tni_rule_const(in, a > b ? (a - b - 1) / back + 1 : 0);
  }
  if ((a != -1 && a < INT32_MAX) || b > -INT32_MAX) return TNI_EXPR_NONE;
  s->start = tni_ex_sub(in->x, dim, tni_rule_const(in, 1));
  return tni_ex_floordiv(in->x, tni_ex_add(in->x, dim, tni_rule_const(in, back - 1)), tni_rule_const(in, back));
}

static void slice_vals(tni_infer *in, const slice_axis *ax) {
  tni_vals v;
  uint32_t n, src[TNI_MAX_ELEMS];
  int64_t od[TN_MAX_RANK], start[TN_MAX_RANK];
  if (!tni_rule_wants_vals(in, 0, &n, od) || !tni_rule_vals(in, 0, &v)) return;
  for (uint32_t d = 0; d < v.rank; d++) {
    if (ax[d].start == TNI_EXPR_NONE || !tni_ex_is_const(in->x, ax[d].start, &start[d])) return;
  }
  for (uint32_t i = 0; i < n; i++) {
    uint32_t flat = i, stride = 1;
    int64_t at = 0;
    for (uint32_t d = v.rank; d-- > 0;) {
      at += (start[d] + (int64_t)(flat % (uint32_t)od[d]) * ax[d].step) * stride;
      flat /= (uint32_t)od[d];
      stride *= (uint32_t)v.dims[d];
    }
    src[i] = (uint32_t)at;
  }
  tni_rule_pick_vals(in, 0, &v, src, n);
}

/* Which axes are sliced; false if operand 3 is not known. */
static tn_status slice_axes(tni_infer *in, uint32_t rank, uint32_t count, uint32_t *axis, bool *known) {
  int64_t raw[TN_MAX_RANK];
  uint32_t n = count, seen = 0;
  *known = true;
  for (uint32_t i = 0; i < TN_MAX_RANK; i++) raw[i] = i;
  if (tni_rule_in(in, 3)) *known = tni_rule_ints(in, 3, raw, TN_MAX_RANK, &n);
  if (!*known) return TN_OK;
  if (n != count) return tni_rule_fail(in, "%u axes for %u starts", n, count);
  for (uint32_t i = 0; i < n; i++) {
    if (!tni_rule_axis(raw[i], rank, &axis[i])) {
      return tni_rule_fail(in, "axis %lld is outside rank %u", (long long)raw[i], rank);
    }
    if (seen >> axis[i] & 1) return tni_rule_fail(in, "axis %lld stands twice", (long long)raw[i]);
    seen |= 1u << axis[i];
  }
  return TN_OK;
}

/* How many axes are sliced, from whichever operand has a known length. */
static bool slice_count(const tni_infer *in, uint32_t *count) {
  for (uint32_t i = 1; i < 5; i++)
    if (tni_rule_length(in, i, count)) return true;
  return false;
}

static void unknown_dims(const tni_value *x, tn_expr *dims, slice_axis *ax) {
  for (uint32_t d = 0; d < x->pub.rank; d++) dims[d] = ax[d].start = TNI_EXPR_NONE;
}

static tn_status slice_dims(tni_infer *in, const tni_value *x, tn_expr *dims, slice_axis *ax) {
  tni_vals start, end, steps;
  uint32_t axis[TN_MAX_RANK], count;
  bool ks = tni_rule_vals(in, 1, &start), ke = tni_rule_vals(in, 2, &end), has = tni_rule_in(in, 4) != NULL, known;
  bool kt = has && tni_rule_vals(in, 4, &steps);
  if (!slice_count(in, &count)) {
    unknown_dims(x, dims, ax);
    return TN_OK;
  }
  if (count > x->pub.rank) return tni_rule_fail(in, "%u starts for rank %u", count, x->pub.rank);
  if (ks && ke && start.n != end.n) return tni_rule_fail(in, "%u starts and %u ends", start.n, end.n);
  if (kt && steps.n != count) return tni_rule_fail(in, "%u steps for %u starts", steps.n, count);
  tn_status st = slice_axes(in, x->pub.rank, count, axis, &known);
  if (st != TN_OK) return st;
  if (!known) {
    unknown_dims(x, dims, ax);
    return TN_OK;
  }
  for (uint32_t i = 0; i < count; i++) {
    slice_axis *a = &ax[axis[i]];
    tn_expr step = !has ? tni_rule_const(in, 1) : kt ? steps.e[i] : TNI_EXPR_NONE, to = ke ? end.e[i] : TNI_EXPR_NONE;
    a->start = ks ? start.e[i] : TNI_EXPR_NONE;
    if (step == TNI_EXPR_NONE || !tni_ex_is_const(in->x, step, &a->step)) {
      a->start = dims[axis[i]] = TNI_EXPR_NONE;
      continue;
    }
    if (a->step == 0) return tni_rule_fail(in, "the step on axis %u is 0", axis[i]);
    dims[axis[i]] = a->step > 0 ? forward_count(in, a, to, dims[axis[i]]) : backward_count(in, a, to, dims[axis[i]]);
  }
  return TN_OK;
}

/* Operands: data, starts, ends, axes, steps. */
tn_status tni_shape_slice(tni_infer *in) {
  const tni_value *x = tni_rule_in(in, 0);
  tn_expr dims[TN_MAX_RANK];
  slice_axis ax[TN_MAX_RANK];
  if (!x) return tni_rule_fail(in, "operand 0 is missing");
  if (x->pub.rank == TNI_RANK_UNKNOWN) return tni_rule_set_unknown(in, 0, x->pub.dtype);
  for (uint32_t d = 0; d < x->pub.rank; d++) {
    dims[d] = x->pub.dims[d];
    ax[d] = (slice_axis){.start = tni_rule_const(in, 0), .step = 1};
  }
  tn_status st = slice_dims(in, x, dims, ax);
  if (st == TN_OK) st = tni_rule_set(in, 0, x->pub.dtype, x->pub.rank, dims);
  if (st == TN_OK) slice_vals(in, ax);
  return st;
}
