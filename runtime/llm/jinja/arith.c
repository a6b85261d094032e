/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators of two values. Integers have 64 bits: what leaves them is an error, where Python's grow.
 */
#include <math.h>
#include <string.h>

#include "runtime/llm/jinja/value.h"

static const char *const signs[] = {
    "+", "-", "*", "/", "//", "%", "**", "==", "!=", "<", "<=", ">", ">=", "in", "not in"};

static tni_jj_val no_operator(tni_jj_run *x, tni_jj_op op, tni_jj_val a, tni_jj_val b) {
  const tni_jj_val u = a.type == TNI_JJ_UNDEFINED ? a : b;
  if (u.type == TNI_JJ_UNDEFINED) return tni_jj_fail(x, "'%s' is undefined", u.hint ? u.hint : "a value");
  return tni_jj_fail(x, "'%s' %s '%s' has no value", tni_jj_type_name(a), signs[op], tni_jj_type_name(b));
}

static tni_jj_val overflow(tni_jj_run *x) { return tni_jj_limit(x, "a whole number is larger than 64 bits hold"); }

static tni_jj_val power(tni_jj_run *x, int64_t base, int64_t e) {
  int64_t v = 1;
  if (e < 0) return base ? tni_jj_float(pow((double)base, (double)e)) : tni_jj_fail(x, "0 to a negative power");
  for (; e > 0; e >>= 1) {
    if (e & 1 && __builtin_mul_overflow(v, base, &v)) return overflow(x);
    if (e > 1 && __builtin_mul_overflow(base, base, &base)) return overflow(x);
  }
  return tni_jj_int(v);
}

static tni_jj_val integers(tni_jj_run *x, tni_jj_op op, int64_t a, int64_t b) {
  int64_t v = 0;
  bool over = false;
  switch (op) {
    case TNI_JJ_ADD:
      over = __builtin_add_overflow(a, b, &v);
      break;
    case TNI_JJ_SUB:
      over = __builtin_sub_overflow(a, b, &v);
      break;
    case TNI_JJ_MUL:
      over = __builtin_mul_overflow(a, b, &v);
      break;
    case TNI_JJ_DIV:
      return b ? tni_jj_float((double)a / (double)b) : tni_jj_fail(x, "division by zero");
    case TNI_JJ_FLOORDIV:
    case TNI_JJ_MOD:
      if (!b) return tni_jj_fail(x, "division by zero");
      if (b == -1) {
        over = op == TNI_JJ_FLOORDIV && __builtin_sub_overflow((int64_t)0, a, &v);
      } else {
        const bool down = a % b != 0 && (a % b < 0) != (b < 0);
        v = op == TNI_JJ_FLOORDIV ? a / b - down : a % b + (down ? b : 0);
      }
      break;
    default:
      return power(x, a, b);
  }
  return over ? overflow(x) : tni_jj_int(v);
}

static tni_jj_val floats(tni_jj_run *x, tni_jj_op op, double a, double b) {
  if (op == TNI_JJ_ADD) return tni_jj_float(a + b);
  if (op == TNI_JJ_SUB) return tni_jj_float(a - b);
  if (op == TNI_JJ_MUL) return tni_jj_float(a * b);
  if (op == TNI_JJ_POW) {
    if ((a == 0 && b < 0) || (a < 0 && b != floor(b))) return tni_jj_fail(x, "a power without a real value");
    return tni_jj_float(pow(a, b));
  }
  if (b == 0) return tni_jj_fail(x, "division by zero");
  if (op == TNI_JJ_DIV) return tni_jj_float(a / b);
  double m = fmod(a, b);
  if (m != 0 ? (b < 0) != (m < 0) : false) m += b;
  if (m == 0) m = copysign(0, b);
  if (op == TNI_JJ_MOD) return tni_jj_float(m);
  double q = (a - m) / b, fl = floor(q);
  if (q != 0 && q - fl > 0.5) fl += 1;
  return tni_jj_float(q != 0 ? fl : copysign(0, a / b));
}

static tni_jj_val repeated(tni_jj_run *x, tni_jj_val v, int64_t times) {
  if (times < 0) times = 0;
  const size_t n = v.type == TNI_JJ_STR ? v.s->n : v.l->n;
  if (n && (uint64_t)times > ((uint64_t)1 << 32) / n) return tni_jj_limit(x, "the text is too long");
  if (v.type == TNI_JJ_STR) {
    tni_jj_buf b = {0};
    for (int64_t i = 0; n && i < times && tni_jj_step(x, 1); i++) tni_jj_put_str(x, &b, v.s);
    return tni_jj_buf_val(x, &b);
  }
  tni_jj_items l = {0};
  for (int64_t i = 0; i < times && !tni_jj_failed(x) && n; i++)
    for (size_t k = 0; k < n; k++) tni_jj_push(x, &l, v.l->v[k]);
  return tni_jj_items_val(x, &l, (tni_jj_kind)v.kind);
}

