/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/memory/guard.h"

#include <string.h>

static unsigned char guard_mark(size_t i) { return (unsigned char)(0xa5 + 29 * i); }

void tni_guard_put(void *p) {
  for (size_t i = 0; i < TNI_GUARD_BYTES; i++) ((unsigned char *)p)[i] = guard_mark(i);
}

bool tni_guard_holds(const void *p) {
  for (size_t i = 0; i < TNI_GUARD_BYTES; i++)
    if (((const unsigned char *)p)[i] != guard_mark(i)) return false;
  return true;
}

/* Where a canary stands; mem NULL: there is none. */
typedef struct tail {
  tni_mem *mem;
  uint64_t at;
} tail;

static tail visible_tail(const tn_session *s, tni_mem *m, uint64_t at, bool host) {
  return (tail){m->n_parts ? (s->model->rt->checked ? m : NULL) : host ? m : NULL, at};
}

/* Caches of the host's own are looked at when the session ends. */
static tail guard_after(const tn_session *s, const tni_sexec *x, uint32_t r) {
  const tni_region *k = &x->exec->regions[r];
  const tni_span *p = x->regions[r].span;
  const bool planned = k->kind == TNI_R_ACT || k->kind == TNI_R_TEMP || k->kind == TNI_R_OUTPUT;
  if ((!planned && k->kind != TNI_R_STATE) || !p || !p->mem || !x->regions[r].bytes) return (tail){0};
  return visible_tail(s, p->mem, p->offset + x->regions[r].bytes, planned);
}

static tail behind_scratch(const tn_session *s, const tni_sexec *x, uint32_t i) {
  const tni_stask *t = &x->tasks[i];
  if (!t->scratch_bytes) return (tail){0};
  return visible_tail(s, &x->mems[x->exec->tasks[i].block], t->scratch_offset + t->scratch_bytes, true);
}

/* What the CPU has mapped already and holds the canary: a cache's span ends after it. What is written into a span that is
 * mapped for reading does not come back where a map is a copy: taking the canary's own span unmaps it. */
static void *in_mapped(const tail *t, uint32_t access) {
  for (const tni_span *o = t->mem->mapped; o; o = o->next)
    if (o->offset <= t->at && t->at + TNI_GUARD_BYTES <= o->offset + o->bytes &&
        (!(access & TN_WRITE) || o->access & (TN_WRITE | TN_APPEND)))
      return (char *)o->ptr + (t->at - o->offset);
  return NULL;
}

/* The canary's bytes for the CPU, in the memory that device dev knows. */
static tn_status look_at_tail(const tail *t, uint32_t dev, uint32_t access, tni_span *out, tn_error *err) {
  *out = (tni_span){.mem = t->mem, .offset = t->at, .bytes = TNI_GUARD_BYTES};
  out->ptr = t->mem->n_parts ? in_mapped(t, access) : (char *)t->mem->host[0] + t->at;
  if (out->ptr) return TN_OK;
  for (uint32_t i = 0; i < t->mem->n_parts; i++)
    if (t->mem->parts[i].dev == dev) out->valid = 1u << t->mem->parts[i].home;
  return tni_span_take(out, TN_NONE, access, err);
}

static tn_status put_guard(const tail *t, uint32_t dev, tn_error *err) {
  tni_span p;
  tn_status st = look_at_tail(t, dev, TN_WRITE | TNI_SPAN_WHOLE, &p, err);
  if (st != TN_OK) return st;
  tni_guard_put(p.ptr);
  return tni_span_release(&p, err);
}

static tn_status check_guard(const tail *t, uint32_t dev, bool *holds, tn_error *err) {
  tni_span p;
  tn_status st = look_at_tail(t, dev, TN_READ, &p, err);
  if (st != TN_OK) return st;
  *holds = tni_guard_holds(p.ptr);
  return tni_span_release(&p, err);
}

static uint32_t device_of(const tni_sexec *x, uint32_t i) {
  return x->exec->programs[x->exec->tasks[i].program].cluster->device;
}

tn_status tni_guard_before(const tn_session *s, tni_sexec *x, uint32_t i, tn_error *err) {
  const tni_etask *e = &x->exec->tasks[i];
  tn_status st = TN_OK;
  for (uint32_t u = 0; st == TN_OK && u < e->info->n_uses; u++) {
    const uint32_t r = e->regions[u];
    if (r == TN_NONE || !(e->info->uses[u].access & (TN_WRITE | TN_APPEND))) continue;
    const tail t = guard_after(s, x, r);
    if (!t.mem || x->regions[r].armed == s->step + 1) continue;
    st = put_guard(&t, device_of(x, i), err);
    x->regions[r].armed = s->step + 1;
  }
  const tail scratch = behind_scratch(s, x, i);
  return st == TN_OK && scratch.mem ? put_guard(&scratch, device_of(x, i), err) : st;
}

static const char *name_of(const tn_session *s, const tni_region *r) {
  return r->value == TN_NONE ? "a temporary" : tni_graph_value(s->model->graph, r->value)->pub.name;
}

tn_status tni_guard_after(const tn_session *s, const tni_sexec *x, uint32_t i, tn_error *err) {
  const tni_etask *e = &x->exec->tasks[i];
  const char *plugin = x->exec->programs[e->program].dev->name, *what = NULL;
  bool holds = true;
  tn_status st = TN_OK;
  for (uint32_t u = 0; u < e->info->n_uses && st == TN_OK && !what; u++) {
    const uint32_t r = e->regions[u];
    const tail t = r == TN_NONE ? (tail){0} : guard_after(s, x, r);
    if (!t.mem || x->regions[r].armed != s->step + 1) continue;
    st = check_guard(&t, device_of(x, i), &holds, err);
    if (!holds) what = name_of(s, &x->exec->regions[r]);
  }
  const tail scratch = behind_scratch(s, x, i);
  if (st == TN_OK && !what && scratch.mem) {
    st = check_guard(&scratch, device_of(x, i), &holds, err);
    if (!holds) what = "its scratch";
  }
  if (!what) return st;
  return tni_fail(err, TN_E_INTERNAL, plugin, "plugin '%s' wrote past the end of '%s' in '%s'", plugin, what, e->label);
}
