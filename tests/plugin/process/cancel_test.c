/* SPDX-License-Identifier: Apache-2.0
 *
 * What a plugin in a process of its own hears of a caller that has no use for the answer any more (walls/heed.c), and
 * how many items its engines get.
 */
#include "isolate_test.h"
#include "runtime/plugin/plugin.h"
#include "runtime/plugin/process/isolate.h"

enum { AT_ONCE = 1, A_WHILE, FOR_LONG, TRIES = 5 };

typedef struct heeded {
  tn_host_ctx *ctx;
  tni_shm *shm;
  tn_plugin *p;
  tn_device *d;
} heeded;

static void begin_heed(heeded *h) {
  const tni_services_opts so = {.name = "heed", .max_workers = 1};
  tni_isolate_about about;
  tn_error err;
  tni_error_init(&err);
  *h = (heeded){.shm = tni_shm_create()};
  CU_ASSERT_EQUAL_FATAL(tni_services_create(&so, &h->ctx, &err), TN_OK);
  const tni_isolate_opts o = {.helper = getenv("TENON_TEST_HELPER"),
                              .name = "heed",
                              .folder = getenv("TENON_TEST_WALLS"),
                              .profile_file = "",
                              .host = tni_services_host(h->ctx),
                              .shm = h->shm,
                              .threads = 1,
                              .allow_shared_writable = true,
                              .timeout_ms = 60000};
  const tn_status st = tni_isolate_open(&o, &h->p, &about, &err);
  if (st != TN_OK) printf("\n    %s\n", err.message);
  CU_ASSERT_EQUAL_FATAL(st, TN_OK);
  CU_ASSERT_EQUAL_FATAL(h->p->open(h->p, 0, &h->d, &err), TN_OK);
}

static void end_heed(heeded *h) {
  h->p->close(h->d);
  h->p->shutdown(h->p);
  tni_shm_destroy(h->shm);
  tni_services_destroy(h->ctx);
}

static bool lives(const heeded *h) {
  char why[200];
  return !tni_isolate_why(h->p, why, sizeof why);
}

static tn_status pack(const heeded *h) {
  tn_weight w = {.h = TN_HDR(tn_weight), .N = 4, .K = 8, .dtype = TN_DT_F32};
  tn_pack *k = NULL;
  tn_error err;
  tni_error_init(&err);
  const tn_format *f = h->p->formats[0];
  const tn_status st = f->begin(tni_services_host(h->ctx), f, &w, NULL, 0, &k, &err);
  if (st == TN_OK) (void)f->end(k, NULL);
  return st;
}

/* No items: only how the engine answers. */
static tn_status submit(const heeded *h, uint32_t engine, tn_run *lent) {
  const tn_item *none[1] = {NULL};
  tn_error err;
  tni_error_init(&err);
  return h->d->submit(h->d, engine, none, 0, lent, &err);
}

static int32_t always(const tn_run *r) {
  (void)r;
  return 1;
}

/* A call that is to stop hears of it. Who takes longer than the host waits is ended: on a machine with no time left
 * that may be this one too, so it has several tries. */
static void test_call(void) {
  bool heard = false;
  for (int i = 0; i < TRIES && !heard; i++) {
    heeded h;
    begin_heed(&h);
    tni_services_cancel(h.ctx, true);
    CU_ASSERT_EQUAL(pack(&h), TN_E_CANCELLED);
    heard = lives(&h);
    end_heed(&h);
  }
  CU_ASSERT(heard);
}

/* What ends a call ends nobody else's, and is over with it. */
static void test_apart(void) {
  bool heard = false;
  for (int i = 0; i < TRIES && !heard; i++) {
    heeded h;
    begin_heed(&h);
    tni_services_cancel(h.ctx, true);
    CU_ASSERT_EQUAL(submit(&h, A_WHILE, NULL), TN_OK);
    CU_ASSERT_EQUAL(pack(&h), TN_E_CANCELLED);
    heard = lives(&h);
    if (heard) CU_ASSERT_EQUAL(submit(&h, AT_ONCE, NULL), TN_OK);
    end_heed(&h);
  }
  CU_ASSERT(heard);
}

/* A run that is cancelled ends in its engine, and the next one is another. */
static void test_submit(void) {
  bool heard = false;
  for (int i = 0; i < TRIES && !heard; i++) {
    tn_run lent = {.h = TN_HDR(tn_run), .cancelled = always};
    heeded h;
    begin_heed(&h);
    const tn_status st = submit(&h, FOR_LONG, &lent);
    heard = lives(&h);
    if (heard) CU_ASSERT_EQUAL(st, TN_E_CANCELLED);
    if (heard) CU_ASSERT_EQUAL(submit(&h, AT_ONCE, NULL), TN_OK);
    end_heed(&h);
  }
  CU_ASSERT(heard);
}

/* Any number of items is as many as the host can tell apart. */
static void test_depth(void) {
  heeded h;
  begin_heed(&h);
  const tn_caps *c = h.d->caps;
  CU_ASSERT_EQUAL_FATAL(c->n_engines, FOR_LONG);
  CU_ASSERT(c->engines[0]->depth == 1 && c->engines[1]->depth == 1);
  CU_ASSERT(c->engines[2]->depth > 300 && c->engines[2]->depth <= 1024 / FOR_LONG);
  end_heed(&h);
}

void suite_cancel(void) {
  CU_pSuite s = CU_add_suite("isolate: cancelled, and engines", NULL, NULL);
  CU_add_test(s, "a call", test_call);
  CU_add_test(s, "a call, and nobody else", test_apart);
  CU_add_test(s, "a submission", test_submit);
  CU_add_test(s, "how many items", test_depth);
}
