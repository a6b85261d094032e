/* SPDX-License-Identifier: Apache-2.0
 *
 * sched-parts: f32 products of x[M,K] with constant weights, as MatMul and as tenon.FusedMatMul. Option `takes`:
 * matmul, products (tenon.FusedMatMul without a chain too), chains (with Add and Mul of whole matrices too), nothing.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PLUGIN_NAME "sched-parts"
#define PLUGIN_VERSION "0.0.1"
#define PLUGIN_FIELDS const char *takes;
#include "../../kit/skeleton.h"

enum {
  MAX_NODES = 16,
  MAX_USES = 12,
  MAX_SLOTS = MAX_USES * MAX_NODES,
  MAX_PARTS = 4,
  MAX_OPS = 4,
  MAX_REGS = 12,
  MAX_N = 64
};

/* A node as tenon.FusedMatMul; a MatMul is one with one part. */
typedef struct product {
  uint32_t n_weights, n_parts, n_extra, n_ops, n_out;
  int64_t parts[3 * MAX_PARTS], ops[3 * MAX_OPS], results[MAX_PARTS];
  int64_t K, N[MAX_PARTS]; /* N: of weights */
  uint32_t use[MAX_USES];  /* of each input, then of each output: one that is read twice is one use */
} product;

struct tn_program {
  backend *owner;
  tn_graph graph;
  tn_program_info info;
  tn_need needs[MAX_SLOTS];
  tn_slot slots[MAX_SLOTS];
  tn_task tasks[MAX_NODES];
  tn_use uses[MAX_NODES][MAX_USES];
  product products[MAX_NODES];
  tn_id nodes[MAX_NODES], deps[MAX_NODES][MAX_NODES], weights[MAX_SLOTS], values[MAX_SLOTS];
  tn_expr rows[MAX_SLOTS], cols[MAX_SLOTS];
  const float *w[MAX_SLOTS];
  const tn_need *needs_p[MAX_SLOTS];
  const tn_slot *slots_p[MAX_SLOTS];
  const tn_task *tasks_p[MAX_NODES];
};

struct tn_plan {
  tn_program *p;
  tn_id task;
};

struct tn_args {
  tn_view views[MAX_USES];
};

static int copy_ints(const tn_attr *a, int64_t *to, uint32_t cap, uint32_t *n) {
  *n = (uint32_t)a->n;
  if (a->n > cap) return 0;
  if (a->n) memcpy(to, a->u.ints, a->n * sizeof *to);
  return 1;
}

static int read_fused(const tn_node *n, product *p) {
  uint32_t n_results;
  p->n_weights = (uint32_t)n->attr[TN_FUSED_N_WEIGHTS]->u.i;
  if (n->attr[TN_FUSED_TRANS_B]->u.i || p->n_weights > MAX_PARTS || n->n_in + n->n_out > MAX_USES) return 0;
  if (!copy_ints(n->attr[TN_FUSED_PARTS], p->parts, 3 * MAX_PARTS, &p->n_parts)) return 0;
  if (!copy_ints(n->attr[TN_FUSED_OPS], p->ops, 3 * MAX_OPS, &p->n_ops)) return 0;
  if (!copy_ints(n->attr[TN_FUSED_RESULTS], p->results, MAX_PARTS, &n_results)) return 0;
  p->n_parts /= 3;
  p->n_ops /= 3;
  p->n_extra = n->n_in - 1 - p->n_weights;
  for (uint32_t i = 0; i < p->n_ops; i++)
    if (p->ops[3 * i] != TN_OP_ADD && p->ops[3 * i] != TN_OP_MUL) return 0;
  return p->n_parts + p->n_extra + p->n_ops <= MAX_REGS;
}

