/* SPDX-License-Identifier: Apache-2.0
 *
 * A child that lies: the host survives whatever it says. And nothing is left behind.
 */
#include <limits.h>
#include <linux/futex.h>
#include <malloc.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "isolate_test.h"
#include "runtime/plugin/process/futex.h"
#include "runtime/plugin/process/shm.h"
#include "runtime/plugin/process/wire.h"
#include "tests/kit/proc.h"

/* A process that is built with a sanitizer takes longer to start. */
#ifdef __SANITIZE_ADDRESS__
#define HASTE "2500"
#else
#define HASTE "400"
#endif
static const char hasty[] = "isolation: process\ntimeout_ms: " HASTE "\nplugins: [cpu-avx2-lut, host]\n";
static const char isolated[] = "isolation: process\nplugins: [cpu-avx2-lut, host]\n";

/* --- messages ------------------------------------------------------------------------------------------------------
 */

static void test_messages(void) {
  int s[2];
  tni_wire w = {.n = 0};
  tni_rd r;
  uint32_t n = 0;
  tni_arena *a = tni_arena_create();
  CU_ASSERT_EQUAL_FATAL(socketpair(AF_UNIX, SOCK_STREAM, 0, s), 0);
  const uint32_t list[3] = {5, 6, 7};
  tni_w_u64(&w, UINT64_MAX - 1);
  tni_w_str(&w, "a name");
  tni_w_str(&w, NULL);
  tni_w_array(&w, list, 3, sizeof *list);
  tni_w_fd(&w, s[0]);
  CU_ASSERT_EQUAL(tni_wire_send(s[0], 7, 8, &w, -1), TN_OK);
  CU_ASSERT_EQUAL_FATAL(tni_wire_receive(s[1], -1, -1, &r), TN_OK);
  CU_ASSERT(r.kind == 7 && r.seq == 8 && r.n_fds == 1);
  CU_ASSERT_EQUAL(tni_r_u64(&r), UINT64_MAX - 1);
  CU_ASSERT_STRING_EQUAL(tni_r_str(&r, a, 10), "a name");
  CU_ASSERT_PTR_NULL(tni_r_str(&r, a, 10));
  const uint32_t *back = tni_r_array(&r, a, &n, sizeof *back, 3);
  CU_ASSERT(n == 3 && memcmp(back, list, sizeof list) == 0 && tni_rd_whole(&r));
  CU_ASSERT_EQUAL(tni_r_u32(&r), 0); /* behind the end */
  CU_ASSERT(r.bad);
  tni_rd_finish(&r);
  /* Counts that cannot be. */
  w.n = w.n_fds = 0;
  tni_w_u32(&w, 1000000);
  CU_ASSERT_EQUAL(tni_wire_send(s[0], 1, 1, &w, -1), TN_OK);
  CU_ASSERT_EQUAL_FATAL(tni_wire_receive(s[1], -1, -1, &r), TN_OK);
  CU_ASSERT_EQUAL(tni_r_count(&r, 8, UINT32_MAX), 0);
  CU_ASSERT(r.bad);
  tni_rd_finish(&r);
  /* No message, no peer. */
  CU_ASSERT_EQUAL(tni_wire_receive(s[1], 0, 0, &r), TN_E_CANCELLED);
  CU_ASSERT_EQUAL(write(s[0], "this is no frame at all, really", 24), 24);
  CU_ASSERT_EQUAL(tni_wire_receive(s[1], -1, -1, &r), TN_E_CORRUPT);
  close(s[1]);
  CU_ASSERT_EQUAL(tni_wire_send(s[0], 1, 1, &w, -1), TN_E_DEVICE_LOST); /* and no SIGPIPE */
  close(s[0]);
  tni_wire_finish(&w);
  tni_arena_destroy(a);
}

/* A child that shortens what it was given would make the host fault. */
static void test_sealed(void) {
  tni_shm *s = tni_shm_create();
  tni_shm_at at;
  char *p = tni_shm_alloc(s, 10000);
  CU_ASSERT_FATAL(p && tni_shm_find(s, p + 100, 5000, &at));
  CU_ASSERT_EQUAL(at.offset, 100);
  CU_ASSERT(ftruncate(at.fd, 0) != 0);
  CU_ASSERT(!tni_shm_find(s, p + 100, 1 << 20, &at));
  const uint32_t id = at.id;
  tni_shm_free(s, p);
  CU_ASSERT(!tni_shm_alive(s, id));
  tni_shm_destroy(s);
}

/* --- lies ----------------------------------------------------------------------------------------------------------
 */

/* The helper with every message that it sends, and the shared page, open to mischief (liar.c). */
static void test_lies(void) {
  if (!has_avx2()) return;
  const char *first = getenv("TENON_TEST_SEED");
  const int from = first ? atoi(first) : 1;
  int went_on = 0, noticed = 0;
  for (int seed = from; seed < from + 10; seed++) {
    char text[16];
    int32_t got[3];
    static const int32_t prompt[4] = {9, 410, 77, 31};
    lab l;
    snprintf(text, sizeof text, "%d", seed);
    setenv("TENON_LIAR_SEED", text, 1);
    tn_status st = lab_open(&l, hasty, NULL, getenv("TENON_TEST_LIAR"));
    if (st == TN_OK) st = lab_load(&l);
    if (st == TN_OK) st = lab_generate(&l, prompt, 4, 3, -1, NULL, NULL, got);
    CU_ASSERT(st == TN_OK || l.err.message[0]);
    went_on += st == TN_OK;
    noticed += st != TN_OK || tn_runtime_losses(l.rt, NULL) > 0;
    lab_close(&l);
  }
  unsetenv("TENON_LIAR_SEED");
  printf("of 10 %d were noticed, %d ended well ... ", noticed, went_on);
  CU_ASSERT(noticed > 0 && went_on > 0); /* or it lies too little or too much */
}

