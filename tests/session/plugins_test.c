/* SPDX-License-Identifier: Apache-2.0
 *
 * Devices that compute, that misbehave, and that have an engine with memory of its own.
 */
#include <math.h>

#include "runtime/memory/run.h"
#include "session_test.h"

enum { K = 8 };

static float w[K * K], x_data[3 * K];

static wbuf product(const char *nodes, const char *outputs) {
  for (int i = 0; i < K * K; i++) w[i] = (float)(i % 11) - 4;
  for (int i = 0; i < 3 * K; i++) x_data[i] = (float)(i % 7) - 2.5f;
  return text_model(nodes, "x=n,8", outputs, "8,8", w, K * K);
}

static void reference(float *y, int rows) {
  for (int m = 0; m < rows; m++)
    for (int n = 0; n < K; n++) {
      y[m * K + n] = 0;
      for (int k = 0; k < K; k++) y[m * K + n] += x_data[m * K + k] * w[k * K + n];
    }
}

static const char *with_fault(const char *fault) {
  static char text[200];
  snprintf(text, sizeof text, "plugins:\n  - name: sched-matmul\n    options: {fault: %s}\n  - name: host\n", fault);
  return text;
}

static void test_good(void) {
  rig r;
  float want[3 * K];
  tn_tensor out[1];
  CU_ASSERT_EQUAL_FATAL(rig_init(&r, with_fault("none")), TN_OK);
  CU_ASSERT_EQUAL_FATAL(rig_load(&r, product("MatMul:p:x,w:y", "y=n,8"), TN_MODEL_CAPTURE), TN_OK);
  tn_tensor x = f32_tensor("x", x_data, 2, 3, K, 0);
  reference(want, 3);
  CU_ASSERT_EQUAL_FATAL(rig_run(&r, 0, &x, NULL, NULL, out, 1), TN_OK);
  CU_ASSERT_EQUAL(memcmp(out[0].data, want, sizeof want), 0);
  char *json = NULL;
  CU_ASSERT_EQUAL_FATAL(tn_session_capture_report(r.s, &json, &r.err), TN_OK);
  CU_ASSERT(json_number(json, "worst_ratio") <= 1 && json_number(json, "elements") == 24);
  tn_free(json);
  rig_finish(&r);
}

/* A device that is wrong in one column only: capture says so, and by how much. */
static void test_wrong_device(void) {
  rig r;
  tn_tensor out[1];
  CU_ASSERT_EQUAL_FATAL(rig_init(&r, with_fault("last-column")), TN_OK);
  CU_ASSERT_EQUAL_FATAL(rig_load(&r, product("MatMul:p:x,w:y", "y=n,8"), TN_MODEL_CAPTURE), TN_OK);
  tn_tensor x = f32_tensor("x", x_data, 2, 3, K, 0);
  CU_ASSERT_EQUAL_FATAL(rig_run(&r, 0, &x, NULL, NULL, out, 1), TN_OK);
  char *json = NULL;
  CU_ASSERT_EQUAL_FATAL(tn_session_capture_report(r.s, &json, &r.err), TN_OK);
  CU_ASSERT(json_number(json, "worst_ratio") > 1000);
  CU_ASSERT_PTR_NOT_NULL(strstr(json, "sched-matmul"));
  tn_free(json);
  rig_finish(&r);
  /* REFERENCE computes on the host instead: right again. */
  float want[3 * K];
  reference(want, 3);
  CU_ASSERT_EQUAL_FATAL(rig_init(&r, with_fault("last-column")), TN_OK);
  CU_ASSERT_EQUAL_FATAL(rig_load(&r, product("MatMul:p:x,w:y", "y=n,8"), TN_MODEL_REFERENCE), TN_OK);
  CU_ASSERT_EQUAL_FATAL(rig_run(&r, 0, &x, NULL, NULL, out, 1), TN_OK);
  for (int i = 0; i < 3 * K; i++) CU_ASSERT(fabsf(((const float *)out[0].data)[i] - want[i]) < 1e-4f);
  CU_ASSERT_EQUAL(tn_session_capture_report(r.s, &json, &r.err), TN_E_INVALID);
  rig_finish(&r);
}

