/* SPDX-License-Identifier: Apache-2.0
 *
 * The order to run a task graph in, chosen for the memory it takes, and offsets of what lives in it.
 *
 * Candidates: the numbering as it is; greedy ones that take the ready task which leaves the least memory behind it,
 * ties to the one made ready last (depth first) or to the smallest number; and seeded ones that now and then take
 * another. All are ranked by the largest sum of bytes live at once; the best few are planned, and the smallest arena
 * wins, the earlier candidate on a tie. The answer depends on the arguments only. Any thread.
 */
#ifndef TENON_MEMORY_CHOOSE_ORDER_H
#define TENON_MEMORY_CHOOSE_ORDER_H

#include "runtime/place/place.h"

typedef struct tni_order {
  uint32_t *task;  /* [n]: position -> task; malloc'd */
  uint64_t arena;  /* bytes that the lives take in this order */
  uint64_t bound;  /* no plan of any candidate can take less: the smallest peak */
  uint32_t chosen; /* which candidate: 0 is the numbering as it is */
} tni_order;

/* Offsets of the lives are not touched. */
TN_MUST_CHECK tn_status tni_order_choose(const tni_taskgraph *g, const tni_life *lives, uint32_t n, tni_order *out);

/* Fills the lives' offsets for the order that their tasks are numbered in, and the arena's bytes. */
TN_MUST_CHECK tn_status tni_lives_plan(tni_life *lives, uint32_t n, uint64_t *arena);

/* The same for all orders that g allows: lives share bytes only where every task of the one comes before every task of
 * the other. Larger, and nothing has to wait for memory. TN_E_LIMIT: more than TNI_REACH_MAX tasks. */
TN_MUST_CHECK tn_status tni_lives_spread(const tni_taskgraph *g, tni_life *lives, uint32_t n, uint64_t *arena);

/* A random order of those that the graph allows; the same for the same seed. order [n]. */
TN_MUST_CHECK tn_status tni_order_random(const tni_taskgraph *g, uint64_t seed, uint32_t *order);

#endif
