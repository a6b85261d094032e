/* SPDX-License-Identifier: Apache-2.0
 *
 * Claimed nodes -> program. Sizes are bounded by the node's own arity, so every table is allocated once.
 */
#include <math.h>

#include "runtime/host/device.h"

typedef struct host_build {
  tn_program *p;
  const tn_subgraph *s;
  uint32_t *slot_of; /* [n_values] TN_NONE: none yet */
  uint32_t *task_of; /* [n_values] producing task in here, TN_NONE */
  uint8_t *is_output;
  uint8_t *absorbed;     /* [n_nodes of the graph] part of another node's task */
  const tn_value **kept; /* [n_values] the program's copies so far */
  bool no_memory;
  uint32_t n_slots, n_needs, n_tasks;
  tn_error *err;
} host_build;

static const tni_core_graph *core_of(const host_build *b) { return b->p->dev->core; }

static const tn_value *copy_of(host_build *b, tn_id v) {
  if (!b->kept[v]) b->kept[v] = tni_hkeep_value(&b->p->pool, b->s->graph->values[v]);
  b->no_memory = b->no_memory || !b->kept[v];
  return b->kept[v];
}

static uint32_t slot_kind(const host_build *b, tn_id v) {
  const tn_value *val = b->s->graph->values[v];
  if (b->task_of[v] != TN_NONE) return b->is_output[v] ? TN_SLOT_OUTPUT : TN_SLOT_TEMP;
  if (val->kind == TN_VALUE_CONST) return TN_SLOT_WEIGHT;
  if (val->kind == TN_VALUE_STATE) return TN_SLOT_STATE;
  return val->kind == TN_VALUE_STEP ? TN_SLOT_STEP : TN_SLOT_INPUT;
}

static uint32_t new_slot(host_build *b, tn_id v, uint32_t kind) {
  tn_slot *s = &b->p->slots[b->n_slots];
  const tn_value *mine = b->p->values[b->n_slots] = copy_of(b, v);
  if (kind == TN_SLOT_WEIGHT) b->p->constants[b->n_slots] = core_of(b)->constant(b->s->graph, v);
  *s = (tn_slot){.h = TN_HDR(tn_slot),
                 .name = mine ? mine->name : "",
                 .kind = kind,
                 .engines = 1,
                 .align = 64,
                 .value = v,
                 .need = TN_NONE,
                 .alias = TN_NONE};
  return b->n_slots++;
}

/* The cache that v is one of the two values of, by the one without a producer. */
static tn_id state_root(const host_build *b, tn_id v) {
  const tn_value *val = b->s->graph->values[v];
  if (val->kind != TN_VALUE_STATE || val->producer == TN_NONE) return v;
  return b->s->graph->nodes[val->producer]->in[0];
}

static uint32_t slot_for(host_build *b, tn_id v) {
  v = state_root(b, v);
  if (b->slot_of[v] != TN_NONE) return b->slot_of[v];
  const uint32_t i = new_slot(b, v, slot_kind(b, v));
  b->slot_of[v] = i;
  if (b->p->slots[i].kind != TN_SLOT_WEIGHT) return i;
  b->p->slots[i].need = b->n_needs;
  tn_need *n = &b->p->needs[b->n_needs++];
  *n = (tn_need){.h = TN_HDR(tn_need), .values = &b->p->slots[i].value, .n_values = 1, .residency = TN_RESIDENCY_HOST};
  return i;
}

static uint32_t add_use(tni_htask *t, uint32_t slot, uint32_t access) {
  tn_use *u = (tn_use *)(uintptr_t)t->pub.uses;
  for (uint32_t i = 0; i < t->pub.n_uses; i++)
    if (u[i].slot == slot) {
      u[i].access |= access;
      return i;
    }
  u[t->pub.n_uses] = (tn_use){slot, access};
  return t->pub.n_uses++;
}

static void add_dep(tni_htask *t, uint32_t dep) {
  tn_id *d = (tn_id *)(uintptr_t)t->pub.deps;
  for (uint32_t i = 0; i < t->pub.n_deps; i++)
    if (d[i] == dep) return;
  d[t->pub.n_deps++] = dep;
}

static uint64_t value_symbols(const host_build *b, tn_id v) {
  const tn_value *val = b->s->graph->values[v];
  uint64_t mask = 0;
  for (uint32_t d = 0; d < val->rank && val->rank <= TN_MAX_RANK; d++)
    if (val->dims[d] != TNI_EXPR_NONE) mask |= b->p->dev->host->symbols(b->s->graph, val->dims[d]);
  return mask;
}

