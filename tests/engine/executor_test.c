/* SPDX-License-Identifier: Apache-2.0
 *
 * Engines beside the CPU and beside each other: the same bits in every way of completing and in every order, whole
 * steps in one submit, virtual time that does not depend on this machine, and devices that are lost.
 */
#include <pthread.h>
#include <time.h>

#include "engine_test.h"
#include "runtime/memory/run.h"

enum { K = 8, ROWS = 3, WIDE = 6 };

static float x_data[ROWS * K], row[K] = {1, -2, 3, -4, 5, -6, 7, -8};

static wbuf finish_model(wbuf *g, const char *inputs, const char *outputs) {
  char names[64];
  for (int i = 0; i < ROWS * K; i++) x_data[i] = (float)(i % 7) - 2.5f;
  wb_str(g, G_NAME, "g");
  wb_msg(g, G_INIT, onnx_tensor_raw("row", TN_DT_F32, "8", row, sizeof row));
  snprintf(names, sizeof names, "%s", inputs);
  wb_msg(g, G_INPUT, onnx_value(names, TN_DT_F32, "n,8"));
  wb_msg(g, G_OUTPUT, onnx_value(outputs, TN_DT_F32, NULL));
  return onnx_model(*g, 17);
}

/* Adds only, each of the one before: all on the engine. */
static wbuf chain(int n) {
  wbuf g = {0};
  for (int i = 0; i < n; i++) {
    char in[32], out[32], name[32];
    snprintf(in, sizeof in, i ? "v%d,row" : "x,row", i);
    snprintf(out, sizeof out, i + 1 == n ? "y" : "v%d", i + 1);
    snprintf(name, sizeof name, "add%d", i);
    wb_msg(&g, G_NODE, onnx_node("Add", name, in, out));
  }
  return finish_model(&g, "x", "y");
}

/* WIDE different branches of an Add (the engine's) and a Tan (the host's) in turns, and their sum. */
static wbuf branches(void) {
  wbuf g = {0};
  char sum[32] = "x";
  for (int b = 0; b < WIDE; b++) {
    char v[4][32], in[64], name[32];
    for (int k = 0; k < 4; k++) snprintf(v[k], sizeof v[k], "b%d_%d", b, k);
    float mine[K];
    for (int k = 0; k < K; k++) mine[k] = row[k] / (float)(b + 2);
    snprintf(in, sizeof in, "x,row%d", b);
    snprintf(name, sizeof name, "row%d", b);
    wb_msg(&g, G_INIT, onnx_tensor_raw(name, TN_DT_F32, "8", mine, sizeof mine));
    snprintf(name, sizeof name, "n%d", b);
    wb_msg(&g, G_NODE, onnx_node("Add", name, in, v[0]));
    snprintf(name, sizeof name, "t%d", b);
    wb_msg(&g, G_NODE, onnx_node("Tan", name, v[0], v[1]));
    snprintf(in, sizeof in, "%s,%s", v[1], v[0]);
    snprintf(name, sizeof name, "m%d", b);
    wb_msg(&g, G_NODE, onnx_node("Add", name, in, v[2]));
    snprintf(in, sizeof in, "%s,%s", sum, v[2]);
    snprintf(name, sizeof name, "s%d", b);
    snprintf(sum, sizeof sum, b + 1 == WIDE ? "y" : "sum%d", b);
    wb_msg(&g, G_NODE, onnx_node("Add", name, in, sum));
  }
  return finish_model(&g, "x", "y");
}

static tn_status run(rig *r, float *y) {
  tn_tensor out, in = f32_tensor("x", x_data, 2, ROWS, K, 0);
  tni_error_init(&r->err);
  tn_status st = rig_run(r, 0, &in, NULL, NULL, &out, 1);
  if (st == TN_OK) memcpy(y, out.data, sizeof x_data);
  return st;
}

static const char *profile(const char *options, const char *more) {
  static char text[300];
  snprintf(text, sizeof text, "plugins:\n  - name: fake-engine\n    options: {%s}\n  - name: host\n%s", options, more);
  return text;
}

static void on_host(wbuf model, float *y) {
  rig r;
  CU_ASSERT_EQUAL_FATAL(rig_init(&r, "plugins: [host]\n"), TN_OK);
  CU_ASSERT_EQUAL_FATAL(rig_load(&r, model, 0), TN_OK);
  CU_ASSERT_EQUAL_FATAL(run(&r, y), TN_OK);
  rig_finish(&r);
}

