/* SPDX-License-Identifier: Apache-2.0
 *
 * What regions and scratch take at given dims.
 */
#include <math.h>
#include <stdlib.h>

#include "runtime/base/base.h"
#include "runtime/memory/copies.h"
#include "runtime/memory/guard.h"
#include "runtime/memory/sizes.h"

static tn_status size_value(tni_sizing *z, tn_id value, tni_sregion *s) {
  const tni_value *v = tni_graph_value(z->m->graph, value);
  int64_t count = 1, stride = 1;
  bool fits = true;
  s->dtype = v->pub.dtype;
  s->rank = v->pub.rank;
  if (s->rank > TN_MAX_RANK)
    return tni_fail(z->err, TN_E_UNSUPPORTED, v->pub.name, "'%s': nothing says how many axes it has", v->pub.name);
  for (uint32_t i = 0; i < s->rank; i++) {
    tn_status st = tni_ex_eval(z->m->graph->exprs, v->pub.dims[i], z->dims, z->x->view.n_symbols, &s->dims[i]);
    if (st != TN_OK || s->dims[i] < 0)
      return tni_fail(z->err, TN_E_INVALID, v->pub.name, "'%s': axis %u cannot be computed from the inputs' dims",
                      v->pub.name, i);
  }
  for (uint32_t i = s->rank; i-- > 0;) {
    s->strides[i] = stride;
    fits = fits && tni_mul_i64(stride, s->dims[i] ? s->dims[i] : 1, &stride);
  }
  if (!fits || tni_dims_count(s->dims, s->rank, &count) != TN_OK ||
      tni_dtype_bytes(s->dtype, count, &s->bytes) != TN_OK)
    return tni_fail(z->err, TN_E_LIMIT, v->pub.name, "'%s' is too large", v->pub.name);
  return TN_OK;
}

/* TEMP slots and scratch, from the plugin's measure. */
static tn_status size_task(tni_sizing *z, uint32_t t, uint64_t *slot_bytes) {
  const tni_etask *e = &z->x->tasks[t];
  const tni_program *p = &z->x->programs[e->program];
  tn_dims dims = {.h = TN_HDR(tn_dims), .v = z->dims, .n = z->x->view.n_symbols};
  tn_measure me = {.h = TN_HDR(tn_measure), .slot_bytes = slot_bytes};
  const tn_status st = tni_dev_measure(p->dev, p->program, p->info, e->task, e->label, &dims, &me, z->err);
  if (st != TN_OK) return st;
  if (!isfinite(me.macs)) me.macs = 0;
  if (!isfinite(me.moved_bytes)) me.moved_bytes = 0;
  if (!isfinite(me.cost_ns)) me.cost_ns = 0;
  for (uint32_t u = 0; u < e->info->n_uses; u++) {
    if (e->regions[u] == TN_NONE || z->x->regions[e->regions[u]].kind != TNI_R_TEMP) continue;
    tni_sregion *s = &z->regions[e->regions[u]];
    if (slot_bytes[e->info->uses[u].slot] > s->bytes) s->bytes = slot_bytes[e->info->uses[u].slot];
  }
  if (me.scratch_bytes > z->scratch) z->scratch = me.scratch_bytes;
  z->tasks[t].scratch_bytes = me.scratch_bytes;
  z->tasks[t].macs = me.macs;
  z->tasks[t].moved_bytes = me.moved_bytes;
  z->tasks[t].cost_ns = me.cost_ns;
  z->tasks[t].scratch_align = me.scratch_align > 64 ? me.scratch_align : 64;
  return TN_OK;
}

static uint64_t round_up(uint64_t n, uint64_t to) { return (n + to - 1) / to * to; }

