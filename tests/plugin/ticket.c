/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/plugin/ticket.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "plugin_test.h"
#include "runtime/base/clock.h"
#include "runtime/plugin/fpmode.h"

typedef struct lines {
  atomic_int n;
  char last[256];
} lines;

static void take_line(void *user, uint32_t level, const char *line) {
  lines *l = user;
  if (level == TN_LOG_ERROR) l->n++;
  snprintf(l->last, sizeof l->last, "%s", line);
}

static void test_life(void) {
  lines got = {0};
  tni_log log = {take_line, &got, TN_LOG_DEBUG};
  tni_waker w;
  tn_ticket t = {.what = ""};
  tn_error err = {0};
  CU_ASSERT_EQUAL_FATAL(tni_waker_init(&w), TN_OK);
  tni_ticket_init(&t, &w, &log, "dev: task");
  tni_ticket_done(tni_ticket_handle(&t), TN_OK, NULL, NULL); /* never submitted */
  CU_ASSERT_EQUAL(got.n, 1);
  CU_ASSERT_PTR_NOT_NULL(strstr(got.last, "dev: task: done was called for an item that is not submitted"));
  CU_ASSERT_FALSE(tni_ticket_is_done(&t));

  tn_ticket *h = tni_ticket_arm(&t);
  int64_t before = tni_now_ns();
  CU_ASSERT_EQUAL(tni_ticket_wait(&t, 20000000, &err), TN_E_DEVICE_LOST);
  CU_ASSERT(tni_now_ns() - before >= 20000000);
  CU_ASSERT_PTR_NOT_NULL(strstr(err.message, "dev: task did not complete within 20 ms"));

  tn_error vendor = {.h = TN_HDR(tn_error), .code = TN_E_IO, .vendor_code = 5, .message = "bus"};
  tn_times times = {.h = TN_HDR(tn_times), .start = 1, .end = 2};
  tni_ticket_done(h, 99, &times, &vendor);
  CU_ASSERT_EQUAL(tni_ticket_wait(&t, 0, &err), TN_OK);
  CU_ASSERT_EQUAL(t.status, 99);
  CU_ASSERT_EQUAL(t.times.end, 2);
  CU_ASSERT_STRING_EQUAL(t.error.message, "bus");
  tni_ticket_done(h, TN_OK, NULL, NULL); /* twice */
  CU_ASSERT_EQUAL(got.n, 2);
  CU_ASSERT_PTR_NOT_NULL(strstr(got.last, "twice"));
  CU_ASSERT_EQUAL(t.status, 99);
  CU_ASSERT_EQUAL(w.completed, 1);

  /* Armed anew: the old handle is of an earlier step, and completes nothing. */
  tn_ticket *again = tni_ticket_arm(&t);
  CU_ASSERT(again != h);
  tni_ticket_done(h, 77, NULL, NULL);
  CU_ASSERT_EQUAL(got.n, 3);
  CU_ASSERT_PTR_NOT_NULL(strstr(got.last, "for an item of an earlier step"));
  CU_ASSERT_FALSE(tni_ticket_is_done(&t));
  CU_ASSERT_TRUE(tni_ticket_disarm(&t));
  CU_ASSERT_FALSE(tni_ticket_disarm(&t));
  tni_ticket_done(NULL, TN_OK, NULL, NULL);
  tni_waker_finish(&w);
}

typedef struct racer {
  tn_ticket *t; /* a handle */
  int64_t sleep_ns;
} racer;

static void *complete(void *arg) {
  racer *r = arg;
  struct timespec ts = {.tv_nsec = (long)r->sleep_ns};
  if (r->sleep_ns) nanosleep(&ts, NULL);
  tni_ticket_done(r->t, TN_OK, NULL, NULL);
  return NULL;
}

static void count_hook(void *user, tn_ticket *t) {
  (void)t;
  ++*(int *)user;
}

/* Two threads complete one ticket: one wins, the other is logged. The waker goes right after the wait. */
static void test_race(void) {
  for (int i = 0; i < 300; i++) {
    lines got = {0};
    tni_log log = {take_line, &got, TN_LOG_ERROR};
    tni_waker *w = malloc(sizeof *w);
    tn_ticket *t = aligned_alloc(TNI_TICKET_ALIGN, sizeof *t);
    int hooks = 0;
    CU_ASSERT_FATAL(w && t && tni_waker_init(w) == TN_OK);
    w->hook = count_hook;
    w->user = &hooks;
    memset(t, 0, sizeof *t);
    tni_ticket_init(t, w, &log, "race");
    racer r = {tni_ticket_arm(t), i % 3 ? 0 : 100000};
    pthread_t a, b;
    CU_ASSERT_EQUAL_FATAL(pthread_create(&a, NULL, complete, &r), 0);
    CU_ASSERT_EQUAL_FATAL(pthread_create(&b, NULL, complete, &r), 0);
    tn_error err = {0};
    CU_ASSERT_EQUAL(tni_ticket_wait(t, -1, &err), TN_OK);
    pthread_join(a, NULL);
    pthread_join(b, NULL);
    CU_ASSERT_EQUAL(hooks, 1);
    CU_ASSERT_EQUAL(got.n, 1);
    tni_waker_finish(w);
    free(t);
    free(w);
  }
}

