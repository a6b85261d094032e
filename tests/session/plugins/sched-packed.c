/* SPDX-License-Identifier: Apache-2.0
 *
 * sched-packed: x[M,K] * w[K,N] in f32 over weights that it packs as rows of floats behind a header of 64 bytes, for
 * tests of packing. Two formats: "rows32", and "rows32s", which reads statistics and writes them into the header.
 * Options: format; residency (host, device, disk: then rows are read in run, by the blob's read()); offline (claims and
 * packs, cannot run); needs_stats (refuses products whose activation has none); slow (packing takes its time and polls
 * for a cancellation); sections (it has the rows attached alone, without the header).
 */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PLUGIN_NAME "sched-packed"
#define PLUGIN_VERSION "0.0.1"
#define PLUGIN_FIELDS             \
  const char *format, *residency; \
  int64_t offline, needs_stats, sections;
#include "../../kit/skeleton.h"

enum { MAX_NODES = 8, HEAD_FLOATS = 16 };

struct tn_program {
  backend *owner;
  tn_program_info info;
  tn_need needs[MAX_NODES];
  tn_slot slots[3 * MAX_NODES];
  tn_task tasks[MAX_NODES];
  tn_use uses[MAX_NODES][3]; /* x, w, y */
  tn_id nodes[MAX_NODES], weights[MAX_NODES], values[3 * MAX_NODES], deps[MAX_NODES][MAX_NODES];
  const tn_blob *blob[3 * MAX_NODES];
  const float *rows[3 * MAX_NODES]; /* sections: what the slot's view has */
  const tn_need *needs_p[MAX_NODES];
  const tn_slot *slots_p[3 * MAX_NODES];
  const tn_task *tasks_p[MAX_NODES];
};

struct tn_plan {
  tn_program *p;
  tn_id task;
};

struct tn_args {
  tn_view x, y;
};

/* --- formats ------------------------------------------------------------------------------------------------------ */

struct tn_pack {
  const tn_host *host;
  const tn_weight *w;
  float head[HEAD_FLOATS];
  int64_t slow;
};

static tn_status fmt_size(const tn_format *f, int64_t N, int64_t K, const int64_t *params, uint32_t n,
                          tn_pack_size *out) {
  (void)f, (void)params;
  if (n) return TN_E_INVALID;
  *out = (tn_pack_size){.bytes = (uint64_t)(HEAD_FLOATS + N * K) * sizeof(float), .align = 64, .row_unit = 1};
  return TN_OK;
}

static tn_status fmt_begin(const tn_host *host, const tn_format *f, const tn_weight *w, const int64_t *params,
                           uint32_t n, tn_pack **out, tn_error *err) {
  tn_pack *p = host->alloc(host->ctx, sizeof *p, 64, TN_TAG_PACK);
  (void)params, (void)n, (void)err;
  if (!p) return TN_E_NO_MEMORY;
  *p = (tn_pack){.host = host, .w = w};
  if (host->option(host->ctx, "slow", TN_OPT_BOOL, &p->slow) != TN_OK) p->slow = 0;
  if (f->flags & TN_FMT_READS_STATS && w->x) {
    p->head[0] = w->x->absmax;
    p->head[1] = w->x->p999;
    p->head[2] = (float)w->x->n;
    for (uint32_t k = 0; k < w->x->n && k < 4; k++) p->head[4 + k] = w->x->ch_over[k];
  }
  *out = p;
  return TN_OK;
}

static tn_status fmt_rows(tn_pack *p, int64_t n0, int64_t n1, void *blob) {
  const struct timespec nap = {.tv_nsec = 20000000};
  for (int i = 0; p->slow && i < 500; i++) {
    if (p->host->cancelled(p->host->ctx)) return TN_E_CANCELLED;
    nanosleep(&nap, NULL);
  }
  return p->w->rows(p->w, n0, n1, (float *)blob + HEAD_FLOATS + n0 * p->w->K);
}

