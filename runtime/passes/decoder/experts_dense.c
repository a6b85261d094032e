/* SPDX-License-Identifier: Apache-2.0
 *
 * Experts that are one product of three axes, part of the pass `experts`.
 *
 *   ReduceSum over experts (expert([E, T, H], x repeated for each of them) * scores [E, T, 1])
 *   ->  sum over e of expert_e(Where(scores_e != 0, x, 0)) * scores_e
 *
 * gpt-oss is exported so: every expert computes every token, and most of it is multiplied by 0. Each expert becomes
 * products of its own with its part of the constants (the same bytes), over rows that are zeros where nobody asks for
 * them; the host leaves those out. The expert is what works on the last axis alone: products with constants [E, K, N],
 * element-wise operators, Split and Slice. x comes from Tile or Expand, scores [T, E] through a Transpose.
 *
 * Keeps: every bit, but for experts that give inf or NaN where their score is 0.
 */
#include <string.h>

#include "runtime/passes/build/build.h"
#include "runtime/passes/decoder/experts.h"

enum { MAX_NODES = 32, MAX_VALUES = 64, MAX_EXPERTS = 512, MAX_OPERANDS = 8 };

typedef struct dense {
  tni_graph *g;
  tn_id x, scores; /* [T, H], [T, E] */
  tn_expr tokens;
  int64_t experts;
  const tni_node *node[MAX_NODES];        /* in topological order */
  tn_id from[MAX_VALUES], to[MAX_VALUES]; /* values of the expert and their copies */
  uint32_t n_nodes, n_values;
  tn_id source;     /* x repeated, [E, T, H] */
  tn_id goes, zero; /* of the expert that is written: bool [T, 1]; a constant */
  tn_error *err;
} dense;

static bool keeps_order(const tni_node *n) {
  return n->pub.op == TN_OP_RESHAPE || n->pub.op == TN_OP_SQUEEZE || n->pub.op == TN_OP_UNSQUEEZE;
}

static const tni_node *maker(const tni_graph *g, tn_id v) {
  const tni_value *x = tni_match_value(g, v);
  if (!x || x->pub.producer >= g->n_nodes) return NULL;
  const tni_node *n = g->nodes[x->pub.producer];
  return n->dead || !n->op || n->n_captures ? NULL : n;
}

/* v before Reshapes that leave its first axis, the experts, as it is. */
static tn_id unmoved(const dense *d, tn_id v) {
  for (int i = 0; i < 8; i++) {
    const tni_node *n = maker(d->g, v);
    const tni_value *x = n && keeps_order(n) ? tni_match_value(d->g, n->pub.in[0]) : NULL;
    if (!x || x->pub.rank < 2 || x->pub.rank > TN_MAX_RANK || x->pub.dims[0] != d->g->values[v]->pub.dims[0]) return v;
    v = n->pub.in[0];
  }
  return v;
}

static bool has_dims(const dense *d, tn_id v, tn_expr a, tn_expr b) {
  const tni_value *x = tni_match_value(d->g, v);
  return tni_match_rank(d->g, v, 2) && x->pub.dims[0] == a && x->pub.dims[1] == b;
}

/* weights [E, .., 1] are the transposed scores. */
static bool find_weights(dense *d, tn_id v) {
  int64_t perm[TN_MAX_RANK];
  const tni_value *x = tni_match_value(d->g, v);
  if (!x || x->pub.rank < 3 || !tni_match_rank(d->g, v, x->pub.rank) ||
      x->pub.dims[x->pub.rank - 1] != tni_ex_const(d->g->exprs, 1) ||
      !tni_ex_is_const(d->g->exprs, x->pub.dims[0], &d->experts) || d->experts < 2 || d->experts > MAX_EXPERTS)
    return false;
  const tn_id flat = unmoved(d, v);
  const tni_node *turn = tni_match_node(d->g, flat, TN_OP_TRANSPOSE);
  if (!turn || !tni_match_rank(d->g, flat, 2) || !tni_match_perm(turn, 2, perm) || perm[0] != 1) return false;
  d->scores = turn->pub.in[0];
  d->tokens = d->g->values[flat]->pub.dims[1];
  return has_dims(d, d->scores, d->tokens, d->g->values[flat]->pub.dims[0]);
}

