/* SPDX-License-Identifier: Apache-2.0
 *
 * A template to tokens, as jinja2's lexer with trim_blocks and lstrip_blocks does it: white space around tags goes
 * here.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/llm/jinja/tree.h"
#include "runtime/llm/text/text.h"

typedef struct lexer {
  tni_jj_run *x;
  const char *s;
  size_t n, i;
  uint32_t line;
  bool line_starts; /* what was read before ended with the end of a line */
  tni_jj_tokens *out;
  tni_jj_token nothing; /* what is written to once it has failed */
} lexer;

static tni_jj_token *add(lexer *l, tni_jj_token_kind kind, size_t from, size_t to) {
  tni_jj_tokens *t = l->out;
  if (t->n == t->cap) {
    const size_t cap = t->cap ? t->cap * 2 : 256;
    tni_jj_token *v = tni_jj_alloc(l->x, cap, sizeof *v);
    if (!v) return &l->nothing;
    if (t->n) memcpy(v, t->v, t->n * sizeof *v);
    t->v = v;
    t->cap = cap;
  }
  t->v[t->n] = (tni_jj_token){.kind = kind, .line = l->line, .text = {l->s + from, NULL, to - from}};
  return &t->v[t->n++];
}

static void go_to(lexer *l, size_t to) {
  for (; l->i < to; l->i++) l->line += l->s[l->i] == '\n';
  l->line_starts = to > 0 && l->s[to - 1] == '\n';
  l->x->line = l->line;
}

static bool at(const lexer *l, size_t i, const char *what) {
  const size_t n = strlen(what);
  return n <= l->n - i && memcmp(l->s + i, what, n) == 0;
}

static size_t after_space(const lexer *l, size_t i) { return i + tni_jj_space_before(l->s + i, l->n - i); }

/* What is left of data in front of a tag. */
static size_t data_end(const lexer *l, size_t from, size_t to, char sign, bool strips) {
  if (sign == '-') return to - tni_jj_space_after(l->s + from, to - from);
  if (sign == '+' || !strips) return to;
  size_t begin = to;
  while (begin > from && l->s[begin - 1] != '\n') begin--;
  const bool alone =
      (begin > from || l->line_starts) && begin < to && tni_jj_space_before(l->s + begin, to - begin) == to - begin;
  return alone ? begin : to;
}

/* The end of a block's tag or comment at i: past what is trimmed. 0: there is none. */
static size_t block_end(const lexer *l, size_t i, const char *end) {
  const bool minus = i < l->n && l->s[i] == '-', sign = minus || (i < l->n && l->s[i] == '+');
  const size_t e = i + sign;
  if (e > l->n || !at(l, e, end)) return 0;
  if (minus) return after_space(l, e + 2);
  return e + 2 < l->n && l->s[e + 2] == '\n' && !sign ? e + 3 : e + 2;
}

static char sign_at(const lexer *l, size_t i) { return i < l->n && (l->s[i] == '-' || l->s[i] == '+') ? l->s[i] : 0; }

/* At "{%": past "{% raw %}", or 0. */
static size_t raw_begin(const lexer *l, size_t i) {
  i += 2;
  i += sign_at(l, i) != 0;
  i = after_space(l, i);
  if (!at(l, i, "raw")) return 0;
  i = after_space(l, i + 3);
  if (at(l, i, "-%}")) return after_space(l, i + 3);
  return at(l, i, "%}") ? i + 2 : 0;
}

static void lex_raw(lexer *l) {
  for (size_t i = l->i; i + 1 < l->n; i++) {
    if (!at(l, i, "{%")) continue;
    const char sign = sign_at(l, i + 2);
    const size_t word = after_space(l, i + 2 + (sign != 0));
    const size_t end = at(l, word, "endraw") ? block_end(l, after_space(l, word + 6), "%}") : 0;
    if (!end) continue;
    const size_t to = data_end(l, l->i, i, sign, true);
    if (to > l->i) add(l, T_DATA, l->i, to);
    go_to(l, end);
    return;
  }
  tni_jj_fail(l->x, "'endraw' is missing");
}

static void lex_comment(lexer *l) {
  size_t i = l->i + 2;
  i += sign_at(l, i) != 0;
  for (; i + 1 < l->n; i++) {
    const size_t end = block_end(l, i, "#}");
    if (!end) continue;
    go_to(l, end);
    return;
  }
  tni_jj_fail(l->x, "a comment has no end");
}

