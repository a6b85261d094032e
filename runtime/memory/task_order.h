/* SPDX-License-Identifier: Apache-2.0
 *
 * The task graph of a placement, and the order of its tasks that takes least memory.
 */
#ifndef TENON_MEMORY_TASK_ORDER_H
#define TENON_MEMORY_TASK_ORDER_H

#include "runtime/place/place.h"

/* Says where the regions of a lowered placement lie (blocks.h), fills x->graph and the users of its regions, and brings
 * x->tasks into the order that takes least memory at the limits. */
TN_MUST_CHECK tn_status tni_exec_order(tn_model *m, tni_exec *x, tn_error *err);
/* Smallest peak of any order that was looked at, at these dims. */
TN_MUST_CHECK tn_status tni_exec_bound(tn_model *m, tni_exec *x, const int64_t *dims, uint64_t *bound, tn_error *err);

#endif