static void test_misbehaviour(void) {
  static const struct {
    const char *fault;
    tn_status st;
    const char *part;
  } rows[] = {{"fpmode", TN_E_INTERNAL, "plugin 'sched-matmul' changed the floating-point mode in 'p'"},
              {"overrun", TN_E_INTERNAL, "plugin 'sched-matmul' wrote past the end of 'y' in 'p'"},
              {"status", TN_E_INTERNAL, "4711"}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    rig r;
    tn_tensor out[1];
    CU_ASSERT_EQUAL_FATAL(rig_init(&r, with_fault(rows[i].fault)), TN_OK);
    CU_ASSERT_EQUAL_FATAL(rig_load(&r, product("MatMul:p:x,w:y", "y=n,8"), 0), TN_OK);
    tn_tensor x = f32_tensor("x", x_data, 2, 1, K, 0);
    for (int k = 0; k < 2; k++) {
      CU_ASSERT_EQUAL(rig_run(&r, 0, &x, NULL, NULL, out, 1), rows[i].st);
      if (!strstr(r.err.message, rows[i].part)) printf("\n    %s: \"%s\"\n", rows[i].fault, r.err.message);
      CU_ASSERT_PTR_NOT_NULL(strstr(r.err.message, rows[i].part));
    }
    volatile float tiny = 1e-40f; /* the mode is as before: denormals live */
    CU_ASSERT(tiny * 0.5f > 0);
    rig_finish(&r);
  }
}

/* An infinity that reaches no output is met when its task has its turn. The model's own accuses nobody. */
static void test_strange(void) {
  static const struct {
    const char *fault, *watch;
    float times;
    uint32_t losses;
  } rows[] = {{"inf", "watch: 3\n", 1, 1}, {"inf", "watch: 0\n", 1, 0}, {"none", "watch: 1\n", 1, 0},
              {"none", "watch: 1\n", 1e38f, 0}, {"inf", "watch: 1\n", NAN, 0}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    rig r;
    char profile[300];
    float data[K];
    tn_tensor out[1];
    snprintf(profile, sizeof profile, "%s%s", with_fault(rows[i].fault), rows[i].watch);
    CU_ASSERT_EQUAL_FATAL(rig_init(&r, profile), TN_OK);
    CU_ASSERT_EQUAL_FATAL(rig_load(&r, product("MatMul:p:x,w:m;Relu:r:m:y", "y=n,8"), 0), TN_OK);
    for (int k = 0; k < K; k++) data[k] = x_data[k] * rows[i].times;
    tn_tensor x = f32_tensor("x", data, 2, 1, K, 0);
    for (uint32_t k = 1; k <= 8; k++) {
      const char *last = NULL;
      CU_ASSERT_EQUAL_FATAL(rig_run(&r, 0, &x, NULL, NULL, out, 1), TN_OK);
      CU_ASSERT_EQUAL(tn_runtime_losses(r.rt, &last), rows[i].losses && k >= 3);
      if (rows[i].losses && k >= 3)
        CU_ASSERT_PTR_NOT_NULL(strstr(last, "'sched-matmul' is lost ('p' gave inf on device"));
    }
    CU_ASSERT_EQUAL(r.s->looks.pause > 0, !isfinite(rows[i].times * 1e10f)); /* asked, and nobody accused */
    CU_ASSERT_EQUAL(strstr(r.log, "not the same from run to run"), NULL);
    rig_finish(&r);
  }
}

/* Add on an engine between nodes of the host, in every way of completing. */
static void test_engine(void) {
  static const char *const modes[] = {"blocking", "thread", "inline", "map"};
  for (size_t i = 0; i < 4; i++) {
    char profile[200];
    rig r;
    tn_tensor out[3];
    snprintf(profile, sizeof profile,
             "plugins:\n  - name: fake-engine\n    options: {completion: %s}\n  - name: host\n", modes[i]);
    CU_ASSERT_EQUAL_FATAL(rig_init(&r, profile), TN_OK);
    wbuf unused = product("Neg:n:x:y", "y"); /* fills x */
    wb_free(&unused);
    wbuf g = {0};
    static float row[K] = {1, -2, 3, -4, 5, -6, 7, -8};
    wb_msg(&g, G_NODE, onnx_node("Neg", "neg", "x", "a"));
    wb_msg(&g, G_NODE, onnx_node("Add", "one", "a,x", "zero"));
    wb_msg(&g, G_NODE, onnx_node("Add", "two", "zero,row", "b"));
    wb_msg(&g, G_NODE, onnx_node("Relu", "relu", "b", "c"));
    wb_msg(&g, G_NODE, onnx_node("Add", "three", "c,x", "y"));
    wb_str(&g, G_NAME, "g");
    wb_msg(&g, G_INIT, onnx_tensor_raw("row", TN_DT_F32, "8", row, sizeof row));
    wb_msg(&g, G_INPUT, onnx_value("x", TN_DT_F32, "n,8"));
    wb_msg(&g, G_OUTPUT, onnx_value("y", TN_DT_F32, NULL));
    wb_msg(&g, G_OUTPUT, onnx_value("b", TN_DT_F32, NULL));
    wb_msg(&g, G_OUTPUT, onnx_value("zero", TN_DT_F32, NULL));
    tn_status st = rig_load(&r, onnx_model(g, 17), i == 3 ? TN_MODEL_CAPTURE : 0);
    if (st != TN_OK) printf("\n    %s: %s\n", modes[i], r.err.message);
    CU_ASSERT_EQUAL_FATAL(st, TN_OK);
    static const int64_t rows[] = {2, 2, 3, 1, 0, 3};
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
      tn_tensor x = f32_tensor("x", x_data, 2, rows[k], K, 0);
      st = rig_run(&r, 0, &x, NULL, NULL, out, 3);
      if (st != TN_OK) printf("\n    %s: %s\n", modes[i], r.err.message);
      CU_ASSERT_EQUAL_FATAL(st, TN_OK);
      const float *y = out[0].data, *b = out[1].data, *zero = out[2].data;
      size_t wrong = 0;
      for (int64_t e = 0; e < rows[k] * K; e++) {
        float up = row[e % K] > 0 ? row[e % K] : 0;
        wrong += zero[e] != 0 || b[e] != row[e % K] || y[e] != up + x_data[e];
      }
      CU_ASSERT_EQUAL(wrong, 0);
    }
    rig_finish(&r);
  }
}

