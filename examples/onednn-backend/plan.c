/* SPDX-License-Identifier: Apache-2.0
 *
 * A task at fixed sizes. What lies between its steps is in scratch; the host's planner (tn_host.offsets) finds the room.
 */
#include <string.h>

#include "backend.h"

enum { LARGEST = 1 << 28 }; /* of a dim: products of four such and a type's size are refused below */

typedef struct size { int64_t n, c, h, w; } size;
typedef struct held { int64_t blocked, plain; } held; /* interval in scratch, or -1 */
typedef struct builder {
  const tn_program *p;
  const part *t;
  const tn_host *h;
  const tn_dims *dims;
  tn_plan *plan;
  held *values;
  uint32_t *use_of; /* [value]: TN_NONE: none */
  tn_interval *iv;
  uint32_t n_iv;
  int primitives; /* 0: only sizes are wanted */
} builder;

static tn_status eval_dims(const builder *b, const tn_expr *dims, uint32_t rank, int64_t *out) {
  for (uint32_t i = 0; i < rank; i++) {
    const tn_status st = b->h->eval(&b->p->graph, dims[i], b->dims, &out[i]);
    if (st != TN_OK) return st;
    if (out[i] < 0 || out[i] > LARGEST) return TN_E_LIMIT;
  }
  return TN_OK;
}

static tn_status bytes_of(const int64_t *n, uint32_t count, uint64_t *out) {
  *out = 4;
  for (uint32_t i = 0; i < count; i++)
    if (__builtin_mul_overflow(*out, (uint64_t)n[i], out) || *out > UINT64_C(1) << 46) return TN_E_LIMIT;
  return TN_OK;
}

/* Room in scratch from this action on; later uses make it last longer. */
static place scratch(builder *b, uint64_t bytes, int64_t *index) {
  b->iv[b->n_iv] = (tn_interval){.first = b->plan->n_actions, .last = b->plan->n_actions, .bytes = bytes, .align = 64};
  *index = b->n_iv;
  return (place){SCRATCH, b->n_iv++, 0};
}

static place again(builder *b, int64_t index) {
  b->iv[index].last = b->plan->n_actions;
  return (place){SCRATCH, (uint32_t)index, 0};
}

static action *begin_action(builder *b, int what, int64_t images, int64_t slices) {
  action *a = &b->plan->actions[b->plan->n_actions];
  *a = (action){.what = what, .images = images, .slices = slices, .operands = b->plan->operands + b->plan->n_operands};
  return a;
}

static void add_operand(builder *b, action *a, int arg, place at, uint64_t per_image, uint64_t per_slice) {
  a->operands[a->n_operands++] = (operand){arg, at, per_image, per_slice};
  b->plan->n_operands++;
}

static void convert(builder *b, int what, const size *s, place plain, place blocked) {
  const uint64_t pixels = (uint64_t)(s->h * s->w) * 4, block = (uint64_t)b->p->device->block;
  action *a = begin_action(b, what, s->n, up(s->c, (int64_t)block) / (int64_t)block);
  a->channels = s->c;
  a->pixels = s->h * s->w;
  add_operand(b, a, 0, plain, (uint64_t)s->c * pixels, block * pixels);
  add_operand(b, a, 0, blocked, (uint64_t)up(s->c, (int64_t)block) * pixels, block * pixels);
  b->plan->n_actions++;
}

static uint64_t blocked_bytes(const builder *b, const size *s) {
  return (uint64_t)(s->n * up(s->c, b->p->device->block) * s->h * s->w) * 4;
}

/* Where value v lies in the layout that is wanted; changes it where it does not. */
static place source(builder *b, tn_id v, const size *s, int plain) {
  held *x = &b->values[v];
  if (plain) {
    if (b->use_of[v] != TN_NONE) return (place){USE, b->use_of[v], 0};
    if (x->plain < 0) {
      const place to = scratch(b, (uint64_t)(s->n * s->c * s->h * s->w) * 4, &x->plain);
      convert(b, FROM_BLOCKS, s, to, again(b, x->blocked));
    }
    return again(b, x->plain);
  }
  if (x->blocked < 0) {
    const place from = source(b, v, s, 1), to = scratch(b, blocked_bytes(b, s), &x->blocked);
    convert(b, TO_BLOCKS, s, from, to);
  }
  return again(b, x->blocked);
}

static int post_arg(uint32_t i) { return (int)(DNNL_ARG_ATTR_MULTIPLE_POST_OP(i) | DNNL_ARG_SRC_1); }

