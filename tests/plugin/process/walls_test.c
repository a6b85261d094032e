/* SPDX-License-Identifier: Apache-2.0
 *
 * What a plugin's process cannot do, what ends with it, and when a host that waits for it stops to wait.
 */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "isolate_test.h"
#include "runtime/memory/run.h"
#include "runtime/place/model_data.h"
#include "runtime/plugin/load/registry.h"
#include "runtime/plugin/plugin.h"
#include "runtime/plugin/process/shm.h"

#ifdef TNI_SANITIZED
enum { SANITIZED = 1 };
#else
enum { SANITIZED = 0 };
#endif

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static tn_status open_one(lab *l, const char *plugin) {
  const char *const dirs[] = {getenv("TENON_TEST_WALLS"), NULL};
  char profile[128];
  snprintf(profile, sizeof profile, "isolation: process\nplugins: [%s, host]\n", plugin);
  return lab_open(l, profile, dirs, NULL);
}

/* The number after "WORD " in the log or text; -1: it is not there. */
static int number_after(const char *text, const char *word) {
  const char *at = strstr(text, word);
  return at ? atoi(at + strlen(word)) : -1;
}

/* Neither running nor asleep; who is its parent now may be slow to reap. */
static bool is_gone(int pid) {
  char path[64], line[512] = "";
  snprintf(path, sizeof path, "/proc/%d/stat", pid);
  FILE *f = fopen(path, "re");
  if (!f) return true;
  const bool read = fgets(line, sizeof line, f) != NULL;
  fclose(f);
  const char *after = strrchr(line, ')');
  return !read || !after || after[2] == 'Z' || after[2] == 'X';
}

static bool gone_soon(int pid) {
  for (int i = 0; i < 200; i++) {
    if (is_gone(pid)) return true;
    usleep(10000);
  }
  return false;
}

/* --- escapes ----------------------------------------------------------------------------------------------------- */

enum { CALLS = TNI_WALL_CALLS, FILES = TNI_WALL_FILES };

/* by: one of these walls is enough; 0: nothing is in the way. */
static const struct {
  const char *name;
  uint32_t strict_by, driver_by;
} tries[] = {{"read-memory", CALLS, CALLS},  {"write-memory", CALLS, CALLS},   {"proc-memory", FILES, FILES},
             {"attach", CALLS, CALLS},       {"signal-host", CALLS, CALLS},    {"signal-supervisor", CALLS, CALLS},
             {"signal-group", CALLS, CALLS}, {"own-descriptor", CALLS, CALLS}, {"limit-host", CALLS, CALLS},
             {"read-file", FILES, FILES},    {"write-file", FILES, FILES},     {"beside-file", FILES, FILES},
             {"change-file", CALLS, CALLS},  {"remove-file", FILES, FILES},    {"own-cache", 0, 0},
             {"own-temporary", FILES, 0},    {"other-cache", FILES, FILES},    {"system-library", 0, 0},
             {"system-settings", FILES, 0},  {"inet-socket", CALLS, CALLS},    {"unix-socket", CALLS, CALLS},
             {"new-process", CALLS, 0},      {"new-program", CALLS, 0},        {"new-thread", 0, 0},
             {"mount", CALLS, CALLS},        {"new-namespace", CALLS, CALLS},  {"keys", CALLS, CALLS},
             {"bpf", CALLS, CALLS},          {"perf", CALLS, CALLS},           {"ring", CALLS, CALLS},
             {"outlive", CALLS, CALLS},      {"subreaper", CALLS, CALLS}};

static char secret[64];

static bool write_secret(void) {
  snprintf(secret, sizeof secret, "/tmp/tenon-walls-secret-%d", (int)getpid());
  FILE *f = fopen(secret, "w");
  return f && fputs("secret", f) > 0 && fclose(f) == 0 && chmod(secret, 0600) == 0;
}

static bool secret_is_whole(void) {
  char text[16] = "";
  struct stat s;
  FILE *f = fopen(secret, "re");
  const bool ok = f && fgets(text, sizeof text, f) && strcmp(text, "secret") == 0 && stat(secret, &s) == 0 &&
                  (s.st_mode & 0777) == 0600;
  if (f) fclose(f);
  return ok;
}