/* Input i of the node: a use unless only its dims are read. */
static void add_input(host_build *b, tni_htask *t, uint32_t i, const tni_op *op) {
  const tn_id v = t->node->in[i];
  tni_hoperand *o = &t->in[i];
  *o = (tni_hoperand){v, TNI_NO_USE, v == TN_NONE ? NULL : copy_of(b, v)};
  if (v == TN_NONE) return;
  t->pub.symbols |= value_symbols(b, v);
  if (i < 32 && (op->shape_inputs >> i) & 1) return;
  const bool appended = t->node->op == TN_OP_TENSOR_SCATTER && i == 0 && b->s->graph->values[v]->kind == TN_VALUE_STATE;
  o->use = add_use(t, slot_for(b, v), appended ? TN_APPEND : TN_READ);
  if (b->task_of[v] != TN_NONE) add_dep(t, b->task_of[v]);
}

static void add_output(host_build *b, tni_htask *t, uint32_t i, tn_id v) {
  t->out[i] = (tni_hoperand){v, TNI_NO_USE, NULL};
  if (v == TN_NONE) return;
  if (i > 0 && !b->is_output[v] && b->s->graph->values[v]->n_uses == 0) {
    t->out[i].value = TN_NONE; /* nobody reads it */
    return;
  }
  t->out[i].of = copy_of(b, v);
  t->pub.symbols |= value_symbols(b, v);
  t->out[i].use = add_use(t, slot_for(b, v), b->s->graph->values[v]->kind == TN_VALUE_STATE ? TN_APPEND : TN_WRITE);
}

/* A node whose dims come when it runs is handed its operands' tensors: all of them are uses, those that only a shape
 * rule or a subgraph reads too. Constants are not: they are the graph's. */
static void add_dynamic_inputs(host_build *b, tni_htask *t, tn_id id) {
  const tn_node *n = b->s->graph->nodes[id];
  const tn_id *captures;
  const uint32_t n_captures = core_of(b)->captures(b->s->graph, id, &captures);
  for (uint32_t k = 0; k < n->n_in + n_captures; k++) {
    const tn_id v = k < n->n_in ? n->in[k] : captures[k - n->n_in];
    if (v == TN_NONE || b->s->graph->values[v]->kind == TN_VALUE_CONST) continue;
    (void)add_use(t, slot_for(b, v), TN_READ);
    if (b->task_of[v] != TN_NONE) add_dep(t, b->task_of[v]);
  }
}

/* A bound of Clip: absent, or a constant of one f32. */
static bool bound_of(const host_build *b, const tn_node *n, uint32_t i, float *out) {
  if (i >= n->n_in || n->in[i] == TN_NONE) return true;
  const tni_tensor *t = core_of(b)->constant(b->s->graph, n->in[i]);
  if (!t || t->dtype != TN_DT_F32 || !t->data || t->bytes != sizeof *out) return false;
  memcpy(out, t->data, sizeof *out);
  return true;
}

static bool is_here(const host_build *b, tn_id node) {
  for (uint32_t i = 0; i < b->s->n_nodes; i++)
    if (b->s->nodes[i] == node) return true;
  return false;
}

/* The node that joins Conv n's task: a Relu or Clip that alone reads it. TN_NONE: there is none. */
static tn_id activation_slot(const host_build *b, const tn_node *n, tni_bounds *bounds) {
  if (n->op != TN_OP_CONV) return TN_NONE;
  const tn_value *y = b->s->graph->values[n->out[0]];
  if (y->dtype != TN_DT_F32 || y->n_uses != 1 || b->is_output[n->out[0]]) return TN_NONE;
  const tn_id id = y->uses[0];
  const tn_node *a = b->s->graph->nodes[id];
  *bounds = (tni_bounds){a->op == TN_OP_RELU ? 0 : -INFINITY, INFINITY};
  if ((a->op != TN_OP_RELU && a->op != TN_OP_CLIP) || a->in[0] != n->out[0] || core_of(b)->is_dynamic(b->s->graph, id) ||
      !is_here(b, id))
    return TN_NONE;
  if (a->op == TN_OP_CLIP && (!bound_of(b, a, 1, &bounds->lo) || !bound_of(b, a, 2, &bounds->hi))) return TN_NONE;
  return id;
}

/* v is Where(condition [.., 1], x, 0): rows that a product may leave out. */
static bool is_choice(const host_build *b, const tn_node *n) {
  const tn_graph *g = b->s->graph;
  const tn_value *c = g->values[n->in[0]], *x = g->values[n->in[1]];
  const tni_tensor *zero = core_of(b)->constant(g, n->in[2]);
  float f = 1;
  int64_t one = 0, high = 0;
  if (c->rank < 1 || c->rank > TN_MAX_RANK || x->rank != c->rank || c->dims[c->rank - 1] == TNI_EXPR_NONE) return false;
  if (b->p->dev->host->range(g, c->dims[c->rank - 1], &one, &high) != TN_OK || one != 1 || high != 1) return false;
  if (!zero || !zero->data) return false;
  if (tni_dims_count(zero->dims, zero->rank, &one) != TN_OK || one != 1) return false;
  tni_tensor_to_f32(zero, 0, 1, &f);
  return f == 0;
}

