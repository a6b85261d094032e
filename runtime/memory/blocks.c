/* SPDX-License-Identifier: Apache-2.0
 *
 * Which memory a region lies in. Regions that the same devices touch share a block, so that a device has few buffers:
 * one for what only its engines see, one for what the CPU sees too, one for outputs.
 */
#include <string.h>

#include "runtime/memory/blocks.h"
#include "runtime/memory/devmem.h"

static uint32_t block_alignment(const tn_model *m, uint64_t devices) {
  uint32_t align = 64;
  for (uint32_t d = 0; d < m->rt->n_devs && d < TNI_MEM_DEVICES; d++) {
    if (!(devices >> d & 1)) continue;
    const tn_caps *c = m->rt->devs[d].device->caps;
    const uint32_t want = c->sub_align > c->align ? c->sub_align : c->align;
    if (want > align) align = want;
  }
  return align;
}

static tn_status refuse_copies(const tn_model *m, const tni_mem_homes *h, const char *what, tn_error *err) {
  const uint32_t a = h->v[0].owner, b = h->v[1].owner;
  if (!m->rt->profile->n_require) return TN_OK;
  return tni_fail(err, TN_E_UNSUPPORTED, m->rt->profile->file,
                  "profile '%s' has `require`, but %s would be copied between '%s' and '%s': neither imports the "
                  "other's memory",
                  m->rt->profile->name, what, a == TN_NONE ? "host" : m->rt->devs[a].name,
                  b == TN_NONE ? "host" : m->rt->devs[b].name);
}

static tn_status find_block(tn_model *m, tni_exec *x, tni_block_kind kind, tni_mem_users users, const char *what,
                            uint32_t *block, tn_error *err) {
  tni_mem_homes homes;
  /* Capture and recorder look at what every task reads and writes. */
  const bool watched = m->flags & TN_MODEL_CAPTURE || m->recorder;
  if (!users.devices || kind == TNI_B_OUTPUT || watched) users.cpu = true;
  for (*block = 0; *block < x->n_blocks; ++*block) {
    const tni_block *b = &x->blocks[*block];
    if (b->kind == kind && b->users.devices == users.devices && b->users.cpu == users.cpu &&
        b->users.process == users.process)
      return TN_OK;
  }
  tn_status st = tni_mem_place(m->rt->devs, users, &homes, err);
  if (st == TN_OK && homes.n > 1) st = refuse_copies(m, &homes, what, err);
  x->blocks[x->n_blocks++] =
      (tni_block){.kind = kind, .users = users, .align = block_alignment(m, users.devices), .n_homes = homes.n};
  return st;
}

static const char *name_of(const tn_model *m, const tni_region *r) {
  return r->value == TN_NONE ? "a temporary" : tni_graph_value(m->graph, r->value)->pub.name;
}

static tn_status place_region(tn_model *m, tni_exec *x, tni_region *r, tn_error *err) {
  const uint32_t align = block_alignment(m, r->users.devices);
  if (align > r->align) r->align = align;
  r->block = TN_NONE;
  if (tni_is_fed(r)) x->feeds |= r->users.devices;
  if (r->kind == TNI_R_INPUT || r->kind == TNI_R_STATE) return TN_OK;
  if (r->kind == TNI_R_STEP) {
    r->block = TNI_BLOCK_OUTPUTS;
    return TN_OK;
  }
  return find_block(m, x, r->kind == TNI_R_OUTPUT ? TNI_B_OUTPUT : TNI_B_ARENA, r->users, name_of(m, r), &r->block,
                    err);
}

static tn_status place_scratch(tn_model *m, tni_exec *x, tni_etask *e, tn_error *err) {
  tni_mem_users users = {.cpu = true,
                         .process = x->programs[e->program].dev->process && !(m->flags & TN_MODEL_REFERENCE)};
  if (e->info->engine && !(m->flags & TN_MODEL_REFERENCE))
    users = (tni_mem_users){.devices = 1ull << x->programs[e->program].cluster->device};
  return find_block(m, x, TNI_B_ARENA, users, "scratch", &e->block, err);
}

tn_status tni_blocks_make(tn_model *m, tni_exec *x, tn_error *err) {
  const tni_mem_users cpu = {.cpu = true};
  uint32_t b;
  x->blocks = TNI_NEW_ARRAY(m->arena, tni_block, (size_t)x->n_regions + x->n_tasks + 2);
  if (!x->blocks) return tni_fail_memory(err, m->path);
  x->n_blocks = 0;
  x->feeds = 0;
  tn_status st = find_block(m, x, TNI_B_ARENA, cpu, "", &b, err);
  if (st == TN_OK) st = find_block(m, x, TNI_B_OUTPUT, cpu, "", &b, err);
  for (uint32_t i = 0; st == TN_OK && i < x->n_regions; i++) st = place_region(m, x, &x->regions[i], err);
  for (uint32_t t = 0; st == TN_OK && t < x->n_tasks; t++) st = place_scratch(m, x, &x->tasks[t], err);
  return st;
}

static tn_status place_state(tn_model *m, uint32_t k, tn_error *err) {
  const tni_gstate *g = &m->graph->states[k];
  tni_mem_users *u = &m->state_users[k];
  tni_mem_homes homes;
  u->cpu = true; /* the session shares and shows caches */
  for (uint32_t i = 0; i < m->n_execs; i++) {
    const uint32_t r = m->execs[i].region_of[g->in];
    if (r != TN_NONE) u->devices |= m->execs[i].regions[r].users.devices;
    if (r != TN_NONE) u->process |= m->execs[i].regions[r].users.process;
  }
  for (uint32_t i = 0; i < m->n_execs; i++) {
    const uint32_t r = m->execs[i].region_of[g->in];
    if (r != TN_NONE) m->execs[i].regions[r].users = *u;
  }
  tn_status st = tni_mem_place(m->rt->devs, *u, &homes, err);
  return st == TN_OK && homes.n > 1 ? refuse_copies(m, &homes, tni_graph_value(m->graph, g->past)->pub.name, err) : st;
}

tn_status tni_blocks_states(tn_model *m, tn_error *err) {
  tn_status st = TN_OK;
  m->state_users = TNI_NEW_ARRAY(m->arena, tni_mem_users, m->graph->n_states + 1);
  if (!m->state_users) return tni_fail_memory(err, m->path);
  for (uint32_t k = 0; st == TN_OK && k < m->graph->n_states; k++) st = place_state(m, k, err);
  return st;
}
