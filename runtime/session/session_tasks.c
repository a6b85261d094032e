/* SPDX-License-Identifier: Apache-2.0
 *
 * What every run of a session does: when dims changed memory, plans and views, then tasks in order. Kept caches
 * (step.c, pieces.c) and plain runs (session_run.c) stand on it.
 */
#include "runtime/session/session_tasks.h"

#include <sched.h>
#include <string.h>

#include "runtime/engine/engine.h"
#include "runtime/memory/memory.h"
#include "runtime/place/place.h"
#include "runtime/plugin/plugin.h"
#include "runtime/session/deadline.h"
#include "runtime/session/looks.h"
#include "runtime/session/state.h"

/* --- inputs and outputs ---------------------------------------------------------------------------------------- */

/* The caller's memory is used as it lies. */
static void place_inputs(tn_session *s, tni_sexec *x, bool *moved) {
  const tni_graph *g = s->model->graph;
  for (uint32_t i = 0; i < g->n_inputs; i++) {
    uint32_t r = x->exec->region_of[g->inputs[i]];
    if (r == TN_NONE) continue;
    tni_sregion *q = &x->regions[r];
    void *data = (void *)(uintptr_t)s->inputs[i]->data;
    *moved = *moved || q->ptr != data;
    q->ptr = data;
  }
}

