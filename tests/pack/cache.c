/* SPDX-License-Identifier: Apache-2.0
 *
 * The cache folder: not writable, full, limited, with leftovers, several models.
 */
#include <CUnit/Basic.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
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

static void expect_opts(const tni_pack_opts *o, uint64_t packed, uint64_t mapped, int cached) {
  tni_pack_store *s = NULL;
  tn_error err;
  tni_error_init(&err);
  CU_ASSERT_EQUAL_FATAL(tni_pack_store_open(o, m.list, FX_ITEMS, &s, &err), TN_OK);
  CU_ASSERT_EQUAL(tni_pack_store_stats(s)->packed_segments, packed);
  CU_ASSERT_EQUAL(tni_pack_store_stats(s)->mapped_segments, mapped);
  CU_ASSERT_EQUAL(tni_pack_store_stats(s)->cached, cached);
  CU_ASSERT_TRUE(fx_right(&m, FX_ITEMS, s));
  tni_pack_store_close(s);
}

static void expect_in(const char *cache, uint64_t packed, uint64_t mapped, int cached) {
  tni_pack_opts o = fx_opts(&m, pool);
  o.dir = cache;
  expect_opts(&o, packed, mapped, cached);
}

/* Folders that cannot be: below a file, in /proc, an empty component. All run in memory and say so. */
static void test_no_folder(void) {
  start();
  char below[512];
  snprintf(below, sizeof below, "%s/cache", m.file);
  const char *const dirs[] = {below, "/proc/self/tenon/cache", "/proc/tenon", "/dev/null", m.file};
  for (size_t i = 0; i < sizeof dirs / sizeof *dirs; i++) {
    fx_log_clear();
    expect_in(dirs[i], FX_ITEMS, 0, 0);
    CU_ASSERT_EQUAL(fx_logged("are not kept"), 1);
    CU_ASSERT_EQUAL(fx_logged(dirs[i]), 1);
  }
  snprintf(below, sizeof below, "%s/a/b//c/", dir);
  expect_in(below, FX_ITEMS, 0, 1);
  expect_in(below, 0, FX_ITEMS, 1);
  stop();
}

/* Names are cleaned, and stay apart although they look the same cleaned. */
static void test_names(void) {
  start();
  tni_pack_opts o = fx_opts(&m, pool);
  static const char *const models[] = {"../../etc/passwd", "a b", "a/b", "", ".hidden", "\xff\n%s"};
  for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
    o.model_name = models[i];
    expect_opts(&o, FX_ITEMS, 0, 1);
    CU_ASSERT_EQUAL(fx_names(m.cache, ".lock"), (int)i + 1);
  }
  o.model_name = NULL;
  o.device_name = NULL;
  expect_opts(&o, FX_ITEMS, 0, 1);
  char long_name[3000];
  memset(long_name, 'n', sizeof long_name - 1);
  long_name[sizeof long_name - 1] = '\0';
  o.model_name = long_name;
  expect_opts(&o, FX_ITEMS, 0, 1);
  CU_ASSERT_EQUAL(fx_names(m.cache, ".lock"), 8);
  stop();
}

/* A real small file system. Where mounting is not allowed, the next test still covers a full disk. */
static void test_full_tmpfs(void) {
  start();
  char disk[300];
  snprintf(disk, sizeof disk, "%s/disk", dir);
  CU_ASSERT_EQUAL(mkdir(disk, 0700), 0);
  if (mount("tmpfs", disk, "tmpfs", 0, "size=1m") != 0) {
    printf("(cannot mount a tmpfs: skipped) ");
    stop();
    return;
  }
  expect_in(disk, FX_ITEMS, 0, 0);
  CU_ASSERT_EQUAL(fx_logged("No space left"), 1);
  CU_ASSERT_EQUAL(fx_names(disk, ".tmp."), 0);
  CU_ASSERT_EQUAL(mount("tmpfs", disk, "tmpfs", MS_REMOUNT, "size=16m"), 0);
  expect_in(disk, FX_ITEMS, 0, 1);
  CU_ASSERT_EQUAL(mount("tmpfs", disk, "tmpfs", MS_REMOUNT | MS_RDONLY, "size=16m"), 0);
  expect_in(disk, 0, FX_ITEMS, 1); /* read-only, but all is there */
  fx_model_param(&m, 1);
  fx_log_clear();
  expect_in(disk, FX_ITEMS, 0, 0);
  CU_ASSERT_EQUAL(fx_logged("are not kept"), 1);
  CU_ASSERT_EQUAL(umount(disk), 0);
  stop();
}

