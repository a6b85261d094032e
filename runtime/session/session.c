/* SPDX-License-Identifier: Apache-2.0
 *
 * One run: inputs -> symbols -> (when dims changed: memory, plans, views) -> tasks in order -> outputs.
 */
#include "runtime/session/session.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/plugin/services.h"
#include "runtime/engine/executor.h"
#include "runtime/session/failover.h"
#include "runtime/session/lengths.h"
#include "runtime/session/pieces.h"
#include "runtime/oracle/tasks/task_reference.h"
#include "runtime/session/state.h"
#include "runtime/place/tables.h"

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
  out->h = (tn_hdr)TN_HDR(tn_tensor);
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

static tn_status collect_outputs(tn_session *s, tni_sexec *x, tn_tensor *out, uint32_t n_out, tn_error *err) {
  const tni_graph *g = s->model->graph;
  for (uint32_t k = 0; k < n_out; k++) {
    uint32_t i = k;
    if (out[k].name)
      for (i = 0; i < g->n_outputs && strcmp(s->model->outputs[i]->name, out[k].name) != 0;) i++;
    if (i >= g->n_outputs)
      return tni_fail(err, TN_E_INVALID, out[k].name, "the model has no output '%s'", out[k].name ? out[k].name : "");
    tn_status st = tni_session_output(s, x, g->outputs[i], &out[k], err);
    if (st != TN_OK) return st;
  }
  return TN_OK;
}

/* --- life ------------------------------------------------------------------------------------------------------ */

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

static tn_status create_exec(tn_session *s, tni_sexec *x, tni_exec *exec, tn_error *err) {
  tn_status st = tni_sexec_init(s, x, exec, x);
  if (st != TN_OK || !tni_executor_wanted(s->model, exec)) return st;
  return tni_executor_create(s, x, 1, &x->executor, err);
}

tn_status tn_session_create(tn_model *m, tn_session **out, tn_error *err) {
  if (m->flags & (TN_MODEL_INSPECT | TN_MODEL_PACK))
    return tni_fail(err, TN_E_INVALID, m->path, "the model was loaded for inspection");
  tn_session *s = calloc(1, sizeof *s);
  if (!s || !(s->mem = tni_arena_create())) {
    free(s);
    return tni_fail_memory(err, m->path);
  }
  s->model = m;
  tni_pool_run_init(&s->run, m->rt->pool, &s->cancel);
  s->execs = TNI_NEW_ARRAY(s->mem, tni_sexec, m->n_execs);
  s->inputs = TNI_NEW_ARRAY(s->mem, const tn_tensor *, m->n_inputs);
  s->dims = TNI_NEW_ARRAY(s->mem, int64_t, tni_ex_n_symbols(m->graph->exprs) + 1);
  tn_status st = s->execs && s->inputs && s->dims ? TN_OK : TN_E_NO_MEMORY;
  for (uint32_t i = 0; st == TN_OK && i < m->n_execs; i++) st = create_exec(s, &s->execs[i], &m->execs[i], err);
  if (st == TN_OK && (m->flags & TN_MODEL_CAPTURE)) st = tni_capture_create(s);
  if (st != TN_OK) {
    tn_session_destroy(s);
    return tni_fail(err, st, m->path, "no memory for a session of '%s'", m->name);
  }
  *out = s;
  return TN_OK;
}

void tn_session_destroy(tn_session *s) {
  if (!s) return;
  tn_session_destroy(s->next);
  tni_pieces_release(s);
  for (uint32_t i = 0; s->execs && i < s->model->n_execs; i++) {
    tni_sexec *x = &s->execs[i];
    for (uint32_t t = 0; x->exec && x->tasks && t < x->exec->n_tasks; t++) tni_task_release(x, t);
    if (x->exec) tni_memory_release(s, x);
  }
  tni_states_release(s);
  tni_keep_release(s);
  tni_capture_destroy(s);
  free(s->row_pos);
  for (uint32_t i = 0; s->execs && i < s->model->n_execs; i++) tni_executor_destroy(s->execs[i].executor);
  tni_arena_destroy(s->mem);
  free(s);
}

static void tell_plugins(const tn_session *s, bool on) {
  for (uint32_t d = 0; d < s->model->rt->n_devs; d++)
    if (s->model->rt->devs[d].host) tni_services_cancel(s->model->rt->devs[d].host->ctx, on);
}

/* s->binding. Who cancels may do so in a signal handler: no lock. */
enum { BIND_IDLE, BIND_GOES_ON, BIND_IS_TOLD, BIND_TOLD };

