/* SPDX-License-Identifier: Apache-2.0
 *
 * Packing once, finding it again, and what makes it be packed anew.
 */
#include <CUnit/Basic.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/pack/fixture.h"

static fx_model m;
static char dir[256];
static tni_pool *pool;

static void start(void) {
  fx_temp_dir(dir, sizeof dir);
  fx_model_init(&m, dir);
  pool = tni_pool_create(2);
  fx_reset_counts();
  fx_log_clear();
}

static void stop(void) {
  fx_model_finish(&m);
  tni_pool_destroy(pool);
  fx_remove_dir(dir);
}

/* Opens, checks the bytes and the counts, closes. */
static void expect(uint32_t n, uint64_t packed, uint64_t mapped, int cached) {
  tni_pack_store *s = NULL;
  CU_ASSERT_EQUAL_FATAL(fx_open(&m, n, pool, &s), TN_OK);
  const tni_pack_stats *st = tni_pack_store_stats(s);
  CU_ASSERT_EQUAL(st->packed_segments, packed);
  CU_ASSERT_EQUAL(st->mapped_segments, mapped);
  CU_ASSERT_EQUAL(st->cached, cached);
  CU_ASSERT_EQUAL(st->repaired_segments, 0);
  CU_ASSERT_TRUE(fx_right(&m, n, s));
  tni_pack_store_close(s);
}

static void test_twice(void) {
  start();
  expect(FX_ITEMS, FX_ITEMS, 0, 1);
  CU_ASSERT_EQUAL(fx_count.begins, FX_ITEMS);
  CU_ASSERT_EQUAL(fx_count.ends, FX_ITEMS);
  fx_reset_counts();
  expect(FX_ITEMS, 0, FX_ITEMS, 1);
  CU_ASSERT_EQUAL(fx_count.begins, 0);
  CU_ASSERT_EQUAL(fx_count.source_rows, 0); /* part 3 would be hashed by its rows */
  CU_ASSERT_EQUAL(fx_names(m.cache, ".tmp."), 0);
  char path[512];
  struct stat st;
  CU_ASSERT_TRUE(fx_pack_file(m.cache, path, sizeof path));
  CU_ASSERT_TRUE(stat(path, &st) == 0 && (st.st_mode & 0777) == 0600);
  CU_ASSERT_TRUE(stat(m.cache, &st) == 0 && (st.st_mode & 0777) == 0700);
  stop();
}

static void test_stats_and_blobs(void) {
  start();
  tni_pack_store *s = NULL;
  CU_ASSERT_EQUAL_FATAL(fx_open(&m, FX_ITEMS, pool, &s), TN_OK);
  const tni_pack_stats *st = tni_pack_store_stats(s);
  uint64_t total = 0, one;
  char path[512];
  for (uint32_t i = 0; i < FX_ITEMS; i++) {
    CU_ASSERT_EQUAL(tni_pack_bytes(&m.items[i], &one, NULL), TN_OK);
    total += one;
    const tn_blob *b = tni_pack_store_blob(s, i);
    CU_ASSERT_EQUAL((uintptr_t)b->ptr % 65536 % 4096, 0);
    CU_ASSERT_TRUE(b->format == &fx_format && b->N == m.items[i].weight->N && b->K == m.items[i].weight->K);
    CU_ASSERT_TRUE(b->n_params == 1 && b->params[0] == 90 && b->bytes == one);
    uint8_t got[32];
    CU_ASSERT_EQUAL(b->read(b, 5, sizeof got, got), TN_OK);
    CU_ASSERT_EQUAL(memcmp(got, (const uint8_t *)b->ptr + 5, sizeof got), 0);
    CU_ASSERT_EQUAL(b->read(b, b->bytes - 3, 4, got), TN_E_INVALID);
    CU_ASSERT_EQUAL(b->read(b, UINT64_MAX, 4, got), TN_E_INVALID);
  }
  CU_ASSERT_EQUAL(st->packed_bytes, total);
  CU_ASSERT_TRUE(st->pack_ns > 0);
  CU_ASSERT_TRUE(fx_pack_file(m.cache, path, sizeof path));
  CU_ASSERT_STRING_EQUAL(st->path, path);
  CU_ASSERT_PTR_NULL(tni_pack_store_blob(s, FX_ITEMS));
  tni_pack_store_close(s);
  tni_pack_store_close(NULL);
  CU_ASSERT_EQUAL_FATAL(fx_open(&m, 0, pool, &s), TN_OK); /* nothing to pack is fine */
  tni_pack_store_close(s);
  stop();
}

