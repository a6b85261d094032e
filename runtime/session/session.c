/* SPDX-License-Identifier: Apache-2.0
 *
 * A session's life.
 */
#include "runtime/session/session_tasks.h"

#include <stdlib.h>

#include "runtime/engine/engine.h"
#include "runtime/interp/interp.h"
#include "runtime/memory/memory.h"
#include "runtime/oracle/tasks/tasks.h"
#include "runtime/session/deadline.h"
#include "runtime/session/keep.h"
#include "runtime/session/looks.h"
#include "runtime/session/losses.h"
#include "runtime/session/pieces.h"
#include "runtime/session/power.h"
#include "runtime/session/runtime.h"
#include "runtime/session/state.h"

static tn_status create_exec(tn_session *s, tni_sexec *x, tni_exec *exec, tn_error *err) {
  tn_status st = tni_sexec_init(s, x, exec, x);
  if (st != TN_OK || !tni_executor_wanted(s->model, exec)) return st;
  return tni_executor_create(s, x, 1, &x->executor, err);
}

static void power_up(void *m) { tni_power_up(m); }

tn_status tn_session_create(tn_model *m, tn_session **out, tn_error *err) {
  tni_error_begin(err);
  TNI_NOT_NULL(m);
  TNI_NOT_NULL(out);
  if (m->flags & (TN_MODEL_INSPECT | TN_MODEL_PACK))
    return tni_fail(err, TN_E_INVALID, m->path, "the model was loaded for inspection");
  tn_session *s = calloc(1, sizeof *s);
  if (!s || !(s->mem = tni_arena_create())) {
    free(s);
    return tni_fail_memory(err, m->path);
  }
  s->model = m;
  __atomic_fetch_add(&m->holders, 1, __ATOMIC_ACQ_REL);
  tni_pool_run_init(&s->run, m->rt->pool, &s->cancel);
  s->execs = TNI_NEW_ARRAY(s->mem, tni_sexec, m->n_execs);
  s->inputs = TNI_NEW_ARRAY(s->mem, const tn_tensor *, m->n_inputs);
  s->dims = TNI_NEW_ARRAY(s->mem, int64_t, tni_ex_n_symbols(m->graph->exprs) + 1);
  tn_status st = s->execs && s->inputs && s->dims ? TN_OK : TN_E_NO_MEMORY;
  if (st == TN_OK) s->bounded = tni_deadline_thread(m, &st);
  for (uint32_t i = 0; st == TN_OK && i < m->n_execs; i++) st = create_exec(s, &s->execs[i], &m->execs[i], err);
  if (st == TN_OK && (m->flags & TN_MODEL_CAPTURE)) st = tni_capture_create(s);
  s->watch = (tni_watch){.before = m->recorder ? tni_calibrate_task : NULL,
                         .after = s->capture ? tni_capture_task : NULL,
                         .instead = tni_reference_task};
  tni_looks_init(s);
  s->voted = m->rt->profile->power != 0; /* also where the call below does not come back: the device is lost then */
  if (s->voted && !tni_deadline_do(m->rt, s->bounded, power_up, m, err)) st = TN_E_DEVICE_LOST;
  if (st != TN_OK) {
    tn_session_destroy(s);
    return tni_fail(err, st, m->path, "no memory for a session of '%s'", m->name);
  }
  *out = s;
  return TN_OK;
}

/* All but the session's hold on its model. */
static void destroy_session(void *arg) {
  tn_session *s = arg;
  if (s->voted) tni_power_down(s->model);
  tni_pieces_release(s);
  for (uint32_t i = 0; s->execs && i < s->model->n_execs; i++) {
    tni_sexec *x = &s->execs[i];
    for (uint32_t t = 0; x->exec && x->tasks && t < x->exec->n_tasks; t++) tni_task_release(x, t);
    if (x->exec) tni_dynamic_release(x);
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

void tn_session_destroy(tn_session *s) {
  if (!s) return;
  tn_model *m = s->model;
  tni_bounded *b = s->bounded;
  tn_error why;
  tni_error_init(&why);
  tn_session_destroy(s->next);
  if (!tni_model_hangs(m) && !tni_deadline_do(m->rt, b, destroy_session, s, &why)) tni_losses_note(m->rt, &why);
  tni_bounded_destroy(b);
  tni_model_release(m);
}
