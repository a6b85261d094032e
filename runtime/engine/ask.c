/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/engine/ask.h"

#include <stdlib.h>

#include "runtime/base/base.h"
#include "runtime/plugin/load/load.h"
#include "runtime/plugin/plugin.h"

enum { AT_ONCE_MS = 1000 };

/* Where it hangs it is its thread's for ever. */
typedef struct question {
  const tni_dev *d;
  uint32_t engine; /* of cancel; 0: abandon */
} question;

static void ask(void *arg) {
  const question *q = arg;
  tn_device *d = q->d->device;
  tni_devlock_begin(q->d->lock, q->engine ? "cancel" : "abandon");
  if (q->engine)
    d->cancel(d, q->engine, NULL);
  else
    d->abandon(d);
  tni_devlock_end(q->d->lock);
}

/* On a thread of its own, but where the caller's has a deadline already or the plugin is none that could hang. */
static bool ask_bounded(tn_runtime *rt, const tni_dev *d, uint32_t engine) {
  question *q = malloc(sizeof *q);
  tni_bounded *b = q && !d->lock->trusted ? tni_bounded_create() : NULL;
  tni_hung h;
  if (!q) return true; /* a wish that is not passed on costs time only */
  *q = (question){d, engine};
  const bool back = tni_bounded_do(b, ask, q, AT_ONCE_MS * INT64_C(1000000), &h);
  tni_bounded_destroy(b);
  if (back) {
    free(q);
    return true;
  }
  tni_devlock_hang(d->lock);
  tni_registry_leave(rt->registry, d->name);
  tni_log_line(&rt->log, TN_LOG_WARN, "plugin '%s': '%s' did not come back within %d ms; its thread and its code stay",
               d->name, h.what, AT_ONCE_MS);
  return false;
}

bool tni_ask_cancel(tn_runtime *rt, const tni_dev *d, uint32_t engine) {
  const tn_device *dev = d->device;
  if (!TN_HAS(dev, tn_device, cancel) || !dev->cancel || tni_devlock_hung(d->lock)) return true;
  return ask_bounded(rt, d, engine);
}

void tni_ask_abandon(tn_runtime *rt, const tni_dev *d) {
  const tn_device *dev = d->device;
  tni_devlock_lose(d->lock);
  if (!TN_HAS(dev, tn_device, abandon) || !dev->abandon || tni_devlock_hung(d->lock)) return;
  if (tni_devlock_abandon(d->lock)) (void)ask_bounded(rt, d, 0);
}
