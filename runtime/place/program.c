/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/place/program.h"

#include <string.h>
#include <xxhash.h>

#include "runtime/place/devlock.h"
#include "runtime/place/program_check.h"
#include "runtime/plugin/plugin.h"

/* The graph's own hash (operators, attributes, edges, dims) and which of its nodes are taken. */
static tn_status hash_cluster(const tn_graph *g, const tni_cluster *c, uint8_t out[32]) {
  XXH3_state_t *h = XXH3_createState();
  memset(out, 0, 32);
  if (!h) return TN_E_NO_MEMORY;
  XXH3_128bits_reset(h);
  XXH3_128bits_update(h, g->hash, sizeof g->hash);
  XXH3_128bits_update(h, c->nodes, c->n_nodes * sizeof *c->nodes);
  XXH3_128bits_update(h, c->group_of, c->n_nodes * sizeof *c->group_of);
  XXH128_hash_t d = XXH3_128bits_digest(h);
  memcpy(out, &d, sizeof d);
  XXH3_freeState(h);
  return TN_OK;
}

tn_status tni_program_lower(const tn_graph *view, const tni_dev *dev, const tni_cluster *c, tni_arena *arena,
                            tni_program *out, tn_error *err) {
  const tn_layout **layouts = TNI_NEW_ARRAY(arena, const tn_layout *, c->n_states);
  tn_layout *each = TNI_NEW_ARRAY(arena, tn_layout, c->n_states);
  if (!layouts || !each) return tni_fail_memory(err, dev->name);
  for (uint32_t i = 0; i < c->n_states; i++) {
    each[i] = c->layouts ? c->layouts[i] : tni_state_layout(view->values[c->states[i]]);
    layouts[i] = &each[i];
  }
  tn_subgraph s = {.h = TN_HDR(tn_subgraph),
                   .graph = view,
                   .nodes = c->nodes,
                   .group_of = c->group_of,
                   .inputs = c->inputs,
                   .outputs = c->outputs,
                   .states = c->states,
                   .layouts = layouts,
                   .n_nodes = c->n_nodes,
                   .n_inputs = c->n_inputs,
                   .n_outputs = c->n_outputs,
                   .n_states = c->n_states};
  if (hash_cluster(view, c, s.hash) != TN_OK) return tni_fail_memory(err, dev->name);
  *out = (tni_program){.dev = dev, .cluster = c};
  tn_error why;
  tni_error_init(&why);
  tni_devlock_lock(dev->lock);
  const tni_calm calm = tni_calm_take();
  tn_status st = dev->device->lower(dev->device, &s, &out->program, &why);
  tni_devlock_unlock(dev->lock);
  st = tni_calm_check(&calm, "lower", st, &why);
  if (st != TN_OK) return tni_plugin_result(dev->name, "lower", st, &why, err);
  if (!out->program) return tni_fail(err, TN_E_INTERNAL, dev->name, "plugin '%s' gave no program", dev->name);
  out->info = dev->device->info(out->program);
  st = tni_program_check(view, dev, c, out->info, err);
  if (st == TN_OK) {
    out->needs = TNI_NEW_ARRAY(arena, tni_need, out->info->n_needs);
    if (!out->needs) st = tni_fail_memory(err, dev->name);
  }
  for (uint32_t i = 0; st == TN_OK && i < out->info->n_needs; i++)
    st = tni_need_prepare(view, out->info->needs[i], arena, &out->needs[i], err);
  if (st != TN_OK) tni_program_release(out);
  return st;
}

void tni_program_release(tni_program *p) {
  if (!p || !p->program) return;
  tni_devlock_enter(p->dev->lock, "release");
  p->dev->device->release(p->program);
  tni_devlock_unlock(p->dev->lock);
  p->program = NULL;
}
