/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "runtime/expr/nodes.h"

int64_t tni_gcd(int64_t a, int64_t b) {
  uint64_t u = a < 0 ? 0 - (uint64_t)a : (uint64_t)a, v = b < 0 ? 0 - (uint64_t)b : (uint64_t)b;
  while (v) {
    uint64_t r = u % v;
    u = v;
    v = r;
  }
  return u > INT64_MAX ? 1 : (int64_t)u; /* 2^63 has no int64_t; 1 divides as well */
}

bool tni_floordiv_i64(int64_t n, int64_t d, int64_t *out) {
  if (d == -1) return tni_sub_i64(0, n, out);
  int64_t q = n / d;
  *out = n % d != 0 && (n % d < 0) != (d < 0) ? q - 1 : q;
  return true;
}

int64_t tni_mod_i64(int64_t n, int64_t d) {
  if (d == -1) return 0;
  int64_t r = n % d;
  return r != 0 && (r < 0) != (d < 0) ? r + d : r;
}

int tni_term_cmp(const tni_term *a, const tni_term *b) {
  if (a->degree != b->degree) return a->degree > b->degree ? -1 : 1;
  for (uint32_t i = 0; i < a->degree; i++)
    if (a->atom[i] != b->atom[i]) return a->atom[i] < b->atom[i] ? -1 : 1;
  return 0;
}

static bool term_mul(const tni_term *a, const tni_term *b, tni_term *out) {
  tni_term t = {.degree = a->degree + b->degree};
  if (t.degree > DEGREE_MAX || !tni_mul_i64(a->coef, b->coef, &t.coef)) return false;
  for (uint32_t i = 0, j = 0, k = 0; k < t.degree; k++)
    t.atom[k] = j == b->degree || (i < a->degree && a->atom[i] <= b->atom[j]) ? a->atom[i++] : b->atom[j++];
  *out = t;
  return true;
}

bool tni_term_divides(const tni_term *d, const tni_term *t, tni_term *quotient) {
  tni_term q = {.coef = t->coef};
  uint32_t j = 0;
  for (uint32_t i = 0; i < t->degree; i++) {
    if (j < d->degree && d->atom[j] == t->atom[i])
      j++;
    else
      q.atom[q.degree++] = t->atom[i];
  }
  *quotient = q;
  return j == d->degree;
}

void tni_poly_of(const tni_exprs *x, tn_expr e, tni_poly *p) {
  const tni_ex_node *n = &x->nodes[e];
  if (n->kind == TNI_EX_ADD) {
    p->n = n->n;
    memcpy(p->t, n->u.terms, n->n * sizeof *n->u.terms);
  } else if (n->kind == TNI_EX_CONST) {
    p->n = n->u.v != 0;
    p->t[0] = (tni_term){.coef = n->u.v};
  } else {
    p->n = 1;
    p->t[0] = (tni_term){.coef = 1, .degree = 1, .atom = {e}};
  }
}

bool tni_poly_add_term(tni_poly *p, const tni_term *t) {
  if (t->coef == 0) return true;
  uint32_t lo = 0, hi = p->n;
  while (lo < hi) {
    uint32_t mid = (lo + hi) / 2;
    int c = tni_term_cmp(&p->t[mid], t);
    if (c == 0) {
      if (!tni_add_i64(p->t[mid].coef, t->coef, &p->t[mid].coef)) return false;
      if (p->t[mid].coef == 0) memmove(&p->t[mid], &p->t[mid + 1], (--p->n - mid) * sizeof *p->t);
      return true;
    }
    if (c < 0)
      lo = mid + 1;
    else
      hi = mid;
  }
  if (p->n == TERMS_MAX) return false;
  memmove(&p->t[lo + 1], &p->t[lo], (p->n++ - lo) * sizeof *p->t);
  p->t[lo] = *t;
  return true;
}

bool tni_poly_add(tni_poly *dst, const tni_poly *p, int64_t k) {
  for (uint32_t i = 0; i < p->n; i++) {
    tni_term t = p->t[i];
    if (!tni_mul_i64(t.coef, k, &t.coef) || !tni_poly_add_term(dst, &t)) return false;
  }
  return true;
}

bool tni_poly_mul(const tni_poly *a, const tni_poly *b, tni_poly *out) {
  out->n = 0;
  for (uint32_t i = 0; i < a->n; i++)
    for (uint32_t j = 0; j < b->n; j++) {
      tni_term t;
      if (!term_mul(&a->t[i], &b->t[j], &t) || !tni_poly_add_term(out, &t)) return false;
    }
  return true;
}

bool tni_poly_scale_down(tni_poly *p, int64_t d) {
  for (uint32_t i = 0; i < p->n; i++) {
    if (d == 0 || (d == -1 && p->t[i].coef == INT64_MIN) || p->t[i].coef % d != 0) return false;
    p->t[i].coef /= d;
  }
  return true;
}

int64_t tni_poly_constant(const tni_poly *p) { return p->n && p->t[p->n - 1].degree == 0 ? p->t[p->n - 1].coef : 0; }

int64_t tni_poly_content(const tni_poly *p, bool with_constant) {
  int64_t g = 0;
  for (uint32_t i = 0; i < p->n; i++)
    if (with_constant || p->t[i].degree) g = tni_gcd(g, p->t[i].coef);
  return g;
}

bool tni_poly_is_const(const tni_poly *p, int64_t *v) {
  if (p->n && p->t[0].degree) return false;
  *v = p->n ? p->t[0].coef : 0;
  return true;
}

bool tni_poly_atom_plus(const tni_poly *p, tn_expr *atom, int64_t *coef, int64_t *k) {
  if (p->n < 1 || p->n > 2 || p->t[0].degree != 1 || (p->n == 2 && p->t[1].degree)) return false;
  *atom = p->t[0].atom[0];
  *coef = p->t[0].coef;
  *k = p->n == 2 ? p->t[1].coef : 0;
  return true;
}

static bool divide_coef(int64_t n, int64_t d, bool truncate, int64_t *out) {
  if (!truncate || d == -1) return tni_floordiv_i64(n, d, out);
  *out = n / d;
  return true;
}

bool tni_poly_divide(const tni_poly *a, const tni_poly *b, bool truncate, tni_poly *q, tni_poly *r) {
  tni_poly rest = *a;
  q->n = r->n = 0;
  /* Each round removes the leading term for good: the order of terms is a monomial order. */
  for (int rounds = 0; rest.n; rounds++) {
    tni_term lead = rest.t[0], t;
    if (rounds > 4 * TERMS_MAX) return false;
    if (tni_term_divides(&b->t[0], &lead, &t) && divide_coef(lead.coef, b->t[0].coef, truncate, &t.coef) && t.coef) {
      tni_poly one = {.n = 1, .t = {t}}, back;
      if (!tni_poly_add_term(q, &t) || !tni_poly_mul(&one, b, &back) || !tni_poly_add(&rest, &back, -1)) return false;
      if (!rest.n || tni_term_cmp(&rest.t[0], &lead) != 0) continue;
      lead = rest.t[0]; /* what the coefficient's rounding left */
    }
    if (!tni_poly_add_term(r, &lead)) return false;
    memmove(&rest.t[0], &rest.t[1], --rest.n * sizeof *rest.t);
  }
  return true;
}
