/* SPDX-License-Identifier: Apache-2.0 */
#include "plugins/npu-int8-sim/build.h"

/* --- slots and needs -------------------------------------------------------------------------------------------- */

static tn_id add_slot(tni_npu_builder *b, const tn_slot *from, const char *prefix, const char *name) {
  return tni_cm_add_slot(&b->c, from, sizeof *from, prefix, name);
}

tn_id tni_npu_temp(tni_npu_builder *b, const char *prefix, const char *name, uint32_t engines) {
  const tn_slot s = {
      .kind = TN_SLOT_TEMP, .engines = engines, .align = TNI_NPU_ALIGN, .value = TN_NONE, .need = TN_NONE};
  return add_slot(b, &s, prefix, name);
}

tn_id tni_npu_weight(tni_npu_builder *b, const char *name, const tn_format *f, tn_id value, bool kn,
                     const int64_t *params, uint32_t n_params, uint32_t residency, uint32_t engines) {
  const tn_need need = {.format = f, .residency = residency, .flags = kn ? TN_NEED_KN : 0};
  const tn_id at = tni_cm_add_need(&b->c, &need, &value, 1, params, n_params);
  const tn_slot s = {.kind = TN_SLOT_WEIGHT,
                     .engines = engines,
                     .align = f ? TNI_NPU_ALIGN : 4,
                     .value = f ? TN_NONE : value,
                     .need = at};
  return at == TN_NONE ? TN_NONE : add_slot(b, &s, f ? f->name : "", name);
}

tn_id tni_npu_reads(tni_npu_builder *b, tn_id value) {
  const tn_id at = tni_cm_find_slot(&b->c, value);
  if (at != TN_NONE) return at;
  const tn_value *v = b->c.s->graph->values[value];
  if (v->kind == TN_VALUE_CONST) return tni_npu_weight(b, v->name, NULL, value, false, NULL, 0, TN_RESIDENCY_HOST, 1);
  const tn_slot s = {.kind = tni_cm_kind_read(v), .engines = 1, .align = 4, .value = value, .need = TN_NONE};
  return add_slot(b, &s, "", v->name);
}

tn_id tni_npu_writes(tni_npu_builder *b, tn_id value) {
  const tn_slot s = {
      .kind = tni_cm_kind_written(&b->c, value), .engines = 1, .align = 64, .value = value, .need = TN_NONE};
  return add_slot(b, &s, "", b->c.s->graph->values[value]->name);
}

tn_id tni_npu_state(tni_npu_builder *b, tn_id value) {
  const tn_id at = tni_cm_find_slot(&b->c, value);
  if (at != TN_NONE) return at;
  const tn_slot s = {
      .kind = TN_SLOT_STATE, .engines = 1u << TNI_NPU_ENGINE, .align = TNI_NPU_ALIGN, .value = value, .need = TN_NONE};
  return add_slot(b, &s, "", b->c.s->graph->values[value]->name);
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
  tni_npu_task *t = tni_cm_get(&b->c, 1, sizeof *t);
  if (!t || !tni_cm_begin_task(&b->c, &t->pub, max_uses, prefix, name)) return NULL;
  t->kind = kind;
  t->pub.engine = kind == TNI_NPU_PRODUCT || kind == TNI_NPU_ATTEND ? TNI_NPU_ENGINE : 0;
  t->pub.symbols = tni_cm_symbols(b->p->device->host, b->c.s->graph, dims, n_dims);
  return t;
}

tni_npu_task *tni_npu_start(tni_npu_builder *b, tni_npu_block *k, uint32_t kind, const char *prefix,
                            uint32_t max_uses) {
  tni_npu_task *t = tni_npu_begin(b, kind, prefix, k->name, k->x_dims, k->x_rank, max_uses);
  if (t) t->b = k;
  return t;
}

uint32_t tni_npu_use(tni_npu_builder *b, tni_npu_task *t, tn_id slot, uint32_t access) {
  return t ? tni_cm_add_use(&b->c, &t->pub, slot, access) : TN_NONE;
}

void tni_npu_finish(tni_npu_builder *b, tni_npu_task *t) {
  if (t && !b->c.no_memory) b->p->tasks[b->p->info.n_tasks++] = t;
}
