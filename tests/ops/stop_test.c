/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels that would go on for seconds or hours, told to stop by another thread: they end with TN_E_CANCELLED, soon.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ops_test.h"
#include "runtime/ops/kernel/elements.h"

enum { WAIT_MS = 100, LIMIT_S = 5 }; /* of processor time, also where everything takes 20 times as long */

typedef struct row {
  const char *op, *attrs, *in[HT_IO];
  uint32_t n_out;
  const char *out; /* its dims are the data's, and this is the kernel's share of looking: what it would be */
  int64_t version;
} row;

/* Floats are filled with pseudo-random numbers, where the text has none. */
static const row rows[] = {
    {"AveragePool", "kernel_shape=[1000,1000]", {"f32[1,1,2000,2000]"}, 1, NULL, 0},
    {"AveragePool", "kernel_shape=[1000,1000]", {"f64[1,1,2000,2000]"}, 1, NULL, 0},
    {"MaxPool", "kernel_shape=[1000,1000]", {"f32[1,1,2000,2000]"}, 2, NULL, 0},
    {"MaxPool", "kernel_shape=[1000,1000]", {"i8[1,1,2000,2000]"}, 1, NULL, 0},
    {"LpPool", "kernel_shape=[1000,1000] p=3", {"f32[1,1,2000,2000]"}, 1, NULL, 0},
    {"GlobalLpPool", "p=3", {"f32[1,1,9000,9000]"}, 1, NULL, 0},
    {"LRN", "size=59999", {"f32[1,59999,16]"}, 1, NULL, 0},
    {"Det", "", {"f32[2500,2500]"}, 1, NULL, 0},
    {"DFT", "", {"f32[1,1000003,1]"}, 1, NULL, 0},
    {"DFT", "", {"f32[1,2000006,1]"}, 1, NULL, 0},
    {"STFT", "", {"f32[1,500000]", "i64[] 100000", "-", "i64[] 99991"}, 1, NULL, 0},
    {"Einsum",
     "equation='ab,bc,cd,de->'",
     {"f32[300,300]", "f32[300,300]", "f32[300,300]", "f32[300,300]"},
     1,
     NULL,
     0},
    {"Einsum",
     "equation='ab,bc,cd,de->'",
     {"i32[300,300]", "i32[300,300]", "i32[300,300]", "i32[300,300]"},
     1,
     NULL,
     0},
    {"Einsum", "equation='abcd,abce->de'", {"f32[60,60,60,60]", "f32[60,60,60,60]"}, 1, NULL, 0},
    {"RNN", "hidden_size=512", {"f32[90000,1,8]", "f32[1,512,8]", "f32[1,512,512]"}, 2, NULL, 22},
    {"GRU", "hidden_size=256", {"f32[90000,1,8]", "f32[1,768,8]", "f32[1,768,256]"}, 2, NULL, 22},
    {"LSTM", "hidden_size=256", {"f32[90000,1,8]", "f32[1,1024,8]", "f32[1,1024,256]"}, 3, NULL, 22},
    {"LinearAttention",
     "q_num_heads=1 kv_num_heads=1 update_rule='linear'",
     {"f32[1,50000,256]", "f32[1,50000,256]", "f32[1,50000,256]"},
     2,
     NULL,
     27},
    {"CausalConvWithState", "", {"f32[1,1,300000]", "f32[1,1,300000]"}, 2, NULL, 27},
    {"GridSample", "mode='cubic'", {"f32[1,1,3,3,3,3,3,3]", "f32[1,8,8,8,8,8,8,6]"}, 1, NULL, 0},
    {"GridSample", "mode='linear'", {"f32[1,90000,2,2,2,2]", "f32[1,5,5,5,5,4]"}, 1, NULL, 0},
    {"Resize", "mode='cubic'", {"f32[1,1,2,2,2,2,2,2]", "-", "-", "i64[8] 1 1 12 12 12 12 12 12"}, 1, NULL, 0},
    {"Resize", "mode='cubic' antialias=1", {"f32[4000,4000]", "-", "-", "i64[2] 60 60"}, 1, NULL, 0},
    {"TopK", "", {"f32[3000000]", "i64[1] 3000000"}, 2, NULL, 0},
    {"Unique", "", {"f32[5000000]"}, 4, NULL, 0},
    {"Unique", "axis=0", {"i8[2000,30000]"}, 4, NULL, 0},
    {"Unique", "axis=0", {"i8[2000,30000]"}, 1, "i8[1,30000]", 0},
    {"NonMaxSuppression", "", {"f32[1,200000,4] 0 0 0 0", "f32[1,1,200000]", "i64[] 200000"}, 1, NULL, 0},
    {"NonMaxSuppression", "", {"f32[1,200000,4] 0 0 0 0", "f32[1,1,200000]", "i64[] 200000"}, 1, "i64[200000,3]", 0},
    {"Multinomial", "sample_size=100000", {"f32[1,100000]"}, 1, NULL, 0},
    {"RoiAlign",
     "output_height=100 output_width=100 sampling_ratio=4096",
     {"f32[1,1,64,64]", "f32[1,4] 0 0 60 60", "i64[1] 0"},
     1,
     NULL,
     0},
    {"MaxRoiPool", "pooled_shape=[1,1] spatial_scale=2000000f", {"f32[1,1,2000,2000]", "f32[9000,5]"}, 1, NULL, 0},
    {"Conv", "", {"f64[1,1,2000,2000]", "f64[1,1,1000,1000]"}, 1, NULL, 0},
    {"Conv", "group=2", {"f32[1,2,1500,1500]", "f32[2,1,700,700]"}, 1, NULL, 0},
    {"Conv", "", {"f32[1,8,1500,1500]", "f32[8,8,60,60]"}, 1, NULL, 0},
    {"ConvTranspose", "", {"f32[1,1,1000,1000]", "f32[1,1,500,500]"}, 1, NULL, 0},
    {"ConvTranspose", "", {"f64[1,1,1000,1000]", "f64[1,1,500,500]"}, 1, NULL, 0},
    {"DeformConv", "", {"f32[1,256,130,130]", "f32[1,256,3,3]", "f32[1,18,128,128]"}, 1, NULL, 0},
    {"DeformConv", "", {"f64[1,64,130,130]", "f64[16,64,3,3]", "f64[1,18,128,128]"}, 1, NULL, 0},
    {"ConvInteger", "", {"u8[1,64,512,512]", "u8[64,64,15,15]"}, 1, NULL, 0},
    {"MatMul", "", {"f64[3000,3000]", "f64[3000,3000]"}, 1, NULL, 0},
    {"MatMul", "", {"f32[5000,5000]", "f32[5000,5000]"}, 1, NULL, 0},
    {"Gemm", "transB=1", {"f32[5000,5000]", "f32[5000,5000]", "f32[5000]"}, 1, NULL, 0},
    {"MatMulInteger", "", {"u8[5000,5000]", "u8[5000,5000]"}, 1, NULL, 0},
    {"MatMul", "", {"i64[2000,2000]", "i64[2000,2000]"}, 1, NULL, 0},
    {"Attention", "", {"f32[1,8,30000,64]", "f32[1,8,30000,64]", "f32[1,8,30000,64]"}, 1, NULL, 0},
    {"Attention", "", {"f64[1,1,6000,64]", "f64[1,1,6000,64]", "f64[1,1,6000,64]"}, 1, NULL, 0},
    {"Attention", "", {"f32[1,1,6000,64]", "f32[1,1,6000,64]", "f32[1,1,6000,64]"}, 4, NULL, 0},
};

