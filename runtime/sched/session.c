/* SPDX-License-Identifier: Apache-2.0
 *
 * One run: inputs -> symbols -> (when dims changed: memory, plans, views) -> tasks in order -> outputs.
 */
#include "runtime/sched/session.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base/clock.h"
#include "runtime/plugin/check.h"
#include "runtime/plugin/fpmode.h"
#include "runtime/sched/reference.h"
#include "runtime/shape/infer.h"

static bool computes_reference(const tn_session *s, const tni_etask *e, const tni_exec *x) {
  return (s->model->flags & TN_MODEL_REFERENCE) && !x->programs[e->program].dev->is_host;
}

/* --- plans and views ------------------------------------------------------------------------------------------- */

static void drop_args(const tni_dev *d, tni_stask *t) {
  if (t->args) d->device->args_free(t->args);
  t->args = NULL;
}

/* The plan of this task for dims: one of the last few, or a new one in place of the longest unused. */
static tn_status get_plan(tn_session *s, tni_sexec *x, uint32_t i, const int64_t *dims, tn_plan **out, tn_error *err) {
  const tni_etask *e = &x->exec->tasks[i];
  const tni_program *p = &x->exec->programs[e->program];
  tni_stask *t = &x->tasks[i];
  uint32_t n = x->exec->view.n_symbols, victim = 0;
  for (uint32_t k = 0; k < TNI_PLANS_PER_TASK; k++) {
    tni_plan_slot *ps = &t->plans[k];
    bool same = ps->plan != NULL;
    for (uint32_t v = 0; same && v < n; v++)
      same = !(e->info->symbols & (1ull << (v < 63 ? v : 63))) || ps->key[v] == dims[v];
    if (same) {
      ps->used = ++s->tick;
      *out = ps->plan;
      return TN_OK;
    }
    if (t->plans[victim].plan && (!ps->plan || ps->used < t->plans[victim].used)) victim = k;
  }
  tni_plan_slot *ps = &t->plans[victim];
  if (!ps->key && !(ps->key = TNI_NEW_ARRAY(s->mem, int64_t, n + 1))) return tni_fail_memory(err, e->label);
  if (ps->plan) {
    if (t->plan == ps->plan) {
      drop_args(p->dev, t);
      t->plan = NULL;
    }
    p->dev->device->unbind(ps->plan);
    ps->plan = NULL;
  }
  tn_dims d = {.h = TN_HDR(tn_dims), .v = dims, .n = n};
  tn_status st = p->dev->device->bind(p->program, e->task, &d, &ps->plan, err);
  if (st == TN_OK && !ps->plan) st = tni_fail(err, TN_E_INTERNAL, p->dev->name, "no plan");
  if (st != TN_OK) {
    tni_fail(err, st, p->dev->name, "no reason given");
    tni_error_prefix(err, "plugin '%s' cannot bind '%s'", p->dev->name, e->label);
    return st;
  }
  memcpy(ps->key, dims, n * sizeof *dims);
  ps->used = ++s->tick;
  *out = ps->plan;
  return TN_OK;
}

static void fill_views(const tni_sexec *x, uint32_t i) {
  const tni_etask *e = &x->exec->tasks[i];
  tni_stask *t = &x->tasks[i];
  for (uint32_t u = 0; u < e->info->n_uses; u++) {
    uint32_t r = e->regions[u];
    if (r == TN_NONE) {
      *t->views[u] = x->exec->attached[e->program][e->info->uses[u].slot].view;
      continue;
    }
    const tni_sregion *q = &x->regions[r];
    *t->views[u] = (tn_view){.h = TN_HDR(tn_view),
                             .buffer = q->buffer,
                             .ptr = q->ptr,
                             .bytes = q->bytes,
                             .dims = q->dims,
                             .strides = q->strides,
                             .dtype = q->dtype,
                             .rank = q->rank};
  }
  *t->views[e->info->n_uses] = (tn_view){
      .h = TN_HDR(tn_view), .ptr = (char *)x->arena + t->scratch_offset, .bytes = t->scratch_bytes, .dtype = TN_DT_U8};
}

