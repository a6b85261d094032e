/* SPDX-License-Identifier: Apache-2.0
 *
 * What a placement tells of its tasks and regions.
 */
#include "runtime/place/placement.h"

bool tni_task_is_dynamic(const tni_exec *x, uint32_t task) {
  const tn_task *t = x->tasks[task].info;
  return x->programs[x->tasks[task].program].dev->is_host && t->n_nodes == 1 &&
         ((const tni_node *)x->view.nodes[t->nodes[0]])->dynamic;
}

tn_id tni_region_value(const tni_exec *x, uint32_t region) {
  const tni_region *r = &x->regions[region];
  if (r->value != TN_NONE || !x->programs[r->program].dev->is_host) return r->value;
  return x->programs[r->program].info->slots[r->slot]->value; /* the host's temporaries are values */
}

bool tni_region_is_dynamic(const tni_exec *x, uint32_t region) {
  const tn_id v = tni_region_value(x, region);
  return v != TN_NONE && v < x->view.n_values && ((const tni_value *)x->view.values[v])->dynamic;
}

bool tni_task_is_submitted(const tni_exec *x, uint32_t flags, uint32_t i) {
  const tni_etask *e = &x->tasks[i];
  const bool reference = (flags & TN_MODEL_REFERENCE) && !x->programs[e->program].dev->is_host;
  return e->info->engine != 0 && !reference;
}

bool tni_exec_overlaps(const tni_exec *x, uint32_t flags) {
  bool engines = false, others = false;
  for (uint32_t t = 1; t < x->n_tasks; t++) {
    const tni_etask *a = &x->tasks[0], *b = &x->tasks[t];
    engines = engines || tni_task_is_submitted(x, flags, t) || tni_task_is_submitted(x, flags, 0);
    others = others || a->info->engine != b->info->engine ||
             x->programs[a->program].cluster->device != x->programs[b->program].cluster->device;
  }
  return engines && others;
}