static bool is_sequence(tni_jj_val v) {
  return v.type == TNI_JJ_STR || (v.type == TNI_JJ_LIST && v.kind <= TNI_JJ_OF_TUPLE);
}

static tni_jj_val joined(tni_jj_run *x, tni_jj_val a, tni_jj_val b) {
  if (a.type == TNI_JJ_STR) {
    tni_jj_buf s = {0};
    tni_jj_put_str(x, &s, a.s);
    tni_jj_put_str(x, &s, b.s);
    return tni_jj_buf_val(x, &s);
  }
  const size_t n = a.l->n + b.l->n;
  tni_jj_val *v = tni_jj_alloc(x, n, sizeof *v);
  if (!v || !tni_jj_step(x, n)) return tni_jj_of(TNI_JJ_UNDEFINED);
  if (a.l->n) memcpy(v, a.l->v, a.l->n * sizeof *v);
  if (b.l->n) memcpy(v + a.l->n, b.l->v, b.l->n * sizeof *v);
  return tni_jj_list_of(x, v, n, (tni_jj_kind)a.kind);
}

static tni_jj_val ordered(tni_jj_run *x, tni_jj_op op, tni_jj_val a, tni_jj_val b) {
  if (a.type == TNI_JJ_UNDEFINED || b.type == TNI_JJ_UNDEFINED) return no_operator(x, op, a, b);
  if (a.type == TNI_JJ_FLOAT || b.type == TNI_JJ_FLOAT)
    if (tni_jj_is_number(a) && tni_jj_is_number(b) && (isnan(tni_jj_as_float(a)) || isnan(tni_jj_as_float(b))))
      return tni_jj_bool(false);
  const int c = tni_jj_compare(x, a, b);
  return tni_jj_bool(op == TNI_JJ_LT ? c < 0 : op == TNI_JJ_LE ? c <= 0 : op == TNI_JJ_GT ? c > 0 : c >= 0);
}

static tni_jj_val of_percent(tni_jj_run *x, tni_jj_val a, tni_jj_val b) {
  const bool tuple = b.type == TNI_JJ_LIST && b.kind == TNI_JJ_OF_TUPLE;
  tni_jj_args args = {.pos = &b, .n = 1};
  if (tuple) args = (tni_jj_args){.pos = (tni_jj_val *)b.l->v, .n = b.l->n};
  return tni_jj_percent(x, a.s, &args);
}

tni_jj_val tni_jj_binary(tni_jj_run *x, tni_jj_op op, tni_jj_val a, tni_jj_val b) {
  if (op == TNI_JJ_EQ || op == TNI_JJ_NE) return tni_jj_bool(tni_jj_equal(x, a, b) == (op == TNI_JJ_EQ));
  if (op == TNI_JJ_IN || op == TNI_JJ_NOT_IN) return tni_jj_bool(tni_jj_contains(x, b, a) == (op == TNI_JJ_IN));
  if (op >= TNI_JJ_LT && op <= TNI_JJ_GE) return ordered(x, op, a, b);
  if (tni_jj_is_int(a) && tni_jj_is_int(b)) return integers(x, op, tni_jj_as_int(a), tni_jj_as_int(b));
  if (tni_jj_is_number(a) && tni_jj_is_number(b)) return floats(x, op, tni_jj_as_float(a), tni_jj_as_float(b));
  if (op == TNI_JJ_ADD && is_sequence(a) && a.type == b.type && a.kind == b.kind) return joined(x, a, b);
  if (op == TNI_JJ_MUL && is_sequence(a) && tni_jj_is_int(b)) return repeated(x, a, tni_jj_as_int(b));
  if (op == TNI_JJ_MUL && is_sequence(b) && tni_jj_is_int(a)) return repeated(x, b, tni_jj_as_int(a));
  if (op == TNI_JJ_MOD && a.type == TNI_JJ_STR) return of_percent(x, a, b);
  return no_operator(x, op, a, b);
}

tni_jj_val tni_jj_negate(tni_jj_run *x, tni_jj_val v) {
  if (v.type == TNI_JJ_FLOAT) return tni_jj_float(-v.f);
  if (tni_jj_is_int(v)) return integers(x, TNI_JJ_SUB, 0, tni_jj_as_int(v));
  return tni_jj_fail(x, "a '%s' has no negative", tni_jj_type_name(v));
}
