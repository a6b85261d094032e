/* SPDX-License-Identifier: Apache-2.0
 *
 * The oracle on fused products: right devices pass it, wrong chains do not, and it can stand in for the device.
 */
#include <math.h>

#include <tenon/ops.h>

#include "oracle_test.h"
#include "tests/kit/rig.h"

enum { K = 96, N = 40, ROWS = 5 };

static float gate[K * N], up[K * N], x_data[ROWS * K], row[N], whole[ROWS * N];

static void fill(float *p, int n, int step, float scale) {
  for (int i = 0; i < n; i++) p[i] = (float)((i * step) % 31 - 15) * scale;
}

static wbuf floats_attr(const char *name, const float *v, size_t n) {
  wbuf a = {0};
  wb_str(&a, 1, name);
  wb_int(&a, 20, 6);
  for (size_t i = 0; i < n; i++) wb_f32(&a, 7, v[i]);
  return a;
}

typedef struct spec {
  const char *in, *out;
  int64_t n_weights;
  int64_t parts[9], ops[36], results[6];
  size_t n_parts, n_ops, n_results;
  float values[12];
} spec;

/* x [n,K] and r [n,N] are inputs; gate and up [K,N], row [N] are constants. */
static wbuf model_of(const spec *s) {
  fill(gate, K * N, 7, 0.02f);
  fill(up, K * N, 11, 0.03f);
  fill(x_data, ROWS * K, 5, 0.1f);
  fill(row, N, 3, 0.25f);
  fill(whole, ROWS * N, 13, 0.5f);
  wbuf g = {0}, n = onnx_node("tenon:FusedMatMul", "fused", s->in, s->out);
  wb_msg(&n, 5, onnx_attr_ints("ops", s->ops, s->n_ops * 3));
  wb_msg(&n, 5, floats_attr("floats", s->values, s->n_ops));
  wb_msg(&n, 5, onnx_attr_ints("results", s->results, s->n_results));
  wb_msg(&n, 5, onnx_attr_int("n_weights", s->n_weights));
  wb_msg(&n, 5, onnx_attr_ints("parts", s->parts, s->n_parts * 3));
  wb_msg(&g, G_NODE, n);
  wb_str(&g, G_NAME, "g");
  wb_msg(&g, G_INIT, onnx_tensor_raw("gate", TN_DT_F32, "96,40", gate, sizeof gate));
  wb_msg(&g, G_INIT, onnx_tensor_raw("up", TN_DT_F32, "96,40", up, sizeof up));
  wb_msg(&g, G_INIT, onnx_tensor_raw("row", TN_DT_F32, "40", row, sizeof row));
  wb_msg(&g, G_INPUT, onnx_value("x", TN_DT_F32, "n,96"));
  wb_msg(&g, G_INPUT, onnx_value("r", TN_DT_F32, "n,40"));
  char names[64], *save = NULL;
  snprintf(names, sizeof names, "%s", s->out);
  for (char *p = strtok_r(names, ",", &save); p; p = strtok_r(NULL, ",", &save))
    wb_msg(&g, G_OUTPUT, onnx_value(p, TN_DT_F32, NULL));
  wbuf m = onnx_model(g, 17);
  wb_msg(&m, M_OPSET, onnx_opset("tenon", 1));
  return m;
}

static const spec silu = {.in = "x,gate,up",
                          .out = "y",
                          .n_weights = 2,
                          .parts = {0, 0, N, 1, 0, N},
                          .n_parts = 2,
                          .ops = {TN_OP_SWISH, 0, -1, TN_OP_MUL, 2, 1},
                          .values = {1},
                          .n_ops = 2,
                          .results = {3},
                          .n_results = 1};

static double sigmoid(double z) { return 1 / (1 + exp(-z)); }

static double product(int m, int n, const float *w) {
  double sum = 0;
  for (int k = 0; k < K; k++) sum += (double)x_data[m * K + k] * (double)w[k * N + n];
  return sum;
}

/* worst_ratio of a capture over `rows` rows, elements into *elements; outputs into out. */
static double captured(rig *r, int64_t rows, tn_tensor *out, uint32_t n_out, double *elements) {
  tn_tensor x = f32_tensor("x", x_data, 2, rows, K, 0), w = f32_tensor("r", whole, 2, rows, N, 0);
  tn_status st = rig_run(r, 0, &x, &w, NULL, out, n_out);
  if (st != TN_OK) printf("\n    %s: %s\n", r->err.where, r->err.message);
  CU_ASSERT_EQUAL_FATAL(st, TN_OK);
  char *json = NULL;
  CU_ASSERT_EQUAL_FATAL(tn_session_capture_report(r->s, &json, &r->err), TN_OK);
  double worst = json_number(json, "worst_ratio");
  *elements = json_number(json, "elements");
  tn_free(json);
  return worst;
}

