/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls, runs and submissions: each has one deadline, from when it begins, whatever the child says meanwhile.
 */
#include <string.h>

#include "runtime/base/base.h"
#include "runtime/plugin/plugin.h"
#include "runtime/plugin/process/conn.h"
#include "runtime/plugin/process/futex.h"
#include "runtime/plugin/process/turns.h"

enum { SLICE_MS = 20, CANCEL_MS = 250 }; /* CANCEL_MS: after which a child that was told to stop is ended */
static const int64_t MS = 1000000;

static int64_t deadline_of(const tni_conn *c) { return tni_now_ns() + c->timeout_ns; }

/* --- answers ----------------------------------------------------------------------------------------------------- */

static bool timed_wait(tni_conn *c, int64_t until) {
  const struct timespec at = {until / 1000000000, until % 1000000000};
  return pthread_cond_timedwait(&c->changed, &c->state, &at) == 0;
}

/* Waits until as many events were seen as the child has sent before it answered. Fewer than had come when it was asked
 * were never sent by an honest one. */
static bool catch_up(tni_conn *c, uint64_t events, uint64_t least, int64_t until) {
  bool in_time = true;
  pthread_mutex_lock(&c->state);
  while (c->events < events && !c->dead && in_time) in_time = timed_wait(c, until);
  const bool ok = c->events >= events && events >= least;
  pthread_mutex_unlock(&c->state);
  return ok;
}

static uint64_t count_events(tni_conn *c) {
  pthread_mutex_lock(&c->state);
  const uint64_t n = c->events;
  pthread_mutex_unlock(&c->state);
  return n;
}

/* One who waits for the child. */
typedef struct waiting {
  const char *what;      /* for */
  int64_t until;
  _Atomic int32_t *stop; /* the word that tells the child to stop */
  bool call;             /* what a load or a session binds may be cancelled, */
  const tn_run *run;     /* or a run; NULL: nobody cancels it */
  int64_t told;          /* when the child was told to stop; 0: it was not */
} waiting;

static waiting begin_call(tni_conn *c, const char *what, int64_t until) {
  return (waiting){.what = what, .until = until, .stop = &c->page->stop_call, .call = true};
}

static waiting begin_run(tni_conn *c, const char *what, _Atomic int32_t *stop, const tn_run *run) {
  atomic_store_explicit(stop, 0, memory_order_relaxed);
  return (waiting){.what = what, .until = deadline_of(c), .stop = stop, .run = run};
}

static bool is_cancelled(const tni_conn *c, const waiting *a) {
  const tn_host *h = c->o->host;
  if (a->call) return h && h->cancelled && h->cancelled(h->ctx);
  return a->run && a->run->cancelled && a->run->cancelled(a->run);
}

/* The child is told that the caller has no use for the answer. True: it was told CANCEL_MS ago and is not heeding it.
 * It is ended then: the caller waits for nobody. */
static bool is_deaf(tni_conn *c, waiting *a) {
  if (!is_cancelled(c, a)) return false;
  if (!a->told) a->told = tni_now_ns();
  atomic_store(a->stop, 1);
  if (tni_now_ns() - a->told < CANCEL_MS * MS) return false;
  tni_conn_fail(c, "'%s' was cancelled and did not end within %d ms", a->what, CANCEL_MS);
  return true;
}

static tn_status cancelled_call(tn_error *err) { return tni_fail(err, TN_E_CANCELLED, NULL, "cancelled"); }

static tn_status too_late(tni_conn *c, const char *what) {
  tni_conn_fail(c, "no answer to '%s' for %lld ms", what, (long long)(c->timeout_ns / MS));
  return TN_E_DEVICE_LOST;
}

