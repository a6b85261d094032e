/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory of a session for given dims. Activations and temporaries share one arena by lifetime (regions are alive from
 * their first to their last task; tasks run one after the other here); outputs have memory of their own, because they
 * outlive the run; inputs are the caller's; what an engine touches is a buffer of its device.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/base/offsets.h"
#include "runtime/sched/session.h"
#include "runtime/shape/infer.h"

typedef struct sizing {
  tn_model *m;
  tni_exec *x;
  const int64_t *dims;
  tni_sregion *regions; /* [n_regions]: out */
  tni_stask *tasks;     /* [n_tasks]: scratch out; may be NULL */
  uint64_t scratch;     /* largest */
  tn_error *err;
} sizing;

static tn_status size_value(sizing *z, const tni_region *r, tni_sregion *s) {
  const tni_value *v = tni_graph_value(z->m->graph, r->value);
  int64_t count = 1, stride = 1;
  s->dtype = v->pub.dtype;
  s->rank = v->pub.rank;
  for (uint32_t i = 0; i < s->rank; i++) {
    tn_status st = tni_ex_eval(z->m->graph->exprs, v->pub.dims[i], z->dims, z->x->view.n_symbols, &s->dims[i]);
    if (st != TN_OK || s->dims[i] < 0)
      return tni_fail(z->err, TN_E_INVALID, v->pub.name, "'%s': axis %u cannot be computed from the inputs' dims",
                      v->pub.name, i);
  }
  for (uint32_t i = s->rank; i-- > 0;) {
    s->strides[i] = stride;
    stride *= s->dims[i] ? s->dims[i] : 1;
  }
  if (tni_dims_count(s->dims, s->rank, &count) != TN_OK || tni_dtype_bytes(s->dtype, count, &s->bytes) != TN_OK)
    return tni_fail(z->err, TN_E_LIMIT, v->pub.name, "'%s' is too large", v->pub.name);
  return TN_OK;
}

/* TEMP slots and scratch, from the plugin's measure. */
static tn_status size_task(sizing *z, uint32_t t, uint64_t *slot_bytes) {
  const tni_etask *e = &z->x->tasks[t];
  const tni_program *p = &z->x->programs[e->program];
  tn_dims dims = {.h = TN_HDR(tn_dims), .v = z->dims, .n = z->x->view.n_symbols};
  tn_measure me = {.h = TN_HDR(tn_measure), .slot_bytes = slot_bytes};
  for (uint32_t u = 0; u < e->info->n_uses; u++) slot_bytes[e->info->uses[u].slot] = 0;
  tni_devlock_lock(p->dev->lock);
  tn_status st = p->dev->device->measure(p->program, e->task, &dims, &me);
  tni_devlock_unlock(p->dev->lock);
  if (st != TN_OK) return tni_fail(z->err, st, p->dev->name, "plugin '%s' cannot measure '%s'", p->dev->name, e->label);
  for (uint32_t u = 0; u < e->info->n_uses; u++) {
    if (e->regions[u] == TN_NONE || z->x->regions[e->regions[u]].kind != TNI_R_TEMP) continue;
    tni_sregion *s = &z->regions[e->regions[u]];
    if (slot_bytes[e->info->uses[u].slot] > s->bytes) s->bytes = slot_bytes[e->info->uses[u].slot];
  }
  if (me.scratch_bytes > z->scratch) z->scratch = me.scratch_bytes;
  if (!z->tasks) return TN_OK;
  z->tasks[t].scratch_bytes = me.scratch_bytes;
  z->tasks[t].scratch_align = me.scratch_align > 64 ? me.scratch_align : 64;
  return TN_OK;
}

static tn_status size_all(sizing *z) {
  uint32_t max_slots = 1;
  for (uint32_t i = 0; i < z->x->n_programs; i++)
    if (z->x->programs[i].info->n_slots > max_slots) max_slots = z->x->programs[i].info->n_slots;
  uint64_t *slot_bytes = calloc(max_slots, sizeof *slot_bytes);
  tn_status st = slot_bytes ? TN_OK : tni_fail_memory(z->err, NULL);
  for (uint32_t i = 0; i < z->x->n_regions; i++) z->regions[i].bytes = 0;
  for (uint32_t i = 0; st == TN_OK && i < z->x->n_regions; i++)
    if (z->x->regions[i].value != TN_NONE) st = size_value(z, &z->x->regions[i], &z->regions[i]);
  for (uint32_t t = 0; st == TN_OK && t < z->x->n_tasks; t++) st = size_task(z, t, slot_bytes);
  free(slot_bytes);
  return st;
}

static bool in_arena(const tni_region *r) {
  return r->device == TN_NONE && (r->kind == TNI_R_ACT || r->kind == TNI_R_TEMP);
}

static bool in_outputs(const tni_region *r) {
  return r->device == TN_NONE && (r->kind == TNI_R_OUTPUT || r->kind == TNI_R_STEP);
}

