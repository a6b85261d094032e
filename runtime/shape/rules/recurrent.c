/* SPDX-License-Identifier: Apache-2.0
 *
 * RNN, GRU, LSTM, and operators that hand a state from step to step.
 */
#include <string.h>

#include "runtime/shape/rules/table.h"

static tn_expr dim_of(const tni_infer *in, uint32_t i, uint32_t rank, uint32_t axis) {
  const tni_value *v = tni_rule_ranked(in, i);
  return v && v->pub.rank == rank ? v->pub.dims[axis] : TNI_EXPR_NONE;
}

static uint32_t dtype_of(const tni_infer *in, uint32_t i) {
  const tni_value *v = tni_rule_in(in, i);
  return v ? v->pub.dtype : TN_DT_UNDEFINED;
}

static tn_status needs_rank(tni_infer *in, uint32_t i, uint32_t rank) {
  const tni_value *v = tni_rule_ranked(in, i);
  if (!v || v->pub.rank == rank) return TN_OK;
  return tni_rule_fail(in, "operand %u has rank %u, not %u", i, v->pub.rank, rank);
}

/* Y [T, D, B, H], states [D, B, H]; layout 1: [B, T, D, H], [B, D, H]. */
tn_status tni_shape_recurrent(tni_infer *in) {
  const tn_node *n = &in->node->pub;
  const bool batch_first = tni_attr_i(n, "layout", 0) != 0;
  const int64_t hidden = tni_attr_i(n, "hidden_size", -1);
  const tn_expr D = tni_rule_const(in, strcmp(tni_attr_s(n, "direction", "forward"), "bidirectional") == 0 ? 2 : 1);
  tn_status st = needs_rank(in, 0, 3);
  if (!st) st = needs_rank(in, 1, 3);
  if (!st) st = needs_rank(in, 2, 3);
  if (st) return st;
  if (hidden < -1 || hidden > INT32_MAX) return tni_rule_fail(in, "hidden_size is %lld", (long long)hidden);
  tn_expr T = dim_of(in, 0, 3, batch_first), B = dim_of(in, 0, 3, !batch_first), H = dim_of(in, 2, 3, 2);
  if (H == TNI_EXPR_NONE && hidden >= 0) H = tni_rule_const(in, hidden);
  const tn_expr y[2][4] = {{T, D, B, H}, {B, T, D, H}}, state[2][3] = {{D, B, H}, {B, D, H}};
  st = tni_rule_set(in, 0, dtype_of(in, 0), 4, y[batch_first]);
  for (uint32_t o = 1; !st && o < n->n_out; o++) st = tni_rule_set(in, o, dtype_of(in, 0), 3, state[batch_first]);
  return st;
}

/* e / n where that is a whole number for sure; NONE otherwise. */
static tn_expr share_of_dim(const tni_infer *in, tn_expr e, int64_t n) {
  int64_t c;
  if (e == TNI_EXPR_NONE || n < 1) return TNI_EXPR_NONE;
  if (tni_ex_is_const(in->x, e, &c)) return c % n ? TNI_EXPR_NONE : tni_rule_const(in, c / n);
  return n == 1 ? e : TNI_EXPR_NONE;
}

/* Output [B, T, heads * d_v], present [B, kv_heads, d_k, d_v]. */
tn_status tni_shape_linear_attention(tni_infer *in) {
  const int64_t q = tni_attr_i(&in->node->pub, "q_num_heads", 0), kv = tni_attr_i(&in->node->pub, "kv_num_heads", 0);
  if (q < 1 || kv < 1 || q % kv || q > INT32_MAX)
    return tni_rule_fail(in, "%lld query heads and %lld key heads", (long long)q, (long long)kv);
  tn_status st = TN_OK;
  for (uint32_t i = 0; !st && i < 3; i++) st = needs_rank(in, i, 3);
  if (!st) st = needs_rank(in, 3, 4);
  if (st) return st;
  const bool past = tni_rule_in(in, 3) != NULL;
  tn_expr dk = share_of_dim(in, dim_of(in, 0, 3, 2), q), dv = share_of_dim(in, dim_of(in, 2, 3, 2), kv),
          B = dim_of(in, 0, 3, 0);
  if (dk == TNI_EXPR_NONE) dk = dim_of(in, 3, 4, 2);
  if (dv == TNI_EXPR_NONE) dv = dim_of(in, 3, 4, 3);
  tn_expr wide = dv == TNI_EXPR_NONE ? TNI_EXPR_NONE : tni_ex_mul(in->x, dv, tni_rule_const(in, q));
  const tn_expr y[3] = {B, dim_of(in, 0, 3, 1), wide}, state[4] = {B, tni_rule_const(in, kv), dk, dv};
  st = tni_rule_set(in, 0, dtype_of(in, 0), 3, y);
  return st ? st : tni_rule_set(in, 1, dtype_of(in, past ? 3 : 0), 4, state);
}

/* Output as the input [B, C, L], state [B, C, K - 1]. */
tn_status tni_shape_causal_conv(tni_infer *in) {
  tn_status st = needs_rank(in, 0, 3);
  if (!st) st = needs_rank(in, 1, 3);
  if (st) return st;
  const tn_expr k = dim_of(in, 1, 3, 2);
  tn_expr B = dim_of(in, 0, 3, 0), C = dim_of(in, 0, 3, 1);
  bool same;
  C = tni_rule_same_dim(in, C, dim_of(in, 1, 3, 0), &same);
  if (!same) return tni_rule_fail(in, "another number of channels than the kernel's");
  if (tni_rule_is(in, k, 0)) return tni_rule_fail(in, "a kernel of no elements");
  const tn_expr y[3] = {B, C, dim_of(in, 0, 3, 2)};
  const tn_expr state[3] = {B, C, k == TNI_EXPR_NONE ? k : tni_ex_sub(in->x, k, tni_rule_const(in, 1))};
  st = tni_rule_set(in, 0, dtype_of(in, 0), 3, y);
  return st ? st : tni_rule_set(in, 1, dtype_of(in, 0), 3, state);
}
