/* SPDX-License-Identifier: Apache-2.0
 *
 * npu-demo PLUGIN_DIR...: the demo model end to end through libtenon: calibrated on a text, prompts on the simulated
 * NPU, tokens on the CPU.
 */
#include <CUnit/Basic.h>
#include <jansson.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/npu/demo.h"

enum { PROMPT = 1000 };

/* The same logits whatever the chunk, though 1000 is a multiple of none. */
static void chunks(void) {
  static const char *const options[] = {"chunk: 64", "chunk: 128", "chunk: 256, profile: qnn-2024"};
  int32_t ids[PROMPT];
  float *y[3];
  size_t vocab = 0;
  demo_ids(ids, PROMPT, 2);
  for (int i = 0; i < 3; i++) {
    demo b;
    CU_ASSERT_EQUAL_FATAL(demo_open(&b, demo_profile(options[i], ""), 0, 0), TN_OK);
    y[i] = demo_score(&b, ids, PROMPT, &vocab);
    demo_close(&b);
  }
  CU_ASSERT(demo_distance(y[0], y[1], PROMPT * vocab) <= 1e-5);
  CU_ASSERT(demo_distance(y[0], y[2], PROMPT * vocab) <= 1e-5);
  for (int i = 0; i < 3; i++) free(y[i]);
}

/* A prompt of two chunks runs two, a longer one three; each on the device's clock, in order. */
static void no_empty_chunk(void) {
  demo b;
  int32_t ids[130];
  size_t vocab;
  uint32_t n[2];
  demo_ids(ids, 130, 3);
  CU_ASSERT_EQUAL_FATAL(demo_open(&b, demo_profile("chunk: 64", ""), 0, 0), TN_OK);
  for (int i = 0; i < 2; i++) {
    demo_seen s = {.ordered = true};
    tn_chat_trace(b.chat, demo_on_task, &s);
    free(demo_score(&b, ids, 127 + 3 * (size_t)i, &vocab));
    tn_chat_trace(b.chat, NULL, NULL);
    CU_ASSERT(s.npu > 0 && s.virtual_clock == s.npu && s.named == s.npu && s.ordered);
    n[i] = s.npu;
  }
  CU_ASSERT(n[0] % 2 == 0 && n[1] == n[0] / 2 * 3);
  demo_seen s = {.ordered = true};
  tn_chat_trace(b.chat, demo_on_task, &s);
  free(demo_score(&b, ids, 128, &vocab));
  CU_ASSERT_EQUAL(s.npu, n[0]);
  demo_close(&b);
}

/* A claim of several lengths: the host takes the shortest that has room, and cuts what is longer than the longest. The
 * logits are those of one length. */
static void lengths(void) {
  static const struct {
    size_t n;
    uint32_t steps, rows; /* in pieces of 64, 128, 192 or 256 rows */
  } prompts[] = {{64, 1, 64},   {128, 1, 128}, {2, 1, 64},    {100, 1, 128},    {130, 1, 192},
                 {256, 1, 256}, {300, 2, 320}, {513, 3, 576}, {PROMPT, 4, 1024}};
  int32_t ids[PROMPT];
  size_t vocab;
  uint32_t each = 0;
  double first = 0, row = 0; /* bytes of a piece but for its rows, and of a row */
  demo one, many;
  demo_ids(ids, PROMPT, 6);
  CU_ASSERT_EQUAL_FATAL(demo_open(&one, demo_profile("chunk: 64", ""), 0, 0), TN_OK);
  CU_ASSERT_EQUAL_FATAL(demo_open(&many, demo_profile("chunk: 64, pieces: 4", ""), 0, 0), TN_OK);
  for (size_t i = 0; i < sizeof prompts / sizeof *prompts; i++) {
    demo_seen s = {.ordered = true};
    float *want = demo_score(&one, ids, prompts[i].n, &vocab);
    tn_chat_trace(many.chat, demo_on_task, &s);
    float *got = demo_score(&many, ids, prompts[i].n, &vocab);
    tn_chat_trace(many.chat, NULL, NULL);
    CU_ASSERT(demo_distance(want, got, prompts[i].n * vocab) <= 1e-5);
    if (!i) each = s.npu;
    if (!i) first = (double)s.bytes;
    if (i == 1) row = ((double)s.bytes - first) / 64, first -= 64 * row;
    CU_ASSERT(each && s.npu == prompts[i].steps * each);
    if (i) CU_ASSERT(row > 0 && (double)s.bytes == prompts[i].steps * first + prompts[i].rows * row);
    free(want);
    free(got);
  }
  demo_close(&one);
  demo_close(&many);
}

