/* SPDX-License-Identifier: Apache-2.0
 *
 * One run of a model for every line on standard input, for who compares with others in turns.
 *
 *   infer MODEL PROFILE PLUGIN_DIR NAME=D,D,...
 *
 * Every input by name with its dims: integers are 1, element i of floats is (i * 7 % 19) / 19 - 0.5. Prints "NS SUM"
 * per run: wall time, and the sum of all elements of the first output.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>

#include "runtime/base/clock.h"

enum { MOST = 8 };

static void die(const char *what, const tn_error *e) {
  fprintf(stderr, "infer: %s: %s%s%s\n", what, e ? e->where : "", e && *e->where ? ": " : "", e ? e->message : "");
  exit(1);
}

static const tn_io_info *input_named(const tn_model *m, const char *name, size_t n) {
  for (uint32_t i = 0; i < tn_model_n_inputs(m); i++) {
    const tn_io_info *x = tn_model_input(m, i);
    if (strlen(x->name) == n && memcmp(x->name, name, n) == 0) return x;
  }
  die("no such input", NULL);
  return NULL;
}

/* "NAME=D,D,...": floats and 64-bit integers only. */
static tn_tensor make_input(const tn_model *m, const char *text) {
  const char *eq = strchr(text, '=');
  if (!eq) die("NAME=D,D,...", NULL);
  const tn_io_info *x = input_named(m, text, (size_t)(eq - text));
  tn_tensor t = {.h = {sizeof t, 1, 0}, .name = x->name, .dtype = x->dtype};
  size_t n = 1;
  for (const char *p = eq; *p && t.rank < TN_MAX_RANK; p = strchr(p + 1, ',') ? strchr(p + 1, ',') : "") {
    t.dims[t.rank] = atoll(p + 1);
    n *= (size_t)t.dims[t.rank++];
  }
  const bool whole = x->dtype == TN_DT_I64;
  if (!whole && x->dtype != TN_DT_F32) die("only float and int64 inputs", NULL);
  t.bytes = n * (whole ? 8 : 4);
  t.data = malloc(t.bytes ? t.bytes : 1);
  if (!t.data) die("memory", NULL);
  for (size_t i = 0; i < n; i++)
    if (whole)
      ((int64_t *)(uintptr_t)t.data)[i] = 1;
    else
      ((float *)(uintptr_t)t.data)[i] = (float)(i * 7 % 19) / 19.f - 0.5f;
  return t;
}

static double sum_of(const tn_tensor *t) {
  double s = 0;
  for (uint64_t i = 0; t->dtype == TN_DT_F32 && i < t->bytes / 4; i++) s += ((const float *)t->data)[i];
  return s;
}

int main(int argc, char **argv) {
  if (argc < 5 || argc - 4 > MOST) {
    fprintf(stderr, "usage: infer MODEL PROFILE PLUGIN_DIR NAME=D,D,... ...\n");
    return 2;
  }
  const char *dirs[] = {argv[3]};
  const tn_runtime_opts o = {.h = {sizeof o, 1, 0},
                             .profile = argv[2],
                             .plugin_dirs = dirs,
                             .n_plugin_dirs = 1,
                             .cache_dir = getenv("TENON_CACHE_DIR"),
                             .flags = TN_RT_TEST_WRITABLE | TN_RT_NO_PROBE};
  tn_runtime *rt;
  tn_model *m;
  tn_session *s;
  tn_error err;
  tn_error_init(&err);
  if (tn_runtime_create(&o, &rt, &err) != TN_OK) die("runtime", &err);
  if (tn_model_load(rt, argv[1], NULL, &m, &err) != TN_OK) die("model", &err);
  if (tn_session_create(m, &s, &err) != TN_OK) die("session", &err);
  tn_tensor in[MOST], out[1];
  const tn_tensor *const all[MOST] = {&in[0], &in[1], &in[2], &in[3], &in[4], &in[5], &in[6], &in[7]};
  const uint32_t n = (uint32_t)(argc - 4);
  for (uint32_t i = 0; i < n; i++) in[i] = make_input(m, argv[4 + i]);
  for (char line[16]; fgets(line, sizeof line, stdin);) {
    out[0] = (tn_tensor){.h = {sizeof *out, 1, 0}, .name = tn_model_output(m, 0)->name};
    const int64_t t0 = tni_now_ns();
    if (tn_session_run(s, TN_PHASE_PREFILL, all, n, out, 1, &err) != TN_OK) die("run", &err);
    printf("%lld %.9g\n", (long long)(tni_now_ns() - t0), sum_of(&out[0]));
    fflush(stdout);
  }
  for (uint32_t i = 0; i < n; i++) free((void *)(uintptr_t)in[i].data);
  tn_session_destroy(s);
  tn_model_destroy(m);
  tn_runtime_destroy(rt);
  return 0;
}
