/* SPDX-License-Identifier: Apache-2.0
 *
 * Norms of heads, part of the pass `heads`: a norm goes before what splits its rows off.
 *
 *  - Norm(Transpose(x)), [batch, heads, length, size] of [batch, length, heads, size]: Transpose(Norm(x)).
 *  - Norm(Reshape(x)), where a row of the norm is a part of x's last axis: Reshape(tenon norm with num_heads (x)).
 *
 * What the model has after them (another Transpose, a Reshape back, rotary embeddings) then meets the split.
 *
 * Keeps: every bit. Rows are the same numbers in the same order.
 */
#include "runtime/passes/build/build.h"
#include "runtime/passes/decoder/heads.h"

static bool is_plain_norm(const tni_graph *g, const tni_node *n) {
  const tni_value *x = tni_match_value(g, n->pub.in[0]);
  if (n->pub.op != TN_OP_RMS_NORMALIZATION && n->pub.op != TN_OP_LAYER_NORMALIZATION) return false;
  for (uint32_t o = 1; o < n->pub.n_out; o++)
    if (n->pub.out[o] != TN_NONE && tni_match_uses(g, n->pub.out[o])) return false;
  if (!x || x->pub.rank == TNI_RANK_UNKNOWN || x->pub.rank < 2) return false;
  const int64_t axis = tni_attr_i(&n->pub, "axis", -1);
  return axis == -1 || axis == (int64_t)x->pub.rank - 1;
}

/* Scale and bias are vectors of `size`. */
static bool weights_fit(const tni_graph *g, const tni_node *n, int64_t size) {
  for (uint32_t i = 1; i < n->pub.n_in; i++) {
    const tni_value *w = tni_match_value(g, n->pub.in[i]);
    int64_t len;
    if (!w) continue;
    if (!tni_match_rank(g, n->pub.in[i], 1) || !tni_ex_is_const(g->exprs, w->pub.dims[0], &len) || len != size)
      return false;
  }
  return true;
}

/* A copy of `view`, which reads x instead, makes what n made. */
static tn_status view_again(tni_graph *g, tni_node *n, const tni_node *view, tn_id x, tn_error *err) {
  const tn_id in[2] = {x, tni_match_in(view, 1)};
  n->dead = true;
  return tni_graph_add_node(g, "", NULL, view->type, view->version, in, view->pub.n_in, n->pub.out, 1, view->raw,
                            view->n_raw, NULL, err);
}

static tn_status below_transpose(tni_graph *g, tni_node *n, const tni_node *turn, tn_error *err) {
  const tni_value *x = g->values[turn->pub.in[0]];
  tni_build_node b = {.type = n->type, .version = n->version, .n_in = n->pub.n_in, .n_attr = n->n_raw};
  for (uint32_t i = 0; i < n->n_raw; i++) b.attr[i] = n->raw[i];
  for (uint32_t i = 0; i < n->pub.n_in; i++) b.in[i] = n->pub.in[i];
  b.in[0] = turn->pub.in[0];
  const tn_id y = tni_build_op(g, &b, x->pub.dtype, x->pub.rank, x->pub.dims, err);
  return y == TN_NONE ? tni_fail_memory(err, n->pub.name) : view_again(g, n, turn, y, err);
}

static tn_status below_reshape(tni_graph *g, tni_node *n, const tni_node *split, int64_t heads, tn_error *err) {
  const tni_value *x = g->values[split->pub.in[0]];
  tni_build_node b = {.domain = "tenon", .type = n->type, .version = 1, .n_in = n->pub.n_in, .n_attr = 3};
  for (uint32_t i = 0; i < n->pub.n_in; i++) b.in[i] = n->pub.in[i];
  b.in[0] = split->pub.in[0];
  b.attr[0] = tni_raw_float("epsilon", tni_attr_f(&n->pub, "epsilon", 1e-5));
  b.attr[1] = tni_raw_int("num_heads", heads);
  b.attr[2] = tni_raw_int("stash_type", tni_attr_i(&n->pub, "stash_type", TN_DT_F32));
  const tn_id y = tni_build_op(g, &b, x->pub.dtype, x->pub.rank, x->pub.dims, err);
  return y == TN_NONE ? tni_fail_memory(err, n->pub.name) : view_again(g, n, split, y, err);
}

tn_status tni_head_norm(tni_graph *g, tni_node *n, uint32_t *fired, tn_error *err) {
  int64_t perm[TN_MAX_RANK], all, size;
  if (!is_plain_norm(g, n) || n->n_raw > 16 || n->pub.n_in > 3) return TN_OK;
  const tn_expr row = tni_match_last_dim(g, n->pub.in[0]);
  if (row == TNI_EXPR_NONE || !tni_ex_is_const(g->exprs, row, &size) || size < 1 || !weights_fit(g, n, size))
    return TN_OK;
  const tni_node *turn = tni_match_node(g, n->pub.in[0], TN_OP_TRANSPOSE);
  if (turn && tni_match_rank(g, turn->pub.in[0], 4) && tni_match_perm(turn, 4, perm) && perm[0] == 0 && perm[1] == 2 &&
      perm[2] == 1) {
    ++*fired;
    return below_transpose(g, n, turn, err);
  }
  const tni_node *split = tni_match_node(g, n->pub.in[0], TN_OP_RESHAPE);
  const tn_expr last = split ? tni_match_last_dim(g, split->pub.in[0]) : TNI_EXPR_NONE;
  if (last == TNI_EXPR_NONE || !tni_ex_is_const(g->exprs, last, &all) || all <= size || all % size) return TN_OK;
  if (g->values[split->pub.in[0]]->pub.rank >= TN_MAX_RANK) return TN_OK;
  ++*fired;
  return below_reshape(g, n, split, all / size, err);
}
