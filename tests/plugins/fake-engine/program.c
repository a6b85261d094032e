/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <string.h>

#include "fake.h"

static bool is_f32(const tn_graph *g, tn_id v) {
  return v < g->n_values && g->values[v]->dtype == TN_DT_F32 && g->values[v]->rank <= TN_MAX_RANK;
}

/* Why not, or NULL. */
static const char *refusal(const tn_graph *g, const tn_node *n, uint32_t *reason) {
  *reason = TN_WHY_OP;
  if (n->op != TN_OP_ADD || n->n_in != 2 || n->n_out != 1) return "fake-engine adds, nothing else";
  *reason = TN_WHY_DTYPE;
  if (!is_f32(g, n->in[0]) || !is_f32(g, n->in[1]) || !is_f32(g, n->out[0])) return "fake-engine adds float32 only";
  *reason = TN_WHY_NONE;
  return NULL;
}

/* Axis 1 of a result of rank 3 must have the length `chunk`. */
static bool is_static(const fake_device *d, const tn_graph *g, const tn_node *n, tn_constraint *k) {
  const tn_value *y = g->values[n->out[0]];
  if (!d->plugin->chunk || y->rank != 3) return false;
  *k = (tn_constraint){.lhs = y->dims[1], .rel = TN_REL_EQ, .rhs = d->plugin->chunk};
  return true;
}

tn_status fake_claim(tn_device *pub, const tn_graph *g, const tn_dims *at, const tn_claim_sink *sink, tn_error *err) {
  const fake_device *d = (const fake_device *)pub;
  (void)at;
  for (uint32_t i = 0; i < g->n_nodes; i++) {
    tn_claim c = {.h = TN_HDR(tn_claim)};
    tn_constraint k;
    const char *why = refusal(g, g->nodes[i], &c.reason);
    c.verdict = why ? TN_NO : TN_YES;
    if (why) snprintf(c.text, sizeof c.text, "%s", why);
    if (!why && is_static(d, g, g->nodes[i], &k)) {
      c.constraints = &k;
      c.n_constraints = 1;
    }
    tn_status st = sink->node(sink->ctx, i, &c);
    if (st != TN_OK) return fake_fail(err, st, "the host did not take a claim");
  }
  return TN_OK;
}

static bool lists(const tn_id *list, uint32_t n, tn_id v) {
  for (uint32_t i = 0; i < n; i++)
    if (list[i] == v) return true;
  return false;
}

static uint32_t slot_kind(const tn_subgraph *s, tn_id v) {
  if (s->graph->values[v]->kind == TN_VALUE_CONST) return TN_SLOT_WEIGHT;
  if (lists(s->inputs, s->n_inputs, v))
    return s->graph->values[v]->kind == TN_VALUE_STEP ? TN_SLOT_STEP : TN_SLOT_INPUT;
  return lists(s->outputs, s->n_outputs, v) ? TN_SLOT_OUTPUT : TN_SLOT_TEMP;
}

/* Slot of a value, made on first sight. */
static tn_id slot_of(tn_program *p, const tn_subgraph *s, tn_id v) {
  for (tn_id i = 0; i < p->n_slots; i++)
    if (p->slots[i].value == v) return i;
  tn_id id = p->n_slots++;
  const tn_value *val = s->graph->values[v];
  tn_slot *slot = &p->slots[id];
  *slot = (tn_slot){.h = TN_HDR(tn_slot),
                    .name = "slot",
                    .kind = slot_kind(s, v),
                    .engines = p->device->plugin->n_engines > 1 ? 1u << 1 | 1u << 2 : 1u << 1,
                    .align = 4,
                    .value = v,
                    .need = TN_NONE,
                    .alias = TN_NONE};
  p->slot_ptrs[id] = slot;
  p->shapes[id].slot = id;
  p->shapes[id].rank = val->rank;
  memcpy(p->shapes[id].dims, val->dims, val->rank * sizeof *val->dims);
  if (slot->kind == TN_SLOT_WEIGHT) {
    tn_id need = p->n_needs++;
    p->need_values[need] = v;
    p->needs[need] = (tn_need){
        .h = TN_HDR(tn_need), .values = &p->need_values[need], .n_values = 1, .residency = TN_RESIDENCY_DEVICE};
    p->need_ptrs[need] = &p->needs[need];
    slot->need = need;
  }
  return id;
}

