/* SPDX-License-Identifier: Apache-2.0
 *
 * The locks of one device. `m` keeps claim .. args_free and buffer calls apart and is never held across run or submit;
 * `submit` keeps submissions to one engine apart, because two sessions may run at once. Order: never both.
 */
#ifndef TENON_PLACE_DEVLOCK_H
#define TENON_PLACE_DEVLOCK_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "runtime/base/base.h"

enum { TNI_SUBMIT_LOCKS = 8 }; /* engines that have a lock of their own; more share */

typedef struct tni_devlock {
  pthread_mutex_t m, submit[TNI_SUBMIT_LOCKS];
  int lost;  /* a call answered DEVICE_LOST, or none came back: nothing more is placed on it. Any thread */
  int hung;  /* a call in this process did not come back: none is made any more, and what it has stays its own */
  bool trusted; /* the host's own device, or a plugin with a process, which has its own deadline */
  bool told;    /* and somebody has said so (failover.c) */
  int abandoned; /* its abandon was called. Any thread */
} tni_devlock;

static inline void tni_devlock_init(tni_devlock *l) {
  pthread_mutex_init(&l->m, NULL);
  for (int i = 0; i < TNI_SUBMIT_LOCKS; i++) pthread_mutex_init(&l->submit[i], NULL);
  l->lost = l->hung = l->abandoned = 0;
  l->told = l->trusted = false;
}
static inline void tni_devlock_finish(tni_devlock *l) {
  pthread_mutex_destroy(&l->m);
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
