/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include "session_test.h"

enum { K = 16 };

static void fill(float *p, size_t n, uint32_t seed) {
  for (size_t i = 0; i < n; i++) {
    seed = seed * 1664525u + 1013904223u;
    p[i] = (float)(int32_t)seed / 2147483648.0f;
  }
}

/* Two products and a softmax over x[n,16]. */
static wbuf network(void) {
  static float w[K * K];
  fill(w, K * K, 9);
  return text_model("MatMul:p:x,w:a;Relu:r:a:b;MatMul:q:b,w:c;Add:s:c,x:d;Softmax:sm:d:y", "x=n,16", "y;c", "16,16", w,
                    K * K);
}

typedef struct user {
  tn_model *m;
  const float *want; /* [rounds][rows * K] */
  size_t wrong;
} user;

enum { ROUNDS = 60, MAX_ROWS = 9 };

static int64_t rows_of(int i) { return 1 + i * 5 % MAX_ROWS; }

static tn_status round_of(tn_session *s, int i, tn_tensor *out) {
  static _Thread_local float x[MAX_ROWS * K];
  fill(x, sizeof x / sizeof *x, (uint32_t)i);
  tn_tensor t = f32_tensor("x", x, 2, rows_of(i), K, 0);
  const tn_tensor *in[] = {&t};
  memset(out, 0, sizeof *out);
  for (uint32_t o = 0; o < 1; o++) out[o].h = (tn_hdr){sizeof(tn_tensor), 1, 0};
  return tn_session_run(s, 0, in, 1, out, 1, NULL);
}

static void *use(void *arg) {
  user *u = arg;
  tn_session *s = NULL;
  if (tn_session_create(u->m, &s, NULL) != TN_OK) {
    u->wrong = 1000;
    return NULL;
  }
  for (int i = 0; i < ROUNDS; i++) {
    tn_tensor out;
    u->wrong += round_of(s, i, &out) != TN_OK || out.bytes != (uint64_t)rows_of(i) * K * 4 ||
                memcmp(out.data, u->want + (size_t)i * MAX_ROWS * K, out.bytes) != 0;
  }
  tn_session_destroy(s);
  return NULL;
}

/* Sessions of one model at once, dims changing all the time: the bits of one session alone. */
static void two_sessions(const char *profile) {
  static float want[ROUNDS * MAX_ROWS * K];
  rig r;
  CU_ASSERT_EQUAL_FATAL(rig_init(&r, profile), TN_OK);
  CU_ASSERT_EQUAL_FATAL(rig_load(&r, network(), 0), TN_OK);
  for (int i = 0; i < ROUNDS; i++) {
    tn_tensor out;
    CU_ASSERT_EQUAL_FATAL(round_of(r.s, i, &out), TN_OK);
    memcpy(want + (size_t)i * MAX_ROWS * K, out.data, out.bytes);
  }
  user u[3] = {{r.m, want, 0}, {r.m, want, 0}, {r.m, want, 0}};
  pthread_t t[3];
  for (int i = 0; i < 3; i++) CU_ASSERT_EQUAL_FATAL(pthread_create(&t[i], NULL, use, &u[i]), 0);
  for (int i = 0; i < 3; i++) {
    pthread_join(t[i], NULL);
    CU_ASSERT_EQUAL(u[i].wrong, 0);
  }
  rig_finish(&r);
}

static void test_sessions_host(void) { two_sessions("plugins: [host]\n"); }
static void test_sessions_plugin(void) { two_sessions("plugins: [sched-matmul, host]\n"); }
static void test_sessions_engine(void) { two_sessions("plugins: [fake-engine, host]\n"); }