/* What this system has, asked apart from what is tested. */
static uint32_t available(void) {
  const uint32_t action = SECCOMP_RET_ERRNO;
  uint32_t w = 0;
  if (syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0) w |= CALLS;
  if (syscall(SYS_landlock_create_ruleset, NULL, 0, 1 /* LANDLOCK_CREATE_RULESET_VERSION */) > 0) w |= FILES;
  return w;
}

/* In a probe the system calls are those of `driver` on both levels: processes may be started, programs not. */
static uint32_t wall_of(size_t i, bool driver, bool probe) {
  const uint32_t by = driver ? tries[i].driver_by : tries[i].strict_by;
  const bool starts = strncmp(tries[i].name, "new-pro", 7) == 0;
  if (SANITIZED && strcmp(tries[i].name, "attach") == 0) return FILES; /* Landlock's: outside of its domain */
  if (starts && !driver && (probe || SANITIZED)) return strcmp(tries[i].name, "new-program") ? 0 : FILES;
  return by;
}

/* What `said` tells of each try, after `when`. */
static void judge_tries(const char *plugin, const tni_walls *w, const char *said, const char *when, bool probe) {
  char text[512];
  uint32_t held = 0, open = 0;
  for (size_t i = 0; i < sizeof tries / sizeof *tries; i++) {
    const uint32_t by = wall_of(i, w->level == TNI_CONFINE_DRIVER, probe);
    snprintf(text, sizeof text, "%stry %s ", when, tries[i].name);
    const int got = number_after(said, text);
    const bool missing = by && !(w->stand & by); /* this system has no such wall, and `tenon plugins` says so */
    const bool ok = got >= 0 && (missing || (got != 0) == (by != 0));
    if (!ok) printf("\n    %s: %s%s gave %d (%s)", plugin, when, tries[i].name, got, got > 0 ? strerror(got) : "");
    CU_ASSERT(ok);
    held += by && got > 0;
    open += !by && got == 0;
  }
  tni_walls_text(w, text, sizeof text);
  printf("\n    %s%s (Landlock %u); of %zu %u were refused, %u worked ", when, text, w->landlock,
         sizeof tries / sizeof *tries, held, open);
}

static volatile uint64_t word;

static void prepare_escape(const char *plugin) {
  char text[512];
  word = 42;
  CU_ASSERT_FATAL(write_secret());
  snprintf(text, sizeof text, "%d", (int)getpid());
  setenv("TENON_ESCAPE_PID", text, 1);
  snprintf(text, sizeof text, "%llu", (unsigned long long)(uintptr_t)&word);
  setenv("TENON_ESCAPE_ADDRESS", text, 1);
  setenv("TENON_ESCAPE_FILE", secret, 1);
  snprintf(text, sizeof text, "%s/plugins/%s", lab_cache(), plugin);
  setenv("TENON_ESCAPE_CACHE", text, 1);
}

static void check_walls(const tni_walls *w, bool driver) {
  CU_ASSERT_EQUAL(w->level, driver ? TNI_CONFINE_DRIVER : TNI_CONFINE_STRICT);
  CU_ASSERT_EQUAL(w->stand & (CALLS | FILES), available());
  CU_ASSERT(w->stand & TNI_WALL_NO_NEW_PRIVS && w->stand & TNI_WALL_SUPERVISED && w->stand & TNI_WALL_NO_CAPS);
}

static void finish_escape(const tni_walls *w) {
  if (w->stand & CALLS) CU_ASSERT_EQUAL(word, 42);
  if (w->stand & FILES) CU_ASSERT(secret_is_whole());
  unlink(secret);
}

static void escape(const char *plugin, bool driver) {
  lab l;
  prepare_escape(plugin);
  CU_ASSERT_EQUAL_FATAL(open_one(&l, plugin), TN_OK);
  const tni_walls w = tni_registry_find(l.rt->registry, plugin)->walls;
  check_walls(&w, driver);
  judge_tries(plugin, &w, l.log, "", false);
  lab_close(&l);
  finish_escape(&w);
}

static void test_escape(void) {
  escape("escape-strict", false);
  escape("escape-driver", true);
  printf("... ");
}

/* The same from a plugin's constructor and `open` in its probe. It leaves descriptors open, so it ends in quarantine
 * and is not loaded here. */
