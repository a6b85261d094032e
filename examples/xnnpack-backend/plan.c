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
  int64_t *rooms;   /* [value][FORMS]: its interval in scratch in this form, or -1 */
  uint32_t *use_of; /* [value]: TN_NONE: none */
  tn_interval *iv;
  uint32_t n_iv;
} builder;

/* A value as images: n, c, h, w. What has not four dims is rows of the last one, an image of one pixel each. */
typedef struct images {
  int64_t d[4];
  uint64_t bytes; /* of all of it */
} images;

static tn_status eval_dims(const builder *b, size_t element, const tn_expr *dims, uint32_t rank, images *out) {
  *out = (images){{1, 1, 1, 1}, element};
  for (uint32_t i = 0; i < rank; i++) {
    int64_t dim, *to = &out->d[rank == 4 ? i : i + 1 == rank];
    const tn_status st = b->h->eval(&b->p->graph, dims[i], b->dims, &dim);
    if (st != TN_OK) return st;
    if (dim < 0 || dim > LARGEST || __builtin_mul_overflow(out->bytes, (uint64_t)dim, &out->bytes) ||
        out->bytes > UINT64_C(1) << 46 || __builtin_mul_overflow(*to, dim, to))
      return TN_E_LIMIT;
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

static void add_action(builder *b, const step *s, const images *of, place from, place to) {
  const int64_t *d = of->d;
  b->plan->actions[b->plan->n_actions++] =
      (action){.step = s, .n = d[0], .c = d[1], .h = d[2], .w = d[3], .from = from, .to = to};
}

static void add_copy(builder *b, const step *s, const images *of, uint32_t from_form, place from, uint32_t to_form, place to) {
  add_action(b, s, of, from, to);
  action *a = &b->plan->actions[b->plan->n_actions - 1];
  a->copies = 1;
  a->from_form = from_form;
  a->to_form = to_form;
}

/* The operand in the form that the step reads: from scratch in another form, or from the host. */
static place operand(builder *b, const step *s, const images *x) {
  int64_t *rooms = &b->rooms[(size_t)s->x * FORMS];
  if (rooms[s->form] < 0) {
    uint32_t form = s->x_host;
    place from = {USE, b->use_of[s->x], 0};
    for (uint32_t f = 0; f < FORMS; f++)
      if (rooms[f] >= 0) from = again(b, rooms[form = f]);
    const place to = scratch(b, x->bytes, &rooms[s->form]);
    add_copy(b, s, x, form, from, s->form, to);
  }
  return again(b, rooms[s->form]);
}

static tn_status add_step(builder *b, const step *s) {
  images x, y;
  tn_status st = eval_dims(b, size_of(s), s->x_dims, s->x_rank, &x);
  if (st == TN_OK) st = eval_dims(b, size_of(s), s->y_dims, s->y_rank, &y);
  if (st != TN_OK) return st;
  if (y.bytes && !x.bytes) return TN_E_UNSUPPORTED;
  int64_t *room = &b->rooms[(size_t)s->y * FORMS + s->form];
  const place from = operand(b, s, &x), to = scratch(b, y.bytes, room);
  const images rows = {{(int64_t)x.bytes / s->C, s->C, 1, 1}, x.bytes};
  if (y.bytes) add_action(b, s, s->matrix ? &rows : &x, from, to);
  if (b->use_of[s->y] != TN_NONE)
    add_copy(b, s, &y, s->form, again(b, *room), s->y_host, (place){USE, b->use_of[s->y], 0});
  return TN_OK;
}

static tn_status build(builder *b) {
  tn_status st = TN_OK;
  memset(b->use_of, 0xff, b->p->graph.n_values * sizeof *b->use_of);
  memset(b->rooms, 0xff, b->p->graph.n_values * FORMS * sizeof *b->rooms);
  for (uint32_t u = 0; u < b->t->task.n_uses; u++) b->use_of[b->p->slots[b->t->uses[u].slot]->value] = u;
  for (uint32_t i = b->t->first; st == TN_OK && i < b->t->first + b->t->n; i++)
    st = add_step(b, &b->p->steps[i]);
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
               books = p->graph.n_values * (FORMS * sizeof(int64_t) + sizeof(uint32_t)) + actions * sizeof(tn_interval);
  tn_plan *plan = h->alloc(h->ctx, bytes, 64, TN_TAG_PLUGIN);
  unsigned char *room = plan ? h->alloc(h->ctx, books + 64, 64, TN_TAG_PLUGIN) : NULL;
  if (!room) return h->free(h->ctx, plan), TN_E_NO_MEMORY;
  *plan = (tn_plan){.program = (tn_program *)(uintptr_t)p, .task = task, .actions = (action *)(void *)(plan + 1)};
  builder b = {.p = p, .t = t, .h = h, .dims = dims, .plan = plan, .iv = (tn_interval *)(void *)room,
      .rooms = (int64_t *)(void *)(room + actions * sizeof(tn_interval))};
  b.use_of = (uint32_t *)(void *)(b.rooms + p->graph.n_values * FORMS);
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
    int64_t n = (int64_t)size_of(s), dim;
    if (slot == TN_NONE || p->slots[slot]->kind != TN_SLOT_TEMP) continue;
    for (uint32_t k = 0; k < s->y_rank; k++)
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
