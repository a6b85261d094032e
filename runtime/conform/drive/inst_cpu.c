/* SPDX-License-Identifier: Apache-2.0
 *
 * The memory of an instance: as its arguments, and as the CPU reaches it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/conform/drive/inst.h"

bool tni_cf_inst_failed(tni_cf_inst *i, const char *what, const char *detail) {
  snprintf(i->why, sizeof i->why, "%s%s%s", what, detail && *detail ? ": " : "", detail ? detail : "");
  return false;
}

/* --- arguments --------------------------------------------------------------------------------------------------- */

/* A view of the same form over other memory. */
static bool decoy_make(tni_cf_inst *i, uint32_t t, uint32_t use, const tn_view *right, tni_cf_memory *m, tn_view *v) {
  const tn_task *k = i->d->info->tasks[t];
  const bool scratch = use == k->n_uses;
  const bool ok =
      scratch ? tni_cf_memory_scratch(i->d, t, right->bytes, i->scratch_align[t], 0xff, m, i->why, sizeof i->why)
              : tni_cf_memory_make(i->d, k->uses[use].slot, right->bytes, 0xff, m, i->why, sizeof i->why);
  *v = *right;
  v->ptr = m->view.ptr;
  v->buffer = m->view.buffer;
  v->offset = m->view.offset;
  return ok;
}

static bool attach_anew(tni_cf_inst *i, uint32_t t, const tn_view **views) {
  tni_cf_host *h = i->d->h;
  const uint32_t n = i->d->info->tasks[t]->n_uses + 1;
  tni_cf_memory *m = calloc(n, sizeof *m);
  tn_view *other = calloc(n, sizeof *other);
  const tn_view **list = calloc(n, sizeof *list);
  bool ok = (m && other && list) || tni_cf_inst_failed(i, "no memory", NULL);
  for (uint32_t u = 0; ok && u < n; u++) {
    const bool fixed = u + 1 < n && tni_cf_slot_is_fixed(i->d->info->slots[i->d->info->tasks[t]->uses[u].slot]);
    list[u] = fixed ? views[u] : &other[u];
    if (!fixed) ok = decoy_make(i, t, u, views[u], &m[u], &other[u]);
  }
  if (ok && tni_dev_args(&h->dev, i->plan[t], "args", list, n, &i->args[t], &h->err) != TN_OK)
    ok = tni_cf_inst_failed(i, "args", h->err.message);
  for (uint32_t u = 0; ok && u < n; u++)
    if (tni_dev_args_set(&h->dev, i->args[t], u, views, 1, &h->err) != TN_OK)
      ok = tni_cf_inst_failed(i, "args_set", h->err.message);
  for (uint32_t u = 0; m && u < n; u++) tni_cf_memory_finish(h, &m[u]);
  free(m);
  free(other);
  free(list);
  return ok;
}

bool tni_cf_inst_attach(tni_cf_inst *i, uint32_t t, const tn_view **views) {
  tni_cf_host *h = i->d->h;
  if (!i->d->aliased && h->attached++ % 2) return attach_anew(i, t, views);
  const uint32_t n = i->d->info->tasks[t]->n_uses + 1;
  return tni_dev_args(&h->dev, i->plan[t], "args", views, n, &i->args[t], &h->err) == TN_OK ||
         tni_cf_inst_failed(i, "args", h->err.message);
}

/* --- the CPU's side ---------------------------------------------------------------------------------------------- */

bool tni_cf_inst_look(tni_cf_inst *i, uint32_t slot, uint32_t access, uint8_t **at) {
  return tni_cf_memory_look(i->d->h, tni_cf_inst_memory(i, slot), access, at) ||
         tni_cf_inst_failed(i, "map", i->d->h->err.message);
}

bool tni_cf_inst_release(tni_cf_inst *i, uint32_t slot) {
  return tni_cf_memory_release(i->d->h, tni_cf_inst_memory(i, slot), tni_cf_slot_is_cpus(i, slot)) ||
         tni_cf_inst_failed(i, "unmap", i->d->h->err.message);
}

bool tni_cf_inst_write(tni_cf_inst *i, tn_id v, const void *data, uint64_t bytes) {
  const uint32_t slot = tni_cf_drive_slot(i->d, v);
  uint8_t *at;
  if (slot == TN_NONE) return true;
  if (i->slot[slot].bytes != bytes)
    return tni_cf_inst_failed(i, "a slot of another size than its value", i->d->view.values[v]->name);
  if (!bytes) return true;
  if (!tni_cf_inst_look(i, slot, TN_WRITE, &at)) return false;
  memcpy(at, data, bytes);
  return tni_cf_inst_release(i, slot);
}

bool tni_cf_inst_read(tni_cf_inst *i, tn_id v, void *data, uint64_t bytes) {
  const uint32_t slot = tni_cf_drive_slot(i->d, v);
  uint8_t *at;
  if (slot == TN_NONE) return tni_cf_inst_failed(i, "no slot for an output", i->d->view.values[v]->name);
  if (i->slot[slot].bytes != bytes)
    return tni_cf_inst_failed(i, "a slot of another size than its value", i->d->view.values[v]->name);
  if (!bytes) return true;
  if (!tni_cf_inst_look(i, slot, TN_READ, &at)) return false;
  memcpy(data, at, bytes);
  return tni_cf_inst_release(i, slot);
}

bool tni_cf_inst_fill(tni_cf_inst *i, uint8_t with) {
  const tn_program_info *f = i->d->info;
  uint8_t *at;
  for (uint32_t t = 0; t < f->n_tasks; t++) {
    tni_cf_memory *m = &i->scratch[t];
    if (!m->bytes) continue;
    if (!tni_cf_memory_look(i->d->h, m, TN_WRITE, &at)) return tni_cf_inst_failed(i, "map", i->d->h->err.message);
    memset(at, with, m->bytes);
    if (!tni_cf_memory_release(i->d->h, m, !f->tasks[t]->engine))
      return tni_cf_inst_failed(i, "unmap", i->d->h->err.message);
  }
  for (uint32_t s = 0; s < f->n_slots; s++) {
    const uint32_t kind = f->slots[s]->kind;
    if ((kind != TN_SLOT_TEMP && kind != TN_SLOT_OUTPUT) || !i->slot[s].bytes) continue;
    if (tni_cf_slot_alias(i->d, s) != TN_NONE) continue; /* it holds an input */
    if (!tni_cf_inst_look(i, s, TN_WRITE, &at)) return false;
    memset(at, with, i->slot[s].bytes);
    if (!tni_cf_inst_release(i, s)) return false;
  }
  return true;
}
