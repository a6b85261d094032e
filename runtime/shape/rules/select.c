/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "runtime/shape/dims/dims.h"
#include "runtime/shape/rules/table.h"

/* The operand's elements, where they are constant or a run has them at hand; NULL otherwise. */
static const tni_tensor *value_elements(const tni_value *v) {
  int64_t count;
  uint64_t need;
  if (!v || !v->tensor || tni_dims_count(v->tensor->dims, v->tensor->rank, &count) != TN_OK) return NULL;
  if (tni_dtype_bits(v->tensor->dtype) % 8 || tni_dtype_bytes(v->tensor->dtype, count, &need) != TN_OK) return NULL;
  return v->tensor->bytes < need || (need && !v->tensor->data) ? NULL : v->tensor;
}

/* Axis attribute; *flat without one. */
static tn_status optional_axis(tni_infer *in, const tni_value *x, bool *flat, uint32_t *axis) {
  const tn_attr *a = tni_attr(&in->node->pub, "axis");
  const int64_t v = tni_attr_i(&in->node->pub, "axis", 0);
  *axis = 0;
  *flat = !a || !a->n;
  if (*flat || !x || tni_rule_axis(v, x->pub.rank, axis)) return TN_OK;
  return tni_rule_fail(in, "axis %lld is outside rank %u", (long long)v, x->pub.rank);
}

/* x's dims with `axis` replaced by n, or [n]. */
static tn_status set_axis(tni_infer *in, const tni_value *x, bool flat, uint32_t axis, tn_expr n) {
  tn_expr dims[TN_MAX_RANK];
  if (flat) return tni_rule_set(in, 0, tni_rule_in(in, 0)->pub.dtype, 1, &n);
  if (!x) return tni_rule_set_unknown(in, 0, tni_rule_in(in, 0)->pub.dtype);
  for (uint32_t d = 0; d < x->pub.rank; d++) dims[d] = d == axis ? n : x->pub.dims[d];
  return tni_rule_set(in, 0, x->pub.dtype, x->pub.rank, dims);
}

/* As many as the condition has trues, which only the data say. */
tn_status tni_shape_compress(tni_infer *in) {
  const tni_value *x = tni_rule_ranked(in, 0), *cond = tni_rule_in(in, 1);
  const tni_tensor *c = value_elements(cond);
  bool flat;
  uint32_t axis;
  if (!tni_rule_in(in, 0) || !cond) return tni_rule_fail(in, "an operand is missing");
  tn_status st = optional_axis(in, x, &flat, &axis);
  if (st) return st;
  tn_expr n = TNI_EXPR_NONE;
  if (c && c->rank == 1) {
    int64_t count = 0;
    for (int64_t i = 0; i < c->dims[0] && !tni_poll_stop(in->poll, 1); i++) count += !tni_elem_is_zero(c, i);
    n = tni_rule_const(in, count);
  }
  return set_axis(in, x, flat, axis, n == TNI_EXPR_NONE ? tni_rule_data_symbol(in, 0, axis) : n);
}

/* How many different items a tensor has; TNI_EXPR_NONE without its data or memory. */
static tn_expr count_unique(const tni_infer *in, const tni_tensor *t, bool flat, uint32_t axis) {
  if (!t || !tni_items_comparable(t->dtype)) return TNI_EXPR_NONE;
  const tni_items it = tni_items_of(t, flat, axis);
  int64_t *order = calloc((size_t)it.n + 1, 2 * sizeof *order);
  if (!order) return TNI_EXPR_NONE;
  const bool sorted = tni_items_sort(&it, order, order + it.n, in->poll);
  const int64_t n = sorted ? tni_items_count(&it, order, in->poll) : -1;
  free(order);
  return n < 0 ? TNI_EXPR_NONE : tni_rule_const(in, n);
}

tn_status tni_shape_unique(tni_infer *in) {
  const tni_value *x = tni_rule_ranked(in, 0);
  bool flat;
  uint32_t axis;
  if (!tni_rule_in(in, 0)) return tni_rule_fail(in, "operand 0 is missing");
  tn_status st = optional_axis(in, x, &flat, &axis);
  if (st) return st;
  tn_expr n = count_unique(in, value_elements(x), flat, axis);
  if (n == TNI_EXPR_NONE) n = tni_rule_data_symbol(in, 0, axis);
  const tn_expr all = !x ? TNI_EXPR_NONE : flat ? tni_rule_product(in, x->pub.dims, x->pub.rank) : x->pub.dims[axis];
  st = set_axis(in, x, flat, axis, n);
  if (!st) st = tni_rule_set(in, 1, TN_DT_I64, 1, &n);
  if (!st) st = tni_rule_set(in, 2, TN_DT_I64, 1, &all);
  return st ? st : tni_rule_set(in, 3, TN_DT_I64, 1, &n);
}

