/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "runtime/passes/mask/forms.h"

static tni_mleaf whole_range(uint32_t dtype) {
  tni_mleaf l = {.kind = TNI_MLEAF_SRC, .gain = 1};
  l.any = !tni_mask_is_int(dtype);
  l.lo = dtype == TN_DT_I32 ? (double)INT32_MIN : -ldexp(1, 63);
  l.hi = dtype == TN_DT_I32 ? (double)INT32_MAX : ldexp(1, 63);
  return l;
}

/* Least and greatest element of a constant float tensor. */
static void range_of(const tni_tensor *t, tni_mleaf *l) {
  int64_t n;
  if (t->dtype != TN_DT_F32 || !t->data || tni_dims_count(t->dims, t->rank, &n) != TN_OK || n < 1) return;
  float lo = INFINITY, hi = -INFINITY, f = 0;
  for (int64_t i = 0; i < n && f == f; i++) {
    tni_tensor_to_f32(t, i, 1, &f);
    lo = fminf(lo, f);
    hi = fmaxf(hi, f);
  }
  l->any = f != f;
  l->lo = (double)lo;
  l->hi = (double)hi;
}

tni_mtab *tni_mask_opaque(tni_mask *m, tn_id id) {
  const tni_value *v = m->g->values[id];
  if (v->pub.rank == TNI_RANK_UNKNOWN || v->pub.dtype == TN_DT_UNDEFINED) return NULL;
  const bool is_bool = v->pub.dtype == TN_DT_BOOL;
  tni_mtab *t = tni_mtab_new(m, v->pub.rank, v->pub.dims, v->pub.dtype, is_bool);
  if (!t) return NULL;
  const tni_mform address = tni_mform_dense(m, t->rank, t->dims);
  if (!tni_mform_whole(&address)) return NULL;
  if (is_bool) {
    t->atom[0] = (tni_matom){.kind = TNI_MATOM_EQ, .f = address, .src = id, .c = 0};
    t->leaf[0] = tni_mleaf_num(1);
    t->leaf[1] = tni_mleaf_num(0);
  } else {
    t->leaf[0] = whole_range(t->dtype);
    t->leaf[0].f = address;
    t->leaf[0].src = id;
    if (v->tensor) range_of(v->tensor, t->leaf);
  }
  return t;
}

/* A small integer tensor whose elements are known: one form, where they lie on a line. */
static tni_mtab *known_table(tni_mask *m, tn_id id) {
  const tni_value *v = m->g->values[id];
  if (!v->elems || !v->n_elems || !tni_mask_is_int(v->pub.dtype) || (v->pub.rank > 1 && v->n_elems > 1)) return NULL;
  tni_mtab *t = tni_mtab_new(m, v->pub.rank, v->pub.dims, v->pub.dtype, 0);
  if (!t) return NULL;
  for (uint32_t i = 0; i < v->n_elems; i++)
    if (v->elems[i] == TNI_EXPR_NONE) return NULL;
  t->leaf[0] = (tni_mleaf){.kind = TNI_MLEAF_INT, .f = tni_mform_const(m, v->elems[0]), .src = TN_NONE};
  if (v->n_elems == 1) return t;
  const tn_expr step = tni_ex_sub(m->x, v->elems[1], v->elems[0]);
  for (uint32_t i = 2; i < v->n_elems; i++)
    if (step == TNI_EXPR_NONE || tni_ex_sub(m->x, v->elems[i], v->elems[i - 1]) != step) return NULL;
  t->leaf[0].f.c[0] = step;
  return tni_mform_whole(&t->leaf[0].f) ? t : NULL;
}

static tni_mtab *range_node(tni_mask *m, const tni_node *n, const tni_value *v) {
  tn_expr start, step;
  uint32_t count;
  if (!tni_mask_is_int(v->pub.dtype) || v->pub.rank != 1) return NULL;
  if (!tni_mask_elems(m, n->pub.in[0], &start, 1, &count) || count != 1) return NULL;
  if (!tni_mask_elems(m, n->pub.in[2], &step, 1, &count) || count != 1) return NULL;
  tni_mtab *t = tni_mtab_new(m, 1, v->pub.dims, v->pub.dtype, 0);
  if (!t) return NULL;
  t->leaf[0] = (tni_mleaf){.kind = TNI_MLEAF_INT, .f = tni_mform_axis(m, 0, step), .src = TN_NONE};
  t->leaf[0].f.k = start;
  tni_mform_trim(m, &t->leaf[0].f, 1, t->dims);
  return t;
}

static tni_mtab *filled_table(tni_mask *m, const tni_node *n, const tni_value *v) {
  const tni_tensor *c = tni_attr_tensor(&n->pub, "value");
  const uint32_t d = v->pub.dtype;
  double value = 0;
  float f;
  if (v->pub.rank == TNI_RANK_UNKNOWN) return NULL;
  if (c && c->data && (d == TN_DT_F32 || d == TN_DT_F16 || d == TN_DT_BF16)) {
    tni_tensor_to_f32(c, 0, 1, &f);
    value = (double)f;
  } else if (c && c->data && (d == TN_DT_BOOL || tni_mask_is_int(d))) {
    int64_t i;
    tni_tensor_to_i64(c, 0, 1, &i);
    value = (double)i;
    if (i > INT32_MAX || i < -INT32_MAX) return NULL;
  } else if (c) {
    return NULL;
  }
  tni_mtab *t = value == value ? tni_mtab_new(m, v->pub.rank, v->pub.dims, d, 0) : NULL;
  if (t) t->leaf[0] = tni_mleaf_of(m, d, value);
  return t;
}