static tn_status fmt_end(tn_pack *p, void *blob) {
  if (blob) memcpy(blob, p->head, sizeof p->head);
  p->host->free(p->host->ctx, p);
  return TN_OK;
}

static tn_status fmt_unpack(const tn_blob *b, const int64_t box[4], float *dst) {
  const int64_t width = box[3] - box[2];
  for (int64_t n = box[0]; n < box[1]; n++, dst += width) {
    const uint64_t at = (uint64_t)(HEAD_FLOATS + n * b->K + box[2]) * sizeof(float);
    if (b->ptr)
      memcpy(dst, (const char *)b->ptr + at, (size_t)width * sizeof(float));
    else if (b->read(b, at, (uint64_t)width * sizeof(float), dst) != TN_OK)
      return TN_E_IO;
  }
  return TN_OK;
}

/* The header, and the rows. */
static tn_status fmt_sections(const tn_format *f, int64_t N, int64_t K, const int64_t *params, uint32_t n, uint32_t cap,
                              tn_section *out, uint32_t *count) {
  const uint64_t head = HEAD_FLOATS * sizeof(float);
  const tn_section all[2] = {{.bytes = head, .align = 64},
                             {.offset = head, .bytes = (uint64_t)(N * K) * sizeof(float), .align = 64}};
  (void)f, (void)params;
  if (n) return TN_E_INVALID;
  for (uint32_t i = 0; i < 2 && i < cap; i++) out[i] = all[i];
  *count = 2;
  return TN_OK;
}

static const tn_numerics f32 = {.h = TN_HDR(tn_numerics),
                                .act_dtype = TN_DT_F32,
                                .acc_inner = TN_DT_F32,
                                .acc_outer = TN_DT_F32,
                                .scale_dtype = TN_DT_F32,
                                .finite_max = 1e30};
#define FORMAT(text, f)                                                                                             \
  {                                                                                                                 \
    .h = TN_HDR(tn_format), .name = text, .version = 1, .bits = 32, .group = 1, .flags = f, .bits_per_weight = 32,  \
    .numerics = &f32, .size = fmt_size, .begin = fmt_begin, .rows = fmt_rows, .end = fmt_end, .unpack = fmt_unpack, \
    .sections = fmt_sections                                                                                        \
  }
static const tn_format rows32 = FORMAT("rows32", 0), rows32s = FORMAT("rows32s", TN_FMT_READS_STATS);
#undef FORMAT
static const tn_format *const formats[] = {&rows32, &rows32s};

static const tn_format *format_of(const backend *p) { return strcmp(p->format, "rows32s") == 0 ? &rows32s : &rows32; }

/* --- claims and programs ------------------------------------------------------------------------------------------ */

static int takes(const tn_graph *g, const tn_node *n) {
  if (n->op != TN_OP_MATMUL) return 0;
  const tn_value *a = g->values[n->in[0]], *b = g->values[n->in[1]];
  return a->rank == 2 && a->dtype == TN_DT_F32 && b->kind == TN_VALUE_CONST && b->rank == 2 && b->dtype == TN_DT_F32;
}

