/* SPDX-License-Identifier: Apache-2.0
 *
 * Subgraph -> program: one task per product or per group of siblings.
 */
#include <string.h>

#include "plugins/common/graphq.h"
#include "plugins/cpu-avx2-lut/match.h"
#include "plugins/cpu-avx2-lut/program.h"

typedef struct builder {
  const tni_cal_device *d;
  const tn_subgraph *s;
  tn_program *p;
  tni_cal_match *match; /* [s->n_nodes] */
  uint8_t *done;        /* [s->n_nodes]: belongs to a task */
  tni_cal_task *task;   /* being built */
  tn_use *uses;         /* of it */
  tn_id *deps;
  bool no_memory;
} builder;

static void *get(builder *b, size_t count, size_t size) {
  void *p = tni_cm_new(&b->p->mem, count ? count : 1, size);
  if (!p) b->no_memory = true;
  return p;
}

static tni_cal_dims copy_dims(builder *b, const tn_expr *e, uint32_t rank) {
  tn_expr *c = get(b, rank, sizeof *c);
  if (c && rank) memcpy(c, e, rank * sizeof *c);
  return (tni_cal_dims){c, c ? rank : 0};
}

/* --- slots and needs ------------------------------------------------------------------------------------------- */

static uint32_t add_need(builder *b, const tn_format *format, const tn_id *values, uint32_t n, bool kn) {
  tn_need *need = get(b, 1, sizeof *need);
  tn_id *copy = get(b, n, sizeof *copy);
  if (!need || !copy) return TN_NONE;
  memcpy(copy, values, n * sizeof *copy);
  *need = (tn_need){.h = TN_HDR(tn_need),
                    .format = format,
                    .values = copy,
                    .n_values = n,
                    .residency = TN_RESIDENCY_HOST,
                    .flags = kn ? TN_NEED_KN : 0};
  if (format) {
    int64_t *params = get(b, 1, sizeof *params);
    if (!params) return TN_NONE;
    *params = b->d->set.group;
    need->params = params;
    need->n_params = 1;
  }
  b->p->needs[b->p->info.n_needs] = need;
  return b->p->info.n_needs++;
}

static tni_cal_slot *new_slot(builder *b, uint32_t kind, tn_id value, tn_id need, const char *name) {
  tni_cal_slot *s = get(b, 1, sizeof *s);
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
  if (v) s->dims = copy_dims(b, v->dims, v->rank);
  b->p->slots[b->p->info.n_slots++] = s;
  return s;
}

static uint32_t find_slot(const builder *b, tn_id value) {
  for (uint32_t i = 0; i < b->p->info.n_slots; i++)
    if (b->p->slots[i]->pub.value == value) return i;
  return TN_NONE;
}

/* The slot of a value that a task reads; made on first use. */
static uint32_t slot_to_read(builder *b, tn_id value) {
  uint32_t at = find_slot(b, value);
  if (at != TN_NONE) return at;
  const tn_value *v = b->s->graph->values[value];
  uint32_t kind = v->kind == TN_VALUE_CONST ? TN_SLOT_WEIGHT : v->kind == TN_VALUE_STEP ? TN_SLOT_STEP : TN_SLOT_INPUT;
  tn_id need = kind == TN_SLOT_WEIGHT ? add_need(b, NULL, &value, 1, false) : TN_NONE;
  at = b->p->info.n_slots;
  return !b->no_memory && new_slot(b, kind, value, need, v->name) ? at : TN_NONE;
}

static uint32_t slot_to_write(builder *b, tn_id value) {
  bool outside = false;
  for (uint32_t i = 0; i < b->s->n_outputs; i++) outside = outside || b->s->outputs[i] == value;
  uint32_t at = b->p->info.n_slots;
  tni_cal_slot *s =
      new_slot(b, outside ? TN_SLOT_OUTPUT : TN_SLOT_TEMP, value, TN_NONE, b->s->graph->values[value]->name);
  if (s) s->writer = b->p->info.n_tasks;
  return s ? at : TN_NONE;
}

/* --- tasks ----------------------------------------------------------------------------------------------------- */

