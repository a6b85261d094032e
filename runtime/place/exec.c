/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/place/exec.h"

#include <stdio.h>
#include <string.h>

#include "runtime/graph/graph.h"
#include "runtime/place/cache_room.h"
#include "runtime/place/statistics.h"

/* The lengths of its runs, if it took work that does not have any length. */
static void take_lengths(tni_exec *x) {
  x->chunk = 0;
  x->lengths.n = 0;
  for (uint32_t n = 0; n < x->view.n_nodes && !x->chunk; n++)
    if (x->part.device_of[n] != TN_NONE && tni_partition_claim(&x->part, &x->claims, n)->fixed) {
      x->lengths = x->claims.fixed;
      x->chunk = tni_lengths_most(&x->lengths);
    }
}

tn_status tni_exec_place(tn_model *m, tni_exec *x, uint32_t phase, tn_error *err) {
  tn_runtime *rt = m->rt;
  const tni_cache_limits limits = {
      .positions = m->max_seq ? m->max_seq : TN_DEFAULT_MAX_SEQ, .kv = rt->profile->kv, .rings = rt->profile->kv_ring};
  x->phase = phase;
  x->view.h = (tn_hdr)TN_HDR(tn_graph);
  tn_status st = tni_graph_view(m->graph, phase, &x->view, err);
  if (st == TN_OK) st = tni_statistics_attach(m, err);
  if (st == TN_OK) st = tni_claims_collect(&x->view, rt->devs, rt->n_devs, m->arena, &x->claims, err);
  if (st == TN_OK) st = tni_cache_room(m->graph, &x->view, rt->devs, rt->n_devs, &limits, m->arena, &x->claims, err);
  if (st == TN_OK)
    st = tni_partition_make(&x->view, &x->claims, rt->order[phase], rt->n_order[phase], m->arena, &x->part, err);
  if (st == TN_OK) take_lengths(x);
  return st;
}

static const char *track_name(tn_model *m, const tni_dev *d, uint32_t engine) {
  char buf[160];
  const tn_caps *caps = d->device->caps;
  const char *name = engine == 0 ? "cpu" : caps->engines[engine - 1]->name;
  snprintf(buf, sizeof buf, "%s:%s", d->name, name ? name : "engine");
  return tni_arena_strdup(m->arena, buf);
}

/* "MatMul Add": each once, in their order. */
static const char *task_operators(tn_model *m, const tni_exec *x, const tn_task *info) {
  char buf[512] = "";
  size_t at = 0;
  for (uint32_t i = 0; i < info->n_nodes; i++) {
    const uint32_t id = x->view.nodes[info->nodes[i]]->op;
    const tni_op *op = tni_op_by_id(id);
    bool again = !op;
    for (uint32_t k = 0; k < i && !again; k++) again = x->view.nodes[info->nodes[k]]->op == id;
    if (again || strlen(op->name) + 2 > sizeof buf - at) continue;
    at += (size_t)snprintf(buf + at, sizeof buf - at, "%s%s", at ? " " : "", op->name);
  }
  return tni_arena_strdup(m->arena, buf);
}

static uint32_t add_region(tni_exec *x, const tni_region *r) {
  x->regions[x->n_regions] = *r;
  return x->n_regions++;
}

/* The region of a slot, made on first use; TN_NONE for weights and private memory. */
static uint32_t region_of_slot(tn_model *m, tni_exec *x, uint32_t *temp_of, uint32_t p, uint32_t s, uint32_t task) {
  const tn_slot *slot = x->programs[p].info->slots[s];
  if (slot->kind == TN_SLOT_WEIGHT || slot->kind == TN_SLOT_PRIVATE) return TN_NONE;
  uint32_t align = slot->align > 64 ? slot->align : 64;
  tn_id value = slot->kind == TN_SLOT_STATE ? tni_state_root(&x->view, slot->value) : slot->value;
  uint32_t *at = slot->kind == TN_SLOT_TEMP ? &temp_of[s] : &x->region_of[value];
  if (*at == TN_NONE) {
    tni_region r = {.kind = TNI_R_TEMP, .value = TN_NONE, .program = p, .slot = s, .first = task};
    if (slot->kind != TN_SLOT_TEMP) {
      const tni_value *v = tni_graph_value(m->graph, value);
      r.value = value;
      r.kind = v->pub.kind == TN_VALUE_INPUT   ? TNI_R_INPUT
               : v->pub.kind == TN_VALUE_STEP  ? TNI_R_STEP
               : v->pub.kind == TN_VALUE_STATE ? TNI_R_STATE
               : v->is_output                  ? TNI_R_OUTPUT
                                               : TNI_R_ACT;
    }
    *at = add_region(x, &r);
  }
  tni_region *r = &x->regions[*at];
  r->last = task;
  if (align > r->align) r->align = align;
  return *at;
}

