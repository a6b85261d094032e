/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/passes/passes.h"
#include "runtime/passes/forms/forms.h"

#include <string.h>

#include "tests/shape/table.h"

/* One node over x (and constants in its operands): does it go? */
typedef struct noop_case {
  const char *op, *x, *rest, *attrs;
  bool goes;
} noop_case;

static const noop_case noops[] = {
    {"Identity", "f32[b,4]", "", "", true},
    {"Dropout", "f32[b,4]", "", "", true},
    {"Dropout", "f32[b,4]", "f32[]=0 bool[]=0", "", true},
    {"Dropout", "f32[b,4]", "f32[]=0 bool[]=1", "", false},
    {"Dropout", "f32[b,4]", "f32[]=0 bool[]", "", false},
    {"Cast", "f32[b,4]", "", "to=1", true},
    {"Cast", "f32[b,4]", "", "to=10", false},
    {"Reshape", "f32[b,4]", "i64[2]={b,-1}", "", true},
    {"Reshape", "f32[b,4]", "i64[2]=4,-1", "", false},
    {"Reshape", "f32[?,4]", "i64[2]=-1,4", "", false}, /* not proved */
    {"Flatten", "f32[b,4]", "", "", true},
    {"Flatten", "f32[b,4,1]", "", "", false},
    {"Expand", "f32[b,4]", "i64[1]=1", "", true},
    {"Expand", "f32[1,4]", "i64[2]={b,4}", "", false},
    {"Tile", "f32[b,4]", "i64[2]=1,1", "", true},
    {"Tile", "f32[b,4]", "i64[2]=1,2", "", false},
    {"Squeeze", "f32[3,4]", "i64[0]=", "", true},
    {"Transpose", "f32[b,4]", "", "perm=0,1", true},
    {"Transpose", "f32[4,4]", "", "perm=1,0", false},
    {"Transpose", "f32[1,1,4]", "", "perm=1,0,2", true},
    {"Transpose", "f32[b,1,4]", "", "perm=1,0,2", false}, /* another shape */
    {"Slice", "f32[b,4]", "i64[1]=0 i64[1]=2147483647 i64[1]=0", "", true},
    {"Slice", "f32[b,4]", "i64[1]=0 i64[1]=3 i64[1]=1", "", false},
    {"Slice", "f32[b,4]", "i64[1]=-1 i64[1]=-9223372036854775807 i64[1]=1 i64[1]=-1", "", false},
    {"Concat", "f32[b,4]", "", "axis=0", true},
    {"Concat", "f32[b,4]", "f32[0,4]", "axis=0", false},
    {"Split", "f32[b,4]", "i64[1]=4", "axis=1", true},
    {"Pad", "f32[b,4]", "i64[4]=0,1,0,-1", "", false},
    {"Relu", "f32[b,4]", "", "", false},
    {"Mul", "f32[b,4]", "f32[]=1", "", true},
    {"Mul", "f32[b,4]", "f32[1,1]=1", "", true},
    {"Mul", "f32[b,4]", "f32[1,1,1]=1", "", false},
    {"Mul", "f32[b,4]", "f32[]=2", "", false},
    {"Mul", "f32[?,4]", "f32[]=1", "", false},
    {"Mul", "i64[b,4]", "i64[]=1", "", true},
    {"Div", "f32[b,4]", "f32[]=1", "", true},
    {"Add", "f32[b,4]", "f32[]=0", "", false}, /* -0 + 0 is 0 */
    {"And", "bool[b,4]", "bool[]=1", "", true},
    {"And", "bool[b,4]", "bool[]=0", "", false},
    {"Or", "bool[b,4]", "bool[]=0", "", true},
    {"Or", "bool[b,4]", "bool[]=1", "", false},
};

static void add_rest(tni_graph *g, const char *rest, char *names) {
  char word[64];
  uint32_t n = 0;
  while (*rest) {
    size_t len = strcspn(rest, " ");
    snprintf(word, sizeof word, "%.*s", (int)len, rest);
    char name[16];
    snprintf(name, sizeof name, "c%u", n++);
    add_word(g, name, word);
    strcat(strcat(names, " "), name);
    rest += len + (rest[len] == ' ');
  }
}

