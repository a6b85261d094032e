/* SPDX-License-Identifier: Apache-2.0
 *
 * What regions and scratch take at given dims.
 */
#ifndef TENON_MEMORY_SIZES_H
#define TENON_MEMORY_SIZES_H

#include "runtime/memory/choose_order.h"
#include "runtime/memory/run.h"

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
/* room = 0: what a plan asked for in vain is not asked for again. */
void tni_sizes_no_room(tni_sizing *z);

/* What shares the arena `block` (TN_NONE: all arenas as if they were one), by room: its regions in their order, then
 * the scratch of its tasks. malloc'd. */
TN_MUST_CHECK tn_status tni_lives_make(const tni_sizing *z, uint32_t block, tni_life **lives, uint32_t *n);

#endif
