/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/llm/tokenizer/pattern.h"

#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "runtime/llm/text/text.h"

enum { MATCH_LIMIT = 10000000, HEAP_LIMIT_KIB = 65536, MAX_PATTERN_BYTES = 65536 };

void tni_match_memory_finish(tni_match_memory *m) {
  pcre2_match_data_free(m->data);
  pcre2_match_context_free(m->context);
  *m = (tni_match_memory){0};
}

static bool make_match_ready(tni_match_memory *m) {
  if (!m->context && (m->context = pcre2_match_context_create(NULL))) {
    pcre2_set_match_limit(m->context, MATCH_LIMIT);
    pcre2_set_heap_limit(m->context, HEAP_LIMIT_KIB);
  }
  if (!m->data) m->data = pcre2_match_data_create(1, NULL);
  return m->context && m->data;
}

tn_status tni_pattern_literal(const char *s, size_t n, tni_arena *arena, tni_pattern *out, tn_error *err) {
  char *v = tni_arena_strndup(arena, "", 0);
  if (n) v = tni_arena_memdup(arena, s, n, 1);
  if (!v) return tni_fail_memory(err, "pattern");
  *out = (tni_pattern){{v, n}, NULL};
  return TN_OK;
}

static tn_status compile_pattern(const tni_at *a, const tni_str *re, tni_pattern *out, tn_error *err) {
  pcre2_compile_context *cc = pcre2_compile_context_create(NULL);
  if (!cc) return tni_fail_memory(err, a->file);
  pcre2_set_newline(cc, PCRE2_NEWLINE_LF);
  int code;
  size_t at;
  uint32_t options = PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NEVER_BACKSLASH_C;
  pcre2_code *c = pcre2_compile((PCRE2_SPTR)(re->v ? re->v : ""), re->n, options, &code, &at, cc);
  pcre2_compile_context_free(cc);
  if (!c && code == PCRE2_ERROR_HEAP_FAILED) return tni_fail_memory(err, a->file);
  if (!c) {
    PCRE2_UCHAR text[128];
    pcre2_get_error_message(code, text, sizeof text);
    return tni_at_fail(a, TN_E_UNSUPPORTED, err, "regex: %s", (const char *)text);
  }
  (void)pcre2_jit_compile(c, PCRE2_JIT_COMPLETE); /* without JIT pcre2_match interprets */
  *out = (tni_pattern){{NULL, 0}, c};
  return TN_OK;
}

tn_status tni_pattern_regex(const tni_at *a, const char *s, size_t n, tni_pattern *out, tn_error *err) {
  if (n > MAX_PATTERN_BYTES) return tni_at_fail(a, TN_E_LIMIT, err, "regex of %zu bytes", n);
  tni_str re = {0};
  const char *why = NULL;
  size_t column;
  tn_status st;
  if (tni_regex_translate(s, n, &re, &why, &column))
    st = compile_pattern(a, &re, out, err);
  else if (re.failed)
    st = tni_fail_memory(err, a->file);
  else
    st = tni_at_fail(a, TN_E_UNSUPPORTED, err, "regex, column %zu: %s", column, why);
  tni_str_finish(&re);
  return st;
}

tn_status tni_pattern_parse(const tni_at *a, tni_arena *arena, tni_pattern *out, tn_error *err) {
  tn_status st = tni_at_object(a, err);
  if (st != TN_OK) return st;
  tni_at s = tni_at_key(a, "String"), r = tni_at_key(a, "Regex");
  if (!s.v && !r.v) return tni_at_fail(a, TN_E_UNSUPPORTED, err, "pattern is neither String nor Regex");
  tni_view v;
  st = tni_at_string(s.v ? &s : &r, &v, err);
  if (st != TN_OK) return st;
  return s.v ? tni_pattern_literal(v.v, v.n, arena, out, err) : tni_pattern_regex(&r, v.v, v.n, out, err);
}

void tni_pattern_finish(tni_pattern *p) {
  pcre2_code_free(p->re);
  *p = (tni_pattern){0};
}

tni_matches tni_matches_begin(const tni_pattern *p, tni_match_memory *mem, const char *s, size_t n) {
  return (tni_matches){p, mem, n ? s : "", n, n ? 0 : 1, SIZE_MAX};
}

/* Short strings byte by byte: they are found often, and memmem's preparation costs more than the search. */
static const char *find_literal(const char *s, size_t n, tni_view v) {
  if (v.n == 0 || v.n > 16) return memmem(s, n, v.v, v.n);
  for (const char *end = s + n; n >= v.n && (s = memchr(s, v.v[0], n - v.n + 1)); s++, n = (size_t)(end - s))
    if (memcmp(s, v.v, v.n) == 0) return s;
  return NULL;
}

/* First match at or after m->at. */
static tn_status search_pattern(tni_matches *m, bool *found, size_t *b, size_t *e, tn_error *err) {
  if (!m->p->re) {
    const char *at = find_literal(m->s + m->at, m->n - m->at, m->p->lit);
    *found = at != NULL;
    if (at) *e = (*b = (size_t)(at - m->s)) + m->p->lit.n;
    return TN_OK;
  }
  if (!make_match_ready(m->mem)) return tni_fail_memory(err, "regex");
  int rc = pcre2_match(m->p->re, (PCRE2_SPTR)m->s, m->n, m->at, PCRE2_NO_UTF_CHECK, m->mem->data, m->mem->context);
  if (rc == PCRE2_ERROR_JIT_STACKLIMIT)
    rc = pcre2_match(m->p->re, (PCRE2_SPTR)m->s, m->n, m->at, PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, m->mem->data,
                     m->mem->context);
  *found = rc >= 0;
  if (rc == PCRE2_ERROR_NOMATCH) return TN_OK;
  if (rc == PCRE2_ERROR_NOMEMORY) return tni_fail_memory(err, "regex");
  if (rc < 0) return tni_fail(err, TN_E_LIMIT, "regex", "a match was given up at byte %zu (PCRE2 error %d)", m->at, rc);
  const PCRE2_SIZE *o = pcre2_get_ovector_pointer(m->mem->data);
  *b = o[0];
  *e = o[1] < o[0] ? o[0] : o[1]; /* \K in a lookahead can end before it starts */
  return TN_OK;
}

tn_status tni_matches_next(tni_matches *m, bool *found, size_t *begin, size_t *end, tn_error *err) {
  *found = false;
  while (m->at <= m->n) {
    size_t b = 0, e = 0;
    tn_status st = search_pattern(m, found, &b, &e, err);
    if (st != TN_OK || !*found) return st;
    if (b == e && m->last_end == e) {
      m->at += m->at < m->n ? tni_utf8_len(m->s[m->at]) : 1;
      continue;
    }
    m->at = m->last_end = *end = e;
    *begin = b;
    return TN_OK;
  }
  *found = false;
  return TN_OK;
}