/* Resident KiB of the mapping that p lies in; -1: there is none. */
static long resident(const void *p) {
  FILE *f = fopen("/proc/self/smaps", "r");
  char line[512];
  unsigned long begin, end;
  long kib = -1;
  bool inside = false;
  while (f && kib < 0 && fgets(line, sizeof line, f)) {
    if (sscanf(line, "%lx-%lx ", &begin, &end) == 2)
      inside = (uintptr_t)p >= begin && (uintptr_t)p < end;
    else if (inside)
      (void)sscanf(line, "Rss: %ld kB", &kib);
  }
  if (f) fclose(f);
  return kib;
}

enum { AROUND_KIB = 64 };

/* A first start leaves neither the model's pages nor those it wrote in memory; they come when they are used. */
static void test_residency(void) {
  start();
  volatile uint8_t sum = 0;
  for (int i = 0; i < FX_PARTS; i++) m.sources[i].mapped = m.bytes + m.sources[i].offset;
  for (uint64_t i = 0; i < m.n_bytes; i += 512) sum = (uint8_t)(sum + m.bytes[i]);
  CU_ASSERT(resident(m.bytes) >= (long)(m.n_bytes / 1024));
  tni_pack_store *s = NULL;
  CU_ASSERT_EQUAL_FATAL(fx_open(&m, FX_ITEMS, pool, &s), TN_OK);
  printf("%ld of %ld KiB left ... ", resident(m.bytes), (long)(m.n_bytes / 1024));
  CU_ASSERT(resident(m.bytes) <= AROUND_KIB); /* what was mapped around the last one */
  CU_ASSERT_EQUAL(resident(tni_pack_store_blob(s, 0)->ptr), 0);
  CU_ASSERT(fx_right(&m, FX_ITEMS, s));
  CU_ASSERT(resident(tni_pack_store_blob(s, 0)->ptr) > 0);
  tni_pack_store_close(s);
  stop();
}

/* The raw bytes cannot be read at all on the second open: only stamps can have been used. */
static void test_not_hashed_again(void) {
  start();
  expect(FX_ITEMS, FX_ITEMS, 0, 1);
  pid_t pid = fork();
  if (pid == 0) {
    tni_pack_store *s = NULL;
    mprotect(m.bytes, m.n_bytes, PROT_NONE);
    _exit(fx_open(&m, FX_ITEMS, NULL, &s) == TN_OK && tni_pack_store_stats(s)->mapped_segments == FX_ITEMS ? 0 : 1);
  }
  int status = -1;
  waitpid(pid, &status, 0);
  CU_ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  stop();
}

static void touch(int64_t sec) {
  const struct timespec t[2] = {{.tv_sec = sec}, {.tv_sec = sec}};
  utimensat(AT_FDCWD, m.file, t, 0);
  fx_model_stat(&m);
}

/* The same content under another time: hashed once, not packed; afterwards the new stamp holds. */
static void test_touched(void) {
  start();
  expect(FX_ITEMS, FX_ITEMS, 0, 1);
  for (int i = 1; i <= 3; i++) {
    touch(1600000000 + i);
    fx_reset_counts();
    expect(FX_ITEMS, 0, FX_ITEMS, 1);
    CU_ASSERT_TRUE(fx_count.source_rows > 0);
    CU_ASSERT_EQUAL(fx_count.begins, 0);
    fx_reset_counts();
    expect(FX_ITEMS, 0, FX_ITEMS, 1);
    CU_ASSERT_EQUAL(fx_count.source_rows, 0);
  }
  touch(time(NULL)); /* too young to be trusted: hashed every time, never packed */
  for (int i = 0; i < 2; i++) {
    fx_reset_counts();
    expect(FX_ITEMS, 0, FX_ITEMS, 1);
    CU_ASSERT_TRUE(fx_count.source_rows > 0);
  }
  stop();
}

/* Changed bytes: only the weight that changed is packed. */
static void test_changed(void) {
  start();
  expect(FX_ITEMS, FX_ITEMS, 0, 1);
  m.bytes[m.sources[2].offset + 3] ^= 0x55;
  touch(1600000100);
  expect(FX_ITEMS, 1, FX_ITEMS - 1, 1);
  expect(FX_ITEMS, 0, FX_ITEMS, 1);
  m.bytes[m.sources[6].offset] ^= 0x55; /* the second part of the joined one */
  touch(1600000200);
  expect(FX_ITEMS, 1, FX_ITEMS - 1, 1);
  stop();
}

