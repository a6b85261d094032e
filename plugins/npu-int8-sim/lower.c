/* SPDX-License-Identifier: Apache-2.0
 *
 * Subgraph -> program: a block of tasks for each linear.
 */
#include "plugins/npu-int8-sim/build.h"

#include <string.h>

#include "plugins/common/base/base.h"

/* --- the chain after the products ------------------------------------------------------------------------------- */

static void add_strip(tni_npu_builder *b, tni_npu_block *k, tni_npu_task *merge, const tn_node *n, uint32_t which) {
  const tni_npu_linear *l = &k->l;
  tni_npu_strip *s = tni_cm_get(&b->c, 1, sizeof *s);
  if (!s) return;
  tni_cm_strip_make(&l->f, l->strip, which, &s->prog);
  if (!s->prog.n_stores) return;
  s->N = l->f.parts[s->prog.parts[0]].count;
  for (uint32_t i = 0; i < s->prog.n_loads; i++) {
    const uint32_t e = s->prog.loads[i].what;
    s->load[i] = (tni_npu_operand){l->extra[e], tni_npu_use(b, merge, tni_npu_reads(b, l->extras[e]), TN_READ)};
  }
  for (uint32_t i = 0; i < s->prog.n_stores; i++) {
    const tn_id y = n->out[s->prog.stores[i].what];
    s->slot[i] = y == TN_NONE ? TN_NONE : tni_npu_writes(b, y);
    s->store[i] = tni_npu_use(b, merge, s->slot[i], TN_WRITE);
  }
  if (s->prog.n_tiles > k->n_tiles) k->n_tiles = s->prog.n_tiles;
  k->strips[k->n_strips++] = s;
}

/* --- the four tasks ---------------------------------------------------------------------------------------------- */

static void add_quantize(tni_npu_builder *b, tni_npu_block *k) {
  tni_npu_task *t = tni_npu_start(b, k, TNI_NPU_QUANTIZE, "quantize ", 3);
  tni_npu_use(b, t, k->x, TN_READ);
  tni_npu_use(b, t, k->xq, TN_WRITE);
  if (k->l.shadow) tni_npu_use(b, t, k->marks, TN_WRITE);
  tni_npu_finish(b, t);
}

static void add_product(tni_npu_builder *b, tni_npu_block *k) {
  tni_npu_task *t =
      tni_npu_start(b, k, TNI_NPU_PRODUCT, "int8 ", 2 + k->l.n_weights + (k->gate ? k->gate->l.n_weights : 0));
  tni_npu_use(b, t, k->xq, TN_READ);
  tni_npu_use(b, t, k->acc, TN_WRITE);
  for (uint32_t i = 0; k->gate && i < k->gate->l.n_weights; i++) tni_npu_use(b, t, k->gate->w[i], TN_READ);
  for (uint32_t i = 0; i < k->l.n_weights; i++) tni_npu_use(b, t, k->w[i], TN_READ);
  tni_npu_finish(b, t);
}

static void add_shadow(tni_npu_builder *b, tni_npu_block *k) {
  tni_npu_task *t = tni_npu_start(b, k, TNI_NPU_SHADOW, "shadow ", 3 + k->l.n_weights);
  tni_npu_use(b, t, k->x, TN_READ);
  tni_npu_use(b, t, k->marks, TN_READ);
  tni_npu_use(b, t, k->sum, TN_WRITE);
  for (uint32_t i = 0; i < k->l.n_weights; i++) tni_npu_use(b, t, k->rows[i], TN_READ);
  tni_npu_finish(b, t);
}