/* The primitive, and room for what it needs meanwhile; each job has its own. */
static tn_status complete(builder *b, action *a, dnnl_primitive_desc_t pd) {
  const dnnl_memory_desc_t *md = dnnl_primitive_desc_query_md(pd, dnnl_query_scratchpad_md, 0);
  const uint64_t each = md ? (uint64_t)up((int64_t)dnnl_memory_desc_get_size(md), 64) : 0;
  int64_t index;
  uint64_t all;
  tn_status st = TN_OK;
  if (__builtin_mul_overflow(each, (uint64_t)(a->images * a->slices), &all) || all > UINT64_C(1) << 46) st = TN_E_LIMIT;
  if (st == TN_OK && each)
    add_operand(b, a, DNNL_ARG_SCRATCHPAD, scratch(b, all, &index), each * (uint64_t)a->slices, each);
  if (st == TN_OK && b->primitives && dnnl_primitive_create(&a->primitive, pd)) st = TN_E_INTERNAL;
  if (dnnl_primitive_desc_destroy(pd)) st = TN_E_INTERNAL;
  b->plan->n_memories += (uint32_t)(a->images * a->slices) * a->n_operands;
  b->plan->n_actions++;
  return st;
}

static place private_memory(uint64_t offset) { return (place){PRIVATE, 0, offset}; }

/* A matrix in slices of columns, each dense: what oneDNN's best products want. Of one row it is the same. */
static place convert_columns(builder *b, int what, int64_t rows, const step *s, place plain, place sliced) {
  const int64_t n = s->N / s->slices;
  action *a = begin_action(b, what, 1, s->slices);
  a->channels = n;
  a->pixels = rows;
  add_operand(b, a, 0, plain, 0, (uint64_t)n * 4);
  add_operand(b, a, 0, sliced, 0, (uint64_t)(rows * n) * 4);
  b->plan->n_actions++;
  return sliced;
}

/* Where the operands of what follows lie. */
static void sources(builder *b, const step *s, const size *y, int plain, place *out) {
  for (uint32_t i = 0; i < s->n_posts; i++) {
    const post *o = &s->posts[i];
    if (o->other == TN_NONE) continue;
    out[i] = o->constant ? private_memory(o->constant_at) : source(b, o->other, y, plain);
  }
}

static tn_status add_image(builder *b, const step *s) {
  int64_t xd[4], yd[4];
  uint64_t bytes;
  dnnl_primitive_desc_t pd = NULL;
  tn_status st = eval_dims(b, s->x_dims, 4, xd);
  if (st == TN_OK) st = eval_dims(b, s->y_dims, 4, yd);
  if (st == TN_OK) st = bytes_of(xd, 4, &bytes);
  if (st == TN_OK) st = bytes_of(yd, 4, &bytes);
  if (st != TN_OK) return st;
  const size x = {xd[0], xd[1], xd[2], xd[3]}, y = {yd[0], yd[1], yd[2], yd[3]};
  if (!bytes) {
    if (b->values[s->y].blocked < 0) scratch(b, 0, &b->values[s->y].blocked);
    return TN_OK;
  }
  if (y.n > 1 << 16) return TN_E_LIMIT;
  const int64_t block = b->p->device->block, in_pixels = x.h * x.w * 4, out_pixels = y.h * y.w * 4,
                inner = s->plain_x ? x.c : up(x.c, block), outer = s->plain_y ? y.c : up(y.c, block);
  const uint64_t slice_x = s->form == DEPTHWISE || s->form == GROUPED ? (uint64_t)(inner / s->slices * in_pixels) : 0,
                 slice_y = (uint64_t)(outer / s->slices * out_pixels), image_y = (uint64_t)(outer * out_pixels);
  const place from = source(b, s->x, &x, s->plain_x);
  place others[MAX_POSTS];
  sources(b, s, &y, s->plain_y, others);
  action *a = begin_action(b, EXECUTE, y.n, s->slices);
  if (describe_conv(b->p->device, s, &xd[2], &yd[2], s->kind == CONV ? &s->packed : NULL, &pd)) return TN_E_UNSUPPORTED;
  add_operand(b, a, DNNL_ARG_SRC, from.in == SCRATCH ? again(b, from.index) : from,
      (uint64_t)(inner * in_pixels), slice_x);
  if (s->kind == CONV) add_operand(b, a, DNNL_ARG_WEIGHTS, private_memory(s->packed_at), 0, s->packed_bytes);
  if (s->bias != TN_NONE)
    add_operand(b, a, DNNL_ARG_BIAS, private_memory(s->bias_at), 0, (uint64_t)(outer / s->slices) * 4);
  for (uint32_t i = 0; i < s->n_posts; i++) {
    const int all = s->posts[i].shape == ALL;
    if (s->posts[i].other == TN_NONE) continue;
    add_operand(b, a, post_arg(i), others[i].in == SCRATCH ? again(b, others[i].index) : others[i], all ? image_y : 0,
        all ? slice_y : 0);
  }
  held *made = &b->values[s->y];
  const uint32_t use = b->use_of[s->y];
  const place to = s->plain_y && use != TN_NONE ? (place){USE, use, 0}
                                                : scratch(b, image_y * (uint64_t)y.n, s->plain_y ? &made->plain : &made->blocked);
  add_operand(b, a, DNNL_ARG_DST, to, image_y, slice_y);
  st = complete(b, a, pd);
  if (st == TN_OK && !s->plain_y && use != TN_NONE)
    convert(b, FROM_BLOCKS, &y, (place){USE, use, 0}, again(b, made->blocked));
  return st;
}