/* Reads a node that the device could take; 0: it could not. */
static int read_product(const tn_graph *g, const tn_node *n, product *p) {
  *p = (product){.n_weights = 1, .n_parts = 1, .n_out = n->n_out};
  if (n->op == TN_OP_FUSED_MATMUL ? !read_fused(n, p) : n->op != TN_OP_MATMUL) return 0;
  for (uint32_t i = 0; i < n->n_in; i++) {
    const tn_value *v = g->values[n->in[i]];
    if (v->dtype != TN_DT_F32 || v->rank != 2) return 0;
    if (!i || i > p->n_weights) continue;
    if (v->kind != TN_VALUE_CONST || v->data->K > MAX_N) return 0;
    p->K = v->data->N; /* a weight is [dims[0], dims[1]] */
    p->N[i - 1] = v->data->K;
  }
  if (n->op == TN_OP_MATMUL) p->parts[2] = p->N[0];
  return 1;
}

static int takes(const backend *o, const tn_graph *g, const tn_node *n) {
  product p;
  if (strcmp(o->takes, "nothing") == 0 || !read_product(g, n, &p)) return 0;
  if (strcmp(o->takes, "matmul") == 0) return n->op == TN_OP_MATMUL;
  return strcmp(o->takes, "chains") == 0 || !p.n_ops;
}

static tn_status claim(tn_device *d, const tn_graph *g, const tn_dims *at, const tn_claim_sink *sink, tn_error *err) {
  (void)at, (void)err;
  for (tn_id i = 0; i < g->n_nodes; i++) {
    tn_claim c = {.h = TN_HDR(tn_claim), .verdict = TN_YES};
    if (!takes(backend_of(d), g, g->nodes[i])) {
      c.verdict = TN_NO;
      c.reason = TN_WHY_OP;
      snprintf(c.text, sizeof c.text, "only f32 products with constants");
    }
    tn_status st = sink->node(sink->ctx, i, &c);
    if (st != TN_OK) return st;
  }
  return TN_OK;
}

static int has(const tn_id *list, uint32_t n, tn_id v) {
  for (uint32_t i = 0; i < n; i++)
    if (list[i] == v) return 1;
  return 0;
}

static tn_id slot_of(tn_program *p, const tn_subgraph *s, tn_id v) {
  const tn_value *val = s->graph->values[v];
  for (tn_id i = 0; i < p->info.n_slots; i++)
    if (p->values[i] == v) return i;
  tn_id i = p->info.n_slots++;
  uint32_t kind = val->kind == TN_VALUE_CONST        ? TN_SLOT_WEIGHT
                  : has(s->inputs, s->n_inputs, v)   ? TN_SLOT_INPUT
                  : has(s->outputs, s->n_outputs, v) ? TN_SLOT_OUTPUT
                                                     : TN_SLOT_TEMP;
  p->values[i] = v;
  p->rows[i] = val->dims[0];
  p->cols[i] = val->dims[1];
  p->slots[i] = (tn_slot){.h = TN_HDR(tn_slot),
                          .name = val->name,
                          .kind = kind,
                          .engines = 1,
                          .align = 64,
                          .value = v,
                          .need = p->info.n_needs,
                          .alias = TN_NONE};
  p->slots_p[i] = &p->slots[i];
  if (kind != TN_SLOT_WEIGHT) return i;
  tn_id k = p->info.n_needs++;
  p->weights[k] = v;
  p->needs[k] =
      (tn_need){.h = TN_HDR(tn_need), .values = &p->weights[k], .n_values = 1, .residency = TN_RESIDENCY_HOST};
  p->needs_p[k] = &p->needs[k];
  return i;
}

/* Whether task `to` reads what task `from` writes. */
static int feeds(const tn_program *p, uint32_t from, uint32_t to) {
  for (uint32_t w = 0; w < p->tasks[from].n_uses; w++)
    for (uint32_t r = 0; p->uses[from][w].access == TN_WRITE && r < p->tasks[to].n_uses; r++)
      if (p->uses[to][r].slot == p->uses[from][w].slot) return 1;
  return 0;
}

