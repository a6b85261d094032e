/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs the task graph of a placement: every task as soon as what it waits for is done.
 *
 * Tasks of the CPU run here, one at a time with the whole pool. Tasks of an engine are submitted together with all that
 * follow them on the same engine: it works in order, so those need not wait for each other. A whole step that one
 * engine takes is one submit. An engine that blocks has a thread of its own, which lends it the pool. What engines have
 * completed is learnt from tickets; device memory changes hands on this thread only, so a CPU task whose memory an item
 * in flight uses waits for it, unless CPU and device may use it at once.
 *
 * With model->order_seed tasks are taken in random orders, and those of the CPU that touch host memory only run on
 * several threads: whatever the graph allows must give the same bits.
 *
 * With a device on a virtual clock, what happens depends on that clock alone (vclock.h): completions are taken all at
 * once, and a CPU task runs beside engines only where none of them can have anything earlier for it.
 *
 * Several pieces of a prompt may be in flight: one graph of all their tasks, numbered piece after piece.
 *
 * Everything is allocated when the executor is made; a run allocates nothing, unless memory of its placement was
 * planned anew or another number of pieces is run. One run at a time.
 *
 * Errors: the first one ends the run when all that is in flight has come back. An engine that completes nothing for
 * profile.timeout_ms is lost (TN_E_DEVICE_LOST): what it may still write is left to it until it is closed (for ever,
 * where it hangs in submit), and every later run of the session says the same.
 */
#ifndef TENON_ENGINE_EXECUTOR_H
#define TENON_ENGINE_EXECUTOR_H

#include "runtime/memory/memory.h"

typedef struct tni_executor tni_executor;

/* Whether x needs one: engines, or an order_seed. Else its tasks run as they stand. */
bool tni_executor_wanted(const tn_model *m, const tni_exec *x);

/* Memory and threads for at most `pieces` of a prompt at once; x->exec's tasks are final. */
TN_MUST_CHECK tn_status tni_executor_create(tn_session *s, tni_sexec *x, uint32_t pieces, tni_executor **out,
                                            tn_error *err);
void tni_executor_destroy(tni_executor *e);

/* All tasks of xs[0..n), once. They are states of one placement, for pieces of a prompt in their order: what touches a
 * cache waits for what touches it in the piece before. Plans and memory are attached. */
TN_MUST_CHECK tn_status tni_executor_run(tni_executor *e, tni_sexec *const *xs, uint32_t n, tn_error *err);

#endif
