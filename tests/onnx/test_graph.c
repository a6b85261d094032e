/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "suite.h"

/* Nodes as "Type:name:in:out", split at ';'. x is the input, y the output. */
static wbuf graph_of(const char *nodes) {
  wbuf g = {0};
  char copy[1024], *save = NULL;
  snprintf(copy, sizeof copy, "%s", nodes);
  for (char *p = strtok_r(copy, ";", &save); p; p = strtok_r(NULL, ";", &save)) {
    char *f[4];
    for (int i = 0; i < 4; i++) {
      f[i] = p;
      p += strcspn(p, ":");
      if (*p) *p++ = '\0';
    }
    wb_msg(&g, G_NODE, onnx_node(f[0], f[1], f[2], f[3]));
  }
  wb_msg(&g, G_INPUT, onnx_value("x", TN_DT_F32, "2,n"));
  wb_msg(&g, G_OUTPUT, onnx_value("y", TN_DT_F32, NULL));
  return g;
}

static wbuf ones(const char *name) {
  static const float f[2] = {1, 1};
  return onnx_tensor_raw(name, TN_DT_F32, "2", f, sizeof f);
}

static void test_structure(void) {
  static const struct {
    const char *label, *nodes;
    tn_status st;
    const char *part;
  } rows[] = {
      {"chain", "Relu:a:x:t;Neg:b:t:y", TN_OK, NULL},
      {"out of order", "Neg:b:t:y;Relu:a:x:t", TN_OK, NULL},
      {"missing input", "Add:sum:x,nowhere:y", TN_E_INVALID, "node 'sum' (Add) reads 'nowhere'"},
      {"cycle", "Add:a:x,t2:t1;Relu:b:t1:t2;Neg:c:t2:y", TN_E_INVALID, "cycle"},
      {"self", "Add:a:x,y:y", TN_E_INVALID, "cycle"},
      {"two producers", "Relu:a:x:y;Neg:b:x:y", TN_E_INVALID, "'y' is defined twice"},
      {"writes the input", "Relu:a:x:x;Neg:b:x:y", TN_E_INVALID, "'x' is defined twice"},
      {"no producer of the output", "Relu:a:x:t", TN_E_INVALID, "'y'"},
      {"too many inputs", "Relu:a:x,x:y", TN_E_INVALID, "a"},
      {"too few inputs", "Add:a:x:y", TN_E_INVALID, "a"},
      {"no type", ":a:x:y", TN_E_INVALID, "node 'a' has no operator type"},
      {"unknown op", "Frobnicate:f:x:y", TN_OK, NULL},
      {"vendor op", "com.acme.Frobnicate:f:x:y", TN_OK, NULL},
      {"absent inputs at the end", "Clip:c:x,,:y", TN_OK, NULL},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    tni_model *m = import_expect(onnx_model(graph_of(rows[i].nodes), 17), rows[i].st, rows[i].part, rows[i].label);
    if (m && strcmp(rows[i].label, "out of order") == 0) CU_ASSERT_STRING_EQUAL(m->graph->nodes[0]->type, "Relu");
    if (m && strcmp(rows[i].label, "absent inputs at the end") == 0) CU_ASSERT_EQUAL(m->graph->nodes[0]->pub.n_in, 1);
    tni_model_destroy(m);
  }
}

