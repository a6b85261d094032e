/* SPDX-License-Identifier: Apache-2.0
 *
 * ECMA-262's regular expressions, as far as they are regular. \d, \w and \s are those of ASCII and their negations
 * leave out what any dialect takes for a digit, a letter or a space: what is generated matches in all of them. A part
 * that is repeated is read again for each time.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/llm/grammar/compile.h"
#include "runtime/llm/grammar/nfa.h"
#include "runtime/llm/text/text.h"

enum { REGEX_DEPTH = 64 };

typedef struct regex {
  tni_nfa *x;
  const char *s;
  size_t n, i;
  unsigned depth;
  bool dry; /* only looks for the end of a part */
  bool whole;
  tni_regex_error *e;
} regex;

static bool refuse(regex *r, tn_status st, const char *why) {
  if (r->e->status == TN_OK) *r->e = (tni_regex_error){why, r->i + 1, st};
  return false;
}

/* What became of the automaton, once it has failed. */
static bool refuse_failed(regex *r) {
  return refuse(r, r->x->failed, r->x->failed == TN_E_NO_MEMORY ? "out of memory" : "it is too large");
}

static bool more(const regex *r) { return r->i < r->n; }
static bool is_at(const regex *r, char c) { return more(r) && r->s[r->i] == c; }

static uint32_t new_state(regex *r) { return r->dry ? 0 : tni_nfa_state(r->x); }
static void link_free(regex *r, uint32_t from, uint32_t to) {
  if (!r->dry) tni_nfa_edge_add(r->x, from, TNI_NFA_FREE, to);
}

static uint32_t take_char(regex *r) {
  size_t len = 1;
  const uint32_t cp = tni_utf8_get(r->s + r->i, r->n - r->i, &len);
  r->i += len;
  return cp;
}

/* --- sets --------------------------------------------------------------------------------------------------------- */

static void add_property(tni_chars *c, const char *name) {
  tni_cp_set *set = tni_cp_set_create();
  if (!set || tni_cp_set_add_property(set, name, strlen(name), false) != TNI_FOUND) c->failed = true;
  for (uint32_t at = 0, lo, hi; set && tni_cp_set_next(set, &at, &lo, &hi);) tni_chars_add(c, lo, hi);
  free(set);
}

/* The characters of \d, \w or \s: those of ASCII, or wide those of any dialect. */
static void add_class(tni_chars *c, char kind, bool wide) {
  if (kind != 's') tni_chars_add(c, '0', '9');
  if (kind == 'w') {
    tni_chars_add(c, 'A', 'Z');
    tni_chars_add(c, 'a', 'z');
    tni_chars_add(c, '_', '_');
  }
  if (kind == 's') {
    tni_chars_add(c, '\t', '\r');
    tni_chars_add(c, ' ', ' ');
  }
  if (!wide) return;
  if (kind == 'd') add_property(c, "Nd");
  if (kind == 'w') {
    add_property(c, "L");
    add_property(c, "N");
    add_property(c, "M");
    add_property(c, "Pc");
  }
  if (kind != 's') return;
  add_property(c, "Z");
  tni_chars_add(c, 0x1c, 0x1f);
  tni_chars_add(c, 0x85, 0x85);
  tni_chars_add(c, 0xfeff, 0xfeff);
}

static bool is_class(char c) { return c && strchr("dDwWsS", c) != NULL; }

/* The class after a backslash; inside of a negated class what is narrow becomes wide and the other way round. */
static void take_class(regex *r, tni_chars *c, bool negated) {
  const char k = r->s[r->i++], kind = k > 'Z' ? k : (char)(k + 32);
  const bool inverse = k < 'a';
  if (r->dry) return;
  if (!inverse) {
    add_class(c, kind, negated);
    return;
  }
  tni_chars other = {0};
  add_class(&other, kind, !negated);
  tni_chars_sort(&other);
  tni_chars_not(&other);
  tni_chars_add_all(c, &other);
  tni_chars_finish(&other);
}

