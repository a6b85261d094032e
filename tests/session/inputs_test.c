/* SPDX-License-Identifier: Apache-2.0 */
#include "session_test.h"

static const float ramp[64] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12};

/* x[n,4] + y[n,4] */
static wbuf adder(void) { return text_model("Add:sum:x,y:z", "x=n,4;y=n,4", "z=n,4", NULL, NULL, 0); }

static void test_bad_inputs(void) {
  rig r;
  tn_tensor out[1];
  CU_ASSERT_EQUAL_FATAL(rig_init(&r, "plugins: [host]\n"), TN_OK);
  CU_ASSERT_EQUAL_FATAL(rig_load(&r, adder(), 0), TN_OK);
  const tn_tensor x = f32_tensor("x", ramp, 2, 2, 4, 0), y = f32_tensor("y", ramp, 2, 2, 4, 0);
  tn_tensor unknown = f32_tensor("q", ramp, 2, 2, 4, 0), dtype = y, rank = f32_tensor("y", ramp, 1, 8, 0, 0);
  tn_tensor fixed = f32_tensor("y", ramp, 2, 2, 5, 0), other_n = f32_tensor("y", ramp, 2, 3, 4, 0), cut = y, null = y;
  tn_tensor negative = y, huge = y, nameless = y;
  dtype.dtype = TN_DT_F64;
  dtype.bytes *= 2;
  cut.bytes = 31;
  null.data = NULL;
  negative.dims[0] = -2;
  huge.dims[0] = INT64_MAX / 2;
  nameless.name = NULL;
  const struct {
    const char *label;
    const tn_tensor *a, *b, *c;
    const char *part;
  } rows[] = {
      {"missing", &x, NULL, NULL, "input 'y' is missing"},
      {"none", NULL, NULL, NULL, "input 'x' is missing"},
      {"unknown", &x, &y, &unknown, "the model has no input 'q'"},
      {"twice", &x, &y, &x, "input 'x' is given twice"},
      {"dtype", &x, &dtype, NULL, "input 'y' is float64; the model takes float32"},
      {"rank", &x, &rank, NULL, "input 'y' has rank 1; the model takes rank 2"},
      {"fixed dim", &x, &fixed, NULL, "input 'y' has shape [2,5]; axis 1 must be 4"},
      {"symbol", &x, &other_n, NULL, "input 'y' has shape [3,4]; axis 0 must be n"},
      {"bytes", &x, &cut, NULL, "input 'y' has 31 bytes; its shape takes 32"},
      {"NULL data", &x, &null, NULL, "input 'y' has 32 bytes; its shape takes 32"},
      {"negative", &x, &negative, NULL, "input 'y' has absurd dims"},
      {"huge", &x, &huge, NULL, "input 'y' has absurd dims"},
      {"nameless", &x, &nameless, NULL, "input 1 has no name"},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    tn_status st = rig_run(&r, 0, rows[i].a, rows[i].b, rows[i].c, out, 1);
    CU_ASSERT_EQUAL(st, TN_E_INVALID);
    CU_ASSERT_EQUAL(r.err.code, TN_E_INVALID);
    if (!strstr(r.err.message, rows[i].part)) printf("\n    %s: \"%s\"\n", rows[i].label, r.err.message);
    CU_ASSERT_PTR_NOT_NULL(strstr(r.err.message, rows[i].part));
    CU_ASSERT_PTR_NULL(out[0].data); /* untouched */
    /* The session works on. */
    CU_ASSERT_EQUAL(rig_run(&r, 0, &x, &y, NULL, out, 1), TN_OK);
    CU_ASSERT(out[0].data && ((const float *)out[0].data)[3] == 8);
  }
  /* Outputs by name. */
  const tn_tensor *in[] = {&y, &x};
  tn_tensor named = {.name = "nope"};
  named.h = (tn_hdr){sizeof(tn_tensor), 1, 0};
  CU_ASSERT_EQUAL(tn_session_run(r.s, 0, in, 2, &named, 1, &r.err), TN_E_INVALID);
  CU_ASSERT_PTR_NOT_NULL(strstr(r.err.message, "no output 'nope'"));
  named.h = (tn_hdr){sizeof(tn_tensor), 1, 0};
  CU_ASSERT_EQUAL(tn_session_run(r.s, 0, in, 2, &named, 1, NULL), TN_E_INVALID);
  named = (tn_tensor){.name = "z"};
  named.h = (tn_hdr){sizeof(tn_tensor), 1, 0};
  CU_ASSERT_EQUAL(tn_session_run(r.s, 0, in, 2, &named, 1, NULL), TN_OK);
  CU_ASSERT(named.rank == 2 && named.dims[0] == 2 && named.dims[1] == 4 && named.bytes == 32);
  rig_finish(&r);
}

