/* SPDX-License-Identifier: Apache-2.0
 *
 * A plugin that tries what no plugin's process should be able to do, when it is loaded and when its device is opened,
 * and logs what came of it: "try NAME 0" where it worked, "try NAME ERRNO" where not. What a probe logs goes nowhere,
 * so it also writes lines "load try NAME ERRNO" and "open try NAME ERRNO" into the file `tries` of its folder. In the
 * host's own process it tries nothing. TENON_ESCAPE_PID and _ADDRESS: the host and a word of its; _FILE: a file of the
 * user's; _CACHE: the plugin's own folder.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/faults/corpus/whole.h"

static const char *given(const char *name) {
  const char *s = getenv(name);
  return s ? s : "";
}
static pid_t host_pid(void) { return (pid_t)atoi(given("TENON_ESCAPE_PID")); }
static void *host_word(void) { return (void *)(uintptr_t)strtoull(given("TENON_ESCAPE_ADDRESS"), NULL, 10); }

static long vm(int call) {
  uint64_t word = 4711;
  struct iovec own = {&word, sizeof word}, its = {host_word(), sizeof word};
  return syscall(call, host_pid(), &own, 1, &its, 1, 0);
}
static long read_memory(void) { return vm(SYS_process_vm_readv); }
static long write_memory(void) { return vm(SYS_process_vm_writev); }
static long proc_memory(void) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/mem", (int)host_pid());
  return open(path, O_RDWR);
}
static long attach(void) { return ptrace(PTRACE_SEIZE, host_pid(), NULL, NULL); }
static long signal_host(void) { return kill(host_pid(), 0); }
static long signal_supervisor(void) { return kill(getppid(), 0); }
static long signal_group(void) { return kill(0, 0); }
static long own_descriptor(void) {
  int s[2];
  return pipe(s) == 0 ? fcntl(s[0], F_SETOWN, host_pid()) : -1;
}
static long limit_host(void) {
  const struct rlimit none = {0, 0};
  return syscall(SYS_prlimit64, host_pid(), RLIMIT_CORE, &none, NULL);
}
static long read_file(void) { return open(given("TENON_ESCAPE_FILE"), O_RDONLY); }
static long write_file(void) { return open(given("TENON_ESCAPE_FILE"), O_WRONLY); }
static long change_file(void) { return chmod(given("TENON_ESCAPE_FILE"), 0666); }
static long remove_file(void) { return unlink(given("TENON_ESCAPE_FILE")); }
static long beside_file(void) {
  char path[512];
  snprintf(path, sizeof path, "%s.new", given("TENON_ESCAPE_FILE"));
  return open(path, O_CREAT | O_WRONLY, 0600);
}
static long own_cache(void) {
  char path[512];
  snprintf(path, sizeof path, "%s/kept", given("TENON_ESCAPE_CACHE"));
  const int fd = open(path, O_CREAT | O_WRONLY, 0600);
  return fd >= 0 && write(fd, "x", 1) == 1 && unlink(path) == 0 ? 0 : -1;
}
static long own_temporary(void) {
  char path[512];
  snprintf(path, sizeof path, "%s/kept", getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
  return open(path, O_CREAT | O_WRONLY, 0600) >= 0 && unlink(path) == 0 ? 0 : -1;
}
static long other_cache(void) {
  char path[512];
  snprintf(path, sizeof path, "%s/../../other", given("TENON_ESCAPE_CACHE"));
  return open(path, O_CREAT | O_WRONLY, 0600);
}
static long system_library(void) { return open("/usr/lib", O_RDONLY | O_DIRECTORY); }
static long system_settings(void) { return open("/etc/passwd", O_RDONLY); }
static long inet_socket(void) { return syscall(SYS_socket, 2 /* AF_INET */, 1, 0); }
static long unix_socket(void) { return syscall(SYS_socket, 1 /* AF_UNIX */, 1, 0); }
static long new_process(void) {
  const pid_t p = fork();
  if (p == 0) _exit(0);
  return p > 0 && waitpid(p, NULL, 0) == p ? 0 : -1;
}
static long new_program(void) {
  static const char *const argv[] = {"/bin/true", NULL};
  const pid_t p = fork();
  if (p == 0) {
    execv(argv[0], (char *const *)(uintptr_t)argv);
    _exit(1);
  }
  int status = 0;
  if (p <= 0 || waitpid(p, &status, 0) != p) return -1;
  errno = EACCES;
  return status == 0 ? 0 : -1;
}
static void *nothing(void *arg) { return arg; }
static long new_thread(void) {
  pthread_t t;
  const int e = pthread_create(&t, NULL, nothing, NULL);
  errno = e;
  return e ? -1 : pthread_join(t, NULL);
}
/* Nothing is ever mounted: who may, is told that there is no such folder. */
static long mount_nowhere(void) {
  return mount("none", "/tenon-has-no-such-folder", "tmpfs", 0, NULL) != 0 && errno == ENOENT ? 0 : -1;
}
static long new_namespace(void) { return unshare(CLONE_NEWUSER); }
static long keys(void) { return syscall(SYS_add_key, "user", "tenon", "x", 1, -3 /* process keyring */); }
static long bpf_map(void) {
  union bpf_attr a;
  memset(&a, 0, sizeof a);
  a.map_type = BPF_MAP_TYPE_ARRAY;
  a.key_size = 4;
  a.value_size = 4;
  a.max_entries = 1;
  return syscall(SYS_bpf, BPF_MAP_CREATE, &a, sizeof a);
}
static long perf(void) {
  struct perf_event_attr a = {.type = PERF_TYPE_SOFTWARE, .size = sizeof a, .exclude_kernel = 1};
  return syscall(SYS_perf_event_open, &a, 0, -1, -1, 0);
}
static long ring(void) {
  uint64_t params[16] = {0};
  return syscall(SYS_io_uring_setup, 1, params);
}
static long outlive(void) { return prctl(PR_SET_PDEATHSIG, 0); }
static long subreaper(void) { return prctl(PR_SET_CHILD_SUBREAPER, 1); }

