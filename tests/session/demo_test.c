/* SPDX-License-Identifier: Apache-2.0
 *
 * models/demo on cpu-avx2-lut beside its format reference.
 */
#include "session_test.h"

static const char avx2_profile[] = "plugins: [cpu-avx2-lut, host]\nrequire: [cpu-avx2-lut]\n";

static bool has_avx2(void) {
  const char *dir = getenv("TENON_TEST_AVX2");
  bool ok = dir && *dir;
#if defined(__x86_64__)
  ok = ok && __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#else
  ok = false;
#endif
  if (!ok) printf("skipped: no cpu-avx2-lut or no AVX2 here ... ");
  return ok;
}

/* Rows of logits of a fixed prompt, copied. */
static float *score(const char *profile, uint32_t flags, size_t *n, rig *r) {
  char path[1024];
  const float *logits = NULL;
  size_t rows = 0, vocab = 0;
  int32_t ids[24];
  for (int i = 0; i < 24; i++) ids[i] = 5 + i * 131 % 4000;
  snprintf(path, sizeof path, "%s/models/demo", getenv("TENON_TEST_SOURCE"));
  tn_lm *lm = NULL;
  tn_chat *chat = NULL;
  tn_lm_opts o = {.h = {sizeof o, 1, 0}, .model_flags = flags};
  tn_status st = rig_init(r, profile);
  if (st == TN_OK) st = tn_lm_load(r->rt, path, &o, &lm, &r->err);
  if (st == TN_OK) st = tn_chat_create(lm, &chat, &r->err);
  if (st == TN_OK) st = tn_chat_score(chat, ids, 24, &logits, &rows, &vocab, &r->err);
  float *copy = st == TN_OK ? malloc(rows * vocab * sizeof *copy) : NULL;
  if (copy) memcpy(copy, logits, rows * vocab * sizeof *copy);
  *n = rows * vocab;
  if (st != TN_OK) printf("\n    %s\n", r->err.message);
  tn_chat_destroy(chat);
  tn_lm_destroy(lm);
  return copy;
}

static void test_reference(void) {
  if (!has_avx2()) return;
  size_t n[3];
  rig r[3];
  float *device = score(avx2_profile, 0, &n[0], &r[0]);
  float *reference = score(avx2_profile, TN_MODEL_REFERENCE, &n[1], &r[1]);
  float *exact = score("plugins: [host]\n", 0, &n[2], &r[2]);
  CU_ASSERT(device && reference && exact && n[0] == n[1] && n[0] == n[2] && n[0] == 24 * 4096);
  double gap = 0, quality = 0, top = 0;
  for (size_t i = 0; device && reference && exact && i < n[0]; i++) {
    double d = device[i] - reference[i], q = reference[i] - exact[i];
    if (d < 0) d = -d;
    if (q < 0) q = -q;
    if (d > gap) gap = d;
    if (q > quality) quality = q;
    if (exact[i] > top) top = exact[i];
  }
  printf("logits: device - reference %.3g, reference - f32 %.3g, largest %.3g ... ", gap, quality, top);
  /* A half-step of an activation may round the other way after f32 sums in another order; far below the format's own.
   */
  CU_ASSERT(gap < 0.25 * quality);
  CU_ASSERT(quality > 0.01 && quality < top);
  free(device);
  free(reference);
  free(exact);
  for (int i = 0; i < 3; i++) rig_finish(&r[i]);
}

static void test_capture(void) {
  if (!has_avx2()) return;
  rig r;
  char path[1024];
  snprintf(path, sizeof path, "%s/models/demo/model.onnx", getenv("TENON_TEST_SOURCE"));
  CU_ASSERT_EQUAL_FATAL(rig_init(&r, avx2_profile), TN_OK);
  CU_ASSERT_EQUAL_FATAL(rig_open(&r, path, TN_MODEL_CAPTURE), TN_OK);
  CU_ASSERT_EQUAL_FATAL(tn_session_create(r.m, &r.s, &r.err), TN_OK);
  enum { N = 7, MAX_IN = 64 };
  int64_t ids[N], ones[N];
  for (int i = 0; i < N; i++) ids[i] = 100 + i * 37, ones[i] = 1;
  static tn_tensor t[MAX_IN];
  const tn_tensor *in[MAX_IN];
  uint32_t n = tn_model_n_inputs(r.m);
  CU_ASSERT_FATAL(n < MAX_IN);
  for (uint32_t i = 0; i < n; i++) {
    const tn_io_info *io = tn_model_input(r.m, i);
    in[i] = &t[i];
    if (strncmp(io->name, "past", 4) == 0) {
      t[i] = f32_tensor(io->name, NULL, 4, 1, io->dims[1], 0);
      t[i].dims[3] = io->dims[3];
    } else {
      int64_t *data = ids;
      if (strcmp(io->name, "attention_mask") == 0) data = ones;
      static int64_t pos[N] = {0, 1, 2, 3, 4, 5, 6};
      if (strcmp(io->name, "position_ids") == 0) data = pos;
      t[i] = i64_tensor(io->name, data, 2, 1, N);
    }
  }
  tn_tensor out[1] = {{.name = "logits"}};
  for (uint32_t o = 0; o < 1; o++) out[o].h = (tn_hdr){sizeof(tn_tensor), 1, 0};
  tn_status st = tn_session_run(r.s, TN_PHASE_PREFILL, in, n, out, 1, &r.err);
  if (st != TN_OK) printf("\n    %s\n", r.err.message);
  CU_ASSERT_EQUAL_FATAL(st, TN_OK);
  char *json = NULL;
  CU_ASSERT_EQUAL_FATAL(tn_session_capture_report(r.s, &json, &r.err), TN_OK);
  double worst = json_number(json, "worst_ratio"), elements = json_number(json, "elements");
  printf("worst ratio %.3g over %.0f elements ... ", worst, elements);
  CU_ASSERT(worst > 0 && worst <= 1);
  CU_ASSERT(elements > 7 * 4096);
  tn_free(json);
  rig_finish(&r);
}

void suite_demo(void) {
  CU_pSuite s = CU_add_suite("demo model", NULL, NULL);
  CU_add_test(s, "reference", test_reference);
  CU_add_test(s, "capture", test_capture);
}