/* Offsets of arena regions and of every task's scratch (alive in its task only). */
static tn_status place(sizing *z, uint64_t *arena, uint64_t *outputs) {
  uint32_t cap = z->x->n_regions + z->x->n_tasks, n = 0;
  tn_interval *iv = calloc(cap ? cap : 1, sizeof *iv);
  if (!iv) return tni_fail_memory(z->err, NULL);
  *outputs = 0;
  for (uint32_t i = 0; i < z->x->n_regions; i++) {
    const tni_region *r = &z->x->regions[i];
    if (in_arena(r)) iv[n++] = (tn_interval){r->first, r->last, z->regions[i].room, r->align, 0};
    if (!in_outputs(r)) continue;
    *outputs = (*outputs + r->align - 1) & ~(uint64_t)(r->align - 1);
    z->regions[i].offset = *outputs;
    *outputs += z->regions[i].room;
  }
  for (uint32_t t = 0; z->tasks && t < z->x->n_tasks; t++)
    iv[n++] = (tn_interval){t, t, z->tasks[t].scratch_room, z->tasks[t].scratch_align, 0};
  tn_status st = tni_plan_offsets(n, iv, arena);
  n = 0;
  for (uint32_t i = 0; i < z->x->n_regions; i++)
    if (in_arena(&z->x->regions[i])) z->regions[i].offset = iv[n++].offset;
  for (uint32_t t = 0; z->tasks && t < z->x->n_tasks; t++) z->tasks[t].scratch_offset = iv[n++].offset;
  free(iv);
  return st == TN_OK ? TN_OK : tni_fail(z->err, st, NULL, "the memory plan failed");
}

/* Room for what was sized last, and never less than there was asked for before if `more`. */
static void set_room(sizing *z, bool more) {
  for (uint32_t i = 0; i < z->x->n_regions; i++) {
    tni_sregion *q = &z->regions[i];
    if (!more || q->bytes > q->room) q->room = q->bytes;
  }
  for (uint32_t t = 0; t < z->x->n_tasks; t++) {
    tni_stask *k = &z->tasks[t];
    if (!more || k->scratch_bytes > k->scratch_room) k->scratch_room = k->scratch_bytes;
  }
}

static bool has_room(const sizing *z) {
  for (uint32_t i = 0; i < z->x->n_regions; i++)
    if (z->regions[i].bytes > z->regions[i].room) return false;
  for (uint32_t t = 0; t < z->x->n_tasks; t++)
    if (z->tasks[t].scratch_bytes > z->tasks[t].scratch_room) return false;
  return true;
}

tn_status tni_memory_measure(tn_model *m, tni_exec *x, const int64_t *dims, uint64_t *arena, uint64_t *outputs,
                             uint64_t *scratch, tn_error *err) {
  sizing z = {.m = m, .x = x, .dims = dims, .err = err};
  z.regions = calloc(x->n_regions + 1, sizeof *z.regions);
  z.tasks = calloc(x->n_tasks + 1, sizeof *z.tasks);
  tn_status st = z.regions && z.tasks ? size_all(&z) : tni_fail_memory(err, NULL);
  if (st == TN_OK) set_room(&z, false);
  if (st == TN_OK) st = place(&z, arena, outputs);
  *scratch = z.scratch;
  free(z.regions);
  free(z.tasks);
  return st;
}

static tn_status grow(void **mem, uint64_t *have, uint64_t want, tn_error *err) {
  if (want <= *have) return TN_OK;
  uint64_t bytes = (want + want / 4 + 4095) & ~4095ull;
  void *p = aligned_alloc(4096, bytes);
  if (!p)
    return tni_fail(err, TN_E_NO_MEMORY, NULL, "cannot allocate %llu bytes for activations", (unsigned long long)bytes);
  free(*mem);
  *mem = p;
  *have = bytes;
  return TN_OK;
}

static tn_status grow_buffer(tn_session *s, tni_sexec *x, uint32_t i, tn_error *err) {
  const tni_region *r = &x->exec->regions[i];
  tni_sregion *q = &x->regions[i];
  const tni_dev *d = &s->model->rt->devs[r->device];
  if (q->buffer && q->buffer_bytes >= q->bytes) return TN_OK;
  tn_status st = tni_region_own(s, x, i, false, err);
  if (st != TN_OK) return st;
  uint64_t bytes = (q->bytes + q->bytes / 4 + 255) & ~255ull;
  tn_buffer_req req = {.h = TN_HDR(tn_buffer_req),
                       .bytes = bytes ? bytes : 256,
                       .fd = -1,
                       .usage = 1u << TN_SLOT_TEMP,
                       .flags = TN_BUF_ZERO | TN_BUF_HOST,
                       .align = r->align};
  tni_devlock_lock(d->lock);
  if (q->buffer) d->device->destroy(q->buffer);
  q->buffer = NULL;
  st = d->device->create(d->device, &req, &q->buffer, err);
  tni_devlock_unlock(d->lock);
  q->buffer_bytes = req.bytes;
  if (st == TN_OK && !q->buffer) st = tni_fail(err, TN_E_INTERNAL, d->name, "plugin '%s' gave no buffer", d->name);
  return st;
}

