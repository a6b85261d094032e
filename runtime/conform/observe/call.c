/* SPDX-License-Identifier: Apache-2.0
 *
 * Which call is under way, and what is said of it when the process is ended by a signal.
 */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "runtime/conform/observe/observe.h"
#include "runtime/plugin/plugin.h"

static _Atomic(const char *) under_way;
static int report_fd = -1;

/* The floating-point mode of the thread when its call began, and the first call that left another. */
static _Thread_local uint64_t mode_before;
static _Atomic(const char *) mode_changed;

const char *tni_cf_call_now(void) { return atomic_load(&under_way); }

const char *tni_cf_call_begin(const char *call) {
  mode_before = tni_fpmode_get();
  return atomic_exchange(&under_way, call);
}

void tni_cf_call_over(const char *before) {
  const char *call = atomic_exchange(&under_way, before), *none = NULL;
  if (tni_fpmode_get() == mode_before) return;
  tni_fpmode_put(mode_before);
  (void)atomic_compare_exchange_strong(&mode_changed, &none, call ? call : "a call");
}

const char *tni_cf_call_changed_mode(void) { return atomic_load(&mode_changed); }

/* Only what a handler may do: the pieces are literals. */
static void finding_put(const char *const *pieces) {
  char line[512] = "{\"fail\":\"";
  size_t n = strlen(line);
  for (; *pieces; pieces++) {
    const size_t k = strlen(*pieces);
    if (n + k + 4 > sizeof line) break;
    memcpy(line + n, *pieces, k);
    n += k;
  }
  memcpy(line + n, "\"}\n", 3);
  (void)!write(report_fd, line, n + 3);
}

static void on_signal(int sig, siginfo_t *info, void *context) {
  const char *call = tni_cf_call_now(), *lent = NULL;
  (void)context;
  if (sig == SIGSEGV || sig == SIGBUS) lent = tni_cf_loan_at(info->si_addr);
  if (sig == SIGTERM) {
    finding_put(call ? (const char *const[]){"the time is up, and '", call, "' has not come back", NULL}
                     : (const char *const[]){"the time is up; no call into the plugin is under way", NULL});
    _exit(1);
  }
  if (lent)
    finding_put((const char *const[]){"'", call ? call : "a thread of the plugin", "' touches what was passed into '",
                                      lent,
                                      "', which is over: what is passed into a call lives for the call, copy what you "
                                      "keep (plugin.h, rule 4)",
                                      NULL});
  else
    finding_put((const char *const[]){"the process died in '", call ? call : "no call into the plugin", "'", NULL});
}

void tni_cf_observe_signals(int fd) {
  static const int fatal[] = {SIGSEGV, SIGBUS, SIGILL, SIGFPE, SIGABRT};
  static uint8_t room[64 << 10]; /* a stack that has run over has none left */
  const stack_t stack = {.ss_sp = room, .ss_size = sizeof room};
  struct sigaction a = {.sa_flags = SA_SIGINFO | SA_ONSTACK};
  a.sa_sigaction = on_signal;
  sigemptyset(&a.sa_mask);
  report_fd = fd;
  (void)sigaltstack(&stack, NULL);
  (void)sigaction(SIGTERM, &a, NULL);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__) /* they say more */
  a.sa_flags |= (int)SA_RESETHAND;                                  /* and then what the signal does by itself */
  for (size_t i = 0; i < sizeof fatal / sizeof *fatal; i++) (void)sigaction(fatal[i], &a, NULL);
#else
  (void)fatal;
#endif
}
