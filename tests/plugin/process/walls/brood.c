/* SPDX-License-Identifier: Apache-2.0
 *
 * A plugin that starts a process which is nobody's: a session of its own, an orphan, deaf to signals, holding what was
 * open. It logs and prints "brood PID", or "brood 0" where it could not.
 */
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "tests/faults/corpus/whole.h"

static int start_orphan(void) {
  int tell[2], pid = 0;
  if (pipe(tell) != 0) return 0;
  const pid_t between = fork();
  if (between == 0) {
    setsid();
    prctl(PR_SET_NAME, "b) R 1 1");
    const pid_t last = fork();
    if (last != 0) {
      pid = (int)last;
      (void)!write(tell[1], &pid, sizeof pid);
      _exit(0);
    }
    setsid();
    for (int s = 1; s < NSIG; s++) signal(s, SIG_IGN);
    for (;;) pause();
  }
  close(tell[1]);
  if (between < 0 || read(tell[0], &pid, sizeof pid) != (ssize_t)sizeof pid) pid = 0;
  close(tell[0]);
  return pid;
}

static void hatch(const backend *b) {
  char line[64];
  snprintf(line, sizeof line, "brood %d", start_orphan());
  puts(line);
  fflush(stdout);
  b->host->log(b->host->ctx, TN_LOG_ERROR, line);
}

IN_OPEN(hatch((const backend *)p))
