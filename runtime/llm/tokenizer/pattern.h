/* SPDX-License-Identifier: Apache-2.0
 *
 * Patterns of tokenizer.json: {"String": s} or {"Regex": r}.
 *
 * The files' regexes are Oniguruma's (Ruby syntax); PCRE2 runs them. What differs is translated: classes, with sets
 * inside sets and &&, and \s \h \w \d \p{..} become flat classes of the reference's tables; \b stands by its idea of a
 * word; ^ and $ match at lines, (?m) is dot-all, {,n} starts at 0. What PCRE2 would silently read differently ({n,m}+,
 * (*VERB), \g, \k, \N, \C, ...) is TN_E_UNSUPPORTED with the column. Known gap: (?i) does not make ss of sharp s, or
 * back.
 *
 * A pattern is immutable; a tni_match_memory belongs to one thread and serves any pattern.
 */
#ifndef TENON_LLM_TOKENIZER_PATTERN_H
#define TENON_LLM_TOKENIZER_PATTERN_H

#include "runtime/base/base.h"
#include "runtime/llm/text/text.h"

typedef struct tni_pattern {
  tni_view lit; /* in the arena; used when re is NULL */
  void *re;     /* pcre2_code */
} tni_pattern;

typedef struct tni_match_memory {
  void *data, *context; /* pcre2_match_data, pcre2_match_context; made at first use */
} tni_match_memory;
void tni_match_memory_finish(tni_match_memory *m);

TN_MUST_CHECK tn_status tni_pattern_parse(const tni_at *a, tni_arena *arena, tni_pattern *out, tn_error *err);
TN_MUST_CHECK tn_status tni_pattern_literal(const char *s, size_t n, tni_arena *arena, tni_pattern *out, tn_error *err);
/* a gives file and path for messages. */
TN_MUST_CHECK tn_status tni_pattern_regex(const tni_at *a, const char *s, size_t n, tni_pattern *out, tn_error *err);
void tni_pattern_finish(tni_pattern *p);

/* All matches in s (valid UTF-8), left to right: an empty match right after the last match is passed over. As in the
 * reference nothing matches in an empty s. */
typedef struct tni_matches {
  const tni_pattern *p;
  tni_match_memory *mem;
  const char *s;
  size_t n, at, last_end; /* last_end SIZE_MAX: none yet */
} tni_matches;
tni_matches tni_matches_begin(const tni_pattern *p, tni_match_memory *mem, const char *s, size_t n);
/* *found false: no more. TN_E_LIMIT when the regex backtracks without end. */
TN_MUST_CHECK tn_status tni_matches_next(tni_matches *m, bool *found, size_t *begin, size_t *end, tn_error *err);

/* Onig pattern -> PCRE2 pattern; *why says what is not supported, *column where, from 1. Declared here for the tests.
 */
bool tni_regex_translate(const char *s, size_t n, tni_str *out, const char **why, size_t *column);

#endif
