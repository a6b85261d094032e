/* SPDX-License-Identifier: Apache-2.0
 *
 * One set of dims: memory, plans, args, runs.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/base.h"
#include "runtime/conform/drive/memory.h"
#include "runtime/conform/drive/ticket.h"
#include "runtime/ops/kernel/kernel.h"
#include "runtime/plugin/plugin.h"

enum { WAIT_S = 60, GUARD_IN = 0xff, GUARD_OUT = 0x5b };

static bool inst_failed(tni_cf_inst *i, const char *what, const char *detail) {
  snprintf(i->why, sizeof i->why, "%s%s%s", what, detail && *detail ? ": " : "", detail ? detail : "");
  return false;
}

static bool fixed_kind(const tn_slot *s) { return s->kind == TN_SLOT_WEIGHT || s->kind == TN_SLOT_PRIVATE; }

static tni_cf_memory *memory_of(tni_cf_inst *i, uint32_t slot) {
  return fixed_kind(i->d->info->slots[slot]) ? &i->d->fixed[slot] : &i->slot[slot];
}

static bool cpu_too(const tni_cf_inst *i, uint32_t slot) { return i->d->info->slots[slot]->engines & 1; }

/* --- shapes ------------------------------------------------------------------------------------------------------ */

static bool value_dims(tni_cf_inst *i, tn_id v, int64_t *dims, uint64_t *bytes) {
  const tn_value *val = i->d->view.values[v];
  int64_t count;
  for (uint32_t k = 0; k < val->rank; k++)
    if (tni_ex_eval(i->d->g->exprs, val->dims[k], i->dims.v, i->dims.n, &dims[k]) != TN_OK)
      return inst_failed(i, "a dim that is not known", val->name);
  if (tni_dims_count(dims, val->rank, &count) != TN_OK || tni_dtype_bytes(val->dtype, count, bytes) != TN_OK)
    return inst_failed(i, "dims that are too large", val->name);
  return true;
}

static void memory_dense(tni_cf_memory *m, const tn_value *v, const int64_t *dims) {
  int64_t stride = 1;
  m->view.dtype = v->dtype;
  m->view.rank = v->rank;
  for (uint32_t k = v->rank; k-- > 0;) {
    m->dims[k] = dims[k];
    m->strides[k] = stride;
    stride *= dims[k];
  }
}

static const tn_layout *layout_of(const tni_cf_drive *d, tn_id root, tn_layout *plain) {
  const tni_cluster *c = &d->part.clusters[0];
  for (uint32_t k = 0; c->layouts && k < c->n_states; k++)
    if (c->states[k] == root) return &c->layouts[k];
  *plain = tni_state_layout(d->view.values[root]);
  return plain;
}

static int64_t round_to(int64_t n, uint32_t to) { return to > 1 ? (n + to - 1) / to * to : n; }

/* dims of the view, and strides for a cache with room for more rows. Returns the elements that it spans. */
static int64_t cache_shape(const tni_cf_inst *i, const tn_value *v, const tn_layout *l, const int64_t *of,
                           int64_t *dims, int64_t *strides) {
  const tn_state *s = v->state;
  const bool flat = v->rank == 3;
  const int64_t heads = s->heads ? s->heads : 1;
  uint32_t axis = s->axis;
  memcpy(dims, of, v->rank * sizeof *dims);
  if (flat) {
    dims[2] = heads;
    dims[3] = of[2] / heads;
    axis = 1;
  }
  const int64_t room = i->room.rows > dims[axis] || s->flags & TN_STATE_CIRCULAR ? i->room.rows : dims[axis];
  if (s->flags & TN_STATE_CIRCULAR) dims[axis] = room;
  int64_t stride = tni_kv_pitch(l->dtype, dims[l->order[3]]);
  strides[l->order[3]] = 1;
  for (int k = 2; k >= 0; k--) {
    const uint32_t a = l->order[k];
    if (k == 2) stride = round_to(stride, l->inner_align);
    if (k == 1) stride = round_to(stride + i->room.gap * round_to(1, l->inner_align), l->pitch_align);
    if (k == 0) stride += i->room.gap * round_to(strides[l->order[1]], 1);
    strides[a] = stride;
    stride *= a == axis ? room : dims[a];
  }
  return stride;
}