static const tni_mtab *element_wise(tni_mask *m, const tni_node *n, const tni_value *v) {
  const tni_mtab *in[TNI_MASK_INPUTS];
  if (n->pub.n_in > TNI_MASK_INPUTS || v->pub.rank == TNI_RANK_UNKNOWN) return NULL;
  if ((n->pub.op == TN_OP_MIN || n->pub.op == TN_OP_MAX) && n->pub.n_in != 2) return NULL;
  for (uint32_t d = 0; d < v->pub.rank; d++)
    if (v->pub.dims[d] == TNI_EXPR_NONE) return NULL;
  for (uint32_t i = 0; i < n->pub.n_in; i++) {
    const tni_mtab *t = n->pub.in[i] == TN_NONE ? NULL : tni_mask_read(m, n->pub.in[i]);
    if (!t || !(in[i] = tni_mtab_stretch(m, t, v->pub.rank, v->pub.dims))) return NULL;
  }
  return tni_mtab_combine(m, n->pub.out[0], in, n->pub.n_in, tni_mleaf_apply, n);
}

/* The inputs that a node's table is made from: [*first, *end). */
static void inputs_of(const tni_node *n, uint32_t *first, uint32_t *end) {
  const uint32_t op = n->pub.op;
  *first = op == TN_OP_SCATTER_ND;
  *end = op == TN_OP_CONCAT                            ? n->pub.n_in
         : op == TN_OP_GATHER || op == TN_OP_GATHER_ND ? 2
         : op == TN_OP_SCATTER_ND                      ? 3
                                                       : 1;
}

/* Nodes that move elements or take them by index: their inputs are read here, so that the rules need not come back. */
static const tni_mtab *moved_table(tni_mask *m, const tni_node *n, const tni_value *v) {
  const tni_mtab *in[TNI_MASK_ATOMS] = {NULL};
  uint32_t first, end;
  inputs_of(n, &first, &end);
  if (v->pub.rank == TNI_RANK_UNKNOWN || end > TNI_MASK_ATOMS || end > n->pub.n_in) return NULL;
  for (uint32_t i = first; i < end; i++)
    if (!(in[i] = tni_mask_read(m, n->pub.in[i]))) return NULL;
  switch (n->pub.op) {
    case TN_OP_GATHER:
    case TN_OP_GATHER_ND:
    case TN_OP_SCATTER_ND:
      return tni_mask_index(m, n, in);
    default:
      return tni_mask_move(m, n, in);
  }
}

static const tni_mtab *of_node(tni_mask *m, const tni_node *n) {
  const tni_value *v = m->g->values[n->pub.out[0]];
  if (tni_mleaf_knows(n->pub.op)) return element_wise(m, n, v);
  if (n->pub.op == TN_OP_RANGE) return range_node(m, n, v);
  if (n->pub.op == TN_OP_CONSTANT_OF_SHAPE) return filled_table(m, n, v);
  return moved_table(m, n, v);
}

static bool is_move(uint32_t op) {
  switch (op) {
    case TN_OP_RESHAPE:
    case TN_OP_FLATTEN:
    case TN_OP_SQUEEZE:
    case TN_OP_UNSQUEEZE:
    case TN_OP_TRANSPOSE:
    case TN_OP_EXPAND:
    case TN_OP_TILE:
    case TN_OP_SLICE:
    case TN_OP_CONCAT:
    case TN_OP_TRILU:
    case TN_OP_RANGE:
    case TN_OP_CONSTANT_OF_SHAPE:
    case TN_OP_GATHER:
    case TN_OP_GATHER_ND:
    case TN_OP_SCATTER_ND:
      return true;
    default:
      return tni_mleaf_knows(op);
  }
}

static const tni_mtab *find_table(tni_mask *m, tn_id id) {
  const tni_value *v = m->g->values[id];
  if (v->pub.kind == TN_VALUE_CONST) return tni_mask_const(m, id);
  if (v->elems) return known_table(m, id);
  if (v->pub.producer >= m->g->n_nodes || v->out_index) return NULL;
  const tni_node *n = m->g->nodes[v->pub.producer];
  if (n->dead || !n->op || !is_move(n->pub.op) || m->depth >= TNI_MASK_DEPTH) return NULL;
  m->depth++;
  const tni_mtab *t = of_node(m, n);
  m->depth--;
  return t;
}

const tni_mtab *tni_mask_read(tni_mask *m, tn_id id) {
  if (id >= m->n_values) return NULL;
  if (m->read[id]) return m->memo[id];
  const tni_mtab *t = find_table(m, id);
  if (!t) t = tni_mask_opaque(m, id);
  m->read[id] = true;
  return m->memo[id] = t;
}
