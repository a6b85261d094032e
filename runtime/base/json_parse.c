/* SPDX-License-Identifier: Apache-2.0
 *
 * JSON text (RFC 8259) to jansson's values. jansson's own parser (2.14) drops a byte of a long string, or stops at an
 * assertion, where the buffer of the string cannot grow; here each allocation that fails is an error.
 */
#include <locale.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "runtime/base/json.h"

/* What this file builds with is jansson's own. */
#undef json_object
#undef json_array
#undef json_integer
#undef json_real

enum { DEEPEST = 2048, SHOWN = 20 };

typedef struct parser {
  const char *text, *p, *end;
  size_t flags;
  uint32_t depth;
  char *buf; /* a string without its escapes, or a number; ends with a NUL */
  size_t cap;
  tni_json_pool pool; /* of values that are strings */
  json_error_t *err;
} parser;

/* Says what is wrong at `at`, once. */
static json_t *fail_at(const parser *s, const char *at, enum json_error_code code, const char *what) {
  json_error_t *e = s->err;
  if (json_error_code(e) != json_error_unknown) return NULL;
  int line = 1, column = 0;
  for (const char *c = s->text; c < at; c++) {
    column += ((unsigned char)*c & 0xc0) != 0x80;
    if (*c == '\n') line++, column = 0;
  }
  size_t n = 0;
  while (at + n < s->end && n < SHOWN && (unsigned char)at[n] > ' ') n++;
  n = tni_utf8_valid(at, n);
  e->line = line;
  e->column = column;
  e->position = (int)(at - s->text);
  snprintf(e->text, sizeof e->text - 1, n ? "%s near '%.*s'" : at == s->end ? "%s near end of file" : "%s", what,
           (int)n, at);
  e->text[sizeof e->text - 1] = (char)code;
  return NULL;
}

static json_t *wrong(const parser *s, const char *what) { return fail_at(s, s->p, json_error_invalid_syntax, what); }

static json_t *no_memory(const parser *s) { return fail_at(s, s->p, json_error_out_of_memory, "out of memory"); }

static json_t *made(const parser *s, json_t *j) { return j ? j : no_memory(s); }

static void skip_space(parser *s) {
  while (s->p < s->end && (*s->p == ' ' || *s->p == '\t' || *s->p == '\n' || *s->p == '\r')) s->p++;
}

static bool take_char(parser *s, char c) {
  if (s->p == s->end || *s->p != c) return false;
  s->p++;
  return true;
}

static bool reserve(parser *s, size_t n) {
  if (n < s->cap) return true;
  char *more = n < SIZE_MAX / 2 ? realloc(s->buf, n * 2 + 64) : NULL;
  if (!more) return no_memory(s), false;
  s->buf = more;
  s->cap = n * 2 + 64;
  return true;
}

/* --- strings ----------------------------------------------------------------------------------------------------- */

/* The four digits of \uXXXX; -1: they are none. */
static int32_t hex4(parser *s) {
  int32_t v = 0;
  if (s->end - s->p < 4) return -1;
  for (int i = 0; i < 4; i++) {
    const char c = *s->p++;
    const int d = c >= '0' && c <= '9'   ? c - '0'
                  : c >= 'a' && c <= 'f' ? c - 'a' + 10
                  : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                         : -1;
    if (d < 0) return -1;
    v = v * 16 + d;
  }
  return v;
}

static size_t put_utf8(char *to, int32_t v) {
  if (v < 0x80) return to[0] = (char)v, 1;
  const int more = v < 0x800 ? 1 : v < 0x10000 ? 2 : 3;
  static const unsigned char first[] = {0, 0xc0, 0xe0, 0xf0};
  to[0] = (char)(first[more] | v >> (6 * more));
  for (int i = 1; i <= more; i++) to[i] = (char)(0x80 | (v >> (6 * (more - i)) & 0x3f));
  return (size_t)more + 1;
}

