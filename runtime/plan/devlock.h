/* SPDX-License-Identifier: Apache-2.0
 *
 * The locks of one device. `m` keeps claim .. args_free and buffer calls apart and is never held across run or submit;
 * `submit` keeps submissions to its engines apart, because two sessions may run at once. Order: never both.
 */
#ifndef TENON_PLAN_DEVLOCK_H
#define TENON_PLAN_DEVLOCK_H

#include <pthread.h>

typedef struct tni_devlock {
  pthread_mutex_t m, submit;
} tni_devlock;

static inline void tni_devlock_init(tni_devlock *l) {
  pthread_mutex_init(&l->m, NULL);
  pthread_mutex_init(&l->submit, NULL);
}
static inline void tni_devlock_finish(tni_devlock *l) {
  pthread_mutex_destroy(&l->m);
  pthread_mutex_destroy(&l->submit);
}

static inline void tni_devlock_lock(tni_devlock *l) { pthread_mutex_lock(&l->m); }
static inline void tni_devlock_unlock(tni_devlock *l) { pthread_mutex_unlock(&l->m); }

#endif
