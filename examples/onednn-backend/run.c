/* SPDX-License-Identifier: Apache-2.0
 *
 * A step of the model: the actions of a plan one after the other, the jobs of each on the host's pool. */
#include <string.h>

#include "backend.h"

struct tn_args {
  tn_plan *plan;
  dnnl_exec_arg_t *list; /* of all jobs, action by action; their memory objects are ours */
  unsigned char *scratch;
  uint32_t n_uses;
  unsigned char *memory[];
};

static unsigned char *where(const tn_args *a, const operand *o, int64_t image, int64_t slice) {
  unsigned char *base = o->at.in == USE ? a->memory[o->at.index] : o->at.in == SCRATCH ? a->scratch : a->plan->program->memory;
  return base ? base + o->at.offset + (uint64_t)image * o->per_image + (uint64_t)slice * o->per_slice : NULL;
}

/* Tells the memory objects where they are. Nothing is allocated. */
static tn_status attach(tn_args *a) {
  dnnl_exec_arg_t *e = a->list;
  for (uint32_t i = 0; i < a->plan->n_actions; i++) {
    const action *x = &a->plan->actions[i];
    if (x->what != EXECUTE) continue;
    for (int64_t j = 0; j < x->images * x->slices; j++)
      for (uint32_t k = 0; k < x->n_operands; k++, e++)
        if (dnnl_memory_set_data_handle(e->memory, where(a, &x->operands[k], j / x->slices, j % x->slices)))
          return TN_E_INTERNAL;
  }
  return TN_OK;
}

void args_free(tn_args *a) {
  const tn_host *h = a->plan->program->device->host;
  for (uint32_t i = 0; i < a->plan->n_memories; i++)
    if (a->list[i].memory) (void)!dnnl_memory_destroy(a->list[i].memory);
  h->free(h->ctx, a);
}

static tn_status make_memories(tn_args *a) {
  dnnl_exec_arg_t *e = a->list;
  for (uint32_t i = 0; i < a->plan->n_actions; i++) {
    const action *x = &a->plan->actions[i];
    const_dnnl_primitive_desc_t pd = NULL;
    if (x->what != EXECUTE) continue;
    if (dnnl_primitive_get_primitive_desc(x->primitive, &pd)) return TN_E_INTERNAL;
    for (int64_t j = 0; j < x->images * x->slices; j++)
      for (uint32_t k = 0; k < x->n_operands; k++, e++) {
        const int arg = x->operands[k].arg;
        const dnnl_memory_desc_t *md = dnnl_primitive_desc_query_md(pd, dnnl_query_exec_arg_md, arg);
        e->arg = arg;
        if (!md || dnnl_memory_create(&e->memory, md, a->plan->program->device->engine, DNNL_MEMORY_NONE))
          return TN_E_NO_MEMORY;
      }
  }
  return TN_OK;
}

static tn_status take(tn_args *a, uint32_t use, const tn_view *view, tn_error *err) {
  if (use > a->n_uses) return fail(err, TN_E_INVALID, "there is no use %u", use);
  const int nothing = use == a->n_uses && !view->bytes; /* of scratch there may be none */
  if (!view->buffer && !nothing) return fail(err, TN_E_INVALID, "use %u is not in the device's memory", use);
  *(use == a->n_uses ? &a->scratch : &a->memory[use]) = nothing ? NULL : at(view);
  return TN_OK;
}

tn_status args(tn_plan *plan, const tn_view *const *uses, uint32_t n, tn_args **out, tn_error *err) {
  const tn_host *h = plan->program->device->host;
  const uint32_t n_uses = plan->program->parts[plan->task].task.n_uses;
  const size_t head = (sizeof(tn_args) + (n_uses + 1) * sizeof(void *) + 63) & ~(size_t)63,
               bytes = head + plan->n_memories * sizeof(dnnl_exec_arg_t);
  if (n != n_uses + 1) return fail(err, TN_E_INVALID, "%u views for %u uses", n, n_uses);
  tn_args *a = h->alloc(h->ctx, bytes, 64, TN_TAG_PLUGIN);
  if (!a) return fail(err, TN_E_NO_MEMORY, "no memory for arguments");
  memset(a, 0, bytes);
  a->plan = plan;
  a->n_uses = n_uses;
  a->list = (dnnl_exec_arg_t *)(void *)((unsigned char *)a + head);
  tn_status st = TN_OK;
  for (uint32_t i = 0; st == TN_OK && i < n; i++) st = take(a, i, uses[i], err);
  if (st == TN_OK) st = make_memories(a);
  if (st == TN_OK) st = attach(a);
  if (st != TN_OK) {
    args_free(a);
    return fail(err, st, "oneDNN makes no memory objects");
  }
  *out = a;
  return TN_OK;
}

