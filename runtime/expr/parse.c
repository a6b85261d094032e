/* SPDX-License-Identifier: Apache-2.0
 *
 * Dimension names as exporters write them. `/` divides rationals, as in SymPy's output (floor(h/2 - 1/2) + 1): values
 * are kept as num/den until floor, ceiling or the end, where the division is exact.
 *
 *   sum     := product (('+' | '-') product)*
 *   product := unary (('*' | '/' | '//' | '%') unary)*
 *   unary   := ('-' | '+') unary | power
 *   power   := primary ('**' unary)?
 *   primary := integer | name | `quoted name` | function '(' sum (',' sum)* ')' | '(' sum ')'
 *
 * A first run only checks the syntax, so that a name which does not parse leaves no symbols behind.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/expr/nodes.h"

enum { NESTING_MAX = 256, POWER_MAX = DEGREE_MAX };

typedef struct rational {
  tn_expr num, den;
} rational;

typedef struct parser {
  tni_exprs *x; /* NULL: check the syntax only */
  const char *s;
  tn_expr one;
  int depth;
  bool ok;
} parser;

static const rational no_rational = {TNI_EXPR_NONE, TNI_EXPR_NONE};

static rational parse_sum(parser *p);

static rational fail_parse(parser *p) {
  p->ok = false;
  return no_rational;
}

static void skip_space(parser *p) {
  while (*p->s == ' ' || *p->s == '\t') p->s++;
}

static bool take_word(parser *p, const char *word) {
  skip_space(p);
  size_t n = strlen(word);
  if (strncmp(p->s, word, n) != 0) return false;
  p->s += n;
  return true;
}

static rational checked_rational(parser *p, rational r) {
  if (p->x && (r.num == TNI_EXPR_NONE || r.den == TNI_EXPR_NONE)) p->ok = false;
  return r;
}

static rational whole_rational(parser *p, tn_expr e) { return checked_rational(p, (rational){e, p->one}); }

static tn_expr integer_of(parser *p, rational r) {
  return r.den == p->one ? r.num : tni_build_exactdiv(p->x, r.num, r.den);
}

static rational add_rationals(parser *p, rational a, rational b, int64_t sign) {
  if (!p->x) return no_rational;
  if (a.den == b.den) return checked_rational(p, (rational){tni_build_add(p->x, a.num, b.num, sign), a.den});
  tn_expr l = tni_build_mul(p->x, a.num, b.den), r = tni_build_mul(p->x, b.num, a.den);
  return checked_rational(p, (rational){tni_build_add(p->x, l, r, sign), tni_build_mul(p->x, a.den, b.den)});
}

static rational mul_rationals(parser *p, rational a, rational b) {
  if (!p->x) return no_rational;
  return checked_rational(p, (rational){tni_build_mul(p->x, a.num, b.num), tni_build_mul(p->x, a.den, b.den)});
}

static rational divide_rationals(parser *p, rational a, rational b) {
  int64_t v;
  if (!p->x) return no_rational;
  if (tni_ex_is_const(p->x, b.num, &v) && v == 0) return fail_parse(p);
  return mul_rationals(p, a, (rational){b.den, b.num});
}

static rational floored_rational(parser *p, rational a) {
  return p->x ? whole_rational(p, tni_build_floordiv(p->x, a.num, a.den)) : no_rational;
}

static rational negated_rational(parser *p, rational a) {
  return p->x ? checked_rational(p, (rational){tni_build_add(p->x, tni_ex_const(p->x, 0), a.num, -1), a.den})
              : no_rational;
}

/* (n + d - 1) // d for a constant d > 0, as exporters write it; else -floor(-a). */
static rational ceiling_rational(parser *p, rational a) {
  int64_t d;
  if (!tni_ex_is_const(p->x, a.den, &d) || d <= 0)
    return negated_rational(p, floored_rational(p, negated_rational(p, a)));
  return floored_rational(p, (rational){tni_build_add(p->x, a.num, tni_ex_const(p->x, d - 1), 1), a.den});
}

static rational modulo_rationals(parser *p, rational a, rational b) {
  return p->x ? whole_rational(p, tni_build_mod(p->x, integer_of(p, a), integer_of(p, b))) : no_rational;
}

