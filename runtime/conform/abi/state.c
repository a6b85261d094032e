/* SPDX-License-Identifier: Apache-2.0
 *
 * Family abi, what surrounds calls: the thread's and the process's state.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <locale.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/conform/abi/parts.h"
#include "runtime/conform/drive/drive.h"
#include "runtime/plugin/plugin.h"

enum { ENV_BYTES = 64 << 10 };

extern char **environ;

typedef struct caller_state {
  uint64_t fpmode;
  sigset_t mask;
  cpu_set_t cpus;
  struct sigaction actions[NSIG];
  char cwd[512], locale[128], thread[32];
  mode_t umask;
  int priority;
  struct rlimit limits[RLIM_NLIMITS];
  char environment[ENV_BYTES]; /* NAME=VALUE, each on a line, cut */
  long long printed, said;     /* bytes on standard output, on standard error */
  long long process[8];        /* what prctl, getitimer and fcntl say: process_words */
} caller_state;

static const char *const process_words[8] = {"whether the process can be looked at (PR_SET_DUMPABLE)",
                                             "whether the process can gain privileges (PR_SET_NO_NEW_PRIVS)",
                                             "which signal the process gets when its parent ends",
                                             "whether memory lies in huge pages (PR_SET_THP_DISABLE)",
                                             "a timer of the process, which will send it a signal",
                                             "descriptor 0, standard input",
                                             "descriptor 1, standard output",
                                             "descriptor 2, standard error"};

static bool plugin_has_driver(tni_cf *cf);

/* Standard output of the case, in a file that is nobody else's. */
static int output_file = -1, error_file = -1, real_error = -1;

static void output_watch(void) {
  output_file = memfd_create("stdout", MFD_CLOEXEC);
  error_file = memfd_create("stderr", MFD_CLOEXEC);
  real_error = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 10);
  if (output_file >= 0) (void)!dup2(output_file, STDOUT_FILENO);
  if (error_file >= 0 && real_error >= 0) (void)!dup2(error_file, STDERR_FILENO);
}

/* What was said on standard error meanwhile goes where it would have gone. */
static void output_end(void) {
  char text[4096];
  if (error_file < 0 || real_error < 0) return;
  for (off_t at = 0;;) {
    const ssize_t n = pread(error_file, text, sizeof text, at);
    if (n <= 0 || write(real_error, text, (size_t)n) != n) break;
    at += n;
  }
  (void)!dup2(real_error, STDERR_FILENO);
}

/* A folder of the case's own, where the plugin works and for what is temporary: what it leaves there is seen. */
static bool folder_make(const tni_cf *cf, char *folder, size_t n) {
  snprintf(folder, n, "/tmp/tenon-conform-XXXXXX");
  if (cf->subject->n_options || cf->subject->path[0] != '/' || (cf->subject->cache_dir && cf->subject->cache_dir[0] != '/') ||
      !mkdtemp(folder))
    return folder[0] = '\0', false;
  setenv("TMPDIR", folder, 1);
  setenv("HOME", folder, 1);
  setenv("XDG_CACHE_HOME", folder, 1);
  return chdir(folder) == 0;
}

static void folder_look(tni_cf *cf, const char *folder) {
  DIR *d = folder[0] ? opendir(folder) : NULL;
  char path[4096];
  for (struct dirent *e; d && (e = readdir(d));) {
    if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) continue;
    if (plugin_has_driver(cf))
      tni_cf_note(cf, "'%.60s' is left in its working folder, its home or the folder for temporary files: a driver's doing?", e->d_name);
    else
      tni_cf_fail(cf,
                  "it leaves '%.60s' in its working folder, its home or the folder for temporary files, which are the application's: "
                  "tn_host.cache_put keeps what is to be kept", e->d_name);
    snprintf(path, sizeof path, "%s/%s", folder, e->d_name);
    (void)remove(path);
  }
  if (d) closedir(d);
  if (folder[0]) (void)!chdir("/"), (void)rmdir(folder);
}

static long long descriptor(int fd) {
  struct stat st;
  const int flags = fcntl(fd, F_GETFL);
  return flags < 0 || fstat(fd, &st) != 0 ? -1 : (long long)(st.st_ino * 31 + st.st_dev) * 64 + (flags & O_NONBLOCK ? 1 : 0);
}

