/* SPDX-License-Identifier: Apache-2.0
 *
 * Sinks: a column of logits, one per head, that Softmax sees after the scores and the product with v does not.
 *
 *   c = Concat(scores, sinks [batch, heads, length, 1]);  p = Slice(Softmax(c, or c - ReduceMax(c)))  without the last
 */
#include "runtime/passes/decoder/attention.h"

const tni_node *tni_attention_softmax(const tni_graph *g, tn_id v) {
  const tni_node *n = tni_match_node(g, v, TN_OP_SOFTMAX);
  const tni_value *x = tni_match_value(g, v);
  if (!n || x->pub.rank == TNI_RANK_UNKNOWN) return NULL;
  const int64_t axis = tni_attr_i(&n->pub, "axis", -1);
  return axis == -1 || axis == (int64_t)x->pub.rank - 1 ? n : NULL;
}

static bool is_known(const tni_graph *g, tn_id v) {
  const tni_value *x = tni_match_value(g, v);
  for (uint32_t d = 0; x && x->pub.rank == 4 && d < 4; d++)
    if (x->pub.dims[d] == TNI_EXPR_NONE) return false;
  return x && x->pub.rank == 4;
}

/* v is x without the last of its columns: they are cut from the first on, and one is missing. */
static bool drops_last(const tni_graph *g, tn_id v, tn_id *x) {
  const tni_node *n = tni_match_node(g, v, TN_OP_SLICE);
  double start, axis, step = 1;
  if (!n || !is_known(g, v) || !is_known(g, n->pub.in[0]) || tni_match_uses(g, v) != 1) return false;
  if (!tni_match_scalar(g, n->pub.in[1], &start) || start != 0) return false;
  if (!tni_match_scalar(g, tni_match_in(n, 3), &axis) || (axis != 3 && axis != -1)) return false;
  if (tni_match_in(n, 4) != TN_NONE && (!tni_match_scalar(g, n->pub.in[4], &step) || step != 1)) return false;
  *x = n->pub.in[0];
  const tn_expr all = tni_ex_add(g->exprs, tni_match_last_dim(g, v), tni_ex_const(g->exprs, 1));
  return all != TNI_EXPR_NONE && all == tni_match_last_dim(g, *x);
}

/* v with what is subtracted from all of a row taken off, which Softmax does not see; *uses: how often it is read then.
 */
static tn_id without_shift(const tni_graph *g, tn_id v, uint32_t *uses) {
  const tni_node *sub = tni_match_node(g, v, TN_OP_SUB), *max;
  *uses = 1;
  if (!sub || tni_match_uses(g, v) != 1 || !(max = tni_match_node(g, sub->pub.in[1], TN_OP_REDUCE_MAX))) return v;
  if (max->pub.in[0] != sub->pub.in[0] || !tni_match_reduces_last(g, max) || tni_match_uses(g, sub->pub.in[1]) != 1)
    return v;
  *uses = 2;
  return sub->pub.in[0];
}

/* v [batch, heads, length, 1] holds one number per head: *column [1, heads, 1, 1] or [heads, 1, 1] of them. */
static bool per_head(const tni_graph *g, tn_id v, tn_expr heads, tn_id *column) {
  const tni_node *n = tni_match_node(g, v, TN_OP_EXPAND);
  const tn_expr one = tni_ex_const(g->exprs, 1);
  int64_t h;
  *column = n ? n->pub.in[0] : v;
  const tni_value *x = tni_match_value(g, *column);
  if ((x->pub.rank != 3 && x->pub.rank != 4) || !tni_ex_is_const(g->exprs, heads, &h) || h < 1) return false;
  for (uint32_t i = 1; i <= x->pub.rank; i++)
    if (x->pub.dims[x->pub.rank - i] != (i == 3 ? heads : one)) return false;
  return true;
}

bool tni_attention_sinks(const tni_graph *g, tn_id p, tn_id *scores, tn_id *sinks) {
  tn_id all;
  uint32_t uses;
  if (!drops_last(g, p, &all)) return false;
  const tni_node *softmax = tni_attention_softmax(g, all), *join;
  if (!softmax || tni_match_uses(g, all) != 1) return false;
  const tn_id c = without_shift(g, softmax->pub.in[0], &uses);
  if (!(join = tni_match_node(g, c, TN_OP_CONCAT)) || join->pub.n_in != 2 || tni_match_uses(g, c) != uses) return false;
  const int64_t axis = tni_attr_i(&join->pub, "axis", 0);
  *scores = join->pub.in[0];
  if ((axis != 3 && axis != -1) || !is_known(g, *scores) || !is_known(g, join->pub.in[1])) return false;
  if (tni_match_last_dim(g, join->pub.in[1]) != tni_ex_const(g->exprs, 1)) return false;
  return per_head(g, join->pub.in[1], g->values[*scores]->pub.dims[1], sinks);
}

tn_id tni_attention_per_head(tni_graph *g, tn_id column, tn_error *err) {
  const tni_value *x = g->values[column];
  const tn_expr heads = x->pub.dims[x->pub.rank - 3];
  const int64_t one = 1;
  int64_t n;
  const tni_node *from = tni_match_node(g, column, TN_OP_RESHAPE);
  if (!from) from = tni_match_node(g, column, TN_OP_UNSQUEEZE);
  const tni_value *vector = from ? tni_match_value(g, from->pub.in[0]) : NULL;
  if (vector && vector->pub.rank == 1 && vector->pub.dims[0] == heads) return from->pub.in[0];
  if (!tni_ex_is_const(g->exprs, heads, &n)) return TN_NONE;
  if (x->pub.kind == TN_VALUE_CONST) return tni_build_view(g, column, 1, &n);
  tni_build_node b = {.type = "Reshape", .version = 14, .in = {column, tni_build_const(g, TN_DT_I64, 1, &one, &n)}};
  b.n_in = 2;
  return b.in[1] == TN_NONE ? TN_NONE : tni_build_op(g, &b, x->pub.dtype, 1, &heads, err);
}
