/* SPDX-License-Identifier: Apache-2.0 */
#include "plugins/common/cpu/build.h"

tni_clt_dims tni_clt_copy_dims(tni_clt_builder *b, const tn_expr *e, uint32_t rank) {
  const tn_expr *c = tni_cm_copy(&b->c, e, rank, sizeof *c);
  return (tni_clt_dims){c, c ? rank : 0};
}

/* --- slots and needs ------------------------------------------------------------------------------------------- */

uint32_t tni_clt_add_need_with(tni_clt_builder *b, const tn_format *format, const int64_t *params, uint32_t n_params,
                               const tn_id *values, uint32_t n, bool kn) {
  const tn_need need = {.format = format, .residency = TN_RESIDENCY_HOST, .flags = kn ? TN_NEED_KN : 0};
  return tni_cm_add_need(&b->c, &need, values, n, params, n_params);
}

uint32_t tni_clt_add_need(tni_clt_builder *b, const tni_clt_packing *packing, const tn_id *values, uint32_t n,
                          bool kn) {
  return packing ? tni_clt_add_need_with(b, packing->listed, packing->params, packing->f->n_params, values, n, kn)
                 : tni_clt_add_need_with(b, NULL, NULL, 0, values, n, kn);
}

static uint32_t add_slot(tni_clt_builder *b, uint32_t kind, tn_id value, tn_id need, const char *name) {
  const tn_slot s = {.kind = kind,
                     .engines = 1,
                     .align = kind == TN_SLOT_WEIGHT && value == TN_NONE ? 64 : 4,
                     .value = value,
                     .need = need};
  const tn_id at = tni_cm_add_slot(&b->c, &s, sizeof(tni_clt_slot), "", name);
  const tn_value *v = tni_cm_value(b->c.s->graph, value);
  if (at != TN_NONE && v) tni_clt_slot_of(b->p, at)->dims = tni_clt_copy_dims(b, v->dims, v->rank);
  return at;
}

uint32_t tni_clt_add_blob_slot(tni_clt_builder *b, uint32_t need) {
  return need == TN_NONE ? TN_NONE : add_slot(b, TN_SLOT_WEIGHT, TN_NONE, need, b->task->pub.name);
}

uint32_t tni_clt_slot_to_read(tni_clt_builder *b, tn_id value) {
  const uint32_t at = tni_cm_find_slot(&b->c, value);
  if (at != TN_NONE) return at;
  const tn_value *v = b->c.s->graph->values[value];
  const uint32_t kind = tni_cm_kind_read(v);
  const tn_id need = kind == TN_SLOT_WEIGHT ? tni_clt_add_need(b, NULL, &value, 1, false) : TN_NONE;
  return b->c.no_memory ? TN_NONE : add_slot(b, kind, value, need, v->name);
}

uint32_t tni_clt_slot_to_write(tni_clt_builder *b, tn_id value) {
  return add_slot(b, tni_cm_kind_written(&b->c, value), value, TN_NONE, b->c.s->graph->values[value]->name);
}

/* --- tasks ----------------------------------------------------------------------------------------------------- */

uint32_t tni_clt_add_use(tni_clt_builder *b, uint32_t slot, uint32_t access) {
  return tni_cm_add_use(&b->c, &b->task->pub, slot, access);
}

bool tni_clt_start_task(tni_clt_builder *b, uint32_t kind, const char *prefix, tn_id node, uint32_t max_uses,
                        uint32_t max_nodes) {
  const tn_id *nodes = tni_cm_get(&b->c, max_nodes, sizeof *nodes);
  b->task = tni_cm_get(&b->c, 1, sizeof *b->task);
  if (b->c.no_memory) return false;
  b->task->kind = kind;
  b->task->pub.nodes = nodes;
  return tni_cm_begin_task(&b->c, &b->task->pub, max_uses, prefix, b->c.s->graph->nodes[node]->name);
}

void tni_clt_finish_task(tni_clt_builder *b) {
  if (!b->c.no_memory) b->p->tasks[b->p->info.n_tasks++] = b->task;
}

void tni_clt_add_node(tni_clt_builder *b, tn_id node) {
  tn_task *t = &b->task->pub;
  ((tn_id *)t->nodes)[t->n_nodes++] = node;
}
