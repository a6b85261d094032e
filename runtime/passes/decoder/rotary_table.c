/* SPDX-License-Identifier: Apache-2.0
 *
 * Tables that hold every number twice.
 */
#include <string.h>

#include "runtime/passes/decoder/rotary.h"

enum { DEPTH = 32, NESTED = 8 };

tn_status tni_rotary_tables_init(tni_rotary_tables *t, tni_graph *g, tn_error *err) {
  *t = (tni_rotary_tables){.g = g, .arena = tni_arena_create(), .n_values = g->n_values};
  for (uint32_t o = 0; t->arena && o < 2; o++) {
    t->half[o] = TNI_NEW_ARRAY(t->arena, tn_id, g->n_values + 1);
    for (uint32_t v = 0; t->half[o] && v < g->n_values; v++) t->half[o][v] = TN_NONE;
  }
  if (t->arena && t->half[0] && t->half[1]) return TN_OK;
  tni_rotary_tables_free(t);
  return tni_fail_memory(err, "rotary");
}

void tni_rotary_tables_free(tni_rotary_tables *t) {
  if (t->arena) tni_arena_destroy(t->arena);
  t->arena = NULL;
}

/* --- constants --- */

static bool find_rows(const tni_value *v, int64_t *rows, int64_t *n, uint32_t *bytes) {
  const tni_tensor *t = v->tensor;
  int64_t count;
  if (v->pub.kind != TN_VALUE_CONST || !t || !t->data || t->rank < 1) return false;
  if (t->dtype != TN_DT_F32 && t->dtype != TN_DT_F16 && t->dtype != TN_DT_BF16 && t->dtype != TN_DT_F64) return false;
  *n = t->dims[t->rank - 1];
  *bytes = tni_dtype_bits(t->dtype) / 8;
  if (!t->data || *n < 2 || *n % 2 || tni_dims_count(t->dims, t->rank, &count) != TN_OK) return false;
  *rows = count / *n;
  return true;
}

/* Where the numbers of pair i stand in a row of n. */
static int64_t place_in_table(tni_rotary_order order, int64_t n, int64_t i, uint32_t which) {
  return order == TNI_ROTARY_HALVES ? i + (which ? n / 2 : 0) : 2 * i + which;
}

static bool const_is_double(const tni_value *v, tni_rotary_order order) {
  int64_t rows, n;
  uint32_t bytes;
  if (!find_rows(v, &rows, &n, &bytes)) return false;
  for (int64_t r = 0; r < rows; r++) {
    const char *row = (const char *)v->tensor->data + r * n * bytes;
    for (int64_t i = 0; i < n / 2; i++)
      if (memcmp(row + place_in_table(order, n, i, 0) * bytes, row + place_in_table(order, n, i, 1) * bytes, bytes) !=
          0)
        return false;
  }
  return true;
}

static tn_id halve_const(tni_rotary_tables *t, const tni_value *v, tni_rotary_order order) {
  int64_t rows, n, dims[TN_MAX_RANK];
  uint32_t bytes;
  if (!find_rows(v, &rows, &n, &bytes)) return TN_NONE;
  char *data = tni_arena_alloc(t->arena, (size_t)(rows * (n / 2)) * bytes + 1, 16);
  for (int64_t r = 0; data && r < rows; r++)
    for (int64_t i = 0; i < n / 2; i++)
      memcpy(data + (r * (n / 2) + i) * bytes,
             (const char *)v->tensor->data + (r * n + place_in_table(order, n, i, 0)) * bytes, bytes);
  memcpy(dims, v->tensor->dims, v->tensor->rank * sizeof *dims);
  dims[v->tensor->rank - 1] = n / 2;
  return data ? tni_build_const(t->g, v->tensor->dtype, v->tensor->rank, dims, data) : TN_NONE;
}

/* --- nodes --- */

/* v repeats each element of *f: Reshape of [.., n, 1] that Expand or Tile made [.., n, 2]. */
static bool repeats_half(const tni_graph *g, tn_id v, tn_id *f) {
  const tni_node *out = tni_match_node(g, v, TN_OP_RESHAPE), *wide, *in;
  int64_t n, two, one, half;
  if (!out) return false;
  const tn_id z = out->pub.in[0];
  if (!(wide = tni_match_node(g, z, TN_OP_EXPAND)) && !(wide = tni_match_node(g, z, TN_OP_TILE))) return false;
  const tn_id u = wide->pub.in[0];
  if (!(in = tni_match_node(g, u, TN_OP_UNSQUEEZE)) && !(in = tni_match_node(g, u, TN_OP_RESHAPE))) return false;
  *f = in->pub.in[0];
  const tni_value *vv = g->values[v], *vz = g->values[z], *vu = g->values[u], *vf = g->values[*f];
  const uint32_t r = vv->pub.rank;
  if (r == TNI_RANK_UNKNOWN || r < 1 || vf->pub.rank != r || vu->pub.rank != r + 1 || vz->pub.rank != r + 1)
    return false;
  if (!tni_rotary_last(g, v, &n) || !tni_rotary_last(g, z, &two) || !tni_rotary_last(g, u, &one) ||
      !tni_rotary_last(g, *f, &half))
    return false;
  if (two != 2 || one != 1 || n != 2 * half || vz->pub.dims[r - 1] != vf->pub.dims[r - 1]) return false;
  for (uint32_t d = 0; d < r; d++) {
    if (vf->pub.dims[d] == TNI_EXPR_NONE || vu->pub.dims[d] != vf->pub.dims[d]) return false;
    if (d + 1 < r && (vz->pub.dims[d] != vf->pub.dims[d] || vv->pub.dims[d] != vf->pub.dims[d])) return false;
  }
  return true;
}

