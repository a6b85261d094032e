/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/session/failover.h"

#include <string.h>

#include "runtime/session/deadline.h"
#include "runtime/session/feed.h"
#include "runtime/session/fixed.h"
#include "runtime/session/long_text.h"
#include "runtime/session/losses.h"
#include "runtime/session/slots.h"
#include "runtime/session/state.h"

/* --- the model --------------------------------------------------------------------------------------------------- */

static tn_status load_next(tn_model *m, tn_error *err) {
  const tn_model_opts o = {.h = TN_API_HDR(tn_model_opts),
                           .flags = m->flags,
                           .max_seq = m->max_seq,
                           .dim_names = m->fixed_names,
                           .dim_values = m->fixed_values,
                           .n_dims = m->n_fixed,
                           .disabled_passes = m->disabled,
                           .n_disabled_passes = m->n_disabled,
                           .order_seed = m->order_seed,
                           .overridable = m->overridable,
                           .n_overridable = m->n_overridable};
  tn_model *next = NULL;
  if (m->next) return TN_OK;
  tn_status st = tn_model_load(m->rt, m->path, &o, &next, err);
  if (st == TN_OK) __atomic_store_n(&m->next, next, __ATOMIC_RELEASE);
  return st;
}

/* One loads, the others wait for it. */
static tn_status next_model(tn_model *m, tn_error *err) {
  pthread_mutex_lock(&m->rt->loading);
  tn_status st = load_next(m, err);
  pthread_mutex_unlock(&m->rt->loading);
  return st;
}

/* The same caches under the same names, whatever they are kept as. */
static bool same_states(const tn_model *a, const tn_model *b) {
  bool same = a->graph->n_states == b->graph->n_states && a->n_inputs == b->n_inputs;
  for (uint32_t k = 0; same && k < a->graph->n_states; k++)
    same = strcmp(tni_graph_value(a->graph, a->graph->states[k].past)->pub.name,
                  tni_graph_value(b->graph, b->graph->states[k].past)->pub.name) == 0;
  return same;
}

/* --- the session ------------------------------------------------------------------------------------------------- */

static bool uses_lost(const tn_model *m) {
  for (uint32_t i = 0; i < m->n_execs; i++)
    for (uint32_t p = 0; p < m->execs[i].n_programs; p++)
      if (tni_devlock_lost(m->execs[i].programs[p].dev->lock)) return true;
  return false;
}

/* What takes over may be lost in turn. */
static tn_status keep_again(tn_session *to, const tn_keep_opts *o, tn_error *err) {
  tn_status st = tni_keep_make(to, o, err);
  return tni_failover(to, st, err) ? TN_OK : st;
}

static tn_status move_caches(tn_session *to, tn_session *from, tn_error *err) {
  const tni_keep *k = from->keep;
  /* The caller knows how much one step takes. */
  const tn_keep_opts o = {.h = TN_HDR(tn_keep_opts), .batch = k->slots ? k->slots->n : k->batch, .capacity = k->limit,
                          .max_step = k->max_step, .flags = k->slots ? TN_KEEP_SLOTS : 0};
  if (!same_states(to->model, from->model))
    return tni_fail(err, TN_E_INTERNAL, from->model->path, "placed again, the model has other caches");
  tn_status st = keep_again(to, &o, err);
  to = tni_session_now(to);
  if (st == TN_OK && k->slots) return tni_slots_move(to, from, err);
  if (st == TN_OK && tni_states_hold(from, k->length, err) != TN_OK) st = TN_E_DEVICE_LOST; /* a failed step's pieces */
  if (st == TN_OK) st = tni_states_move(to, from, k->length, err);
  if (st == TN_OK && k->length) st = tni_feed_share(to, from, k->length, err);
  if (st == TN_OK && k->length) st = tni_fixed_share(to, from, k->length, err);
  if (st != TN_OK) return st;
  to->keep->length = k->length;
  to->keep->gaps = k->gaps;
  tni_long_text(to, k->longer.text);
  tni_long_share(to, from);
  return TN_OK;
}

static void take_over(tn_session *s, tn_session *n) {
  n->trace = s->trace;
  n->trace_user = s->trace_user;
  n->step = s->step;
  if (s->keep && !tni_model_hangs(s->model)) tni_states_drop(s);
  __atomic_store_n(&s->next, n, __ATOMIC_RELEASE);
  /* Whoever cancelled while this was made meant this call. */
  if (__atomic_load_n(&s->cancel, __ATOMIC_SEQ_CST)) tn_session_cancel(n);
}

/* TN_E_DEVICE_LOST: the caches are gone with the device, and the session has no positions any more. */
static tn_status make_next(tn_session *s, tn_error *err) {
  tn_session *n = NULL;
  tn_status st = next_model(s->model, err);
  if (st == TN_OK) st = tn_session_create(s->model->next, &n, err);
  if (st == TN_OK && s->keep) st = move_caches(n, s, err);
  const bool anew = st == TN_E_DEVICE_LOST && n && n->keep && !uses_lost(n->model);
  if (st == TN_OK || anew)
    take_over(s, n);
  else if (n)
    tn_session_destroy(n);
  return st;
}

bool tni_failover(tn_session *s, tn_status st, tn_error *err) {
  tn_runtime *rt = s->model->rt;
  const char *required = NULL;
  if (st != TN_E_DEVICE_LOST) return false;
  pthread_mutex_lock(&rt->failing);
  (void)tni_losses_tell(rt, err, &required);
  pthread_mutex_unlock(&rt->failing);
  if (!uses_lost(s->model)) return false;
  if (required) return tni_losses_required(err, required);
  if (s->model->flags & (TN_MODEL_CAPTURE | TN_MODEL_CALIBRATE))
    return tni_losses_refuse(err, "a session that records or captures cannot go on without it");
  tn_error why;
  tni_error_init(&why);
  if (make_next(s, &why) != TN_OK) return tni_losses_refuse(err, why.message);
  const int64_t kept = tn_session_length(s->next);
  tni_log_line(&rt->log, TN_LOG_WARN, "'%s' was placed again; %lld cached positions were kept", s->model->name,
               (long long)kept);
  tni_error_begin(err);
  return true;
}
