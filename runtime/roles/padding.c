/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/roles/padding.h"

#include <stdio.h>

#include "runtime/shape/shape.h"

enum { NO_ROWS = 0 }; /* else 1 + axis */

typedef struct prover {
  const tni_graph *g;
  uint64_t step, past; /* masks of the symbols */
  uint8_t *rows;       /* [n_values]: the axis that rows lie on, innermost in it where it is longer */
} prover;

static const tni_value *proved_value(const prover *p, tn_id v) { return v == TN_NONE ? NULL : p->g->values[v]; }
static tn_id given_input(const tni_node *n, uint32_t i) { return i < n->pub.n_in ? n->pub.in[i] : TN_NONE; }
static uint32_t rows_of(const prover *p, tn_id v) { return v == TN_NONE ? NO_ROWS : p->rows[v]; }
static bool has_rank(const tni_value *v) { return v && v->pub.rank <= TN_MAX_RANK; }

/* A length that grows with the run alone; that of the context does with both. */
static bool mentions_rows(const prover *p, tn_expr e) {
  if (e == TNI_EXPR_NONE) return true;
  const uint64_t s = tni_ex_symbols(p->g->exprs, e);
  return (s & p->step) && !(s & p->past);
}

/* The one axis of v whose length is of the run; NO_ROWS: none; UINT32_MAX: several. */
static uint32_t axis_by_dims(const prover *p, const tni_value *v) {
  uint32_t found = NO_ROWS;
  for (uint32_t a = 0; has_rank(v) && a < v->pub.rank; a++) {
    if (!mentions_rows(p, v->pub.dims[a])) continue;
    if (found) return UINT32_MAX;
    found = a + 1;
  }
  return found;
}

/* Sets the rows of output o; false: its dims say otherwise. */
static bool put_rows_of(const prover *p, const tni_node *n, uint32_t o, uint32_t rows) {
  const tn_id v = o < n->pub.n_out ? n->pub.out[o] : TN_NONE;
  if (v == TN_NONE) return true;
  if (!has_rank(proved_value(p, v)) || axis_by_dims(p, proved_value(p, v)) != rows) return false;
  p->rows[v] = (uint8_t)rows;
  return true;
}

/* The same axis counted from the end. */
static uint32_t from_end(uint32_t rows, const tni_value *from, const tni_value *to) {
  const uint32_t back = from->pub.rank - (rows - 1);
  return back > to->pub.rank ? NO_ROWS : to->pub.rank - back + 1;
}

/* All operands broadcast against the outputs: rows meet rows only. */
static bool prove_broadcast(const prover *p, const tni_node *n) {
  for (uint32_t o = 0; o < n->pub.n_out; o++) {
    const tni_value *y = proved_value(p, n->pub.out[o]);
    if (!y) continue;
    const uint32_t rows = axis_by_dims(p, y);
    for (uint32_t i = 0; i < n->pub.n_in; i++) {
      const tni_value *x = proved_value(p, n->pub.in[i]);
      if (rows_of(p, n->pub.in[i]) && from_end(rows_of(p, n->pub.in[i]), x, y) != rows) return false;
    }
    if (!put_rows_of(p, n, o, rows)) return false;
  }
  return true;
}

/* Products along the last axis: rows of the first operand; the others have none, or stand beside the result's. Columns
 * of a second one stay columns. */
static bool prove_product(const prover *p, const tni_node *n) {
  const uint32_t rows = rows_of(p, given_input(n, 0));
  const tni_value *x = proved_value(p, given_input(n, 0)), *b = proved_value(p, given_input(n, 1));
  if (n->pub.op == TN_OP_MATMUL && !rows && rows_of(p, given_input(n, 1)) &&
      rows_of(p, given_input(n, 1)) == b->pub.rank)
    return put_rows_of(p, n, 0, proved_value(p, n->pub.out[0])->pub.rank);
  if (!rows || rows == x->pub.rank || rows_of(p, given_input(n, 1))) return false;
  if (n->pub.op == TN_OP_GEMM && (tni_attr_i(&n->pub, "transA", 0) || rows != 1)) return false;
  for (uint32_t o = 0; o < n->pub.n_out; o++) {
    const tni_value *y = proved_value(p, n->pub.out[o]);
    if (!y) continue;
    const uint32_t at = from_end(rows, x, y);
    for (uint32_t i = 2; i < n->pub.n_in; i++)
      if (rows_of(p, n->pub.in[i]) && from_end(rows_of(p, n->pub.in[i]), proved_value(p, n->pub.in[i]), y) != at)
        return false;
    if (!put_rows_of(p, n, o, at)) return false;
  }
  return true;
}

