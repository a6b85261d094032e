/* SPDX-License-Identifier: Apache-2.0
 *
 * Packing as devices see it: statistics, weights on disk, devices that are not here, cancelling, reports.
 */
#include <dirent.h>
#include <pthread.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "place_test.h"

enum { K = 8 };

static float w[K * K], x_data[3 * K];

static wbuf product(void) {
  for (int i = 0; i < K * K; i++) w[i] = (float)(i % 11) - 4.25f;
  for (int i = 0; i < 3 * K; i++) x_data[i] = (float)(i % 7) - 2.5f;
  return text_model("MatMul:p:x,w:y", "x=n,8", "y=n,8", "8,8", w, K * K);
}

static const char *with(const char *options) {
  static char text[400];
  snprintf(text, sizeof text, "plugins:\n  - name: sched-packed\n    options: {%s}\n  - name: host\ncache: {dir: .}\n",
           options);
  return text;
}

static void check_run(rig *r) {
  tn_tensor x = f32_tensor("x", x_data, 2, 3, K, 0), out[1];
  const tn_status st = rig_run(r, 0, &x, NULL, NULL, out, 1);
  if (st != TN_OK) printf("\n  %s\n", r->err.message);
  CU_ASSERT_EQUAL_FATAL(st, TN_OK);
  for (int m = 0; m < 3; m++)
    for (int n = 0; n < K; n++) {
      float want = 0;
      for (int k = 0; k < K; k++) want += x_data[m * K + k] * w[k * K + n];
      CU_ASSERT_EQUAL(((const float *)out[0].data)[m * K + n], want);
    }
}

/* The plugin itself checks that a blob on disk has neither view nor pointer. */
static void test_residency(void) {
  static const char *const rows[] = {"residency: host", "residency: device", "residency: disk",
                                     "residency: host, sections: true", "residency: device, sections: true"};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    for (int cached = 0; cached < 2; cached++) {
      rig r;
      char profile[400];
      snprintf(profile, sizeof profile, "%s", with(rows[i]));
      if (!cached) *strstr(profile, "cache:") = '\0';
      CU_ASSERT_EQUAL_FATAL(rig_init(&r, profile), TN_OK);
      CU_ASSERT_EQUAL_FATAL(rig_load(&r, product(), TN_MODEL_CAPTURE), TN_OK);
      for (int k = 0; k < 2; k++) check_run(&r);
      char *json = NULL;
      CU_ASSERT_EQUAL_FATAL(tn_session_capture_report(r.s, &json, &r.err), TN_OK);
      CU_ASSERT(json_number(json, "worst_ratio") <= 1);
      tn_free(json);
      rig_finish(&r);
    }
}

/* Ends in the packed file's name, in the rig's folder; files that end in none of it are counted too. */
static int packed_files(const rig *r, int *halves) {
  int n = 0;
  DIR *d = opendir(r->dir);
  *halves = 0;
  for (struct dirent *e; d && (e = readdir(d));) {
    const size_t len = strlen(e->d_name);
    n += len > 7 && strcmp(e->d_name + len - 7, ".tnpack") == 0;
    *halves += strstr(e->d_name, ".tmp.") != NULL;
  }
  if (d) closedir(d);
  return n;
}

/* A second start maps; what lies on disk is read from the file. */
static void test_disk_again(void) {
  rig r;
  CU_ASSERT_EQUAL_FATAL(rig_init(&r, with("residency: disk")), TN_OK);
  for (int i = 0; i < 2; i++) {
    CU_ASSERT_EQUAL_FATAL(rig_load(&r, product(), 0), TN_OK);
    check_run(&r);
    char *json = NULL;
    CU_ASSERT_EQUAL_FATAL(tn_model_report(r.m, TN_REPORT_PACK, &json, &r.err), TN_OK);
    CU_ASSERT_EQUAL(json_number(json, "packed"), i == 0);
    CU_ASSERT_EQUAL(json_number(json, "mapped"), i == 1);
    tn_free(json);
    tn_session_destroy(r.s);
    tn_model_destroy(r.m);
    r.s = NULL;
    r.m = NULL;
  }
  rig_finish(&r);
}

