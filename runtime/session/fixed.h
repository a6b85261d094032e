/* SPDX-License-Identifier: Apache-2.0
 *
 * States of fixed size in a session that keeps its caches: what a run makes of one is what the next run begins with.
 *
 * Such a state holds all positions at once, so none of them can be taken back: a session goes back to where the state
 * was remembered, or to the beginning, and nowhere else. Who has the tokens runs them again. One place is remembered:
 * where the last step of more than one position began, which is where a prompt or an answer that is thrown away began.
 */
#ifndef TENON_SESSION_FIXED_H
#define TENON_SESSION_FIXED_H

#include "runtime/session/session_tasks.h"

/* Before a step of n positions. */
TN_MUST_CHECK tn_status tni_fixed_remember(tn_session *s, int64_t n, tn_error *err);
/* After a step: its states are the next one's. */
TN_MUST_CHECK tn_status tni_fixed_carry(tn_session *s, struct tni_sexec *x, tn_error *err);
/* TN_E_LIMIT: the states cannot go back to n positions. */
TN_MUST_CHECK tn_status tni_fixed_can_rewind(const tn_session *s, int64_t n, tn_error *err);
/* They do. */
void tni_fixed_rewind(tn_session *s, int64_t n);
/* dst's states are src's at n positions; both keep, with one batch. */
TN_MUST_CHECK tn_status tni_fixed_share(tn_session *dst, const tn_session *src, int64_t n, tn_error *err);
void tni_fixed_release(tn_session *s);
/* Bytes of the states, of what is remembered of them too. */
uint64_t tni_fixed_bytes(const tn_model *m, const int64_t *dims, uint32_t n);

#endif
