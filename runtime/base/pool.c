/* SPDX-License-Identifier: Apache-2.0
 *
 * A fork publishes the job and bumps `epoch`. Workers spin on it for a bound, then park on a condition variable. Work
 * is taken in pieces from one atomic counter, so that a slow thread does not hold the others up. The caller leaves when
 * every worker that entered the job has left it again: a worker that is still parked is not waited for.
 */
#include "runtime/base/pool.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { SPIN_NS_ROUNDS = 2000, MAX_WORKERS = 256 };

typedef struct worker {
  struct tni_pool *pool;
  pthread_t thread;
  uint32_t index;
} worker;

struct tni_pool {
  pthread_mutex_t fork; /* one parallel_for at a time */
  pthread_mutex_t park;
  pthread_cond_t wake;
  _Atomic uint32_t epoch; /* odd: a job is open */
  _Atomic int64_t next;
  _Atomic int32_t inside; /* workers in the open job */
  _Atomic int32_t parked;
  _Atomic int stop;
  _Atomic int spin; /* rounds before a worker parks */
  tn_body body;
  void *arg;
  int64_t n, grain;
  uint32_t n_workers;
  worker workers[];
};

/* Which pool this thread is working for, so that a nested fork runs inline. */
static _Thread_local const tni_pool *working_for;
static _Thread_local uint32_t working_as;

static void pause_cpu(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ volatile("yield");
#endif
}

static void work(tni_pool *p, uint32_t index) {
  const tni_pool *outer = working_for;
  uint32_t outer_as = working_as;
  working_for = p;
  working_as = index;
  for (;;) {
    int64_t begin = atomic_fetch_add_explicit(&p->next, p->grain, memory_order_relaxed);
    if (begin >= p->n) break;
    int64_t end = p->n - begin < p->grain ? p->n : begin + p->grain;
    p->body(p->arg, begin, end, index);
  }
  working_for = outer;
  working_as = outer_as;
}

static void park(tni_pool *p, uint32_t seen) {
  pthread_mutex_lock(&p->park);
  atomic_fetch_add(&p->parked, 1);
  while (atomic_load(&p->epoch) == seen && !atomic_load(&p->stop)) pthread_cond_wait(&p->wake, &p->park);
  atomic_fetch_sub(&p->parked, 1);
  pthread_mutex_unlock(&p->park);
}

static void *thread_main(void *arg) {
  worker *w = arg;
  tni_pool *p = w->pool;
  uint32_t seen = 0;
  while (!atomic_load(&p->stop)) {
    uint32_t e = atomic_load_explicit(&p->epoch, memory_order_acquire);
    for (int i = 0; e == seen && i < atomic_load_explicit(&p->spin, memory_order_relaxed); i++) {
      pause_cpu();
      e = atomic_load_explicit(&p->epoch, memory_order_acquire);
    }
    if (e == seen) {
      park(p, seen);
      continue;
    }
    seen = e;
    if (!(e & 1)) continue;
    atomic_fetch_add(&p->inside, 1);
    if (atomic_load(&p->epoch) == e) work(p, w->index); /* still open: the caller waits for `inside` before closing */
    atomic_fetch_sub(&p->inside, 1);
  }
  return NULL;
}

static uint32_t usable_cpus(void) {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return 1;
  int n = CPU_COUNT(&set);
  return n > 0 ? (uint32_t)n : 1;
}

tni_pool *tni_pool_create(uint32_t n_workers) {
  if (n_workers == 0) n_workers = usable_cpus();
  if (n_workers > MAX_WORKERS) n_workers = MAX_WORKERS;
  tni_pool *p = calloc(1, sizeof *p + n_workers * sizeof(worker));
  if (!p) return NULL;
  pthread_mutex_init(&p->fork, NULL);
  pthread_mutex_init(&p->park, NULL);
  pthread_cond_init(&p->wake, NULL);
  p->n_workers = 1;
  atomic_store(&p->spin, SPIN_NS_ROUNDS);
  for (uint32_t i = 1; i < n_workers; i++) {
    worker *w = &p->workers[i];
    *w = (worker){.pool = p, .index = i};
    if (pthread_create(&w->thread, NULL, thread_main, w) != 0) break;
    p->n_workers++;
  }
  return p;
}

void tni_pool_destroy(tni_pool *p) {
  if (!p) return;
  pthread_mutex_lock(&p->park);
  atomic_store(&p->stop, 1);
  pthread_cond_broadcast(&p->wake);
  pthread_mutex_unlock(&p->park);
  for (uint32_t i = 1; i < p->n_workers; i++) pthread_join(p->workers[i].thread, NULL);
  pthread_cond_destroy(&p->wake);
  pthread_mutex_destroy(&p->park);
  pthread_mutex_destroy(&p->fork);
  free(p);
}

void tni_pool_spin(tni_pool *p, int rounds) { atomic_store(&p->spin, rounds); }

uint32_t tni_pool_workers(const tni_pool *p) { return p ? p->n_workers : 1; }

static void wake_parked(tni_pool *p) {
  if (atomic_load(&p->parked) == 0) return;
  pthread_mutex_lock(&p->park);
  pthread_cond_broadcast(&p->wake);
  pthread_mutex_unlock(&p->park);
}

static void fork_join(tni_pool *p, int64_t n, int64_t grain, tn_body body, void *arg) {
  pthread_mutex_lock(&p->fork);
  p->body = body;
  p->arg = arg;
  p->n = n;
  p->grain = grain;
  atomic_store(&p->next, 0);
  atomic_fetch_add(&p->epoch, 1); /* open */
  wake_parked(p);
  work(p, 0);
  atomic_fetch_add(&p->epoch, 1); /* closed: nobody enters any more */
  for (int i = 0; atomic_load(&p->inside) != 0; i++) {
    if (i < SPIN_NS_ROUNDS)
      pause_cpu();
    else
      sched_yield();
  }
  pthread_mutex_unlock(&p->fork);
}

void tni_pool_for(tni_pool *p, int64_t n, int64_t grain, tn_body body, void *arg) {
  if (n <= 0) return;
  if (grain < 1) grain = 1;
  if (p && working_for == p) {
    body(arg, 0, n, working_as);
  } else if (!p || p->n_workers == 1 || n <= grain) {
    body(arg, 0, n, 0);
  } else {
    fork_join(p, n, grain, body, arg);
  }
}

static void run_for(tn_run *run, int64_t n, int64_t grain, tn_body body, void *arg) {
  tni_pool_for(((tni_pool_run *)run->ctx)->pool, n, grain, body, arg);
}

static int32_t run_cancelled(const tn_run *run) {
  const tni_pool_run *r = run->ctx;
  return r->cancel ? __atomic_load_n(r->cancel, __ATOMIC_RELAXED) : 0;
}

void tni_pool_run_init(tni_pool_run *r, tni_pool *p, const volatile int32_t *cancel) {
  memset(r, 0, sizeof *r);
  r->run = (tn_run){.h = TN_HDR(tn_run),
                    .ctx = r,
                    .n_workers = tni_pool_workers(p),
                    .parallel_for = run_for,
                    .cancelled = run_cancelled};
  r->pool = p;
  r->cancel = cancel;
}
