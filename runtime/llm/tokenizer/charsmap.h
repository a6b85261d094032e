/* SPDX-License-Identifier: Apache-2.0
 *
 * SentencePiece's compiled normalization rules (`precompiled_charsmap` of tokenizer.json, base64): a u32 with the
 * trie's bytes, the trie, then the replacements, each ended by a NUL. The trie is Darts-clone's double array of u32
 * units (little-endian): bits 0-7 the label, bit 8 "a value hangs here", bit 9 "the offset is times 256", bits 10-30
 * the offset; a value's unit has bit 31 set and holds an offset into the replacements.
 */
#ifndef TENON_LLM_TOKENIZER_CHARSMAP_H
#define TENON_LLM_TOKENIZER_CHARSMAP_H

#include "runtime/base/base.h"
#include "runtime/llm/text/text.h"

typedef struct tni_charsmap {
  const uint32_t *units;
  size_t n_units;
  const char *texts; /* NUL after the last */
  size_t n_texts;
} tni_charsmap;

/* a: the base64 string. Memory is the arena's. */
TN_MUST_CHECK tn_status tni_charsmap_read(const tni_at *a, tni_arena *arena, tni_charsmap *out, tn_error *err);
/* Applies the rules to in: to each grapheme cluster below 6 bytes, else to each character. */
void tni_charsmap_apply(const tni_charsmap *c, const tni_str *in, tni_str *out);

#endif
