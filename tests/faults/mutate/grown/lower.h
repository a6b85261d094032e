/* SPDX-License-Identifier: Apache-2.0
 *
 * Nodes to tasks.
 */
static void release(tn_program *p) { p->host->free(p->host->ctx, p); }
static const tn_program_info *info(const tn_program *p) { return &p->info; }

static int holds(const tn_id *list, uint32_t n, tn_id v) {
  for (uint32_t i = 0; i < n; i++)
    if (list[i] == v) return 1;
  return 0;
}

static tn_id new_slot(tn_program *p, const char *name, uint32_t kind, tn_id value, tn_id need) {
  tn_slot *s = &p->slot[p->info.n_slots];
  *s = (tn_slot){.h = TN_HDR(tn_slot), .name = name, .kind = kind, .engines = 1, .align = 64, .value = value,
      .need = need, .alias = TN_NONE};
  p->slots[p->info.n_slots] = s;
  return p->info.n_slots++;
}

static tn_id slot_of(tn_program *p, const tn_subgraph *s, tn_id v) {
  const tn_value *val = s->graph->values[v];
  for (tn_id i = 0; i < p->info.n_slots; i++)
    if (p->slots[i]->value == v) return i;
  if (val->kind == TN_VALUE_CONST) {
    const uint32_t k = p->info.n_needs++;
    p->raw_value[k] = v;
    p->raw[k] = (tn_need){.h = TN_HDR(tn_need), .values = &p->raw_value[k], .n_values = 1, .residency = TN_RESIDENCY_HOST};
    p->needs[k] = &p->raw[k];
    return new_slot(p, "constant", TN_SLOT_WEIGHT, v, k);
  }
  const uint32_t kind = holds(s->inputs, s->n_inputs, v) ? (val->kind == TN_VALUE_STEP ? TN_SLOT_STEP : TN_SLOT_INPUT)
                        : holds(s->outputs, s->n_outputs, v) ? TN_SLOT_OUTPUT
                                                             : TN_SLOT_TEMP;
  return new_slot(p, "value", kind, v, TN_NONE);
}

/* The use of a slot, one for all who read it. */
static uint32_t use_of(step *t, tn_id slot, uint32_t access) {
  for (uint32_t i = 0; i < t->n_uses; i++)
    if (t->uses[i].slot == slot) return i;
  t->uses[t->n_uses] = (tn_use){slot, access};
  return t->n_uses++;
}

static void keep_dims(dims_of *to, const tn_value *v) {
  to->rank = v->rank;
  for (uint32_t i = 0; i < v->rank; i++) to->d[i] = v->dims[i];
}

static void read_parts(step *t, const tn_node *n, const int64_t *start) {
  const tn_attr *const *at = n->attr;
  t->n_parts = (uint32_t)(at[TN_FUSED_PARTS]->n / 3);
  t->n_ops = (uint32_t)(at[TN_FUSED_OPS]->n / 3);
  for (uint32_t i = 0; i < t->n_parts; i++) {
    const int64_t *part = at[TN_FUSED_PARTS]->u.ints + 3 * i;
    t->first[i] = start[part[0]] + part[1];
    t->count[i] = part[2];
  }
  for (uint32_t i = 0; i < 3 * t->n_ops; i++) t->ops[i] = at[TN_FUSED_OPS]->u.ints[i];
  for (uint32_t i = 0; i < t->n_ops; i++) t->floats[i] = at[TN_FUSED_FLOATS]->u.floats[i];
  for (uint32_t i = 0; i < n->n_out; i++) t->results[i] = at[TN_FUSED_RESULTS]->u.ints[i];
}

/* The operand of an instruction that is a product or a result, as an index of width[]. */
static uint32_t inner_operand(const step *t, int64_t r) {
  return r < t->n_parts ? (uint32_t)r : r < t->n_parts + t->n_extras ? TN_NONE : (uint32_t)(r - t->n_extras);
}

