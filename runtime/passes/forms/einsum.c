/* SPDX-License-Identifier: Apache-2.0
 *
 * einsum:  Einsum of two operands that is a product of matrices  ->  MatMul, with Transpose and Reshape around it.
 *
 * Every label is one of four kinds: of both operands and the result (batch), of one operand and the result (rows,
 * columns), of both operands (summed); there is one of each but batch. Columns are those of a constant, else of the
 * operand that bears the result's last label. Several labels of a kind are joined, without a batch rows stay apart.
 * Constants keep their bytes where their axes stand in order.
 *
 * Keeps: the value, name and shape of the node, up to rounding. Labels that stand twice in one operand or are summed in
 * one alone, and dims that are not proved equal, stay an Einsum.
 */
#include <string.h>

#include "runtime/passes/build/build.h"
#include "runtime/passes/forms/forms.h"
#include "runtime/shape/dims/dims.h"

/* An operand's axes by label, in the order of its matrices. */
typedef struct order {
  uint8_t label[TN_MAX_RANK];
  uint32_t n;
} order;

typedef struct einsum_product {
  tni_graph *g;
  tni_einsum e;
  tn_id in[2];    /* rows, columns */
  uint32_t at[2]; /* which operand of the node each is */
  tn_expr dim[TNI_EINSUM_MAX_LABELS];
  order batch, rows, cols, sum;
  tn_error *err;
} einsum_product;

static bool bears_label(const tni_einsum *e, uint32_t i, uint32_t l, uint32_t *axis) {
  for (*axis = 0; *axis < e->rank[i]; ++*axis)
    if (e->label[i][*axis] == l) return true;
  return false;
}

/* Dims of all labels, the same wherever one stands, and none twice in an operand. */
static bool take_dims(einsum_product *p, const tni_node *n) {
  const tni_einsum *e = &p->e;
  for (uint32_t l = 0; l < e->n_labels; l++) p->dim[l] = TNI_EXPR_NONE;
  for (uint32_t i = 0; i < 2; i++)
    for (uint32_t d = 0; d < e->rank[i]; d++) {
      const uint32_t l = e->label[i][d];
      const tn_expr dim = p->g->values[n->pub.in[i]]->pub.dims[d];
      uint32_t first;
      if (!bears_label(e, i, l, &first) || first != d || (p->dim[l] != TNI_EXPR_NONE && p->dim[l] != dim)) return false;
      p->dim[l] = dim;
    }
  return true;
}

static void put_label(order *o, uint32_t l) { o->label[o->n++] = (uint8_t)l; }

/* Labels by kind: those of the result in its order, what is summed in that of the columns' operand. */
static bool sort_labels(einsum_product *p) {
  const tni_einsum *e = &p->e;
  uint32_t d;
  for (uint32_t l = 0; l < e->n_out; l++) {
    const bool r = bears_label(e, p->at[0], l, &d), c = bears_label(e, p->at[1], l, &d);
    put_label(r && c ? &p->batch : r ? &p->rows : &p->cols, l);
  }
  for (d = 0; d < e->rank[p->at[1]]; d++) {
    const uint32_t l = e->label[p->at[1]][d];
    uint32_t other;
    if (l < e->n_out) continue;
    if (!bears_label(e, p->at[0], l, &other)) return false;
    put_label(&p->sum, l);
  }
  return p->e.n_labels == p->e.n_out + p->sum.n && p->sum.n && p->batch.n + 2 <= TN_MAX_RANK && p->rows.n &&
         p->rows.n + 1 <= TN_MAX_RANK && p->cols.n;
}

static tn_expr joined_dims(const einsum_product *p, const order *o) {
  tn_expr all = tni_ex_const(p->g->exprs, 1);
  for (uint32_t i = 0; i < o->n; i++) all = tni_ex_mul(p->g->exprs, all, p->dim[o->label[i]]);
  return all;
}

static bool find_einsum(einsum_product *p, const tni_node *n) {
  tni_graph *g = p->g;
  uint32_t rank[2], d;
  if (n->pub.n_in != 2 || n->pub.in[0] == TN_NONE || n->pub.in[1] == TN_NONE) return false;
  const uint32_t t = g->values[n->pub.in[0]]->pub.dtype;
  if (t != TN_DT_F32 && t != TN_DT_F16 && t != TN_DT_BF16 && t != TN_DT_F64) return false;
  for (uint32_t i = 0; i < 2; i++) {
    rank[i] = g->values[n->pub.in[i]]->pub.rank;
    if (rank[i] > TN_MAX_RANK || !tni_match_rank(g, n->pub.in[i], rank[i])) return false;
  }
  if (tni_einsum_read(tni_attr_s(&n->pub, "equation", NULL), rank, 2, &p->e)) return false;
  if (!take_dims(p, n) || p->e.n_out > TN_MAX_RANK) return false;
  const bool fixed = g->values[n->pub.in[0]]->pub.kind == TN_VALUE_CONST;
  const bool one = fixed != (g->values[n->pub.in[1]]->pub.kind == TN_VALUE_CONST);
  const bool swap = one ? fixed : p->e.n_out && !bears_label(&p->e, 1, p->e.n_out - 1, &d);
  for (uint32_t i = 0; i < 2; i++) p->in[i] = n->pub.in[p->at[i] = i ^ swap];
  return sort_labels(p) && joined_dims(p, &p->rows) != TNI_EXPR_NONE && joined_dims(p, &p->cols) != TNI_EXPR_NONE &&
         joined_dims(p, &p->sum) != TNI_EXPR_NONE;
}

