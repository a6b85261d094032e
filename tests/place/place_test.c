/* SPDX-License-Identifier: Apache-2.0
 *
 * Fused nodes before devices that know all, some or none of them: which nodes the graph has then, who takes them, and
 * that the numbers do not depend on it.
 */
#include "place_test.h"
#include "runtime/memory/run.h"

enum { K = 8, ROWS = 3 };

static float wa[K * K], wb[K * K], x_data[ROWS * K];

/* y = (x wa) * (x wb) + x */
static wbuf gated(void) {
  wbuf g = {0};
  for (int i = 0; i < K * K; i++) {
    wa[i] = (float)(i % 11) - 4;
    wb[i] = (float)(i % 5) - 2.5f;
  }
  for (int i = 0; i < ROWS * K; i++) x_data[i] = (float)(i % 7) - 2.5f;
  wb_msg(&g, G_NODE, onnx_node("MatMul", "gate", "x,wa", "a"));
  wb_msg(&g, G_NODE, onnx_node("MatMul", "up", "x,wb", "b"));
  wb_msg(&g, G_NODE, onnx_node("Mul", "mul", "a,b", "c"));
  wb_msg(&g, G_NODE, onnx_node("Add", "add", "c,x", "y"));
  wb_str(&g, G_NAME, "g");
  wb_msg(&g, G_INIT, onnx_tensor_raw("wa", TN_DT_F32, "8,8", wa, sizeof wa));
  wb_msg(&g, G_INIT, onnx_tensor_raw("wb", TN_DT_F32, "8,8", wb, sizeof wb));
  wb_msg(&g, G_INPUT, onnx_value("x", TN_DT_F32, "n,8"));
  wb_msg(&g, G_OUTPUT, onnx_value("y", TN_DT_F32, NULL));
  return onnx_model(g, 17);
}

static void reference(float *y) {
  for (int m = 0; m < ROWS; m++)
    for (int n = 0; n < K; n++) {
      float a = 0, b = 0;
      for (int k = 0; k < K; k++) {
        a += x_data[m * K + k] * wa[k * K + n];
        b += x_data[m * K + k] * wb[k * K + n];
      }
      y[m * K + n] = a * b + x_data[m * K + n];
    }
}

/* "FusedMatMul@sched-parts Mul@host" of the first exec, or of the one for decode. */
static void describe(const rig *r, uint32_t exec, char *out, size_t n) {
  const tn_model *m = r->m;
  size_t at = 0;
  out[0] = 0;
  for (uint32_t i = 0; i < m->graph->n_nodes && at < n; i++) {
    const uint32_t dev = m->execs[exec].part.device_of[i];
    const int k = snprintf(out + at, n - at, "%s%s@%s", i ? " " : "", m->graph->nodes[i]->type, m->rt->devs[dev].name);
    at += k > 0 ? (size_t)k : 0;
  }
}

typedef struct row {
  const char *profile, *nodes, *decode; /* decode: NULL where there are no phases */
} row;

#define PLUGIN(takes) "plugins:\n  - name: sched-parts\n    options: {takes: " takes "}\n  - name: host\n"
#define PHASES "phases: {prefill: [host], decode: [sched-parts, host]}\n"

static const row rows[] = {
    {"plugins: [host]\n", "FusedMatMul@host", NULL},
    {PLUGIN("nothing"), "FusedMatMul@host", NULL},
    {PLUGIN("chains"), "FusedMatMul@sched-parts", NULL},
    {PLUGIN("products"), "FusedMatMul@sched-parts Mul@host Add@host", NULL},
    {PLUGIN("matmul"), "MatMul@sched-parts MatMul@sched-parts Mul@host Add@host", NULL},
    /* one phase wants it in pieces: both get them */
    {PLUGIN("matmul") PHASES, "MatMul@host MatMul@host Mul@host Add@host",
     "MatMul@sched-parts MatMul@sched-parts Mul@host Add@host"},
    {PLUGIN("chains") PHASES, "FusedMatMul@host", "FusedMatMul@sched-parts"},
    {PLUGIN("nothing") PHASES, "FusedMatMul@host", "FusedMatMul@host"},
    /* the better device takes an operator of the chain only */
    {"plugins:\n  - name: fake-engine\n  - name: host\n", "FusedMatMul@host Mul@host Add@fake-engine", NULL},
};

static void test_place(void) {
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    rig r;
    char text[200];
    float want[ROWS * K];
    tn_tensor out[1];
    CU_ASSERT_EQUAL_FATAL(rig_init(&r, rows[i].profile), TN_OK);
    tn_status st = rig_load(&r, gated(), 0);
    if (st != TN_OK) printf("\n    row %zu: %s\n", i, r.err.message);
    CU_ASSERT_EQUAL_FATAL(st, TN_OK);
    reference(want);
    for (uint32_t x = 0; x < r.m->n_execs; x++) {
      const char *nodes = x && rows[i].decode ? rows[i].decode : rows[i].nodes;
      describe(&r, x, text, sizeof text);
      if (strcmp(text, nodes) != 0) printf("\n    row %zu: %s, expected %s\n", i, text, nodes ? nodes : "nothing");
      CU_ASSERT_STRING_EQUAL(text, nodes);
    }
    tn_tensor x = f32_tensor("x", x_data, 2, ROWS, K, 0);
    for (uint32_t phase = 0; phase < 2; phase++) {
      st = rig_run(&r, phase ? TN_PHASE_DECODE : TN_PHASE_PREFILL, &x, NULL, NULL, out, 1);
      CU_ASSERT_EQUAL_FATAL(st, TN_OK);
      CU_ASSERT_EQUAL(memcmp(out[0].data, want, sizeof want), 0);
    }
    CU_ASSERT_EQUAL(r.m->passes.nodes_after, r.m->graph->n_nodes);
    rig_finish(&r);
  }
}