/* Every way of completing, one engine and two, in order and in random orders. */
static void test_modes(void) {
  static const char *const modes[] = {"blocking", "thread", "inline", "map", "twice", "wrong"};
  float want[ROWS * K], got[ROWS * K];
  on_host(branches(), want);
  for (size_t m = 0; m < sizeof modes / sizeof *modes; m++)
    for (int engines = 1; engines <= 2; engines++) {
      char options[100];
      rig r;
      snprintf(options, sizeof options, "completion: %s, engines: %d", modes[m], engines);
      CU_ASSERT_EQUAL_FATAL(rig_init(&r, profile(options, "")), TN_OK);
      CU_ASSERT_EQUAL_FATAL(rig_load(&r, branches(), 0), TN_OK);
      for (uint64_t seed = 0; seed < 5; seed++) {
        if (seed == 1) {
          tn_session_destroy(r.s);
          r.m->order_seed = 1;
          CU_ASSERT_EQUAL_FATAL(tn_session_create(r.m, &r.s, &r.err), TN_OK);
        }
        r.m->order_seed = seed;
        tn_status st = run(&r, got);
        if (st != TN_OK) printf("\n    %s: %s\n", options, r.err.message);
        CU_ASSERT_EQUAL_FATAL(st, TN_OK);
        CU_ASSERT_EQUAL(memcmp(got, want, sizeof got), 0);
      }
      if (strcmp(modes[m], "twice") == 0) CU_ASSERT_PTR_NOT_NULL(strstr(r.log, "done was called twice for one item"));
      if (strcmp(modes[m], "wrong") == 0) CU_ASSERT_PTR_NOT_NULL(strstr(r.log, "done was called"));
      rig_finish(&r);
    }
}

/* A task that is looked at holds its lane until it is back; the others go on. */
static void test_looks(void) {
  static const char *const modes[] = {"blocking", "thread", "map", "thread, fences: true"};
  float want[ROWS * K], got[ROWS * K];
  on_host(branches(), want);
  for (size_t m = 0; m < sizeof modes / sizeof *modes; m++) {
    char options[100];
    rig r;
    snprintf(options, sizeof options, "completion: %s, engines: 2", modes[m]);
    CU_ASSERT_EQUAL_FATAL(rig_init(&r, profile(options, "watch: 1\n")), TN_OK);
    CU_ASSERT_EQUAL_FATAL(rig_load(&r, branches(), 0), TN_OK);
    for (uint64_t k = 0; k < 2 * 3 * WIDE; k++) {
      tn_status st = run(&r, got);
      if (st != TN_OK) printf("\n    %s: %s\n", options, r.err.message);
      CU_ASSERT_EQUAL_FATAL(st, TN_OK);
      CU_ASSERT_EQUAL(memcmp(got, want, sizeof got), 0);
    }
    CU_ASSERT_EQUAL(tn_runtime_losses(r.rt, NULL), 0);
    rig_finish(&r);
  }
}

/* counted N items in M submits, at most T at once */
static void counts(rig *r, int *items, int *submits, int *together) {
  tn_session_destroy(r->s);
  tn_model_destroy(r->m);
  tn_runtime_destroy(r->rt);
  r->s = NULL;
  r->m = NULL;
  r->rt = NULL;
  const char *at = strstr(r->log, "counted ");
  *items = *submits = *together = -1;
  CU_ASSERT_PTR_NOT_NULL(at);
  if (at) CU_ASSERT_EQUAL(sscanf(at, "counted %d items in %d submits, at most %d", items, submits, together), 3);
}

/* What one engine takes whole is one submit per run, also where it blocks. */
static void test_one_submit(void) {
  static const char *const modes[] = {"completion: thread, count: true", "completion: blocking, count: true",
                                      "completion: inline, count: true"};
  enum { RUNS = 4, N = 20 };
  for (size_t m = 0; m < 3; m++) {
    float got[ROWS * K];
    int items, submits, together;
    rig r;
    CU_ASSERT_EQUAL_FATAL(rig_init(&r, profile(modes[m], "")), TN_OK);
    CU_ASSERT_EQUAL_FATAL(rig_load(&r, chain(N), 0), TN_OK);
    for (int i = 0; i < RUNS; i++) CU_ASSERT_EQUAL(run(&r, got), TN_OK);
    for (int i = 0; i < ROWS * K; i++) CU_ASSERT_EQUAL(got[i], x_data[i] + N * row[i % K]);
    counts(&r, &items, &submits, &together);
    CU_ASSERT_EQUAL(items, RUNS * N);
    CU_ASSERT_EQUAL(submits, RUNS);
    rig_finish(&r);
  }
}

