/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory of a session for given dims: sizes (sizes.h), offsets, buffers, and how tasks see it.
 */
#ifndef TENON_MEMORY_SESSION_MEMORY_H
#define TENON_MEMORY_SESSION_MEMORY_H

#include "runtime/memory/run.h"

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
/* Whether the CPU can be given all that task i reads and writes: memory that no CPU task uses may be its device's alone. */
bool tni_task_is_reachable(const tn_session *s, const tni_sexec *x, uint32_t i);
/* How region r is seen by an engine of device dev, or by a CPU task (dev TN_NONE), and the scratch of task i. */
void tni_region_view(const tn_session *s, const tni_sexec *x, uint32_t r, uint32_t dev, tn_view *v);
void tni_scratch_view(const tni_sexec *x, uint32_t i, tn_view *v);

#endif
