/* SPDX-License-Identifier: Apache-2.0
 *
 * How many guesses a step should try: learned from how long steps of so many rows took and from how often guesses came.
 * Devices differ: a step of 16 rows takes 1.5 times one of a single row here and 7 times there (docs/sampling.md).
 */
#ifndef TENON_LLM_PACE_H
#define TENON_LLM_PACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { TNI_PACE_ROWS = 65 }; /* steps with more rows are not counted */

/* How likely a guess comes that stands where it is reached. */
typedef struct tni_pace_odds {
  double right; /* 0: nothing is known */
  double first; /* of the first guess where only a single token stood before: what follows it is often another */
} tni_pace_odds;

typedef struct tni_pace {
  double ns[TNI_PACE_ROWS + 1];    /* a step of so many rows */
  double trust[TNI_PACE_ROWS + 1]; /* of ns, 1 where a step was so long lately */
  uint8_t seen[TNI_PACE_ROWS + 1]; /* steps of so many rows, until ns is known */
  tni_pace_odds odds;              /* of texts that come */
  bool even;                       /* steps are not timed: of any rows they take the same (tests) */
} tni_pace;

void tni_pace_init(tni_pace *p);
void tni_pace_took(tni_pace *p, size_t rows, int64_t ns);
/* The guesses that came of those tried in a step of which `tokens` came, at least one: the last is none, but where all
 * came and the text ended. */
static inline size_t tni_pace_came(size_t tried, size_t tokens) { return tokens - 1 < tried ? tokens - 1 : tried; }
/* `came` of `tried` guesses did (tried > 0). single: they followed where only a single token stood before. */
void tni_pace_learn(tni_pace_odds *o, bool single, size_t tried, size_t came);
/* Guesses that were there were not tried: it slowly forgets that they failed. */
void tni_pace_forget(tni_pace_odds *o, bool single);

/* One of the texts of a step. */
typedef struct tni_pace_text {
  size_t guesses;
  tni_pace_odds odds;
  bool single;
} tni_pace_text;
/* How many guesses each of n texts should try at most, so that most tokens come in the same time. What is not known is
 * thought to be fast, so that it is tried, and so is in the end what was slow once. */
size_t tni_pace_worth(tni_pace *p, const tni_pace_text *texts, size_t n, size_t most);

#endif
