/* SPDX-License-Identifier: Apache-2.0
 *
 * The best upper bound of a polynomial that bounded work finds; a lower bound is that of the negated one.
 *
 * 1. Monotonicity: where the partial derivative by an atom has one sign, the maximum lies at that atom's bound
 *    (N*M - N with N, M >= 1). Atoms are taken as independent, which only widens.
 * 2. A linear MIN, MAX, FLOORDIV or MOD is replaced by what bounds it (min(a,b) <= a; c*(a//c) in [a-c+1, a]).
 * 3. A known f >= 0 is added: p <= p + k*f.
 */
#include "runtime/expr/nodes.h"

typedef struct search {
  const tni_exprs *x;
  int budget;
} search;

static int64_t upper_bound(search *s, const tni_poly *p, int depth);

static bool poly_derivative(const tni_poly *p, tn_expr atom, tni_poly *out) {
  tni_term one = {.coef = 1, .degree = 1, .atom = {atom}}, t;
  out->n = 0;
  for (uint32_t i = 0; i < p->n; i++) {
    int64_t power = 0;
    for (uint32_t k = 0; k < p->t[i].degree; k++) power += p->t[i].atom[k] == atom;
    if (!power) continue;
    (void)tni_term_divides(&one, &p->t[i], &t);
    if (!tni_mul_i64(t.coef, power, &t.coef) || !tni_poly_add_term(out, &t)) return false;
  }
  return true;
}

/* out = p with atom := v. */
static bool substitute_atom(const tni_poly *p, tn_expr atom, int64_t v, tni_poly *out) {
  out->n = 0;
  for (uint32_t i = 0; i < p->n; i++) {
    tni_term t = {.coef = p->t[i].coef};
    for (uint32_t k = 0; k < p->t[i].degree; k++) {
      if (p->t[i].atom[k] != atom)
        t.atom[t.degree++] = p->t[i].atom[k];
      else if (!tni_mul_i64(t.coef, v, &t.coef))
        return false;
    }
    if (!tni_poly_add_term(out, &t)) return false;
  }
  return true;
}

/* How many terms hold the atom. */
static uint32_t count_atom(const tni_poly *p, tn_expr atom) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < p->n; i++)
    for (uint32_t k = 0; k < p->t[i].degree; k++)
      if (p->t[i].atom[k] == atom) {
        n++;
        break;
      }
  return n;
}

/* One atom of p fixed at the bound where the maximum lies. */
static bool fix_one(const tni_exprs *x, const tni_poly *p, tni_poly *out) {
  tni_poly d;
  for (uint32_t i = 0; i < p->n; i++)
    for (uint32_t k = 0; k < p->t[i].degree; k++) {
      tn_expr atom = p->t[i].atom[k];
      if ((k && p->t[i].atom[k - 1] == atom) || count_atom(p, atom) < 2 || !poly_derivative(p, atom, &d)) continue;
      tni_range slope = tni_poly_interval(x, &d), at = x->nodes[atom].range;
      int64_t v;
      if (slope.lo >= 0 && at.hi != INT64_MAX)
        v = at.hi;
      else if (slope.hi <= 0 && at.lo != INT64_MIN)
        v = at.lo;
      else
        continue;
      if (substitute_atom(p, atom, v, out)) return true;
    }
  return false;
}

static int64_t upper_monotone(const tni_exprs *x, const tni_poly *p) {
  tni_poly a = *p, b;
  int64_t best = tni_poly_interval(x, p).hi;
  for (int i = 0; i < 16 && fix_one(x, &a, &b); i++) {
    a = b;
    int64_t hi = tni_poly_interval(x, &a).hi;
    if (hi < best) best = hi;
  }
  return best;
}

/* p without term i, times scale, plus k * e. */
static bool replaced_bound(const tni_exprs *x, const tni_poly *p, uint32_t i, int64_t scale, int64_t k, tn_expr e,
                           tni_poly *out) {
  tni_poly by;
  tni_poly_of(x, e, &by);
  out->n = 0;
  for (uint32_t j = 0; j < p->n; j++) {
    tni_term t = p->t[j];
    if (j != i && (!tni_mul_i64(t.coef, scale, &t.coef) || !tni_poly_add_term(out, &t))) return false;
  }
  return tni_poly_add(out, &by, k);
}

