/* SPDX-License-Identifier: Apache-2.0
 *
 * Tasks in random orders that the task graph allows: the same bits, for every seed; and without the edges that shared
 * memory needs, other ones.
 */
#include "memory_test.h"
#include "runtime/memory/guard.h"
#include "runtime/memory/session_memory.h"
#include "runtime/memory/task_order.h"
#include "runtime/session/session_tasks.h"

enum { K = 16, ROWS = 5, SEEDS = 60 };

/* Branches of one input that know nothing of each other, and meet at the end. */
static wbuf branches(void) {
  static float w[K * K];
  for (size_t i = 0; i < K * K; i++) w[i] = (float)((i * 37 + 11) % 64) / 32.0f - 1.0f;
  return text_model(
      "Softmax:a0:x:a;MatMul:a1:a,w:b;LogSoftmax:a2:b:c;"
      "LogSoftmax:b0:x:d;MatMul:b1:d,w:e;Softmax:b2:e:f;"
      "Relu:c00:x:g0;LogSoftmax:c0:g0:g;MatMul:c1:g,w:h;LogSoftmax:c2:h:i;"
      "Neg:d00:x:j0;Softmax:d0:j0:j;MatMul:d1:j,w:k;Softmax:d2:k:l;"
      "MatMul:e0:c,w:m;MatMul:e1:f,w:n;MatMul:e2:i,w:o;MatMul:e3:l,w:p;"
      "Softmax:f0:m:q;Softmax:f1:n:r;Softmax:f2:o:s;Softmax:f3:p:t;"
      "MatMul:g0:q,w:u;MatMul:g1:r,w:v;Sum:g2:u,v:aa;MatMul:g3:s,w:bb;MatMul:g4:t,w:cc;"
      "Sum:g5:bb,cc:dd;Sum:g6:aa,dd:y",
      "x=n,16", "y", "16,16", w, K * K);
}

typedef struct outcome {
  float y[ROWS * K];
} outcome;

static tn_status run_once(rig *r, outcome *o) {
  float x[ROWS * K];
  for (int i = 0; i < ROWS * K; i++) x[i] = (float)((i * 29 + 3) % 50) / 10.0f - 2.5f;
  tn_tensor out, in = f32_tensor("x", x, 2, ROWS, K, 0);
  tn_status st = rig_run(r, 0, &in, NULL, NULL, &out, 1);
  if (st == TN_OK) memcpy(o->y, out.data, sizeof o->y);
  return st;
}

/* Runs that differ from the planned order's, of SEEDS. edges: with those that shared memory needs. */
static uint32_t differing(const char *profile, bool edges) {
  rig r;
  outcome planned, o;
  uint32_t n = 0, moved = 0;
  CU_ASSERT_EQUAL_FATAL(rig_init(&r, profile), TN_OK);
  CU_ASSERT_EQUAL_FATAL(rig_load(&r, branches(), 0), TN_OK);
  CU_ASSERT_EQUAL_FATAL(run_once(&r, &planned), TN_OK);
  tn_session_destroy(r.s);
  r.m->order_seed = 1;
  CU_ASSERT_EQUAL_FATAL(tn_session_create(r.m, &r.s, NULL), TN_OK);
  CU_ASSERT_EQUAL_FATAL(run_once(&r, &o), TN_OK);
  tni_sexec *x = &r.s->execs[0];
  CU_ASSERT(x->graph.n == x->exec->n_tasks && x->graph.n_edges >= x->exec->graph.n_edges);
  for (uint32_t seed = 1; seed <= SEEDS; seed++) {
    r.m->order_seed = seed;
    if (!edges) {
      tni_taskgraph_destroy(&x->graph);
      uint32_t *same = calloc(x->exec->n_tasks, sizeof *same);
      for (uint32_t i = 0; same && i < x->exec->n_tasks; i++) same[i] = i;
      CU_ASSERT_PTR_NOT_NULL_FATAL(same);
      CU_ASSERT_EQUAL_FATAL(tni_taskgraph_permute(&x->exec->graph, same, &x->graph), TN_OK);
      free(same);
    }
    CU_ASSERT_EQUAL_FATAL(run_once(&r, &o), TN_OK);
    for (uint32_t i = 0; i < x->exec->n_tasks; i++) moved += x->order[i] != i;
    n += memcmp(o.y, planned.y, sizeof o.y) != 0;
  }
  printf("%u tasks elsewhere in %d runs of %u ... ", moved, SEEDS, r.m->execs[0].n_tasks);
  CU_ASSERT(moved > 0); /* the orders are not the planned one */
  rig_finish(&r);
  return n;
}

static void test_host(void) { CU_ASSERT_EQUAL(differing("plugins: [host]\n", true), 0); }
static void test_plugin(void) { CU_ASSERT_EQUAL(differing("plugins: [sched-matmul, host]\n", true), 0); }
static void test_engine(void) { CU_ASSERT_EQUAL(differing("plugins: [fake-engine, host]\n", true), 0); }

