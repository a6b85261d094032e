/* SPDX-License-Identifier: Apache-2.0
 *
 * Oniguruma (Ruby syntax) to PCRE2. Sources: Oniguruma doc/RE and doc/UNICODE_PROPERTIES, pcre2pattern(3).
 */
#include <stdio.h>
#include <string.h>

#include "runtime/llm/text/text.h"
#include "runtime/llm/tokenizer/pattern.h"

typedef struct xl {
  const char *s;
  size_t n, i;
  tni_str *out;
  const char *why;
  bool in_class;
} xl;

static const char white_class[] =
    "\\x{9}-\\x{d}\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}\\x{3000}";
static const char not_white[] =
    "\\x{0}-\\x{8}\\x{e}-\\x{1f}\\x{21}-\\x{84}\\x{86}-\\x{9f}\\x{a1}-\\x{167f}\\x{1681}-\\x{1fff}\\x{200b}-\\x{2027}"
    "\\x{202a}-\\x{202e}\\x{2030}-\\x{205e}\\x{2060}-\\x{2fff}\\x{3001}-\\x{10ffff}";

static void put_pattern(xl *x, const char *s) { tni_str_add(x->out, s, strlen(s)); }

static bool fail_pattern(xl *x, const char *why) {
  x->why = why;
  return false;
}

/* Newer code points of categories that start with cat ("L", "Lu"). */
static void put_newer(xl *x, const char *cat, size_t n) {
  for (size_t i = 0; i < tni_n_newer_ranges; i++) {
    const tni_newer_range *r = &tni_newer_ranges[i];
    if (n > 2 || strncmp(r->category, cat, n) != 0) continue;
    char b[40];
    snprintf(b, sizeof b, "\\x{%x}-\\x{%x}", (unsigned)r->lo, (unsigned)r->hi);
    put_pattern(x, b);
  }
}

static void put_category(xl *x, const char *cat) {
  put_pattern(x, "\\p{");
  put_pattern(x, cat);
  put_pattern(x, "}");
  put_newer(x, cat, strlen(cat));
}

static void put_word(xl *x) {
  static const char *const cats[] = {"L", "M", "Nd", "Nl", "Pc"};
  for (size_t i = 0; i < sizeof cats / sizeof *cats; i++) put_category(x, cats[i]);
  put_pattern(x, "\\x{24b6}-\\x{24e9}\\x{1f130}-\\x{1f149}\\x{1f150}-\\x{1f169}\\x{1f170}-\\x{1f189}");
}

/* \s \S \w \W \d \D \h \H: a set of its own outside a class, members inside. */
static bool class_escape(xl *x, char c) {
  bool neg = c >= 'A' && c <= 'Z';
  if (x->in_class && neg) {
    if (c == 'S') return put_pattern(x, not_white), true;
    if (c == 'D') return put_pattern(x, "\\P{Nd}"), true;
    return fail_pattern(x, "\\W or \\H inside a set");
  }
  if (!x->in_class) put_pattern(x, neg ? "[^" : "[");
  switch (c | 0x20) {
    case 's':
      put_pattern(x, white_class);
      break;
    case 'd':
      put_category(x, "Nd");
      break;
    case 'h':
      put_pattern(x, "0-9a-fA-F");
      break;
    default:
      put_word(x);
  }
  if (!x->in_class) put_pattern(x, "]");
  return true;
}

/* At the p of \p{NAME}, \p{^NAME}, \P{NAME}. */
static bool class_property(xl *x) {
  bool neg = x->s[x->i] == 'P';
  size_t b = x->i + 1, e;
  if (b >= x->n || x->s[b] != '{') return fail_pattern(x, "\\p without {}");
  b++;
  if (b < x->n && x->s[b] == '^') {
    neg = !neg;
    b++;
  }
  for (e = b; e < x->n && x->s[e] != '}'; e++) {
  }
  if (e >= x->n || e == b || e - b > 40) return fail_pattern(x, "a property without end");
  bool open = !x->in_class, newer = open || !neg;
  if (open) put_pattern(x, neg ? "[^" : "[");
  put_pattern(x, open || !neg ? "\\p{" : "\\P{");
  tni_str_add(x->out, x->s + b, e - b);
  put_pattern(x, "}");
  if (newer) put_newer(x, x->s + b, e - b);
  if (open) put_pattern(x, "]");
  x->i = e + 1;
  return true;
}

static bool read_hex4(xl *x) {
  if (x->n - x->i < 5) return fail_pattern(x, "\\u without four digits");
  put_pattern(x, "\\x{");
  tni_str_add(x->out, x->s + x->i + 1, 4);
  put_pattern(x, "}");
  x->i += 5;
  return true;
}

