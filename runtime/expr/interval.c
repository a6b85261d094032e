/* SPDX-License-Identifier: Apache-2.0
 *
 * Interval arithmetic. Bounds are widened to 128 bits with infinities, and saturated back: a lower bound that passes
 * INT64_MIN becomes unbounded, one that passes INT64_MAX becomes INT64_MAX, which is still below the value.
 */
#include "runtime/expr/nodes.h"

typedef tni_i128 i128;

static const i128 INF = (i128)1 << 120;

static i128 wide_lo(int64_t v) { return v == INT64_MIN ? -INF : v; }
static i128 wide_hi(int64_t v) { return v == INT64_MAX ? INF : v; }

static tni_range narrow_range(i128 lo, i128 hi) {
  return (tni_range){lo < INT64_MIN   ? INT64_MIN
                     : lo > INT64_MAX ? INT64_MAX
                                      : (int64_t)lo,
                     hi > INT64_MAX   ? INT64_MAX
                     : hi < INT64_MIN ? INT64_MIN
                                      : (int64_t)hi};
}

static bool is_infinite(i128 v) { return v >= INF || v <= -INF; }

/* 0 times unbounded is 0: the bound 0 is a value, not a limit. */
static i128 times_wide(i128 a, i128 b) {
  if (a == 0 || b == 0) return 0;
  if (is_infinite(a) || is_infinite(b)) return (a < 0) != (b < 0) ? -INF : INF;
  return a * b;
}

tni_range tni_range_add(tni_range a, tni_range b) {
  i128 lo = a.lo == INT64_MIN || b.lo == INT64_MIN ? -INF : (i128)a.lo + b.lo;
  i128 hi = a.hi == INT64_MAX || b.hi == INT64_MAX ? INF : (i128)a.hi + b.hi;
  return narrow_range(lo, hi);
}

tni_range tni_range_mul(tni_range a, tni_range b) {
  const i128 c[4] = {times_wide(wide_lo(a.lo), wide_lo(b.lo)), times_wide(wide_lo(a.lo), wide_hi(b.hi)),
                     times_wide(wide_hi(a.hi), wide_lo(b.lo)), times_wide(wide_hi(a.hi), wide_hi(b.hi))};
  i128 lo = c[0], hi = c[0];
  for (int i = 1; i < 4; i++) {
    if (c[i] < lo) lo = c[i];
    if (c[i] > hi) hi = c[i];
  }
  return narrow_range(lo, hi);
}

static tni_range range_pow(tni_range a, uint32_t n) {
  tni_range r = {1, 1};
  for (uint32_t i = 0; i < n; i++) r = tni_range_mul(r, a);
  if (n % 2 == 0 && n > 0) {
    if (r.lo < 0) r.lo = 0;
    if (a.lo <= 0 && a.hi >= 0) r.lo = 0;
  }
  return r;
}

static i128 floor_div(i128 n, i128 d) {
  if (is_infinite(d)) return n < 0 ? -1 : 0;
  if (is_infinite(n)) return n;
  i128 q = n / d;
  return n % d != 0 && n < 0 ? q - 1 : q;
}

static bool is_empty_range(tni_range r) { return r.lo > r.hi; }

static tni_range join_ranges(tni_range a, tni_range b) {
  if (is_empty_range(a)) return b;
  if (is_empty_range(b)) return a;
  return (tni_range){a.lo < b.lo ? a.lo : b.lo, a.hi > b.hi ? a.hi : b.hi};
}

/* b > 0. For a fixed divisor the quotient grows with a; for a fixed a it is monotone in b: corners decide. */
static tni_range floordiv_positive(tni_range a, tni_range b) {
  i128 alo = wide_lo(a.lo), ahi = wide_hi(a.hi), blo = b.lo, bhi = wide_hi(b.hi);
  i128 lo = floor_div(alo, alo < 0 ? blo : bhi), hi = floor_div(ahi, ahi < 0 ? bhi : blo);
  return narrow_range(lo, hi);
}

static tni_range negate_range(tni_range a) {
  return narrow_range(a.hi == INT64_MAX ? -INF : -(i128)a.hi, a.lo == INT64_MIN ? INF : -(i128)a.lo);
}

static const tni_range unbounded_range = {INT64_MIN, INT64_MAX}, nothing = {1, 0};

tni_range tni_range_floordiv(tni_range a, tni_range b) {
  tni_range pos = {b.lo > 1 ? b.lo : 1, b.hi}, neg = {b.lo, b.hi < -1 ? b.hi : -1};
  tni_range p = is_empty_range(pos) ? nothing : floordiv_positive(a, pos);
  tni_range n = is_empty_range(neg) ? nothing : floordiv_positive(negate_range(a), negate_range(neg));
  tni_range r = join_ranges(p, n);
  return is_empty_range(r) ? unbounded_range : r;
}

static tni_range mod_positive(tni_range a, tni_range b) {
  tni_range r = {0, b.hi == INT64_MAX ? INT64_MAX : b.hi - 1};
  if (a.lo >= 0 && a.hi < r.hi) r.hi = a.hi;
  if (a.lo >= 0 && a.hi < b.lo) r.lo = a.lo; /* a itself */
  return r;
}

tni_range tni_range_mod(tni_range a, tni_range b) {
  tni_range pos = {b.lo > 1 ? b.lo : 1, b.hi}, neg = {b.lo, b.hi < -1 ? b.hi : -1};
  tni_range p = is_empty_range(pos) ? nothing : mod_positive(a, pos);
  tni_range n = is_empty_range(neg) ? nothing : negate_range(mod_positive(negate_range(a), negate_range(neg)));
  tni_range r = join_ranges(p, n);
  return is_empty_range(r) ? unbounded_range : r;
}

static tni_range term_interval(const tni_exprs *x, const tni_term *t) {
  tni_range r = {t->coef, t->coef};
  /* A constant equal to a sentinel is still that constant: widen it to unbounded, which is sound. */
  for (uint32_t i = 0, run; i < t->degree; i += run) {
    for (run = 1; i + run < t->degree && t->atom[i + run] == t->atom[i]; run++) {
    }
    r = tni_range_mul(r, range_pow(x->nodes[t->atom[i]].range, run));
  }
  return r;
}

tni_range tni_poly_interval(const tni_exprs *x, const tni_poly *p) {
  tni_range r = {0, 0};
  for (uint32_t i = 0; i < p->n; i++) r = tni_range_add(r, term_interval(x, &p->t[i]));
  return r;
}
