/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/passes/build/build.h"

#include <math.h>
#include <string.h>

/* --- matching --- */

const tni_value *tni_match_value(const tni_graph *g, tn_id v) { return v < g->n_values ? g->values[v] : NULL; }

tn_id tni_match_in(const tni_node *n, uint32_t i) { return i < n->pub.n_in ? n->pub.in[i] : TN_NONE; }

const tni_node *tni_match_node(const tni_graph *g, tn_id v, uint32_t op) {
  const tni_value *val = tni_match_value(g, v);
  if (!val || val->pub.producer >= g->n_nodes || val->out_index != 0) return NULL;
  const tni_node *n = g->nodes[val->pub.producer];
  return !n->dead && n->op && n->pub.op == op ? n : NULL;
}

uint32_t tni_match_uses(const tni_graph *g, tn_id v) {
  const tni_value *val = tni_match_value(g, v);
  if (!val) return 0;
  uint32_t n = val->is_output;
  for (uint32_t i = 0; i < val->pub.n_uses; i++) n += !g->nodes[val->pub.uses[i]]->dead;
  return n;
}

tn_id tni_match_only_reader(const tni_graph *g, tn_id v) {
  const tni_value *val = tni_match_value(g, v);
  if (!val || val->is_output || tni_match_uses(g, v) != 1) return TN_NONE;
  for (uint32_t i = 0; i < val->pub.n_uses; i++)
    if (!g->nodes[val->pub.uses[i]]->dead) return val->pub.uses[i];
  return TN_NONE;
}

tn_id tni_match_other(const tni_node *n, tn_id v) {
  if (n->pub.n_in != 2 || v == TN_NONE) return TN_NONE;
  if (n->pub.in[0] == v) return n->pub.in[1];
  return n->pub.in[1] == v ? n->pub.in[0] : TN_NONE;
}

bool tni_match_scalar(const tni_graph *g, tn_id v, double *c) {
  const tni_value *val = tni_match_value(g, v);
  int64_t count, i;
  float f;
  if (!val || val->pub.kind != TN_VALUE_CONST || !val->tensor || !val->tensor->data) return false;
  const tni_tensor *t = val->tensor;
  if (t->dtype == TN_DT_STRING || tni_dims_count(t->dims, t->rank, &count) != TN_OK || count != 1) return false;
  switch (t->dtype) {
    case TN_DT_F64:
      memcpy(c, t->data, sizeof *c);
      return true;
    case TN_DT_F32:
    case TN_DT_F16:
    case TN_DT_BF16:
      tni_tensor_to_f32(t, 0, 1, &f);
      *c = (double)f;
      return true;
    case TN_DT_BOOL:
    case TN_DT_I32:
    case TN_DT_I64:
      tni_tensor_to_i64(t, 0, 1, &i);
      *c = (double)i;
      return true;
    default:
      return false;
  }
}

bool tni_match_close(uint32_t dtype, double c, double want) {
  const double keeps = dtype == TN_DT_F16 ? 1e-3 : dtype == TN_DT_BF16 ? 8e-3 : 1e-6;
  return fabs(c - want) <= keeps * fabs(want); /* false for NaN */
}

uint32_t tni_match_precision(const tni_graph *g, tn_id v) {
  const uint32_t dtype = g->values[v]->pub.dtype;
  return dtype == TN_DT_F32 && g->widened ? g->widened : dtype;
}

double tni_match_lowest(const tni_graph *g) { return g->widened == TN_DT_F16 ? -1e4 : -1e30; }

bool tni_match_near(const tni_graph *g, tn_id v, double want) {
  double c;
  return tni_match_scalar(g, v, &c) && tni_match_close(tni_match_precision(g, v), c, want);
}

bool tni_match_with_scalar(const tni_graph *g, const tni_node *n, double *c, tn_id *rest) {
  for (uint32_t i = 0; n->pub.n_in == 2 && i < 2; i++) {
    const tni_value *k = tni_match_value(g, n->pub.in[i]), *x = tni_match_value(g, n->pub.in[!i]);
    if (!x || x->pub.rank == TNI_RANK_UNKNOWN || !tni_match_scalar(g, n->pub.in[i], c)) continue;
    if (k->pub.rank > x->pub.rank) continue;
    *rest = n->pub.in[!i];
    return true;
  }
  return false;
}

bool tni_match_same_shape(const tni_graph *g, tn_id a, tn_id b) {
  const tni_value *x = tni_match_value(g, a), *y = tni_match_value(g, b);
  if (!x || !y || x->pub.rank == TNI_RANK_UNKNOWN || x->pub.rank != y->pub.rank) return false;
  for (uint32_t d = 0; d < x->pub.rank; d++)
    if (x->pub.dims[d] == TNI_EXPR_NONE || x->pub.dims[d] != y->pub.dims[d]) return false;
  return true;
}

