/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory of a session for given dims. Activations, temporaries and scratch share one arena by lifetime in the order of
 * the tasks; outputs have memory of their own, because they outlive the run; inputs are the caller's; what an engine
 * touches is a buffer of its device.
 *
 * Offsets are planned for the largest dims seen. Smaller ones use them as they are wherever nothing takes more than its
 * room, which is checked each time: that sizes grow with the dims is true of every model known, and not relied on.
 */
#include <stdlib.h>
#include <string.h>

#include "runtime/sched/dynamic.h"
#include "runtime/sched/memory.h"
#include "runtime/sched/session.h"
#include "runtime/sched/tables.h"
#include "runtime/shape/infer.h"

static uint64_t align_up(uint64_t v, uint64_t align) { return (v + align - 1) & ~(align - 1); }

/* The outputs' own memory, one behind the other. */
static uint64_t place_outputs(tni_sizing *z) {
  uint64_t end = 0;
  for (uint32_t i = 0; i < z->x->n_regions; i++) {
    const tni_region *r = &z->x->regions[i];
    if (!tni_in_outputs(r)) continue;
    z->regions[i].offset = align_up(end, r->align);
    end = z->regions[i].offset + z->regions[i].room;
  }
  return end;
}

/* Offsets of arena regions and of every task's scratch. graph: the exec's with the edges that they need, or NULL. */
static tn_status place(tni_sizing *z, uint64_t *arena, tni_taskgraph *graph) {
  tni_life *lives;
  uint32_t n;
  tn_status st = tni_lives_make(z, &lives, &n);
  if (st == TN_OK) st = tni_lives_plan(lives, n, arena);
  n = 0;
  for (uint32_t i = 0; st == TN_OK && i < z->x->n_regions; i++)
    if (tni_in_arena(&z->x->regions[i])) z->regions[i].offset = lives[n++].offset;
  for (uint32_t t = 0; st == TN_OK && t < z->x->n_tasks; t++) z->tasks[t].scratch_offset = lives[n++].offset;
  if (st == TN_OK && graph) {
    tni_taskgraph_destroy(graph);
    st = tni_taskgraph_share(&z->x->graph, lives, n, graph);
    if (st == TN_E_LIMIT) st = tni_taskgraph_chain(z->x->n_tasks, graph);
  }
  free(lives);
  return st == TN_OK ? TN_OK : tni_fail(z->err, st, NULL, "the memory plan failed");
}

static bool has_room(const tni_sizing *z) {
  for (uint32_t i = 0; i < z->x->n_regions; i++)
    if (z->regions[i].bytes > z->regions[i].room) return false;
  for (uint32_t t = 0; t < z->x->n_tasks; t++)
    if (z->tasks[t].scratch_bytes > z->tasks[t].scratch_room) return false;
  return true;
}

tn_status tni_memory_measure(tn_model *m, tni_exec *x, const int64_t *const *dims, uint32_t n, uint64_t *arena,
                             uint64_t *outputs, uint64_t *scratch, tn_error *err) {
  tni_sizing z = {.m = m, .x = x, .err = err};
  z.regions = calloc(x->n_regions + 1, sizeof *z.regions);
  z.tasks = calloc(x->n_tasks + 1, sizeof *z.tasks);
  tn_status st = z.regions && z.tasks ? TN_OK : tni_fail_memory(err, NULL);
  for (uint32_t i = 0; st == TN_OK && i < n; i++) {
    z.dims = dims[i];
    st = tni_sizes(&z);
    tni_sizes_room(&z, true);
  }
  if (st == TN_OK) st = place(&z, arena, NULL);
  if (st == TN_OK) *outputs = place_outputs(&z);
  *scratch = z.scratch;
  free(z.regions);
  free(z.tasks);
  return st;
}

