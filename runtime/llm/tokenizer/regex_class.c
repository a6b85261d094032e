/* SPDX-License-Identifier: Apache-2.0
 *
 * Classes of Oniguruma's regexes: sets inside sets, &&, POSIX brackets, properties. PCRE2 has no sets inside sets
 * before 10.45 and other tables, so a class becomes a set of code points first. It is printed as the categories that it
 * holds wholly and ranges for the rest, or as the complement of that, whichever is shorter: PCRE2 looks categories up,
 * but goes through ranges one by one. Sources: Oniguruma doc/RE, and its answers where that says nothing.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/llm/tokenizer/regex.h"

/* --- printing ------------------------------------------------------------------------------------------------------
 */

/* Surrogates are no characters: they only must not end a range. */
static void settle_surrogates(tni_cp_set *s) {
  if (tni_cp_set_has(s, 0xd7ff) && tni_cp_set_has(s, 0xe000))
    tni_cp_set_add(s, 0xd800, 0xdfff);
  else
    tni_cp_set_drop(s, 0xd800, 0xdfff);
}

/* Leaves in s what the categories do not say, and returns these. */
static uint32_t take_categories(tni_cp_set *s) {
  const uint32_t marks = 1u << TNI_CAT_MN | 1u << TNI_CAT_MC;
  uint32_t cats = tni_cp_set_categories(s) & ((1u << TNI_CAT_CS) - 1);
  if ((cats & marks) != marks) cats &= ~marks; /* U+1171E went from one to the other after Unicode 14 */
  tni_cp_set_drop_known(s, cats);
  settle_surrogates(s);
  return cats;
}

static size_t count_items(const tni_cp_set *s, uint32_t cats) {
  size_t n = (size_t)__builtin_popcount(cats);
  for (uint32_t at = 0, lo, hi; tni_cp_set_next(s, &at, &lo, &hi);) n++;
  return n;
}

static void put_range(tni_regex *x, uint32_t lo, uint32_t hi) {
  char b[40];
  if (lo == hi)
    snprintf(b, sizeof b, "\\x{%x}", (unsigned)lo);
  else
    snprintf(b, sizeof b, "\\x{%x}-\\x{%x}", (unsigned)lo, (unsigned)hi);
  tni_regex_put(x, b);
}

static void put_categories(tni_regex *x, uint32_t cats) {
  static const struct {
    char name;
    uint32_t cats;
  } groups[] = {{'L', 0x1f}, {'M', 0xe0}, {'N', 0x700}, {'P', 0x3f800}, {'S', 0x3c0000}, {'Z', 0x1c00000}};
  for (size_t i = 0; i < sizeof groups / sizeof *groups; i++) {
    if ((cats & groups[i].cats) != groups[i].cats) continue;
    tni_regex_put(x, (char[]){'\\', 'p', '{', groups[i].name, '}', 0});
    cats &= ~groups[i].cats;
  }
  for (uint32_t c = 0; c < TNI_CATS; c++)
    if (cats >> c & 1) {
      tni_regex_put(x, "\\p{");
      tni_regex_put(x, tni_category_names[c]);
      tni_regex_put(x, "}");
    }
}

static void put_items(tni_regex *x, bool negated, uint32_t cats, const tni_cp_set *rest) {
  uint32_t at = 0, lo, hi;
  const bool empty = !cats && !tni_cp_set_next(rest, &at, &lo, &hi);
  if (empty) negated = !negated;
  tni_regex_put(x, negated ? "[^" : "[");
  put_categories(x, cats);
  if (empty) put_range(x, 0, TNI_CPS - 1);
  at = 0;
  while (tni_cp_set_next(rest, &at, &lo, &hi)) put_range(x, lo, hi);
  tni_regex_put(x, "]");
}

/* negated: the set is what the class leaves out. fold: PCRE2 adds the other cases to what is printed, so it must be
 * what the file has, without categories, whose other cases PCRE2 does not add. */