static void read_widths(step *t) {
  for (uint32_t i = 0; i < t->n_parts; i++) t->width[i] = t->count[i];
  for (uint32_t i = 0; i < t->n_ops; i++) {
    const uint32_t a = inner_operand(t, t->ops[3 * i + 1]);
    t->width[t->n_parts + i] = t->width[a != TN_NONE ? a : inner_operand(t, t->ops[3 * i + 2])];
  }
}

static tn_status read_product(step *t, const tn_host *h, const tn_graph *g, const tn_node *n) {
  int64_t start[TN_FUSED_MAX_PARTS + 1] = {0}, lo = 0, hi = 0;
  for (uint32_t w = 0; w < n_weights(n); w++) {
    const tn_value *v = input(g, n, 1 + w);
    if (h->range(g, v->dims[is_kn(n) ? 1 : 0], &lo, &hi) != TN_OK || lo != hi) return TN_E_INVALID;
    start[w + 1] = start[w] + lo;
    t->weights[w] = n->in[1 + w];
  }
  t->N = t->count[0] = start[n_weights(n)];
  t->n_parts = 1;
  t->alpha = 1;
  if (n->op == TN_OP_FUSED_MATMUL) read_parts(t, n, start);
  if (n->op == TN_OP_GEMM) {
    t->gemm = 1;
    t->alpha = (float)n->attr[TN_GEMM_ALPHA]->u.f;
    t->beta = (float)n->attr[TN_GEMM_BETA]->u.f;
    t->trans_a = n->attr[TN_GEMM_TRANS_A]->u.i != 0;
  }
  if (h->range(g, input(g, n, 1)->dims[is_kn(n) ? 0 : 1], &t->K, &hi) != TN_OK) return TN_E_INVALID;
  return t->K == hi ? TN_OK : TN_E_INVALID;
}

static void read_attributes(step *t, const tn_node *n) {
  const tn_attr *const *at = n->attr;
  if (n->op == TN_OP_LEAKY_RELU || n->op == TN_OP_ELU || n->op == TN_OP_HARD_SIGMOID) t->alpha = (float)at[0]->u.f;
  if (n->op == TN_OP_HARD_SIGMOID) t->beta = (float)at[TN_AT_HARD_SIGMOID_BETA]->u.f;
  if (n->op == TN_OP_SOFTMAX) t->axis = at[TN_SOFTMAX_AXIS]->u.i;
  if (n->op == TN_OP_RMS_NORMALIZATION) t->epsilon = at[TN_AT_RMS_NORMALIZATION_EPSILON]->u.f;
  if (n->op == TN_OP_LAYER_NORMALIZATION) t->epsilon = at[TN_AT_LAYER_NORMALIZATION_EPSILON]->u.f;
  for (uint32_t i = 0; n->op == TN_OP_TRANSPOSE && i < t->out.rank; i++)
    t->perm[i] = at[TN_TRANSPOSE_PERM]->n ? at[TN_TRANSPOSE_PERM]->u.ints[i] : (int64_t)t->out.rank - 1 - i;
}

static void add_weight(tn_program *p, step *t, const tn_node *n) {
  const uint32_t k = p->info.n_needs++;
  t->need = (tn_need){.h = TN_HDR(tn_need), .format = &g4, .values = t->weights, .n_values = n_weights(n),
      .residency = TN_RESIDENCY_HOST, .flags = is_kn(n) ? TN_NEED_KN : 0};
  p->needs[k] = &t->need;
  t->weight_slot = new_slot(p, "weights", TN_SLOT_WEIGHT, TN_NONE, k);
  use_of(t, t->weight_slot, TN_READ);
}

