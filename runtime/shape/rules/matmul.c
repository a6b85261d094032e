/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "runtime/shape/rules/table.h"

/* [.., M, K] x [.., K, N], or x [.., N, K] turned; a vector gets a leading (left) or trailing (right) 1 that leaves
 * again. */
static tn_status matmul_dims(tni_infer *in, uint32_t ia, uint32_t ib, bool trans_b, uint32_t dtype) {
  const tni_value *a = tni_rule_in(in, ia), *b = tni_rule_in(in, ib);
  if (!a || !b) return tni_rule_fail(in, "an operand is missing");
  if (a->pub.rank == TNI_RANK_UNKNOWN || b->pub.rank == TNI_RANK_UNKNOWN) return tni_rule_set_unknown(in, 0, dtype);
  uint32_t ra = a->pub.rank, rb = b->pub.rank, rank;
  if (ra == 0 || rb == 0) return tni_rule_fail(in, "a scalar has no product");
  if (trans_b && rb < 2) return tni_rule_fail(in, "a vector cannot be turned");
  const uint32_t inner = trans_b ? rb - 1 : rb >= 2 ? rb - 2 : 0;
  bool ok;
  (void)tni_rule_same_dim(in, a->pub.dims[ra - 1], b->pub.dims[inner], &ok);
  if (!ok) return tni_rule_fail(in, "the inner dimensions differ");
  uint32_t la = ra >= 2 ? ra - 2 : 0, lb = rb >= 2 ? rb - 2 : 0;
  rank = la > lb ? la : lb;
  tn_expr dims[TN_MAX_RANK + 2];
  for (uint32_t d = 0; d < rank; d++) {
    tn_expr da = d + la < rank ? tni_rule_const(in, 1) : a->pub.dims[d + la - rank];
    tn_expr db = d + lb < rank ? tni_rule_const(in, 1) : b->pub.dims[d + lb - rank];
    dims[d] = tni_rule_broadcast_dim(in, da, db, &ok);
    if (!ok) return tni_rule_fail(in, "the batch axes do not broadcast at %u", d);
  }
  if (ra >= 2) dims[rank++] = a->pub.dims[ra - 2];
  if (rb >= 2) dims[rank++] = b->pub.dims[trans_b ? rb - 2 : rb - 1];
  return tni_rule_set(in, 0, dtype, rank, dims);
}

static uint32_t dtype_of(const tni_infer *in, uint32_t i) {
  const tni_value *v = tni_rule_in(in, i);
  return v ? v->pub.dtype : TN_DT_UNDEFINED;
}

tn_status tni_shape_matmul(tni_infer *in) { return matmul_dims(in, 0, 1, false, dtype_of(in, 0)); }
tn_status tni_shape_matmul_integer(tni_infer *in) { return matmul_dims(in, 0, 1, false, TN_DT_I32); }
tn_status tni_shape_matmul_integer_to_float(tni_infer *in) { return matmul_dims(in, 0, 1, false, TN_DT_F32); }
tn_status tni_shape_qlinear_matmul(tni_infer *in) { return matmul_dims(in, 0, 3, false, dtype_of(in, 7)); }
tn_status tni_shape_qlinear_gemm(tni_infer *in) {
  return matmul_dims(in, 0, 3, tni_attr_i(&in->node->pub, "trans_b", 0) != 0, dtype_of(in, 7));
}

tn_status tni_shape_qlinear_binary(tni_infer *in) {
  const tni_value *a = tni_rule_in(in, 0);
  tn_expr dims[TN_MAX_RANK] = {TNI_EXPR_NONE};
  if (!a || !tni_rule_in(in, 3)) return tni_rule_fail(in, "an operand is missing");
  uint32_t rank = a->pub.rank;
  if (rank != TNI_RANK_UNKNOWN) memcpy(dims, a->pub.dims, rank * sizeof *dims);
  tn_status st = tni_rule_broadcast_with(in, 3, &rank, dims);
  if (st) return st;
  if (rank == TNI_RANK_UNKNOWN) return tni_rule_set_unknown(in, 0, dtype_of(in, 7));
  return tni_rule_set(in, 0, dtype_of(in, 7), rank, dims);
}

tn_status tni_shape_byte_lookup(tni_infer *in) {
  const tni_value *x = tni_rule_in(in, 0);
  if (!x) return tni_rule_fail(in, "an operand is missing");
  if (x->pub.rank == TNI_RANK_UNKNOWN) return tni_rule_set_unknown(in, 0, dtype_of(in, 1));
  return tni_rule_set(in, 0, dtype_of(in, 1), x->pub.rank, x->pub.dims);
}

tn_status tni_shape_gemm(tni_infer *in) {
  const tni_value *a = tni_rule_in(in, 0), *b = tni_rule_in(in, 1), *c = tni_rule_in(in, 2);
  tn_expr dims[TN_MAX_RANK] = {TNI_EXPR_NONE, TNI_EXPR_NONE};
  bool ta = tni_attr_i(&in->node->pub, "transA", 0) != 0, tb = tni_attr_i(&in->node->pub, "transB", 0) != 0, ok = true;
  if (!a || !b) return tni_rule_fail(in, "an operand is missing");
  bool ka = a->pub.rank != TNI_RANK_UNKNOWN, kb = b->pub.rank != TNI_RANK_UNKNOWN;
  if ((ka && a->pub.rank != 2) || (kb && b->pub.rank != 2)) return tni_rule_fail(in, "an operand is no matrix");
  if (ka) dims[0] = a->pub.dims[ta ? 1 : 0];
  if (kb) dims[1] = b->pub.dims[tb ? 0 : 1];
  if (ka && kb) (void)tni_rule_same_dim(in, a->pub.dims[ta ? 0 : 1], b->pub.dims[tb ? 1 : 0], &ok);
  if (!ok) return tni_rule_fail(in, "the inner dimensions differ");
  if (c && c->pub.rank != TNI_RANK_UNKNOWN) {
    tn_expr all[TN_MAX_RANK];
    uint32_t rank = 2;
    memcpy(all, dims, sizeof all);
    tn_status st = tni_rule_broadcast_with(in, 2, &rank, all);
    if (st != TN_OK) return st;
    if (rank != 2) return tni_rule_fail(in, "the bias has rank %u", rank);
  }
  return tni_rule_set(in, 0, a->pub.dtype, 2, dims);
}
