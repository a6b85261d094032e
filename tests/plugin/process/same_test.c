/* SPDX-License-Identifier: Apache-2.0
 *
 * A plugin in a process of its own computes what it computes in ours, bit for bit.
 */
#include "isolate_test.h"
#include "runtime/place/model_data.h"
#include "runtime/plugin/load/registry.h"
#include "runtime/plugin/process/isolate.h"

typedef struct scored {
  float *logits;
  size_t n;
  int32_t ids[MAX_TOKENS];
} scored;

/* Logits of every position of a fixed text, and ids behind it. */
static bool score(const char *profile, const char *plugin, bool isolated, size_t n, uint32_t tokens, scored *out) {
  char text[1024];
  lab l;
  int32_t *ids = calloc(n, sizeof *ids);
  const float *logits = NULL;
  size_t rows = 0, vocab = 0;
  *out = (scored){.logits = NULL};
  for (size_t i = 0; i < n; i++) ids[i] = 5 + (int32_t)(i * 131 % 4000);
  snprintf(text, sizeof text, "%s%s", isolated ? "isolation: process\n" : "", profile);
  tn_status st = lab_open(&l, text, NULL, NULL);
  if (st == TN_OK) st = lab_load(&l);
  if (st == TN_OK) CU_ASSERT_EQUAL(lab_child(&l, plugin) != 0, isolated);
  if (st == TN_OK) st = lab_generate(&l, ids, n, tokens, -1, NULL, NULL, out->ids);
  if (st == TN_OK) tn_chat_reset(l.chat);
  if (st == TN_OK) st = tn_chat_score(l.chat, ids, n, &logits, &rows, &vocab, &l.err);
  if (st == TN_OK) {
    out->n = rows * vocab;
    out->logits = malloc(out->n * sizeof(float));
    memcpy(out->logits, logits, out->n * sizeof(float));
  } else {
    printf("\n    %s (%d): %s\n", text, st, l.err.message);
  }
  CU_ASSERT_EQUAL(tn_runtime_losses(l.rt, NULL), 0);
  const int child = st == TN_OK ? lab_child(&l, plugin) : 0;
  CU_ASSERT_EQUAL(child != 0, isolated && st == TN_OK);
  if (child) { /* it did the work, and nothing of its tasks' memory was copied but what callers own */
    tni_isolate_counts c;
    tni_isolate_counts_get(tni_registry_find(l.rt->registry, plugin)->plugin, &c);
    CU_ASSERT(c.runs > 0);
    CU_ASSERT_EQUAL(c.copied_bytes, 0);
  }
  lab_close(&l);
  free(ids);
  return st == TN_OK;
}

static void compare(const char *profile, const char *plugin, size_t n, uint32_t tokens) {
  scored a, b;
  const bool ok = score(profile, plugin, false, n, tokens, &a) && score(profile, plugin, true, n, tokens, &b);
  CU_ASSERT(ok);
  if (!ok) return;
  CU_ASSERT_EQUAL(a.n, b.n);
  CU_ASSERT(a.n == b.n && memcmp(a.logits, b.logits, a.n * sizeof(float)) == 0);
  CU_ASSERT_EQUAL(memcmp(a.ids, b.ids, tokens * sizeof *a.ids), 0);
  free(a.logits);
  free(b.logits);
}

static void test_cpu(void) {
  if (!has_avx2()) return;
  static const char *const formats[] = {"w4g", "lut2", "lut4", "lutt"};
  for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
    char profile[256];
    snprintf(profile, sizeof profile, "plugins:\n  - name: cpu-avx2-lut\n    options: {format: %s}\n  - host\n",
             formats[i]);
    compare(profile, "cpu-avx2-lut", 24, 8);
  }
}

/* An engine that blocks, tasks on two engines, weights that are read from the file, prepared graphs. */
static void test_npu(void) {
  if (!has_npu()) return;
  compare(
      "calibration: ${model}/calibration.yaml\nplugins: [npu-int8-sim, host]\n"
      "phases: {prefill: [npu-int8-sim, host], decode: [host]}\n",
      "npu-int8-sim", 260, 4);
}

