/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/sched/guard.h"

#include <string.h>

static unsigned char mark(size_t i) { return (unsigned char)(0xa5 + 29 * i); }

void tni_guard_put(void *p) {
  for (size_t i = 0; i < TNI_GUARD_BYTES; i++) ((unsigned char *)p)[i] = mark(i);
}

bool tni_guard_holds(const void *p) {
  for (size_t i = 0; i < TNI_GUARD_BYTES; i++)
    if (((const unsigned char *)p)[i] != mark(i)) return false;
  return true;
}

/* Where the canary of region r stands; NULL: it has none. */
static char *behind(const tni_sexec *x, uint32_t r) {
  const tni_region *k = &x->exec->regions[r];
  const tni_sregion *q = &x->regions[r];
  const bool planned = k->kind == TNI_R_ACT || k->kind == TNI_R_TEMP || k->kind == TNI_R_OUTPUT;
  if (!planned || k->block == TN_NONE || x->mems[k->block].n_parts || !q->ptr || !q->bytes) return NULL;
  return (char *)q->ptr + q->bytes;
}

static char *behind_scratch(const tni_sexec *x, uint32_t i) {
  const tni_stask *t = &x->tasks[i];
  const tni_mem *m = &x->mems[x->exec->tasks[i].block];
  return t->scratch_bytes && !m->n_parts ? (char *)m->host[0] + t->scratch_offset + t->scratch_bytes : NULL;
}

void tni_guard_before(const tn_session *s, tni_sexec *x, uint32_t i) {
  const tni_etask *e = &x->exec->tasks[i];
  for (uint32_t u = 0; u < e->info->n_uses; u++) {
    const uint32_t r = e->regions[u];
    if (r == TN_NONE || !(e->info->uses[u].access & (TN_WRITE | TN_APPEND))) continue;
    char *at = behind(x, r);
    if (!at || x->regions[r].armed == s->step + 1) continue;
    tni_guard_put(at);
    x->regions[r].armed = s->step + 1;
  }
  if (behind_scratch(x, i)) tni_guard_put(behind_scratch(x, i));
}

static const char *name_of(const tn_session *s, const tni_region *r) {
  return r->value == TN_NONE ? "a temporary" : tni_graph_value(s->model->graph, r->value)->pub.name;
}

tn_status tni_guard_after(const tn_session *s, const tni_sexec *x, uint32_t i, tn_error *err) {
  const tni_etask *e = &x->exec->tasks[i];
  const char *plugin = x->exec->programs[e->program].dev->name, *what = NULL;
  for (uint32_t u = 0; u < e->info->n_uses && !what; u++) {
    const uint32_t r = e->regions[u];
    const char *at = r == TN_NONE ? NULL : behind(x, r);
    if (at && x->regions[r].armed == s->step + 1 && !tni_guard_holds(at)) what = name_of(s, &x->exec->regions[r]);
  }
  const char *scratch = behind_scratch(x, i);
  if (!what && scratch && !tni_guard_holds(scratch)) what = "its scratch";
  if (!what) return TN_OK;
  return tni_fail(err, TN_E_INTERNAL, plugin, "plugin '%s' wrote past the end of '%s' in '%s'", plugin, what, e->label);
}