static bool print_set(tni_regex *x, tni_cp_set *s, bool negated, bool fold) {
  if (fold) {
    tni_cp_set_add_cases(s);
    settle_surrogates(s);
    put_items(x, negated, 0, s);
    return true;
  }
  tni_cp_set *t = tni_cp_set_create();
  if (!t) return tni_regex_fail(x, NULL);
  memcpy(t, s, sizeof *t);
  tni_cp_set_not(t);
  const uint32_t cats = take_categories(s), others = take_categories(t);
  const bool turn = count_items(t, others) < count_items(s, cats);
  put_items(x, negated != turn, turn ? others : cats, turn ? t : s);
  free(t);
  return true;
}

/* --- properties ----------------------------------------------------------------------------------------------------
 */

static bool add_property(tni_regex *x, tni_cp_set *s, const char *name, size_t n, bool negated) {
  if (++x->sets > TNI_REGEX_SETS) return tni_regex_fail(x, "too many sets");
  const tni_found found = tni_cp_set_add_property(s, name, n, negated);
  return found == TNI_FOUND || tni_regex_fail(x, found == TNI_UNKNOWN ? "a property that is not known" : NULL);
}

static bool is_word_name(const char *s, size_t n) {
  const char *w = "word";
  for (size_t i = 0; i < n; i++) {
    if (s[i] == ' ' || s[i] == '_' || s[i] == '-') continue;
    if (!*w || (s[i] | 32) != *w++) return false;
  }
  return !*w;
}

/* At the backslash of a set: adds it. inside: of a class, where Oniguruma's words have no superscripts and fractions.
 */
static bool add_escape(tni_regex *x, tni_cp_set *s, bool inside) {
  const size_t at = x->i;
  const char c = x->s[at + 1];
  const char *name = (c | 32) == 's' ? "space" : (c | 32) == 'd' ? "digit" : (c | 32) == 'h' ? "xdigit" : "word";
  bool negated = c >= 'A' && c <= 'Z';
  if ((c | 32) != 'p') {
    x->i += 2;
    if (inside && *name == 'w') name = ":word";
    return add_property(x, s, name, strlen(name), negated);
  }
  size_t b = at + 3, e;
  if (at + 2 >= x->n || x->s[at + 2] != '{') return tni_regex_fail(x, "\\p without {}");
  if (b < x->n && x->s[b] == '^') {
    negated = !negated;
    b++;
  }
  for (e = b; e < x->n && x->s[e] != '}'; e++) {
  }
  if (e >= x->n) return tni_regex_fail(x, "a property without end");
  if (b < e && x->s[b] == ':') return tni_regex_fail(x, "a property that is not known");
  const bool word = inside && is_word_name(x->s + b, e - b);
  if (!add_property(x, s, word ? ":word" : x->s + b, word ? 5 : e - b, negated)) return false;
  x->i = e + 1;
  return true;
}

bool tni_regex_set_escape(tni_regex *x) {
  tni_cp_set *s = tni_cp_set_create();
  if (!s) return tni_regex_fail(x, NULL);
  /* Outside of classes Oniguruma does not add the other cases of sets. */
  const bool plain = x->caseless;
  bool ok = add_escape(x, s, false);
  if (ok && plain) tni_regex_put(x, "(?-i:");
  ok = ok && print_set(x, s, false, false);
  if (ok && plain) tni_regex_put(x, ")");
  free(s);
  return ok;
}

bool tni_regex_word(tni_regex *x) {
  tni_cp_set *s = tni_cp_set_create();
  bool ok = s ? add_property(x, s, "word", 4, false) && print_set(x, s, false, false) : tni_regex_fail(x, NULL);
  free(s);
  return ok;
}

/* --- classes -------------------------------------------------------------------------------------------------------
 */

/* Between brackets: what stands before a '-' and may begin a range, and what the last '&&' left. */
typedef struct class_reader {
  tni_cp_set *set, *all; /* since the last &&; intersection of what is before it, NULL: none */
  enum { CLASS_START, CLASS_CHAR, CLASS_SET, CLASS_DONE } last;
  uint32_t from;
} class_reader;

