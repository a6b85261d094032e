/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/plugin/child.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/base/base.h"

extern char **environ;

/* ---------------------------------------------------------------------------------------------------- environment */

bool tni_child_env(const char *variable) {
  /* A name, or the beginning of names where it ends in '_'. */
  static const char *const pass[] = {"PATH",          "HOME",
                                     "TMPDIR",        "LANG",
                                     "LC_",           "TZ",
                                     "XDG_",          "LD_LIBRARY_PATH",
                                     "LD_PRELOAD",    "ADSP_LIBRARY_PATH",
                                     "OCL_",          "OPENCL_",
                                     "OPENCL",        "CL_",
                                     "POCL_",         "VK_",
                                     "MALI_",         "QNN_",
                                     "OMP_",          "ASAN_OPTIONS",
                                     "UBSAN_OPTIONS", "TSAN_OPTIONS",
                                     "LSAN_OPTIONS",  "LLVM_PROFILE_FILE",
                                     "QEMU_",         "TENON_",
                                     "ANDROID_"};
  const char *eq = strchr(variable, '=');
  if (!eq) return false;
  const size_t n = (size_t)(eq - variable);
  if (strncmp(variable, "LD_", 3) == 0 && getauxval(AT_SECURE)) return false;
  for (size_t i = 0; i < sizeof pass / sizeof *pass; i++) {
    const size_t m = strlen(pass[i]);
    if (n >= m && memcmp(variable, pass[i], m) == 0 && (n == m || pass[i][m - 1] == '_')) return true;
  }
  return false;
}

static char **child_env(void) {
  size_t n = 0, kept = 0;
  while (environ && environ[n]) n++;
  char **env = calloc(n + 1, sizeof *env);
  for (size_t i = 0; env && i < n; i++)
    if (tni_child_env(environ[i])) env[kept++] = environ[i];
  return env;
}

/* ---------------------------------------------------------------------------------------------------------- spawn */

static void shut_fd(int *fd) {
  if (*fd >= 0) close(*fd);
  *fd = -1;
}

static tn_status look_at(const char *helper, tn_error *err) {
  struct stat s;
  if (!helper || helper[0] != '/')
    return tni_fail(err, TN_E_UNAVAILABLE, helper, "the program tenon-helper is needed and its path is not known");
  if (stat(helper, &s) != 0)
    return tni_fail(err, TN_E_UNAVAILABLE, helper, "the program tenon-helper is not there: %s", strerror(errno));
  if (!S_ISREG(s.st_mode) || access(helper, X_OK) != 0)
    return tni_fail(err, TN_E_UNAVAILABLE, helper, "the program tenon-helper cannot be run");
  if ((s.st_uid != 0 && s.st_uid != geteuid()) || (s.st_mode & (S_IWGRP | S_IWOTH)))
    return tni_fail(err, TN_E_UNAVAILABLE, helper, "refused: others may write the program tenon-helper (mode %04o)",
                    (unsigned)(s.st_mode & 07777));
  return TN_OK;
}

static int start_child(const char *helper, const char *const *args, int out, int channel, pid_t *pid) {
  enum { MAX_ARGS = 16 };
  const char *argv[MAX_ARGS + 2] = {helper};
  for (int i = 0; args[i]; i++) {
    if (i == MAX_ARGS) return E2BIG;
    argv[i + 1] = args[i];
  }
  char **env = child_env();
  const int e = env ? tni_spawn(pid, argv, env, out, channel) : ENOMEM;
  free(env);
  return e;
}

tn_status tni_child_spawn(const char *helper, const char *const *args, tni_child *out, tn_error *err) {
  tn_status st = look_at(helper, err);
  if (st != TN_OK) return st;
  int pair[2] = {-1, -1}, tube[2] = {-1, -1};
  pid_t pid = 0;
  int e = socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) == 0 && pipe2(tube, O_CLOEXEC) == 0 ? 0 : errno;
  if (!e) e = start_child(helper, args, tube[1], pair[1], &pid);
  shut_fd(&pair[1]);
  shut_fd(&tube[1]);
  if (e) {
    shut_fd(&pair[0]);
    shut_fd(&tube[0]);
    return tni_fail(err, tni_errno_status(e, TN_E_UNAVAILABLE), helper,
                    "the program tenon-helper cannot be started: %s", strerror(e));
  }
  (void)!fcntl(tube[0], F_SETFL, O_NONBLOCK);
  *out = (tni_child){.pid = pid, .channel = pair[0], .output = tube[0]};
  return TN_OK;
}

/* ----------------------------------------------------------------------------------------------------------- wait */

static void keep_output(tni_child *c, const char *text, size_t n) {
  const size_t cap = sizeof c->tail - 1;
  if (n >= cap) {
    text += n - cap;
    n = cap;
  }
  const size_t drop = c->n_tail + n > cap ? c->n_tail + n - cap : 0;
  memmove(c->tail, c->tail + drop, c->n_tail - drop);
  memcpy(c->tail + c->n_tail - drop, text, n);
  c->n_tail += n - drop;
  c->tail[c->n_tail] = '\0';
}

