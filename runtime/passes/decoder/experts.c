/* SPDX-License-Identifier: Apache-2.0
 *
 * experts: a mixture of experts whose tokens are picked by NonZero gets dims that are known before the step.
 *
 *   ScatterElements(0, tokens of expert e, expert(rows at these tokens) * weight)
 *   ->  expert(Where(goes_e, x, 0)) * weight_e     [T, H], of all tokens
 *   all [T, E] = ScatterElements(0, picked, weights);  weight_e [T, 1] = Split(all)[e];  goes = Split(all != 0)
 *
 * The expert is row-wise: products with constants, element-wise operators, Split and Slice of the last axis. It is
 * copied, over rows of all tokens instead of those that go there. Experts that are one product of three axes:
 * experts_dense.c. The host leaves out rows that are zeros (runtime/host/lower.c), other devices compute them.
 *
 * Keeps: every bit, but for experts that hold inf or NaN where nobody goes.
 */
#include <string.h>

#include "runtime/passes/decoder/decoder.h"
#include "runtime/passes/decoder/experts.h"

enum { MAX_NODES = 48, MAX_PARTS = 8 };

/* The router's weights by expert. */
typedef struct router {
  tn_id picked, weights;
  tn_id *weight, *goes; /* [experts] */
  struct router *next;
} router;

typedef struct experts_pass {
  tni_graph *g;
  router *routers;
  tn_error *err;
} experts_pass;

typedef struct expert {
  tni_picked p;
  tn_id x, rows;                    /* of all tokens; [n, K] of those that go there */
  const tni_node *nodes[MAX_NODES]; /* in topological order */
  uint32_t n_nodes;
  tn_id from[MAX_NODES * 2], to[MAX_NODES * 2]; /* values and their copies */
  uint32_t n_values;
} expert;

static tn_expr dim_of_expert(const tni_graph *g, tn_id v, uint32_t d) { return g->values[v]->pub.dims[d]; }

/* --- the expert --- */

static bool same_for_rows(const tni_graph *g, tn_id v) {
  const tni_value *x = tni_match_value(g, v);
  int64_t one;
  if (!x || x->pub.kind != TN_VALUE_CONST || x->pub.rank > 2) return false;
  return x->pub.rank < 2 || (tni_ex_is_const(g->exprs, x->pub.dims[0], &one) && one == 1);
}

static bool is_const(const tni_graph *g, tn_id v) {
  const tni_value *x = tni_match_value(g, v);
  return x && x->pub.kind == TN_VALUE_CONST;
}

/* Split or Slice of the last of two axes. */
static bool cuts_last(const tni_graph *g, const tni_node *n) {
  double axis;
  if (n->pub.op == TN_OP_SPLIT) {
    const int64_t a = tni_attr_i(&n->pub, "axis", 0);
    return n->pub.n_out <= MAX_PARTS && (a == 1 || a == -1) &&
           (n->pub.n_in < 2 || n->pub.in[1] == TN_NONE || is_const(g, n->pub.in[1]));
  }
  if (n->pub.op != TN_OP_SLICE || n->pub.n_in < 4 || n->pub.in[3] == TN_NONE) return false;
  for (uint32_t i = 1; i < n->pub.n_in; i++)
    if (n->pub.in[i] != TN_NONE && !is_const(g, n->pub.in[i])) return false;
  return tni_match_scalar(g, n->pub.in[3], &axis) && (axis == 1 || axis == -1);
}

static bool reads_rows(const tni_node *n, uint32_t i) {
  const uint32_t op = n->pub.op;
  return i == 0 || (op != TN_OP_MATMUL && op != TN_OP_GEMM && op != TN_OP_SPLIT && op != TN_OP_SLICE);
}

/* Each row of its results comes from that row of its operands. */
static bool is_row_wise(const tni_graph *g, const tni_node *n) {
  if (n->n_captures || n->pub.n_out > MAX_PARTS || n->pub.n_in > MAX_PARTS) return false;
  if (n->pub.op == TN_OP_MATMUL) return is_const(g, n->pub.in[1]) && g->values[n->pub.in[1]]->pub.rank == 2;
  if (n->pub.op == TN_OP_GEMM)
    return !tni_attr_i(&n->pub, "transA", 0) && is_const(g, n->pub.in[1]) &&
           (tni_match_in(n, 2) == TN_NONE || same_for_rows(g, n->pub.in[2]));
  if (n->op->flags & TNI_OPF_ELEMENTWISE) return n->pub.n_out == 1;
  return cuts_last(g, n);
}

