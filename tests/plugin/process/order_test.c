/* SPDX-License-Identifier: Apache-2.0
 *
 * Well-formed messages that come when they may not, from a helper that is true but for one (liar.c, TENON_LIAR_ORDER):
 * the host ends it and computes without it, and nothing that it lent is in use after the call that it was lent for.
 */
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include "isolate_test.h"
#include "runtime/plugin/plugin.h"
#include "runtime/plugin/process/isolate.h"
#include "runtime/plugin/process/turns.h"

/* --- the table --------------------------------------------------------------------------------------------------- */

/* What the table must say of every pair, worked out apart from it. */
static void test_table(void) {
  int pairs = 0, allowed = 0;
  for (uint32_t call = 0; call <= TNI_ISO_CALLS; call++)
    for (uint32_t event = 0; event < TNI_ISO_EVENTS + 4; event++) {
      const bool lent = call == TNI_ISO_PACK || call == TNI_ISO_PACK_ROWS || call == TNI_ISO_PACK_END ||
                        call == TNI_ISO_CLAIM || call == TNI_ISO_LOWER;
      const bool unused = call == TNI_ISO_SUBMIT || call == TNI_ISO_BUF_UNMAP; /* not on the control socket */
      const bool works = call != TNI_ISO_START && call != TNI_ISO_CALLS && !unused;
      const bool want = event == TNI_ISO_LOG                             ? !unused
                        : event == TNI_ISO_DONE || event == TNI_ISO_READ ? works
                        : event == TNI_ISO_ROWS || event == TNI_ISO_GRID ? lent
                        : event == TNI_ISO_WALLS                         ? call == TNI_ISO_START
                                                                         : false;
      CU_ASSERT_EQUAL(tni_turn_allows(call, event), want);
      pairs++;
      allowed += want;
    }
  CU_ASSERT(!tni_turn_allows(TNI_ISO_CALLS + 1, TNI_ISO_LOG));
  printf("%d pairs, %d allowed ... ", pairs, allowed);
}

/* --- orders ------------------------------------------------------------------------------------------------------ */

static const char profile[] =
    "isolation: process\ntimeout_ms: 1500\nplugins:\n  - name: good\n    optional: true\n  - host\n";

static void test_orders(void) {
  /* What the report says; "": nothing is wrong with it, and the plugin works to the end. */
  static const struct {
    const char *order, *says;
  } orders[] = {{"true", ""},
                {"rows-after-args", "kind"},
                {"grid-after-args", "kind"},
                {"rows-of-value", "kind"},
                {"rows-at-start", "kind"},
                {"done-of-none", "kind"},
                {"walls-again", "kind"},
                {"unknown-event", "kind"},
                {"answer-on-channel", "kind"},
                {"event-on-control", "none"},
                {"answer-twice", "none"},
                {"answer-before-call", "none"},
                {"start-again", "none"},
                {"count-huge", "none"},
                {"count-zero", "none"},
                {"run-number", "a run that it was not asked for"},
                {"dribble", "no answer to 'end' for 1500 ms"},
                {"descriptor", "kind"}};
  int noticed = 0;
  for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
    const char *line = NULL;
    bool right;
    int child;
    lab l;
    setenv("TENON_LIAR_ORDER", orders[i].order, 1);
    const small_case k = {profile, "good", getenv("TENON_TEST_LIAR"), 7 * (int)(i + 1)};
    const tn_status st = small_try(&k, &l, &right, &child);
    const uint32_t lost = l.rt ? tn_runtime_losses(l.rt, &line) : 0;
    const bool bad = orders[i].says[0] != '\0';
    /* What a plugin does at its start makes it one that cannot be loaded, and no device is lost. Where the host reads
     * late, it may be the answer to its first call that is none. */
    const bool start = strcmp(orders[i].order, "rows-at-start") == 0;
    const bool seen = lost ? strstr(line, orders[i].says) || (start && strstr(line, "none")) : start && !child;
    const bool ok = st == TN_OK && right && (bad ? seen && !child : !lost && child);
    if (!ok)
      printf("\n    %s: %d %s; right %d, lost %u: %s", orders[i].order, st, l.err.message, right, lost,
             line ? line : "");
    CU_ASSERT(ok);
    noticed += bad;
    lab_close(&l);
  }
  unsetenv("TENON_LIAR_ORDER");
  printf("%d wrong orders, all noticed ... ", noticed);
}

