/* SPDX-License-Identifier: Apache-2.0
 *
 * unit: movement that only concerns axes of one element.
 *  - MatMul [.., m, 1] x [.., 1, n]: Mul, which broadcasts as far.
 *  - Transpose that only moves axes of one element: Reshape.
 *  - Reshape, Squeeze, Unsqueeze after a Cast after another of them: before the Cast, where they meet it.
 *  - Reshape that only puts in or takes out axes of one element: Unsqueeze or Squeeze, which need no shape.
 *
 * Keeps: the value, name, dtype and shape of the last node, bit for bit (a product of one term has no sum; a zero may
 * change its sign).
 */
#include "runtime/passes/forms/unit.h"
#include "runtime/passes/build/build.h"
#include "runtime/passes/forms/forms.h"

typedef struct pass {
  tni_graph *g;
  uint64_t given;
  uint32_t fired;
  tn_error *err;
} pass;

static bool is_one(const tni_graph *g, tn_expr e) {
  int64_t n;
  return e != TNI_EXPR_NONE && tni_ex_is_const(g->exprs, e, &n) && n == 1;
}

static bool is_ranked(const tni_graph *g, tn_id v) {
  const tni_value *x = tni_match_value(g, v);
  return x && x->pub.rank != TNI_RANK_UNKNOWN && tni_match_rank(g, v, x->pub.rank) && !x->elems;
}

static bool is_float(uint32_t t) { return t == TN_DT_F16 || t == TN_DT_BF16 || t == TN_DT_F32 || t == TN_DT_F64; }

/* --- products of one term --- */

bool tni_unit_is_outer(const tni_graph *g, const tni_node *n) {
  if (n->pub.op != TN_OP_MATMUL || n->pub.n_in != 2) return false;
  const tni_value *a = tni_match_value(g, n->pub.in[0]), *b = tni_match_value(g, n->pub.in[1]);
  if (!is_ranked(g, n->pub.in[0]) || !is_ranked(g, n->pub.in[1]) || a->pub.rank < 2 || b->pub.rank < 2) return false;
  return is_float(a->pub.dtype) && is_one(g, a->pub.dims[a->pub.rank - 1]) && is_one(g, b->pub.dims[b->pub.rank - 2]);
}

static tn_status outer_product(pass *p, tni_node *n) {
  if (!tni_unit_is_outer(p->g, n)) return TN_OK;
  const tni_build_node mul = {.type = "Mul", .version = 14, .in = {n->pub.in[0], n->pub.in[1]}, .n_in = 2};
  p->fired++;
  return tni_build_in_place(p->g, n, &mul, p->err);
}

/* --- transposes --- */

bool tni_unit_keeps_big(const tni_graph *g, const tni_value *x, uint32_t rank, const int64_t *perm) {
  int64_t last = -1;
  for (uint32_t d = 0; d < rank; d++) {
    const int64_t at = perm[d] - (int64_t)(rank - x->pub.rank);
    if (at < 0 || is_one(g, x->pub.dims[at])) continue;
    if (at < last) return false;
    last = at;
  }
  return true;
}

static tn_id unit_reshape(tni_graph *g, tn_id v, uint32_t rank, const tn_expr *dims, tn_error *err) {
  tni_build_node b = {.type = "Reshape", .version = 14, .in = {v}, .n_in = 2, .n_attr = 1};
  b.in[1] = tni_build_elems(g, dims, rank);
  b.attr[0] = tni_raw_int("allowzero", 1);
  return b.in[1] == TN_NONE ? TN_NONE : tni_build_op(g, &b, g->values[v]->pub.dtype, rank, dims, err);
}

const tni_node *tni_unit_widens(const tni_graph *g, tn_id v) {
  const tni_node *n = tni_match_node(g, v, TN_OP_EXPAND);
  if (n) return n;
  n = tni_match_node(g, v, TN_OP_TILE);
  const tni_value *x = n ? tni_match_value(g, n->pub.in[0]) : NULL, *y = tni_match_value(g, v);
  if (!x || !tni_match_rank(g, n->pub.in[0], x->pub.rank) || !tni_match_rank(g, v, x->pub.rank)) return NULL;
  for (uint32_t d = 0; d < x->pub.rank; d++)
    if (x->pub.dims[d] != y->pub.dims[d] && x->pub.dims[d] != tni_ex_const(g->exprs, 1)) return NULL;
  return n;
}

tn_id tni_unit_permuted(tni_graph *g, tn_id v, uint32_t rank, const int64_t *perm, tn_error *err) {
  const tni_value *x = g->values[v];
  tn_expr dims[TN_MAX_RANK];
  if (x->pub.rank == 0) return v;
  for (uint32_t d = 0; d < rank; d++) {
    const int64_t at = perm[d] - (int64_t)(rank - x->pub.rank);
    dims[d] = at < 0 ? tni_ex_const(g->exprs, 1) : x->pub.dims[at];
  }
  return unit_reshape(g, v, rank, dims, err);
}