/* Weights that are in no file. */
static void test_uncached(void) {
  if (!has_avx2()) return;
  const char *const profile = "plugins: [cpu-avx2-lut, host]\ncache: {dir: /nonexistent/folder}\n";
  compare(profile, "cpu-avx2-lut", 5, 2);
}

/* The format reference unpacks in the child. */
static void test_reference(void) {
  if (!has_avx2()) return;
  float *logits[2] = {NULL, NULL};
  size_t n[2] = {0, 0};
  for (int i = 0; i < 2; i++) {
    const float *v = NULL;
    const int32_t ids[4] = {7, 300, 21, 1000};
    size_t rows = 0, vocab = 0;
    char path[1024];
    lab l;
    const tn_lm_opts o = {.h = {sizeof o, 1, 0}, .model_flags = TN_MODEL_REFERENCE, .max_seq = 64};
    snprintf(path, sizeof path, "%s/models/demo", getenv("TENON_TEST_SOURCE"));
    tn_status st = lab_open(
        &l, i ? "isolation: process\nplugins: [cpu-avx2-lut, host]\n" : "plugins: [cpu-avx2-lut, host]\n", NULL, NULL);
    if (st == TN_OK) st = tn_lm_load(l.rt, path, &o, &l.lm, &l.err);
    if (st == TN_OK) st = tn_chat_create(l.lm, &l.chat, &l.err);
    if (st == TN_OK) st = tn_chat_score(l.chat, ids, 4, &v, &rows, &vocab, &l.err);
    CU_ASSERT_EQUAL(st, TN_OK);
    if (st == TN_OK) {
      n[i] = rows * vocab;
      logits[i] = malloc(n[i] * sizeof(float));
      memcpy(logits[i], v, n[i] * sizeof(float));
    } else {
      printf("\n    %s\n", l.err.message);
    }
    lab_close(&l);
  }
  CU_ASSERT(n[0] && n[0] == n[1] && memcmp(logits[0], logits[1], n[0] * sizeof(float)) == 0);
  free(logits[0]);
  free(logits[1]);
}

/* Errors of the profile stand where they stand in-process. */
static void test_profile(void) {
  if (!has_avx2()) return;
  lab l;
  CU_ASSERT_EQUAL(
      lab_open(&l, "plugins:\n  - name: cpu-avx2-lut\n    isolation: process\n    options: {format: no}\n", NULL, NULL),
      TN_E_INVALID);
  CU_ASSERT_PTR_NOT_NULL(strstr(l.err.where, "profile.yaml:4:"));
  lab_close(&l);
  CU_ASSERT_EQUAL(lab_open(&l, "isolation: jail\nplugins: [host]\n", NULL, NULL), TN_E_INVALID);
  CU_ASSERT_PTR_NOT_NULL(strstr(l.err.message, "process, strict or none"));
  lab_close(&l);
  CU_ASSERT_EQUAL(lab_open(&l, "plugins:\n  - name: host\n    isolation: process\n", NULL, NULL), TN_E_INVALID);
  lab_close(&l);
  CU_ASSERT_EQUAL(lab_open(&l, "isolation: process\nplugins: [cpu-avx2-lut, host]\n", NULL, "/nonexistent/helper"),
                  TN_E_UNAVAILABLE);
  CU_ASSERT_PTR_NOT_NULL(strstr(l.err.message, "tenon-helper"));
  lab_close(&l);
  /* A plugin's own key is stronger than the profile's. */
  CU_ASSERT_EQUAL(
      lab_open(&l, "isolation: process\nplugins:\n  - name: cpu-avx2-lut\n    isolation: none\n  - host\n", NULL, NULL),
      TN_OK);
  if (l.rt) CU_ASSERT_EQUAL(lab_child(&l, "cpu-avx2-lut"), 0);
  lab_close(&l);
}

void suite_same(void) {
  CU_pSuite s = CU_add_suite("isolate: the same", NULL, NULL);
  CU_add_test(s, "cpu-avx2-lut, four formats", test_cpu);
  CU_add_test(s, "npu-int8-sim, two engines", test_npu);
  CU_add_test(s, "weights in no file", test_uncached);
  CU_add_test(s, "the format reference", test_reference);
  CU_add_test(s, "profiles", test_profile);
}
