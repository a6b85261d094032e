/* SPDX-License-Identifier: Apache-2.0
 *
 * A polynomial as an expression. A product with an EXACTDIV whose divisor divides it loses the division.
 */
#include <string.h>

#include "runtime/expr/nodes.h"

/* t = coef * rest * EXACTDIV(u, w) where w, a single term, divides the atoms of rest, and coef = q * w's + left with
 * q != 0: then t = q * (rest / w) * u + (left of it). */
static bool cancel_exactdiv(const tni_exprs *x, const tni_term *t, tni_term *rest, int64_t *left, tn_expr *u) {
  for (uint32_t i = 0; i < t->degree; i++) {
    const tni_ex_node *a = &x->nodes[t->atom[i]];
    if (a->kind != TNI_EX_EXACTDIV) continue;
    tni_poly w;
    tni_poly_of(x, a->u.args[1], &w);
    tni_term one = {.coef = 1, .degree = 1, .atom = {t->atom[i]}}, without;
    if (w.n != 1 || w.t[0].coef <= 0 || !tni_term_divides(&one, t, &without)) continue;
    if (!tni_term_divides(&w.t[0], &without, rest)) continue;
    rest->coef = t->coef / w.t[0].coef; /* toward 0, so that -t is the negative of t */
    *left = t->coef % w.t[0].coef;
    if (rest->coef == 0) continue;
    *u = a->u.args[0];
    return true;
  }
  return false;
}

static tn_expr with_cancelled(tni_exprs *x, const tni_poly *p, uint32_t at, int64_t left, const tni_term *rest,
                              tn_expr u) {
  tni_poly sum = *p, up, one = {.n = 1, .t = {*rest}}, prod;
  sum.t[at].coef = left;
  if (left == 0) memmove(&sum.t[at], &sum.t[at + 1], (--sum.n - at) * sizeof *sum.t);
  tni_poly_of(x, u, &up);
  if (!tni_poly_mul(&one, &up, &prod) || !tni_poly_add(&sum, &prod, 1)) return TNI_EXPR_NONE;
  return tni_poly_expr(x, &sum);
}

tn_expr tni_poly_expr(tni_exprs *x, const tni_poly *p) {
  int64_t v, left;
  tni_term rest;
  tn_expr u;
  if (tni_poly_is_const(p, &v)) return tni_ex_const(x, v);
  if (p->n == 1 && p->t[0].degree == 1 && p->t[0].coef == 1) return p->t[0].atom[0];
  for (uint32_t i = 0; i < p->n; i++)
    if (cancel_exactdiv(x, &p->t[i], &rest, &left, &u)) return with_cancelled(x, p, i, left, &rest, u);
  return tni_ex_intern(x, (tni_ex_node){.kind = TNI_EX_ADD, .n = (uint16_t)p->n, .u.terms = p->t});
}
