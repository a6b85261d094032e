/* SPDX-License-Identifier: Apache-2.0
 *
 * sched-matmul: x[M,K] * w[K,N] in f32 with a constant w, for tests of the session; and of FusedMatMul the one chain
 * silu(x * gate) * (x * up). Option `fault` makes it misbehave: last-column (results 1.5 times too large there), fpmode
 * (leaves flush-to-zero on), status (returns 4711), wait (computes until somebody cancels), sigmoid (instead of silu),
 * swap (gate for up), bind (binds until somebody cancels).
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PLUGIN_NAME "sched-matmul"
#define PLUGIN_VERSION "0.0.1"
#define PLUGIN_FIELDS const char *fault;
#include "../../kit/skeleton.h"

enum { MAX_NODES = 32, MAX_SLOTS = 4 * MAX_NODES };

struct tn_program {
  backend *owner;
  tn_graph graph;
  tn_program_info info;
  tn_need needs[2 * MAX_NODES];
  tn_slot slots[MAX_SLOTS];
  tn_task tasks[MAX_NODES];
  tn_use uses[MAX_NODES][4]; /* x, weights, y */
  tn_id nodes[MAX_NODES], deps[MAX_NODES][1], weights[2 * MAX_NODES], values[MAX_SLOTS];
  tn_expr rows[MAX_SLOTS], cols[MAX_SLOTS];
  const float *w[MAX_SLOTS];
  int64_t K[MAX_NODES], N[MAX_NODES];
  const tn_need *needs_p[2 * MAX_NODES];
  const tn_slot *slots_p[MAX_SLOTS];
  const tn_task *tasks_p[MAX_NODES];
};

struct tn_plan {
  tn_program *p;
  tn_id task;
};

struct tn_args {
  tn_view x, y;
  uint32_t y_use;
};

static int is_chain(const tn_node *n) {
  static const int64_t ops[6] = {TN_OP_SWISH, 0, -1, TN_OP_MUL, 2, 1};
  const tn_attr *a = n->attr[TN_FUSED_OPS];
  return n->n_in == 3 && n->n_out == 1 && n->attr[TN_FUSED_N_WEIGHTS]->u.i == 2 && a->n == 6 &&
         memcmp(a->u.ints, ops, sizeof ops) == 0;
}

static int takes(const tn_graph *g, const tn_node *n) {
  if (n->op != TN_OP_MATMUL && !(n->op == TN_OP_FUSED_MATMUL && is_chain(n))) return 0;
  for (uint32_t i = 1; i < n->n_in; i++) {
    const tn_value *b = g->values[n->in[i]];
    if (b->kind != TN_VALUE_CONST || b->rank != 2 || b->dtype != TN_DT_F32) return 0;
  }
  const tn_value *a = g->values[n->in[0]];
  return a->rank == 2 && a->dtype == TN_DT_F32;
}