static bool take_hex(regex *r, int digits, uint32_t *cp) {
  const bool braces = digits == 4 && is_at(r, '{');
  uint32_t v = 0;
  int k = 0;
  if (braces) r->i++;
  for (; more(r) && tni_hex_digit(r->s[r->i]) >= 0 && k < (braces ? 6 : digits); k++)
    v = v * 16 + (uint32_t)tni_hex_digit(r->s[r->i++]);
  if (k == 0 || (!braces && k < digits) || v > TNI_CHAR_LAST || (braces && !is_at(r, '}')))
    return refuse(r, TN_E_INVALID, "not a character's number");
  if (braces) r->i++;
  *cp = v;
  return true;
}

/* After a backslash: one character. */
static bool take_escape(regex *r, bool in_class, uint32_t *cp) {
  static const char from[] = "tnrfv", to[] = "\t\n\r\f\v";
  if (!more(r)) return refuse(r, TN_E_INVALID, "a backslash at the end");
  const char c = r->s[r->i];
  const char *named = strchr(from, c);
  if (c == 'u' || c == 'x') {
    r->i++;
    return take_hex(r, c == 'u' ? 4 : 2, cp);
  }
  if (c == 'c' && r->i + 1 < r->n) {
    *cp = (uint32_t)r->s[r->i + 1] & 31;
    r->i += 2;
    return true;
  }
  if (c == '0' || (c == 'b' && in_class) || named) {
    *cp = c == '0' ? 0 : c == 'b' ? 8 : (uint32_t)to[named - from];
    r->i++;
    return true;
  }
  if (c >= '1' && c <= '9') return refuse(r, TN_E_UNSUPPORTED, "a reference to a group");
  if (c == 'b' || c == 'B') return refuse(r, TN_E_UNSUPPORTED, "an edge of a word");
  if (c == 'p' || c == 'P') return refuse(r, TN_E_UNSUPPORTED, "a property of Unicode");
  if (c == 'k') return refuse(r, TN_E_UNSUPPORTED, "a reference to a group");
  if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) return refuse(r, TN_E_INVALID, "an unknown escape");
  *cp = take_char(r);
  return true;
}

/* One member of a class, or the first of a range. *single false: it was a class. */
static bool take_member(regex *r, tni_chars *c, bool negated, uint32_t *cp, bool *single) {
  *single = true;
  if (!is_at(r, '\\')) {
    *cp = take_char(r);
    return true;
  }
  r->i++;
  if (more(r) && is_class(r->s[r->i])) {
    *single = false;
    take_class(r, c, negated);
    return true;
  }
  return take_escape(r, true, cp);
}

static bool take_brackets(regex *r, tni_chars *c) {
  const bool negated = is_at(r, '^');
  if (negated) r->i++;
  while (more(r) && !is_at(r, ']')) {
    uint32_t lo = 0, hi;
    bool single, end = true;
    if (!take_member(r, c, negated, &lo, &single)) return false;
    hi = lo;
    if (is_at(r, '-') && r->i + 1 < r->n && r->s[r->i + 1] != ']') {
      r->i++;
      if (!take_member(r, c, negated, &hi, &end)) return false;
      if (!single || !end) return refuse(r, TN_E_INVALID, "a range that begins or ends with a class");
      if (lo > hi) return refuse(r, TN_E_INVALID, "a range that ends before it begins");
    }
    if (single) tni_chars_add(c, lo, hi);
  }
  if (!more(r)) return refuse(r, TN_E_INVALID, "']' is missing");
  r->i++;
  tni_chars_sort(c);
  if (negated) tni_chars_not(c);
  return true;
}

/* --- parts -------------------------------------------------------------------------------------------------------- */

static bool take_choice(regex *r, uint32_t from, uint32_t to);

