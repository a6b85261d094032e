/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "suite.h"

/* domain "local"; in, out: "a,b"; nodes are added to the result. */
static wbuf function(const char *name, const char *in, const char *out) {
  wbuf f = {0}, n = onnx_node("x", "", in, out);
  wb_free(&n);
  char copy[128], *save = NULL;
  wb_str(&f, F_NAME, name);
  wb_str(&f, F_DOMAIN, "local");
  snprintf(copy, sizeof copy, "%s", in);
  for (char *p = strtok_r(copy, ",", &save); p; p = strtok_r(NULL, ",", &save)) wb_str(&f, F_INPUT, p);
  snprintf(copy, sizeof copy, "%s", out);
  for (char *p = strtok_r(copy, ",", &save); p; p = strtok_r(NULL, ",", &save)) wb_str(&f, F_OUTPUT, p);
  wb_msg(&f, F_OPSET, onnx_opset("", 17));
  wb_msg(&f, F_OPSET, onnx_opset("local", 1));
  return f;
}

static wbuf main_graph(wbuf node) {
  wbuf g = {0};
  wb_msg(&g, G_NODE, node);
  wb_msg(&g, G_INPUT, onnx_value("x", TN_DT_F32, "2,n"));
  wb_msg(&g, G_OUTPUT, onnx_value("y", TN_DT_F32, NULL));
  return g;
}

static wbuf model_with(wbuf graph, wbuf f) {
  wbuf m = onnx_model(graph, 18);
  wb_msg(&m, M_OPSET, onnx_opset("local", 1));
  wb_msg(&m, M_FUNCTION, f);
  return m;
}

/* Two calls, attributes from the call and from the default, an absent parameter. */
static void test_inline(void) {
  wbuf f = function("F", "a,lo", "b");
  wbuf n = onnx_node("LeakyRelu", "leaky", "a", "t");
  wb_msg(&n, 5, onnx_attr_ref("alpha", 1, "slope"));
  wb_msg(&f, F_NODE, n);
  wb_msg(&f, F_NODE, onnx_node("Clip", "", "t,lo", "b"));
  wb_msg(&f, F_DEFAULT, onnx_attr_float("slope", 0.25f));
  wbuf call = onnx_node("local:F", "first", "x", "m");
  wb_msg(&call, 5, onnx_attr_float("slope", 0.5f));
  wbuf g = main_graph(call);
  wb_msg(&g, G_NODE, onnx_node("local:F", "second", "m,x", "y"));
  tni_model *m = import_expect(model_with(g, f), TN_OK, NULL, "functions");
  CU_ASSERT_PTR_NOT_NULL_FATAL(m);
  CU_ASSERT_EQUAL(m->n_nodes_file, 2);
  CU_ASSERT_EQUAL(m->graph->n_nodes, 4);
  const tni_node *a = node_named(m->graph, "first/leaky"), *b = node_named(m->graph, "second/leaky");
  CU_ASSERT_PTR_NOT_NULL_FATAL(a);
  CU_ASSERT_PTR_NOT_NULL_FATAL(b);
  CU_ASSERT_EQUAL(tni_attr_f(&a->pub, "alpha", 0), 0.5);
  CU_ASSERT_EQUAL(tni_attr_f(&b->pub, "alpha", 0), 0.25);
  CU_ASSERT_EQUAL(a->version, 17);
  CU_ASSERT_PTR_NOT_NULL(value_named(m->graph, "first/t"));
  CU_ASSERT_PTR_NOT_NULL(value_named(m->graph, "second/t"));
  const tni_node *clip = node_named(m->graph, "first/b");
  CU_ASSERT_PTR_NOT_NULL_FATAL(clip);
  CU_ASSERT_EQUAL(clip->pub.n_in, 1);
  CU_ASSERT_EQUAL(clip->pub.out[0], tni_graph_find(m->graph, "m"));
  tni_model_destroy(m);
}