static void append_labels(order *to, const order *o) {
  for (uint32_t i = 0; i < o->n; i++) put_label(to, o->label[i]);
}

/* v, whose axes bear `from`, with its axes as `to` has them. */
static tn_id moved_operand(const einsum_product *p, tn_id v, const order *from, const order *to) {
  int64_t perm[TN_MAX_RANK];
  tn_expr dims[TN_MAX_RANK];
  bool same = true;
  for (uint32_t d = 0; d < to->n; d++) {
    for (perm[d] = 0; from->label[perm[d]] != to->label[d];) perm[d]++;
    dims[d] = p->dim[to->label[d]];
    same = same && perm[d] == d;
  }
  if (same) return v;
  tni_build_node b = {.type = "Transpose", .version = 13, .in = {v}, .n_in = 1, .n_attr = 1};
  b.attr[0] = tni_raw_ints("perm", perm, to->n);
  return tni_build_op(p->g, &b, p->g->values[v]->pub.dtype, to->n, dims, p->err);
}

static tn_id reshaped_operand(const einsum_product *p, tn_id v, const tn_expr *dims, uint32_t rank) {
  tni_graph *g = p->g;
  const tn_value *x = v == TN_NONE ? NULL : &g->values[v]->pub;
  int64_t sizes[TN_MAX_RANK];
  bool fixed = x && x->kind == TN_VALUE_CONST;
  if (!x || (x->rank == rank && memcmp(x->dims, dims, rank * sizeof *dims) == 0)) return v;
  for (uint32_t d = 0; d < rank; d++) fixed = fixed && tni_ex_is_const(g->exprs, dims[d], &sizes[d]);
  if (fixed) {
    const tn_id view = tni_build_view(g, v, rank, sizes);
    if (view != TN_NONE) return view;
  }
  tni_build_node b = {
      .type = "Reshape", .version = 21, .in = {v, tni_build_elems(g, dims, rank)}, .n_in = 2, .n_attr = 1};
  b.attr[0] = tni_raw_int("allowzero", 1);
  return b.in[1] == TN_NONE ? TN_NONE : tni_build_op(g, &b, x->dtype, rank, dims, p->err);
}

/* Operand i as matrices [batch.., a, b]; rows without a batch stay apart: [rows.., sum]. */
static tn_id einsum_matrices(const einsum_product *p, uint32_t i, const order *a, const order *b) {
  order from = {.n = p->e.rank[p->at[i]]}, to = p->batch;
  tn_expr dims[TN_MAX_RANK + 2];
  uint32_t rank = 0;
  memcpy(from.label, p->e.label[p->at[i]], from.n);
  append_labels(&to, a);
  append_labels(&to, b);
  const tn_id v = moved_operand(p, p->in[i], &from, &to);
  const bool apart = i == 0 && !p->batch.n;
  for (uint32_t d = 0; d < p->batch.n; d++) dims[rank++] = p->dim[p->batch.label[d]];
  for (uint32_t d = 0; apart && d < a->n; d++) dims[rank++] = p->dim[a->label[d]];
  if (!apart) dims[rank++] = joined_dims(p, a);
  dims[rank++] = joined_dims(p, b);
  return reshaped_operand(p, v, dims, rank);
}

static tn_status rewrite_einsum(einsum_product *p, tni_node *last, tn_error *err) {
  tni_graph *g = p->g;
  const uint32_t t = g->values[last->pub.out[0]]->pub.dtype;
  tni_build_node b = {.type = "MatMul", .version = 13, .n_in = 2};
  order got = p->batch, want = {.n = p->e.n_out};
  tn_expr dims[TN_MAX_RANK], made[TN_MAX_RANK + 2];
  b.in[0] = einsum_matrices(p, 0, &p->rows, &p->sum);
  b.in[1] = einsum_matrices(p, 1, &p->sum, &p->cols);
  append_labels(&got, &p->rows);
  append_labels(&got, &p->cols);
  for (uint32_t d = 0; d < got.n; d++) dims[d] = p->dim[got.label[d]];
  for (uint32_t d = 0; d < want.n; d++) want.label[d] = (uint8_t)d;
  const bool apart = !p->batch.n;
  uint32_t rank = apart ? p->rows.n : p->batch.n;
  memcpy(made, dims, rank * sizeof *made);
  if (!apart) made[rank++] = joined_dims(p, &p->rows);
  made[rank++] = joined_dims(p, &p->cols);
  if (b.in[0] == TN_NONE || b.in[1] == TN_NONE) return tni_fail_memory(err, "einsum");
  tn_id v = reshaped_operand(p, tni_build_op(g, &b, t, rank, made, err), dims, got.n);
  if (v != TN_NONE) v = moved_operand(p, v, &got, &want);
  if (v == TN_NONE) return tni_fail_memory(err, "einsum");
  tni_build_node same = {.type = "Identity", .version = 16, .in = {v}, .n_in = 1};
  return tni_build_in_place(g, last, &same, err);
}

tn_status tni_pass_einsum(tni_graph *g, uint32_t *n, tn_error *err) {
  const uint32_t n_nodes = g->n_nodes;
  uint32_t fired = 0;
  for (uint32_t i = 0; i < n_nodes; i++) {
    tni_node *last = g->nodes[i];
    einsum_product p = {.g = g, .err = err};
    if (last->dead || !last->op || last->pub.op != TN_OP_EINSUM || !find_einsum(&p, last)) continue;
    const tn_status st = rewrite_einsum(&p, last, err);
    if (st != TN_OK) return st;
    fired++;
  }
  return tni_build_done(g, fired, n, err);
}