/* One completion: the waker may be freed as soon as the wait has returned. */
static void test_free_after_wait(void) {
  for (int i = 0; i < 300; i++) {
    tni_waker *w = malloc(sizeof *w);
    tn_ticket *t = aligned_alloc(TNI_TICKET_ALIGN, sizeof *t);
    CU_ASSERT_FATAL(w && t && tni_waker_init(w) == TN_OK);
    memset(t, 0, sizeof *t);
    tni_ticket_init(t, w, NULL, NULL);
    racer r = {tni_ticket_arm(t), 0};
    pthread_t a;
    CU_ASSERT_EQUAL_FATAL(pthread_create(&a, NULL, complete, &r), 0);
    CU_ASSERT_EQUAL(tni_ticket_wait(t, -1, NULL), TN_OK);
    tni_waker_finish(w);
    free(t);
    free(w);
    pthread_join(a, NULL);
  }
}

/* Memory that stays: handles of tickets that were given back, and of those who have them now. */
static void test_pool(void) {
  enum { MANY = 40, TIMES = 3 * TNI_TICKET_ALIGN };
  lines got = {0};
  tni_log log = {take_line, &got, TN_LOG_ERROR};
  tni_tickets pool;
  tni_waker w;
  tn_ticket *t[MANY], *old[MANY];
  CU_ASSERT_FATAL(tni_tickets_init(&pool) == TN_OK && tni_waker_init(&w) == TN_OK);
  for (int i = 0; i < MANY; i++) {
    CU_ASSERT_FATAL((t[i] = tni_tickets_take(&pool)) != NULL && (uintptr_t)t[i] % TNI_TICKET_ALIGN == 0);
    for (int k = 0; k < i; k++) CU_ASSERT(t[k] != t[i]);
    tni_ticket_init(t[i], &w, &log, "before");
    old[i] = tni_ticket_arm(t[i]);
    tni_ticket_done(old[i], TN_OK, NULL, NULL);
  }
  for (int i = 0; i < MANY; i++) tni_tickets_give(&pool, t[i]);
  for (int i = 0; i < MANY; i++) tni_ticket_done(old[i], TN_OK, NULL, NULL);
  CU_ASSERT_EQUAL(got.n, MANY);
  for (int i = 0; i < MANY; i++) {
    CU_ASSERT_FATAL((t[i] = tni_tickets_take(&pool)) != NULL);
    tni_ticket_init(t[i], &w, &log, "after");
    (void)tni_ticket_arm(t[i]);
  }
  got.n = 0;
  for (int i = 0; i < MANY; i++) tni_ticket_done(old[i], TN_OK, NULL, NULL);
  CU_ASSERT_EQUAL(got.n, MANY);
  for (int i = 0; i < MANY; i++) CU_ASSERT_FALSE(tni_ticket_is_done(t[i]));
  /* The count goes round, and neighbours in it are never taken for each other. */
  tn_ticket *last = tni_ticket_handle(t[0]);
  for (int i = 0; i < TIMES; i++) {
    tn_ticket *now = tni_ticket_arm(t[0]);
    CU_ASSERT(now != last && now != t[0] && (uintptr_t)now / TNI_TICKET_ALIGN == (uintptr_t)t[0] / TNI_TICKET_ALIGN);
    if (i % 700 == 0) {
      tni_ticket_done(last, TN_OK, NULL, NULL);
      CU_ASSERT_FALSE(tni_ticket_is_done(t[0]));
    }
    last = now;
  }
  tni_ticket_done(last, TN_OK, NULL, NULL);
  CU_ASSERT_TRUE(tni_ticket_is_done(t[0]));
  tni_waker_finish(&w);
  tni_tickets_finish(&pool);
}

static void test_fpmode(void) {
  uint64_t mode = tni_fpmode_get();
  volatile double zero = 0;
  volatile double inf = 1 / zero; /* a sticky flag is no mode */
  (void)inf;
  CU_ASSERT_EQUAL(tni_fpmode_get(), mode);
#if defined(__x86_64__)
  tni_fpmode_put(mode | 0x8040);
#elif defined(__aarch64__)
  tni_fpmode_put(mode | (UINT64_C(1) << 24));
#endif
  CU_ASSERT_NOT_EQUAL(tni_fpmode_get(), mode);
  tni_fpmode_put(mode);
  CU_ASSERT_EQUAL(tni_fpmode_get(), mode);
}

const test_case ticket_tests[] = {{"life", test_life},
                                  {"race", test_race},
                                  {"free after wait", test_free_after_wait},
                                  {"pool", test_pool},
                                  {"floating-point mode", test_fpmode},
                                  {0}};