static bool make_state(tni_cf_inst *i, uint32_t slot) {
  const tn_id root = tni_state_root(&i->d->view, i->d->info->slots[slot]->value);
  const tn_value *v = i->d->view.values[root];
  tn_layout plain;
  const tn_layout *l = layout_of(i->d, root, &plain);
  int64_t of[TN_MAX_RANK], dims[TN_MAX_RANK], strides[TN_MAX_RANK];
  uint64_t bytes;
  tni_cf_memory *m = &i->slot[slot];
  if (!v->state || !value_dims(i, root, of, &bytes)) return inst_failed(i, "a cache without dims", v->name);
  const int64_t n = cache_shape(i, v, l, of, dims, strides);
  if (!tni_cf_memory_make(i->d, slot, (uint64_t)n * tni_elem_size(l->dtype), GUARD_OUT, m, i->why, sizeof i->why))
    return false;
  m->view.dtype = l->dtype;
  m->view.rank = 4;
  memcpy(m->dims, dims, 4 * sizeof *dims);
  memcpy(m->strides, strides, 4 * sizeof *strides);
  return true;
}

static bool make_slot(tni_cf_inst *i, uint32_t slot, uint64_t measured) {
  const tn_slot *s = i->d->info->slots[slot];
  int64_t dims[TN_MAX_RANK];
  uint64_t bytes = measured;
  if (s->kind == TN_SLOT_STATE) return make_state(i, slot);
  const bool known = s->kind != TN_SLOT_TEMP;
  if (known && !value_dims(i, s->value, dims, &bytes)) return false;
  const uint8_t fill = s->kind == TN_SLOT_INPUT || s->kind == TN_SLOT_STEP ? GUARD_IN : GUARD_OUT;
  if (!tni_cf_memory_make(i->d, slot, bytes, fill, &i->slot[slot], i->why, sizeof i->why)) return false;
  if (known) memory_dense(&i->slot[slot], i->d->view.values[s->value], dims);
  return true;
}

/* --- tasks ------------------------------------------------------------------------------------------------------- */

static bool measure_all(tni_cf_inst *i, uint64_t *bytes) {
  const tn_device *d = i->d->h->device;
  for (uint32_t t = 0; t < i->d->info->n_tasks; t++) {
    tn_measure m = {.h = TN_HDR(tn_measure), .slot_bytes = bytes};
    if (d->measure(i->d->prog.program, t, &i->dims, &m) != TN_OK)
      return inst_failed(i, "measure", i->d->info->tasks[t]->name);
    if (!(m.cost_ns >= 0) || !(m.macs >= 0) || !(m.moved_bytes >= 0))
      return inst_failed(i, "measure", "a cost that is no number");
    if (m.scratch_bytes > UINT64_C(1) << 32) return inst_failed(i, "measure", "absurd scratch");
    i->scratch_bytes[t] = m.scratch_bytes;
    i->stated_bytes[t] = m.driver_bytes;
    if (!m.scratch_bytes) continue;
    if (m.scratch_align & (m.scratch_align - 1) || m.scratch_align > 4096)
      return inst_failed(i, "measure", "absurd alignment");
  }
  return true;
}

static bool make_scratch(tni_cf_inst *i, uint32_t t) {
  tni_cf_memory *m = &i->scratch[t];
  *m = (tni_cf_memory){.bytes = i->scratch_bytes[t], .fill = GUARD_OUT};
  m->view = (tn_view){.h = TN_HDR(tn_view), .bytes = m->bytes};
  if (!tni_cf_block_make(&m->host, m->bytes, 64, GUARD_OUT, false)) return inst_failed(i, "no memory", "scratch");
  m->view.ptr = m->host.p;
  return true;
}

static bool bind_task(tni_cf_inst *i, uint32_t t) {
  tni_cf_host *h = i->d->h;
  const tn_task *k = i->d->info->tasks[t];
  const tn_view **views = TNI_NEW_ARRAY(i->d->arena, const tn_view *, k->n_uses + 1);
  if (!views || !make_scratch(i, t)) return inst_failed(i, "no memory", NULL);
  for (uint32_t u = 0; u < k->n_uses; u++) views[u] = &memory_of(i, k->uses[u].slot)->view;
  views[k->n_uses] = &i->scratch[t].view;
  const uint64_t before = tni_cf_host_bytes(h);
  if (!i->plan[t] && h->device->bind(i->d->prog.program, t, &i->dims, &i->plan[t], &h->err) != TN_OK)
    return inst_failed(i, "bind", h->err.message);
  if (h->device->args(i->plan[t], views, k->n_uses + 1, &i->args[t], &h->err) != TN_OK)
    return inst_failed(i, "args", h->err.message);
  const uint64_t after = tni_cf_host_bytes(h);
  i->taken_bytes[t] = after > before ? after - before : 0;
  return true;
}