static bool read_class(tni_regex *x, tni_cp_set *out, bool *negated, unsigned depth);

/* One character, written out or escaped, at x->i. */
static bool class_char(tni_regex *x, uint32_t *cp) {
  size_t len;
  if (x->s[x->i] != '\\') {
    *cp = tni_utf8_get(x->s + x->i, x->n - x->i, &len);
    x->i += len;
    return true;
  }
  static const char from[] = "tnrfvaeb", to[] = "\t\n\r\f\v\a\033\b";
  if (x->i + 1 >= x->n) return tni_regex_fail(x, "a backslash at the end");
  const char c = x->s[x->i + 1], *known = strchr(from, c);
  if ((c >= '0' && c <= '7') || c == 'x' || c == 'u' || c == 'o') {
    x->i++;
    return tni_regex_code(x, cp);
  }
  if (c == 'c' || c == 'C' || c == 'M') return tni_regex_fail(x, "a control character written with \\c, \\C or \\M");
  if (c == 'p' || c == 'P') return tni_regex_fail(x, "\\p without {}");
  x->i++;
  *cp = tni_utf8_get(x->s + x->i, x->n - x->i, &len);
  if (known && *known) *cp = (unsigned char)to[known - from];
  x->i += len;
  return true;
}

static bool is_set_escape(const tni_regex *x) {
  if (x->s[x->i] != '\\' || x->i + 1 >= x->n) return false;
  const char c = x->s[x->i + 1];
  return c && (strchr("sSwWdDhH", c) || ((c == 'p' || c == 'P') && x->i + 2 < x->n && x->s[x->i + 2] == '{'));
}

/* "[:name:]" at x->i. *is false: it is no such bracket. */
static bool posix_bracket(tni_regex *x, tni_cp_set *s, bool *is) {
  const size_t b = x->i + 2;
  *is = b < x->n && x->s[x->i + 1] == ':';
  size_t e = b;
  while (*is && e < x->n && (x->s[e] == '^' || (x->s[e] >= 'a' && x->s[e] <= 'z'))) e++;
  *is = *is && e + 1 < x->n && x->s[e] == ':' && x->s[e + 1] == ']';
  if (!*is) return true;
  static const char *const names[] = {"alnum", "alpha", "ascii", "blank", "cntrl", "digit",  "graph",
                                      "lower", "print", "punct", "space", "upper", "xdigit", "word"};
  const bool negated = x->s[b] == '^';
  const char *name = x->s + b + negated;
  const size_t n = e - b - negated;
  for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
    if (strlen(names[k]) != n || memcmp(names[k], name, n) != 0) continue;
    char own[8] = ":"; /* these two have sets of their own in brackets */
    const bool special = strcmp(names[k], "punct") == 0 || strcmp(names[k], "word") == 0;
    memcpy(own + special, name, n);
    x->i = e + 2;
    return add_property(x, s, own, n + special, negated);
  }
  return tni_regex_fail(x, "a POSIX bracket of unknown name");
}

/* "[" inside a class: a POSIX bracket or a set. */
static bool class_open(tni_regex *x, class_reader *r, unsigned depth) {
  bool posix;
  if (!posix_bracket(x, r->set, &posix)) return false;
  if (posix) {
    r->last = CLASS_SET;
    return true;
  }
  if (++x->sets > TNI_REGEX_SETS) return tni_regex_fail(x, "too many sets");
  tni_cp_set *inner = tni_cp_set_create();
  bool negated = false, ok = inner ? read_class(x, inner, &negated, depth + 1) : tni_regex_fail(x, NULL);
  if (ok && negated) tni_cp_set_not(inner);
  if (ok) tni_cp_set_or(r->set, inner);
  free(inner);
  r->last = CLASS_DONE;
  return ok;
}

/* The intersection with what is read so far. */
static bool class_and(tni_regex *x, class_reader *r) {
  if (r->all) {
    tni_cp_set_and(r->all, r->set);
    memset(r->set, 0, sizeof *r->set);
  } else {
    r->all = r->set;
    r->set = tni_cp_set_create();
  }
  r->last = CLASS_START;
  return r->set || tni_regex_fail(x, NULL);
}

