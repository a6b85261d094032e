/* SPDX-License-Identifier: Apache-2.0
 *
 * Parts of heads.
 */
#include "runtime/passes/decoder/rotary.h"

bool tni_rotary_last(const tni_graph *g, tn_id v, int64_t *n) {
  const tn_expr d = tni_match_last_dim(g, v);
  return d != TNI_EXPR_NONE && tni_ex_is_const(g->exprs, d, n);
}

bool tni_rotary_is_last(const tni_graph *g, tn_id v, int64_t axis) {
  return axis == -1 || axis == (int64_t)g->values[v]->pub.rank - 1;
}

/* Operand i of a Slice as one constant; `absent` where it is not there. */
static bool slice_arg(const tni_graph *g, const tni_node *n, uint32_t i, double absent, double *v) {
  const tn_id in = tni_match_in(n, i);
  *v = absent;
  return in == TN_NONE ? absent != 0 : tni_match_scalar(g, in, v);
}

/* n takes *count elements of the last axis, from *first on, *step apart. */
static bool read_slice(const tni_graph *g, const tni_node *n, int64_t *first, int64_t *step) {
  double start, axis, by;
  int64_t whole;
  if (!slice_arg(g, n, 1, 0, &start) || !slice_arg(g, n, 3, 0, &axis) || !slice_arg(g, n, 4, 1, &by)) return false;
  if (by < 1 || by > 2 || start < -1e9 || start > 1e9 || !tni_rotary_is_last(g, n->pub.in[0], (int64_t)axis) ||
      !tni_rotary_last(g, n->pub.in[0], &whole))
    return false;
  *step = (int64_t)by;
  *first = (int64_t)start < 0 ? (int64_t)start + whole : (int64_t)start;
  if (*first > whole) *first = whole;
  return *first >= 0;
}

/* first of the outputs of Split before v. */
static bool read_split(const tni_graph *g, const tni_node *n, const tni_value *v, int64_t *first) {
  int64_t before;
  *first = 0;
  for (uint32_t o = 0; o < v->out_index; o++) {
    if (n->pub.out[o] == TN_NONE || !tni_rotary_last(g, n->pub.out[o], &before)) return false;
    *first += before;
  }
  return tni_rotary_is_last(g, n->pub.in[0], tni_attr_i(&n->pub, "axis", 0));
}

static bool taken_part(const tni_graph *g, tn_id v, tn_id *x, int64_t *first, int64_t *count, int64_t *step) {
  const tni_value *val = tni_match_value(g, v);
  int64_t whole;
  if (!val || val->pub.producer >= g->n_nodes || !tni_rotary_last(g, v, count)) return false;
  const tni_node *n = g->nodes[val->pub.producer];
  if (n->dead || !n->op || (n->pub.op != TN_OP_SLICE && n->pub.op != TN_OP_SPLIT)) return false;
  *x = n->pub.in[0];
  *step = 1;
  if (!tni_rotary_last(g, *x, &whole)) return false;
  if (n->pub.op == TN_OP_SPLIT ? !read_split(g, n, val, first) : !read_slice(g, n, first, step)) return false;
  return *step == 2 || *first + *count <= whole;
}

bool tni_rotary_range(const tni_graph *g, tn_id v, tn_id *x, int64_t *first, int64_t *count) {
  int64_t step;
  return taken_part(g, v, x, first, count, &step) && step == 1;
}

bool tni_rotary_part(const tni_graph *g, tn_id v, tn_id *x, tni_rotary_order *order, uint32_t *which) {
  int64_t first, count, step, whole;
  if (!taken_part(g, v, x, &first, &count, &step) || !tni_rotary_last(g, *x, &whole) || whole < 2 || whole != 2 * count)
    return false;
  *order = step == 2 ? TNI_ROTARY_PAIRS : TNI_ROTARY_HALVES;
  const int64_t second = step == 2 ? 1 : count;
  *which = first == second;
  return first == 0 || first == second;
}

/* v [.., n, 1] is *a [.., n] with an axis more. */
static bool is_column(const tni_graph *g, tn_id v, tn_id *a) {
  const tni_node *n = tni_match_node(g, v, TN_OP_UNSQUEEZE);
  int64_t one;
  if (!n && !(n = tni_match_node(g, v, TN_OP_RESHAPE))) return false;
  const tni_value *x = g->values[n->pub.in[0]], *y = g->values[v];
  if (x->pub.rank == TNI_RANK_UNKNOWN || x->pub.rank < 1 || y->pub.rank != x->pub.rank + 1) return false;
  for (uint32_t d = 0; d < x->pub.rank; d++)
    if (x->pub.dims[d] == TNI_EXPR_NONE || x->pub.dims[d] != y->pub.dims[d]) return false;
  *a = n->pub.in[0];
  return tni_rotary_last(g, v, &one) && one == 1;
}

/* v [.., 2 n] is a Reshape of Concat(a [.., n, 1], b [.., n, 1]). */
static bool are_woven(const tni_graph *g, tn_id v, tn_id *a, tn_id *b) {
  const tni_node *flat = tni_match_node(g, v, TN_OP_RESHAPE), *join;
  int64_t n, all;
  if (!flat || !(join = tni_match_node(g, flat->pub.in[0], TN_OP_CONCAT)) || join->pub.n_in != 2) return false;
  if (!tni_rotary_is_last(g, flat->pub.in[0], tni_attr_i(&join->pub, "axis", 0))) return false;
  if (!is_column(g, join->pub.in[0], a) || !is_column(g, join->pub.in[1], b) || !tni_match_same_shape(g, *a, *b))
    return false;
  const tni_value *x = g->values[*a], *y = g->values[v];
  if (y->pub.rank != x->pub.rank || !tni_rotary_last(g, *a, &n) || !tni_rotary_last(g, v, &all) || all != 2 * n)
    return false;
  for (uint32_t d = 0; d + 1 < x->pub.rank; d++)
    if (x->pub.dims[d] != y->pub.dims[d]) return false;
  return true;
}

bool tni_rotary_joined(const tni_graph *g, tn_id v, tni_rotary_order order, tn_id *a, tn_id *b) {
  if (order == TNI_ROTARY_PAIRS) return are_woven(g, v, a, b);
  const tni_node *join = tni_match_node(g, v, TN_OP_CONCAT);
  if (!join || join->pub.n_in != 2 || !tni_rotary_is_last(g, v, tni_attr_i(&join->pub, "axis", 0))) return false;
  *a = join->pub.in[0];
  *b = join->pub.in[1];
  return tni_match_same_shape(g, *a, *b);
}
