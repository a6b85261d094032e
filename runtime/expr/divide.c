/* SPDX-License-Identifier: Apache-2.0
 *
 * floordiv, mod and exactdiv. All three write a = q*b + r first, where r has no term that b's leading term divides:
 *   a // b = q + r // b      a % b = r % b      a / b = q + r / b
 * The first two need b != 0 (0 // 0 must stay an error); exactdiv's caller has promised it. What is left is reduced by
 * common factors until nothing changes, so that a stored atom is a fixed point.
 */
#include "runtime/expr/nodes.h"

static bool is_nonzero(const tni_exprs *x, tn_expr e) {
  tni_range r = x->nodes[e].range;
  return r.lo > 0 || r.hi < 0;
}

/* One division under way: both sides as polynomials. */
typedef struct division {
  tni_poly a, b, q;
  int64_t c; /* b's value where it is a constant, else 0 */
  bool nonzero;
} division;

static bool negate_poly(tni_poly *p) {
  tni_poly n = {.n = 0};
  if (!tni_poly_add(&n, p, -1)) return false;
  *p = n;
  return true;
}

/* false: overflow. *flipped: both signs were changed so that b leads with a positive coefficient. */
static bool begin_division(const tni_exprs *x, tn_expr a, tn_expr b, bool *flipped, division *d) {
  tni_poly_of(x, a, &d->a);
  tni_poly_of(x, b, &d->b);
  d->q.n = 0;
  d->nonzero = is_nonzero(x, b);
  if (d->b.n == 0) return false;
  *flipped = d->b.t[0].coef < 0;
  if (*flipped && (!negate_poly(&d->a) || !negate_poly(&d->b))) return false;
  if (!tni_poly_is_const(&d->b, &d->c)) d->c = 0;
  return true;
}

/* Moves the multiples of b from a to q. */
static bool split_division(division *d, bool truncate) {
  tni_poly q, r;
  if (!tni_poly_divide(&d->a, &d->b, truncate, &q, &r)) return true; /* too big: leave it whole */
  if (r.n && q.n + r.n > d->a.n && !d->c) return true; /* longer than before: powers of b that would overflow first */
  d->a = r;
  return tni_poly_add(&d->q, &q, 1);
}

/* Divides a and b by their common integer content and, where may_cancel, by common atoms. */
static bool cancel_factor(const tni_exprs *x, division *d, bool promised, tni_term *factor) {
  *factor = (tni_term){.coef = tni_gcd(tni_poly_content(&d->a, true), tni_poly_content(&d->b, true))};
  if (!factor->coef) factor->coef = 1;
  for (uint32_t i = 0; d->a.n && i < d->b.t[0].degree; i++) {
    tn_expr atom = d->b.t[0].atom[i];
    tni_term wide = *factor, q;
    wide.atom[wide.degree++] = atom;
    bool all = promised || is_nonzero(x, atom);
    for (uint32_t k = 0; all && k < d->a.n; k++) all = tni_term_divides(&wide, &d->a.t[k], &q);
    for (uint32_t k = 0; all && k < d->b.n; k++) all = tni_term_divides(&wide, &d->b.t[k], &q);
    if (all) *factor = wide;
  }
  if (factor->coef == 1 && factor->degree == 0) return false;
  for (uint32_t k = 0; k < d->a.n; k++) {
    (void)tni_term_divides(factor, &d->a.t[k], &d->a.t[k]);
    d->a.t[k].coef /= factor->coef;
  }
  for (uint32_t k = 0; k < d->b.n; k++) {
    (void)tni_term_divides(factor, &d->b.t[k], &d->b.t[k]);
    d->b.t[k].coef /= factor->coef;
  }
  return true;
}

static bool same_poly(const tni_exprs *x, tn_expr e, const tni_poly *p) {
  tni_poly q;
  if (!tni_ex_valid(x, e)) return true; /* NONE stays NONE */
  tni_poly_of(x, e, &q);
  bool same = q.n == p->n;
  for (uint32_t i = 0; same && i < q.n; i++) same = q.t[i].coef == p->t[i].coef && tni_term_cmp(&q.t[i], &p->t[i]) == 0;
  return same;
}

