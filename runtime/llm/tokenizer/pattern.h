/* SPDX-License-Identifier: Apache-2.0
 *
 * Patterns of tokenizer.json: {"String": s} or {"Regex": r}.
 *
 * The files' regexes are Oniguruma's (Ruby syntax, Unicode 16); PCRE2 runs them. The differences are translated: \s \h
 * \w \d and \p{..} are spelled out, ^ and $ match at lines, (?m) is dot-all, {,n} starts at 0, newer code points are
 * added to categories. What PCRE2 would silently read differently (nested sets, &&, {n,m}+, (*VERB), \g, \k, \N, \C,
 * ...) is TN_E_UNSUPPORTED. Known gap: \b keeps PCRE2's idea of a word character.
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

/* All matches in s (valid UTF-8), left to right: an empty match right after the last match is passed over. */
typedef struct tni_matches {
  const tni_pattern *p;
  tni_match_memory *mem;
  const char *s;
  size_t n, at, last_end; /* last_end SIZE_MAX: none yet */
} tni_matches;
tni_matches tni_matches_begin(const tni_pattern *p, tni_match_memory *mem, const char *s, size_t n);
/* *found false: no more. TN_E_LIMIT when the regex backtracks without end. */
TN_MUST_CHECK tn_status tni_matches_next(tni_matches *m, bool *found, size_t *begin, size_t *end, tn_error *err);

/* Onig pattern -> PCRE2 pattern; *why says what is not supported. Declared here for the tests. */
bool tni_regex_translate(const char *s, size_t n, tni_str *out, const char **why);

#endif