static bool known_copy(const expert *e, tn_id v, tn_id *copy) {
  for (uint32_t i = 0; i < e->n_values; i++)
    if (e->from[i] == v) {
      *copy = e->to[i];
      return true;
    }
  return false;
}

static bool put_copy(expert *e, tn_id v, tn_id copy) {
  if (e->n_values == MAX_NODES * 2) return false;
  e->from[e->n_values] = v;
  e->to[e->n_values++] = copy;
  return true;
}

/* Collects what makes v [n, ..] of the rows. */
static bool collect_expert(const tni_graph *g, expert *e, tn_id v, int depth) {
  tn_id x;
  if (v == TN_NONE || depth > MAX_NODES) return false;
  if (known_copy(e, v, &x)) return true;
  if (tni_experts_rows(g, &e->p, v, &x)) {
    if (e->rows != TN_NONE && e->x != x) return false;
    e->rows = v;
    e->x = x;
    return put_copy(e, v, TN_NONE);
  }
  const tni_value *val = g->values[v];
  const tni_node *n = val->pub.producer < g->n_nodes ? g->nodes[val->pub.producer] : NULL;
  if (!n || n->dead || !n->op || val->pub.rank != 2 || !is_row_wise(g, n) || e->n_nodes == MAX_NODES) return false;
  for (uint32_t i = 0; i < n->pub.n_in; i++)
    if (n->pub.in[i] != TN_NONE && reads_rows(n, i) && !same_for_rows(g, n->pub.in[i]) &&
        !collect_expert(g, e, n->pub.in[i], depth + 1))
      return false;
  if (e->n_nodes == MAX_NODES) return false;
  e->nodes[e->n_nodes++] = n;
  for (uint32_t o = 0; o < n->pub.n_out; o++)
    if (n->pub.out[o] != TN_NONE && (g->values[n->pub.out[o]]->pub.rank != 2 || !put_copy(e, n->pub.out[o], TN_NONE)))
      return false;
  return true;
}

/* --- writing --- */

static tn_id no_memory(experts_pass *p) {
  if (!p->err || p->err->code == TN_OK) (void)!tni_fail_memory(p->err, p->g->name);
  return TN_NONE;
}

static tn_id add_expert_op(experts_pass *p, const char *type, int64_t version, const tn_id *in, uint32_t n_in,
                           const tni_raw_attr *a, uint32_t dtype, tn_expr rows, tn_expr columns) {
  tni_build_node b = {.type = type, .version = version, .n_in = n_in, .n_attr = a ? 1 : 0};
  const tn_expr dims[2] = {rows, columns};
  for (uint32_t i = 0; i < n_in; i++)
    if (in[i] == TN_NONE) return TN_NONE;
  memcpy(b.in, in, n_in * sizeof *in);
  if (a) b.attr[0] = *a;
  const tn_id v = tni_build_op(p->g, &b, dtype, 2, dims, p->err);
  return v == TN_NONE ? no_memory(p) : v;
}

/* v as [rows, columns]. */
static tn_id reshaped_expert(experts_pass *p, tn_id v, tn_expr rows, tn_expr columns) {
  const tn_expr dims[2] = {rows, columns};
  const tn_id in[2] = {v, tni_build_elems(p->g, dims, 2)};
  return add_expert_op(p, "Reshape", 14, in, 2, NULL, p->g->values[v]->pub.dtype, rows, columns);
}

static tn_status expert_columns(experts_pass *p, tn_id v, int64_t n, tn_expr rows, tn_id *out) {
  const tni_raw_attr attr[2] = {tni_raw_int("axis", 1), tni_raw_int("num_outputs", n)};
  const tn_expr dims[2] = {rows, tni_ex_const(p->g->exprs, 1)};
  for (int64_t i = 0; i < n; i++) {
    out[i] = tni_graph_add_value(p->g, "", TN_VALUE_ACT, p->g->values[v]->pub.dtype);
    if (out[i] == TN_NONE || tni_value_set_dims(p->g, out[i], 2, dims) != TN_OK)
      return tni_fail_memory(p->err, p->g->name);
  }
  return tni_graph_add_node(p->g, "", NULL, "Split", 18, &v, 1, out, (uint32_t)n, attr, 2, NULL, p->err);
}

