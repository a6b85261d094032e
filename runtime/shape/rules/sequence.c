/* SPDX-License-Identifier: Apache-2.0
 *
 * Sequences and optionals. What all elements have in common is followed; how many there are is not.
 */
#include <string.h>

#include "runtime/shape/rules/table.h"

static const tni_type *new_type(const tni_infer *in, tni_type t) {
  tni_type *p = TNI_NEW(in->g->arena, tni_type);
  if (p) *p = t;
  return p;
}

/* What operand i is, as a type. NULL: nothing is known, or no memory. */
static const tni_type *type_of(const tni_infer *in, uint32_t i) {
  const tni_value *v = tni_rule_in(in, i);
  if (!v || v->type) return v ? v->type : NULL;
  return new_type(in, (tni_type){.dtype = v->pub.dtype, .rank = v->pub.rank, .dims = v->pub.dims});
}

/* What is true of tensors of both types. */
static const tni_type *common_type(const tni_infer *in, const tni_type *a, const tni_type *b) {
  if (!a || !b || a->form != b->form || a->form != TNI_FORM_TENSOR) return a && b && a->form == b->form ? a : NULL;
  if (a->rank != b->rank || a->rank > TN_MAX_RANK)
    return new_type(in, (tni_type){.dtype = a->dtype, .rank = TNI_RANK_UNKNOWN});
  tn_expr *dims = TNI_NEW_ARRAY(in->g->arena, tn_expr, a->rank + 1);
  if (!dims) return NULL;
  for (uint32_t d = 0; d < a->rank; d++) dims[d] = a->dims[d] == b->dims[d] ? a->dims[d] : TNI_EXPR_NONE;
  return new_type(in, (tni_type){.dtype = a->dtype, .rank = a->rank, .dims = dims});
}

static tn_status set_group(tni_infer *in, uint32_t o, uint32_t form, const tni_type *elem) {
  const tni_type *t = new_type(in, (tni_type){.form = form, .elem = elem});
  return t ? tni_rule_set_type(in, o, t) : tni_fail_memory(in->err, in->node->pub.name);
}

/* A value of this type as output o; dims that are not common to all elements are the run's. */
static tn_status set_element(tni_infer *in, uint32_t o, const tni_type *t) {
  const tni_value *out = tni_rule_out(in, o);
  tn_expr dims[TN_MAX_RANK];
  if (!t) return out && out->type ? TN_OK : tni_rule_set_unknown(in, o, out ? out->pub.dtype : TN_DT_UNDEFINED);
  if (t->form != TNI_FORM_TENSOR) return tni_rule_set_type(in, o, t);
  if (t->rank > TN_MAX_RANK) return tni_rule_set_unknown(in, o, t->dtype);
  for (uint32_t d = 0; d < t->rank; d++)
    dims[d] = t->dims[d] == TNI_EXPR_NONE ? tni_rule_data_symbol(in, o, d) : t->dims[d];
  return tni_rule_set(in, o, t->dtype, t->rank, dims);
}

static const tni_type *element_of(const tni_infer *in, uint32_t i, uint32_t form) {
  const tni_value *v = tni_rule_in(in, i);
  return v && v->type && v->type->form == form ? v->type->elem : NULL;
}

tn_status tni_shape_sequence_construct(tni_infer *in) {
  const tni_type *t = type_of(in, 0);
  for (uint32_t i = 1; i < in->node->pub.n_in; i++) t = common_type(in, t, type_of(in, i));
  return set_group(in, 0, TNI_FORM_SEQUENCE, t);
}

tn_status tni_shape_sequence_empty(tni_infer *in) {
  const int64_t dtype = tni_attr_i(&in->node->pub, "dtype", TN_DT_F32);
  if (dtype <= 0 || dtype >= TN_DT_COUNT) return tni_rule_fail(in, "dtype %lld", (long long)dtype);
  return set_group(in, 0, TNI_FORM_SEQUENCE,
                   new_type(in, (tni_type){.dtype = (uint32_t)dtype, .rank = TNI_RANK_UNKNOWN}));
}

tn_status tni_shape_sequence_at(tni_infer *in) { return set_element(in, 0, element_of(in, 0, TNI_FORM_SEQUENCE)); }

tn_status tni_shape_sequence_erase(tni_infer *in) {
  return set_group(in, 0, TNI_FORM_SEQUENCE, element_of(in, 0, TNI_FORM_SEQUENCE));
}

tn_status tni_shape_sequence_insert(tni_infer *in) {
  return set_group(in, 0, TNI_FORM_SEQUENCE, common_type(in, element_of(in, 0, TNI_FORM_SEQUENCE), type_of(in, 1)));
}

tn_status tni_shape_sequence_length(tni_infer *in) { return tni_rule_set(in, 0, TN_DT_I64, 0, NULL); }

