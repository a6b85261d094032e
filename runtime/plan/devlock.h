/* SPDX-License-Identifier: Apache-2.0
 *
 * The lock that keeps claim .. args_free and buffer calls of one device apart. Never held across run or submit.
 */
#ifndef TENON_PLAN_DEVLOCK_H
#define TENON_PLAN_DEVLOCK_H

#include <pthread.h>

typedef struct tni_devlock {
  pthread_mutex_t m;
} tni_devlock;

static inline void tni_devlock_lock(tni_devlock *l) { pthread_mutex_lock(&l->m); }
static inline void tni_devlock_unlock(tni_devlock *l) { pthread_mutex_unlock(&l->m); }

#endif
