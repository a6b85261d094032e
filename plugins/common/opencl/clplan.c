/* SPDX-License-Identifier: Apache-2.0
 *
 * Dims and arena of a task, then its operations in order; measure and bind.
 */
#include <string.h>

#include "plugins/common/base/base.h"
#include "plugins/common/opencl/clexpand.h"

static void expand_op(tni_cx *e, uint32_t op) {
  const tni_cl_op *o = &e->p->ops[op];
  switch (o->what) {
    case TNI_CLO_GATHER:
      tni_cx_expand_gather(e, o);
      return;
    case TNI_CLO_NORM:
      tni_cx_expand_norm(e, o);
      return;
    case TNI_CLO_PRODUCT:
      tni_cx_expand_product(e, o, op);
      return;
    case TNI_CLO_EW:
      tni_cx_expand_ew(e, o);
      return;
    case TNI_CLO_SLICE:
      tni_cx_expand_slice(e, o);
      return;
    case TNI_CLO_ROTARY:
      tni_cx_expand_rotary(e, o);
      return;
    case TNI_CLO_APPEND:
      tni_cx_expand_append(e, o);
      return;
    case TNI_CLO_ATTN:
      tni_cx_expand_attention(e, o);
      return;
    case TNI_CLO_MATMUL:
      tni_cx_expand_matmul(e, o);
      return;
    case TNI_CLO_CONCAT:
      tni_cx_expand_pieces(e, o, false);
      return;
    case TNI_CLO_CONCAT_HEADS:
      tni_cx_expand_heads(e, o);
      return;
    case TNI_CLO_SPLIT:
      tni_cx_expand_pieces(e, o, true);
      return;
    default:
      break;
  }
  /* An alias that has memory of its own: dense to dense, whatever the shapes. */
  if (tni_cx_value_of(e, o->out[0])->root != o->out[0]) return;
  tni_cx_view x = tni_cx_view_of(e, o->in[0]), y = tni_cx_view_of(e, o->out[0]);
  const int64_t n = tni_cx_product(e, y.dims, y.rank);
  x = tni_cx_rows_view(x.place, x.type, 1, n, n);
  y = tni_cx_rows_view(y.place, y.type, 1, n, n);
  tni_cx_emit_copy(e, &x, &y);
}

/* --- memory ------------------------------------------------------------------------------------------------------ */

static void eval_dims(tni_cx *e, const tn_dims *dims) {
  for (tn_id v = 0; v < e->p->n_values && e->st == TN_OK; v++) {
    const tni_cl_value *val = tni_cx_value_of(e, v);
    for (uint32_t i = 0; val->used && i < val->rank && e->st == TN_OK; i++)
      e->st = tni_cm_product(e->d->host, &e->p->graph, val->dims + i, 1, dims, &e->dims[v][i]);
  }
  if (e->st != TN_OK) tni_cm_fail(e->err, e->st, e->d->vendor->name, "a dim cannot be computed");
}

static bool in_task(const tni_cx *e, const tni_cl_value *v) {
  return v->first != UINT32_MAX && v->first >= e->t->first_op && v->last < e->t->first_op + e->t->n_ops;
}

static void place_all(tni_cx *e) {
  const uint32_t n_temps = e->t->n_ops * MAX_TEMPS;
  tn_interval *iv = tni_cm_new(e->mem, (size_t)e->p->n_values + n_temps + 1, sizeof *iv);
  uint32_t n = 0;
  uint64_t total = 0;
  if (!iv) {
    tni_cx_fail(e, TN_E_NO_MEMORY, e->d->vendor->name, "out of memory");
    return;
  }
  for (tn_id v = 0; v < e->p->n_values; v++) {
    const tni_cl_value *val = tni_cx_value_of(e, v);
    if (!val->used || val->root != v || val->slot != TN_NONE || !in_task(e, val)) continue;
    const uint64_t bytes = (uint64_t)tni_cx_product(e, e->dims[v], val->rank) * tni_cx_size_of(val->store);
    iv[n++] = (tn_interval){.first = val->first, .last = val->last, .bytes = bytes, .align = 128};
  }
  for (uint32_t i = 0; i < n_temps; i++)
    iv[n++] =
        (tn_interval){.first = e->temps[i].first, .last = e->temps[i].last, .bytes = e->temps[i].bytes, .align = 128};
  if (e->st != TN_OK) return;
  const tn_status st = e->d->host->offsets(e->d->host->ctx, n, iv, &total);
  if (st != TN_OK) {
    tni_cx_fail(e, st, e->d->vendor->name, "the host finds no room for what a task keeps between its kernels");
    return;
  }
  n = 0;
  for (tn_id v = 0; v < e->p->n_values; v++) {
    const tni_cl_value *val = tni_cx_value_of(e, v);
    if (val->used && val->root == v && val->slot == TN_NONE && in_task(e, val)) e->at[v] = iv[n++].offset;
  }
  for (uint32_t i = 0; i < n_temps; i++) e->temps[i].offset = iv[n++].offset;
  e->plan->arena_bytes = total + 128;
}