static void fill(const char *text, tni_tensor *t, uint32_t seed) {
  int64_t n;
  const char *rest = strchr(text, ']') + 1;
  if (*rest || (t->dtype != TN_DT_F32 && t->dtype != TN_DT_F64) || tni_dims_count(t->dims, t->rank, &n)) return;
  float *x = malloc((size_t)n * sizeof *x);
  ht_fill(x, n, seed);
  if (t->dtype == TN_DT_F32) memcpy(t->data, x, (size_t)t->bytes);
  for (int64_t i = 0; i < n && t->dtype == TN_DT_F64; i++) {
    const double v = (double)x[i];
    memcpy((char *)t->data + i * 8, &v, 8);
  }
  free(x);
}

static void *stop_soon(void *flag) {
  const struct timespec t = {.tv_nsec = WAIT_MS * 1000 * 1000};
  nanosleep(&t, NULL);
  __atomic_store_n((int32_t *)flag, 1, __ATOMIC_RELAXED);
  return NULL;
}

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

/* The kernel alone, with the output that the text says. */
static tn_status call(ht_node *n, const char *text, tn_run *run) {
  tni_tensor out, *outs[HT_IO] = {&out};
  if (!ht_tensor(n->g->arena, text, &out)) return TN_E_INTERNAL;
  const uint64_t bytes = tni_ops_scratch(&n->node->pub, n->ptr, n->n_in, &out, run->n_workers);
  const tni_kargs a = {.node = &n->node->pub,
                       .in = n->ptr,
                       .out = outs,
                       .n_in = n->n_in,
                       .n_out = 1,
                       .scratch = bytes ? aligned_alloc(64, (bytes + 63) & ~(size_t)63) : NULL,
                       .run = run,
                       .err = &n->err};
  const tn_status st = tni_kernel_call(tni_ops_kernel(n->node->op), &a);
  free(a.scratch);
  return st;
}