/* --- what is left --------------------------------------------------------------------------------------------------
 */

typedef struct held {
  int files, threads, maps;
  size_t heap;
} held;

static int count_memfds(void) {
  int n = 0;
  char line[1024];
  FILE *f = fopen("/proc/self/maps", "re");
  while (f && fgets(line, sizeof line, f)) n += strstr(line, "memfd:") != NULL;
  if (f) fclose(f);
  return n;
}

static held measure(void) {
  return (held){kit_count_entries("/proc/self/fd"), kit_count_entries("/proc/self/task"), count_memfds(),
                mallinfo2().uordblks};
}

static void test_leaves_nothing(void) {
  if (!has_avx2()) return;
  held before = {0}, settled = {0}, after;
  for (int i = 0; i < 101; i++) {
    lab l;
    CU_ASSERT_EQUAL_FATAL(lab_open(&l, isolated, NULL, NULL), TN_OK);
    const int pid = lab_child(&l, "cpu-avx2-lut");
    const bool used = i % 20 == 0;
    if (used) CU_ASSERT_EQUAL(lab_load(&l), TN_OK);
    CU_ASSERT_FATAL(pid > 0);
    if (i % 3 == 0) kill(pid, SIGKILL);
    lab_close(&l);
    CU_ASSERT(kill(pid, 0) != 0); /* neither running nor a zombie */
    if (i == 0) before = measure();
    if (i == 20) settled = measure(); /* the first of each kind fills what is kept once */
  }
  after = measure();
  CU_ASSERT_EQUAL(after.files, before.files);
  CU_ASSERT_EQUAL(after.threads, before.threads);
  CU_ASSERT_EQUAL(after.maps, before.maps);
  const long long grown = (long long)after.heap - (long long)settled.heap;
  printf("the heap grew by %lld bytes in 80 ... ", grown);
  CU_ASSERT(grown <= 80 * 64 + 4096);        /* less than a block each time */
  CU_ASSERT(waitpid(-1, NULL, WNOHANG) < 0); /* no children at all */
}

static void wake_for_ever(_Atomic uint32_t *at) {
  for (;;) syscall(SYS_futex, at, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

/* A child that wakes its host all the time and answers nothing: the host comes back from each wait, to look at the
 * clock. */
static void test_wakes(void) {
  enum { MS = 2000, WAITS = 3 };
  int status = -1;
  _Atomic uint32_t *at = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CU_ASSERT_FATAL(at != MAP_FAILED);
  fflush(stdout);
  const pid_t child = fork();
  if (child == 0) wake_for_ever(at);
  const pid_t host = fork();
  if (host == 0) {
    for (int i = 0; i < WAITS; i++) (void)tni_futex_wait(at, 0, at + 1, MS);
    _exit(0);
  }
  pid_t ended = 0;
  for (int i = 0; i < 1000 && ended != host; i++) {
    ended = waitpid(host, &status, WNOHANG);
    if (ended != host) usleep(10000);
  }
  kill(host, SIGKILL);
  kill(child, SIGKILL);
  if (ended != host) waitpid(host, &status, 0);
  waitpid(child, NULL, 0);
  CU_ASSERT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  munmap((void *)at, 4096);
}

/* Who has the runtime dies: the child does too, whatever it is doing. */
static void test_host_dies(void) {
  if (!has_avx2()) return;
  int fd[2], child = 0;
  CU_ASSERT_EQUAL_FATAL(pipe(fd), 0);
  fflush(stdout);
  const pid_t host = fork();
  if (host == 0) {
    lab l;
    int pid = lab_open(&l, isolated, NULL, NULL) == TN_OK ? lab_child(&l, "cpu-avx2-lut") : 0;
    if (pid > 0) kill(pid, SIGSTOP); /* it sees nothing close */
    if (write(fd[1], &pid, sizeof pid) != sizeof pid) _exit(1);
    for (;;) pause();
  }
  close(fd[1]);
  CU_ASSERT_EQUAL(read(fd[0], &child, sizeof child), sizeof child);
  close(fd[0]);
  CU_ASSERT(child > 0);
  kill(host, SIGKILL);
  waitpid(host, NULL, 0);
  bool gone = false;
  for (int i = 0; i < 300 && !gone; i++) {
    char path[64], state = '?';
    snprintf(path, sizeof path, "/proc/%d/stat", child);
    FILE *f = fopen(path, "re");
    if (f && fscanf(f, "%*d (%*[^)]) %c", &state) != 1) state = '?';
    if (f) fclose(f);
    gone = !f || state == 'Z' || state == 'X'; /* whoever is its parent now may not reap */
    usleep(10000);
  }
  CU_ASSERT(gone);
}

void suite_wire(void) {
  CU_pSuite s = CU_add_suite("isolate: lies, and what is left", NULL, NULL);
  CU_add_test(s, "messages", test_messages);
  CU_add_test(s, "shared memory keeps its size", test_sealed);
  CU_add_test(s, "a child that lies", test_lies);
  CU_add_test(s, "a child that wakes its host for nothing", test_wakes);
  CU_add_test(s, "opened and closed 101 times", test_leaves_nothing);
  CU_add_test(s, "the host dies", test_host_dies);
}