static void escape_probe(const char *plugin, bool driver) {
  const char *const dirs[] = {getenv("TENON_TEST_WALLS"), NULL};
  char text[16384] = "";
  lab l;
  prepare_escape(plugin);
  snprintf(text, sizeof text, "plugins: [{name: %s, probe: isolated, optional: true}, host]\n", plugin);
  char path[512];
  snprintf(path, sizeof path, "%s/tries", getenv("TENON_ESCAPE_CACHE"));
  CU_ASSERT_EQUAL_FATAL(tni_make_folder(getenv("TENON_ESCAPE_CACHE")), 0);
  unlink(path);
  CU_ASSERT_EQUAL_FATAL(lab_open(&l, text, dirs, NULL), TN_OK);
  const tni_plugin_info *i = tni_registry_find(l.rt->registry, plugin);
  CU_ASSERT(i->probed && !i->remembered && !i->process);
  const tni_walls w = i->probe_walls;
  check_walls(&w, driver);
  FILE *f = fopen(path, "re");
  text[f ? fread(text, 1, sizeof text - 1, f) : 0] = '\0';
  if (f) fclose(f);
  judge_tries(plugin, &w, text, "load ", true);
  judge_tries(plugin, &w, text, "open ", true);
  lab_close(&l);
  finish_escape(&w);
}

static void test_escape_probe(void) {
  escape_probe("escape-strict", false);
  escape_probe("escape-driver", true);
  printf("... ");
}

static void keep_line(void *user, uint32_t level, const char *line) {
  (void)level;
  if (strstr(line, "try own-temporary 0")) atomic_store((_Atomic bool *)user, true);
}

/* Without a cache a driver has a folder for as long as it runs. */
static void test_no_cache(void) {
  const char *const dirs[] = {getenv("TENON_TEST_WALLS")};
  char folder[] = "/tmp/tenon-walls-tmp-XXXXXX", profile[64];
  _Atomic bool kept = false;
  tn_runtime *rt = NULL;
  tn_error err;
  CU_ASSERT_PTR_NOT_NULL_FATAL(mkdtemp(folder));
  snprintf(profile, sizeof profile, "%s/p.yaml", folder);
  FILE *f = fopen(profile, "w");
  CU_ASSERT(f && fputs("isolation: process\nplugins: [escape-driver, host]\n", f) > 0 && fclose(f) == 0);
  const tn_runtime_opts o = {.h = {sizeof o, 1, 0},
                             .profile = profile,
                             .plugin_dirs = dirs,
                             .n_plugin_dirs = 1,
                             .log_level = TN_LOG_ERROR,
                             .log = keep_line,
                             .log_user = &kept,
                             .helper = getenv("TENON_TEST_HELPER"),
                             .flags = TN_RT_TEST_WRITABLE | TN_RT_NO_PROBE};
  tn_error_init(&err);
  setenv("TMPDIR", folder, 1);
  CU_ASSERT_EQUAL(tn_runtime_create(&o, &rt, &err), TN_OK);
  if (err.code) printf("\n    %s", err.message);
  tn_runtime_destroy(rt);
  unsetenv("TMPDIR");
  CU_ASSERT(atomic_load(&kept));
  unlink(profile);
  CU_ASSERT_EQUAL(rmdir(folder), 0); /* nothing else is left in it */
}