static tn_status unit_transpose(pass *p, tni_node *n) {
  const tni_graph *g = p->g;
  const tn_id v = n->pub.in[0];
  int64_t perm[TN_MAX_RANK];
  if (!is_ranked(g, v) || !is_ranked(g, n->pub.out[0])) return TN_OK;
  const tni_value *x = g->values[v], *y = g->values[n->pub.out[0]];
  if (!tni_match_perm(n, x->pub.rank, perm) || !tni_unit_keeps_big(g, x, x->pub.rank, perm) ||
      !tni_symbols_given(g, p->given, y->pub.dims, y->pub.rank))
    return TN_OK;
  tni_build_node b = {.type = "Reshape", .version = 14, .in = {v}, .n_in = 2, .n_attr = 1};
  b.in[1] = tni_build_elems(p->g, y->pub.dims, y->pub.rank);
  b.attr[0] = tni_raw_int("allowzero", 1);
  if (b.in[1] == TN_NONE) return tni_fail_memory(p->err, n->pub.name);
  p->fired++;
  return tni_build_in_place(p->g, n, &b, p->err);
}

/* --- reshapes --- */

static bool keeps_order(const tni_graph *g, tn_id v) {
  return tni_match_node(g, v, TN_OP_RESHAPE) || tni_match_node(g, v, TN_OP_SQUEEZE) ||
         tni_match_node(g, v, TN_OP_UNSQUEEZE);
}

/* Reshape(Cast(view(x))): Cast(Reshape(view(x))). */
static tn_status before_cast(pass *p, tni_node *n) {
  const tni_graph *g = p->g;
  const tni_value *y = g->values[n->pub.out[0]];
  const tni_node *cast = tni_match_node(g, n->pub.in[0], TN_OP_CAST);
  if (!cast || !keeps_order(g, cast->pub.in[0]) || tni_match_only_reader(g, n->pub.in[0]) == TN_NONE ||
      tni_match_only_reader(g, cast->pub.in[0]) == TN_NONE || cast->n_raw > 16)
    return TN_OK;
  if (!is_ranked(g, n->pub.out[0]) || !tni_symbols_given(g, p->given, y->pub.dims, y->pub.rank)) return TN_OK;
  tni_build_node b = {.type = "Cast", .version = cast->version, .n_in = 1, .n_attr = cast->n_raw};
  for (uint32_t i = 0; i < cast->n_raw; i++) b.attr[i] = cast->raw[i];
  if ((b.in[0] = unit_reshape(p->g, cast->pub.in[0], y->pub.rank, y->pub.dims, p->err)) == TN_NONE)
    return tni_fail_memory(p->err, n->pub.name);
  p->fired++;
  return tni_build_in_place(p->g, n, &b, p->err);
}

/* Axes of `more` that `less` lacks, all of one element. false: they differ otherwise. */
static bool added_axes(const tni_graph *g, const tni_value *less, const tni_value *more, int64_t *axes, uint32_t *n) {
  uint32_t at = 0;
  *n = 0;
  for (uint32_t d = 0; d < more->pub.rank; d++) {
    if (at < less->pub.rank && less->pub.dims[at] == more->pub.dims[d])
      at++;
    else if (is_one(g, more->pub.dims[d]))
      axes[(*n)++] = d;
    else
      return false;
  }
  return at == less->pub.rank && *n > 0;
}

static tn_status plain_reshape(pass *p, tni_node *n) {
  const tni_graph *g = p->g;
  if (!is_ranked(g, n->pub.in[0]) || !is_ranked(g, n->pub.out[0])) return TN_OK;
  const tni_value *x = g->values[n->pub.in[0]], *y = g->values[n->pub.out[0]];
  int64_t axes[TN_MAX_RANK], len;
  uint32_t k;
  const bool more = y->pub.rank > x->pub.rank;
  if (!added_axes(g, more ? x : y, more ? y : x, axes, &k)) return TN_OK;
  tni_build_node b = {.type = more ? "Unsqueeze" : "Squeeze", .version = 13, .in = {n->pub.in[0]}, .n_in = 2};
  len = k;
  b.in[1] = tni_build_const(p->g, TN_DT_I64, 1, &len, axes);
  if (b.in[1] == TN_NONE) return tni_fail_memory(p->err, n->pub.name);
  p->fired++;
  return tni_build_in_place(p->g, n, &b, p->err);
}

static tn_status unit_node(pass *p, tni_node *n) {
  if (n->pub.n_out == 0 || n->pub.out[0] == TN_NONE || n->pub.n_in == 0) return TN_OK;
  if (n->pub.op == TN_OP_MATMUL) return outer_product(p, n);
  if (n->pub.op == TN_OP_TRANSPOSE) return unit_transpose(p, n);
  if (n->pub.op != TN_OP_RESHAPE && n->pub.op != TN_OP_SQUEEZE && n->pub.op != TN_OP_UNSQUEEZE) return TN_OK;
  const tn_status st = before_cast(p, n);
  return st != TN_OK || n->dead || n->pub.op != TN_OP_RESHAPE ? st : plain_reshape(p, n);
}

tn_status tni_pass_unit(tni_graph *g, uint32_t *n, tn_error *err) {
  pass p = {.g = g, .given = tni_given_symbols(g), .err = err};
  const uint32_t n_nodes = g->n_nodes;
  for (uint32_t i = 0; i < n_nodes; i++) {
    tni_node *node = g->nodes[i];
    if (node->dead || !node->op) continue;
    const tn_status st = unit_node(&p, node);
    if (st != TN_OK) return st;
  }
  return tni_build_done(g, p.fired, n, err);
}
