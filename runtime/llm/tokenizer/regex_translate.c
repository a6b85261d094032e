/* SPDX-License-Identifier: Apache-2.0
 *
 * Oniguruma (Ruby syntax) to PCRE2. Sources: Oniguruma doc/RE and doc/UNICODE_PROPERTIES, pcre2pattern(3).
 */
#include <string.h>

#include "runtime/llm/tokenizer/pattern.h"
#include "runtime/llm/tokenizer/regex.h"

/* --- escapes -------------------------------------------------------------------------------------------------------
 */

/* \b, \B by Oniguruma's idea of a word. */
static bool put_boundary(tni_regex *x, bool negated) {
  static const char *const parts[2][5] = {{"(?:(?<=", ")(?!", ")|(?<!", ")(?=", "))"},
                                          {"(?:(?<=", ")(?=", ")|(?<!", ")(?!", "))"}};
  for (int k = 0; k < 5; k++) {
    tni_regex_put(x, parts[negated][k]);
    if (k < 4 && !tni_regex_word(x)) return false;
  }
  return true;
}

static bool read_escape(tni_regex *x) {
  if (x->i + 1 >= x->n) return tni_regex_fail(x, "a backslash at the end");
  const char c = x->s[x->i + 1];
  if (c && strchr("sSwWdDhHpP", c)) return tni_regex_set_escape(x);
  x->i++;
  uint32_t cp;
  if (c == 'x' || c == 'u' || c == 'o' || c == '0') {
    if (!tni_regex_code(x, &cp)) return false;
    tni_regex_put_cp(x, cp);
    return true;
  }
  if (c == 'v' || c == 'b' || c == 'B') {
    x->i++;
    if (c != 'v') return put_boundary(x, c == 'B');
    tni_regex_put(x, "\\x{b}");
    return true;
  }
  const bool alnum = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  if (alnum && !strchr("123456789aefnrtAzZGKRXO", c)) {
    x->i--;
    return tni_regex_fail(x, "an escape that PCRE2 reads differently");
  }
  const size_t len = tni_utf8_len(c);
  if (c == 'O') {
    tni_regex_put(x, "(?s:.)");
  } else {
    if ((unsigned char)c < 0x80) tni_regex_put(x, "\\"); /* before other characters it means nothing */
    tni_str_add(x->out, x->s + x->i, len);
  }
  x->i += len;
  return true;
}

/* --- groups and intervals ------------------------------------------------------------------------------------------
 */

/* What a group changes is undone where it ends. */
typedef struct group_stack {
  bool caseless[TNI_REGEX_DEPTH];
  size_t n;
} group_stack;

/* "(?imx-imx" up to ':' or ')', e: Ruby's m is dot-all. The options of "(?i)" hold to the end of the group around it.
 */
static void put_options(tni_regex *x, size_t e) {
  bool off = false;
  for (; x->i < e; x->i++) {
    const char c = x->s[x->i];
    off |= c == '-';
    if (c == 'i') x->caseless = !off;
    tni_regex_put(x, (char[2]){c == 'm' ? 's' : c, 0});
  }
}

static bool read_group(tni_regex *x, group_stack *g) {
  if (x->i + 1 < x->n && x->s[x->i + 1] == '*') return tni_regex_fail(x, "a verb");
  if (g->n == TNI_REGEX_DEPTH) return tni_regex_fail(x, "groups too deep inside groups");
  g->caseless[g->n++] = x->caseless;
  tni_regex_put(x, "(");
  x->i++;
  if (x->i >= x->n || x->s[x->i] != '?') return true;
  size_t e = x->i + 1;
  while (e < x->n && x->s[e] && strchr("imx-", x->s[e])) e++;
  if (e > x->i + 1 && e < x->n && (x->s[e] == ':' || x->s[e] == ')')) {
    put_options(x, e);
    if (x->s[e] == ')') { /* no group: it changes the one around */
      g->n--;
      tni_regex_put(x, ")");
      x->i++;
    }
    return true;
  }
  const char c = x->i + 1 < x->n ? x->s[x->i + 1] : 0;
  if (!c || !strchr(":=!>#<", c)) return tni_regex_fail(x, "a kind of group that PCRE2 reads differently");
  if (c != '#') return true;
  const char *end = memchr(x->s + x->i, ')', x->n - x->i); /* a comment */
  if (!end) return tni_regex_fail(x, "a comment without end");
  x->i = (size_t)(end - x->s);
  tni_regex_put(x, "?#");
  return true;
}

/* "{...}": an interval or literal text. */
static bool read_interval(tni_regex *x) {
  size_t e = x->i + 1;
  while (e < x->n && ((x->s[e] >= '0' && x->s[e] <= '9') || x->s[e] == ',')) e++;
  bool is = e < x->n && x->s[e] == '}' && e > x->i + 1;
  if (!is) {
    tni_regex_put(x, "\\{");
    x->i++;
    return true;
  }
  bool comma = memchr(x->s + x->i, ',', e - x->i) != NULL;
  char next = e + 1 < x->n ? x->s[e + 1] : 0;
  if (next == '+' || (next == '?' && !comma)) return tni_regex_fail(x, "an interval followed by + or ?");
  tni_regex_put(x, x->s[x->i + 1] == ',' ? "{0" : "{");
  tni_str_add(x->out, x->s + x->i + 1, e - x->i);
  x->i = e + 1;
  return true;
}

static bool translate_all(tni_regex *x) {
  group_stack g = {.n = 0};
  bool ok = true;
  while (ok && x->i < x->n) {
    const char c = x->s[x->i];
    if (c == '\\') {
      ok = read_escape(x);
    } else if (c == '[') {
      ok = tni_regex_class(x);
    } else if (c == '(') {
      ok = read_group(x, &g);
    } else if (c == '{') {
      ok = read_interval(x);
    } else {
      if (c == ')' && g.n) x->caseless = g.caseless[--g.n];
      tni_str_add(x->out, &c, 1);
      x->i++;
    }
  }
  return ok && !x->out->failed;
}

bool tni_regex_translate(const char *s, size_t n, tni_str *out, const char **why, size_t *column) {
  tni_regex x = {s, n, 0, out, NULL, 0, false};
  if (translate_all(&x)) return true;
  *why = x.why ? x.why : "out of memory";
  *column = 1;
  for (size_t i = 0; i < n && i < x.i; i += tni_utf8_len(s[i])) ++*column;
  return false;
}
