/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/poll.h"

bool tni_run_cancelled(const tn_run *run) { return run && run->cancelled && run->cancelled(run) != 0; }

bool tni_poll_ask(tni_poll *p) {
  const bool stop = tni_run_cancelled(p->run);
  p->left = stop ? -1 : TNI_POLL; /* who was told to stop is told again */
  return stop;
}

int64_t tni_poll_next(tni_poll *p, int64_t at) { return tni_poll_stop(p, TNI_POLL_BLOCK) ? at : at + TNI_POLL_BLOCK; }
