/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/plugin/procstate.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <locale.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/plugin/fpmode.h"

enum { MAX_FDS = 256, SIGNALS = 65 };

typedef struct descriptor {
  int fd;
  dev_t dev;
  ino_t ino;
} descriptor;

struct tni_procstate {
  uint64_t fpmode;
  sigset_t mask;
  struct sigaction handlers[SIGNALS];
  dev_t cwd_dev, root_dev;
  ino_t cwd_ino, root_ino;
  unsigned umask, threads;
  char locale[256];
  cpu_set_t cpus;
  struct rlimit limits[RLIM_NLIMITS];
  int nice;
  bool timer, child;
  uint32_t n_fds;
  descriptor fds[MAX_FDS];
};

/* umask() can only be read by writing it, which is for the process: the kernel says it too. */
static unsigned read_umask(void) {
  char line[128];
  unsigned mask = 0;
  FILE *f = fopen("/proc/self/status", "re");
  while (f && fgets(line, sizeof line, f))
    if (sscanf(line, "Umask: %o", &mask) == 1) break;
  if (f) fclose(f);
  return mask;
}

static void list_fds(tni_procstate *s) {
  DIR *d = opendir("/proc/self/fd");
  for (struct dirent *e; d && s->n_fds < MAX_FDS && (e = readdir(d));) {
    struct stat st;
    const int fd = atoi(e->d_name);
    if (e->d_name[0] == '.' || fd == dirfd(d) || fstat(fd, &st) != 0) continue;
    s->fds[s->n_fds++] = (descriptor){fd, st.st_dev, st.st_ino};
  }
  if (d) closedir(d);
}

static unsigned count_threads(void) {
  unsigned n = 0;
  DIR *d = opendir("/proc/self/task");
  for (struct dirent *e; d && (e = readdir(d));) n += e->d_name[0] != '.';
  if (d) closedir(d);
  return n;
}

static bool has_timer(void) {
  for (int which = ITIMER_REAL; which <= ITIMER_PROF; which++) {
    struct itimerval t;
    if (getitimer(which, &t) == 0 && (t.it_value.tv_sec || t.it_value.tv_usec)) return true;
  }
  return false;
}

static bool has_child(void) {
  siginfo_t si;
  return waitid(P_ALL, 0, &si, WEXITED | WNOHANG | WNOWAIT) == 0;
}

tni_procstate *tni_procstate_take(void) {
  tni_procstate *s = calloc(1, sizeof *s);
  if (!s) return NULL;
  struct stat st;
  s->fpmode = tni_fpmode_get();
  pthread_sigmask(SIG_BLOCK, NULL, &s->mask);
  for (int i = 1; i < SIGNALS; i++) sigaction(i, NULL, &s->handlers[i]);
  if (stat(".", &st) == 0) {
    s->cwd_dev = st.st_dev;
    s->cwd_ino = st.st_ino;
  }
  if (stat("/", &st) == 0) {
    s->root_dev = st.st_dev;
    s->root_ino = st.st_ino;
  }
  s->umask = read_umask();
  const char *locale = setlocale(LC_ALL, NULL);
  snprintf(s->locale, sizeof s->locale, "%s", locale ? locale : "");
  sched_getaffinity(0, sizeof s->cpus, &s->cpus);
  for (int i = 0; i < (int)RLIM_NLIMITS; i++) getrlimit((__rlimit_resource_t)i, &s->limits[i]);
  s->nice = getpriority(PRIO_PROCESS, 0);
  s->timer = has_timer();
  s->child = has_child();
  s->threads = count_threads();
  list_fds(s);
  return s;
}

void tni_procstate_destroy(tni_procstate *s) { free(s); }

/* -------------------------------------------------------------------------------------------------------- compare */

static void *handler_of(const struct sigaction *a) {
  void *p;
  memcpy(&p, &a->sa_handler, sizeof p); /* the union's other member lies at the same place */
  return p;
}

