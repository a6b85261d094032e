/* SPDX-License-Identifier: Apache-2.0
 *
 * One plain run: inputs -> symbols -> (when dims changed: memory, plans, views) -> tasks in order -> outputs.
 */
#include <string.h>

#include "runtime/session/failover.h"
#include "runtime/session/lengths.h"
#include "runtime/session/losses.h"
#include "runtime/session/session_tasks.h"
#include "runtime/session/state.h"

tn_status tni_check_phase(uint32_t phase, tn_error *err) {
  return phase <= TN_PHASE_DECODE ? TN_OK : tni_fail(err, TN_E_INVALID, "phase", "there is no phase %u", phase);
}

/* Constants are folded and packed when the model is loaded. */
static tn_status no_input(const tn_model *m, const char *name, tn_error *err) {
  for (uint32_t v = 0; v < m->graph->n_values; v++) {
    const tni_value *value = tni_graph_value(m->graph, v);
    if (value && value->pub.kind == TN_VALUE_CONST && value->pub.name && strcmp(value->pub.name, name) == 0)
      return tni_fail(err, TN_E_INVALID, name, "'%s' has a value in the model (an initializer) and cannot be given; where the model lists it among its "
                      "inputs, tn_model_opts.overridable makes it one",
                      name);
  }
  return tni_fail(err, TN_E_INVALID, name, "the model has no input '%s'", name);
}

static tn_status match_inputs(tn_session *s, const tn_tensor *const *in, uint32_t n_in, tn_error *err) {
  const tn_model *m = s->model;
  for (uint32_t i = 0; i < m->n_inputs; i++) s->inputs[i] = NULL;
  for (uint32_t k = 0; k < n_in; k++) {
    uint32_t i = 0;
    if (!in[k] || !in[k]->name) return tni_fail(err, TN_E_INVALID, NULL, "input %u has no name", k);
    while (i < m->n_inputs && strcmp(m->inputs[i]->name, in[k]->name) != 0) i++;
    if (i == m->n_inputs) return no_input(m, in[k]->name, err);
    if (s->inputs[i]) return tni_fail(err, TN_E_INVALID, in[k]->name, "input '%s' is given twice", in[k]->name);
    s->inputs[i] = in[k];
  }
  for (uint32_t i = 0; i < m->n_inputs; i++)
    if (!s->inputs[i] && !(s->inputs[i] = m->inputs[i]->value))
      return tni_fail(err, TN_E_INVALID, m->inputs[i]->name, "input '%s' is missing", m->inputs[i]->name);
  return TN_OK;
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

/* Positions of this run, from the symbols. */
static int64_t past_positions(const tn_session *s) {
  const tni_graph *g = s->model->graph;
  int64_t n = -1;
  if (g->step == TNI_EXPR_NONE || tni_ex_eval(g->exprs, g->step, s->dims, tni_ex_n_symbols(g->exprs), &n) != TN_OK)
    return -1;
  return n;
}

static bool takes_length(const tni_exec *x, int64_t n) {
  bool takes = !x->chunk;
  for (uint32_t i = 0; i < x->lengths.n; i++) takes = takes || x->lengths.v[i] == n;
  return takes;
}

/* A plain run is not padded: where the phase's placement takes certain lengths only, another does what has another. */
static tn_status run_exec(tn_session *s, uint32_t phase, tni_sexec **out, tn_error *err) {
  tni_sexec *x = tni_session_exec(s, phase);
  const int64_t n = past_positions(s);
  for (uint32_t i = 0; !takes_length(x->exec, n) && i < s->model->n_execs; i++)
    if (takes_length(s->execs[i].exec, n)) x = &s->execs[i];
  *out = x;
  if (takes_length(x->exec, n)) return TN_OK;
  char said[256];
  return tni_fail(err, TN_E_UNSUPPORTED, s->model->path,
                  "plugin '%s' runs exactly %s positions at once, not %lld; a session that keeps its caches pads them",
                  s->model->rt->devs[x->exec->claims.fixed_by].name,
                  tni_lengths_say(&x->exec->lengths, said, sizeof said), (long long)n);
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

static tn_status run_session(tn_session *s, uint32_t phase, const tn_tensor *const *in, uint32_t n_in, tn_tensor *out,
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
  tni_error_begin(err);
  TNI_NOT_NULL(s);
  tn_error local;
  tn_status st = tni_check_phase(phase, err);
  if (st == TN_OK) st = tni_counted(in, n_in, "in", err);
  if (st == TN_OK) st = tni_counted(out, n_out, "out", err);
  for (uint32_t i = 0; st == TN_OK && i < n_out; i++) st = tni_sized(&out[i].h, TN_UPTO(tn_tensor, bytes), "out", err);
  if (st != TN_OK) return st;
  if (!err) {
    tni_error_init(&local);
    err = &local;
  }
  do {
    s = tni_session_now(s);
    st = run_session(s, phase, in, n_in, out, n_out, err);
  } while (!tni_files_failed(s->model, &st, err) && tni_failover(s, st, err));
  return st;
}