void tn_session_cancel(tn_session *s) {
  int expected = BIND_GOES_ON;
  s = tni_session_now(s);
  __atomic_store_n(&s->cancel, 1, __ATOMIC_SEQ_CST);
  if (!__atomic_compare_exchange_n(&s->binding, &expected, BIND_IS_TOLD, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
    return;
  tell_plugins(s, true);
  __atomic_store_n(&s->binding, BIND_TOLD, __ATOMIC_SEQ_CST);
}

void tn_session_trace(tn_session *s, void (*fn)(void *user, const tn_trace_event *e), void *user) {
  s = tni_session_now(s);
  s->trace = fn;
  s->trace_user = user;
}

/* Positions of this run, from the symbols. */
static int64_t positions(const tn_session *s) {
  const tni_graph *g = s->model->graph;
  int64_t n = -1;
  if (g->step == TNI_EXPR_NONE || tni_ex_eval(g->exprs, g->step, s->dims, tni_ex_n_symbols(g->exprs), &n) != TN_OK)
    return -1;
  return n;
}

/* A plain run is not padded: where the phase's placement takes one length only, another does what has another. */
static tn_status run_exec(tn_session *s, uint32_t phase, tni_sexec **out, tn_error *err) {
  tni_sexec *x = tni_session_exec(s, phase);
  const int64_t n = positions(s);
  for (uint32_t i = 0; x->exec->chunk && x->exec->chunk != n && i < s->model->n_execs; i++)
    if (!s->execs[i].exec->chunk || s->execs[i].exec->chunk == n) x = &s->execs[i];
  *out = x;
  if (!x->exec->chunk || x->exec->chunk == n) return TN_OK;
  return tni_fail(
      err, TN_E_UNSUPPORTED, s->model->path,
      "plugin '%s' runs exactly %lld positions at once, not %lld; a session that keeps its caches pads them",
      s->model->rt->devs[x->exec->claims.chunk_by].name, (long long)x->exec->chunk, (long long)n);
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

tn_status tni_session_prepare(tn_session *s, tni_sexec *x, tn_error *err) {
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

tn_status tni_session_tasks(tn_session *s, tni_sexec *const *xs, uint32_t n, tn_error *err) {
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
    tni_tables_used(s, xs[p]);
  }
  s->step += n;
  return st;
}

/* Symbols, and the caller's past in the caches. */
static tn_status take_inputs(tn_session *s, tn_error *err) {
  const tni_graph *g = s->model->graph;
  tn_status st = tni_bind_symbols(s->model, s->inputs, s->dims, err);
  if (st == TN_OK && g->rows_symbol != TN_NONE) {
    st = tni_ex_eval(g->exprs, g->rows_limit, s->dims, tni_ex_n_symbols(g->exprs), &s->dims[g->rows_symbol]);
    if (st != TN_OK) return tni_fail(err, st, s->model->path, "the inputs do not tell how many rows there are");
    s->dims[g->rows_end] = s->dims[g->rows_symbol];
  }
  if (st == TN_OK && g->n_states) st = tni_states_lengths(s->model, s->dims, &s->pos, &s->valid, err);
  if (st == TN_OK) st = tni_lengths_read(s, err);
  if (st != TN_OK || !g->n_states) return st;
  st = tni_states_fit(s, s->dims, s->valid, 0, false, err);
  return st == TN_OK ? tni_states_load(s, err) : st;
}

static tn_status run(tn_session *s, uint32_t phase, const tn_tensor *const *in, uint32_t n_in, tn_tensor *out,
                     uint32_t n_out, tn_error *err) {
  if (s->keep) return tni_fail(err, TN_E_INVALID, s->model->path, "the session keeps its caches: tn_session_step");
  tni_sexec *x = NULL;
  tn_status st = match_inputs(s, in, n_in, err);
  if (st == TN_OK) st = take_inputs(s, err);
  if (st == TN_OK) st = run_exec(s, phase, &x, err);
  if (st == TN_OK) st = tni_session_prepare(s, x, err);
  if (st == TN_OK) {
    x->pos = s->pos;
    x->valid = s->valid;
    st = tni_session_tasks(s, &x, 1, err);
    __atomic_store_n(&s->cancel, 0, __ATOMIC_RELAXED);
  }
  return st == TN_OK ? collect_outputs(s, x, out, n_out, err) : st;
}

tn_status tn_session_run(tn_session *s, uint32_t phase, const tn_tensor *const *in, uint32_t n_in, tn_tensor *out,
                         uint32_t n_out, tn_error *err) {
  tn_error local;
  tn_status st;
  if (!err) {
    tni_error_init(&local);
    err = &local;
  }
  do {
    s = tni_session_now(s);
    st = run(s, phase, in, n_in, out, n_out, err);
  } while (tni_failover(s, st, err));
  return st;
}
