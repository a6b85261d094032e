/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "suite.h"

/* One node of `type`, written for `opset`, with one attribute. After the import input `at` must be a constant with
 * these elements, and the attribute gone. at < 0: only the inputs are counted. */
typedef struct row {
  const char *type, *in;
  int opset;
  const char *attr;
  int64_t ints[4];
  int n_ints, at, n_in;
} row;

static const row rows[] = {
    {"Squeeze", "x", 11, "axes", {0, 2}, 2, 1, 2},   {"Squeeze", "x", 11, NULL, {0}, 0, -1, 1},
    {"Unsqueeze", "x", 12, "axes", {0}, 1, 1, 2},    {"ReduceSum", "x", 12, "axes", {-1}, 1, 1, 2},
    {"ReduceSum", "x", 12, NULL, {0}, 0, -1, 1},     {"ReduceMean", "x", 17, "axes", {1, 2}, 2, 1, 2},
    {"ReduceMax", "x", 13, "axes", {1}, 1, 1, 2},    {"ReduceMin", "x", 13, "axes", {1}, 1, 1, 2},
    {"ReduceProd", "x", 13, "axes", {1}, 1, 1, 2},   {"ReduceSumSquare", "x", 13, "axes", {1}, 1, 1, 2},
    {"ReduceL2", "x", 13, "axes", {1}, 1, 1, 2},     {"ReduceL1", "x", 13, "axes", {1}, 1, 1, 2},
    {"ReduceLogSum", "x", 13, "axes", {1}, 1, 1, 2}, {"ReduceLogSumExp", "x", 13, "axes", {1}, 1, 1, 2},
    {"Split", "x", 11, "split", {1, 3}, 2, 1, 2},    {"TopK", "x", 9, "k", {3}, 0, 1, 2},
    {"Pad", "x", 10, "pads", {0, 0, 1, 1}, 4, 1, 2}, {"Scatter", "x,x,x", 9, NULL, {0}, 0, -1, 3},
    {"Dropout", "x", 6, "is_test", {1}, 0, -1, 1},   {"Gemm", "x,x,x", 6, "broadcast", {1}, 0, -1, 3},
    {"LayerNormalization", "x,x", 11, NULL, {0}, 0, -1, 2}, /* not ONNX's yet: ONNX Runtime's optimizer writes it */
};

static tni_model *import_row(const row *r, wbuf node) {
  wbuf g = {0};
  wb_msg(&g, G_NODE, node);
  wb_msg(&g, G_INPUT, onnx_value("x", TN_DT_F32, "2,3,4"));
  wb_msg(&g, G_OUTPUT, onnx_value("y", TN_DT_F32, NULL));
  return import_expect(onnx_model(g, r->opset), TN_OK, NULL, r->type);
}

static void check_input(const tni_graph *g, const tni_node *n, const row *r) {
  CU_ASSERT_EQUAL_FATAL(n->pub.n_in > r->at, 1);
  const tni_value *v = tni_graph_value(g, n->pub.in[r->at]);
  CU_ASSERT_PTR_NOT_NULL_FATAL(v);
  CU_ASSERT_PTR_NOT_NULL_FATAL(v->tensor);
  int64_t count = r->n_ints ? r->n_ints : 1;
  CU_ASSERT_EQUAL(v->pub.dtype, TN_DT_I64);
  CU_ASSERT_EQUAL(v->tensor->rank, 1);
  CU_ASSERT_EQUAL_FATAL(v->tensor->dims[0], count);
  CU_ASSERT_EQUAL(memcmp(v->tensor->data, r->ints, (size_t)count * 8), 0);
}

static void test_attrs_to_inputs(void) {
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const row *r = &rows[i];
    wbuf n = onnx_node(r->type, "node", r->in, strcmp(r->type, "TopK") == 0 ? "y,ids" : "y");
    if (r->attr)
      wb_msg(&n, 5,
             r->n_ints ? onnx_attr_ints(r->attr, r->ints, (size_t)r->n_ints) : onnx_attr_int(r->attr, r->ints[0]));
    tni_model *m = import_row(r, n);
    CU_ASSERT_PTR_NOT_NULL_FATAL(m);
    const tni_node *node = node_named(m->graph, "node");
    CU_ASSERT_PTR_NOT_NULL_FATAL(node);
    CU_ASSERT_PTR_NOT_NULL(node->op);
    CU_ASSERT_EQUAL(node->pub.n_in, r->n_in);
    CU_ASSERT(!r->attr || !tni_attr(&node->pub, r->attr));
    if (r->at >= 0) check_input(m->graph, node, r);
    tni_model_destroy(m);
  }
}

