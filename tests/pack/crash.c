/* SPDX-License-Identifier: Apache-2.0
 *
 * Writers that are killed or fail at every call that changes a file, and writers that run at once. The child is this
 * program again: --child DIR SCENARIO, with tests/pack/killat.c preloaded.
 */
#include <CUnit/Basic.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/pack/fixture.h"

enum { MAX_CALLS = 100 };

/* What the child finds in the cache: nothing; the file of another parameter; a damaged segment; a touched source. */
typedef enum { FRESH, EXTEND, REPAIR, TOUCH, N_SCENARIOS } scenario;
static const char *const scenario_names[] = {"fresh", "extend", "repair", "touch"};

int test_crash_child(int argc, char **argv) {
  static fx_model m;
  tni_pack_store *s = NULL;
  if (argc != 3) return 2;
  fx_model_init(&m, argv[2]);
  tni_pool *pool = tni_pool_create(2);
  if (fx_open(&m, FX_ITEMS, pool, &s) != TN_OK) return 3;
  int rc = fx_right(&m, FX_ITEMS, s) ? 0 : 4;
  tni_pack_store_close(s);
  tni_pool_destroy(pool);
  fx_model_finish(&m);
  return rc;
}

/* libkillat.so lies beside this program. */
static void preload_path(char *buf, size_t n) {
  char exe[400];
  ssize_t len = readlink("/proc/self/exe", exe, sizeof exe - 1);
  exe[len > 0 ? len : 0] = '\0';
  char *slash = strrchr(exe, '/');
  if (slash) *slash = '\0';
  snprintf(buf, n, "%s/libkillat.so", exe);
}

/* Exit status as waitpid gives it. */
static int run_child(const char *dir, const char *var, long at, bool torn, const char *log) {
  char lib[512], number[32];
  preload_path(lib, sizeof lib);
  snprintf(number, sizeof number, "%ld", at);
  pid_t pid = fork();
  if (pid == 0) {
    setenv("LD_PRELOAD", lib, 1);
    setenv("ASAN_OPTIONS", "verify_asan_link_order=0", 1);
    if (var) setenv(var, number, 1);
    if (torn) setenv("TENON_KILL_TORN", "1", 1);
    if (log) setenv("TENON_KILL_LOG", log, 1);
    execl("/proc/self/exe", "pack_test", "--child", dir, (char *)NULL);
    _exit(127);
  }
  int status = -1;
  waitpid(pid, &status, 0);
  return status;
}

static long counted(const char *log) {
  FILE *f = fopen(log, "r");
  long n = -1;
  if (f && fscanf(f, "%ld", &n) != 1) n = -1;
  if (f) fclose(f);
  return n;
}

static void touch(fx_model *m, int64_t sec) {
  const struct timespec t[2] = {{.tv_sec = sec}, {.tv_sec = sec}};
  utimensat(AT_FDCWD, m->file, t, 0);
  fx_model_stat(m);
}

static void damage(const char *cache) {
  char path[512];
  uint8_t byte;
  CU_ASSERT_TRUE_FATAL(fx_pack_file(cache, path, sizeof path));
  int fd = open(path, O_RDWR);
  off_t at = 200000;
  CU_ASSERT_EQUAL(pread(fd, &byte, 1, at), 1);
  byte ^= 4;
  CU_ASSERT_EQUAL(pwrite(fd, &byte, 1, at), 1);
  close(fd);
}

static void prepare(fx_model *m, scenario sc) {
  tni_pack_store *s = NULL;
  fx_remove_dir(m->cache);
  touch(m, 1600000000);
  if (sc == FRESH) return;
  fx_model_param(m, sc == EXTEND ? 33 : 90);
  CU_ASSERT_EQUAL_FATAL(fx_open(m, FX_ITEMS, NULL, &s), TN_OK);
  CU_ASSERT_EQUAL(tni_pack_store_stats(s)->cached, 1);
  tni_pack_store_close(s);
  fx_model_param(m, 90);
  if (sc == REPAIR) damage(m->cache);
  if (sc == TOUCH) touch(m, 1600000001);
}

/* An ordinary start after the accident: right bytes, and then nothing left to do. */
static void recover(fx_model *m, scenario sc, long at) {
  tni_pack_store *s = NULL;
  CU_ASSERT_EQUAL_FATAL(fx_open(m, FX_ITEMS, NULL, &s), TN_OK);
  bool right = fx_right(m, FX_ITEMS, s) && tni_pack_store_stats(s)->cached == 1;
  tni_pack_store_close(s);
  CU_ASSERT_EQUAL_FATAL(fx_open(m, FX_ITEMS, NULL, &s), TN_OK);
  right = right && tni_pack_store_stats(s)->packed_segments == 0 && fx_right(m, FX_ITEMS, s);
  tni_pack_store_close(s);
  if (sc == EXTEND) { /* what was there before is still there */
    fx_model_param(m, 33);
    CU_ASSERT_EQUAL_FATAL(fx_open(m, FX_ITEMS, NULL, &s), TN_OK);
    right = right && tni_pack_store_stats(s)->packed_segments == 0 && fx_right(m, FX_ITEMS, s);
    tni_pack_store_close(s);
    fx_model_param(m, 90);
  }
  if (!right) printf("\n  %s, call %ld: not right afterwards\n", scenario_names[sc], at);
  CU_ASSERT_TRUE(right);
  /* A writer killed after it renamed leaves nothing; one killed before, a file that the next writer sweeps. */
  fx_model_param(m, 55);
  CU_ASSERT_EQUAL_FATAL(fx_open(m, 1, NULL, &s), TN_OK);
  tni_pack_store_close(s);
  fx_model_param(m, 90);
  CU_ASSERT_EQUAL(fx_names(m->cache, ".tmp."), 0);
}