/* More than the engine takes at once goes in pieces. */
static void test_depth(void) {
  float got[ROWS * K];
  int items, submits, together;
  rig r;
  CU_ASSERT_EQUAL_FATAL(rig_init(&r, profile("completion: thread, count: true", "")), TN_OK);
  CU_ASSERT_EQUAL_FATAL(rig_load(&r, chain(150), 0), TN_OK);
  CU_ASSERT_EQUAL(run(&r, got), TN_OK);
  for (int i = 0; i < ROWS * K; i++) CU_ASSERT_EQUAL(got[i], x_data[i] + 150 * row[i % K]);
  counts(&r, &items, &submits, &together);
  CU_ASSERT(items == 150 && submits >= 3);
  rig_finish(&r);
}

typedef struct runner {
  tn_session *s;
  int wrong;
} runner;

static void *run_often(void *arg) {
  runner *q = arg;
  for (int i = 0; i < 20; i++) {
    tn_error err;
    tni_error_init(&err);
    tn_tensor in = f32_tensor("x", x_data, 2, ROWS, K, 0), out = {.h = TN_API_HDR(tn_tensor)};
    const tn_tensor *ins[] = {&in};
    if (tn_session_run(q->s, 0, ins, 1, &out, 1, &err) != TN_OK) {
      printf("\n    %s\n", err.message);
      q->wrong++;
      continue;
    }
    for (int k = 0; k < ROWS * K; k++) q->wrong += ((const float *)out.data)[k] != x_data[k] + 150 * row[k % K];
  }
  return NULL;
}

/* The depth is the engine's, however many sessions there are: together they never have more in flight. */
static void test_depth_of_sessions(void) {
  static const char *const modes[] = {"thread", "blocking"};
  enum { SESSIONS = 3 };
  for (size_t m = 0; m < 2; m++) {
    runner q[SESSIONS] = {{0}};
    pthread_t thread[SESSIONS];
    char options[100];
    int most = -1;
    rig r;
    snprintf(options, sizeof options, "completion: %s, count: true", modes[m]);
    CU_ASSERT_EQUAL_FATAL(rig_init(&r, profile(options, "")), TN_OK);
    CU_ASSERT_EQUAL_FATAL(rig_load(&r, chain(150), 0), TN_OK);
    for (int i = 0; i < SESSIONS; i++) CU_ASSERT_EQUAL_FATAL(tn_session_create(r.m, &q[i].s, &r.err), TN_OK);
    for (int i = 0; i < SESSIONS; i++) CU_ASSERT_EQUAL_FATAL(pthread_create(&thread[i], NULL, run_often, &q[i]), 0);
    for (int i = 0; i < SESSIONS; i++) pthread_join(thread[i], NULL);
    for (int i = 0; i < SESSIONS; i++) CU_ASSERT_EQUAL(q[i].wrong, 0);
    for (int i = 0; i < SESSIONS; i++) tn_session_destroy(q[i].s);
    tn_session_destroy(r.s);
    tn_model_destroy(r.m);
    tn_runtime_destroy(r.rt);
    r.s = NULL, r.m = NULL, r.rt = NULL;
    const char *at = strstr(r.log, " waits, ");
    CU_ASSERT_PTR_NOT_NULL_FATAL(at);
    CU_ASSERT_EQUAL(sscanf(at, " waits, %d in flight", &most), 1);
    if (most > 64) printf("\n    %s: %d in flight\n", options, most);
    CU_ASSERT(most > 32 && most <= 64);
    rig_finish(&r);
  }
}

enum { MAX_EVENTS = 200 };
typedef struct timeline {
  struct {
    char track[40], name[40];
    int64_t start, end;
  } e[MAX_EVENTS];
  int n, wall;
} timeline;

static void on_event(void *user, const tn_trace_event *e) {
  timeline *t = user;
  if (e->clock != TN_CLOCK_VIRTUAL) t->wall += strncmp(e->track, "fake-engine", 11) == 0;
  if (e->clock != TN_CLOCK_VIRTUAL || t->n == MAX_EVENTS) return;
  snprintf(t->e[t->n].track, sizeof t->e[0].track, "%s", e->track);
  snprintf(t->e[t->n].name, sizeof t->e[0].name, "%s", e->name);
  t->e[t->n].start = e->start;
  t->e[t->n++].end = e->end;
}

/* Two engines compute at the same time, whether they block or not. */
static void test_overlap(void) {
  static const char *const modes[] = {"blocking", "thread"};
  for (size_t m = 0; m < 2; m++) {
    char options[100];
    float got[ROWS * K];
    int items, submits, together;
    rig r;
    snprintf(options, sizeof options, "completion: %s, engines: 2, delay_us: 3000, count: true", modes[m]);
    CU_ASSERT_EQUAL_FATAL(rig_init(&r, profile(options, "")), TN_OK);
    CU_ASSERT_EQUAL_FATAL(rig_load(&r, branches(), 0), TN_OK);
    CU_ASSERT_EQUAL(run(&r, got), TN_OK);
    counts(&r, &items, &submits, &together);
    CU_ASSERT_EQUAL(together, 2);
    rig_finish(&r);
  }
}