/* --- inside of tags --- */

static bool is_word(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
         (unsigned char)c >= 128;
}
static bool is_digit(char c) { return c >= '0' && c <= '9'; }

/* Digits of a code of at most `most`, in base 8 or 16. */
static size_t code_at(const lexer *l, size_t i, size_t end, int base, size_t most, uint32_t *v) {
  size_t n = 0;
  for (*v = 0; n < most && i + n < end; n++) {
    const char c = l->s[i + n];
    const int d = is_digit(c)            ? c - '0'
                  : c >= 'a' && c <= 'f' ? c - 'a' + 10
                  : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                         : 99;
    if (d >= base) break;
    *v = *v * (uint32_t)base + (uint32_t)d;
  }
  return n;
}

/* The escape after a backslash at i: Python's. Past it. */
static size_t escape(lexer *l, size_t i, size_t end, tni_jj_buf *b) {
  static const char from[] = "abfnrtv\\'\"", to[] = "\a\b\f\n\r\t\v\\'\"";
  const char c = l->s[i];
  const char *plain = strchr(from, c);
  uint32_t cp;
  if (c == '\n') return i + 1;
  if (plain && c) {
    tni_jj_put_as(l->x, b, &to[plain - from], 1, true);
    return i + 1;
  }
  const size_t want = c == 'x' ? 2 : c == 'u' ? 4 : c == 'U' ? 8 : 0;
  if (want) {
    if (code_at(l, i + 1, end, 16, want, &cp) != want || cp > 0x10ffff || (cp >= 0xd800 && cp < 0xe000))
      tni_jj_fail(l->x, "a string has a \\%c that is no character", c);
    else
      tni_jj_put_cp(l->x, b, cp, true);
    return i + 1 + want;
  }
  const size_t octal = code_at(l, i, end, 8, 3, &cp);
  if (octal) {
    tni_jj_put_cp(l->x, b, cp, true);
    return i + octal;
  }
  if (c == 'N') tni_jj_fail(l->x, "a string has \\N{...}, which is not known here");
  tni_jj_put_as(l->x, b, "\\", 1, true);
  return i;
}

static void lex_string(lexer *l) {
  const char quote = l->s[l->i];
  const size_t from = l->i + 1;
  size_t end = from;
  bool escapes = false;
  for (; end < l->n && l->s[end] != quote; end++)
    if (l->s[end] == '\\') {
      escapes = true;
      end++;
    }
  if (end >= l->n) {
    tni_jj_fail(l->x, "a string has no end");
    return;
  }
  tni_jj_token *t = add(l, T_STRING, from, end);
  if (escapes) {
    tni_jj_buf b = {0};
    for (size_t i = from; i < end && !tni_jj_failed(l->x);) {
      if (l->s[i] == '\\')
        i = escape(l, i + 1, end, &b);
      else
        tni_jj_put_as(l->x, &b, l->s + i++, 1, true);
    }
    t->text = (tni_jj_str){b.n ? b.v : "", NULL, b.n};
  }
  go_to(l, end + 1);
}

/* Digits with single underscores between them. */
static size_t digits_end(const lexer *l, size_t i) {
  while (i < l->n && (is_digit(l->s[i]) || (l->s[i] == '_' && i + 1 < l->n && is_digit(l->s[i + 1])))) i++;
  return i;
}

static void lex_number(lexer *l) {
  size_t end = digits_end(l, l->i);
  bool real = false;
  char copy[64];
  size_t n = 0;
  if (end + 1 < l->n && l->s[end] == '.' && is_digit(l->s[end + 1])) {
    end = digits_end(l, end + 1);
    real = true;
  }
  if (end < l->n && (l->s[end] == 'e' || l->s[end] == 'E')) {
    const size_t e = end + 1 + (end + 1 < l->n && (l->s[end + 1] == '+' || l->s[end + 1] == '-'));
    if (e < l->n && is_digit(l->s[e])) {
      end = digits_end(l, e);
      real = true;
    }
  }
  for (size_t i = l->i; i < end; i++)
    if (l->s[i] != '_' && n + 1 < sizeof copy) copy[n++] = l->s[i];
  copy[n] = 0;
  tni_jj_token *t = add(l, real ? T_FLOAT : T_INT, l->i, end);
  t->f = strtod(copy, NULL);
  if (!real && (n > 18 || (end < l->n && is_word(l->s[end])) || (copy[0] == '0' && n > 1)))
    tni_jj_fail(l->x, "'%s' is no number that is known here", copy);
  else if (!real)
    t->i = strtoll(copy, NULL, 10);
  go_to(l, end);
}

