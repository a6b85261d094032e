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

enum { TNI_SUBMIT_LOCKS = 8 }; /* engines that have a lock of their own; more share */

typedef struct tni_devlock {
  pthread_mutex_t m, submit[TNI_SUBMIT_LOCKS];
  int lost;      /* a call answered DEVICE_LOST, or none came back: nothing more is placed on it. Any thread */
  bool told;     /* and somebody has said so (failover.c) */
  int abandoned; /* its abandon was called. Any thread */
} tni_devlock;

static inline void tni_devlock_init(tni_devlock *l) {
  pthread_mutex_init(&l->m, NULL);
  for (int i = 0; i < TNI_SUBMIT_LOCKS; i++) pthread_mutex_init(&l->submit[i], NULL);
  l->lost = 0;
  l->told = false;
  l->abandoned = 0;
}
static inline void tni_devlock_finish(tni_devlock *l) {
  pthread_mutex_destroy(&l->m);
  for (int i = 0; i < TNI_SUBMIT_LOCKS; i++) pthread_mutex_destroy(&l->submit[i]);
}

static inline void tni_devlock_lock(tni_devlock *l) { pthread_mutex_lock(&l->m); }
static inline void tni_devlock_unlock(tni_devlock *l) { pthread_mutex_unlock(&l->m); }
static inline void tni_devlock_lose(tni_devlock *l) { __atomic_store_n(&l->lost, 1, __ATOMIC_RELAXED); }
static inline bool tni_devlock_lost(const tni_devlock *l) { return __atomic_load_n(&l->lost, __ATOMIC_RELAXED) != 0; }
/* True the first time: who gives the device up tells it so. */
static inline bool tni_devlock_abandon(tni_devlock *l) {
  return __atomic_exchange_n(&l->abandoned, 1, __ATOMIC_RELAXED) == 0;
}
static inline pthread_mutex_t *tni_devlock_submit(tni_devlock *l, uint32_t engine) {
  return &l->submit[engine % TNI_SUBMIT_LOCKS];
}

#endif