/* --- fences ------------------------------------------------------------------------------------------------------ */

/* A chain over two engines in turns of four: all of it is submitted before the first item is done, and each turn waits
 * for the one before without the host. */
static void test_fences(void) {
  static const char *const modes[] = {"thread", "blocking"};
  enum { N = 20, TURNS = 5 };
  for (size_t m = 0; m < sizeof modes / sizeof *modes; m++) {
    char options[100];
    float got[ROWS * K];
    int items, submits, together, waits = -1;
    rig r;
    snprintf(options, sizeof options, "completion: %s, engines: 2, fences: true, delay_us: 3000, count: true",
             modes[m]);
    CU_ASSERT_EQUAL_FATAL(rig_init(&r, profile(options, "")), TN_OK);
    CU_ASSERT_EQUAL_FATAL(rig_load(&r, chain(N), 0), TN_OK);
    CU_ASSERT_EQUAL(run(&r, got), TN_OK);
    for (int i = 0; i < ROWS * K; i++) CU_ASSERT_EQUAL(got[i], x_data[i] + N * row[i % K]);
    counts(&r, &items, &submits, &together);
    CU_ASSERT_EQUAL(items, N);
    CU_ASSERT_EQUAL(together, 1);
    const char *at = strstr(r.log, "at once, ");
    CU_ASSERT(at && sscanf(at, "at once, %d waits", &waits) == 1);
    if (m == 0) CU_ASSERT_EQUAL(waits, TURNS - 1); /* an engine that blocks is busy while its thread is in submit */
    rig_finish(&r);
  }
}

/* The same bits as without, in random orders, with the CPU between, and a device that is lost on the way. */
static void test_fences_anywhere(void) {
  static const char *const modes[] = {"thread", "blocking", "inline"};
  float want[ROWS * K], got[ROWS * K];
  on_host(branches(), want);
  for (size_t m = 0; m < sizeof modes / sizeof *modes; m++)
    for (int after = 0; after < 12; after += 3) {
      char options[160];
      rig r;
      snprintf(options, sizeof options, "completion: %s, engines: 2, fences: true, fail_after: %d", modes[m], after);
      CU_ASSERT_EQUAL_FATAL(rig_init(&r, profile(options, "")), TN_OK);
      CU_ASSERT_EQUAL_FATAL(rig_load(&r, branches(), 0), TN_OK);
      r.m->order_seed = 1;
      tn_session_destroy(r.s);
      CU_ASSERT_EQUAL_FATAL(tn_session_create(r.m, &r.s, &r.err), TN_OK);
      for (uint64_t seed = 0; seed < 6; seed++) {
        r.m->order_seed = seed;
        CU_ASSERT_EQUAL(run(&r, got), TN_OK); /* the host goes on where the device was lost */
        CU_ASSERT_EQUAL(memcmp(got, want, sizeof got), 0);
      }
      rig_finish(&r);
    }
}

/* --- lost devices ------------------------------------------------------------------------------------------------ */

/* An engine that never answers: code 5 after timeout_ms, at once when asked again, and the rest of the process goes on.
 */
static void test_never(void) {
  float got[ROWS * K], want[ROWS * K];
  rig r, other;
  on_host(branches(), want);
  CU_ASSERT_EQUAL_FATAL(rig_init(&r, profile("completion: never", "timeout_ms: 50\nrequire: [fake-engine]\n")), TN_OK);
  CU_ASSERT_EQUAL_FATAL(rig_load(&r, branches(), 0), TN_OK);
  CU_ASSERT_EQUAL_FATAL(rig_init(&other, profile("completion: thread", "")), TN_OK);
  CU_ASSERT_EQUAL_FATAL(rig_load(&other, branches(), 0), TN_OK);
  for (int i = 0; i < 2; i++) {
    CU_ASSERT_EQUAL(run(&r, got), TN_E_DEVICE_LOST);
    CU_ASSERT_PTR_NOT_NULL(strstr(r.err.message, "fake-engine:fake did not complete"));
    CU_ASSERT_PTR_NOT_NULL(strstr(r.err.message, "within 50 ms"));
    CU_ASSERT_EQUAL(run(&other, got), TN_OK);
    CU_ASSERT_EQUAL(memcmp(got, want, sizeof got), 0);
  }
  rig_finish(&r);
  CU_ASSERT_EQUAL(run(&other, got), TN_OK);
  rig_finish(&other);
}

