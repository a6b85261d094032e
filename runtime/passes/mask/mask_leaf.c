/* SPDX-License-Identifier: Apache-2.0
 *
 * Element-wise operators on leaves.
 */
#include <float.h>
#include <math.h>

#include "runtime/passes/mask/forms.h"

/* An integer element that went through floats (gain * t + off, then compared with c) is what it was while off and c are
 * so small: roundings keep the order, and integers up to 256 are exact in every float type. */
enum { SMALL = 64 };

tni_mleaf tni_mleaf_num(double v) {
  return (tni_mleaf){.kind = TNI_MLEAF_NUM, .lo = v, .hi = v, .any = v != v, .src = TN_NONE};
}

tni_mleaf tni_mleaf_int(const tni_mask *m, int64_t v) {
  return (tni_mleaf){.kind = TNI_MLEAF_INT, .f = tni_mform_const(m, tni_ex_const(m->x, v)), .src = TN_NONE};
}

tni_mleaf tni_mleaf_of(const tni_mask *m, uint32_t dtype, double v) {
  return tni_mask_is_int(dtype) ? tni_mleaf_int(m, (int64_t)v) : tni_mleaf_num(v);
}

static tni_mleaf between_bounds(double lo, double hi) {
  if (!(lo <= hi)) return (tni_mleaf){.kind = TNI_MLEAF_NUM, .any = true, .src = TN_NONE};
  return (tni_mleaf){.kind = TNI_MLEAF_NUM, .lo = lo, .hi = hi, .src = TN_NONE};
}

static tni_mleaf any_value(void) { return between_bounds(1, 0); }

bool tni_mleaf_is_num(const tni_mleaf *l, double *v) {
  *v = l->lo;
  return l->kind == TNI_MLEAF_NUM && !l->any && l->lo == l->hi;
}

bool tni_mleaf_same(const tni_mleaf *a, const tni_mleaf *b) {
  if (a->kind != b->kind || a->any != b->any) return false;
  if (a->kind == TNI_MLEAF_NUM) return !a->any && a->lo == b->lo && a->hi == b->hi;
  if (a->kind == TNI_MLEAF_VOID) return true;
  if (!tni_mform_same(&a->f, &b->f)) return false;
  return a->kind == TNI_MLEAF_INT || (a->src == b->src && a->gain == b->gain && a->off == b->off);
}

bool tni_mask_is_int(uint32_t dtype) { return dtype == TN_DT_I64 || dtype == TN_DT_I32; }

/* v as the dtype keeps it. */
static double round_to_dtype(uint32_t dtype, double v) {
  if (dtype == TN_DT_F64 || v != v || isinf(v)) return v;
  /* half way to the power of two after FLT_MAX, from where on float is infinite */
  if (fabs(v) >= (double)FLT_MAX + ldexp(1, 127 - 24)) return v < 0 ? (double)-INFINITY : (double)INFINITY;
  const float f = (float)v;
  if (dtype == TN_DT_F16) return (double)tni_f16_to_f32(tni_f32_to_f16(f));
  return dtype == TN_DT_BF16 ? (double)tni_bf16_to_f32(tni_f32_to_bf16(f)) : (double)f;
}

static bool is_float(uint32_t dtype) {
  return dtype == TN_DT_F32 || dtype == TN_DT_F64 || dtype == TN_DT_F16 || dtype == TN_DT_BF16;
}

static bool is_small_value(double v) { return fabs(v) <= SMALL && v == floor(v); }

static uint32_t dtype_of(const tni_mask *m, tn_id v) { return m->g->values[v]->pub.dtype; }

/* Bounds of any leaf as numbers; false: it may be anything. */
static bool leaf_bounds(tni_mask *m, const tni_mtab *t, const tni_mleaf *l, double *lo, double *hi) {
  tn_expr a, b;
  int64_t n, unused;
  *lo = l->lo;
  *hi = l->hi;
  if (l->kind != TNI_MLEAF_INT) return !l->any;
  tni_mform_bounds(m, &l->f, t->rank, t->dims, &a, &b);
  if (a == TNI_EXPR_NONE || b == TNI_EXPR_NONE) return false;
  tni_ex_range(m->x, a, &n, &unused);
  *lo = n == INT64_MIN ? (double)-INFINITY : (double)n;
  tni_ex_range(m->x, b, &unused, &n);
  *hi = n == INT64_MAX ? (double)INFINITY : (double)n;
  return true;
}