/* It computes the node, and reads x only so that whoever judges the node still finds what it was computed from. */
static void add_merge(tni_npu_builder *b, tni_npu_block *k, const tn_node *n) {
  tni_npu_task *t = tni_npu_start(b, k, TNI_NPU_MERGE, "merge ", 4 + k->l.f.n_extras + n->n_out);
  tn_id *nodes = tni_cm_get(&b->c, 2, sizeof *nodes);
  if (!t || !nodes) return;
  if (k->gate) nodes[t->pub.n_nodes++] = k->gate->l.node;
  nodes[t->pub.n_nodes++] = k->l.node;
  t->pub.nodes = nodes;
  tni_npu_use(b, t, k->x, TN_READ);
  tni_npu_use(b, t, k->acc, TN_READ);
  if (k->l.shadow) {
    tni_npu_use(b, t, k->marks, TN_READ);
    tni_npu_use(b, t, k->sum, TN_READ);
  }
  for (uint32_t i = 0; i < k->l.n_strips && !b->c.no_memory; i++) add_strip(b, k, t, n, i);
  tni_npu_finish(b, t);
}

static void add_weights(tni_npu_builder *b, tni_npu_block *k) {
  const tni_npu_linear *l = &k->l;
  for (uint32_t i = 0; i < l->n_weights && !b->c.no_memory; i++) {
    const char *name = b->c.s->graph->values[l->weight[i]]->name;
    k->n0[i] = k->N;
    k->N += l->N[i];
    k->w[i] = tni_npu_weight(b, name, &tni_w8a8_format, l->weight[i], l->kn, l->params, 2, TN_RESIDENCY_DEVICE,
                             1u << TNI_NPU_ENGINE);
    if (l->shadow)
      k->rows[i] = tni_npu_weight(b, name, &tni_w8r_format, l->weight[i], l->kn, NULL, 0, TN_RESIDENCY_DISK, 1);
  }
}

static tni_npu_block *new_block(tni_npu_builder *b, const tni_npu_linear *l) {
  const tn_value *x = b->c.s->graph->values[l->x];
  tni_npu_block *k = tni_cm_get(&b->c, 1, sizeof *k);
  tn_expr *dims = tni_cm_get(&b->c, x->rank, sizeof *dims);
  if (!k || !dims) return NULL;
  memcpy(dims, x->dims, (x->rank - 1) * sizeof *dims);
  k->l = *l;
  k->x_dims = dims;
  k->x_rank = x->rank - 1;
  k->marks = k->sum = TN_NONE;
  k->name = tni_cm_text(&b->p->mem, "", b->c.s->graph->nodes[l->node]->name);
  if (!k->name) b->c.no_memory = true;
  b->p->blocks[b->p->n_blocks++] = k;
  if (pthread_mutex_init(&k->lock, NULL) == 0) k->locked = true;
  return k->locked && !b->c.no_memory ? k : NULL;
}

/* x and its codes: the gate's where there is one. */
static void add_input(tni_npu_builder *b, tni_npu_block *k) {
  const uint32_t both = 1u | 1u << TNI_NPU_ENGINE;
  if (k->gate) {
    k->x = k->gate->x;
    k->xq = k->gate->xq;
    return;
  }
  k->x = tni_npu_reads(b, k->l.x);
  k->xq = tni_npu_temp(b, "codes of ", k->name, both);
}

static tn_status add_gate(tni_npu_builder *b, tni_npu_block *k, const tni_npu_linear *gate) {
  k->gate = new_block(b, gate);
  if (!k->gate) return TN_E_NO_MEMORY;
  k->gate->acc = TN_NONE;
  tni_cm_strip_make(&gate->f, gate->strip, 0, &k->between);
  add_input(b, k->gate);
  add_weights(b, k->gate);
  return b->c.no_memory ? TN_E_NO_MEMORY : TN_OK;
}

/* gate: what is computed in front of it in the same graph, or NULL. */
static tn_status add_block(tni_npu_builder *b, const tni_npu_linear *l, const tni_npu_linear *gate) {
  const uint32_t both = 1u | 1u << TNI_NPU_ENGINE;
  tni_npu_block *k = new_block(b, l);
  if (!k || (gate && add_gate(b, k, gate) != TN_OK)) return TN_E_NO_MEMORY;
  add_input(b, k);
  k->acc = tni_npu_temp(b, "sums of ", k->name, both);
  if (l->shadow) {
    k->marks = tni_npu_temp(b, "outliers of ", k->name, 1);
    k->sum = tni_npu_temp(b, "shadow of ", k->name, 1);
  }
  add_weights(b, k);
  if (b->c.no_memory) return TN_E_NO_MEMORY;
  add_quantize(b, k->gate ? k->gate : k);
  add_product(b, k);
  if (l->shadow) add_shadow(b, k);
  add_merge(b, k, b->c.s->graph->nodes[l->node]);
  if (b->c.no_memory) return TN_E_NO_MEMORY;
  return l->shadow ? tni_npu_rows_order(b->p, k, b->c.s->graph->values[l->x]->stats, b->p->device->set.hot) : TN_OK;
}

