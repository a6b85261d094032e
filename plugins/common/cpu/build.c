/* SPDX-License-Identifier: Apache-2.0 */
#include "plugins/common/cpu/build.h"

#include <string.h>

#include "plugins/common/base/base.h"

void *tni_clt_get(tni_clt_builder *b, size_t count, size_t size) {
  void *p = tni_cm_new(&b->p->mem, count ? count : 1, size);
  if (!p) b->no_memory = true;
  return p;
}

tni_clt_dims tni_clt_copy_dims(tni_clt_builder *b, const tn_expr *e, uint32_t rank) {
  tn_expr *c = tni_clt_get(b, rank, sizeof *c);
  if (c && rank) memcpy(c, e, rank * sizeof *c);
  return (tni_clt_dims){c, c ? rank : 0};
}

/* --- slots and needs ------------------------------------------------------------------------------------------- */

/* format NULL: values as they are. */
uint32_t tni_clt_add_need_with(tni_clt_builder *b, const tn_format *format, const int64_t *params, uint32_t n_params,
                               const tn_id *values, uint32_t n, bool kn) {
  tn_need *need = tni_clt_get(b, 1, sizeof *need);
  tn_id *copy = tni_clt_get(b, n, sizeof *copy);
  if (!need || !copy) return TN_NONE;
  memcpy(copy, values, n * sizeof *copy);
  *need = (tn_need){.h = TN_HDR(tn_need),
                    .format = format,
                    .values = copy,
                    .n_values = n,
                    .residency = TN_RESIDENCY_HOST,
                    .flags = kn ? TN_NEED_KN : 0};
  if (format) {
    int64_t *kept = tni_clt_get(b, n_params, sizeof *kept);
    if (!kept) return TN_NONE;
    memcpy(kept, params, n_params * sizeof *kept);
    need->params = kept;
    need->n_params = n_params;
  }
  b->p->needs[b->p->info.n_needs] = need;
  return b->p->info.n_needs++;
}

uint32_t tni_clt_add_need(tni_clt_builder *b, const tni_clt_packing *packing, const tn_id *values, uint32_t n,
                          bool kn) {
  return packing ? tni_clt_add_need_with(b, packing->listed, packing->params, packing->f->n_params, values, n, kn)
                 : tni_clt_add_need_with(b, NULL, NULL, 0, values, n, kn);
}

static tni_clt_slot *new_slot(tni_clt_builder *b, uint32_t kind, tn_id value, tn_id need, const char *name) {
  tni_clt_slot *s = tni_clt_get(b, 1, sizeof *s);
  if (!s) return NULL;
  s->pub = (tn_slot){.h = TN_HDR(tn_slot),
                     .name = tni_cm_text(&b->p->mem, "", name),
                     .kind = kind,
                     .engines = 1,
                     .align = kind == TN_SLOT_WEIGHT && value == TN_NONE ? 64 : 4,
                     .value = value,
                     .need = need,
                     .alias = TN_NONE};
  s->writer = TN_NONE;
  if (!s->pub.name) b->no_memory = true;
  const tn_value *v = tni_cm_value(b->s->graph, value);
  if (v) s->dims = tni_clt_copy_dims(b, v->dims, v->rank);
  b->p->slots[b->p->info.n_slots++] = s;
  return s;
}

static uint32_t find_slot(const tni_clt_builder *b, tn_id value) {
  for (uint32_t i = 0; i < b->p->info.n_slots; i++)
    if (b->p->slots[i]->pub.value == value) return i;
  return TN_NONE;
}

uint32_t tni_clt_add_blob_slot(tni_clt_builder *b, uint32_t need) {
  uint32_t at = b->p->info.n_slots;
  return need != TN_NONE && new_slot(b, TN_SLOT_WEIGHT, TN_NONE, need, b->task->pub.name) ? at : TN_NONE;
}

uint32_t tni_clt_slot_to_read(tni_clt_builder *b, tn_id value) {
  uint32_t at = find_slot(b, value);
  if (at != TN_NONE) return at;
  const tn_value *v = b->s->graph->values[value];
  uint32_t kind = v->kind == TN_VALUE_CONST ? TN_SLOT_WEIGHT : v->kind == TN_VALUE_STEP ? TN_SLOT_STEP : TN_SLOT_INPUT;
  tn_id need = kind == TN_SLOT_WEIGHT ? tni_clt_add_need(b, NULL, &value, 1, false) : TN_NONE;
  at = b->p->info.n_slots;
  return !b->no_memory && new_slot(b, kind, value, need, v->name) ? at : TN_NONE;
}

uint32_t tni_clt_slot_to_write(tni_clt_builder *b, tn_id value) {
  bool outside = false;
  for (uint32_t i = 0; i < b->s->n_outputs; i++) outside = outside || b->s->outputs[i] == value;
  uint32_t at = b->p->info.n_slots;
  tni_clt_slot *s =
      new_slot(b, outside ? TN_SLOT_OUTPUT : TN_SLOT_TEMP, value, TN_NONE, b->s->graph->values[value]->name);
  if (s) s->writer = b->p->info.n_tasks;
  return s ? at : TN_NONE;
}

/* --- tasks ----------------------------------------------------------------------------------------------------- */

uint32_t tni_clt_add_use(tni_clt_builder *b, uint32_t slot, uint32_t access) {
  if (slot == TN_NONE) return TN_NONE;
  tn_task *t = &b->task->pub;
  tn_id writer = b->p->slots[slot]->writer;
  if (access == TN_READ && writer != TN_NONE) {
    bool known = false;
    for (uint32_t i = 0; i < t->n_deps; i++) known = known || b->deps[i] == writer;
    if (!known) b->deps[t->n_deps++] = writer;
  }
  for (uint32_t i = 0; i < t->n_uses; i++)
    if (b->uses[i].slot == slot && b->uses[i].access == access) return i;
  b->uses[t->n_uses] = (tn_use){slot, access};
  return t->n_uses++;
}

bool tni_clt_start_task(tni_clt_builder *b, uint32_t kind, const char *prefix, tn_id node, uint32_t max_uses,
                        uint32_t max_nodes) {
  tn_id *nodes = tni_clt_get(b, max_nodes, sizeof *nodes);
  b->task = tni_clt_get(b, 1, sizeof *b->task);
  b->uses = tni_clt_get(b, max_uses, sizeof *b->uses);
  b->deps = tni_clt_get(b, max_uses, sizeof *b->deps);
  if (b->no_memory) return false;
  b->task->kind = kind;
  b->task->pub = (tn_task){.h = TN_HDR(tn_task),
                           .uses = b->uses,
                           .deps = b->deps,
                           .nodes = nodes,
                           .name = tni_cm_text(&b->p->mem, prefix, b->s->graph->nodes[node]->name)};
  if (!b->task->pub.name) b->no_memory = true;
  return !b->no_memory;
}

void tni_clt_finish_task(tni_clt_builder *b) {
  if (!b->no_memory) b->p->tasks[b->p->info.n_tasks++] = b->task;
}

void tni_clt_add_node(tni_clt_builder *b, tn_id node) {
  tn_task *t = &b->task->pub;
  ((tn_id *)t->nodes)[t->n_nodes++] = node;
}
