/* SPDX-License-Identifier: Apache-2.0
 *
 * The door of runtime/llm/grammar: which tokens may come next so that a text has a form.
 * Other rooms include this file, and no other of it.
 *
 * A grammar is compiled once (JSON Schema, regex, GBNF) and shared; a reader follows one text. Readers of one grammar
 * may be used by several threads, one each: what they share is locked.
 */
#ifndef TENON_LLM_GRAMMAR_GRAMMAR_H
#define TENON_LLM_GRAMMAR_GRAMMAR_H

#include "runtime/llm/grammar/vocab.h"

typedef enum tni_grammar_kind {
  TNI_GRAMMAR_SCHEMA = 1, /* JSON Schema, schema.h */
  TNI_GRAMMAR_REGEX = 2,  /* regex.h */
  TNI_GRAMMAR_GBNF = 3    /* gbnf.h */
} tni_grammar_kind;

typedef struct tni_grammar tni_grammar;
typedef struct tni_reader_of tni_text_reader;

/* vocab outlives the grammar. Errors as of tn_grammar_create. */
TN_MUST_CHECK tn_status tni_grammar_create(const tni_vocab *vocab, uint32_t kind, const char *text, size_t n,
                                           tni_grammar **out, tn_error *err);
void tni_grammar_destroy(tni_grammar *g);

/* g outlives it. */
TN_MUST_CHECK tn_status tni_text_reader_create(tni_grammar *g, tni_text_reader **out, tn_error *err);
void tni_text_reader_destroy(tni_text_reader *r);
/* Takes from logits, [n], those of the tokens that cannot follow, or after which `left` - 1 more tokens could not bring
 * the text to its end (UINT32_MAX: no limit). *any: some token is left. Ends of sequences are not its business. */
TN_MUST_CHECK tn_status tni_text_reader_mask(tni_text_reader *r, uint32_t left, float *logits, size_t n, bool *any,
                                             tn_error *err);
/* The text goes on with these bytes. TN_E_INVALID: it cannot. */
TN_MUST_CHECK tn_status tni_text_reader_take(tni_text_reader *r, const char *s, size_t n, tn_error *err);
/* As tn_sampler_whole. */
int tni_text_reader_whole(const tni_text_reader *r);
/* Tokens that the shortest end of the text takes, spelled with long tokens. UINT32_MAX: the vocabulary cannot spell
 * it, or it failed. */
uint32_t tni_text_reader_ending(tni_text_reader *r);

#endif