/* Output memory stays as it is until the next run of the same session; inputs may move. */
static void test_memory(void) {
  rig r;
  CU_ASSERT_EQUAL_FATAL(rig_init(&r, "plugins: [host]\n"), TN_OK);
  CU_ASSERT_EQUAL_FATAL(rig_load(&r, network(), 0), TN_OK);
  float a[3 * K], b[3 * K], first[3 * K];
  fill(a, 3 * K, 1);
  memcpy(b, a, sizeof a);
  tn_tensor out[2], x = f32_tensor("x", a, 2, 3, K, 0);
  CU_ASSERT_EQUAL_FATAL(rig_run(&r, 0, &x, NULL, NULL, out, 2), TN_OK);
  memcpy(first, out[0].data, sizeof first);
  memset(a, 0, sizeof a);
  CU_ASSERT_EQUAL(memcmp(first, out[0].data, sizeof first), 0);
  x.data = b; /* same dims, other memory */
  CU_ASSERT_EQUAL_FATAL(rig_run(&r, 0, &x, NULL, NULL, out, 2), TN_OK);
  CU_ASSERT_EQUAL(memcmp(first, out[0].data, sizeof first), 0);
  x.data = a;
  CU_ASSERT_EQUAL_FATAL(rig_run(&r, 0, &x, NULL, NULL, out, 2), TN_OK);
  CU_ASSERT_NOT_EQUAL(memcmp(first, out[0].data, sizeof first), 0);
  rig_finish(&r);
}

static void *cancel_soon(void *arg) {
  usleep(50000);
  tn_session_cancel(arg);
  return NULL;
}

static void test_cancel(void) {
  rig r;
  float a[K] = {0};
  tn_tensor out[2], x = f32_tensor("x", a, 2, 1, K, 0);
  fill(a, K, 1);
  pthread_t t;
  /* In the middle of a task that polls. */
  CU_ASSERT_EQUAL_FATAL(rig_init(&r, "plugins:\n  - name: sched-matmul\n    options: {fault: wait}\n  - name: host\n"),
                        TN_OK);
  CU_ASSERT_EQUAL_FATAL(rig_load(&r, network(), 0), TN_OK);
  for (int i = 0; i < 3; i++) {
    CU_ASSERT_EQUAL_FATAL(pthread_create(&t, NULL, cancel_soon, r.s), 0);
    CU_ASSERT_EQUAL(rig_run(&r, 0, &x, NULL, NULL, out, 2), TN_E_CANCELLED);
    CU_ASSERT_EQUAL(r.err.code, TN_E_CANCELLED);
    pthread_join(t, NULL);
  }
  rig_finish(&r);
  /* In the middle of a bind that polls; and it is forgotten then. */
  CU_ASSERT_EQUAL_FATAL(rig_init(&r, "plugins:\n  - name: sched-matmul\n    options: {fault: bind}\n  - name: host\n"),
                        TN_OK);
  CU_ASSERT_EQUAL_FATAL(rig_load(&r, network(), 0), TN_OK);
  for (int i = 0; i < 3; i++) {
    CU_ASSERT_EQUAL_FATAL(pthread_create(&t, NULL, cancel_soon, r.s), 0);
    CU_ASSERT_EQUAL(rig_run(&r, 0, &x, NULL, NULL, out, 2), TN_E_CANCELLED);
    pthread_join(t, NULL);
  }
  rig_finish(&r);
  /* Before a task starts; then the session goes on, with the right result. */
  CU_ASSERT_EQUAL_FATAL(rig_init(&r, "plugins: [host]\n"), TN_OK);
  CU_ASSERT_EQUAL_FATAL(rig_load(&r, network(), 0), TN_OK);
  tn_session_cancel(r.s);
  CU_ASSERT_EQUAL(rig_run(&r, 0, &x, NULL, NULL, out, 2), TN_E_CANCELLED);
  CU_ASSERT_EQUAL(rig_run(&r, 0, &x, NULL, NULL, out, 2), TN_OK);
  float sum = 0;
  for (int i = 0; i < K; i++) sum += ((const float *)out[0].data)[i];
  CU_ASSERT(sum > 0.999f && sum < 1.001f);
  rig_finish(&r);
}