/* Items that never end, and args_free that waits for them: the host says that it has given up, and comes to its end. */
static void test_hang(void) {
  float got[ROWS * K];
  rig r;
  CU_ASSERT_EQUAL_FATAL(rig_init(&r, profile("completion: hang", "timeout_ms: 50\nrequire: [fake-engine]\n")), TN_OK);
  CU_ASSERT_EQUAL_FATAL(rig_load(&r, chain(5), 0), TN_OK);
  for (int i = 0; i < 2; i++) CU_ASSERT_EQUAL(run(&r, got), TN_E_DEVICE_LOST);
  rig_finish(&r);
}

static void test_priority(void) {
  static const char *const names[] = {"normal", "low", "high"};
  for (int want = 0; want < 3; want++)
    for (int said = 0; said < 3; said++) {
      char options[64], more[64];
      float got[ROWS * K];
      rig r;
      snprintf(options, sizeof options, "completion: thread, priority: %d", want);
      snprintf(more, sizeof more, "priority: %s\nrequire: [fake-engine]\n", names[said]);
      CU_ASSERT_EQUAL_FATAL(rig_init(&r, profile(options, more)), TN_OK);
      CU_ASSERT_EQUAL_FATAL(rig_load(&r, chain(5), 0), TN_OK);
      CU_ASSERT_EQUAL(run(&r, got), want == said ? TN_OK : TN_E_INVALID);
      rig_finish(&r);
    }
}

/* Lost at every item in turn. Where the profile requires it: its own words, and the session and the device come down
 * cleanly; else the host goes on, with its own bits. */
static void test_lost_anywhere(void) {
  static const char *const modes[] = {"blocking", "thread", "inline", "map"};
  float want[ROWS * K];
  on_host(branches(), want);
  for (int after = 1; after < 3 * WIDE; after += 2) {
    float got[ROWS * K];
    char options[100];
    rig r;
    snprintf(options, sizeof options, "completion: %s, fail_after: %d, engines: %d", modes[after % 4], after,
             1 + after % 3 / 2);
    CU_ASSERT_EQUAL_FATAL(rig_init(&r, profile(options, "require: [fake-engine]\n")), TN_OK);
    CU_ASSERT_EQUAL_FATAL(rig_load(&r, branches(), 0), TN_OK);
    CU_ASSERT_EQUAL(run(&r, got), TN_E_DEVICE_LOST);
    CU_ASSERT_PTR_NOT_NULL(strstr(r.err.message, "fake-engine was told to fail"));
    rig_finish(&r);
    CU_ASSERT_EQUAL_FATAL(rig_init(&r, profile(options, "")), TN_OK);
    CU_ASSERT_EQUAL_FATAL(rig_load(&r, branches(), 0), TN_OK);
    CU_ASSERT_EQUAL(run(&r, got), TN_OK);
    CU_ASSERT_EQUAL(memcmp(got, want, sizeof got), 0);
    CU_ASSERT_PTR_NOT_NULL(strstr(r.log, "plugin 'fake-engine' is lost"));
    rig_finish(&r);
  }
}

/* --- done at the wrong time -------------------------------------------------------------------------------------- */

/* Again, of an earlier step, of a session that is gone: a line in the log, and nothing that is in flight now ends. */
static void test_stale(void) {
  for (int engines = 1; engines <= 2; engines++) {
    float want[ROWS * K], got[ROWS * K];
    char options[100];
    bool seen = false;
    rig r;
    on_host(branches(), want);
    snprintf(options, sizeof options, "completion: stale, delay_us: 20, engines: %d", engines);
    CU_ASSERT_EQUAL_FATAL(rig_init(&r, profile(options, "")), TN_OK);
    CU_ASSERT_EQUAL_FATAL(rig_load(&r, branches(), 0), TN_OK);
    for (int session = 0; session < 4; session++) {
      for (int k = 0; k < 3; k++) {
        const tn_status st = run(&r, got);
        if (st != TN_OK) printf("\n    %s\n", r.err.message);
        CU_ASSERT_EQUAL_FATAL(st, TN_OK);
        CU_ASSERT_EQUAL(memcmp(got, want, sizeof got), 0);
        seen = seen || strstr(r.log, "for an item of an earlier step; ignored");
        if (!session && !k) CU_ASSERT_PTR_NOT_NULL(strstr(r.log, "twice for one item; ignored"));
        r.log[0] = '\0';
      }
      tn_session_destroy(r.s);
      r.s = NULL;
      CU_ASSERT_EQUAL_FATAL(tn_session_create(r.m, &r.s, &r.err), TN_OK);
    }
    rig_finish(&r);
    CU_ASSERT(seen);
  }
}

