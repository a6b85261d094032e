/* SPDX-License-Identifier: Apache-2.0
 *
 * turn: a Transpose goes before what makes its operand, where it is free there.
 *
 * After element-wise operators, Concat, Gather by a constant vector and products of one term ([.., m, 1] x [.., 1, n],
 * which become Mul), down to values whose axes of more than one element keep their order (a Reshape), small constants
 * (folded), or another Transpose (merged). Exporters turn the angles of rotary embeddings that way; ONNX Runtime's
 * optimizer moves the Transpose to after their cosine, where the pass `rotary` would not see how it was made. So this
 * pass comes before.
 *
 * Rows of a small constant table, whose last axis comes to the front, are columns of the turned table.
 *
 * Keeps: the value, name, dtype and shape of the Transpose, bit for bit (a product of one term has no sum; a zero may
 * change its sign).
 */
#include "runtime/passes/build/build.h"
#include "runtime/passes/forms/forms.h"
#include "runtime/passes/forms/unit.h"

enum { DEPTH = 16, MAX_CONST = 16384, MAX_CONCAT = 8 };

typedef struct pass {
  tni_graph *g;
  uint64_t given;
  uint32_t rank;
  int64_t perm[TN_MAX_RANK];
  tn_error *err;
} pass;

static const tni_node *turn_maker(const tni_graph *g, tn_id v) {
  const tni_value *x = tni_match_value(g, v);
  if (!x || x->pub.producer >= g->n_nodes || x->out_index || x->is_output) return NULL;
  const tni_node *n = g->nodes[x->pub.producer];
  return n->dead || !n->op || n->n_captures || n->pub.n_out != 1 || n->n_raw > 16 ? NULL : n;
}

static bool is_small_const(const tni_graph *g, tn_id v) {
  const tni_value *c = tni_match_value(g, v);
  return c && c->pub.kind == TN_VALUE_CONST && c->tensor && c->tensor->data && c->tensor->bytes <= MAX_CONST;
}

static bool is_unary(const tni_node *n) { return (n->op->flags & TNI_OPF_ELEMENTWISE) && n->pub.n_in == 1; }

static bool is_binary(const tni_graph *g, const tni_node *n) {
  if (n->pub.n_in != 2) return false;
  return (n->pub.op >= TN_OP_ADD && n->pub.op <= TN_OP_DIV) || tni_unit_is_outer(g, n);
}

/* Gather by a constant vector: no axis comes or goes. */
static bool is_pick(const tni_graph *g, const tni_node *n) {
  const tni_value *at = n->pub.op == TN_OP_GATHER ? tni_match_value(g, n->pub.in[1]) : NULL;
  return at && at->pub.kind == TN_VALUE_CONST && at->pub.rank == 1;
}

/* What v is an Expand or Tile of, where that has as many axes as y; else v itself. */
static tn_id narrow_of(const tni_graph *g, tn_id v, const tni_value *y) {
  const tni_node *wide = tni_unit_widens(g, v);
  const tni_value *x = wide ? tni_match_value(g, wide->pub.in[0]) : NULL;
  return x && x->pub.rank == y->pub.rank ? wide->pub.in[0] : v;
}

/* Every axis of y is spanned by a or by b. */
static bool span_together(const tni_graph *g, tn_id a, tn_id b, const tni_value *y) {
  const tni_value *va = tni_match_value(g, a), *vb = tni_match_value(g, b);
  if (!va || !vb || va->pub.rank != y->pub.rank || vb->pub.rank != y->pub.rank) return false;
  for (uint32_t d = 0; d < y->pub.rank; d++)
    if (va->pub.dims[d] != y->pub.dims[d] && vb->pub.dims[d] != y->pub.dims[d]) return false;
  return true;
}

/* Operand i of a binary node, without an Expand or Tile that the other operand makes superfluous. Where both have one,
 * the first goes first, and what it leaves is what the second is held against. */
