/* SPDX-License-Identifier: Apache-2.0
 *
 * Where a text can be in an automaton: sets of (state, calls that are open), each found once, numbered, and with a row
 * that says which set follows each class of bytes. Sets and rows are made when they are asked for. One thread at a
 * time.
 */
#ifndef TENON_LLM_GRAMMAR_PLACES_H
#define TENON_LLM_GRAMMAR_PLACES_H

#include "runtime/llm/grammar/auto.h"

enum {
  TNI_PLACES_MANY = 1 << 16, /* sets that are kept, tni_places_full */
  TNI_PLACES_MOST = 1 << 18, /* sets that one token may need */
  TNI_PLACE_WAYS = 4096      /* members of one set */
};
/* What a row says of a byte; else the number of a set. */
enum { TNI_PLACE_UNKNOWN = 0, TNI_PLACE_NONE = 1, TNI_PLACE_FIRST = 2 };

typedef struct tni_way {
  uint32_t state, calls; /* calls: number of a list of states to go on at; 0: none are open */
} tni_way;

typedef struct tni_place {
  size_t first; /* of its members */
  uint32_t n;
  uint32_t dist;  /* fewest bytes to the end of the text */
  int32_t tokens; /* tokens that spell these; -1: not looked at */
  int32_t mask;   /* of its masks (grammar.c); -1: none */
  bool whole;     /* the text may end here */
} tni_place;

typedef struct tni_places tni_places;

tni_places *tni_places_create(const tni_auto *a); /* NULL without memory */
void tni_places_destroy(tni_places *p);
/* Where a text begins; TNI_PLACE_NONE: it failed. */
uint32_t tni_places_begin(tni_places *p);
/* Where it is after byte b; TNI_PLACE_NONE: nowhere, or it failed. */
uint32_t tni_places_next(tni_places *p, uint32_t place, uint8_t b);
tni_place *tni_places_at(tni_places *p, uint32_t place); /* until the next call that makes one */
const tni_way *tni_places_ways(const tni_places *p, uint32_t place);
/* The number of a set, which may be forgotten by now, of these members. */
uint32_t tni_places_of(tni_places *p, const tni_way *w, size_t n, bool whole);
/* True: there are so many that it is time for tni_places_forget, after which no number means anything. */
bool tni_places_full(const tni_places *p);
void tni_places_forget(tni_places *p);
/* TN_OK, or what failed: no memory, or a set with too many members. */
TN_MUST_CHECK tn_status tni_places_status(const tni_places *p, tn_error *err);

#endif