/* --- what is lent ------------------------------------------------------------------------------------------------ */

enum { N = 4, K = 8 };

typedef struct lent {
  tn_weight w;
  _Atomic int inside, calls;
  _Atomic bool gone; /* the pack has ended: nobody may be in here any more */
  _Atomic int late;
} lent;

static tn_status slow_rows(const tn_weight *w, int64_t n0, int64_t n1, float *dst) {
  lent *l = w->ctx;
  const struct timespec t = {0, 200000000};
  atomic_fetch_add(&l->inside, 1);
  atomic_fetch_add(&l->calls, 1);
  nanosleep(&t, NULL);
  if (atomic_load(&l->gone)) atomic_fetch_add(&l->late, 1);
  memset(dst, 0, (size_t)((n1 - n0) * K) * sizeof *dst);
  atomic_fetch_sub(&l->inside, 1);
  return TN_OK;
}

static void pack_one(const tn_plugin *p, const tn_host *host, lent *l) {
  const tn_format *f = p->formats[0];
  static float blob[16 + N * K];
  tn_pack *pack = NULL;
  tn_error err;
  tni_error_init(&err);
  *l = (lent){.w = {.h = TN_HDR(tn_weight), .N = N, .K = K, .dtype = TN_DT_F32, .rows = slow_rows}};
  l->w.ctx = l;
  CU_ASSERT_EQUAL_FATAL(f->begin(host, f, &l->w, NULL, 0, &pack, &err), TN_OK);
  (void)f->rows(pack, 0, N, blob);
  (void)f->end(pack, blob);
  CU_ASSERT_EQUAL(atomic_load(&l->inside), 0);
  atomic_store(&l->gone, true);
}

/* D4: an answer to PACK_END that a question overtakes, while the host is slow to read the weight. */
static void test_pinned(const char *order) {
  const tni_services_opts so = {.name = "good", .max_workers = 1};
  const struct timespec t = {0, 400000000};
  tni_isolate_about about;
  tn_plugin *p = NULL;
  tn_error err;
  lent l;
  tni_error_init(&err);
  tn_host_ctx *ctx = NULL;
  CU_ASSERT_EQUAL_FATAL(tni_services_create(&so, &ctx, &err), TN_OK);
  tni_shm *shm = tni_shm_create();
  const tni_isolate_opts o = {.helper = getenv("TENON_TEST_LIAR"),
                              .name = "good",
                              .folder = getenv("TENON_FAULT_CORPUS"),
                              .profile_file = "",
                              .host = tni_services_host(ctx),
                              .shm = shm,
                              .threads = 1,
                              .allow_shared_writable = true,
                              .timeout_ms = 5000};
  setenv("TENON_LIAR_ORDER", order, 1);
  tn_status st = tni_isolate_open(&o, &p, &about, &err);
  CU_ASSERT_EQUAL(st, TN_OK);
  if (st != TN_OK) printf("\n    %s\n", err.message);
  if (st == TN_OK) {
    pack_one(p, o.host, &l);
    const int calls = atomic_load(&l.calls);
    nanosleep(&t, NULL);
    CU_ASSERT(calls >= 1);
    CU_ASSERT_EQUAL(atomic_load(&l.calls), calls);
    CU_ASSERT_EQUAL(atomic_load(&l.late), 0);
    char why[200] = "";
    CU_ASSERT_EQUAL(tni_isolate_why(p, why, sizeof why), strcmp(order, "true") != 0);
    p->shutdown(p);
  }
  unsetenv("TENON_LIAR_ORDER");
  tni_shm_destroy(shm);
  tni_services_destroy(ctx);
}

static void test_lent(void) {
  test_pinned("true");
  test_pinned("rows-before-end");
  test_pinned("rows-after-end");
}

void suite_order(void) {
  CU_pSuite s = CU_add_suite("isolate: true messages at the wrong time", NULL, NULL);
  CU_add_test(s, "the table", test_table);
  CU_add_test(s, "orders", test_orders);
  CU_add_test(s, "what is lent for a call", test_lent);
}