static bool translate_escape(xl *x) {
  if (x->i + 1 >= x->n) return fail_pattern(x, "a backslash at the end");
  char c = x->s[++x->i];
  if (strchr("sSwWdDhH", c) && c) {
    x->i++;
    return class_escape(x, c);
  }
  if (c == 'p' || c == 'P') return class_property(x);
  if (c == 'u') return read_hex4(x);
  if (c == 'v') {
    x->i++;
    put_pattern(x, "\\x{b}");
    return true;
  }
  bool alnum = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  if (alnum && !strchr("0123456789aefnrtxbBAzZGKRX", c))
    return fail_pattern(x, "an escape that PCRE2 reads differently");
  if ((unsigned char)c < 0x80) put_pattern(x, "\\"); /* before other characters it means nothing */
  size_t len = tni_utf8_len(c);
  tni_str_add(x->out, x->s + x->i, len);
  x->i += len;
  return true;
}

static bool char_class(xl *x) {
  put_pattern(x, "[");
  x->in_class = true;
  x->i++;
  if (x->i < x->n && x->s[x->i] == '^') put_pattern(x, "^"), x->i++;
  for (bool first = true; x->i < x->n; first = false) {
    char c = x->s[x->i];
    if (c == ']' && !first) {
      put_pattern(x, "]");
      x->in_class = false;
      x->i++;
      return true;
    }
    if (c == '\\') {
      if (!translate_escape(x)) return false;
      continue;
    }
    if (c == '&' && x->i + 1 < x->n && x->s[x->i + 1] == '&') return fail_pattern(x, "a set intersection");
    if (c == '[') {
      const char *end = x->i + 1 < x->n && x->s[x->i + 1] == ':' ? memmem(x->s + x->i, x->n - x->i, ":]", 2) : NULL;
      if (!end) return fail_pattern(x, "a set inside a set");
      size_t k = (size_t)(end + 2 - (x->s + x->i));
      tni_str_add(x->out, x->s + x->i, k);
      x->i += k;
      continue;
    }
    tni_str_add(x->out, &c, 1);
    x->i++;
  }
  return fail_pattern(x, "a set without end");
}

/* "(?imx-imx" up to ':' or ')': Ruby's m is dot-all. */
static bool translate_group(xl *x) {
  if (x->i + 1 < x->n && x->s[x->i + 1] == '*') return fail_pattern(x, "a verb");
  put_pattern(x, "(");
  x->i++;
  if (x->i >= x->n || x->s[x->i] != '?') return true;
  size_t e = x->i + 1;
  while (e < x->n && strchr("imx-", x->s[e]) && x->s[e]) e++;
  bool options = e > x->i + 1 && e < x->n && (x->s[e] == ':' || x->s[e] == ')');
  for (size_t k = x->i; options && k < e; k++) put_pattern(x, (char[2]){x->s[k] == 'm' ? 's' : x->s[k], 0});
  if (options) {
    x->i = e;
    return true;
  }
  char c = x->i + 1 < x->n ? x->s[x->i + 1] : 0;
  if (!c || !strchr(":=!>#<", c)) return fail_pattern(x, "a kind of group that PCRE2 reads differently");
  return true;
}

/* "{...}": an interval or literal text. */
static bool translate_interval(xl *x) {
  size_t e = x->i + 1;
  while (e < x->n && ((x->s[e] >= '0' && x->s[e] <= '9') || x->s[e] == ',')) e++;
  bool is = e < x->n && x->s[e] == '}' && e > x->i + 1;
  if (!is) {
    put_pattern(x, "\\{");
    x->i++;
    return true;
  }
  bool comma = memchr(x->s + x->i, ',', e - x->i) != NULL;
  char next = e + 1 < x->n ? x->s[e + 1] : 0;
  if (next == '+' || (next == '?' && !comma)) return fail_pattern(x, "an interval followed by + or ?");
  put_pattern(x, x->s[x->i + 1] == ',' ? "{0" : "{");
  tni_str_add(x->out, x->s + x->i + 1, e - x->i);
  x->i = e + 1;
  return true;
}

bool tni_regex_translate(const char *s, size_t n, tni_str *out, const char **why) {
  xl x = {s, n, 0, out, "out of memory", false};
  bool ok = true;
  while (ok && x.i < n) {
    char c = s[x.i];
    if (c == '\\')
      ok = translate_escape(&x);
    else if (c == '[')
      ok = char_class(&x);
    else if (c == '(')
      ok = translate_group(&x);
    else if (c == '{')
      ok = translate_interval(&x);
    else {
      tni_str_add(out, &c, 1);
      x.i++;
    }
  }
  *why = x.why;
  return ok && !out->failed;
}
