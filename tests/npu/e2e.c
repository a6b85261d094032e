/* SPDX-License-Identifier: Apache-2.0
 *
 * npu-demo PLUGIN_DIR...: the demo model end to end through libtenon: calibrated on a text, prompts on the simulated
 * NPU, tokens on the CPU.
 */
#include <CUnit/Basic.h>
#include <ftw.h>
#include <jansson.h>
#include <math.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>
#include <unistd.h>

enum { PROMPT = 1000, MAX_DIRS = 4 };

static const char *dirs[MAX_DIRS];
static uint32_t n_dirs;
static char folder[] = "/tmp/npu-demo-XXXXXX";
static char model[1024];

typedef struct bench {
  tn_runtime *rt;
  tn_lm *lm;
  tn_chat *chat;
  tn_error err;
  char profile[128];
} bench;

static char counted[256]; /* what the device said last of its graphs */

static void log_line(void *user, uint32_t level, const char *line) {
  (void)user;
  if (strstr(line, " graphs prepared, ")) snprintf(counted, sizeof counted, "%s", line);
  if (level == TN_LOG_ERROR) printf("%s\n", line);
}

/* text: a profile, in which %s stands for the folder. */
static tn_status bench_open(bench *b, const char *text, uint32_t flags, uint64_t seed) {
  static int count;
  memset(b, 0, sizeof *b);
  snprintf(b->profile, sizeof b->profile, "%s/p%d.yaml", folder, count++);
  FILE *f = fopen(b->profile, "w");
  if (!f) return TN_E_IO;
  fputs(text, f);
  fclose(f);
  tn_error_init(&b->err);
  const tn_runtime_opts o = {.h = {sizeof o, 1, 0},
                             .profile = b->profile,
                             .plugin_dirs = dirs,
                             .n_plugin_dirs = n_dirs,
                             .log_level = TN_LOG_DEBUG,
                             .log = log_line,
                             .flags = TN_RT_TEST_WRITABLE};
  const tn_lm_opts lo = {.h = {sizeof lo, 1, 0}, .model_flags = flags, .order_seed = seed};
  tn_status st = tn_runtime_create(&o, &b->rt, &b->err);
  if (st == TN_OK) st = tn_lm_load(b->rt, model, &lo, &b->lm, &b->err);
  if (st == TN_OK) st = tn_chat_create(b->lm, &b->chat, &b->err);
  if (st != TN_OK) printf("\n    %s: %s", b->err.where, b->err.message);
  return st;
}

static void bench_close(bench *b) {
  tn_chat_destroy(b->chat);
  tn_lm_destroy(b->lm);
  tn_runtime_destroy(b->rt);
  if (b->profile[0]) unlink(b->profile);
}

/* n ids that a text of this kind has: words of the model's own, by a fixed rule. */
static void ids_of(int32_t *ids, size_t n, uint32_t seed) {
  for (size_t i = 0; i < n; i++) {
    seed = seed * 1664525 + 1013904223;
    ids[i] = (int32_t)(3 + seed / 65536 % 900);
  }
}

static float *score(bench *b, const int32_t *ids, size_t n, size_t *vocab) {
  const float *logits;
  size_t rows;
  tn_chat_reset(b->chat);
  const tn_status st = tn_chat_score(b->chat, ids, n, &logits, &rows, vocab, &b->err);
  if (st != TN_OK) printf("\n    %s: %s", b->err.where, b->err.message);
  CU_ASSERT_EQUAL_FATAL(st, TN_OK);
  CU_ASSERT_EQUAL_FATAL(rows, n);
  float *copy = malloc(n * *vocab * sizeof *copy);
  if (!copy) abort();
  return memcpy(copy, logits, n * *vocab * sizeof *copy);
}

/* Largest |a - b| over the largest |a|. */
static double distance(const float *a, const float *b, size_t n) {
  double top = 0, diff = 0;
  for (size_t i = 0; i < n; i++) {
    top = fmax(top, fabs((double)a[i]));
    diff = fmax(diff, fabs((double)a[i] - (double)b[i]));
  }
  return diff / top;
}

