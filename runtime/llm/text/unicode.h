/* SPDX-License-Identifier: Apache-2.0
 *
 * UTF-8 and the character classes that tokenizer.json's components are defined by. All functions are pure.
 */
#ifndef TENON_LLM_TEXT_UNICODE_H
#define TENON_LLM_TEXT_UNICODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Decodes one character of valid UTF-8 at s (n > 0 bytes left); *len its bytes. */
uint32_t tni_utf8_get(const char *s, size_t n, size_t *len);
/* Bytes of the character that starts with byte b of valid UTF-8. */
static inline size_t tni_utf8_len(char b) {
  unsigned char c = (unsigned char)b;
  return c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
}
/* Writes cp (at most 4 bytes), returns how many. */
size_t tni_utf8_put(uint32_t cp, char out[4]);
/* Start of the character before offset at > 0 of valid UTF-8. */
size_t tni_utf8_prev(const char *s, size_t at);

/* General category by number (cp_set.h), as regexes see it. */
unsigned tni_category(uint32_t cp);
/* Each as old as the part of the reference that asks (docs/tokenizers.md). */
bool tni_is_white(uint32_t cp);   /* White_Space */
bool tni_is_punct(uint32_t cp);   /* P* or ASCII punctuation */
bool tni_is_number(uint32_t cp);  /* N* */
bool tni_is_mark(uint32_t cp);    /* M*: StripAccents */
bool tni_is_accent(uint32_t cp);  /* Mn: BertNormalizer's strip_accents */
bool tni_is_control(uint32_t cp); /* what BertNormalizer's clean_text drops */
bool tni_is_inert(uint32_t cp);   /* newer than the tables of the normal forms */
/* Of words in Whitespace and beside added tokens: L, M, Nd, Nl, Pc, alphabetic symbols, joiners. */
bool tni_is_word(uint32_t cp);
/* Lower case with SpecialCasing's unconditional mappings: at most 3 code points, returns how many. */
size_t tni_lower(uint32_t cp, uint32_t out[3]);

/* The printable character that stands for byte b in byte-level vocabularies, and back (-1: none). */
uint32_t tni_byte_char(uint8_t b);
int tni_char_byte(uint32_t cp);

#endif