/* A fused node of which nobody reads one product: on trial that product dies, so the node cannot be put together again. */
static void test_unread(void) {
  static const char *const takes[] = {PLUGIN("nothing"), PLUGIN("chains"), PLUGIN("products"), PLUGIN("matmul")};
  const int64_t parts[] = {0, 0, K, 1, 0, K}, results[] = {0, 1};
  for (size_t i = 0; i < sizeof takes / sizeof *takes; i++) {
    rig r;
    float want[ROWS * K];
    tn_tensor out[1];
    wbuf n = onnx_node("FusedMatMul", "both", "x,wa,wb", "a,b"), g = {0}, m = {0};
    wb_str(&n, 7, "tenon");
    wb_msg(&n, 5, onnx_attr_int("n_weights", 2));
    wb_msg(&n, 5, onnx_attr_int("trans_b", 0));
    wb_msg(&n, 5, onnx_attr_ints("parts", parts, 6));
    wb_msg(&n, 5, onnx_attr_ints("results", results, 2));
    wb_msg(&g, G_NODE, n);
    wb_msg(&g, G_NODE, onnx_node("Neg", "neg", "a", "y"));
    wb_str(&g, G_NAME, "g");
    wb_msg(&g, G_INIT, onnx_tensor_raw("wa", TN_DT_F32, "8,8", wa, sizeof wa));
    wb_msg(&g, G_INIT, onnx_tensor_raw("wb", TN_DT_F32, "8,8", wb, sizeof wb));
    wb_msg(&g, G_INPUT, onnx_value("x", TN_DT_F32, "n,8"));
    wb_msg(&g, G_OUTPUT, onnx_value("y", TN_DT_F32, NULL));
    wb_int(&m, M_IR, 8);
    wb_msg(&m, M_OPSET, onnx_opset("", 17));
    wb_msg(&m, M_OPSET, onnx_opset("tenon", 1));
    wb_msg(&m, M_GRAPH, g);
    CU_ASSERT_EQUAL_FATAL(rig_init(&r, takes[i]), TN_OK);
    const tn_status st = rig_load(&r, m, 0);
    if (st != TN_OK) printf("\n    %s: %s\n", takes[i], r.err.message);
    CU_ASSERT_EQUAL_FATAL(st, TN_OK);
    for (int k = 0; k < ROWS * K; k++) {
      want[k] = 0;
      for (int j = 0; j < K; j++) want[k] -= x_data[k / K * K + j] * wa[j * K + k % K];
    }
    tn_tensor x = f32_tensor("x", x_data, 2, ROWS, K, 0);
    CU_ASSERT_EQUAL_FATAL(rig_run(&r, TN_PHASE_PREFILL, &x, NULL, NULL, out, 1), TN_OK);
    for (int k = 0; k < ROWS * K; k++) CU_ASSERT_EQUAL(((const float *)out[0].data)[k], want[k]);
    rig_finish(&r);
  }
}

/* `require` counts fused products: what falls back to the host is named. */
static void test_require(void) {
  rig r;
  CU_ASSERT_EQUAL_FATAL(rig_init(&r, PLUGIN("chains") "require: [sched-parts]\n"), TN_OK);
  CU_ASSERT_EQUAL(rig_load(&r, gated(), 0), TN_OK);
  rig_finish(&r);
  wbuf g = {0};
  wb_msg(&g, G_NODE, onnx_node("MatMul", "taken", "x,wa", "a"));
  wb_msg(&g, G_NODE, onnx_node("Neg", "neg", "a", "b"));
  wb_msg(&g, G_NODE, onnx_node("MatMul", "left", "b,wb", "c"));
  wb_msg(&g, G_NODE, onnx_node("Tanh", "tanh", "c", "y")); /* a chain that the device does not know, and */
  wb_str(&g, G_NAME, "g");
  wb_msg(&g, G_INIT, onnx_tensor_raw("wa", TN_DT_F32, "8,8", wa, sizeof wa));
  wb_msg(&g, G_INIT, onnx_tensor_raw("wb", TN_DT_F32, "8,1", wb, K * sizeof *wb));
  wb_msg(&g, G_INPUT, onnx_value("x", TN_DT_F32, "1,n,8")); /* an activation that it does not take */
  wb_msg(&g, G_OUTPUT, onnx_value("y", TN_DT_F32, NULL));
  CU_ASSERT_EQUAL_FATAL(rig_init(&r, PLUGIN("chains") "require: [host]\n"), TN_OK);
  CU_ASSERT_EQUAL(rig_load(&r, onnx_model(g, 17), 0), TN_E_UNSUPPORTED);
  CU_ASSERT_PTR_NOT_NULL(strstr(r.err.message, "'taken' falls back to the host"));
  rig_finish(&r);
}

void suite_place(void) {
  CU_pSuite s = CU_add_suite("fused nodes", NULL, NULL);
  CU_add_test(s, "whole, joined or in pieces", test_place);
  CU_add_test(s, "one product that nobody reads", test_unread);
  CU_add_test(s, "require", test_require);
}