/* New memory for a task: a new args when the plan changed, args_set where only a pointer or the dims of a view did. */
static tn_status attach_task(tn_session *s, tni_sexec *x, uint32_t i, const int64_t *dims, tn_error *err) {
  const tni_etask *e = &x->exec->tasks[i];
  const tni_dev *d = x->exec->programs[e->program].dev;
  tni_stask *t = &x->tasks[i];
  tn_plan *plan = NULL;
  tn_status st = TN_OK;
  for (uint32_t u = 0; st == TN_OK && e->info->engine == 0 && u < e->info->n_uses; u++)
    if (e->regions[u] != TN_NONE) st = tni_region_own(s, x, e->regions[u], true, err); /* a CPU task gets no NULL */
  if (st != TN_OK) return st;
  fill_views(x, i);
  if (computes_reference(s, e, x->exec)) return TN_OK;
  tni_devlock_lock(d->lock);
  st = get_plan(s, x, i, dims, &plan, err);
  if (st == TN_OK && plan == t->plan && t->args) {
    for (uint32_t u = 0; st == TN_OK && u <= e->info->n_uses; u++)
      st = d->device->args_set(t->args, u, t->views[u], err);
  } else if (st == TN_OK) {
    drop_args(d, t);
    t->plan = plan;
    st = d->device->args(plan, (const tn_view *const *)t->views, e->info->n_uses + 1, &t->args, err);
  }
  tni_devlock_unlock(d->lock);
  if (st == TN_OK) return TN_OK;
  tni_fail(err, st, d->name, "no reason given");
  tni_error_prefix(err, "plugin '%s' cannot attach memory to '%s'", d->name, e->label);
  return st;
}

/* --- tasks ----------------------------------------------------------------------------------------------------- */

static void trace_task(const tn_session *s, const tni_etask *e, int64_t start, int64_t end, uint64_t bytes,
                       uint32_t clock) {
  if (!s->trace) return;
  tn_trace_event ev = {.h = TN_HDR(tn_trace_event),
                       .track = e->track,
                       .name = e->label,
                       .start = start,
                       .end = end,
                       .bytes = bytes,
                       .step = s->step,
                       .clock = clock};
  s->trace(s->trace_user, &ev);
}

static uint64_t task_bytes(const tni_stask *t, const tni_etask *e) {
  uint64_t n = 0;
  for (uint32_t u = 0; u < e->info->n_uses; u++) n += t->views[u]->bytes;
  return n;
}

static tn_status run_cpu(tn_session *s, const tni_dev *d, const tni_etask *e, tni_stask *t, tn_error *err) {
  uint64_t before = tni_fpmode_get();
  tn_error why;
  tni_error_init(&why);
  tn_status st = d->device->run(t->plan, t->args, &s->run.run, &why);
  if (st != TN_OK) st = tni_plugin_result(d->name, e->label, st, &why, err);
  if (tni_fpmode_get() == before) return st;
  tni_fpmode_put(before);
  return tni_fail(err, TN_E_INTERNAL, d->name, "plugin '%s' changed the floating-point mode in '%s'", d->name,
                  e->label);
}

#define ENGINE_TIMEOUT_NS INT64_C(60000000000)

static tni_inflight *get_inflight(tn_session *s) {
  if (s->inflight) return s->inflight;
  tni_inflight *f = calloc(1, sizeof *f);
  if (f && tni_waker_init(&f->waker) != TN_OK) {
    free(f);
    f = NULL;
  }
  return s->inflight = f;
}

/* One item at a time. What timed out is left behind on purpose: the plugin may still complete it. */
static tn_status run_engine(tn_session *s, const tni_dev *d, const tni_etask *e, tni_stask *t, tn_error *err) {
  tni_inflight *f = get_inflight(s);
  if (!f) return tni_fail_memory(err, e->label);
  tni_ticket_init(&f->ticket, &f->waker, &s->model->rt->log, e->track);
  tn_item item = {.h = TN_HDR(tn_item), .plan = t->plan, .args = t->args, .ticket = &f->ticket, .ready = tni_now_ns()};
  const tn_item *items[] = {&item};
  bool blocking = d->device->caps->engines[e->info->engine - 1]->flags & TN_ENGINE_BLOCKING;
  tni_ticket_arm(&f->ticket);
  tn_error why;
  tni_error_init(&why);
  pthread_mutex_lock(&d->lock->submit);
  tn_status st = d->device->submit(d->device, e->info->engine, items, 1, blocking ? &s->run.run : NULL, &why);
  pthread_mutex_unlock(&d->lock->submit);
  if (st != TN_OK) {
    if (!tni_ticket_disarm(&f->ticket)) s->inflight = NULL;
    return tni_plugin_result(d->name, e->label, st, &why, err);
  }
  st = tni_ticket_wait(&f->ticket, ENGINE_TIMEOUT_NS, err);
  if (st != TN_OK) {
    s->inflight = NULL;
    return st;
  }
  const tn_times *times = &f->ticket.times;
  if (times->end > times->start) trace_task(s, e, times->start, times->end, task_bytes(t, e), times->clock);
  return tni_plugin_result(d->name, e->label, f->ticket.status, &f->ticket.error, err);
}

