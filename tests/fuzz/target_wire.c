/* SPDX-License-Identifier: Apache-2.0
 *
 * The wire of an isolated plugin from the child's side, with the whole host behind it: a runtime, a model of a product
 * and a sum, a session and two runs, while wire_child.c answers as the input says. First byte: which plugin it plays.
 *
 * A finding is, beside what a sanitizer sees: a status without a message, an end that does not come, a descriptor,
 * thread or process that is left; and with an empty script, anything but a plugin that works.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/fuzz/engine.h"
#include "tests/kit/proc.h"
#include "tests/onnx/wire.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

wbuf text_model(const char *nodes, const char *inputs, const char *outputs, const char *wdims, const float *w,
                size_t n_w);

enum { WIDTH = 8, ROWS = 3 };

static const struct { const char *name, *folder; } played[] = {{"good", WIRE_CORPUS}, {"fake-engine", WIRE_ENGINE}};
enum { PLAYED = sizeof played / sizeof *played };

static void in_folder(char path[512], const char *name) { snprintf(path, 512, "%s/%s", fz_folder(), name); }

static void write_model(void) {
  float w[WIDTH * WIDTH];
  char path[512];
  for (int i = 0; i < WIDTH * WIDTH; i++) w[i] = (float)(i % 5 - 2);
  wbuf m = text_model("MatMul:mm:x,w:h;Add:add:h,x:y", "x=n,8", "y=n,8", "8,8", w, WIDTH * WIDTH);
  fz_write("model.onnx", m.p, m.n, path);
  wb_free(&m);
}

static tn_status run_model(tn_runtime *rt, tn_error *err) {
  float x[ROWS * WIDTH] = {1, 2, 3};
  char path[512];
  tn_model *m = NULL;
  tn_session *s = NULL;
  const tn_tensor in = {.h = {sizeof in, 1, 0},
                        .name = "x",
                        .dtype = TN_DT_F32,
                        .rank = 2,
                        .dims = {ROWS, WIDTH},
                        .data = x,
                        .bytes = sizeof x};
  const tn_tensor *list[1] = {&in};
  in_folder(path, "model.onnx");
  tn_status st = tn_model_load(rt, path, NULL, &m, err);
  if (st == TN_OK) st = tn_session_create(m, &s, err);
  for (int i = 0; st == TN_OK && i < 2; i++) {
    tn_tensor out = {.h = {sizeof out, 1, 0}};
    st = tn_session_run(s, TN_PHASE_ANY, list, 1, &out, 1, err);
  }
  tn_session_destroy(s);
  tn_model_destroy(m);
  return st;
}

/* *lost: the plugin is not in use at the end. */
static tn_status host(uint32_t which, int timeout_ms, bool *lost, tn_error *err) {
  char profile[512], text[256];
  snprintf(text, sizeof text,
           "isolation: process\ntimeout_ms: %d\nplugins:\n  - name: %s\n    optional: true\n  - host\n", timeout_ms,
           played[which].name);
  fz_write("host.yaml", text, strlen(text), profile);
  const tn_runtime_opts o = {.h = {sizeof o, 1, 0},
                             .profile = profile,
                             .plugin_dirs = &played[which].folder,
                             .n_plugin_dirs = 1,
                             .threads = 1,
                             .helper = WIRE_CHILD,
                             .flags = TN_RT_TEST_WRITABLE | TN_RT_NO_PROBE};
  tn_runtime *rt = NULL;
  tn_status st = tn_runtime_create(&o, &rt, err);
  if (st == TN_OK) st = run_model(rt, err);
  char *report = NULL;
  if (rt && tn_runtime_report(rt, &report, NULL) == TN_OK)
    *lost = tn_runtime_losses(rt, NULL) > 0 || strstr(report, "reason_code") != NULL;
  tn_free(report);
  tn_runtime_destroy(rt);
  return st;
}

static void answers_path(uint32_t which, char path[512]) {
  char name[64];
  snprintf(name, sizeof name, "answers-%u", which);
  in_folder(path, name);
}

/* The true helper once, for what it answers; then those answers as they are. */
static void prepare(void) {
  write_model();
  for (uint32_t i = 0; i < PLAYED; i++) {
    char path[512];
    tn_error err;
    bool lost = true;
    tn_error_init(&err);
    answers_path(i, path);
    setenv("TENON_WIRE_RECORD", path, 1);
    unsetenv("TENON_WIRE_SCRIPT");
    if (host(i, 30000, &lost, &err) != TN_OK || lost) fz_finding("%s does not work: %s", played[i].name, err.message);
    unsetenv("TENON_WIRE_RECORD");
  }
}

static void remove_answers(void) {
  char path[512];
  for (uint32_t i = 0; i < PLAYED; i++) {
    answers_path(i, path);
    (void)unlink(path);
  }
}

static void check_left(void) {
  static int files, threads;
  int f = kit_count_entries("/proc/self/fd"), t = kit_count_entries("/proc/self/task");
  for (int turn = 0; files && t > threads && turn < 100; turn++) { /* one that was joined may be listed for a moment */
    usleep(1000);
    t = kit_count_entries("/proc/self/task");
  }
  if (!files) files = f, threads = t;
  if (f > files || t > threads) fz_finding("descriptors %d, now %d; threads %d, now %d", files, f, threads, t);
  if (waitpid(-1, NULL, WNOHANG) >= 0) fz_finding("a process is left");
}

static void play(uint32_t which, const uint8_t *p, size_t n) {
  char path[512];
  tn_error err;
  bool lost = false;
  tn_error_init(&err);
  answers_path(which, path);
  setenv("TENON_WIRE_ANSWERS", path, 1);
  fz_write("file", p, n, path);
  setenv("TENON_WIRE_SCRIPT", path, 1);
  fz_clock_start(NULL, NULL);
  const tn_status st = host(which, n ? 200 : 20000, &lost, &err);
  fz_clock_stop();
  if (st != TN_OK && !*err.message) fz_finding("status %d without a message", st);
  if (!n && (st != TN_OK || lost)) fz_finding("%s, played as it is: %d %s", played[which].name, st, err.message);
  check_left();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n) {
  static bool ready;
  if (!ready) {
    prepare();
    (void)atexit(remove_answers);
    for (uint32_t i = 0; i < PLAYED; i++) play(i, NULL, 0);
  }
  ready = true;
  if (n) play(data[0] % PLAYED, data + 1, n - 1);
  return 0;
}