/* Adds a use and returns its index; a read of what an earlier task wrote becomes a dependency. */
static uint32_t add_use(builder *b, uint32_t slot, uint32_t access) {
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

static bool start_task(builder *b, uint32_t kind, const char *prefix, const tni_cal_match *m, uint32_t max_uses,
                       uint32_t max_nodes) {
  tn_id *nodes = get(b, max_nodes, sizeof *nodes);
  b->task = get(b, 1, sizeof *b->task);
  b->uses = get(b, max_uses, sizeof *b->uses);
  b->deps = get(b, max_uses, sizeof *b->deps);
  if (b->no_memory) return false;
  b->task->kind = kind;
  b->task->pub = (tn_task){.h = TN_HDR(tn_task),
                           .uses = b->uses,
                           .deps = b->deps,
                           .nodes = nodes,
                           .name = tni_cm_text(&b->p->mem, prefix, b->s->graph->nodes[m->node]->name)};
  if (!b->task->pub.name) b->no_memory = true;
  return !b->no_memory;
}

static void finish_task(builder *b) {
  if (!b->no_memory) b->p->tasks[b->p->info.n_tasks++] = b->task;
}

static void add_node(builder *b, tn_id node) {
  tn_task *t = &b->task->pub;
  ((tn_id *)t->nodes)[t->n_nodes++] = node;
}

static void add_part(builder *b, const tni_cal_match *m, int64_t n0) {
  tni_cal_part *part = &b->task->parts[b->task->n_parts++];
  *part = (tni_cal_part){
      .n0 = n0, .N = m->N, .bias_use = TN_NONE, .bias_scalar = m->bias_scalar, .alpha = m->alpha, .beta = m->beta};
  part->y_use = add_use(b, slot_to_write(b, m->y), TN_WRITE);
  if (m->bias != TN_NONE) part->bias_use = add_use(b, slot_to_read(b, m->bias), TN_READ);
  if (m->transpose != TN_NONE) add_node(b, m->transpose);
  add_node(b, m->node);
}

static void lower_float(builder *b, uint32_t i) {
  const tni_cal_match *m = &b->match[i];
  const tn_graph *g = b->s->graph;
  b->done[i] = 1;
  if (!start_task(b, TNI_CAL_FLOAT, "matmul ", m, 4, 1)) return;
  tni_cal_task *t = b->task;
  t->parts = get(b, 1, sizeof *t->parts);
  if (b->no_memory) return;
  t->trans_b = m->trans_b;
  t->x = copy_dims(b, g->values[m->x]->dims, g->values[m->x]->rank);
  t->w = copy_dims(b, g->values[m->w]->dims, g->values[m->w]->rank);
  add_use(b, slot_to_read(b, m->x), TN_READ);
  t->w_use = add_use(b, slot_to_read(b, m->w), TN_READ);
  add_part(b, m, 0);
  t->pub.symbols = tni_cm_symbols(b->d->host, g, t->x.e, t->x.rank) | tni_cm_symbols(b->d->host, g, t->w.e, t->w.rank);
  finish_task(b);
}

/* Index in s->nodes of a node that must stand there with group `group`; TN_NONE if it does not. */
static uint32_t find_node(const builder *b, tn_id node, tn_id group) {
  for (uint32_t i = 0; i < b->s->n_nodes; i++)
    if (b->s->nodes[i] == node) return b->s->group_of[i] == group ? i : TN_NONE;
  return TN_NONE;
}

/* Members of the task whose first product is i: itself, and its siblings in the same group. */
static uint32_t collect(builder *b, uint32_t i, uint32_t *members, tn_error *err) {
  const tn_subgraph *s = b->s;
  uint32_t n = 0;
  int64_t N = 0;
  for (uint32_t j = i; j < s->n_nodes; j++) {
    const tni_cal_match *m = &b->match[j];
    bool same = j == i || (s->group_of[i] != TN_NONE && s->group_of[j] == s->group_of[i] && !b->done[j] &&
                           tni_cal_siblings(&b->match[i], m));
    if (!same || N > TNI_W4G_MAX_DIM - m->N) continue;
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

static tn_status lower_packed(builder *b, uint32_t i, uint32_t *members, tn_error *err) {
  const tni_cal_match *m = &b->match[i];
  const tn_value *x = b->s->graph->values[m->x];
  uint32_t n = collect(b, i, members, err);
  if (n == 0) return TN_E_INVALID;
  if (!start_task(b, TNI_CAL_PACKED, "linear ", m, 2 + 2 * n, 2 * n)) return TN_E_NO_MEMORY;
  tni_cal_task *t = b->task;
  tn_id *values = get(b, n, sizeof *values);
  t->parts = get(b, n, sizeof *t->parts);
  if (b->no_memory) return TN_E_NO_MEMORY;
  int64_t N = 0;
  for (uint32_t k = 0; k < n; k++) {
    values[k] = b->match[members[k]].w;
    N += b->match[members[k]].N;
  }
  tn_status st = tni_w4g_geometry_of(N, m->K, b->d->set.group, &t->geo);
  if (st != TN_OK) return tni_cm_fail(err, st, t->pub.name, "the joined matrix is too large");
  t->x = copy_dims(b, x->dims, x->rank);
  add_use(b, slot_to_read(b, m->x), TN_READ);
  tn_id need = add_need(b, &tni_w4g_format, values, n, m->kn);
  uint32_t slot = b->p->info.n_slots;
  if (need == TN_NONE || !new_slot(b, TN_SLOT_WEIGHT, TN_NONE, need, t->pub.name)) return TN_E_NO_MEMORY;
  t->w_use = add_use(b, slot, TN_READ);
  N = 0;
  for (uint32_t k = 0; k < n; k++) {
    add_part(b, &b->match[members[k]], N);
    N += b->match[members[k]].N;
  }
  t->pub.symbols = x->rank ? tni_cm_symbols(b->d->host, b->s->graph, x->dims, x->rank - 1) : 0;
  finish_task(b);
  return b->no_memory ? TN_E_NO_MEMORY : TN_OK;
}

static bool reserve(builder *b) {
  size_t n = b->s->n_nodes, slots = n;
  for (uint32_t i = 0; i < n; i++) {
    const tn_node *node = b->s->graph->nodes[b->s->nodes[i]];
    slots += (size_t)node->n_in + node->n_out;
  }
  b->match = get(b, n, sizeof *b->match);
  b->done = get(b, n, sizeof *b->done);
  b->p->tasks = get(b, n, sizeof *b->p->tasks);
  b->p->slots = get(b, slots, sizeof *b->p->slots);
  b->p->needs = get(b, slots, sizeof *b->p->needs);
  return !b->no_memory;
}

static tn_status lower_all(builder *b, tn_error *err) {
  uint32_t *members = get(b, b->s->n_nodes, sizeof *members);
  if (!reserve(b) || !members) return TN_E_NO_MEMORY;
  for (uint32_t i = 0; i < b->s->n_nodes; i++) tni_cal_match_node(b->d, b->s->graph, b->s->nodes[i], &b->match[i]);
  tn_status st = TN_OK;
  for (uint32_t i = 0; st == TN_OK && i < b->s->n_nodes; i++) {
    if (b->done[i]) continue;
    if (b->match[i].kind == TNI_CAL_PACKED) st = lower_packed(b, i, members, err);
    if (b->match[i].kind == TNI_CAL_FLOAT) lower_float(b, i);
    if (b->no_memory) st = TN_E_NO_MEMORY;
  }
  for (uint32_t i = 0; st == TN_OK && i < b->s->n_nodes; i++)
    if (!b->done[i])
      st = tni_cm_fail(err, TN_E_INVALID, b->s->graph->nodes[b->s->nodes[i]]->name,
                       "node %u was not claimed by " TNI_CAL_NAME, b->s->nodes[i]);
  return st;
}

tn_status tni_cal_lower(tn_device *dev, const tn_subgraph *s, tn_program **out, tn_error *err) {
  const tni_cal_device *d = (const tni_cal_device *)dev;
  tni_cm_mem mem = {.host = d->host};
  tn_program *p = tni_cm_new(&mem, 1, sizeof *p);
  if (!p) return tni_cm_fail(err, TN_E_NO_MEMORY, TNI_CAL_NAME, "out of memory");
  p->mem = mem;
  p->device = d;
  p->graph = *s->graph;
  p->graph.nodes = NULL; /* lent for this call only */
  p->graph.values = NULL;
  p->graph.symbols = NULL;
  builder b = {.d = d, .s = s, .p = p};
  tn_status st = lower_all(&b, err);
  if (st != TN_OK) {
    tni_cal_release(p);
    return st == TN_E_NO_MEMORY ? tni_cm_fail(err, st, TNI_CAL_NAME, "out of memory") : st;
  }
  p->info.h = (tn_hdr)TN_HDR(tn_program_info);
  p->info.needs = (const tn_need *const *)p->needs;
  p->info.slots = (const tn_slot *const *)p->slots;
  p->info.tasks = (const tn_task *const *)p->tasks;
  *out = p;
  return TN_OK;
}

const tn_program_info *tni_cal_info(const tn_program *p) { return &p->info; }

void tni_cal_release(tn_program *p) {
  if (!p) return;
  tni_cm_mem mem = p->mem;
  tni_cm_free(&mem);
}