static tn_status lower(tn_device *d, const tn_subgraph *s, tn_program **out, tn_error *err) {
  backend *o = backend_of(d);
  tn_program *p = s->n_nodes <= MAX_NODES ? o->host->alloc(o->host->ctx, sizeof *p, 64, TN_TAG_PLUGIN) : NULL;
  (void)err;
  if (!p) return TN_E_NO_MEMORY;
  memset(p, 0, sizeof *p);
  p->owner = o;
  p->graph = *s->graph;
  p->info =
      (tn_program_info){.h = TN_HDR(tn_program_info), .needs = p->needs_p, .slots = p->slots_p, .tasks = p->tasks_p};
  for (uint32_t i = 0; i < s->n_nodes; i++) {
    const tn_node *n = s->graph->nodes[s->nodes[i]];
    uint32_t n_uses = 0;
    if (!read_product(s->graph, n, &p->products[i])) return TN_E_INTERNAL;
    for (uint32_t u = 0; u < (uint32_t)n->n_in + n->n_out; u++) {
      const int is_in = u < n->n_in;
      const tn_use use = {slot_of(p, s, is_in ? n->in[u] : n->out[u - n->n_in]), is_in ? TN_READ : TN_WRITE};
      uint32_t at = 0;
      while (at < n_uses && p->uses[i][at].slot != use.slot) at++;
      if (at == n_uses) p->uses[i][n_uses++] = use;
      p->products[i].use[u] = at;
    }
    p->nodes[i] = s->nodes[i];
    p->tasks[i] = (tn_task){.h = TN_HDR(tn_task),
                            .name = n->name,
                            .symbols = UINT64_MAX,
                            .uses = p->uses[i],
                            .deps = p->deps[i],
                            .nodes = &p->nodes[i],
                            .n_uses = n_uses,
                            .n_nodes = 1};
    for (uint32_t k = 0; k < i; k++)
      if (feeds(p, k, i)) p->deps[i][p->tasks[i].n_deps++] = k;
    p->tasks_p[i] = &p->tasks[i];
    p->info.n_tasks++;
  }
  *out = p;
  return TN_OK;
}

static const tn_program_info *info(const tn_program *p) { return &p->info; }

static tn_status measure(const tn_program *p, tn_id task, const tn_dims *dims, tn_measure *out) {
  const tn_host *h = p->owner->host;
  for (uint32_t u = 0; u < p->tasks[task].n_uses; u++) {
    tn_id s = p->uses[task][u].slot;
    int64_t r, c;
    if (p->slots[s].kind != TN_SLOT_TEMP) continue;
    if (h->eval(&p->graph, p->rows[s], dims, &r) != TN_OK || h->eval(&p->graph, p->cols[s], dims, &c) != TN_OK)
      return TN_E_INVALID;
    out->slot_bytes[s] = (uint64_t)(r * c) * sizeof(float);
  }
  return TN_OK;
}

static tn_status set(tn_program *p, tn_id slot, const tn_view *view, const tn_blob *blob, tn_error *err) {
  (void)blob, (void)err;
  p->w[slot] = view->ptr;
  return TN_OK;
}

static void release(tn_program *p) { p->owner->host->free(p->owner->host->ctx, p); }

static tn_status bind(tn_program *p, tn_id task, const tn_dims *dims, tn_plan **out, tn_error *err) {
  (void)dims, (void)err;
  tn_plan *plan = malloc(sizeof *plan);
  if (!plan) return TN_E_NO_MEMORY;
  *plan = (tn_plan){p, task};
  *out = plan;
  return TN_OK;
}

static void unbind(tn_plan *p) { free(p); }

static tn_status args(tn_plan *plan, const tn_view *const *uses, uint32_t n, tn_args **out, tn_error *err) {
  (void)err;
  tn_args *a = n == plan->p->tasks[plan->task].n_uses + 1 ? calloc(1, sizeof *a) : NULL;
  if (!a) return TN_E_INTERNAL;
  for (uint32_t u = 0; u + 1 < n; u++) a->views[u] = *uses[u];
  *out = a;
  return TN_OK;
}

