/* SPDX-License-Identifier: Apache-2.0 */
#include <ftw.h>
#include <pthread.h>
#include <unistd.h>

#include "rig.h"

/* From any thread. */
static void on_log(void *user, uint32_t level, const char *line) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  rig *r = user;
  (void)level;
  pthread_mutex_lock(&lock);
  size_t n = strlen(r->log);
  snprintf(r->log + n, sizeof r->log - n, "%s\n", line);
  pthread_mutex_unlock(&lock);
}

static bool write_file(const char *path, const void *p, size_t n) {
  FILE *f = fopen(path, "wb");
  bool ok = f && fwrite(p, 1, n, f) == n;
  return f && fclose(f) == 0 && ok;
}

tn_status rig_init(rig *r, const char *profile) {
  char path[96];
  memset(r, 0, sizeof *r);
  tn_error_init(&r->err);
  snprintf(r->dir, sizeof r->dir, "/tmp/tenon-rig-XXXXXX");
  if (!mkdtemp(r->dir)) abort();
  snprintf(path, sizeof path, "%s/profile.yaml", r->dir);
  if (!write_file(path, profile, strlen(profile))) abort();
  const char *dirs[3];
  uint32_t n = 0;
  static const char *const vars[] = {"TENON_TEST_PLUGINS", "TENON_TEST_SESSION_PLUGINS", "TENON_TEST_AVX2"};
  for (size_t i = 0; i < 3; i++)
    if (getenv(vars[i]) && *getenv(vars[i])) dirs[n++] = getenv(vars[i]);
  tn_runtime_opts o = {.h = {sizeof o, 1, 0},
                       .profile = path,
                       .plugin_dirs = dirs,
                       .n_plugin_dirs = n,
                       .threads = 2,
                       .log_level = TN_LOG_WARN,
                       .log = on_log,
                       .log_user = r,
                       .flags = TN_RT_TEST_WRITABLE | TN_RT_NO_PROBE};
  return tn_runtime_create(&o, &r->rt, &r->err);
}

tn_status rig_open(rig *r, const char *path, uint32_t flags) {
  tn_model_opts o = {.h = {sizeof o, 1, 0}, .flags = flags};
  return tn_model_load(r->rt, path, &o, &r->m, &r->err);
}

tn_status rig_load(rig *r, wbuf model, uint32_t flags) {
  char path[96];
  snprintf(path, sizeof path, "%s/model.onnx", r->dir);
  if (!write_file(path, model.p, model.n)) abort();
  wb_free(&model);
  tn_status st = rig_open(r, path, flags);
  return st == TN_OK && !(flags & TN_MODEL_INSPECT) ? tn_session_create(r->m, &r->s, &r->err) : st;
}

static int drop(const char *path, const struct stat *st, int type, struct FTW *ftw) {
  (void)st;
  (void)type;
  (void)ftw;
  return remove(path);
}

void rig_finish(rig *r) {
  tn_session_destroy(r->s);
  tn_model_destroy(r->m);
  tn_runtime_destroy(r->rt);
  nftw(r->dir, drop, 8, FTW_DEPTH | FTW_PHYS);
}

/* "name=dims" pieces; a name that starts with i is int64. */
static void add_values(wbuf *g, uint32_t field, const char *list) {
  char copy[512], *save = NULL;
  snprintf(copy, sizeof copy, "%s", list);
  for (char *p = strtok_r(copy, ";", &save); p; p = strtok_r(NULL, ";", &save)) {
    char *dims = strchr(p, '=');
    if (dims) *dims++ = '\0';
    wb_msg(g, field, onnx_value(p, *p == 'i' ? TN_DT_I64 : TN_DT_F32, dims));
  }
}

wbuf text_model(const char *nodes, const char *inputs, const char *outputs, const char *wdims, const float *w,
                size_t n_w) {
  wbuf g = {0};
  char copy[1024], *save = NULL;
  snprintf(copy, sizeof copy, "%s", nodes);
  wb_str(&g, G_NAME, "test");
  for (char *p = strtok_r(copy, ";", &save); p; p = strtok_r(NULL, ";", &save)) {
    char *f[4];
    for (int i = 0; i < 4; i++) {
      f[i] = p;
      p += strcspn(p, ":");
      if (*p) *p++ = '\0';
    }
    wb_msg(&g, G_NODE, onnx_node(f[0], f[1], f[2], f[3]));
  }
  if (w) wb_msg(&g, G_INIT, onnx_tensor_raw("w", TN_DT_F32, wdims, w, n_w * sizeof *w));
  add_values(&g, G_INPUT, inputs);
  add_values(&g, G_OUTPUT, outputs);
  return onnx_model(g, 17);
}

tn_tensor f32_tensor(const char *name, const float *data, uint32_t rank, int64_t d0, int64_t d1, int64_t d2) {
  tn_tensor t = {
      .h = {sizeof t, 1, 0}, .name = name, .dtype = TN_DT_F32, .rank = rank, .dims = {d0, d1, d2}, .data = data};
  t.bytes = sizeof(float);
  for (uint32_t i = 0; i < rank; i++) t.bytes *= (uint64_t)t.dims[i];
  return t;
}

tn_tensor i64_tensor(const char *name, const int64_t *data, uint32_t rank, int64_t d0, int64_t d1) {
  tn_tensor t = f32_tensor(name, (const float *)data, rank, d0, d1, 0);
  t.dtype = TN_DT_I64;
  t.bytes *= 2;
  return t;
}

tn_status rig_run(rig *r, uint32_t phase, const tn_tensor *a, const tn_tensor *b, const tn_tensor *c, tn_tensor *out,
                  uint32_t n_out) {
  const tn_tensor *in[3];
  uint32_t n = 0;
  if (a) in[n++] = a;
  if (b) in[n++] = b;
  if (c) in[n++] = c;
  memset(out, 0, n_out * sizeof *out);
  tn_error_init(&r->err);
  for (uint32_t o = 0; o < n_out; o++) out[o].h = (tn_hdr){sizeof(tn_tensor), 1, 0};
  return tn_session_run(r->s, phase, in, n, out, n_out, &r->err);
}

double json_number(const char *json, const char *key) {
  char quoted[64];
  snprintf(quoted, sizeof quoted, "\"%s\":", key);
  const char *at = strstr(json, quoted);
  return at ? strtod(at + strlen(quoted), NULL) : -1;
}

int rig_run_suites(void (*const *add)(void), size_t n) {
  if (CU_initialize_registry() != CUE_SUCCESS) return 1;
  for (size_t i = 0; i < n; i++) add[i]();
  CU_basic_set_mode(CU_BRM_VERBOSE);
  CU_basic_run_tests();
  const unsigned failures = CU_get_number_of_failures();
  CU_cleanup_registry();
  return failures != 0;
}