static void load(rig *r, const char *profile, const spec *s, uint32_t flags) {
  CU_ASSERT_EQUAL_FATAL(rig_init(r, profile), TN_OK);
  tn_status st = rig_load(r, model_of(s), flags);
  if (st != TN_OK) printf("\n    %s: %s\n", r->err.where, r->err.message);
  CU_ASSERT_EQUAL_FATAL(st, TN_OK);
}

/* A device in f32: right, and wrong in the chain. */
static void test_f32_device(void) {
  static const char *const faults[] = {"none", "sigmoid", "swap", "last-column"};
  for (int i = 0; i < 4; i++) {
    rig r;
    char profile[160];
    tn_tensor out[1];
    double elements;
    snprintf(profile, sizeof profile, "plugins:\n  - name: sched-matmul\n    options: {fault: %s}\n  - name: host\n",
             faults[i]);
    load(&r, profile, &silu, TN_MODEL_CAPTURE);
    double worst = captured(&r, ROWS, out, 1, &elements);
    CU_ASSERT_EQUAL(elements, ROWS * N);
    CU_ASSERT(i == 0 ? worst > 0 && worst <= 1 : worst > 1000);
    rig_finish(&r);
  }
}

static tn_tensor *read_part(const char *folder, const char *name) {
  char path[256];
  tn_tensor *t = NULL;
  tn_error err;
  tn_error_init(&err);
  snprintf(path, sizeof path, "%s/%s", folder, name);
  CU_ASSERT_EQUAL_FATAL(tn_tensor_load(path, &t, &err), TN_OK);
  return t;
}

/* The largest difference, relative to the largest element. */
static double far_from(const tn_tensor *a, const tn_tensor *b) {
  CU_ASSERT_EQUAL_FATAL(a->bytes, b->bytes);
  double most = 0, top = 0;
  for (size_t i = 0; i < a->bytes / sizeof(float); i++) {
    const double d = fabs((double)((const float *)a->data)[i] - ((const float *)b->data)[i]);
    if (!(d <= most)) most = d;
    if (fabs(((const float *)b->data)[i]) > top) top = fabs(((const float *)b->data)[i]);
  }
  return most > 0 ? most / top : most;
}

/* The case is a model that reads the same inputs: the host gives what the reference gave, the wrong device is wrong
 * again, one that is right is right. */
static void replay(const char *folder, const char *fault, double *ratio, double *off) {
  rig r;
  char profile[160];
  snprintf(profile, sizeof profile, "plugins:\n  - name: sched-matmul\n    options: {fault: %s}\n  - name: host\n",
           fault);
  CU_ASSERT_EQUAL_FATAL(rig_init(&r, fault ? profile : "plugins: [host]\n"), TN_OK);
  CU_ASSERT_EQUAL_FATAL(rig_open(&r, folder, TN_MODEL_CAPTURE), TN_OK);
  CU_ASSERT_EQUAL_FATAL(tn_session_create(r.m, &r.s, &r.err), TN_OK);
  tn_tensor *in[2] = {NULL, NULL};
  for (uint32_t i = 0; i < tn_model_n_inputs(r.m) && i < 2; i++)
    in[i] = read_part(folder, i ? "test_data_set_0/input_1.pb" : "test_data_set_0/input_0.pb");
  tn_tensor *want = read_part(folder, "test_data_set_0/output_0.pb"), out[1] = {{.name = NULL}};
  for (uint32_t o = 0; o < 1; o++) out[o].h = (tn_hdr){sizeof(tn_tensor), 1, 0};
  CU_ASSERT_EQUAL_FATAL(tn_session_run(r.s, 0, (const tn_tensor *const *)in, tn_model_n_inputs(r.m), out, 1, &r.err),
                        TN_OK);
  *off = far_from(&out[0], want);
  char *json = NULL;
  CU_ASSERT_EQUAL_FATAL(tn_session_capture_report(r.s, &json, &r.err), TN_OK);
  *ratio = json_number(json, "worst_ratio");
  tn_free(json);
  for (int i = 0; i < 2; i++) tn_free(in[i]);
  tn_free(want);
  rig_finish(&r);
}

