/* SPDX-License-Identifier: Apache-2.0
 *
 * A tokenizer read on a thread of its own while the model is loaded: a large tokenizer.json takes as long as a packed
 * model. Which error a caller gets does not depend on which of the two fails first: he asks for the tokenizer's first.
 */
#ifndef TENON_LLM_TOKENIZER_TOK_BESIDE_H
#define TENON_LLM_TOKENIZER_TOK_BESIDE_H

#include <pthread.h>

#include "runtime/llm/tokenizer/tokenizer.h"

typedef struct tni_tok_beside {
  pthread_t thread;
  bool threaded; /* false: it was read at once */
  const char *path;
  tni_tokenizer *tok;
  tn_status st;
  tn_long_error err;
} tni_tok_beside;

/* path and b live until tni_tok_end, which must follow. */
void tni_tok_begin(tni_tok_beside *b, const char *path);
/* Waits; as tni_tokenizer_load. */
TN_MUST_CHECK tn_status tni_tok_end(tni_tok_beside *b, tni_tokenizer **out, tn_error *err);

#endif
