/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/plugin/ticket.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/base/base.h"
#include "runtime/plugin/check.h"

tn_status tni_waker_init(tni_waker *w) {
  pthread_condattr_t a;
  memset(w, 0, sizeof *w);
  if (pthread_mutex_init(&w->lock, NULL) != 0) return TN_E_NO_MEMORY;
  int bad = pthread_condattr_init(&a);
  if (!bad) {
    pthread_condattr_setclock(&a, CLOCK_MONOTONIC);
    bad = pthread_cond_init(&w->cond, &a);
    pthread_condattr_destroy(&a);
  }
  if (!bad) return TN_OK;
  pthread_mutex_destroy(&w->lock);
  return TN_E_NO_MEMORY;
}

void tni_waker_finish(tni_waker *w) {
  pthread_mutex_lock(&w->lock); /* a ticket is DONE before its done() has left the lock */
  pthread_mutex_unlock(&w->lock);
  pthread_cond_destroy(&w->cond);
  pthread_mutex_destroy(&w->lock);
}

/* --- state: which time of being armed, and where in it --- */

enum { IN_STATE = 3 };

static unsigned state_of(unsigned time, unsigned where) { return time << 2 | where; }
static unsigned time_of(unsigned state) { return state >> 2; }

/* Of a ticket that has been in use before the count goes on: handles of then are old ones. */
void tni_ticket_init(tn_ticket *t, tni_waker *w, const tni_log *log, const char *what) {
  const unsigned before = time_of(atomic_load_explicit(&t->state, memory_order_relaxed)) % TNI_TICKET_ALIGN;
  atomic_store_explicit(&t->state, state_of(before, TNI_TICKET_IDLE), memory_order_release);
  t->status = TN_OK;
  t->waker = w;
  t->log = log;
  snprintf(t->what, sizeof t->what, "%s", what ? what : "a submitted item");
  t->user = NULL;
}

tn_ticket *tni_ticket_handle(tn_ticket *t) {
  return (tn_ticket *)((char *)t + time_of(atomic_load_explicit(&t->state, memory_order_relaxed)));
}

tn_ticket *tni_ticket_arm(tn_ticket *t) {
  const unsigned before = time_of(atomic_load_explicit(&t->state, memory_order_relaxed));
  const unsigned now = before + 1 < TNI_TICKET_ALIGN ? before + 1 : 1;
  t->status = TN_OK;
  memset(&t->times, 0, sizeof t->times);
  tni_error_init(&t->error);
  atomic_store_explicit(&t->state, state_of(now, TNI_TICKET_ARMED), memory_order_release);
  return tni_ticket_handle(t);
}

int tni_ticket_disarm(tn_ticket *t) {
  const unsigned now = time_of(atomic_load_explicit(&t->state, memory_order_relaxed));
  unsigned expected = state_of(now, TNI_TICKET_ARMED);
  return atomic_compare_exchange_strong(&t->state, &expected, state_of(now, TNI_TICKET_IDLE));
}

int tni_ticket_is_done(const tn_ticket *t) {
  return (atomic_load_explicit(&t->state, memory_order_acquire) & IN_STATE) == TNI_TICKET_DONE;
}

static void fill_ticket(tn_ticket *t, tn_status st, const tn_times *times, const tn_error *err) {
  t->status = st;
  if (times && times->h.size >= sizeof(tn_hdr))
    memcpy(&t->times, times, times->h.size < sizeof t->times ? times->h.size : sizeof t->times);
  t->times.h = (tn_hdr)TN_HDR(tn_times);
  if (err && err->h.size >= TN_UPTO(tn_error, where)) tni_error_copy(&t->error, err);
}

