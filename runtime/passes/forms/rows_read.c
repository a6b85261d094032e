/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators that work row by row.
 */
#include <string.h>

#include "runtime/passes/forms/rows.h"

/* Operators whose attribute axis must not be the rows'. */
static bool has_axis(uint32_t op) {
  switch (op) {
    case TN_OP_SOFTMAX:
    case TN_OP_LOG_SOFTMAX:
    case TN_OP_TOP_K:
    case TN_OP_GATHER_ELEMENTS:
    case TN_OP_SCATTER_ELEMENTS:
    case TN_OP_GATHER:
    case TN_OP_SPLIT:
    case TN_OP_CONCAT:
    case TN_OP_LAYER_NORMALIZATION:
    case TN_OP_RMS_NORMALIZATION:
      return true;
    default:
      return false;
  }
}

static bool is_reduction(uint32_t op) {
  return op == TN_OP_REDUCE_SUM || op == TN_OP_REDUCE_MEAN || op == TN_OP_REDUCE_MAX || op == TN_OP_REDUCE_MIN ||
         op == TN_OP_REDUCE_PROD;
}

static bool is_norm(uint32_t op) { return op == TN_OP_LAYER_NORMALIZATION || op == TN_OP_RMS_NORMALIZATION; }

uint32_t tni_flat_axes_at(const tni_node *n) {
  const uint32_t op = n->pub.op;
  if (is_reduction(op) || op == TN_OP_SQUEEZE || op == TN_OP_UNSQUEEZE) return 1;
  return op == TN_OP_SLICE ? 3 : UINT32_MAX;
}

uint32_t tni_flat_shape_at(const tni_node *n) {
  if (n->pub.op == TN_OP_CONSTANT_OF_SHAPE) return 0;
  return n->pub.op == TN_OP_RESHAPE || n->pub.op == TN_OP_EXPAND ? 1 : UINT32_MAX;
}

bool tni_flat_axis(const tni_node *n, int64_t *axis) {
  if (!has_axis(n->pub.op)) return false;
  const bool last = n->pub.op == TN_OP_SOFTMAX || n->pub.op == TN_OP_LOG_SOFTMAX || n->pub.op == TN_OP_TOP_K ||
                    is_norm(n->pub.op);
  *axis = tni_attr_i(&n->pub, "axis", last ? -1 : 0);
  return true;
}

int64_t tni_flat_version(const tni_node *n) {
  return n->pub.op == TN_OP_SOFTMAX || n->pub.op == TN_OP_LOG_SOFTMAX ? 13 : n->version;
}

bool tni_flat_has(const tni_flat *r, tn_id v) {
  const tni_value *x = v < r->n_values ? r->g->values[v] : NULL;
  return x && x->pub.kind == TN_VALUE_ACT && x->pub.rank != TNI_RANK_UNKNOWN && x->pub.rank > 0 &&
         tni_match_rank(r->g, v, x->pub.rank) && x->pub.dims[0] == r->rows &&
         x->pub.rank + r->n_lead - 1 <= TN_MAX_RANK;
}

/* v is n_lead axes and then those of w after its first. */
static bool is_unfolded(const tni_flat *r, tn_id v, tn_id w) {
  const tni_value *x = r->g->values[v], *y = r->g->values[w];
  if (!tni_match_rank(r->g, v, r->n_lead + y->pub.rank - 1)) return false;
  return memcmp(x->pub.dims, r->lead, r->n_lead * sizeof *r->lead) == 0 &&
         memcmp(x->pub.dims + r->n_lead, y->pub.dims + 1, (y->pub.rank - 1) * sizeof *r->lead) == 0;
}

bool tni_flat_start(tni_flat *r, const tni_node *n) {
  const tni_graph *g = r->g;
  if (n->pub.op != TN_OP_RESHAPE || n->pub.out[0] >= r->n_values || !tni_match_rank(g, n->pub.out[0], 2)) return false;
  const tni_value *x = tni_match_value(g, n->pub.in[0]), *y = g->values[n->pub.out[0]];
  if (!x || x->pub.kind == TN_VALUE_CONST || x->pub.rank < 3 || !tni_match_rank(g, n->pub.in[0], x->pub.rank) ||
      x->pub.dims[x->pub.rank - 1] != y->pub.dims[1])
    return false;
  r->n_lead = x->pub.rank - 1;
  memcpy(r->lead, x->pub.dims, r->n_lead * sizeof *r->lead);
  r->rows = y->pub.dims[0];
  tn_expr all = r->lead[0];
  for (uint32_t d = 1; d < r->n_lead; d++) all = tni_ex_mul(g->exprs, all, r->lead[d]);
  return all == r->rows && tni_symbols_given(g, r->given, r->lead, r->n_lead);
}

static const tni_tensor *const_of(const tni_graph *g, tn_id v) {
  const tni_value *x = tni_match_value(g, v);
  return x && x->pub.kind == TN_VALUE_CONST ? x->tensor : NULL;
}

/* None of the axes of the constant v is the first of `rank`. */
static bool leaves_first(const tni_graph *g, tn_id v, uint32_t rank) {
  const tni_tensor *t = const_of(g, v);
  int64_t count, axis;
  if (!t || !t->data || t->dtype != TN_DT_I64 || tni_dims_count(t->dims, t->rank, &count) != TN_OK || count < 1)
    return false;
  for (int64_t i = 0; i < count; i++) {
    tni_tensor_to_i64(t, i, 1, &axis);
    if (axis == 0 || axis == -(int64_t)rank) return false;
  }
  return true;
}

