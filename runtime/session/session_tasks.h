/* SPDX-License-Identifier: Apache-2.0
 *
 * Parts of a session: symbols from inputs (bind.c), what a run does with memory and tasks (session_tasks.c), plain runs
 * (session_run.c).
 */
#ifndef TENON_SESSION_SESSION_TASKS_H
#define TENON_SESSION_SESSION_TASKS_H

#include "runtime/memory/memory.h"

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

/* Arrays of a zeroed state of a placement; head: its first state, or x itself. Memory of the session's arena. */
TN_MUST_CHECK tn_status tni_sexec_init(tn_session *s, tni_sexec *x, tni_exec *exec, tni_sexec *head);

TN_MUST_CHECK tn_status tni_check_phase(uint32_t phase, tn_error *err);

#endif