static bool int_const(const tni_mask *m, const tni_mleaf *l, double *v) {
  tn_expr k;
  int64_t n;
  if (l->kind != TNI_MLEAF_INT || !tni_mform_is_const(m, &l->f, &k) || !tni_ex_is_const(m->x, k, &n)) return false;
  *v = (double)n;
  return n >= -(INT64_C(1) << 53) && n <= INT64_C(1) << 53;
}

static bool leaf_constant(const tni_mask *m, const tni_mleaf *l, double *v) {
  return tni_mleaf_is_num(l, v) || int_const(m, l, v);
}

/* --- comparing --- */

static void answer_leaf(tni_mout *r, bool yes) { r->yes = tni_mleaf_num(yes); }

static void ask_atom(tni_mout *r, const tni_matom *p, bool neg) {
  r->yes = tni_mleaf_num(1);
  r->no = tni_mleaf_num(0);
  r->cond[r->n] = *p;
  r->neg[r->n++] = neg;
}

void tni_mout_index(tni_mask *m, const tni_mtab *out, const tni_mform *f, tni_mout *r) {
  bool neg;
  const int sign = tni_mform_whole(f) ? tni_mform_sign(m, f, out->rank, out->dims) : -1;
  if (sign == 0) r->n = 0;
  if (sign == 0 || (sign == 1 && r->n == 0)) answer_leaf(r, sign == 1);
  if (sign >= 0) return;
  const tni_matom p = tni_matom_index(m, f, &neg);
  ask_atom(r, &p, neg);
}

/* gain * t + off == c or >= c. */
static bool ask_element(const tni_mask *m, const tni_mleaf *l, tni_matom_kind kind, double c, tni_mout *r) {
  tni_matom p = {.kind = kind, .f = l->f, .src = l->src, .c = (c - l->off) * l->gain};
  if (!tni_mask_is_int(dtype_of(m, l->src))) {
    if (kind != TNI_MATOM_EQ) return false;
    ask_atom(r, &p, false);
    return true;
  }
  if (!is_small_value(c) || !is_small_value(l->off)) return false;
  if (kind == TNI_MATOM_GE && l->gain < 0) p.c += 1; /* t <= c is not (t >= c + 1) */
  ask_atom(r, &p, kind == TNI_MATOM_GE && l->gain < 0);
  return true;
}

static void invert_leaf(tni_mout *r) {
  const tni_mleaf yes = r->yes;
  double v;
  if (r->n) {
    r->yes = r->no;
    r->no = yes;
  } else if (tni_mleaf_is_num(&yes, &v)) {
    answer_leaf(r, v == 0);
  }
}

static void equal_leaves(tni_mask *m, const tni_mtab *out, const tni_mleaf *a, const tni_mleaf *b, tni_mout *r) {
  double c, lo[2], hi[2];
  if (a->kind == TNI_MLEAF_INT && b->kind == TNI_MLEAF_INT) {
    const tni_mform up = tni_mform_add(m, &a->f, &b->f, -1), down = tni_mform_add(m, &b->f, &a->f, -1);
    tni_mout_index(m, out, &up, r);
    if (r->n || r->yes.lo != 0) tni_mout_index(m, out, &down, r);
    return;
  }
  r->yes = any_value();
  const bool known = leaf_bounds(m, out, a, &lo[0], &hi[0]) && leaf_bounds(m, out, b, &lo[1], &hi[1]);
  if (known && (hi[0] < lo[1] || hi[1] < lo[0])) {
    answer_leaf(r, false);
  } else if (known && lo[0] == hi[0] && lo[1] == hi[1]) {
    answer_leaf(r, true);
  } else if (a->kind == TNI_MLEAF_SRC && leaf_constant(m, b, &c)) {
    (void)ask_element(m, a, TNI_MATOM_EQ, c, r);
  } else if (b->kind == TNI_MLEAF_SRC && leaf_constant(m, a, &c)) {
    (void)ask_element(m, b, TNI_MATOM_EQ, c, r);
  }
}