/* Opsets 1 to 5: a hint that goes, a type by name, a shape and an axis that were said otherwise. */
static void test_first(void) {
  static const int64_t hint[] = {0}, shape[] = {2, -1};
  wbuf n = onnx_node("Relu", "node", "x", "y");
  wb_msg(&n, 5, onnx_attr_ints("consumed_inputs", hint, 1));
  const row relu = {.type = "Relu", .opset = 1};
  tni_model *m = import_row(&relu, n);
  CU_ASSERT_PTR_NOT_NULL_FATAL(m);
  CU_ASSERT_PTR_NOT_NULL(node_named(m->graph, "node")->op);
  CU_ASSERT(!tni_attr(&node_named(m->graph, "node")->pub, "consumed_inputs"));
  tni_model_destroy(m);

  n = onnx_node("Cast", "node", "x", "y");
  wb_msg(&n, 5, onnx_attr_str("to", "INT64"));
  const row cast = {.type = "Cast", .opset = 5};
  m = import_row(&cast, n);
  CU_ASSERT_PTR_NOT_NULL_FATAL(m);
  CU_ASSERT_EQUAL(tni_attr_i(&node_named(m->graph, "node")->pub, "to", 0), TN_DT_I64);
  tni_model_destroy(m);

  n = onnx_node("Reshape", "node", "x", "y");
  wb_msg(&n, 5, onnx_attr_ints("shape", shape, 2));
  const row reshape = {.type = "Reshape", .opset = 4};
  m = import_row(&reshape, n);
  CU_ASSERT_PTR_NOT_NULL_FATAL(m);
  const tni_node *r = node_named(m->graph, "node");
  CU_ASSERT_EQUAL_FATAL(r->pub.n_in, 2);
  CU_ASSERT_EQUAL(memcmp(tni_graph_value(m->graph, r->pub.in[1])->tensor->data, shape, sizeof shape), 0);
  tni_model_destroy(m);

  const row concat = {.type = "Concat", .opset = 3};
  m = import_row(&concat, onnx_node("Concat", "node", "x,x", "y"));
  CU_ASSERT_PTR_NOT_NULL_FATAL(m);
  CU_ASSERT_EQUAL(tni_attr_i(&node_named(m->graph, "node")->pub, "axis", 0), 1);
  tni_model_destroy(m);
}

static void test_slice_split_clip(void) {
  static const int64_t starts[] = {0, 1}, ends[] = {2, INT64_MAX}, axes[] = {0, 2};
  const row r = {.type = "Slice", .opset = 9};
  wbuf n = onnx_node("Slice", "node", "x", "y");
  wb_msg(&n, 5, onnx_attr_ints("axes", axes, 2));
  wb_msg(&n, 5, onnx_attr_ints("ends", ends, 2));
  wb_msg(&n, 5, onnx_attr_ints("starts", starts, 2));
  tni_model *m = import_row(&r, n);
  CU_ASSERT_PTR_NOT_NULL_FATAL(m);
  const tni_node *s = node_named(m->graph, "node");
  CU_ASSERT_EQUAL_FATAL(s->pub.n_in, 4);
  const int64_t *const want[] = {starts, ends, axes};
  for (int i = 0; i < 3; i++)
    CU_ASSERT_EQUAL(memcmp(tni_graph_value(m->graph, s->pub.in[i + 1])->tensor->data, want[i], 16), 0);
  tni_model_destroy(m);

  const row split = {.type = "Split", .opset = 13};
  m = import_row(&split, onnx_node("Split", "node", "x", "y,b,c"));
  CU_ASSERT_PTR_NOT_NULL_FATAL(m);
  CU_ASSERT_EQUAL(tni_attr_i(&node_named(m->graph, "node")->pub, "num_outputs", 0), 3);
  tni_model_destroy(m);

  /* Clip: only max, of the input's dtype. */
  wbuf g = {0};
  n = onnx_node("Clip", "node", "h", "y");
  wb_msg(&n, 5, onnx_attr_float("max", 6.0f));
  wb_msg(&g, G_NODE, n);
  wb_msg(&g, G_INPUT, onnx_value("h", TN_DT_F16, "2"));
  wb_msg(&g, G_OUTPUT, onnx_value("y", TN_DT_F16, NULL));
  m = import_expect(onnx_model(g, 10), TN_OK, NULL, "clip");
  CU_ASSERT_PTR_NOT_NULL_FATAL(m);
  const tni_node *clip = node_named(m->graph, "node");
  CU_ASSERT_EQUAL_FATAL(clip->pub.n_in, 3);
  CU_ASSERT_EQUAL(clip->pub.in[1], TN_NONE);
  const tni_value *max = tni_graph_value(m->graph, clip->pub.in[2]);
  CU_ASSERT_EQUAL(max->pub.dtype, TN_DT_F16);
  CU_ASSERT_EQUAL(max->tensor->rank, 0);
  uint16_t h;
  memcpy(&h, max->tensor->data, sizeof h);
  CU_ASSERT_EQUAL(h, 0x4600);
  tni_model_destroy(m);
}