static void test_identity(void) {
  for (size_t i = 0; i < sizeof noops / sizeof noops[0]; i++) {
    const noop_case *c = &noops[i];
    tni_graph *g;
    tn_error err;
    char names[64] = "a";
    uint32_t n = 9;
    tni_error_init(&err);
    CU_ASSERT_EQUAL_FATAL(tni_graph_create(NULL, "t", &g, &err), TN_OK);
    tn_id x = add_word(g, "x", c->x);
    CU_ASSERT_EQUAL(add_op(g, "Abs", 18, "x", "a", "", &err), TN_OK);
    add_rest(g, c->rest, names);
    CU_ASSERT_EQUAL(add_op(g, c->op, 18, names, "y", c->attrs, &err), TN_OK);
    CU_ASSERT_EQUAL(add_op(g, "Neg", 18, "y", "z", "", &err), TN_OK);
    tn_id z = tni_graph_find(g, "z");
    CU_ASSERT_EQUAL(tni_graph_set_io(g, &x, 1, &z, 1), TN_OK);
    CU_ASSERT_EQUAL(tni_graph_finish(g, &err), TN_OK);
    CU_ASSERT_EQUAL(tni_infer_graph(g, &err), TN_OK);
    CU_ASSERT_EQUAL(tni_pass_identity(g, &n, &err), TN_OK);
    CU_ASSERT_EQUAL(n, c->goes);
    if (n != c->goes || err.code) printf("\n  %s %s %s {%s} %s\n", c->op, c->x, c->rest, c->attrs, err.message);
    CU_ASSERT_EQUAL(tni_graph_node(g, 1)->dead, c->goes);
    if (c->goes) CU_ASSERT_EQUAL(tni_graph_node(g, 2)->pub.in[0], tni_graph_find(g, "a"));
    tni_graph_destroy(g);
  }
}

/* x -> Identity -> graph output: input and output keep their names, so the node stays. Behind a node it goes. */
static void test_identity_output(void) {
  for (int behind = 0; behind < 2; behind++) {
    tni_graph *g;
    tn_error err;
    uint32_t n = 9;
    tni_error_init(&err);
    CU_ASSERT_EQUAL_FATAL(tni_graph_create(NULL, "t", &g, &err), TN_OK);
    tn_id x = add_word(g, "x", "f32[b]");
    CU_ASSERT_EQUAL(add_op(g, "Neg", 18, "x", "a", "", &err), TN_OK);
    CU_ASSERT_EQUAL(add_op(g, "Identity", 18, behind ? "a" : "x", "y", "", &err), TN_OK);
    tn_id y = tni_graph_find(g, "y");
    CU_ASSERT_EQUAL(tni_graph_set_io(g, &x, 1, &y, 1), TN_OK);
    CU_ASSERT_EQUAL(tni_graph_finish(g, &err), TN_OK);
    CU_ASSERT_EQUAL(tni_infer_graph(g, &err), TN_OK);
    CU_ASSERT_EQUAL(tni_pass_identity(g, &n, &err), TN_OK);
    CU_ASSERT_EQUAL(n, (uint32_t)behind);
    CU_ASSERT_STRING_EQUAL(tni_graph_value(g, g->outputs[0])->pub.name, "y");
    CU_ASSERT_EQUAL(tni_graph_value(g, g->outputs[0])->pub.producer, behind ? 0 : 1);
    tni_graph_destroy(g);
  }
}

/* Of a value that becomes constant nothing stays that inference knew before, a part of its elements. */
static void test_constant_elements(void) {
  static int64_t made[] = {1, 2, 2};
  const tni_tensor whole = {.dtype = TN_DT_I64, .rank = 1, .dims = {3}, .data = made, .bytes = sizeof made};
  tni_graph *g;
  tn_error err;
  int64_t d = 0;
  tni_error_init(&err);
  CU_ASSERT_EQUAL_FATAL(tni_graph_create(NULL, "t", &g, &err), TN_OK);
  const tn_id in[] = {add_word(g, "x", "f32[4]"), add_word(g, "l", "i64[2]")};
  add_word(g, "one", "i64[1]=1");
  CU_ASSERT_EQUAL(add_op(g, "Concat", 18, "one l", "t", "axis=0", &err), TN_OK);
  CU_ASSERT_EQUAL(add_op(g, "Reshape", 18, "x t", "y", "", &err), TN_OK);
  const tn_id t = tni_graph_find(g, "t"), y = tni_graph_find(g, "y");
  CU_ASSERT_EQUAL(tni_graph_set_io(g, in, 2, &y, 1), TN_OK);
  CU_ASSERT_EQUAL_FATAL(tni_graph_finish(g, &err), TN_OK);
  CU_ASSERT_EQUAL(tni_infer_graph(g, &err), TN_OK);
  CU_ASSERT_EQUAL_FATAL(tni_graph_value(g, y)->pub.rank, 3);
  CU_ASSERT_FALSE(tni_graph_value(g, y)->pub.dims[1] != TNI_EXPR_NONE &&
                  tni_ex_is_const(g->exprs, tni_graph_value(g, y)->pub.dims[1], &d));
  tni_graph_node(g, tni_graph_value(g, t)->pub.producer)->dead = true;
  CU_ASSERT_EQUAL(tni_value_set_tensor(g, t, &whole, NULL), TN_OK);
  CU_ASSERT_EQUAL(tni_infer_graph(g, &err), TN_OK);
  CU_ASSERT_TRUE(tni_ex_is_const(g->exprs, tni_graph_value(g, y)->pub.dims[1], &d) && d == 2);
  tni_graph_destroy(g);
}

