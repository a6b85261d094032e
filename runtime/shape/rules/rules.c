/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/shape/rules/rule.h"

#include <stdio.h>
#include <string.h>

static tni_value *value_at(const tni_graph *g, tn_id id) {
  return id != TN_NONE && id < g->n_values ? g->values[id] : NULL;
}

tni_value *tni_rule_in(const tni_infer *in, uint32_t i) {
  return i < in->node->pub.n_in ? value_at(in->g, in->node->pub.in[i]) : NULL;
}

tni_value *tni_rule_out(const tni_infer *in, uint32_t i) {
  return i < in->node->pub.n_out ? value_at(in->g, in->node->pub.out[i]) : NULL;
}

const tni_value *tni_rule_ranked(const tni_infer *in, uint32_t i) {
  const tni_value *v = tni_rule_in(in, i);
  return v && v->pub.rank != TNI_RANK_UNKNOWN ? v : NULL;
}

bool tni_dtype_is_index(uint32_t dtype) {
  switch (dtype) {
    case TN_DT_U8:
    case TN_DT_I8:
    case TN_DT_U16:
    case TN_DT_I16:
    case TN_DT_I32:
    case TN_DT_I64:
    case TN_DT_BOOL:
    case TN_DT_U32:
    case TN_DT_U64:
      return true;
    default:
      return false;
  }
}

/* Constant dims and their product, if that is at most TNI_MAX_ELEMS. */
static bool small_dims(const tni_exprs *x, const tni_value *v, int64_t *dims, uint32_t *count) {
  if (v->pub.rank > TN_MAX_RANK) return false;
  int64_t n = 1;
  for (uint32_t d = 0; d < v->pub.rank; d++) {
    if (v->pub.dims[d] == TNI_EXPR_NONE || !tni_ex_is_const(x, v->pub.dims[d], &dims[d])) return false;
    if (dims[d] < 0 || dims[d] > TNI_MAX_ELEMS) return false;
    n *= dims[d];
    if (n > TNI_MAX_ELEMS) return false;
  }
  *count = (uint32_t)n;
  return true;
}

/* Elements of a constant, made once and kept with the value. */
static bool const_elems(const tni_infer *in, tni_value *v, uint32_t n) {
  int64_t raw[TNI_MAX_ELEMS];
  uint64_t need;
  if (!v->tensor || (n && !v->tensor->data) || tni_dtype_bytes(v->tensor->dtype, n, &need) != TN_OK) return false;
  if (v->tensor->bytes < need) return false;
  tn_expr *e = TNI_NEW_ARRAY(in->g->arena, tn_expr, n ? n : 1);
  if (!e) return false;
  tni_tensor_to_i64(v->tensor, 0, n, raw);
  for (uint32_t i = 0; i < n; i++) {
    bool lost = v->tensor->dtype == TN_DT_U64 && raw[i] < 0;
    e[i] = lost ? TNI_EXPR_NONE : tni_ex_const(in->x, raw[i]);
  }
  v->elems = e;
  v->n_elems = n;
  return true;
}

bool tni_rule_vals(const tni_infer *in, uint32_t i, tni_vals *out) {
  tni_value *v = tni_rule_in(in, i);
  uint32_t n;
  if (!v || !tni_dtype_is_index(v->pub.dtype) || !small_dims(in->x, v, out->dims, &n)) return false;
  if (!(v->elems && v->n_elems == n) && !const_elems(in, v, n)) return false;
  out->e = v->elems;
  out->n = n;
  out->rank = v->pub.rank;
  return true;
}

tn_expr tni_rule_scalar(const tni_infer *in, uint32_t i) {
  tni_vals v;
  return tni_rule_vals(in, i, &v) && v.n == 1 ? v.e[0] : TNI_EXPR_NONE;
}

bool tni_rule_ints(const tni_infer *in, uint32_t i, int64_t *v, uint32_t cap, uint32_t *n) {
  tni_vals e;
  if (!tni_rule_vals(in, i, &e) || e.n > cap) return false;
  for (uint32_t k = 0; k < e.n; k++) {
    if (e.e[k] == TNI_EXPR_NONE || !tni_ex_is_const(in->x, e.e[k], &v[k])) return false;
  }
  *n = e.n;
  return true;
}

