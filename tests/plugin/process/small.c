/* SPDX-License-Identifier: Apache-2.0
 *
 * A small model that plugins of the corpus take: x * w * w + x in small whole numbers, exact in any order.
 */
#include "isolate_test.h"

#include <unistd.h>

#include "tests/kit/rig.h"

enum { ROWS = 5, WIDTH = 8, RUNS = 3 };

static int salt; /* other weights are packed again */

static float weight(int k, int n) { return (float)((k * 5 + n * 3 + salt) % 7 - 3) + (float)(salt / 7); }
static float input(int m, int k) { return (float)((m * 3 + k * 2) % 5 - 2); }

static void expected(float want[ROWS * WIDTH]) {
  for (int i = 0; i < ROWS * WIDTH; i++) {
    want[i] = input(i / WIDTH, i % WIDTH);
    for (int k = 0; k < WIDTH; k++)
      for (int j = 0; j < WIDTH; j++) want[i] += input(i / WIDTH, k) * weight(k, j) * weight(j, i % WIDTH);
  }
}

bool lab_model(const lab *l, wbuf *m, char *path, size_t n) {
  snprintf(path, n, "%s/model.onnx", l->dir);
  FILE *f = fopen(path, "wb");
  const bool ok = f && fwrite(m->p, 1, m->n, f) == m->n;
  wb_free(m);
  return f && fclose(f) == 0 && ok;
}

bool small_model(const lab *l, char *path, size_t n) {
  float w[WIDTH * WIDTH];
  for (int i = 0; i < WIDTH * WIDTH; i++) w[i] = weight(i / WIDTH, i % WIDTH);
  wbuf m = text_model("MatMul:mm:x,w:h;MatMul:nn:h,w:g;Add:add:g,x:y", "x=n,8", "y=n,8", "8,8", w, WIDTH * WIDTH);
  return lab_model(l, &m, path, n);
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

tn_status small_try(const small_case *k, lab *l, bool *right, int *child) {
  const char *const dirs[] = {getenv("TENON_FAULT_CORPUS"), getenv("TENON_TEST_WALLS"), NULL};
  float want[ROWS * WIDTH];
  char path[128];
  tn_model *m = NULL;
  *right = false;
  salt = k->salt;
  expected(want);
  tn_status st = lab_open(l, k->profile, dirs, k->helper);
  if (st == TN_OK && !small_model(l, path, sizeof path)) st = TN_E_IO;
  if (st == TN_OK) st = tn_model_load(l->rt, path, NULL, &m, &l->err);
  if (st == TN_OK) st = runs(l, m, want, right);
  tn_model_destroy(m);
  *child = st == TN_OK ? lab_child(l, k->plugin) : 0;
  return st;
}
