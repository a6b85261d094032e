/* SPDX-License-Identifier: Apache-2.0
 *
 * Products over packed weights: one task, one joined blob, and a strip for each chain after them. A plain product is a
 * strip of its own; Gemm's alpha, beta and C are a chain.
 */
#include "plugins/common/base/base.h"
#include "plugins/common/cpu/build.h"

/* Index in s->nodes of a node that must stand there with group `group`; TN_NONE if it does not. */
static uint32_t find_node(const tni_clt_builder *b, tn_id node, tn_id group) {
  for (uint32_t i = 0; i < b->c.s->n_nodes; i++)
    if (b->c.s->nodes[i] == node) return b->c.s->group_of[i] == group ? i : TN_NONE;
  return TN_NONE;
}

/* Members of the task whose first product is i: itself, and its siblings in the same group. */
static uint32_t collect_siblings(tni_clt_builder *b, uint32_t i, uint32_t *members, tn_error *err) {
  const tn_subgraph *s = b->c.s;
  uint32_t n = 0;
  int64_t N = 0;
  for (uint32_t j = i; j < s->n_nodes; j++) {
    const tni_clt_match *m = &b->match[j];
    bool same = j == i || (s->group_of[i] != TN_NONE && s->group_of[j] == s->group_of[i] && !b->done[j] &&
                           tni_clt_siblings(&b->match[i], m));
    if (!same || N > TNI_CLT_MAX_DIM - m->N) continue;
    if (m->transpose != TN_NONE) {
      uint32_t t = s->group_of[j] == TN_NONE ? TN_NONE : find_node(b, m->transpose, s->group_of[j]);
      if (t == TN_NONE) {
        tni_cm_fail(err, TN_E_INVALID, s->graph->nodes[m->node]->name,
                    "this product was claimed only together with the Transpose of its constant");
        return 0;
      }
      b->done[t] = 1;
    }
    b->done[j] = 1;
    N += m->N;
    members[n++] = j;
  }
  return n;
}

/* The task with x, the blob of `values` joined and room for strips; uses and nodes are counted beside x and the blob.
 */
static tn_status start_packed(tni_clt_builder *b, const tni_clt_match *m, const tni_clt_grid *grid, const tn_id *values,
                              uint32_t n_values, int64_t N, uint32_t n_strips, uint32_t max_uses, uint32_t max_nodes,
                              tn_error *err) {
  const tn_value *x = b->c.s->graph->values[m->x];
  if (!tni_clt_start_task(b, TNI_CLT_PACKED, "linear ", m->node, 2 + max_uses, max_nodes)) return TN_E_NO_MEMORY;
  tni_clt_task *t = b->task;
  t->strips = tni_cm_get(&b->c, n_strips, sizeof *t->strips);
  if (b->c.no_memory) return TN_E_NO_MEMORY;
  tn_status st = tni_clt_geometry_of(b->d, grid, N, m->K, &t->geo);
  if (st != TN_OK) return tni_cm_fail(err, st, t->pub.name, "the joined matrix is too large");
  t->x = tni_clt_copy_dims(b, x->dims, x->rank);
  tni_clt_add_use(b, tni_clt_slot_to_read(b, m->x), TN_READ);
  const tni_clt_packing packing = tni_clt_packing_of(b->d, grid);
  uint32_t need = tni_clt_add_need(b, &packing, values, n_values, m->kn);
  t->w_use = tni_clt_add_use(b, tni_clt_add_blob_slot(b, need), TN_READ);
  t->pub.symbols = x->rank ? tni_cm_symbols(b->d->host, b->c.s->graph, x->dims, x->rank - 1) : 0;
  return b->c.no_memory ? TN_E_NO_MEMORY : TN_OK;
}