static void start_expand(tni_cx *e) {
  e->dims = tni_cm_new(e->mem, e->p->n_values + 1, sizeof *e->dims);
  e->views = tni_cm_new(e->mem, e->p->n_values + 1, sizeof *e->views);
  e->at = tni_cm_new(e->mem, e->p->n_values + 1, sizeof *e->at);
  e->temps = tni_cm_new(e->mem, e->t->n_ops * MAX_TEMPS + 1, sizeof *e->temps);
  if (!e->dims || !e->views || !e->at || !e->temps) tni_cx_fail(e, TN_E_NO_MEMORY, e->d->vendor->name, "out of memory");
}

tn_status tni_cl_expand(tn_plan *plan, const tn_dims *dims, bool compile, tn_error *err) {
  tni_cm_mem mem = {.host = plan->program->device->host};
  tni_cx e = {.plan = plan,
              .p = plan->program,
              .t = plan->task,
              .d = plan->program->device,
              .mem = &mem,
              .compile = compile,
              .err = err};
  start_expand(&e);
  if (e.st == TN_OK) eval_dims(&e, dims);
  const uint32_t end = plan->task->first_op + plan->task->n_ops;
  for (uint32_t i = plan->task->first_op; e.st == TN_OK && i < end; i++) {
    for (uint32_t k = 0; k < MAX_TEMPS; k++) *tni_cx_temp(&e, i, k) = (tni_cx_region){.first = i, .last = i};
    if (e.p->ops[i].what == TNI_CLO_PRODUCT) tni_cx_size_product(&e, &e.p->ops[i], i);
  }
  if (e.st == TN_OK) place_all(&e);
  for (uint32_t i = plan->task->first_op; e.st == TN_OK && i < end; i++) expand_op(&e, i);
  tni_cm_free(&mem);
  return e.st;
}

static tn_status make_plan(tn_program *p, tn_id task, const tn_dims *dims, bool compile, tn_plan **out, tn_error *err) {
  tni_cm_mem mem = {.host = p->device->host};
  if (task >= p->info.n_tasks) return tni_cm_fail(err, TN_E_INVALID, p->device->vendor->name, "there is no task %u", task);
  tn_plan *plan = tni_cm_new(&mem, 1, sizeof *plan);
  if (!plan) return tni_cm_fail(err, TN_E_NO_MEMORY, p->device->vendor->name, "out of memory");
  plan->program = p;
  plan->task = p->tasks[task];
  plan->mem = mem;
  tn_status st = tni_cl_expand(plan, dims, compile, err);
  if (st == TN_OK)
    *out = plan;
  else
    tni_cl_unbind(plan);
  return st;
}

tn_status tni_cl_measure(const tn_program *p, tn_id task, const tn_dims *dims, tn_measure *out) {
  tn_plan *plan = NULL;
  tn_status st = make_plan((tn_program *)p, task, dims, false, &plan, NULL);
  if (st != TN_OK) return st;
  const tni_cl_task *t = plan->task;
  for (uint32_t i = 0; out->slot_bytes && i < t->pub.n_uses; i++) {
    const uint32_t slot = t->pub.uses[i].slot;
    if (p->slots[slot]->kind != TN_SLOT_TEMP) continue;
    uint64_t bytes = plan->arena_bytes;
    if (i != t->arena_use) {
      int64_t n = 0;
      const tni_cl_value *v = &p->values[p->slots[slot]->value];
      st = tni_cm_product(p->device->host, &p->graph, v->dims, v->rank, dims, &n);
      bytes = (uint64_t)n * tni_cx_size_of(v->store);
    }
    out->slot_bytes[slot] = bytes;
  }
  out->scratch_bytes = 0;
  out->scratch_align = 64;
  out->macs = plan->macs;
  out->moved_bytes = plan->moved;
  out->cost_ns = 5000.0 * plan->n_launches + plan->macs / 500 + plan->moved / 40;
  tni_cl_unbind(plan);
  return st;
}

tn_status tni_cl_bind(tn_program *p, tn_id task, const tn_dims *dims, tn_plan **out, tn_error *err) {
  tn_status st = make_plan(p, task, dims, true, out, err);
  if (st != TN_E_UNAVAILABLE) return st;
  if (err) err->code = TN_E_INTERNAL; /* no kernel works: the device is there, and fails */
  return TN_E_INTERNAL;
}

void tni_cl_unbind(tn_plan *plan) {
  if (!plan) return;
  tni_cm_mem mem = plan->mem;
  tni_cm_free(&mem);
}
