/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/place/calls.h"

#include "runtime/place/devlock.h"
#include "runtime/plugin/plugin.h"

/* Sums and roundings of what a plugin states must not wrap. */
enum { MOST_ALIGN = 1 << 20 };
static const uint64_t MOST_BYTES = UINT64_C(1) << 46;

/* A device that is lost takes no more. */
static tn_status noted(const tni_dev *d, tn_status st) {
  if (st == TN_E_DEVICE_LOST && !d->is_host) tni_devlock_lose(d->lock); /* the host says it of whom it reads from */
  return st;
}

static tn_status missing(const tni_dev *d, const char *what, tn_error *err) {
  return tni_fail(err, TN_E_INTERNAL, d->name, "OK without %s", what);
}

/* --- before runs ------------------------------------------------------------------------------------------------- */

static tn_status sane_measure(const tni_dev *d, const tn_task *k, const char *what, const tn_measure *me, tn_error *err) {
  uint64_t most = me->scratch_bytes;
  for (uint32_t u = 0; u < k->n_uses; u++)
    if (me->slot_bytes[k->uses[u].slot] > most) most = me->slot_bytes[k->uses[u].slot];
  if (most > MOST_BYTES)
    return tni_fail(err, TN_E_LIMIT, d->name, "plugin '%s' wants more memory for '%s' than there is", d->name, what);
  if (me->scratch_align > MOST_ALIGN || (me->scratch_align & (me->scratch_align - 1)))
    return tni_fail(err, TN_E_INTERNAL, d->name, "plugin '%s' wants scratch of alignment %u for '%s'", d->name,
                    me->scratch_align, what);
  return TN_OK;
}

tn_status tni_dev_measure(const tni_dev *d, const tn_program *p, const tn_program_info *info, tn_id task,
                          const char *what, const tn_dims *dims, tn_measure *me, tn_error *err) {
  const tn_task *k = info->tasks[task];
  for (uint32_t u = 0; u < k->n_uses; u++) me->slot_bytes[k->uses[u].slot] = 0;
  tni_devlock_enter(d->lock, what);
  const tn_status st = d->device->measure(p, task, dims, me);
  tni_devlock_unlock(d->lock);
  if (st == TN_OK) return sane_measure(d, k, what, me, err);
  if (st == TN_E_NO_MEMORY)
    return tni_fail(err, st, d->name, "plugin '%s' is out of memory, measuring '%s'", d->name, what);
  return tni_fail(err, noted(d, st), d->name, "plugin '%s' cannot measure '%s'", d->name, what);
}

tn_status tni_dev_set(const tni_dev *d, tn_program *p, tn_id slot, const tn_view *view, const tn_blob *blob,
                      tn_error *err) {
  tni_devlock_enter(d->lock, "set");
  const tn_status st = d->device->set(p, slot, view, blob, err);
  tni_devlock_unlock(d->lock);
  return noted(d, st);
}

tn_status tni_dev_bind(const tni_dev *d, tn_program *p, tn_id task, const char *what, const tn_dims *dims, tn_plan **out,
                       tn_error *err) {
  *out = NULL;
  tni_devlock_enter(d->lock, what);
  const tni_calm calm = tni_calm_take();
  tn_status st = d->device->bind(p, task, dims, out, err);
  tni_devlock_unlock(d->lock);
  if (st == TN_OK && !*out) st = missing(d, "a plan", err);
  return noted(d, tni_calm_check(&calm, "bind", st, err));
}

void tni_dev_unbind(const tni_dev *d, tn_plan *plan) {
  if (!plan) return;
  tni_devlock_enter(d->lock, "unbind");
  d->device->unbind(plan);
  tni_devlock_unlock(d->lock);
}

tn_status tni_dev_args(const tni_dev *d, tn_plan *plan, const char *what, const tn_view *const *views, uint32_t n,
                       tn_args **out, tn_error *err) {
  *out = NULL;
  tni_devlock_enter(d->lock, what);
  tn_status st = d->device->args(plan, views, n, out, err);
  tni_devlock_unlock(d->lock);
  if (st == TN_OK && !*out) st = missing(d, "arguments", err);
  return noted(d, st);
}

