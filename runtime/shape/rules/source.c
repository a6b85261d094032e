/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "runtime/shape/rules/table.h"

/* start and end (opset 15) cut out a part of the dims; both are clamped. */
tn_status tni_shape_shape(tni_infer *in) {
  const tni_value *x = tni_rule_ranked(in, 0);
  tn_expr len = TNI_EXPR_NONE;
  if (!x) return tni_rule_set(in, 0, TN_DT_I64, 1, &len);
  int64_t r = x->pub.rank, a = tni_attr_i(&in->node->pub, "start", 0), b = tni_attr_i(&in->node->pub, "end", r);
  const tn_attr *end = tni_attr(&in->node->pub, "end");
  if (!end || end->n == 0) b = r;
  a = a < -r ? 0 : a < 0 ? a + r : a > r ? r : a;
  b = b < -r ? 0 : b < 0 ? b + r : b > r ? r : b;
  uint32_t n = b > a ? (uint32_t)(b - a) : 0;
  len = tni_rule_const(in, n);
  tn_status st = tni_rule_set(in, 0, TN_DT_I64, 1, &len);
  if (st != TN_OK || in->concrete) return st;
  tn_expr *e = tni_rule_elems(in, n);
  for (uint32_t i = 0; e && i < n; i++) e[i] = x->pub.dims[a + i];
  tni_rule_set_vals(in, 0, e, n);
  return TN_OK;
}

tn_status tni_shape_size(tni_infer *in) {
  const tni_value *x = tni_rule_ranked(in, 0);
  tn_status st = tni_rule_set(in, 0, TN_DT_I64, 0, NULL);
  if (st != TN_OK || !x || in->concrete) return st;
  tn_expr *e = tni_rule_elems(in, 1);
  if (e) e[0] = tni_rule_product(in, x->pub.dims, x->pub.rank);
  tni_rule_set_vals(in, 0, e, 1);
  return TN_OK;
}

static bool fill_tensor(tni_arena *arena, tni_tensor *t, uint32_t dtype, bool scalar, uint64_t n, size_t size) {
  if (n > TNI_MAX_ELEMS * 1024u) return false;
  memset(t, 0, sizeof *t);
  t->dtype = dtype;
  t->rank = scalar ? 0 : 1;
  t->dims[0] = scalar ? 0 : (int64_t)n;
  t->bytes = n * size;
  t->data = tni_arena_array(arena, n ? n : 1, size, 16);
  return t->data != NULL;
}

bool tni_constant_tensor(tni_arena *arena, const tni_node *node, tni_tensor *out) {
  const tni_tensor *t = tni_attr_tensor(&node->pub, "value");
  const tn_attr *a;
  if (t) {
    *out = *t;
    return true;
  }
  for (uint32_t i = 0; i < node->n_raw; i++) {
    const char *name = node->raw[i].name;
    a = &node->raw[i].a;
    bool list = a->type == TN_ATTR_INTS || a->type == TN_ATTR_FLOATS;
    if (strcmp(name, "value_int") == 0 || strcmp(name, "value_ints") == 0) {
      if (a->type != TN_ATTR_INT && a->type != TN_ATTR_INTS) return false;
      if (!fill_tensor(arena, out, TN_DT_I64, !list, list ? a->n : 1, sizeof(int64_t))) return false;
      if (out->bytes) memcpy(out->data, list ? a->u.ints : &a->u.i, out->bytes);
      return true;
    }
    if (strcmp(name, "value_float") == 0 || strcmp(name, "value_floats") == 0) {
      float f = (float)a->u.f;
      if (a->type != TN_ATTR_FLOAT && a->type != TN_ATTR_FLOATS) return false;
      if (!fill_tensor(arena, out, TN_DT_F32, !list, list ? a->n : 1, sizeof(float))) return false;
      if (out->bytes) memcpy(out->data, list ? a->u.floats : &f, out->bytes);
      return true;
    }
  }
  return false;
}

/* Dims of a tensor as constants. */
static tn_status set_tensor_dims(tni_infer *in, const tni_tensor *t) {
  tn_expr dims[TN_MAX_RANK];
  if (t->rank > TN_MAX_RANK) return tni_rule_fail(in, "rank %u is more than %d", t->rank, TN_MAX_RANK);
  for (uint32_t d = 0; d < t->rank; d++) dims[d] = tni_rule_const(in, t->dims[d]);
  return tni_rule_set(in, 0, t->dtype, t->rank, dims);
}

static void tensor_vals(tni_infer *in, const tni_tensor *t) {
  uint32_t n;
  int64_t raw[TNI_MAX_ELEMS];
  if (!tni_rule_wants_vals(in, 0, &n, NULL) || (n && !t->data)) return;
  tn_expr *e = tni_rule_elems(in, n);
  uint64_t need;
  if (!e || tni_dtype_bytes(t->dtype, n, &need) != TN_OK || t->bytes < need) return;
  tni_tensor_to_i64(t, 0, n, raw);
  for (uint32_t i = 0; i < n; i++) e[i] = tni_rule_const(in, raw[i]);
  tni_rule_set_vals(in, 0, e, n);
}