static void test_names(void) {
  wbuf g = graph_of("Add:a:x,w:y");
  wb_msg(&g, G_INIT, ones("w"));
  wb_msg(&g, G_INIT, ones("w"));
  import_expect(onnx_model(g, 17), TN_E_INVALID, "'w' is defined twice", "two initializers");
  g = graph_of("Relu:a:x:y");
  wb_msg(&g, G_INPUT, onnx_value("x", TN_DT_F32, "2"));
  import_expect(onnx_model(g, 17), TN_E_INVALID, "'x' is defined twice", "two inputs");
  g = graph_of("Relu:a:w:w;Neg:b:x:y");
  wb_msg(&g, G_INIT, ones("w"));
  import_expect(onnx_model(g, 17), TN_E_INVALID, "'w' is defined twice", "node writes an initializer");
  /* Unnamed nodes go by their first output; equal names are allowed. */
  tni_model *m = import_expect(onnx_model(graph_of("Relu::x:t;Neg::t:y"), 17), TN_OK, NULL, "unnamed");
  CU_ASSERT_PTR_NOT_NULL_FATAL(m);
  CU_ASSERT_PTR_NOT_NULL(node_named(m->graph, "t"));
  tni_model_destroy(m);
  /* torch.onnx.export lists a result that is returned twice twice. */
  g = graph_of("Relu:a:x:t;Neg:b:t:y");
  wb_msg(&g, G_OUTPUT, onnx_value("y", TN_DT_F32, "2"));
  wb_msg(&g, G_OUTPUT, onnx_value("t", TN_DT_F32, "2"));
  m = import_expect(onnx_model(g, 17), TN_OK, NULL, "two outputs of one name");
  CU_ASSERT_PTR_NOT_NULL_FATAL(m);
  CU_ASSERT_EQUAL_FATAL(m->graph->n_outputs, 2);
  CU_ASSERT_STRING_EQUAL(m->graph->values[m->graph->outputs[0]]->pub.name, "y");
  CU_ASSERT_STRING_EQUAL(m->graph->values[m->graph->outputs[1]]->pub.name, "t");
  tni_model_destroy(m);
}

static void test_model_fields(void) {
  wbuf m = {0};
  wb_int(&m, M_IR, 8);
  import_expect(m, TN_E_INVALID, "no graph", "no graph");
  m = (wbuf){0};
  wb_msg(&m, M_GRAPH, graph_of("Relu:a:x:y"));
  import_expect(m, TN_E_INVALID, "imports no opset", "no opset");
  static const int64_t bad[] = {-1, 0, 29, 1000};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    char text[64];
    snprintf(text, sizeof text, "opset %lld of ai.onnx; 1 to 28 are supported", (long long)bad[i]);
    import_expect(onnx_model(graph_of("Relu:a:x:y"), bad[i]), TN_E_UNSUPPORTED, text, "opset");
  }
  for (int64_t v = 6; v <= 28; v++)
    tni_model_destroy(import_expect(onnx_model(graph_of("Relu:a:x:y"), v), TN_OK, NULL, "opset"));
  m = (wbuf){0};
  wb_msg(&m, M_OPSET, onnx_opset("com.acme", 1));
  wb_msg(&m, M_GRAPH, graph_of("Relu:a:x:y"));
  import_expect(m, TN_E_INVALID, "no opset of ai.onnx", "only a vendor's opset");
  m = onnx_model(graph_of("Relu:a:x:y"), 17);
  wb_str(&m, 2, "maker");
  wb_str(&m, 3, "1.2");
  tni_model *model = import_expect(m, TN_OK, NULL, "producer");
  CU_ASSERT_PTR_NOT_NULL_FATAL(model);
  CU_ASSERT_STRING_EQUAL(model->producer, "maker");
  CU_ASSERT_STRING_EQUAL(model->producer_version, "1.2");
  CU_ASSERT_EQUAL(model->ir_version, 8);
  tni_model_destroy(model);
}

/* Whether dim i of v is the symbol of this name. */
static bool dim_is(const tni_graph *g, const tni_value *v, uint32_t i, const char *name) {
  return v->pub.rank != TNI_RANK_UNKNOWN && i < v->pub.rank && v->pub.dims[i] == tni_ex_sym(g->exprs, name);
}