static void test_file_size_limit(void) {
  start();
  struct rlimit old, small = {.rlim_cur = 1 << 20};
  CU_ASSERT_EQUAL_FATAL(getrlimit(RLIMIT_FSIZE, &old), 0);
  small.rlim_max = old.rlim_max;
  CU_ASSERT_EQUAL_FATAL(setrlimit(RLIMIT_FSIZE, &small), 0); /* SIGXFSZ would end us */
  expect_in(m.cache, FX_ITEMS, 0, 0);
  CU_ASSERT_EQUAL(setrlimit(RLIMIT_FSIZE, &old), 0);
  CU_ASSERT_EQUAL(fx_logged("are not kept"), 1);
  CU_ASSERT_EQUAL(fx_names(m.cache, ".tmp."), 0);
  expect_in(m.cache, FX_ITEMS, 0, 1);
  stop();
}

static uint64_t file_bytes(const char *model) {
  tni_pack_opts o = fx_opts(&m, pool);
  tni_pack_store *s = NULL;
  struct stat st = {0};
  o.model_name = model;
  CU_ASSERT_EQUAL_FATAL(tni_pack_store_open(&o, m.list, FX_ITEMS, &s, NULL), TN_OK);
  CU_ASSERT_EQUAL(stat(tni_pack_store_stats(s)->path, &st), 0);
  tni_pack_store_close(s);
  return (uint64_t)st.st_size;
}

static void test_too_large_for_limit(void) {
  start();
  tni_pack_opts o = fx_opts(&m, pool);
  o.max_bytes = 1 << 20;
  expect_opts(&o, FX_ITEMS, 0, 0);
  CU_ASSERT_EQUAL(fx_logged("limit"), 1);
  char path[512];
  CU_ASSERT_FALSE(fx_pack_file(m.cache, path, sizeof path));
  /* The segments of another configuration go before the limit is passed. */
  o.max_bytes = file_bytes("my model/x");
  CU_ASSERT_TRUE(fx_pack_file(m.cache, path, sizeof path));
  fx_model_param(&m, 5);
  expect_opts(&o, FX_ITEMS, 0, 1);
  expect_opts(&o, 0, FX_ITEMS, 1);
  fx_model_param(&m, 90);
  expect_opts(&o, FX_ITEMS, 0, 1);
  stop();
}

static void age(const char *path, int64_t sec) {
  const struct timespec t[2] = {{.tv_sec = sec}, {.tv_sec = sec}};
  CU_ASSERT_EQUAL(utimensat(AT_FDCWD, path, t, 0), 0);
}

/* The one used longest ago goes; opening counts as use; the own one never goes. */
static void test_eviction(void) {
  start();
  static const char *const models[] = {"m0", "m1", "m2", "m3"};
  char paths[4][512];
  uint64_t one = 0;
  tni_pack_opts o = fx_opts(&m, pool);
  tni_pack_store *s = NULL;
  for (int i = 0; i < 3; i++) {
    o.model_name = models[i];
    CU_ASSERT_EQUAL_FATAL(tni_pack_store_open(&o, m.list, FX_ITEMS, &s, NULL), TN_OK);
    snprintf(paths[i], sizeof paths[i], "%s", tni_pack_store_stats(s)->path);
    tni_pack_store_close(s);
    age(paths[i], 1000 + i);
  }
  one = file_bytes("m0"); /* m0 is used again: m1 is now the oldest */
  o.model_name = "m3";
  o.max_bytes = 3 * one;
  tni_pack_store *held = NULL;
  tni_pack_opts o1 = fx_opts(&m, pool);
  o1.model_name = "m1";
  CU_ASSERT_EQUAL_FATAL(tni_pack_store_open(&o1, m.list, FX_ITEMS, &held, NULL), TN_OK);
  age(paths[1], 1);
  expect_opts(&o, FX_ITEMS, 0, 1);
  CU_ASSERT_TRUE(access(paths[0], F_OK) == 0 && access(paths[2], F_OK) == 0);
  CU_ASSERT_NOT_EQUAL(access(paths[1], F_OK), 0);
  CU_ASSERT_TRUE(fx_right(&m, FX_ITEMS, held)); /* removed, but whoever has it mapped keeps it */
  tni_pack_store_close(held);
  o.max_bytes = one / 2; /* everything else goes; this one is in use */
  expect_opts(&o, 0, FX_ITEMS, 1);
  CU_ASSERT_TRUE(access(paths[0], F_OK) != 0 && access(paths[2], F_OK) != 0);
  CU_ASSERT_TRUE(fx_pack_file(m.cache, paths[3], sizeof paths[3]));
  stop();
}

