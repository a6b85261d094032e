/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/passes/build/build.h"
#include "runtime/passes/forms/forms.h"

static bool same_shape(const tni_value *a, const tni_value *b) {
  if (a->pub.rank == TNI_RANK_UNKNOWN || a->pub.rank != b->pub.rank) return false;
  for (uint32_t d = 0; d < a->pub.rank; d++) {
    if (a->pub.dims[d] == TNI_EXPR_NONE || a->pub.dims[d] != b->pub.dims[d]) return false;
  }
  return true;
}

static const tni_value *identity_operand(const tni_graph *g, const tni_node *n, uint32_t i) {
  return i < n->pub.n_in && n->pub.in[i] != TN_NONE ? g->values[n->pub.in[i]] : NULL;
}

/* Axes of more than one element keep their order. */
static bool moves_nothing(const tni_graph *g, const tni_node *n, const tni_value *x) {
  const int64_t *perm;
  int64_t last = -1, c;
  uint32_t len = tni_attr_ints(&n->pub, "perm", &perm);
  if (perm && len != x->pub.rank) return false;
  for (uint32_t d = 0; d < x->pub.rank; d++) {
    int64_t p = perm ? perm[d] : (int64_t)(x->pub.rank - 1 - d);
    if (p < 0 || p >= x->pub.rank) return false;
    if (tni_ex_is_const(g->exprs, x->pub.dims[p], &c) && c == 1) continue;
    if (p < last) return false;
    last = p;
  }
  return true;
}

/* As long as the input and forward: nothing is left out and nothing turned round. */
static bool slices_forward(const tni_graph *g, const tni_node *n) {
  const tni_value *steps = identity_operand(g, n, 4);
  if (!steps) return true;
  if (steps->pub.kind != TN_VALUE_CONST || !steps->tensor || steps->tensor->rank != 1) return false;
  for (int64_t i = 0; i < steps->tensor->dims[0]; i++) {
    int64_t s;
    tni_tensor_to_i64(steps->tensor, i, 1, &s);
    if (s <= 0) return false;
  }
  return true;
}

/* Dropout's mask unused, and not training. */
static bool drops_nothing(const tni_graph *g, const tni_node *n) {
  const tni_value *train = identity_operand(g, n, 2);
  if (n->pub.n_out > 1 && n->pub.out[1] != TN_NONE) {
    const tni_value *mask = g->values[n->pub.out[1]];
    if (mask->pub.n_uses || mask->is_output) return false;
  }
  if (!train) return true;
  int64_t on = 1, count;
  if (train->pub.kind != TN_VALUE_CONST || !train->tensor) return false;
  if (tni_dims_count(train->tensor->dims, train->tensor->rank, &count) != TN_OK || count != 1) return false;
  tni_tensor_to_i64(train->tensor, 0, 1, &on);
  return on == 0;
}

/* The operand that n hands on because the other one is neutral: x * 1, x / 1, x and true, x or false. Not x + 0, which
 * turns -0 into 0. TN_NONE where there is none. */
static tn_id neutral_input(const tni_graph *g, const tni_node *n) {
  const bool one_sided = n->pub.op == TN_OP_DIV;
  const double want = n->pub.op == TN_OP_OR ? 0 : 1;
  double c;
  if (n->pub.op != TN_OP_MUL && n->pub.op != TN_OP_DIV && n->pub.op != TN_OP_AND && n->pub.op != TN_OP_OR)
    return TN_NONE;
  for (uint32_t i = one_sided; i < 2 && n->pub.n_in == 2; i++) {
    if (!tni_match_scalar(g, n->pub.in[i], &c) || c != want) continue;
    if (tni_match_same_shape(g, n->pub.in[!i], n->pub.out[0])) return n->pub.in[!i];
  }
  return TN_NONE;
}

static bool is_noop(const tni_graph *g, const tni_node *n) {
  const tni_value *x = identity_operand(g, n, 0);
  if (!x || n->pub.n_out == 0 || n->pub.out[0] == TN_NONE) return false;
  const tni_value *y = g->values[n->pub.out[0]];
  switch (n->pub.op) {
    case TN_OP_IDENTITY:
      return true;
    case TN_OP_DROPOUT:
      return drops_nothing(g, n);
    case TN_OP_CAST:
      return x->pub.dtype != TN_DT_UNDEFINED && x->pub.dtype == (uint32_t)tni_attr_i(&n->pub, "to", 0);
    case TN_OP_CONCAT:
      return n->pub.n_in == 1;
    case TN_OP_SPLIT:
      return n->pub.n_out == 1 && same_shape(x, y);
    case TN_OP_RESHAPE:
    case TN_OP_FLATTEN:
    case TN_OP_SQUEEZE:
    case TN_OP_UNSQUEEZE:
    case TN_OP_EXPAND:
    case TN_OP_TILE:
      return same_shape(x, y);
    case TN_OP_SLICE:
      return same_shape(x, y) && slices_forward(g, n);
    case TN_OP_TRANSPOSE:
      return same_shape(x, y) && moves_nothing(g, n, x);
    default:
      return false;
  }
}

static tn_status drop_noops(tni_graph *g, tni_replacing *r, uint32_t *fired, tn_error *err) {
  for (uint32_t i = 0; i < g->n_nodes; i++) {
    tni_node *node = g->nodes[i];
    if (node->dead || !node->op) continue;
    tni_replacing_node(r, node);
    const tn_id same = is_noop(g, node) ? node->pub.in[0] : neutral_input(g, node);
    if (same == TN_NONE) continue;
    tn_status st = tni_replacing_add(g, r, node->pub.out[0], same);
    if (st == TN_E_UNSUPPORTED) continue; /* a graph output that would lose its name */
    if (st != TN_OK) return tni_fail(err, st, node->pub.name, "identity: the value cannot be replaced");
    node->dead = true;
    (*fired)++;
  }
  return TN_OK;
}

tn_status tni_pass_identity(tni_graph *g, uint32_t *n, tn_error *err) {
  uint32_t fired = 0;
  tni_replacing r;
  if (!tni_replacing_init(&r, g)) return tni_fail_memory(err, g->name);
  tn_status st = drop_noops(g, &r, &fired, err);
  if (st == TN_OK) st = tni_replacing_finish(g, &r, err);
  tni_replacing_free(&r);
  if (st == TN_OK) *n = fired;
  return st;
}