tn_status args_set(tn_args *a, uint32_t use, const tn_view *view, tn_error *err) {
  tn_status st = take(a, use, view, err);
  if (st == TN_OK) st = attach(a);
  return st == TN_OK ? st : fail(err, st, "oneDNN takes no memory");
}

/* One block of channels of one image, in either direction; channels that were added are 0. */
static void change_layout(const tn_args *a, const action *x, int64_t image, int64_t slice) {
  const int64_t block = a->plan->program->device->block, left = x->channels - slice * block, n = left < block ? left : block;
  float *plain = (float *)(void *)where(a, &x->operands[0], image, slice),
        *blocked = (float *)(void *)where(a, &x->operands[1], image, slice);
  if (x->what == FROM_BLOCKS) {
    for (int64_t c = 0; c < n; c++)
      for (int64_t i = 0; i < x->pixels; i++) plain[c * x->pixels + i] = blocked[i * block + c];
    return;
  }
  for (int64_t i = 0; i < x->pixels; i++)
    for (int64_t c = 0; c < block; c++) blocked[i * block + c] = c < n ? plain[c * x->pixels + i] : 0;
}

/* One slice of the columns of a matrix, in either direction. */
static void move_columns(const tn_args *a, const action *x, int64_t slice) {
  const size_t n = (size_t)x->channels * 4, pitch = n * (size_t)x->slices;
  unsigned char *plain = where(a, &x->operands[0], 0, slice), *sliced = where(a, &x->operands[1], 0, slice);
  for (int64_t i = 0; i < x->pixels; i++, plain += pitch, sliced += n)
    memcpy(x->what == FROM_COLUMNS ? plain : sliced, x->what == FROM_COLUMNS ? sliced : plain, n);
}

typedef struct job_list {
  const tn_args *args;
  const action *action;
  const dnnl_exec_arg_t *list;
  int32_t failed;
} job_list;

static void jobs(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  job_list *l = arg;
  const action *x = l->action;
  const int threads = one_thread();
  (void)worker;
  for (int64_t j = begin; j < end; j++) {
    if (x->what == TO_COLUMNS || x->what == FROM_COLUMNS)
      move_columns(l->args, x, j);
    else if (x->what != EXECUTE)
      change_layout(l->args, x, j / x->slices, j % x->slices);
    else if (dnnl_primitive_execute(x->primitive, l->args->plan->program->device->stream, (int)x->n_operands,
                 l->list + j * x->n_operands))
      __atomic_store_n(&l->failed, 1, __ATOMIC_RELAXED);
  }
  as_before(threads);
}

static tn_status run_item(const tn_args *a, tn_run *run) {
  job_list l = {.args = a, .list = a->list};
  for (uint32_t i = 0; i < a->plan->n_actions; i++) {
    const action *x = l.action = &a->plan->actions[i];
    if (run->cancelled(run)) return TN_E_CANCELLED;
    run->parallel_for(run, x->images * x->slices, 1, jobs, &l);
    if (x->what == EXECUTE) l.list += x->images * x->slices * x->n_operands;
  }
  return l.failed ? TN_E_INTERNAL : TN_OK;
}

/* BLOCKING: every item is done when this returns. */
tn_status submit(tn_device *d, uint32_t engine, const tn_item *const *items, uint32_t n, tn_run *run, tn_error *err) {
  const tn_host *h = ((device *)d)->host;
  if (engine != 1) return fail(err, TN_E_INVALID, "there is one engine");
  for (uint32_t i = 0; i < n; i++) {
    tn_error why = {.h = TN_HDR(tn_error), .node = TN_NONE, .task = TN_NONE};
    const tn_status st = run_item(items[i]->args, run);
    if (st != TN_OK) (void)fail(&why, st, st == TN_E_CANCELLED ? "stopped" : "oneDNN could not compute");
    h->done(items[i]->ticket, st, NULL, st == TN_OK ? NULL : &why);
  }
  return TN_OK;
}
