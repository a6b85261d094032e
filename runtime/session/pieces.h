/* SPDX-License-Identifier: Apache-2.0
 *
 * Several pieces of a prompt in flight, where a device of the prefill placement takes one length only (tni_exec.chunk).
 *
 * A longer step is cut into pieces of that length. Each has memory, inputs and lengths of its own (a tni_sexec) and
 * shares plans and caches with the others; all of their tasks are one graph, in which only attention waits for the
 * piece before (order.c). So one piece's products can run beside another's attention. The results are the bits that
 * pieces one after the other give: every task reads the same numbers.
 *
 * How many: as many as the prompt has, at most profile.chunks_in_flight, and what they take together at most
 * profile.memory; but four are always allowed, since fewer leave engines idle. Memory of a piece is made when it first
 * is in flight.
 */
#ifndef TENON_SESSION_PIECES_H
#define TENON_SESSION_PIECES_H

#include "runtime/memory/memory.h"

enum { TNI_PIECES_MAX = 64, TNI_PIECES_FLOOR = 4 };

/* How many of a prompt of `positions` may be in flight on x, where one takes `bytes`; 1 where x has no fixed length. */
uint32_t tni_pieces_most(const tn_model *m, const tni_exec *x, int64_t positions, uint64_t bytes);

/* Decides how many there will be; s->keep and the dims of its largest step are known. */
TN_MUST_CHECK tn_status tni_pieces_plan(tn_session *s, tn_error *err);
/* A step of n positions, more than one piece. The session's length goes on by n; a failure changes nothing. out as in
 * tn_session_step. */
TN_MUST_CHECK tn_status tni_pieces_step(tn_session *s, tni_sexec *x, const tn_tensor *const *in, tn_tensor *const *out,
                                        int64_t n, uint32_t rows, tn_error *err);
/* Before the session's own tasks and memory go. */
void tni_pieces_release(tn_session *s);

#endif