/* Other parameters or versions live beside the first; fewer items do not lose the others. */
static void test_options(void) {
  start();
  expect(FX_ITEMS, FX_ITEMS, 0, 1);
  fx_model_param(&m, 17);
  expect(FX_ITEMS, FX_ITEMS, 0, 1);
  fx_model_param(&m, 90);
  expect(FX_ITEMS, 0, FX_ITEMS, 1);
  expect(2, 0, 2, 1);
  fx_model_param(&m, 3);
  expect(2, 2, 0, 1);
  fx_model_param(&m, 90);
  expect(FX_ITEMS, 0, FX_ITEMS, 1);
  for (int i = 0; i < FX_ITEMS; i++) m.items[i].format = &fx_format2;
  expect(FX_ITEMS, FX_ITEMS, 0, 1);
  for (int i = 0; i < FX_ITEMS; i++) m.items[i].format = &fx_format;
  expect(FX_ITEMS, 0, FX_ITEMS, 1);
  /* The model changes: what was packed from bytes that are gone goes too. */
  char path[512];
  struct stat before, after;
  CU_ASSERT_TRUE(fx_pack_file(m.cache, path, sizeof path) && stat(path, &before) == 0);
  memset(m.bytes, 7, m.n_bytes);
  touch(1600000300);
  expect(FX_ITEMS, FX_ITEMS, 0, 1);
  CU_ASSERT_TRUE(stat(path, &after) == 0 && after.st_size < before.st_size / 2);
  stop();
}

/* Equal matrices share a segment; the same bytes read another way do not. */
static void test_shared(void) {
  start();
  m.parts[0] = m.parts[2];
  m.sources[0] = m.sources[2];
  expect(FX_ITEMS, FX_ITEMS - 1, 0, 1);
  m.parts[0].N = m.parts[2].K, m.parts[0].K = m.parts[2].N;
  expect(FX_ITEMS, 1, FX_ITEMS - 1, 1);
  m.parts[0].flags = TN_WEIGHT_TRANSPOSED;
  expect(FX_ITEMS, 1, FX_ITEMS - 1, 1);
  stop();
}

static void test_in_memory_sources(void) {
  start();
  for (int i = 0; i < FX_PARTS; i++) m.sources[i].file = NULL;
  expect(FX_ITEMS, FX_ITEMS, 0, 1);
  fx_reset_counts();
  expect(FX_ITEMS, 0, FX_ITEMS, 1);
  CU_ASSERT_TRUE(fx_count.source_rows > 0); /* always hashed */
  stop();
}

static void test_uncached(void) {
  start();
  tni_pack_opts o = fx_opts(&m, pool);
  tni_pack_store *s = NULL;
  for (int i = 0; i < 2; i++) {
    o.dir = i ? "" : NULL;
    CU_ASSERT_EQUAL_FATAL(tni_pack_store_open(&o, m.list, FX_ITEMS, &s, NULL), TN_OK);
    CU_ASSERT_EQUAL(tni_pack_store_stats(s)->cached, 0);
    CU_ASSERT_EQUAL(tni_pack_store_stats(s)->packed_segments, FX_ITEMS);
    CU_ASSERT_STRING_EQUAL(tni_pack_store_stats(s)->path, "");
    CU_ASSERT_TRUE(fx_right(&m, FX_ITEMS, s));
    tni_pack_store_close(s);
  }
  stop();
}

/* The same bytes whatever the number of threads. */
static void test_threads(void) {
  start();
  for (uint32_t n = 1; n <= 8; n++) {
    tni_pool *p = tni_pool_create(n);
    tni_pack_store *s = NULL;
    fx_model_param(&m, n);
    CU_ASSERT_EQUAL_FATAL(fx_open(&m, FX_ITEMS, p, &s), TN_OK);
    CU_ASSERT_TRUE(fx_right(&m, FX_ITEMS, s));
    tni_pack_store_close(s);
    tni_pool_destroy(p);
  }
  stop();
}