static tn_id binary_operand(const tni_graph *g, const tni_node *n, uint32_t i) {
  const tni_value *y = g->values[n->pub.out[0]];
  const tn_id wide[2] = {n->pub.in[0], n->pub.in[1]};
  if (wide[0] == wide[1]) return wide[i];
  const tn_id narrow[2] = {narrow_of(g, wide[0], y), narrow_of(g, wide[1], y)};
  const tn_id first = span_together(g, narrow[0], wide[1], y) ? narrow[0] : wide[0];
  if (i == 0) return first;
  return span_together(g, narrow[1], first, y) ? narrow[1] : wide[1];
}

static bool can_turn(const pass *p, tn_id v, uint32_t depth) {
  const tni_graph *g = p->g;
  const tni_value *x = tni_match_value(g, v);
  if (!x || x->pub.rank > p->rank || x->elems || !tni_match_rank(g, v, x->pub.rank) || depth == DEPTH) return false;
  if (x->pub.rank == 0) return true;
  if (tni_unit_keeps_big(g, x, p->rank, p->perm)) return tni_symbols_given(g, p->given, x->pub.dims, x->pub.rank);
  if (x->pub.rank != p->rank) return false;
  if (is_small_const(g, v)) return true;
  const tni_node *n = turn_maker(g, v);
  if (!n) return false;
  if (n->pub.op == TN_OP_TRANSPOSE) return depth > 0;
  if (is_unary(n) || is_pick(g, n)) return can_turn(p, n->pub.in[0], depth + 1);
  const bool join = n->pub.op == TN_OP_CONCAT;
  if ((!join && !is_binary(g, n)) || n->pub.n_in > MAX_CONCAT) return false;
  for (uint32_t i = 0; i < n->pub.n_in; i++)
    if (!can_turn(p, join ? n->pub.in[i] : binary_operand(g, n, i), depth + 1)) return false;
  return true;
}

static tn_id transpose_of(pass *p, tn_id v, const tn_expr *dims) {
  tni_build_node b = {.type = "Transpose", .version = 13, .in = {v}, .n_in = 1, .n_attr = 1};
  b.attr[0] = tni_raw_ints("perm", p->perm, p->rank);
  return tni_build_op(p->g, &b, p->g->values[v]->pub.dtype, p->rank, dims, p->err);
}

static bool copy_turned(pass *p, const tni_node *n, tni_build_node *b);

/* v with its axes permuted; can_turn said that it is possible. */
static tn_id turned_value(pass *p, tn_id v) {
  tni_graph *g = p->g;
  const tni_value *x = g->values[v];
  tn_expr dims[TN_MAX_RANK];
  if (x->pub.rank == 0) return v;
  if (tni_unit_keeps_big(g, x, p->rank, p->perm)) return tni_unit_permuted(g, v, p->rank, p->perm, p->err);
  for (uint32_t d = 0; d < p->rank; d++) dims[d] = x->pub.dims[p->perm[d]];
  const tni_node *n = is_small_const(g, v) ? NULL : turn_maker(g, v);
  if (!n || n->pub.op == TN_OP_TRANSPOSE) return transpose_of(p, v, dims);
  tni_build_node b;
  return copy_turned(p, n, &b) ? tni_build_op(g, &b, x->pub.dtype, p->rank, dims, p->err) : TN_NONE;
}

