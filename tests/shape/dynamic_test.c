/* SPDX-License-Identifier: Apache-2.0
 *
 * What only the run knows: which nodes are marked, why, and how they run without a session (sched/interp.h).
 */
#include <CUnit/Basic.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/base/pool.h"
#include "runtime/interp/interp.h"
#include "runtime/ops/kernel/args.h"
#include "tests/shape/table.h"

static tni_graph *start(tni_exprs *x) {
  tni_graph *g = NULL;
  CU_ASSERT_EQUAL_FATAL(tni_graph_create(x, "t", &g, NULL), TN_OK);
  return g;
}

static void op_at(tni_graph *g, int version, const char *type, const char *in, const char *out, const char *attrs) {
  tn_error err;
  tni_error_init(&err);
  if (add_op(g, type, version, in, out, attrs, &err) != TN_OK) printf("\n%s: %s", type, err.message);
  CU_ASSERT_EQUAL(err.code, TN_OK);
}

static void op(tni_graph *g, const char *type, const char *in, const char *out, const char *attrs) {
  op_at(g, 18, type, in, out, attrs);
}

/* Names in order, separated by spaces. */
static uint32_t ids(const tni_graph *g, const char *names, tn_id *out) {
  char copy[2048], *save = NULL;
  uint32_t n = 0;
  snprintf(copy, sizeof copy, "%s", names);
  for (char *p = strtok_r(copy, " ", &save); p; p = strtok_r(NULL, " ", &save)) out[n++] = tni_graph_find(g, p);
  return n;
}

static void set_io(tni_graph *g, const char *in, const char *out) {
  tn_id i[128], o[128];
  const uint32_t n_in = ids(g, in, i), n_out = ids(g, out, o);
  CU_ASSERT_EQUAL_FATAL(tni_graph_set_io(g, i, n_in, o, n_out), TN_OK);
}

static void infer(tni_graph *g) {
  tn_error err;
  tni_error_init(&err);
  tn_status st = tni_graph_finish(g, &err);
  if (st == TN_OK) st = tni_infer_graph(g, &err);
  if (st != TN_OK) printf("\n%s", err.message);
  CU_ASSERT_EQUAL_FATAL(st, TN_OK);
}

static void test_marks(void) {
  tni_graph *g = start(NULL);
  char why[200];
  add_word(g, "x", "f32[b,4]");
  op(g, "Abs", "x", "a", "");
  op(g, "NonZero", "a", "nz", "");
  op(g, "Shape", "nz", "s", "");
  op(g, "Transpose", "nz", "t", "perm=1,0");
  op(g, "Neg", "x", "y", "");
  set_io(g, "x", "s t y");
  infer(g);
  CU_ASSERT_EQUAL(tni_mark_dynamic(g), 3);
  static const bool want[] = {false, true, true, true, false};
  for (uint32_t i = 0; i < 5; i++) CU_ASSERT_EQUAL(g->nodes[i]->dynamic, want[i]);
  CU_ASSERT_FALSE(tni_graph_value(g, tni_graph_find(g, "s"))->dynamic); /* [2], whatever is in it */
  CU_ASSERT_TRUE(tni_graph_value(g, tni_graph_find(g, "t"))->dynamic);
  CU_ASSERT_PTR_NOT_NULL(strstr(tni_dynamic_reason(g, 3, why, sizeof why), "data of NonZero"));
  tni_graph_destroy(g);
}

/* Its dims are known, and no device plans it. */
static void test_compress_by_constant(void) {
  tni_graph *g = start(NULL);
  add_word(g, "x", "f32[n,3]");
  static uint8_t bits[3] = {1, 0, 1};
  const tni_tensor c = {.dtype = TN_DT_BOOL, .rank = 1, .dims = {3}, .data = bits, .bytes = 3};
  CU_ASSERT_EQUAL_FATAL(tni_value_set_tensor(g, tni_graph_add_value(g, "c", TN_VALUE_CONST, TN_DT_BOOL), &c, NULL),
                        TN_OK);
  op(g, "Compress", "x c", "y", "axis=1");
  op(g, "Neg", "y", "z", "");
  set_io(g, "x", "z");
  infer(g);
  CU_ASSERT_EQUAL(tni_mark_dynamic(g), 1);
  CU_ASSERT_TRUE(g->nodes[0]->dynamic);
  CU_ASSERT_FALSE(tni_graph_value(g, tni_graph_find(g, "y"))->dynamic);
  tni_graph_destroy(g);
}

