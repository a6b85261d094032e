/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base_test.h"
#include "proc_tasks.h"
#include "runtime/base/clock.h"
#include "runtime/base/pool.h"

enum { MAX_N = 5000 };

/* Every test with threads runs on pools of so many. */
static const uint32_t counts[] = {1, 2, 3, 8};
enum { N_COUNTS = sizeof counts / sizeof *counts };

typedef struct job {
  unsigned char hits[MAX_N]; /* plain: two workers at one index are a data race */
  _Atomic int64_t pieces, wrong;
  int64_t n, grain;
  uint32_t n_workers;
} job;

static void hit(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  job *j = arg;
  bool small = end - begin < j->grain && end != j->n;
  if (begin < 0 || begin >= end || end > j->n || worker >= j->n_workers || small) j->wrong++;
  for (int64_t i = begin; i < end; i++) j->hits[i]++;
  j->pieces++;
}

static bool covers_once(tni_pool *p, int64_t n, int64_t grain) {
  static _Thread_local job j;
  memset(&j, 0, sizeof j);
  j.n = n;
  j.grain = grain < 1 ? 1 : grain;
  j.n_workers = tni_pool_workers(p);
  tni_pool_for(p, n, grain, hit, &j);
  bool ok = j.wrong == 0 && j.pieces <= (n > 0 ? (n + j.grain - 1) / j.grain : 0);
  for (int64_t i = 0; i < n; i++) ok = ok && j.hits[i] == 1;
  return ok;
}

static void test_covers(void) {
  static const int64_t ns[] = {-1, 0, 1, 2, 3, 7, 8, 9, 63, 64, 100, 1000, 4999};
  static const int64_t grains[] = {-5, 0, 1, 2, 3, 7, 16, 64, 999, 5000, INT64_MAX / 2};
  for (size_t c = 0; c < N_COUNTS; c++) {
    tni_pool *p = tni_pool_create(counts[c]);
    CU_ASSERT_PTR_NOT_NULL_FATAL(p);
    CU_ASSERT_EQUAL(tni_pool_workers(p), counts[c]);
    size_t wrong = 0;
    for (size_t n = 0; n < sizeof ns / sizeof *ns; n++)
      for (size_t g = 0; g < sizeof grains / sizeof *grains; g++) wrong += !covers_once(p, ns[n], grains[g]);
    CU_ASSERT_EQUAL(wrong, 0);
    tni_pool_destroy(p);
  }
  CU_ASSERT_TRUE(covers_once(NULL, 100, 3));
  CU_ASSERT_EQUAL(tni_pool_workers(NULL), 1);
  tni_pool_destroy(NULL);
  tni_pool *all = tni_pool_create(0);
  CU_ASSERT(tni_pool_workers(all) >= 1);
  tni_pool_destroy(all);
}

typedef struct nest {
  tni_pool *pool;
  _Atomic int64_t sum, wrong;
} nest;

typedef struct inner {
  pthread_t outer;
  uint32_t worker;
  int64_t sum; /* plain: inline means one thread */
  bool wrong;
} inner;

static void inner_body(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  inner *in = arg;
  if (!pthread_equal(pthread_self(), in->outer) || worker != in->worker) in->wrong = true;
  in->sum += end - begin;
}

static void outer_body(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  nest *n = arg;
  for (int64_t i = begin; i < end; i++) {
    usleep(20); /* so that every worker gets some */
    inner in = {.outer = pthread_self(), .worker = worker};
    tni_pool_for(n->pool, 50, 1, inner_body, &in);
    n->sum += in.sum;
    n->wrong += in.wrong;
  }
}

static void test_nested(void) {
  for (size_t c = 0; c < N_COUNTS; c++) {
    nest n = {.pool = tni_pool_create(counts[c])};
    tni_pool_for(n.pool, 200, 1, outer_body, &n);
    CU_ASSERT_EQUAL(n.sum, 200 * 50);
    CU_ASSERT_EQUAL(n.wrong, 0);
    CU_ASSERT_TRUE(covers_once(n.pool, 1000, 3)); /* and it forks again afterwards */
    tni_pool_destroy(n.pool);
  }
}

typedef struct sharer {
  tni_pool *pool;
  size_t wrong;
} sharer;

