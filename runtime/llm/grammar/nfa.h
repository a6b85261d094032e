/* SPDX-License-Identifier: Apache-2.0
 *
 * Automata over characters, which regexes become first: several of them and a length can then hold of one string.
 */
#ifndef TENON_LLM_GRAMMAR_NFA_H
#define TENON_LLM_GRAMMAR_NFA_H

#include "runtime/llm/grammar/chars.h"

enum {
  TNI_NFA_STATES = 1 << 17, /* of one automaton, and of a product */
  TNI_NFA_TOGETHER = 8,     /* that hold of one string */
  TNI_NFA_FREE = -1
};

typedef struct tni_nfa_edge {
  uint32_t from, to;
  int32_t set; /* TNI_NFA_FREE: reads nothing */
} tni_nfa_edge;

typedef struct tni_nfa {
  tni_nfa_edge *edges;
  tni_chars *sets;
  size_t n_edges, edges_cap, n_sets, sets_cap;
  uint32_t n_states; /* 0 begins, 1 ends */
  tn_status failed;
  uint32_t *first; /* [n_states + 1] edges are sorted; NULL before */
} tni_nfa;

void tni_nfa_init(tni_nfa *x);
void tni_nfa_finish(tni_nfa *x);
uint32_t tni_nfa_state(tni_nfa *x);
/* A sorted set, taken over. */
int32_t tni_nfa_set(tni_nfa *x, tni_chars *c);
void tni_nfa_edge_add(tni_nfa *x, uint32_t from, int32_t set, uint32_t to);

/* What a string must be. */
typedef struct tni_string_form {
  tni_nfa *all[TNI_NFA_TOGETHER]; /* each of them */
  size_t n;
  uint32_t least, most; /* characters; most UINT32_MAX: any */
} tni_string_form;
/* Edges from `from` to `to` that read such a string. json: as JSON has it, without its quotes. */
void tni_nfa_emit(tni_auto *a, uint32_t from, const tni_string_form *f, bool json, uint32_t to);

/* Where the regex of s does not fit: what, and the column from 1. */
typedef struct tni_regex_error {
  const char *why;
  size_t column;
  tn_status status;
} tni_regex_error;
/* whole: the string is the match; else it lies anywhere in it, as a schema's "pattern". False: *e says why. */
bool tni_nfa_regex(tni_nfa *x, const char *s, size_t n, bool whole, tni_regex_error *e);

#endif