/* --- attention --------------------------------------------------------------------------------------------------- */

static tn_status add_attention(tni_npu_builder *b, const tni_npu_attention *from) {
  tni_npu_attention *o = tni_cm_get(&b->c, 1, sizeof *o);
  tn_id *node = tni_cm_get(&b->c, 1, sizeof *node);
  if (!o || !node) return TN_E_NO_MEMORY;
  *o = *from;
  *node = o->node;
  o->name = tni_cm_text(&b->p->mem, "", b->c.s->graph->nodes[o->node]->name);
  const tn_expr dims[2] = {o->batch, o->keys};
  if (!o->name) return TN_E_NO_MEMORY;
  tni_npu_task *t = tni_npu_begin(b, TNI_NPU_ATTEND, "float ", o->name, dims, 2, 6);
  if (!t) return TN_E_NO_MEMORY;
  t->att = o;
  o->slot[0] = tni_npu_reads(b, o->q);
  o->slot[1] = tni_npu_state(b, o->k);
  o->slot[2] = tni_npu_state(b, o->v);
  o->slot[3] = tni_npu_reads(b, o->valid);
  o->slot[4] = tni_npu_writes(b, o->y);
  o->slot[5] = o->mask == TN_NONE ? TN_NONE : tni_npu_reads(b, o->mask);
  for (uint32_t i = 0; i < 6; i++) {
    tni_npu_on_device(b, o->slot[i]);
    tni_npu_use(b, t, o->slot[i], i == 4 ? TN_WRITE : TN_READ);
  }
  t->pub.nodes = node;
  t->pub.n_nodes = 1;
  b->p->attentions[b->p->n_attentions++] = o;
  tni_npu_finish(b, t);
  return b->c.no_memory ? TN_E_NO_MEMORY : TN_OK;
}

/* --- the program -------------------------------------------------------------------------------------------------- */

static bool reserve_blocks(tni_npu_builder *b) {
  const size_t n = b->c.s->n_nodes;
  size_t slots = n * (5 + 2 * TN_FUSED_MAX_PARTS);
  for (uint32_t i = 0; i < n; i++) {
    const tn_node *node = b->c.s->graph->nodes[b->c.s->nodes[i]];
    slots += (size_t)node->n_in + node->n_out;
  }
  if (!tni_cm_build_begin(&b->c, &b->p->mem, b->c.s, &b->p->info, slots)) return false;
  b->p->blocks = tni_cm_get(&b->c, n, sizeof *b->p->blocks);
  b->p->attentions = tni_cm_get(&b->c, n, sizeof *b->p->attentions);
  b->p->tasks = tni_cm_get(&b->c, 4 * n, sizeof *b->p->tasks);
  b->p->slots = b->c.slots;
  b->p->needs = b->c.needs;
  b->p->raw = tni_cm_get(&b->c, slots, sizeof *b->p->raw);
  return !b->c.no_memory;
}

/* Whether the products of g may be computed in the graph of l, which reads what their chain makes and nobody else does:
 * both without shadow, which is the CPU's, and a chain of nothing but the products. */
