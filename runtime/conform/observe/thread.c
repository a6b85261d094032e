/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/conform/observe/thread.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>

#include "runtime/plugin/plugin.h"

#if defined(__x86_64__) || defined(__i386__)
static uint32_t x87_get(void) {
  uint16_t word;
  __asm__ volatile("fnstcw %0" : "=m"(word));
  return word;
}
static void x87_put(uint32_t mode) {
  const uint16_t word = (uint16_t)mode;
  __asm__ volatile("fldcw %0" : : "m"(word));
}
#else
static uint32_t x87_get(void) { return 0; }
static void x87_put(uint32_t mode) { (void)mode; }
#endif

/* Android's C library has none. */
#ifdef PTHREAD_CANCEL_ENABLE
static int cancel_get(void) {
  int was = 0, ours;
  (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &was);
  (void)pthread_setcancelstate(was, &ours);
  return was;
}
#else
static int cancel_get(void) { return 0; }
#endif

void tni_cf_thread_take(tni_cf_thread *t, bool quick) {
  memset(t, 0, sizeof *t);
  t->fpmode = tni_fpmode_get();
  t->x87 = x87_get();
  if (quick) return;
  pthread_sigmask(SIG_BLOCK, NULL, &t->mask);
  (void)sched_getaffinity(0, sizeof t->cpus, &t->cpus);
  (void)prctl(PR_GET_NAME, t->name);
  t->nice = getpriority(PRIO_PROCESS, 0);
  t->policy = sched_getscheduler(0);
  t->slack = prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0);
  t->cancel = cancel_get();
}

static bool says(char *text, size_t n, const char *what) {
  snprintf(text, n, "%s", what);
  return true;
}

bool tni_cf_thread_differs(const tni_cf_thread *before, bool quick, char *text, size_t n) {
  tni_cf_thread now;
  tni_cf_thread_take(&now, quick);
  if (now.fpmode != before->fpmode) tni_fpmode_put(before->fpmode);
  if (now.x87 != before->x87) x87_put(before->x87);
  if (now.fpmode != before->fpmode || now.x87 != before->x87)
    return says(text, n, "leaves its thread in another floating-point mode");
  if (quick) return false;
  for (int i = 1; i < NSIG; i++) {
    const bool is = sigismember(&now.mask, i) == 1;
    if (is == (sigismember(&before->mask, i) == 1)) continue;
    snprintf(text, n, "leaves its thread with SIG%s %s", sigabbrev_np(i) ? sigabbrev_np(i) : "?",
             is ? "blocked" : "unblocked");
    return true;
  }
  if (!CPU_EQUAL(&now.cpus, &before->cpus)) return says(text, n, "changes the affinity of its thread");
  if (strcmp(now.name, before->name) != 0) {
    snprintf(text, n, "names its thread '%s', which was '%s'", now.name, before->name);
    return true;
  }
  if (now.nice != before->nice || now.policy != before->policy)
    return says(text, n, "changes the priority or the scheduling policy of its thread");
  if (now.slack != before->slack) return says(text, n, "changes the timer slack of its thread");
  if (now.cancel != before->cancel) return says(text, n, "changes whether its thread can be cancelled");
  return false;
}