/* v is Gather(*f, 0, 0, 1, 1, ..) along the last axis, or 0, 1, .., 0, 1, ..: every element of *f twice. */
static bool gathers_twice(const tni_graph *g, tn_id v, tni_rotary_order order, tn_id *f) {
  const tni_node *n = tni_match_node(g, v, TN_OP_GATHER);
  const tni_value *at = n ? tni_match_value(g, n->pub.in[1]) : NULL;
  const tni_tensor *t = at && at->pub.kind == TN_VALUE_CONST ? at->tensor : NULL;
  int64_t half, all, row;
  if (!t || !t->data || t->rank != 1 || !tni_rotary_is_last(g, n->pub.in[0], tni_attr_i(&n->pub, "axis", 0)) ||
      !tni_rotary_last(g, n->pub.in[0], &half) || !tni_rotary_last(g, v, &all) || half < 1 || all != 2 * half)
    return false;
  for (int64_t i = 0; i < half; i++)
    for (uint32_t which = 0; which < 2; which++) {
      tni_tensor_to_i64(t, place_in_table(order, all, i, which), 1, &row);
      if (row != i && row != i - half) return false;
    }
  *f = n->pub.in[0];
  return true;
}

/* v holds each element of *f twice, as v is made. */
static bool doubles_angles(const tni_graph *g, tn_id v, tni_rotary_order order, tn_id *f) {
  tn_id b;
  if (tni_rotary_joined(g, v, order, f, &b)) return *f == b;
  if (gathers_twice(g, v, order, f)) return true;
  return order == TNI_ROTARY_PAIRS && repeats_half(g, v, f);
}

/* The Slice leaves the last axis alone. */
static bool slices_others(const tni_graph *g, const tni_node *n) {
  const tni_value *axes = tni_match_value(g, tni_match_in(n, 3));
  int64_t count, axis;
  if (!axes || axes->pub.kind != TN_VALUE_CONST || !axes->tensor || axes->tensor->dtype != TN_DT_I64) return false;
  if (tni_dims_count(axes->tensor->dims, axes->tensor->rank, &count) != TN_OK) return false;
  for (int64_t i = 0; i < count; i++) {
    tni_tensor_to_i64(axes->tensor, i, 1, &axis);
    if (tni_rotary_is_last(g, n->pub.in[0], axis)) return false;
  }
  return true;
}

static bool keeps_last(const tni_graph *g, const tni_node *n) {
  int64_t perm[TN_MAX_RANK], c, d;
  const tn_id x = n->pub.in[0], y = n->pub.out[0];
  const uint32_t rank = g->values[x]->pub.rank;
  if (!tni_rotary_last(g, x, &c) || !tni_rotary_last(g, y, &d) || c != d) return false;
  if (n->pub.op != TN_OP_TRANSPOSE) return true;
  return tni_match_perm(n, rank, perm) && perm[rank - 1] == (int64_t)rank - 1;
}

/* Which operand of the node that makes v is double where v is: UINT32_MAX for none. */
static uint32_t carrying_input(const tni_graph *g, const tni_node *n) {
  double c;
  tn_id rest;
  switch (n->pub.op) {
    case TN_OP_IDENTITY:
    case TN_OP_CAST:
    case TN_OP_NEG:
    case TN_OP_COS:
    case TN_OP_SIN:
      return 0;
    case TN_OP_MUL:
    case TN_OP_DIV:
    case TN_OP_ADD:
    case TN_OP_SUB:
      if (!tni_match_with_scalar(g, n, &c, &rest)) return UINT32_MAX;
      return rest == n->pub.in[0] ? 0 : 1;
    case TN_OP_GATHER:
      return tni_rotary_is_last(g, n->pub.in[0], tni_attr_i(&n->pub, "axis", 0)) ? UINT32_MAX : 0;
    case TN_OP_SLICE:
      return slices_others(g, n) ? 0 : UINT32_MAX;
    case TN_OP_UNSQUEEZE:
    case TN_OP_SQUEEZE:
    case TN_OP_RESHAPE:
    case TN_OP_EXPAND:
    case TN_OP_TRANSPOSE:
      return keeps_last(g, n) ? 0 : UINT32_MAX;
    default:
      return UINT32_MAX;
  }
}

