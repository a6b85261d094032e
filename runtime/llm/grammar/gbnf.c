/* SPDX-License-Identifier: Apache-2.0
 *
 * GBNF, the grammars of llama.cpp: `name ::= "text" [a-z] other ( ... ) * + ? {n,m} | ...`, comments from # on. The
 * text is a "root". A part that is repeated is read again for each time.
 *
 * Beyond it: %json {...} is a value of that JSON Schema, %token("...") a special token (vocab.h) or its text,
 * %without("...", ...) a text in which none of these is, %unlike("...", ...) one that does not begin with any of them.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/base/json.h"
#include "runtime/llm/grammar/chars.h"
#include "runtime/llm/grammar/compile.h"
#include "runtime/llm/grammar/vocab.h"
#include "runtime/llm/grammar/words.h"
#include "runtime/llm/text/text.h"

enum { GBNF_DEPTH = 64, GBNF_RULES = 1 << 16 };

typedef struct gbnf {
  tni_auto *a;
  const char *s;
  size_t n, i;
  tni_map *names; /* name -> rule << 1 | it is defined */
  unsigned depth;
  size_t rules;
  bool dry;
  tn_error *err;
  tn_status st;
} gbnf;

static bool refuse(gbnf *g, tn_status st, const char *why) {
  size_t line = 1, column = 1;
  for (size_t i = 0; i < g->i && i < g->n; i++, column++)
    if (g->s[i] == '\n') {
      line++;
      column = 0;
    }
  if (g->st == TN_OK) g->st = tni_fail(g->err, st, "grammar", "grammar: line %zu, column %zu: %s", line, column, why);
  return false;
}

static bool refuse_memory(gbnf *g) {
  if (g->st == TN_OK) g->st = tni_fail_memory(g->err, "grammar");
  return false;
}

static bool is_at(const gbnf *g, char c) { return g->i < g->n && g->s[g->i] == c; }

static bool is_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-' || c == '_';
}

/* Blanks and comments; the ends of lines inside of parentheses only, unless `lines`. */
static void skip_blanks(gbnf *g, bool lines) {
  while (g->i < g->n) {
    const char c = g->s[g->i];
    if (c == '#')
      while (g->i < g->n && g->s[g->i] != '\n') g->i++;
    else if (c == ' ' || c == '\t' || ((c == '\n' || c == '\r') && lines))
      g->i++;
    else
      break;
  }
}

static size_t name_end(const gbnf *g) {
  size_t e = g->i;
  while (e < g->n && is_name(g->s[e])) e++;
  return e;
}

/* A name that "::=" follows begins the next rule. */
static bool is_definition(gbnf *g) {
  const size_t was = g->i, e = name_end(g);
  if (e == was) return false;
  g->i = e;
  skip_blanks(g, true);
  const bool is = g->n - g->i >= 3 && memcmp(g->s + g->i, "::=", 3) == 0;
  g->i = was;
  return is;
}

static bool rule_named(gbnf *g, size_t end, bool define, uint32_t *rule) {
  uint64_t v = 0;
  const char *name = g->s + g->i;
  const size_t n = end - g->i;
  if (!tni_map_get(g->names, name, n, &v)) {
    if (++g->rules > GBNF_RULES) return refuse(g, TN_E_LIMIT, "too many rules");
    v = (uint64_t)tni_auto_rule(g->a) << 1;
  } else if (define && v & 1) {
    return refuse(g, TN_E_INVALID, "this rule is there already");
  }
  if (define) v |= 1;
  if (!tni_map_put(g->names, name, n, v)) {
    return refuse_memory(g);
  }
  *rule = (uint32_t)(v >> 1);
  g->i = end;
  return true;
}

static bool take_char(gbnf *g, uint32_t *cp) {
  static const char from[] = "nrt\\\"[]-^/'", to[] = "\n\r\t\\\"[]-^/'";
  size_t len = 1;
  if (g->i >= g->n) return refuse(g, TN_E_INVALID, "it ends inside of a literal");
  if (!is_at(g, '\\')) {
    *cp = tni_utf8_get(g->s + g->i, g->n - g->i, &len);
    g->i += len;
    return true;
  }
  g->i++;
  const char c = g->i < g->n ? g->s[g->i++] : 0, *named = c ? strchr(from, c) : NULL;
  if (named) {
    *cp = (uint32_t)(unsigned char)to[named - from];
    return true;
  }
  int digits = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
  if (!digits) return refuse(g, TN_E_INVALID, "an unknown escape");
  uint32_t v = 0;
  for (; digits; digits--) {
    const int d = g->i < g->n ? tni_hex_digit(g->s[g->i]) : -1;
    if (d < 0 || v > TNI_CHAR_LAST) return refuse(g, TN_E_INVALID, "not a character's number");
    v = v * 16 + (uint32_t)d;
    g->i++;
  }
  if (v > TNI_CHAR_LAST) return refuse(g, TN_E_INVALID, "not a character's number");
  *cp = v;
  return true;
}

