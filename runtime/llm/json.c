/* SPDX-License-Identifier: Apache-2.0
 *
 * Values of open containers wait on a stack; a container that ends takes its own from there into the arena, in one
 * piece. Texts lie one behind the other in a buffer of the file's size, which is enough: decoded, with its end, each is
 * shorter than it stands in the file.
 */
#include "runtime/llm/json.h"

#include <errno.h>
#include <jansson.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/arena.h"
#include "runtime/base/checked.h"
#include "runtime/base/file.h"
#include "runtime/base/map.h"
#include "runtime/llm/unicode.h"

enum { DEPTH = 2048, FEW = 8 }; /* DEPTH: jansson's */

struct tni_json_tree {
  tni_json root;
  char *texts;
  tni_arena *arena;
};

typedef struct parser {
  const char *p, *end;
  tni_json_tree *tree;
  char *text; /* where the next one goes */
  tni_json *stack;
  size_t n, cap;
  locale_t c; /* numbers have points, whatever the locale */
  bool no_memory;
} parser;

static bool out_of_memory(parser *x) {
  x->no_memory = true;
  return false;
}

static void skip_space(parser *x) {
  while (x->p < x->end && (*x->p == ' ' || *x->p == '\n' || *x->p == '\t' || *x->p == '\r')) x->p++;
}

static bool take(parser *x, char c) {
  if (x->p == x->end || *x->p != c) return false;
  x->p++;
  return true;
}

static bool push(parser *x, tni_json v) {
  if (x->n == x->cap) {
    size_t cap = x->cap ? x->cap : 256, bytes;
    if (!tni_mul_size(cap, 2, &cap) || !tni_mul_size(cap, sizeof *x->stack, &bytes)) return out_of_memory(x);
    tni_json *more = realloc(x->stack, bytes);
    if (!more) return out_of_memory(x);
    x->stack = more;
    x->cap = cap;
  }
  x->stack[x->n++] = v;
  return true;
}

/* --- texts -------------------------------------------------------------------------------------------------------- */

static bool hex4(parser *x, uint32_t *out) {
  uint32_t v = 0;
  if (x->end - x->p < 4) return false;
  for (int i = 0; i < 4; i++) {
    const char c = *x->p++, low = c | 0x20;
    if (c >= '0' && c <= '9')
      v = v << 4 | (uint32_t)(c - '0');
    else if (low >= 'a' && low <= 'f')
      v = v << 4 | (uint32_t)(low - 'a' + 10);
    else
      return false;
  }
  *out = v;
  return true;
}

/* What follows a backslash, at *to. */
static bool escape(parser *x, char **to) {
  static const char from[] = "\"\\/bfnrt", as[] = "\"\\/\b\f\n\r\t";
  uint32_t cp, low;
  if (x->p == x->end) return false;
  const char c = *x->p++;
  const char *simple = c ? strchr(from, c) : NULL;
  if (simple) {
    *(*to)++ = as[simple - from];
    return true;
  }
  if (c != 'u' || !hex4(x, &cp)) return false;
  if (cp >= 0xd800 && cp < 0xdc00) {
    if (!take(x, '\\') || !take(x, 'u') || !hex4(x, &low) || low < 0xdc00 || low > 0xdfff) return false;
    cp = 0x10000 + ((cp - 0xd800) << 10) + (low - 0xdc00);
  } else if (cp >= 0xdc00 && cp < 0xe000) {
    return false;
  }
  *to += tni_utf8_put(cp, *to);
  return true;
}

static bool read_string(parser *x, tni_json *out) {
  char *to = x->text;
  unsigned char high = 0;
  if (!take(x, '"')) return false;
  for (;;) {
    if (x->p == x->end) return false;
    const char c = *x->p++;
    if (c == '"') break;
    if ((unsigned char)c < 0x20) return false;
    high |= (unsigned char)c;
    if (c != '\\')
      *to++ = c;
    else if (!escape(x, &to))
      return false;
  }
  const size_t n = (size_t)(to - x->text);
  if (n > UINT32_MAX || (high >= 0x80 && tni_utf8_valid(x->text, n) < n)) return false;
  *out = (tni_json){.kind = TNI_JSON_STRING, .n = (uint32_t)n, .s = x->text};
  *to = 0;
  x->text = to + 1;
  return true;
}

/* --- numbers ------------------------------------------------------------------------------------------------------ */

static bool skip_digits(parser *x) {
  const char *from = x->p;
  while (x->p < x->end && *x->p >= '0' && *x->p <= '9') x->p++;
  return x->p > from;
}

