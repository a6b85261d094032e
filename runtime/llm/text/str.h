/* SPDX-License-Identifier: Apache-2.0
 *
 * A growing byte string with one limit for all: no text inside the tokenizer passes TNI_STR_MAX bytes.
 *
 * `zero` counts the leading bytes that come from the first character of the whole input. Metaspace's prepend_scheme
 * "first" asks for it, so every transformation keeps it.
 */
#ifndef TENON_LLM_TEXT_STR_H
#define TENON_LLM_TEXT_STR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TNI_STR_MAX ((size_t)1 << 28)
/* What becomes of n bytes may be this long: a file whose replacements of nothing follow each other multiplies its text.
 */
static inline size_t tni_str_most(size_t n) {
  enum { LEAST = 1 << 20, PER_BYTE = 64 };
  return n > (SIZE_MAX - LEAST) / PER_BYTE ? SIZE_MAX : LEAST + n * PER_BYTE;
}

typedef struct tni_str {
  char *v; /* malloc'd, not terminated */
  size_t n, cap, zero;
  bool failed; /* an append did not fit: sticky, checked once per transformation */
  bool over;   /* because it would pass TNI_STR_MAX, not for want of memory */
} tni_str;

typedef struct tni_view {
  const char *v;
  size_t n;
} tni_view;

void tni_str_finish(tni_str *s);
/* n = zero = 0, failed = over = false; memory is kept. */
void tni_str_clear(tni_str *s);
/* Appends; sets failed when out of memory, and over too where it passes TNI_STR_MAX. v may be NULL when n is 0. */
void tni_str_add(tni_str *s, const char *v, size_t n);
void tni_str_add_cp(tni_str *s, uint32_t cp);
/* Drops the first n bytes. */
void tni_str_drop(tni_str *s, size_t n);

#endif