/* A call in a body, references through both; a result that is a parameter; a Constant by reference. */
static void test_nested(void) {
  wbuf inner = function("Inner", "p", "q,same");
  wbuf n = onnx_node("Constant", "k", "", "c");
  wb_msg(&n, 5, onnx_attr_ref("value_float", 1, "v"));
  wb_msg(&inner, F_NODE, n);
  wb_msg(&inner, F_NODE, onnx_node("Add", "add", "p,c", "q"));
  wb_str(&inner, F_OUTPUT + 100, "field that nobody knows");
  wbuf outer = function("Outer", "a", "b,a2");
  n = onnx_node("local:Inner", "call", "a", "b,a2");
  wb_msg(&n, 5, onnx_attr_ref("v", 1, "w"));
  wb_msg(&outer, F_NODE, n);
  n = onnx_node("local:Outer", "top", "x", "t,y2");
  wb_msg(&n, 5, onnx_attr_float("w", 3));
  wbuf g = main_graph(n);
  wb_msg(&g, G_NODE, onnx_node("Add", "sum", "t,y2", "y"));
  wbuf m = model_with(g, outer);
  wb_msg(&m, M_FUNCTION, inner);
  /* "same" is neither made nor a parameter. */
  import_expect(m, TN_E_INVALID, "'same'", "result that nothing makes");

  inner = function("Inner", "p", "q,p");
  n = onnx_node("Constant", "k", "", "c");
  wb_msg(&n, 5, onnx_attr_ref("value_float", 1, "v"));
  wb_msg(&inner, F_NODE, n);
  wb_msg(&inner, F_NODE, onnx_node("Add", "add", "p,c", "q"));
  outer = function("Outer", "a", "b,a2");
  n = onnx_node("local:Inner", "call", "a", "b,a2");
  wb_msg(&n, 5, onnx_attr_ref("v", 1, "w"));
  wb_msg(&outer, F_NODE, n);
  n = onnx_node("local:Outer", "top", "x", "t,y2");
  wb_msg(&n, 5, onnx_attr_float("w", 3));
  g = main_graph(n);
  wb_msg(&g, G_NODE, onnx_node("Add", "sum", "t,y2", "y"));
  m = model_with(g, outer);
  wb_msg(&m, M_FUNCTION, inner);
  tni_model *model = import_expect(m, TN_OK, NULL, "nested functions");
  CU_ASSERT_PTR_NOT_NULL_FATAL(model);
  const tni_value *c = value_named(model->graph, "top/call/c");
  CU_ASSERT_PTR_NOT_NULL_FATAL(c);
  CU_ASSERT_PTR_NOT_NULL_FATAL(c->tensor);
  float f;
  memcpy(&f, c->tensor->data, sizeof f);
  CU_ASSERT_EQUAL(f, 3.0f);
  CU_ASSERT_PTR_NOT_NULL(node_named(model->graph, "y2")); /* the Identity for the passed parameter */
  CU_ASSERT_EQUAL(model->graph->n_nodes, 3);
  tni_model_destroy(model);
}

/* An If inside of a body reads a parameter and refers to an attribute. */
static void test_subgraph_in_body(void) {
  wbuf then_g = {0}, else_g = {0}, f = function("F", "a,cond", "b");
  wbuf n = onnx_node("LeakyRelu", "leaky", "a", "r1");
  wb_msg(&n, 5, onnx_attr_ref("alpha", 1, "slope"));
  wb_msg(&then_g, G_NODE, n);
  wb_msg(&then_g, G_OUTPUT, onnx_value("r1", 1, NULL));
  wb_msg(&else_g, G_NODE, onnx_node("Neg", "neg", "a", "r2"));
  wb_msg(&else_g, G_OUTPUT, onnx_value("r2", 1, NULL));
  n = onnx_node("If", "choose", "cond", "b");
  wb_msg(&n, 5, onnx_attr_msg("then_branch", 5, 6, then_g));
  wb_msg(&n, 5, onnx_attr_msg("else_branch", 5, 6, else_g));
  wb_msg(&f, F_NODE, n);
  n = onnx_node("local:F", "call", "x,cond", "y");
  wb_msg(&n, 5, onnx_attr_float("slope", 0.5f));
  wbuf g = main_graph(n);
  wb_msg(&g, G_INPUT, onnx_value("cond", TN_DT_BOOL, ""));
  tni_model *m = import_expect(model_with(g, f), TN_OK, NULL, "subgraph in a body");
  CU_ASSERT_PTR_NOT_NULL_FATAL(m);
  const tni_node *choose = node_named(m->graph, "call/choose");
  CU_ASSERT_PTR_NOT_NULL_FATAL(choose);
  const tni_graph *t = choose->raw[0].graphs[0];
  CU_ASSERT_EQUAL(tni_attr_f(&t->nodes[0]->pub, "alpha", 0), 0.5);
  const tni_value *x = value_named(t, "x");
  CU_ASSERT_PTR_NOT_NULL_FATAL(x);
  CU_ASSERT_EQUAL(x->captured, tni_graph_find(m->graph, "x"));
  tni_model_destroy(m);
}

