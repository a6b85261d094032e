/* SPDX-License-Identifier: Apache-2.0 */
#include "plugins/npu-int8-sim/build.h"

#include <string.h>

#include "plugins/common/base/base.h"

void *tni_npu_get(tni_npu_builder *b, size_t count, size_t size) {
  void *p = tni_cm_new(&b->p->mem, count ? count : 1, size);
  if (!p) b->no_memory = true;
  return p;
}

/* --- slots and needs -------------------------------------------------------------------------------------------- */

static tn_id add_slot(tni_npu_builder *b, const tn_slot *from, const char *prefix, const char *name) {
  tn_slot *s = tni_npu_get(b, 1, sizeof *s);
  if (!s) return TN_NONE;
  *s = *from;
  s->h = (tn_hdr)TN_HDR(tn_slot);
  s->alias = TN_NONE;
  s->name = tni_cm_text(&b->p->mem, prefix, name);
  if (!s->name) b->no_memory = true;
  b->p->slots[b->p->info.n_slots] = s;
  b->writer[b->p->info.n_slots] = TN_NONE;
  return b->p->info.n_slots++;
}

tn_id tni_npu_temp(tni_npu_builder *b, const char *prefix, const char *name, uint32_t engines) {
  const tn_slot s = {
      .kind = TN_SLOT_TEMP, .engines = engines, .align = TNI_NPU_ALIGN, .value = TN_NONE, .need = TN_NONE};
  return add_slot(b, &s, prefix, name);
}

static tn_id add_need(tni_npu_builder *b, const tn_need *from, tn_id value, const int64_t *params, uint32_t n_params) {
  tn_need *n = tni_npu_get(b, 1, sizeof *n);
  tn_id *v = tni_npu_get(b, 1, sizeof *v);
  int64_t *copy = tni_npu_get(b, n_params, sizeof *copy);
  if (!n || !v || !copy) return TN_NONE;
  *v = value;
  if (n_params) memcpy(copy, params, n_params * sizeof *copy);
  *n = *from;
  n->h = (tn_hdr)TN_HDR(tn_need);
  n->values = v;
  n->n_values = 1;
  n->params = n_params ? copy : NULL;
  n->n_params = n_params;
  b->p->needs[b->p->info.n_needs] = n;
  return b->p->info.n_needs++;
}

tn_id tni_npu_weight(tni_npu_builder *b, const char *name, const tn_format *f, tn_id value, bool kn,
                     const int64_t *params, uint32_t n_params, uint32_t residency, uint32_t engines) {
  const tn_need need = {.format = f, .residency = residency, .flags = kn ? TN_NEED_KN : 0};
  const tn_id at = add_need(b, &need, value, params, n_params);
  const tn_slot s = {.kind = TN_SLOT_WEIGHT,
                     .engines = engines,
                     .align = f ? TNI_NPU_ALIGN : 4,
                     .value = f ? TN_NONE : value,
                     .need = at};
  return at == TN_NONE ? TN_NONE : add_slot(b, &s, f ? f->name : "", name);
}

static tn_id find_slot(const tni_npu_builder *b, tn_id value) {
  for (uint32_t i = 0; i < b->p->info.n_slots; i++)
    if (b->p->slots[i]->value == value) return i;
  return TN_NONE;
}

tn_id tni_npu_reads(tni_npu_builder *b, tn_id value) {
  const tn_id at = find_slot(b, value);
  if (at != TN_NONE) return at;
  const tn_value *v = b->s->graph->values[value];
  if (v->kind == TN_VALUE_CONST) return tni_npu_weight(b, v->name, NULL, value, false, NULL, 0, TN_RESIDENCY_HOST, 1);
  const tn_slot s = {.kind = v->kind == TN_VALUE_STEP ? TN_SLOT_STEP : TN_SLOT_INPUT,
                     .engines = 1,
                     .align = 4,
                     .value = value,
                     .need = TN_NONE};
  return add_slot(b, &s, "", v->name);
}

