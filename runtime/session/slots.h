/* SPDX-License-Identifier: Apache-2.0
 *
 * Sequences of lengths of their own in one session (TN_KEEP_SLOTS): tn_session_step_slots.
 *
 * The caches have a row of the batch for each slot. A step runs slots [first, first + count) as a batch of `count`: the
 * regions of the caches point at the first of them, and the STEP values of the caches say for each where its rows begin
 * and end (tn_session.row_pos). All else, products above all, sees a batch as any other. keep->batch is the count of
 * the step under way.
 */
#ifndef TENON_SESSION_SLOTS_H
#define TENON_SESSION_SLOTS_H

#include "runtime/memory/memory.h"

typedef struct tni_sequences {
  uint32_t n;
  int64_t *length; /* [n] */
  int64_t *held;   /* [n][n_states] first position that is still there, of rings */
  uint32_t first;  /* of the step under way */
} tni_sequences;

/* Why sequences of m cannot have lengths of their own; NULL: they can. */
const char *tni_slots_refusal(const tn_model *m);
/* s->keep is there, with its batch. On the session's arena. */
TN_MUST_CHECK tn_status tni_slots_make(tn_session *s, tn_error *err);
/* Inputs are for `count` slots from `first` on, each with n positions more, at a context of total. */
void tni_slots_aim(tn_session *s, uint32_t first, uint32_t count, int64_t n, int64_t total);
/* n positions more are about to be written in the slots aimed at: rings forget what lay there. */
void tni_slots_wrote(tn_session *s, int64_t n);
/* [n_states] of a slot: first position that its rings still have. */
int64_t *tni_slots_held(const tn_session *s, uint32_t slot);
/* Bytes of one slot of input i, a state of fixed size. */
uint64_t tni_slots_state_bytes(const tn_session *s, uint32_t i);
/* A slot's states of fixed size are zero, and its rings have nothing. */
void tni_slots_clear(tn_session *s, uint32_t slot);
/* What slots of from have goes on in to, which keeps as many; both of one model, or placed again for the other. */
TN_MUST_CHECK tn_status tni_slots_move(tn_session *to, tn_session *from, tn_error *err);

#endif