bool tni_rule_double(const tni_infer *in, uint32_t i, double *v) {
  const tni_value *t = tni_rule_in(in, i);
  int64_t n;
  tn_expr e = tni_rule_scalar(in, i);
  if (e != TNI_EXPR_NONE && tni_ex_is_const(in->x, e, &n)) {
    *v = (double)n;
    return true;
  }
  if (!t || !t->tensor || !t->tensor->data || tni_dims_count(t->tensor->dims, t->tensor->rank, &n) != TN_OK || n != 1) {
    return false;
  }
  if (t->tensor->dtype == TN_DT_F64 && t->tensor->bytes >= sizeof *v) {
    memcpy(v, t->tensor->data, sizeof *v);
    return true;
  }
  if (t->tensor->dtype != TN_DT_F32 && t->tensor->dtype != TN_DT_F16 && t->tensor->dtype != TN_DT_BF16) return false;
  float f;
  tni_tensor_to_f32(t->tensor, 0, 1, &f);
  *v = f;
  return true;
}

bool tni_rule_length(const tni_infer *in, uint32_t i, uint32_t *n) {
  const tni_value *v = tni_rule_ranked(in, i);
  int64_t dims[TN_MAX_RANK];
  return v && v->pub.rank == 1 && small_dims(in->x, v, dims, n);
}

tn_status tni_rule_set(tni_infer *in, uint32_t o, uint32_t dtype, uint32_t rank, const tn_expr *dims) {
  tni_value *v = tni_rule_out(in, o);
  if (!v) return TN_OK;
  if (rank > TN_MAX_RANK) return tni_rule_fail(in, "rank %u of the result is more than %d", rank, TN_MAX_RANK);
  for (uint32_t d = 0; d < rank; d++) {
    int64_t c;
    if (dims[d] != TNI_EXPR_NONE && tni_ex_is_const(in->x, dims[d], &c) && c < 0) {
      return tni_rule_fail(in, "dimension %u of the result would be %lld", d, (long long)c);
    }
  }
  v->pub.dtype = dtype;
  v->type = NULL;
  if (v->pub.rank == rank && (!rank || memcmp(v->pub.dims, dims, rank * sizeof *dims) == 0)) return TN_OK;
  tn_expr *copy = TNI_NEW_ARRAY(in->g->arena, tn_expr, rank ? rank : 1);
  if (!copy) return tni_fail_memory(in->err, in->node->pub.name);
  if (rank) memcpy(copy, dims, rank * sizeof *dims);
  v->pub.rank = rank;
  v->pub.dims = copy;
  v->elems = NULL; /* they belonged to the old shape */
  v->n_elems = 0;
  return TN_OK;
}

tn_status tni_rule_set_unknown(tni_infer *in, uint32_t o, uint32_t dtype) {
  tni_value *v = tni_rule_out(in, o);
  if (!v) return TN_OK;
  v->pub.dtype = dtype;
  v->type = NULL;
  v->pub.rank = TNI_RANK_UNKNOWN;
  v->pub.dims = NULL;
  v->elems = NULL;
  v->n_elems = 0;
  return TN_OK;
}

tn_status tni_rule_set_type(tni_infer *in, uint32_t o, const tni_type *type) {
  tni_value *v = tni_rule_out(in, o);
  tn_status st = tni_rule_set_unknown(in, o, TN_DT_UNDEFINED);
  if (v && st == TN_OK) v->type = type;
  return st;
}

tn_status tni_rule_set_like(tni_infer *in, uint32_t o, uint32_t i) {
  const tni_value *v = tni_rule_in(in, i);
  if (!v) return tni_rule_fail(in, "operand %u is missing", i);
  if (v->type) return tni_rule_set_type(in, o, v->type);
  if (v->pub.rank == TNI_RANK_UNKNOWN) return tni_rule_set_unknown(in, o, v->pub.dtype);
  return tni_rule_set(in, o, v->pub.dtype, v->pub.rank, v->pub.dims);
}

bool tni_rule_wants_vals(const tni_infer *in, uint32_t o, uint32_t *n, int64_t *dims) {
  const tni_value *v = tni_rule_out(in, o);
  int64_t own[TN_MAX_RANK];
  return !in->concrete && v && v->pub.rank != TNI_RANK_UNKNOWN && tni_dtype_is_index(v->pub.dtype) &&
         small_dims(in->x, v, dims ? dims : own, n);
}

tn_expr *tni_rule_elems(const tni_infer *in, uint32_t n) {
  tn_expr *e = TNI_NEW_ARRAY(in->g->arena, tn_expr, n ? n : 1);
  for (uint32_t i = 0; e && i < n; i++) e[i] = TNI_EXPR_NONE;
  return e;
}

void tni_rule_set_vals(tni_infer *in, uint32_t o, const tn_expr *e, uint32_t n) {
  tni_value *v = tni_rule_out(in, o);
  uint32_t want;
  if (!e || !tni_rule_wants_vals(in, o, &want, NULL) || want != n) return;
  bool any = n == 0;
  for (uint32_t i = 0; i < n && !any; i++) any = e[i] != TNI_EXPR_NONE;
  if (any && v->elems && v->n_elems == n && memcmp(v->elems, e, n * sizeof *e) == 0) return;
  v->elems = any ? e : NULL;
  v->n_elems = any ? n : 0;
}