/* --- calibration, once -------------------------------------------------------------------------------------------- */

static char calib[128];

static int calibrate(void) {
  bench b;
  int32_t ids[PROMPT];
  const float *logits;
  size_t rows, vocab;
  snprintf(calib, sizeof calib, "%s/demo.calib.yaml", folder);
  ids_of(ids, PROMPT, 1);
  tn_status st = bench_open(&b, "plugins: [host]\n", TN_MODEL_CALIBRATE, 0);
  for (int pass = 1; st == TN_OK && pass <= 2; pass++) {
    if (pass == 2) st = tn_model_calibration_next(tn_lm_model(b.lm), &b.err);
    tn_chat_reset(b.chat);
    if (st == TN_OK) st = tn_chat_score(b.chat, ids, PROMPT, &logits, &rows, &vocab, &b.err);
  }
  const tn_calibration_text what = {.h = {sizeof what, 1, 0}, .name = "ids by a rule"};
  if (st == TN_OK) st = tn_model_calibration_save(tn_lm_model(b.lm), &what, calib, &b.err);
  if (st != TN_OK) printf("\n    %s: %s", b.err.where, b.err.message);
  bench_close(&b);
  return st != TN_OK;
}

static int clean(void) {
  unlink(calib);
  return rmdir(folder);
}

static const char *profile(const char *options, const char *more) {
  static char text[1024];
  snprintf(
      text, sizeof text,
      "plugins:\n  - {name: npu-int8-sim, options: {%s}}\n  - host\nphases: {prefill: [npu-int8-sim, host], decode: "
      "[host]}\ncalibration: %s\n%s",
      options, calib, more);
  return text;
}

/* --- tests -------------------------------------------------------------------------------------------------------- */

/* The same logits whatever the chunk, though 1000 is a multiple of none. */
static void chunks(void) {
  static const char *const options[] = {"chunk: 64", "chunk: 128", "chunk: 256, profile: qnn-2024"};
  int32_t ids[PROMPT];
  float *y[3];
  size_t vocab = 0;
  ids_of(ids, PROMPT, 2);
  for (int i = 0; i < 3; i++) {
    bench b;
    CU_ASSERT_EQUAL_FATAL(bench_open(&b, profile(options[i], ""), 0, 0), TN_OK);
    y[i] = score(&b, ids, PROMPT, &vocab);
    bench_close(&b);
  }
  CU_ASSERT(distance(y[0], y[1], PROMPT * vocab) <= 1e-5);
  CU_ASSERT(distance(y[0], y[2], PROMPT * vocab) <= 1e-5);
  for (int i = 0; i < 3; i++) free(y[i]);
}

typedef struct seen {
  uint32_t npu, virtual_clock, named;
  int64_t end;
  bool ordered;
} seen;

static void on_task(void *user, const tn_trace_event *e) {
  seen *s = user;
  if (strcmp(e->track, "npu-int8-sim:npu") != 0) return;
  s->npu++;
  s->virtual_clock += e->clock != 0;
  s->named += strncmp(e->name, "int8 ", 5) == 0;
  s->ordered = s->ordered && e->start >= s->end && e->end > e->start;
  s->end = e->end;
}

/* A prompt of two chunks runs two, a longer one three; each on the device's clock, in order. */
static void no_empty_chunk(void) {
  bench b;
  int32_t ids[130];
  size_t vocab;
  uint32_t n[2];
  ids_of(ids, 130, 3);
  CU_ASSERT_EQUAL_FATAL(bench_open(&b, profile("chunk: 64", ""), 0, 0), TN_OK);
  for (int i = 0; i < 2; i++) {
    seen s = {.ordered = true};
    tn_chat_trace(b.chat, on_task, &s);
    free(score(&b, ids, 127 + 3 * (size_t)i, &vocab));
    tn_chat_trace(b.chat, NULL, NULL);
    CU_ASSERT(s.npu > 0 && s.virtual_clock == s.npu && s.named == s.npu && s.ordered);
    n[i] = s.npu;
  }
  CU_ASSERT(n[0] % 2 == 0 && n[1] == n[0] / 2 * 3);
  seen s = {.ordered = true};
  tn_chat_trace(b.chat, on_task, &s);
  free(score(&b, ids, 128, &vocab));
  CU_ASSERT_EQUAL(s.npu, n[0]);
  bench_close(&b);
}

