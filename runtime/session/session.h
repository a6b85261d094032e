/* SPDX-License-Identifier: Apache-2.0
 *
 * Parts of a session: symbols from inputs (bind.c), memory for given dims (memory.c), tasks (task.c), plain runs
 * (session.c), caches that are kept (state.c, step.c).
 */
#ifndef TENON_SESSION_SESSION_H
#define TENON_SESSION_SESSION_H

#include "runtime/session/internal.h"

/* dims[n_symbols] from the inputs of this call; -1: of no input. Wrong ranks, dtypes, contradicting dims and such as
 * leave open what an axis is are TN_E_INVALID naming the input. in[i] belongs to graph input i. */
TN_MUST_CHECK tn_status tni_bind_symbols(const tn_model *m, const tn_tensor *const *in, int64_t *dims, tn_error *err);

/* Inputs are matched and dims bound (s->inputs, s->dims): memory, plans and views of x, as far as dims or memory
 * changed since its last run. */
TN_MUST_CHECK tn_status tni_session_prepare(tn_session *s, tni_sexec *x, tn_error *err);
/* Lengths (x->pos, x->valid) into the STEP values of the caches, then all tasks of xs[0..n) in an order that their
 * graph allows. More than one needs an executor. */
TN_MUST_CHECK tn_status tni_session_tasks(tn_session *s, tni_sexec *const *xs, uint32_t n, tn_error *err);
/* Graph output v, filled with memory of the session. */
TN_MUST_CHECK tn_status tni_session_output(tn_session *s, tni_sexec *x, tn_id v, tn_tensor *out, tn_error *err);
tni_sexec *tni_session_exec(tn_session *s, uint32_t phase);

/* Plan and memory of task i for dims: a new args when the plan changed, args_set where only memory did. */
TN_MUST_CHECK tn_status tni_task_attach(tn_session *s, tni_sexec *x, uint32_t i, const int64_t *dims, tn_error *err);
/* Task i of the CPU (or what stands in for an engine's task in reference mode), here and now. */
TN_MUST_CHECK tn_status tni_task_run(tn_session *s, tni_sexec *x, uint32_t i, tn_error *err);
/* Its plugin's part alone, for plain tasks: any thread, with a run of its own. */
TN_MUST_CHECK tn_status tni_task_compute(tni_sexec *x, uint32_t i, tn_run *run, tn_error *err);
/* Whether it is for an engine. */
bool tni_task_is_submitted(const tn_model *m, const tni_exec *x, uint32_t i);
/* Whether tasks of x may run at once: more than one engine, or one and the CPU. */
bool tni_exec_overlaps(const tn_model *m, const tni_exec *x);
/* Its device memory becomes the CPU's (mapped) or the device's. */
TN_MUST_CHECK tn_status tni_task_own(tn_session *s, tni_sexec *x, uint32_t i, bool cpu, tn_error *err);
/* What watches tasks: calibration before, capture after. Nothing of the task is in flight. */
TN_MUST_CHECK tn_status tni_task_before(tn_session *s, tni_sexec *x, uint32_t i, tn_error *err);
TN_MUST_CHECK tn_status tni_task_after(tn_session *s, tni_sexec *x, uint32_t i, tn_error *err);
/* clock: 0, TN_CLOCK_DEVICE, TN_CLOCK_VIRTUAL. */
void tni_task_trace(const tn_session *s, const tni_sexec *x, uint32_t i, const char *track, int64_t start, int64_t end,
                    uint32_t clock);
/* Its args, before memory or a plan that they name goes; and its plans. */
void tni_task_drop_args(tni_sexec *x, uint32_t i);
void tni_task_release(tni_sexec *x, uint32_t i);

/* Arrays of a zeroed state of a placement; head: its first state, or x itself. Memory of the session's arena. */
TN_MUST_CHECK tn_status tni_sexec_init(tn_session *s, tni_sexec *x, tni_exec *exec, tni_sexec *head);

/* Sizes, offsets and buffers of every region for dims; writes STEP values. Host memory grows, never shrinks. */
TN_MUST_CHECK tn_status tni_memory_plan(tn_session *s, tni_sexec *x, const int64_t *dims, tn_error *err);
/* The first plan of x will have room for these dims too. Before it, as often as needed. */
TN_MUST_CHECK tn_status tni_memory_reserve(tn_session *s, tni_sexec *x, const int64_t *dims, tn_error *err);
/* Whether several devices, or (cpu) the CPU and devices, may read region r at once. */
bool tni_region_is_shared(const tni_sexec *x, uint32_t r, bool cpu);
/* Sizes only: arena and outputs bytes that a session with room for all of dims[n] would take (the memory statement). */
TN_MUST_CHECK tn_status tni_memory_measure(tn_model *m, tni_exec *x, const int64_t *const *dims, uint32_t n,
                                           uint64_t *arena, uint64_t *outputs, uint64_t *scratch, tn_error *err);
void tni_memory_release(tn_session *s, tni_sexec *x);
/* Destroys m, unless a device that is lost may still write what the host gave it: then it is leaked. */
void tni_memory_free(const tn_session *s, tni_mem *m);

/* Inputs and STEP values to the devices whose engines read them. Once per step, when both are written. */
TN_MUST_CHECK tn_status tni_memory_feed(tn_session *s, tni_sexec *x, tn_error *err);

/* Hands region r to the CPU (dev TN_NONE; x->regions[r].ptr is set) or to device dev's engines; access as in
 * tni_span_take. Regions that are plain need nothing. One call of a session at a time. */
TN_MUST_CHECK tn_status tni_region_take(tn_session *s, tni_sexec *x, uint32_t r, uint32_t dev, uint32_t access,
                                        tn_error *err);
/* The CPU reaches it at any time at one address. */
static inline bool tni_region_is_plain(const tni_exec *x, uint32_t r) {
  const tni_region *p = &x->regions[r];
  return !p->users.devices || p->kind == TNI_R_INPUT || p->kind == TNI_R_STEP;
}
/* How region r is seen by an engine of device dev, or by a CPU task (dev TN_NONE), and the scratch of task i. */
void tni_region_view(const tn_session *s, const tni_sexec *x, uint32_t r, uint32_t dev, tn_view *v);
void tni_scratch_view(const tni_sexec *x, uint32_t i, tn_view *v);

#endif
