/* SPDX-License-Identifier: Apache-2.0
 *
 * acme-ops: an operator of a vendor's own, from the model's node to the kernel. A model may hold nodes of the domain
 * com.acme; this plugin says what they are (tn_plugin.ops), so that Tenon knows their shapes, claims them and computes them
 * on the host's CPU. acme.c is the example of everything else; the contract is <tenon/plugin.h>.
 *
 *   com.acme.PairMax   y[..., i] = scale * max(x[..., 2i], x[..., 2i + 1]); the last of an odd number stands alone.
 *                      scale: FLOAT attribute, 1 where the model says nothing */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <tenon/plugin.h>

typedef struct ops_plugin {
  tn_plugin pub; /* first: the host's pointer is ours */
  const tn_host *host;
  tn_caps caps;
} ops_plugin;
typedef struct ops_device {
  tn_device pub;
  const tn_host *host;
} ops_device;

static tn_status fail(tn_error *err, tn_status st, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  if (err) {
    err->code = st;
    vsnprintf(err->message, sizeof err->message, fmt, ap);
  }
  va_end(ap);
  return st;
}

/* ---- 1. The operator -----------------------------------------------------------------------------------------------
 * Its shape is text: the host reads it before any device is asked. Half the last dim, rounded up. */
static const tn_custom_op pair_max = {.h = TN_HDR(tn_custom_op), .domain = "com.acme", .type = "PairMax", .since = 1,
    .shape = "[b..., n] -> [b..., n / 2]"};
static const tn_custom_op *const ops[] = {&pair_max};

static int is_pair_max(const tn_node *n) {
  return n->op == TN_OP_UNKNOWN && n->domain && n->type && !strcmp(n->domain, "com.acme") && !strcmp(n->type, "PairMax");
}

/* Attributes of an operator that Tenon does not know come in the model's order: look them up by name. */
static const tn_attr *attr_of(const tn_node *n, const char *name) {
  for (uint32_t i = 0; i < n->n_attr; i++)
    if (n->attr[i]->name && !strcmp(n->attr[i]->name, name)) return n->attr[i];
  return NULL;
}

/* ---- 2. Claims: nothing but our own, and those in float32 ---- */
static tn_status claim(tn_device *d, const tn_graph *g, const tn_dims *at, const tn_claim_sink *sink, tn_error *err) {
  tn_status st = TN_OK;
  (void)d, (void)at, (void)err;
  for (tn_id i = 0; st == TN_OK && i < g->n_nodes; i++) {
    const tn_node *n = g->nodes[i];
    tn_claim c = {.h = TN_HDR(tn_claim), .verdict = TN_YES};
    const tn_attr *scale = attr_of(n, "scale");
    const char *why = NULL;
    if (!is_pair_max(n))
      c.reason = TN_WHY_OP, why = "acme-ops computes com.acme.PairMax";
    else if (g->values[n->in[0]]->dtype != TN_DT_F32)
      c.reason = TN_WHY_DTYPE, why = "com.acme.PairMax is computed in float32";
    /* Constants and caches would be a need and slots of other kinds in lower. */
    else if (g->values[n->in[0]]->kind == TN_VALUE_CONST || g->values[n->in[0]]->kind == TN_VALUE_STATE)
      c.reason = TN_WHY_SHAPE, why = "com.acme.PairMax takes an activation, no constant and no cache";
    else if (scale && scale->type != TN_ATTR_FLOAT)
      c.reason = TN_WHY_ATTR, why = "scale is no FLOAT";
    if (why) {
      c.verdict = TN_NO;
      snprintf(c.text, sizeof c.text, "%s", why);
    }
    st = sink->node(sink->ctx, i, &c);
  }
  return st;
}

/* ---- 3. Lowering: a task a node, on engine 0, the host's CPU ---- */
typedef struct pair_task {
  tn_task task;
  tn_use uses[2]; /* x, y */
  tn_slot slots[2];
  tn_id node;
  tn_expr dims[TN_MAX_RANK]; /* of x; what the graph holds lives for the call: copies */
  char name[48];
  uint32_t rank;
  float scale;
} pair_task;