static void *share_main(void *arg) {
  sharer *s = arg;
  for (int64_t i = 0; i < 400; i++) s->wrong += !covers_once(s->pool, 1 + i * 7 % 900, 1 + i % 5);
  return NULL;
}

static void test_two_threads(void) {
  for (size_t c = 0; c < N_COUNTS; c++) {
    tni_pool *p = tni_pool_create(counts[c]);
    sharer s[3] = {{p, 0}, {p, 0}, {p, 0}};
    pthread_t t[3];
    for (int i = 0; i < 3; i++) CU_ASSERT_EQUAL_FATAL(pthread_create(&t[i], NULL, share_main, &s[i]), 0);
    for (int i = 0; i < 3; i++) {
      pthread_join(t[i], NULL);
      CU_ASSERT_EQUAL(s[i].wrong, 0);
    }
    tni_pool_destroy(p);
  }
}

/* The workers spin, park at once, or change between the two while they run. */
static void test_back_to_back(void) {
  for (size_t c = 0; c < N_COUNTS; c++) {
    tni_pool *p = tni_pool_create(counts[c]);
    size_t wrong = 0;
    for (int64_t i = 0; i < 2000; i++) {
      if (i % 500 == 0) tni_pool_spin(p, i % 1000 ? 0 : 2000);
      wrong += !covers_once(p, 2 + i % 37, 1);
    }
    CU_ASSERT_EQUAL(wrong, 0);
    tni_pool_destroy(p);
  }
}

typedef struct endless {
  tni_pool_run r;
  volatile int32_t cancel;
  _Atomic int32_t begun;
  bool late;
} endless;

/* Ends when it is told to. */
static void endless_body(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  endless *e = arg;
  const int64_t until = tni_now_ns() + INT64_C(20000000000);
  (void)begin, (void)end, (void)worker;
  e->begun++;
  while (!e->r.run.cancelled(&e->r.run) && tni_now_ns() < until) sched_yield();
}

static void *cancel_main(void *arg) {
  endless *e = arg;
  const int64_t until = tni_now_ns() + INT64_C(20000000000);
  while (e->begun == 0 && tni_now_ns() < until) sched_yield();
  e->late = e->begun == 0;
  __atomic_store_n(&e->cancel, 1, __ATOMIC_RELAXED);
  return NULL;
}

static void test_cancel(void) {
  for (size_t c = 0; c < N_COUNTS; c++) {
    tni_pool *p = tni_pool_create(counts[c]);
    for (int i = 0; i < 5; i++) {
      endless e = {.cancel = 0};
      pthread_t t;
      tni_pool_run_init(&e.r, p, &e.cancel);
      CU_ASSERT_EQUAL_FATAL(pthread_create(&t, NULL, cancel_main, &e), 0);
      const int64_t start = tni_now_ns();
      e.r.run.parallel_for(&e.r.run, 64, 1, endless_body, &e);
      CU_ASSERT(tni_now_ns() - start < INT64_C(15000000000));
      pthread_join(t, NULL);
      CU_ASSERT_FALSE(e.late);
    }
    CU_ASSERT_TRUE(covers_once(p, 100, 1));
    tni_pool_destroy(p);
  }
}

typedef struct meet {
  _Atomic int arrived;
  int want;
} meet;

/* Returns only when every worker is in the job: parked ones must have been woken. */
static void meet_body(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  meet *m = arg;
  (void)begin, (void)end, (void)worker;
  m->arrived++;
  int64_t until = tni_now_ns() + INT64_C(20000000000);
  while (m->arrived < m->want && tni_now_ns() < until) usleep(100);
}

static void test_parked_wake(void) {
  enum { W = 4 };
  tni_pool *p = tni_pool_create(W);
  for (int round = 0; round < 5; round++) {
    usleep(30000); /* far beyond the spinning bound: all are parked */
    meet m = {.want = W};
    int64_t start = tni_now_ns();
    tni_pool_for(p, W, 1, meet_body, &m);
    CU_ASSERT_EQUAL(m.arrived, W);
    CU_ASSERT(tni_now_ns() - start < INT64_C(15000000000));
  }
  tni_pool_destroy(p);
}

