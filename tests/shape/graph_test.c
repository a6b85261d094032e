/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "tests/shape/table.h"

typedef struct world {
  tni_graph *g;
  tn_error err;
} world;

static world start(void) {
  world w;
  tni_error_init(&w.err);
  CU_ASSERT_EQUAL_FATAL(tni_graph_create(NULL, "t", &w.g, &w.err), TN_OK);
  return w;
}

static void op(world *w, const char *type, const char *in, const char *out, const char *attrs) {
  CU_ASSERT_EQUAL(add_op(w->g, type, 18, in, out, attrs, &w->err), TN_OK);
}

static void finish(world *w, const char *in, const char *out) {
  tn_id i = tni_graph_find(w->g, in), o = tni_graph_find(w->g, out);
  CU_ASSERT_EQUAL(tni_graph_set_io(w->g, &i, i != TN_NONE, &o, 1), TN_OK);
  CU_ASSERT_EQUAL(tni_graph_finish(w->g, &w->err), TN_OK);
  CU_ASSERT_EQUAL(tni_infer_graph(w->g, &w->err), TN_OK);
  if (w->err.code) CU_FAIL(w->err.message);
}

static const tni_value *value(const world *w, const char *name) {
  const tni_value *v = tni_graph_value(w->g, tni_graph_find(w->g, name));
  CU_ASSERT_PTR_NOT_NULL_FATAL(v);
  return v;
}

static uint32_t alive(const world *w) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < w->g->n_nodes; i++) n += !w->g->nodes[i]->dead;
  return n;
}

/* What exporters write for view(b, s, -1, 16): Shape, Gather, Unsqueeze, Concat, Reshape. */
static void heads(world *w) {
  add_word(w->g, "x", "f32[b,past+seq,64]");
  add_word(w->g, "zero", "i64[]=0");
  add_word(w->g, "one", "i64[]=1");
  add_word(w->g, "axis", "i64[1]=0");
  add_word(w->g, "minus", "i64[1]=-1");
  add_word(w->g, "sixteen", "i64[1]=16");
  op(w, "Shape", "x", "shape", "");
  op(w, "Gather", "shape zero", "g0", "");
  op(w, "Gather", "shape one", "g1", "");
  op(w, "Unsqueeze", "g0 axis", "u0", "");
  op(w, "Unsqueeze", "g1 axis", "u1", "");
  op(w, "Concat", "u0 u1 minus sixteen", "target", "axis=0");
  op(w, "Reshape", "x target", "y", "");
}

static void test_heads(void) {
  world w = start();
  uint32_t n = 0;
  tn_id left[8];
  heads(&w);
  finish(&w, "x", "y");
  CU_ASSERT_TRUE(matches(w.g, value(&w, "target"), "i64[4]={b,past+seq,-1,16}"));
  CU_ASSERT_TRUE(matches(w.g, value(&w, "y"), "f32[b,past+seq,4,16]"));
  CU_ASSERT_EQUAL(tni_shape_ops_left(w.g, left, 8), 6);
  CU_ASSERT_EQUAL(left[0], 0);
  CU_ASSERT_EQUAL(tni_lift_shape_values(w.g, &n, &w.err), TN_OK);
  CU_ASSERT_EQUAL(n, 6);
  CU_ASSERT_EQUAL(alive(&w), 1);
  CU_ASSERT_EQUAL(tni_shape_ops_left(w.g, left, 8), 0);
  CU_ASSERT_EQUAL(tni_graph_compact(w.g, &w.err), TN_OK);
  CU_ASSERT_EQUAL(value(&w, "target")->pub.kind, TN_VALUE_STEP);
  CU_ASSERT_EQUAL(value(&w, "target")->pub.producer, TN_NONE);
  CU_ASSERT_FALSE(tni_step_is_read(w.g, tni_graph_find(w.g, "target")));
  CU_ASSERT_EQUAL(tni_infer_graph(w.g, &w.err), TN_OK); /* inference goes on working */
  CU_ASSERT_TRUE(matches(w.g, value(&w, "y"), "f32[b,past+seq,4,16]"));
  tni_graph_destroy(w.g);
}