static void test_case(void) {
  rig r;
  tn_tensor out[1];
  char folder[96];
  double elements, ratio, off;
  load(&r, "plugins:\n  - name: sched-matmul\n    options: {fault: swap}\n  - name: host\n", &silu, TN_MODEL_CAPTURE);
  snprintf(folder, sizeof folder, "%s/case", r.dir);
  CU_ASSERT_EQUAL_FATAL(tn_session_capture_case(r.s, folder, &r.err), TN_OK);
  CU_ASSERT(captured(&r, ROWS, out, 1, &elements) > 1000);
  tn_tensor *device = read_part(folder, "device/output_0.pb"), *want = read_part(folder, "test_data_set_0/output_0.pb");
  CU_ASSERT_EQUAL(far_from(device, &out[0]), 0);
  CU_ASSERT(far_from(device, want) > 1e-3);
  tn_free(device);
  tn_free(want);
  replay(folder, NULL, &ratio, &off);
  CU_ASSERT(off < 1e-5);
  replay(folder, "none", &ratio, &off);
  CU_ASSERT(ratio <= 1 && off < 1e-5);
  replay(folder, "swap", &ratio, &off);
  CU_ASSERT(ratio > 1000 && off > 1e-3);
  rig_finish(&r);
  load(&r, "plugins: [host]\n", &silu, 0);
  CU_ASSERT_EQUAL(tn_session_capture_case(r.s, "x", &r.err), TN_E_INVALID);
  rig_finish(&r);
}

/* In place of a wrong device, the reference computes. */
static void test_reference(void) {
  rig r;
  tn_tensor out[1];
  load(&r, "plugins:\n  - name: sched-matmul\n    options: {fault: swap}\n  - name: host\n", &silu, TN_MODEL_REFERENCE);
  tn_tensor x = f32_tensor("x", x_data, 2, ROWS, K, 0), w = f32_tensor("r", whole, 2, ROWS, N, 0);
  CU_ASSERT_EQUAL_FATAL(rig_run(&r, 0, &x, &w, NULL, out, 1), TN_OK);
  uint32_t wrong = 0;
  for (int i = 0; i < ROWS * N; i++) {
    double g = product(i / N, i % N, gate), want = g * sigmoid(g) * product(i / N, i % N, up);
    wrong += !(fabs((double)((const float *)out[0].data)[i] - want) <= 1e-5 * (1 + fabs(want)));
  }
  CU_ASSERT_EQUAL(wrong, 0);
  rig_finish(&r);
}

/* Packed weights: every operator of chains, several results, operands of all shapes; one row and more. */
static void test_packed_device(void) {
  static const spec all = {.in = "x,gate,up,row,r",
                           .out = "a,b,c,d,e,f",
                           .n_weights = 2,
                           .parts = {0, 0, N, 1, 0, N, 1, 3, 17},
                           .n_parts = 3,
                           .ops = {TN_OP_ADD, 0, 3, TN_OP_SIGMOID, 5, -1, TN_OP_TANH, 1,  -1, TN_OP_MUL,   6,  7,
                                   TN_OP_SUB, 8, 4, TN_OP_GELU,    9, -1, TN_OP_GELU, 9,  -1, TN_OP_SWISH, 10, -1,
                                   TN_OP_DIV, 9, 6, TN_OP_NEG,     2, -1, TN_OP_RELU, 14, -1},
                           .values = {0, 0, 0, 0, 0, 0, 1, -1.5f},
                           .n_ops = 11,
                           .results = {12, 13, 15, 1, 11, 9},
                           .n_results = 6};
  if (!getenv("TENON_TEST_AVX2") || !*getenv("TENON_TEST_AVX2")) return;
  for (int i = 0; i < 2; i++) {
    rig r;
    tn_tensor out[6];
    double elements;
    load(&r,
         i ? "plugins:\n  - name: cpu-avx2-lut\n    options: {group: 128}\n  - name: host\n"
           : "plugins:\n  - name: cpu-avx2-lut\n  - name: host\n",
         &all, TN_MODEL_CAPTURE);
    double worst = captured(&r, 1, out, 6, &elements);
    CU_ASSERT(worst <= 1 && elements == 5 * N + 17);
    worst = captured(&r, ROWS, out, 6, &elements);
    CU_ASSERT(worst > 0 && worst <= 1);
    CU_ASSERT_EQUAL(elements, (ROWS + 1) * (5 * N + 17));
    const float *c = out[2].data, *d = out[3].data;
    for (int m = 0; m < ROWS * 17; m++) {
      float part = d[m / 17 * N + 3 + m % 17];
      CU_ASSERT(c[m] == (part < 0 ? -part : 0));
    }
    rig_finish(&r);
  }
}

void suite_fused(void) {
  CU_pSuite s = CU_add_suite("fused", NULL, NULL);
  CU_add_test(s, "f32 device", test_f32_device);
  CU_add_test(s, "a case that is wrong, again", test_case);
  CU_add_test(s, "reference", test_reference);
  CU_add_test(s, "packed device", test_packed_device);
}