static void lex_operator(lexer *l) {
  static const char *const two[] = {"//", "**", "==", "!=", ">=", "<="};
  for (size_t k = 0; k < sizeof two / sizeof *two; k++)
    if (at(l, l->i, two[k])) {
      add(l, T_OP, l->i, l->i + 2);
      go_to(l, l->i + 2);
      return;
    }
  if (!strchr("+-/*%~[](){}<>=.:|,;", l->s[l->i]) || !l->s[l->i]) {
    tni_jj_fail(l->x, "unexpected character '%.*s'", (int)tni_utf8_len(l->s[l->i]), l->s + l->i);
    return;
  }
  add(l, T_OP, l->i, l->i + 1);
  go_to(l, l->i + 1);
}

/* Brackets that are open: an end of the tag does not count inside. False: wrong. */
static bool balance(lexer *l, char *open, size_t *n) {
  const char c = l->s[l->i];
  const char *closes = strchr(")]}", c);
  if (c && strchr("([{", c)) {
    if (*n == TNI_JJ_DEPTH) return tni_jj_limit(l->x, "brackets are nested too deep"), false;
    open[(*n)++] = c == '(' ? ')' : c == '[' ? ']' : '}';
  } else if (c && closes) {
    if (!*n || open[--*n] != c) return tni_jj_fail(l->x, "unexpected '%c'", c), false;
  }
  return true;
}

static void lex_tag(lexer *l, bool block) {
  char open[TNI_JJ_DEPTH];
  size_t n_open = 0;
  while (!tni_jj_failed(l->x)) {
    const size_t space = after_space(l, l->i);
    size_t end = 0;
    if (!n_open && block) end = block_end(l, l->i, "%}");
    if (!n_open && !block) end = at(l, l->i, "}}") ? l->i + 2 : at(l, l->i, "-}}") ? after_space(l, l->i + 3) : 0;
    if (end) {
      add(l, block ? T_BLOCK_END : T_VAR_END, l->i, l->i);
      go_to(l, end);
      return;
    }
    if (l->i >= l->n) {
      tni_jj_fail(l->x, "a tag has no end");
    } else if (space > l->i) {
      go_to(l, space);
    } else if (is_digit(l->s[l->i])) {
      lex_number(l);
    } else if (is_word(l->s[l->i])) {
      size_t to = l->i;
      while (to < l->n && is_word(l->s[to])) to++;
      add(l, T_NAME, l->i, to);
      go_to(l, to);
    } else if (l->s[l->i] == '\'' || l->s[l->i] == '"') {
      lex_string(l);
    } else if (balance(l, open, &n_open)) {
      lex_operator(l);
    }
  }
}

/* Data up to the next tag, and the tag. */
static void lex_data(lexer *l) {
  size_t i = l->i;
  while (i < l->n && !at(l, i, "{%") && !at(l, i, "{{") && !at(l, i, "{#")) i++;
  if (i >= l->n) {
    add(l, T_DATA, l->i, l->n);
    go_to(l, l->n);
    return;
  }
  const char sign = sign_at(l, i + 2), kind = l->s[i + 1];
  const size_t to = data_end(l, l->i, i, sign, kind != '{');
  if (to > l->i) add(l, T_DATA, l->i, to);
  const size_t raw = kind == '%' ? raw_begin(l, i) : 0;
  go_to(l, i);
  if (raw) {
    go_to(l, raw);
    l->line_starts = false;
    lex_raw(l);
  } else if (kind == '#') {
    lex_comment(l);
  } else {
    go_to(l, i + 2 + (sign != 0));
    add(l, kind == '%' ? T_BLOCK_BEGIN : T_VAR_BEGIN, i, l->i);
    lex_tag(l, kind == '%');
  }
}

void tni_jj_lex(tni_jj_run *x, const char *s, size_t n, tni_jj_tokens *out) {
  lexer l = {.x = x, .s = s, .n = n, .line = 1, .line_starts = true, .out = out};
  x->line = 1;
  while (l.i < n && !tni_jj_failed(x)) lex_data(&l);
  add(&l, T_EOF, n, n);
}