/* TN_E_CANCELLED: it was ended because it did not heed that. */
static tn_status await_frame(tni_conn *c, int socket, waiting *a, tni_rd *r) {
  for (;;) {
    const int64_t slice = tni_now_ns() + SLICE_MS * MS;
    tn_status st = tni_wire_receive(socket, slice < a->until ? slice : a->until, a->until, r);
    if (st == TN_E_CORRUPT || st == TN_E_NO_MEMORY) tni_conn_fail(c, "its answer to '%s' was none", a->what);
    if (st == TN_E_DEVICE_LOST && tni_now_ns() >= a->until) return too_late(c, a->what);
    if (st != TN_E_CANCELLED) return st;
    if (tni_conn_dead(c)) return TN_E_DEVICE_LOST;
    if (is_deaf(c, a)) return TN_E_CANCELLED;
    if (tni_now_ns() >= a->until) return too_late(c, a->what);
  }
}

/* A socket that is closed is seen before its thread has found out why. */
static tn_status wait_for_end(tni_conn *c, tn_error *err) {
  const int64_t until = tni_now_ns() + 1000 * MS;
  bool in_time = true;
  pthread_mutex_lock(&c->state);
  while (!c->dead && in_time) in_time = timed_wait(c, until);
  const bool dead = c->dead;
  pthread_mutex_unlock(&c->state);
  if (!dead) tni_conn_fail(c, "it closed its socket");
  return tni_conn_lost(c, err);
}

static tn_status read_failure(tni_conn *c, const char *what, tn_status st, tni_rd *r, tn_error *err) {
  tn_error said;
  tni_r_error(r, &said);
  const bool bad = r->bad;
  tni_rd_finish(r);
  if (bad) return tni_conn_wrong(c, what, err);
  if (err) {
    tni_error_copy(err, &said);
    if (!err->code) err->code = st;
  }
  return st;
}

static tn_status check_answer(tni_conn *c, uint32_t kind, uint32_t seq, const waiting *a, uint64_t least, tni_rd *r,
                              tn_error *err) {
  const tn_status st = (tn_status)tni_r_u32(r);
  const uint64_t events = tni_r_u64(r);
  if (r->kind != kind || r->seq != seq || r->bad || r->n_fds || !catch_up(c, events, least, a->until)) {
    tni_rd_finish(r);
    return tni_conn_dead(c) ? wait_for_end(c, err) : tni_conn_wrong(c, a->what, err);
  }
  return st == TN_OK ? TN_OK : read_failure(c, a->what, st, r, err);
}

tn_status tni_conn_answer(tni_conn *c, int socket, uint32_t kind, uint32_t seq, const char *what, int64_t until,
                          tni_rd *r, tn_error *err) {
  waiting a = begin_call(c, what, until);
  const tn_status st = await_frame(c, socket, &a, r);
  atomic_store(a.stop, 0); /* it was for this call */
  if (st == TN_E_CANCELLED) return cancelled_call(err);
  if (st != TN_OK) return wait_for_end(c, err);
  return check_answer(c, kind, seq, &a, c->at_call, r, err);
}

/* --- calls ------------------------------------------------------------------------------------------------------- */

static tn_status make_call(tni_conn *c, const tn_graph *g, uint32_t kind, const char *what, const tni_wire *w,
                           tni_rd *answer, tn_error *err) {
  const int64_t until = deadline_of(c);
  tni_turn_begin(c, kind, g);
  tn_status st = tni_wire_send(c->control, kind, ++c->seq, w, until);
  st = st == TN_OK ? tni_conn_answer(c, c->control, kind, c->seq, what, until, answer, err) : wait_for_end(c, err);
  if (tni_turn_end(c) || tni_conn_dead(c)) return st;
  if (st == TN_OK) tni_rd_finish(answer);
  tni_conn_fail(c, "it answered '%s' while it was asking", what);
  return tni_conn_lost(c, err);
}

