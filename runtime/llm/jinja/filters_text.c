/* SPDX-License-Identifier: Apache-2.0
 *
 * Filters of one value: texts and numbers.
 */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/llm/jinja/value.h"
#include "runtime/llm/text/text.h"

#define FILTER(name) static tni_jj_val name(tni_jj_run *x, tni_jj_val v, const tni_jj_val *a, const tni_jj_args *raw)

static int64_t int_or(tni_jj_run *x, tni_jj_val v, int64_t dflt) {
  if (!tni_jj_given(v) || v.type == TNI_JJ_NONE) return dflt;
  if (!tni_jj_is_int(v)) tni_jj_fail(x, "a '%s' where a whole number is wanted", tni_jj_type_name(v));
  return tni_jj_is_int(v) ? tni_jj_as_int(v) : dflt;
}

FILTER(do_trim) {
  (void)raw;
  const tni_jj_str *chars = tni_jj_given(a[0]) && a[0].type != TNI_JJ_NONE ? tni_jj_to_str(x, a[0]) : NULL;
  return tni_jj_strip(x, tni_jj_to_str(x, v), chars, 3);
}

FILTER(do_upper) { return (void)a, (void)raw, tni_jj_recase(x, tni_jj_to_str(x, v), TNI_JJ_UPPER); }
FILTER(do_lower) { return (void)a, (void)raw, tni_jj_recase(x, tni_jj_to_str(x, v), TNI_JJ_LOWER); }
FILTER(do_capitalize) { return (void)a, (void)raw, tni_jj_recase(x, tni_jj_to_str(x, v), TNI_JJ_CAPITAL); }
FILTER(do_string) {
  (void)a, (void)raw;
  const tni_jj_str *s = tni_jj_to_str(x, v);
  return v.type == TNI_JJ_STR ? v : tni_jj_text(x, s->v, s->m, s->n);
}

/* Words begin after white space and "-({[<". */
FILTER(do_title) {
  (void)a, (void)raw;
  const tni_jj_str *s = tni_jj_to_str(x, v);
  tni_jj_buf b = {0};
  for (size_t i = 0; i < s->n && !tni_jj_failed(x);) {
    size_t end = i, len;
    while (end < s->n && !strchr("-({[<", s->v[end]) && !tni_jj_is_space(tni_utf8_get(s->v + end, s->n - end, &len)))
      end += tni_utf8_len(s->v[end]);
    if (end == i) {
      end += tni_utf8_len(s->v[end]);
      tni_jj_put(x, &b, s->v + i, s->m ? s->m + i : NULL, end - i);
    } else {
      const tni_jj_val word = tni_jj_cut(x, s, i, end);
      const tni_jj_val big = tni_jj_failed(x) ? word : tni_jj_recase(x, word.s, TNI_JJ_CAPITAL);
      if (!tni_jj_failed(x)) tni_jj_put_str(x, &b, big.s);
    }
    i = end;
  }
  return tni_jj_buf_val(x, &b);
}

FILTER(do_default) {
  (void)raw;
  const bool empty = v.type == TNI_JJ_UNDEFINED || (tni_jj_given(a[1]) && tni_jj_truth(a[1]) && !tni_jj_truth(v));
  return !empty ? v : tni_jj_given(a[0]) ? a[0] : tni_jj_literal(x, "");
}

FILTER(do_replace) {
  (void)raw;
  return tni_jj_replace(x, tni_jj_to_str(x, v), tni_jj_to_str(x, a[0]), tni_jj_to_str(x, a[1]), int_or(x, a[2], -1));
}

FILTER(do_indent) {
  (void)raw;
  if (v.type != TNI_JJ_STR) return tni_jj_fail(x, "indent of a '%s'", tni_jj_type_name(v));
  const tni_jj_str *s = v.s;
  const bool first = tni_jj_given(a[1]) && tni_jj_truth(a[1]), blank = tni_jj_given(a[2]) && tni_jj_truth(a[2]);
  const int64_t width = tni_jj_given(a[0]) && a[0].type == TNI_JJ_STR ? 0 : int_or(x, a[0], 4);
  tni_jj_buf b = {0}, pad = {0}, all = {0};
  tni_jj_items lines = {0};
  if (width > 100000) return tni_jj_limit(x, "indent is too wide");
  for (int64_t i = 0; i < width; i++) tni_jj_put_as(x, &pad, " ", 1, true);
  if (tni_jj_given(a[0]) && a[0].type == TNI_JJ_STR) tni_jj_put_str(x, &pad, a[0].s);
  tni_jj_put_str(x, &all, s);
  tni_jj_put_as(x, &all, "\n", 1, true); /* as jinja2 does: a text that ends a line has an empty one more */
  const tni_jj_str whole = {all.v, all.m, all.n};
  if (!tni_jj_failed(x)) tni_jj_lines(x, &whole, false, &lines);
  for (size_t i = 0; i < lines.n && !tni_jj_failed(x); i++) {
    const tni_jj_str *line = lines.v[i].s;
    if (i) tni_jj_put_as(x, &b, "\n", 1, true);
    if (i ? blank || line->n : first) tni_jj_put(x, &b, pad.v, pad.m, pad.n);
    tni_jj_put_str(x, &b, line);
  }
  return tni_jj_buf_val(x, &b);
}