/* A session that captures does not go on with another device. */
static void test_device_lost(void) {
  rig r, other;
  tn_tensor out[1];
  CU_ASSERT_EQUAL_FATAL(rig_init(&r, "plugins:\n  - name: fake-engine\n    options: {fail_after: 3}\n  - name: host\n"),
                        TN_OK);
  CU_ASSERT_EQUAL_FATAL(rig_load(&r, product("MatMul:p:x,w:a;Add:sum:a,x:y", "y=n,8"), TN_MODEL_CAPTURE), TN_OK);
  tn_tensor x = f32_tensor("x", x_data, 2, 1, K, 0);
  for (int i = 0; i < 3; i++) CU_ASSERT_EQUAL(rig_run(&r, 0, &x, NULL, NULL, out, 1), TN_OK);
  for (int i = 0; i < 2; i++) {
    CU_ASSERT_EQUAL(rig_run(&r, 0, &x, NULL, NULL, out, 1), TN_E_DEVICE_LOST);
    CU_ASSERT_PTR_NOT_NULL(strstr(r.err.message, "fail after 3 items"));
    CU_ASSERT_PTR_NOT_NULL(strstr(r.err.message, "fake-engine"));
  }
  /* The process goes on: another runtime beside it, and the lost one closes. */
  CU_ASSERT_EQUAL_FATAL(rig_init(&other, "plugins: [fake-engine, host]\n"), TN_OK);
  CU_ASSERT_EQUAL_FATAL(rig_load(&other, product("MatMul:p:x,w:a;Add:sum:a,x:y", "y=n,8"), 0), TN_OK);
  CU_ASSERT_EQUAL(rig_run(&other, 0, &x, NULL, NULL, out, 1), TN_OK);
  rig_finish(&r);
  CU_ASSERT_EQUAL(rig_run(&other, 0, &x, NULL, NULL, out, 1), TN_OK);
  rig_finish(&other);
}

/* What a run may give instead of an initializer it may give after a loss, too. */
static void test_lost_overridable(void) {
  static const char *const names[] = {"row"};
  static float row[K] = {1, -2, 3, -4, 5, -6, 7, -8}, mine[K] = {8, 7, 6, 5, 4, 3, 2, 1};
  rig r;
  tn_model *m = NULL;
  tn_session *s = NULL;
  wbuf unused = product("Neg:n:x:y", "y"), g = {0}; /* fills x */
  wb_free(&unused);
  wb_msg(&g, G_NODE, onnx_node("Add", "one", "x,row", "y"));
  wb_str(&g, G_NAME, "g");
  wb_msg(&g, G_INIT, onnx_tensor_raw("row", TN_DT_F32, "8", row, sizeof row));
  wb_msg(&g, G_INPUT, onnx_value("x", TN_DT_F32, "n,8"));
  wb_msg(&g, G_INPUT, onnx_value("row", TN_DT_F32, "8"));
  wb_msg(&g, G_OUTPUT, onnx_value("y", TN_DT_F32, NULL));
  CU_ASSERT_EQUAL_FATAL(rig_init(&r, "plugins:\n  - {name: fake-engine, options: {fail_after: 2}}\n  - host\n"), TN_OK);
  CU_ASSERT_EQUAL_FATAL(rig_load(&r, onnx_model(g, 17), 0), TN_OK);
  const tn_model_opts o = {.h = {sizeof o, 1, 0}, .overridable = names, .n_overridable = 1};
  CU_ASSERT_EQUAL_FATAL(tn_model_load(r.rt, r.m->path, &o, &m, &r.err), TN_OK);
  CU_ASSERT_EQUAL_FATAL(tn_session_create(m, &s, &r.err), TN_OK);
  for (int k = 0; k < 4; k++) {
    const tn_tensor x = f32_tensor("x", x_data, 2, 1, K, 0), given = f32_tensor("row", mine, 1, K, 0, 0);
    const tn_tensor *in[] = {&x, &given};
    tn_tensor out = {.h = {sizeof out, 1, 0}};
    const tn_status st = tn_session_run(s, 0, in, k % 2 ? 2 : 1, &out, 1, &r.err);
    if (st != TN_OK) printf("\n    %s\n", r.err.message);
    CU_ASSERT_EQUAL_FATAL(st, TN_OK);
    for (int i = 0; i < K; i++) CU_ASSERT_EQUAL(((const float *)out.data)[i], x_data[i] + (k % 2 ? mine : row)[i]);
  }
  CU_ASSERT_EQUAL(tn_runtime_losses(r.rt, NULL), 1);
  tn_session_destroy(s);
  tn_model_destroy(m);
  rig_finish(&r);
}