static bool take_group(regex *r, uint32_t from, uint32_t to) {
  if (is_at(r, '?')) {
    const char *s = r->s + r->i;
    const size_t n = r->n - r->i;
    const char *name = n > 2 && s[1] == '<' && s[2] != '=' && s[2] != '!' ? memchr(s, '>', n) : NULL;
    if (n > 1 && s[1] == ':')
      r->i += 2;
    else if (name)
      r->i += (size_t)(name - s) + 1;
    else
      return refuse(r, TN_E_UNSUPPORTED, "a group that looks around, or with flags");
  }
  if (++r->depth > REGEX_DEPTH) return refuse(r, TN_E_LIMIT, "groups inside of groups");
  if (!take_choice(r, from, to)) return false;
  r->depth--;
  if (!is_at(r, ')')) return refuse(r, TN_E_INVALID, "')' is missing");
  r->i++;
  return true;
}

static bool take_atom(regex *r, uint32_t from, uint32_t to) {
  tni_chars c = {0};
  uint32_t cp = 0;
  bool ok = true;
  const char first = r->s[r->i];
  if (strchr("*+?{", first)) return refuse(r, TN_E_INVALID, "nothing to repeat");
  if (first == '^' || first == '$') return refuse(r, TN_E_UNSUPPORTED, "an anchor inside");
  if (first == '(' || first == '[' || first == '.' || first == '\\') r->i++;
  if (first == '(') return take_group(r, from, to);
  if (first == '[') {
    ok = take_brackets(r, &c);
  } else if (first == '.') {
    tni_chars_add(&c, '\n', '\n');
    tni_chars_add(&c, '\r', '\r');
    tni_chars_add(&c, 0x2028, 0x2029);
    tni_chars_not(&c);
  } else if (first == '\\' && more(r) && is_class(r->s[r->i])) {
    take_class(r, &c, false);
  } else {
    if (first == '\\')
      ok = take_escape(r, false, &cp);
    else
      cp = take_char(r);
    tni_chars_add(&c, cp, cp);
  }
  tni_chars_sort(&c);
  if (ok && !r->dry) tni_nfa_edge_add(r->x, from, tni_nfa_set(r->x, &c), to);
  tni_chars_finish(&c);
  return ok;
}

/* How often; most UINT32_MAX: without end. A "{" that is none is a character to some: not here. */
static bool take_times(regex *r, uint32_t *least, uint32_t *most) {
  *least = *most = 1;
  if (is_at(r, '*') || is_at(r, '+') || is_at(r, '?')) {
    const char c = r->s[r->i++];
    *least = c == '+';
    *most = c == '?' ? 1 : UINT32_MAX;
  } else if (is_at(r, '{')) {
    r->i++;
    const bool low = tni_times_read(r->s, r->n, &r->i, least), comma = is_at(r, ',');
    if (comma) r->i++;
    const bool high = comma && tni_times_read(r->s, r->n, &r->i, most);
    if (!low || !is_at(r, '}')) return refuse(r, TN_E_INVALID, "not a number of times");
    r->i++;
    if (!comma) *most = *least;
    if (comma && !high) *most = UINT32_MAX;
    if (*most < *least) return refuse(r, TN_E_INVALID, "a number of times that falls");
    if (*least > TNI_TIMES_MOST || (*most > TNI_TIMES_MOST && *most != UINT32_MAX))
      return refuse(r, TN_E_LIMIT, "more than 100000 times");
  } else {
    return true;
  }
  if (is_at(r, '?')) r->i++; /* lazy: the same texts */
  if (is_at(r, '+')) return refuse(r, TN_E_UNSUPPORTED, "a possessive repeat");
  return true;
}

static bool take_again(regex *r, size_t at, uint32_t from, uint32_t to) {
  r->i = at;
  return r->x->failed == TN_OK && take_atom(r, from, to);
}