static tn_status grow(void **mem, uint64_t *have, uint64_t want, tn_error *err) {
  if (want <= *have) return TN_OK;
  uint64_t bytes = align_up(want + (*have ? want / 4 : 0), 4096);
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

/* A multiple of the bucket, or a power of two below it: a batch of 2 is no reason to have room for 64. */
static int64_t round_up(int64_t d) {
  enum { BUCKET = 64 };
  int64_t p = 1;
  while (p < d && p < BUCKET) p *= 2;
  return d > BUCKET ? (d + BUCKET - 1) / BUCKET * BUCKET : d < 1 ? d : p;
}

static uint64_t largest(const tni_sizing *z) {
  uint64_t most = 0;
  for (uint32_t i = 0; i < z->x->n_regions; i++)
    if (z->regions[i].bytes > most) most = z->regions[i].bytes;
  return most;
}

/* Sizes for dims rounded up, so that a context that grows step by step is placed once per bucket. Dims that cannot be
 * rounded (the model's shapes contradict them), or whose products grow out of all proportion, get exact room. */
static tn_status make_room(tni_sexec *x, tni_sizing *z) {
  enum { PROPORTION = 4, SMALL = 1 << 20 };
  const int64_t *dims = z->dims;
  const uint64_t exact = largest(z);
  uint32_t n = z->x->view.n_symbols;
  tn_error *err = z->err;
  tni_sizes_room(z, !x->placed); /* what was reserved stays */
  if (!x->placed) return TN_OK;  /* the first run may be the only one */
  int64_t *up = calloc(n + 1, sizeof *up);
  if (!up) return tni_fail_memory(err, NULL);
  for (uint32_t i = 0; i < n; i++) up[i] = round_up(dims[i]);
  z->dims = up;
  z->err = NULL;
  if (tni_sizes(z) == TN_OK && largest(z) / PROPORTION <= exact + SMALL) tni_sizes_room(z, true);
  z->dims = dims;
  z->err = err;
  free(up);
  return tni_sizes(z);
}

static tn_status place_all(tni_sexec *x, tni_sizing *z) {
  uint64_t arena = 0, outputs = 0;
  tn_status st = make_room(x, z);
  if (st == TN_OK) st = place(z, &arena, z->m->order_seed ? &x->graph : NULL);
  if (st == TN_OK) outputs = place_outputs(z);
  if (st == TN_OK) st = grow(&x->arena, &x->arena_bytes, arena + 64, z->err);
  if (st == TN_OK) st = grow(&x->outputs, &x->outputs_bytes, outputs + 64, z->err);
  x->placed = st == TN_OK;
  for (uint32_t i = 0; st == TN_OK && i < x->exec->n_regions; i++) {
    const tni_region *r = &x->exec->regions[i];
    if (tni_in_arena(r)) x->regions[i].ptr = (char *)x->arena + x->regions[i].offset;
    if (tni_in_outputs(r)) x->regions[i].ptr = (char *)x->outputs + x->regions[i].offset;
  }
  return st;
}

tn_status tni_memory_plan(tn_session *s, tni_sexec *x, const int64_t *dims, tn_error *err) {
  tni_sizing z = {.m = s->model, .x = x->exec, .dims = dims, .regions = x->regions, .tasks = x->tasks, .err = err};
  tn_status st = tni_sizes(&z);
  x->table_rows = tni_tables_rows(s->model, dims);
  if (st == TN_OK && !(x->placed && has_room(&z))) st = place_all(x, &z);
  for (uint32_t i = 0; st == TN_OK && i < x->exec->n_regions; i++)
    if (x->exec->regions[i].device != TN_NONE) st = grow_buffer(s, x, i, err);
  return st == TN_OK ? write_steps(s, x, dims, err) : st;
}

tn_status tni_memory_reserve(tn_session *s, tni_sexec *x, const int64_t *dims, tn_error *err) {
  tni_sizing z = {.m = s->model, .x = x->exec, .dims = dims, .regions = x->regions, .tasks = x->tasks, .err = err};
  tn_status st = tni_sizes(&z);
  if (st == TN_OK) tni_sizes_room(&z, true);
  return st;
}

const uint32_t *tni_memory_order(tn_session *s, tni_sexec *x) {
  if (!s->model->order_seed || x->graph.n != x->exec->n_tasks) return NULL;
  if (!x->order) x->order = TNI_NEW_ARRAY(s->mem, uint32_t, x->exec->n_tasks + 1);
  if (!x->order || tni_order_random(&x->graph, s->model->order_seed + s->step, x->order) != TN_OK) return NULL;
  return x->order;
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
  tni_dynamic_release(x);
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
  tni_taskgraph_destroy(&x->graph);
}
