/* SPDX-License-Identifier: Apache-2.0
 *
 * The way back from fused nodes to plain ones, for devices that do not know them: no pass of its own, the placement
 * asks for it (runtime/place/place.c). Values that were inside get fresh names; those that were read outside keep
 * theirs.
 */
#include <string.h>

#include "runtime/passes/fuse/fuse.h"

typedef struct undo {
  tni_graph *g;
  const tni_node *node; /* the fused one */
  tni_unfused *out;
  tn_error *err;
} undo;

static tn_id undo_value(undo *u, uint32_t dtype) { return tni_graph_add_value(u->g, "", TN_VALUE_ACT, dtype); }

static tn_status undo_node(undo *u, const char *name, const char *type, int64_t version, const tn_id *in, uint32_t n_in,
                           const tn_id *out, uint32_t n_out, const tni_raw_attr *attr, uint32_t n_attr) {
  for (uint32_t i = 0; i < n_in; i++)
    if (in[i] == TN_NONE) return tni_fail_memory(u->err, u->node->pub.name);
  for (uint32_t i = 0; i < n_out; i++)
    if (out[i] == TN_NONE) return tni_fail_memory(u->err, u->node->pub.name);
  return tni_graph_add_node(u->g, name, "", type, version, in, n_in, out, n_out, attr, n_attr, NULL, u->err);
}

static void is_product(undo *u) { u->out->product[u->out->n_products++] = u->g->nodes[u->g->n_nodes - 1]; }

/* One instruction as the operator that it is. */
static tn_status add_operator(undo *u, const tni_instr *i, tn_id a, tn_id b, tn_id out) {
  const tni_op *op = tni_op_by_id(i->op);
  const int64_t version = op->since > 14 ? op->since : 14;
  const tn_id in[2] = {a, b};
  tni_raw_attr attr;
  uint32_t n_attr = 0;
  if (i->op == TN_OP_SWISH) {
    attr = tni_raw_float("alpha", (double)i->value);
    n_attr = 1;
  } else if (i->op == TN_OP_GELU) {
    attr = tni_raw_string("approximate", i->value != 0 ? "tanh" : "none");
    n_attr = 1;
  }
  tn_status st = undo_node(u, "", op->name, version, in, tn_chain_arity(i->op), &out, 1, n_attr ? &attr : NULL, n_attr);
  if (st == TN_OK) u->out->op[u->out->n_ops++] = u->g->nodes[u->g->n_nodes - 1];
  return st;
}

/* --- Elementwise --- */

static tn_status undo_elementwise(undo *u, tn_id node) {
  const tni_node *n = u->node;
  tni_chain c;
  tn_id value[TN_CHAIN_MAX_INPUTS + TN_CHAIN_MAX_OPS];
  tn_status st = TN_OK;
  if (tni_chain_read(&n->pub, &c)) return TN_OK;
  for (uint32_t r = 0; r < c.n_in + c.n_ops; r++) value[r] = r < c.n_in ? n->pub.in[r] : TN_NONE;
  for (uint32_t o = 0; o < c.n_results; o++) {
    tn_id *v = &value[c.results[o]];
    if (n->pub.out[o] == TN_NONE) continue;
    if (*v != TN_NONE) return TN_OK; /* an input handed on, or one register twice */
    *v = n->pub.out[o];
  }
  u->g->nodes[node]->dead = true;
  for (uint32_t i = 0; st == TN_OK && i < c.n_ops; i++) {
    tn_id *v = &value[c.n_in + i];
    const tn_id b = c.ops[i].b == UINT32_MAX ? TN_NONE : value[c.ops[i].b];
    if (*v == TN_NONE) *v = undo_value(u, u->g->values[n->pub.in[0]]->pub.dtype);
    st = add_operator(u, &c.ops[i], value[c.ops[i].a], b, *v);
  }
  return st;
}

/* --- FusedMatMul --- */

static tn_status add_operators(undo *u, tni_fusion *d) {
  tn_status st = TN_OK;
  for (uint32_t p = 0; p < d->n_parts; p++)
    if (d->part_value[p] == TN_NONE) d->part_value[p] = undo_value(u, d->dtype);
  for (uint32_t i = 0; st == TN_OK && i < d->n_ops; i++) {
    const tni_instr *op = &d->op[i];
    if (d->op_value[i] == TN_NONE) d->op_value[i] = undo_value(u, d->dtype);
    st = add_operator(u, op, tni_fusion_value(d, op->a), op->b == TNI_REG_NONE ? TN_NONE : tni_fusion_value(d, op->b),
                      d->op_value[i]);
  }
  return st;
}

/* x with all rows in one axis, for Gemm. */
static tn_status add_gemm(undo *u, const tni_fusion *d, const char *name, tn_id w, int64_t width, tn_id y) {
  const tni_value *x = u->g->values[d->x];
  const tni_raw_attr trans = tni_raw_int("transB", 1);
  const uint32_t rank = x->pub.rank;
  if (rank == 2) {
    const tn_id in[2] = {d->x, w};
    tn_status st = undo_node(u, name, "Gemm", 13, in, 2, &y, 1, &trans, 1);
    if (st == TN_OK) is_product(u);
    return st;
  }
  tn_expr dims[TN_MAX_RANK], flat[2] = {tni_ex_const(u->g->exprs, -1), x->pub.dims[rank - 1]};
  memcpy(dims, x->pub.dims, rank * sizeof *dims);
  dims[rank - 1] = tni_ex_const(u->g->exprs, width);
  const tn_id rows = undo_value(u, d->dtype), sums = undo_value(u, d->dtype);
  const tn_id first[2] = {d->x, tni_build_elems(u->g, flat, 2)}, gemm[2] = {rows, w};
  const tn_id last[2] = {sums, tni_build_elems(u->g, dims, rank)};
  tn_status st = undo_node(u, "", "Reshape", 14, first, 2, &rows, 1, NULL, 0);
  if (st == TN_OK) st = undo_node(u, name, "Gemm", 13, gemm, 2, &sums, 1, &trans, 1);
  if (st == TN_OK) is_product(u);
  return st == TN_OK ? undo_node(u, "", "Reshape", 14, last, 2, &y, 1, NULL, 0) : st;
}

