/* SPDX-License-Identifier: Apache-2.0
 *
 * One value as a format says, of Python's two kinds: 'text %5.1f' % value, and what stands after the colon in
 * 'text {:>5.1f}'.format(value).
 */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "runtime/llm/jinja/value.h"
#include "runtime/llm/text/text.h"

enum { WIDEST = 100000, MOST_DIGITS = 300, NUMBER = 1024 };

/* How one value is written. */
typedef struct form {
  tni_jj_str fill; /* one character */
  char align;      /* < > ^, = between a number's sign and its digits, 0: the value's own */
  char sign, kind; /* kind 0: the value's own */
  bool alt, comma;
  int64_t width, precision; /* precision -1: none */
} form;

static const tni_jj_str one_space = {" ", NULL, 1}, one_zero = {"0", NULL, 1};

/* head: bytes of a sign and what belongs to it. */
static void put_aligned(tni_jj_run *x, tni_jj_buf *b, const tni_jj_str *s, size_t head, const form *f, char align) {
  const int64_t n = (int64_t)tni_jj_cp_count(s), more = f->width > n ? f->width - n : 0;
  const int64_t left = align == '>' ? more : align == '^' ? more / 2 : 0;
  for (int64_t i = 0; i < left; i++) tni_jj_put_str(x, b, &f->fill);
  tni_jj_put(x, b, s->v, s->m, head);
  for (int64_t i = 0; align == '=' && i < more; i++) tni_jj_put_str(x, b, &f->fill);
  tni_jj_put(x, b, s->v + head, s->m ? s->m + head : NULL, s->n - head);
  for (int64_t i = left; align != '=' && i < more; i++) tni_jj_put_str(x, b, &f->fill);
}

static void put_text(tni_jj_run *x, tni_jj_buf *b, const tni_jj_str *s, const form *f) {
  tni_jj_str cut = *s;
  if (f->precision >= 0 && (int64_t)tni_jj_cp_count(s) > f->precision)
    cut.n = tni_jj_cp_offset(s, (size_t)f->precision);
  put_aligned(x, b, &cut, 0, f, f->align ? f->align : '<');
}

/* --- numbers ------------------------------------------------------------------------------------------------------ */

/* v in a base, at least `least` digits. */
static void whole_digits(uint64_t v, unsigned base, bool upper, int64_t least, char out[NUMBER]) {
  char digits[MOST_DIGITS + 66];
  const char *all = upper ? "0123456789ABCDEF" : "0123456789abcdef";
  size_t n = 0;
  for (; v || (int64_t)n < least || !n; v /= base) digits[n++] = all[v % base];
  for (size_t i = 0; i < n; i++) out[i] = digits[n - 1 - i];
  out[n] = 0;
}

/* A comma before each three of the whole part's digits. */
static void add_commas(char s[NUMBER]) {
  const size_t n = strlen(s), whole = strspn(s, "0123456789"), more = whole ? (whole - 1) / 3 : 0;
  memmove(s + whole + more, s + whole, n - whole + 1);
  for (size_t from = whole, to = whole + more, k = 0; from > 0 && to > from; k++) {
    if (k && k % 3 == 0) s[--to] = ',';
    s[--to] = s[--from];
  }
}

static void put_number(tni_jj_run *x, tni_jj_buf *b, bool minus, const char *prefix, char digits[NUMBER],
                       const form *f) {
  char all[NUMBER + 512];
  const char *sign = minus ? "-" : f->sign == '+' ? "+" : f->sign == ' ' ? " " : "";
  if (f->comma) add_commas(digits);
  const int n = snprintf(all, sizeof all, "%s%s%s", sign, prefix, digits);
  const tni_jj_str s = {all, NULL, (size_t)n};
  put_aligned(x, b, &s, strlen(sign) + strlen(prefix), f, f->align ? f->align : '>');
}

static void put_whole(tni_jj_run *x, tni_jj_buf *b, int64_t v, const form *f, int64_t least) {
  char digits[NUMBER], prefix[3] = {'0', f->kind, 0};
  const unsigned base = f->kind == 'x' || f->kind == 'X' ? 16 : f->kind == 'o' ? 8 : f->kind == 'b' ? 2 : 10;
  whole_digits(v < 0 ? 0 - (uint64_t)v : (uint64_t)v, base, f->kind == 'X', least, digits);
  put_number(x, b, v < 0, f->alt && base != 10 ? prefix : "", digits, f);
}

/* kind e f g and capitals, or %. */
static void put_float(tni_jj_run *x, tni_jj_buf *b, double v, const form *f) {
  char digits[NUMBER], format[8] = "%#.*";
  const size_t n = f->alt ? 4 : 3;
  if (!f->alt) memcpy(format, "%.*", 4);
  format[n] = f->kind == '%' ? 'f' : f->kind;
  format[n + 1] = 0;
  const bool minus = signbit(v) && !isnan(v);
  const int precision = f->precision < 0 ? 6 : (int)f->precision;
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
  int used = snprintf(digits, NUMBER - 256, format, precision, fabs(f->kind == '%' ? v * 100 : v));
#pragma GCC diagnostic pop
  if (used >= NUMBER - 256) used = NUMBER - 257;
  if (f->kind == '%') memcpy(digits + used, "%", 2);
  put_number(x, b, minus, "", digits, f);
}

