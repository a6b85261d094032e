/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/memory/copies.h"

#include <string.h>

enum { ALIGN = 64 };

static bool is_float(uint32_t dtype) {
  return dtype == TN_DT_F32 || dtype == TN_DT_F16 || dtype == TN_DT_BF16 || dtype == TN_DT_F64;
}

bool tni_region_is_foreign(const tn_model *m, const tni_exec *x, uint32_t region) {
  const tni_region *r = &x->regions[region];
  bool foreign = r->users.process;
  if (r->kind == TNI_R_INPUT || r->kind == TNI_R_STEP || r->kind == TNI_R_STATE) return false;
  for (uint32_t d = 0; !foreign && d < m->rt->n_devs && d < TNI_MEM_DEVICES; d++)
    foreign = r->users.devices >> d & 1 && m->rt->devs[d].process;
  return foreign;
}

static bool is_copied(const tn_model *m, const tni_exec *x, const tni_sregion *regions, uint32_t t, uint32_t u) {
  const tni_etask *e = &x->tasks[t];
  const tni_dev *d = x->programs[e->program].dev;
  const uint32_t r = e->regions[u], access = e->info->uses[u].access;
  if (e->info->engine || d->process || r == TN_NONE || !tni_region_is_foreign(m, x, r)) return false;
  return access == TN_READ || (access == TN_WRITE && d->is_host && !is_float(regions[r].dtype));
}

static uint64_t rounded(uint64_t bytes) { return (bytes + ALIGN - 1) / ALIGN * ALIGN; }

uint64_t tni_copies_bytes(const tn_model *m, const tni_exec *x, const tni_sregion *regions, uint32_t t) {
  const tni_etask *e = &x->tasks[t];
  uint64_t n = 0;
  for (uint32_t u = 0; u < e->info->n_uses; u++)
    if (is_copied(m, x, regions, t, u)) n += rounded(regions[e->regions[u]].bytes);
  return n;
}

void tni_copies_view(const tn_model *m, tni_sexec *x, uint32_t t) {
  const tni_etask *e = &x->exec->tasks[t];
  tni_stask *k = &x->tasks[t];
  char *at = k->copies ? (char *)x->mems[e->block].host[0] + k->scratch_offset : NULL;
  for (uint32_t u = 0; at && u < e->info->n_uses; u++) {
    if (!is_copied(m, x->exec, x->regions, t, u)) continue;
    k->views[u]->ptr = at;
    at += rounded(k->views[u]->bytes);
  }
}

bool tni_use_is_copied(const tni_sexec *x, uint32_t t, uint32_t u) {
  const tni_stask *k = &x->tasks[t];
  if (!k->copies) return false;
  const uintptr_t from = (uintptr_t)x->mems[x->exec->tasks[t].block].host[0] + k->scratch_offset;
  const uintptr_t at = (uintptr_t)k->views[u]->ptr;
  return at >= from && at - from < k->copies;
}

void tni_copies_take(const tni_sexec *x, uint32_t t) {
  const tni_etask *e = &x->exec->tasks[t];
  for (uint32_t u = 0; u < e->info->n_uses; u++) {
    const tn_view *v = x->tasks[t].views[u];
    if (e->info->uses[u].access == TN_READ && tni_use_is_copied(x, t, u) && v->bytes)
      memcpy(v->ptr, x->regions[e->regions[u]].ptr, v->bytes);
  }
}

void tni_copies_give(const tni_sexec *x, uint32_t t) {
  const tni_etask *e = &x->exec->tasks[t];
  for (uint32_t u = 0; u < e->info->n_uses; u++) {
    const tn_view *v = x->tasks[t].views[u];
    if (e->info->uses[u].access == TN_WRITE && tni_use_is_copied(x, t, u) && v->bytes)
      memcpy(x->regions[e->regions[u]].ptr, v->ptr, v->bytes);
  }
}