/* Loads NAME/onnx/model.onnx of the rig's folder: whether its matrix was found packed. */
static bool was_packed(rig *r, const char *name) {
  char path[160], *json = NULL;
  snprintf(path, sizeof path, "%s/%s/onnx/model.onnx", r->dir, name);
  CU_ASSERT_EQUAL_FATAL(rig_open(r, path, 0), TN_OK);
  CU_ASSERT_EQUAL_FATAL(tn_model_report(r->m, TN_REPORT_PACK, &json, &r->err), TN_OK);
  const bool mapped = json_number(json, "mapped") == 1 && json_number(json, "packed") == 0;
  tn_free(json);
  tn_model_destroy(r->m);
  r->m = NULL;
  return mapped;
}

/* Hubs call every model onnx/model.onnx. Each has a packed file of its own, whatever links lead to it. */
static void test_names(void) {
  rig r;
  char path[160], to[160];
  CU_ASSERT_EQUAL_FATAL(rig_init(&r, with("residency: host")), TN_OK);
  for (int i = 0; i < 2; i++) {
    snprintf(path, sizeof path, "%s/%c", r.dir, 'a' + i);
    CU_ASSERT_EQUAL_FATAL(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/%c/onnx", r.dir, 'a' + i);
    CU_ASSERT_EQUAL_FATAL(mkdir(path, 0700), 0);
    snprintf(path, sizeof path, "%s/%c/onnx/model.onnx", r.dir, 'a' + i);
    w[0] = (float)i;
    wbuf m = text_model("MatMul:p:x,w:y", "x=n,8", "y=n,8", "8,8", w, K * K);
    FILE *f = fopen(path, "wb");
    CU_ASSERT_FATAL(f && fwrite(m.p, 1, m.n, f) == m.n);
    fclose(f);
    wb_free(&m);
  }
  CU_ASSERT_FALSE(was_packed(&r, "a"));
  CU_ASSERT_FALSE(was_packed(&r, "b"));
  CU_ASSERT(was_packed(&r, "a"));
  CU_ASSERT(was_packed(&r, "b"));
  snprintf(path, sizeof path, "%s/c", r.dir);
  CU_ASSERT_EQUAL(symlink("a", path), 0);
  snprintf(path, sizeof path, "%s/d", r.dir);
  snprintf(to, sizeof to, "%s/d/onnx", r.dir);
  CU_ASSERT_FATAL(mkdir(path, 0700) == 0 && mkdir(to, 0700) == 0);
  snprintf(path, sizeof path, "%s/d/onnx/model.onnx", r.dir);
  CU_ASSERT_EQUAL(symlink("../../a/onnx/model.onnx", path), 0);
  CU_ASSERT(was_packed(&r, "c"));
  CU_ASSERT(was_packed(&r, "d"));
  CU_ASSERT(was_packed(&r, "b"));
  rig_finish(&r);
}

static void test_offline(void) {
  static const uint32_t works[] = {TN_MODEL_INSPECT, TN_MODEL_PACK};
  rig r;
  int halves;
  CU_ASSERT_EQUAL_FATAL(rig_init(&r, with("offline: true")), TN_OK);
  CU_ASSERT_EQUAL(rig_load(&r, product(), 0), TN_E_UNSUPPORTED);
  CU_ASSERT_PTR_NOT_NULL(strstr(r.err.message, "'test packer' of plugin 'sched-packed' is offline"));
  CU_ASSERT_PTR_NULL(r.m);
  CU_ASSERT_EQUAL(packed_files(&r, &halves), 0); /* refused before anything is packed */
  for (size_t i = 0; i < 2; i++) {
    char path[96], *json = NULL;
    tn_session *s = NULL;
    snprintf(path, sizeof path, "%s/model.onnx", r.dir);
    tn_error_init(&r.err);
    CU_ASSERT_EQUAL_FATAL(rig_open(&r, path, works[i]), TN_OK);
    CU_ASSERT_EQUAL_FATAL(tn_model_report(r.m, TN_REPORT_CHECK, &json, &r.err), TN_OK);
    CU_ASSERT_PTR_NOT_NULL(strstr(json, "\"device\": \"sched-packed\""));
    CU_ASSERT_EQUAL(json_number(json, "weight_products"), 1);
    CU_ASSERT_EQUAL(json_number(json, "fell_back"), 0);
    tn_free(json);
    CU_ASSERT_EQUAL(tn_model_report(r.m, TN_REPORT_PACK, &json, &r.err), i ? TN_OK : TN_E_INVALID);
    if (i) tn_free(json);
    CU_ASSERT_EQUAL(tn_session_create(r.m, &s, &r.err), TN_E_INVALID);
    tn_model_destroy(r.m);
    r.m = NULL;
    CU_ASSERT_EQUAL(packed_files(&r, &halves), (int)i);
  }
  rig_finish(&r);
  /* What it takes nothing of runs. */
  CU_ASSERT_EQUAL_FATAL(rig_init(&r, with("offline: true")), TN_OK);
  CU_ASSERT_EQUAL(rig_load(&r, text_model("Neg:p:x:y", "x=n,8", "y=n,8", "8,8", w, K * K), 0), TN_OK);
  rig_finish(&r);
}

static void *cancel_soon(void *rt) {
  const struct timespec nap = {.tv_nsec = 150000000};
  nanosleep(&nap, NULL);
  tn_runtime_cancel(rt);
  return NULL;
}

/* In the middle of a slow matrix: soon, by the plugin's own polling, and without a file. */
static void test_cancel(void) {
  rig r;
  pthread_t t;
  struct timespec a, b;
  int halves;
  CU_ASSERT_EQUAL_FATAL(rig_init(&r, with("slow: true")), TN_OK);
  pthread_create(&t, NULL, cancel_soon, r.rt);
  clock_gettime(CLOCK_MONOTONIC, &a);
  CU_ASSERT_EQUAL(rig_load(&r, product(), 0), TN_E_CANCELLED);
  clock_gettime(CLOCK_MONOTONIC, &b);
  pthread_join(t, NULL);
  CU_ASSERT(b.tv_sec - a.tv_sec < 8); /* the matrix alone takes 10 s */
  CU_ASSERT_PTR_NOT_NULL(strstr(r.err.message, "cancelled"));
  CU_ASSERT_EQUAL(packed_files(&r, &halves), 0);
  CU_ASSERT_EQUAL(halves, 0);
  rig_finish(&r);
  /* Asked for before: the next load ends at once. */
  CU_ASSERT_EQUAL_FATAL(rig_init(&r, with("format: rows32")), TN_OK);
  tn_runtime_cancel(r.rt);
  CU_ASSERT_EQUAL(rig_load(&r, product(), 0), TN_E_CANCELLED);
  tn_error_init(&r.err);
  CU_ASSERT_EQUAL_FATAL(rig_load(&r, product(), 0), TN_OK); /* and the one behind it goes through */
  check_run(&r);
  CU_ASSERT_EQUAL(packed_files(&r, &halves), 1);
  rig_finish(&r);
}

/* --- statistics --------------------------------------------------------------------------------------------------- */

/* Calibrates the model of rig r on x_data times scale; the file is r's c.yaml. */
static void calibrate(rig *r, float scale) {
  float scaled[3 * K];
  tn_tensor out[1];
  char file[96];
  rig host;
  CU_ASSERT_EQUAL_FATAL(rig_init(&host, "plugins: [host]\n"), TN_OK);
  CU_ASSERT_EQUAL_FATAL(rig_load(&host, product(), TN_MODEL_CALIBRATE), TN_OK);
  for (int i = 0; i < 3 * K; i++) scaled[i] = scale * x_data[i];
  tn_tensor x = f32_tensor("x", scaled, 2, 3, K, 0);
  CU_ASSERT_EQUAL(rig_run(&host, 0, &x, NULL, NULL, out, 1), TN_OK);
  snprintf(file, sizeof file, "%s/c.yaml", r->dir);
  const tn_calibration_text text = {.h = {sizeof text, 1, 0}, .name = "t", .bytes = "t", .n_bytes = 1, .tokens = 3};
  CU_ASSERT_EQUAL(tn_model_calibration_save(host.m, &text, file, &host.err), TN_E_INVALID); /* one pass only */
  tn_error_init(&host.err);
  CU_ASSERT_EQUAL_FATAL(tn_model_calibration_next(host.m, &host.err), TN_OK);
  CU_ASSERT_EQUAL(rig_run(&host, 0, &x, NULL, NULL, out, 1), TN_OK);
  CU_ASSERT_EQUAL_FATAL(tn_model_calibration_save(host.m, &text, file, &host.err), TN_OK);
  CU_ASSERT_EQUAL(tn_model_calibration_next(r->m ? r->m : host.m, NULL), TN_E_INVALID);
  rig_finish(&host);
}

static double reported(rig *r, const char *key) {
  char *json = NULL;
  CU_ASSERT_EQUAL_FATAL(tn_model_report(r->m, TN_REPORT_PACK, &json, &r->err), TN_OK);
  const double v = json_number(json, key);
  tn_free(json);
  return v;
}

static void reload(rig *r) {
  tn_session_destroy(r->s);
  tn_model_destroy(r->m);
  r->s = NULL;
  r->m = NULL;
  tn_error_init(&r->err);
  const tn_status st = rig_load(r, product(), 0);
  if (st != TN_OK) printf("\n  %s\n", r->err.message);
  CU_ASSERT_EQUAL_FATAL(st, TN_OK);
}

/* Packed anew for other statistics by the format that reads them, and by no other. */
static void test_stats_are_a_key(void) {
  static const char *const formats[] = {"rows32", "rows32s"};
  for (int reads = 0; reads < 2; reads++) {
    rig r;
    char options[100], profile[500];
    snprintf(options, sizeof options, "format: %s, needs_stats: true", formats[reads]);
    snprintf(profile, sizeof profile, "%scalibration: c.yaml\nrequire: [sched-packed]\n", with(options));
    CU_ASSERT_EQUAL_FATAL(rig_init(&r, profile), TN_OK);
    calibrate(&r, 1);
    reload(&r);
    CU_ASSERT_EQUAL(reported(&r, "packed"), 1);
    check_run(&r);
    reload(&r);
    CU_ASSERT_EQUAL(reported(&r, "packed"), 0);
    calibrate(&r, 2);
    reload(&r);
    CU_ASSERT_EQUAL(reported(&r, "packed"), reads);
    check_run(&r);
    rig_finish(&r);
  }
}

static void test_needs_stats(void) {
  rig r;
  char *json = NULL;
  CU_ASSERT_EQUAL_FATAL(rig_init(&r, with("needs_stats: true")), TN_OK);
  CU_ASSERT_EQUAL_FATAL(rig_load(&r, product(), TN_MODEL_INSPECT), TN_OK);
  CU_ASSERT_EQUAL_FATAL(tn_model_report(r.m, TN_REPORT_CHECK, &json, &r.err), TN_OK);
  CU_ASSERT_PTR_NOT_NULL(strstr(json, "its activation has no statistics"));
  CU_ASSERT_EQUAL(json_number(json, "fell_back"), 1);
  tn_free(json);
  rig_finish(&r);
}

/* --- reports ------------------------------------------------------------------------------------------------------ */

static void test_reports(void) {
  rig r;
  char *json = NULL;
  CU_ASSERT_EQUAL_FATAL(rig_init(&r, with("format: rows32")), TN_OK);
  CU_ASSERT_EQUAL_FATAL(rig_load(&r, product(), 0), TN_OK);
  CU_ASSERT_EQUAL_FATAL(tn_model_report(r.m, TN_REPORT_PACK_ERRORS, &json, &r.err), TN_OK);
  CU_ASSERT_EQUAL(json_number(json, "max_of_group"), 0);
  CU_ASSERT_EQUAL(json_number(json, "outside_bound"), 0);
  CU_ASSERT_EQUAL(json_number(json, "weights"), K * K);
  CU_ASSERT_EQUAL(json_number(json, "matrices"), 1);
  tn_free(json);
  CU_ASSERT_EQUAL_FATAL(tn_model_format_report(r.m, "rows32s", NULL, 0, &json, &r.err), TN_OK);
  CU_ASSERT_EQUAL(json_number(json, "rms"), 0);
  CU_ASSERT_DOUBLE_EQUAL(json_number(json, "bits_per_weight"), 32 + 512.0 / (K * K), 1e-9);
  tn_free(json);
  const int64_t one[] = {1};
  CU_ASSERT_EQUAL(tn_model_format_report(r.m, "rows32", one, 1, &json, &r.err), TN_E_INVALID);
  CU_ASSERT_PTR_NOT_NULL(strstr(r.err.message, "packs none of 1 matrices with 1 params"));
  tn_error_init(&r.err);
  CU_ASSERT_EQUAL(tn_model_format_report(r.m, "rows64", NULL, 0, &json, &r.err), TN_E_INVALID);
  CU_ASSERT_PTR_NOT_NULL(strstr(r.err.message, "states a weight format 'rows64'"));
  rig_finish(&r);
}

void suite_pack(void) {
  CU_pSuite s = CU_add_suite("packing", NULL, NULL);
  CU_add_test(s, "host, device, disk", test_residency);
  CU_add_test(s, "disk, packed before", test_disk_again);
  CU_add_test(s, "names of packed files", test_names);
  CU_add_test(s, "a device that is not here", test_offline);
  CU_add_test(s, "cancelled", test_cancel);
  CU_add_test(s, "statistics are part of the key", test_stats_are_a_key);
  CU_add_test(s, "statistics are needed", test_needs_stats);
  CU_add_test(s, "reports", test_reports);
}