typedef struct interval {
  uint32_t step, product; /* product: hash of its name */
  int64_t start, end;
} interval;

typedef struct timeline {
  uint64_t hash;
  uint32_t n, n_shadows, n_npu, beside; /* events; shadows that began while the products beside them ran */
  interval shadows[1024], npu[1024];
  int64_t first, last, npu_ns, cpu_ns;
} timeline;

static void on_virtual(void *user, const tn_trace_event *e) {
  timeline *t = user;
  if (!e->clock) return;
  const int64_t times[2] = {e->start, e->end};
  for (const char *c = e->name; *c; c++) t->hash = (t->hash ^ (uint8_t)*c) * 0x100000001b3u;
  for (int i = 0; i < 16; i++) t->hash = (t->hash ^ (uint8_t)(times[i / 8] >> i % 8 * 8)) * 0x100000001b3u;
  if (!t->n || e->start < t->first) t->first = e->start;
  if (!t->n || e->end > t->last) t->last = e->end;
  t->n++;
  const bool shadow = !strncmp(e->name, "shadow ", 7), npu = !strcmp(e->track, "npu-int8-sim:npu");
  interval at = {.step = e->step, .start = e->start, .end = e->end, .product = 5381};
  for (const char *c = strchr(e->name, ' '); c && *c; c++) at.product = at.product * 33 + (uint8_t)*c;
  *(npu ? &t->npu_ns : &t->cpu_ns) += e->end - e->start;
  if (shadow && t->n_shadows < 1024) t->shadows[t->n_shadows++] = at;
  if (npu && t->n_npu < 1024) t->npu[t->n_npu++] = at;
}

static void count_beside(timeline *t) {
  for (uint32_t i = 0; i < t->n_shadows; i++)
    for (uint32_t k = 0; k < t->n_npu; k++) {
      const interval *a = &t->shadows[i], *b = &t->npu[k];
      t->beside += a->step == b->step && a->product == b->product && a->start >= b->start && a->start < b->end;
    }
}

/* Virtual time is the same whatever the machine does, and in it the shadow runs beside the device. */
static void virtual_time(void) {
  static const char *const threads[] = {"threads: 1\n", "threads: 2\n", "threads: 2\nchunks_in_flight: 1\n"};
  int32_t ids[70];
  static timeline t[3];
  size_t vocab;
  ids_of(ids, 70, 9);
  for (int i = 0; i < 3; i++) {
    bench b;
    t[i] = (timeline){.hash = 0xcbf29ce484222325u};
    CU_ASSERT_EQUAL_FATAL(bench_open(&b, profile("chunk: 64", threads[i]), 0, 0), TN_OK);
    tn_chat_trace(b.chat, on_virtual, &t[i]);
    free(score(&b, ids, 70, &vocab));
    count_beside(&t[i]);
    bench_close(&b);
  }
  CU_ASSERT(t[0].n > 100 && t[0].n == t[1].n && t[0].hash == t[1].hash);
  CU_ASSERT(t[2].n_shadows == 48 && t[2].beside >= 40);
}

/* Bits do not depend on which of the ready tasks comes first. */
static void any_order(void) {
  int32_t ids[100];
  float *first = NULL;
  size_t vocab = 0;
  ids_of(ids, 100, 4);
  for (uint64_t seed = 0; seed < 4; seed++) {
    bench b;
    CU_ASSERT_EQUAL_FATAL(bench_open(&b, profile("chunk: 64", seed & 1 ? "threads: 2\n" : "threads: 1\n"), 0, seed),
                          TN_OK);
    float *y = score(&b, ids, 100, &vocab);
    if (!first)
      first = y;
    else
      CU_ASSERT_EQUAL(memcmp(first, y, 100 * vocab * sizeof *y), 0);
    if (y != first) free(y);
    bench_close(&b);
  }
  free(first);
}

