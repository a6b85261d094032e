/* SPDX-License-Identifier: Apache-2.0
 *
 * Which regions lie in one memory, because the same devices touch them.
 */
#ifndef TENON_MEMORY_BLOCKS_H
#define TENON_MEMORY_BLOCKS_H

#include "runtime/place/place.h"

/* Says for every region and scratch of x which block it lies in (blocks.c). Regions know their users. TN_E_UNSUPPORTED:
 * the profile has `require`, and devices share what they cannot. */
TN_MUST_CHECK tn_status tni_blocks_make(tn_model *m, tni_exec *x, tn_error *err);
/* m->state_users, from all placements, and the users of their STATE regions. After all are lowered. */
TN_MUST_CHECK tn_status tni_blocks_states(tn_model *m, tn_error *err);

#endif