/* Both axes among the first two, and not the same. */
tn_status tni_shape_reverse_sequence(tni_infer *in) {
  const tni_value *x = tni_rule_ranked(in, 0), *n = tni_rule_ranked(in, 1);
  const int64_t batch = tni_attr_i(&in->node->pub, "batch_axis", 1), time = tni_attr_i(&in->node->pub, "time_axis", 0);
  bool ok = true;
  if ((batch != 0 && batch != 1) || time != 1 - batch)
    return tni_rule_fail(in, "batch_axis and time_axis are not 0 and 1");
  if (x && x->pub.rank < 2) return tni_rule_fail(in, "the input has rank %u", x->pub.rank);
  if (n && n->pub.rank != 1) return tni_rule_fail(in, "sequence_lens has rank %u", n->pub.rank);
  if (x && n) (void)tni_rule_same_dim(in, x->pub.dims[batch], n->pub.dims[0], &ok);
  return ok ? tni_rule_set_like(in, 0, 0) : tni_rule_fail(in, "sequence_lens has not one entry per sequence");
}

/* --- random numbers */

static bool is_real(int64_t t) { return t == TN_DT_F32 || t == TN_DT_F64 || t == TN_DT_F16 || t == TN_DT_BF16; }

/* What zeros and ones may be. */
static bool is_number(int64_t t) {
  return t >= TN_DT_F32 && t <= TN_DT_BF16 && t != TN_DT_STRING && t != TN_DT_C64 && t != TN_DT_C128;
}

tn_status tni_shape_random(tni_infer *in) {
  const int64_t dtype = tni_attr_i(&in->node->pub, "dtype", TN_DT_F32), *shape = NULL;
  const uint32_t n = tni_attr_ints(&in->node->pub, "shape", &shape);
  tn_expr dims[TN_MAX_RANK];
  int64_t count;
  if (!is_real(dtype)) return tni_rule_fail(in, "dtype %lld is no float", (long long)dtype);
  if (n > TN_MAX_RANK || tni_dims_count(shape, n, &count) != TN_OK)
    return tni_rule_fail(in, "the shape is out of range");
  for (uint32_t d = 0; d < n; d++) dims[d] = tni_rule_const(in, shape[d]);
  return tni_rule_set(in, 0, (uint32_t)dtype, n, dims);
}

/* The operand's dims and, unless dtype says another, its type. */
tn_status tni_shape_random_like(tni_infer *in) {
  const tni_value *x = tni_rule_in(in, 0);
  if (!x) return tni_rule_fail(in, "operand 0 is missing");
  const tn_attr *a = tni_attr(&in->node->pub, "dtype");
  const int64_t dtype = a && a->n ? tni_attr_i(&in->node->pub, "dtype", 0) : x->pub.dtype;
  const bool bernoulli = in->node->pub.op == TN_OP_BERNOULLI;
  if (dtype != TN_DT_UNDEFINED && !(bernoulli ? is_number(dtype) : is_real(dtype)))
    return tni_rule_fail(in, "dtype %lld is no %s", (long long)dtype, bernoulli ? "number's" : "float");
  if (x->pub.rank == TNI_RANK_UNKNOWN) return tni_rule_set_unknown(in, 0, (uint32_t)dtype);
  return tni_rule_set(in, 0, (uint32_t)dtype, x->pub.rank, x->pub.dims);
}

/* [batch, classes] -> [batch, sample_size] */
tn_status tni_shape_multinomial(tni_infer *in) {
  const tni_value *x = tni_rule_ranked(in, 0);
  const int64_t dtype = tni_attr_i(&in->node->pub, "dtype", TN_DT_I32),
                n = tni_attr_i(&in->node->pub, "sample_size", 1);
  if (dtype != TN_DT_I32 && dtype != TN_DT_I64) return tni_rule_fail(in, "dtype %lld is no index", (long long)dtype);
  if (n < 0 || n > INT32_MAX) return tni_rule_fail(in, "sample_size is %lld", (long long)n);
  if (x && x->pub.rank != 2) return tni_rule_fail(in, "the input is not [batch, classes]");
  const tn_expr dims[2] = {x ? x->pub.dims[0] : TNI_EXPR_NONE, tni_rule_const(in, n)};
  return tni_rule_set(in, 0, (uint32_t)dtype, 2, dims);
}
