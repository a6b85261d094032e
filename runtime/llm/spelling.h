/* SPDX-License-Identifier: Apache-2.0
 *
 * Grammars of a model's tokenizer (tenon/lm.h): the vocabulary's bytes are read once for all of them.
 */
#ifndef TENON_LLM_SPELLING_H
#define TENON_LLM_SPELLING_H

#include "runtime/llm/grammar/grammar.h"
#include "runtime/llm/tokenizer/tokenizer.h"

/* Counted: the model and each grammar hold it. */
typedef struct tni_spelling tni_spelling;
tni_spelling *tni_spelling_create(void); /* NULL without memory */
void tni_spelling_release(tni_spelling *s);

struct tn_grammar {
  tni_spelling *spelling;
  const tni_vocab *vocab;
  tni_grammar *g;
};

#endif