tn_status tni_conn_call_about(tni_conn *c, const tn_graph *g, uint32_t kind, const char *what, const tni_wire *w,
                              tni_rd *answer, tn_error *err) {
  tn_status st;
  pthread_mutex_lock(&c->call);
  if (tni_conn_dead(c))
    st = tni_conn_lost(c, err);
  else if (w->bad)
    st = tni_fail_memory(err, c->name);
  else
    st = make_call(c, g, kind, what, w, answer, err);
  pthread_mutex_unlock(&c->call);
  return st;
}

tn_status tni_conn_call(tni_conn *c, uint32_t kind, const char *what, const tni_wire *w, tni_rd *answer,
                        tn_error *err) {
  return tni_conn_call_about(c, NULL, kind, what, w, answer, err);
}

tn_status tni_conn_tell(tni_conn *c, uint32_t kind, const char *what, const tni_wire *w, tn_error *err) {
  tni_rd r;
  tn_status st = tni_conn_call(c, kind, what, w, &r, err);
  if (st != TN_OK) return st;
  const bool whole = tni_rd_whole(&r);
  tni_rd_finish(&r);
  return whole ? TN_OK : tni_conn_wrong(c, what, err);
}

tn_status tni_conn_submit(tni_conn *c, int socket, uint32_t engine, const tn_run *lent, const tni_wire *w,
                          tn_error *err) {
  tni_rd r;
  if (tni_conn_dead(c)) return tni_conn_lost(c, err);
  waiting a = begin_run(c, "submit", &c->page->stop_submit[engine], lent);
  const uint64_t least = count_events(c);
  tn_status st = tni_wire_send(socket, TNI_ISO_SUBMIT, 1, w, a.until);
  if (st == TN_OK) st = await_frame(c, socket, &a, &r);
  if (st == TN_E_CANCELLED) return cancelled_call(err);
  if (st != TN_OK) return wait_for_end(c, err);
  st = check_answer(c, TNI_ISO_SUBMIT, 1, &a, least, &r, err);
  if (st == TN_OK) tni_rd_finish(&r);
  return st;
}

/* --- runs -------------------------------------------------------------------------------------------------------- */

/* The number in the page goes from asked - 1 to asked, and to nothing else. */
static bool await_run(tni_conn *c, uint32_t asked, waiting *a) {
  for (;;) {
    const uint32_t now = tni_futex_wait(&c->page->answered, asked - 1, &c->page->host_sleeps, SLICE_MS);
    if (now == asked) return true;
    if (now != asked - 1) tni_conn_fail(c, "it answered a run that it was not asked for");
    if (tni_conn_dead(c)) return false;
    if (is_deaf(c, a)) return false;
    if (tni_now_ns() < a->until) continue;
    tni_conn_fail(c, "a task did not end within %lld ms", (long long)(c->timeout_ns / MS));
    return false;
  }
}

static tn_status take_result(tni_conn *c, uint64_t least, int64_t until, tn_error *err) {
  const tni_iso_page *g = c->page;
  const tn_status st = g->status;
  const uint64_t events = g->events;
  if (st != TN_OK && err) { /* the child may go on writing: what is looked at is a copy */
    tn_error said;
    memcpy(&said, &g->error, sizeof said);
    tni_error_copy(err, &said);
  }
  return catch_up(c, events, least, until) ? st : tni_conn_wrong(c, "run", err);
}

tn_status tni_conn_run(tni_conn *c, uint32_t args, tn_run *run, tn_error *err) {
  tni_iso_page *g = c->page;
  if (tni_conn_dead(c)) return tni_conn_lost(c, err);
  pthread_mutex_lock(&c->run);
  waiting a = begin_run(c, "run", &g->stop_run, run);
  const uint64_t least = count_events(c);
  const uint32_t asked = ++c->ran;
  g->args = args;
  g->step = run->step;
  tni_futex_post(&g->asked, asked, &g->child_sleeps);
  tn_status st;
  if (await_run(c, asked, &a))
    st = take_result(c, least, a.until, err);
  else
    st = a.told ? cancelled_call(err) : wait_for_end(c, err);
  pthread_mutex_unlock(&c->run);
  return st;
}