static tn_status claim(tn_device *d, const tn_graph *g, const tn_dims *at, const tn_claim_sink *sink, tn_error *err) {
  const backend *p = backend_of(d);
  (void)at, (void)err;
  for (tn_id i = 0; i < g->n_nodes; i++) {
    tn_claim c = {.h = TN_HDR(tn_claim), .verdict = TN_YES, .format = format_of(p)};
    if (!takes(g, g->nodes[i])) {
      c = (tn_claim){.h = TN_HDR(tn_claim), .verdict = TN_NO, .reason = TN_WHY_OP};
      snprintf(c.text, sizeof c.text, "only f32 products with constants");
    } else if (p->needs_stats && !g->values[g->nodes[i]->in[0]]->stats) {
      c = (tn_claim){.h = TN_HDR(tn_claim), .verdict = TN_NO, .reason = TN_WHY_NO_STATS};
      snprintf(c.text, sizeof c.text, "its activation has no statistics");
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

static tn_id add_slot(tn_program *p, const tn_subgraph *s, tn_id v, uint32_t kind, tn_id need) {
  for (tn_id i = 0; i < p->info.n_slots; i++)
    if (p->values[i] == v && kind != TN_SLOT_WEIGHT) return i;
  const tn_id i = p->info.n_slots++;
  p->values[i] = v;
  p->slots[i] = (tn_slot){.h = TN_HDR(tn_slot),
                          .name = s->graph->values[v]->name,
                          .kind = kind,
                          .engines = 1,
                          .align = 64,
                          .value = v,
                          .need = need,
                          .alias = TN_NONE};
  p->slots_p[i] = &p->slots[i];
  return i;
}

static uint32_t residency_of(const backend *p) {
  return strcmp(p->residency, "disk") == 0   ? TN_RESIDENCY_DISK
         : strcmp(p->residency, "host") == 0 ? TN_RESIDENCY_HOST
                                             : TN_RESIDENCY_DEVICE;
}

static tn_status lower(tn_device *d, const tn_subgraph *s, tn_program **out, tn_error *err) {
  backend *o = backend_of(d);
  tn_program *p = s->n_nodes <= MAX_NODES ? o->host->alloc(o->host->ctx, sizeof *p, 64, TN_TAG_PLUGIN) : NULL;
  (void)err;
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
    const tn_id x = n->in[0], y = n->out[0];
    p->nodes[i] = s->nodes[i];
    p->weights[i] = n->in[1];
    p->needs[i] = (tn_need){.h = TN_HDR(tn_need),
                            .format = format_of(o),
                            .values = &p->weights[i],
                            .n_values = 1,
                            .residency = residency_of(o),
                            .flags = TN_NEED_KN,
                            .section = o->sections ? 2 : 0};
    p->needs_p[i] = &p->needs[i];
    p->uses[i][0] =
        (tn_use){add_slot(p, s, x, has(s->inputs, s->n_inputs, x) ? TN_SLOT_INPUT : TN_SLOT_OUTPUT, TN_NONE), TN_READ};
    p->uses[i][1] = (tn_use){add_slot(p, s, n->in[1], TN_SLOT_WEIGHT, i), TN_READ};
    p->uses[i][2] = (tn_use){add_slot(p, s, y, TN_SLOT_OUTPUT, TN_NONE), TN_WRITE};
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
  (void)p, (void)task, (void)dims, (void)out;
  return TN_OK;
}

/* DISK: no view and no pointer; otherwise both. */
static tn_status set(tn_program *p, tn_id slot, const tn_view *view, const tn_blob *blob, tn_error *err) {
  const int disk = residency_of(p->owner) == TN_RESIDENCY_DISK;
  (void)err;
  if (!blob || disk != (view == NULL) || disk != (blob->ptr == NULL)) return TN_E_INTERNAL;
  p->blob[slot] = blob;
  if (!p->owner->sections || disk) return TN_OK;
  if (view->bytes != (uint64_t)(blob->N * blob->K) * sizeof(float)) return TN_E_INTERNAL;
  p->rows[slot] = view->ptr;
  return TN_OK;
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
  *a = (tn_args){*uses[0], *uses[2]};
  *out = a;
  return TN_OK;
}

static tn_status args_set(tn_args *a, uint32_t use, const tn_view *view, tn_error *err) {
  (void)err;
  if (use == 0) a->x = *view;
  if (use == 2) a->y = *view;
  return TN_OK;
}

static void args_free(tn_args *a) { free(a); }

typedef struct job {
  const tn_blob *blob;
  const float *rows; /* NULL: in the blob */
  const float *x;
  float *y;
  int64_t M;
  _Atomic int32_t status;
} job;

/* Columns of y = rows of the blob, read where they lie, on the pool's threads. */
static void columns(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  job *j = arg;
  const int64_t N = j->blob->N, K = j->blob->K;
  float *row = malloc((size_t)K * sizeof *row);
  (void)worker;
  for (int64_t n = begin; n < end && row; n++) {
    const int64_t box[4] = {n, n + 1, 0, K};
    tn_status st = TN_OK;
    if (j->rows)
      memcpy(row, j->rows + n * K, (size_t)K * sizeof *row);
    else
      st = fmt_unpack(j->blob, box, row);
    if (st != TN_OK) atomic_store(&j->status, st);
    for (int64_t m = 0; m < j->M; m++) {
      float sum = 0;
      for (int64_t k = 0; k < K; k++) sum += j->x[m * K + k] * row[k];
      j->y[m * N + n] = sum;
    }
  }
  free(row);
}

static tn_status run(const tn_plan *plan, tn_args *a, tn_run *pool, tn_error *err) {
  const tn_id slot = plan->p->uses[plan->task][1].slot;
  const tn_blob *b = plan->p->blob[slot];
  job j = {.blob = b,
           .rows = plan->p->rows[slot],
           .x = a->x.ptr,
           .y = a->y.ptr,
           .M = (int64_t)(a->x.bytes / sizeof(float)) / b->K};
  (void)err;
  if (plan->p->owner->offline) return TN_E_INTERNAL; /* the host must not come here */
  pool->parallel_for(pool, b->N, 1, columns, &j);
  return atomic_load(&j.status);
}

/* --- plugin ------------------------------------------------------------------------------------------------------- */

#define OPTION(k, t, d, c) \
  { .h = TN_HDR(tn_option), .key = k, .help = k, .dflt = d, .type = t, .choices = c }
static const tn_option table[] = {OPTION("format", TN_OPT_STRING, "rows32", "rows32|rows32s"),
                                  OPTION("residency", TN_OPT_STRING, "host", "host|device|disk"),
                                  OPTION("offline", TN_OPT_BOOL, "false", NULL),
                                  OPTION("needs_stats", TN_OPT_BOOL, "false", NULL),
                                  OPTION("slow", TN_OPT_BOOL, "false", NULL),
                                  OPTION("sections", TN_OPT_BOOL, "false", NULL)};
#undef OPTION
static const tn_option *const options[] = {&table[0], &table[1], &table[2], &table[3], &table[4], &table[5]};

static void set_up(backend *p) {
  p->pub.options = options;
  p->pub.formats = formats;
  p->pub.n_options = 6;
  p->pub.n_formats = 2;
}

static tn_status ask_driver(backend *p, uint32_t *n, tn_error *err) {
  const tn_host *h = p->host;
  (void)err;
  if (h->option(h->ctx, "format", TN_OPT_STRING, &p->format) != TN_OK) return TN_E_INTERNAL;
  if (h->option(h->ctx, "residency", TN_OPT_STRING, &p->residency) != TN_OK) return TN_E_INTERNAL;
  if (h->option(h->ctx, "offline", TN_OPT_BOOL, &p->offline) != TN_OK) return TN_E_INTERNAL;
  if (h->option(h->ctx, "needs_stats", TN_OPT_BOOL, &p->needs_stats) != TN_OK) return TN_E_INTERNAL;
  if (h->option(h->ctx, "sections", TN_OPT_BOOL, &p->sections) != TN_OK) return TN_E_INTERNAL;
  p->caps = (tn_caps){.h = TN_HDR(tn_caps),
                      .name = "test packer",
                      .driver = "none",
                      .key = "sched-packed",
                      .flags = p->offline ? TN_CAPS_OFFLINE : 0};
  *n = 1;
  return TN_OK;
}

TN_PLUGIN(sched_packed, entry)
