/* SPDX-License-Identifier: Apache-2.0
 *
 * Long work asks its tn_run whether it is to stop: about once in TNI_POLL elements, which take 0.1 to 1 ms, never for
 * each of them.
 */
#ifndef TENON_BASE_POLL_H
#define TENON_BASE_POLL_H

#include <stdbool.h>
#include <tenon/plugin.h>

enum { TNI_POLL = 1 << 17, TNI_POLL_BLOCK = TNI_POLL / 8 };

/* One thread's; {run, TNI_POLL} to begin with, {run, 0} where it is to ask at once. */
typedef struct tni_poll {
  const tn_run *run; /* NULL: nobody stops it */
  int64_t left;      /* elements until it asks again */
} tni_poll;

bool tni_run_cancelled(const tn_run *run);
bool tni_poll_ask(tni_poll *p);
int64_t tni_poll_next(tni_poll *p, int64_t at);

/* Whether somebody who asked was told to stop. */
static inline bool tni_poll_stopped(const tni_poll *p) { return p->left < 0; }

/* `work` more elements are about to be done, work >= 0. True: stop here; nobody wants what was computed. */
static inline bool tni_poll_stop(tni_poll *p, int64_t work) {
  p->left -= work;
  return p->left < 0 && tni_poll_ask(p);
}

/* For loops too tight to ask at each element: [at, result) of n may be done before the next call; at: none is left, or
 * it is to stop. Asks between blocks only, so that what is short costs nothing.
 *   for (int64_t i = 0, to; (to = tni_poll_until(&poll, i, n)) > i;)
 *     for (; i < to; i++) ... */
static inline int64_t tni_poll_until(tni_poll *p, int64_t at, int64_t n) {
  return n - at <= TNI_POLL_BLOCK ? n : tni_poll_next(p, at);
}

#endif