static bool in_bounds(tni_jj_run *x, const form *f) {
  if (f->width > WIDEST) return tni_jj_limit(x, "a width is too large"), false;
  if (f->precision > MOST_DIGITS && f->kind != 's' && f->kind) return tni_jj_limit(x, "too many digits"), false;
  return true;
}

/* --- 'text %s' % value -------------------------------------------------------------------------------------------- */

typedef struct percent {
  tni_jj_run *x;
  const tni_jj_str *s;
  size_t i, used;
  const tni_jj_args *a;
  tni_jj_buf b;
} percent;

static char at(const percent *p) { return p->i < p->s->n ? p->s->v[p->i] : 0; }

static tni_jj_val next_value(percent *p) {
  if (p->used < p->a->n) return p->a->pos[p->used++];
  return tni_jj_fail(p->x, "there are fewer values than the format names");
}

/* Digits, or the next value for a star; `none` where there is neither. */
static int64_t percent_count(percent *p, int64_t none) {
  if (at(p) == '*') {
    p->i++;
    const tni_jj_val v = next_value(p);
    return tni_jj_is_int(v) ? tni_jj_as_int(v) : (tni_jj_fail(p->x, "* wants a whole number"), none);
  }
  if (at(p) < '0' || at(p) > '9') return none;
  int64_t v = 0;
  for (; at(p) >= '0' && at(p) <= '9'; p->i++) v = v > WIDEST ? v : v * 10 + at(p) - '0';
  return v;
}

/* After %: (name), of the mapping that is the only value. */
static tni_jj_val percent_named(percent *p) {
  const size_t end = tni_jj_find_str(p->s, &(tni_jj_str){")", NULL, 1}, p->i);
  if (end == SIZE_MAX) return tni_jj_fail(p->x, "a format's '(' without its ')'");
  if (p->a->n != 1 || p->a->pos[0].type != TNI_JJ_DICT) return tni_jj_fail(p->x, "a format with names wants a dict");
  const tni_jj_str name = {p->s->v + p->i + 1, NULL, end - p->i - 1};
  const tni_jj_val *found = tni_jj_dict_name(p->a->pos[0].d, &name);
  p->i = end + 1;
  p->used = 1;
  return found ? *found : tni_jj_fail(p->x, "there is no '%.*s' for the format", (int)name.n, name.v);
}

static void put_percent(percent *p, tni_jj_val v, form *f) {
  tni_jj_run *x = p->x;
  const int64_t digits = f->precision;
  if (f->fill.v == one_zero.v) f->align = '=';
  if (f->kind == 's' || f->kind == 'r') {
    tni_jj_buf text = {0};
    if (f->kind == 'r') tni_jj_put_repr(x, &text, v);
    const tni_jj_val s = f->kind == 'r' ? tni_jj_buf_val(x, &text) : tni_jj_text(x, "", NULL, 0);
    f->fill = one_space;
    f->align = f->align == '<' ? '<' : '>';
    if (!tni_jj_failed(x)) put_text(x, &p->b, f->kind == 'r' ? s.s : tni_jj_to_str(x, v), f);
    return;
  }
  const bool cut = strchr("diu", f->kind) != NULL;
  if (!tni_jj_is_number(v) || (v.type == TNI_JJ_FLOAT && strchr("xXo", f->kind))) {
    tni_jj_fail(x, "%%%c of a '%s'", f->kind, tni_jj_type_name(v));
  } else if (cut || strchr("xXo", f->kind)) {
    if (v.type == TNI_JJ_FLOAT && !(fabs(v.f) < 9e18))
      tni_jj_limit(x, "a whole number is larger than 64 bits hold");
    else
      put_whole(x, &p->b, v.type == TNI_JJ_FLOAT ? (int64_t)v.f : tni_jj_as_int(v), f, digits);
  } else {
    put_float(x, &p->b, tni_jj_as_float(v), f);
  }
}