static void process_read(long long *p) {
  int signal = 0;
  p[0] = prctl(PR_GET_DUMPABLE, 0, 0, 0, 0);
  p[1] = prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0);
  p[2] = prctl(PR_GET_PDEATHSIG, &signal) == 0 ? signal : -1;
  p[3] = prctl(PR_GET_THP_DISABLE, 0, 0, 0, 0);
  for (int which = ITIMER_REAL; which <= ITIMER_PROF; which++) {
    struct itimerval t;
    if (getitimer(which, &t) == 0 && (t.it_value.tv_sec || t.it_value.tv_usec)) p[4] |= 1 << which;
  }
  for (int fd = 0; fd < 3; fd++) p[5 + fd] = descriptor(fd);
}

static void environment_read(char *text, size_t n) {
  size_t at = 0;
  text[0] = '\0';
  for (char **e = environ; e && *e && at + 1 < n; e++) at += (size_t)snprintf(text + at, n - at, "%s\n", *e);
}

static void state_read(caller_state *s) {
  memset(s, 0, sizeof *s);
  s->fpmode = tni_fpmode_get();
  pthread_sigmask(SIG_BLOCK, NULL, &s->mask);
  sched_getaffinity(0, sizeof s->cpus, &s->cpus);
  for (int i = 1; i < NSIG; i++) (void)sigaction(i, NULL, &s->actions[i]);
  if (!getcwd(s->cwd, sizeof s->cwd)) s->cwd[0] = '\0';
  const char *l = setlocale(LC_ALL, NULL);
  snprintf(s->locale, sizeof s->locale, "%s", l ? l : "");
  s->umask = umask(022);
  umask(s->umask);
  s->priority = getpriority(PRIO_PROCESS, 0);
  (void)prctl(PR_GET_NAME, s->thread);
  for (int i = 0; i < RLIM_NLIMITS; i++) (void)getrlimit((unsigned)i, &s->limits[i]);
  environment_read(s->environment, sizeof s->environment);
  fflush(stdout);
  process_read(s->process);
  s->said = error_file < 0 ? 0 : (long long)lseek(error_file, 0, SEEK_END);
  s->printed = output_file < 0 ? 0 : (long long)lseek(output_file, 0, SEEK_END);
}

/* A driver's library may install handlers of its own, which the plugin cannot help: that is noted. */
static void check_handler(tni_cf *cf, const char *step, int signal, void (*now)(int)) {
  const char *name = sigabbrev_np(signal);
  Dl_info who = {0};
  const bool known = now != SIG_DFL && now != SIG_IGN && dladdr(*(void **)&now, &who) && who.dli_fname;
  char *real = known ? realpath(who.dli_fname, NULL) : NULL;
  if (real && strcmp(real, cf->subject->path))
    tni_cf_note(cf, "%s: a handler of SIG%s in %s", step, name ? name : "?", real);
  else
    tni_cf_fail(cf, "%s changes the handler of SIG%s", step, name ? name : "?");
  free(real);
}

static bool child_left(void) {
  siginfo_t info = {0};
  return waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0; /* ECHILD: there are none, running or not */
}

/* Libraries of a compiler and a C library, which no driver lies in. */
static bool is_language_library(const char *name) {
  static const char *const known[] = {"libc.so",      "libm.so",     "ld-linux",  "libpthread.so",
                                      "libdl.so",     "librt.so",    "libatomic.so", "libstdc++.so",
                                      "libgcc_s.so",  "libc++.so",   "libc++abi.so", "libunwind.so"};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (!strncmp(name, known[i], strlen(known[i]))) return true;
  return false;
}

/* Whether it needs more: a driver may do what the plugin cannot help. */
static bool plugin_has_driver(tni_cf *cf) {
  tni_cf_elf e;
  if (!strcmp(cf->subject->path, "host") || tni_cf_elf_open(cf->subject->path, &e)) return false;
  bool loads = tni_cf_has_name(e.imported, e.n_imported, "dlopen");
  for (uint32_t i = 0; i < e.n_needed && i < TNI_CF_ELF_NAMES; i++) loads = loads || !is_language_library(e.needed[i]);
  tni_cf_elf_close(&e);
  return loads;
}

