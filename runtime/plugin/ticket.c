/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/plugin/ticket.h"

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

#include "runtime/base/clock.h"
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

void tni_waker_poke(tni_waker *w) {
  pthread_mutex_lock(&w->lock);
  pthread_cond_broadcast(&w->cond);
  pthread_mutex_unlock(&w->lock);
}

void tni_ticket_init(tn_ticket *t, tni_waker *w, const tni_log *log, const char *what) {
  memset(t, 0, sizeof *t);
  atomic_init(&t->state, TNI_TICKET_IDLE);
  t->waker = w;
  t->log = log;
  t->what = what;
}

void tni_ticket_arm(tn_ticket *t) {
  t->status = TN_OK;
  memset(&t->times, 0, sizeof t->times);
  tni_error_init(&t->error);
  atomic_store_explicit(&t->state, TNI_TICKET_ARMED, memory_order_release);
}

int tni_ticket_disarm(tn_ticket *t) {
  unsigned expected = TNI_TICKET_ARMED;
  return atomic_compare_exchange_strong(&t->state, &expected, TNI_TICKET_IDLE);
}

int tni_ticket_is_done(const tn_ticket *t) {
  return atomic_load_explicit(&t->state, memory_order_acquire) == TNI_TICKET_DONE;
}

static void fill(tn_ticket *t, tn_status st, const tn_times *times, const tn_error *err) {
  t->status = st;
  if (times && times->h.size >= sizeof(tn_hdr))
    memcpy(&t->times, times, times->h.size < sizeof t->times ? times->h.size : sizeof t->times);
  t->times.h = (tn_hdr)TN_HDR(tn_times);
  if (err && err->h.size >= sizeof *err) tni_error_copy(&t->error, err);
}

void tni_ticket_done(tn_ticket *t, tn_status st, const tn_times *times, const tn_error *err) {
  if (!t) return;
  unsigned expected = TNI_TICKET_ARMED;
  if (!atomic_compare_exchange_strong(&t->state, &expected, TNI_TICKET_FILLING)) {
    tni_log_line(t->log, TN_LOG_ERROR, "%s: done was called %s; ignored", t->what ? t->what : "a plugin",
                 expected == TNI_TICKET_IDLE ? "for an item that is not submitted" : "twice for one item");
    return;
  }
  fill(t, st, times, err);
  tni_waker *w = t->waker;
  pthread_mutex_lock(&w->lock);
  w->completed++;
  atomic_store_explicit(&t->state, TNI_TICKET_DONE, memory_order_release);
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
  return tni_fail(err, TN_E_DEVICE_LOST, t->what, "%s did not complete within %" PRId64 " ms",
                  t->what ? t->what : "a submitted item", timeout_ns / 1000000);
}