static tn_expr build_division(tni_exprs *x, tni_ex_kind kind, tn_expr a, tn_expr b) {
  return kind == TNI_EX_FLOORDIV ? tni_build_floordiv(x, a, b)
         : kind == TNI_EX_MOD    ? tni_build_mod(x, a, b)
                                 : tni_build_exactdiv(x, a, b);
}

/* q + atom(a, b). Interning may simplify a side further (products of an EXACTDIV): then from the start. */
static tn_expr finish_division(tni_exprs *x, tni_ex_kind kind, const division *d) {
  tn_expr args[2] = {tni_poly_expr(x, &d->a), tni_poly_expr(x, &d->b)};
  bool same = same_poly(x, args[0], &d->a) && same_poly(x, args[1], &d->b);
  tn_expr e = same ? tni_ex_intern_args(x, kind, args, 2) : build_division(x, kind, args[0], args[1]);
  return tni_build_add(x, tni_poly_expr(x, &d->q), e, 1);
}

/* floor(a / b) is the same number wherever a and b may lie. */
static bool constant_quotient(const tni_exprs *x, const division *d, int64_t *v) {
  if (!d->nonzero) return false;
  tni_range a = tni_poly_range(x, &d->a), b = tni_poly_range(x, &d->b), r = tni_range_floordiv(a, b);
  if (r.lo == r.hi && r.lo != INT64_MIN && r.hi != INT64_MAX) {
    *v = r.lo;
    return true;
  }
  tni_poly less = d->a; /* 0 <= a < b */
  *v = 0;
  return a.lo >= 0 && tni_poly_add(&less, &d->b, -1) && tni_poly_range(x, &less).hi < 0;
}

/* ((u // c1) + k) // c2 = (u + k*c1) // (c1*c2). */
static bool nested_floordiv(tni_exprs *x, const division *d, tn_expr *a, tn_expr *b) {
  tn_expr atom;
  int64_t coef, k, c1, c, shift;
  if (d->c <= 0 || !tni_poly_atom_plus(&d->a, &atom, &coef, &k) || coef != 1) return false;
  tni_ex_node m = x->nodes[atom];
  if (m.kind != TNI_EX_FLOORDIV || !tni_ex_is_const(x, m.u.args[1], &c1) || c1 <= 0) return false;
  if (!tni_mul_i64(c1, d->c, &c) || !tni_mul_i64(k, c1, &shift)) return false;
  *a = tni_build_add(x, m.u.args[0], tni_ex_const(x, shift), 1);
  *b = tni_ex_const(x, c);
  return *a != TNI_EXPR_NONE && *b != TNI_EXPR_NONE;
}

/* A constant divisor c = g * c': (g*r + k) // c = (r + k // g) // c'. */
static bool reduce_by_gcd(division *d, int64_t *g, int64_t *rest) {
  int64_t k = tni_poly_constant(&d->a), up;
  *g = d->c > 0 ? tni_gcd(tni_poly_content(&d->a, false), d->c) : 1;
  if (*g <= 1 || d->a.n == 0) return false;
  *rest = tni_mod_i64(k, *g);
  if (!tni_sub_i64(0, *rest, &up) || !tni_poly_add_term(&d->a, &(tni_term){.coef = up})) return false;
  return tni_poly_scale_down(&d->a, *g) && tni_poly_scale_down(&d->b, *g);
}