bool tni_match_rank(const tni_graph *g, tn_id v, uint32_t rank) {
  const tni_value *x = tni_match_value(g, v);
  if (!x || x->pub.rank != rank || rank == TNI_RANK_UNKNOWN) return false;
  for (uint32_t d = 0; d < rank; d++)
    if (x->pub.dims[d] == TNI_EXPR_NONE) return false;
  return true;
}

tn_expr tni_match_last_dim(const tni_graph *g, tn_id v) {
  const tni_value *x = tni_match_value(g, v);
  if (!x || x->pub.rank == TNI_RANK_UNKNOWN || x->pub.rank == 0) return TNI_EXPR_NONE;
  return x->pub.dims[x->pub.rank - 1];
}

bool tni_match_perm(const tni_node *n, uint32_t rank, int64_t *perm) {
  const int64_t *v;
  if (!n || !n->op || n->pub.op != TN_OP_TRANSPOSE || rank > TN_MAX_RANK) return false;
  const uint32_t len = tni_attr_ints(&n->pub, "perm", &v);
  if (v && len != rank) return false;
  for (uint32_t d = 0; d < rank; d++) {
    perm[d] = v ? v[d] : (int64_t)(rank - 1 - d);
    if (perm[d] < 0 || perm[d] >= rank) return false;
  }
  return true;
}

bool tni_match_reduces_last(const tni_graph *g, const tni_node *n) {
  const tni_value *x = tni_match_value(g, tni_match_in(n, 0)), *axes = tni_match_value(g, tni_match_in(n, 1));
  int64_t count, axis;
  if (!x || x->pub.rank == TNI_RANK_UNKNOWN || x->pub.rank == 0 || !tni_attr_i(&n->pub, "keepdims", 1)) return false;
  if (!axes) return x->pub.rank == 1 && !tni_attr_i(&n->pub, "noop_with_empty_axes", 0);
  if (axes->pub.kind != TN_VALUE_CONST || !axes->tensor || axes->tensor->dtype != TN_DT_I64) return false;
  if (tni_dims_count(axes->tensor->dims, axes->tensor->rank, &count) != TN_OK || count != 1) return false;
  tni_tensor_to_i64(axes->tensor, 0, 1, &axis);
  return axis == -1 || axis == (int64_t)x->pub.rank - 1;
}

/* --- building --- */

static tn_id add_const(tni_graph *g, const tni_tensor *t, const tni_origin *origin) {
  tn_id v = tni_graph_add_value(g, "", TN_VALUE_CONST, t->dtype);
  return v != TN_NONE && tni_value_set_tensor(g, v, t, origin) == TN_OK ? v : TN_NONE;
}

static bool tensor_of(uint32_t dtype, uint32_t rank, const int64_t *dims, tni_tensor *t, int64_t *count) {
  *t = (tni_tensor){.dtype = dtype, .rank = rank};
  if (rank > TN_MAX_RANK) return false;
  if (rank) memcpy(t->dims, dims, rank * sizeof *dims);
  return tni_dims_count(dims, rank, count) == TN_OK && tni_dtype_bytes(dtype, *count, &t->bytes) == TN_OK;
}

tn_id tni_build_const(tni_graph *g, uint32_t dtype, uint32_t rank, const int64_t *dims, const void *data) {
  tni_tensor t;
  int64_t count;
  if (!tensor_of(dtype, rank, dims, &t, &count)) return TN_NONE;
  t.data = tni_arena_alloc(g->arena, t.bytes ? t.bytes : 1, 16);
  if (!t.data) return TN_NONE;
  if (t.bytes) memcpy(t.data, data, t.bytes);
  return add_const(g, &t, NULL);
}

tn_id tni_build_filled(tni_graph *g, uint32_t dtype, int64_t n, double c) {
  unsigned char one[8];
  tni_tensor t;
  int64_t count;
  if (dtype != TN_DT_F16 && dtype != TN_DT_BF16 && dtype != TN_DT_F32 && dtype != TN_DT_F64) return TN_NONE;
  if (!tensor_of(dtype, 1, &n, &t, &count)) return TN_NONE;
  t.data = tni_arena_alloc(g->arena, t.bytes ? t.bytes : 1, 16);
  const uint32_t size = tni_elem_encode(dtype, c, one);
  for (int64_t i = 0; t.data && i < count; i++) memcpy((char *)t.data + (size_t)i * size, one, size);
  return t.data ? add_const(g, &t, NULL) : TN_NONE;
}

