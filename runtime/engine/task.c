/* SPDX-License-Identifier: Apache-2.0
 *
 * One task of a session: its plan for the dims, its memory, its run.
 */
#include "runtime/engine/task.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base/base.h"
#include "runtime/interp/interp.h"
#include "runtime/memory/memory.h"
#include "runtime/plugin/plugin.h"

static bool computes_reference(const tn_session *s, const tni_etask *e, const tni_exec *x) {
  return (s->model->flags & TN_MODEL_REFERENCE) && !x->programs[e->program].dev->is_host;
}

/* --- plans and views ------------------------------------------------------------------------------------------- */

static void drop_args(const tni_dev *d, tni_stask *t) {
  tni_dev_args_free(d, t->args);
  t->args = NULL;
}

/* Pieces of a prompt in flight share their plans: the k-th state of this placement. */
static tni_sexec *sharer_of(const tni_sexec *x, uint32_t k) { return k ? x->head->also[k - 1] : x->head; }

static bool used_by_others(const tni_sexec *x, uint32_t i, const tn_plan *plan) {
  bool used = false;
  for (uint32_t k = 0; k <= x->head->n_also; k++)
    used = used || (sharer_of(x, k) != x && sharer_of(x, k)->tasks[i].plan == plan);
  return used;
}

static bool is_bound_for(const tni_plan_slot *ps, const tni_etask *e, const int64_t *dims, uint32_t n) {
  bool same = ps->plan != NULL;
  for (uint32_t v = 0; same && v < n; v++)
    same = !(e->info->symbols & (1ull << (v < 63 ? v : 63))) || ps->key[v] == dims[v];
  return same;
}

/* The slot with a plan of this task for dims, or the one that may get it: free, or unused for longest. */
static tni_plan_slot *find_slot(const tni_sexec *x, uint32_t i, const int64_t *dims, bool *found) {
  tni_plan_slot *victim = NULL;
  *found = true;
  for (uint32_t y = 0; y <= x->head->n_also; y++)
    for (uint32_t k = 0; k < TNI_PLANS_PER_TASK; k++) {
      tni_plan_slot *ps = &sharer_of(x, y)->tasks[i].plans[k];
      if (is_bound_for(ps, &x->exec->tasks[i], dims, x->exec->view.n_symbols)) return ps;
      if (ps->plan && used_by_others(x, i, ps->plan)) continue;
      if (!victim || (victim->plan && (!ps->plan || ps->used < victim->used))) victim = ps;
    }
  *found = false;
  return victim;
}

/* The plan of this task for dims: one of the last few, or a new one. */
static tn_status get_plan(tn_session *s, tni_sexec *x, uint32_t i, const int64_t *dims, tn_plan **out, tn_error *err) {
  const tni_etask *e = &x->exec->tasks[i];
  const tni_program *p = &x->exec->programs[e->program];
  tni_stask *t = &x->tasks[i];
  const uint32_t n = x->exec->view.n_symbols;
  bool found;
  tni_plan_slot *ps = find_slot(x, i, dims, &found); /* others use one each, of four for each */
  if (found) {
    ps->used = ++s->tick;
    *out = ps->plan;
    return TN_OK;
  }
  if (!ps->key && !(ps->key = TNI_NEW_ARRAY(s->mem, int64_t, n + 1))) return tni_fail_memory(err, e->label);
  if (ps->plan) {
    if (t->plan == ps->plan) {
      drop_args(p->dev, t);
      t->plan = NULL;
    }
    tni_dev_unbind(p->dev, ps->plan);
    ps->plan = NULL;
  }
  tn_dims d = {.h = TN_HDR(tn_dims), .v = dims, .n = n};
  tn_error why;
  tni_error_init(&why);
  tn_status st = tni_dev_bind(p->dev, p->program, e->task, e->label, &d, &ps->plan, &why);
  if (st != TN_OK) {
    st = tni_plugin_result(p->dev->name, "bind", st, &why, err);
    tni_error_prefix(err, "'%s'", e->label);
    return st;
  }
  memcpy(ps->key, dims, n * sizeof *dims);
  ps->used = ++s->tick;
  *out = ps->plan;
  return TN_OK;
}

static void fill_views(const tn_session *s, tni_sexec *x, uint32_t i) {
  const tni_etask *e = &x->exec->tasks[i];
  const uint32_t d = e->info->engine ? x->exec->programs[e->program].cluster->device : TN_NONE;
  tni_stask *t = &x->tasks[i];
  for (uint32_t u = 0; u < e->info->n_uses; u++) {
    uint32_t r = e->regions[u];
    if (r == TN_NONE) {
      *t->views[u] = x->exec->attached[e->program][e->info->uses[u].slot].view;
      continue;
    }
    tni_region_view(s, x, r, d, t->views[u]);
  }
  tni_scratch_view(x, i, t->views[e->info->n_uses]);
  tni_copies_view(s->model, x, i);
}

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

