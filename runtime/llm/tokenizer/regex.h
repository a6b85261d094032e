/* SPDX-License-Identifier: Apache-2.0
 *
 * Translating a regex: what regex_translate.c, regex_class.c and regex_code.c share. Classes are computed as sets of code points and
 * printed as flat PCRE2 classes.
 */
#ifndef TENON_LLM_TOKENIZER_REGEX_H
#define TENON_LLM_TOKENIZER_REGEX_H

#include "runtime/llm/text/text.h"

enum {
  TNI_REGEX_DEPTH = 100,   /* sets inside sets; groups inside groups */
  TNI_REGEX_SETS = 1 << 14 /* properties and sets of one regex */
};

typedef struct tni_regex {
  const char *s; /* valid UTF-8 */
  size_t n, i;   /* i: where reading is, and where an error is */
  tni_str *out;
  const char *why;
  size_t sets;
  bool caseless; /* here */
} tni_regex;

/* False, for "return tni_regex_fail(..)". */
bool tni_regex_fail(tni_regex *x, const char *why);
void tni_regex_put(tni_regex *x, const char *s);
void tni_regex_put_cp(tni_regex *x, uint32_t cp);
/* At a '[': reads the class and prints it. */
bool tni_regex_class(tni_regex *x);
/* At the backslash of \s \w \d \h \p or their capitals: the same. */
bool tni_regex_set_escape(tni_regex *x);
/* "[...]" of word characters. */
bool tni_regex_word(tni_regex *x);
/* After the x, u, o or first digit of a code: \xHH \x{H} \uHHHH \o{O} \OOO. at: the character after the backslash. */
bool tni_regex_code(tni_regex *x, uint32_t *cp);

#endif