tn_id tni_build_view(tni_graph *g, tn_id v, uint32_t rank, const int64_t *dims) {
  const tni_value *from = tni_match_value(g, v);
  tni_tensor t;
  int64_t count;
  if (!from || !from->tensor || !tensor_of(from->tensor->dtype, rank, dims, &t, &count)) return TN_NONE;
  if (t.bytes != from->tensor->bytes || from->tensor->quantized) return TN_NONE;
  t.data = from->tensor->data;
  return add_const(g, &t, &from->origin);
}

tn_id tni_build_slice(tni_graph *g, tn_id v, int64_t first, int64_t n) {
  const tni_value *from = tni_match_value(g, v);
  tni_tensor t;
  int64_t count, all;
  if (!from || !from->tensor || from->tensor->quantized || first < 0 || n < 0 ||
      !tensor_of(from->tensor->dtype, 1, &n, &t, &count))
    return TN_NONE;
  const uint32_t bits = tni_dtype_bits(t.dtype);
  if (!bits || bits % 8 || tni_dims_count(from->tensor->dims, from->tensor->rank, &all) != TN_OK) return TN_NONE;
  if (first > all || n > all - first) return TN_NONE;
  const uint64_t skip = (uint64_t)first * (bits / 8);
  tni_origin origin = from->origin;
  origin.offset += skip;
  t.data = from->tensor->data ? (char *)from->tensor->data + skip : NULL;
  return add_const(g, &t, &origin);
}

tn_id tni_build_elems(tni_graph *g, const tn_expr *elems, uint32_t n) {
  int64_t c[TN_MAX_RANK], len = n;
  uint32_t known = 0;
  if (n > TN_MAX_RANK) return TN_NONE;
  while (known < n && tni_ex_is_const(g->exprs, elems[known], &c[known])) known++;
  if (known == n) return tni_build_const(g, TN_DT_I64, 1, &len, c);
  tn_id v = tni_graph_add_value(g, "", TN_VALUE_STEP, TN_DT_I64);
  tn_expr dim = tni_ex_const(g->exprs, n);
  const tn_expr *copy = tni_arena_memdup(g->arena, elems, n * sizeof *elems, _Alignof(tn_expr));
  if (v == TN_NONE || !copy || dim == TNI_EXPR_NONE || tni_value_set_dims(g, v, 1, &dim) != TN_OK) return TN_NONE;
  g->values[v]->elems = copy;
  g->values[v]->n_elems = n;
  return v;
}

/* --- writing --- */

tn_id tni_build_op(tni_graph *g, const tni_build_node *b, uint32_t dtype, uint32_t rank, const tn_expr *dims,
                   tn_error *err) {
  const tn_id v = tni_graph_add_value(g, "", TN_VALUE_ACT, dtype);
  if (v == TN_NONE || tni_value_set_dims(g, v, rank, dims) != TN_OK) return TN_NONE;
  return tni_graph_add_node(g, "", b->domain, b->type, b->version, b->in, b->n_in, &v, 1, b->attr, b->n_attr, NULL,
                            err) == TN_OK
             ? v
             : TN_NONE;
}

tn_status tni_build_in_place(tni_graph *g, tni_node *last, const tni_build_node *b, tn_error *err) {
  last->dead = true;
  return tni_graph_add_node(g, last->pub.name, b->domain, b->type, b->version, b->in, b->n_in, last->pub.out,
                            last->pub.n_out, b->attr, b->n_attr, NULL, err);
}

tn_status tni_build_swap_input(tni_graph *g, tni_node *last, uint32_t i, tn_id to, tn_error *err) {
  tn_id in[TNI_BUILD_INPUTS];
  if (last->pub.n_in > TNI_BUILD_INPUTS || i >= last->pub.n_in || last->n_captures)
    return tni_fail(err, TN_E_INTERNAL, last->pub.name, "input %u cannot be swapped", i);
  memcpy(in, last->pub.in, last->pub.n_in * sizeof *in);
  in[i] = to;
  last->dead = true;
  return tni_graph_add_node(g, last->pub.name, last->pub.domain, last->type, last->version, in, last->pub.n_in,
                            last->pub.out, last->pub.n_out, last->raw, last->n_raw, NULL, err);
}

tn_status tni_build_done(tni_graph *g, uint32_t fired, uint32_t *n, tn_error *err) {
  *n = fired;
  return fired ? tni_graph_finish(g, err) : TN_OK;
}
