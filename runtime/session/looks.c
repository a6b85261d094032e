/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/session/looks.h"

#include "runtime/graph/graph.h"
#include "runtime/oracle/tasks/tasks.h"
#include "runtime/place/place.h"
#include "runtime/session/keep.h"

static bool is_plugins(const tni_exec *x, uint32_t t) {
  return t < x->n_tasks && !x->programs[x->tasks[t].program].dev->is_host;
}

void tni_looks_init(tn_session *s) {
  const tn_model *m = s->model;
  bool any = false;
  s->watch.only = TN_NONE;
  for (uint32_t i = 0; i < m->n_execs; i++)
    for (uint32_t t = 0; t < m->execs[i].n_tasks; t++) any = any || is_plugins(&m->execs[i], t);
  if (!any || s->watch.before || s->watch.after || m->flags & TN_MODEL_REFERENCE) return;
  s->looks.every = m->rt->profile->watch;
}

void tni_looks_begin(tn_session *s, const tni_sexec *x) {
  tni_looks *l = &s->looks;
  if (++l->steps % l->every) return;
  for (uint32_t k = 0; k < x->exec->n_tasks; k++) {
    l->task = l->task + 1 < x->exec->n_tasks ? l->task + 1 : 0;
    if (!is_plugins(x->exec, l->task)) continue;
    s->watch.after = tni_suspect_task;
    s->watch.only = l->task;
    return;
  }
}

void tni_looks_all(tn_session *s) {
  s->watch.after = tni_suspect_task;
  s->watch.only = TN_NONE;
}

void tni_looks_end(tn_session *s) {
  s->watch.after = NULL;
  s->watch.only = TN_NONE;
}

/* Caches are long, and what is wrong with one comes out of the next task that reads it. */
static bool is_looked_at(const tn_session *s, const tni_sexec *x, tn_id v) {
  const uint32_t r = x->exec->region_of[v];
  return r != TN_NONE && x->exec->regions[r].kind != TNI_R_INPUT && x->exec->regions[r].kind != TNI_R_STATE &&
         tni_state_of_present(s->model->graph, v) == TN_NONE;
}

/* The last row of each sequence. */
static bool has_strange(const tn_session *s, const tni_sregion *q, size_t row, size_t bytes) {
  const size_t most = q->bytes / bytes, n = s->keep && q->rank > 1 ? (size_t)s->keep->batch : 1;
  const size_t each = n && most % n == 0 ? most / n : most;
  for (size_t at = each; at && at <= most; at += each)
    if (tni_first_strange(q->dtype, (const char *)q->ptr + (at - 1) * bytes, row) < row) return true;
  return false;
}

const char *tni_looks_output(tn_session *s, tni_sexec *x) {
  const tni_graph *g = s->model->graph;
  if (s->looks.steps < s->looks.quiet) return NULL;
  for (uint32_t i = 0; i < g->n_outputs; i++) {
    if (!is_looked_at(s, x, g->outputs[i])) continue;
    const uint32_t r = x->exec->region_of[g->outputs[i]];
    tni_sregion *q = &x->regions[r];
    const size_t row = q->rank ? (size_t)q->dims[q->rank - 1] : 1, size = q->dtype == TN_DT_F32 ? 4 : 2;
    if (q->dtype != TN_DT_F32 && q->dtype != TN_DT_F16 && q->dtype != TN_DT_BF16) continue;
    if (!row || q->bytes < row * size || tni_region_take(s, x, r, TN_NONE, TN_READ, NULL) != TN_OK) continue;
    if (has_strange(s, q, row, row * size)) return tni_graph_value(g, g->outputs[i])->pub.name;
  }
  return NULL;
}

void tni_looks_settle(tn_session *s, const char *output, const char *now) {
  tni_looks *l = &s->looks;
  tni_log *log = &s->model->rt->log;
  l->pause = l->pause ? l->pause * 2 : l->every;
  l->quiet = l->steps + l->pause;
  if (now)
    tni_log_line(log, TN_LOG_INFO,
                 "'%s' has NaN or infinite elements in its last row, and no plugin's task is to blame: the reference of each "
                 "that can be looked at has them too",
                 output);
  else
    tni_log_line(log, TN_LOG_WARN,
                 "'%s' had NaN or infinite elements, and none when the step was run again: a plugin's results are not the "
                 "same from run to run",
                 output);
}