static void cse_node(tni_graph *g, const char *op, const char *in, const char *out, const char *attrs) {
  tn_error err;
  tni_error_init(&err);
  CU_ASSERT_EQUAL(add_op(g, op, 18, in, out, attrs, &err), TN_OK);
}

static void test_cse(void) {
  tni_graph *g;
  tn_error err;
  uint32_t n = 0;
  tni_error_init(&err);
  CU_ASSERT_EQUAL_FATAL(tni_graph_create(NULL, "t", &g, &err), TN_OK);
  tn_id x = add_word(g, "x", "f32[b,4]");
  add_word(g, "c", "f32[]=2");
  add_word(g, "d", "f32[]=2");
  add_word(g, "e", "f32[1]=2"); /* other dims */
  add_word(g, "f", "f64[]=2");
  cse_node(g, "Mul", "x c", "m1", "");
  cse_node(g, "Mul", "x d", "m2", "");
  cse_node(g, "Mul", "x e", "m3", "");
  cse_node(g, "Softmax", "m1", "s1", "axis=0");
  cse_node(g, "Softmax", "m2", "s2", "axis=0");
  cse_node(g, "Softmax", "m2", "s3", "axis=1");
  cse_node(g, "Sum", "s1 s2 s3 m3", "y", "");
  cse_node(g, "Mul", "x d", "z", "");   /* a twin that is a graph output: it takes over the place of its twin */
  add_word(g, "h", "i32[]=1073741824"); /* the bits of 2.0f */
  cse_node(g, "Cast", "h", "w", "to=1");
  for (int i = 0; i < 4; i++) { /* random numbers: two draws, unless both nodes say the same seed */
    char name[] = {'r', (char)('0' + i), 0};
    cse_node(g, i < 2 ? "RandomNormalLike" : "RandomUniformLike", "x", name, i < 2 ? "" : "seed=7.0f");
  }
  cse_node(g, "Sum", "r0 r1 r2 r3", "r", "");
  tn_id out[4] = {tni_graph_find(g, "y"), tni_graph_find(g, "z"), tni_graph_find(g, "w"), tni_graph_find(g, "r")};
  CU_ASSERT_EQUAL(tni_graph_set_io(g, &x, 1, out, 4), TN_OK);
  CU_ASSERT_EQUAL(tni_graph_finish(g, &err), TN_OK);
  CU_ASSERT_EQUAL(tni_infer_graph(g, &err), TN_OK);
  CU_ASSERT_EQUAL(tni_pass_cse(g, &n, &err), TN_OK);
  CU_ASSERT_EQUAL(n, 5); /* d, m2, s2, the Mul of z, r3 */
  const tni_node *sum = tni_graph_node(g, 6);
  CU_ASSERT_EQUAL(sum->pub.in[0], sum->pub.in[1]);
  CU_ASSERT_NOT_EQUAL(sum->pub.in[0], sum->pub.in[2]);
  const tni_node *draws = tni_graph_node(g, tni_graph_value(g, g->outputs[3])->pub.producer);
  CU_ASSERT_NOT_EQUAL(draws->pub.in[0], draws->pub.in[1]);
  CU_ASSERT_EQUAL(draws->pub.in[2], draws->pub.in[3]);
  CU_ASSERT_STRING_EQUAL(tni_graph_value(g, g->outputs[1])->pub.name, "z");
  CU_ASSERT_EQUAL(tni_graph_value(g, g->outputs[1])->pub.producer, 0);
  tni_graph_destroy(g);
}

/* Two equal branches over shape arithmetic; everything the driver does fires. */
static tni_graph *branches(tn_error *err) {
  tni_graph *g;
  tni_error_init(err);
  CU_ASSERT_EQUAL_FATAL(tni_graph_create(NULL, "t", &g, err), TN_OK);
  tn_id x = add_word(g, "x", "f32[b,past+seq,64]");
  add_word(g, "t2", "i64[2]=16,4");
  for (int i = 0; i < 2; i++) {
    char a[16], s[16], k[16], z[16], r[16], in[48];
    snprintf(a, sizeof a, "a%d", i);
    snprintf(s, sizeof s, "s%d", i);
    snprintf(k, sizeof k, "k%d", i);
    snprintf(z, sizeof z, "z%d", i);
    snprintf(r, sizeof r, "r%d", i);
    cse_node(g, "Identity", "x", a, "");
    cse_node(g, "Shape", a, s, "");
    cse_node(g, "Constant", "", k, "value=i64[1]=2");
    snprintf(in, sizeof in, "%s %s", s, k);
    cse_node(g, "Mul", in, z, "");
    snprintf(in, sizeof in, "x %s", s);
    cse_node(g, "Expand", in, r, "");
  }
  cse_node(g, "Add", "r0 r1", "y", "");
  cse_node(g, "Neg", "x", "unused", "");
  tn_id y = tni_graph_find(g, "y");
  CU_ASSERT_EQUAL(tni_graph_set_io(g, &x, 1, &y, 1), TN_OK);
  CU_ASSERT_EQUAL(tni_graph_finish(g, err), TN_OK);
  return g;
}