/* A whole text as Python's int() or float() reads it: white space around, underscores between digits. False: none. */
static bool clean_number(const tni_jj_str *s, bool whole, char out[64]) {
  size_t from = tni_jj_space_before(s->v, s->n), to = s->n, n = 0;
  if (from < to) to -= tni_jj_space_after(s->v + from, to - from);
  for (size_t i = from; i < to; i++) {
    if (s->v[i] == '_' && i > from && i + 1 < to && s->v[i - 1] >= '0' && s->v[i - 1] <= '9' && s->v[i + 1] >= '0' &&
        s->v[i + 1] <= '9')
      continue;
    const bool bad = !s->v[i] || (!whole && strchr("xXpP()", s->v[i])) || tni_jj_is_space((unsigned char)s->v[i]);
    if (n == 63 || bad) return false;
    out[n++] = s->v[i];
  }
  out[n] = 0;
  return n > 0;
}

/* base 0: what 0x, 0o or 0b say, else 10. */
static bool read_int(const char *s, int64_t base, int64_t *v) {
  static const struct {
    char low, high;
    int base;
  } prefixes[] = {{'x', 'X', 16}, {'o', 'O', 8}, {'b', 'B', 2}};
  char digits[64], *end;
  const size_t sign = *s == '-' || *s == '+';
  int64_t found = base ? base : 10;
  if (base != 0 && (base < 2 || base > 36)) return false;
  memcpy(digits, s, strlen(s) + 1);
  for (size_t i = 0; s[sign] == '0' && i < 3; i++) {
    const char letter = s[sign + 1];
    if ((base && base != prefixes[i].base) || (letter != prefixes[i].low && letter != prefixes[i].high)) continue;
    memcpy(digits + sign, s + sign + 2, strlen(s + sign + 2) + 1);
    found = prefixes[i].base;
  }
  if (!isalnum((unsigned char)digits[sign])) return false;
  if (found == 16 && digits[sign] == '0' && (digits[sign + 1] == 'x' || digits[sign + 1] == 'X')) return false;
  if (!base && found == 10 && digits[sign] == '0' && digits[strspn(digits + sign, "0") + sign]) return false;
  errno = 0;
  *v = strtoll(digits, &end, (int)found);
  return !errno && !*end;
}

static bool read_float(const char *s, double *v) {
  char *end;
  *v = strtod(s, &end);
  return end != s && !*end;
}

FILTER(do_int) {
  (void)raw;
  const tni_jj_val dflt = tni_jj_given(a[0]) ? a[0] : tni_jj_int(0);
  const int64_t base = int_or(x, a[1], 10);
  char s[64];
  int64_t i;
  double f;
  if (v.type == TNI_JJ_UNDEFINED) return tni_jj_fail(x, "int of what is undefined");
  if (tni_jj_is_int(v)) return tni_jj_int(tni_jj_as_int(v));
  if (v.type == TNI_JJ_FLOAT)
    f = v.f;
  else if (v.type == TNI_JJ_STR && clean_number(v.s, true, s) && read_int(s, base, &i))
    return tni_jj_int(i);
  else if (v.type != TNI_JJ_STR || !clean_number(v.s, false, s) || !read_float(s, &f))
    return dflt;
  if (isnan(f) || isinf(f)) return dflt;
  return fabs(f) < 9e18 ? tni_jj_int((int64_t)f) : tni_jj_limit(x, "a whole number is larger than 64 bits hold");
}

FILTER(do_float) {
  (void)raw;
  char s[64];
  double f;
  if (v.type == TNI_JJ_UNDEFINED) return tni_jj_fail(x, "float of what is undefined");
  if (tni_jj_is_number(v)) return tni_jj_float(tni_jj_as_float(v));
  if (v.type == TNI_JJ_STR && clean_number(v.s, false, s) && read_float(s, &f)) return tni_jj_float(f);
  return tni_jj_given(a[0]) ? a[0] : tni_jj_float(0);
}

