/* SPDX-License-Identifier: Apache-2.0
 *
 * A fork publishes the job and bumps `epoch`. Workers spin on it for a bound, then park on a condition variable. Who
 * takes which pieces is in shares.c. The caller leaves when every worker that entered the job has left it again: a
 * worker that is still parked is not waited for, its share is taken by others.
 *
 * Big and little cores: where the system tells the capacities of processors, a worker's speed begins with that of the
 * processor that it runs on, and follows it to another.
 *
 * A scheduler may leave two threads of a pool on one processor for seconds while another is idle: each sleeps too soon
 * for it to see a load. A worker that twice in a row finds itself where the caller or another worker is goes elsewhere.
 */
#include "runtime/base/pool.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "runtime/base/clock.h"
#include "runtime/base/cpus.h"
#include "runtime/base/hand.h"
#include "runtime/base/poll.h"
#include "runtime/base/shares.h"

enum { SPIN_NS_ROUNDS = 2000, MAX_WORKERS = 256 };

typedef struct worker {
  _Alignas(64) struct tni_pool *pool;
  pthread_t thread;
  uint32_t index;
  _Atomic int cpu;   /* where it last found work; -1: nowhere yet */
  int met;           /* times in a row that somebody else was there */
  uint16_t capacity; /* of the processor that its speed was learnt on; 0: of none yet */
} worker;