/* a >= b, strictly: a > b. */
static void leaf_above(tni_mask *m, const tni_mtab *out, const tni_mleaf *a, const tni_mleaf *b, bool strictly,
                       tni_mout *r) {
  double c, lo[2], hi[2];
  if (a->kind == TNI_MLEAF_INT && b->kind == TNI_MLEAF_INT) {
    tni_mform f = tni_mform_add(m, &a->f, &b->f, -1);
    if (strictly && f.k != TNI_EXPR_NONE) f.k = tni_ex_sub(m->x, f.k, m->one);
    tni_mout_index(m, out, &f, r);
    return;
  }
  r->yes = any_value();
  const bool known = leaf_bounds(m, out, a, &lo[0], &hi[0]) && leaf_bounds(m, out, b, &lo[1], &hi[1]);
  if (known && (strictly ? lo[0] > hi[1] : lo[0] >= hi[1])) {
    answer_leaf(r, true);
  } else if (known && (strictly ? hi[0] <= lo[1] : hi[0] < lo[1])) {
    answer_leaf(r, false);
  } else if (a->kind == TNI_MLEAF_SRC && leaf_constant(m, b, &c)) {
    (void)ask_element(m, a, TNI_MATOM_GE, strictly ? c + 1 : c, r);
  } else if (b->kind == TNI_MLEAF_SRC && leaf_constant(m, a, &c)) { /* c > t is not (t >= c) */
    if (ask_element(m, b, TNI_MATOM_GE, strictly ? c : c + 1, r)) invert_leaf(r);
  }
}

/* --- arithmetic --- */

static tni_mleaf rounded_bounds(const tni_mtab *out, double lo, double hi) {
  return between_bounds(round_to_dtype(out->dtype, lo), round_to_dtype(out->dtype, hi));
}

/* element + c, where it stays one. */
static bool add_to_element(const tni_mask *m, const tni_mleaf *l, double c, tni_mleaf *r) {
  if (l->kind != TNI_MLEAF_SRC) return false;
  *r = *l;
  if (c == 0) return true;
  r->off += c;
  r->lo += c;
  r->hi += c;
  return tni_mask_is_int(dtype_of(m, l->src)) && is_small_value(c) && is_small_value(r->off);
}

static tni_mleaf negative_leaf(const tni_mask *m, const tni_mleaf *l) {
  tni_mleaf r = *l;
  r.lo = -l->hi;
  r.hi = -l->lo;
  if (l->kind != TNI_MLEAF_SRC) return r;
  if (!tni_mask_is_int(dtype_of(m, l->src))) return l->any ? any_value() : between_bounds(r.lo, r.hi);
  r.gain = -l->gain;
  r.off = -l->off;
  return r;
}

static tni_mleaf sum_of_leaves(tni_mask *m, const tni_mtab *out, const tni_mleaf *a, const tni_mleaf *b) {
  double c, lo[2], hi[2];
  tni_mleaf r = any_value();
  if (a->kind == TNI_MLEAF_INT && b->kind == TNI_MLEAF_INT) {
    r = *a;
    r.f = tni_mform_add(m, &a->f, &b->f, 1);
    return r;
  }
  if (leaf_constant(m, b, &c) && add_to_element(m, a, c, &r)) return r;
  if (leaf_constant(m, a, &c) && add_to_element(m, b, c, &r)) return r;
  if (!leaf_bounds(m, out, a, &lo[0], &hi[0]) || !leaf_bounds(m, out, b, &lo[1], &hi[1])) return any_value();
  if ((isinf(hi[0]) && hi[0] > 0) || (isinf(hi[1]) && hi[1] > 0)) return any_value(); /* with -inf no number */
  return rounded_bounds(out, lo[0] + lo[1], hi[0] + hi[1]);
}

static tni_mleaf difference_of_leaves(tni_mask *m, const tni_mtab *out, const tni_mleaf *a, const tni_mleaf *b) {
  if (a->kind == TNI_MLEAF_INT && b->kind == TNI_MLEAF_INT) {
    tni_mleaf r = *a;
    r.f = tni_mform_add(m, &a->f, &b->f, -1);
    return r;
  }
  if (b->kind == TNI_MLEAF_INT) return any_value();
  const tni_mleaf n = negative_leaf(m, b);
  return sum_of_leaves(m, out, a, &n);
}

static tni_mleaf scaled_leaf(tni_mask *m, const tni_mtab *out, const tni_mleaf *a, double c) {
  double lo, hi;
  if (c == 1) return *a;
  if (c == -1 && a->kind != TNI_MLEAF_INT) return negative_leaf(m, a);
  if (!leaf_bounds(m, out, a, &lo, &hi) || isinf(lo) || isinf(hi) || isinf(c)) return any_value();
  return c < 0 ? rounded_bounds(out, c * hi, c * lo) : rounded_bounds(out, c * lo, c * hi);
}

