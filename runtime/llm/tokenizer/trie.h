/* SPDX-License-Identifier: Apache-2.0
 *
 * Which tokens start at a place of a text: a trie over bytes, built once and immutable. Its nodes are those where at
 * least two tokens still differ; what is left of a single token is compared with its text, so that a vocabulary of n
 * tokens takes little more than n nodes of 12 bytes.
 */
#ifndef TENON_LLM_TOKENIZER_TRIE_H
#define TENON_LLM_TOKENIZER_TRIE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "runtime/base/base.h"
#include "runtime/llm/text/text.h"

typedef struct tni_trie_node {
  uint32_t first;    /* its children, ascending by label */
  int32_t id;        /* of the token that ends here; of a leaf: its only token. -1: none */
  uint16_t children; /* 0: leaf */
  uint8_t label;     /* byte that leads here */
} tni_trie_node;

typedef struct tni_trie {
  const tni_trie_node *nodes; /* the root first */
  size_t n;
  const tni_view *words; /* by id; borrowed */
} tni_trie;

/* words[n]: texts by id, they must outlive the trie; empty ones are not found, of equal ones the last is. Nodes are in
 * the arena. False without memory. */
bool tni_trie_build(tni_trie *t, tni_arena *arena, const tni_view *words, size_t n);

/* The words that s (n bytes) starts with, shortest first. */
typedef struct tni_trie_walk {
  const tni_trie *t;
  const char *s;
  size_t n, depth;
  const tni_trie_node *at; /* NULL: over */
} tni_trie_walk;
tni_trie_walk tni_trie_begin(const tni_trie *t, const char *s, size_t n);
/* Id of the next word, whose bytes are words[id].n; -1: no more. */
int32_t tni_trie_next(tni_trie_walk *w);

#endif
