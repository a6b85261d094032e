/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/passes/decoder/experts.h"

enum { MAX_BACK = 16, MAX_EXPERTS = 4096 };

static const tni_node *expert_producer(const tni_graph *g, tn_id v) {
  const tni_value *x = tni_match_value(g, v);
  if (!x || x->pub.producer >= g->n_nodes) return NULL;
  const tni_node *n = g->nodes[x->pub.producer];
  return !n->dead && n->op ? n : NULL;
}

static bool moves_rows(const tni_node *n) {
  return n && (n->pub.op == TN_OP_RESHAPE || n->pub.op == TN_OP_SQUEEZE || n->pub.op == TN_OP_UNSQUEEZE ||
               n->pub.op == TN_OP_FLATTEN);
}

tn_id tni_experts_unmoved(const tni_graph *g, tn_id v) {
  for (int i = 0; i < MAX_BACK && moves_rows(expert_producer(g, v)); i++) v = expert_producer(g, v)->pub.in[0];
  return v;
}

static bool dim_is(const tni_graph *g, tn_id v, uint32_t axis, int64_t n) {
  int64_t c;
  return tni_ex_is_const(g->exprs, g->values[v]->pub.dims[axis], &c) && c == n;
}

/* The axis of a Gather or Split of an operand of this rank. */
static int64_t axis_of(const tni_node *n, uint32_t rank) {
  const int64_t a = tni_attr_i(&n->pub, "axis", 0);
  return a < 0 ? a + rank : a;
}

/* z itself or its Transpose; *axis: which one the two rows lie on. */
static const tni_node *nonzero_of(const tni_graph *g, tn_id v, int64_t *axis) {
  int64_t perm[TN_MAX_RANK];
  const tni_node *turn = tni_match_node(g, v, TN_OP_TRANSPOSE);
  *axis = 0;
  if (turn) {
    if (!tni_match_perm(turn, 2, perm) || perm[0] != 1) return NULL;
    *axis = 1;
    v = turn->pub.in[0];
  }
  const tni_node *z = tni_match_node(g, v, TN_OP_NON_ZERO);
  return z && tni_match_rank(g, z->pub.in[0], 2) ? z : NULL;
}

const tni_node *tni_experts_row(const tni_graph *g, tn_id v, uint32_t *row) {
  v = tni_experts_unmoved(g, v);
  const tni_node *n = expert_producer(g, v);
  double at = -1;
  int64_t axis;
  if (!n || n->pub.n_in < 1) return NULL;
  const tni_node *z = nonzero_of(g, n->pub.in[0], &axis);
  if (!z) return NULL;
  if (n->pub.op == TN_OP_SPLIT && n->pub.n_out == 2 && axis_of(n, 2) == axis)
    at = g->values[v]->out_index;
  else if (n->pub.op == TN_OP_GATHER && axis_of(n, 2) == axis && !tni_match_scalar(g, n->pub.in[1], &at))
    return NULL;
  if (at < 0) at += n->pub.op == TN_OP_GATHER ? 2 : 0;
  if (at != 0 && at != 1) return NULL;
  *row = (uint32_t)at;
  return z;
}

/* A constant {0, 1}. */
static bool zero_one(const tni_graph *g, tn_id v) {
  const tni_value *x = tni_match_value(g, v);
  int64_t e[2];
  if (!x || x->pub.kind != TN_VALUE_CONST || !x->tensor || !x->tensor->data || x->tensor->rank != 1 ||
      x->tensor->dims[0] != 2 || tni_dtype_bits(x->tensor->dtype) == 0)
    return false;
  tni_tensor_to_i64(x->tensor, 0, 2, e);
  return e[0] == 0 && e[1] == 1;
}

/* picked is the indices of a TopK among as many experts: each stands once in a row, and none past their end. */
static bool from_topk(const tni_graph *g, tn_id v, int64_t experts) {
  const tni_node *n = expert_producer(g, v);
  int64_t all;
  while (n && n->pub.op == TN_OP_CAST) n = expert_producer(g, v = n->pub.in[0]);
  return n && n->pub.op == TN_OP_TOP_K && g->values[v]->out_index == 1 && axis_of(n, 2) != 0 &&
         tni_ex_is_const(g->exprs, tni_match_last_dim(g, n->pub.in[0]), &all) && all <= experts;
}

static bool read_one_hot(const tni_graph *g, const tni_node *n, tni_picked *p) {
  double depth;
  p->picked = n->pub.in[0];
  if (!tni_match_rank(g, p->picked, 2) ||
      tni_attr_i(&n->pub, "axis", -1) % 3 != (tni_attr_i(&n->pub, "axis", -1) < 0 ? -1 : 2))
    return false;
  if (!tni_match_scalar(g, n->pub.in[1], &depth) || depth < 1 || depth > MAX_EXPERTS || !zero_one(g, n->pub.in[2]))
    return false;
  p->tokens = g->values[p->picked]->pub.dims[0];
  p->experts = (int64_t)depth;
  return tni_ex_is_const(g->exprs, g->values[p->picked]->pub.dims[1], &p->k) && p->k > 0 &&
         from_topk(g, p->picked, p->experts);
}

