/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/conform/run/child.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/base/base.h"
#include "runtime/base/json.h"

enum { MAX_REPORT = 16 << 20, MAX_OUTPUT = 64 << 10 };
static const double GRACE_S = 1;

extern char **environ;

double tni_cf_clock(void) { return (double)tni_now_ns() / 1e9; }

static void text_append(tni_cf_text *t, const char *p, size_t n) {
  if (t->n + n + 1 > t->most) {
    const size_t drop = t->n / 2;
    if (t->n) memmove(t->s, t->s + drop, t->n - drop);
    t->n -= drop;
  }
  if (t->n + n + 1 > t->cap) {
    const size_t cap = (t->n + n + 1) * 2;
    char *s = realloc(t->s, cap);
    if (!s) tni_json_lacked();
    if (!s) return;
    t->s = s;
    t->cap = cap;
  }
  memcpy(t->s + t->n, p, n);
  t->n += n;
  t->s[t->n] = '\0';
}

/* True at its end. */
static bool pipe_drain(int fd, tni_cf_text *t) {
  char buf[4096];
  for (;;) {
    const ssize_t n = read(fd, buf, sizeof buf);
    if (n > 0)
      text_append(t, buf, (size_t)n);
    else if (n == 0 || (errno != EINTR && errno != EAGAIN))
      return true;
    else if (errno == EAGAIN)
      return false;
  }
}

int tni_cf_child_start(tni_cf_child *c, const char *const *argv, double limit_s) {
  int report[2] = {-1, -1}, output[2] = {-1, -1};
  memset(c, 0, sizeof *c);
  c->report_fd = c->output_fd = -1;
  c->report.most = MAX_REPORT;
  c->output.most = MAX_OUTPUT;
  int e = pipe2(report, O_CLOEXEC) || pipe2(output, O_CLOEXEC) ? errno : 0;
  if (!e) e = tni_spawn(&c->pid, argv, environ, output[1], report[1]);
  if (report[1] >= 0) close(report[1]);
  if (output[1] >= 0) close(output[1]);
  if (e) {
    if (report[0] >= 0) close(report[0]);
    if (output[0] >= 0) close(output[0]);
    c->pid = 0;
    return e;
  }
  c->report_fd = report[0];
  c->output_fd = output[0];
  (void)fcntl(c->report_fd, F_SETFL, O_NONBLOCK);
  (void)fcntl(c->output_fd, F_SETFL, O_NONBLOCK);
  c->started = tni_cf_clock();
  c->deadline = c->started + limit_s;
  return 0;
}

void tni_cf_child_kill(tni_cf_child *c) {
  if (c->pid) kill(-c->pid, SIGKILL);
}

bool tni_cf_child_poll(tni_cf_child *c) {
  (void)pipe_drain(c->report_fd, &c->report);
  (void)pipe_drain(c->output_fd, &c->output);
  pid_t got = waitpid(c->pid, &c->status, WNOHANG);
  if (got == 0 && !c->late && tni_cf_clock() > c->deadline) {
    c->late = true;
    c->killed = tni_cf_clock() + GRACE_S;
    kill(c->pid, SIGTERM);
  }
  if (got == 0 && c->late && tni_cf_clock() > c->killed) tni_cf_child_kill(c);
  if (got == 0 || (got < 0 && errno == EINTR)) return false;
  tni_cf_child_kill(c); /* what it left behind */
  (void)pipe_drain(c->report_fd, &c->report);
  (void)pipe_drain(c->output_fd, &c->output);
  c->pid = 0;
  return true;
}

void tni_cf_child_finish(tni_cf_child *c) {
  if (c->pid) {
    tni_cf_child_kill(c);
    while (waitpid(c->pid, &c->status, 0) < 0 && errno == EINTR) continue;
  }
  if (c->report_fd >= 0) close(c->report_fd);
  if (c->output_fd >= 0) close(c->output_fd);
  free(c->report.s);
  free(c->output.s);
  memset(c, 0, sizeof *c);
  c->report_fd = c->output_fd = -1;
}

bool tni_cf_child_end(const tni_cf_child *c, char *text, size_t n) {
  if (c->late) {
    snprintf(text, n, "took longer than its limit of %.0f s and was killed", c->deadline - c->started);
  } else if (WIFSIGNALED(c->status)) {
    const char *name = sigabbrev_np(WTERMSIG(c->status));
    snprintf(text, n, "ended by SIG%s (%s)", name ? name : "?", strsignal(WTERMSIG(c->status)));
  } else if (WIFEXITED(c->status) && WEXITSTATUS(c->status)) {
    snprintf(text, n, "the process ended with status %d", WEXITSTATUS(c->status));
  } else {
    return false;
  }
  return true;
}
