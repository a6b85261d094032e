/* SPDX-License-Identifier: Apache-2.0 */
#include "plugins/common/base/build.h"

#include <string.h>

#include "plugins/common/base/entry.h"

void *tni_cm_get(tni_cm_build *b, size_t count, size_t size) {
  void *p = tni_cm_new(b->mem, count ? count : 1, size);
  if (!p) b->no_memory = true;
  return p;
}

const void *tni_cm_copy(tni_cm_build *b, const void *from, size_t count, size_t size) {
  void *p = tni_cm_get(b, count, size);
  if (p && count) memcpy(p, from, count * size);
  return p;
}

static const char *copy_name(tni_cm_build *b, const char *prefix, const char *name) {
  const char *text = tni_cm_text(b->mem, prefix, name);
  if (!text) b->no_memory = true;
  return text;
}

bool tni_cm_build_begin(tni_cm_build *b, tni_cm_mem *mem, const tn_subgraph *s, tn_program_info *info,
                        size_t max_slots) {
  *b = (tni_cm_build){.mem = mem, .s = s, .info = info};
  b->needs = tni_cm_get(b, max_slots, sizeof *b->needs);
  b->slots = tni_cm_get(b, max_slots, sizeof *b->slots);
  b->writer = tni_cm_get(b, max_slots, sizeof *b->writer);
  return !b->no_memory;
}

/* --- needs and slots --------------------------------------------------------------------------------------------- */

tn_id tni_cm_add_need(tni_cm_build *b, const tn_need *from, const tn_id *values, uint32_t n, const int64_t *params,
                      uint32_t n_params) {
  tn_need *need = tni_cm_get(b, 1, sizeof *need);
  const tn_id *ids = tni_cm_copy(b, values, n, sizeof *ids);
  const int64_t *copy = n_params ? tni_cm_copy(b, params, n_params, sizeof *copy) : NULL;
  if (!need || !ids || (n_params && !copy)) return TN_NONE;
  *need = *from;
  need->h = (tn_hdr)TN_HDR(tn_need);
  need->values = ids;
  need->n_values = n;
  need->params = copy;
  need->n_params = n_params;
  b->needs[b->info->n_needs] = need;
  return b->info->n_needs++;
}

tn_id tni_cm_add_slot(tni_cm_build *b, const tn_slot *from, size_t size, const char *prefix, const char *name) {
  tn_slot *s = tni_cm_get(b, 1, size);
  const char *text = s ? copy_name(b, prefix, name) : NULL;
  if (!text) return TN_NONE;
  *s = *from;
  s->h = (tn_hdr)TN_HDR(tn_slot);
  s->name = text;
  s->alias = TN_NONE;
  b->slots[b->info->n_slots] = s;
  b->writer[b->info->n_slots] = TN_NONE;
  return b->info->n_slots++;
}

tn_id tni_cm_find_slot(const tni_cm_build *b, tn_id value) {
  for (uint32_t i = 0; i < b->info->n_slots; i++)
    if (b->slots[i]->value == value) return i;
  return TN_NONE;
}

uint32_t tni_cm_kind_read(const tn_value *v) {
  if (v->kind == TN_VALUE_CONST) return TN_SLOT_WEIGHT;
  if (v->kind == TN_VALUE_STATE) return TN_SLOT_STATE;
  return v->kind == TN_VALUE_STEP ? TN_SLOT_STEP : TN_SLOT_INPUT;
}

uint32_t tni_cm_kind_written(const tni_cm_build *b, tn_id value) {
  for (uint32_t i = 0; i < b->s->n_outputs; i++)
    if (b->s->outputs[i] == value) return TN_SLOT_OUTPUT;
  return TN_SLOT_TEMP;
}

/* --- tasks ------------------------------------------------------------------------------------------------------- */

bool tni_cm_begin_task(tni_cm_build *b, tn_task *t, uint32_t max_uses, const char *prefix, const char *name) {
  t->h = (tn_hdr)TN_HDR(tn_task);
  t->uses = tni_cm_get(b, max_uses, sizeof *t->uses);
  t->deps = tni_cm_get(b, max_uses, sizeof *t->deps);
  t->name = copy_name(b, prefix, name);
  return t->uses && t->deps && t->name;
}

static void add_dep(tn_task *t, tn_id task) {
  tn_id *deps = (tn_id *)(uintptr_t)t->deps;
  for (uint32_t i = 0; i < t->n_deps; i++)
    if (deps[i] == task) return;
  deps[t->n_deps++] = task;
}

uint32_t tni_cm_add_use(tni_cm_build *b, tn_task *t, tn_id slot, uint32_t access) {
  if (slot == TN_NONE) return TN_NONE;
  tn_use *uses = (tn_use *)(uintptr_t)t->uses;
  if (access == TN_READ && b->writer[slot] != TN_NONE) add_dep(t, b->writer[slot]);
  if (access == TN_WRITE) b->writer[slot] = b->info->n_tasks;
  for (uint32_t i = 0; i < t->n_uses; i++)
    if (uses[i].slot == slot && uses[i].access == access) return i;
  uses[t->n_uses] = (tn_use){slot, access};
  return t->n_uses++;
}
