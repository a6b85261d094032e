/* SPDX-License-Identifier: Apache-2.0
 *
 * Plugins of the corpus (tests/faults/corpus) that crash or hang in one of their calls: in a process of their own they
 * do that alone, and what they should have done the host does.
 */
#include "isolate_test.h"

#include <unistd.h>

#include "tests/onnx/wire.h"

wbuf text_model(const char *nodes, const char *inputs, const char *outputs, const char *wdims, const float *w,
                size_t n_w);

enum { ROWS = 5, WIDTH = 8, RUNS = 3 };

static float weight(int k, int n) { return (float)((k * 5 + n * 3) % 7 - 3); }
static float input(int m, int k) { return (float)((m * 3 + k * 2) % 5 - 2); }

/* x * w * w + x in small whole numbers: exact in any order. */
static void expected(float want[ROWS * WIDTH]) {
  for (int i = 0; i < ROWS * WIDTH; i++) {
    want[i] = input(i / WIDTH, i % WIDTH);
    for (int k = 0; k < WIDTH; k++)
      for (int j = 0; j < WIDTH; j++) want[i] += input(i / WIDTH, k) * weight(k, j) * weight(j, i % WIDTH);
  }
}

static bool write_model(const lab *l, char *path, size_t n) {
  float w[WIDTH * WIDTH];
  for (int i = 0; i < WIDTH * WIDTH; i++) w[i] = weight(i / WIDTH, i % WIDTH);
  wbuf m = text_model("MatMul:mm:x,w:h;MatMul:nn:h,w:g;Add:add:g,x:y", "x=n,8", "y=n,8", "8,8", w, WIDTH * WIDTH);
  snprintf(path, n, "%s/model.onnx", l->dir);
  FILE *f = fopen(path, "wb");
  const bool ok = f && fwrite(m.p, 1, m.n, f) == m.n;
  wb_free(&m);
  return f && fclose(f) == 0 && ok;
}

static tn_status runs(lab *l, tn_model *m, const float want[ROWS * WIDTH], bool *right) {
  float x[ROWS * WIDTH];
  tn_session *s = NULL;
  for (int i = 0; i < ROWS * WIDTH; i++) x[i] = input(i / WIDTH, i % WIDTH);
  const tn_tensor in = {.h = {sizeof in, 1, 0},
                        .name = "x",
                        .dtype = TN_DT_F32,
                        .rank = 2,
                        .dims = {ROWS, WIDTH},
                        .data = x,
                        .bytes = sizeof x};
  const tn_tensor *list[1] = {&in};
  tn_status st = tn_session_create(m, &s, &l->err);
  *right = true;
  for (int i = 0; st == TN_OK && i < RUNS; i++) {
    tn_tensor out = {.h = {sizeof out, 1, 0}};
    st = tn_session_run(s, TN_PHASE_ANY, list, 1, &out, 1, &l->err);
    *right = *right && st == TN_OK && out.bytes == sizeof x && memcmp(out.data, want, sizeof x) == 0;
  }
  tn_session_destroy(s);
  return st;
}

/* Opened, loaded and run three times. *child: its process at the end. */
static tn_status try_it(const char *profile, lab *l, bool *right, const char *name, int *child) {
  const char *const dirs[] = {getenv("TENON_FAULT_CORPUS"), NULL};
  float want[ROWS * WIDTH];
  char path[128];
  tn_model *m = NULL;
  *right = false;
  expected(want);
  tn_status st = lab_open(l, profile, dirs, NULL);
  if (st == TN_OK && !write_model(l, path, sizeof path)) st = TN_E_IO;
  if (st == TN_OK) st = tn_model_load(l->rt, path, NULL, &m, &l->err);
  if (st == TN_OK) st = runs(l, m, want, right);
  tn_model_destroy(m);
  *child = st == TN_OK ? lab_child(l, name) : 0;
  return st;
}

static void test_corpus(void) {
  /* Where it ends; and whether that is seen while it is in use, so that it counts as lost. */
  static const struct {
    const char *name;
    bool in_use;
  } kinds[] = {
      {"constructor-crash", false}, {"entry-illegal", false},  {"enumerate-abort", false},   {"open-exit", false},
      {"claim-crash", true},        {"claim-hang", true},      {"lower-crash", true},        {"lower-hang", true},
      {"bind-crash", true},         {"bind-hang", true},       {"run-crash", true},          {"run-abort", true},
      {"run-exit", true},           {"run-illegal", true},     {"run-stack-overflow", true}, {"run-second-crash", true},
      {"run-hang", true},           {"run-far-overrun", true}, {"shutdown-crash", false}};
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
    char profile[256];
    const char *line = NULL;
    bool right;
    int child;
    lab l;
    /* Only a hang is waited for. */
    snprintf(profile, sizeof profile,
             "isolation: process\ntimeout_ms: %d\nplugins:\n  - name: %s\n    optional: true\n  - host\n",
             strstr(kinds[i].name, "hang") ? 2000 : 30000, kinds[i].name);
    const tn_status st = try_it(profile, &l, &right, kinds[i].name, &child);
    const uint32_t lost = l.rt ? tn_runtime_losses(l.rt, &line) : 0;
    right = right && st == TN_OK && (lost != 0) == kinds[i].in_use && (!lost || strstr(line, kinds[i].name)) &&
            (!kinds[i].in_use || !child);
    if (!right) printf("\n    %s: %d %s; lost %u: %s", kinds[i].name, st, l.err.message, lost, line ? line : "");
    CU_ASSERT(right);
    lab_close(&l);
  }
}

/* One that behaves computes in its process. */
static void test_good(void) {
  lab l;
  bool right;
  int child;
  CU_ASSERT_EQUAL(try_it("isolation: process\nplugins: [good, host]\nrequire: [good]\n", &l, &right, "good", &child),
                  TN_OK);
  CU_ASSERT(right && child);
  lab_close(&l);
}

void suite_crash(void) {
  CU_pSuite s = CU_add_suite("isolate: crashes in calls", NULL, NULL);
  CU_add_test(s, "one that behaves", test_good);
  CU_add_test(s, "crashes and hangs", test_corpus);
}