static tn_expr build_floordiv(tni_exprs *x, tn_expr a, tn_expr b) {
  division d;
  bool flipped;
  tni_term factor;
  int64_t v, c, g, rest;
  if (tni_ex_is_const(x, a, &v) && tni_ex_is_const(x, b, &c))
    return c != 0 && tni_floordiv_i64(v, c, &v) ? tni_ex_const(x, v) : TNI_EXPR_NONE;
  if (!tni_ex_valid(x, a) || !tni_ex_valid(x, b) || !begin_division(x, a, b, &flipped, &d)) return TNI_EXPR_NONE;
  if (d.nonzero && !split_division(&d, false)) return TNI_EXPR_NONE;
  if (constant_quotient(x, &d, &v))
    return tni_poly_add_term(&d.q, &(tni_term){.coef = v}) ? tni_poly_expr(x, &d.q) : TNI_EXPR_NONE;
  bool nested = nested_floordiv(x, &d, &a, &b);
  if (!nested && (reduce_by_gcd(&d, &g, &rest) || cancel_factor(x, &d, false, &factor))) {
    a = tni_poly_expr(x, &d.a);
    b = tni_poly_expr(x, &d.b);
    nested = true;
  }
  if (nested) return tni_build_add(x, tni_poly_expr(x, &d.q), tni_build_floordiv(x, a, b), 1);
  return finish_division(x, TNI_EX_FLOORDIV, &d);
}

/* k * (u % m) is k * u modulo c where c divides k * m. */
static bool open_mod(tni_exprs *x, division *d) {
  for (uint32_t i = 0; d->c > 0 && i < d->a.n; i++) {
    int64_t m, km;
    tni_term t = d->a.t[i];
    if (t.degree != 1 || x->nodes[t.atom[0]].kind != TNI_EX_MOD) continue;
    const tn_expr *args = x->nodes[t.atom[0]].u.args;
    if (!tni_ex_is_const(x, args[1], &m) || !tni_mul_i64(t.coef, m, &km) || km % d->c != 0) continue;
    tni_poly u, next = d->a;
    tni_poly_of(x, args[0], &u);
    t.coef = t.coef == INT64_MIN ? 0 : -t.coef;
    if (!t.coef || !tni_poly_add_term(&next, &t) || !tni_poly_add(&next, &u, -t.coef)) continue;
    d->a = next;
    return true;
  }
  return false;
}

/* base + g * e. */
static tn_expr scaled_factor(tni_exprs *x, int64_t base, const tni_term *g, tn_expr e) {
  tni_poly p = {.n = 1, .t = {*g}};
  return tni_build_add(x, tni_build_mul(x, tni_poly_expr(x, &p), e), tni_ex_const(x, base), 1);
}

static tn_expr mod_positive(tni_exprs *x, division *d) {
  int64_t v, g, rest;
  tni_term factor;
  if (d->nonzero && !split_division(d, false)) return TNI_EXPR_NONE;
  d->q.n = 0;
  if (constant_quotient(x, d, &v))
    return tni_poly_add(&d->a, &d->b, v == INT64_MIN ? 0 : -v) && v != INT64_MIN ? tni_poly_expr(x, &d->a)
                                                                                 : TNI_EXPR_NONE;
  if (open_mod(x, d)) return tni_build_mod(x, tni_poly_expr(x, &d->a), tni_poly_expr(x, &d->b));
  if (reduce_by_gcd(d, &g, &rest)) {
    tn_expr inner = tni_build_mod(x, tni_poly_expr(x, &d->a), tni_poly_expr(x, &d->b));
    return scaled_factor(x, rest, &(tni_term){.coef = g}, inner);
  }
  if (cancel_factor(x, d, false, &factor)) {
    tn_expr inner = tni_build_mod(x, tni_poly_expr(x, &d->a), tni_poly_expr(x, &d->b));
    return scaled_factor(x, 0, &factor, inner);
  }
  return finish_division(x, TNI_EX_MOD, d);
}