/* One sequence per output of the body. */
tn_status tni_shape_sequence_map(tni_infer *in) {
  const tn_attr *a = tni_attr(&in->node->pub, "body");
  const tni_graph *body = a ? a->u.p : NULL;
  tn_status st = TN_OK;
  for (uint32_t o = 0; st == TN_OK && o < in->node->pub.n_out; o++) {
    const tni_value *v = body && o < body->n_outputs ? tni_graph_value(body, body->outputs[o]) : NULL;
    const tni_type t = {.dtype = v ? v->pub.dtype : TN_DT_UNDEFINED, .rank = TNI_RANK_UNKNOWN};
    st = set_group(in, o, TNI_FORM_SEQUENCE, t.dtype ? new_type(in, t) : NULL);
  }
  return st;
}

/* Without a second input pieces are one long, and keepdims says whether the axis stays. */
tn_status tni_shape_split_to_sequence(tni_infer *in) {
  const tni_value *v = tni_rule_ranked(in, 0);
  const bool split = in->node->pub.n_in > 1 && in->node->pub.in[1] != TN_NONE;
  const bool keep = split || tni_attr_i(&in->node->pub, "keepdims", 1) != 0;
  tni_type t = {.dtype = tni_rule_in(in, 0) ? tni_rule_in(in, 0)->pub.dtype : TN_DT_UNDEFINED,
                .rank = TNI_RANK_UNKNOWN};
  uint32_t axis, n = 0;
  if (v) {
    tn_expr *dims = TNI_NEW_ARRAY(in->g->arena, tn_expr, v->pub.rank + 1);
    if (!dims) return tni_fail_memory(in->err, in->node->pub.name);
    if (!tni_rule_axis(tni_attr_i(&in->node->pub, "axis", 0), v->pub.rank, &axis))
      return tni_rule_fail(in, "axis %lld", (long long)tni_attr_i(&in->node->pub, "axis", 0));
    for (uint32_t d = 0; d < v->pub.rank; d++) {
      if (d == axis && !keep) continue;
      dims[n++] = d != axis ? v->pub.dims[d] : split ? TNI_EXPR_NONE : tni_rule_const(in, 1);
    }
    t.rank = n;
    t.dims = dims;
  }
  return set_group(in, 0, TNI_FORM_SEQUENCE, new_type(in, t));
}

tn_status tni_shape_concat_from_sequence(tni_infer *in) {
  const tni_type *e = element_of(in, 0, TNI_FORM_SEQUENCE);
  const bool fresh = tni_attr_i(&in->node->pub, "new_axis", 0) != 0;
  tn_expr dims[TN_MAX_RANK];
  uint32_t axis;
  if (!e || e->form != TNI_FORM_TENSOR || e->rank > TN_MAX_RANK)
    return tni_rule_set_unknown(in, 0, e ? e->dtype : TN_DT_UNDEFINED);
  const uint32_t rank = e->rank + (fresh ? 1 : 0);
  if (rank > TN_MAX_RANK || !tni_rule_axis(tni_attr_i(&in->node->pub, "axis", 0), rank, &axis))
    return tni_rule_fail(in, "axis %lld of elements of rank %u", (long long)tni_attr_i(&in->node->pub, "axis", 0),
                         e->rank);
  for (uint32_t d = 0; d < rank; d++) {
    dims[d] = d == axis ? TNI_EXPR_NONE : e->dims[fresh && d > axis ? d - 1 : d];
    if (dims[d] == TNI_EXPR_NONE) dims[d] = tni_rule_data_symbol(in, 0, d);
  }
  return tni_rule_set(in, 0, e->dtype, rank, dims);
}

/* The attribute: forms from the outside in, then a dtype. */
static const tni_type *stated_type(const tni_infer *in, const int64_t *v, uint32_t n) {
  if (n < 2) return NULL;
  if (v[0] == TNI_FORM_TENSOR) {
    const bool known = v[1] > 0 && v[1] < TN_DT_COUNT;
    return known ? new_type(in, (tni_type){.dtype = (uint32_t)v[1], .rank = TNI_RANK_UNKNOWN}) : NULL;
  }
  return new_type(in, (tni_type){.form = (uint32_t)v[0], .elem = stated_type(in, v + 1, n - 1)});
}

tn_status tni_shape_optional(tni_infer *in) {
  const int64_t *v;
  const uint32_t n = tni_attr_ints(&in->node->pub, "type", &v);
  const bool given = in->node->pub.n_in > 0 && in->node->pub.in[0] != TN_NONE;
  return set_group(in, 0, TNI_FORM_OPTIONAL, given ? type_of(in, 0) : stated_type(in, v, n));
}

tn_status tni_shape_optional_get_element(tni_infer *in) {
  const tni_value *v = tni_rule_in(in, 0);
  if (v && (!v->type || v->type->form != TNI_FORM_OPTIONAL)) return set_element(in, 0, type_of(in, 0));
  return set_element(in, 0, element_of(in, 0, TNI_FORM_OPTIONAL));
}

tn_status tni_shape_optional_has_element(tni_infer *in) { return tni_rule_set(in, 0, TN_DT_BOOL, 0, NULL); }
