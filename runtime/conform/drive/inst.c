/* SPDX-License-Identifier: Apache-2.0
 *
 * One set of dims: memory, plans, args, runs.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/base.h"
#include "runtime/conform/drive/inst.h"
#include "runtime/ops/kernel/kernel.h"

enum { GUARD_IN = 0xff, GUARD_OUT = 0x5b, MOST_ALIGN = 4096 };
static const uint64_t MOST_SCRATCH = UINT64_C(1) << 32;

/* --- shapes ------------------------------------------------------------------------------------------------------ */

static bool value_dims(tni_cf_inst *i, tn_id v, int64_t *dims, uint64_t *bytes) {
  const tn_value *val = i->d->view.values[v];
  int64_t count;
  for (uint32_t k = 0; k < val->rank; k++)
    if (tni_ex_eval(i->d->g->exprs, val->dims[k], i->dims.v, i->dims.n, &dims[k]) != TN_OK)
      return tni_cf_inst_failed(i, "a dim that is not known", val->name);
  if (tni_dims_count(dims, val->rank, &count) != TN_OK || tni_dtype_bytes(val->dtype, count, bytes) != TN_OK)
    return tni_cf_inst_failed(i, "dims that are too large", val->name);
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
  if (!v->state || !value_dims(i, root, of, &bytes)) return tni_cf_inst_failed(i, "a cache without dims", v->name);
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
  if (tni_cf_slot_alias(i->d, slot) != TN_NONE) { /* its place comes when all inputs have theirs */
    i->slot[slot] = (tni_cf_memory){.bytes = bytes};
    i->slot[slot].view =
        (tn_view){.h = TN_HDR(tn_view), .bytes = bytes, .dims = i->slot[slot].dims, .strides = i->slot[slot].strides};
    memory_dense(&i->slot[slot], i->d->view.values[s->value], dims);
    return true;
  }
  const uint8_t in = i->d->guard ? i->d->guard : GUARD_IN,
                fill = s->kind == TN_SLOT_INPUT || s->kind == TN_SLOT_STEP ? in : GUARD_OUT;
  if (!tni_cf_memory_make(i->d, slot, bytes, fill, &i->slot[slot], i->why, sizeof i->why)) return false;
  if (known) memory_dense(&i->slot[slot], i->d->view.values[s->value], dims);
  return true;
}

static bool place_alias(tni_cf_inst *i, uint32_t slot) {
  const uint32_t alias = tni_cf_slot_alias(i->d, slot);
  if (alias == TN_NONE) return true;
  tn_view *v = &i->slot[slot].view;
  const tn_view *at = &i->slot[alias].view;
  if (v->bytes > at->bytes) return tni_cf_inst_failed(i, "alias names an input that is smaller than the output", NULL);
  v->ptr = at->ptr;
  v->buffer = at->buffer;
  v->offset = at->offset;
  return true;
}

/* --- tasks ------------------------------------------------------------------------------------------------------- */

/* A slot gets the most that a task states (plugin.h, tn_measure); private memory was made before, and is so at all dims. */
static void take_bytes(const tn_task *k, const uint64_t *of_task, uint64_t *bytes) {
  for (uint32_t u = 0; u < k->n_uses; u++)
    if (of_task[k->uses[u].slot] > bytes[k->uses[u].slot]) bytes[k->uses[u].slot] = of_task[k->uses[u].slot];
}

static bool private_stays(tni_cf_inst *i, const uint64_t *bytes) {
  char text[160];
  for (uint32_t s = 0; s < i->d->info->n_slots; s++) {
    if (i->d->info->slots[s]->kind != TN_SLOT_PRIVATE || bytes[s] == i->d->fixed[s].bytes) continue;
    snprintf(text, sizeof text, "private memory of slot %u takes %llu bytes, and %llu at other dims (plugin.h, tn_measure)", s,
             (unsigned long long)bytes[s], (unsigned long long)i->d->fixed[s].bytes);
    return tni_cf_inst_failed(i, "measure", text);
  }
  return true;
}

static bool measure_all(tni_cf_inst *i, uint64_t *bytes, uint64_t *of_task) {
  tni_cf_host *h = i->d->h;
  for (uint32_t t = 0; t < i->d->info->n_tasks; t++) {
    tn_measure m = {.h = TN_HDR(tn_measure), .slot_bytes = of_task};
    if (tni_dev_measure(&h->dev, i->d->prog.program, i->d->info, t, i->d->info->tasks[t]->name, &i->dims, &m, &h->err) != TN_OK)
      return tni_cf_inst_failed(i, "measure", h->err.message);
    if (!(m.cost_ns >= 0) || !(m.macs >= 0) || !(m.moved_bytes >= 0))
      return tni_cf_inst_failed(i, "measure", "a cost that is no number");
    i->scratch_bytes[t] = m.scratch_bytes;
    i->scratch_align[t] = m.scratch_align;
    i->stated_bytes[t] = m.driver_bytes;
    take_bytes(i->d->info->tasks[t], of_task, bytes);
    if (m.scratch_bytes > MOST_SCRATCH || m.scratch_align > MOST_ALIGN)
      return tni_cf_inst_failed(i, "measure", "for so small a graph, absurd scratch or an absurd alignment of it");
  }
  return private_stays(i, bytes);
}

