/* SPDX-License-Identifier: Apache-2.0
 *
 * Which call is under way, and what is said of it when the process is ended by a signal.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "runtime/conform/observe/observe.h"
#include "runtime/conform/observe/thread.h"

static _Atomic(const char *) under_way;
static int report_fd = -1;

/* The thread as it was when its call began, and what the first call changed of it that left something else. */
static _Thread_local tni_cf_thread state_before;
static pthread_mutex_t changed_lock = PTHREAD_MUTEX_INITIALIZER;
static char changed[256];

const char *tni_cf_call_now(void) { return atomic_load(&under_way); }

static void note_change(const tni_cf_thread *before, bool quick, const char *of, const char *call) {
  char what[160];
  if (!tni_cf_thread_differs(before, quick, what, sizeof what)) return;
  pthread_mutex_lock(&changed_lock);
  if (!changed[0])
    snprintf(changed, sizeof changed, "%s'%s' %s: it comes back unchanged (plugin.h, rule 7)", of, call ? call : "a call",
             what);
  pthread_mutex_unlock(&changed_lock);
}

const char *tni_cf_call_begin(const char *call) {
  tni_cf_thread_take(&state_before, false);
  return atomic_exchange(&under_way, call);
}

void tni_cf_call_over(const char *before) { note_change(&state_before, false, "", atomic_exchange(&under_way, before)); }

void tni_cf_body_run(tn_body body, void *arg, int64_t begin, int64_t end, uint32_t worker, bool quick) {
  tni_cf_thread before;
  tni_cf_thread_take(&before, quick);
  body(arg, begin, end, worker);
  note_change(&before, quick, "a body of parallel_for in ", tni_cf_call_now());
}

bool tni_cf_call_changed(char *text, size_t n) {
  pthread_mutex_lock(&changed_lock);
  snprintf(text, n, "%s", changed);
  changed[0] = '\0';
  pthread_mutex_unlock(&changed_lock);
  return text[0] != '\0';
}

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
  const char *gone = sig == SIGSEGV || sig == SIGBUS ? tni_cf_loan_gone_at(info->si_addr) : NULL;
  if (gone)
    finding_put((const char *const[]){"'", call ? call : "a thread of the plugin", "' touches ", gone, NULL});
  else if (lent)
    finding_put((const char *const[]){"'", call ? call : "a thread of the plugin", "' touches what was passed into '",
                                      lent,
                                      "', which is over: what is passed into a call lives for the call, copy what you "
                                      "keep (plugin.h, rule 4)",
                                      NULL});
  else if (call)
    finding_put((const char *const[]){"the process died in '", call, "'", NULL});
  else if (getpid() != gettid())
    finding_put((const char *const[]){
        "a thread of the plugin's own died; no call into the plugin was under way",
        sig == SIGSEGV || sig == SIGBUS ? ": it touched memory that is not there, such as a byte before or after that of a "
                                          "use, or memory of an item that is over"
                                        : "",
        NULL});
  else
    finding_put((const char *const[]){"the process died, and no call into the plugin was under way", NULL});
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