/* Nothing to own, to wait for or to compare: run() is all there is to it. */
static bool is_plain(const tn_session *s, const tni_sexec *x, uint32_t i) {
  const tni_etask *e = &x->exec->tasks[i];
  for (uint32_t u = 0; u < e->info->n_uses; u++)
    if (e->regions[u] != TN_NONE && !tni_region_is_plain(x->exec, e->regions[u])) return false;
  return e->info->engine == 0 && !computes_reference(s, e, x->exec);
}

/* New memory for a task: a new args when the plan changed, args_set where only a pointer or the dims of a view did. */
tn_status tni_task_attach(tn_session *s, tni_sexec *x, uint32_t i, const int64_t *dims, tn_error *err) {
  const tni_etask *e = &x->exec->tasks[i];
  const tni_dev *d = x->exec->programs[e->program].dev;
  tni_stask *t = &x->tasks[i];
  tn_plan *plan = NULL;
  tn_status st = TN_OK;
  t->dynamic = tni_task_is_dynamic(x->exec, i);
  t->empty = !t->dynamic && is_empty(x, i);
  t->plain = is_plain(s, x, i);
  if (t->empty || t->dynamic) return TN_OK;
  for (uint32_t u = 0; st == TN_OK && e->info->engine == 0 && u < e->info->n_uses; u++)
    if (e->regions[u] != TN_NONE) st = tni_region_take(s, x, e->regions[u], TN_NONE, 0, err); /* it gets no NULL */
  if (st != TN_OK) return st;
  fill_views(s, x, i);
  if (computes_reference(s, e, x->exec)) return TN_OK;
  st = get_plan(s, x, i, dims, &plan, err);
  if (st != TN_OK) return st;
  const tn_view *const *views = (const tn_view *const *)t->views;
  tn_error why;
  tni_error_init(&why);
  if (plan == t->plan && t->args) {
    st = tni_dev_args_set(d, t->args, 0, views, e->info->n_uses + 1, &why);
  } else {
    drop_args(d, t);
    t->plan = plan;
    st = tni_dev_args(d, plan, e->label, views, e->info->n_uses + 1, &t->args, &why);
  }
  if (st == TN_OK) return TN_OK;
  st = tni_plugin_result(d->name, "args", st, &why, err);
  tni_error_prefix(err, "'%s'", e->label);
  return st;
}

/* --- tasks ----------------------------------------------------------------------------------------------------- */

static uint64_t task_bytes(const tni_stask *t, const tni_etask *e) {
  uint64_t n = 0;
  for (uint32_t u = 0; u < e->info->n_uses; u++) n += t->views[u]->bytes;
  return n;
}

void tni_task_trace(const tn_session *s, const tni_sexec *x, uint32_t i, const char *track, int64_t start, int64_t end,
                    uint32_t clock) {
  if (!s->trace) return;
  const tni_etask *e = &x->exec->tasks[i];
  tn_trace_event ev = {.h = TN_API_HDR(tn_trace_event),
                       .track = track,
                       .name = e->label,
                       .start = start,
                       .end = end,
                       .bytes = x->tasks[i].dynamic ? 0 : task_bytes(&x->tasks[i], e),
                       .step = s->step + x->ahead,
                       .clock = clock,
                       .ops = e->ops};
  s->trace(s->trace_user, &ev);
}

tn_status tni_task_compute(tni_sexec *x, uint32_t i, tn_run *run, tn_error *err) {
  const tni_etask *e = &x->exec->tasks[i];
  const tni_dev *d = x->exec->programs[e->program].dev;
  tni_stask *t = &x->tasks[i];
  if (t->copies) tni_copies_take(x, i);
  const tn_status st = tni_dev_run(d, e->label, t->plan, t->args, run, err);
  if (t->copies && st == TN_OK) tni_copies_give(x, i);
  return st;
}