/* Bits do not depend on which of the ready tasks comes first. */
static void any_order(void) {
  int32_t ids[100];
  float *first = NULL;
  size_t vocab = 0;
  demo_ids(ids, 100, 4);
  for (uint64_t seed = 0; seed < 4; seed++) {
    demo b;
    CU_ASSERT_EQUAL_FATAL(demo_open(&b, demo_profile("chunk: 64", seed & 1 ? "threads: 2\n" : "threads: 1\n"), 0, seed),
                          TN_OK);
    float *y = demo_score(&b, ids, 100, &vocab);
    if (!first)
      first = y;
    else
      CU_ASSERT_EQUAL(memcmp(first, y, 100 * vocab * sizeof *y), 0);
    if (y != first) free(y);
    demo_close(&b);
  }
  free(first);
}

typedef struct speaker {
  tn_chat *chat;
  const int32_t *ids;
  const float *logits;
  size_t n, rows, vocab;
  tn_status st;
} speaker;

static void *speak(void *arg) {
  speaker *s = arg;
  tn_error err;
  tn_error_init(&err);
  s->st = tn_chat_score(s->chat, s->ids, s->n, &s->logits, &s->rows, &s->vocab, &err);
  return NULL;
}

/* Two conversations at once share the device, its weights and the rows that were read: each has the bits it has alone.
 */
static void two_sessions(void) {
  enum { N = 130 };
  demo b;
  int32_t ids[2][N];
  float *alone[2];
  size_t vocab = 0;
  tn_chat *second = NULL;
  pthread_t thread[2];
  CU_ASSERT_EQUAL_FATAL(demo_open(&b, demo_profile("chunk: 64, hot: 0", ""), 0, 0), TN_OK);
  for (uint32_t i = 0; i < 2; i++) {
    demo_ids(ids[i], N, 20 + i);
    alone[i] = demo_score(&b, ids[i], N, &vocab);
  }
  tn_chat_reset(b.chat);
  CU_ASSERT_EQUAL_FATAL(tn_chat_create(b.lm, &second, &b.err), TN_OK);
  speaker s[2] = {{.chat = b.chat, .ids = ids[0], .n = N}, {.chat = second, .ids = ids[1], .n = N}};
  for (int i = 0; i < 2; i++) CU_ASSERT_EQUAL_FATAL(pthread_create(&thread[i], NULL, speak, &s[i]), 0);
  for (int i = 0; i < 2; i++) pthread_join(thread[i], NULL);
  for (int i = 0; i < 2; i++) {
    CU_ASSERT_EQUAL(s[i].st, TN_OK);
    CU_ASSERT(s[i].st == TN_OK && !memcmp(s[i].logits, alone[i], N * vocab * sizeof(float)));
    free(alone[i]);
  }
  tn_chat_destroy(second);
  demo_close(&b);
}

/* The declared numerics, computed by the host: only the chains may round otherwise. */
static void reference(void) {
  int32_t ids[70];
  float *y[2];
  size_t vocab = 0;
  demo_ids(ids, 70, 5);
  for (int i = 0; i < 2; i++) {
    demo b;
    CU_ASSERT_EQUAL_FATAL(demo_open(&b, demo_profile("chunk: 64", ""), i ? TN_MODEL_REFERENCE : 0, 0), TN_OK);
    y[i] = demo_score(&b, ids, 70, &vocab);
    demo_close(&b);
  }
  /* A last bit of a chain may flip a code of the next quantizer: one of 127 and more steps in one of its columns. */
  CU_ASSERT(demo_distance(y[0], y[1], 70 * vocab) <= 1e-3);
  free(y[0]);
  free(y[1]);
}

