/* SPDX-License-Identifier: Apache-2.0
 *
 * Every allocation of the library fails once, while a runtime is created, a model loaded and a session run: each time a
 * status and no crash; under AddressSanitizer no leak either. Linked with --wrap, so only our own calls are counted. And runs that
 * are too large for the memory there is.
 */
#include "session_test.h"

void *__real_malloc(size_t n);
void *__real_calloc(size_t n, size_t m);
void *__real_realloc(void *p, size_t n);
void *__real_aligned_alloc(size_t a, size_t n);
void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t n, size_t m);
void *__wrap_realloc(void *p, size_t n);
void *__wrap_aligned_alloc(size_t a, size_t n);

static _Atomic long counted, fail_at; /* 0: never */

static bool fails(void) {
  long n = ++counted;
  return fail_at && n == fail_at;
}

void *__wrap_malloc(size_t n) { return fails() ? NULL : __real_malloc(n); }
void *__wrap_calloc(size_t n, size_t m) { return fails() ? NULL : __real_calloc(n, m); }
void *__wrap_realloc(void *p, size_t n) { return fails() ? NULL : __real_realloc(p, n); }

static size_t most, largest; /* most: of one piece of a session's memory; 0: no limit. largest: asked for */

void *__wrap_aligned_alloc(size_t a, size_t n) {
  if (n > largest) largest = n;
  return fails() || (most && n > most) ? NULL : __real_aligned_alloc(a, n);
}

typedef struct outcome {
  tn_status st;
  tn_error err;
  float y[8];
} outcome;

/* create, load, run twice with other dims, reports; everything is destroyed again. */
static void live(const char *profile, const char *model, outcome *o) {
  static const float x[8] = {1, -2, 3, -4, 5, -6, 7, -8};
  const char *dirs[] = {getenv("TENON_TEST_SESSION_PLUGINS")};
  tn_runtime_opts ro = {.h = {sizeof ro, 1, 0},
                        .profile = profile,
                        .plugin_dirs = dirs,
                        .n_plugin_dirs = 1,
                        .threads = 1,
                        .flags = TN_RT_TEST_WRITABLE | TN_RT_NO_PROBE};
  tn_runtime *rt = NULL;
  tn_model *m = NULL;
  tn_session *s = NULL;
  char *json = NULL;
  memset(o, 0, sizeof *o);
  tn_error_init(&o->err);
  o->st = tn_runtime_create(&ro, &rt, &o->err);
  if (o->st == TN_OK) o->st = tn_model_load(rt, model, NULL, &m, &o->err);
  if (o->st == TN_OK) o->st = tn_session_create(m, &s, &o->err);
  for (int64_t n = 1; o->st == TN_OK && n <= 2; n++) {
    tn_tensor t = f32_tensor("x", x, 2, n, 4, 0), out = {0};
    const tn_tensor *in[] = {&t};
    out.h = (tn_hdr){sizeof(tn_tensor), 1, 0};
    o->st = tn_session_run(s, 0, in, 1, &out, 1, &o->err);
    if (o->st == TN_OK) memcpy(o->y, out.data, out.bytes);
  }
  if (o->st == TN_OK) o->st = tn_model_report(m, TN_REPORT_CHECK, &json, &o->err);
  tn_free(json);
  tn_session_destroy(s);
  tn_model_destroy(m);
  tn_runtime_destroy(rt);
}