static bool take_text(gbnf *g, uint32_t from, uint32_t to) {
  uint32_t cur = from, cp = 0;
  g->i++;
  while (!is_at(g, '"')) {
    char b[4];
    if (!take_char(g, &cp)) return false;
    const uint32_t next = g->dry ? 0 : tni_auto_state(g->a);
    if (!g->dry) tni_auto_text(g->a, cur, b, tni_utf8_put(cp, b), next);
    cur = next;
  }
  g->i++;
  if (!g->dry) tni_auto_free(g->a, cur, to);
  return true;
}

static bool take_set(gbnf *g, uint32_t from, uint32_t to) {
  tni_chars c = {0};
  bool ok = true;
  g->i++;
  const bool negated = is_at(g, '^');
  if (negated) g->i++;
  while (ok && !is_at(g, ']')) {
    uint32_t lo = 0, hi;
    ok = take_char(g, &lo);
    hi = lo;
    if (ok && is_at(g, '-') && g->i + 1 < g->n && g->s[g->i + 1] != ']') {
      g->i++;
      ok = take_char(g, &hi);
      if (ok && lo > hi) ok = refuse(g, TN_E_INVALID, "a range that ends before it begins");
    }
    if (ok) tni_chars_add(&c, lo, hi);
  }
  g->i++;
  tni_chars_sort(&c);
  if (negated) tni_chars_not(&c);
  if (ok && !g->dry) tni_chars_emit(g->a, from, &c, false, to);
  tni_chars_finish(&c);
  return ok;
}

/* --- what GBNF has not -------------------------------------------------------------------------------------------- */

/* The bytes of a schema at g->i; 0: it is none. */
static size_t schema_length(const gbnf *g) {
  json_error_t e = {.position = 0};
  json_t *j = tni_json_loadb(g->s + g->i, g->n - g->i, JSON_DISABLE_EOF_CHECK, &e);
  json_decref(j);
  return j ? (size_t)e.position : 0;
}

static bool take_schema(gbnf *g, uint32_t from, uint32_t to) {
  uint32_t rule = 0;
  skip_blanks(g, true);
  const size_t n = schema_length(g);
  if (!n) return refuse(g, TN_E_INVALID, "%json wants a schema, an object");
  if (!g->dry) {
    const tn_status st = tni_compile_schema(g->a, g->s + g->i, n, &rule, g->err);
    if (st != TN_OK) g->st = st;
    if (st != TN_OK) return false;
    tni_auto_call(g->a, from, rule, to);
  }
  g->i += n;
  return true;
}

/* A literal's characters, at whose first quote g->i is. */
static bool take_word(gbnf *g, tni_str *out) {
  uint32_t cp = 0;
  g->i++;
  while (!is_at(g, '"')) {
    char b[4];
    if (!take_char(g, &cp)) return false;
    tni_str_add(out, b, tni_utf8_put(cp, b));
  }
  g->i++;
  return true;
}

/* ("...", ...) */
static bool take_words(gbnf *g, tni_str *words, size_t most, size_t *n) {
  size_t bytes = 0;
  skip_blanks(g, true);
  if (!is_at(g, '(')) return refuse(g, TN_E_INVALID, "'(' is missing");
  do {
    g->i++;
    skip_blanks(g, true);
    if (!is_at(g, '"')) return refuse(g, TN_E_INVALID, "a literal is missing");
    if (*n == most) return refuse(g, TN_E_LIMIT, "too many literals");
    if (!take_word(g, &words[(*n)++])) return false;
    bytes += words[*n - 1].n;
    if (words[*n - 1].failed) return refuse_memory(g);
    if (!words[*n - 1].n) return refuse(g, TN_E_INVALID, "a literal is empty");
    if (bytes > TNI_WORDS_BYTES) return refuse(g, TN_E_LIMIT, "the literals are too long");
    skip_blanks(g, true);
  } while (is_at(g, ','));
  if (!is_at(g, ')')) return refuse(g, TN_E_INVALID, "')' is missing");
  g->i++;
  return true;
}