static tn_status add_product(builder *b, const step *s) {
  int64_t xd[TN_MAX_RANK], rows = 1;
  uint64_t bytes, y_bytes;
  dnnl_primitive_desc_t pd = NULL;
  tn_status st = eval_dims(b, s->x_dims, s->x_rank, xd);
  if (st == TN_OK) st = bytes_of(xd, s->x_rank, &bytes);
  if (st != TN_OK) return st;
  for (uint32_t i = 0; i + 1 < s->x_rank; i++) rows *= xd[i];
  const int64_t yd[2] = {rows, s->N};
  if ((st = bytes_of(yd, 2, &y_bytes)) != TN_OK) return st;
  held *made = &b->values[s->y];
  const uint32_t use = b->use_of[s->y];
  if (!y_bytes) {
    if (use == TN_NONE) scratch(b, 0, &made->plain);
    return TN_OK;
  }
  const size x = {xd[0], s->x_rank == 4 ? xd[1] : 1, s->x_rank == 4 ? xd[2] : 1, s->x_rank == 4 ? xd[3] : 1},
             none = {0, 0, 0, 0};
  const uint64_t slice = (uint64_t)rows * (uint64_t)(s->N / s->slices) * 4;
  const int direct = rows == 1 || s->slices == 1;
  place others[MAX_POSTS], to = use != TN_NONE ? (place){USE, use, 0} : scratch(b, y_bytes, &made->plain), sliced = to;
  const place from = source(b, s->x, &x, 1);
  int64_t index;
  sources(b, s, &none, 1, others);
  for (uint32_t i = 0; !direct && i < s->n_posts; i++)
    if (s->posts[i].shape == ALL)
      others[i] = convert_columns(b, TO_COLUMNS, rows, s, others[i], scratch(b, y_bytes, &index));
  if (!direct) sliced = scratch(b, y_bytes, &index);
  action *a = begin_action(b, EXECUTE, 1, s->slices);
  if (describe_product(b->p->device, s, rows, &s->packed, &pd)) return TN_E_UNSUPPORTED;
  add_operand(b, a, DNNL_ARG_SRC, from.in == SCRATCH ? again(b, from.index) : from, 0, 0);
  add_operand(b, a, DNNL_ARG_WEIGHTS, private_memory(s->packed_at), 0, s->packed_bytes);
  for (uint32_t i = 0; i < s->n_posts; i++) {
    const uint64_t step_by[] = {[ONE] = 0, [COLUMN] = slice / (uint64_t)rows, [ALL] = slice};
    if (s->posts[i].other == TN_NONE) continue;
    add_operand(b, a, post_arg(i), others[i].in == SCRATCH ? again(b, others[i].index) : others[i], 0,
        step_by[s->posts[i].shape]);
  }
  add_operand(b, a, DNNL_ARG_DST, sliced, 0, slice);
  st = complete(b, a, pd);
  if (!direct && st == TN_OK) {
    if (to.in == SCRATCH) to = again(b, to.index);
    convert_columns(b, FROM_COLUMNS, rows, s, to, again(b, sliced.index));
  }
  return st;
}