static tn_status args_set(tn_args *a, uint32_t use, const tn_view *view, tn_error *err) {
  (void)err;
  if (use < MAX_USES) a->views[use] = *view;
  return TN_OK;
}

static void args_free(tn_args *a) { free(a); }

/* Row m of every register. */
static void one_row(const tn_program *p, tn_id task, const tn_args *a, int64_t m, float reg[MAX_REGS][MAX_N]) {
  const product *q = &p->products[task];
  const float *x = (const float *)a->views[q->use[0]].ptr + m * q->K;
  const uint32_t first = q->n_parts + q->n_extra;
  int64_t width[MAX_REGS];
  for (uint32_t i = 0; i < q->n_parts; i++) {
    const int64_t weight = q->parts[3 * i], N = q->N[weight];
    const float *w = p->w[p->uses[task][q->use[1 + weight]].slot] + q->parts[3 * i + 1];
    width[i] = q->parts[3 * i + 2];
    for (int64_t n = 0; n < width[i]; n++) {
      reg[i][n] = 0;
      for (int64_t k = 0; k < q->K; k++) reg[i][n] += x[k] * w[k * N + n];
    }
  }
  for (uint32_t e = 0; e < q->n_extra; e++) {
    const tn_view *v = &a->views[q->use[1 + q->n_weights + e]];
    width[q->n_parts + e] = v->dims[1];
    memcpy(reg[q->n_parts + e], (const float *)v->ptr + m * v->dims[1], (size_t)v->dims[1] * sizeof(float));
  }
  for (uint32_t i = 0; i < q->n_ops; i++) {
    const int64_t *op = &q->ops[3 * i];
    width[first + i] = width[op[1]];
    for (int64_t n = 0; n < width[op[1]]; n++)
      reg[first + i][n] = op[0] == TN_OP_ADD ? reg[op[1]][n] + reg[op[2]][n] : reg[op[1]][n] * reg[op[2]][n];
  }
}

static tn_status run(const tn_plan *plan, tn_args *a, tn_run *pool, tn_error *err) {
  const tn_program *p = plan->p;
  const product *q = &p->products[plan->task];
  const int64_t M = (int64_t)(a->views[q->use[0]].bytes / sizeof(float)) / q->K;
  float reg[MAX_REGS][MAX_N];
  (void)pool, (void)err;
  for (int64_t m = 0; m < M; m++) {
    one_row(p, plan->task, a, m, reg);
    for (uint32_t o = 0; o < q->n_out; o++) {
      const tn_view *y = &a->views[q->use[1 + q->n_weights + q->n_extra + o]];
      const int64_t N = (int64_t)(y->bytes / sizeof(float)) / M;
      memcpy((float *)y->ptr + m * N, reg[q->results[o]], (size_t)N * sizeof(float));
    }
  }
  return TN_OK;
}

static const tn_option takes_option = {.h = TN_HDR(tn_option),
                                       .key = "takes",
                                       .help = "which nodes to claim",
                                       .dflt = "matmul",
                                       .type = TN_OPT_STRING,
                                       .choices = "matmul|products|chains|nothing"};
static const tn_option *const options[] = {&takes_option};

static void set_up(backend *p) {
  p->pub.options = options;
  p->pub.n_options = 1;
  p->caps = (tn_caps){.h = TN_HDR(tn_caps), .name = "test cpu", .driver = "none", .key = "sched-parts"};
}

static tn_status ask_driver(backend *p, uint32_t *n, tn_error *err) {
  (void)err;
  if (p->host->option(p->host->ctx, "takes", TN_OPT_STRING, &p->takes) != TN_OK) return TN_E_INTERNAL;
  *n = 1;
  return TN_OK;
}

TN_PLUGIN(sched_parts, entry)
