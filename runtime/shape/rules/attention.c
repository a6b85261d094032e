/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "runtime/shape/rules/table.h"

enum { MASK = 3, PAST_KEY = 4, PAST_VALUE = 5 };

/* [batch, heads, length, head size] of a 3D or 4D operand; false: its rank is neither. Unknown dims are NONE. */
static bool split_heads(const tni_infer *in, const tni_value *v, int64_t heads, tn_expr *d) {
  if (v->pub.rank == 4) memcpy(d, v->pub.dims, 4 * sizeof *d);
  if (v->pub.rank != 3 || heads <= 0) return v->pub.rank == 4;
  d[0] = v->pub.dims[0];
  d[1] = tni_rule_const(in, heads);
  d[2] = v->pub.dims[1];
  d[3] = tni_ex_exactdiv(in->x, v->pub.dims[2], d[1]);
  return true;
}

/* Keys and values with what came before; where nothing did, d as it is. */
static tn_status with_past(tni_infer *in, uint32_t i, tn_expr *d) {
  const tni_value *p = tni_rule_ranked(in, i);
  bool ok[3];
  if (!p) {
    if (tni_rule_in(in, i)) d[2] = TNI_EXPR_NONE;
    return TN_OK;
  }
  if (p->pub.rank != 4) return tni_rule_fail(in, "operand %u has rank %u instead of 4", i, p->pub.rank);
  d[0] = tni_rule_same_dim(in, p->pub.dims[0], d[0], &ok[0]);
  d[1] = tni_rule_same_dim(in, p->pub.dims[1], d[1], &ok[1]);
  d[3] = tni_rule_same_dim(in, p->pub.dims[3], d[3], &ok[2]);
  if (!ok[0] || !ok[1] || !ok[2]) return tni_rule_fail(in, "operand %u does not fit what is appended to it", i);
  tni_rule_names_const(in, p->pub.dims[1], d[1]);
  tni_rule_names_const(in, p->pub.dims[3], d[3]);
  d[2] = tni_ex_add(in->x, p->pub.dims[2], d[2]);
  return TN_OK;
}

static tn_status unknown_outputs(tni_infer *in, uint32_t dtype) {
  tn_status st = TN_OK;
  for (uint32_t o = 0; st == TN_OK && o < in->node->pub.n_out; o++) st = tni_rule_set_unknown(in, o, dtype);
  return st;
}

static tn_status attention_results(tni_infer *in, const tni_value *x, const tn_expr *q, const tn_expr *k,
                                   const tn_expr *v) {
  const tn_expr y4[4] = {q[0], q[1], q[2], v[3]}, y3[3] = {q[0], q[2], tni_ex_mul(in->x, q[1], v[3])};
  const tn_expr scores[4] = {q[0], q[1], q[2], k[2]};
  const uint32_t dtype = x->pub.dtype;
  tn_status st = tni_rule_set(in, 0, dtype, x->pub.rank, x->pub.rank == 4 ? y4 : y3);
  if (st == TN_OK) st = tni_rule_set(in, 1, dtype, 4, k);
  if (st == TN_OK) st = tni_rule_set(in, 2, dtype, 4, v);
  return st == TN_OK ? tni_rule_set(in, 3, dtype, 4, scores) : st;
}

/* Sinks and slopes of tenon.Attention: one per head. */
static bool per_head(tni_infer *in, uint32_t i, tn_expr heads) {
  const tni_value *v = tni_rule_ranked(in, i);
  bool ok = !v || v->pub.rank == 1;
  if (v && ok) (void)tni_rule_same_dim(in, v->pub.dims[0], heads, &ok);
  return ok;
}

static const tni_value *first_operand(const tni_graph *g, const tni_node *n) {
  return n->pub.n_in ? tni_graph_value(g, n->pub.in[0]) : NULL;
}

/* The length of what node n of a graph of lengths counts up sequence by sequence: an input's last axis. NONE: it does
 * something else. */
static tn_expr counted(const tni_graph *lengths, const tni_node *n) {
  const tni_value *v = n->pub.op == TN_OP_REDUCE_SUM ? first_operand(lengths, n) : NULL;
  while (v && v->pub.producer != TN_NONE && lengths->nodes[v->pub.producer]->pub.op == TN_OP_CAST)
    v = first_operand(lengths, lengths->nodes[v->pub.producer]);
  return v && v->pub.kind == TN_VALUE_INPUT && v->pub.rank == 2 ? v->pub.dims[1] : TNI_EXPR_NONE;
}

/* GroupQueryAttention is told how many keys there are: a number that is read off an input's axis, or counted from one.
 */
static void learn_told(const tni_infer *in, tn_expr total) {
  const tni_graph *lengths = in->g->lengths;
  const tni_value *told = tni_graph_value(in->g, in->g->total_rows);
  if (told && told->elems && told->n_elems == 1 && tni_rule_names_sum(in, told->elems[0], total)) return;
  for (uint32_t i = 0; lengths && i < lengths->n_nodes; i++)
    (void)tni_rule_names_sum(in, counted(lengths, lengths->nodes[i]), total);
}

/* From version 24 on a mask may be shorter than the keys, so who gives one to the model chooses its length. */
static bool is_of_keys(const tni_infer *in, const tni_value *mask) {
  const bool may_be_shorter = in->node->pub.op == TN_OP_ATTENTION && in->node->version >= 24;
  return mask && mask->pub.rank && !(may_be_shorter && mask->pub.kind == TN_VALUE_INPUT);
}

