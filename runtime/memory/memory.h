/* SPDX-License-Identifier: Apache-2.0
 *
 * Parts of the memory plan: what every region takes (sizes.c), dims for given limits (limits.c), the order of tasks
 * (order.c); memory.c puts them together for a session.
 */
#ifndef TENON_MEMORY_MEMORY_H
#define TENON_MEMORY_MEMORY_H

#include "runtime/memory/choose_order.h"
#include "runtime/session/internal.h"

typedef struct tni_sizing {
  tn_model *m;
  tni_exec *x;
  const int64_t *dims;
  tni_sregion *regions; /* [n_regions]: out */
  tni_stask *tasks;     /* [n_tasks]: scratch out */
  uint64_t scratch;     /* largest */
  tn_error *err;
} tni_sizing;

/* dims, strides and bytes of every region and scratch of every task; room and offsets stay. */
TN_MUST_CHECK tn_status tni_sizes(tni_sizing *z);
/* room = bytes; more: where that is larger. */
void tni_sizes_room(tni_sizing *z, bool more);

/* Says for every region and scratch of x which block it lies in (blocks.c). Regions know their users. TN_E_UNSUPPORTED:
 * the profile has `require`, and devices share what they cannot. */
TN_MUST_CHECK tn_status tni_blocks_make(tn_model *m, tni_exec *x, tn_error *err);
/* m->state_users, from all placements, and the users of their STATE regions. After all are lowered. */
TN_MUST_CHECK tn_status tni_blocks_states(tn_model *m, tn_error *err);
static inline bool tni_in_arena(const tni_exec *x, const tni_region *r) {
  return r->block != TN_NONE && x->blocks[r->block].kind == TNI_B_ARENA;
}
static inline bool tni_in_outputs(const tni_exec *x, const tni_region *r) {
  return r->block != TN_NONE && x->blocks[r->block].kind == TNI_B_OUTPUT;
}
/* It has a copy on each device that reads it. */
static inline bool tni_is_fed(const tni_region *r) {
  return (r->kind == TNI_R_INPUT || r->kind == TNI_R_STEP) && r->users.devices;
}

/* What shares the arena `block` (TN_NONE: all arenas as if they were one), by room: its regions in their order, then
 * the scratch of its tasks. malloc'd. */
TN_MUST_CHECK tn_status tni_lives_make(const tni_sizing *z, uint32_t block, tni_life **lives, uint32_t *n);

/* Dims for the model's limits, by symbol: the largest step of a prompt at the end of the context, or (decode) one
 * position there. Models whose caches cannot be kept: a prompt as long as the context. dims [symbols of the graph]. */
TN_MUST_CHECK tn_status tni_limit_dims(const tn_model *m, bool decode, int64_t *dims, tn_error *err);
/* The whole context as one step. */
TN_MUST_CHECK tn_status tni_limit_context(const tn_model *m, int64_t *dims, tn_error *err);
/* Positions of every run of a prompt, because a device takes no other length; 0: any. After place. */
int64_t tni_model_chunk(const tn_model *m);
/* Whether a session that keeps its caches runs n positions on x (a padded chunk counts whole): one position is decoded,
 * more are prefilled. */
bool tni_exec_takes(const tn_model *m, const tni_exec *x, int64_t n);
/* Rows of a cache for so many positions: a padded chunk may begin at the last. */
int64_t tni_chunk_room(const tn_model *m, int64_t positions);
/* The longest context. */
int64_t tni_limit_longest(const tn_model *m);
/* Positions that the caches hold at these limits. */
int64_t tni_limit_capacity(const tn_model *m);
/* Most positions of a step at them. */
int64_t tni_limit_step(const tn_model *m);

/* Fills x->graph and the users of its regions, and brings x->tasks into the order that takes least memory at the
 * limits. */
TN_MUST_CHECK tn_status tni_exec_order(tn_model *m, tni_exec *x, tn_error *err);
/* Smallest peak of any order that was looked at, at these dims. */
TN_MUST_CHECK tn_status tni_exec_bound(tn_model *m, tni_exec *x, const int64_t *dims, uint64_t *bound, tn_error *err);

#endif