static int64_t axis_of(const tni_node *n, const tni_value *x, int64_t dflt) {
  const int64_t a = tni_attr_i(&n->pub, "axis", dflt);
  return a < 0 ? a + x->pub.rank : a;
}

/* Along axes after the rows, or along one other axis. */
static bool prove_normalization(const prover *p, const tni_node *n, bool one) {
  const tni_value *x = proved_value(p, given_input(n, 0));
  const uint32_t rows = rows_of(p, given_input(n, 0));
  const int64_t axis = axis_of(n, x, -1);
  if (!rows || tni_attr_i(&n->pub, "coerce_2d", 0) || (one ? axis == rows - 1 : axis < rows)) return false;
  for (uint32_t i = 1; i < n->pub.n_in; i++)
    if (rows_of(p, n->pub.in[i])) return false;
  for (uint32_t o = 0; o < n->pub.n_out; o++)
    if (!put_rows_of(p, n, o, rows)) return false;
  return true;
}

static tn_expr elements_after(const prover *p, const tni_value *v, uint32_t axis) {
  tn_expr e = tni_ex_const(p->g->exprs, 1);
  for (uint32_t a = axis + 1; a < v->pub.rank; a++) e = tni_ex_mul(p->g->exprs, e, v->pub.dims[a]);
  return e;
}

/* Elements keep their places: rows are where as many elements lie after them. */
static bool prove_reshape(const prover *p, const tni_node *n) {
  const tni_value *x = proved_value(p, given_input(n, 0)), *y = proved_value(p, n->pub.out[0]);
  const uint32_t rows = rows_of(p, given_input(n, 0)), to = axis_by_dims(p, y);
  return rows && has_rank(y) && to != UINT32_MAX && to &&
         elements_after(p, x, rows - 1) == elements_after(p, y, to - 1) && put_rows_of(p, n, 0, to);
}

static bool prove_transpose(const prover *p, const tni_node *n) {
  const int64_t *perm;
  const uint32_t rows = rows_of(p, given_input(n, 0)), rank = proved_value(p, given_input(n, 0))->pub.rank;
  const uint32_t k = tni_attr_ints(&n->pub, "perm", &perm);
  for (uint32_t a = 0; rows && a < rank; a++)
    if ((k == rank ? perm[a] : (int64_t)(rank - 1 - a)) == rows - 1) return put_rows_of(p, n, 0, a + 1);
  return false;
}

/* Concat and Split along another axis. */
static bool prove_beside(const prover *p, const tni_node *n, int64_t dflt) {
  uint32_t rows = NO_ROWS;
  for (uint32_t i = 0; i < n->pub.n_in; i++) {
    const uint32_t r = rows_of(p, n->pub.in[i]);
    if (rows && r && r != rows) return false;
    if (r) rows = r;
  }
  const tni_value *x = proved_value(p, given_input(n, 0));
  if (!rows || axis_of(n, x, dflt) == rows - 1) return false;
  for (uint32_t o = 0; o < n->pub.n_out; o++)
    if (!put_rows_of(p, n, o, rows)) return false;
  return true;
}

/* The constant axes that input `at` names do not include the rows'. */
static bool avoids_rows(const prover *p, const tni_node *n, uint32_t at) {
  const tni_value *x = proved_value(p, given_input(n, 0)), *axes = proved_value(p, given_input(n, at));
  if (!axes || axes->pub.kind != TN_VALUE_CONST || !axes->tensor || axes->tensor->dtype != TN_DT_I64) return false;
  for (uint64_t k = 0; k < axes->tensor->bytes / sizeof(int64_t); k++) {
    const int64_t a = ((const int64_t *)axes->tensor->data)[k];
    if ((a < 0 ? a + x->pub.rank : a) == rows_of(p, given_input(n, 0)) - 1) return false;
  }
  return true;
}

/* The cut that the pass `last_rows` made: what it leaves are real rows. */
static bool is_last_rows(const prover *p, const tni_node *n) {
  const tni_value *end = proved_value(p, given_input(n, 2));
  tn_id s;
  return end && p->g->rows_end != TN_NONE && end->n_elems == 1 && end->elems &&
         tni_ex_is_sym(p->g->exprs, end->elems[0], &s) && s == p->g->rows_end;
}

