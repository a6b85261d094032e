/* SPDX-License-Identifier: Apache-2.0
 *
 * Completion of submitted items: what stands behind the ABI's tn_ticket.
 *
 * Life of a ticket: init -> arm (before submit) -> done (by the plugin, from any thread, also inside submit) -> read
 * status, times and error -> arm again. Its waker belongs to the session and outlives its tickets. done takes only the
 * waker's lock, a leaf that nobody holds across a plugin call.
 *
 * What a plugin is given is a handle: the ticket's address and, in the bits that its alignment leaves free, which time
 * of being armed it is. A done for an item of an earlier time (again, too late) is seen to be that, and only logged: it
 * cannot complete what is in flight now. Tickets that plugins get come from a pool (tni_tickets) that keeps their
 * memory until all devices are closed, so that a done after a session is gone is a line in the log too.
 */
#ifndef TENON_PLUGIN_TICKET_H
#define TENON_PLUGIN_TICKET_H

#include <pthread.h>
#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>

#include <tenon/plugin.h>

#include "runtime/base/base.h"

/* Where waiting threads sleep. hook (may be NULL) is called by done under the lock, once per completed ticket: it must
 * not block and may push the ticket on a queue of its owner. */
typedef struct tni_waker {
  pthread_mutex_t lock;
  pthread_cond_t cond;
  void (*hook)(void *user, tn_ticket *t);
  void *user;
  uint64_t completed; /* under lock: tickets so far */
} tni_waker;

TN_MUST_CHECK tn_status tni_waker_init(tni_waker *w);
/* No ticket of it is armed. Waits for a done that is just leaving. */
void tni_waker_finish(tni_waker *w);
/* With w->lock held: until something completes (or no reason), or deadline on tni_now_ns's clock. nonzero: it passed.
 */
int tni_waker_sleep(tni_waker *w, int64_t deadline);

enum { TNI_TICKET_IDLE = 0, TNI_TICKET_ARMED = 1, TNI_TICKET_FILLING = 2, TNI_TICKET_DONE = 3 };

/* Handles tell so many times of being armed apart, 1 .. 1023 and over again. */
enum { TNI_TICKET_ALIGN = 1024 };

struct tn_ticket {
  alignas(TNI_TICKET_ALIGN) atomic_uint state; /* TNI_TICKET_*, and times armed << 2 */
  tn_status status;                            /* as the plugin gave it: pass it through tni_plugin_result */
  tn_times times;                              /* zeros where none were given */
  tn_error error;                              /* sanitized copy; code 0 where none was given */
  tni_waker *waker;
  const tni_log *log;
  char what[96]; /* plugin and task, for messages */
  void *user;    /* the owner's */
  tn_ticket *next;
};

/* t: zeroed, or from a pool. */
void tni_ticket_init(tn_ticket *t, tni_waker *w, const tni_log *log, const char *what);
/* Before each submit. What item.ticket is to be. */
tn_ticket *tni_ticket_arm(tn_ticket *t);
/* The handle of the last arm. */
tn_ticket *tni_ticket_handle(tn_ticket *t);
/* After a submit that failed took nothing: back to idle. false: done was called nevertheless (a plugin's bug). */
int tni_ticket_disarm(tn_ticket *t);
int tni_ticket_is_done(const tn_ticket *t);
/* Until done or timeout_ns (negative: for ever). TN_E_DEVICE_LOST at the timeout: the plugin may still write what the
 * item names, so its memory must be leaked. TN_OK says that it completed, not that it succeeded. */
TN_MUST_CHECK tn_status tni_ticket_wait(tn_ticket *t, int64_t timeout_ns, tn_error *err);

/* host->done. t: a handle. One whose ticket is not armed any more (done twice, of an earlier step or session, never
 * submitted) is only logged. */
void tni_ticket_done(tn_ticket *t, tn_status st, const tn_times *times, const tn_error *err);

/* Memory of tickets. Any thread. */
typedef struct tni_tickets {
  pthread_mutex_t lock;
  tn_ticket *free;
  struct tni_ticket_slab *slabs;
  bool left;
} tni_tickets;
TN_MUST_CHECK tn_status tni_tickets_init(tni_tickets *p);
/* All devices are closed. */
void tni_tickets_finish(tni_tickets *p);
/* Somebody hangs in a plugin and may call done for ever: nothing is freed at the end. */
void tni_tickets_leave(tni_tickets *p);
/* To be initialised; NULL without memory. */
tn_ticket *tni_tickets_take(tni_tickets *p);
/* One that is not armed. NULL is fine. */
void tni_tickets_give(tni_tickets *p, tn_ticket *t);

#endif