static tn_status write_steps(tn_session *s, tni_sexec *x, const int64_t *dims, tn_error *err) {
  for (uint32_t i = 0; i < x->exec->n_regions; i++) {
    const tni_region *r = &x->exec->regions[i];
    tni_sregion *q = &x->regions[i];
    if (r->kind != TNI_R_STEP || r->value == s->model->graph->step_pos || r->value == s->model->graph->step_valid)
      continue;
    tn_status st = tni_region_own(s, x, i, true, err);
    if (st == TN_OK) st = tni_step_write(s->model->graph, r->value, dims, x->exec->view.n_symbols, q->ptr, q->bytes);
    const char *name = tni_graph_value(s->model->graph, r->value)->pub.name;
    if (st != TN_OK) return tni_fail(err, st, name, "'%s' cannot be computed from the inputs' dims", name);
  }
  return TN_OK;
}

/* Sizes for dims rounded up, so that a context that grows step by step is placed once per bucket. Dims that cannot be
 * rounded (the model's shapes contradict them) get exact room. */
static tn_status make_room(tni_sexec *x, sizing *z) {
  enum { BUCKET = 64 };
  const int64_t *dims = z->dims;
  uint32_t n = z->x->view.n_symbols;
  tn_error *err = z->err;
  set_room(z, false);
  if (!x->placed) return TN_OK; /* the first run may be the only one */
  int64_t *up = calloc(n + 1, sizeof *up);
  if (!up) return tni_fail_memory(err, NULL);
  for (uint32_t i = 0; i < n; i++) up[i] = dims[i] > 1 ? (dims[i] + BUCKET - 1) / BUCKET * BUCKET : dims[i];
  z->dims = up;
  z->err = NULL;
  if (size_all(z) == TN_OK) set_room(z, true);
  z->dims = dims;
  z->err = err;
  free(up);
  return size_all(z);
}

static tn_status place_all(tni_sexec *x, sizing *z) {
  uint64_t arena = 0, outputs = 0;
  tn_status st = make_room(x, z);
  if (st == TN_OK) st = place(z, &arena, &outputs);
  if (st == TN_OK) st = grow(&x->arena, &x->arena_bytes, arena + 64, z->err);
  if (st == TN_OK) st = grow(&x->outputs, &x->outputs_bytes, outputs + 64, z->err);
  x->placed = st == TN_OK;
  for (uint32_t i = 0; st == TN_OK && i < x->exec->n_regions; i++) {
    const tni_region *r = &x->exec->regions[i];
    if (in_arena(r)) x->regions[i].ptr = (char *)x->arena + x->regions[i].offset;
    if (in_outputs(r)) x->regions[i].ptr = (char *)x->outputs + x->regions[i].offset;
  }
  return st;
}

tn_status tni_memory_plan(tn_session *s, tni_sexec *x, const int64_t *dims, tn_error *err) {
  sizing z = {.m = s->model, .x = x->exec, .dims = dims, .regions = x->regions, .tasks = x->tasks, .err = err};
  tn_status st = size_all(&z);
  if (st == TN_OK && !(x->placed && has_room(&z))) st = place_all(x, &z);
  for (uint32_t i = 0; st == TN_OK && i < x->exec->n_regions; i++)
    if (x->exec->regions[i].device != TN_NONE) st = grow_buffer(s, x, i, err);
  return st == TN_OK ? write_steps(s, x, dims, err) : st;
}

tn_status tni_region_own(tn_session *s, tni_sexec *x, uint32_t i, bool cpu, tn_error *err) {
  const tni_region *r = &x->exec->regions[i];
  tni_sregion *q = &x->regions[i];
  if (r->device == TN_NONE || !q->buffer || q->mapped == cpu) return TN_OK;
  const tni_dev *d = &s->model->rt->devs[r->device];
  if (!cpu && (q->buffer->flags & TN_BUF_COHERENT)) return TN_OK;
  tni_devlock_lock(d->lock);
  tn_status st;
  if (cpu) {
    st = d->device->map(q->buffer, 0, q->buffer_bytes, TN_READ | TN_WRITE, &q->ptr, err);
    if (st == TN_OK && !q->ptr)
      st = tni_fail(err, TN_E_INTERNAL, d->name, "plugin '%s' mapped a buffer at NULL", d->name);
  } else {
    st = d->device->unmap(q->buffer, q->ptr, err);
    q->ptr = NULL;
  }
  tni_devlock_unlock(d->lock);
  if (st == TN_OK) q->mapped = cpu;
  return st;
}

void tni_memory_release(tn_session *s, tni_sexec *x) {
  for (uint32_t i = 0; x->regions && i < x->exec->n_regions; i++) {
    tni_sregion *q = &x->regions[i];
    if (!q->buffer) continue;
    const tni_dev *d = &s->model->rt->devs[x->exec->regions[i].device];
    tni_devlock_lock(d->lock);
    if (q->mapped) (void)!d->device->unmap(q->buffer, q->ptr, NULL);
    d->device->destroy(q->buffer);
    tni_devlock_unlock(d->lock);
  }
  free(x->arena);
  free(x->outputs);
}