static tn_status claim(tn_device *d, const tn_graph *g, const tn_dims *at, const tn_claim_sink *sink, tn_error *err) {
  (void)d, (void)at, (void)err;
  for (tn_id i = 0; i < g->n_nodes; i++) {
    tn_claim c = {.h = TN_HDR(tn_claim), .verdict = TN_YES};
    if (!takes(g, g->nodes[i])) {
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
    tn_id x = slot_of(p, s, n->in[0]);
    uint32_t n_in = n->n_in; /* x, one weight or two */
    p->nodes[i] = s->nodes[i];
    p->uses[i][0] = (tn_use){x, TN_READ};
    for (uint32_t k = 1; k < n_in; k++) p->uses[i][k] = (tn_use){slot_of(p, s, n->in[k]), TN_READ};
    p->uses[i][n_in] = (tn_use){slot_of(p, s, n->out[0]), TN_WRITE};
    const tn_weight *data = s->graph->values[n->in[1]]->data;
    p->K[i] = data->N; /* a weight is [dims[0], dims[1]] */
    p->N[i] = data->K;
    p->tasks[i] = (tn_task){.h = TN_HDR(tn_task),
                            .name = n->name,
                            .symbols = UINT64_MAX,
                            .uses = p->uses[i],
                            .deps = p->deps[i],
                            .nodes = &p->nodes[i],
                            .n_uses = n_in + 1,
                            .n_nodes = 1};
    for (uint32_t k = 0; k < i; k++)
      if (p->uses[k][p->tasks[k].n_uses - 1].slot == x) p->deps[i][p->tasks[i].n_deps++] = k;
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

/* Polls what the host says; five seconds are longer than anybody waits. */
static tn_status bind_for_ever(const tn_host *h, tn_error *err) {
  for (int i = 0; i < 5000; i++) {
    const struct timespec ms = {.tv_nsec = 1000000};
    if (h->cancelled(h->ctx)) return TN_E_CANCELLED;
    nanosleep(&ms, NULL);
  }
  snprintf(err->message, sizeof err->message, "nobody cancelled");
  return TN_E_INTERNAL;
}

static tn_status bind(tn_program *p, tn_id task, const tn_dims *dims, tn_plan **out, tn_error *err) {
  (void)dims;
  if (strcmp(p->owner->fault, "bind") == 0) return bind_for_ever(p->owner->host, err);
  tn_plan *plan = malloc(sizeof *plan);
  if (!plan) return TN_E_NO_MEMORY;
  *plan = (tn_plan){p, task};
  *out = plan;
  return TN_OK;
}

static void unbind(tn_plan *p) { free(p); }

static tn_status args(tn_plan *plan, const tn_view *const *uses, uint32_t n, tn_args **out, tn_error *err) {
  (void)err;
  uint32_t n_uses = plan->p->tasks[plan->task].n_uses;
  tn_args *a = n == n_uses + 1 ? malloc(sizeof *a) : NULL;
  if (!a) return TN_E_INTERNAL;
  *a = (tn_args){*uses[0], *uses[n_uses - 1], n_uses - 1};
  *out = a;
  return TN_OK;
}

static tn_status args_set(tn_args *a, uint32_t use, const tn_view *view, tn_error *err) {
  (void)err;
  if (use == 0) a->x = *view;
  if (use == a->y_use) a->y = *view;
  return TN_OK;
}

static void args_free(tn_args *a) { free(a); }

static void leave_ftz(void) {
#if defined(__x86_64__)
  __builtin_ia32_ldmxcsr(__builtin_ia32_stmxcsr() | 0x8040);
#elif defined(__aarch64__)
  uint64_t v;
  __asm__ volatile("mrs %0, fpcr" : "=r"(v));
  __asm__ volatile("msr fpcr, %0" : : "r"(v | (UINT64_C(1) << 24)));
#endif
}

static tn_status wait_for_cancel(const tn_run *pool) {
  const struct timespec ms = {.tv_nsec = 1000000};
  for (int i = 0; i < 20000; i++) {
    if (pool->cancelled(pool)) return TN_E_CANCELLED;
    nanosleep(&ms, NULL);
  }
  return TN_E_INTERNAL;
}

static float dot(const float *x, const float *w, int64_t K, int64_t N) {
  float sum = 0;
  for (int64_t k = 0; k < K; k++) sum += x[k] * w[k * N];
  return sum;
}

static tn_status run(const tn_plan *plan, tn_args *a, tn_run *pool, tn_error *err) {
  const tn_program *p = plan->p;
  const char *fault = p->owner->fault;
  int64_t K = p->K[plan->task], N = p->N[plan->task], M = (int64_t)(a->x.bytes / sizeof(float)) / K;
  const tn_use *uses = p->uses[plan->task];
  const float *x = a->x.ptr, *w = p->w[uses[1].slot], *up = a->y_use == 3 ? p->w[uses[2].slot] : NULL;
  float *y = a->y.ptr;
  int swap = strcmp(fault, "swap") == 0, silu = strcmp(fault, "sigmoid") != 0;
  (void)err;
  for (int64_t m = 0; m < M; m++)
    for (int64_t n = 0; n < N; n++) {
      float sum = dot(x + m * K, w + n, K, N);
      if (n == N - 1 && strcmp(fault, "last-column") == 0) sum *= 1.5f;
      if (up) {
        float other = dot(x + m * K, up + n, K, N), gate = swap ? other : sum;
        sum = (silu ? gate : 1) / (1 + expf(-gate)) * (swap ? sum : other);
      }
      y[m * N + n] = sum;
    }
  if (strcmp(fault, "overrun") == 0) ((char *)a->y.ptr)[a->y.bytes]++;
  if (strcmp(fault, "inf") == 0) ((float *)a->y.ptr)[1] = -INFINITY;
  if (strcmp(fault, "fpmode") == 0) leave_ftz();
  if (strcmp(fault, "status") == 0) return 4711;
  return strcmp(fault, "wait") == 0 ? wait_for_cancel(pool) : TN_OK;
}

static const tn_option fault_option = {.h = TN_HDR(tn_option),
                                       .key = "fault",
                                       .help = "what to do wrong",
                                       .dflt = "none",
                                       .type = TN_OPT_STRING,
                                       .choices = "none|last-column|fpmode|status|wait|sigmoid|swap|bind|overrun|inf"};
static const tn_option *const options[] = {&fault_option};

static void set_up(backend *p) {
  p->pub.options = options;
  p->pub.n_options = 1;
  p->caps = (tn_caps){.h = TN_HDR(tn_caps), .name = "test cpu", .driver = "none", .key = "sched-matmul"};
}

static tn_status ask_driver(backend *p, uint32_t *n, tn_error *err) {
  (void)err;
  if (p->host->option(p->host->ctx, "fault", TN_OPT_STRING, &p->fault) != TN_OK) return TN_E_INTERNAL;
  *n = 1;
  return TN_OK;
}

TN_PLUGIN(sched_matmul, entry)
