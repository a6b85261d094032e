/* SPDX-License-Identifier: Apache-2.0
 *
 * Texts that words are not in: what is said before a mark comes that means something else (Aho and Corasick 1975).
 */
#ifndef TENON_LLM_GRAMMAR_WORDS_H
#define TENON_LLM_GRAMMAR_WORDS_H

#include "runtime/llm/grammar/auto.h"
#include "runtime/llm/text/text.h"

enum { TNI_WORDS_MOST = 256, TNI_WORDS_BYTES = 1 << 14 };

/* Edges from `from` to `to` that read any bytes, none too, in which no word is whole; at_begin: which do not begin with
 * one. words: [n], none empty; all together at most TNI_WORDS_BYTES. False: no memory. */
bool tni_words_emit(tni_auto *a, uint32_t from, const tni_str *words, size_t n, bool at_begin, uint32_t to);

#endif
