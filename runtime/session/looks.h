/* SPDX-License-Identifier: Apache-2.0
 *
 * NaN and infinities that a model would not have without a plugin (`watch` of profiles).
 *
 * Every step the last row of each output is looked at, of each sequence that a session keeps, and every N-th step what
 * one task of a plugin wrote. Where an output has a NaN, the step is run once more and every task of a plugin is looked
 * at: the caches are as they were, for only a step that succeeds makes them longer. What the reference does not have is
 * the plugin's, which is lost then (runtime/oracle/tasks/suspect.c); else the session stops looking at outputs for a
 * while, twice as long each time. Tasks in memory that only their device can reach are not looked at.
 */
#ifndef TENON_SESSION_LOOKS_H
#define TENON_SESSION_LOOKS_H

#include "runtime/memory/memory.h"

/* s->looks and s->watch from the profile. Nothing is looked at where s has no task of a plugin, or has them all
 * compared anyway (TN_MODEL_CAPTURE and such). */
void tni_looks_init(tn_session *s);
/* Before and after a step of xs[0]: chooses the task that is looked at, and forgets it. */
void tni_looks_begin(tn_session *s, const tni_sexec *x);
void tni_looks_end(tn_session *s);
/* A step of x, its last piece, was run. The output with a NaN or an infinity, or NULL. */
const char *tni_looks_output(tn_session *s, tni_sexec *x);
/* The step is to be run again, every task looked at; then tni_looks_end. */
void tni_looks_all(tn_session *s);
/* And nobody was accused. output: that of the first time; now: of the second, or NULL. */
void tni_looks_settle(tn_session *s, const char *output, const char *now);

#endif