#if defined(__SANITIZE_THREAD__)
enum { FINDS_RACES = 1 };
#else
enum { FINDS_RACES = 0 };
#endif

/* It races on purpose. */
static void test_without_edges(void) {
  if (FINDS_RACES) return;
  uint32_t n = differing("plugins: [host]\n", false);
  printf("%u of %d runs differ ... ", n, SEEDS);
  CU_ASSERT(n > SEEDS / 4);
}

/* The order of a placement is one of its graph, and takes what the plan says. */
static void test_bound(void) {
  rig r;
  int64_t dims[8] = {ROWS};
  CU_ASSERT_EQUAL_FATAL(rig_init(&r, "plugins: [host]\n"), TN_OK);
  CU_ASSERT_EQUAL_FATAL(rig_load(&r, branches(), 0), TN_OK);
  uint64_t arena = 0, outputs = 0, scratch = 0, bound = 0;
  const int64_t *const one[] = {dims};
  CU_ASSERT_EQUAL(tni_memory_measure(r.m, &r.m->execs[0], one, 1, &arena, &outputs, &scratch, NULL), TN_OK);
  CU_ASSERT_EQUAL(tni_exec_bound(r.m, &r.m->execs[0], dims, &bound, NULL), TN_OK);
  CU_ASSERT(bound > 0 && arena >= bound && arena <= bound + bound / 20);
  CU_ASSERT_EQUAL(outputs, ROWS * K * sizeof(float) + TNI_GUARD_BYTES);
  rig_finish(&r);
}

/* Figures of the statement of models/demo with this context. */
static void statement(int64_t max_seq, const char *const *keys, double *out, uint32_t n) {
  rig r;
  char path[512], profile[64], *json = NULL;
  snprintf(path, sizeof path, "%s/models/demo", getenv("TENON_TEST_SOURCE"));
  snprintf(profile, sizeof profile, "plugins: [host]\nmax_seq: %d\nprefill_chunk: 8\n", (int)max_seq);
  CU_ASSERT_EQUAL_FATAL(rig_init(&r, profile), TN_OK);
  CU_ASSERT_EQUAL_FATAL(rig_open(&r, path, TN_MODEL_INSPECT), TN_OK);
  CU_ASSERT_EQUAL_FATAL(tn_model_report(r.m, TN_REPORT_INSPECT, &json, NULL), TN_OK);
  for (uint32_t i = 0; i < n; i++) out[i] = json_number(json, keys[i]);
  tn_free(json);
  rig_finish(&r);
}

/* Caches once, a table by the rows that are looked up, and sums that are sums. */
static void test_statement(void) {
  static const char *const keys[] = {"kv_bytes",      "arena_bytes",   "arena_lower_bound_bytes",
                                     "weights_bytes", "outputs_bytes", "anonymous_bytes",
                                     "file_bytes",    "total_bytes"};
  enum { KV, ARENA, BOUND, WEIGHTS, OUTPUTS, ANONYMOUS, FILE_BYTES, TOTAL, N };
  enum { LAYERS = 6, KV_HEADS = 4, HEAD = 32, VOCAB = 4096 };
  double few[N], many[N];
  statement(16, keys, few, N);
  statement(1600, keys, many, N);
  CU_ASSERT_EQUAL(few[KV], 2.0 * LAYERS * KV_HEADS * HEAD * 16 * sizeof(float));
  CU_ASSERT_EQUAL(many[KV], 100 * few[KV]);
  CU_ASSERT(few[BOUND] > 0 && few[ARENA] >= few[BOUND] && few[ARENA] <= 1.05 * few[BOUND]);
  CU_ASSERT(few[OUTPUTS] >= VOCAB * sizeof(float) && few[OUTPUTS] < 2 * VOCAB * sizeof(float)); /* one row */
  CU_ASSERT(few[WEIGHTS] < many[WEIGHTS]);
  CU_ASSERT(few[ANONYMOUS] > few[KV] + few[ARENA] + few[OUTPUTS] && few[FILE_BYTES] > few[WEIGHTS]);
  CU_ASSERT(few[TOTAL] >= few[ANONYMOUS] + few[FILE_BYTES] && many[TOTAL] >= many[ANONYMOUS] + many[FILE_BYTES]);
}

void suite_order(void) {
  CU_pSuite s = CU_add_suite("random orders", NULL, NULL);
  CU_add_test(s, "host", test_host);
  CU_add_test(s, "plugin", test_plugin);
  CU_add_test(s, "engine", test_engine);
  CU_add_test(s, "a plan without its edges is seen", test_without_edges);
  CU_add_test(s, "arena and lower bound", test_bound);
  CU_add_test(s, "statement", test_statement);
}