/* What came late: of the process, not of the thread. Drivers below a plugin write into the environment: noted. */
static void process_compare(tni_cf *cf, const caller_state *before, const caller_state *now, const char *step) {
  if (strcmp(now->environment, before->environment)) {
    size_t at = 0;
    while (now->environment[at] && now->environment[at] == before->environment[at]) at++;
    while (at && now->environment[at - 1] != '\n') at--;
    const char *what = now->environment[at] ? now->environment + at : before->environment + at;
    if (plugin_has_driver(cf))
      tni_cf_note(cf, "%s: the environment changes at %.60s: a driver's doing?", step, what);
    else
      tni_cf_fail(cf, "%s changes the environment: %.*s", step, (int)strcspn(what, "\n"), what);
  }
  if (now->priority != before->priority)
    tni_cf_fail(cf, "%s changes the priority (nice) from %d to %d", step, before->priority, now->priority);
  if (strcmp(now->thread, before->thread))
    tni_cf_fail(cf, "%s names the host's thread '%s'; it was '%s'", step, now->thread, before->thread);
  for (int i = 0; i < RLIM_NLIMITS; i++)
    if (memcmp(&now->limits[i], &before->limits[i], sizeof now->limits[i]) != 0)
      tni_cf_fail(cf, "%s changes limit %d of the process (setrlimit)", step, i);
  if (now->printed != before->printed)
    tni_cf_fail(cf, "%s writes %lld bytes to standard output, which is the application's (tn_host.log is for messages)",
                step, now->printed - before->printed);
  if (now->said != before->said && !plugin_has_driver(cf))
    tni_cf_fail(cf, "%s writes %lld bytes to standard error, which is the application's (tn_host.log is for messages)", step,
                now->said - before->said);
  for (int i = 0; i < 8; i++)
    if (now->process[i] != before->process[i]) tni_cf_fail(cf, "%s changes %s", step, process_words[i]);
  if (child_left()) tni_cf_fail(cf, "%s leaves a child process behind", step);
}

static void state_compare(tni_cf *cf, caller_state *before, const char *step) {
  static caller_state now;
  state_read(&now);
  process_compare(cf, before, &now, step);
  if (now.fpmode != before->fpmode)
    tni_cf_fail(cf, "%s changes the floating-point mode of its thread (%#llx to %#llx)", step,
                (unsigned long long)before->fpmode, (unsigned long long)now.fpmode);
  for (int i = 1; i < NSIG; i++) {
    if (sigismember(&now.mask, i) != sigismember(&before->mask, i))
      tni_cf_fail(cf, "%s leaves SIG%s %s", step, sigabbrev_np(i) ? sigabbrev_np(i) : "?",
                  sigismember(&now.mask, i) == 1 ? "blocked" : "unblocked");
    if (now.actions[i].sa_handler != before->actions[i].sa_handler)
      check_handler(cf, step, i, now.actions[i].sa_handler);
  }
  if (!CPU_EQUAL(&now.cpus, &before->cpus)) tni_cf_fail(cf, "%s changes the thread's affinity", step);
  if (strcmp(now.cwd, before->cwd)) tni_cf_fail(cf, "%s changes the working directory to %s", step, now.cwd);
  if (strcmp(now.locale, before->locale)) tni_cf_fail(cf, "%s changes the locale to %s", step, now.locale);
  if (now.umask != before->umask) tni_cf_fail(cf, "%s changes the umask to %o", step, now.umask);
  *before = now; /* each change is said once */
}

/* Signals that a thread of the application's should take: whether task `tid` takes one of them, and which. */
static int signal_taken(const char *tid) {
  static const int asked[] = {SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGALRM, SIGCHLD, SIGIO};
  char path[64], line[256];
  unsigned long long blocked = ~0ull;
  snprintf(path, sizeof path, "/proc/self/task/%.20s/status", tid);
  FILE *f = fopen(path, "re");
  while (f && fgets(line, sizeof line, f))
    if (sscanf(line, "SigBlk: %llx", &blocked) == 1) break;
  if (f) fclose(f);
  for (size_t i = 0; i < sizeof asked / sizeof *asked; i++)
    if (!(blocked >> (asked[i] - 1) & 1)) return asked[i];
  return 0;
}