static rational parse_integer(parser *p, bool negative) {
  uint64_t v = 0, limit = (uint64_t)INT64_MAX + negative;
  for (; isdigit((unsigned char)*p->s); p->s++) {
    unsigned d = (unsigned)(*p->s - '0');
    if (v > (limit - d) / 10) return fail_parse(p);
    v = v * 10 + d;
  }
  if (isalpha((unsigned char)*p->s) || *p->s == '_' || *p->s == '.') return fail_parse(p);
  if (!p->x) return no_rational;
  return whole_rational(p, tni_ex_const(p->x, negative ? (int64_t)(0 - v) : (int64_t)v));
}

static rational named_symbol(parser *p, const char *name, size_t n) {
  if (!p->x) return no_rational;
  char *copy = malloc(n + 1);
  if (!copy) p->x->lacked = true;
  if (!copy) return fail_parse(p);
  memcpy(copy, name, n);
  copy[n] = '\0';
  tn_expr e = tni_ex_sym(p->x, copy);
  free(copy);
  return whole_rational(p, e);
}

/* `name`, with \` and \\ for those two. */
static rational parse_quoted(parser *p) {
  size_t len = strlen(p->s), n = 0;
  char *name = malloc(len + 1);
  if (!name && p->x) p->x->lacked = true;
  if (!name) return fail_parse(p);
  for (p->s++; *p->s && *p->s != '`'; p->s++) {
    if (*p->s == '\\' && (p->s[1] == '\\' || p->s[1] == '`')) p->s++;
    name[n++] = *p->s;
  }
  bool closed = *p->s == '`' && n > 0;
  if (closed) p->s++;
  rational r = closed ? named_symbol(p, name, n) : fail_parse(p);
  free(name);
  return r;
}

typedef enum { FN_FLOOR, FN_CEILING, FN_MIN, FN_MAX, FN_MOD, FN_EXACTDIV, FN_NONE } function;

static function function_named(const char *s, size_t n) {
  static const struct {
    const char *name;
    function fn;
  } table[] = {{"floor", FN_FLOOR}, {"ceiling", FN_CEILING}, {"ceil", FN_CEILING},
               {"min", FN_MIN},     {"Min", FN_MIN},         {"max", FN_MAX},
               {"Max", FN_MAX},     {"Mod", FN_MOD},         {"exactdiv", FN_EXACTDIV}};
  for (size_t i = 0; i < sizeof table / sizeof *table; i++)
    if (strlen(table[i].name) == n && memcmp(table[i].name, s, n) == 0) return table[i].fn;
  return FN_NONE;
}

static rational call_function(parser *p, function fn, const rational *a, uint32_t n) {
  tn_expr e[ARGS_MAX];
  if (fn == FN_FLOOR || fn == FN_CEILING ? n != 1 : fn == FN_MOD || fn == FN_EXACTDIV ? n != 2 : n < 1)
    return fail_parse(p);
  if (!p->x) return no_rational;
  if (fn == FN_FLOOR) return floored_rational(p, a[0]);
  if (fn == FN_CEILING) return ceiling_rational(p, a[0]);
  if (fn == FN_MOD) return modulo_rationals(p, a[0], a[1]);
  for (uint32_t i = 0; i < n; i++)
    if ((e[i] = integer_of(p, a[i])) == TNI_EXPR_NONE) return fail_parse(p);
  if (fn == FN_EXACTDIV) return whole_rational(p, tni_build_exactdiv(p->x, e[0], e[1]));
  return whole_rational(p, tni_build_minmax(p->x, fn == FN_MIN ? TNI_EX_MIN : TNI_EX_MAX, e, n));
}

static rational parse_call(parser *p, function fn) {
  rational a[ARGS_MAX];
  uint32_t n = 0;
  do {
    if (n == ARGS_MAX) return fail_parse(p);
    a[n++] = parse_sum(p);
  } while (p->ok && take_word(p, ","));
  return p->ok && take_word(p, ")") ? call_function(p, fn, a, n) : fail_parse(p);
}