/* What only the host touches does not lie in memory that the plugin has; what both touch does. */
static void test_memory(void) {
  const char *const dirs[] = {getenv("TENON_FAULT_CORPUS"), NULL};
  float x[5 * 8] = {1, 2, 3};
  char path[128];
  tn_model *m = NULL;
  tn_session *s = NULL;
  lab l;
  CU_ASSERT_EQUAL_FATAL(lab_open(&l, "isolation: process\nplugins: [good, host]\nrequire: [good]\n", dirs, NULL),
                        TN_OK);
  CU_ASSERT_FATAL(small_model(&l, path, sizeof path));
  const tn_tensor in = {
      .h = {sizeof in, 1, 0}, .name = "x", .dtype = TN_DT_F32, .rank = 2, .dims = {5, 8}, .data = x, .bytes = sizeof x};
  const tn_tensor *list[1] = {&in};
  tn_tensor out = {.h = {sizeof out, 1, 0}};
  CU_ASSERT_EQUAL_FATAL(tn_model_load(l.rt, path, NULL, &m, &l.err), TN_OK);
  CU_ASSERT_EQUAL_FATAL(tn_session_create(m, &s, &l.err), TN_OK);
  CU_ASSERT_EQUAL(tn_session_run(s, TN_PHASE_ANY, list, 1, &out, 1, &l.err), TN_OK);
  tni_shm_at at;
  CU_ASSERT(!tni_shm_find(l.rt->shm, out.data, out.bytes, &at)); /* y: the host's Add */
  const tni_exec *e = &m->execs[0];
  const tni_sexec *se = &s->execs[0];
  int both = 0, own = 0;
  for (uint32_t i = 0; i < e->n_regions; i++) {
    const tni_region *r = &e->regions[i];
    if (r->block == TN_NONE || !se->regions[i].ptr) continue;
    const bool shared = tni_shm_find(l.rt->shm, se->regions[i].ptr, 1, &at);
    CU_ASSERT_EQUAL(shared, r->users.process);
    both += shared;
    own += !shared;
  }
  printf("%d shared, %d the host's own ... ", both, own);
  CU_ASSERT(both > 0 && own > 0);
  tn_session_destroy(s);
  tn_model_destroy(m);
  lab_close(&l);
}

/* --- what outlives ----------------------------------------------------------------------------------------------- */

enum { CLOSE, KILL_WORKER, KILL_SUPERVISOR };

static int parent_of(int pid) {
  char path[64], line[512] = "";
  int parent = 0;
  snprintf(path, sizeof path, "/proc/%d/stat", pid);
  FILE *f = fopen(path, "re");
  if (f && !fgets(line, sizeof line, f)) line[0] = '\0';
  if (f) fclose(f);
  const char *after = strrchr(line, ')');
  return after && sscanf(after, ") %*c %d", &parent) == 1 ? parent : 0;
}

static void orphan(int how) {
  lab l;
  CU_ASSERT_EQUAL_FATAL(open_one(&l, "brood-driver"), TN_OK);
  const int worker = lab_child(&l, "brood-driver"), brood = number_after(l.log, "brood ");
  CU_ASSERT(worker > 0 && brood > 0 && !is_gone(brood));
  const int supervisor = parent_of(worker);
  CU_ASSERT_EQUAL(parent_of(supervisor), (int)getpid());
  if (how == KILL_WORKER) kill(worker, SIGKILL);
  if (how != CLOSE) CU_ASSERT(gone_soon(worker));
  if (how != CLOSE) CU_ASSERT(gone_soon(brood));
  lab_close(&l);
  CU_ASSERT(gone_soon(brood) && gone_soon(worker) && gone_soon(supervisor));
}

static void test_orphans(void) {
  orphan(CLOSE);
  orphan(KILL_WORKER);
  lab l;
  CU_ASSERT_EQUAL_FATAL(open_one(&l, "brood-strict"), TN_OK);
  const bool calls = tni_registry_find(l.rt->registry, "brood-strict")->walls.stand & CALLS;
  if (calls && !SANITIZED) CU_ASSERT_EQUAL(number_after(l.log, "brood "), 0);
  lab_close(&l);
}

/* What a plugin starts in its probe ends with the probe, which may start processes on both levels. */
static void test_orphan_probe(void) {
  static const char *const names[] = {"brood-strict", "brood-driver"};
  const char *const dirs[] = {getenv("TENON_TEST_WALLS"), NULL};
  for (int k = 0; k < 2; k++) {
    char text[128];
    lab l;
    snprintf(text, sizeof text, "plugins: [{name: %s, probe: isolated, optional: true}, host]\n", names[k]);
    CU_ASSERT_EQUAL_FATAL(lab_open(&l, text, dirs, NULL), TN_OK);
    const tni_plugin_info *i = tni_registry_find(l.rt->registry, names[k]);
    const int brood = number_after(i->why.message, "brood ");
    CU_ASSERT(i->quarantined && strstr(i->why.message, "shutdown leaves a child process behind"));
    CU_ASSERT(brood > 0 && gone_soon(brood));
    if (brood <= 0) printf("\n    %s", i->why.message);
    lab_close(&l);
  }
}

