/* SPDX-License-Identifier: Apache-2.0 */
#include <signal.h>
#include <stddef.h>
#include <unistd.h>

#include "runtime/cli/shell/shell.h"

static tn_chat *volatile running_chat;
static tn_session *volatile running_session;
static tn_runtime *volatile running_load;
static void (*volatile running_cancel)(void *);
static void *volatile running_object;
static volatile sig_atomic_t was_interrupted;

enum { PATIENCE_S = 3, ENDING_S = 10 };

/* Whatever is under way heeds a cancel within far less; a plugin in this process that does not come back never does. */
static volatile sig_atomic_t late_status = EXIT_INT;

static void on_alarm(int sig) {
  (void)sig;
  _exit(late_status);
}

int cli_end_soon(int rc) {
  const struct sigaction late = {.sa_handler = on_alarm};
  late_status = rc;
  if (sigaction(SIGALRM, &late, NULL) == 0) alarm(ENDING_S);
  return rc;
}

static void on_signal(int sig) {
  (void)sig;
  if (was_interrupted++) _exit(EXIT_INT);
  alarm(PATIENCE_S);
  if (running_chat) tn_chat_cancel(running_chat);
  if (running_session) tn_session_cancel(running_session);
  if (running_load) tn_runtime_cancel(running_load);
  if (running_object) running_cancel(running_object);
}

/* SIGINT asks what is under way to come to an end, and ends the process where it does not; nohup and `command &` of a
 * script give it ignored, and it stays so.
 * SIGTERM is left to the system: it ends this process at once, even where a plugin does not answer, and the processes of
 * isolated plugins with it. */
static void catch_interrupt(void) {
  const struct sigaction ours = {.sa_handler = on_signal};
  struct sigaction now;
  const struct sigaction late = {.sa_handler = on_alarm};
  if (sigaction(SIGINT, NULL, &now) != 0 || now.sa_handler == SIG_IGN) return;
  sigaction(SIGALRM, &late, NULL);
  sigaction(SIGINT, &ours, NULL);
}

void cli_cancel_chat(tn_chat *chat) {
  running_chat = chat;
  if (chat) catch_interrupt();
  if (chat && was_interrupted) tn_chat_cancel(chat);
}

void cli_cancel_session(tn_session *s) {
  running_session = s;
  if (s) catch_interrupt();
  if (s && was_interrupted) tn_session_cancel(s);
}

void cli_cancel_load(tn_runtime *rt) {
  running_load = rt;
  if (rt) catch_interrupt();
  if (rt && was_interrupted) tn_runtime_cancel(rt);
}

void cli_cancel_by(void (*cancel)(void *), void *object) {
  running_object = NULL;
  running_cancel = cancel;
  running_object = object;
  if (object) catch_interrupt();
  if (object && was_interrupted) cancel(object);
}

int cli_interrupted(void) { return was_interrupted != 0; }

void cli_forget_interrupt(void) {
  alarm(0);
  was_interrupted = 0;
}