/* One run of `n` positions over no past, through a session that checks every task. */
static tn_status run_checked(demo *b, tn_session *s, int64_t n) {
  enum { MAX_IO = 32 };
  tn_model *m = tn_lm_model(b->lm);
  static int64_t ids[256], ones[256], positions[256];
  tn_tensor in[MAX_IO], out[MAX_IO];
  const tn_tensor *pin[MAX_IO];
  for (int64_t i = 0; i < n; i++) {
    ids[i] = 3 + i * 7 % 900;
    ones[i] = 1;
    positions[i] = i;
  }
  if (tn_model_n_inputs(m) > MAX_IO || tn_model_n_outputs(m) > MAX_IO || n > 256) return TN_E_INTERNAL;
  for (uint32_t i = 0; i < tn_model_n_inputs(m); i++) {
    const tn_io_info *io = tn_model_input(m, i);
    const bool past = io->rank == 4;
    in[i] = (tn_tensor){
        .h = {sizeof *in, 1, 0}, .name = io->name, .dtype = io->dtype, .rank = (uint32_t)io->rank, .dims = {1, n}};
    for (int32_t d = 1; past && d < 4; d++) in[i].dims[d] = io->dims[d] < 0 ? 0 : io->dims[d];
    in[i].data = past ? NULL : strstr(io->name, "mask") ? ones : strstr(io->name, "position") ? positions : ids;
    in[i].bytes = past ? 0 : (uint64_t)n * sizeof *ids;
    pin[i] = &in[i];
  }
  memset(out, 0, sizeof out);
  for (uint32_t i = 0; i < tn_model_n_outputs(m); i++) out[i].h = (tn_hdr){sizeof *out, 1, 0};
  return tn_session_run(s, TN_PHASE_PREFILL, pin, tn_model_n_inputs(m), out, tn_model_n_outputs(m), &b->err);
}

/* Each task within the bound of its own inputs; products without a chain equal to the last bit. */
static void check_tasks(const char *options, uint32_t n_merges, uint32_t n_attentions) {
  demo b;
  tn_session *s = NULL;
  char *text = NULL;
  CU_ASSERT_EQUAL_FATAL(demo_open(&b, demo_profile(options, ""), TN_MODEL_CAPTURE, 0), TN_OK);
  CU_ASSERT_EQUAL_FATAL(tn_session_create(tn_lm_model(b.lm), &s, &b.err), TN_OK);
  const tn_status st = run_checked(&b, s, 64);
  if (st != TN_OK) printf("\n    %s: %s", b.err.where, b.err.message);
  CU_ASSERT_EQUAL_FATAL(st, TN_OK);
  CU_ASSERT_EQUAL_FATAL(tn_session_capture_report(s, &text, &b.err), TN_OK);
  json_t *report = json_loads(text, 0, NULL), *task;
  size_t i;
  uint32_t merges = 0, plain = 0, inexact = 0, attentions = 0;
  const double worst = json_number_value(json_object_get(report, "worst_ratio"));
  CU_ASSERT(worst <= 1);
  if (worst > 1) printf("\n    %s: %g", options, worst);
  json_array_foreach(json_object_get(report, "tasks"), i, task) {
    const char *name = json_string_value(json_object_get(task, "task"));
    attentions += strstr(name, "float ") && json_integer_value(json_object_get(task, "elements")) > 0;
    if (!strstr(name, "merge ")) continue;
    merges += json_integer_value(json_object_get(task, "elements")) > 0;
    if (!strstr(name, "q_proj")) continue;
    plain++;
    inexact += json_number_value(json_object_get(task, "max_diff")) != 0;
  }
  CU_ASSERT(merges == n_merges && plain == 6 && attentions == n_attentions);
  CU_ASSERT_EQUAL(inexact, 0);
  json_decref(report);
  tn_free(text);
  tn_session_destroy(s);
  demo_close(&b);
}

static void each_task(void) {
  check_tasks("chunk: 64", 24, 0);
  check_tasks("chunk: 64, profile: hmx-2026-fa", 24, 6);
  check_tasks("chunk: 64, shadow: none, ffn: two", 24, 0);
  check_tasks("chunk: 64, shadow: none", 18, 0);
}

/* What the shadow is for: with it the model is nearer to f32 than without. */
static void quality(void) {
  static const char *const options[] = {"shadow: all", "shadow: pruned", "shadow: none"};
  int32_t ids[256];
  size_t vocab = 0;
  double off[3];
  demo host;
  demo_ids(ids, 256, 6);
  CU_ASSERT_EQUAL_FATAL(demo_open(&host, "plugins: [host]\n", 0, 0), TN_OK);
  float *f32 = demo_score(&host, ids, 256, &vocab);
  for (int i = 0; i < 3; i++) {
    demo b;
    CU_ASSERT_EQUAL_FATAL(demo_open(&b, demo_profile(options[i], ""), 0, 0), TN_OK);
    float *y = demo_score(&b, ids, 256, &vocab);
    double d = 0;
    for (size_t k = 0; k < 256 * vocab; k++) d += ((double)y[k] - (double)f32[k]) * ((double)y[k] - (double)f32[k]);
    off[i] = sqrt(d / (double)(256 * vocab));
    free(y);
    demo_close(&b);
  }
  printf("(rms of logits %.4f, %.4f, %.4f) ", off[0], off[1], off[2]);
  CU_ASSERT(off[0] < off[1] && off[1] < off[2]);
  free(f32);
  demo_close(&host);
}