/* Rows of n's first operand may be zeros because a Where made them so, some row-wise operators before. */
static bool reads_choice(const host_build *b, const tn_node *n) {
  enum { MAX_BACK = 16 };
  if (n->op != TN_OP_MATMUL && n->op != TN_OP_GEMM && n->op != TN_OP_FUSED_MATMUL) return false;
  tn_id v = n->in[0];
  for (int i = 0; i < MAX_BACK && v != TN_NONE; i++) {
    const tn_id at = b->s->graph->values[v]->producer;
    const tn_node *p = at == TN_NONE ? NULL : b->s->graph->nodes[at];
    const tni_op *op = p ? tni_op_by_id(p->op) : NULL;
    if (!op || p->n_in < 1) return false;
    if (p->op == TN_OP_WHERE) return is_choice(b, p);
    if (!(op->flags & TNI_OPF_ELEMENTWISE) && p->op != TN_OP_MATMUL && p->op != TN_OP_GEMM &&
        p->op != TN_OP_FUSED_MATMUL && p->op != TN_OP_ELEMENTWISE && p->op != TN_OP_SLICE && p->op != TN_OP_SPLIT)
      return false;
    v = p->in[0];
  }
  return false;
}

static tn_status make_task(host_build *b, tn_id id) {
  const uint32_t i = b->n_tasks++;
  tni_htask *t = &b->p->tasks[i];
  const tn_node *n = b->s->graph->nodes[id];
  const tni_op *op = tni_op_by_id(n->op);
  const bool dynamic = core_of(b)->is_dynamic(b->s->graph, id);
  const tn_id *captures;
  const size_t operands = (size_t)n->n_in + n->n_out + (dynamic ? core_of(b)->captures(b->s->graph, id, &captures) : 0) + 1;
  t->node = tni_hkeep_node(&b->p->pool, n);
  t->kernel = n->op == TN_OP_UNKNOWN ? NULL : tni_ops_kernel(op);
  t->dynamic = dynamic;
  t->skips_zeros = reads_choice(b, n);
  if (!t->kernel && !dynamic) return tni_fail(b->err, TN_E_UNSUPPORTED, n->name, "no host kernel");
  t->in = tni_hpool_array(&b->p->pool, n->n_in, sizeof *t->in);
  t->out = tni_hpool_array(&b->p->pool, n->n_out, sizeof *t->out);
  tn_use *uses = tni_hpool_array(&b->p->pool, operands, sizeof *uses);
  tn_id *deps = tni_hpool_array(&b->p->pool, operands, sizeof *deps),
        *nodes = tni_hpool_array(&b->p->pool, 2, sizeof *nodes);
  if (!t->node || !t->in || !t->out || !uses || !deps || !nodes) return tni_fail_memory(b->err, n->name);
  *nodes = id;
  t->pub =
      (tn_task){.h = TN_HDR(tn_task), .name = t->node->name, .uses = uses, .deps = deps, .nodes = nodes, .n_nodes = 1};
  if (dynamic) add_dynamic_inputs(b, t, id);
  for (uint32_t k = 0; k < n->n_in && !dynamic; k++) add_input(b, t, k, op);
  const tn_id act = dynamic ? TN_NONE : activation_slot(b, n, &t->bounds);
  if (act != TN_NONE) {
    t->bounded = true;
    b->absorbed[act] = 1;
    nodes[t->pub.n_nodes++] = act;
    b->task_of[b->s->graph->nodes[act]->out[0]] = i;
    add_output(b, t, 0, b->s->graph->nodes[act]->out[0]);
    return TN_OK;
  }
  for (uint32_t k = 0; k < n->n_out; k++) {
    if (n->out[k] != TN_NONE) b->task_of[n->out[k]] = i;
    add_output(b, t, k, n->out[k]);
  }
  return TN_OK;
}

/* Counts v, unless it was counted. */
static size_t first_time(uint8_t *seen, tn_id v) {
  if (v == TN_NONE || seen[v]) return 0;
  return seen[v] = 1;
}

/* How many values may get a slot: those that nodes read, write or capture. seen: [n_values], zeros. */
static size_t slot_bound(const host_build *b, uint8_t *seen) {
  size_t n = 0;
  for (uint32_t i = 0; i < b->s->n_nodes; i++) {
    const tn_node *node = b->s->graph->nodes[b->s->nodes[i]];
    const tn_id *captures;
    const uint32_t n_captures = core_of(b)->captures(b->s->graph, b->s->nodes[i], &captures);
    for (uint32_t k = 0; k < node->n_in; k++) n += first_time(seen, node->in[k]);
    for (uint32_t k = 0; k < node->n_out; k++) n += first_time(seen, node->out[k]);
    for (uint32_t k = 0; k < n_captures; k++) n += first_time(seen, captures[k]);
  }
  return n;
}