static const tni_node *table_maker(const tni_graph *g, tn_id v) {
  const tni_value *x = g->values[v];
  if (x->pub.producer >= g->n_nodes || x->out_index) return NULL;
  const tni_node *n = g->nodes[x->pub.producer];
  return n->dead || !n->op || n->n_raw > 16 || n->pub.n_in > 8 ? NULL : n;
}

/* The double operand that v comes from; TN_NONE at the end of the chain. */
static tn_id doubled_operand(const tni_graph *g, tn_id v, uint32_t *at) {
  const tni_node *n = table_maker(g, v);
  int64_t c;
  if (!n || !tni_rotary_last(g, v, &c) || c < 2 || c % 2) return TN_NONE;
  for (uint32_t d = 0; d < g->values[v]->pub.rank; d++)
    if (g->values[v]->pub.dims[d] == TNI_EXPR_NONE) return TN_NONE;
  *at = carrying_input(g, n);
  return *at == UINT32_MAX ? TN_NONE : n->pub.in[*at];
}

bool tni_rotary_is_double(tni_rotary_tables *t, tn_id v, tni_rotary_order order) {
  uint32_t at;
  tn_id f;
  for (uint32_t depth = 0; v != TN_NONE && v < t->n_values && depth < DEPTH; depth++) {
    if (t->half[order][v] != TN_NONE || doubles_angles(t->g, v, order, &f)) return true;
    if (t->g->values[v]->pub.kind == TN_VALUE_CONST) return const_is_double(t->g->values[v], order);
    v = doubled_operand(t->g, v, &at);
  }
  return false;
}

/* The node that makes v, over the halved operand. */
static tn_id table_again(tni_rotary_tables *t, tn_id v, uint32_t at, tn_id half, tn_error *err) {
  tni_graph *g = t->g;
  const tni_node *n = table_maker(g, v);
  const tni_value *x = g->values[v];
  int64_t c;
  tn_expr dims[TN_MAX_RANK];
  tni_build_node b = {
      .domain = n->pub.domain, .type = n->type, .version = n->version, .n_in = n->pub.n_in, .n_attr = n->n_raw};
  if (!tni_rotary_last(g, v, &c)) return TN_NONE;
  for (uint32_t i = 0; i < b.n_in; i++) b.in[i] = i == at ? half : n->pub.in[i];
  for (uint32_t i = 0; i < b.n_attr; i++) b.attr[i] = n->raw[i];
  memcpy(dims, x->pub.dims, x->pub.rank * sizeof *dims);
  dims[x->pub.rank - 1] = tni_ex_const(g->exprs, c / 2);
  if (n->pub.op == TN_OP_RESHAPE || n->pub.op == TN_OP_EXPAND) {
    b.in[1] = tni_build_elems(g, dims, x->pub.rank);
    if (b.in[1] == TN_NONE) return TN_NONE;
  }
  return tni_build_op(g, &b, x->pub.dtype, x->pub.rank, dims, err);
}

/* Half of a value that holds every number twice, taken from it by Slice or Split: made of its single numbers instead.
 */
static tn_id made_single(tni_rotary_tables *t, tn_id v, tn_error *err) {
  tni_rotary_order order;
  uint32_t which;
  tn_id x;
  if (t->nested == NESTED || !tni_rotary_part(t->g, v, &x, &order, &which) || x >= t->n_values ||
      !tni_rotary_is_double(t, x, order))
    return v;
  t->nested++;
  v = tni_rotary_halve(t, x, order, err);
  t->nested--;
  return v;
}

tn_id tni_rotary_halve(tni_rotary_tables *t, tn_id v, tni_rotary_order order, tn_error *err) {
  tn_id chain[DEPTH], half = TN_NONE;
  uint32_t at[DEPTH], n = 0;
  for (; n < DEPTH; n++) {
    if ((half = t->half[order][v]) != TN_NONE) break;
    if (doubles_angles(t->g, v, order, &half)) {
      t->half[order][v] = half = made_single(t, half, err);
      break;
    }
    if (t->g->values[v]->pub.kind == TN_VALUE_CONST) {
      t->half[order][v] = half = halve_const(t, t->g->values[v], order);
      break;
    }
    chain[n] = v;
    if ((v = doubled_operand(t->g, v, &at[n])) == TN_NONE) return TN_NONE;
  }
  while (half != TN_NONE && n > 0) {
    n--;
    half = t->half[order][chain[n]] = table_again(t, chain[n], at[n], half, err);
  }
  return half;
}
