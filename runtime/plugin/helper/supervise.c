/* SPDX-License-Identifier: Apache-2.0
 *
 * The supervisor: the process that the host started, which runs nothing of the plugin. Whatever is started below it
 * becomes its child in the end (it is their subreaper), however it was forked off, and ends with it.
 */
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/plugin/helper/confine.h"

enum { MOST_ROUNDS = 1000, PAUSE_US = 2000 };

/* The name of a process is its own to choose, brackets and all: what counts stands after the last one. */
static int parent_of(const char *pid) {
  char path[64], line[512];
  int parent = 0;
  snprintf(path, sizeof path, "/proc/%.20s/stat", pid);
  FILE *f = fopen(path, "re");
  if (!f) return 0;
  const size_t n = fread(line, 1, sizeof line - 1, f);
  fclose(f);
  line[n] = '\0';
  const char *after = strrchr(line, ')');
  return after && sscanf(after, ") %*c %d", &parent) == 1 ? parent : 0;
}

static void kill_children(void) {
  DIR *d = opendir("/proc");
  const int self = (int)getpid();
  for (struct dirent *e; d && (e = readdir(d));)
    if (isdigit((unsigned char)e->d_name[0]) && parent_of(e->d_name) == self) kill(atoi(e->d_name), SIGKILL);
  if (d) closedir(d);
}

static int remove_one(const char *path, const struct stat *s, int flag, struct FTW *f) {
  (void)s, (void)flag, (void)f;
  (void)remove(path);
  return 0;
}

static void remove_folder(const char *path) {
  if (path) nftw(path, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* A child's children come to us when it is gone: until there are none left. */
static void end_all(pid_t worker) {
  if (worker) kill(worker, SIGKILL);
  for (int round = 0; round < MOST_ROUNDS; round++) {
    pid_t got;
    while ((got = waitpid(-1, NULL, WNOHANG)) > 0) continue;
    if (got < 0 && errno == ECHILD) return;
    kill_children();
    usleep(PAUSE_US);
  }
}

/* Ends as the plugin's process did, so that the host sees that. */
__attribute__((noreturn)) static void end_like(int status) {
  if (WIFSIGNALED(status)) {
    sigset_t one;
    sigemptyset(&one);
    sigaddset(&one, WTERMSIG(status));
    signal(WTERMSIG(status), SIG_DFL);
    sigprocmask(SIG_UNBLOCK, &one, NULL);
    kill(getpid(), WTERMSIG(status));
  }
  _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128);
}

/* Whether the plugin's process has ended; others that were left to us are reaped on the way. */
static bool has_ended(pid_t worker, int *status) {
  int s;
  bool ended = false;
  for (pid_t got; (got = waitpid(-1, &s, WNOHANG)) > 0;)
    if (got == worker) {
      *status = s;
      ended = true;
    }
  return ended;
}

__attribute__((noreturn)) static void supervise(pid_t worker, int channel, int signals, const char *temporary) {
  int status = 0;
  for (;;) {
    struct pollfd p[2] = {{.fd = channel, .events = 0}, {.fd = signals, .events = POLLIN}};
    if (poll(p, 2, -1) < 0 && errno != EINTR) break;
    struct signalfd_siginfo si;
    if (p[1].revents && read(signals, &si, sizeof si) == (ssize_t)sizeof si && si.ssi_signo != SIGCHLD) break;
    if (has_ended(worker, &status)) {
      end_all(0);
      remove_folder(temporary);
      end_like(status);
    }
    if (p[0].revents) break; /* the host is gone, or has done with it */
  }
  end_all(worker);
  remove_folder(temporary);
  _exit(0);
}

static void signals_of_supervisor(sigset_t *set) {
  static const int all[] = {SIGCHLD, SIGTERM, SIGINT, SIGHUP, SIGQUIT};
  sigemptyset(set);
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) sigaddset(set, all[i]);
}

bool helper_supervise(int channel, const char *temporary, int *pid) {
  sigset_t set;
  int tell[2];
  signals_of_supervisor(&set);
  if (sigprocmask(SIG_BLOCK, &set, NULL) != 0 || pipe(tell) != 0) return false;
  const int signals = signalfd(-1, &set, SFD_CLOEXEC);
  if (signals < 0 || prctl(PR_SET_CHILD_SUBREAPER, 1) != 0) return false;
  prctl(PR_SET_PDEATHSIG, SIGTERM); /* of the host's thread that spawned it, which lives as long as it */
  prctl(PR_SET_DUMPABLE, 0);
  const pid_t self = getpid(), worker = fork();
  if (worker < 0) return false;
  if (worker > 0) {
    const int number = (int)worker;
    const bool told = write(tell[1], &number, sizeof number) == (ssize_t)sizeof number;
    for (int fd = TNI_CHILD_CHANNEL + 1; fd < 64; fd++)
      if (fd != signals) close(fd);
    supervise(told ? worker : 0, channel, signals, temporary);
  }
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const bool ok = getppid() == self && read(tell[0], pid, sizeof *pid) == (ssize_t)sizeof *pid;
  close(tell[0]);
  close(tell[1]);
  close(signals);
  sigprocmask(SIG_UNBLOCK, &set, NULL);
  return ok;
}