static void stop(const row *r, uint32_t workers) {
  tni_tensor out[HT_IO];
  int32_t flag = 0;
  ht_node n;
  pthread_t thread;
  tni_pool_run run;
  CU_ASSERT_FATAL(ht_node_make(&n, r->op, r->version, r->attrs, r->in, r->n_out));
  for (uint32_t i = 0; i < n.n_in; i++)
    if (n.ptr[i]) fill(r->in[i], &n.in[i], i + 1);
  tni_pool *pool = tni_pool_create(workers);
  tni_pool_run_init(&run, pool, &flag);
  const double begin = seconds();
  CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, stop_soon, &flag), 0);
  const tn_status st = r->out ? call(&n, r->out, &run.run)
                              : tni_ops_eval(&run.run, n.node, n.ptr, n.n_in, out, n.n_out, n.g->arena, &n.err);
  const double took = seconds() - begin;
  pthread_join(thread, NULL);
  if (st != TN_E_CANCELLED || took > LIMIT_S)
    printf("\n    %s %s: status %d after %.1f s: %s", r->op, r->in[0], (int)st, took, n.err.message);
  CU_ASSERT_EQUAL(st, TN_E_CANCELLED);
  CU_ASSERT_EQUAL(n.err.code, TN_E_CANCELLED);
  CU_ASSERT_STRING_EQUAL(n.err.where, "the node");
  CU_ASSERT(took <= LIMIT_S);
  tni_pool_destroy(pool);
  ht_node_free(&n);
}

static void test_one_thread(void) {
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) stop(&rows[i], 1);
}

static void test_threads(void) {
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i += 3) stop(&rows[i], 3);
}

/* --- how long a kernel goes on without looking --- */

/* A quiet machine takes 10 ms at most. AFTER: questions of loops around the one that was told to stop. */
enum { ASKED_MS = 100, GAP_MS = 1000, AFTER = 16 };

typedef struct asker {
  double begin, last, worst; /* processor time of this thread, which others do not take from */
  int after;                 /* questions after the answer "stop" */
} asker;

static double thread_seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void note_gap(asker *a) {
  const double now = thread_seconds();
  if (a->last > 0 && now - a->last > a->worst) a->worst = now - a->last;
  a->last = now;
}

static int32_t ask_timed(const tn_run *run) {
  asker *a = run->ctx;
  note_gap(a);
  const bool stopped = a->last - a->begin > ASKED_MS * 1e-3;
  a->after += stopped;
  return stopped;
}