/* What is given up answers later: after the session, and beside the next one. */
static void test_late(void) {
  float want[ROWS * K], got[ROWS * K];
  rig r;
  on_host(branches(), want);
  CU_ASSERT_EQUAL_FATAL(
      rig_init(&r, profile("completion: thread, delay_us: 30000", "timeout_ms: 10\nrequire: [fake-engine]\n")), TN_OK);
  CU_ASSERT_EQUAL_FATAL(rig_load(&r, branches(), 0), TN_OK);
  for (int i = 0; i < 3; i++) {
    CU_ASSERT_EQUAL(run(&r, got), TN_E_DEVICE_LOST);
    CU_ASSERT_PTR_NOT_NULL(strstr(r.err.message, "within 10 ms"));
    tn_session_destroy(r.s);
    r.s = NULL;
    CU_ASSERT_EQUAL_FATAL(tn_session_create(r.m, &r.s, &r.err), TN_OK);
  }
  rig_finish(&r);
}

/* --- virtual time ------------------------------------------------------------------------------------------------ */

static void record(const char *options, timeline *t) {
  float got[ROWS * K];
  rig r;
  memset(t, 0, sizeof *t);
  CU_ASSERT_EQUAL_FATAL(rig_init(&r, profile(options, "")), TN_OK);
  CU_ASSERT_EQUAL_FATAL(rig_load(&r, branches(), 0), TN_OK);
  tn_session_trace(r.s, on_event, t);
  for (int i = 0; i < 2; i++) CU_ASSERT_EQUAL(run(&r, got), TN_OK);
  rig_finish(&r);
}

/* The same times whoever completes and however long it really took; nothing of the device's is wall time; the CPU does
 * one thing at a time, and beside the engine. */
static void test_virtual(void) {
  static timeline a, b;
  record("completion: inline, virtual: true", &a);
  CU_ASSERT(a.n > 2 * 3 * WIDE && a.wall == 0);
  record("completion: thread, virtual: true, delay_us: 500", &b);
  CU_ASSERT(a.n == b.n && memcmp(&a, &b, sizeof a) == 0);
  record("completion: blocking, virtual: true, delay_us: 300", &b);
  CU_ASSERT(a.n == b.n && memcmp(&a, &b, sizeof a) == 0);
  int64_t engine = 0, cpu = 0, both = 0;
  for (int i = 0; i < a.n; i++) {
    int64_t *busy = strcmp(a.e[i].track, "fake-engine:cpu") == 0 ? &cpu : &engine;
    CU_ASSERT(a.e[i].start >= *busy && a.e[i].end >= a.e[i].start);
    *busy = a.e[i].end;
    for (int k = 0; k < i; k++)
      both += strcmp(a.e[i].track, a.e[k].track) != 0 && a.e[i].start < a.e[k].end && a.e[k].start < a.e[i].end;
  }
  CU_ASSERT(both > 0);
}

/* --- cancel ------------------------------------------------------------------------------------------------------ */

static void cancel_soon(void *user, const tn_trace_event *e) {
  (void)e;
  tn_session_cancel(user);
}

static void test_cancel(void) {
  float got[ROWS * K], want[ROWS * K];
  rig r;
  on_host(branches(), want);
  CU_ASSERT_EQUAL_FATAL(rig_init(&r, profile("completion: thread, delay_us: 200", "")), TN_OK);
  CU_ASSERT_EQUAL_FATAL(rig_load(&r, branches(), 0), TN_OK);
  tn_session_trace(r.s, cancel_soon, r.s);
  CU_ASSERT_EQUAL(run(&r, got), TN_E_CANCELLED);
  tn_session_trace(r.s, NULL, NULL);
  CU_ASSERT_EQUAL(run(&r, got), TN_OK);
  CU_ASSERT_EQUAL(memcmp(got, want, sizeof got), 0);
  rig_finish(&r);
}

typedef struct canceller {
  tn_session *s;
  long after_ns;
} canceller;

static void *cancel_later(void *arg) {
  const canceller *c = arg;
  nanosleep(&(struct timespec){.tv_nsec = c->after_ns}, NULL);
  tn_session_cancel(c->s);
  return NULL;
}