tn_id tni_npu_writes(tni_npu_builder *b, tn_id value) {
  bool outside = false;
  for (uint32_t i = 0; i < b->s->n_outputs; i++) outside = outside || b->s->outputs[i] == value;
  const tn_slot s = {
      .kind = outside ? TN_SLOT_OUTPUT : TN_SLOT_TEMP, .engines = 1, .align = 64, .value = value, .need = TN_NONE};
  return add_slot(b, &s, "", b->s->graph->values[value]->name);
}

tn_id tni_npu_state(tni_npu_builder *b, tn_id value) {
  const tn_id at = find_slot(b, value);
  if (at != TN_NONE) return at;
  const tn_slot s = {
      .kind = TN_SLOT_STATE, .engines = 1u << TNI_NPU_ENGINE, .align = TNI_NPU_ALIGN, .value = value, .need = TN_NONE};
  return add_slot(b, &s, "", b->s->graph->values[value]->name);
}

void tni_npu_on_device(tni_npu_builder *b, tn_id slot) {
  if (slot == TN_NONE) return;
  tn_slot *s = b->p->slots[slot];
  s->engines |= 1u << TNI_NPU_ENGINE;
  if (s->align < TNI_NPU_ALIGN) s->align = TNI_NPU_ALIGN;
}

/* --- tasks ------------------------------------------------------------------------------------------------------ */

tni_npu_task *tni_npu_begin(tni_npu_builder *b, uint32_t kind, const char *prefix, const char *name,
                            const tn_expr *dims, uint32_t n_dims, uint32_t max_uses) {
  tni_npu_task *t = tni_npu_get(b, 1, sizeof *t);
  tn_use *uses = tni_npu_get(b, max_uses, sizeof *uses);
  tn_id *deps = tni_npu_get(b, max_uses, sizeof *deps);
  if (!t || !uses || !deps) return NULL;
  t->kind = kind;
  t->pub = (tn_task){.h = TN_HDR(tn_task),
                     .name = tni_cm_text(&b->p->mem, prefix, name),
                     .engine = kind == TNI_NPU_PRODUCT || kind == TNI_NPU_ATTEND ? TNI_NPU_ENGINE : 0,
                     .symbols = tni_cm_symbols(b->p->device->host, b->s->graph, dims, n_dims),
                     .uses = uses,
                     .deps = deps};
  if (!t->pub.name) b->no_memory = true;
  return t;
}

tni_npu_task *tni_npu_start(tni_npu_builder *b, tni_npu_block *k, uint32_t kind, const char *prefix,
                            uint32_t max_uses) {
  tni_npu_task *t = tni_npu_begin(b, kind, prefix, k->name, k->x_dims, k->x_rank, max_uses);
  if (t) t->b = k;
  return t;
}

uint32_t tni_npu_use(tni_npu_builder *b, tni_npu_task *t, tn_id slot, uint32_t access) {
  if (slot == TN_NONE || !t) return TN_NONE;
  tn_use *uses = (tn_use *)(uintptr_t)t->pub.uses;
  tn_id *deps = (tn_id *)(uintptr_t)t->pub.deps;
  const tn_id writer = b->writer[slot];
  if (access == TN_READ && writer != TN_NONE) {
    bool known = false;
    for (uint32_t i = 0; i < t->pub.n_deps; i++) known = known || deps[i] == writer;
    if (!known) deps[t->pub.n_deps++] = writer;
  }
  if (access == TN_WRITE) b->writer[slot] = b->p->info.n_tasks;
  for (uint32_t i = 0; i < t->pub.n_uses; i++)
    if (uses[i].slot == slot && uses[i].access == access) return i;
  uses[t->pub.n_uses] = (tn_use){slot, access};
  return t->pub.n_uses++;
}

void tni_npu_finish(tni_npu_builder *b, tni_npu_task *t) {
  if (t && !b->no_memory) b->p->tasks[b->p->info.n_tasks++] = t;
}