tn_status tni_task_own(tn_session *s, tni_sexec *x, uint32_t i, bool cpu, tn_error *err) {
  const tni_etask *e = &x->exec->tasks[i];
  const tni_dev *d = x->exec->programs[e->program].dev;
  const uint32_t to = cpu ? TN_NONE : x->exec->programs[e->program].cluster->device;
  for (uint32_t u = 0; u < e->info->n_uses; u++) {
    uint32_t r = e->regions[u];
    if (r == TN_NONE || tni_region_is_plain(x->exec, r)) continue;
    tn_status st = tni_region_take(s, x, r, to, e->info->uses[u].access, err);
    if (st != TN_OK) return st;
    if (x->tasks[i].views[u]->ptr == x->regions[r].ptr || tni_use_is_copied(x, i, u)) continue;
    x->tasks[i].views[u]->ptr = x->regions[r].ptr;
    if (!x->tasks[i].args) continue;
    st = tni_dev_args_set(d, x->tasks[i].args, u, (const tn_view *const *)x->tasks[i].views, 1, err);
    if (st != TN_OK) return st;
  }
  if (cpu || !x->tasks[i].scratch_bytes) return TN_OK;
  /* Scratch lies where others lay that the CPU may have mapped still. */
  tni_span scratch = {
      .mem = &x->mems[e->block], .offset = x->tasks[i].scratch_offset, .bytes = x->tasks[i].scratch_bytes};
  return tni_span_take(&scratch, to, 0, err);
}

tn_status tni_task_before(tn_session *s, tni_sexec *x, uint32_t i, tn_error *err) {
  if (!s->watch.before) return TN_OK;
  tn_status st = tni_task_own(s, x, i, true, err);
  return st == TN_OK ? s->watch.before(s, x, i, err) : st;
}

bool tni_task_is_watched(const tn_session *s, const tni_sexec *x, uint32_t i) {
  if (!s->watch.after || (s->watch.only != TN_NONE && (s->watch.only != i || x != x->head))) return false;
  return !x->tasks[i].empty && !x->tasks[i].dynamic && tni_task_is_reachable(s, x, i);
}

tn_status tni_task_after(tn_session *s, tni_sexec *x, uint32_t i, tn_error *err) {
  if (!tni_task_is_watched(s, x, i) || x->exec->programs[x->exec->tasks[i].program].dev->is_host) return TN_OK;
  tn_status st = tni_task_own(s, x, i, true, err);
  return st == TN_OK ? s->watch.after(s, x, i, err) : st;
}

static tn_status run_any(tn_session *s, tni_sexec *x, uint32_t i, tn_error *err) {
  const tni_etask *e = &x->exec->tasks[i];
  const bool reference = computes_reference(s, e, x->exec);
  tn_status st = tni_task_own(s, x, i, true, err);
  if (st == TN_OK) st = tni_task_before(s, x, i, err);
  if (st == TN_OK && x->guarded) st = tni_guard_before(s, x, i, err);
  int64_t start = tni_now_ns();
  if (st == TN_OK) st = reference ? s->watch.instead(s, x, i, err) : tni_task_compute(x, i, &s->run.run, err);
  if (st == TN_OK) tni_task_trace(s, x, i, e->track, start, tni_now_ns(), 0);
  if (st == TN_OK && x->guarded) st = tni_guard_after(s, x, i, err);
  if (st == TN_OK) st = tni_task_after(s, x, i, err);
  if (st != TN_OK) tni_fail(err, st, e->label, "'%s' failed without a reason", e->label);
  return st;
}

static tn_status run_dynamic(tn_session *s, tni_sexec *x, uint32_t i, tn_error *err) {
  int64_t start = tni_now_ns();
  tn_status st = tni_dynamic_run(s, x, i, err);
  if (st == TN_OK) tni_task_trace(s, x, i, x->exec->tasks[i].track, start, tni_now_ns(), 0);
  return st;
}

tn_status tni_task_run(tn_session *s, tni_sexec *x, uint32_t i, tn_error *err) {
  const tni_stask *t = &x->tasks[i];
  if (t->empty) return TN_OK;
  if (t->dynamic) return run_dynamic(s, x, i, err);
  if (!t->plain || x->guarded || s->trace || s->watch.before || tni_task_is_watched(s, x, i))
    return run_any(s, x, i, err);
  return tni_task_compute(x, i, &s->run.run, err);
}

void tni_task_drop_args(tni_sexec *x, uint32_t i) {
  drop_args(x->exec->programs[x->exec->tasks[i].program].dev, &x->tasks[i]);
}

void tni_task_release(tni_sexec *x, uint32_t i) {
  const tni_dev *d = x->exec->programs[x->exec->tasks[i].program].dev;
  tni_task_drop_args(x, i);
  for (uint32_t k = 0; k < TNI_PLANS_PER_TASK; k++) tni_dev_unbind(d, x->tasks[i].plans[k].plan);
}
