/* SPDX-License-Identifier: Apache-2.0
 *
 * The nodes that the host took become steps. All of them are one task, whose images keep their channels last; a host that
 * checks results (TN_HOST_CHECKED) gets a task a step, with every value whole and dense between them.
 *
 * Constants come raw; set() makes XNNPACK's operators of them, which keep packed copies. */
#include <stdio.h>
#include <string.h>

#include "backend.h"

static int holds(const tn_id *list, uint32_t n, tn_id v) {
  for (uint32_t i = 0; i < n; i++)
    if (list[i] == v) return 1;
  return 0;
}

/* The node that follows nodes[i] in its group; TN_NONE where it is alone; *inner: it is the second one. */
static tn_id partner(const tn_subgraph *s, uint32_t i, int *inner) {
  *inner = 0;
  if (!s->group_of || s->group_of[i] == TN_NONE) return TN_NONE;
  for (uint32_t k = 0; k < s->n_nodes; k++) {
    if (k == i || s->group_of[k] != s->group_of[i]) continue;
    *inner = s->graph->nodes[s->nodes[i]]->op != TN_OP_CONV || s->nodes[k] < s->nodes[i];
    return s->nodes[k];
  }
  return TN_NONE;
}

/* Steps stand where their last node stands: what it reads is there then. */
static tn_status make_steps(tn_program *p, const tn_subgraph *s) {
  for (uint32_t i = 0; i < s->n_nodes; i++) {
    const char *text;
    int inner;
    const tn_id with = partner(s, i, &inner);
    if (with != TN_NONE && !inner) continue;
    const tn_id first = inner ? with : s->nodes[i], next = inner ? s->nodes[i] : TN_NONE;
    if (read_step(p->device, s->graph, first, next, &p->steps[p->n_steps], &text) != TN_WHY_NONE) return TN_E_INVALID;
    p->n_steps++;
  }
  return TN_OK;
}

static void add_constant(tn_program *p, tn_id v) {
  for (uint32_t i = 0; i < p->n_constants; i++)
    if (p->constants[i].value == v) return;
  constant *c = &p->constants[p->n_constants];
  c->value = v;
  c->need = (tn_need){.h = TN_HDR(tn_need), .values = &c->value, .n_values = 1, .residency = TN_RESIDENCY_HOST};
  c->slot = (tn_slot){.h = TN_HDR(tn_slot), .name = "constant", .kind = TN_SLOT_WEIGHT,
      .engines = 1, /* set() reads it, on the CPU */
      .align = 16, .value = v, .need = p->n_constants, .alias = TN_NONE};
  p->needs[p->n_constants++] = &c->need;
}

static void find_constants(tn_program *p) {
  for (uint32_t i = 0; i < p->n_steps; i++) {
    const step *s = &p->steps[i];
    for (uint32_t k = 0; k < CONSTANTS; k++)
      if (s->constants[k] != TN_NONE) add_constant(p, s->constants[k]);
  }
}

static tn_id value_slot(tn_program *p, const tn_subgraph *s, tn_id v, int between) {
  if (p->slot_of[v] != TN_NONE) return p->slot_of[v];
  uint32_t kind = holds(s->inputs, s->n_inputs, v) ? TN_SLOT_INPUT : TN_SLOT_OUTPUT;
  if (kind == TN_SLOT_OUTPUT && !holds(s->outputs, s->n_outputs, v)) {
    if (!between) return TN_NONE;
    kind = TN_SLOT_TEMP;
  }
  if (kind == TN_SLOT_INPUT && s->graph->values[v]->kind == TN_VALUE_STEP) kind = TN_SLOT_STEP;
  tn_slot *room = &p->value_slots[p->n_value_slots++];
  *room = (tn_slot){.h = TN_HDR(tn_slot), .name = "value", .kind = kind, .engines = 1 << 1,
      .align = 64, .value = v, .need = TN_NONE, .alias = TN_NONE};
  p->slots[p->info.n_slots] = room;
  return p->slot_of[v] = p->info.n_slots++;
}

static void add_use(tn_program *p, const tn_subgraph *s, part *t, tn_id v, uint32_t access, int between) {
  const tn_value *x = s->graph->values[v];
  if (x->kind == TN_VALUE_CONST) return;
  const tn_id slot = value_slot(p, s, v, between);
  for (uint32_t i = 0; i < x->rank; i++) t->task.symbols |= p->device->host->symbols(s->graph, x->dims[i]);
  if (slot == TN_NONE) return;
  for (uint32_t i = 0; i < t->task.n_uses; i++)
    if (t->uses[i].slot == slot) {
      t->uses[i].access |= access;
      return;
    }
  t->uses[t->task.n_uses++] = (tn_use){slot, access};
}

static void make_part(tn_program *p, const tn_subgraph *s, uint32_t i, int between, tn_use **uses, tn_id **nodes) {
  part *t = &p->parts[i];
  t->before = i - 1;
  t->uses = *uses;
  snprintf(t->name, sizeof t->name, "%s", s->graph->nodes[p->steps[t->first].nodes[0]]->name);
  t->task = (tn_task){.h = TN_HDR(tn_task), .name = t->name, .engine = 1,
      .uses = t->uses, .deps = &t->before, .nodes = *nodes, .n_deps = i > 0};
  for (uint32_t k = t->first; k < t->first + t->n; k++) {
    const step *x = &p->steps[k];
    add_use(p, s, t, x->x, TN_READ, between);
    add_use(p, s, t, x->y, TN_WRITE, between);
    for (uint32_t n = 0; n < x->n_nodes; n++) (*nodes)[t->task.n_nodes++] = x->nodes[n];
  }
  /* What a task both makes and reads itself is written only. */
  for (uint32_t u = 0; u < t->task.n_uses; u++)
    if (t->uses[u].access & TN_WRITE) t->uses[u].access = TN_WRITE;
  *uses += t->task.n_uses;
  *nodes += t->task.n_nodes;
  p->tasks[i] = &t->task;
}

