/* SPDX-License-Identifier: Apache-2.0
 *
 * A plugin that is in order and does something: x[M,K] * w[K,N] in float32, weights packed by a format of its own. Each
 * file of this folder includes it, breaks one thing and ends with WHOLE(statements), which see the plugin as `w`.
 */
#ifndef TENON_TESTS_FAULTS_WHOLE_H
#define TENON_TESTS_FAULTS_WHOLE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PLUGIN_NAME FAULT_NAME
#define PLUGIN_VERSION "0.0.1"
#define PLUGIN_FIELDS \
  tn_format format;   \
  const tn_format *formats[1];
#include "../../kit/skeleton.h"

enum { WHOLE_NODES = 8, WHOLE_HEAD = 16, WHOLE_SCRATCH = 256 };

typedef backend whole;

struct tn_program {
  whole *owner;
  tn_program_info info;
  tn_need needs[WHOLE_NODES];
  tn_slot slots[3 * WHOLE_NODES];
  tn_task tasks[WHOLE_NODES];
  tn_use uses[WHOLE_NODES][3]; /* x, w, y */
  tn_id nodes[WHOLE_NODES], weights[WHOLE_NODES], deps[WHOLE_NODES][WHOLE_NODES];
  const tn_blob *blob[3 * WHOLE_NODES];
  const tn_need *needs_p[WHOLE_NODES];
  const tn_slot *slots_p[3 * WHOLE_NODES];
  const tn_task *tasks_p[WHOLE_NODES];
};
struct tn_plan {
  tn_program *p;
  tn_id task;
};
struct tn_args {
  tn_view x, y, scratch;
};
struct tn_pack {
  const tn_host *host;
  const tn_weight *w;
};

static inline tn_status whole_size(const tn_format *f, int64_t N, int64_t K, const int64_t *params, uint32_t n,
                                   tn_pack_size *out) {
  (void)f, (void)params, (void)n;
  *out = (tn_pack_size){.bytes = (uint64_t)(WHOLE_HEAD + N * K) * sizeof(float), .align = 64, .row_unit = 1};
  return TN_OK;
}
static inline tn_status whole_begin(const tn_host *host, const tn_format *f, const tn_weight *w, const int64_t *params,
                                    uint32_t n, tn_pack **out, tn_error *err) {
  tn_pack *p = host->alloc(host->ctx, sizeof *p, 64, TN_TAG_PACK);
  (void)f, (void)params, (void)n, (void)err;
  if (!p) return TN_E_NO_MEMORY;
  *p = (tn_pack){.host = host, .w = w};
  *out = p;
  return TN_OK;
}
static inline tn_status whole_rows(tn_pack *p, int64_t n0, int64_t n1, void *blob) {
  return p->w->rows(p->w, n0, n1, (float *)blob + WHOLE_HEAD + n0 * p->w->K);
}
static inline tn_status whole_end(tn_pack *p, void *blob) {
  if (blob) memset(blob, 0, WHOLE_HEAD * sizeof(float));
  p->host->free(p->host->ctx, p);
  return TN_OK;
}
static inline tn_status whole_unpack(const tn_blob *b, const int64_t box[4], float *dst) {
  const int64_t width = box[3] - box[2];
  for (int64_t n = box[0]; n < box[1]; n++, dst += width)
    memcpy(dst, (const float *)b->ptr + WHOLE_HEAD + n * b->K + box[2], (size_t)width * sizeof *dst);
  return TN_OK;
}
static const tn_numerics whole_f32 = {.h = TN_HDR(tn_numerics),
                                      .act_dtype = TN_DT_F32,
                                      .acc_inner = TN_DT_F32,
                                      .acc_outer = TN_DT_F32,
                                      .scale_dtype = TN_DT_F32,
                                      .finite_max = 1e30};

static inline int whole_takes(const tn_graph *g, const tn_node *n) {
  if (n->op != TN_OP_MATMUL) return 0;
  const tn_value *a = g->values[n->in[0]], *b = g->values[n->in[1]];
  return a->rank >= 2 && a->dtype == TN_DT_F32 && b->kind == TN_VALUE_CONST && b->rank == 2 && b->dtype == TN_DT_F32;
}
static inline tn_claim whole_answer(tn_device *d, const tn_graph *g, tn_id i) {
  tn_claim c = {.h = TN_HDR(tn_claim), .verdict = TN_YES, .format = &backend_of(d)->format};
  if (whole_takes(g, g->nodes[i])) return c;
  return (tn_claim){
      .h = TN_HDR(tn_claim), .verdict = TN_NO, .reason = TN_WHY_OP, .text = "only f32 products with constants"};
}
static tn_status claim(tn_device *d, const tn_graph *g, const tn_dims *at, const tn_claim_sink *sink, tn_error *err) {
  (void)at, (void)err;
  tn_status st = TN_OK;
  for (tn_id i = 0; st == TN_OK && i < g->n_nodes; i++) {
    const tn_claim c = whole_answer(d, g, i);
    st = sink->node(sink->ctx, i, &c);
  }
  return st;
}