/* Newer opsets stay as they are: the attribute is an error there, not a rewrite. */
static void test_newer(void) {
  static const int64_t axes[] = {0};
  wbuf g = {0}, n = onnx_node("Squeeze", "node", "x", "y");
  wb_msg(&n, 5, onnx_attr_ints("axes", axes, 1));
  wb_msg(&g, G_NODE, n);
  wb_msg(&g, G_INPUT, onnx_value("x", TN_DT_F32, "2,3,4"));
  wb_msg(&g, G_OUTPUT, onnx_value("y", TN_DT_F32, NULL));
  import_expect(onnx_model(g, 13), TN_E_INVALID, "'axes'", "axes attribute in opset 13");
  g = (wbuf){0};
  wb_msg(&g, G_NODE, onnx_node("Unsqueeze", "node", "x", "y"));
  wb_msg(&g, G_INPUT, onnx_value("x", TN_DT_F32, "2,3,4"));
  wb_msg(&g, G_OUTPUT, onnx_value("y", TN_DT_F32, NULL));
  import_expect(onnx_model(g, 11), TN_E_INVALID, "'axes' is required", "no axes");
  g = (wbuf){0};
  n = onnx_node("Squeeze", "node", "x", "y");
  wb_msg(&n, 5, onnx_attr_int("axes", 1));
  wb_msg(&g, G_NODE, n);
  wb_msg(&g, G_INPUT, onnx_value("x", TN_DT_F32, "2,3,4"));
  wb_msg(&g, G_OUTPUT, onnx_value("y", TN_DT_F32, NULL));
  import_expect(onnx_model(g, 11), TN_E_INVALID, "'axes' has the wrong type", "axes as an int");
}

/* Of ai.onnx and com.microsoft; a vendor's is the vendor's. */
static void test_empty_pad(void) {
  static const char *const types[] = {"Conv", "com.microsoft:FusedConv", "com.acme:Conv"};
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
    wbuf n = onnx_node(types[i], "node", "x,x", "y");
    wb_msg(&n, 5, onnx_attr_str("auto_pad", ""));
    const row r = {.type = types[i], .opset = 17};
    tni_model *m = import_row(&r, n);
    CU_ASSERT_PTR_NOT_NULL_FATAL(m);
    const tni_node *node = m->graph->nodes[0];
    const tn_attr *pad = tni_attr(&node->pub, "auto_pad");
    CU_ASSERT_STRING_EQUAL(node->type, "Conv");
    CU_ASSERT_EQUAL(node->n_raw, i == 2);
    if (i < 2) CU_ASSERT(pad && strcmp(pad->u.s, "NOTSET") == 0);
    tni_model_destroy(m);
  }
}

/* Add of opset 6 with axis: [2,3,4,5] + [3,4] from axis 1. */
static tni_model *add_6(const char *da, const char *db, int64_t axis, tn_status st, const char *part) {
  wbuf g = {0}, n = onnx_node("Add", "node", "a,b", "y");
  wb_msg(&n, 5, onnx_attr_int("broadcast", 1));
  wb_msg(&n, 5, onnx_attr_int("axis", axis));
  wb_msg(&g, G_NODE, n);
  wb_msg(&g, G_INPUT, onnx_value("a", TN_DT_F32, da));
  wb_msg(&g, G_INPUT, onnx_value("b", TN_DT_F32, db));
  wb_msg(&g, G_OUTPUT, onnx_value("y", TN_DT_F32, NULL));
  return import_expect(onnx_model(g, 6), st, part, "Add-6");
}

static void test_broadcast(void) {
  tni_model *m = add_6("2,3,4,5", "3,4", 1, TN_OK, NULL);
  CU_ASSERT_PTR_NOT_NULL_FATAL(m);
  CU_ASSERT_EQUAL_FATAL(m->graph->n_nodes, 2);
  const tni_node *u = m->graph->nodes[0];
  CU_ASSERT_STRING_EQUAL_FATAL(u->type, "Unsqueeze");
  const tni_tensor *axes = tni_graph_value(m->graph, u->pub.in[1])->tensor;
  CU_ASSERT_EQUAL(axes->dims[0], 1);
  int64_t axis;
  memcpy(&axis, axes->data, sizeof axis);
  CU_ASSERT_EQUAL(axis, 2);
  CU_ASSERT_EQUAL(m->graph->nodes[1]->pub.in[1], u->pub.out[0]);
  CU_ASSERT_PTR_NULL(tni_attr(&m->graph->nodes[1]->pub, "axis"));
  tni_model_destroy(m);
  m = add_6("2,3,4,5", "4,5", -2, TN_OK, NULL);
  CU_ASSERT_PTR_NOT_NULL_FATAL(m);
  CU_ASSERT_EQUAL(m->graph->n_nodes, 1);
  tni_model_destroy(m);
  m = add_6(NULL, "3,4", 1, TN_OK, NULL); /* unknown rank: computed */
  CU_ASSERT_PTR_NOT_NULL_FATAL(m);
  const tni_node *add = node_named(m->graph, "node");
  CU_ASSERT_PTR_NOT_NULL_FATAL(add);
  CU_ASSERT_STRING_EQUAL(tni_graph_node(m->graph, tni_graph_value(m->graph, add->pub.in[1])->pub.producer)->type,
                         "Reshape");
  tni_model_destroy(m);
  add_6("2,3", "3,4", 1, TN_E_INVALID, "does not fit");
  add_6("2,3", "3", 100, TN_E_INVALID, "'axis' is 100");
}

