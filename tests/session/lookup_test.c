/* SPDX-License-Identifier: Apache-2.0
 *
 * A step asks for no attribute by name: what a kernel needs of its node is found by number.
 */
#include <sys/stat.h>

#include "runtime/graph/ir.h"
#include "session_test.h"

enum { WARM = 2, STEPS = 100, INPUTS = 64 };

static bool model_file(char *path, size_t n, const char *var, const char *name) {
  struct stat st;
  snprintf(path, n, "%s/%s", getenv(var), name);
  if (stat(path, &st) == 0) return true;
  printf("skipped: %s is not there ... ", name);
  return false;
}

/* Ids and positions of one token; caches and masks are the session's. */
static void token_inputs(rig *r, int64_t *v, tn_tensor *t, const tn_tensor **in) {
  for (uint32_t i = 0; i < tn_model_n_inputs(r->m) && i < INPUTS; i++) {
    const char *name = tn_model_input(r->m, i)->name;
    in[i] = NULL;
    if (strcmp(name, "input_ids") != 0 && strcmp(name, "position_ids") != 0) continue;
    t[i] = i64_tensor(name, &v[name[0] == 'p'], 2, 1, 1);
    in[i] = &t[i];
  }
}

static bool decode(rig *r, int64_t n) {
  int64_t v[2];
  tn_tensor t[INPUTS], logits = {.h = {sizeof logits, 1, 0}}, *out[INPUTS] = {NULL};
  const tn_tensor *in[INPUTS];
  token_inputs(r, v, t, in);
  for (uint32_t i = 0; i < tn_model_n_outputs(r->m); i++)
    if (strcmp(tn_model_output(r->m, i)->name, "logits") == 0) out[i] = &logits;
  for (int64_t i = 0; i < n; i++) {
    v[1] = tn_session_length(r->s);
    v[0] = 3 + v[1] * 37 % 200;
    if (tn_session_step(r->s, TN_PHASE_DECODE, in, out, 1, &r->err) == TN_OK) continue;
    printf("\n    %s\n", r->err.message);
    return false;
  }
  return true;
}

static void check_decoder(const char *var, const char *name) {
  char path[1024];
  rig r;
  if (!model_file(path, sizeof path, var, name)) return;
  const tn_keep_opts o = {.h = {sizeof o, 1, 0}, .capacity = WARM + STEPS, .max_step = 8};
  tn_status st = rig_init(&r, "plugins: [host]\n");
  if (st == TN_OK) st = rig_open(&r, path, 0);
  if (st == TN_OK) st = tn_session_create(r.m, &r.s, &r.err);
  if (st == TN_OK) st = tn_session_keep(r.s, &o, &r.err);
  CU_ASSERT_EQUAL(st, TN_OK);
  if (st != TN_OK) printf("\n    %s: %s\n", name, r.err.message);
  CU_ASSERT(tni_attr_lookups() > 0);
  CU_ASSERT(st != TN_OK || decode(&r, WARM));
  const uint64_t before = tni_attr_lookups();
  CU_ASSERT(st != TN_OK || decode(&r, STEPS));
  CU_ASSERT_EQUAL(tni_attr_lookups() - before, 0);
  rig_finish(&r);
}

static bool run(rig *r, const tn_tensor *in, int n) {
  for (int i = 0; i < n; i++) {
    tn_tensor out = {.h = {sizeof out, 1, 0}, .name = tn_model_output(r->m, 0)->name};
    if (tn_session_run(r->s, TN_PHASE_ANY, &in, 1, &out, 1, &r->err) == TN_OK) continue;
    printf("\n    %s\n", r->err.message);
    return false;
  }
  return true;
}

/* Dims that a model leaves open: of images [batch, channels, rows, columns]. */
static const int64_t open_dims[] = {1, 3, 32, 32};

/* One input of f32, zeros. */
static void check_image(const char *name) {
  char path[1024];
  rig r;
  if (!model_file(path, sizeof path, "TENON_TEST_DATA", name)) return;
  tn_status st = rig_init(&r, "plugins: [host]\n");
  if (st == TN_OK) st = rig_open(&r, path, 0);
  if (st == TN_OK) st = tn_session_create(r.m, &r.s, &r.err);
  if (st != TN_OK) printf("\n    %s: %s\n", name, r.err.message);
  CU_ASSERT_EQUAL_FATAL(st, TN_OK);
  const tn_io_info *x = tn_model_input(r.m, 0);
  tn_tensor in = {.h = {sizeof in, 1, 0}, .name = x->name, .dtype = x->dtype, .rank = (uint32_t)x->rank};
  size_t count = 1;
  for (uint32_t d = 0; d < in.rank; d++) {
    in.dims[d] = x->dims[d] < 0 ? open_dims[d % 4] : x->dims[d];
    count *= (size_t)in.dims[d];
  }
  in.bytes = count * sizeof(float);
  float *zeros = calloc(count, sizeof *zeros);
  in.data = zeros;
  CU_ASSERT(run(&r, &in, WARM));
  const uint64_t before = tni_attr_lookups();
  CU_ASSERT(run(&r, &in, STEPS));
  CU_ASSERT_EQUAL(tni_attr_lookups() - before, 0);
  free(zeros);
  rig_finish(&r);
}

static void test_demo(void) { check_decoder("TENON_TEST_SOURCE", "models/demo/model.onnx"); }
static void test_gpt2(void) { check_decoder("TENON_TEST_DATA", "onnx/exports/gpt2/model.onnx"); }
static void test_gemma(void) { check_decoder("TENON_TEST_DATA", "onnx/exports/gemma/model.onnx"); }
static void test_vit(void) { check_image("exports/dynamo-vit/model.onnx"); }
static void test_cnn(void) { check_image("exports/dynamo-mobilenet/model.onnx"); }
static void test_qdq(void) { check_image("exports/ort-resnet-qdq/model.onnx"); }

void suite_lookups(void) {
  CU_pSuite s = CU_add_suite("attributes by name in a step", NULL, NULL);
  CU_add_test(s, "demo", test_demo);
  CU_add_test(s, "gpt2", test_gpt2);
  CU_add_test(s, "gemma", test_gemma);
  CU_add_test(s, "a ViT", test_vit);
  CU_add_test(s, "a CNN", test_cnn);
  CU_add_test(s, "a CNN of bytes", test_qdq);
}