struct tn_program {
  const tn_host *host;
  tn_graph graph; /* the head of the host's: what host->eval wants later */
  tn_program_info info;
  const tn_slot **slots;
  const tn_task **tasks;
  tn_id *deps; /* of all tasks: those before */
  pair_task all[];
};
struct tn_plan { const pair_task *t; int64_t rows, n; };
struct tn_args { const float *x; float *y; const tn_host *host; };

static int has(const tn_id *list, uint32_t n, tn_id v) {
  for (uint32_t i = 0; i < n; i++)
    if (list[i] == v) return 1;
  return 0;
}

/* A value has one slot. What is neither read from outside nor wanted there is TEMP. */
static tn_id slot_of(tn_program *p, const tn_subgraph *s, tn_slot *room, tn_id v) {
  for (tn_id i = 0; i < p->info.n_slots; i++)
    if (p->slots[i]->value == v) return i;
  *room = (tn_slot){.h = TN_HDR(tn_slot), .name = "value", .engines = 1, .align = 64, .value = v,
      .need = TN_NONE, .alias = TN_NONE,
      .kind = has(s->inputs, s->n_inputs, v)     ? TN_SLOT_INPUT
              : has(s->outputs, s->n_outputs, v) ? TN_SLOT_OUTPUT
                                                 : TN_SLOT_TEMP};
  if (room->kind == TN_SLOT_INPUT && s->graph->values[v]->kind == TN_VALUE_STEP) room->kind = TN_SLOT_STEP;
  p->slots[p->info.n_slots] = room;
  return p->info.n_slots++;
}

static void release(tn_program *p) { p->host->free(p->host->ctx, p); }
static const tn_program_info *info(const tn_program *p) { return &p->info; }

static tn_status lower(tn_device *d, const tn_subgraph *s, tn_program **out, tn_error *err) {
  const tn_host *h = ((ops_device *)d)->host;
  const size_t n = s->n_nodes, each = sizeof(pair_task) + 3 * sizeof(void *) + sizeof(tn_id);
  tn_program *p = h->alloc(h->ctx, sizeof *p + n * each, 64, TN_TAG_PLUGIN);
  if (!p) return fail(err, TN_E_NO_MEMORY, "no memory for a program");
  memset(p, 0, sizeof *p + n * each);
  p->host = h;
  memcpy(&p->graph, s->graph, s->graph->h.size < sizeof p->graph ? s->graph->h.size : sizeof p->graph);
  p->slots = (const tn_slot **)(void *)&p->all[n];
  p->tasks = (const tn_task **)(void *)(p->slots + 2 * n);
  p->deps = (tn_id *)(void *)(p->tasks + n);
  for (uint32_t i = 0; i < n; i++) {
    const tn_node *node = s->graph->nodes[s->nodes[i]];
    const tn_value *x = s->graph->values[node->in[0]];
    const tn_attr *scale = attr_of(node, "scale");
    pair_task *t = &p->all[i];
    t->node = s->nodes[i];
    t->scale = scale ? (float)scale->u.f : 1;
    t->rank = x->rank <= TN_MAX_RANK ? x->rank : 0;
    memcpy(t->dims, x->dims, t->rank * sizeof *x->dims);
    snprintf(t->name, sizeof t->name, "%s", node->name);
    t->uses[0] = (tn_use){slot_of(p, s, &t->slots[0], node->in[0]), TN_READ};
    t->uses[1] = (tn_use){slot_of(p, s, &t->slots[1], node->out[0]), TN_WRITE};
    p->deps[i] = i - 1;
    t->task = (tn_task){.h = TN_HDR(tn_task), .name = t->name, .uses = t->uses, .n_uses = 2, .deps = &p->deps[i],
        .n_deps = i > 0, .nodes = &t->node, .n_nodes = 1};
    for (uint32_t k = 0; k < x->rank; k++) t->task.symbols |= h->symbols(s->graph, x->dims[k]);
    p->tasks[i] = &t->task;
  }
  p->info = (tn_program_info){.h = TN_HDR(tn_program_info), .slots = p->slots, .tasks = p->tasks,
      .n_slots = p->info.n_slots, .n_tasks = (uint32_t)n};
  *out = p;
  return TN_OK;
}

