/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/plugin/services.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../plugins/common/plugdir.h"
#include "plugin_test.h"
#include "runtime/expr/expr.h"
#include "runtime/graph/view.h"

static char last_line[600];
static void take_line(void *user, uint32_t level, const char *line) {
  (void)user;
  (void)level;
  snprintf(last_line, sizeof last_line, "%s", line);
}

static const tn_host *make(const tni_services_opts *o, tn_host_ctx **ctx) {
  tni_services_opts copy = *o;
  copy.name = "plug";
  copy.log = (tni_log){take_line, NULL, TN_LOG_DEBUG};
  tn_error err = {0};
  CU_ASSERT_EQUAL_FATAL(tni_services_create(&copy, ctx, &err), TN_OK);
  return tni_services_host(*ctx);
}

static void test_alloc(void) {
  tn_host_ctx *c;
  const tn_host *h = make(&(tni_services_opts){.memory_limit = 100000}, &c);
  void *p[12];
  tni_services_memory m;
  for (int i = 0; i < 12; i++) {
    size_t align = (size_t)1 << i;
    p[i] = h->alloc(h->ctx, 100, align, TN_TAG_PLUGIN);
    CU_ASSERT_PTR_NOT_NULL_FATAL(p[i]);
    CU_ASSERT_EQUAL((uintptr_t)p[i] % align, 0);
    memset(p[i], i, 100);
  }
  tni_services_memory_get(c, &m);
  CU_ASSERT(m.bytes == 1200 && m.blocks == 12 && m.peak_bytes == 1200);
  CU_ASSERT_PTR_NULL(h->alloc(h->ctx, 99000, 16, 0)); /* over the limit */
  CU_ASSERT_PTR_NULL(h->alloc(h->ctx, SIZE_MAX, 16, 0));
  CU_ASSERT_PTR_NULL(h->alloc(h->ctx, SIZE_MAX - 8, 64, 0));
  CU_ASSERT_PTR_NULL(h->alloc(h->ctx, 8, 24, 0)); /* no power of two */
  void *zero = h->alloc(h->ctx, 0, 0, 0);
  CU_ASSERT_PTR_NOT_NULL(zero);
  h->free(h->ctx, zero);
  tni_services_memory_get(c, &m);
  CU_ASSERT(m.bytes == 1200 && m.blocks == 12);
  for (int i = 0; i < 12; i++) h->free(h->ctx, p[i]);
  h->free(h->ctx, NULL);
  tni_services_memory_get(c, &m);
  CU_ASSERT(m.bytes == 0 && m.blocks == 0 && m.peak_bytes == 1200);

  tn_host_ctx *other;
  const tn_host *h2 = make(&(tni_services_opts){0}, &other);
  void *q = h->alloc(h->ctx, 8, 8, 0);
  h2->free(h2->ctx, q); /* of another plugin: refused, logged */
  CU_ASSERT_PTR_NOT_NULL(strstr(last_line, "did not get from alloc"));
  last_line[0] = '\0';
  tni_services_destroy(other);
  CU_ASSERT_STRING_EQUAL(last_line, "");
  h->free(h->ctx, q);
  tni_services_destroy(c);
}

static char span_track[64], span_name[64];
static void take_span(void *user, const char *track, const char *name, uint32_t clock, int64_t start, int64_t end,
                      uint64_t bytes) {
  (void)bytes;
  *(int64_t *)user = end - start + clock;
  snprintf(span_track, sizeof span_track, "%s", track);
  snprintf(span_name, sizeof span_name, "%s", name);
}

static void test_log_and_trace(void) {
  int64_t sum = 0;
  tni_trace_sink sink = {take_span, &sum};
  tn_host_ctx *c;
  const tn_host *h = make(&(tni_services_opts){.trace = &sink}, &c);
  h->log(h->ctx, TN_LOG_INFO, "two\nlines");
  CU_ASSERT_STRING_EQUAL(last_line, "plug: two lines");
  h->log(h->ctx, 77, NULL);
  uint32_t a = h->name_id(h->ctx, "quantize"), b = h->name_id(h->ctx, "gemm");
  CU_ASSERT_NOT_EQUAL(a, b);
  CU_ASSERT_EQUAL(h->name_id(h->ctx, "quantize"), a);
  h->span(h->ctx, b, 1, 10, 15);
  CU_ASSERT_EQUAL(sum, 6);
  CU_ASSERT_STRING_EQUAL(span_track, "plug:device");
  CU_ASSERT_STRING_EQUAL(span_name, "gemm");
  h->span(h->ctx, a, 0, 10, 30);
  CU_ASSERT_STRING_EQUAL(span_track, "plug:cpu");
  CU_ASSERT_EQUAL(sum, 20);
  h->span(h->ctx, 999, 0, 0, 1); /* never interned */
  h->span(h->ctx, TN_NONE, 0, 0, 1);
  CU_ASSERT_EQUAL(sum, 20);
  CU_ASSERT(h->now(h->ctx) <= h->now(h->ctx));
  CU_ASSERT_PTR_NULL(h->get_extension(h->ctx, "tenon.x", 1));
  tni_services_destroy(c);
}

