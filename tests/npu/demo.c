/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/npu/demo.h"

#include <CUnit/Basic.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PROMPT = 1000, MAX_DIRS = 4 };

static const char *dirs[MAX_DIRS];
static uint32_t n_dirs;
static char model[1024], calib[128];
char demo_folder[] = "/tmp/npu-demo-XXXXXX";
char demo_counted[256];

bool demo_start(int argc, char **argv) {
  const char *source = getenv("TENON_TEST_SOURCE");
  for (int i = 1; i < argc && n_dirs < MAX_DIRS; i++) dirs[n_dirs++] = argv[i];
  snprintf(model, sizeof model, "%s/models/demo", source ? source : ".");
  return n_dirs && mkdtemp(demo_folder);
}

static void log_line(void *user, uint32_t level, const char *line) {
  (void)user;
  if (strstr(line, " graphs prepared, ")) snprintf(demo_counted, sizeof demo_counted, "%s", line);
  if (level == TN_LOG_ERROR) printf("%s\n", line);
}

tn_status demo_open(demo *b, const char *text, uint32_t flags, uint64_t seed) {
  static int count;
  memset(b, 0, sizeof *b);
  snprintf(b->profile, sizeof b->profile, "%s/p%d.yaml", demo_folder, count++);
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
                             .flags = TN_RT_TEST_WRITABLE | TN_RT_NO_PROBE};
  const tn_lm_opts lo = {.h = {sizeof lo, 1, 0}, .model_flags = flags, .order_seed = seed};
  tn_status st = tn_runtime_create(&o, &b->rt, &b->err);
  if (st == TN_OK) st = tn_lm_load(b->rt, model, &lo, &b->lm, &b->err);
  if (st == TN_OK) st = tn_chat_create(b->lm, &b->chat, &b->err);
  if (st != TN_OK) printf("\n    %s: %s", b->err.where, b->err.message);
  return st;
}

void demo_close(demo *b) {
  tn_chat_destroy(b->chat);
  tn_lm_destroy(b->lm);
  tn_runtime_destroy(b->rt);
  if (b->profile[0]) unlink(b->profile);
}

void demo_ids(int32_t *ids, size_t n, uint32_t seed) {
  for (size_t i = 0; i < n; i++) {
    seed = seed * 1664525 + 1013904223;
    ids[i] = (int32_t)(3 + seed / 65536 % 900);
  }
}

float *demo_score(demo *b, const int32_t *ids, size_t n, size_t *vocab) {
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

double demo_distance(const float *a, const float *b, size_t n) {
  double top = 0, diff = 0;
  for (size_t i = 0; i < n; i++) {
    top = fmax(top, fabs((double)a[i]));
    diff = fmax(diff, fabs((double)a[i] - (double)b[i]));
  }
  return diff / top;
}

int demo_calibrate(void) {
  demo b;
  int32_t ids[PROMPT];
  const float *logits;
  size_t rows, vocab;
  snprintf(calib, sizeof calib, "%s/demo.calib.yaml", demo_folder);
  demo_ids(ids, PROMPT, 1);
  tn_status st = demo_open(&b, "plugins: [host]\n", TN_MODEL_CALIBRATE, 0);
  for (int pass = 1; st == TN_OK && pass <= 2; pass++) {
    if (pass == 2) st = tn_model_calibration_next(tn_lm_model(b.lm), &b.err);
    tn_chat_reset(b.chat);
    if (st == TN_OK) st = tn_chat_score(b.chat, ids, PROMPT, &logits, &rows, &vocab, &b.err);
  }
  const tn_calibration_text what = {.h = {sizeof what, 1, 0}, .name = "ids by a rule"};
  if (st == TN_OK) st = tn_model_calibration_save(tn_lm_model(b.lm), &what, calib, &b.err);
  if (st != TN_OK) printf("\n    %s: %s", b.err.where, b.err.message);
  demo_close(&b);
  return st != TN_OK;
}

int demo_clean(void) {
  unlink(calib);
  return rmdir(demo_folder);
}

const char *demo_profile(const char *options, const char *more) {
  static char text[1024];
  snprintf(
      text, sizeof text,
      "plugins:\n  - {name: npu-int8-sim, options: {%s}}\n  - host\nphases: {prefill: [npu-int8-sim, host], decode: "
      "[host]}\ncalibration: %s\n%s",
      options, calib, more);
  return text;
}

void demo_on_task(void *user, const tn_trace_event *e) {
  demo_seen *s = user;
  if (strcmp(e->track, "npu-int8-sim:npu") != 0) return;
  s->npu++;
  s->virtual_clock += e->clock != 0;
  s->named += strncmp(e->name, "int8 ", 5) == 0;
  s->ordered = s->ordered && e->start >= s->end && e->end > e->start;
  s->end = e->end;
  s->bytes += e->bytes;
}
