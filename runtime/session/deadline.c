/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/session/deadline.h"

#include "runtime/place/place.h"
#include "runtime/plugin/load/load.h"
#include "runtime/session/runtime.h"

enum { LEAST_MS = 500 }; /* shorter ones are for engines: a thread may not be run for so long */

bool tni_model_hangs(const tn_model *m) {
  for (uint32_t i = 0; i < m->n_execs; i++)
    for (uint32_t p = 0; p < m->execs[i].n_programs; p++)
      if (tni_devlock_hung(m->execs[i].programs[p].dev->lock)) return true;
  return false;
}

static bool has_plugin(const tn_runtime *rt) {
  for (uint32_t d = 0; d < rt->n_devs; d++)
    if (!rt->devs[d].lock->trusted) return true;
  return false;
}

tni_bounded *tni_deadline_thread(const tn_model *m, tn_status *st) {
  tni_bounded *b = NULL;
  bool needed = false;
  for (uint32_t i = 0; m->rt->profile->has_timeout && i < m->n_execs; i++)
    for (uint32_t p = 0; p < m->execs[i].n_programs; p++)
      needed = needed || !m->execs[i].programs[p].dev->lock->trusted;
  *st = needed && !(b = tni_bounded_create()) ? TN_E_NO_MEMORY : TN_OK;
  return b;
}

/* What the call that hangs had lent of the pool does not come back: others get a new one. */
static void renew_pool(tn_runtime *rt) {
  tni_pool *next = tni_pool_create_on(&rt->cpus, tni_pool_workers(rt->pool));
  tni_pool_leave(rt->pool);
  if (next) __atomic_store_n(&rt->pool, next, __ATOMIC_RELEASE);
}

bool tni_deadline_do(tn_runtime *rt, tni_bounded *b, void (*fn)(void *), void *arg, tn_error *err) {
  const int64_t ms = rt->profile->timeout_ms > LEAST_MS ? rt->profile->timeout_ms : LEAST_MS;
  tni_bounded *once = !b && has_plugin(rt) ? tni_bounded_create() : NULL;
  tni_hung h;
  const bool back = tni_bounded_do(b ? b : once, fn, arg, ms * 1000000, &h);
  tni_bounded_destroy(once);
  if (back) return true;
  for (uint32_t d = 0; d < rt->n_devs; d++) {
    if (rt->devs[d].lock != h.whom) continue;
    tni_devlock_hang(rt->devs[d].lock);
    tni_registry_leave(rt->registry, rt->devs[d].name);
    tni_fail(err, TN_E_DEVICE_LOST, rt->devs[d].name,
             "'%s' did not come back within %lld ms; its thread, its code and what it uses stay", h.what, (long long)ms);
  }
  renew_pool(rt);
  return false;
}
