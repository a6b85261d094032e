/* SPDX-License-Identifier: Apache-2.0
 *
 * Subgraph -> program: one task per product, per group of siblings, per FusedMatMul.
 */
#include <string.h>

#include "plugins/common/base/base.h"
#include "plugins/common/cpu/build.h"
#include "plugins/common/cpu/integer.h"

static void lower_float(tni_clt_builder *b, uint32_t i) {
  const tni_clt_match *m = &b->match[i];
  const tn_graph *g = b->c.s->graph;
  b->done[i] = 1;
  if (!tni_clt_start_task(b, TNI_CLT_FLOAT, "matmul ", m->node, 4, 1)) return;
  tni_clt_task *t = b->task;
  t->trans_b = m->trans_b;
  t->x = tni_clt_copy_dims(b, g->values[m->x]->dims, g->values[m->x]->rank);
  t->w = tni_clt_copy_dims(b, g->values[m->w]->dims, g->values[m->w]->rank);
  tni_clt_add_use(b, tni_clt_slot_to_read(b, m->x), TN_READ);
  t->w_use = tni_clt_add_use(b, tni_clt_slot_to_read(b, m->w), TN_READ);
  t->affine = (tni_clt_affine){
      .N = m->N, .bias_use = TN_NONE, .bias_scalar = m->bias_scalar, .alpha = m->alpha, .beta = m->beta};
  t->affine.y_use = tni_clt_add_use(b, tni_clt_slot_to_write(b, m->y), TN_WRITE);
  if (m->bias != TN_NONE) t->affine.bias_use = tni_clt_add_use(b, tni_clt_slot_to_read(b, m->bias), TN_READ);
  tni_clt_add_node(b, m->node);
  t->pub.symbols = tni_cm_symbols(b->d->host, g, t->x.e, t->x.rank) | tni_cm_symbols(b->d->host, g, t->w.e, t->w.rank);
  tni_clt_finish_task(b);
}

static bool reserve_program(tni_clt_builder *b) {
  size_t n = b->c.s->n_nodes, slots = n;
  for (uint32_t i = 0; i < n; i++) {
    const tn_node *node = b->c.s->graph->nodes[b->c.s->nodes[i]];
    slots += (size_t)node->n_in + node->n_out;
  }
  if (!tni_cm_build_begin(&b->c, &b->p->mem, b->c.s, &b->p->info, slots)) return false;
  b->match = tni_cm_get(&b->c, n, sizeof *b->match);
  b->fused = tni_cm_get(&b->c, n, sizeof *b->fused);
  b->done = tni_cm_get(&b->c, n, sizeof *b->done);
  b->p->tasks = tni_cm_get(&b->c, n, sizeof *b->p->tasks);
  b->p->slots = b->c.slots;
  b->p->needs = b->c.needs;
  return !b->c.no_memory;
}

static tn_status lower_all(tni_clt_builder *b, tn_error *err) {
  uint32_t *members = reserve_program(b) ? tni_cm_get(&b->c, b->c.s->n_nodes, sizeof *members) : NULL;
  if (!members) return TN_E_NO_MEMORY;
  for (uint32_t i = 0; i < b->c.s->n_nodes; i++) {
    if (b->c.s->graph->nodes[b->c.s->nodes[i]]->op == TN_OP_FUSED_MATMUL) {
      b->fused[i] = tni_cm_get(&b->c, 1, sizeof *b->fused[i]);
      if (!b->fused[i]) return TN_E_NO_MEMORY;
    }
    tni_clt_match_node(b->d, b->c.s->graph, b->c.s->nodes[i], &b->match[i], b->fused[i]);
  }
  tn_status st = TN_OK;
  for (uint32_t i = 0; st == TN_OK && i < b->c.s->n_nodes; i++) {
    if (b->done[i]) continue;
    if (b->match[i].kind == TNI_CLT_PACKED) st = tni_clt_lower_packed(b, i, members, err);
    if (b->match[i].kind == TNI_CLT_FUSED) st = tni_clt_lower_fused(b, i, err);
    if (b->match[i].kind == TNI_CLT_INTEGER) st = tni_clt_lower_integer(b, i, err);
    if (b->match[i].kind == TNI_CLT_FLOAT) lower_float(b, i);
    if (b->c.no_memory) st = TN_E_NO_MEMORY;
  }
  for (uint32_t i = 0; st == TN_OK && i < b->c.s->n_nodes; i++)
    if (!b->done[i])
      st = tni_cm_fail(err, TN_E_INVALID, b->c.s->graph->nodes[b->c.s->nodes[i]]->name, "node %u was not claimed by %s",
                       b->c.s->nodes[i], b->d->backend->name);
  return st;
}

tn_status tni_clt_lower(tn_device *dev, const tn_subgraph *s, tn_program **out, tn_error *err) {
  const tni_clt_device *d = (const tni_clt_device *)dev;
  tni_cm_mem mem = {.host = d->host};
  tn_program *p = tni_cm_new(&mem, 1, sizeof *p);
  if (!p) return tni_cm_fail(err, TN_E_NO_MEMORY, d->backend->name, "out of memory");
  p->mem = mem;
  p->device = d;
  tni_cm_graph_head(&p->graph, s->graph);
  tni_clt_builder b = {.c.s = s, .d = d, .p = p};
  tn_status st = lower_all(&b, err);
  if (st != TN_OK) {
    tni_clt_release(p);
    return st == TN_E_NO_MEMORY ? tni_cm_fail(err, st, d->backend->name, "out of memory") : st;
  }
  tni_cm_info_lists(&p->info, p->needs, p->slots, p->tasks);
  *out = p;
  return TN_OK;
}

const tn_program_info *tni_clt_info(const tn_program *p) { return &p->info; }

void tni_clt_release(tn_program *p) {
  if (!p) return;
  tni_cm_mem mem = p->mem;
  tni_cm_free(&mem);
}