/* past and present as exporters name them: the third input's axis is past + sequence. */
static void test_symbols(void) {
  rig r;
  tn_tensor out[2];
  CU_ASSERT_EQUAL_FATAL(rig_init(&r, "plugins: [host]\n"), TN_OK);
  wbuf g = {0}, concat = onnx_node("Concat", "join", "past,x", "present");
  wb_msg(&concat, 5, onnx_attr_int("axis", 0));
  wb_msg(&g, G_NODE, concat);
  wb_msg(&g, G_NODE, onnx_node("Add", "mask", "present,m", "y"));
  wb_str(&g, G_NAME, "g");
  wb_msg(&g, G_INPUT, onnx_value("x", TN_DT_F32, "sequence,2"));
  wb_msg(&g, G_INPUT, onnx_value("past", TN_DT_F32, "past,2"));
  wb_msg(&g, G_INPUT, onnx_value("m", TN_DT_F32, "past + sequence,2"));
  wb_msg(&g, G_OUTPUT, onnx_value("y", TN_DT_F32, NULL));
  wb_msg(&g, G_OUTPUT, onnx_value("present", TN_DT_F32, NULL));
  CU_ASSERT_EQUAL_FATAL(rig_load(&r, onnx_model(g, 17), 0), TN_OK);
  static const int64_t cases[][2] = {{3, 0}, {1, 3}, {1, 4}, {2, 5}, {0, 0}, {3, 0}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    int64_t s = cases[i][0], p = cases[i][1];
    tn_tensor x = f32_tensor("x", ramp, 2, s, 2, 0), past = f32_tensor("past", ramp, 2, p, 2, 0);
    tn_tensor m = f32_tensor("m", ramp, 2, s + p, 2, 0);
    if (!p) past.data = NULL;
    CU_ASSERT_EQUAL(rig_run(&r, 0, &x, &past, &m, out, 2), TN_OK);
    CU_ASSERT(out[0].rank == 2 && out[0].dims[0] == s + p && out[1].dims[0] == s + p);
    const float *y = out[0].data, *present = out[1].data;
    for (int64_t k = 0; k < 2 * (s + p); k++) {
      float want = k < 2 * p ? ramp[k] : ramp[k - 2 * p];
      CU_ASSERT(present[k] == want && y[k] == want + ramp[k]);
    }
    m = f32_tensor("m", ramp, 2, s + p + 1, 2, 0);
    CU_ASSERT_EQUAL(rig_run(&r, 0, &x, &past, &m, out, 2), TN_E_INVALID);
    CU_ASSERT_PTR_NOT_NULL(strstr(r.err.message, "input 'm'"));
    CU_ASSERT_PTR_NOT_NULL(strstr(r.err.message, "with the other inputs' dims"));
  }
  rig_finish(&r);
}

/* Axes that name symbols which no input has alone: those that one size solves, and those that are a name to the whole
 * text, so that any size will do. */