static tn_status add_product(undo *u, const tni_fusion *d, const char *name, uint32_t weight, int64_t width, tn_id y) {
  const tn_id in[2] = {d->x, d->weight[weight]};
  if (d->trans_b) return add_gemm(u, d, name, in[1], width, y);
  tn_status st = undo_node(u, name, "MatMul", 13, in, 2, &y, 1, NULL, 0);
  if (st == TN_OK) is_product(u);
  return st;
}

/* Columns of y of this part. */
static tn_status add_slice(undo *u, const tni_fusion *d, uint32_t part, tn_id y) {
  const tni_part *p = &d->part[part];
  const int64_t one = 1, start = p->first, end = p->first + p->count, axis = (int64_t)u->g->values[d->x]->pub.rank - 1;
  const tn_id in[4] = {y, tni_build_const(u->g, TN_DT_I64, 1, &one, &start),
                       tni_build_const(u->g, TN_DT_I64, 1, &one, &end),
                       tni_build_const(u->g, TN_DT_I64, 1, &one, &axis)};
  return undo_node(u, "", "Slice", 13, in, 4, &d->part_value[part], 1, NULL, 0);
}

/* The parts of one weight, in order of registers; true: side by side, they are all of it. */
static bool list_parts(const tni_fusion *d, uint32_t weight, int64_t width, uint32_t *list, uint32_t *n) {
  int64_t at = 0;
  bool whole = true;
  *n = 0;
  for (uint32_t p = 0; p < d->n_parts; p++) {
    if (d->part[p].weight != weight) continue;
    whole = whole && d->part[p].first == at;
    at += d->part[p].count;
    list[(*n)++] = p;
  }
  return whole && at == width;
}

static tn_status add_weight(undo *u, const tni_fusion *d, uint32_t weight) {
  const int64_t width = u->g->values[d->weight[weight]]->tensor->dims[!d->trans_b], axis = -1;
  uint32_t list[TN_FUSED_MAX_PARTS], n;
  const bool whole = list_parts(d, weight, width, list, &n);
  const char *name = d->n_weights == 1 ? u->node->pub.name : "";
  if (whole && n == 1) {
    if (!*name) name = u->g->values[d->part_value[list[0]]]->pub.name;
    return add_product(u, d, name, weight, width, d->part_value[list[0]]);
  }
  const tn_id y = undo_value(u, d->dtype);
  tn_status st = add_product(u, d, name, weight, width, y);
  if (!whole) {
    for (uint32_t i = 0; st == TN_OK && i < n; i++) st = add_slice(u, d, list[i], y);
    return st;
  }
  int64_t sizes[TN_FUSED_MAX_PARTS], count = n;
  tn_id out[TN_FUSED_MAX_PARTS];
  for (uint32_t i = 0; i < n; i++) {
    sizes[i] = d->part[list[i]].count;
    out[i] = d->part_value[list[i]];
  }
  const tn_id in[2] = {y, tni_build_const(u->g, TN_DT_I64, 1, &count, sizes)};
  const tni_raw_attr attr = tni_raw_int("axis", axis);
  return st == TN_OK ? undo_node(u, "", "Split", 13, in, 2, out, n, &attr, 1) : st;
}

static bool dims_known(const tni_graph *g, tn_id v) {
  const tni_value *x = g->values[v];
  for (uint32_t i = 0; i < x->pub.rank; i++)
    if (x->pub.dims[i] == TNI_EXPR_NONE) return false;
  return true;
}

static tn_status undo_products(undo *u, tn_id node, uint32_t how) {
  tni_fusion d;
  if (!tni_fusion_read(u->g, u->node, &d) || (how == TNI_UNFUSE_CHAIN && !d.n_ops)) return TN_OK;
  if (how == TNI_UNFUSE_ALL && d.trans_b && !dims_known(u->g, d.x)) return TN_OK;
  u->g->nodes[node]->dead = true;
  tn_status st = add_operators(u, &d);
  d.n_ops = d.n_extra = 0;
  if (st == TN_OK && how == TNI_UNFUSE_CHAIN) {
    st = tni_fusion_write(u->g, &d, u->node->pub.name, u->err);
    if (st == TN_OK) is_product(u);
    return st;
  }
  for (uint32_t w = 0; st == TN_OK && w < d.n_weights; w++) st = add_weight(u, &d, w);
  return st;
}

tn_status tni_unfuse_node(tni_graph *g, tn_id node, uint32_t how, tni_unfused *out, tn_error *err) {
  undo u = {.g = g, .node = g->nodes[node], .out = out, .err = err};
  out->n_products = out->n_ops = 0;
  if (u.node->dead || !u.node->op) return TN_OK;
  if (u.node->pub.op == TN_OP_FUSED_MATMUL) return undo_products(&u, node, how);
  return u.node->pub.op == TN_OP_ELEMENTWISE && how == TNI_UNFUSE_ALL ? undo_elementwise(&u, node) : TN_OK;
}