static tn_status make_router(experts_pass *p, const tni_picked *k, tn_id weights, router *r) {
  tni_graph *g = p->g;
  const uint32_t dtype = g->values[weights]->pub.dtype;
  const tn_expr all = tni_ex_const(g->exprs, k->experts), dims[2] = {k->tokens, all};
  const tni_raw_attr axis = tni_raw_int("axis", 1), f = tni_raw_int("to", dtype), b = tni_raw_int("to", TN_DT_BOOL);
  const tn_id shape = tni_build_elems(g, dims, 2);
  tn_id zero = add_expert_op(p, "ConstantOfShape", 9, &shape, 1, NULL, TN_DT_F32, k->tokens, all);
  if (dtype != TN_DT_F32) zero = add_expert_op(p, "Cast", 19, &zero, 1, &f, dtype, k->tokens, all);
  const tn_id in[3] = {zero, k->picked, reshaped_expert(p, weights, k->tokens, tni_ex_const(g->exprs, k->k))};
  const tn_id matrix = add_expert_op(p, "ScatterElements", 18, in, 3, &axis, dtype, k->tokens, all);
  const tn_id goes = add_expert_op(p, "Cast", 19, &matrix, 1, &b, TN_DT_BOOL, k->tokens, all);
  r->weight = TNI_NEW_ARRAY(g->arena, tn_id, (size_t)k->experts);
  r->goes = TNI_NEW_ARRAY(g->arena, tn_id, (size_t)k->experts);
  if (goes == TN_NONE || !r->weight || !r->goes) return tni_fail_memory(p->err, g->name);
  tn_status st = expert_columns(p, matrix, k->experts, k->tokens, r->weight);
  return st == TN_OK ? expert_columns(p, goes, k->experts, k->tokens, r->goes) : st;
}

static tn_status router_of(experts_pass *p, const tni_picked *k, tn_id weights, const router **out) {
  for (*out = p->routers; *out; *out = (*out)->next)
    if ((*out)->picked == k->picked && (*out)->weights == weights) return TN_OK;
  router *r = TNI_NEW(p->g->arena, router);
  if (!r) return tni_fail_memory(p->err, p->g->name);
  *r = (router){.picked = k->picked, .weights = weights, .next = p->routers};
  *out = p->routers = r;
  return make_router(p, k, weights, r);
}

static tn_status copy_node(experts_pass *p, expert *e, const tni_node *n) {
  tni_graph *g = p->g;
  tn_id in[MAX_PARTS], out[MAX_PARTS];
  for (uint32_t i = 0; i < n->pub.n_in; i++)
    if (!known_copy(e, n->pub.in[i], &in[i])) in[i] = n->pub.in[i];
  for (uint32_t o = 0; o < n->pub.n_out; o++) {
    const tn_id old = n->pub.out[o];
    out[o] = TN_NONE;
    if (old == TN_NONE) continue;
    const tn_expr dims[2] = {e->p.tokens, dim_of_expert(g, old, 1)};
    out[o] = tni_graph_add_value(g, "", TN_VALUE_ACT, g->values[old]->pub.dtype);
    if (out[o] == TN_NONE || tni_value_set_dims(g, out[o], 2, dims) != TN_OK) return tni_fail_memory(p->err, g->name);
    for (uint32_t i = 0; i < e->n_values; i++)
      if (e->from[i] == old) e->to[i] = out[o];
  }
  return tni_graph_add_node(g, n->pub.name, n->pub.domain, n->type, n->version, in, n->pub.n_in, out, n->pub.n_out,
                            n->raw, n->n_raw, NULL, p->err);
}

/* The expert over all tokens. */
static tn_status copy_expert(experts_pass *p, expert *e, tn_id goes) {
  tni_graph *g = p->g;
  static const uint64_t zero = 0;
  const uint32_t dtype = g->values[e->rows]->pub.dtype;
  const tn_id x = reshaped_expert(p, e->x, e->p.tokens, dim_of_expert(g, e->rows, 1));
  const tn_id in[3] = {goes, x, tni_build_const(g, dtype, 0, NULL, &zero)};
  const tn_id rows = add_expert_op(p, "Where", 16, in, 3, NULL, dtype, e->p.tokens, dim_of_expert(g, e->rows, 1));
  tn_status st = rows == TN_NONE ? p->err ? p->err->code : TN_E_NO_MEMORY : TN_OK;
  for (uint32_t i = 0; i < e->n_values; i++)
    if (tni_match_node(g, tni_experts_unmoved(g, e->from[i]), TN_OP_GATHER)) e->to[i] = rows;
  for (uint32_t i = 0; st == TN_OK && i < e->n_nodes; i++) st = copy_node(p, e, e->nodes[i]);
  return st;
}