static bool axis_is_inner(const tni_flat *r, const tni_node *n) {
  const int64_t rank = r->g->values[n->pub.in[0]]->pub.rank;
  int64_t axis;
  if (!tni_flat_axis(n, &axis)) return true;
  if (axis < 0) axis += rank;
  const bool last_only = n->pub.op == TN_OP_SOFTMAX || n->pub.op == TN_OP_LOG_SOFTMAX;
  return axis > 0 && (!last_only || axis == rank - 1); /* older versions flatten to two axes */
}

/* Operand v meets results of `rank` axes row by row, or is the same for all rows. */
static bool broadcasts_rows(const tni_flat *r, tn_id v, uint32_t rank) {
  const tni_value *x = tni_match_value(r->g, v);
  int64_t one;
  if (!x || !tni_match_rank(r->g, v, x->pub.rank) || x->pub.rank > rank) return false;
  if (x->pub.rank < rank) return true;
  return tni_flat_has(r, v) || (tni_ex_is_const(r->g->exprs, x->pub.dims[0], &one) && one == 1);
}

/* All operands of an element-wise node, or of one that pairs its operands' rows. */
static bool operands_fit(const tni_flat *r, const tni_node *n, bool all_rows) {
  const uint32_t rank = r->g->values[n->pub.out[0]]->pub.rank;
  for (uint32_t i = 0; i < n->pub.n_in; i++) {
    const tn_id v = n->pub.in[i];
    if (v == TN_NONE) continue;
    if (all_rows ? !tni_flat_has(r, v) || r->g->values[v]->pub.rank != rank : !broadcasts_rows(r, v, rank))
      return false;
  }
  return true;
}

/* All operands from the i-th on are constants. */
static bool rest_is_const(const tni_graph *g, const tni_node *n, uint32_t i) {
  for (; i < n->pub.n_in; i++)
    if (n->pub.in[i] != TN_NONE && !const_of(g, n->pub.in[i])) return false;
  return true;
}

static bool is_row_product(const tni_flat *r, const tni_node *n) {
  const tni_graph *g = r->g;
  const tni_tensor *w = const_of(g, n->pub.in[1]);
  if (n->pub.op == TN_OP_MATMUL) return w && w->rank == 2;
  const tn_id c = tni_match_in(n, 2);
  const tni_tensor *bias = c == TN_NONE ? NULL : const_of(g, c);
  return w && !tni_attr_i(&n->pub, "transA", 0) && tni_attr_f(&n->pub, "alpha", 1) == 1 &&
         tni_attr_f(&n->pub, "beta", 1) == 1 && (c == TN_NONE || (bias && bias->rank <= 1));
}

/* Its results have rows where its operands have them. */
static bool is_inside(const tni_flat *r, const tni_node *n) {
  const tni_graph *g = r->g;
  const uint32_t op = n->pub.op, axes = tni_flat_axes_at(n);
  const tn_id x = tni_match_in(n, 0);
  if (op == TN_OP_CONSTANT_OF_SHAPE) return true;
  if (op == TN_OP_EXPAND) return broadcasts_rows(r, x, g->values[n->pub.out[0]]->pub.rank);
  if ((n->op->flags & TNI_OPF_ELEMENTWISE) || op == TN_OP_WHERE) return operands_fit(r, n, false);
  if (!tni_flat_has(r, x)) return false;
  if (op == TN_OP_MATMUL || op == TN_OP_GEMM) return is_row_product(r, n);
  if (op == TN_OP_RESHAPE) return true;
  if (axes != UINT32_MAX)
    return tni_match_in(n, axes) != TN_NONE && rest_is_const(g, n, 1) &&
           leaves_first(g, n->pub.in[axes], g->values[op == TN_OP_UNSQUEEZE ? n->pub.out[0] : x]->pub.rank);
  if (!has_axis(op) || !axis_is_inner(r, n)) return false;
  const bool pairs = op == TN_OP_GATHER_ELEMENTS || op == TN_OP_SCATTER_ELEMENTS || op == TN_OP_CONCAT;
  if (is_norm(op) && !operands_fit(r, n, false)) return false; /* a scale of its own for every row */
  return pairs ? operands_fit(r, n, true) : rest_is_const(g, n, 1);
}

tni_flat_kind tni_flat_read(const tni_flat *r, const tni_node *n) {
  const tni_graph *g = r->g;
  if (n->dead || !n->op || n->n_captures || n->pub.n_in > TNI_BUILD_INPUTS || n->pub.n_out > TNI_BUILD_INPUTS ||
      n->n_raw > TNI_BUILD_INPUTS || n->pub.n_out < 1 || n->pub.out[0] == TN_NONE)
    return TNI_FLAT_NONE;
  const tn_id x = tni_match_in(n, 0), y = n->pub.out[0];
  if (n->pub.op == TN_OP_RESHAPE && tni_flat_has(r, y) && !tni_flat_has(r, x))
    return is_unfolded(r, x, y) ? TNI_FLAT_ENTRY : TNI_FLAT_NONE;
  if (n->pub.op == TN_OP_RESHAPE && tni_flat_has(r, x) && !tni_flat_has(r, y))
    return is_unfolded(r, y, x) ? TNI_FLAT_EXIT : TNI_FLAT_NONE;
  for (uint32_t o = 0; o < n->pub.n_out; o++)
    if (n->pub.out[o] != TN_NONE && (!tni_flat_has(r, n->pub.out[o]) || g->values[n->pub.out[o]]->elems))
      return TNI_FLAT_NONE;
  return is_inside(r, n) ? TNI_FLAT_INSIDE : TNI_FLAT_NONE;
}