/* Leftovers of killed writers go; files of writers that live stay. */
static void test_leftovers(void) {
  start();
  char path[512], mine[600], other[600], young[600], living[600];
  expect_in(m.cache, FX_ITEMS, 0, 1);
  CU_ASSERT_TRUE_FATAL(fx_pack_file(m.cache, path, sizeof path));
  snprintf(mine, sizeof mine, "%s.tmp.1.a", path);
  snprintf(living, sizeof living, "%s.tmp.2.b", path);
  snprintf(other, sizeof other, "%s/x-y.tnpack.tmp.3.c", m.cache);
  snprintf(young, sizeof young, "%s/x-y.tnpack.tmp.4.d", m.cache);
  const char *const all[] = {mine, living, other, young};
  int fds[4];
  for (int i = 0; i < 4; i++) fds[i] = open(all[i], O_RDWR | O_CREAT, 0600);
  CU_ASSERT_EQUAL(flock(fds[1], LOCK_EX | LOCK_NB), 0);
  age(other, 1000);
  fx_model_param(&m, 2);
  expect_in(m.cache, FX_ITEMS, 0, 1);
  CU_ASSERT_NOT_EQUAL(access(mine, F_OK), 0);
  CU_ASSERT_NOT_EQUAL(access(other, F_OK), 0);
  CU_ASSERT_EQUAL(access(young, F_OK), 0);
  CU_ASSERT_EQUAL(access(living, F_OK), 0);
  for (int i = 0; i < 4; i++) close(fds[i]);
  stop();
}

/* Cancelling while another holds the writers' lock. */
static void *cancel_soon(void *arg) {
  usleep(100000);
  *(volatile int32_t *)arg = 1;
  return NULL;
}

static void test_cancel_while_waiting(void) {
  start();
  volatile int32_t cancel = 0;
  char path[512], lock[520];
  expect_in(m.cache, FX_ITEMS, 0, 1);
  CU_ASSERT_TRUE_FATAL(fx_pack_file(m.cache, path, sizeof path));
  snprintf(lock, sizeof lock, "%s.lock", path);
  int fd = open(lock, O_RDWR);
  CU_ASSERT_EQUAL(flock(fd, LOCK_EX), 0);
  fx_model_param(&m, 2);
  tni_pack_opts o = fx_opts(&m, pool);
  o.cancel = &cancel;
  pthread_t t;
  pthread_create(&t, NULL, cancel_soon, (void *)&cancel);
  tni_pack_store *s = NULL;
  CU_ASSERT_EQUAL(tni_pack_store_open(&o, m.list, FX_ITEMS, &s, NULL), TN_E_CANCELLED);
  pthread_join(t, NULL);
  CU_ASSERT_EQUAL(fx_logged("waiting"), 1);
  close(fd);
  expect_in(m.cache, FX_ITEMS, 0, 1);
  stop();
}

/* Who has the writers' lock and was stopped is waited for as long as that takes to see, and no longer; who works is. */
static void test_stalled_holder(void) {
  start();
  char path[512], lock[520];
  expect_in(m.cache, FX_ITEMS, 0, 1);
  CU_ASSERT_TRUE_FATAL(fx_pack_file(m.cache, path, sizeof path));
  snprintf(lock, sizeof lock, "%s.lock", path);
  int fd = open(lock, O_RDWR);
  CU_ASSERT_EQUAL(flock(fd, LOCK_EX), 0);
  fx_model_param(&m, 2);
  tni_pack_opts o = fx_opts(&m, pool);
  o.stall_s = 1;
  int64_t from = tni_now_ns();
  expect_opts(&o, FX_ITEMS, 0, 1);
  const double stopped = (double)(tni_now_ns() - from) / 1e9;
  CU_ASSERT_EQUAL(fx_logged("has done nothing for 1 s: going on without it"), 1);
  CU_ASSERT(stopped >= 1 && stopped < 20);

  fflush(stdout);
  const pid_t holder = fork();
  if (holder == 0) { /* gives six signs, then lets go */
    for (int i = 0; i < 6; i++) {
      futimens(fd, NULL);
      usleep(400000);
    }
    _exit(0);
  }
  close(fd);
  fx_log_clear();
  fx_model_param(&m, 3);
  from = tni_now_ns();
  expect_opts(&o, FX_ITEMS, 0, 1);
  const double working = (double)(tni_now_ns() - from) / 1e9;
  CU_ASSERT_EQUAL(fx_logged("going on without it"), 0);
  CU_ASSERT(working >= 2);
  waitpid(holder, NULL, 0);
  printf("%.1f s for one that was stopped, %.1f s for one that works ... ", stopped, working);
  stop();
}

void test_cache_suite(void) {
  CU_pSuite s = CU_add_suite("pack cache", NULL, NULL);
  CU_add_test(s, "no folder", test_no_folder);
  CU_add_test(s, "names", test_names);
  CU_add_test(s, "full tmpfs", test_full_tmpfs);
  CU_add_test(s, "file size limit", test_file_size_limit);
  CU_add_test(s, "too large for the limit", test_too_large_for_limit);
  CU_add_test(s, "eviction", test_eviction);
  CU_add_test(s, "leftovers", test_leftovers);
  CU_add_test(s, "cancel while waiting", test_cancel_while_waiting);
  CU_add_test(s, "a holder of the lock that stalls", test_stalled_holder);
}
