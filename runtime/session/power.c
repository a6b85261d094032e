/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/session/power.h"

#include <tenon/power.h>

#include "runtime/base/base.h"
#include "runtime/plugin/plugin.h"

static const tn_power *power_of(const tni_dev *d) {
  const tn_power *e = tni_dev_extension(d, TN_POWER, 1);
  return e && TN_HAS(e, tn_power, vote) && e->vote ? e : NULL;
}

static bool has_device(const tn_model *m, const tni_dev *d) {
  for (uint32_t x = 0; x < m->n_execs; x++)
    for (uint32_t p = 0; p < m->execs[x].n_programs; p++)
      if (m->execs[x].programs[p].dev == d) return true;
  return false;
}

static void vote(tn_runtime *rt, const tni_dev *d, const tn_power *power, uint32_t mode) {
  tn_error why;
  tni_error_init(&why);
  const tn_status st = power->vote(d->device, mode, &why);
  if (st == TN_E_DEVICE_LOST) tni_devlock_lose(d->lock);
  if (st != TN_OK)
    tni_log_line(&rt->log, TN_LOG_WARN, "plugin '%s' does not grant the profile's power: %s", d->name,
                 why.message[0] ? why.message : "it gave no reason");
}

/* A device that hangs or was given up is called no more; closing takes its vote back. */
static void count_voter(tn_runtime *rt, const tni_dev *d, int by) {
  const tn_power *power = power_of(d);
  if (!power || tni_devlock_lost(d->lock)) return;
  tni_devlock_enter(d->lock, "vote");
  const uint32_t before = d->lock->voters;
  if (by > 0 || before) d->lock->voters += (uint32_t)by;
  if (by > 0 && !before) vote(rt, d, power, rt->profile->power);
  if (by < 0 && before == 1) vote(rt, d, power, TN_POWER_NONE);
  tni_devlock_unlock(d->lock);
}

static void count_all(const tn_model *m, int by) {
  for (uint32_t d = 0; m->rt->profile->power && d < m->rt->n_devs; d++)
    if (has_device(m, &m->rt->devs[d])) count_voter(m->rt, &m->rt->devs[d], by);
}

void tni_power_up(const tn_model *m) { count_all(m, 1); }
void tni_power_down(const tn_model *m) { count_all(m, -1); }