static void test_dims(void) {
  wbuf g = graph_of("Relu:a:x:t;Relu:b:t:y");
  wb_msg(&g, G_INPUT, onnx_value("past", TN_DT_F16, "batch,4,past_len,?"));
  wb_msg(&g, G_INPUT, onnx_value("mask", TN_DT_I64, "batch,past_len + seq"));
  wb_msg(&g, G_INPUT, onnx_value("free", TN_DT_F32, NULL));
  wb_msg(&g, G_INPUT, onnx_value("scalar", TN_DT_F32, ""));
  wb_msg(&g, G_INPUT, onnx_value("minus", TN_DT_F32, "-1,3"));
  wb_msg(&g, G_INFO, onnx_value("t", TN_DT_F32, "unknown_1,n,seq,5"));
  wb_msg(&g, G_INFO, onnx_value("nobody", TN_DT_F32, "unknown_2"));
  tni_model *m = import_expect(onnx_model(g, 17), TN_OK, NULL, "dims");
  CU_ASSERT_PTR_NOT_NULL_FATAL(m);
  const tni_graph *gr = m->graph;
  CU_ASSERT_EQUAL(gr->n_inputs, 6);
  const tni_value *past = value_named(gr, "past"), *mask = value_named(gr, "mask"), *t = value_named(gr, "t");
  CU_ASSERT_EQUAL(past->pub.dtype, TN_DT_F16);
  CU_ASSERT_EQUAL_FATAL(past->pub.rank, 4);
  CU_ASSERT_EQUAL(past->pub.dims[1], tni_ex_const(gr->exprs, 4));
  CU_ASSERT(dim_is(gr, past, 2, "past_len"));
  CU_ASSERT(dim_is(gr, past, 3, "past.3"));
  CU_ASSERT_EQUAL(past->pub.dims[0], mask->pub.dims[0]);
  tn_expr sum = tni_ex_add(gr->exprs, tni_ex_sym(gr->exprs, "seq"), past->pub.dims[2]);
  CU_ASSERT_EQUAL(mask->pub.dims[1], sum);
  CU_ASSERT_EQUAL(value_named(gr, "free")->pub.rank, TNI_RANK_UNKNOWN);
  CU_ASSERT_EQUAL(value_named(gr, "scalar")->pub.rank, 0);
  CU_ASSERT(dim_is(gr, value_named(gr, "minus"), 0, "minus.0"));
  /* Hints: known symbols are kept, names of nobody's are not. */
  CU_ASSERT_TRUE_FATAL(t->declared);
  CU_ASSERT_EQUAL(t->pub.rank, TNI_RANK_UNKNOWN);
  CU_ASSERT_EQUAL_FATAL(t->hint_rank, 4);
  CU_ASSERT_EQUAL(t->hint_dims[0], TNI_EXPR_NONE);
  CU_ASSERT_EQUAL(t->hint_dims[1], value_named(gr, "x")->pub.dims[1]);
  CU_ASSERT_EQUAL(t->hint_dims[2], tni_ex_sym(gr->exprs, "seq"));
  CU_ASSERT_EQUAL(t->hint_dims[3], tni_ex_const(gr->exprs, 5));
  for (uint32_t i = 0; i < tni_ex_n_symbols(gr->exprs); i++)
    CU_ASSERT_PTR_NULL(strstr(tni_ex_symbol_name(gr->exprs, i), "unknown"));
  tni_model_destroy(m);

  g = graph_of("Relu:a:x:y");
  wb_msg(&g, G_INPUT, onnx_value("r9", TN_DT_F32, "1,1,1,1,1,1,1,1,1"));
  import_expect(onnx_model(g, 17), TN_E_LIMIT, "'r9' has rank 9", "rank of an input");
  g = graph_of("Relu:a:x:y");
  wb_msg(&g, G_INPUT, onnx_value("neg", TN_DT_F32, "-2"));
  import_expect(onnx_model(g, 17), TN_E_INVALID, "'neg': dimension 0 is -2", "negative dim");
  g = graph_of("Relu:a:x:y");
  wb_msg(&g, G_INPUT, onnx_value("odd", 99, "2"));
  import_expect(onnx_model(g, 17), TN_E_UNSUPPORTED, "'odd' has data type 99", "dtype of an input");
}