static void take_output(tni_child *c) {
  char buf[4096];
  /* A child that prints without end must not keep the host here. */
  for (int turn = 0; c->output >= 0 && turn < 64; turn++) {
    const ssize_t n = read(c->output, buf, sizeof buf);
    if (n > 0) keep_output(c, buf, (size_t)n);
    if (n < 0 && errno == EINTR) continue;
    if (n == 0) shut_fd(&c->output);
    if (n <= 0) return;
  }
}

static int64_t now_ms(void) { return tni_now_ns() / 1000000; }

int tni_child_wait(tni_child *c, int ms) {
  const int64_t until = now_ms() + ms;
  for (;;) {
    struct pollfd p[2] = {{.fd = c->channel, .events = POLLIN}, {.fd = c->output, .events = POLLIN}};
    int64_t left = ms < 0 ? -1 : until - now_ms();
    if (ms >= 0 && left < 0) left = 0;
    const int n = poll(p, 2, (int)left);
    if (n < 0 && errno != EINTR) return 0;
    if (n > 0 && p[1].revents) take_output(c);
    if (n > 0 && p[0].revents) {
      char byte;
      const ssize_t peek = recv(c->channel, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
      if (peek > 0) return 1;
      if (peek == 0 || (errno != EAGAIN && errno != EINTR)) return 0;
    }
    if (ms >= 0 && now_ms() >= until) return -1;
  }
}

/* Whether it has ended; it stays a zombie, so that its number and its group are still its own. */
static bool has_ended(pid_t pid) {
  siginfo_t si = {.si_pid = 0};
  return waitid(P_PID, (id_t)pid, &si, WEXITED | WNOHANG | WNOWAIT) != 0 || si.si_pid == pid;
}

static void reap_child(pid_t pid, tni_child_end *end) {
  int status;
  pid_t got;
  while ((got = waitpid(pid, &status, 0)) < 0 && errno == EINTR) continue;
  if (got != pid) return;
  end->known = true;
  end->signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  end->status = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
}

tni_child_end tni_child_finish(tni_child *c, int ms) {
  tni_child_end end = {.known = false};
  shut_fd(&c->channel);
  if (!c->pid) {
    shut_fd(&c->output);
    return end;
  }
  const int64_t until = now_ms() + ms;
  while (!has_ended(c->pid) && now_ms() < until) {
    struct pollfd p = {.fd = c->output, .events = POLLIN};
    poll(&p, 1, 2);
    if (p.revents) take_output(c);
  }
  kill(-c->pid, SIGKILL); /* and what it may have started; before it sets its group it is alone */
  kill(c->pid, SIGKILL);
  reap_child(c->pid, &end);
  take_output(c);
  shut_fd(&c->output);
  c->pid = 0;
  return end;
}

/* ----------------------------------------------------------------------------------------------------------- text */

void tni_child_end_text(const tni_child_end *e, char *buf, size_t size) {
  static const struct {
    int number;
    const char *name;
  } known[] = {{SIGSEGV, "SIGSEGV, invalid memory access"},
               {SIGBUS, "SIGBUS, bus error"},
               {SIGILL, "SIGILL, illegal instruction"},
               {SIGFPE, "SIGFPE, arithmetic trap"},
               {SIGABRT, "SIGABRT, abort"},
               {SIGPIPE, "SIGPIPE, broken pipe"},
               {SIGKILL, "SIGKILL, killed"},
               {SIGTRAP, "SIGTRAP, breakpoint"},
               {SIGSYS, "SIGSYS, forbidden system call"},
               {SIGTERM, "SIGTERM, told to end"},
               {SIGXCPU, "SIGXCPU, processor time"},
               {SIGALRM, "SIGALRM, alarm clock"}};
  if (!e->known) {
    snprintf(buf, size, "an end that the application took away (SIGCHLD)");
    return;
  }
  if (!e->signal) {
    snprintf(buf, size, "exit status %d", e->status);
    return;
  }
  const char *name = NULL;
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (known[i].number == e->signal) name = known[i].name;
  if (name)
    snprintf(buf, size, "%s", name);
  else
    snprintf(buf, size, "signal %d", e->signal);
}

void tni_child_last_lines(const tni_child *c, char *buf, size_t size) {
  size_t from = c->n_tail > size - 1 ? c->n_tail - (size - 1) : 0, n = 0;
  for (size_t i = from; i < c->n_tail && n < size - 4; i++) {
    const unsigned char ch = (unsigned char)c->tail[i];
    if (ch >= 0x20 && ch < 0x7f) {
      buf[n++] = (char)ch;
    } else if (ch == '\n' && n && i + 1 < c->n_tail) {
      memcpy(buf + n, " / ", 3);
      n += 3;
    } else if (ch != '\n') {
      buf[n++] = '?';
    }
  }
  buf[n] = '\0';
}
