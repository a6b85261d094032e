/* SPDX-License-Identifier: Apache-2.0
 *
 * A part of a case in a process of its own.
 */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "runtime/base/json.h"
#include "runtime/conform/case/case.h"
#include "runtime/conform/case/sink.h"

enum { MAX_REPORT = 64 << 10, GRACE_MS = 400 };

static void part_run(const tni_cf *cf, int fd, void (*fn)(tni_cf *cf, void *arg), void *arg) {
  (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (dup2(fd, TNI_CF_REPORT_FD) < 0) _exit(3);
  if (fd != TNI_CF_REPORT_FD) close(fd);
  tni_cf part = *cf;
  tni_cf_sink sink = {.out = fdopen(TNI_CF_REPORT_FD, "w")};
  part.sink = &sink;
  part.verdict = TNI_CF_PASS;
  part.n_findings = 0;
  if (!sink.out) _exit(3);
  fn(&part, arg);
  fprintf(sink.out, "{\"end\":%u}\n", part.verdict);
  fflush(sink.out);
  _exit(0); /* what the worker registered for its end is not this process's */
}

/* All that comes until the end or the time. False: the time is up. */
static bool read_all(int fd, int64_t until, char *text, size_t size) {
  size_t n = 0;
  for (;;) {
    const int64_t left = (until - tni_now_ns()) / 1000000;
    struct pollfd p = {.fd = fd, .events = POLLIN};
    if (left <= 0) return text[n] = '\0', false;
    if (poll(&p, 1, (int)(left < 1000 ? left : 1000)) <= 0) continue;
    char drop[4096];
    const bool room = n + 1 < size;
    const ssize_t got = read(fd, room ? text + n : drop, room ? size - 1 - n : sizeof drop);
    if (got > 0 && room) n += (size_t)got;
    if (got == 0 || (got < 0 && errno != EINTR)) return text[n] = '\0', true;
  }
}

/* The first finding of a report; true where it has its end. */
static bool report_read(const char *text, tni_cf_part *out) {
  bool ended = false;
  for (const char *p = text; *p;) {
    const size_t n = strcspn(p, "\n");
    json_t *o = json_loadb(p, n, 0, NULL);
    const char *fail = json_string_value(json_object_get(o, "fail")),
               *note = json_string_value(json_object_get(o, "note"));
    const json_t *end = json_object_get(o, "end");
    out->n_skips += json_object_get(o, "skip") != NULL;
    if (fail && !out->text[0]) snprintf(out->text, sizeof out->text, "%s", fail);
    if (fail) out->failed = true;
    if (note && !out->note[0]) snprintf(out->note, sizeof out->note, "%s", note);
    if (end) ended = true, out->skipped = json_integer_value(end) == TNI_CF_SKIP;
    json_decref(o);
    p += n + (p[n] == '\n');
  }
  return ended;
}

static void part_judge(const char *text, bool late, int status, tni_cf_part *out) {
  const bool ended = report_read(text, out);
  if (ended && !late && WIFEXITED(status) && !WEXITSTATUS(status)) return;
  out->failed = true;
  if (out->text[0]) return;
  if (late)
    snprintf(out->text, sizeof out->text, "it took too long and was killed");
  else if (WIFSIGNALED(status))
    snprintf(out->text, sizeof out->text, "ended by SIG%s", sigabbrev_np(WTERMSIG(status)));
  else
    snprintf(out->text, sizeof out->text, "the process ended with status %d", WEXITSTATUS(status));
}

bool tni_cf_apart(const tni_cf *cf, void (*fn)(tni_cf *cf, void *arg), void *arg, uint32_t limit_ms, tni_cf_part *out) {
  int fds[2];
  *out = (tni_cf_part){0};
  char *text = malloc(MAX_REPORT);
  if (!text || pipe(fds) != 0) return free(text), false;
  fflush(NULL);
  const pid_t pid = fork();
  if (pid == 0) {
    close(fds[0]);
    part_run(cf, fds[1], fn, arg);
  }
  close(fds[1]);
  if (pid < 0) return close(fds[0]), free(text), false;
  const double patience = cf->subject->patience > 0 ? cf->subject->patience : 1;
  bool late = !read_all(fds[0], tni_now_ns() + (int64_t)(limit_ms * patience * 1e6), text, MAX_REPORT);
  if (late) {
    kill(pid, SIGTERM); /* it says what it was doing */
    const size_t n = strlen(text);
    (void)read_all(fds[0], tni_now_ns() + (int64_t)GRACE_MS * 1000000, text + n, MAX_REPORT - n);
    kill(pid, SIGKILL);
  }
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
  close(fds[0]);
  part_judge(text, late, status, out);
  free(text);
  return true;
}
