/* SPDX-License-Identifier: Apache-2.0
 *
 * last_rows: logits for the last rows only, where a session asks for no more.
 *
 *   logits [batch, length, n] = row-wise(MatMul(row-wise(norm(h)), w))
 *   ->  the same of Slice(h, starts = end - rows, ends = end, axis 1)
 *
 * rows and end are new symbols (tni_graph.rows_symbol, rows_end), rows <= end <= length (rows_limit), which the session
 * sets: both are the length in plain runs, and end is less where the last rows are padding. Only in graphs with caches,
 * whose new length `length` is: elsewhere nobody sets them.
 *
 * Matches the one output of three axes that is such a product with a matrix; none where there are several, because rows
 * of one kind are counted. Row-wise are element-wise operators whose other operands are constants with nothing but a
 * last axis; a norm is RMSNormalization or LayerNormalization over the last axis. The product may be one of bytes,
 * tenon.MatMulIntegerToFloat: then its bytes are cut, because the range that they were rounded in is that of all rows.
 * What lies between the Slice and the output has no other readers, and the output is read by nobody.
 *
 * Keeps: every bit of the rows that are left.
 */
#include <stdio.h>

#include "runtime/passes/build/build.h"
#include "runtime/passes/decoder/decoder.h"

static tni_node *last_rows_maker(const tni_graph *g, tn_id v) {
  const tni_value *x = tni_match_value(g, v);
  if (!x || x->pub.producer >= g->n_nodes || x->out_index) return NULL;
  tni_node *n = g->nodes[x->pub.producer];
  return n->dead || !n->op ? NULL : n;
}

/* The same for every row: a constant without axes but the last. */
static bool is_row_constant(const tni_graph *g, tn_id v) {
  const tni_value *x = tni_match_value(g, v);
  int64_t n;
  if (!x || x->pub.kind != TN_VALUE_CONST) return false;
  for (uint32_t d = 0; d + 1 < x->pub.rank; d++)
    if (!tni_ex_is_const(g->exprs, x->pub.dims[d], &n) || n != 1) return false;
  return true;
}

/* v is row-wise of its node's only operand that is no constant, of the same rows. */
static bool is_row_wise(const tni_graph *g, const tni_node *n, uint32_t *at) {
  uint32_t found = 0;
  if (!(n->op->flags & TNI_OPF_ELEMENTWISE) || n->pub.n_out != 1) return false;
  for (uint32_t i = 0; i < n->pub.n_in; i++) {
    if (n->pub.in[i] == TN_NONE || is_row_constant(g, n->pub.in[i])) continue;
    *at = i;
    found++;
  }
  return found == 1 && tni_match_rank(g, n->pub.in[*at], 3) &&
         g->values[n->pub.in[*at]]->pub.dims[1] == g->values[n->pub.out[0]]->pub.dims[1];
}

static bool is_norm(const tni_graph *g, const tni_node *n) {
  const int64_t axis = tni_attr_i(&n->pub, "axis", -1);
  if (n->pub.op != TN_OP_RMS_NORMALIZATION && n->pub.op != TN_OP_LAYER_NORMALIZATION) return false;
  for (uint32_t i = 1; i < n->pub.n_out; i++)
    if (n->pub.out[i] != TN_NONE && tni_match_uses(g, n->pub.out[i])) return false;
  for (uint32_t i = 1; i < n->pub.n_in; i++)
    if (n->pub.in[i] != TN_NONE && !is_row_constant(g, n->pub.in[i])) return false;
  return (axis == -1 || axis == 2) && tni_match_rank(g, n->pub.in[0], 3);
}

/* Down from the output to its product; NULL: it has none. */
static tni_node *find_product(const tni_graph *g, tn_id v) {
  for (;;) {
    tni_node *n = tni_match_rank(g, v, 3) && tni_match_uses(g, v) == 1 ? last_rows_maker(g, v) : NULL;
    uint32_t at = 0;
    if (!n) return NULL;
    if (n->pub.op == TN_OP_MATMUL || n->pub.op == TN_OP_MATMUL_INTEGER_TO_FLOAT)
      return tni_match_rank(g, n->pub.in[0], 3) && tni_match_rank(g, n->pub.in[1], 2) ? n : NULL;
    if (!is_row_wise(g, n, &at)) return NULL;
    v = n->pub.in[at];
  }
}