static void test_step_write(void) {
  world w = start();
  uint32_t n = 0;
  int64_t dims[3], got[4] = {0};
  heads(&w);
  finish(&w, "x", "y");
  CU_ASSERT_EQUAL(tni_lift_shape_values(w.g, &n, &w.err), TN_OK);
  tn_id b, v = tni_graph_find(w.g, "target");
  CU_ASSERT_EQUAL_FATAL(tni_ex_n_symbols(w.g->exprs), 3);
  CU_ASSERT_TRUE(tni_ex_is_sym(w.g->exprs, tni_ex_sym(w.g->exprs, "b"), &b));
  for (uint32_t i = 0; i < 3; i++) dims[i] = i == b ? 2 : 5;
  CU_ASSERT_EQUAL(tni_step_write(w.g, v, dims, 3, got, sizeof got), TN_OK);
  CU_ASSERT_EQUAL(got[0], 2);
  CU_ASSERT_EQUAL(got[1], 10);
  CU_ASSERT_EQUAL(got[2], -1);
  CU_ASSERT_EQUAL(got[3], 16);
  CU_ASSERT_EQUAL(tni_step_write(w.g, v, dims, 3, got, 8), TN_E_INVALID);
  CU_ASSERT_EQUAL(tni_step_write(w.g, v, dims, 1, got, sizeof got), TN_E_INVALID);
  CU_ASSERT_EQUAL(tni_step_write(w.g, tni_graph_find(w.g, "x"), dims, 3, got, sizeof got), TN_E_INVALID);
  CU_ASSERT_EQUAL(tni_step_write(w.g, 99999, dims, 3, got, sizeof got), TN_E_INVALID);
  tni_graph_destroy(w.g);
}

/* A graph output may be a shape value; int32 refuses what it cannot hold. */
static void test_step_output(void) {
  world w = start();
  uint32_t n = 0;
  int32_t got = 0;
  add_word(w.g, "x", "f32[b]");
  op(&w, "Size", "x", "size", "");
  op(&w, "Cast", "size", "y", "to=6");
  finish(&w, "x", "y");
  CU_ASSERT_EQUAL(tni_lift_shape_values(w.g, &n, &w.err), TN_OK);
  tn_id y = w.g->outputs[0];
  CU_ASSERT_EQUAL(tni_graph_value(w.g, y)->pub.kind, TN_VALUE_STEP);
  CU_ASSERT_TRUE(tni_step_is_read(w.g, y));
  CU_ASSERT_EQUAL(alive(&w), 0);
  int64_t b = 7;
  CU_ASSERT_EQUAL(tni_step_write(w.g, y, &b, 1, &got, sizeof got), TN_OK);
  CU_ASSERT_EQUAL(got, 7);
  b = INT64_C(1) << 40;
  CU_ASSERT_EQUAL(tni_step_write(w.g, y, &b, 1, &got, sizeof got), TN_E_INVALID);
  tni_graph_destroy(w.g);
}

/* Expand(x, Where(Equal(shape, -1), ones, shape)) as exporters write it. */
static void test_expand_pattern(void) {
  world w = start();
  uint32_t n = 0;
  add_word(w.g, "x", "f32[b,1,past+seq,16]");
  add_word(w.g, "like", "f32[b,4,past+seq,16]");
  add_word(w.g, "minus", "i64[]=-1");
  add_word(w.g, "four", "i64[1]=4");
  op(&w, "Shape", "like", "s", "");
  op(&w, "Shape", "s", "rank", "");
  op(&w, "ConstantOfShape", "rank", "ones", "value=i64[1]=1");
  op(&w, "Equal", "s minus", "eq", "");
  op(&w, "Where", "eq ones s", "target", "");
  op(&w, "Expand", "x target", "y", "");
  finish(&w, "x", "y");
  CU_ASSERT_TRUE(matches(w.g, value(&w, "y"), "f32[b,4,past+seq,16]"));
  CU_ASSERT_EQUAL(tni_lift_shape_values(w.g, &n, &w.err), TN_OK);
  CU_ASSERT_EQUAL(alive(&w), 1);
  CU_ASSERT_EQUAL(tni_shape_ops_left(w.g, NULL, 0), 0);
  tni_graph_destroy(w.g);
}

/* Sizes that NonZero finds are symbols of their own and are never written before the step. */
static void test_data_dependent(void) {
  world w = start();
  uint32_t n = 0;
  add_word(w.g, "x", "f32[b]");
  add_word(w.g, "zero", "i64[]=0");
  add_word(w.g, "one", "i64[]=1");
  add_word(w.g, "step", "i64[]=1");
  op(&w, "NonZero", "x", "nz", "");
  op(&w, "Shape", "nz", "s", "");
  op(&w, "Gather", "s one", "count", "");
  op(&w, "Range", "zero count step", "y", "");
  finish(&w, "x", "y");
  CU_ASSERT_TRUE(matches(w.g, value(&w, "y"), "i64[nz.1]"));
  CU_ASSERT_EQUAL(tni_lift_shape_values(w.g, &n, &w.err), TN_OK);
  CU_ASSERT_EQUAL(n, 0);
  CU_ASSERT_EQUAL(alive(&w), 4);
  CU_ASSERT_EQUAL(tni_shape_ops_left(w.g, NULL, 0), 2); /* Shape, Gather; Range is a tensor */
  tni_graph_destroy(w.g);
}