/* k * MIN or MAX: with the right sign any argument bounds it, with the other the worst of all does. */
static int64_t upper_minmax(search *s, const tni_poly *p, uint32_t i, const tni_ex_node *m, int depth) {
  int64_t k = p->t[i].coef, best = INT64_MAX, worst = INT64_MIN;
  tni_poly q;
  for (uint32_t a = 0; a < m->n; a++) {
    int64_t hi = replaced_bound(s->x, p, i, 1, k, m->u.args[a], &q) ? upper_bound(s, &q, depth - 1) : INT64_MAX;
    if (hi < best) best = hi;
    if (hi > worst) worst = hi;
  }
  return (m->kind == TNI_EX_MIN) == (k > 0) ? best : worst;
}

/* k * (a // c), c > 0: c * p' + k * a bounds c times the whole; for k < 0, k * (a - c + 1). */
static int64_t upper_floordiv(search *s, const tni_poly *p, uint32_t i, const tni_ex_node *m, int depth) {
  int64_t k = p->t[i].coef, c, extra, hi;
  tni_poly q;
  if (!tni_ex_is_const(s->x, m->u.args[1], &c) || c <= 0) return INT64_MAX;
  if (k % c == 0) { /* no scaling */
    if (!replaced_bound(s->x, p, i, 1, k / c, m->u.args[0], &q)) return INT64_MAX;
    if (k < 0) {
      if (!tni_mul_i64(k / c, 1 - c, &extra)) return INT64_MAX;
      if (!tni_poly_add_term(&q, &(tni_term){.coef = extra})) return INT64_MAX;
    }
    return upper_bound(s, &q, depth - 1);
  }
  if (!replaced_bound(s->x, p, i, c, k, m->u.args[0], &q)) return INT64_MAX;
  if (k < 0) {
    if (!tni_mul_i64(k, 1 - c, &extra)) return INT64_MAX;
    if (!tni_poly_add_term(&q, &(tni_term){.coef = extra})) return INT64_MAX;
  }
  hi = upper_bound(s, &q, depth - 1);
  return hi != INT64_MAX && tni_floordiv_i64(hi, c, &hi) ? hi : INT64_MAX;
}

/* k * (a % b): for a >= 0, b > 0 it is at most a; with k > 0 only. */
static int64_t upper_mod(search *s, const tni_poly *p, uint32_t i, const tni_ex_node *m, int depth) {
  tni_poly q;
  int64_t best = INT64_MAX;
  if (p->t[i].coef <= 0 || s->x->nodes[m->u.args[1]].range.lo <= 0) return best;
  if (s->x->nodes[m->u.args[0]].range.lo >= 0 && replaced_bound(s->x, p, i, 1, p->t[i].coef, m->u.args[0], &q))
    best = upper_bound(s, &q, depth - 1);
  int64_t hi = INT64_MAX; /* and at most b - 1 */
  if (replaced_bound(s->x, p, i, 1, p->t[i].coef, m->u.args[1], &q) &&
      tni_poly_add_term(&q, &(tni_term){.coef = p->t[i].coef == INT64_MIN ? 0 : -p->t[i].coef}))
    hi = upper_bound(s, &q, depth - 1);
  return hi < best ? hi : best;
}

static int64_t upper_atoms(search *s, const tni_poly *p, int depth) {
  int64_t best = INT64_MAX;
  for (uint32_t i = 0; i < p->n; i++) {
    if (p->t[i].degree != 1) continue;
    const tni_ex_node *m = &s->x->nodes[p->t[i].atom[0]];
    int64_t hi = INT64_MAX;
    if (m->kind == TNI_EX_MIN || m->kind == TNI_EX_MAX) hi = upper_minmax(s, p, i, m, depth);
    if (m->kind == TNI_EX_FLOORDIV) hi = upper_floordiv(s, p, i, m, depth);
    if (m->kind == TNI_EX_MOD) hi = upper_mod(s, p, i, m, depth);
    if (hi < best) best = hi;
  }
  return best;
}

/* k > 0 for which p + k * f loses a term that stands in both with opposite signs; 0: none. */
static int64_t fact_factor(const tni_poly *p, const tni_poly *f) {
  for (uint32_t i = 0; i < p->n; i++)
    for (uint32_t j = 0; j < f->n; j++) {
      int64_t c = p->t[i].coef, e = f->t[j].coef;
      if (!p->t[i].degree || tni_term_cmp(&p->t[i], &f->t[j]) != 0 || (c < 0) == (e < 0)) continue;
      if (e == INT64_MIN || c == INT64_MIN) continue;
      int64_t k = -(c / e);
      return k > 0 ? k : 1;
    }
  return 0;
}

static int64_t upper_facts(search *s, const tni_poly *p, int depth) {
  int64_t best = INT64_MAX;
  for (uint32_t i = 0; i < s->x->n_facts; i++) {
    tni_poly f, q = *p;
    tni_poly_of(s->x, s->x->facts[i], &f);
    int64_t k = fact_factor(p, &f);
    if (!k || !tni_poly_add(&q, &f, k)) continue;
    int64_t hi = upper_bound(s, &q, depth - 1);
    if (hi < best) best = hi;
  }
  return best;
}