static bool make_scratch(tni_cf_inst *i, uint32_t t) {
  return tni_cf_memory_scratch(i->d, t, i->scratch_bytes[t], i->scratch_align[t], GUARD_OUT, &i->scratch[t], i->why,
                               sizeof i->why);
}

static bool bind_task(tni_cf_inst *i, uint32_t t) {
  tni_cf_host *h = i->d->h;
  const tn_task *k = i->d->info->tasks[t];
  const tn_view **views = TNI_NEW_ARRAY(i->d->arena, const tn_view *, k->n_uses + 1);
  if (!views) return tni_cf_inst_failed(i, "no memory", NULL);
  if (!make_scratch(i, t)) return false;
  for (uint32_t u = 0; u < k->n_uses; u++) views[u] = &tni_cf_inst_memory(i, k->uses[u].slot)->view;
  views[k->n_uses] = &i->scratch[t].view;
  const uint64_t before = tni_cf_host_bytes(h);
  if (!i->plan[t] && tni_dev_bind(&h->dev, i->d->prog.program, t, k->name, &i->dims, &i->plan[t], &h->err) != TN_OK)
    return tni_cf_inst_failed(i, "bind", h->err.message);
  if (!tni_cf_inst_attach(i, t, views)) return false;
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
  i->scratch_align = calloc(f->n_tasks + 1, sizeof *i->scratch_align);
  i->stated_bytes = calloc(f->n_tasks + 1, sizeof *i->stated_bytes);
  i->taken_bytes = calloc(f->n_tasks + 1, sizeof *i->taken_bytes);
  return i->slot && i->scratch && i->plan && i->args && i->scratch_bytes && i->scratch_align && i->stated_bytes &&
         i->taken_bytes;
}

static bool inst_make(tni_cf_inst *i, const tni_cf_inst *of) {
  const tni_cf_drive *d = i->d;
  i->dims = (tn_dims){.h = TN_HDR(tn_dims), .v = i->sym, .n = d->view.n_symbols};
  uint64_t *bytes = calloc(2 * ((size_t)d->info->n_slots + 1), sizeof *bytes);
  bool ok = bytes && make_arrays(i) && measure_all(i, bytes, bytes + d->info->n_slots + 1);
  for (uint32_t t = 0; ok && of && t < d->info->n_tasks; t++) i->plan[t] = of->plan[t];
  for (uint32_t s = 0; ok && s < d->info->n_slots; s++)
    ok = tni_cf_slot_is_fixed(d->info->slots[s]) || make_slot(i, s, bytes[s]);
  for (uint32_t s = 0; ok && s < d->info->n_slots; s++) ok = place_alias(i, s);
  for (uint32_t t = 0; ok && t < d->info->n_tasks; t++) ok = bind_task(i, t);
  free(bytes);
  return ok;
}

bool tni_cf_inst_make(tni_cf_inst *i, tni_cf_drive *d, const int64_t *sym, tni_cf_room room) {
  *i = (tni_cf_inst){.d = d, .room = room};
  if (d->view.n_symbols > TNI_CF_MAX_SYMBOLS) return tni_cf_inst_failed(i, "too many symbols", NULL);
  memcpy(i->sym, sym, d->view.n_symbols * sizeof *sym);
  return inst_make(i, NULL);
}

bool tni_cf_inst_share(tni_cf_inst *i, const tni_cf_inst *of) {
  *i = (tni_cf_inst){.d = of->d, .room = of->room, .borrowed = true};
  memcpy(i->sym, of->sym, sizeof i->sym);
  return inst_make(i, of);
}

void tni_cf_inst_finish(tni_cf_inst *i) {
  if (tni_cf_has_left()) return;
  const tni_dev *dev = &i->d->h->dev;
  const tn_program_info *f = i->d->info;
  for (uint32_t t = 0; i->args && t < f->n_tasks; t++)
    tni_dev_args_free(dev, i->args[t]);
  for (uint32_t t = 0; i->plan && t < f->n_tasks; t++)
    if (!i->borrowed) tni_dev_unbind(dev, i->plan[t]);
  for (uint32_t t = 0; i->scratch && t < f->n_tasks; t++) tni_cf_memory_finish(i->d->h, &i->scratch[t]);
  for (uint32_t s = 0; i->slot && s < f->n_slots; s++) tni_cf_memory_finish(i->d->h, &i->slot[s]);
  free(i->slot);
  free(i->scratch);
  free(i->plan);
  free(i->args);
  free(i->scratch_bytes);
  free(i->scratch_align);
  free(i->stated_bytes);
  free(i->taken_bytes);
  i->slot = i->scratch = NULL;
}