static void test_sums_of_symbols(void) {
  static const struct {
    const char *dims;
    int64_t x[2];
    tn_status st;
  } cases[] = {{"a + b,b", {5, 3}, TN_OK},
               {"a + b,b", {2, 4}, TN_E_INVALID},
               {"a + b,2*b", {5, 5}, TN_OK},
               {"enc / 2,a - b", {5, 3}, TN_OK},
               {"a + b,a + b", {4, 4}, TN_OK},
               {"a + b,a + b", {4, 5}, TN_E_INVALID},
               {"a + b,a + b + 1", {4, 6}, TN_OK}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    rig r;
    tn_tensor out[1];
    CU_ASSERT_EQUAL_FATAL(rig_init(&r, "plugins: [host]\n"), TN_OK);
    wbuf g = {0};
    wb_msg(&g, G_NODE, onnx_node("Neg", "n", "x", "y"));
    wb_str(&g, G_NAME, "g");
    wb_msg(&g, G_INPUT, onnx_value("x", TN_DT_F32, cases[i].dims));
    wb_msg(&g, G_OUTPUT, onnx_value("y", TN_DT_F32, NULL));
    CU_ASSERT_EQUAL_FATAL(rig_load(&r, onnx_model(g, 17), 0), TN_OK);
    tn_tensor x = f32_tensor("x", ramp, 2, cases[i].x[0], cases[i].x[1], 0);
    CU_ASSERT_EQUAL(rig_run(&r, 0, &x, NULL, NULL, out, 1), cases[i].st);
    if (cases[i].st) CU_ASSERT_PTR_NOT_NULL(strstr(r.err.message, "input 'x' has shape"));
    CU_ASSERT_PTR_NULL(strstr(r.err.message, "` (with"));
    rig_finish(&r);
  }
}

/* Outputs that no task computes: an input, a constant, a shape. */
static void test_odd_outputs(void) {
  static const float w[] = {5, 6};
  rig r;
  tn_tensor out[4];
  CU_ASSERT_EQUAL_FATAL(rig_init(&r, "plugins: [host]\n"), TN_OK);
  wbuf model = text_model("Identity:id:x:same;Identity:c:w:const;Shape:shape:x:ishape;Neg:n:x:y", "x=n,4",
                          "same;const;ishape;y", "2", w, 2);
  CU_ASSERT_EQUAL_FATAL(rig_load(&r, model, 0), TN_OK);
  for (int64_t n = 3; n >= 0; n--) {
    tn_tensor x = f32_tensor("x", ramp, 2, n, 4, 0);
    CU_ASSERT_EQUAL_FATAL(rig_run(&r, 0, &x, NULL, NULL, out, 4), TN_OK);
    CU_ASSERT_STRING_EQUAL(out[0].name, "same");
    CU_ASSERT(out[0].dims[0] == n && out[0].bytes == (uint64_t)n * 16);
    if (n) CU_ASSERT_EQUAL(memcmp(out[0].data, ramp, (size_t)n * 16), 0);
    CU_ASSERT(out[1].rank == 1 && out[1].dims[0] == 2 && memcmp(out[1].data, w, sizeof w) == 0);
    const int64_t *shape = out[2].data;
    CU_ASSERT_FATAL(out[2].dtype == TN_DT_I64 && out[2].rank == 1 && out[2].dims[0] == 2 && shape);
    CU_ASSERT(shape[0] == n && shape[1] == 4);
    CU_ASSERT(out[3].dims[0] == n && (n == 0 || ((const float *)out[3].data)[0] == -1));
  }
  rig_finish(&r);
}

void suite_inputs(void) {
  CU_pSuite s = CU_add_suite("inputs and outputs", NULL, NULL);
  CU_add_test(s, "each wrong input is named", test_bad_inputs);
  CU_add_test(s, "sums of symbols", test_sums_of_symbols);
  CU_add_test(s, "symbols are solved; zero and changing dims", test_symbols);
  CU_add_test(s, "outputs that no task computes", test_odd_outputs);
}