static tni_mleaf product_of_leaves(tni_mask *m, const tni_mtab *out, const tni_mleaf *a, const tni_mleaf *b) {
  double c, lo[2], hi[2];
  tn_expr k;
  tni_mleaf r = *a;
  if (a->kind == TNI_MLEAF_INT && b->kind == TNI_MLEAF_INT) {
    const bool second = tni_mform_is_const(m, &b->f, &k);
    if (!second && !tni_mform_is_const(m, &a->f, &k)) return any_value();
    r.f = tni_mform_mul(m, second ? &a->f : &b->f, k);
    return r;
  }
  if (tni_mask_is_int(out->dtype)) return any_value();
  if (tni_mleaf_is_num(a, &c)) return scaled_leaf(m, out, b, c);
  if (tni_mleaf_is_num(b, &c)) return scaled_leaf(m, out, a, c);
  if (!leaf_bounds(m, out, a, &lo[0], &hi[0]) || !leaf_bounds(m, out, b, &lo[1], &hi[1])) return any_value();
  if (isinf(lo[0]) || isinf(hi[0]) || isinf(lo[1]) || isinf(hi[1])) return any_value();
  const double p[4] = {lo[0] * lo[1], lo[0] * hi[1], hi[0] * lo[1], hi[0] * hi[1]};
  return rounded_bounds(out, fmin(fmin(p[0], p[1]), fmin(p[2], p[3])), fmax(fmax(p[0], p[1]), fmax(p[2], p[3])));
}

static tni_mleaf quotient_of_leaves(const tni_mtab *out, const tni_mleaf *a, const tni_mleaf *b) {
  double c, d;
  if (!tni_mleaf_is_num(a, &c) || !tni_mleaf_is_num(b, &d) || d == 0 || isinf(d)) return any_value();
  return rounded_bounds(out, c / d, c / d);
}

static tni_mleaf extreme_of_leaves(const tni_mleaf *a, const tni_mleaf *b, bool greatest) {
  if (a->kind != TNI_MLEAF_NUM || b->kind != TNI_MLEAF_NUM || a->any || b->any) return any_value();
  return greatest ? between_bounds(fmax(a->lo, b->lo), fmax(a->hi, b->hi))
                  : between_bounds(fmin(a->lo, b->lo), fmin(a->hi, b->hi));
}

/* --- types --- */

static void to_bool(tni_mask *m, const tni_mtab *out, const tni_mleaf *a, tni_mout *r) {
  const tni_mleaf zero = a->kind == TNI_MLEAF_INT ? tni_mleaf_int(m, 0) : tni_mleaf_num(0);
  equal_leaves(m, out, a, &zero, r);
  invert_leaf(r);
}

static tni_mleaf to_int(const tni_mask *m, const tni_mtab *out, const tni_mleaf *a) {
  double c;
  if (tni_mleaf_is_num(a, &c))
    return fabs(c) <= INT32_MAX && c == floor(c) ? tni_mleaf_int(m, (int64_t)c) : any_value();
  if (int_const(m, a, &c) && fabs(c) <= INT32_MAX) return *a;
  if (a->kind == TNI_MLEAF_SRC && out->dtype == TN_DT_I64 && dtype_of(m, a->src) == TN_DT_I32 && a->off == 0 &&
      a->gain == 1)
    return *a;
  return any_value();
}

static void cast_leaf(tni_mask *m, const tni_mtab *out, const tni_node *n, const tni_mleaf *a, tni_mout *r) {
  const uint32_t from = dtype_of(m, n->pub.in[0]);
  double lo, hi;
  r->yes = any_value();
  if (from == out->dtype || (a->kind == TNI_MLEAF_INT && from == TN_DT_I32 && out->dtype == TN_DT_I64)) {
    r->yes = *a;
  } else if (out->dtype == TN_DT_BOOL) {
    to_bool(m, out, a, r);
  } else if (tni_mask_is_int(out->dtype)) {
    r->yes = to_int(m, out, a);
  } else if (is_float(out->dtype) && a->kind == TNI_MLEAF_SRC && tni_mask_is_int(from)) {
    r->yes = *a;
    r->yes.lo = round_to_dtype(out->dtype, a->lo);
    r->yes.hi = round_to_dtype(out->dtype, a->hi);
  } else if (is_float(out->dtype) && m->exact && a->kind == TNI_MLEAF_INT) {
    r->yes = *a;
  } else if (is_float(out->dtype) && leaf_bounds(m, out, a, &lo, &hi)) {
    r->yes = rounded_bounds(out, lo, hi);
  }
}