static bool lies_in(void *code, const char *path) {
  Dl_info info;
  char *real = path ? realpath(path, NULL) : NULL, *its = NULL;
  const bool found = real && dladdr(code, &info) && info.dli_fname && (its = realpath(info.dli_fname, NULL));
  const bool same = found && strcmp(real, its) == 0;
  free(real);
  free(its);
  return same;
}

static bool signals_differ(const tni_procstate *a, const tni_procstate *b, const char *path, char *text, size_t size) {
  for (int i = 1; i < SIGNALS; i++) {
    const int was = sigismember(&a->mask, i), is = sigismember(&b->mask, i);
    if (was != is) {
      snprintf(text, size, "leaves signal %d %s", i, is == 1 ? "blocked" : "unblocked");
      return true;
    }
    void *now = handler_of(&b->handlers[i]);
    if (handler_of(&a->handlers[i]) == now) continue;
    const bool ignored = b->handlers[i].sa_handler == SIG_IGN;
    if (ignored || (b->handlers[i].sa_handler != SIG_DFL && lies_in(now, path))) {
      snprintf(text, size, "leaves signal %d %s", i, ignored ? "ignored" : "with a handler of its own");
      return true;
    }
  }
  return false;
}

static const descriptor *find_fd(const tni_procstate *s, int fd) {
  for (uint32_t i = 0; i < s->n_fds; i++)
    if (s->fds[i].fd == fd) return &s->fds[i];
  return NULL;
}

static bool fds_differ(const tni_procstate *a, const tni_procstate *b, bool ended, char *text, size_t size) {
  for (uint32_t i = 0; i < a->n_fds; i++) {
    const descriptor *d = find_fd(b, a->fds[i].fd);
    if (d && d->dev == a->fds[i].dev && d->ino == a->fds[i].ino) continue;
    snprintf(text, size, "%s descriptor %d, which is not its own", d ? "replaces" : "closes", a->fds[i].fd);
    return true;
  }
  for (uint32_t i = 0; ended && i < b->n_fds; i++)
    if (!find_fd(a, b->fds[i].fd)) {
      snprintf(text, size, "leaves descriptor %d open", b->fds[i].fd);
      return true;
    }
  return false;
}

static bool say_difference(char *text, size_t size, const char *what) {
  snprintf(text, size, "%s", what);
  return true;
}

bool tni_procstate_differs(const tni_procstate *a, const tni_procstate *b, const char *path, bool ended, char *text,
                           size_t size) {
  if (a->fpmode != b->fpmode) {
    snprintf(text, size, "changes the floating-point mode (0x%" PRIx64 " to 0x%" PRIx64 ")", a->fpmode, b->fpmode);
    return true;
  }
  if (signals_differ(a, b, path, text, size) || fds_differ(a, b, ended, text, size)) return true;
  if (a->cwd_dev != b->cwd_dev || a->cwd_ino != b->cwd_ino)
    return say_difference(text, size, "changes the working folder");
  if (a->root_dev != b->root_dev || a->root_ino != b->root_ino)
    return say_difference(text, size, "changes the root folder");
  if (a->umask != b->umask) {
    snprintf(text, size, "changes the umask (%03o to %03o)", a->umask, b->umask);
    return true;
  }
  if (strcmp(a->locale, b->locale) != 0) return say_difference(text, size, "changes the locale");
  if (memcmp(&a->cpus, &b->cpus, sizeof a->cpus) != 0)
    return say_difference(text, size, "changes the thread's processors");
  if (memcmp(a->limits, b->limits, sizeof a->limits) != 0)
    return say_difference(text, size, "changes a limit of the process");
  if (a->nice != b->nice) return say_difference(text, size, "changes the thread's priority");
  if (b->timer && !a->timer) return say_difference(text, size, "leaves a timer running");
  if (ended && b->child && !a->child) return say_difference(text, size, "leaves a child process behind");
  if (ended && b->threads > a->threads) {
    snprintf(text, size, "leaves %u thread%s running", b->threads - a->threads,
             b->threads - a->threads == 1 ? "" : "s");
    return true;
  }
  return false;
}