static void kill_everywhere(bool torn) {
  static fx_model m;
  char dir[256], log[300];
  fx_temp_dir(dir, sizeof dir);
  fx_model_init(&m, dir);
  snprintf(log, sizeof log, "%s/calls", dir);
  for (scenario sc = FRESH; sc < N_SCENARIOS; sc++) {
    prepare(&m, sc);
    CU_ASSERT_EQUAL_FATAL(run_child(dir, NULL, 0, false, log), 0);
    long calls = counted(log), at = 1;
    CU_ASSERT_TRUE(calls >= (sc == TOUCH ? 2 : 6)); /* the library does count */
    for (; at <= MAX_CALLS; at++) {
      prepare(&m, sc);
      int status = run_child(dir, "TENON_KILL_AT", at, torn, NULL);
      recover(&m, sc, at);
      if (WIFEXITED(status)) {
        CU_ASSERT_EQUAL(WEXITSTATUS(status), 0);
        break;
      }
      CU_ASSERT_EQUAL(WTERMSIG(status), SIGKILL);
    }
    CU_ASSERT_EQUAL(at, calls + 1);
    printf("%s: %ld calls; ", scenario_names[sc], calls);
  }
  fx_model_finish(&m);
  fx_remove_dir(dir);
}

static void test_kill(void) { kill_everywhere(false); }
static void test_kill_torn(void) { kill_everywhere(true); }

/* The same with a disk that is full at that call: the child itself must have the right bytes. */
static void test_fail(void) {
  static fx_model m;
  char dir[256], log[300];
  fx_temp_dir(dir, sizeof dir);
  fx_model_init(&m, dir);
  snprintf(log, sizeof log, "%s/calls", dir);
  for (scenario sc = FRESH; sc < N_SCENARIOS; sc++) {
    prepare(&m, sc);
    CU_ASSERT_EQUAL_FATAL(run_child(dir, NULL, 0, false, log), 0);
    for (long at = 1, calls = counted(log); at <= calls; at++) {
      prepare(&m, sc);
      int status = run_child(dir, "TENON_FAIL_ENOSPC_AT", at, false, NULL);
      if (status != 0) printf("\n  %s, call %ld failing: child ended with %d\n", scenario_names[sc], at, status);
      CU_ASSERT_EQUAL(status, 0);
      CU_ASSERT_EQUAL(fx_names(m.cache, ".tmp."), 0);
      recover(&m, sc, at);
    }
  }
  fx_model_finish(&m);
  fx_remove_dir(dir);
}

/* Two (then four) processes start packing at the same moment. */
static void race(fx_model *m, int n, int round) {
  int gate[2];
  pid_t pids[8];
  char byte;
  fx_remove_dir(m->cache);
  CU_ASSERT_EQUAL_FATAL(pipe(gate), 0);
  for (int i = 0; i < n; i++) {
    pids[i] = fork();
    if (pids[i] != 0) continue;
    tni_pack_store *s = NULL;
    close(gate[1]);
    if (round % 3 == 2 && i % 2) fx_model_param(m, 33); /* different segments for the same file */
    if (read(gate[0], &byte, 1) < 0) _exit(9);          /* ends when the last writer of the pipe is gone */
    if (fx_open(m, FX_ITEMS, NULL, &s) != TN_OK) _exit(3);
    _exit(fx_right(m, FX_ITEMS, s) ? 0 : 4);
  }
  close(gate[0]);
  close(gate[1]);
  for (int i = 0; i < n; i++) {
    int status = -1;
    waitpid(pids[i], &status, 0);
    CU_ASSERT_EQUAL(status, 0);
  }
  for (int k = 0; k < 2; k++) {
    tni_pack_store *s = NULL;
    fx_model_param(m, k && round % 3 == 2 ? 33 : 90);
    CU_ASSERT_EQUAL_FATAL(fx_open(m, FX_ITEMS, NULL, &s), TN_OK);
    CU_ASSERT_EQUAL(tni_pack_store_stats(s)->packed_segments, 0);
    CU_ASSERT_TRUE(fx_right(m, FX_ITEMS, s));
    tni_pack_store_close(s);
  }
  fx_model_param(m, 90);
  CU_ASSERT_EQUAL(fx_names(m->cache, ".tmp."), 0);
}

static void test_race(void) {
  static fx_model m;
  char dir[256];
  fx_temp_dir(dir, sizeof dir);
  fx_model_init(&m, dir);
  for (int round = 0; round < 30; round++) race(&m, round < 20 ? 2 : 4, round);
  fx_model_finish(&m);
  fx_remove_dir(dir);
}

void test_crash_suite(void) {
  CU_pSuite s = CU_add_suite("pack crash", NULL, NULL);
  CU_add_test(s, "killed at each call", test_kill);
  CU_add_test(s, "killed in half a write", test_kill_torn);
  CU_add_test(s, "no space at each call", test_fail);
  CU_add_test(s, "processes at once", test_race);
}
