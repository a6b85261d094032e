/* SPDX-License-Identifier: Apache-2.0
 *
 * Sets of characters as ascending ranges, small enough to have thousands of, and their edges in UTF-8, plain or as a
 * JSON string has them.
 */
#ifndef TENON_LLM_GRAMMAR_CHARS_H
#define TENON_LLM_GRAMMAR_CHARS_H

#include "runtime/llm/grammar/auto.h"

enum { TNI_CHAR_LAST = 0x10ffff, TNI_TIMES_MOST = 100000 };

typedef struct tni_char_range {
  uint32_t lo, hi;
} tni_char_range;

typedef struct tni_chars {
  tni_char_range *v; /* ascending and apart after tni_chars_sort */
  size_t n, cap;
  bool failed; /* no memory: sticky */
} tni_chars;

void tni_chars_finish(tni_chars *c);
void tni_chars_add(tni_chars *c, uint32_t lo, uint32_t hi);
void tni_chars_add_all(tni_chars *c, const tni_chars *b);
void tni_chars_sort(tni_chars *c);
/* c, sorted, becomes all other characters. */
void tni_chars_not(tni_chars *c);
/* out, empty: what is in both, which are sorted. */
void tni_chars_both(tni_chars *out, const tni_chars *a, const tni_chars *b);
/* Edges for one character of c, sorted. json: quotes, backslashes and control characters are escaped. */
void tni_chars_emit(tni_auto *a, uint32_t from, const tni_chars *c, bool json, uint32_t to);

/* --- what both kinds of rules are written with --- */

/* -1: it is none. */
int tni_hex_digit(char c);
/* The digits of s, n bytes, from *i on, which goes after them; above TNI_TIMES_MOST: some number above it. False: none. */
bool tni_times_read(const char *s, size_t n, size_t *i, uint32_t *v);

#endif
