/* SPDX-License-Identifier: Apache-2.0
 *
 * rows:  Reshape(x [.., K] -> [rows, K]), operators that work row by row, Reshape([rows, ..] -> [.., ..])
 *        ->  the operators on x as it is, with its leading axes.
 *
 * So exporters write mixtures of experts and OPT's feed-forward part, whose tokens are flattened. A region grows from
 * such a Reshape over all that reads or makes values with these rows. It is written anew where all of it is row-wise
 * (rows_read.c): whatever it makes for somebody else goes through a Reshape that puts the leading axes back, and no row
 * comes from anywhere but such Reshapes, ConstantOfShape, Expand of what has no rows. A Reshape of a row's own axes
 * stays.
 *
 * Keeps: the values, names, dtypes and shapes of the last Reshapes, bit for bit. Gemm becomes MatMul and Add.
 */
#include "runtime/passes/forms/rows.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/passes/forms/forms.h"

enum { MAX_REGION = 4096 };

/* --- the region --- */

static bool push_value(tni_flat *r, tn_id v) {
  if (r->is_row[v]) return true;
  if (r->n_rows == MAX_REGION || r->g->values[v]->is_output) return false;
  r->is_row[v] = 1;
  r->row[r->n_rows++] = v;
  return true;
}

static bool push_node(tni_flat *r, tn_id node) {
  for (uint32_t i = 0; i < r->n_nodes; i++)
    if (r->node[i] == node) return true;
  if (r->n_nodes == MAX_REGION) return false;
  r->node[r->n_nodes++] = node;
  return true;
}

/* node reads or makes a row value: it and all its row values belong to the region. */
static bool take_node(tni_flat *r, tn_id node) {
  const tni_graph *g = r->g;
  const tni_node *n = g->nodes[node];
  const tni_flat_kind kind = tni_flat_read(r, n);
  if (kind == TNI_FLAT_NONE || !push_node(r, node)) return false;
  if (kind == TNI_FLAT_ENTRY) return push_value(r, n->pub.out[0]);
  if (kind == TNI_FLAT_EXIT) {
    r->n_exits++;
    return push_value(r, n->pub.in[0]);
  }
  for (uint32_t i = 0; i < n->pub.n_in; i++)
    if (tni_flat_has(r, n->pub.in[i]) && !push_value(r, n->pub.in[i])) return false;
  for (uint32_t o = 0; o < n->pub.n_out; o++)
    if (n->pub.out[o] != TN_NONE && !push_value(r, n->pub.out[o])) return false;
  return true;
}

static bool grow_region(tni_flat *r) {
  const tni_graph *g = r->g;
  for (uint32_t at = 0; at < r->n_rows; at++) {
    const tni_value *v = g->values[r->row[at]];
    if (v->pub.producer >= g->n_nodes || !take_node(r, v->pub.producer)) return false;
    for (uint32_t i = 0; i < v->pub.n_uses; i++)
      if (!g->nodes[v->pub.uses[i]]->dead && !take_node(r, v->pub.uses[i])) return false;
  }
  return r->n_exits > 0;
}

/* --- writing --- */

/* Dims of row value v with the leading axes; their number. */
static uint32_t row_dims(const tni_flat *r, tn_id v, tn_expr *dims) {
  const tni_value *x = r->g->values[v];
  memcpy(dims, r->lead, r->n_lead * sizeof *dims);
  memcpy(dims + r->n_lead, x->pub.dims + 1, (x->pub.rank - 1) * sizeof *dims);
  return r->n_lead + x->pub.rank - 1;
}

static tn_status no_memory(const tni_flat *r, const tni_node *n) { return tni_fail_memory(r->err, n->pub.name); }

static bool is_ready(const tni_flat *r, const tni_node *n) {
  for (uint32_t i = 0; i < n->pub.n_in; i++)
    if (n->pub.in[i] != TN_NONE && r->is_row[n->pub.in[i]] && r->to[n->pub.in[i]] == TN_NONE) return false;
  return true;
}