FILTER(do_abs) {
  (void)a, (void)raw;
  if (v.type == TNI_JJ_FLOAT) return tni_jj_float(fabs(v.f));
  if (!tni_jj_is_int(v)) return tni_jj_fail(x, "abs of a '%s'", tni_jj_type_name(v));
  return tni_jj_as_int(v) < 0 ? tni_jj_negate(x, v) : tni_jj_int(tni_jj_as_int(v));
}

FILTER(do_round) {
  (void)raw;
  const int64_t digits = int_or(x, a[0], 0);
  const tni_jj_str *how = tni_jj_given(a[1]) ? tni_jj_to_str(x, a[1]) : NULL;
  char s[400];
  if (!tni_jj_is_number(v)) return tni_jj_fail(x, "round of a '%s'", tni_jj_type_name(v));
  if (digits < 0 || digits > 15) return tni_jj_fail(x, "round takes 0 to 15 digits");
  const double f = tni_jj_as_float(v), scale = pow(10, (double)digits);
  if (how && tni_jj_str_is(how, "ceil")) return tni_jj_float(ceil(f * scale) / scale);
  if (how && tni_jj_str_is(how, "floor")) return tni_jj_float(floor(f * scale) / scale);
  if (how && !tni_jj_str_is(how, "common")) return tni_jj_fail(x, "round knows common, ceil and floor");
  if (tni_jj_is_int(v)) return tni_jj_int(tni_jj_as_int(v));
  snprintf(s, sizeof s, "%.*f", (int)digits, f);
  return tni_jj_float(strtod(s, NULL));
}

FILTER(do_wordcount) {
  (void)a, (void)raw;
  const tni_jj_str *s = tni_jj_to_str(x, v);
  int64_t n = 0;
  bool in = false;
  for (size_t i = 0, len; i < s->n; i += len) {
    const uint32_t cp = tni_utf8_get(s->v + i, s->n - i, &len);
    const bool word = tni_is_word(cp) && !tni_is_mark(cp);
    n += word && !in;
    in = word;
  }
  return tni_jj_int(n);
}

FILTER(do_center) {
  (void)raw;
  const tni_jj_str *s = tni_jj_to_str(x, v);
  const int64_t n = (int64_t)tni_jj_cp_count(s), width = int_or(x, a[0], 80), more = width > n ? width - n : 0;
  const int64_t left = more / 2 + (more & width & 1);
  tni_jj_buf b = {0};
  if (width > 100000) return tni_jj_limit(x, "center is too wide");
  for (int64_t i = 0; i < left; i++) tni_jj_put_as(x, &b, " ", 1, true);
  tni_jj_put_str(x, &b, s);
  for (int64_t i = left; i < more; i++) tni_jj_put_as(x, &b, " ", 1, true);
  return tni_jj_buf_val(x, &b);
}

FILTER(do_format) {
  (void)a;
  tni_jj_val names = tni_jj_of(TNI_JJ_NONE);
  if (raw->n && raw->n_kw) return tni_jj_fail(x, "format with names and other values");
  if (raw->n_kw) names = tni_jj_dict_new(x);
  for (size_t i = 0; i < raw->n_kw && !tni_jj_failed(x); i++) {
    const tni_jj_str *name = raw->kw[i].name;
    const tni_jj_val key = tni_jj_text(x, name->v, name->m, name->n);
    if (!tni_jj_failed(x)) tni_jj_dict_set(x, names.d, key, raw->kw[i].v);
  }
  if (tni_jj_failed(x)) return names;
  return tni_jj_percent(x, tni_jj_to_str(x, v), raw->n_kw ? &(tni_jj_args){.pos = &names, .n = 1} : raw);
}

const tni_jj_builtin tni_jj_text_filters[] = {{"trim", "chars", 0, do_trim},
                                              {"upper", "", 0, do_upper},
                                              {"lower", "", 0, do_lower},
                                              {"capitalize", "", 0, do_capitalize},
                                              {"title", "", 0, do_title},
                                              {"string", "", 0, do_string},
                                              {"safe", "", 0, do_string},
                                              {"default", "default_value boolean", 0, do_default},
                                              {"d", "default_value boolean", 0, do_default},
                                              {"replace", "old new count", 2, do_replace},
                                              {"indent", "width first blank", 0, do_indent},
                                              {"int", "default base", 0, do_int},
                                              {"float", "default", 0, do_float},
                                              {"abs", "", 0, do_abs},
                                              {"round", "precision method", 0, do_round},
                                              {"wordcount", "", 0, do_wordcount},
                                              {"center", "width", 0, do_center},
                                              {"format", NULL, 0, do_format},
                                              {"tojson", "ensure_ascii indent separators sort_keys", 0, tni_jj_tojson},
                                              {NULL, NULL, 0, NULL}};
