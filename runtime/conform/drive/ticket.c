/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/conform/drive/ticket.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { RING = 256 };

bool tni_cf_tickets_init(tni_cf_host *h) {
  if (tni_waker_init(&h->waker) != TN_OK) return false;
  h->tickets = aligned_alloc(TNI_TICKET_ALIGN, RING * sizeof *h->tickets);
  if (!h->tickets) return tni_waker_finish(&h->waker), false;
  memset(h->tickets, 0, RING * sizeof *h->tickets);
  for (int i = 0; i < RING; i++) {
    tni_ticket_init(&h->tickets[i].t, &h->waker, NULL, "an item");
    pthread_mutex_init(&h->tickets[i].lock, NULL);
  }
  return true;
}

/* What was wrong with the item that it stood for; the first such line of a host is kept. */
static void look_back(tni_cf_host *h, struct tni_cf_ticket *k) {
  const bool right = k->done == k->owed && !k->late;
  if (!k->used || right || h->answered_wrong[0]) return;
  if (k->done == k->owed)
    snprintf(h->answered_wrong, sizeof h->answered_wrong, "done was called for an item that was over long before");
  else if (!k->owed)
    snprintf(h->answered_wrong, sizeof h->answered_wrong, "done was called for an item that submit had refused");
  else
    snprintf(h->answered_wrong, sizeof h->answered_wrong, "done was called %u times for one item", k->done);
}

void tni_cf_tickets_finish(tni_cf *cf, tni_cf_host *h) {
  for (int i = 0; h->tickets && i < RING; i++) {
    look_back(h, &h->tickets[i]);
    pthread_mutex_destroy(&h->tickets[i].lock);
  }
  if (h->tickets) tni_waker_finish(&h->waker);
  free(h->tickets);
  h->tickets = NULL;
  if (h->answered_wrong[0]) tni_cf_fail(cf, "%s", h->answered_wrong);
}

/* FNV-1a of the results as they are. */
static uint64_t results_now(const struct tni_cf_ticket *k) {
  uint64_t h = UINT64_C(0xcbf29ce484222325);
  for (size_t i = 0; i < sizeof k->look / sizeof *k->look; i++)
    for (uint64_t b = 0; b < k->look[i].n; b++) h = (h ^ k->look[i].p[b]) * UINT64_C(0x100000001b3);
  return h;
}

struct tni_cf_ticket *tni_cf_ticket_take(tni_cf_host *h) {
  struct tni_cf_ticket *k = &h->tickets[__atomic_fetch_add(&h->next_ticket, 1, __ATOMIC_RELAXED) % RING];
  pthread_mutex_lock(&k->lock);
  look_back(h, k);
  k->handle = tni_ticket_arm(&k->t);
  k->used = k->inside = true;
  k->early = k->foreign = false;
  k->done = k->late = 0;
  k->owed = 1;
  k->nap_us = h->nap_us;
  k->by = pthread_self();
  k->st = TN_OK;
  k->message[0] = '\0';
  memset(k->look, 0, sizeof k->look);
  k->unfinished = k->untold = false;
  k->word = NULL;
  pthread_mutex_unlock(&k->lock);
  return k;
}

void tni_cf_ticket_submitted(struct tni_cf_ticket *k, tn_status st) {
  pthread_mutex_lock(&k->lock);
  k->inside = false;
  k->owed = st == TN_OK;
  if (!k->owed) (void)tni_ticket_disarm(&k->t);
  pthread_mutex_unlock(&k->lock);
}

uint32_t tni_cf_ticket_wait(struct tni_cf_ticket *k, uint32_t seconds) {
  const tn_status st = tni_ticket_wait(&k->t, seconds * INT64_C(1000000000), NULL);
  pthread_mutex_lock(&k->lock);
  const uint32_t done = k->done;
  if (st == TN_OK) {
    k->unfinished = results_now(k) != k->seen;
    k->st = k->t.status;
    snprintf(k->message, sizeof k->message, "%.*s", (int)sizeof k->t.error.message, k->t.error.message);
  } else {
    tni_cf_leave();
  }
  pthread_mutex_unlock(&k->lock);
  return done;
}

/* The real host's `done` comes last: it lets go who waits. */
void tni_cf_ticket_done(tn_ticket *t, tn_status st, const tn_times *times, const tn_error *err) {
  struct tni_cf_ticket *k = (struct tni_cf_ticket *)(void *)((uintptr_t)t & ~(uintptr_t)(TNI_TICKET_ALIGN - 1));
  pthread_mutex_lock(&k->lock);
  const struct timespec nap = {0, (long)k->nap_us * 1000};
  if (t != k->handle) {
    k->late++;
  } else if (!k->done++) {
    k->untold = k->word && __atomic_load_n(k->word, __ATOMIC_ACQUIRE) < k->value;
    k->seen = results_now(k);
    k->early = k->inside;
    k->foreign = !pthread_equal(k->by, pthread_self());
  }
  pthread_mutex_unlock(&k->lock);
  tni_ticket_done(t, st, times, err);
  if (nap.tv_nsec) nanosleep(&nap, NULL);
}
