/* SPDX-License-Identifier: Apache-2.0
 *
 * integers:  MatMulInteger of a constant matrix, Cast to float32, Mul with scales, Add of a constant bias
 *   ->  tenon.MatMulIntegerToFloat (ops.h), which is what onnxruntime's quantize_dynamic writes for a product.
 *
 * Keeps: bits. The sums are exact, and what comes after them is done in the same order.
 */
#include "runtime/passes/build/build.h"
#include "runtime/passes/quant/quant.h"

typedef struct integer_product {
  tni_node *cast, *scaled, *last;
  tn_id scale, bias;
} integer_product;

static tni_node *only_reader(const tni_graph *g, tn_id v, uint32_t op) {
  const tn_id id = tni_match_only_reader(g, v);
  return id != TN_NONE && g->nodes[id]->op && g->nodes[id]->pub.op == op ? g->nodes[id] : NULL;
}

/* float32 of one element, or [N] with at most axes of 1 before it; of no higher rank than y. */
static bool fits_columns(const tni_graph *g, tn_id v, tn_id y, int64_t N, bool one) {
  const tni_value *x = tni_match_value(g, v);
  int64_t last = 1, n;
  if (!x || x->pub.dtype != TN_DT_F32 || x->pub.rank == TNI_RANK_UNKNOWN || x->pub.rank > g->values[y]->pub.rank)
    return false;
  for (uint32_t d = 0; d < x->pub.rank; d++) {
    if (x->pub.dims[d] == TNI_EXPR_NONE || !tni_ex_is_const(g->exprs, x->pub.dims[d], &n)) return false;
    if (d + 1 < x->pub.rank && n != 1) return false;
    last = n;
  }
  return last == N || (one && last == 1);
}

static bool find_integer_product(const tni_graph *g, const tni_node *n, integer_product *p) {
  const tni_value *b = tni_match_value(g, n->pub.in[1]);
  *p = (integer_product){.bias = TN_NONE};
  if (b->pub.kind != TN_VALUE_CONST || !b->tensor || b->tensor->rank != 2) return false;
  const int64_t N = b->tensor->dims[1];
  if (!(p->cast = only_reader(g, n->pub.out[0], TN_OP_CAST))) return false;
  const tn_id sums = p->cast->pub.out[0];
  if (g->values[sums]->pub.dtype != TN_DT_F32 || g->values[sums]->pub.rank == TNI_RANK_UNKNOWN) return false;
  if (!(p->scaled = p->last = only_reader(g, sums, TN_OP_MUL))) return false;
  p->scale = tni_match_other(p->scaled, sums);
  if (p->scale == TN_NONE || p->scale == sums || !fits_columns(g, p->scale, sums, N, true)) return false;
  tni_node *add = only_reader(g, p->scaled->pub.out[0], TN_OP_ADD);
  const tn_id bias = add ? tni_match_other(add, p->scaled->pub.out[0]) : TN_NONE;
  if (bias == TN_NONE || g->values[bias]->pub.kind != TN_VALUE_CONST || !fits_columns(g, bias, sums, N, false))
    return true;
  p->bias = bias;
  p->last = add;
  return true;
}

tn_status tni_pass_integers(tni_graph *g, uint32_t *n, tn_error *err) {
  const uint32_t n_nodes = g->n_nodes;
  uint32_t fired = 0;
  for (uint32_t i = 0; i < n_nodes; i++) {
    tni_node *node = g->nodes[i];
    integer_product p;
    if (node->dead || !node->op || node->pub.op != TN_OP_MATMUL_INTEGER || !find_integer_product(g, node, &p)) continue;
    const tni_build_node b = {
        .domain = "tenon",
        .type = "MatMulIntegerToFloat",
        .version = 1,
        .in = {node->pub.in[0], node->pub.in[1], p.scale, tni_match_in(node, 2), tni_match_in(node, 3), p.bias},
        .n_in = 6};
    node->dead = p.cast->dead = p.scaled->dead = true;
    const tn_status st = tni_build_in_place(g, p.last, &b, err);
    if (st != TN_OK) return st;
    fired++;
  }
  return tni_build_done(g, fired, n, err);
}