struct tni_pool {
  pthread_mutex_t fork; /* one parallel_for at a time */
  pthread_mutex_t park;
  pthread_cond_t wake;
  _Atomic uint32_t epoch; /* odd: a job is open */
  _Atomic int32_t inside; /* workers in the open job */
  _Atomic int32_t parked;
  _Atomic int stop;
  _Atomic int left; /* a body does not come back: no more forks */
  _Atomic int spin; /* rounds before a worker parks */
  _Atomic int caller_cpu;
  cpu_set_t cpus; /* that it was made for, or that the process had then */
  bool bound;     /* it was made for them */
  /* What a fork is, in one line of memory. */
  _Alignas(64) tn_body body;
  void *arg;
  int64_t n, grain, pieces;
  tni_shares shares;
  uint16_t *capacities; /* of processors, or NULL: they are equal, or the system does not tell */
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

/* The caller stays while pieces are left. Where it is slow it leaves them to others, and takes one if there are none.
 */
static bool take_run(tni_pool *p, uint32_t index, uint32_t *first, uint32_t *last) {
  bool must = false;
  while (!tni_shares_take(&p->shares, index, must, first, last)) {
    if (index || !tni_shares_rest(&p->shares)) return false;
    pause_cpu();
    must = atomic_load(&p->inside) == 0;
  }
  return true;
}

/* How often other threads have taken this one's processor from it. */
static long interruptions(void) {
  struct rusage used = {.ru_nivcsw = 0};
  (void)getrusage(RUSAGE_THREAD, &used);
  return used.ru_nivcsw;
}

static void work_on_loop(tni_pool *p, uint32_t index) {
  const tni_pool *outer = working_for;
  uint32_t outer_as = working_as, first, last;
  const bool learning = p->shares.learning;
  const long interrupted = learning ? interruptions() : 0;
  const int64_t start = learning ? tni_now_ns() : 0;
  int64_t end = start, done = 0;
  working_for = p;
  working_as = index;
  while (take_run(p, index, &first, &last)) {
    const int64_t from = first * p->grain, to = last == p->pieces ? p->n : last * p->grain;
    p->body(p->arg, from, to, index);
    done += to - from;
    if (learning) end = tni_now_ns();
  }
  if (learning && interruptions() == interrupted) tni_shares_done(&p->shares, index, done, end - start);
  working_for = outer;
  working_as = outer_as;
}

static void park_worker(tni_pool *p, uint32_t seen) {
  pthread_mutex_lock(&p->park);
  atomic_fetch_add(&p->parked, 1);
  while (atomic_load(&p->epoch) == seen && !atomic_load(&p->stop)) pthread_cond_wait(&p->wake, &p->park);
  atomic_fetch_sub(&p->parked, 1);
  pthread_mutex_unlock(&p->park);
}

static void keep_apart(tni_pool *p, worker *w) {
  const int at = sched_getcpu(), caller = atomic_load_explicit(&p->caller_cpu, memory_order_relaxed);
  bool met = at == caller;
  for (uint32_t i = 1; i < w->index; i++) met |= at == atomic_load_explicit(&p->workers[i].cpu, memory_order_relaxed);
  atomic_store_explicit(&w->cpu, at, memory_order_relaxed);
  w->met = met && at >= 0 ? w->met + 1 : 0;
  if (w->met < 2) return;
  cpu_set_t rest = p->cpus;
  if (caller >= 0) CPU_CLR((size_t)caller, &rest);
  for (uint32_t i = 1; i < w->index; i++) {
    const int other = atomic_load_explicit(&p->workers[i].cpu, memory_order_relaxed);
    if (other >= 0) CPU_CLR((size_t)other, &rest);
  }
  if (CPU_COUNT(&rest)) (void)sched_setaffinity(0, sizeof rest, &rest); /* refused: it stays */
  w->met = 0;
}

static void *thread_main(void *arg) {
  worker *w = arg;
  tni_pool *p = w->pool;
  uint32_t seen = 0;
  (void)pthread_setname_np(pthread_self(), "tenon-pool");
  if (p->bound) (void)sched_setaffinity(0, sizeof p->cpus, &p->cpus);
  while (!atomic_load(&p->stop)) {
    uint32_t e = atomic_load_explicit(&p->epoch, memory_order_acquire);
    for (int i = 0; e == seen && i < atomic_load_explicit(&p->spin, memory_order_relaxed); i++) {
      pause_cpu();
      e = atomic_load_explicit(&p->epoch, memory_order_acquire);
    }
    if (e == seen) {
      park_worker(p, seen);
      continue;
    }
    seen = e;
    keep_apart(p, w);
    if (!(e & 1)) continue;
    atomic_fetch_add(&p->inside, 1);
    if (atomic_load(&p->epoch) == e)
      work_on_loop(p, w->index); /* still open: the caller waits for `inside` before closing */
    atomic_fetch_sub(&p->inside, 1);
  }
  return NULL;
}

/* How many there are; none are said to be there where the system does not tell. */
static uint32_t usable_cpus(cpu_set_t *set) {
  CPU_ZERO(set);
  (void)sched_getaffinity(0, sizeof *set, set);
  const int n = CPU_COUNT(set);
  return n > 0 ? (uint32_t)n : 1;
}

/* Without memory all are taken to be equal. */
static void read_capacities(tni_pool *p, const cpu_set_t *cpus) {
  uint16_t *c = calloc(CPU_SETSIZE, sizeof *c);
  if (c && tni_cpus_capacities(TNI_CPUS_FOLDER, cpus, c))
    p->capacities = c;
  else
    free(c);
}

tni_pool *tni_pool_create(uint32_t n_workers) { return tni_pool_create_on(NULL, n_workers); }

tni_pool *tni_pool_create_on(const cpu_set_t *on, uint32_t n_workers) {
  const bool bound = on && CPU_COUNT(on);
  cpu_set_t cpus;
  const uint32_t n_cpus = bound ? (uint32_t)CPU_COUNT(on) : usable_cpus(&cpus);
  if (bound) cpus = *on;
  if (n_workers == 0) n_workers = n_cpus;
  if (n_workers > MAX_WORKERS) n_workers = MAX_WORKERS;
  tni_pool *p = aligned_alloc(_Alignof(tni_pool), sizeof *p + n_workers * sizeof(worker));
  tni_share *shares = aligned_alloc(_Alignof(tni_share), n_workers * sizeof *shares);
  if (!p || !shares) {
    free(p);
    free(shares);
    return NULL;
  }
  memset(p, 0, sizeof *p + n_workers * sizeof(worker));
  p->shares.of = shares;
  read_capacities(p, &cpus);
  pthread_mutex_init(&p->fork, NULL);
  pthread_mutex_init(&p->park, NULL);
  pthread_cond_init(&p->wake, NULL);
  p->n_workers = 1;
  p->cpus = cpus;
  p->bound = bound;
  atomic_store(&p->caller_cpu, -1);
  atomic_store(&p->spin, SPIN_NS_ROUNDS);
  for (uint32_t i = 1; i < n_workers; i++) {
    worker *w = &p->workers[i];
    w->pool = p;
    w->index = i;
    atomic_store(&w->cpu, -1);
    if (tni_quiet_thread(&w->thread, thread_main, w) != 0) break;
    p->n_workers++;
  }
  tni_shares_init(&p->shares, shares, p->n_workers);
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
  free(p->capacities);
  free(p->shares.of);
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

/* False: somebody holds it who does not come back. */
static bool take_fork(tni_pool *p) {
  while (pthread_mutex_trylock(&p->fork) != 0) {
    struct timespec t;
    if (atomic_load(&p->left)) return false;
    clock_gettime(CLOCK_REALTIME, &t);
    t.tv_sec++;
    if (pthread_mutex_timedlock(&p->fork, &t) == 0) break;
  }
  return true;
}

void tni_pool_leave(tni_pool *p) {
  if (p) atomic_store(&p->left, 1);
}

/* A worker that has come to another kind of processor is as much faster or slower. */
static void follow_capacities(tni_pool *p) {
  for (uint32_t i = 0; i < p->n_workers; i++) {
    worker *w = &p->workers[i];
    const int at = atomic_load_explicit(i ? &w->cpu : &p->caller_cpu, memory_order_relaxed);
    const uint16_t now = at >= 0 && at < CPU_SETSIZE ? p->capacities[at] : 0;
    if (!now || now == w->capacity) continue;
    tni_shares_scale(&p->shares, i, (float)now / (float)(w->capacity ? w->capacity : TNI_CPUS_CAPACITY));
    w->capacity = now;
  }
}

static void fork_join(tni_pool *p, int64_t n, int64_t grain, tn_body body, void *arg) {
  if (!take_fork(p)) {
    body(arg, 0, n, 0);
    return;
  }
  p->body = body;
  p->arg = arg;
  p->n = n;
  p->grain = grain > n / TNI_SHARE_MOST ? grain : n / TNI_SHARE_MOST + 1;
  p->pieces = (n - 1) / p->grain + 1;
  atomic_store_explicit(&p->caller_cpu, sched_getcpu(), memory_order_relaxed);
  if (p->capacities) follow_capacities(p);
  tni_shares_begin(&p->shares, (uint32_t)p->pieces);
  atomic_fetch_add(&p->epoch, 1); /* open */
  wake_parked(p);
  work_on_loop(p, 0);
  atomic_fetch_add(&p->epoch, 1); /* closed: nobody enters any more */
  for (int i = 0; atomic_load(&p->inside) != 0; i++) {
    while (atomic_load_explicit(&p->left, memory_order_relaxed)) pause(); /* nobody waits for this any more */
    if (i < SPIN_NS_ROUNDS)
      pause_cpu();
    else
      sched_yield();
  }
  tni_shares_end(&p->shares);
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
  if (!tni_budget_steps(r->budget, TNI_POLL)) return 1;
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
