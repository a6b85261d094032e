/* SPDX-License-Identifier: Apache-2.0
 *
 * A thread that does one thing at a time for a session: submissions to an engine that blocks, tasks beside others.
 *
 * Owned by one thread, which gives work and stops it. Giving allocates nothing.
 */
#ifndef TENON_BASE_HAND_H
#define TENON_BASE_HAND_H

#include <stdbool.h>
#include <tenon/types.h>

typedef struct tni_hand tni_hand;

/* NULL: the system gives no thread. */
tni_hand *tni_hand_start(void);
/* fn(arg) on its thread. It must be free: whoever counts on fn having run learns so from fn. */
void tni_hand_give(tni_hand *h, void (*fn)(void *), void *arg);
/* Waits for what it does. NULL is fine. */
void tni_hand_stop(tni_hand *h);
/* It will not come back from what it does: its memory is left to it. */
void tni_hand_abandon(tni_hand *h);

#endif