/* Parked threads take no processor time. */
static void test_idle(void) {
  static const uint32_t workers[] = {2, 4};
  for (size_t i = 0; i < 2; i++) {
    tni_pool *p = tni_pool_create(workers[i]);
    CU_ASSERT_TRUE(covers_once(p, 1000, 1));
    CU_ASSERT(proc_tasks_idle(getpid(), POOL_THREAD));
    CU_ASSERT_EQUAL(proc_tasks_read(getpid(), POOL_THREAD, "").n, workers[i] - 1);
    tni_pool_destroy(p);
  }
}

/* Workers other than the caller are slow: the call returns only when they are done. */
static void slow_body(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  usleep(worker ? 3000 : 300);
  *(_Atomic int64_t *)arg += end - begin;
}

static void test_waits(void) {
  tni_pool *p = tni_pool_create(4);
  for (int i = 0; i < 20; i++) {
    _Atomic int64_t sum = 0;
    tni_pool_for(p, 8, 1, slow_body, &sum);
    CU_ASSERT_EQUAL(sum, 8);
  }
  tni_pool_destroy(p);
}

static void test_create_destroy(void) {
  for (int i = 0; i < 300; i++) {
    tni_pool *p = tni_pool_create(i < 100 ? counts[i % N_COUNTS] : 1 + (uint32_t)i % 6);
    if (i % 2) tni_pool_spin(p, 0);
    if (i % 3) CU_ASSERT_TRUE(covers_once(p, 40, 1));
    if (i % 5 == 0) usleep(500); /* parked by then, mostly */
    tni_pool_destroy(p);
  }
}

static void test_run(void) {
  tni_pool *p = tni_pool_create(2);
  volatile int32_t cancel = 0;
  tni_pool_run r;
  tni_pool_run_init(&r, p, &cancel);
  CU_ASSERT_EQUAL(r.run.h.size, sizeof(tn_run));
  CU_ASSERT_EQUAL(r.run.n_workers, 2);
  job *j = calloc(1, sizeof *j);
  CU_ASSERT_PTR_NOT_NULL_FATAL(j);
  j->n = 100;
  j->grain = 7;
  j->n_workers = 2;
  r.run.parallel_for(&r.run, 100, 7, hit, j);
  CU_ASSERT_EQUAL(j->wrong, 0);
  CU_ASSERT(j->pieces > 0 && j->pieces <= 15);
  CU_ASSERT_EQUAL(r.run.cancelled(&r.run), 0);
  cancel = 1;
  CU_ASSERT_NOT_EQUAL(r.run.cancelled(&r.run), 0);
  tni_pool_run_init(&r, NULL, NULL);
  CU_ASSERT_EQUAL(r.run.n_workers, 1);
  CU_ASSERT_EQUAL(r.run.cancelled(&r.run), 0);
  memset(j->hits, 0, sizeof j->hits);
  j->pieces = 0;
  r.run.parallel_for(&r.run, 100, 7, hit, j);
  CU_ASSERT(j->hits[0] == 1 && j->hits[99] == 1);
  free(j);
  tni_pool_destroy(p);
}

typedef struct stuck {
  _Atomic int64_t done;
  _Atomic int entered;
  int64_t n, held;
  bool late;
} stuck;

/* Whoever comes first holds its pieces until all others are done. */
static void stuck_body(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  stuck *s = arg;
  (void)worker;
  if (atomic_fetch_add(&s->entered, 1) == 0) {
    const int64_t until = tni_now_ns() + INT64_C(20000000000);
    s->held = end - begin;
    while (s->done < s->n - s->held && tni_now_ns() < until) usleep(100);
    s->late = s->done < s->n - s->held;
  }
  s->done += end - begin;
}

static void test_share_taken_over(void) {
  static const uint32_t workers[] = {2, 3, 8};
  for (size_t w = 0; w < sizeof workers / sizeof *workers; w++) {
    for (int64_t n = workers[w]; n < 2000; n = n * 3 + 1) {
      tni_pool *p = tni_pool_create(workers[w]); /* a new one, to which all are equally fast */
      stuck s = {.n = n};
      tni_pool_for(p, n, 1, stuck_body, &s);
      CU_ASSERT_EQUAL(s.done, n);
      CU_ASSERT_FALSE(s.late);
      CU_ASSERT(s.held <= n / workers[w] / 4 + 1); /* of its share it holds a quarter */
      tni_pool_destroy(p);
    }
  }
}

