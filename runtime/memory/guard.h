/* SPDX-License-Identifier: Apache-2.0
 *
 * Canaries: 64 bytes after every region and every task's scratch, while a plan is used for the first time. A task that
 * writes past what it was given is an error that names it and what it was given. After memory that devices have a part
 * in, caches included, they stand in checked mode only (`checked: true`): each is mapped before and after each task,
 * and engines get one item at a time. Far strays are not seen.
 *
 * Regions share bytes by lifetime, so that a canary holds from a region's first writer to its last user only.
 */
#ifndef TENON_MEMORY_GUARD_H
#define TENON_MEMORY_GUARD_H

#include "runtime/memory/run.h"

/* What the plan leaves after each region. */
enum { TNI_GUARD_BYTES = 64 };

/* Before task i, when its memory is its own, and after it, while x->guarded. */
TN_MUST_CHECK tn_status tni_guard_before(const tn_session *s, tni_sexec *x, uint32_t i, tn_error *err);
TN_MUST_CHECK tn_status tni_guard_after(const tn_session *s, const tni_sexec *x, uint32_t i, tn_error *err);
/* n bytes of canary at p, and whether they are as they were. */
void tni_guard_put(void *p);
bool tni_guard_holds(const void *p);

#endif
