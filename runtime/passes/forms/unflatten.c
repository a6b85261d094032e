/* SPDX-License-Identifier: Apache-2.0
 *
 * unflatten:  Reshape([batch * heads, m, n] -> [batch, heads, m, n]) after a product of two such tensors, or after
 * element-wise operators and a Softmax after one  ->  the product and what follows on four axes, Reshape on operands.
 * After a Transpose of the last two axes of what was flattened  ->  the Transpose on four axes.
 *
 * Exporters of bmm and baddbmm (BLOOM, DETR, TrOCR, tf2onnx) flatten the heads for the product and unfold them for the
 * mask; attention is then no longer between one pair of products. torch.onnx.export(dynamo=True) transposes the keys of
 * scaled_dot_product_attention so, which hides heads that are repeated and the cache. Reshapes on the operands meet the
 * ones that flattened them and go away.
 *
 * Keeps: every bit. Operands without the flattened axis (scalars, [1, m, n], [m, n]) stay; what somebody else reads too
 * is not computed twice: it is reshaped where it is.
 */
#include <string.h>

#include "runtime/passes/build/build.h"
#include "runtime/passes/forms/forms.h"

enum { DEPTH = 8 };

typedef struct lift {
  tni_graph *g;
  tn_expr flat, lead[2]; /* batch * heads; batch, heads */
  tn_error *err;
} lift;

static bool is_elementwise(const tni_node *n) {
  return n->pub.op == TN_OP_ADD || n->pub.op == TN_OP_SUB || n->pub.op == TN_OP_MUL || n->pub.op == TN_OP_DIV;
}

static bool is_flat(const lift *l, tn_id v) {
  return tni_match_rank(l->g, v, 3) && l->g->values[v]->pub.dims[0] == l->flat;
}

/* It broadcasts against four axes as it does against three. */
static bool stays_flat(const lift *l, tn_id v) {
  const tni_value *x = tni_match_value(l->g, v);
  int64_t one;
  if (!x || x->pub.rank > 3) return false;
  return x->pub.rank < 3 || (tni_ex_is_const(l->g->exprs, x->pub.dims[0], &one) && one == 1);
}

static bool over_last_axis(const tni_node *n) {
  const int64_t axis = tni_attr_i(&n->pub, "axis", -1); /* older versions flatten to two axes: the last is then alone */
  return axis == -1 || axis == 2;
}

/* The node that makes v and may be made anew on four axes; NULL: v is reshaped. */
static const tni_node *through_value(const lift *l, tn_id v) {
  const tni_value *x = l->g->values[v];
  if (x->pub.producer >= l->g->n_nodes || tni_match_uses(l->g, v) != 1) return NULL;
  const tni_node *n = l->g->nodes[x->pub.producer];
  if (n->dead || !n->op || n->pub.out[0] != v) return NULL;
  if (n->pub.op == TN_OP_SOFTMAX) return over_last_axis(n) && is_flat(l, n->pub.in[0]) ? n : NULL;
  if (n->pub.op == TN_OP_MATMUL) return is_flat(l, n->pub.in[0]) && is_flat(l, n->pub.in[1]) ? n : NULL;
  if (!is_elementwise(n)) return NULL;
  for (uint32_t i = 0; i < 2; i++)
    if (!is_flat(l, n->pub.in[i]) && !stays_flat(l, n->pub.in[i])) return NULL;
  return n;
}

static bool reaches_product(const lift *l, tn_id v, int depth) {
  const tni_node *n = depth < DEPTH && is_flat(l, v) ? through_value(l, v) : NULL;
  if (!n || n->pub.op == TN_OP_MATMUL) return n != NULL;
  for (uint32_t i = 0; i < n->pub.n_in; i++)
    if (is_flat(l, n->pub.in[i]) && reaches_product(l, n->pub.in[i], depth + 1)) return true;
  return false;
}

/* v is a Transpose of the last two axes; its operand, which is flat. TN_NONE: it is not. */
static tn_id turned_back(const lift *l, tn_id v) {
  int64_t at[3];
  const tni_node *t = tni_match_node(l->g, v, TN_OP_TRANSPOSE);
  if (!t || !tni_match_perm(t, 3, at) || at[0] != 0 || at[1] != 2) return TN_NONE;
  return is_flat(l, t->pub.in[0]) ? t->pub.in[0] : TN_NONE;
}

/* What a Reshape made v of, where it has these dims already. */
static tn_id before_flattening(const tni_graph *g, tn_id v, const tn_expr *dims) {
  const tni_node *n = tni_match_node(g, v, TN_OP_RESHAPE);
  if (!n || !tni_match_rank(g, n->pub.in[0], 4)) return TN_NONE;
  return memcmp(g->values[n->pub.in[0]]->pub.dims, dims, 4 * sizeof *dims) == 0 ? n->pub.in[0] : TN_NONE;
}