/* The CPU's regions are mapped for CPU tasks and handed back for the engine's. */
static tn_status own_regions(tn_session *s, tni_sexec *x, uint32_t i, bool cpu, tn_error *err) {
  const tni_etask *e = &x->exec->tasks[i];
  const tni_dev *d = x->exec->programs[e->program].dev;
  for (uint32_t u = 0; u < e->info->n_uses; u++) {
    uint32_t r = e->regions[u];
    if (r == TN_NONE || x->exec->regions[r].device == TN_NONE) continue;
    void *before = x->regions[r].ptr;
    tn_status st = tni_region_own(s, x, r, cpu, err);
    if (st != TN_OK) return st;
    if (x->regions[r].ptr == before && x->tasks[i].views[u]->ptr == before) continue;
    x->tasks[i].views[u]->ptr = x->regions[r].ptr;
    if (!x->tasks[i].args) continue;
    tni_devlock_lock(d->lock);
    st = d->device->args_set(x->tasks[i].args, u, x->tasks[i].views[u], err);
    tni_devlock_unlock(d->lock);
    if (st != TN_OK) return st;
  }
  return TN_OK;
}

/* Nothing to write: not run (promise D16 of the ABI page). */
static bool is_empty(const tni_sexec *x, uint32_t i) {
  const tni_etask *e = &x->exec->tasks[i];
  bool writes = false;
  for (uint32_t u = 0; u < e->info->n_uses; u++) {
    if (e->regions[u] == TN_NONE || !(e->info->uses[u].access & (TN_WRITE | TN_APPEND))) continue;
    writes = true;
    if (x->regions[e->regions[u]].bytes) return false;
  }
  return writes;
}

static tn_status run_task(tn_session *s, tni_sexec *x, uint32_t i, tn_error *err) {
  const tni_etask *e = &x->exec->tasks[i];
  const tni_dev *d = x->exec->programs[e->program].dev;
  tni_stask *t = &x->tasks[i];
  if (is_empty(x, i)) return TN_OK;
  bool reference = computes_reference(s, e, x->exec);
  tn_status st = own_regions(s, x, i, e->info->engine == 0 || reference, err);
  int64_t start = tni_now_ns();
  if (st == TN_OK && reference)
    st = tni_reference_task(s, x, i, err);
  else if (st == TN_OK)
    st = e->info->engine == 0 ? run_cpu(s, d, e, t, err) : run_engine(s, d, e, t, err);
  if (st == TN_OK && (e->info->engine == 0 || reference)) trace_task(s, e, start, tni_now_ns(), task_bytes(t, e), 0);
  if (st == TN_OK && s->capture && !d->is_host) {
    st = own_regions(s, x, i, true, err);
    if (st == TN_OK) st = tni_capture_task(s, x, i, err);
  }
  if (st != TN_OK) tni_fail(err, st, e->label, "'%s' failed without a reason", e->label);
  return st;
}

/* --- inputs and outputs ---------------------------------------------------------------------------------------- */

static tn_status match_inputs(tn_session *s, const tn_tensor *const *in, uint32_t n_in, tn_error *err) {
  const tn_model *m = s->model;
  for (uint32_t i = 0; i < m->n_inputs; i++) s->inputs[i] = NULL;
  for (uint32_t k = 0; k < n_in; k++) {
    uint32_t i = 0;
    if (!in[k] || !in[k]->name) return tni_fail(err, TN_E_INVALID, NULL, "input %u has no name", k);
    while (i < m->n_inputs && strcmp(m->inputs[i]->name, in[k]->name) != 0) i++;
    if (i == m->n_inputs) return tni_fail(err, TN_E_INVALID, in[k]->name, "the model has no input '%s'", in[k]->name);
    if (s->inputs[i]) return tni_fail(err, TN_E_INVALID, in[k]->name, "input '%s' is given twice", in[k]->name);
    s->inputs[i] = in[k];
  }
  for (uint32_t i = 0; i < m->n_inputs; i++)
    if (!s->inputs[i])
      return tni_fail(err, TN_E_INVALID, m->inputs[i]->name, "input '%s' is missing", m->inputs[i]->name);
  return TN_OK;
}

