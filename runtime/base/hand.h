/* SPDX-License-Identifier: Apache-2.0
 *
 * A thread that does one thing at a time for a session: submissions to an engine that blocks, tasks beside others.
 *
 * Owned by one thread, which gives work and stops it. Giving allocates nothing.
 */
#ifndef TENON_BASE_HAND_H
#define TENON_BASE_HAND_H

#include <pthread.h>
#include <stdbool.h>
#include <tenon/types.h>

typedef struct tni_hand tni_hand;

/* pthread_create, in which no signal of the application's comes: all are blocked but those of faults and of profilers.
 * A thread that a plugin starts from there inherits that. */
int tni_quiet_thread(pthread_t *t, void *(*fn)(void *), void *arg);
/* fn(arg) on such a thread, to its end. The caller's own thread goes on taking signals. False: the system gives none,
 * and nothing was done. */
TN_MUST_CHECK bool tni_quiet_do(void (*fn)(void *), void *arg);

/* NULL: the system gives no thread. */
tni_hand *tni_hand_start(void);
/* fn(arg) on its thread. It must be free: whoever counts on fn having run learns so from fn. */
void tni_hand_give(tni_hand *h, void (*fn)(void *), void *arg);
/* Waits for what it does. NULL is fine. */
void tni_hand_stop(tni_hand *h);
/* It will not come back from what it does: its memory is left to it. */
void tni_hand_abandon(tni_hand *h);

#endif