/* At any moment of a step on two engines and the CPU: ended or not, and the next run is right. */
static void test_cancel_anywhere(void) {
  static const char *const modes[] = {"blocking", "thread", "map"};
  float want[ROWS * K], got[ROWS * K];
  int cancelled = 0, ended = 0;
  on_host(branches(), want);
  for (size_t m = 0; m < sizeof modes / sizeof *modes; m++) {
    char options[100];
    rig r;
    snprintf(options, sizeof options, "completion: %s, engines: 2, delay_us: 50", modes[m]);
    CU_ASSERT_EQUAL_FATAL(rig_init(&r, profile(options, "")), TN_OK);
    CU_ASSERT_EQUAL_FATAL(rig_load(&r, branches(), 0), TN_OK);
    for (long i = 0; i < 25; i++) {
      canceller c = {r.s, i * 200000};
      pthread_t thread;
      CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, cancel_later, &c), 0);
      tn_status st = run(&r, got);
      CU_ASSERT(st == TN_OK || st == TN_E_CANCELLED);
      pthread_join(thread, NULL);
      __atomic_store_n(&r.s->cancel, 0, __ATOMIC_RELAXED); /* not for the next one */
      ended += st == TN_OK;
      cancelled += st == TN_E_CANCELLED;
      if (st == TN_OK) CU_ASSERT_EQUAL(memcmp(got, want, sizeof got), 0);
      st = run(&r, got);
      if (st != TN_OK) printf("\n    %s: %s\n", options, r.err.message);
      CU_ASSERT_EQUAL_FATAL(st, TN_OK);
      CU_ASSERT_EQUAL(memcmp(got, want, sizeof got), 0);
    }
    rig_finish(&r);
  }
  CU_ASSERT(cancelled > 0);
  printf("%d ended, %d did not ... ", ended, cancelled);
}

/* Items that take a second each end at once, and the next run computes all of them. */
static void test_cancel_items(void) {
  enum { N = 20 };
  float got[ROWS * K];
  int items, submits, together;
  pthread_t thread;
  rig r;
  CU_ASSERT_EQUAL_FATAL(rig_init(&r, profile("completion: thread, delay_us: 1000000, cancels: true, count: true", "")),
                        TN_OK);
  CU_ASSERT_EQUAL_FATAL(rig_load(&r, chain(N), 0), TN_OK);
  canceller c = {r.s, 100000000};
  CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, cancel_later, &c), 0);
  CU_ASSERT_EQUAL(run(&r, got), TN_E_CANCELLED);
  pthread_join(thread, NULL);
  counts(&r, &items, &submits, &together);
  CU_ASSERT(items >= 0 && items < 3);
  rig_finish(&r);
  CU_ASSERT_EQUAL_FATAL(rig_init(&r, profile("completion: thread, delay_us: 2000, cancels: true", "")), TN_OK);
  CU_ASSERT_EQUAL_FATAL(rig_load(&r, chain(N), 0), TN_OK);
  c = (canceller){r.s, 10000000};
  CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, cancel_later, &c), 0);
  const tn_status st = run(&r, got);
  CU_ASSERT(st == TN_OK || st == TN_E_CANCELLED);
  pthread_join(thread, NULL);
  __atomic_store_n(&r.s->cancel, 0, __ATOMIC_RELAXED);
  CU_ASSERT_EQUAL(run(&r, got), TN_OK);
  for (int i = 0; i < ROWS * K; i++) CU_ASSERT_EQUAL(got[i], x_data[i] + N * row[i % K]);
  rig_finish(&r);
}

/* A plugin that forgets one ticket is told from one that stands still. */
static void test_dropped(void) {
  static const struct {
    const char *options, *says;
    int n;
  } rows[] = {
      {"completion: drop",
       "did not complete 'fake-add-1' within 100 ms: done was never called for its ticket, though it was for a later item",
       5},
      {"completion: never",
       "did not complete 'fake-add-0' within 100 ms: done was not called for its ticket, nor for 4 more", 5},
      {"completion: blocking, delay_us: 1000000",
       "did not complete 'fake-add-0' within 100 ms: its submit has not returned", 1}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    float got[ROWS * K];
    rig r;
    CU_ASSERT_EQUAL_FATAL(rig_init(&r, profile(rows[i].options, "timeout_ms: 100\nrequire: [fake-engine]\n")), TN_OK);
    CU_ASSERT_EQUAL_FATAL(rig_load(&r, chain(rows[i].n), 0), TN_OK);
    CU_ASSERT_EQUAL(run(&r, got), TN_E_DEVICE_LOST);
    if (!strstr(r.err.message, rows[i].says)) printf("\n    %s: %s\n", rows[i].options, r.err.message);
    CU_ASSERT_PTR_NOT_NULL(strstr(r.err.message, rows[i].says));
    rig_finish(&r);
  }
}

