/* SPDX-License-Identifier: Apache-2.0
 *
 * noop: takes every node, computes nothing. One task per node with the node's operands as slots; constants are not
 * asked for, so nothing is packed.
 */
#include <stdlib.h>
#include <string.h>

#define PLUGIN_NAME "noop"
#define PLUGIN_VERSION "0.0.1"
#include "../../tests/kit/skeleton.h"

struct tn_program {
  backend *owner;
  tn_graph graph;
  tn_program_info info;
  tn_slot *slots;
  tn_task *tasks;
  const tn_slot **slots_p;
  const tn_task **tasks_p;
  tn_use *uses; /* of all tasks, one after the other; deps and nodes likewise */
  tn_id *deps, *nodes;
  tn_expr (*dims)[TN_MAX_RANK]; /* per slot */
  uint32_t *rank;
};

struct tn_plan {
  tn_program *program;
};

struct tn_args {
  uint32_t n;
};

static tn_status claim(tn_device *d, const tn_graph *g, const tn_dims *at, const tn_claim_sink *sink, tn_error *err) {
  const tn_claim yes = {.h = TN_HDR(tn_claim), .verdict = TN_YES};
  (void)d, (void)at, (void)err;
  for (tn_id i = 0; i < g->n_nodes; i++) {
    tn_status st = sink->node(sink->ctx, i, &yes);
    if (st != TN_OK) return st;
  }
  return TN_OK;
}

static int has(const tn_id *list, uint32_t n, tn_id v) {
  for (uint32_t i = 0; i < n; i++)
    if (list[i] == v) return 1;
  return 0;
}

/* The first value of a cache stands for both. */
static tn_id root(const tn_graph *g, tn_id v) {
  const tn_value *val = g->values[v];
  return val->kind == TN_VALUE_STATE && val->producer != TN_NONE ? g->nodes[val->producer]->in[0] : v;
}

static uint32_t kind_of(const tn_subgraph *s, tn_id v) {
  switch (s->graph->values[v]->kind) {
    case TN_VALUE_STATE:
      return TN_SLOT_STATE;
    case TN_VALUE_STEP:
      return TN_SLOT_STEP;
    default:
      if (has(s->inputs, s->n_inputs, v)) return TN_SLOT_INPUT;
      return has(s->outputs, s->n_outputs, v) ? TN_SLOT_OUTPUT : TN_SLOT_TEMP;
  }
}

static tn_id slot_of(tn_program *p, const tn_subgraph *s, tn_id *slot_by_value, tn_id value) {
  const tn_id v = root(s->graph, value);
  const tn_value *val = s->graph->values[v];
  if (slot_by_value[v] != TN_NONE) return slot_by_value[v];
  const tn_id i = p->info.n_slots++;
  p->slots[i] = (tn_slot){.h = TN_HDR(tn_slot),
                          .name = val->name,
                          .kind = kind_of(s, v),
                          .engines = 1,
                          .align = 64,
                          .value = v,
                          .need = TN_NONE,
                          .alias = TN_NONE};
  p->slots_p[i] = &p->slots[i];
  p->rank[i] = val->rank;
  memcpy(p->dims[i], val->dims, val->rank * sizeof *val->dims);
  return slot_by_value[v] = i;
}

/* Appends a use, or widens the access of the one that is there. */
static void use(tn_task *t, tn_id slot, uint32_t access) {
  tn_use *u = (tn_use *)(uintptr_t)t->uses;
  for (uint32_t i = 0; i < t->n_uses; i++)
    if (u[i].slot == slot) {
      u[i].access |= access;
      return;
    }
  u[t->n_uses++] = (tn_use){slot, access};
}

static void dep(tn_task *t, tn_id task) {
  tn_id *d = (tn_id *)(uintptr_t)t->deps;
  for (uint32_t i = 0; i < t->n_deps; i++)
    if (d[i] == task) return;
  d[t->n_deps++] = task;
}

static void add_task(tn_program *p, const tn_subgraph *s, tn_id node, uint32_t at, tn_id *slot_by_value,
                     tn_id *task_of) {
  const tn_graph *g = s->graph;
  const tn_node *n = g->nodes[node];
  const uint32_t index = p->info.n_tasks++;
  tn_task *t = &p->tasks[index];
  p->nodes[index] = node;
  *t = (tn_task){.h = TN_HDR(tn_task),
                 .name = n->name,
                 .symbols = UINT64_MAX,
                 .uses = p->uses + at,
                 .deps = p->deps + at,
                 .nodes = p->nodes + index,
                 .n_nodes = 1};
  p->tasks_p[index] = t;
  for (uint32_t i = 0; i < n->n_in; i++) {
    const tn_id v = n->in[i];
    if (v == TN_NONE || g->values[v]->kind == TN_VALUE_CONST) continue;
    use(t, slot_of(p, s, slot_by_value, v), TN_READ);
    if (task_of[v] != TN_NONE) dep(t, task_of[v]);
  }
  for (uint32_t i = 0; i < n->n_out; i++) {
    const tn_id v = n->out[i];
    if (v == TN_NONE) continue;
    task_of[v] = index;
    use(t, slot_of(p, s, slot_by_value, v), g->values[v]->kind == TN_VALUE_STATE ? TN_APPEND : TN_WRITE);
  }
}