/* --- the expert --- */

static const tni_tensor *held(const tni_graph *g, tn_id v) {
  const tni_value *x = tni_match_value(g, v);
  const bool there = x && x->pub.kind == TN_VALUE_CONST && x->tensor && x->tensor->data && !x->tensor->quantized;
  return there && tni_dtype_bits(x->tensor->dtype) % 8 == 0 ? x->tensor : NULL;
}

/* A constant that is the same for all tokens: [E or 1, 1, n], or of one axis at most. */
static bool is_shared(const dense *d, tn_id v) {
  const tni_tensor *t = held(d->g, v);
  if (!t) return false;
  return t->rank <= 1 || (t->rank == 3 && t->dims[1] == 1 && (t->dims[0] == 1 || t->dims[0] == d->experts));
}

static bool is_wide(const dense *d, tn_id v) {
  const tni_value *x = tni_match_value(d->g, v);
  int64_t e;
  return x && tni_match_rank(d->g, v, 3) && tni_ex_is_const(d->g->exprs, x->pub.dims[0], &e) && e == d->experts &&
         x->pub.dims[1] == d->tokens && x->pub.kind == TN_VALUE_ACT;
}

static bool consts_from(const tni_graph *g, const tni_node *n, uint32_t i) {
  for (; i < n->pub.n_in; i++)
    if (n->pub.in[i] != TN_NONE && !held(g, n->pub.in[i])) return false;
  return true;
}

static bool cuts_last(const tni_graph *g, const tni_node *n) {
  double axis;
  if (n->pub.op == TN_OP_SPLIT) {
    const int64_t a = tni_attr_i(&n->pub, "axis", 0);
    return (a == 2 || a == -1) && consts_from(g, n, 1);
  }
  return n->pub.op == TN_OP_SLICE && n->pub.n_in >= 4 && consts_from(g, n, 1) &&
         tni_match_scalar(g, n->pub.in[3], &axis) && (axis == 2 || axis == -1);
}

static bool works_by_rows(const dense *d, const tni_node *n) {
  const tni_tensor *w;
  if (n->pub.n_in > MAX_OPERANDS || n->pub.n_out > MAX_OPERANDS || n->n_raw > 16) return false;
  if (n->pub.op == TN_OP_MATMUL) return (w = held(d->g, n->pub.in[1])) && w->rank == 3 && w->dims[0] == d->experts;
  if (n->op->flags & TNI_OPF_ELEMENTWISE) return n->pub.n_out == 1;
  return cuts_last(d->g, n);
}

/* x [T, H] where v is Reshape(Tile(x, E times)), or x [1, T, H] where it is Expand of that; TN_NONE: it is neither. */
static tn_id repeated(const dense *d, tn_id v) {
  const tni_graph *g = d->g;
  const tn_expr width = tni_match_last_dim(g, v), all = tni_ex_mul(g->exprs, g->values[v]->pub.dims[0], d->tokens);
  const tni_node *n = maker(g, v), *tile;
  if (!n) return TN_NONE;
  if (n->pub.op == TN_OP_RESHAPE && (tile = tni_match_node(g, n->pub.in[0], TN_OP_TILE)))
    return has_dims(d, n->pub.in[0], all, width) && has_dims(d, tile->pub.in[0], d->tokens, width) ? tile->pub.in[0]
                                                                                                   : TN_NONE;
  const tni_value *one = n->pub.op == TN_OP_EXPAND ? tni_match_value(g, n->pub.in[0]) : NULL;
  const bool fits = one && tni_match_rank(g, n->pub.in[0], 3) && one->pub.dims[0] == tni_ex_const(g->exprs, 1) &&
                    one->pub.dims[1] == d->tokens && one->pub.dims[2] == width;
  return fits ? n->pub.in[0] : TN_NONE;
}

