/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/expr/nodes.h"

typedef struct values {
  const tni_exprs *x;
  const int64_t *v;
  uint32_t n;
} values;

static bool expr_value(const values *s, tn_expr e, int64_t *out);

/* coef * product; every partial product must fit, but a factor 0 makes the whole 0. */
static bool term_value(const values *s, const tni_term *t, int64_t *out) {
  int64_t f[DEGREE_MAX], p = t->coef;
  bool zero = false;
  for (uint32_t i = 0; i < t->degree; i++) {
    if (!expr_value(s, t->atom[i], &f[i])) return false;
    zero |= f[i] == 0;
  }
  for (uint32_t i = 0; i < t->degree && !zero; i++)
    if (!tni_mul_i64(p, f[i], &p)) return false;
  *out = zero ? 0 : p;
  return true;
}

/* At most TERMS_MAX summands of 64 bits: 128 bits hold the sum. */
static bool sum_value(const values *s, const tni_ex_node *n, int64_t *out) {
  tni_i128 sum = 0;
  for (uint32_t i = 0; i < n->n; i++) {
    int64_t t;
    if (!term_value(s, &n->u.terms[i], &t)) return false;
    sum += t;
  }
  *out = (int64_t)sum;
  return sum >= INT64_MIN && sum <= INT64_MAX;
}

static bool atom_value(const values *s, const tni_ex_node *n, int64_t *out) {
  int64_t a, b;
  if (!expr_value(s, n->u.args[0], &a)) return false;
  for (uint32_t i = 1; i < n->n; i++) {
    if (!expr_value(s, n->u.args[i], &b)) return false;
    if (n->kind == TNI_EX_MIN && b < a) a = b;
    if (n->kind == TNI_EX_MAX && b > a) a = b;
  }
  *out = a;
  if (n->kind == TNI_EX_MIN || n->kind == TNI_EX_MAX) return true;
  if (b == 0) return false;
  if (n->kind == TNI_EX_FLOORDIV) return tni_floordiv_i64(a, b, out);
  int64_t m = tni_mod_i64(a, b);
  if (n->kind == TNI_EX_MOD) {
    *out = m;
    return true;
  }
  return m == 0 && tni_floordiv_i64(a, b, out);
}

static bool expr_value(const values *s, tn_expr e, int64_t *out) {
  const tni_ex_node *n = &s->x->nodes[e];
  if (n->kind == TNI_EX_CONST) {
    *out = n->u.v;
    return true;
  }
  if (n->kind == TNI_EX_SYM) {
    tn_expr d = s->x->symbols[n->u.sym].definition;
    if (d != TNI_EXPR_NONE) return expr_value(s, d, out);
    if (n->u.sym >= s->n) return false;
    *out = s->v[n->u.sym];
    return true;
  }
  return n->kind == TNI_EX_ADD ? sum_value(s, n, out) : atom_value(s, n, out);
}

tn_status tni_ex_eval(const tni_exprs *x, tn_expr e, const int64_t *v, uint32_t n, int64_t *out) {
  values s = {x, v, v ? n : 0};
  int64_t r;
  if (!tni_ex_valid(x, e) || !expr_value(&s, e, &r)) return TN_E_INVALID;
  *out = r;
  return TN_OK;
}
