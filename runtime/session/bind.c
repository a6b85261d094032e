/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "runtime/base/base.h"
#include "runtime/session/session_tasks.h"

typedef struct binder {
  const tn_model *m;
  tni_exprs *x;
  int64_t *dims;
  uint32_t n;
  tn_error *err;
} binder;

static void shape_text(const int64_t *dims, uint32_t rank, char *buf, size_t n) {
  size_t at = 0;
  buf[0] = '\0';
  for (uint32_t i = 0; i < rank && at < n; i++)
    at += (size_t)snprintf(buf + at, n - at, "%s%lld", i ? "," : "", (long long)dims[i]);
}

static tn_status bind_mismatch(const binder *b, const tn_tensor *t, const tni_value *v, uint32_t axis) {
  char got[160], want[160];
  shape_text(t->dims, t->rank, got, sizeof got);
  tni_ex_print(b->x, v->pub.dims[axis], want, sizeof want);
  const bool others = !tni_ex_is_sym(b->x, v->pub.dims[axis], NULL) && strpbrk(want, "+-*");
  return tni_fail(b->err, TN_E_INVALID, v->pub.name, "input '%s' has shape [%s]; axis %u must be %s%s", v->pub.name,
                  got, axis, want, others ? " (with the other inputs' dims)" : "");
}

/* The symbols of e that are not bound yet. */
typedef struct unbound {
  const binder *b;
  tn_id one; /* TN_NONE: all are bound */
  bool many;
} unbound;

static bool note_unbound(void *ctx, tn_id s) {
  unbound *u = ctx;
  if (u->b->dims[s] >= 0 || s == u->one) return true;
  u->many = u->one != TN_NONE;
  u->one = s;
  return !u->many;
}

/* e is linear in the one symbol that is not bound yet: solve for it. */
static bool solve_symbol(binder *b, tn_expr e, tn_id unknown, int64_t value) {
  int64_t f0 = 0, f1 = 0, f2 = 0;
  b->dims[unknown] = 0;
  bool ok = tni_ex_eval(b->x, e, b->dims, b->n, &f0) == TN_OK;
  b->dims[unknown] = 1;
  ok = ok && tni_ex_eval(b->x, e, b->dims, b->n, &f1) == TN_OK;
  b->dims[unknown] = 2;
  ok = ok && tni_ex_eval(b->x, e, b->dims, b->n, &f2) == TN_OK;
  b->dims[unknown] = -1;
  int64_t slope, second, rest;
  ok = ok && tni_sub_i64(f1, f0, &slope) && tni_sub_i64(f2, f1, &second) && tni_sub_i64(value, f0, &rest);
  if (!ok || slope == 0 || second != slope || rest == INT64_MIN || rest % slope != 0 || rest / slope < 0) return false;
  b->dims[unknown] = rest / slope;
  return true;
}

static const char *form_name(uint32_t form) {
  return form == TNI_FORM_TENSOR ? "a tensor" : form == TNI_FORM_SEQUENCE ? "a sequence" : "an optional";
}

static tn_status check_bytes(const binder *b, const tn_tensor *t, const tni_value *v) {
  int64_t count;
  uint64_t bytes;
  if (t->rank > TN_MAX_RANK || tni_dims_count(t->dims, t->rank, &count) != TN_OK ||
      tni_dtype_bytes(t->dtype, count, &bytes) != TN_OK)
    return tni_fail(b->err, TN_E_INVALID, v->pub.name, "input '%s' has absurd dims", v->pub.name);
  if (t->bytes < bytes || (bytes && !t->data))
    return tni_fail(b->err, TN_E_INVALID, v->pub.name, "input '%s' has %llu bytes; its shape takes %llu", v->pub.name,
                    (unsigned long long)t->bytes, (unsigned long long)bytes);
  return TN_OK;
}