static double cpu_seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* One kernel that takes minutes stops, and the session goes on with the bits that it gave before. */
static void interrupt(const char *nodes, const char *inputs, const char *outputs, const tn_tensor *small,
                      const tn_tensor *large) {
  enum { OUTS = 4, LIMIT_S = 5 };
  rig r;
  pthread_t t;
  uint32_t n = 1;
  tn_tensor out[OUTS];
  void *want[OUTS];
  for (const char *p = outputs; *p; p++) n += *p == ';';
  CU_ASSERT_EQUAL_FATAL(rig_init(&r, "plugins: [host]\n"), TN_OK);
  CU_ASSERT_EQUAL_FATAL(rig_load(&r, text_model(nodes, inputs, outputs, NULL, NULL, 0), 0), TN_OK);
  CU_ASSERT_EQUAL_FATAL(rig_run(&r, 0, small, NULL, NULL, out, n), TN_OK);
  for (uint32_t o = 0; o < n; o++) {
    want[o] = malloc(out[o].bytes);
    memcpy(want[o], out[o].data, out[o].bytes);
  }
  for (int i = 0; i < 3; i++) {
    const double begin = cpu_seconds();
    CU_ASSERT_EQUAL_FATAL(pthread_create(&t, NULL, cancel_soon, r.s), 0);
    CU_ASSERT_EQUAL(rig_run(&r, 0, large, NULL, NULL, out, n), TN_E_CANCELLED);
    CU_ASSERT_EQUAL(r.err.code, TN_E_CANCELLED);
    CU_ASSERT(cpu_seconds() - begin < LIMIT_S);
    pthread_join(t, NULL);
    CU_ASSERT_EQUAL_FATAL(rig_run(&r, 0, small, NULL, NULL, out, n), TN_OK);
    for (uint32_t o = 0; o < n; o++) CU_ASSERT_EQUAL(memcmp(want[o], out[o].data, out[o].bytes), 0);
  }
  for (uint32_t o = 0; o < n; o++) free(want[o]);
  rig_finish(&r);
}

static void test_interrupted(void) {
  enum { SIDE = 4000, MANY = 6000000, PRIME = 1000003 };
  float *x = malloc((size_t)SIDE * SIDE * sizeof *x);
  fill(x, (size_t)SIDE * SIDE, 3);
  const tn_tensor square[] = {f32_tensor("x", x, 2, 5, 5, 0), f32_tensor("x", x, 2, SIDE, SIDE, 0)};
  interrupt("Det:d:x:y", "x=n,n", "y", &square[0], &square[1]);
  const tn_tensor line[] = {f32_tensor("x", x, 1, 9, 0, 0), f32_tensor("x", x, 1, MANY, 0, 0)};
  interrupt("Unique:u:x:y,i,v,c", "x=n", "y;i;v;c", &line[0], &line[1]);
  const tn_tensor signal[] = {f32_tensor("x", x, 3, 1, 7, 1), f32_tensor("x", x, 3, 1, PRIME, 1)};
  interrupt("DFT:f:x:y", "x=1,n,1", "y", &signal[0], &signal[1]);
  free(x);
}

typedef struct traced {
  uint32_t n, matmul, host;
  uint32_t steps;
  int64_t last;
  int wrong;
  char ops[256];
} traced;

static void on_event(void *to, const tn_trace_event *e) {
  traced *t = to;
  t->n++;
  t->matmul += strcmp(e->track, "sched-matmul:cpu") == 0;
  t->host += strcmp(e->track, "host:cpu") == 0;
  t->wrong += e->end < e->start || e->start < t->last || !e->name || !*e->name;
  t->last = e->end;
  t->steps = e->step;
  const size_t at = strlen(t->ops);
  if (!e->step) snprintf(t->ops + at, sizeof t->ops - at, "%s;", e->ops);
}