/* The host is killed: all that its plugin started goes. */
static void test_host_killed(void) {
  int fd[2], pids[2] = {0, 0};
  CU_ASSERT_EQUAL_FATAL(pipe(fd), 0);
  fflush(stdout);
  const pid_t host = fork();
  if (host == 0) {
    lab l;
    if (open_one(&l, "brood-driver") == TN_OK) {
      pids[0] = lab_child(&l, "brood-driver");
      pids[1] = number_after(l.log, "brood ");
    }
    if (write(fd[1], pids, sizeof pids) != sizeof pids) _exit(1);
    for (;;) pause();
  }
  close(fd[1]);
  CU_ASSERT_EQUAL(read(fd[0], pids, sizeof pids), sizeof pids);
  close(fd[0]);
  CU_ASSERT(pids[0] > 0 && pids[1] > 0);
  kill(host, SIGKILL);
  waitpid(host, NULL, 0);
  CU_ASSERT(gone_soon(pids[0]) && gone_soon(pids[1]));
}

/* --- deadlines --------------------------------------------------------------------------------------------------- */

/* D5: a plugin that says something every 50 ms has no more time for that. */
static void deadline(const char *where, const char *call) {
  enum { LIMIT_MS = 1000 };
  char profile[256], want[64];
  const char *line = NULL;
  bool right;
  int child;
  lab l;
  snprintf(profile, sizeof profile,
           "isolation: process\ntimeout_ms: %d\nplugins:\n  - name: nag\n    optional: true\n  - host\n", LIMIT_MS);
  snprintf(want, sizeof want, "no answer to '%s' for %d ms", call, LIMIT_MS);
  setenv("TENON_NAG", where, 1);
  const double from = seconds();
  const tn_status st = small_try(&(small_case){.profile = profile, .plugin = "nag"}, &l, &right, &child);
  const double took = seconds() - from;
  unsetenv("TENON_NAG");
  CU_ASSERT_EQUAL(st, TN_OK);
  CU_ASSERT(right);
  CU_ASSERT_EQUAL(tn_runtime_losses(l.rt, &line), 1);
  CU_ASSERT(line && strstr(line, want));
  CU_ASSERT(number_after(l.log, "nag ") > 0);
  CU_ASSERT(took < 5);
  printf("%s: %.1f s ... ", call, took);
  lab_close(&l);
}

static void test_deadlines(void) {
  deadline("claim", "claim");
  deadline("begin", "begin");
}

/* Reads until the text is there; false: the end came before. */
static bool read_until(int fd, char *buf, size_t size, const char *text) {
  size_t n = 0;
  while (n + 1 < size) {
    const ssize_t k = read(fd, buf + n, size - 1 - n);
    if (k < 0 && errno == EINTR) continue;
    if (k <= 0) break;
    n += (size_t)k;
    buf[n] = '\0';
    const char *at = strstr(buf, text);
    if (at && strchr(at, '\n')) return true;
  }
  return false;
}

static pid_t start_tenon(const lab *l, const char *model, int out) {
  char profile[128];
  snprintf(profile, sizeof profile, "%s/profile.yaml", l->dir);
  const pid_t p = fork();
  if (p != 0) return p;
  dup2(out, 2);
  setenv("TENON_NAG", "claim", 1);
  execl(getenv("TENON_TEST_TENON"), "tenon", "check", model, "--profile", profile, "--plugin-dir",
        getenv("TENON_TEST_WALLS"), "--cache-dir", lab_cache(), (char *)NULL);
  _exit(127);
}