static void test_resource(void) {
  plugdir d;
  CU_ASSERT_FATAL(plugdir_create(&d));
  CU_ASSERT(plugdir_write(&d, "kernels.bin", "abcdef", 6, 0644));
  CU_ASSERT(plugdir_write(&d, "loose.bin", "abcdef", 6, 0666));
  tn_host_ctx *c;
  const tn_host *h = make(&(tni_services_opts){.folder = d.path}, &c);
  const void *p = NULL, *q = NULL;
  uint64_t n = 0;
  CU_ASSERT_EQUAL(h->resource(h->ctx, "kernels.bin", &p, &n), TN_OK);
  CU_ASSERT(n == 6 && memcmp(p, "abcdef", 6) == 0);
  CU_ASSERT_EQUAL(h->resource(h->ctx, "kernels.bin", &q, &n), TN_OK);
  CU_ASSERT_PTR_EQUAL(p, q);
  static const char *const bad[] = {"", ".", "..", "../kernels.bin", "/etc/passwd", "a/b", "a\\b"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    CU_ASSERT_EQUAL(h->resource(h->ctx, bad[i], &q, &n), TN_E_INVALID);
  CU_ASSERT_EQUAL(h->resource(h->ctx, "absent", &q, &n), TN_E_UNAVAILABLE);
  CU_ASSERT_EQUAL(h->resource(h->ctx, "loose.bin", &q, &n), TN_E_UNAVAILABLE);
  CU_ASSERT_PTR_EQUAL(q, p);
  tni_services_destroy(c);
  h = make(&(tni_services_opts){0}, &c);
  CU_ASSERT_EQUAL(h->resource(h->ctx, "kernels.bin", &q, &n), TN_E_UNAVAILABLE);
  tni_services_destroy(c);
  plugdir_remove(&d);
}

static const uint8_t keys[2][32] = {{1}, {2}};
enum { OTHER_KEY = 99 };

static const tn_host *cached(const char *dir, const char *build, uint32_t n_keys, tn_host_ctx **c) {
  const tn_host *h = make(&(tni_services_opts){.cache_dir = dir}, c);
  /* OTHER_KEY: one device again, with another key */
  bool other = n_keys == OTHER_KEY;
  CU_ASSERT_EQUAL(tni_services_set_identity(*c, build, other ? keys + 1 : keys, other ? 1 : n_keys), TN_OK);
  return h;
}

static tn_status get(const char *dir, const char *build, uint32_t n_keys, const char *key, char *out, size_t max) {
  tn_host_ctx *c;
  const tn_host *h = cached(dir, build, n_keys, &c);
  const void *data;
  uint64_t n;
  tn_status st = h->cache_get(h->ctx, key, strlen(key), &data, &n);
  if (st == TN_OK) snprintf(out, max, "%.*s", (int)n, (const char *)data);
  tni_services_destroy(c);
  return st;
}

static void put(const char *dir, const char *build, uint32_t n_keys, const char *key, const char *data) {
  tn_host_ctx *c;
  const tn_host *h = cached(dir, build, n_keys, &c);
  CU_ASSERT_EQUAL(h->cache_put(h->ctx, key, strlen(key), data, strlen(data)), TN_OK);
  tni_services_destroy(c);
}

/* Calls fn for each file below DIR/plugins/plug; returns how many. */
static int each_blob(const char *dir, void (*fn)(const char *path)) {
  char at[600], path[900];
  int n = 0;
  snprintf(at, sizeof at, "%s/plugins/plug", dir);
  DIR *d = opendir(at);
  for (struct dirent *e; d && (e = readdir(d));) {
    if (e->d_name[0] == '.' && (!e->d_name[1] || e->d_name[1] == '.')) continue;
    snprintf(path, sizeof path, "%s/%s", at, e->d_name);
    if (fn) fn(path);
    n++;
  }
  if (d) closedir(d);
  return n;
}

static void remove_file(const char *path) { unlink(path); }

static long flip_at;
static void flip(const char *path) {
  FILE *f = fopen(path, "r+b");
  if (!f) return;
  fseek(f, flip_at, SEEK_SET);
  int c = fgetc(f);
  fseek(f, flip_at, SEEK_SET);
  fputc(c ^ 1, f);
  fclose(f);
}
static void truncate_file(const char *path) { CU_ASSERT_EQUAL(truncate(path, flip_at), 0); }

static long blob_bytes;
static void measure(const char *path) {
  struct stat s;
  if (stat(path, &s) == 0) blob_bytes = (long)s.st_size;
}

static void test_cache(void) {
  plugdir d;
  char text[64] = "";
  CU_ASSERT_FATAL(plugdir_create(&d));
  put(d.path, "b1", 1, "kernel a", "bytes of a");
  put(d.path, "b1", 1, "kernel b", "bytes of b");
  CU_ASSERT_EQUAL(get(d.path, "b1", 1, "kernel a", text, sizeof text), TN_OK);
  CU_ASSERT_STRING_EQUAL(text, "bytes of a");
  CU_ASSERT_EQUAL(get(d.path, "b1", 1, "kernel b", text, sizeof text), TN_OK);
  CU_ASSERT_STRING_EQUAL(text, "bytes of b");
  put(d.path, "b1", 1, "kernel a", "newer"); /* replaces */
  CU_ASSERT_EQUAL(get(d.path, "b1", 1, "kernel a", text, sizeof text), TN_OK);
  CU_ASSERT_STRING_EQUAL(text, "newer");
  put(d.path, "b1", 1, "empty", "");
  CU_ASSERT_EQUAL(get(d.path, "b1", 1, "empty", text, sizeof text), TN_OK);
  CU_ASSERT_STRING_EQUAL(text, "");
  /* another key, build or device: absent */
  CU_ASSERT_EQUAL(get(d.path, "b1", 1, "kernel c", text, sizeof text), TN_E_UNAVAILABLE);
  CU_ASSERT_EQUAL(get(d.path, "b2", 1, "kernel a", text, sizeof text), TN_E_UNAVAILABLE);
  CU_ASSERT_EQUAL(get(d.path, "b1", 2, "kernel a", text, sizeof text), TN_E_UNAVAILABLE);
  CU_ASSERT_EQUAL(get(d.path, "b1", OTHER_KEY, "kernel a", text, sizeof text), TN_E_UNAVAILABLE);
  CU_ASSERT_EQUAL(get(d.path, "", 1, "kernel a", text, sizeof text), TN_E_UNAVAILABLE);
  CU_ASSERT_EQUAL(each_blob(d.path, NULL), 3); /* no temporary file is left */
  each_blob(d.path, remove_file);

  /* any flipped bit and any cut: absent, removed, and packed again */
  put(d.path, "b1", 1, "k", "payload");
  CU_ASSERT_EQUAL(each_blob(d.path, measure), 1);
  for (flip_at = 0; flip_at < blob_bytes; flip_at++) {
    put(d.path, "b1", 1, "k", "payload");
    each_blob(d.path, flip);
    tn_status st = get(d.path, "b1", 1, "k", text, sizeof text);
    /* the padding between key and data carries nothing */
    CU_ASSERT(st == TN_E_UNAVAILABLE || strcmp(text, "payload") == 0);
    if (st == TN_E_UNAVAILABLE) CU_ASSERT_EQUAL(each_blob(d.path, NULL), 0);
    put(d.path, "b1", 1, "k", "payload");
    each_blob(d.path, truncate_file);
    CU_ASSERT_EQUAL(get(d.path, "b1", 1, "k", text, sizeof text), TN_E_UNAVAILABLE);
  }
  /* what a killed writer left is removed once it is old */
  char stale[600];
  snprintf(stale, sizeof stale, "%s/plugins/plug/.tmp-1-2-x", d.path);
  FILE *f = fopen(stale, "w");
  CU_ASSERT_PTR_NOT_NULL_FATAL(f);
  fclose(f);
  put(d.path, "b1", 1, "k", "payload");
  CU_ASSERT_EQUAL(access(stale, F_OK), 0);
  struct timespec old[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
  CU_ASSERT_EQUAL(utimensat(AT_FDCWD, stale, old, 0), 0);
  put(d.path, "b1", 1, "k", "payload");
  CU_ASSERT_NOT_EQUAL(access(stale, F_OK), 0);

  each_blob(d.path, remove_file);
  snprintf(stale, sizeof stale, "%s/plugins/plug", d.path);
  rmdir(stale);
  snprintf(stale, sizeof stale, "%s/plugins", d.path);
  rmdir(stale);
  CU_ASSERT_EQUAL(rmdir(d.path), 0);
  put(d.path, "b1", 1, "kernel a", "made"); /* a plugin may be the first that keeps something */
  CU_ASSERT_EQUAL(get(d.path, "b1", 1, "kernel a", text, sizeof text), TN_OK);
  CU_ASSERT_STRING_EQUAL(text, "made");
  each_blob(d.path, remove_file);
  snprintf(stale, sizeof stale, "%s/plugins/plug", d.path);
  rmdir(stale);
  snprintf(stale, sizeof stale, "%s/plugins", d.path);
  rmdir(stale);
  plugdir_remove(&d);
  /* a folder that cannot be keeps nothing, and says so */
  last_line[0] = '\0';
  put("/dev/null/cache", "b1", 1, "k", "payload");
  CU_ASSERT_PTR_NOT_NULL(strstr(last_line, "nothing cached"));
  put(NULL, "b1", 1, "k", "payload");
  CU_ASSERT_EQUAL(get(NULL, "b1", 1, "k", text, sizeof text), TN_E_UNAVAILABLE);
  tn_host_ctx *c;
  const tn_host *h = cached(NULL, "b", 1, &c);
  CU_ASSERT_EQUAL(h->cache_put(h->ctx, NULL, 0, "x", 1), TN_E_INVALID);
  CU_ASSERT_EQUAL(h->cache_put(h->ctx, "k", 1, "x", UINT64_C(1) << 40), TN_E_LIMIT);
  tni_services_destroy(c);
}

static void test_exprs(void) {
  tn_host_ctx *c;
  const tn_host *h = make(&(tni_services_opts){0}, &c);
  tni_exprs *x = tni_exprs_create();
  CU_ASSERT_PTR_NOT_NULL_FATAL(x);
  struct tn_graph_ctx ctx = {.exprs = x, .padded = TNI_EXPR_NONE};
  tn_graph g = {.h = TN_HDR(tn_graph), .ctx = &ctx}, empty = {.h = TN_HDR(tn_graph)};
  tn_expr S = tni_ex_sym(x, "S"), S2 = tni_ex_mul(x, S, tni_ex_const(x, 2)),
          more = tni_ex_add(x, S, tni_ex_const(x, 1));
  int64_t v[1] = {21}, out = 0, lo = 0, hi = 0;
  tn_dims dims = {.h = TN_HDR(tn_dims), .v = v, .n = 1};
  CU_ASSERT_EQUAL(h->eval(&g, S2, &dims, &out), TN_OK);
  CU_ASSERT_EQUAL(out, 42);
  CU_ASSERT_EQUAL(h->range(&g, tni_ex_const(x, 7), &lo, &hi), TN_OK);
  CU_ASSERT(lo == 7 && hi == 7);
  CU_ASSERT_EQUAL(h->divides(&g, S2, 2), 1);
  CU_ASSERT_EQUAL(h->divides(&g, S, 3), -1);
  CU_ASSERT_EQUAL(h->order(&g, S, more), -1);
  CU_ASSERT_EQUAL(h->order(&g, S, S), 0);
  /* nonsense is answered, not followed */
  CU_ASSERT_EQUAL(h->eval(&empty, S2, &dims, &out), TN_E_INVALID);
  CU_ASSERT_EQUAL(h->eval(&g, TNI_EXPR_NONE, &dims, &out), TN_E_INVALID);
  CU_ASSERT_EQUAL(h->eval(&g, S2, NULL, &out), TN_E_INVALID);
  CU_ASSERT_EQUAL(h->range(NULL, S2, &lo, &hi), TN_E_INVALID);
  CU_ASSERT_EQUAL(h->divides(&g, S2, 0), -1);
  CU_ASSERT_EQUAL(h->order(&g, S, TNI_EXPR_NONE), 2);
  uint64_t total = 0;
  tn_interval iv[2] = {{0, 1, 10, 16, 0}, {1, 2, 10, 16, 0}};
  CU_ASSERT_EQUAL(h->offsets(h->ctx, 2, iv, &total), TN_OK);
  CU_ASSERT_EQUAL(total, 26);
  CU_ASSERT_EQUAL(h->offsets(h->ctx, 2, NULL, &total), TN_E_INVALID);
  tni_exprs_destroy(x);
  tni_services_destroy(c);
}

const test_case services_tests[] = {{"alloc", test_alloc},         {"log and trace", test_log_and_trace},
                                    {"resource", test_resource},   {"cache", test_cache},
                                    {"symbolic dims", test_exprs}, {0}};