/* A target whose elements are data, where the result's dims are known all the same. */
static void test_replaced_target(void) {
  world w = start();
  uint32_t n = 0;
  add_word(w.g, "x", "f32[b,6]");
  add_word(w.g, "t", "i64[1]");
  add_word(w.g, "two", "i64[1]=2");
  add_word(w.g, "axis", "i64[1]=0");
  op(&w, "Neg", "t", "data", "");
  op(&w, "Concat", "data two", "target", "axis=0");
  op(&w, "Reshape", "x target", "y", "");
  finish(&w, "x", "y");
  CU_ASSERT_TRUE(matches(w.g, value(&w, "y"), "f32[3*b,2]"));
  CU_ASSERT_EQUAL(tni_lift_shape_values(w.g, &n, &w.err), TN_OK);
  CU_ASSERT_EQUAL(n, 2);
  CU_ASSERT_EQUAL(tni_infer_graph(w.g, &w.err), TN_OK);
  CU_ASSERT_TRUE(matches(w.g, value(&w, "y"), "f32[3*b,2]"));
  tni_graph_destroy(w.g);
}

typedef struct eval_log {
  uint32_t calls;
  tn_status answer;
} eval_log;

/* Fills outputs with 7s. */
static tn_status sevens(void *ctx, const tni_node *node, const tni_tensor *const *in, uint32_t n_in, tni_tensor *out,
                        uint32_t n_out, tni_arena *arena, tn_error *err) {
  eval_log *log = ctx;
  (void)in;
  log->calls++;
  if (log->answer != TN_OK) return tni_fail(err, log->answer, node->pub.name, "no");
  for (uint32_t o = 0; o < n_out; o++) {
    CU_ASSERT_EQUAL(out[o].dtype, TN_DT_F32);
    out[o].data = tni_arena_alloc(arena, out[o].bytes, 16);
    for (uint64_t i = 0; i < out[o].bytes / 4; i++) ((float *)out[o].data)[i] = 7;
  }
  return n_in ? TN_OK : TN_E_INTERNAL;
}

static void fold_case(tn_status answer, uint64_t max_bytes, uint32_t calls, uint32_t removed, uint32_t kind) {
  world w = start();
  uint32_t n = 99;
  eval_log log = {0, answer};
  add_word(w.g, "x", "f32[b]");
  add_word(w.g, "i", "i64[2]=2,3");
  op(&w, "Constant", "", "c", "value=f32[2]=1,2");
  op(&w, "Sqrt", "c", "root", "");
  op(&w, "Cast", "i", "narrow", "to=6");
  op(&w, "Sqrt", "x", "y", "");
  op(&w, "Concat", "y root", "z", "axis=0");
  op(&w, "Gather", "z narrow", "out", "");
  finish(&w, "x", "out");
  CU_ASSERT_EQUAL(tni_fold_constants(w.g, max_bytes, sevens, &log, &n, &w.err), TN_OK);
  CU_ASSERT_EQUAL(log.calls, calls);
  CU_ASSERT_EQUAL(n, removed);
  CU_ASSERT_EQUAL(value(&w, "root")->pub.kind, kind);
  CU_ASSERT_EQUAL(value(&w, "c")->pub.kind, TN_VALUE_CONST);
  if (kind == TN_VALUE_CONST) CU_ASSERT_EQUAL(((float *)value(&w, "root")->tensor->data)[1], 7);
  if (value(&w, "narrow")->tensor) CU_ASSERT_EQUAL(((int32_t *)value(&w, "narrow")->tensor->data)[1], 3);
  tni_graph_destroy(w.g);
}

static void test_fold(void) {
  fold_case(TN_OK, 1024, 1, 3, TN_VALUE_CONST);
  fold_case(TN_OK, 8, 1, 3, TN_VALUE_CONST);
  fold_case(TN_OK, 7, 0, 1, TN_VALUE_ACT); /* the Constant itself is there anyhow */
  fold_case(TN_E_UNSUPPORTED, 1024, 1, 2, TN_VALUE_ACT);
  fold_case(TN_E_INVALID, 1024, 1, 2, TN_VALUE_ACT);
}