enum { THROTTLED = 2, PIECES = 64 };

typedef struct throttle {
  _Atomic int first; /* the length of the slow worker's first run; 0: it has had none */
} throttle;

/* Sleeps, so that the processors' number and load do not matter. */
static void throttled_body(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  throttle *t = arg;
  if (worker == THROTTLED && !t->first) t->first = (int)(end - begin);
  usleep((useconds_t)(end - begin) * (worker == THROTTLED ? 1500 : 150));
}

/* Of equal shares it would take PIECES / 4 / 4 at once, each time. */
static void test_slow_share(void) {
  enum { ROUNDS = 60, LEARNT = 30 };
  tni_pool *p = tni_pool_create(4);
  int alone = 0;
  for (int i = 0; i < ROUNDS; i++) {
    throttle t = {.first = 0};
    tni_pool_for(p, PIECES, 1, throttled_body, &t);
    alone += i >= LEARNT && t.first <= 1;
  }
  CU_ASSERT(alone > (ROUNDS - LEARNT) / 2);
  tni_pool_destroy(p);
}

typedef struct where {
  _Atomic pid_t worker; /* a thread that is not the caller */
} where;

static void where_body(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  const int64_t until = tni_now_ns() + 200000;
  (void)begin, (void)end;
  if (worker) ((where *)arg)->worker = (pid_t)syscall(SYS_gettid);
  while (tni_now_ns() < until) continue;
}

/* A worker that is held on the caller's processor leaves it, and one that is alone is left in peace. */
static void test_apart(void) {
  cpu_set_t all, one, now;
  CU_ASSERT_FATAL(sched_getaffinity(0, sizeof all, &all) == 0);
  if (CPU_COUNT(&all) < 2) return;
  size_t c = 0;
  while (!CPU_ISSET(c, &all)) c++;
  tni_pool *p = tni_pool_create(2);
  where w = {.worker = 0};
  const int64_t until = tni_now_ns() + INT64_C(20000000000);
  while (!w.worker && tni_now_ns() < until) tni_pool_for(p, 8, 1, where_body, &w);
  CU_ASSERT_FATAL(w.worker != 0);
  CPU_ZERO(&one);
  CPU_SET(c, &one);
  CU_ASSERT_EQUAL(sched_setaffinity(0, sizeof one, &one), 0);
  CU_ASSERT_EQUAL(sched_setaffinity(w.worker, sizeof one, &one), 0);
  do {
    tni_pool_for(p, 8, 1, where_body, &w);
    CU_ASSERT_EQUAL_FATAL(sched_getaffinity(w.worker, sizeof now, &now), 0);
  } while (CPU_ISSET(c, &now) && tni_now_ns() < until);
  CU_ASSERT_FALSE(CPU_ISSET(c, &now));
  CU_ASSERT_EQUAL(CPU_COUNT(&now), CPU_COUNT(&all) - 1);
  CU_ASSERT_EQUAL(sched_getaffinity(0, sizeof now, &now), 0); /* the caller's is the application's */
  CU_ASSERT(CPU_EQUAL(&now, &one));
  CU_ASSERT_EQUAL(sched_setaffinity(0, sizeof all, &all), 0);
  tni_pool_destroy(p);
}

void suite_pool(void) {
  CU_pSuite s = CU_add_suite("base: pool", NULL, NULL);
  CU_add_test(s, "each index once", test_covers);
  CU_add_test(s, "nested calls run inline", test_nested);
  CU_add_test(s, "threads share a pool", test_two_threads);
  CU_add_test(s, "forks back to back", test_back_to_back);
  CU_add_test(s, "parked workers wake", test_parked_wake);
  CU_add_test(s, "parked workers are idle", test_idle);
  CU_add_test(s, "a run is cancelled", test_cancel);
  CU_add_test(s, "slow workers are waited for", test_waits);
  CU_add_test(s, "others take over the share of a slow worker", test_share_taken_over);
  CU_add_test(s, "a slow worker's share is small", test_slow_share);
  CU_add_test(s, "threads on one processor part", test_apart);
  CU_add_test(s, "create and destroy", test_create_destroy);
  CU_add_test(s, "run", test_run);
}
