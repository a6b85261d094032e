/* SPDX-License-Identifier: Apache-2.0
 *
 * The caches of a session: memory, and the user's view of it.
 *
 * Every cache of the graph (tni_gstate) is one memory (devmem.h), in the layout that all devices agreed on. Where
 * nobody asks for another it is [batch, heads, rows, size], whatever the model declares: what a head reads lies in one
 * piece (heads side by side in each row cost a CPU two thirds of its bandwidth). A plain run loads the caller's past
 * into it, and gives present out of it; a session that keeps its caches (step.c) does neither.
 */
#ifndef TENON_SESSION_STATE_H
#define TENON_SESSION_STATE_H

#include "runtime/memory/memory.h"

/* Room for them at these dims (batch and the like count, the sequence does not). What the caches hold is lost where
 * they grow. exact: not a byte more than asked for. */
TN_MUST_CHECK tn_status tni_states_fit(tn_session *s, const int64_t *dims, int64_t positions, int64_t step, bool exact,
                                       tn_error *err);
/* Bytes of all caches at dims. */
TN_MUST_CHECK tn_status tni_states_bytes(const tn_model *m, const int64_t *dims, int64_t positions, int64_t step,
                                         uint64_t *bytes, tn_error *err);
void tni_states_release(tn_session *s);
/* Points the STATE regions of x at the memory, with its strides. *moved: some pointed elsewhere before. */
void tni_states_attach(tn_session *s, tni_sexec *x, bool *moved);
/* The caller's past tensors (s->inputs) into the caches. */
TN_MUST_CHECK tn_status tni_states_load(tn_session *s, tn_error *err);
/* The present output of cache k with `rows` positions, copied into memory of the session. */
TN_MUST_CHECK tn_status tni_states_present(tn_session *s, uint32_t k, int64_t rows, tn_tensor *out, tn_error *err);
/* dst's caches begin with the first n positions of src's, of rings the last of those. */
TN_MUST_CHECK tn_status tni_states_share(tn_session *dst, const tn_session *src, int64_t n, tn_error *err);
/* The same where the sessions are of two placements of one model, whose caches may differ in dtype, order and rows:
 * rows are converted. TN_E_DEVICE_LOST: what src holds was in a lost device's own memory. */
TN_MUST_CHECK tn_status tni_states_move(tn_session *dst, const tn_session *src, int64_t n, tn_error *err);
/* Gives the memory back before the session ends. */
void tni_states_drop(tn_session *s);
/* Positions up to `valid` are about to be written: rings forget what lay there. */
void tni_states_wrote(tn_session *s, int64_t valid);
/* TN_E_LIMIT with the cache's name where a ring has lost what a query at position n may look at. */
TN_MUST_CHECK tn_status tni_states_hold(const tn_session *s, int64_t n, tn_error *err);
/* There are no positions any more. */
void tni_states_forget(tn_session *s);
/* m->state_layouts and state_windows: dtype and order of every cache, and whether it is a ring. After place, before
 * lowering. What the profile wants (kv, kv_ring) where all devices agree. */
TN_MUST_CHECK tn_status tni_states_layouts(tn_model *m, tn_error *err);
/* The axis of the memory ([batch, heads, rows, size]) that dim `dim` of the view is. flat: the value has rank 3. */
uint32_t tni_state_axis(bool flat, uint32_t dim);
/* Dim `axis` of value v; an error that names it. */
TN_MUST_CHECK tn_status tni_state_dim(const tn_model *m, tn_id v, uint32_t axis, const int64_t *dims, int64_t *out,
                                      tn_error *err);
/* Rows before this run, and with it, as the STEP values of the caches have them. */
TN_MUST_CHECK tn_status tni_states_lengths(const tn_model *m, const int64_t *dims, int64_t *pos, int64_t *valid,
                                           tn_error *err);

#endif