static uint64_t constant_bytes(const tn_program *p, const tn_graph *g, tn_id v) {
  const uint32_t type = g->values[v]->dtype;
  uint64_t n = type == TN_DT_I8 || type == TN_DT_U8 ? 1 : 4; /* else float32 or int32 */
  for (uint32_t i = 0; i < g->values[v]->rank; i++) {
    int64_t lo = 0, hi;
    if (p->device->host->range(g, g->values[v]->dims[i], &lo, &hi) != TN_OK || lo < 0 ||
        __builtin_mul_overflow(n, (uint64_t)lo, &n))
      return UINT64_MAX;
  }
  return n;
}

/* How many slices a step's result has: the same for any number of workers, so that bits do not depend on it. */
static uint32_t slices_of(const step *s) {
  const int64_t n = s->OC;
  if (s->groups > 1 && (s->groups != s->C || s->groups != s->OC)) return 1;
  for (uint32_t k = SLICES; k > 1; k--)
    if (n % k == 0 && n / k >= 16) return k;
  return 1;
}

static tn_status fill(tn_program *p, const tn_subgraph *s, tn_use *uses, tn_id *nodes) {
  const int between = (p->device->host->flags & TN_HOST_CHECKED) != 0;
  const tn_status st = make_steps(p, s);
  if (st != TN_OK) return st;
  find_constants(p);
  for (uint32_t i = 0; i < p->n_steps; i++) p->steps[i].slices = slices_of(&p->steps[i]);
  for (uint32_t i = 0; i < p->n_constants; i++) {
    p->slots[p->info.n_slots++] = &p->constants[i].slot;
    p->constants[i].bytes = constant_bytes(p, s->graph, p->constants[i].value);
  }
  for (uint32_t i = 0; i < (between ? p->n_steps : 1); i++) {
    p->parts[i].first = i;
    p->parts[i].n = between ? 1 : p->n_steps;
    make_part(p, s, i, between, &uses, &nodes);
    p->info.n_tasks++;
  }
  p->info.n_needs = p->n_constants;
  return TN_OK;
}

void release(tn_program *p) {
  for (uint32_t i = 0; i < p->n_steps; i++)
    for (uint32_t k = 0; k < p->steps[i].slices; k++)
      if (p->steps[i].op[k]) (void)xnn_delete_operator(p->steps[i].op[k]);
  p->device->host->free(p->device->host->ctx, p);
}

/* One block of memory: every array has room for the most that n nodes can have. */
tn_status lower(tn_device *pub, const tn_subgraph *s, tn_program **out, tn_error *err) {
  const tn_host *h = ((device *)pub)->host;
  const size_t n = s->n_nodes, values = s->graph->n_values, constants = n * CONSTANTS,
               uses = n * 2, slots = 1 + constants + uses;
  const size_t room[] = {sizeof(tn_program), constants * sizeof(constant), n * sizeof(part), n * sizeof(step),
      (1 + uses) * sizeof(tn_slot), constants * sizeof(void *), slots * sizeof(void *), n * sizeof(void *),
      (uses + n) * sizeof(tn_use), values * sizeof(tn_id), n * sizeof(tn_id)};
  unsigned char *at[sizeof room / sizeof *room];
  size_t bytes = 0;
  for (size_t i = 0; i < sizeof room / sizeof *room; i++) bytes += (room[i] + 63) & ~(size_t)63;
  tn_program *p = h->alloc(h->ctx, bytes, 64, TN_TAG_PLUGIN);
  if (!p) return fail(err, TN_E_NO_MEMORY, "no memory for a program");
  memset(p, 0, bytes);
  at[0] = (unsigned char *)p;
  for (size_t i = 1; i < sizeof room / sizeof *room; i++) at[i] = at[i - 1] + ((room[i - 1] + 63) & ~(size_t)63);
  p->device = (device *)pub;
  p->graph = (tn_graph){.h = TN_HDR(tn_graph), .ctx = s->graph->ctx, .n_values = s->graph->n_values};
  p->constants = (constant *)(void *)at[1], p->parts = (part *)(void *)at[2], p->steps = (step *)(void *)at[3];
  p->value_slots = (tn_slot *)(void *)at[4], p->needs = (void *)at[5], p->slots = (void *)at[6];
  p->tasks = (void *)at[7], p->slot_of = (tn_id *)(void *)at[9];
  memset(p->slot_of, 0xff, values * sizeof(tn_id));
  p->info = (tn_program_info){.h = TN_HDR(tn_program_info), .needs = p->needs, .slots = p->slots, .tasks = p->tasks};
  const tn_status st = fill(p, s, (tn_use *)(void *)at[8], (tn_id *)(void *)at[10]);
  if (st != TN_OK) {
    release(p);
    return fail(err, st, "the nodes cannot be lowered");
  }
  *out = p;
  return TN_OK;
}
