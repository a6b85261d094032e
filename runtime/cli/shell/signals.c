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
static volatile sig_atomic_t first_signal;

static int code_of(int sig) { return sig == SIGTERM ? EXIT_TERM : EXIT_INT; }

static void on_signal(int sig) {
  if (first_signal) _exit(code_of(sig));
  first_signal = sig;
  if (running_chat) tn_chat_cancel(running_chat);
  if (running_session) tn_session_cancel(running_session);
  if (running_load) tn_runtime_cancel(running_load);
  if (running_object) running_cancel(running_object);
}

/* nohup and `command &` of a script give a child an ignored signal: it stays ignored. */
static void catch_signal(int sig) {
  const struct sigaction ours = {.sa_handler = on_signal};
  struct sigaction now;
  if (sigaction(sig, NULL, &now) == 0 && now.sa_handler != SIG_IGN) sigaction(sig, &ours, NULL);
}

static void catch_interrupt(void) {
  catch_signal(SIGINT);
  catch_signal(SIGTERM);
}

void cli_cancel_chat(tn_chat *chat) {
  running_chat = chat;
  if (chat) catch_interrupt();
  if (chat && first_signal) tn_chat_cancel(chat);
}

void cli_cancel_session(tn_session *s) {
  running_session = s;
  if (s) catch_interrupt();
  if (s && first_signal) tn_session_cancel(s);
}

void cli_cancel_load(tn_runtime *rt) {
  running_load = rt;
  if (rt) catch_interrupt();
  if (rt && first_signal) tn_runtime_cancel(rt);
}

void cli_cancel_by(void (*cancel)(void *), void *object) {
  running_object = NULL;
  running_cancel = cancel;
  running_object = object;
  if (object) catch_interrupt();
  if (object && first_signal) cancel(object);
}

int cli_interrupted(void) { return first_signal != 0; }

int cli_interrupt_code(void) { return code_of(first_signal); }