/* Threads that take such signals, and the last one's signal. */
static int open_threads(int *signal) {
  DIR *d = opendir("/proc/self/task");
  int n = 0;
  for (struct dirent *e; d && (e = readdir(d));) {
    const int taken = e->d_name[0] == '.' ? 0 : signal_taken(e->d_name);
    if (taken) n++, *signal = taken;
  }
  if (d) closedir(d);
  return n;
}

/* A thread of the plugin's own that takes signals runs the application's handlers. What a driver
 * starts and keeps (TN_PLUGIN_RESIDENT) is noted. */
static void threads_look(tni_cf *cf, const tn_plugin *p, int before, const char *step) {
  int signal = 0;
  const int more = open_threads(&signal) - before;
  if (more <= 0) return;
  const char *name = sigabbrev_np(signal);
  if (TN_HAS(p, tn_plugin, flags) && p->flags & TN_PLUGIN_RESIDENT)
    tni_cf_note(cf, "%s: %d threads take signals, SIG%s among them: a driver's doing?", step, more, name ? name : "?");
  else
    tni_cf_fail(cf,
                "%s starts %d threads that take signals of the application's, SIG%s among them: block all but those of "
                "faults while they are started (plugin.h, rule 7)", step, more, name ? name : "?");
}

static const tni_cf_claimed *first_claimed(const tni_cf_listing *l) {
  for (uint32_t i = 0; i < l->n_claimed; i++)
    if (l->claimed[i].verdict == TN_YES) return &l->claimed[i];
  return NULL;
}

/* From loading to shutdown with one product in between. */
static void thread_state(tni_cf *cf, const void *arg) {
  static caller_state before;
  tni_cf_host *h = calloc(1, sizeof *h);
  tni_cf_rig rig = {0};
  tni_cf_rng r = tni_cf_rng_of(cf, 0);
  const tni_cf_claimed *c = first_claimed(cf->listing);
  char folder[64];
  int signal = 0;
  (void)arg;
  output_watch();
  (void)folder_make(cf, folder, sizeof folder);
  state_read(&before);
  const int open_before = open_threads(&signal);
  if (!h || !tni_cf_host_open(cf, h, NULL)) {
    free(h);
    folder_look(cf, folder);
    output_end();
    return;
  }
  state_compare(cf, &before, "loading, entry, enumerate or open");
  threads_look(cf, h->p.plugin, open_before, "loading, entry, enumerate or open");
  if (c) {
    const bool claimed = tni_cf_rig_claim(&rig, h, tni_cf_graph_find(c->graph), c->phase, &r);
    state_compare(cf, &before, "claim");
    const bool ok = claimed && tni_cf_rig_prepare(&rig, 3, &r);
    state_compare(cf, &before, "lower, packing, set, measure, bind or args");
    if (!ok || !tni_cf_rig_run(&rig, 0x5b, TNI_CF_EVEN)) tni_cf_fail(cf, "%s: %s", c->graph, rig.why);
    state_compare(cf, &before, "run, submit, map or unmap");
    if (cf->verdict != TNI_CF_FAIL) threads_look(cf, h->p.plugin, open_before, "a run, from claim to submit,");
    tni_cf_rig_finish(&rig);
    state_compare(cf, &before, "args_free, unbind, release or destroy");
  }
  if (!c) { /* it takes nothing, and is asked all the same */
    tn_device *none = NULL;
    (void)tni_cf_rig_claim(&rig, h, tni_cf_graph_find("add"), TN_PHASE_DECODE, &r);
    state_compare(cf, &before, "claim");
    if (h->p.plugin->open(h->p.plugin, h->p.n_caps, &none, &h->err) == TN_OK && none) h->p.plugin->close(none);
    state_compare(cf, &before, "open of a device that there is not");
    tni_cf_rig_finish(&rig);
  }
  tni_cf_host_close(cf, h);
  state_compare(cf, &before, "close or shutdown");
  folder_look(cf, folder);
  output_end();
  free(h);
}

void tni_cf_abi_state_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx) {
  (void)l;
  add(ctx, &(tni_cf_case){"abi/calls/thread-state", TNI_CF_LEVEL_ALL, 0, thread_state, NULL, 0});
}