/* --- the pass --- */

/* ConstantOfShape of zeros, or such a constant. */
static bool is_zeros(const tni_graph *g, tn_id v) {
  const tni_node *n = tni_match_node(g, v, TN_OP_CONSTANT_OF_SHAPE);
  const tni_tensor *t = n ? tni_attr_tensor(&n->pub, "value") : NULL;
  float f = 0;
  if (n && t && t->data) tni_tensor_to_f32(t, 0, 1, &f);
  return n && f == 0;
}

/* Indices [n, H] whose rows hold one number each: an Expand of [n, 1]. */
static const tni_node *scattered_to(const tni_graph *g, tn_id v, uint32_t *row) {
  const tni_node *n = tni_match_node(g, v, TN_OP_EXPAND);
  int64_t one;
  if (!n || !tni_match_rank(g, n->pub.in[0], 2) || !tni_match_rank(g, v, 2)) return NULL;
  if (!tni_ex_is_const(g->exprs, dim_of_expert(g, n->pub.in[0], 1), &one) || one != 1) return NULL;
  return tni_experts_row(g, n->pub.in[0], row);
}

/* What is scattered: y * weight; an Expand in front may only repeat its dims. */
static bool read_sum(const tni_graph *g, const tni_node *s, expert *e, tn_id *y, tn_id *weights) {
  tn_id v = s->pub.in[2];
  const tni_node *n = tni_match_node(g, v, TN_OP_EXPAND);
  if (n && tni_match_rank(g, n->pub.in[0], 2) &&
      dim_of_expert(g, n->pub.in[0], 1) == dim_of_expert(g, s->pub.out[0], 1))
    v = n->pub.in[0];
  n = tni_match_node(g, v, TN_OP_MUL);
  for (uint32_t i = 0; n && i < 2; i++) {
    if (!tni_experts_weight(g, &e->p, n->pub.in[i], weights)) continue;
    *y = n->pub.in[!i];
    return tni_match_rank(g, *y, 2) && dim_of_expert(g, *y, 1) == dim_of_expert(g, s->pub.out[0], 1) &&
           collect_expert(g, e, *y, 0) && e->rows != TN_NONE;
  }
  return false;
}

static bool find_expert(const tni_graph *g, const tni_node *s, expert *e, tn_id *y, tn_id *weights) {
  uint32_t row;
  memset(e, 0, sizeof *e);
  e->rows = e->x = TN_NONE;
  if (s->pub.op != TN_OP_SCATTER_ELEMENTS || tni_attr_i(&s->pub, "axis", 0) != 0 ||
      !tni_match_rank(g, s->pub.out[0], 2))
    return false;
  const tni_node *z = scattered_to(g, s->pub.in[1], &row);
  if (!z || !tni_experts_picked(g, z, &e->p) || row != e->p.token_row) return false;
  return is_zeros(g, s->pub.in[0]) && strcmp(tni_attr_s(&s->pub, "reduction", "none"), "none") == 0 &&
         dim_of_expert(g, s->pub.out[0], 0) == e->p.tokens && read_sum(g, s, e, y, weights);
}

tn_status tni_pass_experts(tni_graph *g, uint32_t *n, tn_error *err) {
  const uint32_t n_nodes = g->n_nodes;
  experts_pass p = {.g = g, .err = err};
  uint32_t fired = 0;
  for (uint32_t i = 0; i < n_nodes; i++) {
    tni_node *s = g->nodes[i];
    const router *r;
    expert e;
    tn_id y, weights, copy = TN_NONE;
    if (s->dead || !s->op) continue;
    if (s->pub.op == TN_OP_REDUCE_SUM) {
      const tn_status st = tni_experts_dense(g, s, &fired, err);
      if (st != TN_OK) return st;
      continue;
    }
    if (!find_expert(g, s, &e, &y, &weights)) continue;
    tn_status st = router_of(&p, &e.p, weights, &r);
    if (st == TN_OK) st = copy_expert(&p, &e, r->goes[e.p.expert]);
    if (st != TN_OK) return st;
    const tni_build_node b = {
        .type = "Mul", .version = 14, .in = {known_copy(&e, y, &copy) ? copy : y, r->weight[e.p.expert]}, .n_in = 2};
    st = tni_build_in_place(g, s, &b, err);
    if (st != TN_OK) return st;
    fired++;
  }
  return tni_build_done(g, fired, n, err);
}
