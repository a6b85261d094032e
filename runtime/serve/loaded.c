/* SPDX-License-Identifier: Apache-2.0
 *
 * Which models are in memory. Without a budget all are, from the start. With one, a request brings its model, and those
 * that nobody uses go for it, the one that was used longest ago first.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "runtime/base/base.h"
#include "runtime/serve/form.h"
#include "runtime/serve/speech/speech.h"
#include "runtime/serve/tools.h"

static const double MB = 1 << 20;

/* --- one model ---------------------------------------------------------------------------------------------------- */

static int64_t number(const json_t *j, const char *key) { return json_integer_value(json_object_get(j, key)); }

/* What a model and its slots take at most: weights, caches, what a step works in, beginnings beyond slots. 0: unknown.
 */
static uint64_t bytes_of(const srv_server *s, tn_model *m, bool text) {
  char *report = NULL;
  if (tn_model_report(m, TN_REPORT_INSPECT, &report, NULL) != TN_OK) return 0;
  json_t *all = json_loads(report, 0, NULL);
  const json_t *j = json_object_get(all, "memory");
  int64_t n = number(j, "anonymous_bytes") - number(j, "base_bytes") + number(j, "file_bytes");
  if (n < 0) n = 0;
  if (text) n += s->o->slots * number(j, "kv_bytes");
  tn_free(report);
  json_decref(all);
  return (uint64_t)n + (text ? s->o->prefix_bytes : 0);
}

static json_t *placement_of(tn_model *m) {
  char *text = NULL;
  if (tn_model_report(m, TN_REPORT_PLACEMENT, &text, NULL) != TN_OK) return NULL;
  json_t *all = json_loads(text, 0, NULL), *placed = json_incref(json_object_get(all, "placement"));
  tn_free(text);
  json_decref(all);
  return placed;
}

static tn_model *model_of(const srv_model *m) { return m->lm ? tn_lm_model(m->lm) : tn_embedder_model(m->embedder); }

static tn_status bring(srv_server *s, srv_model *m, tn_error *err) {
  const serve_opts *o = s->o;
  const slots_opts opts = {.n = o->slots,
                           .waiting = o->waiting,
                           .prefix_bytes = o->prefix_bytes,
                           .exact = o->exact,
                           .draft = o->draft,
                           .draft_tokens = o->draft_tokens};
  tn_status st = m->is->lm || m->is->embedder ? TN_OK : o->load(o->load_user, m->is, false, &m->lm, &m->embedder, err);
  if (st != TN_OK) return st;
  if (m->is->lm) m->lm = m->is->lm;
  if (m->is->embedder) m->embedder = m->is->embedder;
  if (m->lm) st = tn_lm_marks(m->lm, srv_speech_marks, srv_speech_n_marks, err);
  if (st != TN_OK) return st;
  m->since = (int64_t)time(NULL);
  m->placement = placement_of(model_of(m));
  if (m->lm) srv_tools_look(m);
  return m->lm ? slots_create(m->lm, s->turn, &opts, &m->slots, err) : TN_OK;
}

/* Nobody uses it. What was there before the server stays its owner's. */
static void let_go(srv_model *m) {
  slots_destroy(m->slots);
  m->slots = NULL;
  srv_forms_finish(m);
  json_decref(m->placement);
  m->placement = NULL;
  if (!m->is->lm) tn_lm_destroy(m->lm);
  if (!m->is->embedder) tn_embedder_destroy(m->embedder);
  m->lm = NULL;
  m->embedder = NULL;
}

/* --- all of them -------------------------------------------------------------------------------------------------- */

tn_status srv_models_start(srv_server *s, tn_error *err) {
  const serve_opts *o = s->o;
  s->model = calloc(o->n_models, sizeof *s->model);
  s->turn = slots_turn_create();
  if (!s->model || !s->turn) return tni_fail_memory(err, "server");
  tn_status st = TN_OK;
  for (size_t i = 0; i < o->n_models && st == TN_OK; i++) {
    srv_model *m = &s->model[i];
    m->is = &o->models[i];
    pthread_mutex_init(&m->forming, NULL);
    if (!o->models_bytes) st = bring(s, m, err);
    m->there = !o->models_bytes;
  }
  return st;
}

void srv_models_finish(srv_server *s) {
  for (size_t i = 0; s->model && i < s->o->n_models; i++) {
    srv_model *m = &s->model[i];
    if (!m->is) continue;
    let_go(m);
    pthread_mutex_destroy(&m->forming);
  }
  free(s->model);
  slots_turn_destroy(s->turn);
}

void srv_models_stop(srv_server *s) {
  pthread_mutex_lock(&s->models_lock);
  s->ends = true;
  if (s->loading) tn_runtime_cancel(s->o->rt);
  for (size_t i = 0; i < s->o->n_models; i++) {
    if (s->model[i].slots) slots_cancel_all(s->model[i].slots);
    if (s->model[i].there) tn_embedder_cancel(s->model[i].embedder);
  }
  pthread_cond_broadcast(&s->models_news);
  pthread_mutex_unlock(&s->models_lock);
}

bool srv_models_end(srv_refusal *r, srv_server *s) {
  pthread_mutex_lock(&s->models_lock);
  const bool ends = s->ends;
  pthread_mutex_unlock(&s->models_lock);
  if (ends) srv_refuse(r, 503, "shutting_down", NULL, "the server is shutting down");
  return ends;
}

/* --- under models_lock -------------------------------------------------------------------------------------------- */

/* The one to go, or NULL: all that are there are in use. */
static srv_model *idle_longest(srv_server *s) {
  srv_model *found = NULL;
  for (size_t i = 0; i < s->o->n_models; i++) {
    srv_model *m = &s->model[i];
    if (m->there && !m->users && (!found || m->used < found->used)) found = m;
  }
  return found;
}

