/* SPDX-License-Identifier: Apache-2.0
 *
 * The three languages, each of which adds one rule to an automaton. The rule's number is *rule. Errors name the key
 * ("schema: properties.age.minimum: ...") or the column ("regex: column 3: ...").
 */
#ifndef TENON_LLM_GRAMMAR_COMPILE_H
#define TENON_LLM_GRAMMAR_COMPILE_H

#include "runtime/llm/grammar/auto.h"

TN_MUST_CHECK tn_status tni_compile_schema(tni_auto *a, const char *text, size_t n, uint32_t *rule, tn_error *err);
TN_MUST_CHECK tn_status tni_compile_regex(tni_auto *a, const char *text, size_t n, uint32_t *rule, tn_error *err);
TN_MUST_CHECK tn_status tni_compile_gbnf(tni_auto *a, const char *text, size_t n, uint32_t *rule, tn_error *err);

#endif
