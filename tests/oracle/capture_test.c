/* SPDX-License-Identifier: Apache-2.0
 *
 * Tasks beside the reference where numbers are not finite: each is listed, and what is finite is judged.
 */
#include <math.h>

#include "oracle_test.h"
#include "runtime/oracle/tasks/evaluation.h"
#include "tests/kit/rig.h"

enum { N = 8 };

/* What a capture says of `runs` runs of model (taken over) on a test's plugin; malloc'd. b may be NULL. */
static char *captured(const char *plugin, wbuf model, const tn_tensor *a, const tn_tensor *b, int runs) {
  rig r;
  char profile[160], *json = NULL;
  tn_tensor out[1];
  snprintf(profile, sizeof profile, "plugins:\n  - name: %s\n  - name: host\nwatch: 0\n", plugin);
  CU_ASSERT_EQUAL_FATAL(rig_init(&r, profile), TN_OK);
  CU_ASSERT_EQUAL_FATAL(rig_load(&r, model, TN_MODEL_CAPTURE), TN_OK);
  for (int i = 0; i < runs; i++) CU_ASSERT_EQUAL_FATAL(rig_run(&r, 0, a, b, NULL, out, 1), TN_OK);
  CU_ASSERT_EQUAL_FATAL(tn_session_capture_report(r.s, &json, &r.err), TN_OK);
  rig_finish(&r);
  return json;
}

/* y = a + b on the fake engine. */
static char *added(const char *options, const float *a, const float *b, int runs) {
  char plugin[96];
  const tn_tensor x = f32_tensor("a", a, 1, N, 0, 0), z = f32_tensor("b", b, 1, N, 0, 0);
  snprintf(plugin, sizeof plugin, "fake-engine\n    options: {%s}", options);
  return captured(plugin, text_model("Add:sum:a,b:y", "a=n;b=n", "y=n", NULL, NULL, 0), &x, &z, runs);
}

/* The list has the task, of which all elements were judged: right or wrong, as the whole report is. */
static void expect(char *json, int elements, bool right) {
  const char *tasks = strstr(json, "\"tasks\"");
  CU_ASSERT_PTR_NOT_NULL_FATAL(tasks);
  const double whole = json_number(json, "worst_ratio"), ratio = json_number(tasks, "worst_ratio");
  CU_ASSERT_EQUAL(json_number(tasks, "elements"), elements);
  CU_ASSERT_EQUAL(ratio, whole);
  CU_ASSERT(right ? ratio >= 0 && ratio <= 1 : ratio > 1000);
  tn_free(json);
}

static void test_listed(void) {
  float a[N] = {1, 2, 3, 4, 5, 6, 7, -INFINITY}, b[N] = {8, 7, 6, 5, 4, 3, 2, 1};
  expect(added("", a, b, 1), N, true); /* infinities are the same: no difference */
  a[N - 1] = b[N - 1] = 3e38f;
  expect(added("", a, b, 1), N, true);
  a[N - 1] = b[N - 1] = 1;
  expect(added("nan_after: 1", a, b, 2), 2 * N, false); /* its last element, in the second run */
}

static void test_name(void) {
  static const float w[N * N] = {1, 2, 3}, x_data[N] = {1, -1};
  const tn_tensor x = f32_tensor("x", x_data, 2, 1, N, 0);
  const wbuf m = text_model("MatMul:p\xe4:x,w:y", "x=n,8", "y=n,8", "8,8", w, N * N);
  expect(captured("sched-matmul", m, &x, NULL, 1), N, true);
}

/* A wrong number is one beside an infinity too. */
static void test_judged(void) {
  float a[N] = {1, 2, 3, 4, 5, 6, 7, -INFINITY}, b[N] = {8, 7, 6, 5, 4, 3, 2, 1};
  expect(added("first_off: true", a, b, 1), N, false);
  a[0] = -INFINITY; /* more than that is the same, and the rest is right */
  expect(added("first_off: true", a, b, 1), N, true);
}

/* Bounds of results, and of rows of a cache in halves and in bytes, with an infinity among them. */
static void test_bounds(void) {
  float y[2 * N] = {1, -2, 3, -INFINITY, NAN};
  for (int i = N; i < 2 * N; i++) y[i] = 100;
  tni_evaluation ev = {.arena = tni_arena_create()};
  CU_ASSERT_PTR_NOT_NULL_FATAL(ev.arena);
  const tni_tensor t = {.dtype = TN_DT_F32, .rank = 3, .dims = {1, 2, N}, .data = y, .bytes = sizeof y};
  tni_evaluated e = {.t = t};
  CU_ASSERT_EQUAL(tni_ref_largest(&t), 100);
  CU_ASSERT_EQUAL_FATAL(tni_ref_raise(&ev, "n", 0, &e), TN_OK);
  for (int i = 0; i < 2 * N; i++) CU_ASSERT_EQUAL(e.bound[i], 1e-3f);
  tni_sregion q = {.dtype = TN_DT_BF16, .rank = 4, .dims = {1, 1, 2, N}};
  CU_ASSERT_EQUAL_FATAL(tni_ref_state_bound(&ev, &q, &e), TN_OK);
  CU_ASSERT(e.bound[0] >= 0x1p-8f && e.bound[0] < 0x1p-7f);
  CU_ASSERT_EQUAL(e.bound[3], 1e-3f);
  q.dtype = TN_DT_I8;
  CU_ASSERT_EQUAL_FATAL(tni_ref_state_bound(&ev, &q, &e), TN_OK);
  CU_ASSERT(isinf(e.bound[0])); /* its row's scale is */
  CU_ASSERT(e.bound[N] >= 100.0f / 254 && e.bound[N] < 1);
  tni_arena_destroy(ev.arena);
}

void suite_capture(void) {
  CU_pSuite s = CU_add_suite("capture", NULL, NULL);
  CU_add_test(s, "every task is listed", test_listed);
  CU_add_test(s, "a name that is not UTF-8", test_name);
  CU_add_test(s, "numbers beside an infinity are judged", test_judged);
  CU_add_test(s, "bounds beside an infinity", test_bounds);
}
