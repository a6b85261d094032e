/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mirror.h"

/* The inner device's objects hide behind the same names. */
struct tn_program {
  mirror_device *device;
  tn_program *inner;
  tn_program_info info;
  tn_need *needs;
  tn_slot *slots;
  tn_task *tasks;
  const tn_need **need_ptrs;
  const tn_slot **slot_ptrs;
  const tn_task **task_ptrs;
};

struct tn_plan {
  tn_program *program;
  tn_plan *inner;
  tn_id task;
};

struct tn_args {
  tn_plan *plan;
  tn_args *inner;
  uint32_t n;
  tn_view views[]; /* [n] as the host gave them */
};

typedef struct filter {
  const mirror_device *d;
  const tn_claim_sink *sink;
} filter;

static tn_status on_node(void *ctx, tn_id node, const tn_claim *c) {
  const filter *f = ctx;
  if (f->d->plugin->every <= 1 || node % f->d->plugin->every == 0) return f->sink->node(f->sink->ctx, node, c);
  tn_claim no = {.h = TN_HDR(tn_claim), .verdict = TN_NO, .reason = TN_WHY_OPTION, .text = "left out by `every`"};
  return f->sink->node(f->sink->ctx, node, &no);
}

static tn_status on_group(void *ctx, const tn_id *nodes, uint32_t n, const tn_claim *c) {
  (void)ctx, (void)nodes, (void)n, (void)c;
  return TN_OK;
}

static tn_status on_state(void *ctx, tn_id value, const tn_layout *const *accepted, uint32_t n) {
  (void)ctx, (void)value, (void)accepted, (void)n;
  return TN_OK;
}

static tn_status say_layout(const mirror_device *d, const tn_graph *g, tn_id v, const tn_claim_sink *sink) {
  const char *name = d->plugin->layout;
  const bool flat = g->values[v]->rank == 3, rows = strstr(name, "-rows") != NULL;
  tn_layout l = {.h = TN_HDR(tn_layout), .rank = 4};
  if (strcmp(name, "host") == 0) return TN_OK;
  l.dtype = strcmp(name, "f32") == 0 || strcmp(name, "apart") == 0 ? TN_DT_F32
            : strncmp(name, "int8", 4) == 0                        ? TN_DT_I8
                                                                   : TN_DT_F16;
  for (uint8_t i = 0; i < 4; i++) l.order[i] = i;
  if (rows != flat) { /* the view has heads first, and rows are wanted first, or the other way */
    l.order[1] = 2;
    l.order[2] = 1;
  }
  if (rows) l.pitch_align = 64;
  if (d->plugin->ring) l.flags = TN_LAYOUT_CIRCULAR;
  if (strcmp(name, "apart") == 0) { /* the elements of a head */
    const uint8_t last = l.order[3];
    l.order[3] = l.order[2];
    l.order[2] = last;
  }
  const tn_layout *list[] = {&l};
  return sink->state(sink->ctx, v, list, 1);
}

tn_status mirror_claim(tn_device *pub, const tn_graph *g, const tn_dims *at, const tn_claim_sink *sink, tn_error *err) {
  const mirror_device *d = (const mirror_device *)pub;
  filter f = {d, sink};
  const tn_claim_sink mine = {TN_HDR(tn_claim_sink), &f, on_node, on_group, on_state};
  tn_status st = d->inner->claim(d->inner, g, at, &mine, err);
  for (tn_id v = 0; st == TN_OK && v < g->n_values; v++)
    if (g->values[v]->kind == TN_VALUE_STATE && g->values[v]->producer == TN_NONE) st = say_layout(d, g, v, sink);
  return st;
}

static bool copy_info(tn_program *p, const tn_program_info *in) {
  p->info = *in;
  p->needs = calloc(in->n_needs + 1, sizeof *p->needs);
  p->slots = calloc(in->n_slots + 1, sizeof *p->slots);
  p->tasks = calloc(in->n_tasks + 1, sizeof *p->tasks);
  p->need_ptrs = calloc(in->n_needs + 1, sizeof *p->need_ptrs);
  p->slot_ptrs = calloc(in->n_slots + 1, sizeof *p->slot_ptrs);
  p->task_ptrs = calloc(in->n_tasks + 1, sizeof *p->task_ptrs);
  if (!p->needs || !p->slots || !p->tasks || !p->need_ptrs || !p->slot_ptrs || !p->task_ptrs) return false;
  for (uint32_t i = 0; i < in->n_needs; i++) {
    p->needs[i] = *in->needs[i];
    p->needs[i].residency = TN_RESIDENCY_DEVICE;
    p->need_ptrs[i] = &p->needs[i];
  }
  for (uint32_t i = 0; i < in->n_slots; i++) {
    p->slots[i] = *in->slots[i];
    p->slots[i].engines = 1u << 1;
    p->slot_ptrs[i] = &p->slots[i];
  }
  for (uint32_t i = 0; i < in->n_tasks; i++) {
    p->tasks[i] = *in->tasks[i];
    p->tasks[i].engine = 1;
    p->task_ptrs[i] = &p->tasks[i];
  }
  p->info.needs = p->need_ptrs;
  p->info.slots = p->slot_ptrs;
  p->info.tasks = p->task_ptrs;
  return true;
}

tn_status mirror_lower(tn_device *pub, const tn_subgraph *s, tn_program **out, tn_error *err) {
  mirror_device *d = (mirror_device *)pub;
  tn_program *p = calloc(1, sizeof *p);
  if (!p) return TN_E_NO_MEMORY;
  p->device = d;
  tn_status st = d->inner->lower(d->inner, s, &p->inner, err);
  if (st == TN_OK && !copy_info(p, d->inner->info(p->inner))) st = TN_E_NO_MEMORY;
  if (st == TN_OK)
    *out = p;
  else
    mirror_release(p);
  return st;
}