/* A window that is too small for all takes the largest products; the others run on the CPU. */
static void window(void) {
  static const char *const options[] = {"chunk: 64", "chunk: 64, window_mib: 4", "chunk: 64, window_mib: 1"};
  int32_t ids[100];
  size_t vocab;
  uint32_t n[3];
  demo_ids(ids, 100, 8);
  for (int i = 0; i < 3; i++) {
    demo b;
    demo_seen s = {.ordered = true};
    CU_ASSERT_EQUAL_FATAL(demo_open(&b, demo_profile(options[i], ""), 0, 0), TN_OK);
    tn_chat_trace(b.chat, demo_on_task, &s);
    free(demo_score(&b, ids, 100, &vocab));
    n[i] = s.npu;
    demo_close(&b);
  }
  printf("(%u, %u, %u executions) ", n[0], n[1], n[2]);
  CU_ASSERT(n[0] > n[1] && n[1] > 0 && n[2] == 0);
}

/* Memory that cannot be had is a status, and the process goes on; after a device that is lost the CPU does. */
static void faults(void) {
  static const struct {
    const char *options;
    tn_status st;
    uint32_t losses;
  } cases[] = {{"chunk: 64, fault: 'lost:30'", TN_OK, 1},
               {"chunk: 64, fault: 'graph:5'", TN_E_NO_MEMORY, 0},
               {"chunk: 64, fault: 'alloc:3'", TN_E_NO_MEMORY, 0}};
  int32_t ids[200];
  demo_ids(ids, 200, 7);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    demo b;
    const float *logits;
    size_t rows, vocab;
    tn_status st = demo_open(&b, demo_profile(cases[i].options, ""), 0, 0);
    if (st == TN_OK) st = tn_chat_score(b.chat, ids, 200, &logits, &rows, &vocab, &b.err);
    CU_ASSERT_EQUAL(st, cases[i].st);
    CU_ASSERT(st == TN_OK || b.err.message[0]);
    CU_ASSERT_EQUAL(tn_runtime_losses(b.rt, NULL), cases[i].losses);
    if (st != cases[i].st) printf("\n    case %zu: %d %s: %s", i, st, b.err.where, b.err.message);
    demo_close(&b);
  }
}

int main(int argc, char **argv) {
  if (!demo_start(argc, argv)) return 2;
  enum { LONG = 3 }; /* the last ones, which sanitizers make minutes long: they compare numbers */
  CU_TestInfo tests[] = {{"no empty chunk", no_empty_chunk},
                         {"virtual time", demo_virtual_time},
                         {"any order", any_order},
                         {"in flight", demo_in_flight},
                         {"kept graphs", demo_kept_graphs},
                         {"two sessions", two_sessions},
                         {"reference", reference},
                         {"each task", each_task},
                         {"one ffn", demo_one_ffn},
                         {"attention", demo_attention},
                         {"window", window},
                         {"faults", faults},
                         {"chunks", chunks},
                         {"lengths", lengths},
                         {"quality", quality},
                         CU_TEST_INFO_NULL};
  if (getenv("TENON_TEST_QUICK")) tests[sizeof tests / sizeof *tests - 1 - LONG] = (CU_TestInfo)CU_TEST_INFO_NULL;
  CU_SuiteInfo suites[] = {{"demo model on the NPU", demo_calibrate, demo_clean, NULL, NULL, tests},
                           CU_SUITE_INFO_NULL};
  if (CU_initialize_registry() != CUE_SUCCESS || CU_register_suites(suites) != CUE_SUCCESS) return 1;
  CU_basic_set_mode(CU_BRM_VERBOSE);
  CU_basic_run_tests();
  const unsigned failures = CU_get_number_of_failures();
  CU_cleanup_registry();
  return failures != 0;
}