tn_status tni_sizes(tni_sizing *z) {
  uint32_t max_slots = 1;
  for (uint32_t i = 0; i < z->x->n_programs; i++)
    if (z->x->programs[i].info->n_slots > max_slots) max_slots = z->x->programs[i].info->n_slots;
  uint64_t *slot_bytes = calloc(max_slots, sizeof *slot_bytes);
  tn_status st = slot_bytes ? TN_OK : tni_fail_memory(z->err, NULL);
  for (uint32_t i = 0; i < z->x->n_regions; i++) z->regions[i].bytes = 0;
  for (uint32_t i = 0; st == TN_OK && i < z->x->n_regions; i++) {
    const tn_id v = tni_region_value(z->x, i);
    if (v != TN_NONE && !tni_region_is_dynamic(z->x, i)) st = size_value(z, v, &z->regions[i]);
  }
  for (uint32_t t = 0; st == TN_OK && t < z->x->n_tasks; t++)
    if (!tni_task_is_dynamic(z->x, t)) st = size_task(z, t, slot_bytes);
  for (uint32_t t = 0; st == TN_OK && t < z->x->n_tasks; t++) {
    if (tni_task_is_dynamic(z->x, t)) continue;
    z->tasks[t].copies = round_up(tni_copies_bytes(z->m, z->x, z->regions, t), z->tasks[t].scratch_align);
    z->tasks[t].scratch_bytes += z->tasks[t].copies;
  }
  free(slot_bytes);
  return st;
}

void tni_sizes_room(tni_sizing *z, bool more) {
  for (uint32_t i = 0; i < z->x->n_regions; i++) {
    tni_sregion *q = &z->regions[i];
    if (!more || q->bytes > q->room) q->room = q->bytes;
  }
  for (uint32_t t = 0; t < z->x->n_tasks; t++) {
    tni_stask *k = &z->tasks[t];
    if (!more || k->scratch_bytes > k->scratch_room) k->scratch_room = k->scratch_bytes;
  }
}

void tni_sizes_no_room(tni_sizing *z) {
  for (uint32_t i = 0; i < z->x->n_regions; i++) z->regions[i].room = 0;
  for (uint32_t t = 0; t < z->x->n_tasks; t++) z->tasks[t].scratch_room = 0;
}

/* Scratch of the CPU, and of one engine, is one task's at a time; 0: not so with random orders, which have threads. */
static uint32_t serial_of(const tni_sizing *z, uint32_t t) {
  const tni_etask *e = &z->x->tasks[t];
  if (e->info->engine == 0) return z->m->order_seed ? 0 : 1;
  return 2 + z->x->programs[e->program].cluster->device * 256 + e->info->engine;
}

tn_status tni_lives_make(const tni_sizing *z, uint32_t block, tni_life **lives, uint32_t *n) {
  const tni_exec *x = z->x;
  tni_life *v = calloc((size_t)x->n_regions + x->n_tasks + 1, sizeof *v);
  *n = 0;
  if (!(*lives = v)) return TN_E_NO_MEMORY;
  for (uint32_t i = 0; i < x->n_regions; i++) {
    if (!tni_in_arena(x, &x->regions[i]) || (block != TN_NONE && x->regions[i].block != block)) continue;
    v[(*n)++] = (tni_life){.tasks = x->users + x->first_user[i],
                           .n_tasks = x->first_user[i + 1] - x->first_user[i],
                           .bytes = z->regions[i].room ? z->regions[i].room + TNI_GUARD_BYTES : 0,
                           .align = x->regions[i].align};
  }
  for (uint32_t t = 0; t < x->n_tasks; t++) {
    const uint32_t b = x->tasks[t].block, align = x->blocks[b].align;
    if (block != TN_NONE && b != block) continue;
    v[(*n)++] = (tni_life){.tasks = x->users + x->first_user[x->n_regions] + t,
                           .n_tasks = 1,
                           .serial = serial_of(z, t),
                           .bytes = z->tasks[t].scratch_room ? z->tasks[t].scratch_room + TNI_GUARD_BYTES : 0,
                           .align = z->tasks[t].scratch_align > align ? z->tasks[t].scratch_align : align};
  }
  return TN_OK;
}
