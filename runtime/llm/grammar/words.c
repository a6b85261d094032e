/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/llm/grammar/words.h"

#include <stdlib.h>
#include <string.h>

enum { BEGIN = 0, ANY = UINT16_MAX };

/* A trie of the words whose every node knows where each byte leads. */
typedef struct words_node {
  uint16_t next[256];
  uint16_t fail;
  bool whole; /* a word ends here */
} words_node;

static size_t add_word(words_node *v, size_t n, const tni_str *w) {
  size_t at = BEGIN;
  for (size_t i = 0; i < w->n; i++) {
    uint16_t *to = &v[at].next[(uint8_t)w->v[i]];
    if (!*to) *to = (uint16_t)n++;
    at = *to;
  }
  v[at].whole = true;
  return n;
}

/* Nodes come by their distance from the beginning, so that what a byte fails to is known before it is asked for. */
static bool link_words(words_node *v, size_t n) {
  uint16_t *queue = malloc(n * sizeof *queue);
  size_t head = 0, tail = 0;
  if (!queue) return false;
  for (int b = 0; b < 256; b++)
    if (v[BEGIN].next[b]) queue[tail++] = v[BEGIN].next[b];
  while (head < tail) {
    words_node *x = &v[queue[head++]];
    x->whole = x->whole || v[x->fail].whole;
    for (int b = 0; b < 256; b++) {
      const uint16_t other = v[x->fail].next[b];
      if (x->next[b]) {
        v[x->next[b]].fail = other;
        queue[tail++] = x->next[b];
      } else {
        x->next[b] = other;
      }
    }
  }
  free(queue);
  return true;
}

/* A byte that no word goes on with leads to where all may come. */
static void leave_words(words_node *v, size_t n) {
  for (size_t i = 0; i < n; i++)
    for (int b = 0; b < 256; b++)
      if (!v[i].next[b]) v[i].next[b] = ANY;
}

static void emit_node(tni_auto *a, const words_node *v, const uint32_t *state, size_t i, uint32_t any, uint32_t to) {
  tni_auto_free(a, state[i], to);
  for (int b = 0, last; b < 256; b = last + 1) {
    const uint16_t next = v[i].next[b];
    for (last = b; last < 255 && v[i].next[last + 1] == next;) last++;
    if (next == ANY)
      tni_auto_bytes(a, state[i], (uint8_t)b, (uint8_t)last, any);
    else if (!v[next].whole)
      tni_auto_bytes(a, state[i], (uint8_t)b, (uint8_t)last, state[next]);
  }
}

bool tni_words_emit(tni_auto *a, uint32_t from, const tni_str *words, size_t n, bool at_begin, uint32_t to) {
  size_t most = 1, nodes = 1;
  for (size_t i = 0; i < n; i++) most += words[i].n;
  words_node *v = calloc(most, sizeof *v);
  uint32_t *state = malloc(most * sizeof *state), any = 0;
  bool ok = v && state;
  for (size_t i = 0; ok && i < n; i++) nodes = add_word(v, nodes, &words[i]);
  if (ok && !at_begin) ok = link_words(v, nodes);
  if (ok && at_begin) {
    leave_words(v, nodes);
    any = tni_auto_state(a);
    tni_auto_bytes(a, any, 0, 255, any);
    tni_auto_free(a, any, to);
  }
  for (size_t i = 0; ok && i < nodes; i++) state[i] = tni_auto_state(a);
  for (size_t i = 0; ok && i < nodes && a->failed == TN_OK; i++)
    if (!v[i].whole) emit_node(a, v, state, i, any, to);
  if (ok && a->failed == TN_OK) tni_auto_free(a, from, state[BEGIN]);
  free(v);
  free(state);
  return ok;
}
