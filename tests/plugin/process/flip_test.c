/* SPDX-License-Identifier: Apache-2.0
 *
 * A plugin's process that changes what it shares while the host computes with it.
 */
#include "isolate_test.h"
#include "tests/kit/rig.h"

enum { N = 40000, TABLE = 8, RUNS = 300 };

static bool is_of_table(const tn_tensor *y) {
  bool known = y->bytes == (uint64_t)N * TABLE * sizeof(float);
  for (size_t k = 0; known && k < (size_t)N * TABLE; k++) known = ((const float *)y->data)[k] >= 1;
  return known;
}

/* A thread of the plugin's makes indices huge and small again while the host looks them up: what is checked is what is
 * used, so that a run gives rows of the table or says that an index is none. */
static void test_flipped(void) {
  const char *const dirs[] = {getenv("TENON_TEST_WALLS"), NULL};
  char path[128];
  float w[TABLE * TABLE], *x = calloc((size_t)TABLE * N, sizeof *x);
  tn_model *m = NULL;
  tn_session *s = NULL;
  int right = 0, refused = 0;
  lab l;
  CU_ASSERT_PTR_NOT_NULL_FATAL(x);
  for (int i = 0; i < TABLE * TABLE; i++) w[i] = (float)(i + 1);
  CU_ASSERT_EQUAL_FATAL(lab_open(&l, "isolation: process\nplugins: [flip, host]\nrequire: [flip]\n", dirs, NULL),
                        TN_OK);
  wbuf model = text_model("ArgMax:am:x:i;Gather:ga:w,i:y", "x=8,n", "y=1,n,8", "8,8", w, TABLE * TABLE);
  CU_ASSERT_FATAL(lab_model(&l, &model, path, sizeof path));
  const tn_tensor in = f32_tensor("x", x, 2, TABLE, N, 0);
  const tn_tensor *list[1] = {&in};
  const tn_status st = tn_model_load(l.rt, path, NULL, &m, &l.err);
  if (st != TN_OK) printf("\n    %s", l.err.message);
  CU_ASSERT_EQUAL_FATAL(st, TN_OK);
  CU_ASSERT_EQUAL_FATAL(tn_session_create(m, &s, &l.err), TN_OK);
  for (int i = 0; i < RUNS; i++) {
    tn_tensor out = {.h = {sizeof out, 1, 0}};
    tn_error_init(&l.err);
    const bool ran = tn_session_run(s, TN_PHASE_ANY, list, 1, &out, 1, &l.err) == TN_OK;
    right += ran && is_of_table(&out);
    refused += !ran && strstr(l.err.message, "ga") != NULL;
  }
  printf("%d times rows of the table, %d times refused ... ", right, refused);
  CU_ASSERT_EQUAL(right + refused, RUNS);
  CU_ASSERT(refused > 0);
  tn_session_destroy(s);
  tn_model_destroy(m);
  lab_close(&l);
  free(x);
}

void suite_flip(void) {
  CU_pSuite s = CU_add_suite("isolate: flip", NULL, NULL);
  CU_add_test(s, "indices that change under the host", test_flipped);
}