/* The code point after \u, the second half of a pair too; -1 with an error. */
static int32_t take_code_point(parser *s) {
  const char *at = s->p - 2;
  int32_t v = hex4(s), low = -1;
  if (v >= 0xd800 && v < 0xdc00 && take_char(s, '\\') && take_char(s, 'u')) low = hex4(s);
  if (low >= 0xdc00 && low < 0xe000) return 0x10000 + ((v - 0xd800) << 10) + (low - 0xdc00);
  if (v < 0) return fail_at(s, at, json_error_invalid_syntax, "invalid escape"), -1;
  if (v >= 0xd800 && v < 0xe000) return fail_at(s, at, json_error_invalid_syntax, "invalid Unicode"), -1;
  if (v == 0 && !(s->flags & JSON_ALLOW_NUL))
    return fail_at(s, at, json_error_null_character, "\\u0000 is not allowed"), -1;
  return v;
}

/* What stands after a backslash. 0: an error. */
static size_t take_escape(parser *s, char *to) {
  static const char from[] = "\"\\/bfnrt", is[] = "\"\\/\b\f\n\r\t";
  const char c = s->p < s->end ? *s->p : '\0';
  const char *known = c ? strchr(from, c) : NULL;
  if (known) return s->p++, *to = is[known - from], 1;
  if (c != 'u') return wrong(s, "invalid escape"), 0;
  s->p++;
  const int32_t v = take_code_point(s);
  return v < 0 ? 0 : put_utf8(to, v);
}

/* The text between quotes, in buf; *n of its bytes. The first quote has been taken. */
static bool take_text(parser *s, size_t *n) {
  const char *last = s->p;
  while (last < s->end && *last != '"') last += *last == '\\' && last + 1 < s->end ? 2 : 1;
  if (last >= s->end) return s->p = s->end, wrong(s, "premature end of input in a string"), false;
  if (!reserve(s, (size_t)(last - s->p))) return false; /* an escape is longer than what it stands for */
  size_t at = 0;
  while (s->p < last) {
    const unsigned char c = (unsigned char)*s->p;
    if (c < 0x20) return wrong(s, "control character in a string"), false;
    if (c != '\\') {
      s->buf[at++] = *s->p++;
      continue;
    }
    s->p++;
    const size_t m = take_escape(s, s->buf + at);
    if (!m) return false;
    at += m;
  }
  s->p = last + 1;
  s->buf[at] = '\0';
  *n = at;
  return true;
}

/* --- numbers ----------------------------------------------------------------------------------------------------- */

static bool take_digits(parser *s) {
  const char *from = s->p;
  while (s->p < s->end && *s->p >= '0' && *s->p <= '9') s->p++;
  return s->p > from;
}

static bool scan_number(parser *s, bool *real) {
  (void)take_char(s, '-');
  *real = false;
  if (!take_char(s, '0') && !take_digits(s)) return false;
  if (take_char(s, '.')) {
    *real = true;
    if (!take_digits(s)) return false;
  }
  if (!take_char(s, 'e') && !take_char(s, 'E')) return true;
  *real = true;
  if (!take_char(s, '+')) (void)take_char(s, '-');
  return take_digits(s);
}

static bool to_integer(const char *p, const char *end, json_int_t *out) {
  const bool minus = *p == '-';
  json_int_t v = 0;
  for (p += minus; p < end; p++)
    if (__builtin_mul_overflow(v, 10, &v) || __builtin_sub_overflow(v, *p - '0', &v)) return false;
  if (!minus && v == INT64_MIN) return false;
  *out = minus ? v : -v; /* v was counted below 0, where there is one more */
  return true;
}

/* The process's locale may write 0.5 as 0,5. */
static json_t *take_real(parser *s, const char *from) {
  const size_t n = (size_t)(s->p - from);
  locale_t c = reserve(s, n) ? newlocale(LC_NUMERIC_MASK, "C", (locale_t)0) : (locale_t)0;
  if (!c) return no_memory(s);
  memcpy(s->buf, from, n);
  s->buf[n] = '\0';
  const double v = strtod_l(s->buf, NULL, c);
  freelocale(c);
  if (!isfinite(v)) return fail_at(s, from, json_error_numeric_overflow, "real number overflow");
  return made(s, json_real(v));
}

static json_t *take_number(parser *s) {
  const char *from = s->p;
  bool real;
  json_int_t v;
  if (!scan_number(s, &real)) return fail_at(s, from, json_error_invalid_syntax, "invalid token");
  if (!real && to_integer(from, s->p, &v)) return made(s, json_integer(v));
  if (real || s->flags & TNI_JSON_LARGE_AS_REAL) return take_real(s, from);
  return fail_at(s, from, json_error_numeric_overflow, "too big integer");
}