static bool at_and(const tni_regex *x) { return x->i + 1 < x->n && x->s[x->i] == '&' && x->s[x->i + 1] == '&'; }

/* After "a-": the end of the range. */
static bool class_range(tni_regex *x, class_reader *r) {
  uint32_t to;
  if (x->s[x->i] == '[') return tni_regex_fail(x, "a set at the end of a range");
  if (is_set_escape(x)) return tni_regex_fail(x, "a set at the end of a range");
  const size_t at = x->i;
  if (!class_char(x, &to)) return false;
  if (to < r->from) {
    x->i = at;
    return tni_regex_fail(x, "a range that ends before it begins");
  }
  tni_cp_set_add(r->set, r->from, to);
  r->last = CLASS_DONE;
  return true;
}

/* A '-': within a range or by itself. */
static bool class_minus(tni_regex *x, class_reader *r) {
  x->i++;
  const bool last = x->i >= x->n || x->s[x->i] == ']' || at_and(x);
  if (r->last == CLASS_CHAR && !last) return class_range(x, r);
  if (r->last == CLASS_SET && !last) return tni_regex_fail(x, "a set at the beginning of a range");
  tni_cp_set_add(r->set, '-', '-');
  r->from = '-';
  r->last = r->last == CLASS_START || last ? CLASS_CHAR : CLASS_DONE;
  return true;
}

static bool class_item(tni_regex *x, class_reader *r, unsigned depth) {
  if (at_and(x)) {
    x->i += 2;
    return class_and(x, r);
  }
  if (x->s[x->i] == '[') return class_open(x, r, depth);
  if (x->s[x->i] == '-') return class_minus(x, r);
  if (is_set_escape(x)) {
    r->last = CLASS_SET;
    return add_escape(x, r->set, true);
  }
  if (!class_char(x, &r->from)) return false;
  tni_cp_set_add(r->set, r->from, r->from);
  r->last = CLASS_CHAR;
  return true;
}

/* Whether a ']' comes later: then the one here is a character. */
static bool closes_later(const tni_regex *x) {
  for (size_t i = x->i + 1; i < x->n; i++) {
    if (x->s[i] == ']') return true;
    if (x->s[i] == '\\') i++;
  }
  return false;
}

/* At a '[', to after its ']'. out: the set, of which the class is the complement where *negated. */
static bool read_class(tni_regex *x, tni_cp_set *out, bool *negated, unsigned depth) {
  if (depth >= TNI_REGEX_DEPTH) return tni_regex_fail(x, "sets too deep inside sets");
  const size_t begin = x->i++;
  class_reader r = {tni_cp_set_create(), NULL, CLASS_START, 0};
  bool ok = r.set ? true : tni_regex_fail(x, NULL);
  *negated = x->i < x->n && x->s[x->i] == '^';
  x->i += *negated;
  if (ok && x->i < x->n && x->s[x->i] == ']') {
    if (!closes_later(x)) ok = tni_regex_fail(x, "an empty set");
    tni_cp_set_add(r.set, ']', ']');
    r.from = ']';
    r.last = CLASS_CHAR;
    x->i++;
  }
  while (ok && x->i < x->n && x->s[x->i] != ']') ok = class_item(x, &r, depth);
  if (ok && x->i >= x->n) {
    x->i = begin;
    ok = tni_regex_fail(x, "a set without end");
  }
  if (ok) {
    x->i++;
    if (r.all) tni_cp_set_and(r.set, r.all);
    memcpy(out, r.set, sizeof *out);
  }
  free(r.set);
  free(r.all);
  return ok;
}

bool tni_regex_class(tni_regex *x) {
  tni_cp_set *s = tni_cp_set_create();
  bool negated = false, ok = s ? read_class(x, s, &negated, 0) : tni_regex_fail(x, NULL);
  ok = ok && print_set(x, s, negated, x->caseless);
  free(s);
  return ok;
}