/* Expressions are read as such where the shapes of all inputs say what they are. Others are names. */
static void test_dim_names(void) {
  static const struct {
    const char *u, *v, *want; /* dims of two inputs beside x [2,n], and those of u as they are read */
  } rows[] = {
      {"n + 1,2*n", NULL, "n + 1,2*n"},
      {"k + n,n - j", NULL, "n + k,n - j"},
      {"k + j,j - n", NULL, "k + j,j - n"},
      {"k*n,j", "k,floor(j/2)", "n*k,j"},
      {"2*k,k*n", NULL, "`2*k`,`k*n`"},
      {"enc / 2,k % 3", NULL, "`enc / 2`,`k % 3`"},
      {"seq-len,N/A", NULL, "`seq-len`,`N/A`"},
      {"k + j,k + j + 1", NULL, "`k + j`,`k + j + 1`"},
      {"None,None", NULL, "`u.0`,`u.1`"}, /* what converters write for "unknown" */
      {"'?,'-1", NULL, "`u.0`,`u.1`"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    wbuf g = graph_of("Relu:a:x:t;Relu:b:t:y");
    char got[128];
    wb_msg(&g, G_INPUT, onnx_value("u", TN_DT_F32, rows[i].u));
    wb_msg(&g, G_INPUT, onnx_value("v", TN_DT_F32, rows[i].v));
    wb_msg(&g, G_INFO, onnx_value("t", TN_DT_F32, rows[i].u));
    tni_model *m = import_expect(onnx_model(g, 17), TN_OK, NULL, rows[i].u);
    CU_ASSERT_PTR_NOT_NULL_FATAL(m);
    const tni_value *u = value_named(m->graph, "u"), *t = value_named(m->graph, "t");
    const size_t n = tni_ex_print(m->graph->exprs, u->pub.dims[0], got, sizeof got);
    got[n] = ',';
    (void)tni_ex_print(m->graph->exprs, u->pub.dims[1], got + n + 1, sizeof got - n - 1);
    if (strcmp(got, rows[i].want) != 0) printf("\n    %s: read as %s\n", rows[i].u, got);
    CU_ASSERT_STRING_EQUAL(got, rows[i].want);
    /* An intermediate dim of the same text is the same, and what is only part of a name is no symbol. */
    if (!strchr(got, '.')) CU_ASSERT(t->hint_dims[0] == u->pub.dims[0] && t->hint_dims[1] == u->pub.dims[1]);
    if (strchr(rows[i].want, '`')) CU_ASSERT_EQUAL(tni_ex_n_symbols(m->graph->exprs), 3);
    tni_model_destroy(m);
  }
}

static void count_lines(void *user, uint32_t level, const char *line) {
  (void)level;
  if (strstr(line, "'m' is no dense tensor, sequence or optional")) ++*(int *)user;
}

static void test_other_kinds(void) {
  wbuf g = graph_of("Relu:a:x:y"), v = {0}, type = {0}, seq = {0}, inner = {0}, tensor = {0};
  wbuf w = {0}, map_type = {0}, map = {0}, of = {0}, f32 = {0};
  wb_int(&tensor, 1, 1);
  wb_msg(&inner, 1, tensor);
  wb_msg(&seq, 1, inner);
  wb_msg(&type, 4, seq);
  wb_str(&v, 1, "s");
  wb_msg(&v, 2, type);
  wb_msg(&g, G_INPUT, v);
  wb_int(&f32, 1, 1);
  wb_msg(&of, 1, f32);
  wb_int(&map, 1, 7);
  wb_msg(&map, 2, of);
  wb_msg(&map_type, 5, map);
  wb_str(&w, 1, "m");
  wb_msg(&w, 2, map_type);
  wb_msg(&g, G_INPUT, w);
  wbuf b = onnx_model(g, 17);
  int notes = 0;
  tni_log log = {count_lines, &notes, TN_LOG_DEBUG};
  tni_model *m;
  CU_ASSERT_EQUAL_FATAL(tni_import_bytes(b.p, b.n, NULL, NULL, &log, &m, NULL), TN_OK);
  CU_ASSERT_EQUAL(notes, 1);
  CU_ASSERT_EQUAL(value_named(m->graph, "s")->pub.rank, TNI_RANK_UNKNOWN);
  CU_ASSERT(value_named(m->graph, "s")->type && value_named(m->graph, "s")->type->form == TNI_FORM_SEQUENCE);
  CU_ASSERT_EQUAL(value_named(m->graph, "m")->pub.rank, TNI_RANK_UNKNOWN);
  CU_ASSERT_PTR_NULL(value_named(m->graph, "m")->type);
  tni_model_destroy(m);
  wb_free(&b);
  wbuf sparse = {0};
  g = graph_of("Relu:a:x:y");
  wb_msg(&sparse, 1, ones("sp"));
  wb_msg(&g, G_SPARSE, sparse);
  import_expect(onnx_model(g, 17), TN_E_UNSUPPORTED, "'sp' is sparse", "sparse initializer");
}

/* IR 3 lists initializers as inputs too. */
static void test_constants(void) {
  wbuf g = graph_of("Add:a:x,w:t;Add:b:t,k:u;Add:c:u,s:y");
  wb_msg(&g, G_INPUT, onnx_value("w", TN_DT_F32, "2"));
  wb_msg(&g, G_INIT, ones("w"));
  wbuf n = onnx_node("Constant", "kn", "", "k");
  wb_msg(&n, 5, onnx_attr_msg("value", 4, 5, ones("ignored")));
  wb_msg(&g, G_NODE, n);
  n = onnx_node("Constant", "", "", "s");
  wb_msg(&n, 5, onnx_attr_float("value_float", 2.5f));
  wb_msg(&g, G_NODE, n);
  tni_model *m = import_expect(onnx_model(g, 17), TN_OK, NULL, "constants");
  CU_ASSERT_PTR_NOT_NULL_FATAL(m);
  CU_ASSERT_EQUAL(m->graph->n_inputs, 1);
  CU_ASSERT_EQUAL(m->graph->n_nodes, 3);
  CU_ASSERT_EQUAL(m->n_nodes_file, 5);
  static const char *const names[] = {"w", "k", "s"};
  for (int i = 0; i < 3; i++) {
    const tni_value *v = value_named(m->graph, names[i]);
    CU_ASSERT_EQUAL(v->pub.kind, TN_VALUE_CONST);
    CU_ASSERT_PTR_NOT_NULL_FATAL(v->tensor);
    CU_ASSERT_EQUAL(v->pub.rank, i < 2);
    float f;
    memcpy(&f, v->tensor->data, sizeof f);
    CU_ASSERT_EQUAL(f, i < 2 ? 1.0f : 2.5f);
  }
  tni_model_destroy(m);

  static const int64_t ints[3] = {7, 8, 9};
  static const struct {
    const char *label;
    int kind;
    tn_status st;
    const char *part;
  } rows[] = {{"ints", 0, TN_OK, NULL},
              {"int", 1, TN_OK, NULL},
              {"string", 2, TN_OK, NULL},
              {"none", 3, TN_E_INVALID, "node 'kn' (Constant): a Constant has one attribute"},
              {"two", 4, TN_E_INVALID, "one attribute"},
              {"odd", 5, TN_E_UNSUPPORTED, "'sparse_value'"}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    n = onnx_node("Constant", "kn", "", "k");
    if (rows[i].kind == 0) wb_msg(&n, 5, onnx_attr_ints("value_ints", ints, 3));
    if (rows[i].kind == 1 || rows[i].kind == 4) wb_msg(&n, 5, onnx_attr_int("value_int", -5));
    if (rows[i].kind == 2) wb_msg(&n, 5, onnx_attr_str("value_string", "text"));
    if (rows[i].kind == 4) wb_msg(&n, 5, onnx_attr_ints("value_ints", ints, 3));
    if (rows[i].kind == 5) wb_msg(&n, 5, onnx_attr_int("sparse_value", 1));
    g = graph_of("acme.Use:u:x,k:y");
    wb_msg(&g, G_NODE, n);
    m = import_expect(onnx_model(g, 17), rows[i].st, rows[i].part, rows[i].label);
    if (!m) continue;
    const tni_tensor *t = value_named(m->graph, "k")->tensor;
    CU_ASSERT_PTR_NOT_NULL_FATAL(t);
    int64_t first = 0;
    if (rows[i].kind < 2) memcpy(&first, t->data, sizeof first);
    CU_ASSERT_EQUAL(first, rows[i].kind == 0 ? 7 : rows[i].kind == 1 ? -5 : 0);
    CU_ASSERT_EQUAL(t->rank, rows[i].kind == 0);
    tni_model_destroy(m);
  }
}

/* then: y1 = x + inner(w), else: nested If. Both read values of the graphs around. */
static wbuf branch(int depth) {
  wbuf g = {0};
  if (depth == 0) {
    wb_msg(&g, G_NODE, onnx_node("Add", "inner", "t,w", "b0"));
    wb_msg(&g, G_OUTPUT, onnx_value("b0", TN_DT_F32, NULL));
    return g;
  }
  wbuf n = onnx_node("If", "nested", "cond", "b1");
  wb_msg(&n, 5, onnx_attr_msg("then_branch", 5, 6, branch(0)));
  wb_msg(&n, 5, onnx_attr_msg("else_branch", 5, 6, branch(0)));
  wb_msg(&g, G_NODE, n);
  wb_msg(&g, G_OUTPUT, onnx_value("b1", TN_DT_F32, NULL));
  return g;
}

static void test_subgraphs(void) {
  wbuf g = graph_of("Relu:a:x:t"), n = onnx_node("If", "choose", "cond", "y");
  wb_msg(&n, 5, onnx_attr_msg("then_branch", 5, 6, branch(0)));
  wb_msg(&n, 5, onnx_attr_msg("else_branch", 5, 6, branch(1)));
  wb_msg(&g, G_NODE, n);
  wb_msg(&g, G_INPUT, onnx_value("cond", TN_DT_BOOL, ""));
  wb_msg(&g, G_INIT, ones("w"));
  tni_model *m = import_expect(onnx_model(g, 17), TN_OK, NULL, "subgraphs");
  CU_ASSERT_PTR_NOT_NULL_FATAL(m);
  CU_ASSERT_EQUAL(m->n_nodes_file, 6);
  const tni_node *choose = node_named(m->graph, "choose");
  CU_ASSERT_PTR_NOT_NULL_FATAL(choose);
  CU_ASSERT_EQUAL_FATAL(choose->n_raw, 2);
  const tni_graph *then_g = choose->raw[0].graphs[0], *else_g = choose->raw[1].graphs[0];
  CU_ASSERT_PTR_EQUAL(then_g->outer, m->graph);
  const tni_value *t = value_named(then_g, "t"), *w = value_named(then_g, "w");
  CU_ASSERT_PTR_NOT_NULL_FATAL(t);
  CU_ASSERT_EQUAL(t->captured, tni_graph_find(m->graph, "t"));
  CU_ASSERT_PTR_NOT_NULL_FATAL(w);
  CU_ASSERT_PTR_NOT_NULL(w->tensor);
  CU_ASSERT_EQUAL(choose->n_captures, 3); /* t; cond and t for the nested one */
  const tni_node *nested = node_named(else_g, "nested");
  CU_ASSERT_PTR_NOT_NULL_FATAL(nested);
  const tni_value *deep = value_named(nested->raw[0].graphs[0], "t");
  CU_ASSERT_PTR_NOT_NULL_FATAL(deep);
  CU_ASSERT_EQUAL(deep->captured, tni_graph_find(else_g, "t"));
  tni_model_destroy(m);

  g = graph_of("Relu:a:x:unused");
  n = onnx_node("If", "choose", "cond", "y");
  wb_msg(&n, 5, onnx_attr_msg("then_branch", 5, 6, branch(0)));
  wb_msg(&n, 5, onnx_attr_msg("else_branch", 5, 6, branch(1)));
  wb_msg(&g, G_NODE, n);
  wb_msg(&g, G_INPUT, onnx_value("cond", TN_DT_BOOL, ""));
  import_expect(onnx_model(g, 17), TN_E_INVALID, "reads 't'", "missing outer value");
  /* The first branch is fine, the second is not: the first must not leak. */
  wbuf bad = {0};
  wb_msg(&bad, G_NODE, onnx_node("Relu", "r", "nowhere", "b2"));
  wb_msg(&bad, G_OUTPUT, onnx_value("b2", TN_DT_F32, NULL));
  g = graph_of("Relu:a:x:t");
  n = onnx_node("If", "choose", "cond", "y");
  wb_msg(&n, 5, onnx_attr_msg("then_branch", 5, 6, branch(0)));
  wb_msg(&n, 5, onnx_attr_msg("else_branch", 5, 6, bad));
  wb_msg(&g, G_NODE, n);
  wb_msg(&g, G_INPUT, onnx_value("cond", TN_DT_BOOL, ""));
  wb_msg(&g, G_INIT, ones("w"));
  import_expect(onnx_model(g, 17), TN_E_INVALID, "node 'choose' (If): node 'r' (Relu) reads 'nowhere'", "bad branch");
  /* One branch missing: the subgraph that was built must not leak. */
  g = graph_of("Relu:a:x:t");
  n = onnx_node("If", "choose", "cond", "y");
  wb_msg(&n, 5, onnx_attr_msg("then_branch", 5, 6, branch(0)));
  wb_msg(&g, G_NODE, n);
  wb_msg(&g, G_INPUT, onnx_value("cond", TN_DT_BOOL, ""));
  wb_msg(&g, G_INIT, ones("w"));
  import_expect(onnx_model(g, 17), TN_E_INVALID, "else_branch", "missing branch");
}

static void test_loop(void) {
  wbuf body = {0};
  wb_msg(&body, G_INPUT, onnx_value("i", TN_DT_I64, ""));
  wb_msg(&body, G_INPUT, onnx_value("go", TN_DT_BOOL, ""));
  wb_msg(&body, G_INPUT, onnx_value("v", TN_DT_F32, "2,?"));
  wb_msg(&body, G_NODE, onnx_node("Add", "step", "v,x", "v2"));
  wb_msg(&body, G_NODE, onnx_node("Identity", "keep", "go", "go2"));
  wb_msg(&body, G_OUTPUT, onnx_value("go2", TN_DT_BOOL, ""));
  wb_msg(&body, G_OUTPUT, onnx_value("v2", TN_DT_F32, NULL));
  wbuf g = graph_of("Relu:a:x:t"), n = onnx_node("Loop", "loop", "count,,t", "y");
  wb_msg(&n, 5, onnx_attr_msg("body", 5, 6, body));
  wb_msg(&g, G_NODE, n);
  wb_msg(&g, G_INPUT, onnx_value("count", TN_DT_I64, ""));
  tni_model *m = import_expect(onnx_model(g, 17), TN_OK, NULL, "loop");
  CU_ASSERT_PTR_NOT_NULL_FATAL(m);
  const tni_node *loop = node_named(m->graph, "loop");
  CU_ASSERT_EQUAL(loop->pub.n_in, 3);
  CU_ASSERT_EQUAL(loop->pub.in[1], TN_NONE);
  const tni_graph *b = loop->raw[0].graphs[0];
  CU_ASSERT_EQUAL(b->n_inputs, 3);
  CU_ASSERT_EQUAL(b->n_outputs, 2);
  const tni_value *v = value_named(b, "v");
  CU_ASSERT_EQUAL_FATAL(v->pub.rank, 2);
  CU_ASSERT_EQUAL(v->pub.dims[1], TNI_EXPR_NONE);
  tni_model_destroy(m);
}

static void test_attributes(void) {
  static const struct {
    const char *label;
    int kind;
    tn_status st;
    const char *part;
  } rows[] = {{"wrong type", 0, TN_E_INVALID, "'axis'"},
              {"unknown attribute", 1, TN_E_INVALID, "'bogus'"},
              {"missing", 2, TN_E_INVALID, "'axis'"},
              {"no name", 3, TN_E_INVALID, "node 'c' (Concat): an attribute has no name"},
              {"reference outside of a function", 4, TN_E_INVALID, "outside of a function"},
              {"untyped", 5, TN_OK, NULL},
              {"graph attribute without a graph", 6, TN_E_INVALID, "'g' has no graph"}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    wbuf n = onnx_node("Concat", "c", "x,x", "y"), g = graph_of(""), untyped = {0};
    if (rows[i].kind == 0) wb_msg(&n, 5, onnx_attr_float("axis", 1));
    if (rows[i].kind == 1) wb_msg(&n, 5, onnx_attr_int("bogus", 1));
    if (rows[i].kind == 1 || rows[i].kind == 3) wb_msg(&n, 5, onnx_attr_int("axis", 1));
    if (rows[i].kind == 3) wb_msg(&n, 5, onnx_attr_int("", 1));
    if (rows[i].kind == 4) wb_msg(&n, 5, onnx_attr_ref("axis", 2, "a"));
    if (rows[i].kind == 5) {
      wb_str(&untyped, 1, "axis");
      wb_int(&untyped, 3, 1);
      wb_msg(&n, 5, untyped);
    }
    if (rows[i].kind == 6) {
      wb_str(&untyped, 1, "g");
      wb_int(&untyped, 20, 5);
      wb_msg(&n, 5, untyped);
    }
    wb_msg(&g, G_NODE, n);
    tni_model *m = import_expect(onnx_model(g, 17), rows[i].st, rows[i].part, rows[i].label);
    if (m) CU_ASSERT_EQUAL(tni_attr_i(&m->graph->nodes[0]->pub, "axis", 0), 1);
    tni_model_destroy(m);
  }
}

/* Counts that a hostile file can drive up: an answer, and soon. */
static void test_hostile_counts(void) {
  wbuf g = graph_of("Relu:a:x:y"), n = onnx_node("Relu", "many", "x", "z"), m;
  for (int i = 0; i < 2000; i++) wb_msg(&n, 5, onnx_attr_int("a", i));
  wb_msg(&g, G_NODE, n);
  import_expect(onnx_model(g, 17), TN_E_LIMIT, "2000 attributes", "attributes");
  m = onnx_model(graph_of("Relu:a:x:y"), 17);
  for (int i = 0; i < 2000; i++) wb_msg(&m, M_OPSET, onnx_opset("d", 1));
  import_expect(m, TN_E_LIMIT, "2001 opsets", "opsets");
  g = graph_of("");
  for (int i = 0; i < 40000; i++) {
    char in[16], out[16];
    snprintf(in, sizeof in, "t%d", i);
    snprintf(out, sizeof out, "t%d", i + 1);
    wb_msg(&g, G_NODE, onnx_node("Relu", "", i ? in : "x", i < 39999 ? out : "y"));
    if (i) wb_msg(&g, G_OUTPUT, onnx_value(in, TN_DT_F32, "n"));
  }
  tni_model_destroy(import_expect(onnx_model(g, 17), TN_OK, NULL, "40,000 nodes and outputs"));
  /* A dim of 100,000 parentheses is a name like any other. */
  char *deep = malloc(200001);
  CU_ASSERT_PTR_NOT_NULL_FATAL(deep);
  memset(deep, '(', 200000);
  deep[200000] = '\0';
  wbuf v = {0}, type = {0}, tensor = {0}, shape = {0}, dim = {0};
  wb_str(&dim, 2, deep);
  free(deep);
  wb_msg(&shape, 1, dim);
  wb_int(&tensor, 1, 1);
  wb_msg(&tensor, 2, shape);
  wb_msg(&type, 1, tensor);
  wb_str(&v, 1, "p");
  wb_msg(&v, 2, type);
  g = graph_of("Relu:a:x:y");
  wb_msg(&g, G_INPUT, v);
  tni_model_destroy(import_expect(onnx_model(g, 17), TN_OK, NULL, "deep dim"));
}

int suite_graph(void) {
  CU_pSuite s = CU_add_suite("onnx graph", NULL, NULL);
  return !s || !CU_add_test(s, "structure", test_structure) || !CU_add_test(s, "names", test_names) ||
         !CU_add_test(s, "model fields", test_model_fields) || !CU_add_test(s, "dims", test_dims) ||
         !CU_add_test(s, "names of dims", test_dim_names) ||
         !CU_add_test(s, "other kinds of values", test_other_kinds) || !CU_add_test(s, "constants", test_constants) ||
         !CU_add_test(s, "subgraphs", test_subgraphs) || !CU_add_test(s, "loop", test_loop) ||
         !CU_add_test(s, "attributes", test_attributes) || !CU_add_test(s, "hostile counts", test_hostile_counts);
}