const tn_program_info *mirror_info(const tn_program *p) { return &p->info; }

tn_status mirror_measure(const tn_program *p, tn_id task, const tn_dims *dims, tn_measure *out) {
  return p->device->inner->measure(p->inner, task, dims, out);
}

tn_status mirror_set(tn_program *p, tn_id slot, const tn_view *view, const tn_blob *blob, tn_error *err) {
  tn_view v = *view;
  tn_status st = mirror_locate(p->device, view, &v.ptr, err);
  return st == TN_OK ? p->device->inner->set(p->inner, slot, &v, blob, err) : st;
}

void mirror_release(tn_program *p) {
  if (p->inner) p->device->inner->release(p->inner);
  free(p->needs);
  free(p->slots);
  free(p->tasks);
  free(p->need_ptrs);
  free(p->slot_ptrs);
  free(p->task_ptrs);
  free(p);
}

tn_status mirror_bind(tn_program *p, tn_id task, const tn_dims *dims, tn_plan **out, tn_error *err) {
  tn_plan *plan = calloc(1, sizeof *plan);
  if (!plan) return TN_E_NO_MEMORY;
  plan->program = p;
  plan->task = task;
  tn_status st = p->device->inner->bind(p->inner, task, dims, &plan->inner, err);
  if (st == TN_OK)
    *out = plan;
  else
    free(plan);
  return st;
}

void mirror_unbind(tn_plan *plan) {
  plan->program->device->inner->unbind(plan->inner);
  free(plan);
}

/* Scratch of 0 bytes and constants have no view of their own. */
static tn_status locate(const tn_plan *plan, const tn_view *v, tn_view *out, tn_error *err) {
  *out = *v;
  out->ptr = NULL;
  if (!v->bytes) return TN_OK;
  return mirror_locate(plan->program->device, v, &out->ptr, err);
}

tn_status mirror_args(tn_plan *plan, const tn_view *const *uses, uint32_t n, tn_args **out, tn_error *err) {
  const tn_device *inner = plan->program->device->inner;
  tn_args *a = calloc(1, sizeof *a + n * sizeof(tn_view));
  tn_view *views = calloc(n, sizeof *views);
  const tn_view **ptrs = calloc(n, sizeof *ptrs);
  tn_status st = a && views && ptrs ? TN_OK : TN_E_NO_MEMORY;
  for (uint32_t i = 0; st == TN_OK && i < n; i++) {
    a->views[i] = *uses[i];
    ptrs[i] = &views[i];
    st = locate(plan, uses[i], &views[i], err);
  }
  if (st == TN_OK) {
    a->plan = plan;
    a->n = n;
    st = inner->args(plan->inner, ptrs, n, &a->inner, err);
  }
  free(views);
  free(ptrs);
  if (st == TN_OK)
    *out = a;
  else
    free(a);
  return st;
}

tn_status mirror_args_set(tn_args *a, uint32_t use, const tn_view *view, tn_error *err) {
  tn_view v;
  tn_status st = locate(a->plan, view, &v, err);
  if (st == TN_OK) st = a->plan->program->device->inner->args_set(a->inner, use, &v, err);
  if (st == TN_OK) a->views[use] = *view;
  return st;
}

void mirror_args_free(tn_args *a) {
  a->plan->program->device->inner->args_free(a->inner);
  free(a);
}

tn_status mirror_run(const tn_plan *plan, tn_args *a, tn_run *run, tn_error *err) {
  (void)plan, (void)a, (void)run;
  return mirror_fail(err, TN_E_INTERNAL, "it has no CPU tasks");
}

/* A byte after the last use that it writes. */
static void stray(const tn_item *it) {
  const tn_program *p = it->plan->program;
  const tn_task *t = p->device->inner->info(p->inner)->tasks[it->plan->task];
  for (uint32_t u = t->n_uses; u-- > 0;) {
    tn_view v;
    if (!(t->uses[u].access & (TN_WRITE | TN_APPEND)) || !it->args->views[u].bytes) continue;
    if (locate(it->plan, &it->args->views[u], &v, NULL) == TN_OK) ((unsigned char *)v.ptr)[v.bytes] ^= 1;
    return;
  }
}

static tn_status run_one(mirror_device *d, const tn_item *it, tn_run *run, tn_error *err) {
  if (!it->plan) return mirror_fail(err, TN_E_UNSUPPORTED, "it copies nothing");
  for (uint32_t i = 0; i < it->args->n; i++)
    if (mirror_is_mapped(&it->args->views[i]))
      return mirror_fail(err, TN_E_INVALID, "use %u is mapped while an item uses it", i);
  tn_status st = d->inner->run(it->plan->inner, it->args->inner, run, err);
  if (st == TN_OK && ++d->items == d->plugin->stray) stray(it);
  return st;
}

tn_status mirror_submit(tn_device *pub, uint32_t engine, const tn_item *const *items, uint32_t n, tn_run *run,
                        tn_error *err) {
  mirror_device *d = (mirror_device *)pub;
  if (engine != 1 || !run) return mirror_fail(err, TN_E_INVALID, "no engine %u, or no run", engine);
  for (uint32_t i = 0; i < n; i++) {
    tn_error why = {.h = TN_HDR(tn_error), .node = TN_NONE, .task = TN_NONE};
    pthread_mutex_lock(&d->lock);
    mirror_open(d, true);
    tn_status st = run_one(d, items[i], run, &why);
    mirror_open(d, false);
    pthread_mutex_unlock(&d->lock);
    d->host->done(items[i]->ticket, st, NULL, st == TN_OK ? NULL : &why);
  }
  return TN_OK;
}