static inline tn_id whole_slot(tn_program *p, tn_id v, uint32_t kind, tn_id need) {
  for (tn_id i = 0; i < p->info.n_slots; i++)
    if (p->slots[i].value == v && kind != TN_SLOT_WEIGHT) return i;
  const tn_id i = p->info.n_slots++;
  p->slots[i] = (tn_slot){.h = TN_HDR(tn_slot),
                          .name = "slot",
                          .kind = kind,
                          .engines = 1,
                          .align = 64,
                          .value = v,
                          .need = need,
                          .alias = TN_NONE};
  p->slots_p[i] = &p->slots[i];
  return i;
}
static tn_status lower(tn_device *d, const tn_subgraph *s, tn_program **out, tn_error *err) {
  whole *o = backend_of(d);
  (void)err;
  tn_program *p = s->n_nodes <= WHOLE_NODES ? o->host->alloc(o->host->ctx, sizeof *p, 64, TN_TAG_PLUGIN) : NULL;
  if (!p) return TN_E_NO_MEMORY;
  memset(p, 0, sizeof *p);
  p->owner = o;
  p->info = (tn_program_info){.h = TN_HDR(tn_program_info),
                              .needs = p->needs_p,
                              .slots = p->slots_p,
                              .tasks = p->tasks_p,
                              .n_needs = s->n_nodes,
                              .n_tasks = s->n_nodes};
  for (uint32_t i = 0; i < s->n_nodes; i++) {
    const tn_node *n = s->graph->nodes[s->nodes[i]];
    uint32_t in = TN_SLOT_OUTPUT;
    for (uint32_t k = 0; k < s->n_inputs; k++)
      if (s->inputs[k] == n->in[0]) in = TN_SLOT_INPUT;
    p->nodes[i] = s->nodes[i];
    p->weights[i] = n->in[1];
    p->needs[i] = (tn_need){.h = TN_HDR(tn_need),
                            .format = &o->format,
                            .values = &p->weights[i],
                            .n_values = 1,
                            .residency = TN_RESIDENCY_HOST,
                            .flags = TN_NEED_KN};
    p->needs_p[i] = &p->needs[i];
    p->uses[i][0] = (tn_use){whole_slot(p, n->in[0], in, TN_NONE), TN_READ};
    p->uses[i][1] = (tn_use){whole_slot(p, n->in[1], TN_SLOT_WEIGHT, i), TN_READ};
    p->uses[i][2] = (tn_use){whole_slot(p, n->out[0], TN_SLOT_OUTPUT, TN_NONE), TN_WRITE};
    p->tasks[i] = (tn_task){.h = TN_HDR(tn_task),
                            .name = n->name,
                            .symbols = UINT64_MAX,
                            .uses = p->uses[i],
                            .nodes = &p->nodes[i],
                            .deps = p->deps[i],
                            .n_uses = 3,
                            .n_nodes = 1};
    for (uint32_t k = 0; k < i; k++)
      if (p->uses[k][2].slot == p->uses[i][0].slot) p->deps[i][p->tasks[i].n_deps++] = k;
    p->tasks_p[i] = &p->tasks[i];
  }
  *out = p;
  return TN_OK;
}
static const tn_program_info *info(const tn_program *p) { return &p->info; }
static tn_status measure(const tn_program *p, tn_id task, const tn_dims *dims, tn_measure *out) {
  (void)p, (void)task, (void)dims;
  out->scratch_bytes = WHOLE_SCRATCH;
  out->scratch_align = 64;
  return TN_OK;
}
static tn_status set(tn_program *p, tn_id slot, const tn_view *view, const tn_blob *blob, tn_error *err) {
  (void)view, (void)err;
  p->blob[slot] = blob;
  return blob && blob->ptr ? TN_OK : TN_E_INTERNAL;
}
static void release(tn_program *p) { p->owner->host->free(p->owner->host->ctx, p); }
static tn_status bind(tn_program *p, tn_id task, const tn_dims *dims, tn_plan **out, tn_error *err) {
  tn_plan *plan = malloc(sizeof *plan);
  (void)dims, (void)err;
  if (!plan) return TN_E_NO_MEMORY;
  *plan = (tn_plan){p, task};
  *out = plan;
  return TN_OK;
}
static void unbind(tn_plan *p) { free(p); }
static tn_status args(tn_plan *plan, const tn_view *const *uses, uint32_t n, tn_args **out, tn_error *err) {
  tn_args *a = n == 4 ? malloc(sizeof *a) : NULL;
  (void)plan, (void)err;
  if (!a) return TN_E_INTERNAL;
  *a = (tn_args){*uses[0], *uses[2], *uses[3]};
  *out = a;
  return TN_OK;
}
static tn_status args_set(tn_args *a, uint32_t use, const tn_view *view, tn_error *err) {
  (void)err;
  if (use == 0) a->x = *view;
  if (use == 2) a->y = *view;
  if (use == 3) a->scratch = *view;
  return TN_OK;
}
static void args_free(tn_args *a) { free(a); }
static tn_status run(const tn_plan *plan, tn_args *a, tn_run *pool, tn_error *err) {
  const tn_blob *b = plan->p->blob[plan->p->uses[plan->task][1].slot];
  const float *x = a->x.ptr, *w = (const float *)b->ptr + WHOLE_HEAD;
  const int64_t N = b->N, K = b->K, M = (int64_t)(a->x.bytes / sizeof(float)) / K;
  float *y = a->y.ptr;
  (void)pool, (void)err;
  for (int64_t m = 0; m < M; m++)
    for (int64_t n = 0; n < N; n++) {
      float sum = 0;
      for (int64_t k = 0; k < K; k++) sum += x[m * K + k] * w[n * K + k];
      y[m * N + n] = sum;
    }
  return TN_OK;
}