static bool prove_slice(const prover *p, const tni_node *n) {
  const uint32_t rows = rows_of(p, given_input(n, 0));
  if (is_last_rows(p, n)) return put_rows_of(p, n, 0, NO_ROWS);
  return rows && avoids_rows(p, n, 3) && put_rows_of(p, n, 0, rows);
}

static bool prove_reduce(const prover *p, const tni_node *n) {
  const uint32_t rows = rows_of(p, given_input(n, 0));
  return rows && tni_attr_i(&n->pub, "keepdims", 1) && avoids_rows(p, n, 1) && put_rows_of(p, n, 0, rows);
}

/* Rows of a table by the rows of the indices, or another axis of what has rows. */
static bool prove_gather(const prover *p, const tni_node *n) {
  const tni_value *x = proved_value(p, given_input(n, 0)), *at = proved_value(p, given_input(n, 1));
  const uint32_t data = rows_of(p, given_input(n, 0)), index = rows_of(p, given_input(n, 1));
  const int64_t axis = axis_of(n, x, 0);
  if (!has_rank(at) || (data && index)) return false;
  if (index) return put_rows_of(p, n, 0, (uint32_t)axis + index);
  if (!data || axis == data - 1) return false;
  return put_rows_of(p, n, 0, data - 1 < axis ? data : data + at->pub.rank - 1);
}

/* Every operand has an axis of rows of its own, and stays on it; positions may come along. */
static bool prove_rotary(const prover *p, const tni_node *n) {
  return rows_of(p, given_input(n, 0)) &&
         rows_of(p, given_input(n, 0)) != proved_value(p, given_input(n, 0))->pub.rank &&
         put_rows_of(p, n, 0, rows_of(p, given_input(n, 0)));
}

enum { MASK = 3, NONPAD = 6 };

static bool prove_attention(const prover *p, const tni_node *n) {
  const tni_value *k = proved_value(p, given_input(n, 1)), *v = proved_value(p, given_input(n, 2)),
                  *q = proved_value(p, given_input(n, 0));
  const uint32_t rows = rows_of(p, given_input(n, 0));
  if (!rows || rows != (q->pub.rank == 3 ? 2u : 3u) || !k || !v) return false;
  if (k->pub.kind != TN_VALUE_STATE || v->pub.kind != TN_VALUE_STATE || given_input(n, NONPAD) == TN_NONE) return false;
  for (uint32_t o = 1; o < n->pub.n_out; o++)
    if (n->pub.out[o] != TN_NONE && proved_value(p, n->pub.out[o])->pub.n_uses) return false;
  return tni_attr_i(&n->pub, "is_causal", 0) == 1 && put_rows_of(p, n, 0, rows);
}

static bool prove_scatter(const prover *p, const tni_node *n) {
  const tni_value *x = proved_value(p, given_input(n, 1));
  return proved_value(p, given_input(n, 0))->pub.kind == TN_VALUE_STATE &&
         rows_of(p, given_input(n, 1)) == (x->pub.rank == 3 ? 2u : 3u);
}

static bool prove_node(const prover *p, const tni_node *n) {
  if (!n->op || n->n_captures) return false;
  if (n->op->flags & TNI_OPF_ELEMENTWISE) return prove_broadcast(p, n);
  switch (n->pub.op) {
    case TN_OP_ELEMENTWISE:
    case TN_OP_EXPAND:
      return prove_broadcast(p, n);
    case TN_OP_MATMUL:
    case TN_OP_GEMM:
    case TN_OP_FUSED_MATMUL:
      return prove_product(p, n);
    case TN_OP_LAYER_NORMALIZATION:
    case TN_OP_RMS_NORMALIZATION:
    case TN_OP_TENON_LAYER_NORMALIZATION:
    case TN_OP_TENON_RMS_NORMALIZATION:
      return prove_normalization(p, n, false);
    case TN_OP_SOFTMAX:
    case TN_OP_LOG_SOFTMAX:
      return prove_normalization(p, n, true);
    case TN_OP_RESHAPE:
    case TN_OP_SQUEEZE:
    case TN_OP_UNSQUEEZE:
    case TN_OP_FLATTEN:
      return prove_reshape(p, n);
    case TN_OP_TRANSPOSE:
      return prove_transpose(p, n);
    case TN_OP_CONCAT_HEADS:
      return prove_beside(p, n, -1);
    case TN_OP_CONCAT:
    case TN_OP_SPLIT:
      return prove_beside(p, n, 0);
    case TN_OP_SLICE:
      return prove_slice(p, n);
    case TN_OP_REDUCE_SUM:
    case TN_OP_REDUCE_MEAN:
    case TN_OP_REDUCE_MAX:
    case TN_OP_REDUCE_MIN:
    case TN_OP_REDUCE_L2:
      return prove_reduce(p, n);
    case TN_OP_GATHER:
      return prove_gather(p, n);
    case TN_OP_ROTARY_EMBEDDING:
      return prove_rotary(p, n);
    case TN_OP_ATTENTION:
    case TN_OP_TENON_ATTENTION:
      return prove_attention(p, n);
    case TN_OP_TENSOR_SCATTER:
      return prove_scatter(p, n);
    default:
      return false;
  }
}