tn_status tni_session_output(tn_session *s, tni_sexec *x, tn_id v, tn_tensor *out, tn_error *err) {
  const tni_value *val = tni_graph_value(s->model->graph, v);
  uint32_t r = x->exec->region_of[v];
  out->h = (tn_hdr)TN_API_HDR(tn_tensor);
  out->name = val->pub.name;
  const uint32_t cache = tni_state_of_present(s->model->graph, v);
  if (cache != TN_NONE) return tni_states_present(s, cache, s->valid, out, err);
  if (r != TN_NONE && x->exec->regions[r].kind != TNI_R_INPUT) {
    tni_sregion *q = &x->regions[r];
    tn_status st = tni_region_take(s, x, r, TN_NONE, TN_READ, err);
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

/* --- making ----------------------------------------------------------------------------------------------------- */

tn_status tni_sexec_init(tn_session *s, tni_sexec *x, tni_exec *exec, tni_sexec *head) {
  x->exec = exec;
  x->head = head;
  x->dims = TNI_NEW_ARRAY(s->mem, int64_t, exec->view.n_symbols + 1);
  x->tasks = TNI_NEW_ARRAY(s->mem, tni_stask, exec->n_tasks);
  x->regions = TNI_NEW_ARRAY(s->mem, tni_sregion, exec->n_regions);
  x->mems = TNI_NEW_ARRAY(s->mem, tni_mem, exec->n_blocks);
  x->feeds = TNI_NEW_ARRAY(s->mem, tni_mem, s->model->rt->n_devs);
  x->feed_spans = TNI_NEW_ARRAY(s->mem, tni_span, s->model->rt->n_devs);
  if (!x->dims || !x->tasks || !x->regions || !x->mems || !x->feeds || !x->feed_spans) return TN_E_NO_MEMORY;
  for (uint32_t i = 0; i < exec->n_tasks; i++) {
    uint32_t n = exec->tasks[i].info->n_uses + 1;
    x->tasks[i].views = TNI_NEW_ARRAY(s->mem, tn_view *, n);
    tn_view *views = TNI_NEW_ARRAY(s->mem, tn_view, n);
    if (!x->tasks[i].views || !views) return TN_E_NO_MEMORY;
    for (uint32_t u = 0; u < n; u++) x->tasks[i].views[u] = &views[u];
  }
  return TN_OK;
}

static void tell_plugins(const tn_session *s, bool on) {
  for (uint32_t d = 0; d < s->model->rt->n_devs; d++)
    if (s->model->rt->devs[d].host) tni_services_cancel(s->model->rt->devs[d].host->ctx, on);
}

/* s->binding. Who cancels may do so in a signal handler: no lock. */
enum { BIND_IDLE, BIND_GOES_ON, BIND_IS_TOLD, BIND_TOLD };

void tn_session_cancel(tn_session *s) {
  int expected = BIND_GOES_ON;
  if (!s) return;
  s = tni_session_now(s);
  __atomic_store_n(&s->cancel, 1, __ATOMIC_SEQ_CST);
  if (!__atomic_compare_exchange_n(&s->binding, &expected, BIND_IS_TOLD, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
    return;
  tell_plugins(s, true);
  __atomic_store_n(&s->binding, BIND_TOLD, __ATOMIC_SEQ_CST);
}

void tn_session_trace(tn_session *s, void (*fn)(void *user, const tn_trace_event *e), void *user) {
  if (!s) return;
  s = tni_session_now(s);
  s->trace = fn;
  s->trace_user = user;
}

tni_sexec *tni_session_exec(tn_session *s, uint32_t phase) {
  for (uint32_t i = 0; i < s->model->n_execs; i++)
    if (s->execs[i].exec->phase == phase) return &s->execs[i];
  return &s->execs[0];
}

/* --- runs -------------------------------------------------------------------------------------------------------- */

static tn_status bind_tasks(tn_session *s, tni_sexec *x, tn_error *err) {
  tn_status st = TN_OK;
  int now = BIND_GOES_ON;
  __atomic_store_n(&s->binding, BIND_GOES_ON, __ATOMIC_SEQ_CST);
  for (uint32_t i = 0; st == TN_OK && i < x->exec->n_tasks; i++) {
    if (__atomic_load_n(&s->cancel, __ATOMIC_SEQ_CST)) st = tni_fail(err, TN_E_CANCELLED, NULL, "cancelled");
    if (st == TN_OK) st = tni_task_attach(s, x, i, s->dims, err);
  }
  if (!__atomic_compare_exchange_n(&s->binding, &now, BIND_IDLE, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST)) {
    while (__atomic_load_n(&s->binding, __ATOMIC_SEQ_CST) != BIND_TOLD) sched_yield();
    tell_plugins(s, false);
    __atomic_store_n(&s->binding, BIND_IDLE, __ATOMIC_SEQ_CST);
  }
  if (st == TN_E_CANCELLED) __atomic_store_n(&s->cancel, 0, __ATOMIC_RELAXED); /* it was for this call */
  return st;
}

static tn_status prepare_exec(tn_session *s, tni_sexec *x, tn_error *err) {
  const uint32_t n = x->exec->view.n_symbols;
  bool moved = false, same = x->ready && memcmp(s->dims, x->dims, n * sizeof *s->dims) == 0;
  tn_status st = TN_OK;
  x->ready = false;
  if (!same) st = tni_memory_plan(s, x, s->dims, err);
  tni_states_attach(s, x, &moved);
  place_inputs(s, x, &moved);
  if (st == TN_OK && (!same || moved)) st = bind_tasks(s, x, err);
  if (st != TN_OK) return st;
  memcpy(x->dims, s->dims, n * sizeof *s->dims);
  x->ready = true;
  return TN_OK;
}

/* Both have one element per sequence. Sequences are as long as each other but where a plain run's model says else. */
static void write_lengths(tn_session *s, tni_sexec *x) {
  const tni_graph *g = s->model->graph;
  const tn_id values[2] = {g->step_pos, g->step_valid};
  const int64_t length[2] = {x->pos, x->valid};
  for (uint32_t i = 0; i < 2; i++) {
    const uint32_t r = values[i] == TN_NONE ? TN_NONE : x->exec->region_of[values[i]];
    if (r == TN_NONE) continue;
    int64_t *p = x->regions[r].ptr;
    for (int64_t k = 0; k < (int64_t)(x->regions[r].bytes / sizeof *p); k++)
      p[k] = length[i] + (k < s->n_row_pos ? s->row_pos[k] - s->pos : 0);
  }
}

static tn_status run_tasks(tn_session *s, tni_sexec *const *xs, uint32_t n, tn_error *err) {
  tni_sexec *x = xs[0];
  tn_status st = TN_OK;
  for (uint32_t p = 0; st == TN_OK && p < n; p++) {
    write_lengths(s, xs[p]);
    tni_states_wrote(s, xs[p]->valid);
    st = tni_memory_feed(s, xs[p], err);
  }
  s->run.run.step = s->step;
  if (st == TN_OK && x->executor) st = tni_executor_run(x->executor, xs, n, err);
  for (uint32_t i = 0; st == TN_OK && !x->executor && i < x->exec->n_tasks; i++) {
    if (__atomic_load_n(&s->cancel, __ATOMIC_RELAXED)) st = tni_fail(err, TN_E_CANCELLED, NULL, "cancelled");
    if (st == TN_OK) st = tni_task_run(s, x, i, err);
  }
  for (uint32_t p = 0; p < n; p++) {
    xs[p]->guarded = xs[p]->guarded && st != TN_OK;
    tni_tables_used(s->model, xs[p]->table_rows, &s->looked_up);
  }
  s->step += n;
  return st;
}

/* The same, with looks at what it gives. */
static tn_status run_looked(tn_session *s, tni_sexec *const *xs, uint32_t n, tn_error *err) {
  if (!s->looks.every) return run_tasks(s, xs, n, err);
  tni_looks_begin(s, xs[0]);
  tn_status st = run_tasks(s, xs, n, err);
  tni_looks_end(s);
  const char *output = st == TN_OK ? tni_looks_output(s, xs[n - 1]) : NULL;
  if (!output) return st;
  s->step -= n;
  tni_looks_all(s);
  st = run_tasks(s, xs, n, err);
  tni_looks_end(s);
  if (st == TN_OK) tni_looks_settle(s, output, tni_looks_output(s, xs[n - 1]));
  return st;
}

/* --- under a deadline -------------------------------------------------------------------------------------------- */

typedef struct run_job {
  tn_session *s;
  tni_sexec *const *xs;
  uint32_t n; /* 0: xs[0] is to be prepared */
  tn_status st;
} run_job;

static void do_job(void *arg) {
  run_job *j = arg;
  j->st = j->n ? run_looked(j->s, j->xs, j->n, &j->s->why.error) : prepare_exec(j->s, j->xs[0], &j->s->why.error);
}

/* A plugin that comes back too late finds the session's own error, which is left to it with the session. */
static tn_status run_bounded(tn_session *s, tni_sexec *const *xs, uint32_t n, tn_error *err) {
  run_job j = {.s = s, .xs = xs, .n = n};
  if (tni_model_hangs(s->model)) return tni_fail(err, TN_E_DEVICE_LOST, s->model->path, "a plugin hangs");
  tni_long_error_init(&s->why);
  if (tni_deadline_do(s->model->rt, s->bounded, do_job, &j, err)) {
    if (j.st != TN_OK) (void)tni_error_pass(err, j.st, &s->why.error);
    return j.st;
  }
  s->lost = true;
  return TN_E_DEVICE_LOST;
}

tn_status tni_session_prepare(tn_session *s, tni_sexec *x, tn_error *err) {
  return s->bounded ? run_bounded(s, &x, 0, err) : prepare_exec(s, x, err);
}

tn_status tni_session_tasks(tn_session *s, tni_sexec *const *xs, uint32_t n, tn_error *err) {
  return s->bounded ? run_bounded(s, xs, n, err) : run_looked(s, xs, n, err);
}