/* --- all of them --- */

bool tni_mleaf_knows(uint32_t op) {
  switch (op) {
    case TN_OP_IDENTITY:
    case TN_OP_CAST:
    case TN_OP_NOT:
    case TN_OP_NEG:
    case TN_OP_ADD:
    case TN_OP_SUB:
    case TN_OP_MUL:
    case TN_OP_DIV:
    case TN_OP_MIN:
    case TN_OP_MAX:
    case TN_OP_AND:
    case TN_OP_OR:
    case TN_OP_XOR:
    case TN_OP_EQUAL:
    case TN_OP_GREATER:
    case TN_OP_GREATER_OR_EQUAL:
    case TN_OP_LESS:
    case TN_OP_LESS_OR_EQUAL:
    case TN_OP_WHERE:
      return true;
    default:
      return false;
  }
}

static void logic_of_leaves(uint32_t op, const tni_mleaf *a, const tni_mleaf *b, tni_mout *r) {
  const bool x = a->lo != 0, y = b && b->lo != 0;
  if (op == TN_OP_NOT) answer_leaf(r, !x);
  if (op == TN_OP_AND) answer_leaf(r, x && y);
  if (op == TN_OP_OR) answer_leaf(r, x || y);
  if (op == TN_OP_XOR) answer_leaf(r, x != y);
}

static tni_mleaf arithmetic_of_leaves(tni_mask *m, uint32_t op, const tni_mtab *out, const tni_mleaf *a,
                                      const tni_mleaf *b) {
  switch (op) {
    case TN_OP_ADD:
      return sum_of_leaves(m, out, a, b);
    case TN_OP_SUB:
      return difference_of_leaves(m, out, a, b);
    case TN_OP_MUL:
      return product_of_leaves(m, out, a, b);
    case TN_OP_DIV:
      return quotient_of_leaves(out, a, b);
    default:
      return extreme_of_leaves(a, b, op == TN_OP_MAX);
  }
}

/* A number that is an integer, as a form beside a form, where floats are real numbers. */
static const tni_mleaf *as_form(tni_mask *m, const tni_mleaf *l, const tni_mleaf *other, tni_mleaf *form) {
  double c;
  if (!m->exact || other->kind != TNI_MLEAF_INT || !tni_mleaf_is_num(l, &c) || fabs(c) > INT32_MAX || c != floor(c))
    return l;
  *form = tni_mleaf_int(m, (int64_t)c);
  return form;
}

static tni_mleaf negated_leaf(tni_mask *m, const tni_mleaf *a) {
  if (a->kind != TNI_MLEAF_INT) return negative_leaf(m, a);
  tni_mleaf r = *a;
  r.f = tni_mform_mul(m, &a->f, tni_ex_const(m->x, -1));
  return r;
}

void tni_mleaf_apply(tni_mask *m, const void *arg, const tni_mtab *out, const tni_mleaf *const *in, tni_mout *r) {
  const tni_node *n = arg;
  const uint32_t op = n->pub.op;
  const tni_mleaf *a = in[0], *b = n->pub.n_in > 1 ? in[1] : NULL;
  tni_mleaf form[2];
  *r = (tni_mout){.n = 0};
  if (op == TN_OP_IDENTITY) r->yes = *a;
  if (op == TN_OP_CAST) cast_leaf(m, out, n, a, r);
  if (op == TN_OP_NEG) r->yes = negated_leaf(m, a);
  if (op == TN_OP_NOT || op == TN_OP_AND || op == TN_OP_OR || op == TN_OP_XOR) logic_of_leaves(op, a, b, r);
  if (op == TN_OP_EQUAL) equal_leaves(m, out, a, b, r);
  if (op == TN_OP_GREATER || op == TN_OP_GREATER_OR_EQUAL) leaf_above(m, out, a, b, op == TN_OP_GREATER, r);
  if (op == TN_OP_LESS || op == TN_OP_LESS_OR_EQUAL) leaf_above(m, out, b, a, op == TN_OP_LESS, r);
  if (op == TN_OP_WHERE) r->yes = *in[a->lo != 0 ? 1 : 2];
  if (op == TN_OP_ADD || op == TN_OP_SUB || op == TN_OP_MUL || op == TN_OP_DIV || op == TN_OP_MIN || op == TN_OP_MAX)
    r->yes = arithmetic_of_leaves(m, op, out, as_form(m, a, b, &form[0]), as_form(m, b, a, &form[1]));
}