static bool make_arrays(tni_cf_inst *i) {
  const tn_program_info *f = i->d->info;
  i->slot = calloc(f->n_slots + 1, sizeof *i->slot);
  i->scratch = calloc(f->n_tasks + 1, sizeof *i->scratch);
  i->plan = calloc(f->n_tasks + 1, sizeof *i->plan);
  i->args = calloc(f->n_tasks + 1, sizeof *i->args);
  i->scratch_bytes = calloc(f->n_tasks + 1, sizeof *i->scratch_bytes);
  i->stated_bytes = calloc(f->n_tasks + 1, sizeof *i->stated_bytes);
  i->taken_bytes = calloc(f->n_tasks + 1, sizeof *i->taken_bytes);
  return i->slot && i->scratch && i->plan && i->args && i->scratch_bytes && i->stated_bytes && i->taken_bytes;
}

static bool inst_make(tni_cf_inst *i, const tni_cf_inst *of) {
  const tni_cf_drive *d = i->d;
  i->dims = (tn_dims){.h = TN_HDR(tn_dims), .v = i->sym, .n = d->view.n_symbols};
  uint64_t *bytes = calloc(d->info->n_slots + 1, sizeof *bytes);
  bool ok = bytes && make_arrays(i) && measure_all(i, bytes);
  for (uint32_t t = 0; ok && of && t < d->info->n_tasks; t++) i->plan[t] = of->plan[t];
  for (uint32_t s = 0; ok && s < d->info->n_slots; s++) ok = fixed_kind(d->info->slots[s]) || make_slot(i, s, bytes[s]);
  for (uint32_t t = 0; ok && t < d->info->n_tasks; t++) ok = bind_task(i, t);
  free(bytes);
  return ok;
}

bool tni_cf_inst_make(tni_cf_inst *i, tni_cf_drive *d, const int64_t *sym, tni_cf_room room) {
  *i = (tni_cf_inst){.d = d, .room = room};
  if (d->view.n_symbols > TNI_CF_MAX_SYMBOLS) return inst_failed(i, "too many symbols", NULL);
  memcpy(i->sym, sym, d->view.n_symbols * sizeof *sym);
  return inst_make(i, NULL);
}

bool tni_cf_inst_share(tni_cf_inst *i, const tni_cf_inst *of) {
  *i = (tni_cf_inst){.d = of->d, .room = of->room, .borrowed = true};
  memcpy(i->sym, of->sym, sizeof i->sym);
  return inst_make(i, of);
}

void tni_cf_inst_finish(tni_cf_inst *i) {
  tn_device *dev = i->d->h->device;
  const tn_program_info *f = i->d->info;
  for (uint32_t t = 0; i->args && t < f->n_tasks; t++)
    if (i->args[t]) dev->args_free(i->args[t]);
  for (uint32_t t = 0; i->plan && t < f->n_tasks; t++)
    if (i->plan[t] && !i->borrowed) dev->unbind(i->plan[t]);
  for (uint32_t t = 0; i->scratch && t < f->n_tasks; t++) tni_cf_memory_finish(i->d->h, &i->scratch[t]);
  for (uint32_t s = 0; i->slot && s < f->n_slots; s++) tni_cf_memory_finish(i->d->h, &i->slot[s]);
  free(i->slot);
  free(i->scratch);
  free(i->plan);
  free(i->args);
  free(i->scratch_bytes);
  free(i->stated_bytes);
  free(i->taken_bytes);
  i->slot = i->scratch = NULL;
}

/* --- the CPU's side ---------------------------------------------------------------------------------------------- */

static bool look_at_slot(tni_cf_inst *i, uint32_t slot, uint32_t access, uint8_t **at) {
  return tni_cf_memory_look(i->d->h, memory_of(i, slot), access, at) || inst_failed(i, "map", i->d->h->err.message);
}

bool tni_cf_inst_release(tni_cf_inst *i, uint32_t slot) {
  return tni_cf_memory_release(i->d->h, memory_of(i, slot), cpu_too(i, slot)) ||
         inst_failed(i, "unmap", i->d->h->err.message);
}

bool tni_cf_inst_write(tni_cf_inst *i, tn_id v, const void *data, uint64_t bytes) {
  const uint32_t slot = tni_cf_drive_slot(i->d, v);
  uint8_t *at;
  if (slot == TN_NONE) return true;
  if (i->slot[slot].bytes != bytes)
    return inst_failed(i, "a slot of another size than its value", i->d->view.values[v]->name);
  if (!bytes) return true;
  if (!look_at_slot(i, slot, TN_WRITE, &at)) return false;
  memcpy(at, data, bytes);
  return tni_cf_inst_release(i, slot);
}