/* p->i is after the %. */
static void take_percent(percent *p) {
  form f = {.fill = one_space, .precision = -1};
  const bool named = at(p) == '(';
  tni_jj_val v = named ? percent_named(p) : tni_jj_of(TNI_JJ_NONE);
  for (; at(p) && strchr("-+ 0#", at(p)); p->i++) {
    if (at(p) == '-') f.align = '<';
    if (at(p) == '0') f.fill = one_zero;
    if (at(p) == '#') f.alt = true;
    if (at(p) == '+' || (at(p) == ' ' && !f.sign)) f.sign = at(p);
  }
  if (f.align) f.fill = one_space;
  f.width = percent_count(p, 0);
  if (f.width < 0) f.align = '<', f.width = -f.width;
  if (at(p) == '.') {
    p->i++;
    f.precision = percent_count(p, 0);
  }
  f.kind = at(p);
  if (!f.kind || !strchr("%srdiuxXoeEfFgG", f.kind)) {
    tni_jj_fail(p->x, "a format other than %%s, %%r, %%d, %%x, %%o, %%e, %%f and %%g");
    return;
  }
  p->i++;
  if (f.kind == '%') {
    tni_jj_put_as(p->x, &p->b, "%", 1, true);
    return;
  }
  if (!named) v = next_value(p);
  if (!tni_jj_failed(p->x) && in_bounds(p->x, &f)) put_percent(p, v, &f);
}

tni_jj_val tni_jj_percent(tni_jj_run *x, const tni_jj_str *format, const tni_jj_args *a) {
  percent p = {.x = x, .s = format, .a = a};
  while (p.i < format->n && tni_jj_step(x, 1)) {
    if (format->v[p.i++] == '%')
      take_percent(&p);
    else
      tni_jj_put(x, &p.b, format->v + p.i - 1, format->m ? format->m + p.i - 1 : NULL, 1);
  }
  const bool mapping = a->n == 1 && a->pos[0].type == TNI_JJ_DICT; /* of which not all must be used */
  return p.used == a->n || mapping ? tni_jj_buf_val(x, &p.b)
                                   : tni_jj_fail(x, "there are more values than the format names");
}

/* --- '{:>5.1f}' --------------------------------------------------------------------------------------------------- */

/* [[fill]align][sign][#][0][width][,][.precision][kind] */
static bool read_form(tni_jj_run *x, const tni_jj_str *s, form *f) {
  size_t i = 0, n = 0;
  *f = (form){.fill = one_space, .precision = -1};
  if (s->n) n = tni_utf8_len(s->v[0]);
  if (n && n < s->n && strchr("<>^=", s->v[n])) {
    f->fill = (tni_jj_str){s->v, s->m, n};
    f->align = s->v[n];
    i = n + 1;
  } else if (s->n && strchr("<>^=", s->v[0])) {
    f->align = s->v[i++];
  }
  if (i < s->n && strchr("+- ", s->v[i])) f->sign = s->v[i++];
  if (i < s->n && s->v[i] == '#') f->alt = s->v[i++] == '#';
  if (i < s->n && s->v[i] == '0' && !f->align) f->align = '=', f->fill = one_zero;
  for (; i < s->n && s->v[i] >= '0' && s->v[i] <= '9'; i++)
    f->width = f->width > WIDEST ? f->width : f->width * 10 + s->v[i] - '0';
  if (i < s->n && s->v[i] == ',') f->comma = s->v[i++] == ',';
  if (i + 1 < s->n && s->v[i] == '.' && s->v[i + 1] >= '0' && s->v[i + 1] <= '9')
    for (i++, f->precision = 0; i < s->n && s->v[i] >= '0' && s->v[i] <= '9'; i++)
      f->precision = f->precision > WIDEST ? f->precision : f->precision * 10 + s->v[i] - '0';
  if (i < s->n && strchr("sdboxXeEfFgG%", s->v[i])) f->kind = s->v[i++];
  if (i < s->n || (f->comma && f->align == '='))
    return tni_jj_fail(x, "format: '%.*s' is not known", (int)s->n, s->v), false;
  return in_bounds(x, f);
}

void tni_jj_put_formed(tni_jj_run *x, tni_jj_buf *b, tni_jj_val v, const tni_jj_str *spec) {
  form f;
  if (!spec->n) tni_jj_put_val(x, b, v);
  if (!spec->n || !read_form(x, spec, &f)) return;
  const bool whole = !f.kind || strchr("dboxX", f.kind), text = !f.kind || f.kind == 's';
  if (v.type == TNI_JJ_STR && text && f.align != '=' && !f.sign && !f.comma && !f.alt) {
    put_text(x, b, v.s, &f);
  } else if (tni_jj_is_int(v) && whole && f.precision < 0) {
    put_whole(x, b, tni_jj_as_int(v), &f, 0);
  } else if (v.type == TNI_JJ_FLOAT && !f.kind && f.precision < 0 && !f.alt) {
    char digits[NUMBER];
    tni_jj_float_repr(fabs(v.f), digits);
    put_number(x, b, signbit(v.f), "", digits, &f);
  } else if (tni_jj_is_number(v) && f.kind && strchr("eEfFgG%", f.kind)) {
    put_float(x, b, tni_jj_as_float(v), &f);
  } else {
    tni_jj_fail(x, "format: '%.*s' of a '%s' is not known", (int)spec->n, spec->v, tni_jj_type_name(v));
  }
}