static void test_trace(void) {
  rig r;
  float a[K] = {0};
  traced t = {0};
  tn_tensor out[2], x = f32_tensor("x", a, 2, 1, K, 0);
  fill(a, K, 1);
  CU_ASSERT_EQUAL_FATAL(rig_init(&r, "plugins: [sched-matmul, host]\n"), TN_OK);
  CU_ASSERT_EQUAL_FATAL(rig_load(&r, network(), 0), TN_OK);
  tn_session_trace(r.s, on_event, &t);
  CU_ASSERT_EQUAL(rig_run(&r, 0, &x, NULL, NULL, out, 2), TN_OK);
  CU_ASSERT(t.n == 5 && t.matmul == 2 && t.host == 3 && t.wrong == 0 && t.steps == 0);
  CU_ASSERT_STRING_EQUAL(t.ops, "MatMul;Relu;MatMul;Add;Softmax;");
  CU_ASSERT_EQUAL(rig_run(&r, 0, &x, NULL, NULL, out, 2), TN_OK);
  CU_ASSERT(t.n == 10 && t.steps == 1);
  tn_session_trace(r.s, NULL, NULL);
  CU_ASSERT_EQUAL(rig_run(&r, 0, &x, NULL, NULL, out, 2), TN_OK);
  CU_ASSERT_EQUAL(t.n, 10);
  rig_finish(&r);
}

/* A task of two nodes says both operators. */
static void test_trace_names(void) {
  rig r;
  traced t = {0};
  const float a[4] = {0}, w = 1;
  tn_tensor out, x = f32_tensor("x", a, 3, 1, 1, 4);
  CU_ASSERT_EQUAL_FATAL(rig_init(&r, "plugins: [host]\n"), TN_OK);
  CU_ASSERT_EQUAL_FATAL(rig_load(&r, text_model("Conv:c:x,w:a;Relu:r:a:y", "x=1,1,4", "y", "1,1,1", &w, 1), 0), TN_OK);
  tn_session_trace(r.s, on_event, &t);
  CU_ASSERT_EQUAL(rig_run(&r, 0, &x, NULL, NULL, &out, 1), TN_OK);
  CU_ASSERT_STRING_EQUAL(t.ops, "Conv Relu;");
  rig_finish(&r);
}

static void test_refusals(void) {
  rig r;
  CU_ASSERT_EQUAL_FATAL(rig_init(&r, "plugins: [host]\n"), TN_OK);
  wbuf bad = text_model("Relu:a:x:t;Frobnicate:odd:t:y", "x=n,4", "y=n,4", NULL, NULL, 0);
  CU_ASSERT_EQUAL(rig_load(&r, bad, 0), TN_E_UNSUPPORTED);
  CU_ASSERT_PTR_NOT_NULL(strstr(r.err.message, "Frobnicate 'odd'"));
  CU_ASSERT_PTR_NULL(r.m);
  tn_error_init(&r.err);
  bad = text_model("Relu:a:x:t;Frobnicate:odd:t:y", "x=n,4", "y=n,4", NULL, NULL, 0);
  CU_ASSERT_EQUAL(rig_load(&r, bad, TN_MODEL_INSPECT), TN_OK);
  CU_ASSERT_EQUAL(tn_session_create(r.m, &r.s, &r.err), TN_E_INVALID);
  char *json = NULL;
  CU_ASSERT_EQUAL(tn_model_report(r.m, TN_REPORT_CHECK, &json, NULL), TN_OK);
  CU_ASSERT(json && strstr(json, "odd"));
  tn_free(json);
  json = NULL;
  CU_ASSERT_EQUAL(tn_model_report(r.m, TN_REPORT_PLACEMENT, &json, NULL), TN_OK);
  CU_ASSERT(json && !strstr(json, "odd") && !strstr(json, "\"nodes\"") && strstr(json, "\"unsupported\": 1"));
  tn_free(json);
  rig_finish(&r);
}

void suite_runs(void) {
  CU_pSuite s = CU_add_suite("runs", NULL, NULL);
  CU_add_test(s, "sessions at once, host", test_sessions_host);
  CU_add_test(s, "sessions at once, plugin", test_sessions_plugin);
  CU_add_test(s, "sessions at once, engine", test_sessions_engine);
  CU_add_test(s, "memory of inputs and outputs", test_memory);
  CU_add_test(s, "cancel from another thread", test_cancel);
  CU_add_test(s, "cancel in the middle of a kernel", test_interrupted);
  CU_add_test(s, "trace", test_trace);
  CU_add_test(s, "names of operators in a trace", test_trace_names);
  CU_add_test(s, "models that do not run", test_refusals);
}