static bool take_repeated(regex *r, uint32_t from, uint32_t to) {
  const size_t at = r->i;
  const bool was_dry = r->dry;
  uint32_t least, most;
  r->dry = true;
  if (!take_atom(r, 0, 0)) return false;
  r->dry = was_dry;
  if (!take_times(r, &least, &most)) return false;
  const size_t end = r->i;
  uint32_t cur = from;
  bool ok = true;
  for (uint32_t k = 0; ok && !r->dry && k < least; k++) {
    const uint32_t next = new_state(r);
    ok = take_again(r, at, cur, next);
    cur = next;
  }
  for (uint32_t k = least; ok && !r->dry && most != UINT32_MAX && k < most; k++) {
    const uint32_t next = new_state(r);
    link_free(r, cur, to);
    ok = take_again(r, at, cur, next);
    cur = next;
  }
  if (ok && !r->dry && most == UINT32_MAX) {
    const uint32_t loop = new_state(r), back = new_state(r);
    link_free(r, cur, loop);
    ok = take_again(r, at, loop, back);
    link_free(r, back, loop);
    cur = loop;
  }
  link_free(r, cur, to);
  if (r->x->failed != TN_OK) return refuse_failed(r);
  r->i = end;
  return ok;
}

static void add_anything(regex *r, uint32_t at) {
  tni_chars all = {0};
  tni_chars_add(&all, 0, TNI_CHAR_LAST);
  if (!r->dry) tni_nfa_edge_add(r->x, at, tni_nfa_set(r->x, &all), at);
  tni_chars_finish(&all);
}

static bool take_row(regex *r, uint32_t from, uint32_t to) {
  const bool outside = r->depth == 0;
  bool open = outside && !r->whole;
  uint32_t cur = new_state(r);
  link_free(r, from, cur);
  if (outside && is_at(r, '^')) {
    r->i++;
    open = false;
  }
  if (open) add_anything(r, cur);
  open = outside && !r->whole;
  while (more(r) && !is_at(r, '|') && !is_at(r, ')')) {
    if (is_at(r, '$') && outside && (r->i + 1 == r->n || r->s[r->i + 1] == '|')) {
      r->i++;
      open = false;
      break;
    }
    const uint32_t next = new_state(r);
    if (!take_repeated(r, cur, next)) return false;
    cur = next;
  }
  const uint32_t last = new_state(r);
  link_free(r, cur, last);
  if (open) add_anything(r, last);
  link_free(r, last, to);
  return true;
}

static bool take_choice(regex *r, uint32_t from, uint32_t to) {
  for (;;) {
    if (!take_row(r, from, to)) return false;
    if (!is_at(r, '|')) return true;
    r->i++;
  }
}

bool tni_nfa_regex(tni_nfa *x, const char *s, size_t n, bool whole, tni_regex_error *e) {
  *e = (tni_regex_error){NULL, 0, TN_OK};
  regex r = {.x = x, .s = s, .n = n, .whole = whole, .e = e};
  if (!take_choice(&r, 0, 1)) return false;
  if (more(&r)) return refuse(&r, TN_E_INVALID, "')' without '('");
  return x->failed == TN_OK || refuse_failed(&r);
}

tn_status tni_compile_regex(tni_auto *a, const char *text, size_t n, uint32_t *rule, tn_error *err) {
  tni_nfa x;
  tni_regex_error e;
  tni_nfa_init(&x);
  *rule = tni_auto_rule(a);
  const bool ok = tni_nfa_regex(&x, text, n, true, &e);
  const tni_string_form f = {.all = {&x}, .n = 1, .most = UINT32_MAX};
  if (ok && a->failed == TN_OK) tni_nfa_emit(a, a->rules[*rule].begin, &f, false, a->rules[*rule].end);
  tni_nfa_finish(&x);
  if (!ok && e.status == TN_E_NO_MEMORY) return tni_fail_memory(err, "regex");
  return ok ? TN_OK : tni_fail(err, e.status, "regex", "regex: column %zu: %s", e.column, e.why);
}