/* Strip `which` of f; columns of product p begin at n0[p] of the joined matrix. NULL where no output needs it. */
static tni_clt_strip *add_strip(tni_clt_builder *b, const tni_cm_fused *f, const uint32_t *strip, uint32_t which,
                                const int64_t *n0) {
  tni_clt_task *t = b->task;
  tni_clt_strip *s = tni_cm_get(&b->c, 1, sizeof *s);
  if (!s) return NULL;
  tni_cm_strip_make(f, strip, which, &s->prog);
  if (!s->prog.n_stores) return NULL;
  s->N = f->parts[s->prog.parts[0]].count;
  s->first_unit = t->n_units;
  s->n_units = (s->N + TNI_CLT_ROWS - 1) / TNI_CLT_ROWS;
  for (uint32_t i = 0; i < s->prog.n_parts; i++) {
    s->n0[i] = n0[s->prog.parts[i]];
    if (s->n0[i] % TNI_CLT_ROWS && s->prog.n_parts > t->n_split) t->n_split = s->prog.n_parts;
  }
  if (s->prog.n_tiles > t->n_tiles) t->n_tiles = s->prog.n_tiles;
  t->n_units += s->n_units;
  t->strips[t->n_strips++] = s;
  return s;
}

/* y = alpha * product + beta * C. */
static void add_product(tni_clt_builder *b, const tni_clt_match *m, int64_t n0) {
  tni_cm_fused f = {.n_weights = 1, .n_parts = 1, .parts = {{.count = m->N}}, .chain = {.n_in = 1, .n_results = 1}};
  tni_clt_operand operands[2];
  uint32_t strip[TNI_CM_MAX_REGISTERS];
  bool scaled = m->alpha != 1.0f, biased = m->bias != TN_NONE;
  if (scaled) operands[f.n_extras++] = (tni_clt_operand){.kind = TNI_CM_NUMBER, .number = m->alpha};
  if (biased)
    operands[f.n_extras++] = (tni_clt_operand){.kind = m->bias_scalar ? TNI_CM_ONE : TNI_CM_ROW,
                                               .use = tni_clt_add_use(b, tni_clt_slot_to_read(b, m->bias), TN_READ),
                                               .number = m->beta};
  tni_cm_chain *c = &f.chain;
  c->n_in = 1 + f.n_extras;
  if (scaled) c->ops[c->n_ops++] = (tni_cm_instr){.op = TN_OP_MUL, .a = 0, .b = 1};
  if (biased) {
    c->ops[c->n_ops] = (tni_cm_instr){.op = TN_OP_ADD, .a = scaled ? c->n_in : 0, .b = c->n_in - 1};
    c->n_ops++;
  }
  c->results[0] = c->n_ops ? c->n_in + c->n_ops - 1 : 0;
  tni_cm_strips(&f, strip);
  tni_clt_strip *s = add_strip(b, &f, strip, 0, &n0);
  if (s) {
    for (uint32_t i = 0; i < s->prog.n_loads; i++) s->load[i] = operands[s->prog.loads[i].what];
    s->store[0] = tni_clt_add_use(b, tni_clt_slot_to_write(b, m->y), TN_WRITE);
  }
  if (m->transpose != TN_NONE) tni_clt_add_node(b, m->transpose);
  tni_clt_add_node(b, m->node);
}

tn_status tni_clt_lower_packed(tni_clt_builder *b, uint32_t i, uint32_t *members, tn_error *err) {
  const tni_clt_match *m = &b->match[i];
  uint32_t n = collect_siblings(b, i, members, err);
  if (n == 0) return TN_E_INVALID;
  tn_id *values = tni_cm_get(&b->c, n, sizeof *values);
  if (!values) return TN_E_NO_MEMORY;
  int64_t N = 0;
  tni_clt_grid grid = m->grid;
  for (uint32_t k = 0; k < n; k++) {
    tni_clt_grid_join(&grid, &b->match[members[k]].grid);
    values[k] = b->match[members[k]].w;
    N += b->match[members[k]].N;
  }
  tn_status st = start_packed(b, m, &grid, values, n, N, n, 2 * n, 2 * n, err);
  if (st != TN_OK) return st;
  N = 0;
  for (uint32_t k = 0; k < n; k++) {
    add_product(b, &b->match[members[k]], N);
    N += b->match[members[k]].N;
  }
  tni_clt_finish_task(b);
  return b->c.no_memory ? TN_E_NO_MEMORY : TN_OK;
}