static int place_of(const dense *d, tn_id v) {
  for (uint32_t i = 0; i < d->n_values; i++)
    if (d->from[i] == v) return (int)i;
  return -1;
}

static bool put_value(dense *d, tn_id v) {
  if (d->n_values == MAX_VALUES) return false;
  d->from[d->n_values++] = v;
  return true;
}

static bool collect_dense(dense *d, tn_id v, int depth) {
  if (place_of(d, v) >= 0) return true;
  if (!is_wide(d, v) || depth > MAX_NODES) return false;
  const tn_id x = repeated(d, v);
  if (x != TN_NONE) {
    if (d->source != TN_NONE) return false;
    d->source = v;
    d->x = x;
    return put_value(d, v);
  }
  const tni_node *n = maker(d->g, v);
  if (!n || !works_by_rows(d, n)) return false;
  for (uint32_t i = 0; i < n->pub.n_in; i++) {
    const bool rows = i == 0 || (n->op->flags & TNI_OPF_ELEMENTWISE);
    if (n->pub.in[i] != TN_NONE && rows && !is_shared(d, n->pub.in[i]) && !collect_dense(d, n->pub.in[i], depth + 1))
      return false;
  }
  if (place_of(d, v) >= 0 || d->n_nodes == MAX_NODES) return place_of(d, v) >= 0;
  d->node[d->n_nodes++] = n;
  for (uint32_t o = 0; o < n->pub.n_out; o++)
    if (n->pub.out[o] != TN_NONE && (!is_wide(d, n->pub.out[o]) || !put_value(d, n->pub.out[o]))) return false;
  return true;
}

/* --- writing --- */

static tn_id add_dense(dense *d, const char *type, int64_t version, tn_id a, tn_id b, tn_id c, uint32_t dtype,
                       tn_expr width) {
  const tn_expr dims[2] = {d->tokens, width};
  tni_build_node n = {.type = type,
                      .version = version,
                      .in = {a, b, c},
                      .n_in = c != TN_NONE   ? 3
                              : b != TN_NONE ? 2
                                             : 1};
  if (strcmp(type, "Cast") == 0) n.attr[n.n_attr++] = tni_raw_int("to", dtype);
  return a == TN_NONE ? TN_NONE : tni_build_op(d->g, &n, dtype, 2, dims, d->err);
}

/* Part e of constant v: [K, N] of a matrix, a vector of what is added. */
static tn_id part_of(dense *d, tn_id v, int64_t e) {
  const tni_tensor *t = d->g->values[v]->tensor;
  const int64_t each = t->rank == 3 ? t->dims[1] * t->dims[2] : 0;
  if (t->rank < 3) return v;
  const tn_id part = tni_build_slice(d->g, v, t->dims[0] == 1 ? 0 : e * each, each);
  return part == TN_NONE || t->dims[1] == 1 ? part : tni_build_view(d->g, part, 2, t->dims + 1);
}

static tn_id last_axis(dense *d) {
  static const int64_t one = 1, last = -1;
  return tni_build_const(d->g, TN_DT_I64, 1, &one, &last);
}

/* Rows of a later product that nobody asks for are zeros again, whatever biases made of them. */
static tn_id zeroed_again(dense *d, tn_id v) {
  return add_dense(d, "Where", 16, d->goes, v, d->zero, d->g->values[v]->pub.dtype, tni_match_last_dim(d->g, v));
}

