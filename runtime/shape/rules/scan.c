/* SPDX-License-Identifier: Apache-2.0
 *
 * Scan: what goes from turn to turn keeps its shape ("required to have the same shape in each iteration", ONNX), so the
 * results are as large as the initial values, and what is stacked has a slice for each entry of the scanned axis. Dims
 * of a slice are found by the rules of the body's nodes, its inputs being what one turn reads. What a body says of
 * itself in the file is not read. A body that does not fit is no error here: it may never run.
 */
#include <string.h>

#include "runtime/shape/rules/table.h"

typedef struct scan {
  const tni_node *n;
  tni_graph *body;
  uint32_t n_carried, n_scanned;
} scan;

static int64_t int_at(const tni_node *n, const char *name, uint32_t i) {
  const int64_t *v;
  return i < tni_attr_ints(&n->pub, name, &v) ? v[i] : 0;
}

/* dims of x without the axis; NULL: they are not known. */
static const tn_expr *slice_dims(const tni_infer *in, const tni_value *x, int64_t at) {
  uint32_t axis;
  if (!x || !tni_rule_axis(at, x->pub.rank, &axis)) return NULL;
  tn_expr *dims = TNI_NEW_ARRAY(in->g->arena, tn_expr, x->pub.rank);
  if (!dims) return NULL;
  for (uint32_t d = 0; d + 1 < x->pub.rank; d++) dims[d] = x->pub.dims[d < axis ? d : d + 1];
  return dims;
}

/* dims NULL and rank above 0: not known. */
static void tell(tni_value *v, uint32_t dtype, const tn_expr *dims, uint32_t rank) {
  v->pub.rank = dims || !rank ? rank : TNI_RANK_UNKNOWN;
  v->pub.dims = dims;
  if (v->pub.dtype == TN_DT_UNDEFINED) v->pub.dtype = dtype;
}

/* What one turn reads: carried values, slices, and what the body takes from around it. Elements of the latter are the
 * same in all turns. */
static void tell_body(const tni_infer *in, const scan *s) {
  for (uint32_t i = 0; i < s->body->n_values; i++) {
    tni_value *v = s->body->values[i];
    const tni_value *up = v->captured == TN_NONE ? NULL : in->g->values[v->captured];
    if (!up) continue;
    tell(v, up->pub.dtype, up->pub.dims, up->pub.rank);
    v->elems = up->elems;
    v->n_elems = up->n_elems;
  }
  for (uint32_t i = 0; i < s->body->n_inputs; i++) {
    const tni_value *x = tni_rule_ranked(in, i);
    tni_value *v = s->body->values[s->body->inputs[i]];
    const tn_expr *slice =
        i < s->n_carried ? NULL : slice_dims(in, x, int_at(s->n, "scan_input_axes", i - s->n_carried));
    const bool known = x && (i < s->n_carried || slice);
    const uint32_t rank = !known ? TNI_RANK_UNKNOWN : i < s->n_carried ? x->pub.rank : x->pub.rank - 1;
    tell(v, x ? x->pub.dtype : TN_DT_UNDEFINED, !known ? NULL : slice ? slice : x->pub.dims, rank);
  }
}

/* Whether the body gives the shape that goes in, as far as one can tell. */
static bool may_be_same(const tni_infer *in, const tni_value *a, const tni_value *b) {
  int64_t m, n;
  if (a->pub.rank == TNI_RANK_UNKNOWN || b->pub.rank == TNI_RANK_UNKNOWN) return true;
  if (a->pub.rank != b->pub.rank) return false;
  for (uint32_t d = 0; d < a->pub.rank; d++)
    if (a->pub.dims[d] != TNI_EXPR_NONE && b->pub.dims[d] != TNI_EXPR_NONE &&
        tni_ex_is_const(in->x, a->pub.dims[d], &m) && tni_ex_is_const(in->x, b->pub.dims[d], &n) && m != n)
      return false;
  return true;
}

/* Entries of the scanned axis: turns. */
static tn_expr length_of(const tni_infer *in, const scan *s) {
  uint32_t axis;
  for (uint32_t i = 0; i < s->n_scanned; i++) {
    const tni_value *x = tni_rule_ranked(in, s->n_carried + i);
    if (x && tni_rule_axis(int_at(s->n, "scan_input_axes", i), x->pub.rank, &axis) &&
        x->pub.dims[axis] != TNI_EXPR_NONE)
      return x->pub.dims[axis];
  }
  return TNI_EXPR_NONE;
}

static tn_status set_stacked(tni_infer *in, const scan *s, uint32_t o, uint32_t dtype) {
  const tni_value *one = s->body->values[s->body->outputs[o]];
  tn_expr dims[TN_MAX_RANK];
  uint32_t axis;
  if (one->pub.rank >= TN_MAX_RANK ||
      !tni_rule_axis(int_at(s->n, "scan_output_axes", o - s->n_carried), one->pub.rank + 1, &axis))
    return tni_rule_set_unknown(in, o, dtype);
  for (uint32_t d = 0; d <= one->pub.rank; d++)
    dims[d] = d == axis ? length_of(in, s) : one->pub.dims[d < axis ? d : d - 1];
  return tni_rule_set(in, o, dtype, one->pub.rank + 1, dims);
}

static tn_status set_result(tni_infer *in, const scan *s, uint32_t o) {
  const tni_value *one = s->body->values[s->body->outputs[o]], *first = tni_rule_ranked(in, o),
                  *v = tni_rule_out(in, o);
  if (!v) return TN_OK;
  const uint32_t dtype = v->pub.dtype != TN_DT_UNDEFINED ? v->pub.dtype : one->pub.dtype;
  if (o >= s->n_carried) return set_stacked(in, s, o, dtype);
  if (!first || !may_be_same(in, first, one)) return tni_rule_set_unknown(in, o, dtype);
  return tni_rule_set(in, o, dtype, first->pub.rank, first->pub.dims);
}

tn_status tni_shape_scan(tni_infer *in) {
  const tni_node *n = in->node;
  const tn_attr *a = tni_attr(&n->pub, "body");
  const int64_t scanned = tni_attr_i(&n->pub, "num_scan_inputs", 0);
  scan s = {.n = n, .body = a ? (tni_graph *)(uintptr_t)a->u.p : NULL, .n_scanned = (uint32_t)scanned};
  /* Version 8 scans each entry of a batch by itself. */
  if (n->version < 9 || in->concrete || !in->nodes || !s.body || s.body->exprs != in->x || s.body->outer != in->g ||
      scanned < 1 || scanned > n->pub.n_in || s.body->n_inputs != n->pub.n_in || s.body->n_outputs != n->pub.n_out ||
      n->pub.n_out < n->pub.n_in - scanned)
    return tni_shape_control(in);
  s.n_carried = n->pub.n_in - s.n_scanned;
  tell_body(in, &s);
  if (in->nodes(s.body, NULL) != TN_OK) return tni_shape_control(in);
  tn_status st = TN_OK;
  for (uint32_t o = 0; st == TN_OK && o < n->pub.n_out; o++) st = set_result(in, &s, o);
  return st;
}