/* The highest node on the way to the product whose input can be cut, and which one. */
static tni_node *highest_run(const tni_graph *g, tni_node *product, uint32_t *at) {
  tni_node *n = product;
  *at = 0;
  for (;;) {
    const tn_id v = n->pub.in[*at];
    tni_node *above = tni_match_uses(g, v) == 1 ? last_rows_maker(g, v) : NULL;
    uint32_t k = 0;
    if (!above || (!is_row_wise(g, above, &k) && !is_norm(g, above))) return n;
    n = above;
    *at = k;
  }
}

/* Batch and length of this run's rows, as the caches have them. */
static bool is_run(const tni_graph *g, tn_id v, tn_expr *length) {
  const tni_gstate *s = &g->states[0];
  const tn_expr *past = g->values[s->past]->pub.dims, *present = g->values[s->present]->pub.dims;
  *length = tni_ex_sub(g->exprs, present[s->axis], past[s->axis]);
  return tni_match_rank(g, v, 3) && g->values[v]->pub.dims[0] == past[s->perm[0]] &&
         g->values[v]->pub.dims[1] == *length;
}

/* A symbol that the model does not have. */
static tn_expr fresh_symbol(tni_exprs *x, const char *base, tn_id *id) {
  char name[32];
  snprintf(name, sizeof name, "%s", base);
  const uint32_t n = tni_ex_n_symbols(x);
  for (uint32_t k = 0;; k++) {
    const tn_expr e = tni_ex_sym(x, name);
    if (e == TNI_EXPR_NONE || (tni_ex_n_symbols(x) > n && tni_ex_is_sym(x, e, id))) return e;
    snprintf(name, sizeof name, "%s_%u", base, k);
  }
}

static tn_status rewrite_last_rows(tni_graph *g, tni_node *n, uint32_t at, tn_expr length, tn_error *err) {
  const tni_value *h = g->values[n->pub.in[at]];
  const int64_t one = 1, axis = 1;
  tn_id symbol = TN_NONE, last = TN_NONE;
  const tn_expr rows = fresh_symbol(g->exprs, "rows", &symbol), end = fresh_symbol(g->exprs, "end", &last);
  if (rows == TNI_EXPR_NONE || end == TNI_EXPR_NONE) return tni_fail_memory(err, n->pub.name);
  tn_status st = tni_ex_assume_le(g->exprs, rows, end);
  if (st == TN_OK) st = tni_ex_assume_le(g->exprs, end, length);
  if (st != TN_OK) return tni_fail(err, st, n->pub.name, "rows of logits contradict the model's lengths");
  const tn_expr first = tni_ex_sub(g->exprs, end, rows), dims[3] = {h->pub.dims[0], rows, h->pub.dims[2]};
  tni_build_node b = {.type = "Slice", .version = 13, .in = {n->pub.in[at]}, .n_in = 4};
  b.in[1] = tni_build_elems(g, &first, 1);
  b.in[2] = tni_build_elems(g, &end, 1);
  b.in[3] = tni_build_const(g, TN_DT_I64, 1, &one, &axis);
  if (b.in[1] == TN_NONE || b.in[2] == TN_NONE || b.in[3] == TN_NONE) return tni_fail_memory(err, n->pub.name);
  const tn_id cut = tni_build_op(g, &b, h->pub.dtype, 3, dims, err);
  if (cut == TN_NONE) return tni_fail_memory(err, n->pub.name);
  g->rows_symbol = symbol;
  g->rows_end = last;
  g->rows_limit = length;
  return tni_build_swap_input(g, n, at, cut, err);
}

tn_status tni_pass_last_rows(tni_graph *g, uint32_t *n, tn_error *err) {
  tni_node *product = NULL;
  tn_expr length = TNI_EXPR_NONE;
  uint32_t found = 0, at;
  *n = 0;
  if (g->outer || g->n_states == 0 || g->rows_symbol != TN_NONE) return TN_OK;
  for (uint32_t i = 0; i < g->n_outputs; i++) {
    tni_node *p = is_run(g, g->outputs[i], &length) ? find_product(g, g->outputs[i]) : NULL;
    found += p != NULL;
    if (p) product = p;
  }
  if (found != 1) return TN_OK;
  tni_node *top = highest_run(g, product, &at);
  const tn_status st = rewrite_last_rows(g, top, at, length, err);
  return st == TN_OK ? tni_build_done(g, 1, n, err) : st;
}