/* A prompt, what follows it on the decode plugin, and a second prompt behind both. */
enum { FIRST = 266, SECOND = 65, ALL = FIRST + 1 + SECOND };
static float *converse(const char *more, uint64_t seed, timeline *t, size_t *vocab) {
  bench b;
  int32_t ids[ALL];
  static const size_t parts[] = {FIRST, 1, SECOND};
  float *all = NULL;
  ids_of(ids, ALL, 30);
  CU_ASSERT_EQUAL_FATAL(bench_open(&b, profile("chunk: 64, profile: qnn-2024", more), 0, seed), TN_OK);
  if (t) {
    *t = (timeline){.hash = 0};
    tn_chat_trace(b.chat, on_virtual, t);
  }
  for (size_t i = 0, at = 0; i < 3; at += parts[i++]) {
    const float *y;
    size_t rows;
    const tn_status st = tn_chat_score(b.chat, ids + at, parts[i], &y, &rows, vocab, &b.err);
    if (st != TN_OK) printf("\n    %s: %s", b.err.where, b.err.message);
    CU_ASSERT_FATAL(st == TN_OK && rows == parts[i]);
    if (!all && !(all = malloc(ALL * *vocab * sizeof *all))) abort();
    memcpy(all + at * *vocab, y, parts[i] * *vocab * sizeof *y);
    if (i == 0) tn_chat_trace(b.chat, NULL, NULL);
  }
  bench_close(&b);
  return all;
}

/* However many pieces of a prompt are in flight, in whatever order and on however many threads: the same bits. On the
 * simulated clock more pieces take less time, and never less than one of the two machines has to do. */
static void in_flight(void) {
  static const char *const more[] = {"chunks_in_flight: 1\n", "chunks_in_flight: 2\n", "chunks_in_flight: 4\n",
                                     "memory: 64K\n", ""};
  static timeline t[5];
  int64_t span[5];
  size_t vocab;
  float *one = converse(more[0], 0, &t[0], &vocab);
  for (int i = 1; i < 5; i++) {
    float *y = converse(more[i], 0, &t[i], &vocab);
    CU_ASSERT_EQUAL(memcmp(one, y, ALL * vocab * sizeof *y), 0);
    free(y);
  }
  for (uint64_t seed = 1; seed < 5; seed++) {
    float *y = converse(seed & 1 ? "threads: 2\n" : "threads: 1\nchunks_in_flight: 3\n", seed, NULL, &vocab);
    CU_ASSERT_EQUAL(memcmp(one, y, ALL * vocab * sizeof *y), 0);
    free(y);
  }
  free(one);
  for (int i = 0; i < 5; i++) {
    span[i] = t[i].last - t[i].first;
    CU_ASSERT(t[i].n == t[0].n && t[i].npu_ns == t[0].npu_ns && t[i].cpu_ns == t[0].cpu_ns);
    CU_ASSERT(span[i] >= t[0].npu_ns && span[i] >= t[0].cpu_ns);
  }
  /* By hand: wake once; of five pieces and six blocks four launches and weights of q/k/v, o, gate and up, down at 26
   * GB/s. */
  CU_ASSERT_EQUAL(t[0].npu_ns, 1150000 + 30 * (4 * 1500000 + 5041 + 2521 + 13863 + 6932));
  printf("(%.2f, %.2f, %.2f, %.2f ms of %.2f) ", (double)span[0] / 1e6, (double)span[1] / 1e6, (double)span[2] / 1e6,
         (double)span[4] / 1e6, (double)t[0].npu_ns / 1e6);
  CU_ASSERT(span[0] > span[1] && span[1] > span[2] && span[2] > span[4]);
  CU_ASSERT_EQUAL(span[3], span[2]); /* four are always allowed */
}

static int drop(const char *path, const struct stat *info, int flag, struct FTW *at) {
  (void)info, (void)flag, (void)at;
  return remove(path);
}