static void emit_token(gbnf *g, const tni_str *word, uint32_t from, uint32_t to) {
  const uint32_t mark = tni_auto_state(g->a);
  tni_auto_bytes(g->a, from, TNI_VOCAB_MARK, TNI_VOCAB_MARK, mark);
  tni_auto_text(g->a, mark, word->v, word->n, to);
  tni_auto_text(g->a, from, word->v, word->n, to);
}

static bool take_extra(gbnf *g, uint32_t from, uint32_t to) {
  static const char *const names[] = {"json", "token", "without", "unlike"};
  tni_str words[TNI_WORDS_MOST] = {0};
  size_t n = 0, kind = 0;
  g->i++;
  const size_t end = name_end(g), len = end - g->i;
  while (kind < 4 && (strlen(names[kind]) != len || memcmp(g->s + g->i, names[kind], len) != 0)) kind++;
  if (kind == 4) return refuse(g, TN_E_INVALID, "'%' is followed by json, token, without or unlike");
  g->i = end;
  if (kind == 0) return take_schema(g, from, to);
  bool ok = take_words(g, words, kind == 1 ? 1 : TNI_WORDS_MOST, &n);
  if (ok && !g->dry && kind == 1) emit_token(g, words, from, to);
  if (ok && !g->dry && kind > 1) ok = tni_words_emit(g->a, from, words, n, kind == 3, to) || refuse_memory(g);
  for (size_t i = 0; i < n; i++) tni_str_finish(&words[i]);
  return ok;
}

static bool take_choice(gbnf *g, uint32_t from, uint32_t to);

static bool take_part(gbnf *g, uint32_t from, uint32_t to) {
  if (is_at(g, '"')) return take_text(g, from, to);
  if (is_at(g, '[')) return take_set(g, from, to);
  if (is_at(g, '%')) return take_extra(g, from, to);
  if (is_at(g, '.')) {
    tni_chars all = {0};
    tni_chars_add(&all, 0, TNI_CHAR_LAST);
    if (!g->dry) tni_chars_emit(g->a, from, &all, false, to);
    tni_chars_finish(&all);
    g->i++;
    return true;
  }
  if (is_at(g, '(')) {
    g->i++;
    if (++g->depth > GBNF_DEPTH) return refuse(g, TN_E_LIMIT, "parentheses inside of parentheses");
    if (!take_choice(g, from, to)) return false;
    g->depth--;
    if (!is_at(g, ')')) return refuse(g, TN_E_INVALID, "')' is missing");
    g->i++;
    return true;
  }
  if (is_at(g, '<') || is_at(g, '!'))
    return refuse(g, TN_E_UNSUPPORTED, "tokens in angle brackets are not known; %token(\"...\") is a special token");
  const size_t e = name_end(g);
  uint32_t rule = 0;
  if (e == g->i) return refuse(g, TN_E_INVALID, "neither a literal, a set, a rule nor '('");
  if (g->dry) {
    g->i = e;
    return true;
  }
  if (!rule_named(g, e, false, &rule)) return false;
  tni_auto_call(g->a, from, rule, to);
  return true;
}

static bool take_times(gbnf *g, uint32_t *least, uint32_t *most) {
  *least = *most = 1;
  skip_blanks(g, g->depth > 0);
  if (is_at(g, '*') || is_at(g, '+') || is_at(g, '?')) {
    const char c = g->s[g->i++];
    *least = c == '+';
    *most = c == '?' ? 1 : UINT32_MAX;
  } else if (is_at(g, '{')) {
    g->i++;
    skip_blanks(g, true);
    const bool low = tni_times_read(g->s, g->n, &g->i, least);
    skip_blanks(g, true);
    const bool comma = is_at(g, ',');
    if (comma) g->i++;
    skip_blanks(g, true);
    const bool high = comma && tni_times_read(g->s, g->n, &g->i, most);
    skip_blanks(g, true);
    if ((!low && !high) || !is_at(g, '}')) return refuse(g, TN_E_INVALID, "not a number of times");
    g->i++;
    if (!comma) *most = *least;
    if (comma && !high) *most = UINT32_MAX;
    if (*most < *least || *least > TNI_TIMES_MOST || (*most > TNI_TIMES_MOST && *most != UINT32_MAX))
      return refuse(g, TN_E_INVALID, "a number of times that falls, or is above 100000");
  }
  return true;
}

static bool again(gbnf *g, size_t at, uint32_t from, uint32_t to) {
  g->i = at;
  return g->a->failed == TN_OK && take_part(g, from, to);
}