static tn_status copy_dense(dense *d, const tni_node *n, int64_t e) {
  tni_graph *g = d->g;
  tn_id in[MAX_OPERANDS], out[MAX_OPERANDS];
  tni_raw_attr attr[17];
  uint32_t n_attr = 0;
  bool ok = true;
  for (uint32_t i = 0; i < n->pub.n_in; i++) {
    const int at = n->pub.in[i] == TN_NONE ? -1 : place_of(d, n->pub.in[i]);
    in[i] = at >= 0 ? d->to[at] : n->pub.in[i];
    if (at >= 0 && n->pub.op == TN_OP_MATMUL && n->pub.in[i] != d->source) in[i] = zeroed_again(d, in[i]);
    ok = ok && (at < 0 || in[i] != TN_NONE);
    if (at >= 0 || in[i] == TN_NONE) continue;
    if (n->pub.op == TN_OP_SLICE || n->pub.op == TN_OP_SPLIT)
      in[i] = n->pub.op == TN_OP_SLICE && i == 3 ? last_axis(d) : in[i];
    else
      in[i] = part_of(d, in[i], e);
    ok = ok && in[i] != TN_NONE;
  }
  for (uint32_t i = 0; i < n->n_raw; i++)
    attr[n_attr++] = strcmp(n->raw[i].name, "axis") == 0 ? tni_raw_int("axis", -1) : n->raw[i];
  for (uint32_t o = 0; ok && o < n->pub.n_out; o++) {
    out[o] = TN_NONE;
    if (n->pub.out[o] == TN_NONE) continue;
    const tn_expr dims[2] = {d->tokens, tni_match_last_dim(g, n->pub.out[o])};
    out[o] = tni_graph_add_value(g, "", TN_VALUE_ACT, g->values[n->pub.out[o]]->pub.dtype);
    ok = out[o] != TN_NONE && tni_value_set_dims(g, out[o], 2, dims) == TN_OK;
    d->to[place_of(d, n->pub.out[o])] = out[o];
  }
  if (!ok) return tni_fail_memory(d->err, n->pub.name);
  return tni_graph_add_node(g, "", n->pub.domain, n->type, n->version, in, n->pub.n_in, out, n->pub.n_out, attr, n_attr,
                            NULL, d->err);
}

static tn_status columns_of(dense *d, tn_id v, tn_id *out) {
  const tni_raw_attr attr[2] = {tni_raw_int("axis", 1), tni_raw_int("num_outputs", d->experts)};
  const tn_expr dims[2] = {d->tokens, tni_ex_const(d->g->exprs, 1)};
  if (v == TN_NONE) return tni_fail_memory(d->err, d->g->name);
  for (int64_t e = 0; e < d->experts; e++) {
    out[e] = tni_graph_add_value(d->g, "", TN_VALUE_ACT, d->g->values[v]->pub.dtype);
    if (out[e] == TN_NONE || tni_value_set_dims(d->g, out[e], 2, dims) != TN_OK)
      return tni_fail_memory(d->err, d->g->name);
  }
  return tni_graph_add_node(d->g, "", NULL, "Split", 18, &v, 1, out, (uint32_t)d->experts, attr, 2, NULL, d->err);
}

/* expert_e(Where(goes, x, 0)) * weight */
static tn_status write_expert(dense *d, int64_t e, tn_id y, tn_id weight, tn_id *out) {
  static const uint64_t zero = 0;
  const uint32_t dtype = d->g->values[d->x]->pub.dtype;
  tn_status st = TN_OK;
  if ((d->zero = tni_build_const(d->g, dtype, 0, NULL, &zero)) == TN_NONE) return tni_fail_memory(d->err, d->g->name);
  const tn_id rows = zeroed_again(d, d->x);
  d->to[place_of(d, d->source)] = rows;
  if (rows == TN_NONE) return tni_fail_memory(d->err, d->g->name);
  for (uint32_t i = 0; st == TN_OK && i < d->n_nodes; i++) st = copy_dense(d, d->node[i], e);
  if (st != TN_OK) return st;
  *out = add_dense(d, "Mul", 14, d->to[place_of(d, y)], weight, TN_NONE, dtype, tni_match_last_dim(d->g, y));
  return *out == TN_NONE ? tni_fail_memory(d->err, d->g->name) : TN_OK;
}

/* x without an axis in front. */
static tn_status drop_first(dense *d) {
  const int64_t one = 1, axis = 0;
  if (d->g->values[d->x]->pub.rank == 2) return TN_OK;
  const tn_id axes = tni_build_const(d->g, TN_DT_I64, 1, &one, &axis);
  d->x = axes == TN_NONE ? TN_NONE
                         : add_dense(d, "Squeeze", 13, d->x, axes, TN_NONE, d->g->values[d->x]->pub.dtype,
                                     tni_match_last_dim(d->g, d->x));
  return d->x == TN_NONE ? tni_fail_memory(d->err, d->g->name) : TN_OK;
}