static bool read_by_another(const tni_clt_task *t, const tni_clt_strip *s, uint32_t use) {
  for (uint32_t k = 0; k < t->n_strips; k++) {
    const tni_clt_strip *o = t->strips[k];
    for (uint32_t i = 0; o != s && i < o->prog.n_loads; i++)
      if (o->load[i].kind != TNI_CM_NUMBER && o->load[i].use == use) return true;
  }
  return false;
}

/* An output may lie where a whole operand of its strip lies: a unit reads its place of all operands before it writes
 * there, and x is quantized before any unit runs. An operand serves one output only. */
static void offer_alias(tni_clt_builder *b, const tni_clt_strip *s) {
  for (uint32_t i = 0, o = 0; i < s->prog.n_loads; i++) {
    if (s->load[i].kind != TNI_CM_WHOLE || read_by_another(b->task, s, s->load[i].use)) continue;
    uint32_t slot = b->task->pub.uses[s->load[i].use].slot;
    while (o < s->prog.n_stores && s->store[o] == TN_NONE) o++;
    if (o == s->prog.n_stores) return;
    if (b->p->slots[slot]->kind == TN_SLOT_INPUT) b->p->slots[b->task->pub.uses[s->store[o++]].slot]->alias = slot;
  }
}

static void add_fused_strip(tni_clt_builder *b, const tn_node *n, const tni_clt_fused *u, uint32_t which,
                            const int64_t *n0) {
  tni_clt_strip *s = add_strip(b, &u->f, u->strip, which, n0);
  for (uint32_t i = 0; s && i < s->prog.n_loads; i++) {
    uint32_t e = s->prog.loads[i].what, slot = tni_clt_slot_to_read(b, n->in[1 + u->f.n_weights + e]);
    s->load[i] = (tni_clt_operand){.kind = u->extra[e], .use = tni_clt_add_use(b, slot, TN_READ), .number = 1.0f};
  }
  for (uint32_t i = 0; s && i < s->prog.n_stores; i++) {
    tn_id y = n->out[s->prog.stores[i].what];
    s->store[i] = y == TN_NONE ? TN_NONE : tni_clt_add_use(b, tni_clt_slot_to_write(b, y), TN_WRITE);
  }
}

tn_status tni_clt_lower_fused(tni_clt_builder *b, uint32_t i, tn_error *err) {
  const tni_clt_match *m = &b->match[i];
  const tn_node *n = b->c.s->graph->nodes[m->node];
  const tni_clt_fused *u = b->fused[i];
  tn_id values[TN_FUSED_MAX_PARTS];
  int64_t n0[TN_FUSED_MAX_PARTS];
  uint32_t n_values = 0;
  b->done[i] = 1;
  for (uint32_t w = 0; w < u->f.n_weights; w++)
    if (u->weight_n0[w] >= 0) values[n_values++] = n->in[1 + w];
  for (uint32_t p = 0; p < u->f.n_parts; p++) n0[p] = u->weight_n0[u->f.parts[p].weight] + u->f.parts[p].first;
  tn_status st = start_packed(b, m, &m->grid, values, n_values, m->N, u->n_strips, u->f.n_extras + n->n_out, 1, err);
  if (st != TN_OK) return st;
  for (uint32_t k = 0; k < u->n_strips && !b->c.no_memory; k++) add_fused_strip(b, n, u, k, n0);
  for (uint32_t k = 0; k < b->task->n_strips && !b->c.no_memory; k++) offer_alias(b, b->task->strips[k]);
  tni_clt_add_node(b, m->node);
  tni_clt_finish_task(b);
  return b->c.no_memory ? TN_E_NO_MEMORY : TN_OK;
}
