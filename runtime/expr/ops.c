/* SPDX-License-Identifier: Apache-2.0
 *
 * The public builders: replace what is defined, then build.
 */
#include "runtime/expr/nodes.h"

static bool resolve2(tni_exprs *x, tn_expr *a, tn_expr *b) {
  *a = tni_ex_resolve(x, *a);
  *b = tni_ex_resolve(x, *b);
  return *a != TNI_EXPR_NONE && *b != TNI_EXPR_NONE;
}

tn_expr tni_ex_add(tni_exprs *x, tn_expr a, tn_expr b) {
  return resolve2(x, &a, &b) ? tni_build_add(x, a, b, 1) : TNI_EXPR_NONE;
}

tn_expr tni_ex_sub(tni_exprs *x, tn_expr a, tn_expr b) {
  return resolve2(x, &a, &b) ? tni_build_add(x, a, b, -1) : TNI_EXPR_NONE;
}

tn_expr tni_ex_mul(tni_exprs *x, tn_expr a, tn_expr b) {
  return resolve2(x, &a, &b) ? tni_build_mul(x, a, b) : TNI_EXPR_NONE;
}

tn_expr tni_ex_floordiv(tni_exprs *x, tn_expr a, tn_expr b) {
  return resolve2(x, &a, &b) ? tni_build_floordiv(x, a, b) : TNI_EXPR_NONE;
}

tn_expr tni_ex_mod(tni_exprs *x, tn_expr a, tn_expr b) {
  return resolve2(x, &a, &b) ? tni_build_mod(x, a, b) : TNI_EXPR_NONE;
}

tn_expr tni_ex_exactdiv(tni_exprs *x, tn_expr a, tn_expr b) {
  return resolve2(x, &a, &b) ? tni_build_exactdiv(x, a, b) : TNI_EXPR_NONE;
}

tn_expr tni_ex_min(tni_exprs *x, tn_expr a, tn_expr b) {
  tn_expr e[2] = {a, b};
  return resolve2(x, &e[0], &e[1]) ? tni_build_minmax(x, TNI_EX_MIN, e, 2) : TNI_EXPR_NONE;
}

tn_expr tni_ex_max(tni_exprs *x, tn_expr a, tn_expr b) {
  tn_expr e[2] = {a, b};
  return resolve2(x, &e[0], &e[1]) ? tni_build_minmax(x, TNI_EX_MAX, e, 2) : TNI_EXPR_NONE;
}

bool tni_ex_same_unless_zero(tni_exprs *x, tn_expr a, tn_expr b) {
  const tn_expr flag = tni_ex_min(x, b, tni_ex_const(x, 1));
  tni_poly p, q = {.n = 0};
  if (!resolve2(x, &a, &b) || flag == TNI_EXPR_NONE || x->nodes[flag].kind != TNI_EX_MIN) return false;
  if (x->nodes[b].range.lo < 0) return false;
  tni_poly_of(x, a, &p);
  bool found = false;
  for (uint32_t i = 0; i < p.n; i++) {
    tni_term t = {.coef = p.t[i].coef, .degree = 0};
    for (uint32_t k = 0; k < p.t[i].degree; k++)
      if (p.t[i].atom[k] != flag) t.atom[t.degree++] = p.t[i].atom[k];
    found = found || t.degree != p.t[i].degree;
    if (!tni_poly_add_term(&q, &t)) return false;
  }
  return found && tni_poly_expr(x, &q) == b;
}