static rational parse_primary(parser *p) {
  skip_space(p);
  if (isdigit((unsigned char)*p->s)) return parse_integer(p, false);
  if (*p->s == '`') return parse_quoted(p);
  if (take_word(p, "(")) {
    rational r = parse_sum(p);
    return p->ok && take_word(p, ")") ? r : fail_parse(p);
  }
  const char *name = p->s;
  if (!isalpha((unsigned char)*name) && *name != '_') return fail_parse(p);
  while (isalnum((unsigned char)*p->s) || *p->s == '_') p->s++;
  size_t n = (size_t)(p->s - name);
  if (!take_word(p, "(")) return named_symbol(p, name, n);
  function fn = function_named(name, n);
  return fn == FN_NONE ? fail_parse(p) : parse_call(p, fn);
}

static rational parse_unary(parser *p);

static rational parse_power(parser *p) {
  rational base = parse_primary(p);
  if (!p->ok || !take_word(p, "**")) return base;
  rational exponent = parse_unary(p);
  int64_t n;
  if (!p->ok || !p->x) return no_rational;
  if (exponent.den != p->one || !tni_ex_is_const(p->x, exponent.num, &n) || n < 0 || n > POWER_MAX)
    return fail_parse(p);
  rational r = whole_rational(p, p->one);
  while (p->ok && n-- > 0) r = mul_rationals(p, r, base);
  return r;
}

/* A number that no ** follows: taken with its sign, so that INT64_MIN can be written. */
static bool is_literal(parser *p) {
  skip_space(p);
  size_t n = strspn(p->s, "0123456789"), gap = strspn(p->s + n, " \t");
  return n > 0 && strncmp(p->s + n + gap, "**", 2) != 0;
}

static rational parse_unary(parser *p) {
  if (++p->depth > NESTING_MAX) return fail_parse(p);
  rational r;
  if (take_word(p, "-")) {
    r = is_literal(p) ? parse_integer(p, true) : negated_rational(p, parse_unary(p));
  } else {
    r = take_word(p, "+") ? parse_unary(p) : parse_power(p);
  }
  p->depth--;
  return r;
}

static rational parse_product(parser *p) {
  rational a = parse_unary(p);
  while (p->ok) {
    if (take_word(p, "//")) {
      rational b = parse_unary(p);
      a = p->ok ? floored_rational(p, divide_rationals(p, a, b)) : no_rational;
    } else if (take_word(p, "/")) {
      rational b = parse_unary(p);
      a = p->ok ? divide_rationals(p, a, b) : no_rational;
    } else if (take_word(p, "*")) {
      rational b = parse_unary(p);
      a = p->ok ? mul_rationals(p, a, b) : no_rational;
    } else if (take_word(p, "%")) {
      rational b = parse_unary(p);
      a = p->ok ? modulo_rationals(p, a, b) : no_rational;
    } else {
      break;
    }
  }
  return a;
}

static rational parse_sum(parser *p) {
  if (++p->depth > NESTING_MAX) return fail_parse(p);
  rational a = parse_product(p);
  while (p->ok) {
    int64_t sign = take_word(p, "+") ? 1 : take_word(p, "-") ? -1 : 0;
    if (!sign) break;
    rational b = parse_product(p);
    a = p->ok ? add_rationals(p, a, b, sign) : no_rational;
  }
  p->depth--;
  return a;
}

static tn_expr parse_all(tni_exprs *x, const char *text, bool *ok) {
  parser p = {.x = x, .s = text, .one = x ? tni_ex_const(x, 1) : TNI_EXPR_NONE, .ok = true};
  rational r = parse_sum(&p);
  skip_space(&p);
  *ok = p.ok && *p.s == '\0';
  return x && *ok ? integer_of(&p, r) : TNI_EXPR_NONE;
}

tn_expr tni_ex_parse(tni_exprs *x, const char *text) {
  bool ok;
  if (!text || !*text) return TNI_EXPR_NONE;
  (void)parse_all(NULL, text, &ok);
  tn_expr e = ok ? parse_all(x, text, &ok) : TNI_EXPR_NONE;
  return e != TNI_EXPR_NONE ? e : tni_ex_sym(x, text);
}
