/* SPDX-License-Identifier: Apache-2.0
 *
 * Hugging Face tokenizer.json: normalizer -> pre-tokenizer -> model (BPE, WordPiece, WordLevel, Unigram) ->
 * post-processor, and decoders back. Ids equal those of PyPI's `tokenizers` for the same file. A tokenizer is immutable
 * after load; any thread.
 */
#ifndef TENON_LLM_TOKENIZER_TOKENIZER_H
#define TENON_LLM_TOKENIZER_TOKENIZER_H

#include <stdbool.h>

#include "runtime/base/base.h"

struct tni_str;
typedef struct tni_tokenizer tni_tokenizer;

/* Ids, malloc'd; free with tni_ids_free. */
typedef struct tni_ids {
  int32_t *v;
  size_t n;
} tni_ids;
void tni_ids_free(tni_ids *ids);

/* json: the file's bytes; file: its name for messages. TN_E_INVALID names the component (model.merges[12] ...). */
TN_MUST_CHECK tn_status tni_tokenizer_parse(const char *json, size_t n, const char *file, tni_tokenizer **out,
                                            tn_error *err);
TN_MUST_CHECK tn_status tni_tokenizer_load(const char *path, tni_tokenizer **out, tn_error *err);
void tni_tokenizer_destroy(tni_tokenizer *t);

/* UTF-8 text (n bytes, NULs allowed; invalid UTF-8 is TN_E_INVALID with the offset) -> ids. add_special: run the
 * post-processor's template. Special tokens in the text are recognised. The file's truncation and padding are not
 * applied, as in transformers: they are left there by whoever encoded a batch last, and would cut or pad a prompt. */
TN_MUST_CHECK tn_status tni_tokenizer_encode(const tni_tokenizer *t, const char *text, size_t n, bool add_special,
                                             tni_ids *out, tn_error *err);
/* The same for a text of which mine[i] (NULL: all) says whether byte i may be part of a special token: other special
 * tokens are text, and none of their ids comes out. Without the post-processor's template. */
TN_MUST_CHECK tn_status tni_tokenizer_encode_marked(const tni_tokenizer *t, const char *text, const uint8_t *mine,
                                                    size_t n, tni_ids *out, tn_error *err);
/* Whole-sequence decode, malloc'd and terminated. skip_special drops special tokens. */
TN_MUST_CHECK tn_status tni_tokenizer_decode(const tni_tokenizer *t, const int32_t *ids, size_t n, bool skip_special,
                                             char **text, size_t *len, tn_error *err);
/* For encoders of batches: with add_special ids are cut to max, special ones included (0: never), on the side that the
 * file's truncation names. Before the first use. */
void tni_tokenizer_limit(tni_tokenizer *t, size_t max);
/* Whether the normalizer makes small letters of all. */
bool tni_tokenizer_lowercases(const tni_tokenizer *t);
/* Id that the file's padding names for batches; -1: none. */
int32_t tni_tokenizer_pad(const tni_tokenizer *t);
uint32_t tni_tokenizer_vocab_size(const tni_tokenizer *t); /* largest id + 1 */
/* Text of one token as the file has it, or NULL; and back, -1 if unknown. */
const char *tni_tokenizer_token(const tni_tokenizer *t, int32_t id);
int32_t tni_tokenizer_id(const tni_tokenizer *t, const char *token);
bool tni_tokenizer_is_special(const tni_tokenizer *t, int32_t id);

/* Whether each token adds the same bytes to a text wherever it stands in it, but for the text's first space: byte-level
 * and byte-fallback decoders. */
bool tni_tokenizer_spells(const tni_tokenizer *t);
/* Appends these; nothing of tokens that decoding skips. Of a tokenizer that spells. */
void tni_tokenizer_bytes(const tni_tokenizer *t, int32_t id, struct tni_str *out);

/* Incremental detokenization: feed ids one by one; text comes out in whole UTF-8 characters and concatenates to exactly
 * what decode of all ids gives (incomplete bytes at the end are held back until finish, which gives U+FFFD for them as
 * decode does). */
typedef struct tni_detok tni_detok;
tni_detok *tni_detok_create(const tni_tokenizer *t, bool skip_special);
void tni_detok_destroy(tni_detok *d);
/* From now on these special tokens are text, whatever skip_special says. ids: n, which live on. */
void tni_detok_show(tni_detok *d, const int32_t *ids, size_t n);
/* *text lives until the next call; *len may be 0. */
TN_MUST_CHECK tn_status tni_detok_push(tni_detok *d, int32_t id, const char **text, size_t *len, tn_error *err);
TN_MUST_CHECK tn_status tni_detok_finish(tni_detok *d, const char **text, size_t *len, tn_error *err);

#endif