void tni_rule_pick_vals(tni_infer *in, uint32_t o, const tni_vals *v, const uint32_t *src, uint32_t n) {
  tn_expr *e = tni_rule_elems(in, n);
  for (uint32_t i = 0; e && i < n; i++) e[i] = src[i] < v->n ? v->e[src[i]] : TNI_EXPR_NONE;
  tni_rule_set_vals(in, o, e, n);
}

void tni_rule_keep_vals(tni_infer *in, uint32_t o, uint32_t i) {
  tni_vals v;
  uint32_t n;
  if (tni_rule_wants_vals(in, o, &n, NULL) && tni_rule_vals(in, i, &v) && v.n == n) tni_rule_set_vals(in, o, v.e, n);
}

tn_expr tni_rule_const(const tni_infer *in, int64_t v) { return tni_ex_const(in->x, v); }

bool tni_rule_is(const tni_infer *in, tn_expr e, int64_t v) {
  int64_t c;
  return e != TNI_EXPR_NONE && tni_ex_is_const(in->x, e, &c) && c == v;
}

tn_expr tni_rule_product(const tni_infer *in, const tn_expr *dims, uint32_t n) {
  tn_expr p = tni_rule_const(in, 1);
  for (uint32_t i = 0; i < n; i++) {
    if (tni_rule_is(in, dims[i], 0)) return dims[i];
  }
  for (uint32_t i = 0; i < n; i++) p = tni_ex_mul(in->x, p, dims[i]);
  return p;
}

tn_expr tni_rule_data_symbol(const tni_infer *in, uint32_t o, uint32_t k) {
  const tni_value *v = tni_rule_out(in, o);
  const char *base = v && v->pub.name ? v->pub.name : "";
  char name[512];
  tn_id sym;
  /* Passes exchange names of values: what was found before stays. */
  if (v && v->pub.rank != TNI_RANK_UNKNOWN && k < v->pub.rank && v->pub.dims[k] != TNI_EXPR_NONE &&
      tni_ex_is_sym(in->x, v->pub.dims[k], &sym)) {
    return v->pub.dims[k];
  }
  /* In a body it may be another size each turn. */
  if (in->concrete || in->g->outer || !base[0]) return TNI_EXPR_NONE;
  int n = snprintf(name, sizeof name, "%s.%u", base, k);
  return n > 0 && (size_t)n < sizeof name ? tni_ex_sym(in->x, name) : TNI_EXPR_NONE;
}

bool tni_rule_axis(int64_t axis, uint32_t rank, uint32_t *out) {
  int64_t r = rank;
  if (axis < -r || axis >= r) return false;
  *out = (uint32_t)(axis < 0 ? axis + r : axis);
  return true;
}

/* "[batch,2,?]"; "[...]" for an unknown rank. Returns buf. */
static char *shape_print(const tni_graph *g, const tni_value *v, char *buf, size_t n) {
  size_t at = 0;
  if (!v || v->pub.rank == TNI_RANK_UNKNOWN) {
    snprintf(buf, n, "[...]");
    return buf;
  }
  if (n > 1) buf[at++] = '[';
  for (uint32_t d = 0; d < v->pub.rank && at + 2 < n; d++) {
    if (d) buf[at++] = ',';
    if (v->pub.dims[d] == TNI_EXPR_NONE) {
      buf[at++] = '?';
      continue;
    }
    size_t len = tni_ex_print(g->exprs, v->pub.dims[d], buf + at, n - at);
    at = len < n - at ? at + len : n - 1;
  }
  if (at + 1 < n) buf[at++] = ']';
  if (n) buf[at < n ? at : n - 1] = 0;
  return buf;
}

tn_status tni_rule_fail(tni_infer *in, const char *fmt, ...) {
  char why[160], shapes[160] = "", one[64];
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(why, sizeof why, fmt, ap);
  va_end(ap);
  size_t at = 0;
  for (uint32_t i = 0; i < in->node->pub.n_in && i < 4; i++) {
    const tni_value *v = tni_rule_in(in, i);
    if (!v) continue;
    int n =
        snprintf(shapes + at, sizeof shapes - at, "%s%s", at ? " " : "", shape_print(in->g, v, one, sizeof one));
    if (n < 0 || (size_t)n >= sizeof shapes - at) break;
    at += (size_t)n;
  }
  const char *name = in->node->pub.name ? in->node->pub.name : "";
  return tni_fail(in->err, TN_E_INVALID, name, "%s \"%.60s\" %s: %s", in->node->type ? in->node->type : "node", name,
                  shapes, why);
}