static void test_cancel(void) {
  volatile int32_t cancel = 0;
  start();
  tni_pack_opts o = fx_opts(&m, pool);
  o.cancel = &cancel;
  for (long at = 1; at < 10; at += 2) { /* the last calls are too late to stop anything */
    tni_pack_store *s = NULL;
    tn_error err;
    tni_error_init(&err);
    fx_reset_counts();
    fx_count.cancel = &cancel;
    fx_count.cancel_after = at;
    cancel = 0;
    CU_ASSERT_EQUAL(tni_pack_store_open(&o, m.list, FX_ITEMS, &s, &err), TN_E_CANCELLED);
    CU_ASSERT_EQUAL(err.code, TN_E_CANCELLED);
    CU_ASSERT_PTR_NULL(s);
    CU_ASSERT_EQUAL(fx_count.begins, fx_count.ends);
    CU_ASSERT_EQUAL(fx_names(m.cache, ".tmp."), 0);
    char path[512];
    CU_ASSERT_FALSE(fx_pack_file(m.cache, path, sizeof path));
  }
  /* Within a matrix: the second strip of the big one is not packed any more. */
  o.pool = NULL;
  fx_reset_counts();
  fx_count.cancel = &cancel;
  fx_count.cancel_after = 2;
  cancel = 0;
  tni_pack_store *none = NULL;
  CU_ASSERT_EQUAL(tni_pack_store_open(&o, m.list, FX_ITEMS, &none, NULL), TN_E_CANCELLED);
  CU_ASSERT_EQUAL(fx_count.rows, 2);
  CU_ASSERT_EQUAL(fx_count.abandons, 1);
  cancel = 1; /* before anything */
  tni_pack_store *s = NULL;
  CU_ASSERT_EQUAL(tni_pack_store_open(&o, m.list, FX_ITEMS, &s, NULL), TN_E_CANCELLED);
  o.dir = NULL;
  CU_ASSERT_EQUAL(tni_pack_store_open(&o, m.list, FX_ITEMS, &s, NULL), TN_E_CANCELLED);
  fx_reset_counts();
  expect(FX_ITEMS, FX_ITEMS, 0, 1);
  stop();
}

typedef struct progress {
  uint64_t last, total;
  int calls, wrong;
} progress;

static void on_progress(void *user, const char *name, uint64_t done, uint64_t total) {
  progress *p = user;
  p->wrong += done < p->last || done > total || !name || (p->calls && total != p->total);
  p->last = done;
  p->total = total;
  p->calls++;
}

static void test_progress(void) {
  progress p = {0};
  start();
  tni_pack_opts o = fx_opts(&m, pool);
  o.progress = on_progress;
  o.progress_user = &p;
  tni_pack_store *s = NULL;
  CU_ASSERT_EQUAL_FATAL(tni_pack_store_open(&o, m.list, FX_ITEMS, &s, NULL), TN_OK);
  CU_ASSERT_TRUE(p.calls >= FX_ITEMS && p.wrong == 0);
  CU_ASSERT_EQUAL(p.last, p.total);
  CU_ASSERT_EQUAL(p.total, tni_pack_store_stats(s)->packed_bytes);
  tni_pack_store_close(s);
  stop();
}

static void expect_failure(tn_status want, const char *text) {
  tni_pack_opts o = fx_opts(&m, pool);
  tni_pack_store *s = NULL;
  tn_error err;
  tni_error_init(&err);
  CU_ASSERT_EQUAL(tni_pack_store_open(&o, m.list, FX_ITEMS, &s, &err), want);
  CU_ASSERT_PTR_NOT_NULL(strstr(err.message, text));
  if (!strstr(err.message, text)) printf("\n  '%s' lacks '%s'\n", err.message, text);
  CU_ASSERT_EQUAL(fx_names(m.cache, ".tmp."), 0);
}

/* A format that fails: its status, the weight's and the format's names, and nothing left behind. */
static void test_failing_format(void) {
  start();
  fx_count.fail_rows = TN_E_UNSUPPORTED;
  expect_failure(TN_E_UNSUPPORTED, "small");
  CU_ASSERT_TRUE(fx_count.begins == fx_count.ends && fx_count.abandons > 0);
  fx_reset_counts();
  fx_count.fail_begin = TN_E_NO_MEMORY;
  expect_failure(TN_E_NO_MEMORY, "told to fail");
  fx_reset_counts();
  fx_model_param(&m, -1);
  expect_failure(TN_E_INVALID, "no size");
  fx_model_param(&m, 90);
  tn_format broken = fx_format;
  broken.rows = NULL;
  m.items[1].format = &broken;
  expect_failure(TN_E_INTERNAL, "big");
  m.items[1].format = &fx_format;
  expect(FX_ITEMS, FX_ITEMS, 0, 1);
  stop();
}

void test_basic_suite(void) {
  CU_pSuite s = CU_add_suite("pack", NULL, NULL);
  CU_add_test(s, "twice", test_twice);
  CU_add_test(s, "stats and blobs", test_stats_and_blobs);
  CU_add_test(s, "not hashed again", test_not_hashed_again);
  CU_add_test(s, "touched", test_touched);
  CU_add_test(s, "changed", test_changed);
  CU_add_test(s, "options", test_options);
  CU_add_test(s, "shared", test_shared);
  CU_add_test(s, "pages leave memory", test_residency);
  CU_add_test(s, "in-memory sources", test_in_memory_sources);
  CU_add_test(s, "uncached", test_uncached);
  CU_add_test(s, "threads", test_threads);
  CU_add_test(s, "cancel", test_cancel);
  CU_add_test(s, "progress", test_progress);
  CU_add_test(s, "failing format", test_failing_format);
}