static void test_bad(void) {
  wbuf f = function("F", "a", "b");
  wb_msg(&f, F_NODE, onnx_node("local:F", "again", "a", "b"));
  import_expect(model_with(main_graph(onnx_node("local:F", "call", "x", "y")), f), TN_E_INVALID, "calls itself",
                "recursion");
  f = function("F", "a", "b");
  wb_msg(&f, F_NODE, onnx_node("local:G", "g", "a", "b"));
  wbuf other = function("G", "a", "b"), m;
  wb_msg(&other, F_NODE, onnx_node("local:F", "f", "a", "b"));
  m = model_with(main_graph(onnx_node("local:F", "call", "x", "y")), f);
  wb_msg(&m, M_FUNCTION, other);
  import_expect(m, TN_E_INVALID, "calls itself", "mutual recursion");
  f = function("F", "a", "b");
  wb_msg(&f, F_NODE, onnx_node("Relu", "r", "x", "b"));
  import_expect(model_with(main_graph(onnx_node("local:F", "call", "x", "y")), f), TN_E_INVALID, "reads 'x'",
                "a body sees its parameters only");
  f = function("F", "a", "b");
  wb_msg(&f, F_NODE, onnx_node("Relu", "r", "a", "b"));
  import_expect(model_with(main_graph(onnx_node("local:F", "call", "x,x", "y")), f), TN_E_INVALID, "the call has 2",
                "too many inputs");
  f = function("F", "a", "b");
  wb_msg(&f, F_NODE, onnx_node("Relu", "r", "a", "a"));
  import_expect(model_with(main_graph(onnx_node("local:F", "call", "x", "y")), f), TN_E_INVALID, "defined twice",
                "a body writes its parameter");
  f = function("F", "a", "b");
  wb_msg(&f, F_OPSET, onnx_opset("", 40));
  import_expect(model_with(main_graph(onnx_node("local:F", "call", "x", "y")), f), TN_E_UNSUPPORTED, "F uses opset 40",
                "opset of a function");
  m = model_with(main_graph(onnx_node("local:F", "call", "x", "y")), function("F", "a", "b"));
  wb_msg(&m, M_FUNCTION, function("F", "a", "b"));
  import_expect(m, TN_E_INVALID, "'local:F:' is defined twice", "two functions");
}

/* F0 calls F1 twice, F1 calls F2 twice, ...: 2^25 nodes, or none but as many calls. */
static void test_explosion(void) {
  for (int empty = 0; empty < 2; empty++) {
    wbuf m = onnx_model(main_graph(onnx_node("local:F0", "call", "x", "y")), 18);
    for (int i = 0; i < 25; i++) {
      char name[8], next[16];
      snprintf(name, sizeof name, "F%d", i);
      snprintf(next, sizeof next, "local:F%d", i + 1);
      wbuf f = function(name, "a", "b");
      wb_msg(&f, F_NODE, onnx_node(i < 24 ? next : empty ? "Constant" : "Relu", "l", "a", "t"));
      wb_msg(&f, F_NODE, onnx_node(i < 24 ? next : "Relu", "r", empty ? "a" : "t", "b"));
      wb_msg(&m, M_FUNCTION, f);
    }
    import_expect(m, empty ? TN_E_INVALID : TN_E_LIMIT, empty ? "Constant" : "more than 1000000 nodes", "explosion");
  }
  wbuf m = onnx_model(main_graph(onnx_node("local:F0", "call", "x", "y")), 18);
  for (int i = 0; i < 40; i++) {
    char name[8], next[16];
    snprintf(name, sizeof name, "F%d", i);
    snprintf(next, sizeof next, "local:F%d", i + 1);
    wbuf f = function(name, "a", "b");
    wb_msg(&f, F_NODE, onnx_node(i < 39 ? next : "Relu", "l", "a", "b"));
    wb_msg(&m, M_FUNCTION, f);
  }
  import_expect(m, TN_E_LIMIT, "nest deeper than 32", "40 calls deep");
}

int suite_function(void) {
  CU_pSuite s = CU_add_suite("onnx functions", NULL, NULL);
  return !s || !CU_add_test(s, "inlined", test_inline) || !CU_add_test(s, "nested", test_nested) ||
         !CU_add_test(s, "subgraph in a body", test_subgraph_in_body) || !CU_add_test(s, "bad", test_bad) ||
         !CU_add_test(s, "explosion", test_explosion);
}
