/* SPDX-License-Identifier: Apache-2.0
 *
 * The host's thread pool: fork-join with bounded spinning, then parking (row TM9).
 *
 * A pool of n has n - 1 threads; the caller of parallel_for is worker 0. One fork at a time; a second caller waits.
 */
#ifndef TENON_BASE_POOL_H
#define TENON_BASE_POOL_H

#include <sched.h>
#include <tenon/plugin.h>

#include "runtime/base/budget.h"

typedef struct tni_pool tni_pool;

/* n_workers 0: as many as the process may use processors. Starts fewer threads when the system gives fewer. */
tni_pool *tni_pool_create(uint32_t n_workers);
/* The same, and its threads run on these processors only; n_workers 0: as many as there are of them. The caller of
 * parallel_for runs where it is bound to itself. cpus NULL or none: tni_pool_create. */
tni_pool *tni_pool_create_on(const cpu_set_t *cpus, uint32_t n_workers);
/* A body hangs, and the caller with it: that thread sleeps from now on, and forks of others run where they are called. It
 * is not to be destroyed. */
void tni_pool_leave(tni_pool *p);
void tni_pool_destroy(tni_pool *p);
uint32_t tni_pool_workers(const tni_pool *p);
/* How long workers look for work before they sleep: less where another process needs the processors next. */
void tni_pool_spin(tni_pool *p, int rounds);
/* body over [0, n) in pieces of at least grain (>= 1); nested calls run inline on their worker. */
void tni_pool_for(tni_pool *p, int64_t n, int64_t grain, tn_body body, void *arg);

/* Fills a tn_run lent over this pool. cancel: polled by cancelled(); may be NULL. p NULL: everything inline. */
typedef struct tni_pool_run {
  tn_run run; /* hand &run to plugins */
  tni_pool *pool;
  const volatile int32_t *cancel;
  tni_budget *budget; /* or NULL: who asks has done TNI_POLL steps, and stops where they are too many */
} tni_pool_run;
void tni_pool_run_init(tni_pool_run *r, tni_pool *p, const volatile int32_t *cancel);

#endif
