/* SPDX-License-Identifier: Apache-2.0
 *
 * The pieces of a fork-join, and who takes which. Each worker has a share, side by side, and takes runs of it from its
 * front; who has none left takes from the largest. Shares follow the workers' speeds, which are learnt from the time
 * that each took for its pieces: little cores get few, and end with the others.
 *
 * Threads: take and done, each worker for itself; all else while nobody is in the fork.
 */
#ifndef TENON_BASE_SHARES_H
#define TENON_BASE_SHARES_H

#include <stdbool.h>
#include <stdint.h>

enum { TNI_SHARE_FULL = 256, TNI_SHARE_MOST = 1 << 30 };

typedef struct tni_share {
  /* Pieces [begin, end): end in the upper half. Whoever changes it swaps the whole word, and a piece that was taken
   * never comes back, so that an old word means what it says. */
  _Alignas(64) _Atomic uint64_t left;
  _Atomic float rate; /* work per ns in this fork; 0: none, or not asked */
  uint32_t weight;    /* of TNI_SHARE_FULL, which the fastest have, and all that are about as fast */
  float speed;        /* beside the others' */
} tni_share;

typedef struct tni_shares {
  tni_share *of;
  uint32_t n, weights; /* their sum */
  uint32_t forks;
  bool uneven;   /* some have less than the full weight */
  bool learning; /* in this fork */
  bool trying;   /* in this fork the slow ones take a piece in any case */
} tni_shares;

/* All are equally fast. of: n shares. */
void tni_shares_init(tni_shares *s, tni_share *of, uint32_t n);
/* Worker i is so many times as fast as it was taken to be. */
void tni_shares_scale(tni_shares *s, uint32_t i, float times);
/* pieces: 1 to TNI_SHARE_MOST. */
void tni_shares_begin(tni_shares *s, uint32_t pieces);
/* The next run of worker i is [first, last). False: there is none for it. What is left then is for the fast ones, who
 * end earlier with it; `must` takes one all the same. A run of a slow worker is one piece, or no more than the others
 * still have to do meanwhile. */
bool tni_shares_take(tni_shares *s, uint32_t i, bool must, uint32_t *first, uint32_t *last);
/* Whether pieces are left that nobody has taken. */
bool tni_shares_rest(const tni_shares *s);
/* Where it is learning, and nobody else was on the worker's processor meanwhile: worker i did so much in that time, in
 * a unit of which all pieces have as many but the last. */
void tni_shares_done(tni_shares *s, uint32_t i, int64_t done, int64_t ns);
void tni_shares_end(tni_shares *s);

#endif