/* A plugin that does not come back: a signal ends the command and what belongs to it. */
static void end_by(int sig, int *status) {
  const char *const dirs[] = {getenv("TENON_TEST_WALLS"), NULL};
  char model[128], text[8192] = "";
  int fd[2];
  *status = 0;
  lab l;
  CU_ASSERT_EQUAL_FATAL(lab_open(&l, "isolation: process\nplugins: [nag, host]\n", dirs, NULL), TN_OK);
  CU_ASSERT_FATAL(small_model(&l, model, sizeof model) && pipe(fd) == 0);
  fflush(stdout);
  const pid_t p = start_tenon(&l, model, fd[1]);
  close(fd[1]);
  CU_ASSERT(read_until(fd[0], text, sizeof text, "nag: nag "));
  const int child = number_after(text, "nag: nag ");
  CU_ASSERT(child > 0 && !is_gone(child));
  const double from = seconds();
  kill(p, sig);
  for (int i = 0; i < 500 && waitpid(p, status, WNOHANG) != p; i++) usleep(10000);
  const double took = seconds() - from;
  kill(p, SIGKILL);
  CU_ASSERT(took < 1);
  CU_ASSERT(gone_soon(child));
  printf("%.0f ms ... ", took * 1e3);
  close(fd[0]);
  lab_close(&l);
}

static void test_terminated(void) {
  int status;
  end_by(SIGTERM, &status);
  CU_ASSERT(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
}

static void test_interrupted(void) {
  int status;
  end_by(SIGINT, &status);
  CU_ASSERT(WIFEXITED(status) && WEXITSTATUS(status) == 130);
}

/* --- the application's process ----------------------------------------------------------------------------------- */

typedef struct attributes {
  int dumpable, subreaper, death, privileges;
  tni_procstate *rest;
} attributes;

static attributes look(void) {
  attributes a = {.dumpable = prctl(PR_GET_DUMPABLE), .privileges = prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)};
  (void)prctl(PR_GET_CHILD_SUBREAPER, &a.subreaper);
  (void)prctl(PR_GET_PDEATHSIG, &a.death);
  a.rest = tni_procstate_take();
  return a;
}

/* The library leaves the process as it is; with the flag it makes it undumpable, and no more. */
static void test_attributes(void) {
  const char *const dirs[] = {getenv("TENON_TEST_WALLS"), NULL};
  char what[160] = "";
  lab l;
  const attributes before = look();
  CU_ASSERT_EQUAL_FATAL(lab_open(&l, "isolation: process\nplugins: [brood-strict, host]\n", dirs, NULL), TN_OK);
  const attributes after = look();
  CU_ASSERT(before.dumpable == after.dumpable && before.subreaper == after.subreaper && before.death == after.death &&
            before.privileges == after.privileges);
  CU_ASSERT(!tni_procstate_differs(before.rest, after.rest, "", false, what, sizeof what));
  if (what[0]) printf("\n    it %s ", what);
  tni_procstate_destroy(before.rest);
  tni_procstate_destroy(after.rest);
  fflush(stdout);
  const pid_t p = fork();
  if (p == 0) {
    char path[128];
    snprintf(path, sizeof path, "%s/profile.yaml", l.dir);
    const tn_runtime_opts o = {.h = {sizeof o, 1, 0},
                               .profile = path,
                               .plugin_dirs = dirs,
                               .n_plugin_dirs = 1,
                               .helper = getenv("TENON_TEST_HELPER"),
                               .flags = TN_RT_TEST_WRITABLE | TN_RT_UNDUMPABLE};
    tn_runtime *rt = NULL;
    tn_error err;
    tn_error_init(&err);
    const tn_status st = tn_runtime_create(&o, &rt, &err);
    tn_runtime_destroy(rt);
    _exit(st == TN_OK && prctl(PR_GET_DUMPABLE) == 0 ? 0 : 1);
  }
  int status = -1;
  waitpid(p, &status, 0);
  CU_ASSERT(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  lab_close(&l);
}

void suite_walls(void) {
  CU_pSuite s = CU_add_suite("isolate: walls", NULL, NULL);
  CU_add_test(s, "what a plugin's process tries", test_escape);
  CU_add_test(s, "what a plugin tries in its probe", test_escape_probe);
  CU_add_test(s, "memory of the host alone", test_memory);
  CU_add_test(s, "a driver without a cache", test_no_cache);
  CU_add_test(s, "orphans of a plugin", test_orphans);
  CU_add_test(s, "orphans of a plugin in its probe", test_orphan_probe);
  CU_add_test(s, "orphans of a plugin whose host is killed", test_host_killed);
  CU_add_test(s, "a deadline is one", test_deadlines);
  CU_add_test(s, "SIGTERM", test_terminated);
  CU_add_test(s, "SIGINT", test_interrupted);
  CU_add_test(s, "the application's process", test_attributes);
}