void tni_ticket_done(tn_ticket *handle, tn_status st, const tn_times *times, const tn_error *err) {
  const unsigned time = (uintptr_t)handle % TNI_TICKET_ALIGN;
  tn_ticket *t = (tn_ticket *)((uintptr_t)handle - time);
  unsigned expected = state_of(time, TNI_TICKET_ARMED);
  if (!t) return;
  if (!atomic_compare_exchange_strong(&t->state, &expected, state_of(time, TNI_TICKET_FILLING))) {
    const bool idle = (expected & IN_STATE) == TNI_TICKET_IDLE;
    tni_log_line(t->log, TN_LOG_ERROR, "%s: done was called %s; ignored", t->what,
                 time_of(expected) != time ? "for an item of an earlier step"
                 : idle                    ? "for an item that is not submitted"
                                           : "twice for one item");
    return;
  }
  fill_ticket(t, st, times, err);
  tni_waker *w = t->waker;
  pthread_mutex_lock(&w->lock);
  w->completed++;
  atomic_store_explicit(&t->state, state_of(time, TNI_TICKET_DONE), memory_order_release);
  if (w->hook) w->hook(w->user, t);
  pthread_cond_broadcast(&w->cond);
  pthread_mutex_unlock(&w->lock);
}

int tni_waker_sleep(tni_waker *w, int64_t deadline) {
  if (deadline == INT64_MAX) return pthread_cond_wait(&w->cond, &w->lock) == ETIMEDOUT;
  struct timespec ts = {.tv_sec = (time_t)(deadline / 1000000000), .tv_nsec = (long)(deadline % 1000000000)};
  return pthread_cond_timedwait(&w->cond, &w->lock, &ts) == ETIMEDOUT;
}

tn_status tni_ticket_wait(tn_ticket *t, int64_t timeout_ns, tn_error *err) {
  int64_t deadline = INT64_MAX;
  if (timeout_ns >= 0 && __builtin_add_overflow(tni_now_ns(), timeout_ns, &deadline)) deadline = INT64_MAX;
  tni_waker *w = t->waker;
  int late = 0;
  pthread_mutex_lock(&w->lock);
  while (!tni_ticket_is_done(t) && !late) late = tni_waker_sleep(w, deadline);
  bool done = tni_ticket_is_done(t);
  pthread_mutex_unlock(&w->lock);
  if (done) return TN_OK;
  return tni_fail(err, TN_E_DEVICE_LOST, t->what, "%s did not complete within %" PRId64 " ms", t->what,
                  timeout_ns / 1000000);
}

/* --- pool -------------------------------------------------------------------------------------------------------- */

enum { SLAB = 16 };

struct tni_ticket_slab {
  tn_ticket tickets[SLAB];
  struct tni_ticket_slab *next;
};

tn_status tni_tickets_init(tni_tickets *p) {
  *p = (tni_tickets){.free = NULL};
  return pthread_mutex_init(&p->lock, NULL) == 0 ? TN_OK : TN_E_NO_MEMORY;
}

void tni_tickets_finish(tni_tickets *p) {
  while (p->slabs && !p->left) {
    struct tni_ticket_slab *next = p->slabs->next;
    free(p->slabs);
    p->slabs = next;
  }
  pthread_mutex_destroy(&p->lock);
}

void tni_tickets_leave(tni_tickets *p) {
  pthread_mutex_lock(&p->lock);
  p->left = true;
  pthread_mutex_unlock(&p->lock);
}

static void add_slab(tni_tickets *p) {
  struct tni_ticket_slab *s = aligned_alloc(TNI_TICKET_ALIGN, sizeof *s);
  if (!s) return;
  memset(s, 0, sizeof *s);
  s->next = p->slabs;
  p->slabs = s;
  for (int i = SLAB; i-- > 0;) {
    s->tickets[i].next = p->free;
    p->free = &s->tickets[i];
  }
}

tn_ticket *tni_tickets_take(tni_tickets *p) {
  pthread_mutex_lock(&p->lock);
  if (!p->free) add_slab(p);
  tn_ticket *t = p->free;
  if (t) p->free = t->next;
  pthread_mutex_unlock(&p->lock);
  return t;
}

void tni_tickets_give(tni_tickets *p, tn_ticket *t) {
  if (!t) return;
  const unsigned time = time_of(atomic_load_explicit(&t->state, memory_order_relaxed));
  atomic_store_explicit(&t->state, state_of(time, TNI_TICKET_IDLE), memory_order_release);
  pthread_mutex_lock(&p->lock);
  t->next = p->free;
  p->free = t;
  pthread_mutex_unlock(&p->lock);
}