/* The time between two questions, and from the answer "stop" to the kernel's return. */
static void gap(const row *r, double limit) {
  tni_tensor out[HT_IO];
  asker a = {0};
  ht_node n;
  tn_run run;
  CU_ASSERT_FATAL(ht_node_make(&n, r->op, r->version, r->attrs, r->in, r->n_out));
  for (uint32_t i = 0; i < n.n_in; i++)
    if (n.ptr[i]) fill(r->in[i], &n.in[i], i + 1);
  tni_run_inline(&run);
  run.ctx = (void *)&a;
  run.cancelled = ask_timed;
  a.begin = thread_seconds();
  const tn_status st =
      r->out ? call(&n, r->out, &run) : tni_ops_eval(&run, n.node, n.ptr, n.n_in, out, n.n_out, n.g->arena, &n.err);
  note_gap(&a);
  CU_ASSERT_EQUAL(st, TN_E_CANCELLED);
  CU_ASSERT(a.after > 0 && a.after <= AFTER);
  CU_ASSERT(a.worst < limit);
  if (a.worst >= limit || a.after > AFTER || getenv("TENON_TEST_GAPS"))
    printf("\n    %s %s: %.1f ms without a question, %d after the answer", r->op, r->in[0], a.worst * 1e3, a.after);
  ht_node_free(&n);
}

/* Sanitizers and builds without optimisation are slower, not other. */
static void test_gaps(void) {
#if defined(__OPTIMIZE__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  const double limit = GAP_MS * 1e-3;
#else
  const double limit = 40 * GAP_MS * 1e-3;
#endif
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) gap(&rows[i], limit);
}

/* --- the loop that all share --- */

typedef struct counter {
  int64_t asked, stop_at; /* questions */
  int64_t done;
} counter;

static int32_t count_asked(const tn_run *run) {
  counter *c = run->ctx;
  return ++c->asked >= c->stop_at;
}

static void count_done(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  (void)worker;
  ((counter *)arg)->done += end - begin;
}

static void test_loop(void) {
  static const int64_t costs[] = {1, 7, TNI_POLL / 2, TNI_POLL, INT64_C(1) << 62};
  for (size_t i = 0; i < sizeof costs / sizeof *costs; i++) {
    tn_run run;
    tni_run_inline(&run);
    run.cancelled = count_asked;
    const int64_t per = costs[i] < TNI_POLL ? TNI_POLL / costs[i] : 1;
    counter c = {0, INT64_MAX, 0};
    run.ctx = &c;
    tni_kfor(&run, 10 * per, costs[i], count_done, &c); /* all of it, asked at each piece */
    CU_ASSERT_EQUAL(c.done, 10 * per);
    CU_ASSERT_EQUAL(c.asked, 10);
    c = (counter){0, 4, 0};
    tni_kfor(&run, 10 * per, costs[i], count_done, &c);
    CU_ASSERT_EQUAL(c.done, 3 * per);
    c = (counter){0, 1, 0};
    tni_kfor(&run, 3, 1, count_done, &c); /* too little to ask */
    CU_ASSERT_EQUAL(c.done, 3);
    CU_ASSERT_EQUAL(c.asked, 0);
  }
}

/* A kernel that was told to stop gives CANCELLED, whatever became of it and whatever is said to others afterwards. */
static tn_status stumble(const tni_kargs *a) {
  return tni_run_cancelled(a->run) ? tni_kfail(a, TN_E_INTERNAL, "half a result") : TN_OK;
}

static int32_t once(const tn_run *run) { return ++*(int32_t *)run->ctx == 1; }

static void test_remembered(void) {
  tn_error err;
  int32_t asked = 0;
  tn_run run;
  tn_node node = {.name = "here"};
  tni_run_inline(&run);
  run.ctx = &asked;
  run.cancelled = once;
  const tni_kargs a = {.node = &node, .run = &run, .err = &err};
  tni_error_init(&err);
  CU_ASSERT_EQUAL(tni_kernel_call(stumble, &a), TN_E_CANCELLED);
  CU_ASSERT_EQUAL(err.code, TN_E_CANCELLED);
  CU_ASSERT_STRING_EQUAL(err.where, "here");
  tni_error_init(&err);
  CU_ASSERT_EQUAL(tni_kernel_call(stumble, &a), TN_OK);
  CU_ASSERT_EQUAL(asked, 2);
}

bool ht_add_stop(void) {
  CU_pSuite s = CU_add_suite("host: stopping", NULL, NULL);
  return s && CU_add_test(s, "one thread", test_one_thread) && CU_add_test(s, "threads", test_threads) &&
         CU_add_test(s, "time between questions", test_gaps) && CU_add_test(s, "the loop that all share", test_loop) &&
         CU_add_test(s, "remembered", test_remembered);
}
