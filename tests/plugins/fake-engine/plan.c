/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "fake.h"

static tn_status eval_shape(const tn_program *p, const fake_operand *o, const tn_dims *dims, fake_shape *out,
                            int64_t *elems) {
  out->rank = o->rank;
  *elems = 1;
  for (uint32_t i = 0; i < o->rank; i++) {
    tn_status st = p->host->eval(&p->graph, o->dims[i], dims, &out->dims[i]);
    if (st != TN_OK) return st;
    if (out->dims[i] < 0 || __builtin_mul_overflow(*elems, out->dims[i], elems) || *elems > INT64_MAX / 4)
      return TN_E_INVALID;
  }
  return TN_OK;
}

tn_status fake_measure(const tn_program *p, tn_id task, const tn_dims *dims, tn_measure *out) {
  if (task >= p->n_tasks) return TN_E_INVALID;
  const fake_task *t = &p->tasks[task];
  int64_t elems = 0;
  for (uint32_t i = 0; i < t->pub.n_uses; i++) {
    tn_id slot = t->uses[i].slot;
    fake_shape s;
    tn_status st = eval_shape(p, &p->shapes[slot], dims, &s, &elems);
    if (st != TN_OK) return st;
    if (p->slots[slot].kind == TN_SLOT_TEMP && out->slot_bytes) out->slot_bytes[slot] = (uint64_t)elems * 4;
  }
  out->cost_ns = (double)elems;
  out->moved_bytes = (double)elems * 12;
  return TN_OK;
}

tn_status fake_set(tn_program *p, tn_id slot, const tn_view *view, const tn_blob *blob, tn_error *err) {
  if (slot >= p->n_slots || p->slots[slot].kind != TN_SLOT_WEIGHT || blob || !view)
    return fake_fail(err, TN_E_INVALID, "slot %u is no raw constant", slot);
  if (!view->buffer) return fake_fail(err, TN_E_INVALID, "constant '%s' is not in device memory", p->slots[slot].name);
  p->fixed[slot] = *view;
  return TN_OK;
}

tn_status fake_bind(tn_program *p, tn_id task, const tn_dims *dims, tn_plan **out, tn_error *err) {
  if (task >= p->n_tasks) return fake_fail(err, TN_E_INVALID, "there is no task %u", task);
  tn_plan *plan = p->host->alloc(p->host->ctx, sizeof *plan, 16, TN_TAG_PLUGIN);
  if (!plan) return fake_fail(err, TN_E_NO_MEMORY, "no memory for a plan");
  const fake_task *t = &p->tasks[task];
  int64_t n;
  *plan = (tn_plan){.program = p, .task = t};
  tn_status st = eval_shape(p, &t->a, dims, &plan->a, &n);
  if (st == TN_OK) st = eval_shape(p, &t->b, dims, &plan->b, &n);
  if (st == TN_OK) st = eval_shape(p, &t->out, dims, &plan->out, &n);
  const fake_shape *in[2] = {&plan->a, &plan->b};
  for (int i = 0; st == TN_OK && i < 2; i++)
    for (uint32_t k = 0; k < in[i]->rank; k++) {
      int64_t d = in[i]->dims[k],
              o = in[i]->rank <= plan->out.rank ? plan->out.dims[plan->out.rank - in[i]->rank + k] : -1;
      if (d != 1 && d != o) st = TN_E_INVALID;
    }
  const int64_t chunk = p->device->plugin->chunk;
  if (st == TN_OK && chunk && plan->out.rank == 3 && plan->out.dims[1] != chunk) {
    p->host->free(p->host->ctx, plan);
    return fake_fail(err, TN_E_INTERNAL, "task %u is bound at %lld, not at %lld", task, (long long)plan->out.dims[1],
                     (long long)chunk);
  }
  if (st != TN_OK) {
    p->host->free(p->host->ctx, plan);
    return fake_fail(err, st, "task %u: its dims cannot be evaluated or do not broadcast", task);
  }
  *out = plan;
  return TN_OK;
}

void fake_unbind(tn_plan *plan) {
  if (plan) plan->program->host->free(plan->program->host->ctx, plan);
}

/* Position of a slot in the task's uses; a == b shares one. */
static const tn_view *view_of(const fake_task *t, tn_id slot, const tn_view *const *uses) {
  for (uint32_t i = 0; i < t->pub.n_uses; i++)
    if (t->uses[i].slot == slot) return uses[i];
  return NULL;
}

static tn_status attach(tn_args *a, int i, const tn_view *v, tn_error *err) {
  if (!v || !v->buffer) return fake_fail(err, TN_E_INVALID, "argument %d is not in device memory", i);
  a->views[i] = *v;
  a->views[i].dims = a->views[i].strides = NULL; /* the caller's; the plan has its own */
  return TN_OK;
}

tn_status fake_args(tn_plan *plan, const tn_view *const *uses, uint32_t n, tn_args **out, tn_error *err) {
  const fake_task *t = plan->task;
  const tn_program *p = plan->program;
  if (n != t->pub.n_uses + 1) return fake_fail(err, TN_E_INVALID, "%u views for %u uses and scratch", n, t->pub.n_uses);
  tn_args *a = p->host->alloc(p->host->ctx, sizeof *a, 16, TN_TAG_PLUGIN);
  if (!a) return fake_fail(err, TN_E_NO_MEMORY, "no memory for arguments");
  memset(a, 0, sizeof *a);
  a->plan = plan;
  const tn_id slots[3] = {t->a.slot, t->b.slot, t->out.slot};
  tn_status st = TN_OK;
  for (int i = 0; st == TN_OK && i < 3; i++) {
    const tn_view *v = view_of(t, slots[i], uses);
    if (p->slots[slots[i]].kind == TN_SLOT_WEIGHT) v = &p->fixed[slots[i]];
    st = attach(a, i, v, err);
  }
  if (st == TN_OK)
    *out = a;
  else
    p->host->free(p->host->ctx, a);
  return st;
}

tn_status fake_args_set(tn_args *a, uint32_t use, const tn_view *view, tn_error *err) {
  const fake_task *t = a->plan->task;
  if (use == t->pub.n_uses) return TN_OK; /* the scratch, which it does not use */
  if (use > t->pub.n_uses) return fake_fail(err, TN_E_INVALID, "there is no use %u", use);
  const tn_id slots[3] = {t->a.slot, t->b.slot, t->out.slot};
  tn_status st = TN_OK;
  for (int i = 0; st == TN_OK && i < 3; i++)
    if (slots[i] == t->uses[use].slot) st = attach(a, i, view, err);
  return st;
}

void fake_args_free(tn_args *a) {
  if (!a) return;
  fake_engine_forget(a->plan->program->device);
  a->plan->program->host->free(a->plan->program->host->ctx, a);
}

tn_status fake_run(const tn_plan *plan, tn_args *a, tn_run *run, tn_error *err) {
  (void)plan;
  (void)a;
  (void)run;
  return fake_fail(err, TN_E_UNSUPPORTED, "fake-engine has no tasks for the CPU");
}