/* --- values ------------------------------------------------------------------------------------------------------ */

static json_t *take_value(parser *s);

/* The list after its bracket; an item is what `item` adds. */
static json_t *take_items(parser *s, json_t *list, char close, bool (*item)(parser *, json_t *)) {
  if (!list) return no_memory(s);
  if (++s->depth > DEEPEST) {
    fail_at(s, s->p, json_error_stack_overflow, "maximum parsing depth reached");
  } else {
    skip_space(s);
    bool more = !take_char(s, close);
    while (more && item(s, list)) {
      skip_space(s);
      more = take_char(s, ',');
      if (!more && !take_char(s, close)) wrong(s, close == ']' ? "']' or ',' expected" : "'}' or ',' expected");
    }
  }
  s->depth--;
  if (json_error_code(s->err) == json_error_unknown) return list;
  json_decref(list);
  return NULL;
}

static bool add_element(parser *s, json_t *list) {
  json_t *v = take_value(s);
  if (v && json_array_append_new(list, v) != 0) return no_memory(s), false;
  return v != NULL;
}

static bool add_member(parser *s, json_t *object) {
  size_t n;
  skip_space(s);
  const char *at = s->p;
  if (!take_char(s, '"')) return wrong(s, "string expected"), false;
  if (!take_text(s, &n)) return false;
  if (memchr(s->buf, '\0', n))
    return fail_at(s, at, json_error_null_byte_in_key, "NUL byte in an object's key is not supported"), false;
  if (s->flags & JSON_REJECT_DUPLICATES && json_object_get(object, s->buf))
    return fail_at(s, at, json_error_duplicate_key, "duplicate object key"), false;
  char *key = strdup(s->buf);
  if (!key) return no_memory(s), false;
  skip_space(s);
  json_t *v = take_char(s, ':') ? take_value(s) : wrong(s, "':' expected");
  const bool ok = v && json_object_set_new_nocheck(object, key, v) == 0;
  if (v && !ok) no_memory(s);
  free(key);
  return ok;
}

static json_t *take_word(parser *s, const char *word, json_t *value) {
  const size_t n = strlen(word);
  if ((size_t)(s->end - s->p) < n || memcmp(s->p, word, n) != 0) return wrong(s, "invalid token");
  s->p += n;
  return value; /* these three are jansson's, for ever */
}

static json_t *take_value(parser *s) {
  size_t n;
  skip_space(s);
  switch (s->p < s->end ? *s->p : '\0') {
    case '{':
      s->p++;
      return take_items(s, json_object(), '}', add_member);
    case '[':
      s->p++;
      return take_items(s, json_array(), ']', add_element);
    case '"':
      s->p++;
      return take_text(s, &n) ? made(s, tni_json_pooled(&s->pool, s->buf, n)) : NULL;
    case 't':
      return take_word(s, "true", json_true());
    case 'f':
      return take_word(s, "false", json_false());
    case 'n':
      return take_word(s, "null", json_null());
    default:
      return take_number(s);
  }
}

json_t *tni_json_loadb(const char *text, size_t n, size_t flags, json_error_t *e) {
  json_error_t own;
  parser s = {.text = text, .p = text, .end = text + n, .flags = flags, .err = e ? e : &own};
  memset(s.err, 0, sizeof *s.err);
  const size_t valid = tni_utf8_valid(text, n);
  json_t *j = NULL;
  skip_space(&s);
  if (valid < n)
    fail_at(&s, text + valid, json_error_invalid_utf8, "unable to decode UTF-8");
  else if (!(flags & JSON_DECODE_ANY) && (s.p == s.end || (*s.p != '{' && *s.p != '[')))
    wrong(&s, "'[' or '{' expected");
  else
    j = take_value(&s);
  skip_space(&s);
  if (j && s.p < s.end && !(flags & JSON_DISABLE_EOF_CHECK)) {
    wrong(&s, "end of file expected");
    json_decref(j);
    j = NULL;
  }
  if (j && e) e->position = (int)(s.p - s.text);
  free(s.buf);
  tni_json_pool_finish(&s.pool);
  if (tni_json_no_memory(s.err)) tni_json_lacked();
  return j;
}
