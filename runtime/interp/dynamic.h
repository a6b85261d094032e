/* SPDX-License-Identifier: Apache-2.0
 *
 * Tasks whose dims only the run knows (tni_mark_dynamic): no plan, no place in the memory plan. Such a task is one node
 * of the host; when its turn comes it is interpreted (interp.h) and its results get memory of their own, which goes
 * with their last reader. Results whose dims the inputs do give are copied to where the plan has them, so that what
 * follows runs as usual.
 */
#ifndef TENON_INTERP_DYNAMIC_H
#define TENON_INTERP_DYNAMIC_H

#include "runtime/memory/memory.h"

TN_MUST_CHECK tn_status tni_dynamic_run(tn_session *s, tni_sexec *x, uint32_t task, tn_error *err);
/* Frees what the last run left: outputs. */
void tni_dynamic_release(tni_sexec *x);

#endif