bool tni_cf_inst_read(tni_cf_inst *i, tn_id v, void *data, uint64_t bytes) {
  const uint32_t slot = tni_cf_drive_slot(i->d, v);
  uint8_t *at;
  if (slot == TN_NONE) return inst_failed(i, "no slot for an output", i->d->view.values[v]->name);
  if (i->slot[slot].bytes != bytes)
    return inst_failed(i, "a slot of another size than its value", i->d->view.values[v]->name);
  if (!bytes) return true;
  if (!look_at_slot(i, slot, TN_READ, &at)) return false;
  memcpy(data, at, bytes);
  return tni_cf_inst_release(i, slot);
}

bool tni_cf_inst_fill(tni_cf_inst *i, uint8_t with) {
  const tn_program_info *f = i->d->info;
  uint8_t *at;
  for (uint32_t t = 0; t < f->n_tasks; t++) memset(i->scratch[t].host.p, with, i->scratch[t].bytes);
  for (uint32_t s = 0; s < f->n_slots; s++) {
    const uint32_t kind = f->slots[s]->kind;
    if ((kind != TN_SLOT_TEMP && kind != TN_SLOT_OUTPUT) || !i->slot[s].bytes) continue;
    if (!look_at_slot(i, s, TN_WRITE, &at)) return false;
    memset(at, with, i->slot[s].bytes);
    if (!tni_cf_inst_release(i, s)) return false;
  }
  return true;
}

/* --- running ----------------------------------------------------------------------------------------------------- */

static tn_status task_submit(tni_cf_inst *i, uint32_t t, tn_run *run) {
  const tni_cf_work w = {i, t};
  struct tni_cf_ticket *k;
  tn_status st = tni_cf_inst_submit(&w, 1, run, &k);
  if (st != TN_OK) return st;
  const uint32_t done = tni_cf_ticket_wait(k, WAIT_S);
  if (done != 1) return inst_failed(i, done ? "done was called twice" : "done was never called", NULL), TN_E_INTERNAL;
  if (k->st != TN_OK) inst_failed(i, "the item failed", k->message);
  return k->st;
}

/* Items are gone when submit comes back: they are filled with something else then. */
tn_status tni_cf_inst_submit(const tni_cf_work *w, uint32_t n, tn_run *run, struct tni_cf_ticket **tickets) {
  tni_cf_inst *i = w[0].i;
  tni_cf_host *h = i->d->h;
  tn_item item[TNI_CF_MAX_ITEMS];
  const tn_item *items[TNI_CF_MAX_ITEMS];
  const uint32_t engine = i->d->info->tasks[w[0].task]->engine;
  for (uint32_t k = 0; k < n; k++) {
    tickets[k] = tni_cf_ticket_take(h);
    item[k] = (tn_item){.h = TN_HDR(tn_item),
                        .plan = w[k].i->plan[w[k].task],
                        .args = w[k].i->args[w[k].task],
                        .ticket = (tn_ticket *)(void *)tickets[k]};
    items[k] = &item[k];
  }
  tn_error err;
  tni_error_init(&err);
  pthread_mutex_lock(tni_devlock_submit(&h->lock, engine));
  tn_status st = h->device->submit(h->device, engine, items, n, tni_cf_blocking(h, engine) ? run : NULL, &err);
  pthread_mutex_unlock(tni_devlock_submit(&h->lock, engine));
  memset(item, 0xdb, sizeof item);
  memset(items, 0xdb, sizeof items);
  for (uint32_t k = 0; k < n; k++) tni_cf_ticket_submitted(tickets[k], st);
  if (st != TN_OK) inst_failed(i, "submit", err.message);
  return st;
}

bool tni_cf_blocking(const tni_cf_host *h, uint32_t engine) {
  return engine <= h->caps->n_engines && h->caps->engines[engine - 1]->flags & TN_ENGINE_BLOCKING;
}

tn_status tni_cf_inst_task(tni_cf_inst *i, uint32_t t, uint32_t split) {
  tni_cf_host *h = i->d->h;
  tn_run run = tni_cf_host_run(&(tni_cf_lent){split, i->brake});
  if (i->d->info->tasks[t]->engine) return task_submit(i, t, &run);
  tn_error err;
  tni_error_init(&err);
  const uint64_t mode = tni_fpmode_get();
  tn_status st = h->device->run(i->plan[t], i->args[t], &run, &err);
  if (tni_fpmode_get() != mode) {
    tni_fpmode_put(mode);
    return inst_failed(i, "run changed the floating-point mode", NULL), TN_E_INTERNAL;
  }
  if (st != TN_OK) inst_failed(i, "run", err.message);
  return st;
}