static int64_t upper_bound(search *s, const tni_poly *p, int depth) {
  if (s->budget-- <= 0) return tni_poly_interval(s->x, p).hi;
  int64_t best = upper_monotone(s->x, p);
  if (depth == 0) return best;
  int64_t hi = upper_atoms(s, p, depth);
  if (hi < best) best = hi;
  hi = upper_facts(s, p, depth);
  return hi < best ? hi : best;
}

static tni_range primitive_range(const tni_exprs *x, const tni_poly *p) {
  search s = {x, 64};
  tni_poly minus = {.n = 0};
  tni_range r = tni_poly_interval(x, p);
  int64_t hi = upper_bound(&s, p, 4);
  if (hi < r.hi) r.hi = hi;
  if (!tni_poly_add(&minus, p, -1)) return r;
  s.budget = 64;
  hi = upper_bound(&s, &minus, 4);
  int64_t lo = hi == INT64_MAX ? INT64_MIN : hi == INT64_MIN ? INT64_MAX : -hi;
  if (lo > r.lo) r.lo = lo;
  return r;
}

/* p = g * p' + k: p' is an integer, so bounds of it that were rounded are better than those of p. */
tni_range tni_poly_range(const tni_exprs *x, const tni_poly *p) {
  int64_t g = tni_poly_content(p, false), k = tni_poly_constant(p);
  tni_poly q = *p;
  if (g > 1 && k) q.n--;
  if (g <= 1 || !tni_poly_scale_down(&q, g)) return primitive_range(x, p);
  tni_range r = tni_range_mul(primitive_range(x, &q), (tni_range){g, g});
  return k ? tni_range_add(r, (tni_range){k, k}) : r;
}

static bool poly_difference(const tni_exprs *x, tn_expr a, tn_expr b, tni_poly *d) {
  tni_poly q;
  tni_poly_of(x, a, d);
  tni_poly_of(x, b, &q);
  return tni_poly_add(d, &q, -1);
}

int tni_ex_order(tni_exprs *x, tn_expr a, tn_expr b) {
  if (!tni_ex_valid(x, a) || !tni_ex_valid(x, b)) return 2;
  if (a == b) return 0;
  tni_range ra = x->nodes[a].range, rb = x->nodes[b].range;
  if (ra.hi < rb.lo) return -1;
  if (ra.lo > rb.hi) return 1;
  tni_poly d;
  if (!poly_difference(x, a, b, &d)) return 2;
  tni_range r = tni_poly_range(x, &d);
  if (r.hi < 0) return -1;
  if (r.lo > 0) return 1;
  return r.lo == 0 && r.hi == 0 ? 0 : 2;
}

bool tni_ex_proves_le(tni_exprs *x, tn_expr a, tn_expr b) {
  if (!tni_ex_valid(x, a) || !tni_ex_valid(x, b)) return false;
  tni_range ra = x->nodes[a].range, rb = x->nodes[b].range;
  if (a == b || (ra.hi != INT64_MAX && rb.lo != INT64_MIN && ra.hi <= rb.lo)) return true;
  tni_poly d;
  return poly_difference(x, a, b, &d) && tni_poly_range(x, &d).hi <= 0;
}

void tni_ex_range(const tni_exprs *x, tn_expr e, int64_t *lo, int64_t *hi) {
  tni_range r = tni_ex_valid(x, e) ? x->nodes[e].range : (tni_range){INT64_MIN, INT64_MAX};
  *lo = r.lo;
  *hi = r.hi;
}

int tni_ex_divides(const tni_exprs *x, tn_expr e, int64_t c) {
  if (!tni_ex_valid(x, e)) return -1;
  tni_range r = x->nodes[e].range;
  if (c == 0) return r.lo == 0 && r.hi == 0 ? 1 : r.lo > 0 || r.hi < 0 ? 0 : -1;
  if (c == INT64_MIN) return r.lo == 0 && r.hi == 0 ? 1 : -1;
  if (c < 0) c = -c;
  tni_poly p;
  tni_poly_of(x, e, &p);
  int64_t k = tni_poly_constant(&p), g = c;
  for (uint32_t i = 0; i < p.n; i++)
    if (p.t[i].degree) g = tni_gcd(g, p.t[i].coef);
  if (k % g != 0) return 0; /* e = k modulo g, everywhere */
  return g == c ? 1 : -1;
}
