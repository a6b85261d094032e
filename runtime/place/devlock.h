/* SPDX-License-Identifier: Apache-2.0
 *
 * The locks of one device. `m` keeps claim .. args_free and buffer calls apart and is never held across run or submit;
 * `submit` keeps submissions to one engine apart, because two sessions may run at once. Order: never both. `slots` is
 * taken for moments, under any of them: the items that all sessions have in flight, which an engine's depth bounds.
 */
#ifndef TENON_PLACE_DEVLOCK_H
#define TENON_PLACE_DEVLOCK_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <time.h>

#include "runtime/base/base.h"

enum { TNI_SUBMIT_LOCKS = 8 }; /* engines that have a lock of their own; more share */

enum { TNI_SLOT_ENGINES = 31 }; /* as many as a device may have (runtime/plugin/check.c) */

typedef struct tni_slots {
  pthread_mutex_t m;
  pthread_cond_t change; /* CLOCK_MONOTONIC */
  uint32_t taken[TNI_SLOT_ENGINES];
  uint64_t given; /* back so far, of all engines */
} tni_slots;

typedef struct tni_devlock {
  pthread_mutex_t m, submit[TNI_SUBMIT_LOCKS];
  tni_slots slots;
  int lost;  /* a call answered DEVICE_LOST, or none came back: nothing more is placed on it. Any thread */
  int hung;  /* a call in this process did not come back: none is made any more, and what it has stays its own */
  bool trusted; /* the host's own device, or a plugin with a process, which has its own deadline */
  bool told;    /* and somebody has said so (failover.c) */
  int abandoned; /* its abandon was called. Any thread */
  uint32_t voters; /* sessions that hold a vote for its power (runtime/session/power.c); under m */
} tni_devlock;

static inline void tni_devlock_init(tni_devlock *l) {
  pthread_mutex_init(&l->m, NULL);
  for (int i = 0; i < TNI_SUBMIT_LOCKS; i++) pthread_mutex_init(&l->submit[i], NULL);
  pthread_condattr_t a;
  pthread_condattr_init(&a);
  pthread_condattr_setclock(&a, CLOCK_MONOTONIC);
  pthread_mutex_init(&l->slots.m, NULL);
  pthread_cond_init(&l->slots.change, &a);
  pthread_condattr_destroy(&a);
  for (int i = 0; i < TNI_SLOT_ENGINES; i++) l->slots.taken[i] = 0;
  l->slots.given = 0;
  l->lost = l->hung = l->abandoned = 0;
  l->voters = 0;
  l->told = l->trusted = false;
}
static inline void tni_devlock_finish(tni_devlock *l) {
  pthread_mutex_destroy(&l->m);
  pthread_mutex_destroy(&l->slots.m);
  pthread_cond_destroy(&l->slots.change);
  for (int i = 0; i < TNI_SUBMIT_LOCKS; i++) pthread_mutex_destroy(&l->submit[i]);
}

/* A call into the plugin begins, without the lock; what: a text that lives as long as the device. */
static inline void tni_devlock_begin(tni_devlock *l, const char *what) {
  if (!l->trusted) tni_call_begin(l, what);
}
static inline void tni_devlock_end(const tni_devlock *l) {
  if (!l->trusted) tni_call_end();
}
static inline void tni_devlock_enter(tni_devlock *l, const char *what) {
  tni_devlock_begin(l, what);
  pthread_mutex_lock(&l->m);
}
static inline void tni_devlock_lock(tni_devlock *l) { tni_devlock_enter(l, "a call"); }
static inline void tni_devlock_unlock(tni_devlock *l) {
  pthread_mutex_unlock(&l->m);
  tni_devlock_end(l);
}
/* Room for one more item on an engine that takes `depth` of all sessions together. False: there is none now. */
static inline bool tni_slot_take(tni_devlock *l, uint32_t engine, uint32_t depth) {
  pthread_mutex_lock(&l->slots.m);
  const bool room = l->slots.taken[engine - 1] < depth;
  l->slots.taken[engine - 1] += room;
  pthread_mutex_unlock(&l->slots.m);
  return room;
}
/* Any thread: when its item is done, or was not submitted. */
static inline void tni_slot_give(tni_devlock *l, uint32_t engine) {
  pthread_mutex_lock(&l->slots.m);
  l->slots.taken[engine - 1]--;
  l->slots.given++;
  pthread_cond_broadcast(&l->slots.change);
  pthread_mutex_unlock(&l->slots.m);
}
/* Until there is room (nothing is taken) or `at` on tni_now_ns's clock. How many were given back so far. */
static inline uint64_t tni_slot_wait(tni_devlock *l, uint32_t engine, uint32_t depth, int64_t at, bool *room) {
  const struct timespec t = {at / 1000000000, at % 1000000000};
  int late = 0;
  pthread_mutex_lock(&l->slots.m);
  while (!late && l->slots.taken[engine - 1] >= depth) late = pthread_cond_timedwait(&l->slots.change, &l->slots.m, &t);
  *room = l->slots.taken[engine - 1] < depth;
  const uint64_t given = l->slots.given;
  pthread_mutex_unlock(&l->slots.m);
  return given;
}
static inline void tni_devlock_lose(tni_devlock *l) { __atomic_store_n(&l->lost, 1, __ATOMIC_RELAXED); }
static inline bool tni_devlock_lost(const tni_devlock *l) { return __atomic_load_n(&l->lost, __ATOMIC_RELAXED) != 0; }
/* True the first time: who gives the device up tells it so. */
static inline bool tni_devlock_abandon(tni_devlock *l) {
  return __atomic_exchange_n(&l->abandoned, 1, __ATOMIC_RELAXED) == 0;
}
static inline void tni_devlock_hang(tni_devlock *l) {
  __atomic_store_n(&l->hung, 1, __ATOMIC_RELEASE);
  tni_devlock_lose(l);
}
static inline bool tni_devlock_hung(const tni_devlock *l) { return __atomic_load_n(&l->hung, __ATOMIC_ACQUIRE) != 0; }
static inline pthread_mutex_t *tni_devlock_submit(tni_devlock *l, uint32_t engine) {
  return &l->submit[engine % TNI_SUBMIT_LOCKS];
}

#endif
