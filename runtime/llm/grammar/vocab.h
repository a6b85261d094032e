/* SPDX-License-Identifier: Apache-2.0
 *
 * The bytes that each token of a vocabulary adds to a text, as a trie in the order of a walk: a node is followed by
 * what is below it, and `next` leads past that. Immutable.
 */
#ifndef TENON_LLM_GRAMMAR_VOCAB_H
#define TENON_LLM_GRAMMAR_VOCAB_H

#include <stdbool.h>

#include "runtime/base/base.h"
#include "runtime/llm/text/text.h"

/* A special token is this byte, which no text has, and then its text: no part of a text that a grammar spells, but
 * where the grammar names it (%token) or takes whatever comes (%without). */
#define TNI_VOCAB_MARK 0xff

typedef struct tni_vocab_node {
  uint32_t next;
  int32_t id; /* of a token that ends here, others with the same bytes by `also`; -1: none */
  uint16_t depth;
  uint8_t byte;
} tni_vocab_node;

typedef struct tni_vocab {
  tni_vocab_node *nodes;
  tni_view *bytes; /* [n] of each id; none: the token adds nothing, or nobody may say it */
  char *memory;
  int32_t *also; /* [n] the next id with the same bytes; -1: none */
  size_t n, n_nodes, deepest;
} tni_vocab;

/* bytes(user, id, out) appends those of one token; false without memory. NULL without memory. */
tni_vocab *tni_vocab_create(size_t n, bool (*bytes)(void *user, int32_t id, tni_str *out), void *user);
void tni_vocab_destroy(tni_vocab *v);
/* The longest token that s, n bytes, begins with: its length; 0: none. */
size_t tni_vocab_longest(const tni_vocab *v, const uint8_t *s, size_t n);

#endif