/* Scratch offsets, into what pointed at intervals so far. */
static tn_status resolve(builder *b) {
  const tn_status st = b->h->offsets(b->h->ctx, b->n_iv, b->iv, &b->plan->scratch_bytes);
  for (uint32_t i = 0; st == TN_OK && i < b->plan->n_operands; i++)
    if (b->plan->operands[i].at.in == SCRATCH) b->plan->operands[i].at.offset = b->iv[b->plan->operands[i].at.index].offset;
  return st;
}

static tn_status build(builder *b) {
  tn_status st = TN_OK;
  memset(b->use_of, 0xff, b->p->graph.n_values * sizeof *b->use_of);
  memset(b->values, 0xff, b->p->graph.n_values * sizeof *b->values);
  for (uint32_t u = 1; u < b->t->task.n_uses; u++) b->use_of[b->p->slots[b->t->uses[u].slot]->value] = u;
  const int threads = one_thread();
  for (uint32_t i = b->t->first; st == TN_OK && i < b->t->first + b->t->n; i++)
    st = b->p->steps[i].kind == PRODUCT ? add_product(b, &b->p->steps[i]) : add_image(b, &b->p->steps[i]);
  as_before(threads);
  return st == TN_OK ? resolve(b) : st;
}

void unbind(tn_plan *plan) {
  const tn_host *h = plan->program->device->host;
  for (uint32_t i = 0; i < plan->n_actions; i++)
    if (plan->actions[i].primitive) (void)!dnnl_primitive_destroy(plan->actions[i].primitive);
  h->free(h->ctx, plan);
}

static tn_status make(const tn_program *p, tn_id task, const tn_dims *dims, int primitives, tn_plan **out) {
  const tn_host *h = p->device->host;
  if (task >= p->info.n_tasks) return TN_E_INVALID;
  const part *t = &p->parts[task];
  size_t actions = 0, operands = 0;
  for (uint32_t i = t->first; i < t->first + t->n; i++) {
    actions += 5 + 2 * p->steps[i].n_posts;
    operands += 5 + p->steps[i].n_posts + 2 * (4 + 2 * p->steps[i].n_posts);
  }
  const size_t bytes = sizeof(tn_plan) + actions * sizeof(action) + operands * sizeof(operand);
  const size_t books = p->graph.n_values * (sizeof(held) + sizeof(uint32_t)) + 2 * actions * sizeof(tn_interval);
  tn_plan *plan = h->alloc(h->ctx, bytes, 64, TN_TAG_PLUGIN);
  unsigned char *room = plan ? h->alloc(h->ctx, books + 64, 64, TN_TAG_PLUGIN) : NULL;
  if (!room) return h->free(h->ctx, plan), TN_E_NO_MEMORY;
  memset(plan, 0, bytes);
  *plan = (tn_plan){.program = (tn_program *)(uintptr_t)p, .task = task, .actions = (action *)(void *)(plan + 1)};
  plan->operands = (operand *)(void *)(plan->actions + actions);
  builder b = {.p = p, .t = t, .h = h, .dims = dims, .plan = plan, .primitives = primitives,
      .iv = (tn_interval *)(void *)room, .values = (held *)(void *)(room + 2 * actions * sizeof(tn_interval))};
  b.use_of = (uint32_t *)(void *)(b.values + p->graph.n_values);
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
  const tn_status st = make(p, task, dims, 0, &plan);
  if (st != TN_OK) return st;
  out->scratch_bytes = plan->scratch_bytes;
  out->scratch_align = 64;
  out->driver_bytes = plan->n_memories * (sizeof(dnnl_exec_arg_t) + 8);
  for (uint32_t i = 0; out->slot_bytes && i < p->parts[task].n; i++) {
    const step *s = &p->steps[p->parts[task].first + i];
    const tn_id slot = p->slot_of[s->y];
    int64_t n = 4, dim;
    if (slot == TN_NONE || p->slots[slot]->kind != TN_SLOT_TEMP) continue;
    for (uint32_t k = 0; k < s->y_rank; k++)
      if (p->device->host->eval(&p->graph, s->y_dims[k], dims, &dim) == TN_OK) n *= dim;
    out->slot_bytes[slot] = (uint64_t)n;
  }
  if (out->slot_bytes) out->slot_bytes[0] = p->private_bytes;
  unbind(plan);
  return TN_OK;
}

tn_status bind(tn_program *p, tn_id task, const tn_dims *dims, tn_plan **out, tn_error *err) {
  const tn_status st = make(p, task, dims, 1, out);
  return st == TN_OK ? st : fail(err, st, "there is no task %u, or oneDNN cannot compute it at these sizes", task);
}