static void every_allocation(const char *profile) {
  static const float w[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
  char dir[] = "/tmp/tenon-memory-XXXXXX", model[64], file[64];
  CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(dir));
  snprintf(model, sizeof model, "%s/m.onnx", dir);
  snprintf(file, sizeof file, "%s/p.yaml", dir);
  wbuf m = text_model("MatMul:p:x,w:a;Shape:s:x:d;ConstantOfShape:z:d:c;Add:sum:a,c:b;Softmax:sm:b:y", "x=n,4", "y",
                      "4,4", w, 16);
  FILE *f = fopen(model, "wb");
  CU_ASSERT_FATAL(f && fwrite(m.p, 1, m.n, f) == m.n);
  fclose(f);
  wb_free(&m);
  f = fopen(file, "wb");
  fputs(profile, f);
  fclose(f);
  outcome good, o;
  fail_at = 0;
  live(file, model, &good);
  counted = 0;
  live(file, model, &good);
  if (good.st != TN_OK) printf("\n    %s\n", good.err.message);
  CU_ASSERT_EQUAL_FATAL(good.st, TN_OK);
  long total = counted, failed = 0, odd = 0;
  CU_ASSERT(total > 50);
  for (long i = 1; i <= total; i++) {
    counted = 0;
    fail_at = i;
    live(file, model, &o);
    fail_at = 0;
    failed += o.st != TN_OK;
    /* A cache or a log may do without; then the result is right. Otherwise the status says what happened; only libltdl
     * does not say why it did not start. */
    bool named = o.st == TN_E_NO_MEMORY || strstr(o.err.message, "libltdl");
    bool fine = o.st == TN_OK ? memcmp(o.y, good.y, sizeof o.y) == 0 : named && *o.err.message;
    if (!fine) printf("\n    allocation %ld: %s \"%s\"", i, tn_status_name(o.st), o.err.message);
    odd += !fine;
  }
  printf("%ld allocations, %ld failures reported ... ", total, failed);
  CU_ASSERT_EQUAL(odd, 0);
  CU_ASSERT(failed > total / 2);
  remove(model);
  remove(file);
  remove(dir);
}

static void test_host(void) { every_allocation("plugins: [host]\n"); }
static void test_plugin(void) { every_allocation("plugins: [sched-matmul, host]\n"); }

/* One run over n rows. */
static tn_status run_rows(rig *r, int64_t n, const float *x) {
  tn_tensor t = f32_tensor("x", x, 2, n, 4, 0), y;
  const tn_status st = rig_run(r, TN_PHASE_ANY, &t, NULL, NULL, &y, 1);
  if (st == TN_OK) CU_ASSERT_EQUAL(y.bytes, (uint64_t)n * 4 * sizeof(float));
  return st;
}

/* A run that does not fit is an error of that run alone, and what fits exactly is enough. */
static void test_too_large(void) {
  enum { LARGE = 1 << 16, ROOM = 1 << 20, MIDDLE = 64 * 64 };
  static const float w[16] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16};
  static float x[LARGE * 4];
  tn_session *other = NULL;
  rig r;
  CU_ASSERT_EQUAL_FATAL(rig_init(&r, "plugins: [host]\n"), TN_OK);
  CU_ASSERT_EQUAL_FATAL(rig_load(&r, text_model("MatMul:p:x,w:a;Softmax:s:a:y", "x=n,4", "y", "4,4", w, 16), 0), TN_OK);
  CU_ASSERT_EQUAL(run_rows(&r, 8, x), TN_OK);
  most = ROOM;
  CU_ASSERT_EQUAL(run_rows(&r, LARGE, x), TN_E_NO_MEMORY);
  CU_ASSERT_EQUAL(run_rows(&r, 8, x), TN_OK);
  CU_ASSERT_EQUAL(run_rows(&r, LARGE, x), TN_E_NO_MEMORY);
  CU_ASSERT_EQUAL(run_rows(&r, 12, x), TN_OK);
  most = largest = 0;
  CU_ASSERT_EQUAL_FATAL(tn_session_create(r.m, &other, &r.err), TN_OK);
  tn_session_destroy(r.s);
  r.s = other;
  CU_ASSERT_EQUAL(run_rows(&r, MIDDLE, x), TN_OK);
  most = largest;
  CU_ASSERT(most > MIDDLE * 4 * sizeof(float));
  CU_ASSERT_EQUAL_FATAL(tn_session_create(r.m, &other, &r.err), TN_OK);
  tn_session_destroy(r.s);
  r.s = other;
  CU_ASSERT_EQUAL(run_rows(&r, 64, x), TN_OK);
  CU_ASSERT_EQUAL(run_rows(&r, MIDDLE, x), TN_OK);
  most = 0;
  rig_finish(&r);
}

int main(void) {
  if (CU_initialize_registry() != CUE_SUCCESS) return 1;
  CU_pSuite s = CU_add_suite("failed allocations", NULL, NULL);
  CU_add_test(s, "every allocation fails once, host", test_host);
  CU_add_test(s, "every allocation fails once, plugin", test_plugin);
  CU_add_test(s, "runs that are too large", test_too_large);
  CU_basic_set_mode(CU_BRM_VERBOSE);
  CU_basic_run_tests();
  unsigned failures = CU_get_number_of_failures();
  CU_cleanup_registry();
  return failures != 0;
}