/* A sequence or optional against its type; NULL: anything may stand there. */
static tn_status check_type(const binder *b, const tn_tensor *t, const tni_type *type, const tni_value *v,
                            uint32_t depth) {
  const uint32_t form = !t                           ? TNI_FORM_TENSOR
                        : t->dtype == TN_DT_SEQUENCE ? TNI_FORM_SEQUENCE
                        : t->dtype == TN_DT_OPTIONAL ? TNI_FORM_OPTIONAL
                                                     : TNI_FORM_TENSOR;
  if (!t || depth > TNI_DATUM_DEPTH)
    return tni_fail(b->err, TN_E_INVALID, v->pub.name, "input '%s': an element is missing or too deep", v->pub.name);
  if (type && type->form != form)
    return tni_fail(b->err, TN_E_INVALID, v->pub.name, "input '%s' has %s where the model takes %s", v->pub.name,
                    form_name(form), form_name(type->form));
  if (form == TNI_FORM_TENSOR) {
    if (type && type->dtype && type->dtype != t->dtype)
      return tni_fail(b->err, TN_E_INVALID, v->pub.name, "an element of input '%s' is %s; the model takes %s",
                      v->pub.name, tni_dtype_name(t->dtype), tni_dtype_name(type->dtype));
    if (type && type->rank <= TN_MAX_RANK && type->rank != t->rank)
      return tni_fail(b->err, TN_E_INVALID, v->pub.name,
                      "an element of input '%s' has rank %u; the model takes rank %u", v->pub.name, t->rank,
                      type->rank);
    return check_bytes(b, t, v);
  }
  const tn_tensor *const *items = t->data;
  if (t->rank != 1 || t->dims[0] < 0 || t->dims[0] > INT32_MAX || (t->dims[0] && !items) ||
      t->bytes < (uint64_t)t->dims[0] * sizeof *items || (form == TNI_FORM_OPTIONAL && t->dims[0] > 1))
    return tni_fail(b->err, TN_E_INVALID, v->pub.name, "input '%s' is no whole sequence or optional", v->pub.name);
  tn_status st = TN_OK;
  for (int64_t i = 0; st == TN_OK && i < t->dims[0]; i++)
    st = check_type(b, items[i], type ? type->elem : NULL, v, depth + 1);
  return st;
}

static tn_status check_one(const binder *b, const tn_tensor *t, const tni_value *v) {
  if (v->type) return check_type(b, t, v->type, v, 1);
  if (t->dtype != v->pub.dtype)
    return tni_fail(b->err, TN_E_INVALID, v->pub.name, "input '%s' is %s; the model takes %s", v->pub.name,
                    tni_dtype_name(t->dtype), tni_dtype_name(v->pub.dtype));
  if (v->pub.rank <= TN_MAX_RANK && t->rank != v->pub.rank)
    return tni_fail(b->err, TN_E_INVALID, v->pub.name, "input '%s' has rank %u; the model takes rank %u", v->pub.name,
                    t->rank, v->pub.rank);
  return check_bytes(b, t, v);
}

/* Axes whose dims say something. */
static uint32_t axes_of(const tni_value *v) { return v->pub.rank <= TN_MAX_RANK ? v->pub.rank : 0; }

/* One round over all dims: plain symbols and solvable expressions are bound, decided ones compared. last: what is open
 * now stays so, and nobody would know how large the input is. */
static tn_status bind_round(binder *b, const tn_tensor *const *in, bool last, bool *moved) {
  *moved = false;
  for (uint32_t i = 0; i < b->m->graph->n_inputs; i++) {
    const tni_value *v = tni_graph_value(b->m->graph, b->m->graph->inputs[i]);
    for (uint32_t a = 0; a < axes_of(v); a++) {
      const tn_expr e = v->pub.dims[a];
      unbound u = {.b = b, .one = TN_NONE};
      int64_t want;
      if (e == TNI_EXPR_NONE) continue;
      (void)tni_ex_each_symbol(b->x, e, note_unbound, &u);
      if (u.one == TN_NONE) {
        if (tni_ex_eval(b->x, e, b->dims, b->n, &want) != TN_OK || want != in[i]->dims[a])
          return bind_mismatch(b, in[i], v, a);
      } else if (!u.many && solve_symbol(b, e, u.one, in[i]->dims[a])) {
        *moved = true;
      } else if (last) {
        return bind_mismatch(b, in[i], v, a);
      }
    }
  }
  return TN_OK;
}

/* Axes that are a symbol and nothing else come first: where an expression then does not fit, it is the one to blame. */
static void bind_plain(binder *b, const tn_tensor *const *in) {
  for (uint32_t i = 0; i < b->m->graph->n_inputs; i++) {
    const tni_value *v = tni_graph_value(b->m->graph, b->m->graph->inputs[i]);
    for (uint32_t a = 0; a < axes_of(v); a++) {
      tn_id s;
      if (v->pub.dims[a] != TNI_EXPR_NONE && tni_ex_is_sym(b->x, v->pub.dims[a], &s) && b->dims[s] < 0)
        b->dims[s] = in[i]->dims[a];
    }
  }
}

tn_status tni_bind_symbols(const tn_model *m, const tn_tensor *const *in, int64_t *dims, tn_error *err) {
  binder b = {m, m->graph->exprs, dims, tni_ex_n_symbols(m->graph->exprs), err};
  for (uint32_t i = 0; i < b.n; i++) dims[i] = -1;
  for (uint32_t i = 0; i < m->graph->n_inputs; i++) {
    tn_status st = check_one(&b, in[i], tni_graph_value(m->graph, m->graph->inputs[i]));
    if (st != TN_OK) return st;
  }
  bind_plain(&b, in);
  tn_status st = TN_OK;
  for (bool moved = true; st == TN_OK && moved;) st = bind_round(&b, in, false, &moved);
  for (bool moved = true; st == TN_OK && moved;) st = bind_round(&b, in, true, &moved);
  return st;
}
