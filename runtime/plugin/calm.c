/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/plugin/calm.h"

#include "runtime/plugin/fpmode.h"

tni_calm tni_calm_take(void) {
  tni_calm c = {.fpmode = tni_fpmode_get()};
  sigemptyset(&c.mask);
  pthread_sigmask(SIG_BLOCK, NULL, &c.mask);
  return c;
}

/* Two signals that the C library keeps for itself never show in a mask. */
static int first_difference(const sigset_t *a, const sigset_t *b) {
  for (int i = 1; i <= 64; i++)
    if (sigismember(a, i) != sigismember(b, i)) return i;
  return 0;
}

tn_status tni_calm_check(const tni_calm *before, const char *call, tn_status st, tn_error *why) {
  const tni_calm now = tni_calm_take();
  const int signal = first_difference(&before->mask, &now.mask);
  const bool mode = now.fpmode != before->fpmode;
  if (mode) tni_fpmode_put(before->fpmode);
  if (signal) pthread_sigmask(SIG_SETMASK, &before->mask, NULL);
  if (st != TN_OK || (!mode && !signal)) return st;
  if (mode) return tni_fail(why, TN_E_INTERNAL, NULL, "%s changes the floating-point mode of its thread", call);
  return tni_fail(why, TN_E_INTERNAL, NULL, "%s leaves signal %d %s", call, signal,
                  sigismember(&now.mask, signal) == 1 ? "blocked" : "unblocked");
}
