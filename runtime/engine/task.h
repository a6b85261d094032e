/* SPDX-License-Identifier: Apache-2.0
 *
 * One task of a session: its plan for the dims, its memory, its run.
 */
#ifndef TENON_ENGINE_TASK_H
#define TENON_ENGINE_TASK_H

#include "runtime/memory/memory.h"

/* Plan and memory of task i for dims: a new args when the plan changed, args_set where only memory did. */
TN_MUST_CHECK tn_status tni_task_attach(tn_session *s, tni_sexec *x, uint32_t i, const int64_t *dims, tn_error *err);
/* Task i of the CPU (or what stands in for an engine's task in reference mode), here and now. */
TN_MUST_CHECK tn_status tni_task_run(tn_session *s, tni_sexec *x, uint32_t i, tn_error *err);
/* Its plugin's part alone, for plain tasks: any thread, with a run of its own. */
TN_MUST_CHECK tn_status tni_task_compute(tni_sexec *x, uint32_t i, tn_run *run, tn_error *err);
/* Its device memory becomes the CPU's (mapped) or the device's. */
TN_MUST_CHECK tn_status tni_task_own(tn_session *s, tni_sexec *x, uint32_t i, bool cpu, tn_error *err);
/* Whether task i is looked at when it has run (s->watch). */
bool tni_task_is_watched(const tn_session *s, const tni_sexec *x, uint32_t i);
/* What watches tasks (s->watch). Nothing of the task is in flight. */
TN_MUST_CHECK tn_status tni_task_before(tn_session *s, tni_sexec *x, uint32_t i, tn_error *err);
TN_MUST_CHECK tn_status tni_task_after(tn_session *s, tni_sexec *x, uint32_t i, tn_error *err);
/* clock: 0, TN_CLOCK_DEVICE, TN_CLOCK_VIRTUAL. */
void tni_task_trace(const tn_session *s, const tni_sexec *x, uint32_t i, const char *track, int64_t start, int64_t end,
                    uint32_t clock);
/* Its args, before memory or a plan that they name goes; and its plans. */
void tni_task_drop_args(tni_sexec *x, uint32_t i);
void tni_task_release(tni_sexec *x, uint32_t i);

#endif