static void add_task(tn_program *p, const tn_subgraph *s, tn_id node) {
  const tn_node *n = s->graph->nodes[node];
  fake_task *t = &p->tasks[p->n_tasks];
  tn_id a = slot_of(p, s, n->in[0]), b = slot_of(p, s, n->in[1]), out = slot_of(p, s, n->out[0]);
  t->node = node;
  t->a = p->shapes[a];
  t->b = p->shapes[b];
  t->out = p->shapes[out];
  uint32_t uses = 0, deps = 0;
  t->uses[uses++] = (tn_use){a, TN_READ};
  if (b != a) t->uses[uses++] = (tn_use){b, TN_READ};
  t->uses[uses++] = (tn_use){out, TN_WRITE};
  for (uint32_t i = 0; i < p->n_tasks; i++)
    if (p->tasks[i].out.slot == a || p->tasks[i].out.slot == b) t->deps[deps++] = i;
  snprintf(t->name, sizeof t->name, "fake-add-%u", p->n_tasks);
  uint32_t n_sym = s->graph->n_symbols;
  t->pub = (tn_task){.h = TN_HDR(tn_task),
                     .name = t->name,
                     .engine = 1 + node / 4 % (uint32_t)p->device->plugin->n_engines,
                     .symbols = n_sym >= 64 ? UINT64_MAX : (UINT64_C(1) << n_sym) - 1,
                     .uses = t->uses,
                     .deps = t->deps,
                     .nodes = &t->node,
                     .n_uses = uses,
                     .n_deps = deps,
                     .n_nodes = 1};
  p->task_ptrs[p->n_tasks++] = &t->pub;
}

static void *zalloc(const tn_host *h, size_t count, size_t size) {
  size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes)) return NULL;
  void *p = h->alloc(h->ctx, bytes, 16, TN_TAG_PLUGIN);
  return p ? memset(p, 0, bytes) : NULL;
}

void fake_release(tn_program *p) {
  if (!p) return;
  const tn_host *h = p->host;
  void *parts[] = {p->slots, p->slot_ptrs, p->needs,  p->need_values, p->need_ptrs,
                   p->tasks, p->task_ptrs, p->shapes, p->fixed,       p};
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) h->free(h->ctx, parts[i]);
}

tn_status fake_lower(tn_device *pub, const tn_subgraph *s, tn_program **out, tn_error *err) {
  fake_device *d = (fake_device *)pub;
  const tn_host *h = d->host;
  size_t n = s->n_nodes, values = 3 * n;
  tn_program *p = zalloc(h, 1, sizeof *p);
  if (!p) return fake_fail(err, TN_E_NO_MEMORY, "no memory for a program");
  p->device = d;
  p->host = h;
  p->graph = *s->graph;
  p->graph.nodes = NULL;
  p->graph.values = NULL;
  p->graph.symbols = NULL;
  p->slots = zalloc(h, values, sizeof *p->slots);
  p->slot_ptrs = zalloc(h, values, sizeof *p->slot_ptrs);
  p->needs = zalloc(h, values, sizeof *p->needs);
  p->need_values = zalloc(h, values, sizeof *p->need_values);
  p->need_ptrs = zalloc(h, values, sizeof *p->need_ptrs);
  p->tasks = zalloc(h, n, sizeof *p->tasks);
  p->task_ptrs = zalloc(h, n, sizeof *p->task_ptrs);
  p->shapes = zalloc(h, values, sizeof *p->shapes);
  p->fixed = zalloc(h, values, sizeof *p->fixed);
  bool ok = p->slots && p->slot_ptrs && p->needs && p->need_values && p->need_ptrs && p->tasks && p->task_ptrs &&
            p->shapes && p->fixed;
  if (!ok) {
    fake_release(p);
    return fake_fail(err, TN_E_NO_MEMORY, "no memory for a program");
  }
  for (uint32_t i = 0; i < s->n_nodes; i++) {
    uint32_t reason;
    const char *why = refusal(s->graph, s->graph->nodes[s->nodes[i]], &reason);
    if (why) {
      fake_release(p);
      return fake_fail(err, TN_E_INVALID, "node %u was not claimed: %s", s->nodes[i], why);
    }
    add_task(p, s, s->nodes[i]);
  }
  p->info = (tn_program_info){.h = TN_HDR(tn_program_info),
                              .needs = p->need_ptrs,
                              .slots = p->slot_ptrs,
                              .tasks = p->task_ptrs,
                              .n_needs = p->n_needs,
                              .n_slots = p->n_slots,
                              .n_tasks = p->n_tasks};
  *out = p;
  return TN_OK;
}

const tn_program_info *fake_info(const tn_program *p) { return &p->info; }