static const struct {
  const char *name;
  long (*fn)(void);
} tries[] = {{"read-memory", read_memory},
             {"write-memory", write_memory},
             {"proc-memory", proc_memory},
             {"attach", attach},
             {"signal-host", signal_host},
             {"signal-supervisor", signal_supervisor},
             {"signal-group", signal_group},
             {"own-descriptor", own_descriptor},
             {"limit-host", limit_host},
             {"read-file", read_file},
             {"write-file", write_file},
             {"beside-file", beside_file},
             {"change-file", change_file},
             {"remove-file", remove_file},
             {"own-cache", own_cache},
             {"own-temporary", own_temporary},
             {"other-cache", other_cache},
             {"system-library", system_library},
             {"system-settings", system_settings},
             {"inet-socket", inet_socket},
             {"unix-socket", unix_socket},
             {"new-process", new_process},
             {"new-program", new_program},
             {"new-thread", new_thread},
             {"mount", mount_nowhere},
             {"new-namespace", new_namespace},
             {"keys", keys},
             {"bpf", bpf_map},
             {"perf", perf},
             {"ring", ring},
             {"outlive", outlive},
             {"subreaper", subreaper}};

static void note_try(const char *when, const char *name, int result) {
  char path[512];
  snprintf(path, sizeof path, "%s/tries", given("TENON_ESCAPE_CACHE"));
  FILE *f = fopen(path, "ae");
  if (!f) return;
  fprintf(f, "%s try %s %d\n", when, name, result);
  fclose(f);
}

static void try_all(const char *when, const tn_host *host) {
  if (getpid() == host_pid()) return;
  for (size_t i = 0; i < sizeof tries / sizeof *tries; i++) {
    char line[96];
    errno = 0;
    const long got = tries[i].fn();
    const int result = got >= 0 ? 0 : errno;
    note_try(when, tries[i].name, result);
    snprintf(line, sizeof line, "try %s %d", tries[i].name, result);
    if (host) host->log(host->ctx, TN_LOG_ERROR, line);
  }
}

__attribute__((constructor)) static void when_loaded(void) { try_all("load", NULL); }

IN_OPEN(try_all("open", ((const backend *)p)->host))