/* Caller's memory is used as it lies; what a device holds is copied in. */
static tn_status place_inputs(tn_session *s, tni_sexec *x, bool *moved, tn_error *err) {
  const tni_graph *g = s->model->graph;
  *moved = false;
  for (uint32_t i = 0; i < g->n_inputs; i++) {
    uint32_t r = x->exec->region_of[g->inputs[i]];
    if (r == TN_NONE) continue;
    tni_sregion *q = &x->regions[r];
    void *data = (void *)(uintptr_t)s->inputs[i]->data;
    if (x->exec->regions[r].device != TN_NONE) {
      tn_status st = tni_region_own(s, x, r, true, err);
      if (st != TN_OK) return st;
      if (q->bytes) memcpy(q->ptr, data, q->bytes);
    } else if (q->ptr != data) {
      q->ptr = data;
      *moved = true;
    }
  }
  return TN_OK;
}

static tn_status fill_output(tn_session *s, tni_sexec *x, tn_id v, tn_tensor *out, tn_error *err) {
  const tni_value *val = tni_graph_value(s->model->graph, v);
  uint32_t r = x->exec->region_of[v];
  out->h = (tn_hdr)TN_HDR(tn_tensor);
  out->name = val->pub.name;
  if (r != TN_NONE && x->exec->regions[r].kind != TNI_R_INPUT) {
    tni_sregion *q = &x->regions[r];
    tn_status st = tni_region_own(s, x, r, true, err);
    if (st != TN_OK) return st;
    out->dtype = q->dtype;
    out->rank = q->rank;
    memcpy(out->dims, q->dims, sizeof out->dims);
    out->data = q->ptr;
    out->bytes = q->bytes;
    return TN_OK;
  }
  if (val->pub.kind == TN_VALUE_CONST) {
    out->dtype = val->tensor->dtype;
    out->rank = val->tensor->rank;
    memcpy(out->dims, val->tensor->dims, sizeof out->dims);
    out->data = val->tensor->data;
    out->bytes = val->tensor->bytes;
    return TN_OK;
  }
  for (uint32_t i = 0; i < s->model->graph->n_inputs; i++) {
    if (s->model->graph->inputs[i] != v) continue;
    const char *name = out->name;
    *out = *s->inputs[i];
    out->name = name;
    return TN_OK;
  }
  return tni_fail(err, TN_E_INTERNAL, val->pub.name, "nothing computes output '%s'", val->pub.name);
}

static tn_status collect_outputs(tn_session *s, tni_sexec *x, tn_tensor *out, uint32_t n_out, tn_error *err) {
  const tni_graph *g = s->model->graph;
  for (uint32_t k = 0; k < n_out; k++) {
    uint32_t i = k;
    if (out[k].name)
      for (i = 0; i < g->n_outputs && strcmp(s->model->outputs[i]->name, out[k].name) != 0;) i++;
    if (i >= g->n_outputs)
      return tni_fail(err, TN_E_INVALID, out[k].name, "the model has no output '%s'", out[k].name ? out[k].name : "");
    tn_status st = fill_output(s, x, g->outputs[i], &out[k], err);
    if (st != TN_OK) return st;
  }
  return TN_OK;
}

/* --- life ------------------------------------------------------------------------------------------------------ */

static tn_status create_exec(tn_session *s, tni_sexec *x, tni_exec *exec) {
  x->exec = exec;
  x->dims = TNI_NEW_ARRAY(s->mem, int64_t, exec->view.n_symbols + 1);
  x->tasks = TNI_NEW_ARRAY(s->mem, tni_stask, exec->n_tasks);
  x->regions = TNI_NEW_ARRAY(s->mem, tni_sregion, exec->n_regions);
  if (!x->dims || !x->tasks || !x->regions) return TN_E_NO_MEMORY;
  for (uint32_t i = 0; i < exec->n_tasks; i++) {
    uint32_t n = exec->tasks[i].info->n_uses + 1;
    x->tasks[i].views = TNI_NEW_ARRAY(s->mem, tn_view *, n);
    tn_view *views = TNI_NEW_ARRAY(s->mem, tn_view, n);
    if (!x->tasks[i].views || !views) return TN_E_NO_MEMORY;
    for (uint32_t u = 0; u < n; u++) x->tasks[i].views[u] = &views[u];
  }
  return TN_OK;
}