/* bytes more fit. False: not while others are in use. */
static bool make_room(srv_server *s, uint64_t bytes) {
  while (s->models_bytes + bytes > s->o->models_bytes) {
    srv_model *m = idle_longest(s);
    if (!m) return false;
    s->o->note("model %s goes: %.0f MB", m->is->name, (double)m->bytes / MB);
    let_go(m);
    m->there = false;
    s->models_bytes -= m->bytes;
    s->metrics.unloads++;
  }
  return true;
}

/* How much m takes, from what an inspection of it says. Unlocked meanwhile. */
static tn_status measure(srv_server *s, srv_model *m, tn_error *err) {
  tn_lm *lm = NULL;
  tn_embedder *embedder = NULL;
  s->loading = true;
  pthread_mutex_unlock(&s->models_lock);
  const tn_status st = s->o->load(s->o->load_user, m->is, true, &lm, &embedder, err);
  if (st == TN_OK) m->bytes = bytes_of(s, lm ? tn_lm_model(lm) : tn_embedder_model(embedder), lm != NULL);
  tn_lm_destroy(lm);
  tn_embedder_destroy(embedder);
  pthread_mutex_lock(&s->models_lock);
  s->loading = false;
  pthread_cond_broadcast(&s->models_news);
  return st == TN_OK && !m->bytes ? tni_fail(err, TN_E_UNSUPPORTED, m->is->name, "its memory cannot be told before")
                                  : st;
}

static tn_status load(srv_server *s, srv_model *m, tn_error *err) {
  s->loading = true;
  s->models_bytes += m->bytes;
  pthread_mutex_unlock(&s->models_lock);
  const int64_t begun = tni_now_ns();
  const tn_status st = bring(s, m, err);
  if (st != TN_OK) let_go(m);
  if (st == TN_OK)
    s->o->note("model %s: %.0f MB, in %.1f s", m->is->name, (double)m->bytes / MB,
               (double)(tni_now_ns() - begun) / 1e9);
  pthread_mutex_lock(&s->models_lock);
  s->loading = false;
  m->there = st == TN_OK;
  if (st != TN_OK) s->models_bytes -= m->bytes;
  s->metrics.loads += st == TN_OK;
  pthread_cond_broadcast(&s->models_news);
  return st;
}

/* Until something changes; not longer than a client that is gone may go unnoticed. False: there is no use in waiting.
 */
static bool wait_for_news(srv_call *c) {
  srv_server *s = c->server;
  struct timespec end;
  clock_gettime(CLOCK_MONOTONIC, &end);
  end.tv_nsec += 250 * 1000000L;
  end.tv_sec += end.tv_nsec / 1000000000;
  end.tv_nsec %= 1000000000;
  (void)pthread_cond_timedwait(&s->models_news, &s->models_lock, &end);
  if (!srv_gone(c)) return true;
  return srv_refuse(&c->refusal, 503, "cancelled", NULL, "the client is gone");
}

static bool bring_for(srv_call *c, srv_model *m) {
  srv_server *s = c->server;
  tn_long_error err;
  tn_long_error_init(&err);
  tn_status st = m->bytes ? TN_OK : measure(s, m, &err.error);
  if (st == TN_OK && m->bytes > s->o->models_bytes)
    return srv_refuse(&c->refusal, 503, "no_memory", "model",
                      "'%s' takes %.0f MB with its slots; --models-mb allows %.0f", m->is->name, (double)m->bytes / MB,
                      (double)s->o->models_bytes / MB);
  s->wants_room = st == TN_OK && !make_room(s, m->bytes);
  if (s->wants_room) return wait_for_news(c);
  if (st == TN_OK) st = load(s, m, &err.error);
  return st == TN_OK || srv_refuse_error(&c->refusal, st, "model", &err.error);
}

static void join(srv_server *s, srv_waiter *w) {
  srv_waiter **last = &s->waiters;
  while (*last) last = &(*last)->next;
  *last = w;
}

static void leave(srv_server *s, const srv_waiter *w) {
  srv_waiter **at = &s->waiters;
  if (*at == w) s->wants_room = false;
  while (*at != w) at = &(*at)->next;
  *at = w->next;
  pthread_cond_broadcast(&s->models_news);
}

/* Models are brought for those who wait in the order in which they came. Where the first of them waits for room, nobody
 * who comes later gets what is there: it would never be idle. */
static bool wait_for(srv_call *c, srv_model *m) {
  srv_server *s = c->server;
  srv_waiter me = {NULL};
  bool good = true;
  join(s, &me);
  while (good && (!m->there || (s->wants_room && s->waiters != &me))) {
    if (s->ends)
      good = srv_refuse(&c->refusal, 503, "shutting_down", NULL, "the server is shutting down");
    else
      good = s->loading || s->waiters != &me ? wait_for_news(c) : bring_for(c, m);
  }
  leave(s, &me);
  return good;
}

bool srv_model_take(srv_call *c, srv_model *m) {
  srv_server *s = c->server;
  pthread_mutex_lock(&s->models_lock);
  const bool good = (m->there && !s->wants_room) || wait_for(c, m);
  if (good) {
    m->users++;
    m->used = ++s->models_clock;
    c->model = m;
  }
  pthread_mutex_unlock(&s->models_lock);
  return good;
}

void srv_model_give(srv_call *c) {
  srv_server *s = c->server;
  if (!c->model) return;
  pthread_mutex_lock(&s->models_lock);
  c->model->users--;
  c->model = NULL;
  pthread_cond_broadcast(&s->models_news);
  pthread_mutex_unlock(&s->models_lock);
}