static tn_status write_dense(dense *d, tni_node *sum, tn_id y) {
  tni_graph *g = d->g;
  tn_id weight[MAX_EXPERTS], goes[MAX_EXPERTS], all = TN_NONE, one = TN_NONE;
  const tni_value *out = g->values[sum->pub.out[0]];
  const uint32_t dtype = out->pub.dtype;
  const tn_expr width = tni_match_last_dim(g, y);
  tn_status st = columns_of(d, d->scores, weight);
  if (st == TN_OK) st = drop_first(d);
  if (st == TN_OK)
    st = columns_of(
        d, add_dense(d, "Cast", 19, d->scores, TN_NONE, TN_NONE, TN_DT_BOOL, tni_ex_const(g->exprs, d->experts)), goes);
  for (int64_t e = 0; st == TN_OK && e < d->experts; e++) {
    d->goes = goes[e];
    st = write_expert(d, e, y, weight[e], &one);
    all = st != TN_OK ? TN_NONE : e == 0 ? one : add_dense(d, "Add", 14, all, one, TN_NONE, dtype, width);
    if (st == TN_OK && all == TN_NONE) st = tni_fail_memory(d->err, g->name);
  }
  if (st != TN_OK) return st;
  tni_build_node b = {.type = "Reshape",
                      .version = 14,
                      .in = {all, tni_build_elems(g, out->pub.dims, out->pub.rank)},
                      .n_in = 2,
                      .n_attr = 1};
  b.attr[0] = tni_raw_int("allowzero", 1);
  return b.in[1] == TN_NONE ? tni_fail_memory(d->err, g->name) : tni_build_in_place(g, sum, &b, d->err);
}

/* --- the match --- */

/* n sums over its first axis alone, which goes. */
static bool sums_first(const tni_graph *g, const tni_node *n) {
  double axis;
  return n->pub.op == TN_OP_REDUCE_SUM && !tni_attr_i(&n->pub, "keepdims", 1) && tni_match_in(n, 1) != TN_NONE &&
         tni_match_scalar(g, n->pub.in[1], &axis) && axis == 0;
}

static bool find_dense(dense *d, const tni_node *sum, tn_id *y) {
  const tni_graph *g = d->g;
  const tni_node *mul = sums_first(g, sum) ? tni_match_node(g, sum->pub.in[0], TN_OP_MUL) : NULL;
  const tni_value *out = tni_match_value(g, sum->pub.out[0]);
  for (uint32_t i = 0; mul && i < 2; i++) {
    d->n_nodes = d->n_values = 0;
    d->source = TN_NONE;
    if (!find_weights(d, mul->pub.in[!i])) continue;
    const tni_value *a = tni_match_value(g, mul->pub.in[i]), *w = tni_match_value(g, mul->pub.in[!i]);
    if (a->pub.rank != w->pub.rank || !tni_match_rank(g, mul->pub.in[i], a->pub.rank) ||
        memcmp(a->pub.dims, w->pub.dims, (a->pub.rank - 1) * sizeof *a->pub.dims) != 0)
      continue;
    *y = unmoved(d, mul->pub.in[i]);
    const tn_expr rank_dims = tni_match_last_dim(g, *y);
    if (!is_wide(d, *y) || rank_dims != tni_match_last_dim(g, mul->pub.in[i]) || !collect_dense(d, *y, 0)) continue;
    return d->source != TN_NONE && *y != d->source && out->pub.rank == a->pub.rank - 1 &&
           tni_symbols_given(g, tni_given_symbols(g), out->pub.dims, out->pub.rank);
  }
  return false;
}

tn_status tni_experts_dense(tni_graph *g, tni_node *n, uint32_t *fired, tn_error *err) {
  dense d = {.g = g, .err = err};
  tn_id y;
  if (!find_dense(&d, n, &y)) return TN_OK;
  ++*fired;
  return write_dense(&d, n, y);
}