tn_status tni_shape_constant(tni_infer *in) {
  tni_tensor t;
  if (!tni_constant_tensor(in->g->arena, in->node, &t)) return tni_rule_set_unknown(in, 0, TN_DT_UNDEFINED);
  tn_status st = set_tensor_dims(in, &t);
  if (st == TN_OK) tensor_vals(in, &t);
  return st;
}

tn_status tni_shape_constant_of_shape(tni_infer *in) {
  const tni_tensor *value = tni_attr_tensor(&in->node->pub, "value");
  uint32_t dtype = value ? value->dtype : TN_DT_F32, n;
  tni_vals s;
  tn_expr dims[TN_MAX_RANK];
  tn_status st;
  memset(dims, 0xff, sizeof dims);
  if (!tni_rule_vals(in, 0, &s)) {
    if (!tni_rule_length(in, 0, &n)) return tni_rule_set_unknown(in, 0, dtype);
    return tni_rule_set(in, 0, dtype, n, dims);
  }
  if (s.n > TN_MAX_RANK) return tni_rule_fail(in, "the result would have rank %u", s.n);
  st = tni_rule_set(in, 0, dtype, s.n, s.e);
  int64_t fill = 0;
  if (st != TN_OK || !tni_rule_wants_vals(in, 0, &n, NULL)) return st;
  if (value && (!value->data || !value->bytes)) return TN_OK;
  if (value) tni_tensor_to_i64(value, 0, 1, &fill);
  tn_expr *e = tni_rule_elems(in, n);
  for (uint32_t i = 0; e && i < n; i++) e[i] = tni_rule_const(in, fill);
  tni_rule_set_vals(in, 0, e, n);
  return TN_OK;
}

/* How many steps from a to b: max(ceil((b - a) / d), 0). */
static tn_expr range_count(const tni_infer *in, tn_expr a, tn_expr b, int64_t d) {
  tn_expr span = d > 0 ? tni_ex_sub(in->x, b, a) : tni_ex_sub(in->x, a, b), zero = tni_rule_const(in, 0);
  if (d == INT64_MIN) return TNI_EXPR_NONE;
  if (d < 0) d = -d;
  if (d != 1) span = tni_ex_floordiv(in->x, tni_ex_add(in->x, span, tni_rule_const(in, d - 1)), tni_rule_const(in, d));
  if (span == TNI_EXPR_NONE || tni_ex_proves_le(in->x, zero, span)) return span;
  int64_t lo, hi;
  tni_ex_range(in->x, span, &lo, &hi);
  return hi <= 0 ? zero : tni_ex_max(in->x, zero, span);
}

tn_status tni_shape_range(tni_infer *in) {
  const tni_value *x = tni_rule_in(in, 0);
  tn_expr a = tni_rule_scalar(in, 0), b = tni_rule_scalar(in, 1), c = tni_rule_scalar(in, 2), len = TNI_EXPR_NONE;
  double fa, fb, fd;
  int64_t d = 0;
  uint32_t n;
  if (!x) return tni_rule_fail(in, "operand 0 is missing");
  bool step = c != TNI_EXPR_NONE && tni_ex_is_const(in->x, c, &d);
  if (step && d == 0) return tni_rule_fail(in, "the step is 0");
  if (step && a != TNI_EXPR_NONE && b != TNI_EXPR_NONE) {
    len = range_count(in, a, b, d);
  } else if (tni_rule_double(in, 0, &fa) && tni_rule_double(in, 1, &fb) && tni_rule_double(in, 2, &fd)) {
    double count = ceil((fb - fa) / fd);
    if (!(count < 2147483648.0)) return tni_rule_fail(in, "the number of elements is not finite");
    len = tni_rule_const(in, count > 0 ? (int64_t)count : 0);
  }
  if (len == TNI_EXPR_NONE) len = tni_rule_data_symbol(in, 0, 0);
  tn_status st = tni_rule_set(in, 0, x->pub.dtype, 1, &len);
  if (st != TN_OK || !step || !tni_rule_wants_vals(in, 0, &n, NULL)) return st;
  tn_expr *e = tni_rule_elems(in, n);
  for (uint32_t i = 0; e && i < n; i++) {
    e[i] = tni_ex_add(in->x, a, tni_ex_mul(in->x, tni_rule_const(in, i), c));
  }
  tni_rule_set_vals(in, 0, e, n);
  return TN_OK;
}

tn_status tni_shape_eye_like(tni_infer *in) {
  const tni_value *x = tni_rule_in(in, 0);
  if (!x) return tni_rule_fail(in, "operand 0 is missing");
  uint32_t dtype = (uint32_t)tni_attr_i(&in->node->pub, "dtype", 0);
  if (dtype == 0) dtype = x->pub.dtype;
  if (x->pub.rank == TNI_RANK_UNKNOWN) return tni_rule_set_unknown(in, 0, dtype);
  if (x->pub.rank != 2) return tni_rule_fail(in, "the input is no matrix");
  return tni_rule_set(in, 0, dtype, 2, x->pub.dims);
}