/* Rows, and elements of a row. */
static tn_status size_of(const tn_program *p, const pair_task *t, const tn_dims *dims, int64_t *rows, int64_t *n) {
  *rows = *n = 1;
  for (uint32_t i = 0; i < t->rank; i++) {
    int64_t d;
    tn_status st = p->host->eval(&p->graph, t->dims[i], dims, &d);
    if (st != TN_OK) return st;
    if (d < 0 || __builtin_mul_overflow(*rows, i + 1 < t->rank ? d : 1, rows)) return TN_E_LIMIT;
    *n = d;
  }
  return TN_OK;
}

static tn_status measure(const tn_program *p, tn_id task, const tn_dims *dims, tn_measure *out) {
  int64_t rows, n;
  if (task >= p->info.n_tasks) return TN_E_INVALID;
  const pair_task *t = &p->all[task];
  const tn_id y = t->uses[1].slot;
  tn_status st = size_of(p, t, dims, &rows, &n);
  if (st == TN_OK && out->slot_bytes && p->slots[y]->kind == TN_SLOT_TEMP)
    out->slot_bytes[y] = (uint64_t)rows * (uint64_t)((n + 1) / 2) * sizeof(float);
  return st;
}

static tn_status set(tn_program *p, tn_id slot, const tn_view *view, const tn_blob *blob, tn_error *err) {
  (void)p, (void)slot, (void)view, (void)blob;
  return fail(err, TN_E_INVALID, "acme-ops has no weights");
}

static tn_status bind(tn_program *p, tn_id task, const tn_dims *dims, tn_plan **out, tn_error *err) {
  if (task >= p->info.n_tasks) return fail(err, TN_E_INVALID, "there is no task %u", task);
  tn_plan *plan = p->host->alloc(p->host->ctx, sizeof *plan + sizeof(tn_host *), 16, TN_TAG_PLUGIN);
  if (!plan) return fail(err, TN_E_NO_MEMORY, "no memory for a plan");
  plan->t = &p->all[task];
  *(const tn_host **)(void *)(plan + 1) = p->host;
  tn_status st = size_of(p, plan->t, dims, &plan->rows, &plan->n);
  if (st != TN_OK) {
    p->host->free(p->host->ctx, plan);
    return fail(err, st, "dims that have no value");
  }
  *out = plan;
  return TN_OK;
}
static const tn_host *host_of(const tn_plan *plan) { return *(const tn_host *const *)(const void *)(plan + 1); }
static void unbind(tn_plan *plan) { host_of(plan)->free(host_of(plan)->ctx, plan); }

static tn_status args_set(tn_args *a, uint32_t use, const tn_view *view, tn_error *err) {
  (void)err;
  if (use == 0) a->x = view->ptr;
  if (use == 1) a->y = view->ptr;
  return TN_OK; /* 2 is the scratch, which we have none of */
}
static void args_free(tn_args *a) { a->host->free(a->host->ctx, a); }

static tn_status args(tn_plan *plan, const tn_view *const *uses, uint32_t n, tn_args **out, tn_error *err) {
  const tn_host *h = host_of(plan);
  tn_args *a = h->alloc(h->ctx, sizeof *a, 16, TN_TAG_PLUGIN);
  if (!a) return fail(err, TN_E_NO_MEMORY, "no memory for arguments");
  *a = (tn_args){.host = h};
  for (uint32_t i = 0; i < n; i++) (void)args_set(a, i, uses[i], err);
  *out = a;
  return TN_OK;
}

/* ---- 4. The kernel ---- */
typedef struct job { const tn_plan *plan; const tn_args *a; } job;