tn_status tni_dev_args_set(const tni_dev *d, tn_args *a, uint32_t first, const tn_view *const *views, uint32_t n,
                           tn_error *err) {
  tn_status st = TN_OK;
  tni_devlock_enter(d->lock, "args_set");
  for (uint32_t u = first; st == TN_OK && u < first + n; u++) st = d->device->args_set(a, u, views[u], err);
  tni_devlock_unlock(d->lock);
  return noted(d, st);
}

void tni_dev_args_free(const tni_dev *d, tn_args *a) {
  if (!a) return;
  tni_devlock_enter(d->lock, "args_free");
  d->device->args_free(a);
  tni_devlock_unlock(d->lock);
}

/* --- runs -------------------------------------------------------------------------------------------------------- */

tn_status tni_dev_run(const tni_dev *d, const char *what, const tn_plan *plan, tn_args *a, tn_run *run, tn_error *err) {
  const uint64_t before = tni_fpmode_get();
  tn_error why;
  tni_error_init(&why);
  tni_devlock_begin(d->lock, what);
  tn_status st = d->device->run(plan, a, run, &why);
  tni_devlock_end(d->lock);
  if (st != TN_OK) st = noted(d, tni_plugin_result(d->name, what, st, &why, err));
  if (tni_fpmode_get() == before) return st;
  tni_fpmode_put(before);
  return tni_fail(err, TN_E_INTERNAL, d->name, "plugin '%s' changed the floating-point mode in '%s'", d->name, what);
}

tn_status tni_dev_submit(const tni_dev *d, uint32_t engine, const tn_item *const *items, uint32_t n, tn_run *run,
                         tn_error *err) {
  pthread_mutex_t *lock = tni_devlock_submit(d->lock, engine);
  tni_devlock_begin(d->lock, "a submit");
  pthread_mutex_lock(lock);
  const tn_status st = d->device->submit(d->device, engine, items, n, run, err);
  pthread_mutex_unlock(lock);
  tni_devlock_end(d->lock);
  return st;
}

/* --- buffers ----------------------------------------------------------------------------------------------------- */

tn_status tni_dev_create(const tni_dev *d, const tn_buffer_req *req, tn_buffer **out, tn_error *err) {
  *out = NULL;
  tni_devlock_enter(d->lock, "create");
  tn_status st = d->device->create(d->device, req, out, err);
  tni_devlock_unlock(d->lock);
  if (st != TN_OK) *out = NULL;
  if (st == TN_OK && !*out) st = missing(d, "a buffer", err);
  return noted(d, st);
}

tn_status tni_dev_share(const tni_dev *d, tn_buffer *b, uint32_t kind, tn_buffer_req *out, tn_error *err) {
  tni_devlock_enter(d->lock, "share");
  const tn_status st = d->device->share(b, kind, out, err);
  tni_devlock_unlock(d->lock);
  return noted(d, st);
}

void tni_dev_destroy(const tni_dev *d, tn_buffer *b) {
  if (!b) return;
  tni_devlock_enter(d->lock, "destroy");
  d->device->destroy(b);
  tni_devlock_unlock(d->lock);
}

tn_status tni_dev_map(const tni_dev *d, tn_buffer *b, uint64_t offset, uint64_t n, uint32_t access, void **ptr,
                      tn_error *err) {
  *ptr = NULL;
  if (tni_devlock_hung(d->lock)) return tni_fail(err, TN_E_DEVICE_LOST, d->name, "it hangs");
  tni_devlock_enter(d->lock, "map");
  tn_status st = d->device->map(b, offset, n, access, ptr, err);
  tni_devlock_unlock(d->lock);
  if (st != TN_OK) *ptr = NULL;
  if (st == TN_OK && !*ptr) st = tni_fail(err, TN_E_INTERNAL, d->name, "it mapped a buffer at NULL");
  return noted(d, st);
}

tn_status tni_dev_unmap(const tni_dev *d, tn_buffer *b, void *ptr, tn_error *err) {
  if (tni_devlock_hung(d->lock)) return tni_fail(err, TN_E_DEVICE_LOST, d->name, "it hangs");
  tni_devlock_enter(d->lock, "unmap");
  const tn_status st = d->device->unmap(b, ptr, err);
  tni_devlock_unlock(d->lock);
  return noted(d, st);
}