static bool is_gate(const tni_npu_builder *b, const tni_npu_linear *g, const tni_npu_linear *l) {
  const tn_graph *graph = b->c.s->graph;
  const tn_node *n = graph->nodes[g->node];
  tni_cm_strip strip;
  bool outside = graph->values[l->x]->n_uses != 1;
  for (uint32_t i = 0; i < b->c.s->n_outputs; i++) outside = outside || b->c.s->outputs[i] == l->x;
  if (outside || !b->p->device->set.one_ffn || g->shadow || l->shadow || g->n_strips != 1) return false;
  if (g->n_rows != l->n_rows || (g->n_rows && g->rows.lhs != l->rows.lhs) ||
      g->n_weights + l->n_weights > NPUSIM_MAX_GEMMS)
    return false;
  tni_cm_strip_make(&g->f, g->strip, 0, &strip);
  if (strip.n_loads || strip.n_tiles > TNI_NPU_MIDDLE_TILES || strip.n_stores != 1) return false;
  for (uint32_t i = 0; i < n->n_out; i++)
    if (n->out[i] != TN_NONE && n->out[i] != l->x) return false;
  return n->out[strip.stores[0].what] == l->x && g->f.parts[strip.parts[0]].count == l->K;
}

/* The product of this program that l's x comes from, or NULL. */
static const tni_npu_linear *gate_of(const tni_npu_builder *b, const tni_npu_answer *a, const tni_npu_linear *l) {
  const tn_id from = b->c.s->graph->values[l->x]->producer;
  bool here = false;
  for (uint32_t i = 0; i < b->c.s->n_nodes; i++) here = here || b->c.s->nodes[i] == from;
  return here && a[from].linear && is_gate(b, a[from].linear, l) ? a[from].linear : NULL;
}

/* It is computed in the graph of the product that reads it. */
static bool is_inside(const tni_npu_builder *b, const tni_npu_answer *a, const tni_npu_linear *g) {
  for (uint32_t i = 0; i < b->c.s->n_nodes; i++) {
    const tni_npu_linear *l = a[b->c.s->nodes[i]].linear;
    if (l && gate_of(b, a, l) == g) return true;
  }
  return false;
}

static tn_status lower_all(tni_npu_builder *b, tni_cm_mem *mem, tn_error *err) {
  const tn_graph *g = b->c.s->graph;
  const tni_npu_answer *a = tni_npu_read(b->p->device, g, mem);
  if (!a || !reserve_blocks(b)) return TN_E_NO_MEMORY;
  tn_status st = TN_OK;
  for (uint32_t i = 0; st == TN_OK && i < b->c.s->n_nodes; i++) {
    const tn_id n = b->c.s->nodes[i];
    if (a[n].attention)
      st = add_attention(b, a[n].attention);
    else if (!a[n].linear)
      st = tni_cm_fail(err, TN_E_INVALID, g->nodes[n]->name, "node %u was not claimed by " TNI_NPU_NAME, n);
    else if (!is_inside(b, a, a[n].linear))
      st = add_block(b, a[n].linear, gate_of(b, a, a[n].linear));
  }
  return st;
}

tn_status tni_npu_lower(tn_device *dev, const tn_subgraph *s, tn_program **out, tn_error *err) {
  tni_npu_device *d = (tni_npu_device *)dev;
  tni_cm_mem mem = {.host = d->host}, once = {.host = d->host};
  tn_program *p = tni_cm_new(&mem, 1, sizeof *p);
  if (!p) return tni_cm_fail(err, TN_E_NO_MEMORY, TNI_NPU_NAME, "out of memory");
  p->mem = mem;
  p->device = d;
  tni_cm_graph_head(&p->graph, s->graph);
  tni_npu_builder b = {.c.s = s, .p = p};
  tn_status st = lower_all(&b, &once, err);
  tni_cm_free(&once);
  if (st != TN_OK) {
    tni_npu_release(p);
    return st == TN_E_NO_MEMORY ? tni_cm_fail(err, st, TNI_NPU_NAME, "out of memory") : st;
  }
  tni_cm_info_lists(&p->info, p->needs, p->slots, p->tasks);
  *out = p;
  return TN_OK;
}

const tn_program_info *tni_npu_info(const tn_program *p) { return &p->info; }

void tni_npu_release(tn_program *p) {
  if (!p) return;
  for (uint32_t i = 0; i < p->n_blocks; i++) {
    npusim_graph_free(p->blocks[i]->graph);
    if (p->blocks[i]->locked) pthread_mutex_destroy(&p->blocks[i]->lock);
  }
  tni_cm_mem mem = p->mem;
  tni_cm_free(&mem);
}