/* The number's text is terminated behind the texts that stay, for as long as it is read. */
static bool convert(parser *x, const char *from, bool whole, tni_json *out) {
  const size_t n = (size_t)(x->p - from);
  memcpy(x->text, from, n);
  x->text[n] = 0;
  errno = 0;
  if (whole) *out = (tni_json){.kind = TNI_JSON_INT, .i = strtoll(x->text, NULL, 10)};
  if (whole && errno == 0) return true;
  if (!x->c && !(x->c = newlocale(LC_ALL_MASK, "C", (locale_t)0))) return out_of_memory(x);
  *out = (tni_json){.kind = TNI_JSON_REAL, .real = strtod_l(x->text, NULL, x->c)};
  return isfinite(out->real);
}

static bool read_number(parser *x, tni_json *out) {
  const char *from = x->p;
  bool whole = true;
  (void)take(x, '-');
  if (!take(x, '0') && !skip_digits(x)) return false;
  if (take(x, '.')) {
    whole = false;
    if (!skip_digits(x)) return false;
  }
  if (take(x, 'e') || take(x, 'E')) {
    whole = false;
    if (!take(x, '+')) (void)take(x, '-');
    if (!skip_digits(x)) return false;
  }
  const size_t n = (size_t)(x->p - from);
  if (!whole || n > 18 || *from == '-') return convert(x, from, whole, out);
  int64_t v = 0;
  for (size_t i = 0; i < n; i++) v = v * 10 + (from[i] - '0');
  *out = (tni_json){.kind = TNI_JSON_INT, .i = v};
  return true;
}

/* --- containers --------------------------------------------------------------------------------------------------- */

static bool read_value(parser *x, unsigned depth, tni_json *out);

/* Takes what the stack has from `first` on. */
static bool close_container(parser *x, size_t first, tni_json_kind kind, tni_json *out) {
  const size_t n = x->n - first, members = kind == TNI_JSON_OBJECT ? n / 2 : n;
  if (members > UINT32_MAX) return false;
  const tni_json *v = n ? tni_arena_memdup(x->tree->arena, x->stack + first, n * sizeof *v, _Alignof(tni_json)) : NULL;
  if (n && !v) return out_of_memory(x);
  *out = (tni_json){.kind = kind, .n = (uint32_t)members, .v = v};
  x->n = first;
  return true;
}

static bool same(const tni_json *a, const tni_json *b) { return a->n == b->n && memcmp(a->s, b->s, a->n) == 0; }

static bool few_differ(const tni_json *o) {
  for (uint32_t i = 1; i < o->n; i++)
    for (uint32_t k = 0; k < i; k++)
      if (same(&o->v[2 * i], &o->v[2 * k])) return false;
  return true;
}

static bool keys_differ(parser *x, const tni_json *o) {
  if (o->n <= FEW) return few_differ(o);
  tni_map *seen = tni_map_create();
  bool ok = seen && tni_map_reserve(seen, o->n);
  for (uint32_t i = 0; ok && i < o->n; i++) ok = tni_map_put(seen, o->v[2 * i].s, o->v[2 * i].n, 0);
  const bool differ = ok && tni_map_count(seen) == o->n;
  tni_map_destroy(seen);
  return ok ? differ : out_of_memory(x);
}

static bool read_array(parser *x, unsigned depth, tni_json *out) {
  const size_t first = x->n;
  tni_json v;
  skip_space(x);
  if (!take(x, ']')) {
    do {
      if (!read_value(x, depth + 1, &v) || !push(x, v)) return false;
      skip_space(x);
    } while (take(x, ','));
    if (!take(x, ']')) return false;
  }
  return close_container(x, first, TNI_JSON_ARRAY, out);
}

static bool read_object(parser *x, unsigned depth, tni_json *out) {
  const size_t first = x->n;
  tni_json v;
  skip_space(x);
  if (!take(x, '}')) {
    do {
      skip_space(x);
      if (!read_string(x, &v) || memchr(v.s, 0, v.n) || !push(x, v)) return false;
      skip_space(x);
      if (!take(x, ':') || !read_value(x, depth + 1, &v) || !push(x, v)) return false;
      skip_space(x);
    } while (take(x, ','));
    if (!take(x, '}')) return false;
  }
  return close_container(x, first, TNI_JSON_OBJECT, out) && keys_differ(x, out);
}

