/* SPDX-License-Identifier: Apache-2.0
 *
 * The nodes that the host took become steps. All of them are one task, whose images stay in blocked layout; a host that
 * checks results (TN_HOST_CHECKED) gets a task a step, with every value whole and dense between them.
 *
 * Constants come raw and are used once: set() reorders them into the one private slot, which the task reads. */
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

static void find_constants(tn_program *p, const tn_graph *g) {
  for (uint32_t i = 0; i < p->n_steps; i++) {
    const step *s = &p->steps[i];
    if (s->w != TN_NONE) add_constant(p, s->w);
    if (s->bias != TN_NONE) add_constant(p, s->bias);
    for (uint32_t k = 0; k < s->n_posts; k++)
      if (s->posts[k].other != TN_NONE && g->values[s->posts[k].other]->kind == TN_VALUE_CONST)
        add_constant(p, s->posts[k].other);
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

/* Use 0 is the private memory. */
static void make_part(tn_program *p, const tn_subgraph *s, uint32_t i, int between, tn_use **uses, tn_id **nodes) {
  part *t = &p->parts[i];
  t->before = i - 1;
  t->uses = *uses;
  snprintf(t->name, sizeof t->name, "%s", s->graph->nodes[p->steps[t->first].nodes[0]]->name);
  t->task = (tn_task){.h = TN_HDR(tn_task), .name = t->name, .engine = 1,
      .uses = t->uses, .deps = &t->before, .nodes = *nodes, .n_deps = i > 0};
  t->uses[t->task.n_uses++] = (tn_use){0, TN_READ};
  for (uint32_t k = t->first; k < t->first + t->n; k++) {
    const step *x = &p->steps[k];
    add_use(p, s, t, x->x, TN_READ, between);
    for (uint32_t o = 0; o < x->n_posts; o++)
      if (x->posts[o].other != TN_NONE) add_use(p, s, t, x->posts[o].other, TN_READ, between);
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
  uint64_t n = 4;
  for (uint32_t i = 0; i < g->values[v]->rank; i++) {
    int64_t lo = 0, hi;
    if (p->device->host->range(g, g->values[v]->dims[i], &lo, &hi) != TN_OK || lo < 0 ||
        __builtin_mul_overflow(n, (uint64_t)lo, &n))
      return UINT64_MAX;
  }
  return n;
}

/* How many slices a step's result has: the same for any number of workers, so that bits do not depend on it. */
static uint32_t slices_of(const device *d, const step *s) {
  if (s->kind == CONV && s->form == PLAIN) return 1;
  if (s->kind == CONV && s->form == GROUPED) return (uint32_t)s->groups;
  const int64_t unit = s->kind == PRODUCT ? 64 : d->block, n = s->kind == PRODUCT ? s->N : up(s->OC, unit);
  for (uint32_t k = SLICES; k > 1; k--)
    if (n % k == 0 && (n / k % unit == 0 || (s->kind == PRODUCT && n / k >= unit))) return k;
  return 1;
}

/* Chooses how the weights of a step lie, at sizes that stand for all others. */
static tn_status choose_layout(tn_program *p, step *s) {
  const int64_t in[2] = {s->dilation[0] * (s->kernel[0] - 1) + 1 + 13 * s->stride[0],
      s->dilation[1] * (s->kernel[1] - 1) + 1 + 13 * s->stride[1]}, out[2] = {14, 14};
  dnnl_primitive_desc_t pd = NULL;
  s->slices = slices_of(p->device, s);
  if (s->kind == POOL) return TN_OK;
  step nominal = *s;
  memset(nominal.pads, 0, sizeof nominal.pads);
  nominal.auto_pad = 0;
  nominal.n_posts = 0;
  const int threads = one_thread();
  if (s->kind == CONV ? describe_conv(p->device, &nominal, in, out, NULL, &pd)
                      : describe_product(p->device, &nominal, 64, NULL, &pd))
    pd = NULL;
  as_before(threads);
  if (!pd) return TN_E_UNSUPPORTED;
  s->packed = *dnnl_primitive_desc_query_md(pd, dnnl_query_weights_md, 0);
  (void)!dnnl_primitive_desc_destroy(pd);
  s->packed_bytes = (uint64_t)up((int64_t)dnnl_memory_desc_get_size(&s->packed), 64);
  s->packed_at = p->private_bytes;
  p->private_bytes += s->packed_bytes * s->slices;
  s->bias_at = p->private_bytes;
  if (s->bias != TN_NONE) p->private_bytes += (uint64_t)up(up(s->OC, p->device->block) * 4, 64);
  return TN_OK;
}

static void place_constants(tn_program *p, const tn_graph *g, step *s) {
  for (uint32_t k = 0; k < s->n_posts; k++) {
    const tn_id v = s->posts[k].other;
    if (v == TN_NONE || g->values[v]->kind != TN_VALUE_CONST) continue;
    s->posts[k].constant = 1;
    s->posts[k].constant_at = p->private_bytes;
    p->private_bytes += (uint64_t)up((int64_t)constant_bytes(p, g, v), 64);
  }
}

static tn_status fill(tn_program *p, const tn_subgraph *s, tn_use *uses, tn_id *nodes) {
  tn_status st = make_steps(p, s);
  if (st != TN_OK) return st;
  const int between = (p->device->host->flags & TN_HOST_CHECKED) != 0;
  find_constants(p, s->graph);
  for (uint32_t i = 0; st == TN_OK && i < p->n_steps; i++) {
    st = choose_layout(p, &p->steps[i]);
    place_constants(p, s->graph, &p->steps[i]);
  }
  p->value_slots[0] = (tn_slot){.h = TN_HDR(tn_slot), .name = "weights as oneDNN wants them", .kind = TN_SLOT_PRIVATE,
      .engines = 1 << 1, .align = 64, .value = TN_NONE, .need = TN_NONE, .alias = TN_NONE};
  p->slots[p->info.n_slots++] = &p->value_slots[p->n_value_slots++];
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
  return st;
}

void release(tn_program *p) { p->device->host->free(p->device->host->ctx, p); }

/* One block of memory: every array has room for the most that n nodes can have. */
tn_status lower(tn_device *pub, const tn_subgraph *s, tn_program **out, tn_error *err) {
  const tn_host *h = ((device *)pub)->host;
  const size_t n = s->n_nodes, values = s->graph->n_values, constants = n * (2 + MAX_POSTS),
               uses = n * (3 + MAX_POSTS), slots = 1 + constants + uses;
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