static void count_tracks(void *user, const tn_trace_event *e) {
  ((int *)user)[strncmp(e->track, "sched-matmul", 12) == 0]++;
}

static void test_phases(void) {
  rig r;
  tn_tensor out[1];
  int n[2] = {0};
  CU_ASSERT_EQUAL_FATAL(
      rig_init(&r, "plugins: [sched-matmul, host]\nphases: {prefill: [host], decode: [sched-matmul]}\n"), TN_OK);
  CU_ASSERT_EQUAL_FATAL(rig_load(&r, product("MatMul:p:x,w:y", "y=n,8"), 0), TN_OK);
  tn_tensor x = f32_tensor("x", x_data, 2, 2, K, 0);
  tn_session_trace(r.s, count_tracks, n);
  CU_ASSERT_EQUAL(rig_run(&r, TN_PHASE_PREFILL, &x, NULL, NULL, out, 1), TN_OK);
  CU_ASSERT(n[0] == 1 && n[1] == 0);
  CU_ASSERT_EQUAL(rig_run(&r, TN_PHASE_DECODE, &x, NULL, NULL, out, 1), TN_OK);
  CU_ASSERT(n[0] == 1 && n[1] == 1);
  CU_ASSERT_EQUAL(rig_run(&r, TN_PHASE_PREFILL, &x, NULL, NULL, out, 1), TN_OK);
  CU_ASSERT(n[0] == 2 && n[1] == 1);
  rig_finish(&r);
}

static void test_require(void) {
  static const struct {
    const char *label, *nodes;
    tn_status st;
    const char *part;
  } rows[] = {
      {"taken", "MatMul:p:x,w:y", TN_OK, NULL},
      {"takes nothing", "Neg:p:x:y", TN_E_UNSUPPORTED, "requires 'sched-matmul', which takes no node"},
      {"a product falls back", "MatMul:p:x,w:a;Gemm:left:a,w:y", TN_E_UNSUPPORTED, "'left' falls back to the host"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    rig r;
    CU_ASSERT_EQUAL_FATAL(rig_init(&r, "plugins: [sched-matmul, host]\nrequire: [sched-matmul]\n"), TN_OK);
    CU_ASSERT_EQUAL(rig_load(&r, product(rows[i].nodes, "y=n,8"), 0), rows[i].st);
    if (rows[i].part && !strstr(r.err.message, rows[i].part))
      printf("\n    %s: \"%s\"\n", rows[i].label, r.err.message);
    if (rows[i].part) CU_ASSERT_PTR_NOT_NULL(strstr(r.err.message, rows[i].part));
    rig_finish(&r);
  }
  rig r;
  CU_ASSERT_NOT_EQUAL(rig_init(&r, "plugins: [no-such-plugin, host]\nrequire: [no-such-plugin]\n"), TN_OK);
  CU_ASSERT_PTR_NOT_NULL(strstr(r.err.message, "no-such-plugin"));
  rig_finish(&r);
}

void suite_plugins(void) {
  CU_pSuite s = CU_add_suite("devices", NULL, NULL);
  CU_add_test(s, "a plugin that is right", test_good);
  CU_add_test(s, "a plugin that is wrong is caught", test_wrong_device);
  CU_add_test(s, "floating-point mode, unknown status", test_misbehaviour);
  CU_add_test(s, "infinities of a plugin, and of a model", test_strange);
  CU_add_test(s, "an engine with memory of its own", test_engine);
  CU_add_test(s, "a device that is lost", test_device_lost);
  CU_add_test(s, "values instead of initializers, after a device is lost", test_lost_overridable);
  CU_add_test(s, "phases", test_phases);
  CU_add_test(s, "require", test_require);
}