/* Gemm(x, W, c) as MatMul(x, W) + c. */
static tn_status copy_gemm(tni_flat *r, const tni_node *n) {
  static const int64_t perm[2] = {1, 0};
  tni_graph *g = r->g;
  tn_expr dims[TN_MAX_RANK];
  const uint32_t rank = row_dims(r, n->pub.out[0], dims), dtype = g->values[n->pub.out[0]]->pub.dtype;
  tni_build_node b = {.type = "MatMul", .version = 13, .in = {r->to[n->pub.in[0]], n->pub.in[1]}, .n_in = 2};
  if (tni_attr_i(&n->pub, "transB", 0)) {
    const tni_value *w = g->values[b.in[1]];
    const tn_expr turned[2] = {w->pub.dims[1], w->pub.dims[0]};
    tni_build_node t = {.type = "Transpose", .version = 13, .in = {b.in[1]}, .n_in = 1, .n_attr = 1};
    t.attr[0] = tni_raw_ints("perm", perm, 2);
    if ((b.in[1] = tni_build_op(g, &t, w->pub.dtype, 2, turned, r->err)) == TN_NONE) return no_memory(r, n);
  }
  tn_id y = tni_build_op(g, &b, dtype, rank, dims, r->err);
  if (y != TN_NONE && tni_match_in(n, 2) != TN_NONE) {
    const tni_build_node add = {.type = "Add", .version = 14, .in = {y, n->pub.in[2]}, .n_in = 2};
    y = tni_build_op(g, &add, dtype, rank, dims, r->err);
  }
  r->to[n->pub.out[0]] = y;
  return y == TN_NONE ? no_memory(r, n) : TN_OK;
}

/* The constant vector of axes v of rank `rank`, counted from the end. */
static tn_id axes_from_end(tni_flat *r, tn_id v, uint32_t rank) {
  const tni_tensor *t = r->g->values[v]->tensor;
  int64_t axes[TN_MAX_RANK], n = t->rank ? t->dims[0] : 1;
  const int64_t len = n;
  if (n > TN_MAX_RANK) return TN_NONE;
  for (int64_t i = 0; i < n; i++) {
    tni_tensor_to_i64(t, i, 1, &axes[i]);
    if (axes[i] >= 0) axes[i] -= rank;
  }
  return tni_build_const(r->g, TN_DT_I64, 1, &len, axes);
}

/* Operand i of n's copy; TN_NONE with *ok false: no memory. */
static tn_id copied_operand(tni_flat *r, const tni_node *n, uint32_t i, bool *ok) {
  const tn_id v = n->pub.in[i];
  tn_expr dims[TN_MAX_RANK];
  tn_id made = v;
  if (v == TN_NONE) return v;
  if (r->is_row[v]) return r->to[v];
  if (i == tni_flat_axes_at(n))
    made = axes_from_end(r, v, r->g->values[n->pub.op == TN_OP_UNSQUEEZE ? n->pub.out[0] : n->pub.in[0]]->pub.rank);
  else if (i == tni_flat_shape_at(n))
    made = tni_build_elems(r->g, dims, row_dims(r, n->pub.out[0], dims));
  *ok = *ok && made != TN_NONE;
  return made;
}

/* The attribute axis counted from the end; the others as they are. allowzero: dims are given one by one. */
static uint32_t copied_attrs(const tni_flat *r, const tni_node *n, tni_raw_attr *attr) {
  const uint32_t rank = r->g->values[n->pub.in[0]]->pub.rank;
  uint32_t n_attr = 0;
  int64_t axis;
  for (uint32_t i = 0; i < n->n_raw; i++)
    if (strcmp(n->raw[i].name, "axis") != 0 && strcmp(n->raw[i].name, "allowzero") != 0) attr[n_attr++] = n->raw[i];
  if (n->pub.op == TN_OP_RESHAPE) attr[n_attr++] = tni_raw_int("allowzero", 1);
  if (tni_flat_axis(n, &axis)) attr[n_attr++] = tni_raw_int("axis", axis < 0 ? axis : axis - rank);
  return n_attr;
}