/* n with turned operands. */
static bool copy_turned(pass *p, const tni_node *n, tni_build_node *b) {
  const tni_graph *g = p->g;
  const bool outer = n->pub.op == TN_OP_MATMUL, pick = is_pick(g, n), join = pick || n->pub.op == TN_OP_CONCAT;
  *b = (tni_build_node){.type = outer ? "Mul" : n->type, .version = outer ? 14 : n->version, .n_in = n->pub.n_in};
  for (uint32_t i = 0; i < n->n_raw && !outer && !join; i++) b->attr[b->n_attr++] = n->raw[i];
  if (join) {
    int64_t axis = tni_attr_i(&n->pub, "axis", 0), to = 0;
    if (axis < 0) axis += p->rank;
    while (to < p->rank && p->perm[to] != axis) to++;
    b->attr[b->n_attr++] = tni_raw_int("axis", to);
  }
  for (uint32_t i = 0; i < n->pub.n_in; i++) {
    const bool again = i && n->pub.in[i] == n->pub.in[i - 1];
    if (pick && i) {
      b->in[i] = n->pub.in[i];
      break;
    }
    b->in[i] =
        again ? b->in[i - 1] : turned_value(p, n->pub.n_in == 2 && !join ? binary_operand(g, n, i) : n->pub.in[i]);
    if (b->in[i] == TN_NONE) return false;
  }
  return true;
}

/* Transpose that brings the last axis to the front, of rows of a small constant table [R, H]: Gather of the turned
 * table. So relative positions get a bias per head (T5). */
static tn_status turn_rows(pass *p, tni_node *n, const tni_node *rows, uint32_t *fired) {
  static const int64_t perm[2] = {1, 0};
  tni_graph *g = p->g;
  const tni_value *table = g->values[rows->pub.in[0]];
  tni_build_node t = {.type = "Transpose", .version = 13, .in = {rows->pub.in[0]}, .n_in = 1, .n_attr = 1};
  tni_build_node b = {.type = "Gather", .version = 13, .in = {TN_NONE, rows->pub.in[1]}, .n_in = 2, .n_attr = 1};
  if (!is_small_const(g, rows->pub.in[0]) || table->pub.rank != 2 || tni_attr_i(&rows->pub, "axis", 0) != 0 ||
      p->perm[0] != (int64_t)p->rank - 1)
    return TN_OK;
  for (uint32_t d = 1; d < p->rank; d++)
    if (p->perm[d] != (int64_t)d - 1) return TN_OK;
  const tn_expr dims[2] = {table->pub.dims[1], table->pub.dims[0]};
  t.attr[0] = tni_raw_ints("perm", perm, 2);
  b.attr[0] = tni_raw_int("axis", 1);
  if ((b.in[0] = tni_build_op(g, &t, table->pub.dtype, 2, dims, p->err)) == TN_NONE)
    return tni_fail_memory(p->err, n->pub.name);
  ++*fired;
  return tni_build_in_place(g, n, &b, p->err);
}

static tn_status turn_node(pass *p, tni_node *n, uint32_t *fired) {
  tni_graph *g = p->g;
  const tni_value *x = tni_match_value(g, n->pub.in[0]);
  tni_build_node b;
  if (!x || x->pub.rank > TN_MAX_RANK || x->pub.rank < 2 || !tni_match_perm(n, x->pub.rank, p->perm)) return TN_OK;
  p->rank = x->pub.rank;
  const tni_node *before = turn_maker(g, n->pub.in[0]);
  if (before && before->pub.op == TN_OP_GATHER && !is_pick(g, before)) return turn_rows(p, n, before, fired);
  if (!before || tni_unit_keeps_big(g, x, p->rank, p->perm) || before->pub.op == TN_OP_TRANSPOSE ||
      !can_turn(p, n->pub.in[0], 0))
    return TN_OK;
  if (!copy_turned(p, before, &b)) return tni_fail_memory(p->err, n->pub.name);
  ++*fired;
  return tni_build_in_place(g, n, &b, p->err);
}

tn_status tni_pass_turn(tni_graph *g, uint32_t *n, tn_error *err) {
  pass p = {.g = g, .given = tni_given_symbols(g), .err = err};
  const uint32_t n_nodes = g->n_nodes;
  uint32_t fired = 0;
  for (uint32_t i = 0; i < n_nodes; i++) {
    tni_node *node = g->nodes[i];
    if (node->dead || !node->op || node->pub.op != TN_OP_TRANSPOSE) continue;
    const tn_status st = turn_node(&p, node, &fired);
    if (st != TN_OK) return st;
  }
  return tni_build_done(g, fired, n, err);
}