static void release(tn_program *p) {
  if (!p) return;
  void *parts[] = {p->slots, p->tasks, p->slots_p, p->tasks_p, p->uses, p->deps, p->nodes, p->dims, p->rank};
  for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) free(parts[i]);
  free(p);
}

static int allocate(tn_program *p, uint32_t nodes, uint32_t operands) {
  p->slots = calloc(operands, sizeof *p->slots);
  p->tasks = calloc(nodes, sizeof *p->tasks);
  p->slots_p = calloc(operands, sizeof *p->slots_p);
  p->tasks_p = calloc(nodes, sizeof *p->tasks_p);
  p->uses = calloc(operands, sizeof *p->uses);
  p->deps = calloc(operands, sizeof *p->deps);
  p->nodes = calloc(nodes, sizeof *p->nodes);
  p->dims = calloc(operands, sizeof *p->dims);
  p->rank = calloc(operands, sizeof *p->rank);
  return p->slots && p->tasks && p->slots_p && p->tasks_p && p->uses && p->deps && p->nodes && p->dims && p->rank;
}

static tn_status lower(tn_device *d, const tn_subgraph *s, tn_program **out, tn_error *err) {
  const tn_graph *g = s->graph;
  uint32_t operands = 1, at = 0;
  (void)err;
  for (uint32_t i = 0; i < s->n_nodes; i++)
    operands += (uint32_t)g->nodes[s->nodes[i]]->n_in + g->nodes[s->nodes[i]]->n_out;
  tn_program *p = calloc(1, sizeof *p);
  tn_id *map = malloc((size_t)g->n_values * 2 * sizeof *map + 1);
  if (!p || !map || !allocate(p, s->n_nodes + 1, operands)) {
    release(p);
    free(map);
    return TN_E_NO_MEMORY;
  }
  memset(map, 0xff, (size_t)g->n_values * 2 * sizeof *map);
  p->owner = backend_of(d);
  p->graph = *g;
  p->info = (tn_program_info){.h = TN_HDR(tn_program_info), .slots = p->slots_p, .tasks = p->tasks_p};
  for (uint32_t i = 0; i < s->n_nodes; i++) {
    add_task(p, s, s->nodes[i], at, map, map + g->n_values);
    at += (uint32_t)g->nodes[s->nodes[i]]->n_in + g->nodes[s->nodes[i]]->n_out;
  }
  free(map);
  *out = p;
  return TN_OK;
}

static const tn_program_info *info(const tn_program *p) { return &p->info; }

static tn_status measure(const tn_program *p, tn_id task, const tn_dims *dims, tn_measure *out) {
  const tn_host *h = p->owner->host;
  for (uint32_t u = 0; u < p->tasks[task].n_uses; u++) {
    const tn_id s = p->tasks[task].uses[u].slot;
    int64_t count = 1, n;
    if (p->slots[s].kind != TN_SLOT_TEMP) continue;
    for (uint32_t a = 0; a < p->rank[s]; a++) {
      if (h->eval(&p->graph, p->dims[s][a], dims, &n) != TN_OK) return TN_E_INVALID;
      count *= n;
    }
    out->slot_bytes[s] = (uint64_t)count * 8;
  }
  return TN_OK;
}

static tn_status set(tn_program *p, tn_id slot, const tn_view *view, const tn_blob *blob, tn_error *err) {
  (void)p, (void)slot, (void)view, (void)blob, (void)err;
  return TN_OK;
}

static tn_status bind(tn_program *p, tn_id task, const tn_dims *dims, tn_plan **out, tn_error *err) {
  (void)task, (void)dims, (void)err;
  *out = calloc(1, sizeof **out);
  if (!*out) return TN_E_NO_MEMORY;
  (*out)->program = p;
  return TN_OK;
}

static void unbind(tn_plan *p) { free(p); }

static tn_status args(tn_plan *plan, const tn_view *const *uses, uint32_t n, tn_args **out, tn_error *err) {
  (void)plan, (void)uses, (void)err;
  *out = calloc(1, sizeof **out);
  if (!*out) return TN_E_NO_MEMORY;
  (*out)->n = n;
  return TN_OK;
}

static tn_status args_set(tn_args *a, uint32_t i, const tn_view *view, tn_error *err) {
  (void)view, (void)err;
  return i < a->n ? TN_OK : TN_E_INVALID;
}

static void args_free(tn_args *a) { free(a); }

static tn_status run(const tn_plan *plan, tn_args *a, tn_run *r, tn_error *err) {
  (void)plan, (void)a, (void)r, (void)err;
  return TN_OK;
}

static void set_up(backend *p) {
  p->caps = (tn_caps){.h = TN_HDR(tn_caps), .name = "nothing", .driver = "none", .key = "noop"};
}

static tn_status ask_driver(backend *p, uint32_t *n, tn_error *err) {
  (void)p, (void)err;
  *n = 1;
  return TN_OK;
}

TN_PLUGIN(noop, entry)