tn_status tn_session_create(tn_model *m, tn_session **out, tn_error *err) {
  if (m->flags & TN_MODEL_INSPECT) return tni_fail(err, TN_E_INVALID, m->path, "the model was loaded for inspection");
  tn_session *s = calloc(1, sizeof *s);
  if (!s || !(s->mem = tni_arena_create())) {
    free(s);
    return tni_fail_memory(err, m->path);
  }
  s->model = m;
  tni_pool_run_init(&s->run, m->rt->pool, &s->cancel);
  s->execs = TNI_NEW_ARRAY(s->mem, tni_sexec, m->n_execs);
  s->inputs = TNI_NEW_ARRAY(s->mem, const tn_tensor *, m->n_inputs);
  tn_status st = s->execs && s->inputs ? TN_OK : TN_E_NO_MEMORY;
  for (uint32_t i = 0; st == TN_OK && i < m->n_execs; i++) st = create_exec(s, &s->execs[i], &m->execs[i]);
  if (st == TN_OK && (m->flags & TN_MODEL_CAPTURE)) st = tni_capture_create(s);
  if (st != TN_OK) {
    tn_session_destroy(s);
    return tni_fail_memory(err, m->path);
  }
  *out = s;
  return TN_OK;
}

void tn_session_destroy(tn_session *s) {
  if (!s) return;
  for (uint32_t i = 0; s->execs && i < s->model->n_execs; i++) {
    tni_sexec *x = &s->execs[i];
    for (uint32_t t = 0; x->exec && x->tasks && t < x->exec->n_tasks; t++) {
      const tni_dev *d = x->exec->programs[x->exec->tasks[t].program].dev;
      tni_devlock_lock(d->lock);
      drop_args(d, &x->tasks[t]);
      for (uint32_t k = 0; k < TNI_PLANS_PER_TASK; k++)
        if (x->tasks[t].plans[k].plan) d->device->unbind(x->tasks[t].plans[k].plan);
      tni_devlock_unlock(d->lock);
    }
    if (x->exec) tni_memory_release(s, x);
  }
  tni_capture_destroy(s);
  if (s->inflight) tni_waker_finish(&s->inflight->waker);
  free(s->inflight);
  tni_arena_destroy(s->mem);
  free(s);
}

void tn_session_cancel(tn_session *s) { __atomic_store_n(&s->cancel, 1, __ATOMIC_RELAXED); }

void tn_session_trace(tn_session *s, void (*fn)(void *user, const tn_trace_event *e), void *user) {
  s->trace = fn;
  s->trace_user = user;
}

static tni_sexec *exec_of(tn_session *s, uint32_t phase) {
  for (uint32_t i = 0; i < s->model->n_execs; i++)
    if (s->execs[i].exec->phase == phase) return &s->execs[i];
  return &s->execs[0];
}

static tn_status prepare(tn_session *s, tni_sexec *x, tn_error *err) {
  uint32_t n = x->exec->view.n_symbols;
  int64_t *dims = calloc(n + 1, sizeof *dims);
  if (!dims) return tni_fail_memory(err, NULL);
  bool moved = false;
  tn_status st = tni_bind_symbols(s->model, s->inputs, dims, err);
  bool same = x->ready && memcmp(dims, x->dims, n * sizeof *dims) == 0;
  if (st == TN_OK && !same) {
    x->ready = false;
    st = tni_memory_plan(s, x, dims, err);
  }
  if (st == TN_OK) st = place_inputs(s, x, &moved, err);
  for (uint32_t i = 0; st == TN_OK && (!same || moved) && i < x->exec->n_tasks; i++)
    if (!is_empty(x, i)) st = attach_task(s, x, i, dims, err);
  if (st == TN_OK) {
    memcpy(x->dims, dims, n * sizeof *dims);
    x->ready = true;
  } else {
    x->ready = false;
  }
  free(dims);
  return st;
}

tn_status tn_session_run(tn_session *s, uint32_t phase, const tn_tensor *const *in, uint32_t n_in, tn_tensor *out,
                         uint32_t n_out, tn_error *err) {
  tn_error local;
  if (!err) {
    tni_error_init(&local);
    err = &local;
  }
  tn_status st = match_inputs(s, in, n_in, err);
  tni_sexec *x = exec_of(s, phase);
  if (st == TN_OK) st = prepare(s, x, err);
  s->run.run.step = s->step;
  for (uint32_t i = 0; st == TN_OK && i < x->exec->n_tasks; i++) {
    if (__atomic_load_n(&s->cancel, __ATOMIC_RELAXED)) st = tni_fail(err, TN_E_CANCELLED, NULL, "cancelled");
    if (st == TN_OK) st = run_task(s, x, i, err);
  }
  if (st == TN_OK) st = collect_outputs(s, x, out, n_out, err);
  s->step++;
  __atomic_store_n(&s->cancel, 0, __ATOMIC_RELAXED);
  return st;
}