static tn_expr build_mod(tni_exprs *x, tn_expr a, tn_expr b) {
  division d;
  bool flipped;
  int64_t v, c;
  if (tni_ex_is_const(x, a, &v) && tni_ex_is_const(x, b, &c))
    return c != 0 ? tni_ex_const(x, tni_mod_i64(v, c)) : TNI_EXPR_NONE;
  if (!tni_ex_valid(x, a) || !tni_ex_valid(x, b) || !begin_division(x, a, b, &flipped, &d)) return TNI_EXPR_NONE;
  tn_expr m = mod_positive(x, &d);
  return flipped ? tni_build_add(x, tni_ex_const(x, 0), m, -1) : m;
}

/* (u / w) / b = u / (w * b). */
static bool nested_exactdiv(tni_exprs *x, const division *d, tn_expr *a, tn_expr *b) {
  if (d->a.n != 1 || d->a.t[0].degree != 1 || d->a.t[0].coef != 1) return false;
  tni_ex_node m = x->nodes[d->a.t[0].atom[0]];
  if (m.kind != TNI_EX_EXACTDIV) return false;
  *a = m.u.args[0];
  *b = tni_build_mul(x, m.u.args[1], tni_poly_expr(x, &d->b));
  return *b != TNI_EXPR_NONE;
}

static tn_expr build_exactdiv(tni_exprs *x, tn_expr a, tn_expr b) {
  division d;
  bool flipped;
  tni_term factor;
  int64_t v, c, content;
  if (tni_ex_is_const(x, a, &v) && tni_ex_is_const(x, b, &c))
    return c != 0 && tni_mod_i64(v, c) == 0 && tni_floordiv_i64(v, c, &v) ? tni_ex_const(x, v) : TNI_EXPR_NONE;
  if (!tni_ex_valid(x, a) || !tni_ex_valid(x, b) || !begin_division(x, a, b, &flipped, &d) || !split_division(&d, true))
    return TNI_EXPR_NONE;
  if (d.a.n == 0) return tni_poly_expr(x, &d.q);
  if (d.c && tni_poly_constant(&d.a) % tni_gcd(tni_poly_content(&d.a, false), d.c) != 0) return TNI_EXPR_NONE;
  if (cancel_factor(x, &d, true, &factor)) {
    tn_expr inner = tni_build_exactdiv(x, tni_poly_expr(x, &d.a), tni_poly_expr(x, &d.b));
    return tni_build_add(x, tni_poly_expr(x, &d.q), inner, 1);
  }
  if (nested_exactdiv(x, &d, &a, &b)) return tni_build_add(x, tni_poly_expr(x, &d.q), tni_build_exactdiv(x, a, b), 1);
  /* c divides k*u and has no factor in common with k: c divides u. The sign goes out too. */
  content = d.c ? tni_poly_content(&d.a, true) : 1;
  if (d.a.t[0].coef < 0) content = -content;
  if (content != 1 && tni_poly_scale_down(&d.a, content)) {
    tn_expr inner = tni_build_exactdiv(x, tni_poly_expr(x, &d.a), tni_poly_expr(x, &d.b));
    inner = tni_build_mul(x, inner, tni_ex_const(x, content));
    return tni_build_add(x, tni_poly_expr(x, &d.q), inner, 1);
  }
  return finish_division(x, TNI_EX_EXACTDIV, &d);
}

/* Every round makes the arguments smaller; the bound is there for what nobody thought of. */
static tn_expr bounded_expr(tni_exprs *x, tn_expr (*fn)(tni_exprs *, tn_expr, tn_expr), tn_expr a, tn_expr b) {
  if (x->nesting == NESTING_LIMIT) return TNI_EXPR_NONE;
  x->nesting++;
  tn_expr e = fn(x, a, b);
  x->nesting--;
  return e;
}

tn_expr tni_build_floordiv(tni_exprs *x, tn_expr a, tn_expr b) { return bounded_expr(x, build_floordiv, a, b); }
tn_expr tni_build_mod(tni_exprs *x, tn_expr a, tn_expr b) { return bounded_expr(x, build_mod, a, b); }
tn_expr tni_build_exactdiv(tni_exprs *x, tn_expr a, tn_expr b) { return bounded_expr(x, build_exactdiv, a, b); }
