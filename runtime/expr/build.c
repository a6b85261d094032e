/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums, products, minima and maxima of expressions that hold no defined symbol.
 */
#include "runtime/expr/nodes.h"

tn_expr tni_build_add(tni_exprs *x, tn_expr a, tn_expr b, int64_t k) {
  if (!tni_ex_valid(x, a) || !tni_ex_valid(x, b)) return TNI_EXPR_NONE;
  tni_poly p, q;
  tni_poly_of(x, a, &p);
  tni_poly_of(x, b, &q);
  return tni_poly_add(&p, &q, k) ? tni_poly_expr(x, &p) : TNI_EXPR_NONE;
}

/* a is one term that holds an EXACTDIV(u, w), and w divides b times the rest of a: the product without a division. */
static bool mul_cancelled(tni_exprs *x, const tni_poly *a, const tni_poly *b, tn_expr *out) {
  tni_poly rest = {.n = 1}, all, w, q, r;
  if (a->n != 1) return false;
  for (uint32_t i = 0; i < a->t[0].degree; i++) {
    const tni_ex_node *m = &x->nodes[a->t[0].atom[i]];
    if (m->kind != TNI_EX_EXACTDIV) continue;
    tni_term one = {.coef = 1, .degree = 1, .atom = {a->t[0].atom[i]}};
    tn_expr u = m->u.args[0];
    tni_poly_of(x, m->u.args[1], &w);
    (void)tni_term_divides(&one, &a->t[0], &rest.t[0]);
    if (w.t[0].coef <= 0 || !tni_poly_mul(&rest, b, &all) || !tni_poly_divide(&all, &w, true, &q, &r) || r.n) continue;
    *out = tni_build_mul(x, u, tni_poly_expr(x, &q));
    return true;
  }
  return false;
}

tn_expr tni_build_mul(tni_exprs *x, tn_expr a, tn_expr b) {
  if (!tni_ex_valid(x, a) || !tni_ex_valid(x, b)) return TNI_EXPR_NONE;
  tni_poly p, q, r;
  tn_expr e;
  tni_poly_of(x, a, &p);
  tni_poly_of(x, b, &q);
  if (mul_cancelled(x, &p, &q, &e) || mul_cancelled(x, &q, &p, &e)) return e;
  return tni_poly_mul(&p, &q, &r) ? tni_poly_expr(x, &r) : TNI_EXPR_NONE;
}

/* The arguments of a MIN or MAX under way. */
typedef struct args {
  tn_expr e[ARGS_MAX];
  uint32_t n;
} args;

static bool put_arg(args *s, tn_expr e) {
  uint32_t i = 0;
  while (i < s->n && s->e[i] < e) i++;
  if (i < s->n && s->e[i] == e) return true;
  if (s->n == ARGS_MAX) return false;
  for (uint32_t k = s->n++; k > i; k--) s->e[k] = s->e[k - 1];
  s->e[i] = e;
  return true;
}

/* g * e + k. */
static tn_expr affine_minmax(tni_exprs *x, tn_expr e, int64_t g, int64_t k) {
  return tni_build_add(x, tni_build_mul(x, e, tni_ex_const(x, g)), tni_ex_const(x, k), 1);
}

/* Puts e, opened if it is g * KIND(..) + k with g > 0 (or of the other kind with g < 0). */
static bool flatten_args(tni_exprs *x, tni_ex_kind kind, tn_expr e, args *s) {
  tni_poly p;
  tn_expr atom;
  int64_t g, k;
  tni_poly_of(x, e, &p);
  if (!tni_poly_atom_plus(&p, &atom, &g, &k)) return put_arg(s, e);
  tni_ex_node m = x->nodes[atom];
  tni_ex_kind wanted = g > 0 ? kind : kind == TNI_EX_MIN ? TNI_EX_MAX : TNI_EX_MIN;
  if (m.kind != wanted) return put_arg(s, e);
  for (uint32_t i = 0; i < m.n; i++) {
    tn_expr a = affine_minmax(x, m.u.args[i], g, k);
    if (a == TNI_EXPR_NONE || !put_arg(s, a)) return false;
  }
  return true;
}

/* Drops what another remaining argument provably beats. */
static void prune_args(tni_exprs *x, tni_ex_kind kind, args *s) {
  for (uint32_t i = s->n; i-- > 0;)
    for (uint32_t j = 0; j < s->n; j++) {
      if (i == j) continue;
      if (kind == TNI_EX_MIN ? !tni_ex_proves_le(x, s->e[j], s->e[i]) : !tni_ex_proves_le(x, s->e[i], s->e[j]))
        continue;
      s->n--;
      for (uint32_t k = i; k < s->n; k++) s->e[k] = s->e[k + 1];
      break;
    }
}

/* The least constant term, and the gcd of what is left after taking it away. */
static bool common_affine(tni_exprs *x, const args *s, int64_t *k, int64_t *g) {
  tni_poly p;
  *k = INT64_MAX;
  *g = 0;
  for (uint32_t i = 0; i < s->n; i++) {
    tni_poly_of(x, s->e[i], &p);
    int64_t c = tni_poly_constant(&p);
    if (c < *k) *k = c;
  }
  for (uint32_t i = 0; i < s->n; i++) {
    int64_t c;
    tni_poly_of(x, s->e[i], &p);
    if (!tni_sub_i64(tni_poly_constant(&p), *k, &c)) return false;
    *g = tni_gcd(tni_gcd(*g, c), tni_poly_content(&p, false));
  }
  return *g > 0;
}

static bool take_out(tni_exprs *x, const args *s, int64_t k, int64_t g, args *out) {
  out->n = 0;
  for (uint32_t i = 0; i < s->n; i++) {
    tni_poly p;
    tni_poly_of(x, s->e[i], &p);
    if (k == INT64_MIN || !tni_poly_add_term(&p, &(tni_term){.coef = -k}) || !tni_poly_scale_down(&p, g)) return false;
    tn_expr e = tni_poly_expr(x, &p);
    if (e == TNI_EXPR_NONE || !put_arg(out, e)) return false;
  }
  return true;
}

tn_expr tni_build_minmax(tni_exprs *x, tni_ex_kind kind, const tn_expr *e, uint32_t n) {
  args s = {.n = 0}, reduced;
  int64_t k, g;
  for (uint32_t i = 0; i < n; i++)
    if (!tni_ex_valid(x, e[i]) || !flatten_args(x, kind, e[i], &s)) return TNI_EXPR_NONE;
  prune_args(x, kind, &s);
  if (s.n == 1) return s.e[0];
  if (x->nesting < NESTING_LIMIT && common_affine(x, &s, &k, &g) && (k != 0 || g != 1) &&
      take_out(x, &s, k, g, &reduced)) {
    x->nesting++;
    tn_expr inner = tni_build_minmax(x, kind, reduced.e, reduced.n);
    x->nesting--;
    return affine_minmax(x, inner, g, k);
  }
  return tni_ex_intern_args(x, kind, s.e, s.n);
}