/* A mask of 64 symbols is too small for some graphs: none of theirs may pass for one of the data's. */
static void test_many_symbols(void) {
  tni_graph *g = start(NULL);
  char name[16], word[32], list[1024] = "";
  for (int i = 0; i < 80; i++) {
    snprintf(name, sizeof name, "x%d", i);
    snprintf(word, sizeof word, "f32[n%d]", i);
    add_word(g, name, word);
    strcat(strcat(list, name), " ");
  }
  op(g, "Neg", "x79", "y", "");
  op(g, "NonZero", "x78", "z", "");
  set_io(g, list, "y z");
  infer(g);
  CU_ASSERT_EQUAL(tni_mark_dynamic(g), 1);
  CU_ASSERT_FALSE(g->nodes[0]->dynamic);
  tni_graph_destroy(g);
}

/* A mask whose length has a name of its own, against scores over past + seq. */
static void test_sum_with_a_name(void) {
  tni_graph *g = start(NULL);
  add_word(g, "ids", "i64[b,seq]");
  add_word(g, "past", "f32[b,past]");
  add_word(g, "new", "f32[b,seq]");
  add_word(g, "mask", "f32[b,total]");
  op(g, "Concat", "past new", "all", "axis=1");
  op(g, "Neg", "mask", "m", "");
  op(g, "Add", "all m", "y", "");
  op(g, "Shape", "mask", "s", "");
  set_io(g, "ids past new mask", "y s");
  infer(g);
  static const char *const names[] = {"mask", "m", "y"};
  for (uint32_t i = 0; i < 3; i++)
    CU_ASSERT_TRUE(matches(g, tni_graph_value(g, tni_graph_find(g, names[i])), "f32[b,past+seq]"));
  CU_ASSERT_TRUE(matches(g, tni_graph_value(g, tni_graph_find(g, "s")), "i64[2]={b,past+seq}"));
  tni_graph_destroy(g);
  g = start(NULL); /* a length, against the same with a past */
  add_word(g, "u", "f32[seq]");
  add_word(g, "v", "f32[past+seq]");
  op(g, "Add", "u v", "y", "");
  op(g, "Add", "v u", "z", "");
  set_io(g, "u v", "y z");
  infer(g);
  CU_ASSERT_TRUE(matches(g, tni_graph_value(g, tni_graph_find(g, "y")), "f32[past+seq]"));
  CU_ASSERT_TRUE(matches(g, tni_graph_value(g, tni_graph_find(g, "z")), "f32[past+seq]"));
  CU_ASSERT_EQUAL(tni_ex_n_defined(g->exprs), 0);
  tni_graph_destroy(g);
  g = start(NULL); /* two plain lengths may still differ: one of them may be 1 */
  add_word(g, "u", "f32[n]");
  add_word(g, "v", "f32[m]");
  op(g, "Add", "u v", "y", "");
  set_io(g, "u v", "y");
  infer(g);
  CU_ASSERT_TRUE(matches(g, tni_graph_value(g, tni_graph_find(g, "v")), "f32[m]"));
  CU_ASSERT_EQUAL(tni_ex_n_defined(g->exprs), 0);
  tni_graph_destroy(g);
}

/* Attention says so too: by the last axis of its mask, or, where it is told, by a number that is read off an input. From
 * version 24 on a mask may be shorter, so one that the user gives says nothing. */
static void test_total_of_attention(void) {
  static const struct {
    bool told, made, learns; /* made: the mask is computed of what the user gives */
    int version;
  } rows[] = {{false, false, true, 23}, {true, false, true, 23}, {false, false, false, 24}, {false, true, true, 24}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const bool told = rows[i].told;
    tn_error err;
    tn_id dim;
    tni_error_init(&err);
    tni_graph *g = start(NULL);
    add_word(g, "x", "f32[b,2,seq,8]");
    add_word(g, "past", "f32[b,2,past,8]");
    add_word(g, "mask", told ? "i64[b,total]" : "bool[b,1,1,total]");
    add_word(g, "one", "i64[]=1");
    op(g, "Shape", "mask", "s", "");
    op(g, "Gather", "s one", "count", "axis=0");
    if (rows[i].made) op(g, "Not", "mask", "hidden", "");
    const char *in = told ? "x x x - past past" : rows[i].made ? "x x x hidden past past" : "x x x mask past past";
    CU_ASSERT_EQUAL(add_op(g, "Attention", rows[i].version, in, "y k v", "", &err), TN_OK);
    if (told) {
      g->total_rows = tni_graph_find(g, "count");
      g->past_rows = tni_graph_value(g, tni_graph_find(g, "past"))->pub.dims[2];
    }
    set_io(g, "x past mask", "y k v s count");
    infer(g);
    const tni_value *mask = tni_graph_value(g, tni_graph_find(g, "mask"));
    const tn_expr total = mask->pub.dims[mask->pub.rank - 1];
    CU_ASSERT_EQUAL(total == tni_ex_parse(g->exprs, "past+seq"), rows[i].learns);
    CU_ASSERT_EQUAL(tni_ex_is_sym(g->exprs, total, &dim), !rows[i].learns);
    tni_graph_destroy(g);
  }
}