static bool read_word(parser *x, const char *word, tni_json_kind kind, tni_json *out) {
  const size_t n = strlen(word);
  if ((size_t)(x->end - x->p) < n || memcmp(x->p, word, n) != 0) return false;
  x->p += n;
  *out = (tni_json){.kind = kind};
  return true;
}

static bool read_value(parser *x, unsigned depth, tni_json *out) {
  skip_space(x);
  if (x->p == x->end || depth > DEPTH) return false;
  switch (*x->p) {
    case '{':
      x->p++;
      return read_object(x, depth, out);
    case '[':
      x->p++;
      return read_array(x, depth, out);
    case '"':
      return read_string(x, out);
    case 't':
      return read_word(x, "true", TNI_JSON_TRUE, out);
    case 'f':
      return read_word(x, "false", TNI_JSON_FALSE, out);
    case 'n':
      return read_word(x, "null", TNI_JSON_NULL, out);
    default:
      return read_number(x, out);
  }
}

static bool read_root(parser *x) {
  tni_json *root = &x->tree->root;
  if (!read_value(x, 1, root) || (root->kind != TNI_JSON_OBJECT && root->kind != TNI_JSON_ARRAY)) return false;
  skip_space(x);
  return x->p == x->end;
}

/* --- trees -------------------------------------------------------------------------------------------------------- */

/* Where and why: jansson's words for it. */
static tn_status refused(const char *text, size_t n, const char *file, tn_error *err) {
  const size_t flags = JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES;
  json_error_t je;
  json_t *v = json_loadb(text, n, flags, &je);
  if (!v && json_error_code(&je) == json_error_numeric_overflow)
    v = json_loadb(text, n, flags | JSON_DECODE_INT_AS_REAL, &je);
  if (v) { /* it passes over this alone */
    json_decref(v);
    return tni_fail(err, TN_E_INVALID, file, "not valid JSON: NUL behind a number");
  }
  if (json_error_code(&je) == json_error_out_of_memory) return tni_fail_memory(err, file);
  return tni_fail(err, TN_E_INVALID, file, "not valid JSON: line %d column %d: %s", je.line, je.column, je.text);
}

static tni_json_tree *create(size_t n) {
  tni_json_tree *t = calloc(1, sizeof *t);
  if (!t) return NULL;
  t->arena = tni_arena_create();
  t->texts = malloc(n + 1);
  if (t->arena && t->texts) return t;
  tni_json_destroy(t);
  return NULL;
}

tn_status tni_json_parse(const char *text, size_t n, const char *file, tni_json_tree **out, tn_error *err) {
  if (!text) text = "";
  tni_json_tree *t = n < SIZE_MAX ? create(n) : NULL;
  if (!t) return tni_fail_memory(err, file);
  parser x = {.p = text, .end = text + n, .tree = t, .text = t->texts};
  const bool ok = read_root(&x);
  free(x.stack);
  if (x.c) freelocale(x.c);
  if (!ok) {
    tni_json_destroy(t);
    return x.no_memory ? tni_fail_memory(err, file) : refused(text, n, file, err);
  }
  *out = t;
  return TN_OK;
}

tn_status tni_json_load(const char *path, tni_json_tree **out, tn_error *err) {
  tni_file f;
  tn_status st = tni_file_map(path, &f, err);
  if (st != TN_OK) return st;
  st = tni_json_parse(f.data, f.bytes, path, out, err);
  tni_file_unmap(&f);
  return st;
}

const tni_json *tni_json_root(const tni_json_tree *t) { return t ? &t->root : NULL; }

void tni_json_destroy(tni_json_tree *t) {
  if (!t) return;
  tni_arena_destroy(t->arena);
  free(t->texts);
  free(t);
}

const tni_json *tni_json_get(const tni_json *v, const char *key) {
  const size_t n = strlen(key);
  for (uint32_t i = 0; tni_json_is(v, TNI_JSON_OBJECT) && i < v->n; i++)
    if (v->v[2 * i].n == n && memcmp(v->v[2 * i].s, key, n) == 0) return &v->v[2 * i + 1];
  return NULL;
}

const tni_json *tni_json_item(const tni_json *v, size_t i) {
  return tni_json_is(v, TNI_JSON_ARRAY) && i < v->n ? &v->v[i] : NULL;
}

int64_t tni_json_int(const tni_json *v) { return tni_json_is(v, TNI_JSON_INT) ? v->i : 0; }

double tni_json_real(const tni_json *v) { return tni_json_is(v, TNI_JSON_REAL) ? v->real : (double)tni_json_int(v); }