/* Who touches region r: the CPU, or an engine of device dev. The reference computes everything on the CPU. */
static tn_status add_user(tn_model *m, tni_region *r, uint32_t dev, bool engine, tn_error *err) {
  const tni_dev *d = &m->rt->devs[dev];
  if (!engine || m->flags & TN_MODEL_REFERENCE) {
    r->users.cpu = true;
    if (!(m->flags & TN_MODEL_REFERENCE)) r->users.process |= d->process;
    return TN_OK;
  }
  if (!d->device->create || !d->device->destroy || !d->device->map || !d->device->unmap)
    return tni_fail(err, TN_E_INTERNAL, d->name, "plugin '%s' has engines but no buffer functions", d->name);
  if (dev >= TNI_MEM_DEVICES)
    return tni_fail(err, TN_E_LIMIT, d->name, "device %u has engines; the first %d may", dev, TNI_MEM_DEVICES);
  r->users.devices |= 1ull << dev;
  return TN_OK;
}

static tn_status add_task(tn_model *m, tni_exec *x, uint32_t *temp_of, uint32_t p, uint32_t t, tn_error *err) {
  tni_program *prog = &x->programs[p];
  const tn_task *info = prog->info->tasks[t];
  uint32_t index = x->n_tasks++, dev = prog->cluster->device;
  tni_etask *e = &x->tasks[index];
  *e = (tni_etask){.program = p, .task = t, .info = info};
  e->regions = TNI_NEW_ARRAY(m->arena, uint32_t, info->n_uses);
  e->track = track_name(m, prog->dev, info->engine);
  e->label = info->name && *info->name ? info->name : info->n_nodes ? x->view.nodes[info->nodes[0]]->name : "task";
  e->ops = task_operators(m, x, info);
  if (!e->regions || !e->track || !e->ops) return tni_fail_memory(err, prog->dev->name);
  for (uint32_t u = 0; u < info->n_uses; u++) {
    e->regions[u] = region_of_slot(m, x, temp_of, p, info->uses[u].slot, index);
    if (e->regions[u] == TN_NONE) continue;
    tn_status st = add_user(m, &x->regions[e->regions[u]], dev, info->engine != 0, err);
    if (st != TN_OK) return st;
  }
  return TN_OK;
}

/* Graph outputs that the host writes itself: shape arithmetic that no task reads. */
static void add_step_outputs(tn_model *m, tni_exec *x) {
  for (uint32_t i = 0; i < m->graph->n_outputs; i++) {
    tn_id v = m->graph->outputs[i];
    if (x->region_of[v] != TN_NONE || tni_graph_value(m->graph, v)->pub.kind != TN_VALUE_STEP) continue;
    tni_region r = {.kind = TNI_R_STEP, .value = v, .align = 64, .users.cpu = true};
    x->region_of[v] = add_region(x, &r);
  }
}

static tn_status count_and_allocate(tn_model *m, tni_exec *x, uint32_t *max_slots, tn_error *err) {
  uint32_t tasks = 0, slots = 0;
  *max_slots = 1;
  for (uint32_t p = 0; p < x->n_programs; p++) {
    const tn_program_info *i = x->programs[p].info;
    tasks += i->n_tasks;
    slots += i->n_slots;
    if (i->n_slots > *max_slots) *max_slots = i->n_slots;
  }
  x->tasks = TNI_NEW_ARRAY(m->arena, tni_etask, tasks);
  x->regions = TNI_NEW_ARRAY(m->arena, tni_region, slots + m->graph->n_outputs);
  x->region_of = TNI_NEW_ARRAY(m->arena, uint32_t, x->view.n_values);
  x->attached = TNI_NEW_ARRAY(m->arena, tni_attached *, x->n_programs);
  if (!x->tasks || !x->regions || !x->region_of || !x->attached) return tni_fail_memory(err, NULL);
  for (uint32_t v = 0; v < x->view.n_values; v++) x->region_of[v] = TN_NONE;
  return TN_OK;
}

static tn_status build_tasks(tn_model *m, tni_exec *x, tn_error *err) {
  uint32_t max_slots;
  tn_status st = count_and_allocate(m, x, &max_slots, err);
  if (st != TN_OK) return st;
  uint32_t *temp_of = TNI_NEW_ARRAY(m->arena, uint32_t, max_slots);
  if (!temp_of) return tni_fail_memory(err, NULL);
  for (uint32_t p = 0; st == TN_OK && p < x->n_programs; p++) {
    for (uint32_t s = 0; s < max_slots; s++) temp_of[s] = TN_NONE;
    for (uint32_t t = 0; st == TN_OK && t < x->programs[p].info->n_tasks; t++) st = add_task(m, x, temp_of, p, t, err);
  }
  if (st == TN_OK) add_step_outputs(m, x);
  return st;
}

tn_status tni_exec_lower(tn_model *m, tni_exec *x, tn_error *err) {
  x->programs = TNI_NEW_ARRAY(m->arena, tni_program, x->part.n_clusters);
  if (!x->programs) return tni_fail_memory(err, NULL);
  for (uint32_t c = 0; c < x->part.n_clusters; c++) {
    const tni_cluster *cl = &x->part.clusters[c];
    tn_status st = tni_program_lower(&x->view, &m->rt->devs[cl->device], cl, m->arena, &x->programs[c], err);
    if (st != TN_OK) return st;
    x->n_programs++;
  }
  return build_tasks(m, x, err);
}