static uint64_t fired(const tni_passes_report *r, const char *name) {
  for (uint32_t i = 0; i < r->n; i++) {
    if (strcmp(r->entries[i].name, name) == 0) return r->entries[i].fired;
  }
  CU_FAIL("no such pass in the report");
  return 0;
}

static void test_driver(void) {
  tn_error err;
  tni_passes_report rep;
  tni_graph *g = branches(&err);
  CU_ASSERT_EQUAL(tni_passes_run(g, NULL, NULL, NULL, &rep, &err), TN_OK);
  CU_ASSERT_EQUAL(rep.nodes_before, 12);
  CU_ASSERT_EQUAL(rep.nodes_after, 1); /* y = x + x */
  CU_ASSERT_EQUAL(g->n_nodes, 1);
  CU_ASSERT_EQUAL(g->nodes[0]->pub.in[0], g->inputs[0]);
  CU_ASSERT_STRING_EQUAL(tni_graph_value(g, g->outputs[0])->pub.name, "y");
  CU_ASSERT_TRUE(fired(&rep, "identity") >= 2);
  CU_ASSERT_TRUE(fired(&rep, "fold") >= 2);
  CU_ASSERT_TRUE(rep.rounds >= 2 && rep.rounds < TNI_PASSES_ROUNDS);
  tni_graph_destroy(g);
}

static void test_switches(void) {
  static const char *const all[] = {"fold", "identity", "cse", "lift", "dce"};
  tn_error err;
  for (uint32_t off = 0; off < 5; off++) {
    tni_passes_options opt = {.disabled = &all[off], .n_disabled = 1};
    tni_passes_report rep;
    tni_graph *g = branches(&err);
    CU_ASSERT_EQUAL(tni_passes_run(g, &opt, NULL, NULL, &rep, &err), TN_OK);
    CU_ASSERT_EQUAL(fired(&rep, all[off]), 0);
    tni_graph_destroy(g);
  }
  tni_passes_options none = {.disabled = all, .n_disabled = 5};
  tni_passes_report rep;
  tni_graph *g = branches(&err);
  CU_ASSERT_EQUAL(tni_passes_run(g, &none, NULL, NULL, &rep, &err), TN_OK);
  CU_ASSERT_EQUAL(rep.nodes_after, 12);
  tni_graph_destroy(g);
  static const char *const word[] = {"all"};
  none = (tni_passes_options){.disabled = word, .n_disabled = 1};
  g = branches(&err);
  CU_ASSERT_EQUAL(tni_passes_run(g, &none, NULL, NULL, &rep, &err), TN_OK);
  CU_ASSERT_EQUAL(rep.nodes_after, 12);
  for (uint32_t i = 0; i < rep.n; i++) CU_ASSERT_EQUAL(rep.entries[i].fired, 0);
  tni_graph_destroy(g);
}

static void test_bad_name(void) {
  static const char *const wrong[] = {"fusion"};
  tni_passes_options opt = {.disabled = wrong, .n_disabled = 1};
  tn_error err;
  tni_graph *g = branches(&err);
  CU_ASSERT_EQUAL(tni_passes_run(g, &opt, NULL, NULL, NULL, &err), TN_E_INVALID);
  CU_ASSERT_PTR_NOT_NULL(strstr(err.message, "fusion"));
  tni_graph_destroy(g);
}

CU_pSuite suite_passes(void) {
  CU_pSuite s = CU_add_suite("passes", NULL, NULL);
  if (!s || !CU_add_test(s, "identity", test_identity) ||
      !CU_add_test(s, "identity at outputs", test_identity_output) ||
      !CU_add_test(s, "constant elements", test_constant_elements) || !CU_add_test(s, "cse", test_cse) ||
      !CU_add_test(s, "driver", test_driver) || !CU_add_test(s, "switches", test_switches) ||
      !CU_add_test(s, "bad name", test_bad_name)) {
    return NULL;
  }
  return s;
}
