/* SPDX-License-Identifier: Apache-2.0 */
#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "host.h"
#include "tests/kit/rig.h"

enum { ROWS = 2, WIDTH = 8, RUNS = 3 };

static float weight(int k, int n) { return (float)((k * 3 + n * 5) % 7 - 3); }
static float input(int m, int k) { return (float)((m * 5 + k) % 4 - 1); }

static bool put(const char *folder, const char *name, const void *data, size_t n) {
  char path[600];
  snprintf(path, sizeof path, "%s/%s", folder, name);
  FILE *f = fopen(path, "wb");
  const bool ok = f && fwrite(data, 1, n, f) == n;
  return f && fclose(f) == 0 && ok;
}

bool write_model(const places *p) {
  float w[WIDTH * WIDTH];
  for (int k = 0; k < WIDTH; k++)
    for (int n = 0; n < WIDTH; n++) w[k * WIDTH + n] = weight(k, n);
  wbuf m = text_model("MatMul:mm:x,w:h;MatMul:nn:h,w:g;Add:add:g,x:y", "x=n,8", "y=n,8", "8,8", w, WIDTH * WIDTH);
  const bool ok = put(p->work, "model.onnx", m.p, m.n);
  wb_free(&m);
  return ok;
}

/* Only what hangs is waited for; nothing else may fail because the machine is slow. */
static int patience_ms(const kind *k) {
  const bool waits = strstr(k->name, "hang") || strcmp(k->name, "engine-never") == 0;
  return waits ? 1500 : 30000;
}

static bool write_profile(const places *p, const kind *k, protection by) {
  static const char *const how[] = {"inprocess", "isolated", "inprocess", "inprocess", "inprocess"};
  const int ms = patience_ms(k);
  char text[512];
  const int n = snprintf(text, sizeof text,
                         "plugins:\n  - {name: %s, probe: %s%s%s%s%s}\n  - host\nthreads: 1\ntimeout_ms: %d\n"
                         "probe_timeout_ms: %d\n",
                         k->plugin ? k->plugin : k->name, how[by], by == BY_PROCESS ? ", isolation: process" : "",
                         k->options ? ", options: {" : "", k->options ? k->options : "", k->options ? "}" : "", ms, ms);
  return n > 0 && put(p->work, "profile.yaml", text, (size_t)n);
}

static void say(outcome *o, const char *stage, tn_status st, const tn_error *err) {
  o->stage = stage;
  o->status = st;
  snprintf(o->message, sizeof o->message, "%s", err->message);
}

/* Whether the plugin took a node, and why not, where it says more than that the node is not its business. */
static void read_refusals(tn_model *m, const char *plugin, outcome *o) {
  char *text = NULL;
  tn_error err;
  tn_error_init(&err);
  if (tn_model_report(m, TN_REPORT_CHECK, &text, &err) != TN_OK) return;
  json_t *j = json_loads(text, 0, NULL), *node;
  size_t i;
  json_array_foreach(json_object_get(j, "nodes"), i, node) {
    const char *device = json_string_value(json_object_get(node, "device"));
    o->taken = o->taken || (device && strcmp(device, plugin) == 0);
    json_t *why = json_object_get(json_object_get(node, "refusals"), plugin);
    const char *said = json_string_value(json_object_get(why, "text"));
    if (!said || strstr(said, "only f32 products") || strstr(said, "fake-engine adds")) continue;
    if (o->message[0]) break; /* the log has said it better */
    o->stage = "claim";
    snprintf(o->message, sizeof o->message, "%s", said);
  }
  json_decref(j);
  tn_free(text);
}

static bool run_once(tn_session *s, tn_error *err, tn_status *st) {
  float x[ROWS * WIDTH];
  for (int i = 0; i < ROWS * WIDTH; i++) x[i] = input(i / WIDTH, i % WIDTH);
  const tn_tensor in = f32_tensor("x", x, 2, ROWS, WIDTH, 0), *list[] = {&in};
  tn_tensor out = {.h = {sizeof out, 1, 0}};
  *st = tn_session_run(s, TN_PHASE_ANY, list, 1, &out, 1, err);
  if (*st != TN_OK || out.bytes != sizeof x) return false;
  for (int i = 0; i < ROWS * WIDTH; i++) {
    float want = x[i]; /* small whole numbers: exact in any order */
    for (int k = 0; k < WIDTH; k++)
      for (int j = 0; j < WIDTH; j++) want += input(i / WIDTH, k) * weight(k, j) * weight(j, i % WIDTH);
    if (((const float *)out.data)[i] != want) return false;
  }
  return true;
}

static void on_log(void *user, uint32_t level, const char *line) {
  outcome *o = user;
  if (level > TN_LOG_WARN || o->message[0]) return;
  o->stage = "log";
  snprintf(o->message, sizeof o->message, "%s", line);
}

static void try_model(tn_runtime *rt, const places *p, const kind *k, outcome *o) {
  char path[600];
  tn_model *m = NULL;
  tn_session *s = NULL;
  tn_error err;
  tn_error_init(&err);
  snprintf(path, sizeof path, "%s/model.onnx", p->work);
  tn_status st = tn_model_load(rt, path, NULL, &m, &err);
  if (st == TN_OK) read_refusals(m, k->plugin ? k->plugin : k->name, o);
  if (st == TN_OK) st = tn_session_create(m, &s, &err);
  if (st != TN_OK) say(o, "load", st, &err);
  o->right = st == TN_OK;
  for (int i = 0; st == TN_OK && i < RUNS; i++) {
    o->right = run_once(s, &err, &st) && o->right;
    if (st != TN_OK) say(o, "run", st, &err);
  }
  tn_session_destroy(s);
  tn_model_destroy(m);
}

void try_kind(const places *p, const kind *k, protection by, outcome *o) {
  char profile[600], cache[600];
  const char *const dirs[] = {p->plugins, p->engine};
  struct timespec a, b;
  memset(o, 0, sizeof *o);
  o->stage = "none";
  tn_error err;
  tn_error_init(&err);
  snprintf(profile, sizeof profile, "%s/profile.yaml", p->work);
  snprintf(cache, sizeof cache, "%s/cache", p->work);
  if (!write_profile(p, k, by)) abort();
  tn_runtime_opts ro = {.h = {sizeof ro, 1, 0},
                        .profile = profile,
                        .plugin_dirs = dirs,
                        .n_plugin_dirs = 2,
                        .cache_dir = cache,
                        .log_level = TN_LOG_WARN,
                        .log = on_log,
                        .log_user = o,
                        .flags = TN_RT_TEST_WRITABLE | TN_RT_NO_PROBE,
                        .helper = p->helper};
  clock_gettime(CLOCK_MONOTONIC, &a);
  tn_runtime *rt = NULL;
  const tn_status st = tn_runtime_create(&ro, &rt, &err);
  if (st != TN_OK)
    say(o, protection_name(by), st, &err);
  else
    try_model(rt, p, k, o);
  tn_runtime_destroy(rt);
  clock_gettime(CLOCK_MONOTONIC, &b);
  o->ms = (double)(b.tv_sec - a.tv_sec) * 1e3 + (double)(b.tv_nsec - a.tv_nsec) / 1e6;
}