/* Nothing of the run's rows comes in or goes out: shapes and constants. */
static bool has_no_part(const prover *p, const tni_node *n) {
  for (uint32_t i = 0; i < n->pub.n_in; i++)
    if (rows_of(p, n->pub.in[i])) return false;
  for (uint32_t o = 0; o < n->pub.n_out; o++) {
    const tni_value *y = proved_value(p, n->pub.out[o]);
    if (y && (!has_rank(y) || axis_by_dims(p, y))) return false;
  }
  return !n->n_captures;
}

static const char *say_refusal(tni_arena *arena, const char *fmt, const char *name) {
  char text[200];
  snprintf(text, sizeof text, fmt, name);
  const char *kept = tni_arena_strdup(arena, text);
  return kept ? kept : "out of memory";
}

/* A number that is read and computed from the run's length. */
static bool counts_rows(const prover *p, tn_id id) {
  const tni_value *v = p->g->values[id];
  if (v->pub.kind != TN_VALUE_STEP || !tni_step_is_read(p->g, id)) return false;
  for (uint32_t i = 0; v->elems && i < v->n_elems; i++)
    if (mentions_rows(p, v->elems[i])) return true;
  return false;
}

static bool is_context(const tni_graph *g, const tni_roles *r, tn_id v) {
  for (uint32_t i = 0; i < g->n_inputs; i++)
    if (g->inputs[i] == v) return r->kinds[i] == TNI_IN_CONTEXT;
  return false;
}

const char *tni_padding_refusal(const tni_graph *g, const tni_roles *r, tni_arena *arena) {
  prover p = {
      .g = g, .step = tni_ex_symbols(g->exprs, r->step), .rows = TNI_NEW_ARRAY(arena, uint8_t, g->n_values + 1)};
  tn_id step;
  if (!p.rows) return "out of memory";
  if (!tni_ex_is_sym(g->exprs, r->step, &step) || step >= 63 || r->past >= 63)
    return "the length of a run is no symbol of its own";
  p.past = UINT64_C(1) << r->past;
  for (uint32_t i = 0; i < g->n_values; i++) {
    const tni_value *v = g->values[i];
    const uint32_t rows = axis_by_dims(&p, v);
    if (counts_rows(&p, i))
      return say_refusal(arena, "'%s' is a number computed from the length of a run", v->pub.name);
    if (v->pub.kind != TN_VALUE_INPUT || is_context(g, r, i)) continue;
    if (!has_rank(v) || rows == UINT32_MAX)
      return say_refusal(arena, "input '%s' has several axes of the run's length", v->pub.name);
    p.rows[i] = (uint8_t)rows;
  }
  for (uint32_t i = 0; i < g->n_nodes; i++)
    if (!has_no_part(&p, g->nodes[i]) && !prove_node(&p, g->nodes[i]))
      return say_refusal(arena, "'%s' may mix the rows of a run", g->nodes[i]->pub.name);
  for (uint32_t i = 0; i < g->n_outputs; i++) {
    const tni_value *v = g->values[g->outputs[i]];
    const uint32_t rows = p.rows[g->outputs[i]];
    if (rows && v->pub.dims[rows - 1] != r->step) /* the session cuts padded rows off an axis of their own */
      return say_refusal(arena, "output '%s' has rows of a run beside others", v->pub.name);
  }
  return NULL;
}