/* The size of a head by another name: a cache is appended to with as many columns as it has. */
static void test_constant_with_a_name(void) {
  for (int attends = 0; attends < 2; attends++) {
    tni_graph *g = start(NULL);
    add_word(g, "x", "f32[b,2,seq,8]");
    add_word(g, "past", "f32[b,2,past,size]");
    if (attends)
      op_at(g, 23, "Attention", "x x x - past past", "y k v", "");
    else
      op(g, "Concat", "past x", "k", "axis=2");
    set_io(g, "x past", "k");
    infer(g);
    CU_ASSERT_TRUE(matches(g, tni_graph_value(g, tni_graph_find(g, "past")), "f32[b,2,past,8]"));
    CU_ASSERT_TRUE(matches(g, tni_graph_value(g, tni_graph_find(g, "k")), "f32[b,2,past+seq,8]"));
    tni_graph_destroy(g);
  }
}

static tni_cell *floats(const float *v, int64_t n) {
  tni_tensor t = {.dtype = TN_DT_F32, .rank = 1, .dims = {n}, .bytes = (uint64_t)n * 4};
  tni_cell *c = tni_cell_new(&t);
  CU_ASSERT_PTR_NOT_NULL_FATAL(c);
  memcpy(c->t.data, v, (size_t)t.bytes);
  return c;
}

static void test_non_zero(void) {
  tni_graph *g = start(NULL);
  const float v[] = {0, 2, -0.0f, 3, 1e-40f};
  tni_cell *in = floats(v, 5), *out[1];
  tn_run run;
  tn_error err;
  tni_interp ip = {.run = &run, .err = &err};
  tni_error_init(&err);
  tni_run_inline(&run);
  add_word(g, "x", "f32[n]");
  op(g, "NonZero", "x", "nz", "");
  op(g, "Transpose", "nz", "y", "perm=1,0");
  set_io(g, "x", "y");
  infer(g);
  CU_ASSERT_EQUAL_FATAL(tni_interp_graph(&ip, g, NULL, &in, 1, out), TN_OK);
  const int64_t want[] = {1, 3, 4};
  CU_ASSERT_TRUE(out[0]->t.rank == 2 && out[0]->t.dims[0] == 3 && out[0]->t.dims[1] == 1);
  CU_ASSERT_EQUAL(memcmp(out[0]->t.data, want, sizeof want), 0);
  CU_ASSERT_EQUAL(in->refs, 1); /* nothing holds on to it */
  tni_cell_drop(out[0]);
  tni_cell_drop(in);
  tni_graph_destroy(g);
}

/* Loop(M, "", x): acc = acc + acc, and acc stacked; captures nothing. */
static tni_graph *loop_graph(bool endless) {
  tni_graph *g = start(NULL), *body = start(g->exprs);
  tn_id in[3], out[2];
  add_word(body, "i", "i64[]");
  add_word(body, "c", "bool[]");
  add_word(body, "acc", "f32[...]");
  op(body, "Identity", "c", "go", "");
  op(body, "Add", "acc acc", "acc2", "");
  op(body, "Neg", "acc2", "s", "");
  set_io(body, "i c acc", "go acc2 s");
  add_word(g, "M", "i64[]");
  add_word(g, "x", "f32[n]");
  in[0] = endless ? TN_NONE : tni_graph_find(g, "M");
  in[1] = TN_NONE;
  in[2] = tni_graph_find(g, "x");
  out[0] = tni_graph_add_value(g, "y", TN_VALUE_ACT, TN_DT_F32);
  out[1] = tni_graph_add_value(g, "all", TN_VALUE_ACT, TN_DT_F32);
  tni_raw_attr a = {.name = "body", .a = {.h = TN_HDR(tn_attr), .type = TN_ATTR_GRAPH}, .graphs = &body, .n_graphs = 1};
  CU_ASSERT_EQUAL_FATAL(tni_graph_add_node(g, "round", "", "Loop", 16, in, 3, out, 2, &a, 1, NULL, NULL), TN_OK);
  set_io(g, "M x", "y all");
  infer(g);
  return g;
}

