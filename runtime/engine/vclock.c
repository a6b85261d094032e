/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/engine/vclock.h"

#include <stdio.h>

bool tni_vclock_find(const tn_model *m, const tni_exec *x, const tni_dev **dev) {
  if (m->flags & TN_MODEL_REFERENCE) return false;
  for (uint32_t t = 0; t < x->n_tasks; t++) {
    const tni_dev *d = x->programs[x->tasks[t].program].dev;
    const tn_clock *c = d->device->caps->clock;
    if (!x->tasks[t].info->engine || !c || c->kind != TN_CLOCK_VIRTUAL) continue;
    *dev = d;
    return true;
  }
  return false;
}

tn_status tni_vclock_init(tni_vclock *v, tni_arena *mem, const tni_dev *dev, uint32_t n_tasks) {
  char name[160];
  snprintf(name, sizeof name, "%s:cpu", dev->name);
  *v = (tni_vclock){.dev = dev, .clock = dev->device->caps->clock};
  v->ends = TNI_NEW_ARRAY(mem, int64_t, n_tasks + 1);
  v->track = tni_arena_strdup(mem, name);
  return v->ends && v->track ? TN_OK : TN_E_NO_MEMORY;
}

void tni_vclock_begin(tni_vclock *v) { v->start = v->cpu = v->last; }

int64_t tni_vclock_ready(const tni_vclock *v, const tni_taskgraph *g, uint32_t t) {
  int64_t ready = v->start;
  for (uint32_t i = g->first[t]; i < g->first[t + 1]; i++)
    if (v->ends[g->pred[i]] > ready) ready = v->ends[g->pred[i]];
  return ready;
}

/* Costs of plugins are any doubles; eleven days per task are more than any takes. */
static int64_t ns(double cost) {
  return cost > 0 ? cost < 1e15 ? (int64_t)(cost + 0.5) : INT64_C(1000000000000000) : 0;
}

void tni_vclock_cpu(tni_vclock *v, uint32_t t, int64_t ready, const tni_stask *cost, int64_t *start, int64_t *end) {
  *start = tni_vclock_cpu_start(v, ready);
  *end = *start + ns(cost->macs * v->clock->cpu_ns_per_mac + cost->moved_bytes * v->clock->cpu_ns_per_byte);
  v->cpu = *end;
  tni_vclock_end(v, t, *end);
}

void tni_vclock_end(tni_vclock *v, uint32_t t, int64_t end) {
  v->ends[t] = end > v->start ? end : v->start;
  if (v->ends[t] > v->last) v->last = v->ends[t];
}