static tn_status add_step(tn_program *p, const tn_subgraph *s, uint32_t i) {
  const tn_graph *g = s->graph;
  const tn_node *n = g->nodes[s->nodes[i]];
  step *t = &p->steps[i];
  t->node = s->nodes[i];
  t->op = n->op;
  t->n_in = n->n_in;
  t->n_out = n->n_out;
  t->product = is_product(n);
  if (n->n_in > MAX_IN || n->n_out > TN_FUSED_MAX_PARTS) return TN_E_LIMIT;
  keep_dims(&t->out, g->values[n->out[0]]);
  read_attributes(t, n);
  if (t->product && read_product(t, p->host, g, n) != TN_OK) return TN_E_INVALID;
  for (uint32_t k = 0; k < n->n_in; k++) {
    if (t->product && k >= 1 && k <= n_weights(n)) continue;
    const uint32_t use = use_of(t, slot_of(p, s, n->in[k]), TN_READ);
    t->in_use[k] = use;
    keep_dims(&t->in[k], g->values[n->in[k]]);
    if (t->product && k > 0) {
      t->extra_use[t->n_extras] = use;
      t->extra[t->n_extras++] = t->in[k];
    }
    for (uint32_t d = 0; d < t->in[k].rank; d++) t->task.symbols |= p->host->symbols(g, t->in[k].d[d]);
  }
  if (t->product) {
    add_weight(p, t, n);
    read_widths(t);
  }
  t->out_use = t->n_uses;
  for (uint32_t o = 0; o < n->n_out; o++) {
    use_of(t, slot_of(p, s, n->out[o]), TN_WRITE);
    if (t->product) t->out_width[o] = t->width[inner_operand(t, t->results[o])];
  }
  uint32_t n_deps = 0;
  for (uint32_t k = 0; k < i; k++)
    for (uint32_t u = 0; u < t->out_use; u++)
      for (uint32_t o = p->steps[k].out_use; o < p->steps[k].n_uses; o++)
        if (p->steps[k].uses[o].slot == t->uses[u].slot && (!n_deps || t->deps[n_deps - 1] != k)) t->deps[n_deps++] = k;
  t->task = (tn_task){.h = TN_HDR(tn_task), .name = "grown", .symbols = t->task.symbols, .uses = t->uses, .deps = t->deps,
      .nodes = &t->node, .n_uses = t->n_uses, .n_deps = n_deps, .n_nodes = 1};
  p->tasks[i] = &t->task;
  return TN_OK;
}

static tn_status lower(tn_device *d, const tn_subgraph *s, tn_program **out, tn_error *err) {
  const tn_host *h = backend_of(d)->host;
  const size_t n = s->n_nodes, values = n * MAX_USES;
  const size_t bytes = sizeof(tn_program) + n * sizeof(step) + values * (sizeof(tn_slot) + sizeof(tn_need) +
                       sizeof(tn_id) + 3 * sizeof(void *)) + n * sizeof(void *) + n * n * sizeof(tn_id);
  tn_program *p = h->alloc(h->ctx, bytes, 64, TN_TAG_PLUGIN);
  if (!p) return fail(err, TN_E_NO_MEMORY, "no memory for a program");
  memset(p, 0, bytes);
  p->host = h;
  memcpy(&p->graph, s->graph, s->graph->h.size < sizeof p->graph ? s->graph->h.size : sizeof p->graph);
  p->slot = (tn_slot *)(void *)&p->steps[n];
  p->raw = (tn_need *)(void *)(p->slot + values);
  p->slots = (const tn_slot **)(void *)(p->raw + values);
  p->needs = (const tn_need **)(void *)(p->slots + values);
  p->constant = (const void **)(void *)(p->needs + values);
  p->tasks = (const tn_task **)(void *)(p->constant + values);
  p->raw_value = (tn_id *)(void *)(p->tasks + n);
  for (size_t i = 0; i < n; i++) p->steps[i].deps = p->raw_value + values + i * n;
  p->info = (tn_program_info){.h = TN_HDR(tn_program_info), .needs = p->needs, .slots = p->slots, .tasks = p->tasks};
  tn_status st = TN_OK;
  for (uint32_t i = 0; st == TN_OK && i < n; i++) st = add_step(p, s, i);
  if (st != TN_OK) {
    release(p);
    return fail(err, st, "the nodes cannot be lowered");
  }
  p->info.n_tasks = s->n_nodes;
  *out = p;
  return TN_OK;
}