bool tni_experts_picked(const tni_graph *g, const tni_node *nonzero, tni_picked *p) {
  int64_t perm[TN_MAX_RANK];
  double e;
  tn_id v = nonzero->pub.in[0];
  const tni_node *n = expert_producer(g, v);
  while (n && (n->pub.op == TN_OP_CAST || moves_rows(n))) n = expert_producer(g, v = n->pub.in[0]);
  *p = (tni_picked){.nonzero = nonzero};
  if (!n || n->pub.op != TN_OP_GATHER || axis_of(n, 3) != 0 || !tni_match_scalar(g, n->pub.in[1], &e)) return false;
  const tni_node *turn = tni_match_node(g, n->pub.in[0], TN_OP_TRANSPOSE);
  if (!turn || !tni_match_perm(turn, 3, perm) || perm[0] != 2) return false;
  const tni_node *hot = tni_match_node(g, turn->pub.in[0], TN_OP_ONE_HOT);
  if (!hot || !read_one_hot(g, hot, p)) return false;
  p->token_row = perm[1] == 0 ? 0 : 1;
  if (!(e >= (double)-p->experts && e < (double)p->experts)) return false;
  p->expert = (int64_t)(e < 0 ? e + (double)p->experts : e);
  /* Shapes may have lost or gained a 1 on the way, never the order of the two axes. */
  const tni_value *mask = g->values[nonzero->pub.in[0]];
  return mask->pub.dims[p->token_row] == p->tokens && dim_is(g, nonzero->pub.in[0], !p->token_row, p->k);
}

static bool is_row(const tni_graph *g, const tni_picked *p, tn_id v, bool token) {
  uint32_t row;
  return tni_experts_row(g, v, &row) == p->nonzero && row == (token ? p->token_row : !p->token_row);
}

bool tni_experts_rows(const tni_graph *g, const tni_picked *p, tn_id v, tn_id *x) {
  if (!tni_match_rank(g, v, 2)) return false;
  const tni_node *n = tni_match_node(g, tni_experts_unmoved(g, v), TN_OP_GATHER);
  if (!n || !is_row(g, p, n->pub.in[1], true) || !tni_match_rank(g, n->pub.in[1], 1)) return false;
  *x = n->pub.in[0];
  const tni_value *d = tni_match_value(g, *x);
  if (!d || d->pub.rank < 2 || d->pub.rank > TN_MAX_RANK || axis_of(n, d->pub.rank) != (int64_t)d->pub.rank - 2)
    return false;
  for (uint32_t i = 0; i + 2 < d->pub.rank; i++)
    if (!dim_is(g, *x, i, 1)) return false;
  return d->pub.dims[d->pub.rank - 2] == p->tokens && d->pub.dims[d->pub.rank - 1] == g->values[v]->pub.dims[1];
}

/* token * k + place. */
static bool is_place(const tni_graph *g, const tni_picked *p, tn_id v) {
  const tni_node *sum = tni_match_node(g, tni_experts_unmoved(g, v), TN_OP_ADD);
  for (uint32_t i = 0; sum && i < 2; i++) {
    const tni_node *mul = tni_match_node(g, sum->pub.in[i], TN_OP_MUL);
    double k;
    tn_id token;
    if (p->k == 1 && is_row(g, p, sum->pub.in[i], true) && is_row(g, p, sum->pub.in[!i], false)) return true;
    if (mul && tni_match_with_scalar(g, mul, &k, &token) && k == (double)p->k && is_row(g, p, token, true) &&
        is_row(g, p, sum->pub.in[!i], false))
      return true;
  }
  return false;
}

bool tni_experts_weight(const tni_graph *g, const tni_picked *p, tn_id v, tn_id *weights) {
  if (!tni_match_rank(g, v, 2) || !dim_is(g, v, 1, 1)) return false;
  const tni_node *n = tni_match_node(g, tni_experts_unmoved(g, v), TN_OP_GATHER);
  if (!n || !is_place(g, p, n->pub.in[1]) || !tni_match_rank(g, n->pub.in[1], 1)) return false;
  const tni_value *flat = tni_match_value(g, n->pub.in[0]);
  if (!flat || flat->pub.rank < 1 || flat->pub.rank > 2 || axis_of(n, flat->pub.rank) != 0) return false;
  if (flat->pub.rank == 2 && !dim_is(g, n->pub.in[0], 1, 1)) return false;
  *weights = n->pub.in[0];
  return flat->pub.dims[0] == tni_ex_mul(g->exprs, p->tokens, tni_ex_const(g->exprs, p->k));
}