/* A second start prepares nothing, and computes the same. */
static void kept_graphs(void) {
  static const char *const said[] = {" 24 graphs prepared, 0 kept ones", " 0 graphs prepared, 24 kept ones"};
  char cache[64], more[96];
  int32_t ids[70];
  float *y[2];
  size_t vocab = 0;
  snprintf(cache, sizeof cache, "%s/cache", folder);
  snprintf(more, sizeof more, "cache: {dir: %s}\n", cache);
  ids_of(ids, 70, 40);
  for (int i = 0; i < 2; i++) {
    bench b;
    CU_ASSERT_EQUAL_FATAL(bench_open(&b, profile("chunk: 64", more), 0, 0), TN_OK);
    y[i] = score(&b, ids, 70, &vocab);
    bench_close(&b);
    CU_ASSERT_PTR_NOT_NULL(strstr(counted, said[i]));
  }
  CU_ASSERT_EQUAL(memcmp(y[0], y[1], 70 * vocab * sizeof **y), 0);
  free(y[0]);
  free(y[1]);
  nftw(cache, drop, 8, FTW_DEPTH | FTW_PHYS);
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
  bench b;
  int32_t ids[2][N];
  float *alone[2];
  size_t vocab = 0;
  tn_chat *second = NULL;
  pthread_t thread[2];
  CU_ASSERT_EQUAL_FATAL(bench_open(&b, profile("chunk: 64, hot: 0", ""), 0, 0), TN_OK);
  for (uint32_t i = 0; i < 2; i++) {
    ids_of(ids[i], N, 20 + i);
    alone[i] = score(&b, ids[i], N, &vocab);
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
  bench_close(&b);
}

/* The declared numerics, computed by the host: only the chains may round otherwise. */
static void reference(void) {
  int32_t ids[70];
  float *y[2];
  size_t vocab = 0;
  ids_of(ids, 70, 5);
  for (int i = 0; i < 2; i++) {
    bench b;
    CU_ASSERT_EQUAL_FATAL(bench_open(&b, profile("chunk: 64", ""), i ? TN_MODEL_REFERENCE : 0, 0), TN_OK);
    y[i] = score(&b, ids, 70, &vocab);
    bench_close(&b);
  }
  /* A last bit of a chain may flip a code of the next quantizer: one of 127 and more steps in one of its columns. */
  CU_ASSERT(distance(y[0], y[1], 70 * vocab) <= 1e-3);
  free(y[0]);
  free(y[1]);
}

/* One run of `n` positions over no past, through a session that checks every task. */
static tn_status run_checked(bench *b, tn_session *s, int64_t n) {
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
  bench b;
  tn_session *s = NULL;
  char *text = NULL;
  CU_ASSERT_EQUAL_FATAL(bench_open(&b, profile(options, ""), TN_MODEL_CAPTURE, 0), TN_OK);
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
  bench_close(&b);
}

static void each_task(void) {
  check_tasks("chunk: 64", 24, 0);
  check_tasks("chunk: 64, profile: hmx-2026-fa", 24, 6);
  check_tasks("chunk: 64, shadow: none, ffn: two", 24, 0);
  check_tasks("chunk: 64, shadow: none", 18, 0);
}

/* Without shadow gate, up and down are one graph, with the chain between them on the device: three executions for a
 * block instead of four, and the same bits. */
static void one_ffn(void) {
  static const char *const options[] = {"chunk: 64, shadow: none, ffn: two", "chunk: 64, shadow: none",
                                        "chunk: 64, shadow: pruned, ffn: two", "chunk: 64, shadow: pruned"};
  int32_t ids[100];
  float *y[4];
  uint32_t n[4];
  size_t vocab = 0;
  ids_of(ids, 100, 50);
  for (int i = 0; i < 4; i++) {
    bench b;
    seen s = {.ordered = true};
    CU_ASSERT_EQUAL_FATAL(bench_open(&b, profile(options[i], ""), 0, 0), TN_OK);
    tn_chat_trace(b.chat, on_task, &s);
    y[i] = score(&b, ids, 100, &vocab);
    n[i] = s.npu;
    bench_close(&b);
  }
  for (int i = 0; i < 4; i += 2) CU_ASSERT_EQUAL(memcmp(y[i], y[i + 1], 100 * vocab * sizeof **y), 0);
  CU_ASSERT(n[0] == 2 * 24 && n[1] == 2 * 18 && n[2] == 2 * 24 && n[3] < n[2]);
  for (int i = 0; i < 4; i++) free(y[i]);
}

typedef struct attended {
  uint32_t n, wrong; /* executions of attention; of other durations than the cost model's */
  int64_t first;     /* position of the step that is next */
} attended;

/* Eight heads of 32 over four, six blocks; T: the capacity that a session without buckets runs at. */
static void on_attention(void *user, const tn_trace_event *e) {
  enum { CHUNK = 64, HEADS = 8, SIZE = 32, KV = 4 };
  attended *a = user;
  if (strcmp(e->track, "npu-int8-sim:npu") != 0 || strncmp(e->name, "float ", 6) != 0) return;
  const double T = (double)a->first, M = CHUNK, q = HEADS * SIZE, kv = KV * SIZE;
  const double macs = 2 * M * T * q / 5e12, exps = M * T * HEADS / 8e9;
  const double bytes = 4 * M * (q + 2 * kv) + 9 * M * q + 4 * (M + T) * kv;
  const int64_t ns = 35000 + (int64_t)(1e9 * ((macs > exps ? macs : exps) + bytes / 50e9) + 0.5);
  a->n++;
  a->wrong += e->end - e->start != ns;
}

/* Float attention on the device, over caches that the CPU writes and the decode plugin reads: nothing is copied. */
static void attention(void) {
  enum { N = 200 };
  static const char *const options[] = {"chunk: 64", "chunk: 64, profile: hmx-2026-fa",
                                        "chunk: 64, profile: hmx-2026-fa"};
  static const char *const more[] = {"", "", "chunks_in_flight: 1\n"};
  int32_t ids[N + 8];
  float *y[3];
  size_t vocab = 0;
  ids_of(ids, N + 8, 60);
  for (int i = 0; i < 3; i++) {
    bench b;
    attended a = {.first = 2048 - 1 + 64};
    const float *l;
    size_t rows;
    CU_ASSERT_EQUAL_FATAL(bench_open(&b, profile(options[i], more[i]), 0, 0), TN_OK);
    tn_chat_trace(b.chat, on_attention, &a);
    y[i] = score(&b, ids, N, &vocab);
    CU_ASSERT(i ? a.n == 6 * 4 && a.wrong == 0 : a.n == 0);
    float *grown = realloc(y[i], (N + 8) * vocab * sizeof **y);
    if (!grown) abort();
    y[i] = grown;
    for (int k = 0; k < 8; k++) { /* decode, one by one */
      CU_ASSERT_EQUAL_FATAL(tn_chat_score(b.chat, ids + N + k, 1, &l, &rows, &vocab, &b.err), TN_OK);
      memcpy(y[i] + (N + (size_t)k) * vocab, l, vocab * sizeof **y);
    }
    bench_close(&b);
    CU_ASSERT_PTR_NOT_NULL(strstr(counted, ", 0 bytes copied,"));
  }
  CU_ASSERT(distance(y[0], y[1], (N + 8) * vocab) <=
            2e-2); /* a last bit may flip a code of what follows; each task by itself: check_tasks */
  CU_ASSERT_EQUAL(memcmp(y[1], y[2], (N + 8) * vocab * sizeof **y), 0);
  printf("(%.1e) ", distance(y[0], y[1], (N + 8) * vocab));
  for (int i = 0; i < 3; i++) free(y[i]);
}

/* What the shadow is for: with it the model is nearer to f32 than without. */
static void quality(void) {
  static const char *const options[] = {"shadow: all", "shadow: pruned", "shadow: none"};
  int32_t ids[256];
  size_t vocab = 0;
  double off[3];
  bench host;
  ids_of(ids, 256, 6);
  CU_ASSERT_EQUAL_FATAL(bench_open(&host, "plugins: [host]\n", 0, 0), TN_OK);
  float *f32 = score(&host, ids, 256, &vocab);
  for (int i = 0; i < 3; i++) {
    bench b;
    CU_ASSERT_EQUAL_FATAL(bench_open(&b, profile(options[i], ""), 0, 0), TN_OK);
    float *y = score(&b, ids, 256, &vocab);
    double d = 0;
    for (size_t k = 0; k < 256 * vocab; k++) d += ((double)y[k] - (double)f32[k]) * ((double)y[k] - (double)f32[k]);
    off[i] = sqrt(d / (double)(256 * vocab));
    free(y);
    bench_close(&b);
  }
  printf("(rms of logits %.4f, %.4f, %.4f) ", off[0], off[1], off[2]);
  CU_ASSERT(off[0] < off[1] && off[1] < off[2]);
  free(f32);
  bench_close(&host);
}

/* A window that is too small for all takes the largest products; the others run on the CPU. */
static void window(void) {
  static const char *const options[] = {"chunk: 64", "chunk: 64, window_mib: 4", "chunk: 64, window_mib: 1"};
  int32_t ids[100];
  size_t vocab;
  uint32_t n[3];
  ids_of(ids, 100, 8);
  for (int i = 0; i < 3; i++) {
    bench b;
    seen s = {.ordered = true};
    CU_ASSERT_EQUAL_FATAL(bench_open(&b, profile(options[i], ""), 0, 0), TN_OK);
    tn_chat_trace(b.chat, on_task, &s);
    free(score(&b, ids, 100, &vocab));
    n[i] = s.npu;
    bench_close(&b);
  }
  printf("(%u, %u, %u executions) ", n[0], n[1], n[2]);
  CU_ASSERT(n[0] > n[1] && n[1] > 0 && n[2] == 0);
}

/* A device that is lost or hangs, or memory that cannot be had, is a status, and the process goes on. */
static void faults(void) {
  static const struct {
    const char *options;
    tn_status load, run;
  } cases[] = {{"chunk: 64, fault: 'lost:30'", TN_OK, TN_E_DEVICE_LOST},
               {"chunk: 64, fault: 'graph:5'", TN_OK, TN_E_NO_MEMORY},
               {"chunk: 64, fault: 'alloc:3'", TN_E_NO_MEMORY, TN_OK}};
  int32_t ids[200];
  ids_of(ids, 200, 7);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    bench b;
    const float *logits;
    size_t rows, vocab;
    tn_status st = bench_open(&b, profile(cases[i].options, ""), 0, 0);
    if (st == TN_OK) st = tn_chat_score(b.chat, ids, 200, &logits, &rows, &vocab, &b.err);
    CU_ASSERT(st == cases[i].run || st == cases[i].load);
    CU_ASSERT(st != TN_OK && b.err.message[0]);
    if (st != cases[i].run && st != cases[i].load)
      printf("\n    case %zu: %d %s: %s", i, st, b.err.where, b.err.message);
    bench_close(&b);
  }
}