static void test_loop(void) {
  const float v[] = {1, -3};
  for (int64_t turns = 0; turns < 4; turns++) {
    tni_graph *g = loop_graph(false);
    const tni_tensor count = {.dtype = TN_DT_I64, .bytes = 8, .data = &turns};
    tni_cell *in[] = {tni_cell_borrow(&count), floats(v, 2)}, *out[2];
    tn_run run;
    tn_error err;
    tni_interp ip = {.run = &run, .err = &err};
    tni_error_init(&err);
    tni_run_inline(&run);
    CU_ASSERT_EQUAL(tni_mark_dynamic(g), 1);
    tn_status st = tni_interp_graph(&ip, g, NULL, in, 2, out);
    if (turns == 0) { /* the body does not say what it would have given */
      CU_ASSERT_EQUAL(st, TN_E_UNSUPPORTED);
      CU_ASSERT_PTR_NOT_NULL(strstr(err.message, "round"));
    } else {
      CU_ASSERT_EQUAL_FATAL(st, TN_OK);
      CU_ASSERT_EQUAL(((float *)out[0]->t.data)[1], -3.0f * (float)(1 << turns));
      CU_ASSERT_TRUE(out[1]->t.rank == 2 && out[1]->t.dims[0] == turns && out[1]->t.dims[1] == 2);
      CU_ASSERT_EQUAL(((float *)out[1]->t.data)[2 * turns - 2], -1.0f * (float)(1 << turns));
      tni_cell_drop(out[0]);
      tni_cell_drop(out[1]);
    }
    CU_ASSERT_TRUE(in[0]->refs == 1 && in[1]->refs == 1);
    tni_cell_drop(in[0]);
    tni_cell_drop(in[1]);
    tni_graph_destroy(g);
  }
}

static int32_t stop;
static void *stop_soon(void *arg) {
  const struct timespec t = {.tv_nsec = 20 * 1000 * 1000};
  nanosleep(&t, NULL);
  __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
  return arg;
}

/* Loop("", "", x) whose body hands on what it gets, without a node. */
static tni_graph *idle_graph(void) {
  tni_graph *g = start(NULL), *body = start(g->exprs);
  add_word(body, "i", "i64[]");
  add_word(body, "c", "bool[]");
  add_word(body, "v", "f32[...]");
  set_io(body, "i c v", "c v");
  add_word(g, "M", "i64[]");
  add_word(g, "x", "f32[n]");
  const tn_id in[3] = {TN_NONE, TN_NONE, tni_graph_find(g, "x")},
              out = tni_graph_add_value(g, "y", TN_VALUE_ACT, TN_DT_F32);
  tni_raw_attr a = {.name = "body", .a = {.h = TN_HDR(tn_attr), .type = TN_ATTR_GRAPH}, .graphs = &body, .n_graphs = 1};
  CU_ASSERT_EQUAL_FATAL(tni_graph_add_node(g, "idle", "", "Loop", 16, in, 3, &out, 1, &a, 1, NULL, NULL), TN_OK);
  set_io(g, "M x", "y");
  infer(g);
  return g;
}

/* An endless loop ends when it is told to. */
static void stop_loop(tni_graph *g) {
  const float v[] = {0};
  tni_cell *in[] = {floats(v, 1), floats(v, 1)}, *out[2];
  pthread_t thread;
  tni_pool_run run;
  tn_error err;
  tni_interp ip = {.run = &run.run, .err = &err};
  tni_error_init(&err);
  tni_pool_run_init(&run, NULL, &stop);
  stop = 0;
  CU_ASSERT_EQUAL_FATAL(pthread_create(&thread, NULL, stop_soon, NULL), 0);
  CU_ASSERT_EQUAL(tni_interp_graph(&ip, g, NULL, in, 2, out), TN_E_CANCELLED);
  pthread_join(thread, NULL);
  tni_cell_drop(in[0]);
  tni_cell_drop(in[1]);
  tni_graph_destroy(g);
}

static void test_cancel(void) {
  stop_loop(loop_graph(true));
  stop_loop(idle_graph());
}

int main(void) {
  if (CU_initialize_registry() != CUE_SUCCESS) return 1;
  CU_pSuite s = CU_add_suite("dynamic", NULL, NULL);
  bool ok = s && CU_add_test(s, "marks and reasons", test_marks) && CU_add_test(s, "many symbols", test_many_symbols) &&
            CU_add_test(s, "a sum with a name", test_sum_with_a_name) &&
            CU_add_test(s, "the total of Attention", test_total_of_attention) &&
            CU_add_test(s, "a constant with a name", test_constant_with_a_name) &&
            CU_add_test(s, "NonZero", test_non_zero) &&
            CU_add_test(s, "Compress by a constant", test_compress_by_constant) && CU_add_test(s, "Loop", test_loop) &&
            CU_add_test(s, "cancel", test_cancel);
  if (ok) {
    CU_basic_set_mode(CU_BRM_VERBOSE);
    CU_basic_run_tests();
  }
  unsigned failures = ok ? CU_get_number_of_failures() : 1;
  CU_cleanup_registry();
  return failures != 0;
}