static bool read_only(const tn_slot *s) { return s->kind == TN_SLOT_INPUT || s->kind == TN_SLOT_STEP; }

/* What a run may only read, in a row; NULL without memory or where there is nothing. */
static uint8_t *inputs_now(tni_cf_inst *i, uint64_t *bytes) {
  const tn_program_info *f = i->d->info;
  uint8_t *at, *copy;
  *bytes = 0;
  for (uint32_t s = 0; s < f->n_slots; s++)
    if (read_only(f->slots[s])) *bytes += i->slot[s].bytes;
  uint64_t done = 0;
  if (!*bytes || !(copy = malloc(*bytes))) return NULL;
  for (uint32_t s = 0; s < f->n_slots; s++) {
    if (!read_only(f->slots[s]) || !i->slot[s].bytes) continue;
    if (!look_at_slot(i, s, TN_READ, &at)) break;
    memcpy(copy + done, at, i->slot[s].bytes);
    done += i->slot[s].bytes;
    if (!tni_cf_inst_release(i, s)) break;
  }
  return copy;
}

static tn_status run_all(tni_cf_inst *i, uint32_t split) {
  tni_cf_host *h = i->d->h;
  tn_status st = TN_OK;
  const long long before = atomic_load(&h->p.host.total);
  for (uint32_t t = 0; st == TN_OK && t < i->d->info->n_tasks; t++)
    st = tni_cf_inst_task(i, i->order ? i->order[t] : t, split);
  __atomic_add_fetch(&h->run_allocs, atomic_load(&h->p.host.total) - before, __ATOMIC_RELAXED);
  return st;
}

/* Slots that an output may overwrite are an instance's own here: nobody may write to an input. */
tn_status tni_cf_inst_run(tni_cf_inst *i, uint8_t with, uint32_t split) {
  uint64_t bytes, after;
  if (!tni_cf_inst_fill(i, with)) return TN_E_INTERNAL;
  uint8_t *was = inputs_now(i, &bytes);
  tn_status st = run_all(i, split);
  uint8_t *is = was ? inputs_now(i, &after) : NULL;
  if (st == TN_OK && is && memcmp(was, is, bytes) != 0)
    st = (inst_failed(i, "an input was written", NULL), TN_E_INTERNAL);
  free(was);
  free(is);
  return st;
}

static bool weights_hold(tni_cf_inst *i, uint32_t s) {
  const tni_cf_drive *d = i->d;
  uint8_t *at;
  if (!d->packed[s] || d->flip != UINT64_MAX || !d->fixed[s].bytes) return true;
  if (!tni_cf_memory_look(d->h, &d->fixed[s], TN_READ, &at)) return inst_failed(i, "map", d->h->err.message);
  const bool same = !memcmp(at, d->packed[s], d->fixed[s].bytes);
  return tni_cf_memory_release(d->h, &d->fixed[s], cpu_too(i, s)) &&
         (same || inst_failed(i, "a packed weight was changed", NULL));
}

static bool slot_holds(tni_cf_inst *i, uint32_t s) {
  const tn_slot *slot = i->d->info->slots[s];
  char text[96];
  snprintf(text, sizeof text, "bytes beside slot %u ('%.60s') were written", s, slot->name ? slot->name : "");
  if (!tni_cf_memory_guards(i->d->h, memory_of(i, s), cpu_too(i, s))) return inst_failed(i, text, NULL);
  return slot->kind != TN_SLOT_WEIGHT || weights_hold(i, s);
}

bool tni_cf_inst_guards(tni_cf_inst *i) {
  const tn_program_info *f = i->d->info;
  for (uint32_t s = 0; s < f->n_slots; s++) {
    const bool shared = fixed_kind(f->slots[s]);
    if (shared) pthread_mutex_lock(&i->d->h->looking);
    const bool holds = slot_holds(i, s);
    if (shared) pthread_mutex_unlock(&i->d->h->looking);
    if (!holds) return false;
  }
  for (uint32_t t = 0; t < f->n_tasks; t++)
    if (!tni_cf_memory_guards(i->d->h, &i->scratch[t], true))
      return inst_failed(i, "bytes beside the scratch were written", NULL);
  return true;
}
