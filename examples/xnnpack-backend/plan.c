/* SPDX-License-Identifier: Apache-2.0
 *
 * A task at fixed sizes. What lies between its steps is in scratch; the host's planner (tn_host.offsets) finds the room.
 */
#include <string.h>

#include "backend.h"

enum { LARGEST = 1 << 28 };

typedef struct builder {
  const tn_program *p;
  const part *t;
  const tn_host *h;
  const tn_dims *dims;
  tn_plan *plan;
  int64_t *last;    /* [value]: its interval in scratch with channels last, or -1 */
  uint32_t *use_of; /* [value]: TN_NONE: none */
  tn_interval *iv;
  uint32_t n_iv;
} builder;

/* Dims, and bytes of all of it. */
static tn_status eval_dims(const builder *b, const tn_expr *dims, int64_t *out, uint64_t *bytes) {
  *bytes = 4;
  for (uint32_t i = 0; i < 4; i++) {
    const tn_status st = b->h->eval(&b->p->graph, dims[i], b->dims, &out[i]);
    if (st != TN_OK) return st;
    if (out[i] < 0 || out[i] > LARGEST) return TN_E_LIMIT;
    if (__builtin_mul_overflow(*bytes, (uint64_t)out[i], bytes) || *bytes > UINT64_C(1) << 46) return TN_E_LIMIT;
  }
  return TN_OK;
}

/* Room in scratch from this action on, with what XNNPACK reads past it; later uses make it last longer. */
static place scratch(builder *b, uint64_t bytes, int64_t *index) {
  b->iv[b->n_iv] = (tn_interval){.first = b->plan->n_actions, .last = b->plan->n_actions,
      .bytes = bytes + XNN_EXTRA_BYTES, .align = 64};
  *index = b->n_iv;
  return (place){SCRATCH, b->n_iv++, 0};
}

static place again(builder *b, int64_t index) {
  b->iv[index].last = b->plan->n_actions;
  return (place){SCRATCH, (uint32_t)index, 0};
}

static void add_action(builder *b, int what, const step *s, const int64_t d[4], place from, place to) {
  b->plan->actions[b->plan->n_actions++] =
      (action){.what = what, .step = s, .n = d[0], .c = d[1], .h = d[2], .w = d[3], .from = from, .to = to};
}

/* Value v with its channels last. */
static place images(builder *b, tn_id v, const int64_t d[4], uint64_t bytes) {
  if (b->last[v] < 0) {
    const place from = {USE, b->use_of[v], 0}, to = scratch(b, bytes, &b->last[v]);
    add_action(b, TO_LAST, NULL, d, from, to);
  }
  return again(b, b->last[v]);
}

static tn_status add_image(builder *b, const step *s) {
  int64_t x[4], y[4];
  uint64_t x_bytes, y_bytes;
  tn_status st = eval_dims(b, s->x_dims, x, &x_bytes);
  if (st == TN_OK) st = eval_dims(b, s->y_dims, y, &y_bytes);
  if (st != TN_OK) return st;
  if (y_bytes && !x_bytes) return TN_E_UNSUPPORTED;
  const place from = images(b, s->x, x, x_bytes), to = scratch(b, y_bytes, &b->last[s->y]);
  if (y_bytes) add_action(b, EXECUTE, s, x, from, to);
  if (b->use_of[s->y] != TN_NONE)
    add_action(b, FROM_LAST, NULL, y, again(b, b->last[s->y]), (place){USE, b->use_of[s->y], 0});
  return TN_OK;
}

static tn_status build(builder *b) {
  tn_status st = TN_OK;
  memset(b->use_of, 0xff, b->p->graph.n_values * sizeof *b->use_of);
  memset(b->last, 0xff, b->p->graph.n_values * sizeof *b->last);
  for (uint32_t u = 0; u < b->t->task.n_uses; u++) b->use_of[b->p->slots[b->t->uses[u].slot]->value] = u;
  for (uint32_t i = b->t->first; st == TN_OK && i < b->t->first + b->t->n; i++)
    st = add_image(b, &b->p->steps[i]);
  if (st == TN_OK) st = b->h->offsets(b->h->ctx, b->n_iv, b->iv, &b->plan->scratch_bytes);
  for (uint32_t i = 0; st == TN_OK && i < b->plan->n_actions; i++) {
    action *a = &b->plan->actions[i];
    if (a->from.in == SCRATCH) a->from.offset = b->iv[a->from.index].offset;
    if (a->to.in == SCRATCH) a->to.offset = b->iv[a->to.index].offset;
  }
  return st;
}

void unbind(tn_plan *plan) { plan->program->device->host->free(plan->program->device->host->ctx, plan); }

static tn_status make(const tn_program *p, tn_id task, const tn_dims *dims, tn_plan **out) {
  const tn_host *h = p->device->host;
  if (task >= p->info.n_tasks) return TN_E_INVALID;
  const part *t = &p->parts[task];
  const size_t actions = (size_t)t->n * 4, bytes = sizeof(tn_plan) + actions * sizeof(action),
               books = p->graph.n_values * (sizeof(int64_t) + sizeof(uint32_t)) + actions * sizeof(tn_interval);
  tn_plan *plan = h->alloc(h->ctx, bytes, 64, TN_TAG_PLUGIN);
  unsigned char *room = plan ? h->alloc(h->ctx, books + 64, 64, TN_TAG_PLUGIN) : NULL;
  if (!room) return h->free(h->ctx, plan), TN_E_NO_MEMORY;
  *plan = (tn_plan){.program = (tn_program *)(uintptr_t)p, .task = task, .actions = (action *)(void *)(plan + 1)};
  builder b = {.p = p, .t = t, .h = h, .dims = dims, .plan = plan, .iv = (tn_interval *)(void *)room,
      .last = (int64_t *)(void *)(room + actions * sizeof(tn_interval))};
  b.use_of = (uint32_t *)(void *)(b.last + p->graph.n_values);
  const tn_status st = build(&b);
  h->free(h->ctx, room);
  if (st == TN_OK)
    *out = plan;
  else
    unbind(plan);
  return st;
}

tn_status measure(const tn_program *p, tn_id task, const tn_dims *dims, tn_measure *out) {
  tn_plan *plan = NULL;
  const tn_status st = make(p, task, dims, &plan);
  if (st != TN_OK) return st;
  out->scratch_bytes = plan->scratch_bytes;
  out->scratch_align = 64;
  for (uint32_t i = 0; out->slot_bytes && i < p->parts[task].n; i++) {
    const step *s = &p->steps[p->parts[task].first + i];
    const tn_id slot = p->slot_of[s->y];
    int64_t n = 4, dim;
    if (slot == TN_NONE || p->slots[slot]->kind != TN_SLOT_TEMP) continue;
    for (uint32_t k = 0; k < 4; k++)
      if (p->device->host->eval(&p->graph, s->y_dims[k], dims, &dim) == TN_OK) n *= dim;
    out->slot_bytes[slot] = (uint64_t)n;
  }
  unbind(plan);
  return TN_OK;
}

tn_status bind(tn_program *p, tn_id task, const tn_dims *dims, tn_plan **out, tn_error *err) {
  const tn_status st = make(p, task, dims, out);
  return st == TN_OK ? st : fail(err, st, "there is no task %u, or it cannot be computed at these sizes", task);
}