static tn_status copy_row_node(tni_flat *r, const tni_node *n) {
  tni_graph *g = r->g;
  tn_id in[TNI_BUILD_INPUTS], out[TNI_BUILD_INPUTS];
  tni_raw_attr attr[TNI_BUILD_INPUTS + 2];
  bool ok = true;
  if (n->pub.op == TN_OP_GEMM) return copy_gemm(r, n);
  for (uint32_t i = 0; i < n->pub.n_in; i++) in[i] = copied_operand(r, n, i, &ok);
  for (uint32_t o = 0; ok && o < n->pub.n_out; o++) {
    tn_expr dims[TN_MAX_RANK];
    out[o] = TN_NONE;
    if (n->pub.out[o] == TN_NONE) continue;
    const uint32_t rank = row_dims(r, n->pub.out[o], dims);
    out[o] = tni_graph_add_value(g, "", TN_VALUE_ACT, g->values[n->pub.out[o]]->pub.dtype);
    ok = out[o] != TN_NONE && tni_value_set_dims(g, out[o], rank, dims) == TN_OK;
    r->to[n->pub.out[o]] = out[o];
  }
  if (!ok) return no_memory(r, n);
  return tni_graph_add_node(g, n->pub.name, n->pub.domain, n->type, tni_flat_version(n), in, n->pub.n_in, out,
                            n->pub.n_out, attr, copied_attrs(r, n, attr), NULL, r->err);
}

static tn_status write_node(tni_flat *r, tn_id node) {
  tni_graph *g = r->g;
  tni_node *n = g->nodes[node];
  const tni_flat_kind kind = tni_flat_read(r, n);
  if (kind == TNI_FLAT_ENTRY) {
    r->to[n->pub.out[0]] = n->pub.in[0];
    return TN_OK;
  }
  if (kind == TNI_FLAT_INSIDE) return copy_row_node(r, n);
  const tni_build_node b = {.type = "Identity", .version = 16, .in = {r->to[n->pub.in[0]]}, .n_in = 1};
  return tni_build_in_place(g, n, &b, r->err);
}

/* Nodes come after what makes their operands: in the order of the graph that takes one round. */
static tn_status write_region(tni_flat *r) {
  bool written[MAX_REGION] = {false};
  uint32_t left = r->n_nodes;
  for (bool more = true; more && left;) {
    more = false;
    for (uint32_t i = 0; i < r->n_nodes; i++) {
      if (written[i] || !is_ready(r, r->g->nodes[r->node[i]])) continue;
      const tn_status st = write_node(r, r->node[i]);
      if (st != TN_OK) return st;
      written[i] = more = true;
      left--;
    }
  }
  return left ? tni_fail(r->err, TN_E_INTERNAL, "rows", "a region of rows has a circle") : TN_OK;
}

/* --- the pass --- */

static int by_id(const void *a, const void *b) {
  const tn_id x = *(const tn_id *)a, y = *(const tn_id *)b;
  return (x > y) - (x < y);
}

static tn_status try_region(tni_flat *r, const tni_node *entry, uint32_t *fired) {
  const uint32_t before = *fired;
  bool ok = tni_flat_start(r, entry) && push_value(r, entry->pub.out[0]) && grow_region(r);
  tn_status st = TN_OK;
  if (ok) {
    qsort(r->node, r->n_nodes, sizeof *r->node, by_id);
    st = write_region(r);
    *fired = before + 1;
  }
  for (uint32_t i = 0; i < r->n_rows; i++) {
    r->is_row[r->row[i]] = 0;
    r->to[r->row[i]] = TN_NONE;
  }
  r->n_rows = r->n_nodes = r->n_exits = 0;
  return st;
}

tn_status tni_pass_rows(tni_graph *g, uint32_t *n, tn_error *err) {
  const uint32_t n_nodes = g->n_nodes, n_values = g->n_values;
  tni_flat r = {.g = g, .given = tni_given_symbols(g), .n_values = n_values, .err = err};
  uint32_t fired = 0;
  tn_status st = TN_OK;
  r.is_row = calloc(n_values + 1, 1);
  r.to = malloc((n_values + 1) * sizeof *r.to);
  r.row = malloc(MAX_REGION * sizeof *r.row);
  r.node = malloc(MAX_REGION * sizeof *r.node);
  if (!r.is_row || !r.to || !r.row || !r.node) st = tni_fail_memory(err, "rows");
  for (uint32_t i = 0; st == TN_OK && i < n_values; i++) r.to[i] = TN_NONE;
  for (uint32_t i = 0; st == TN_OK && i < n_nodes; i++)
    if (!g->nodes[i]->dead && g->nodes[i]->op) st = try_region(&r, g->nodes[i], &fired);
  free(r.is_row);
  free(r.to);
  free(r.row);
  free(r.node);
  return st == TN_OK ? tni_build_done(g, fired, n, err) : st;
}