static void test_fold_known(void) {
  world w = start();
  uint32_t n = 0;
  add_word(w.g, "x", "f32[b,64]");
  add_word(w.g, "one", "i64[]=1");
  op(&w, "Shape", "x", "s", "");
  op(&w, "Gather", "s one", "width", "");
  op(&w, "Cast", "width", "f", "to=1");
  op(&w, "Add", "x f", "y", "");
  finish(&w, "x", "y");
  CU_ASSERT_EQUAL(tni_fold_constants(w.g, 64, NULL, NULL, &n, &w.err), TN_OK);
  CU_ASSERT_EQUAL(n, 1);
  CU_ASSERT_EQUAL(value(&w, "width")->pub.kind, TN_VALUE_CONST);
  CU_ASSERT_EQUAL(((int64_t *)value(&w, "width")->tensor->data)[0], 64);
  CU_ASSERT_EQUAL(value(&w, "f")->pub.kind, TN_VALUE_ACT); /* float: needs a kernel */
  tni_graph_destroy(w.g);
}

/* What is not in the table is not known, and what follows is as far as it can be. Declared dims are not believed. */
static void test_unknown_op(void) {
  world w = start();
  add_word(w.g, "x", "f32[b,64]");
  add_word(w.g, "c", "f32[1]");
  op(&w, "NotAnOperator", "x", "e", "");
  op(&w, "Add", "e c", "sum", "");
  op(&w, "Shape", "sum", "y", "");
  tni_value *hint = tni_graph_value(w.g, tni_graph_find(w.g, "e"));
  tn_expr four = tni_ex_const(w.g->exprs, 4);
  hint->declared = true;
  hint->hint_rank = 1;
  hint->hint_dims = &four;
  finish(&w, "x", "y");
  CU_ASSERT_EQUAL(value(&w, "e")->pub.rank, TNI_RANK_UNKNOWN);
  CU_ASSERT_EQUAL(value(&w, "sum")->pub.rank, TNI_RANK_UNKNOWN);
  CU_ASSERT_TRUE(matches(w.g, value(&w, "y"), "i64[?]"));
  CU_ASSERT_EQUAL(tni_shape_ops_left(w.g, NULL, 0), 1);
  tni_graph_destroy(w.g);
}

static void test_large_elements(void) {
  world w = start();
  add_word(w.g, "i", "i64[1]=1");
  add_word(w.g, "n", "i64[1]=1024");
  add_word(w.g, "m", "i64[1]=1025");
  op(&w, "Expand", "i n", "a", "");
  op(&w, "Expand", "i m", "b", "");
  op(&w, "Concat", "a b", "y", "axis=0");
  finish(&w, "i", "y");
  CU_ASSERT_EQUAL(value(&w, "a")->n_elems, 1024);
  CU_ASSERT_PTR_NULL(value(&w, "b")->elems);
  CU_ASSERT_TRUE(matches(w.g, value(&w, "y"), "i64[2049]"));
  tni_graph_destroy(w.g);
}

/* Inference again, after a change of one input's dims: nothing of the old shape stays. */
static void test_again(void) {
  world w = start();
  heads(&w);
  finish(&w, "x", "y");
  tn_expr dims[3] = {tni_ex_const(w.g->exprs, 3), tni_ex_sym(w.g->exprs, "n"), tni_ex_const(w.g->exprs, 32)};
  CU_ASSERT_EQUAL(tni_value_set_dims(w.g, tni_graph_find(w.g, "x"), 3, dims), TN_OK);
  for (uint32_t i = 0; i < w.g->n_nodes; i++) CU_ASSERT_EQUAL(tni_infer_node(w.g, i, &w.err), TN_OK);
  CU_ASSERT_TRUE(matches(w.g, value(&w, "y"), "f32[3,n,2,16]"));
  CU_ASSERT_EQUAL(tni_infer_node(w.g, 99, &w.err), TN_E_INTERNAL);
  tni_graph_destroy(w.g);
}

CU_pSuite suite_graph(void) {
  static const struct {
    const char *name;
    CU_TestFunc fn;
  } tests[] = {{"heads", test_heads},
               {"step_write", test_step_write},
               {"step as output", test_step_output},
               {"expand pattern", test_expand_pattern},
               {"data dependent", test_data_dependent},
               {"replaced target", test_replaced_target},
               {"fold", test_fold},
               {"fold known elements", test_fold_known},
               {"unknown op", test_unknown_op},
               {"large elements", test_large_elements},
               {"again", test_again}};
  CU_pSuite s = CU_add_suite("graph", NULL, NULL);
  for (size_t i = 0; s && i < sizeof tests / sizeof tests[0]; i++) {
    if (!CU_add_test(s, tests[i].name, tests[i].fn)) return NULL;
  }
  return s;
}
