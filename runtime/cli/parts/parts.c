/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/cli/parts/parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

const char *const part_names[PARTS] = {"matmul",    "attention", "norm",          "rotary",       "caches",
                                              "embedding", "other",     "between tasks", "between steps"};

/* --- what a task is ----------------------------------------------------------------------------------------------- */

static const struct {
  part part;
  const char *op;
} known[] = {
    {PART_ATTENTION, "Attention"},
    {PART_ATTENTION, "LinearAttention"},
    {PART_MATMUL, "MatMul"},
    {PART_MATMUL, "FusedMatMul"},
    {PART_MATMUL, "Gemm"},
    {PART_MATMUL, "QLinearGemm"},
    {PART_MATMUL, "MatMulInteger"},
    {PART_MATMUL, "MatMulIntegerToFloat"},
    {PART_MATMUL, "QLinearMatMul"},
    {PART_MATMUL, "Conv"},
    {PART_MATMUL, "QLinearConv"},
    {PART_MATMUL, "ConvInteger"},
    {PART_MATMUL, "ConvTranspose"},
    {PART_MATMUL, "DeformConv"},
    {PART_MATMUL, "CausalConvWithState"},
    {PART_NORM, "RMSNormalization"},
    {PART_NORM, "LayerNormalization"},
    {PART_NORM, "BatchNormalization"},
    {PART_NORM, "InstanceNormalization"},
    {PART_NORM, "GroupNormalization"},
    {PART_NORM, "LpNormalization"},
    {PART_NORM, "MeanVarianceNormalization"},
    {PART_ROTARY, "RotaryEmbedding"},
    {PART_CACHES, "TensorScatter"},
    {PART_EMBEDDING, "Gather"},
};

static bool has_operator(const char *ops, const char *op) {
  const size_t n = strlen(op);
  for (const char *at = ops; (at = strstr(at, op)); at += n)
    if ((at == ops || at[-1] == ' ') && (at[n] == ' ' || !at[n])) return true;
  return false;
}

part part_of(const char *ops) {
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (has_operator(ops, known[i].op)) return known[i].part;
  return PART_OTHER;
}

/* --- events ------------------------------------------------------------------------------------------------------- */

static int64_t now_ns(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

void parts_begin(parts *p) {
  *p = (parts){0};
  p->begin = now_ns();
}

void parts_task(parts *p, const tn_trace_event *e) {
  if (e->clock) {
    p->elsewhere++;
    return;
  }
  if (p->n == p->cap) {
    const size_t cap = p->cap ? p->cap * 2 : 4096;
    part_event *grown = realloc(p->events, cap * sizeof *grown);
    p->no_memory = p->no_memory || !grown;
    if (!grown) return;
    p->events = grown;
    p->cap = cap;
  }
  p->events[p->n++] = (part_event){e->start, e->end, e->ops, e->step};
}

void parts_token(parts *p) {
  if (!p->first_token) p->first_token = now_ns();
}

void parts_end(parts *p) {
  p->end = now_ns();
  if (!p->first_token) p->first_token = p->end;
}

void parts_finish(parts *p) {
  free(p->events);
  *p = (parts){0};
}

/* --- sums --------------------------------------------------------------------------------------------------------- */

/* A task begins (+1) or ends (-1). */
typedef struct edge {
  int64_t at;
  uint32_t step;
  part part;
  int what;
} edge;

static int by_time(const void *a, const void *b) {
  const edge *x = a, *y = b;
  return x->at != y->at ? (x->at > y->at ? 1 : -1) : x->what - y->what; /* ends first */
}

static int by_step(const void *a, const void *b) {
  const part_event *x = a, *y = b;
  return (x->step > y->step) - (x->step < y->step);
}

/* The time between two edges belongs to what runs; if nothing does, to the step that both are of. */
static void share_time(parts_sum *s, const uint32_t *running, uint32_t n, double ns, bool same_step) {
  for (int i = 0; i < PARTS && n; i++) s->ns[i] += ns * running[i] / n;
  if (!n) s->ns[same_step ? PART_BETWEEN_TASKS : PART_BETWEEN_STEPS] += ns;
}

static void sweep_edges(const edge *edges, size_t n_edges, int64_t from, int64_t to, parts_sum *s) {
  uint32_t running[PARTS] = {0}, n = 0;
  int64_t at = from;
  for (size_t i = 0; i < n_edges; i++) {
    const edge *e = &edges[i];
    share_time(s, running, n, (double)(e->at - at), i && edges[i - 1].step == e->step);
    running[e->part] += (uint32_t)e->what;
    n += (uint32_t)e->what;
    at = e->at;
  }
  share_time(s, running, n, (double)(to - at), false);
}

/* Of the time from `from` to `to`, while the model is there. Sorts the events. */
tn_status parts_add_up(parts *p, int64_t from, int64_t to, parts_sum *out) {
  edge *edges = malloc((2 * p->n + 1) * sizeof *edges);
  if (!edges || p->no_memory) {
    free(edges);
    return TN_E_NO_MEMORY;
  }
  *out = (parts_sum){.all_ns = (double)(to - from)};
  if (p->n) qsort(p->events, p->n, sizeof *p->events, by_step);
  size_t n = 0, last = SIZE_MAX;
  for (size_t i = 0; i < p->n; i++) {
    const part_event *e = &p->events[i];
    if (e->start < from || e->end > to) continue;
    out->steps += last == SIZE_MAX || p->events[last].step != e->step;
    const part what = part_of(e->ops);
    out->tasks[what]++;
    edges[n++] = (edge){e->start, e->step, what, 1};
    edges[n++] = (edge){e->end, e->step, what, -1};
    last = i;
  }
  qsort(edges, n, sizeof *edges, by_time);
  sweep_edges(edges, n, from, to, out);
  free(edges);
  return TN_OK;
}