static void some_rows(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  const job *j = arg;
  const int64_t n = j->plan->n, half = (n + 1) / 2;
  (void)worker;
  for (int64_t r = begin; r < end; r++) {
    const float *x = j->a->x + r * n;
    float *y = j->a->y + r * half;
    for (int64_t i = 0; i < half; i++) {
      const float a = x[2 * i], b = 2 * i + 1 < n ? x[2 * i + 1] : a;
      y[i] = j->plan->t->scale * (a > b ? a : b);
    }
  }
}

static tn_status run(const tn_plan *plan, tn_args *a, tn_run *pool, tn_error *err) {
  job j = {plan, a};
  (void)err;
  pool->parallel_for(pool, plan->rows, 64, some_rows, &j);
  return TN_OK;
}

/* ---- 5. The plugin ---- */
static tn_status enumerate(tn_plugin *pub, uint32_t cap, const tn_caps **out, uint32_t *n, tn_error *err) {
  ops_plugin *p = (ops_plugin *)pub;
  (void)err;
  p->caps = (tn_caps){.h = TN_HDR(tn_caps), .name = "acme operators", .driver = "none", .key = "acme-ops-1.0",
      .align = 64, .sub_align = 64, .import_align = 64, .dtypes = UINT64_C(1) << TN_DT_F32};
  if (cap) out[0] = &p->caps;
  *n = 1;
  return TN_OK;
}

static tn_status open_device(tn_plugin *pub, uint32_t index, tn_device **out, tn_error *err) {
  ops_plugin *p = (ops_plugin *)pub;
  ops_device *d = index ? NULL : p->host->alloc(p->host->ctx, sizeof *d, 64, TN_TAG_PLUGIN);
  if (!d) return fail(err, index ? TN_E_INVALID : TN_E_NO_MEMORY, "device %u cannot be opened", index);
  *d = (ops_device){.pub = {.h = TN_HDR(tn_device), .caps = &p->caps, .claim = claim, .lower = lower, .info = info,
      .measure = measure, .set = set, .release = release, .bind = bind, .unbind = unbind, .args = args,
      .args_set = args_set, .args_free = args_free, .run = run}, .host = p->host};
  *out = &d->pub;
  return TN_OK;
}
static void close_device(tn_device *d) { ((ops_device *)d)->host->free(((ops_device *)d)->host->ctx, d); }
static void stop(tn_plugin *p) { ((ops_plugin *)p)->host->free(((ops_plugin *)p)->host->ctx, p); }

static tn_status entry(const tn_host *host, tn_negotiate *neg, tn_plugin **out) {
  if (!neg || neg->h.size < TN_UPTO(tn_negotiate, message)) return TN_E_INCOMPATIBLE;
  neg->plugin_min = 1; /* a host of 1.0 would not look at our operators */
  neg->plugin_max = TN_ABI_MINOR;
  snprintf(neg->name, sizeof neg->name, "acme-ops");
  snprintf(neg->version, sizeof neg->version, "1.0.0");
  snprintf(neg->message, sizeof neg->message, "acme-ops needs a host of ABI 1.1 to 1.%d", TN_ABI_MINOR);
  if (neg->host_min > neg->plugin_max || neg->host_max < neg->plugin_min) return TN_E_INCOMPATIBLE;
  if (!host || !TN_HAS(host, tn_host, symbols) || !host->alloc || !host->free || !host->eval || !host->symbols)
    return TN_E_INCOMPATIBLE;
  neg->minor = neg->host_max < neg->plugin_max ? neg->host_max : neg->plugin_max;
  ops_plugin *p = host->alloc(host->ctx, sizeof *p, 16, TN_TAG_PLUGIN);
  if (!p) return TN_E_NO_MEMORY;
  *p = (ops_plugin){.pub = {.h = TN_HDR(tn_plugin), .name = "acme-ops", .version = "1.0.0",
      .build_id = "acme-ops-1.0.0", .enumerate = enumerate, .open = open_device, .close = close_device,
      .shutdown = stop, .ops = ops, .n_ops = 1}, .host = host};
  *out = &p->pub;
  return TN_OK;
}

TN_PLUGIN(acme_ops, entry)