/* The profile states no deadline, so that nothing but the engine's own bounds cancel and abandon. */
static void test_hang_in(void) {
  for (int cancels = 0; cancels < 2; cancels++) {
    float got[ROWS * K];
    pthread_t thread;
    rig r;
    CU_ASSERT_EQUAL_FATAL(rig_init(&r, profile(cancels ? "completion: hang, cancels: true, hang_in: cancel"
                                                       : "completion: hang, hang_in: abandon",
                                               "require: [fake-engine]\n")),
                          TN_OK);
    CU_ASSERT_EQUAL_FATAL(rig_load(&r, chain(5), 0), TN_OK);
    if (!cancels) ((tni_profile *)(uintptr_t)r.rt->profile)->timeout_ms = 100;
    canceller c = {r.s, 100000000};
    if (cancels) CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, cancel_later, &c), 0);
    const int64_t begin = tni_now_ns();
    CU_ASSERT_EQUAL(run(&r, got), cancels ? TN_E_CANCELLED : TN_E_DEVICE_LOST);
    if (cancels) pthread_join(thread, NULL);
    CU_ASSERT_PTR_NOT_NULL(strstr(r.log, cancels ? "'cancel' did not come back" : "'abandon' did not come back"));
    __atomic_store_n(&r.s->cancel, 0, __ATOMIC_RELAXED);
    CU_ASSERT_EQUAL(run(&r, got), TN_E_DEVICE_LOST);
    rig_finish(&r);
    CU_ASSERT(tni_now_ns() - begin < 20 * INT64_C(1000000000));
  }
}

static int times_of(const rig *r, const char *what) {
  int n = 0;
  for (const char *p = r->log; (p = strstr(p, what)); p++) n++;
  return n;
}

/* One vote for all sessions, taken back with the last; none where the profile has no wish, and one that is refused is a
 * line in the log. */
static void test_power(void) {
  static const char *const modes[] = {"none", "save", "balanced", "sustained", "burst"};
  for (int mode = 0; mode < 5; mode++) {
    char more[64], line[32];
    float got[ROWS * K];
    tn_session *second = NULL;
    rig r;
    snprintf(more, sizeof more, "power: %s\nrequire: [fake-engine]\n", modes[mode]);
    snprintf(line, sizeof line, "power %d", mode);
    CU_ASSERT_EQUAL_FATAL(rig_init(&r, profile("completion: thread, count: true", more)), TN_OK);
    CU_ASSERT_EQUAL_FATAL(rig_load(&r, chain(3), 0), TN_OK);
    CU_ASSERT_EQUAL_FATAL(tn_session_create(r.m, &second, &r.err), TN_OK);
    CU_ASSERT_EQUAL(run(&r, got), TN_OK);
    CU_ASSERT_EQUAL(times_of(&r, line), mode > 0 && mode < 4);
    CU_ASSERT_EQUAL(times_of(&r, "does not grant the profile's power: fake-engine has no mode 4"), mode == 4);
    tn_session_destroy(second);
    CU_ASSERT_EQUAL(times_of(&r, "power 0"), 0);
    tn_session_destroy(r.s);
    r.s = NULL;
    CU_ASSERT_EQUAL(times_of(&r, "power 0"), mode > 0);
    CU_ASSERT_EQUAL_FATAL(tn_session_create(r.m, &r.s, &r.err), TN_OK);
    CU_ASSERT_EQUAL(times_of(&r, line), mode > 0 && mode < 4 ? 2 : 0);
    rig_finish(&r);
  }
}

void suite_executor(void) {
  CU_pSuite s = CU_add_suite("engines beside the CPU", NULL, NULL);
  CU_add_test(s, "every way of completing, every order", test_modes);
  CU_add_test(s, "tasks that are looked at", test_looks);
  CU_add_test(s, "one submit per run", test_one_submit);
  CU_add_test(s, "more than fits", test_depth);
  CU_add_test(s, "more than fits, of several sessions", test_depth_of_sessions);
  CU_add_test(s, "two engines at once", test_overlap);
  CU_add_test(s, "fences between engines", test_fences);
  CU_add_test(s, "fences, in any order and lost anywhere", test_fences_anywhere);
  CU_add_test(s, "an engine that never answers", test_never);
  CU_add_test(s, "an engine that hangs, and args_free with it", test_hang);
  CU_add_test(s, "an engine that forgets a ticket, by its words", test_dropped);
  CU_add_test(s, "cancel and abandon that hang", test_hang_in);
  CU_add_test(s, "the profile's priority", test_priority);
  CU_add_test(s, "the profile's power", test_power);
  CU_add_test(s, "lost at any item", test_lost_anywhere);
  CU_add_test(s, "virtual time", test_virtual);
  CU_add_test(s, "cancel", test_cancel);
  CU_add_test(s, "cancel at any moment, two engines", test_cancel_anywhere);
  CU_add_test(s, "items that are cancelled", test_cancel_items);
  CU_add_test(s, "done again, too late, of a session that is gone", test_stale);
  CU_add_test(s, "an answer after the timeout", test_late);
}