static void set_up(backend *p) {
  p->format = (tn_format){.h = TN_HDR(tn_format),
                          .name = FAULT_NAME,
                          .version = 1,
                          .bits = 32,
                          .group = 1,
                          .bits_per_weight = 32,
                          .numerics = &whole_f32,
                          .size = whole_size,
                          .begin = whole_begin,
                          .rows = whole_rows,
                          .end = whole_end,
                          .unpack = whole_unpack};
  p->formats[0] = &p->format;
  p->pub.formats = p->formats;
  p->pub.n_formats = 1;
  p->caps = (tn_caps){.h = TN_HDR(tn_caps), .name = "whole", .driver = "none", .key = "whole"};
}

static tn_status ask_driver(backend *p, uint32_t *n, tn_error *err) {
  (void)p, (void)err;
  *n = 1;
  return TN_OK;
}

/* FAULT_NAME is the file's name, given by the build. */
#define WHOLE(...)                                                                        \
  static tn_status whole_entry(const tn_host *host, tn_negotiate *neg, tn_plugin **out) { \
    const tn_status st = entry(host, neg, out);                                           \
    if (st != TN_OK) return st;                                                           \
    whole *w = (whole *)(void *)*out;                                                     \
    (void)w;                                                                              \
    __VA_ARGS__;                                                                          \
    return TN_OK;                                                                         \
  }                                                                                       \
  TN_PLUGIN(fault, whole_entry)

/* Ways to go wrong. */
static inline void fault_crash(void) {
  volatile int *volatile nowhere = NULL; /* so that no compiler knows */
  nowhere[4] = 1;
}
static inline void fault_hang(void) {
  for (volatile int i = 0;; i++) continue;
}
static inline void fault_sleep(void) { /* a hang that leaves the processors to others */
  for (;;) pause();
}
static inline int fault_deeper(volatile char *above) {
  volatile char here[65536];
  here[0] = above ? (char)(above[0] | 1) : 1;
  return here[0] ? fault_deeper(here) + here[65535] : 0; /* always: but no compiler knows */
}

/* Hooks of one line: a function that does `what` and goes on with what the plugin does. */
#define IN_CLAIM(...)                                                                                                  \
  static tn_status fault(tn_device *d, const tn_graph *g, const tn_dims *at, const tn_claim_sink *sink, tn_error *e) { \
    __VA_ARGS__;                                                                                                       \
    return claim(d, g, at, sink, e);                                                                                   \
  }                                                                                                                    \
  WHOLE(w->device.claim = fault)
#define IN_LOWER(...)                                                                         \
  static tn_status fault(tn_device *d, const tn_subgraph *s, tn_program **out, tn_error *e) { \
    __VA_ARGS__;                                                                              \
    return lower(d, s, out, e);                                                               \
  }                                                                                           \
  WHOLE(w->device.lower = fault)
#define IN_BIND(...)                                                                                   \
  static tn_status fault(tn_program *p, tn_id task, const tn_dims *dims, tn_plan **out, tn_error *e) { \
    __VA_ARGS__;                                                                                       \
    return bind(p, task, dims, out, e);                                                                \
  }                                                                                                    \
  WHOLE(w->device.bind = fault)
#define IN_RUN(...)                                                                    \
  static tn_status fault(const tn_plan *plan, tn_args *a, tn_run *pool, tn_error *e) { \
    __VA_ARGS__;                                                                       \
    return run(plan, a, pool, e);                                                      \
  }                                                                                    \
  WHOLE(w->device.run = fault)
#define IN_ENUMERATE(...)                                                                             \
  static tn_status fault(tn_plugin *p, uint32_t cap, const tn_caps **out, uint32_t *n, tn_error *e) { \
    __VA_ARGS__;                                                                                      \
    return enumerate(p, cap, out, n, e);                                                              \
  }                                                                                                   \
  WHOLE(w->pub.enumerate = fault)
#define IN_OPEN(...)                                                                   \
  static tn_status fault(tn_plugin *p, uint32_t index, tn_device **out, tn_error *e) { \
    __VA_ARGS__;                                                                       \
    return open_device(p, index, out, e);                                              \
  }                                                                                    \
  WHOLE(w->pub.open = fault)

#endif