/* Tables that info() hands out: arrays of pointers into the program's own arrays. */
static bool publish_program(host_build *b) {
  tn_program *p = b->p;
  const tn_need **needs = tni_hpool_array(&p->pool, b->n_needs, sizeof *needs);
  const tn_slot **slots = tni_hpool_array(&p->pool, b->n_slots, sizeof *slots);
  const tn_task **tasks = tni_hpool_array(&p->pool, b->n_tasks, sizeof *tasks);
  p->weights = tni_hpool_array(&p->pool, b->n_slots, sizeof *p->weights);
  if (!needs || !slots || !tasks || !p->weights) return false;
  for (uint32_t i = 0; i < b->n_needs; i++) needs[i] = &p->needs[i];
  for (uint32_t i = 0; i < b->n_slots; i++) slots[i] = &p->slots[i];
  for (uint32_t i = 0; i < b->n_tasks; i++) tasks[i] = &p->tasks[i].pub;
  p->info = (tn_program_info){.h = TN_HDR(tn_program_info),
                              .needs = needs,
                              .slots = slots,
                              .tasks = tasks,
                              .n_needs = b->n_needs,
                              .n_slots = b->n_slots,
                              .n_tasks = b->n_tasks};
  return true;
}

static bool allocate_program(host_build *b, tni_hpool *tmp) {
  tn_program *p = b->p;
  const size_t n = b->s->graph->n_values;
  uint8_t *seen = tni_hpool_array(tmp, n, 1);
  if (!seen) return false;
  const size_t bound = slot_bound(b, seen);
  p->tasks = tni_hpool_array(&p->pool, b->s->n_nodes, sizeof *p->tasks);
  p->slots = tni_hpool_array(&p->pool, bound, sizeof *p->slots);
  p->needs = tni_hpool_array(&p->pool, bound, sizeof *p->needs);
  b->slot_of = tni_hpool_array(tmp, n, sizeof *b->slot_of);
  b->task_of = tni_hpool_array(tmp, n, sizeof *b->task_of);
  b->is_output = tni_hpool_array(tmp, n, 1);
  b->absorbed = tni_hpool_array(tmp, b->s->graph->n_nodes, 1);
  b->kept = tni_hpool_array(tmp, n, sizeof *b->kept);
  p->values = tni_hpool_array(&p->pool, bound, sizeof *p->values);
  p->constants = tni_hpool_array(&p->pool, bound, sizeof *p->constants);
  if (!b->absorbed || !b->kept || !p->values || !p->constants) return false;
  if (!p->tasks || !p->slots || !p->needs || !b->slot_of || !b->task_of || !b->is_output) return false;
  memset(b->slot_of, 0xff, n * sizeof *b->slot_of);
  memset(b->task_of, 0xff, n * sizeof *b->task_of);
  for (uint32_t i = 0; i < b->s->n_outputs; i++) b->is_output[b->s->outputs[i]] = 1;
  return true;
}

tn_status tni_hdev_lower(tn_device *d, const tn_subgraph *s, tn_program **out, tn_error *err) {
  tni_error_begin(err);
  tni_host_device *dev = (tni_host_device *)d;
  tni_hpool tmp = {.host = dev->host};
  tn_program *p = dev->host->alloc(dev->host->ctx, sizeof *p, 16, TN_TAG_PLUGIN);
  if (!p) return tni_fail_memory(err, "host");
  *p = (tn_program){.dev = dev, .pool = {.host = dev->host}, .graph = *s->graph};
  p->graph.nodes = NULL;
  p->graph.values = NULL;
  p->graph.symbols = NULL;
  host_build b = {.p = p, .s = s, .err = err};
  tn_status st = allocate_program(&b, &tmp) ? TN_OK : tni_fail_memory(err, "host");
  for (uint32_t i = 0; !st && i < s->n_nodes; i++)
    if (!b.absorbed[s->nodes[i]]) st = make_task(&b, s->nodes[i]);
  if (!st && (b.no_memory || !publish_program(&b))) st = tni_fail_memory(err, "host");
  tni_hpool_free(&tmp);
  if (st)
    tni_hdev_release(p);
  else
    *out = p;
  return st;
}

const tn_program_info *tni_hdev_info(const tn_program *p) { return &p->info; }

void tni_hdev_release(tn_program *p) {
  if (!p) return;
  const tn_host *host = p->dev->host;
  tni_hpool_free(&p->pool);
  host->free(host->ctx, p);
}