static bool take_repeated(gbnf *g, uint32_t from, uint32_t to) {
  const size_t at = g->i;
  const bool was_dry = g->dry;
  uint32_t least, most, cur = from;
  g->dry = true;
  if (!take_part(g, 0, 0)) return false;
  g->dry = was_dry;
  if (!take_times(g, &least, &most)) return false;
  const size_t end = g->i;
  bool ok = true;
  if (g->dry) return true;
  for (uint32_t k = 0; ok && k < least; k++) {
    const uint32_t next = tni_auto_state(g->a);
    ok = again(g, at, cur, next);
    cur = next;
  }
  for (uint32_t k = least; ok && most != UINT32_MAX && k < most; k++) {
    const uint32_t next = tni_auto_state(g->a);
    tni_auto_free(g->a, cur, to);
    ok = again(g, at, cur, next);
    cur = next;
  }
  if (ok && most == UINT32_MAX) {
    const uint32_t loop = tni_auto_state(g->a), back = tni_auto_state(g->a);
    tni_auto_free(g->a, cur, loop);
    ok = again(g, at, loop, back);
    tni_auto_free(g->a, back, loop);
    cur = loop;
  }
  tni_auto_free(g->a, cur, to);
  g->i = end;
  return ok || g->a->failed != TN_OK;
}

static bool take_row(gbnf *g, uint32_t from, uint32_t to) {
  uint32_t cur = from;
  for (;;) {
    /* A row ends with its line, unless the next line goes on with it: a rule's name with "::=" does not. */
    skip_blanks(g, true);
    if (g->i == g->n || is_at(g, '|') || is_at(g, ')') || (g->depth == 0 && is_definition(g))) break;
    const uint32_t next = g->dry ? 0 : tni_auto_state(g->a);
    if (!take_repeated(g, cur, next)) return false;
    cur = next;
  }
  if (!g->dry) tni_auto_free(g->a, cur, to);
  return true;
}

static bool take_choice(gbnf *g, uint32_t from, uint32_t to) {
  for (;;) {
    if (!take_row(g, from, to)) return false;
    if (!is_at(g, '|')) return true;
    g->i++;
  }
}

static bool take_rule(gbnf *g) {
  uint32_t rule = 0;
  if (!is_definition(g)) return refuse(g, TN_E_INVALID, "no rule (name ::= ...)");
  if (!rule_named(g, name_end(g), true, &rule)) return false;
  skip_blanks(g, true);
  g->i += 3;
  if (g->a->failed != TN_OK) return true;
  if (!take_choice(g, g->a->rules[rule].begin, g->a->rules[rule].end)) return false;
  return !is_at(g, ')') || refuse(g, TN_E_INVALID, "')' without '('");
}

/* Every rule that is asked for must be there. */
static bool check_names(gbnf *g) {
  uint64_t v = 0;
  for (g->i = 0; g->i < g->n;) {
    const char c = g->s[g->i];
    if (c == '"' || c == '[') { /* literals hold no names */
      const char end = c == '"' ? '"' : ']';
      for (g->i++; g->i < g->n && g->s[g->i] != end; g->i++) g->i += g->s[g->i] == '\\';
      g->i++;
    } else if (c == '{') {
      while (g->i < g->n && g->s[g->i] != '}') g->i++;
    } else if (is_name(c)) {
      const size_t e = name_end(g);
      if (!tni_map_get(g->names, g->s + g->i, e - g->i, &v) || !(v & 1))
        return refuse(g, TN_E_INVALID, "this rule is nowhere defined");
      g->i = e;
    } else if (c == '%') { /* a schema holds no names either */
      const bool schema = g->n - g->i > 5 && memcmp(g->s + g->i, "%json", 5) == 0;
      g->i++;
      g->i = name_end(g);
      if (schema) skip_blanks(g, true);
      if (schema) g->i += schema_length(g);
    } else if (c == '#') {
      skip_blanks(g, true);
    } else {
      g->i++;
    }
  }
  return true;
}

tn_status tni_compile_gbnf(tni_auto *a, const char *text, size_t n, uint32_t *rule, tn_error *err) {
  gbnf g = {.a = a, .s = text, .n = n, .names = tni_map_create(), .err = err};
  uint64_t root = 0;
  if (!g.names) return tni_fail_memory(err, "grammar");
  bool ok = true;
  skip_blanks(&g, true);
  while (ok && g.i < g.n && a->failed == TN_OK) {
    ok = take_rule(&g);
    skip_blanks(&g, true);
  }
  if (ok && a->failed == TN_OK) ok = check_names(&g);
  if (ok && a->failed == TN_OK && !tni_map_get(g.names, "root", 4, &root))
    g.st = tni_fail(err, TN_E_INVALID, "grammar", "grammar: there is no rule 'root'");
  *rule = (uint32_t)(root >> 1);
  tni_map_destroy(g.names);
  return g.st;
}