static void test_prelu(void) {
  static const float slope[3] = {1, 2, 3};
  wbuf g = {0};
  wb_msg(&g, G_NODE, onnx_node("PRelu", "node", "x,w", "y"));
  wb_msg(&g, G_INPUT, onnx_value("x", TN_DT_F32, "2,3,4,4"));
  wb_msg(&g, G_INIT, onnx_tensor_raw("w", TN_DT_F32, "3", slope, sizeof slope));
  wb_msg(&g, G_OUTPUT, onnx_value("y", TN_DT_F32, NULL));
  tni_model *m = import_expect(onnx_model(g, 6), TN_OK, NULL, "PRelu-6");
  CU_ASSERT_PTR_NOT_NULL_FATAL(m);
  CU_ASSERT_EQUAL(m->graph->n_nodes, 2);
  const tni_tensor *axes = tni_graph_value(m->graph, m->graph->nodes[0]->pub.in[1])->tensor;
  CU_ASSERT_EQUAL(axes->dims[0], 2);
  tni_model_destroy(m);
}

/* Resize-10 in mode nearest: the pixel before where axes grow, the one after where they shrink; two nodes for both. */
static void test_resize(void) {
  static const struct {
    float scales[3];
    const char *mode, *rounding;
    uint32_t nodes;
  } resizes[] = {{{1, 2, 1.5f}, "nearest", "floor", 1},
                 {{1, 0.5f, 0.25f}, "nearest", "ceil", 1},
                 {{1, 2, 0.25f}, "nearest", "ceil", 2},
                 {{1, 2, 0.25f}, "linear", "floor", 1}};
  for (size_t i = 0; i < sizeof resizes / sizeof *resizes; i++) {
    wbuf g = {0}, n = onnx_node("Resize", "node", "x,s", "y");
    wb_msg(&n, 5, onnx_attr_str("mode", resizes[i].mode));
    wb_msg(&g, G_NODE, n);
    wb_msg(&g, G_INPUT, onnx_value("x", TN_DT_F32, "2,3,4"));
    wb_msg(&g, G_INIT, onnx_tensor_raw("s", TN_DT_F32, "3", resizes[i].scales, sizeof resizes[i].scales));
    wb_msg(&g, G_OUTPUT, onnx_value("y", TN_DT_F32, NULL));
    tni_model *m = import_expect(onnx_model(g, 10), TN_OK, NULL, "Resize-10");
    CU_ASSERT_PTR_NOT_NULL_FATAL(m);
    CU_ASSERT_EQUAL(m->graph->n_nodes, resizes[i].nodes);
    const tni_node *last = node_named(m->graph, "node");
    CU_ASSERT_STRING_EQUAL(tni_attr_s(&last->pub, "nearest_mode", ""), resizes[i].rounding);
    if (resizes[i].nodes == 2) {
      const float *rest = tni_graph_value(m->graph, last->pub.in[2])->tensor->data;
      CU_ASSERT_EQUAL(last->pub.in[0], m->graph->nodes[0]->pub.out[0]);
      CU_ASSERT_STRING_EQUAL(tni_attr_s(&m->graph->nodes[0]->pub, "nearest_mode", ""), "floor");
      CU_ASSERT(rest[0] == 1 && rest[1] == 1 && rest[2] == 0.25f);
    }
    tni_model_destroy(m);
  }
}

int suite_upgrade(void) {
  CU_pSuite s = CU_add_suite("onnx upgrade", NULL, NULL);
  return !s || !CU_add_test(s, "attributes to inputs", test_attrs_to_inputs) ||
         !CU_add_test(s, "opsets 1 to 5", test_first) || !CU_add_test(s, "Slice, Split, Clip", test_slice_split_clip) ||
         !CU_add_test(s, "newer opsets", test_newer) || !CU_add_test(s, "empty auto_pad", test_empty_pad) ||
         !CU_add_test(s, "broadcast of opset 6", test_broadcast) || !CU_add_test(s, "PRelu of opset 6", test_prelu) ||
         !CU_add_test(s, "Resize of opset 10", test_resize);
}