/* What else says how many keys there are. With a name of its own that is the past and the run. */
static void learn_total(const tni_infer *in, tn_expr total) {
  const tni_value *past = tni_rule_ranked(in, PAST_KEY), *mask = tni_rule_ranked(in, MASK);
  if (in->concrete || !past) return;
  if (past->pub.dims[2] == in->g->past_rows) learn_told(in, total);
  if (is_of_keys(in, mask)) (void)tni_rule_names_sum(in, mask->pub.dims[mask->pub.rank - 1], total);
}

/* tenon.Attention: Q [batch, length, heads * size] beside K and V of four axes. */
static bool may_differ(const tni_infer *in, const tni_value *q, const tni_value *k) {
  return in->node->pub.op == TN_OP_TENON_ATTENTION && q->pub.rank == 3 && k->pub.rank == 4 &&
         !tni_rule_in(in, PAST_KEY);
}

/* Outputs: Y like Q with V's head size, present key and value, the scores. */
tn_status tni_shape_attention(tni_infer *in) {
  const tni_value *x[3];
  tn_expr d[3][4];
  bool ok;
  const int64_t heads[2] = {tni_attr_i(&in->node->pub, "q_num_heads", 0),
                            tni_attr_i(&in->node->pub, "kv_num_heads", 0)};
  for (uint32_t i = 0; i < 3; i++) {
    x[i] = tni_rule_in(in, i);
    if (!x[i]) return tni_rule_fail(in, "operand %u is missing", i);
  }
  for (uint32_t i = 0; i < 3; i++) {
    if (x[i]->pub.rank == TNI_RANK_UNKNOWN) return unknown_outputs(in, x[0]->pub.dtype);
    if (x[i]->pub.rank != x[i == 2]->pub.rank && !(i == 1 && may_differ(in, x[0], x[1])))
      return tni_rule_fail(in, "Q, K and V differ in rank");
    if (!split_heads(in, x[i], heads[i > 0], d[i]))
      return tni_rule_fail(in, "operand %u needs 4 dimensions, or 3 and the numbers of heads", i);
  }
  for (uint32_t k = 0; k < 3; k++) { /* batch and heads of K and V, then their lengths */
    (void)tni_rule_same_dim(in, d[1][k], d[2][k], &ok);
    if (!ok) return tni_rule_fail(in, "K and V differ");
  }
  d[0][0] = tni_rule_same_dim(in, d[0][0], d[1][0], &ok);
  if (!ok) return tni_rule_fail(in, "the batches of Q and K differ");
  (void)tni_rule_same_dim(in, d[0][3], d[1][3], &ok);
  if (!ok) return tni_rule_fail(in, "the head sizes of Q and K differ");
  for (uint32_t i = TN_ATTENTION_SINKS; i <= TN_ATTENTION_SLOPES; i++)
    if (!per_head(in, i, d[0][1])) return tni_rule_fail(in, "operand %u needs one element per head of Q", i);
  tn_status st = with_past(in, PAST_KEY, d[1]);
  if (st == TN_OK) st = with_past(in, PAST_VALUE, d[2]);
  if (st == TN_OK) learn_total(in, d[1][2]);
  return st == TN_OK ? attention_results(in, x[0], d[0], d[1], d[2]) : st;
}

/* The cache: batch first, the update as large but for the axis of the sequence. */
tn_status tni_shape_tensor_scatter(tni_infer *in) {
  const tni_value *cache = tni_rule_ranked(in, 0), *update = tni_rule_ranked(in, 1), *at = tni_rule_ranked(in, 2);
  uint32_t axis;
  bool ok = true;
  if (!cache) return tni_rule_set_like(in, 0, 0);
  if (!tni_rule_axis(tni_attr_i(&in->node->pub, "axis", -2), cache->pub.rank, &axis) || axis == 0)
    return tni_rule_fail(in, "axis %lld is no axis of the cache after its batch",
                         (long long)tni_attr_i(&in->node->pub, "axis", -2));
  if (update && update->pub.rank != cache->pub.rank) return tni_rule_fail(in, "cache and update differ in rank");
  for (uint32_t d = 0; update && d < cache->pub.rank; d++) {
    if (d != axis) (void)tni_rule_same_dim(in, cache->pub.dims[d], update->pub.dims[d], &ok);
    if (!ok) return tni_rule_fail(in, "cache and update differ in axis %u", d);
  }
  if (at && at->pub.rank != 1) return tni_rule_fail(in, "write_indices needs one axis");
  if (at) (void)tni_rule_same_dim(in, at->pub.dims[0], cache->pub.dims[0], &ok);
  return ok ? tni_rule_set_like(in, 0, 0) : tni_rule_fail(in, "write_indices needs one element per batch");
}

/* X turned: the same dims. */
tn_status tni_shape_rotary_embedding(tni_infer *in) {
  const tni_value *x = tni_rule_ranked(in, 0);
  if (x && x->pub.rank != 3 && x->pub.rank != 4)
    return tni_rule_fail(in, "X has rank %u instead of 3 or 4", x->pub.rank);
  return tni_rule_set_like(in, 0, 0);
}
