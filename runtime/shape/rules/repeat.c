/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "runtime/shape/rules/table.h"

/* Element k of the result stands where it stands in operand 0, wrapped around (Tile) or broadcast (Expand). */
static void repeat_vals(tni_infer *in, bool wrap) {
  tni_vals v;
  uint32_t n, src[TNI_MAX_ELEMS];
  int64_t od[TN_MAX_RANK];
  if (!tni_rule_wants_vals(in, 0, &n, od) || !tni_rule_vals(in, 0, &v)) return;
  uint32_t r = tni_rule_out(in, 0)->pub.rank;
  for (uint32_t i = 0; i < n; i++) {
    uint32_t flat = i, at = 0, stride = 1;
    for (uint32_t d = r; wrap && d-- > 0;) {
      at += flat % (uint32_t)od[d] % (uint32_t)v.dims[d] * stride;
      flat /= (uint32_t)od[d];
      stride *= (uint32_t)v.dims[d];
    }
    src[i] = wrap ? at : tni_val_index(&v, r, od, i);
  }
  tni_rule_pick_vals(in, 0, &v, src, n);
}

tn_status tni_shape_expand(tni_infer *in) {
  const tni_value *x = tni_rule_in(in, 0);
  tni_vals s;
  uint32_t n;
  tn_expr none[TN_MAX_RANK], dims[TN_MAX_RANK];
  if (!x) return tni_rule_fail(in, "operand 0 is missing");
  memset(none, 0xff, sizeof none);
  bool known = tni_rule_vals(in, 1, &s);
  if (known) n = s.n;
  if ((!known && !tni_rule_length(in, 1, &n)) || x->pub.rank == TNI_RANK_UNKNOWN) {
    return tni_rule_set_unknown(in, 0, x->pub.dtype);
  }
  if (n > TN_MAX_RANK) return tni_rule_fail(in, "the target has rank %u", n);
  uint32_t rank = n;
  memcpy(dims, known ? s.e : none, n * sizeof *dims);
  tn_status st = tni_rule_broadcast_with(in, 0, &rank, dims);
  if (st == TN_OK) st = tni_rule_set(in, 0, x->pub.dtype, rank, dims);
  if (st == TN_OK) repeat_vals(in, false);
  return st;
}

tn_status tni_shape_tile(tni_infer *in) {
  const tni_value *x = tni_rule_in(in, 0);
  tni_vals rep;
  tn_expr dims[TN_MAX_RANK];
  if (!x) return tni_rule_fail(in, "operand 0 is missing");
  if (x->pub.rank == TNI_RANK_UNKNOWN) return tni_rule_set_unknown(in, 0, x->pub.dtype);
  memset(dims, 0xff, sizeof dims);
  bool known = tni_rule_vals(in, 1, &rep);
  if (known && rep.n != x->pub.rank) return tni_rule_fail(in, "%u repeats for rank %u", rep.n, x->pub.rank);
  for (uint32_t d = 0; known && d < x->pub.rank; d++) dims[d] = tni_ex_mul(in->x, x->pub.dims[d], rep.e[d]);
  tn_status st = tni_rule_set(in, 0, x->pub.dtype, x->pub.rank, dims);
  if (st == TN_OK) repeat_vals(in, true);
  return st;
}

/* Operands: data, pads [2 * axes], value, axes. */
tn_status tni_shape_pad(tni_infer *in) {
  const tni_value *x = tni_rule_in(in, 0);
  tni_vals p;
  int64_t axes[TN_MAX_RANK];
  uint32_t n;
  tn_expr dims[TN_MAX_RANK];
  if (!x) return tni_rule_fail(in, "operand 0 is missing");
  if (x->pub.rank == TNI_RANK_UNKNOWN) return tni_rule_set_unknown(in, 0, x->pub.dtype);
  bool known = tni_rule_vals(in, 1, &p);
  n = x->pub.rank;
  for (uint32_t i = 0; i < n; i++) axes[i] = i;
  if (tni_rule_in(in, 3)) known = tni_rule_ints(in, 3, axes, TN_MAX_RANK, &n) && known;
  if (!known) {
    memset(dims, 0xff, sizeof dims);
    return tni_rule_set(in, 0, x->pub.dtype, x->pub.rank, dims);
  }
  if (p.n != 2 * n) return tni_rule_fail(in, "%u pads for %u axes", p.n, n);
  if (x->pub.rank) memcpy(dims, x->pub.dims, x->pub.rank * sizeof *dims);
  for (uint32_t i = 0; i < n; i++) {
    uint32_t d;
    if (!tni_rule_axis(axes[i], x->pub.rank, &d)) {
      return tni_rule_fail(in, "axis %lld is outside rank %u", (long long)axes[i], x->pub.rank);
    }
    dims[d] = tni_ex_add(in->x, dims[d], tni_ex_add(in->x, p.e[i], p.e[n + i]));
  }
  return tni_rule_set(in, 0, x->pub.dtype, x->pub.rank, dims);
}