int main(int argc, char **argv) {
  const char *source = getenv("TENON_TEST_SOURCE");
  for (int i = 1; i < argc && n_dirs < MAX_DIRS; i++) dirs[n_dirs++] = argv[i];
  snprintf(model, sizeof model, "%s/models/demo", source ? source : ".");
  if (!n_dirs || !mkdtemp(folder)) return 2;
  CU_TestInfo tests[] = {{"chunks", chunks},
                         {"no empty chunk", no_empty_chunk},
                         {"virtual time", virtual_time},
                         {"any order", any_order},
                         {"in flight", in_flight},
                         {"kept graphs", kept_graphs},
                         {"two sessions", two_sessions},
                         {"reference", reference},
                         {"each task", each_task},
                         {"one ffn", one_ffn},
                         {"attention", attention},
                         {"quality", quality},
                         {"window", window},
                         {"faults", faults},
                         CU_TEST_INFO_NULL};
  CU_SuiteInfo suites[] = {{"demo model on the NPU", calibrate, clean, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
  if (CU_initialize_registry() != CUE_SUCCESS || CU_register_suites(suites) != CUE_SUCCESS) return 1;
  CU_basic_set_mode(CU_BRM_VERBOSE);
  CU_basic_run_tests();
  const unsigned failures = CU_get_number_of_failures();
  CU_cleanup_registry();
  return failures != 0;
}