static const int64_t turned_perm[] = {0, 1, 3, 2};

/* Reshape(v) with the flattened axis unfolded; of a transposed matrix the Transpose comes after. */
static tn_id lifted_reshape(const lift *l, tn_id v) {
  tni_graph *g = l->g;
  const tn_id inner = turned_back(l, v);
  const bool turned = inner != TN_NONE;
  if (turned) v = inner;
  const tni_value *x = g->values[v];
  const tn_expr dims[4] = {l->lead[0], l->lead[1], x->pub.dims[1], x->pub.dims[2]};
  const uint32_t dtype = x->pub.dtype;
  tn_id out = before_flattening(g, v, dims);
  if (out == TN_NONE) {
    tni_build_node b = {
        .type = "Reshape", .version = 21, .in = {v, tni_build_elems(g, dims, 4)}, .n_in = 2, .n_attr = 1};
    if (b.in[1] == TN_NONE) return TN_NONE;
    b.attr[0] = tni_raw_int("allowzero", 1);
    out = tni_build_op(g, &b, dtype, 4, dims, l->err);
  }
  if (out == TN_NONE || !turned) return out;
  const tn_expr back[4] = {dims[0], dims[1], dims[3], dims[2]};
  tni_build_node p = {.type = "Transpose", .version = 13, .in = {out}, .n_in = 1, .n_attr = 1};
  p.attr[0] = tni_raw_ints("perm", turned_perm, 4);
  return tni_build_op(g, &p, dtype, 4, back, l->err);
}

static tn_id lifted_value(const lift *l, tn_id v, int depth) {
  tni_graph *g = l->g;
  const tni_node *n = depth < DEPTH ? through_value(l, v) : NULL;
  if (!n) return lifted_reshape(l, v);
  const tni_value *x = g->values[v];
  const tn_expr dims[4] = {l->lead[0], l->lead[1], x->pub.dims[1], x->pub.dims[2]};
  const uint32_t dtype = x->pub.dtype;
  tni_build_node b = {
      .type = n->op->name, .version = n->pub.op == TN_OP_SOFTMAX ? 13 : n->op->since, .n_in = n->pub.n_in};
  for (uint32_t i = 0; i < b.n_in; i++) {
    const tn_id in = n->pub.in[i];
    b.in[i] = is_flat(l, in) ? lifted_value(l, in, depth + 1) : in;
    if (b.in[i] == TN_NONE) return TN_NONE;
  }
  if (n->pub.op == TN_OP_SOFTMAX) b.attr[b.n_attr++] = tni_raw_int("axis", -1);
  return tni_build_op(g, &b, dtype, 4, dims, l->err);
}

static bool find_lift(lift *l, const tni_node *n) {
  const tni_graph *g = l->g;
  const tn_id from = n->pub.in[0], to = n->pub.out[0];
  if (!tni_match_rank(g, from, 3) || !tni_match_rank(g, to, 4)) return false;
  const tn_expr *in = g->values[from]->pub.dims, *out = g->values[to]->pub.dims;
  l->flat = in[0];
  l->lead[0] = out[0];
  l->lead[1] = out[1];
  return in[1] == out[2] && in[2] == out[3] && tni_ex_mul(g->exprs, out[0], out[1]) == in[0] &&
         (reaches_product(l, from, 0) || tni_match_node(g, turned_back(l, from), TN_OP_RESHAPE));
}

tn_status tni_pass_unflatten(tni_graph *g, uint32_t *n, tn_error *err) {
  const uint32_t n_nodes = g->n_nodes;
  uint32_t fired = 0;
  for (uint32_t i = 0; i < n_nodes; i++) {
    tni_node *last = g->nodes[i];
    lift l = {.g = g, .err = err};
    if (last->dead || !last->op || last->pub.op != TN_OP_RESHAPE || !find_lift(&l, last)) continue;
    const tn_id v = lifted_value(&l, last->pub.in[0], 0);
    if (v == TN_NONE) return tni_fail_memory(err, "unflatten");
    const tni_node *turn = tni_match_node(g, v, TN_OP_TRANSPOSE);
    tni_build_node b = {.type = "Identity", .version = 16, .in = {v}, .n_in = 1};
    if (turn) /* at once what the pass `attention` looks for */
      b = (tni_build_node){.type = "Transpose", .version = 13, .in = {turn->pub.in[0]}, .n_in = 1, .n_attr = 1};
    if (turn) b.attr[0] = tni_raw_ints("perm", turned_perm, 4);
    tn_status st = tni_build_in_place(g, last, &b, err);
    if (st != TN_OK) return st;
    fired++;
  }
  return tni_build_done(g, fired, n, err);
}
