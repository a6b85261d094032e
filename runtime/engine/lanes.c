/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/engine/lanes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/base/base.h"
#include "runtime/engine/ask.h"
#include "runtime/engine/task.h"
#include "runtime/plugin/plugin.h"

/* What a submit reads. Its engine may hang in it for ever. */
struct tni_job {
  const tni_dev *dev;
  uint32_t engine, n;
  const tn_item **items; /* [n_ids] */
  tni_record **records;
  tni_record *returned; /* of the submit itself, where the engine blocks */
  tni_lane_slot slot;
  tni_pool_run run;
};

/* --- coming back ------------------------------------------------------------------------------------------------- */

static void push_record(tni_flight *f, tni_record *r) {
  r->next = f->back;
  f->back = r;
}

static void give_slot(tni_record *r) {
  if (r->slot) tni_slot_give(r->slot->lock, r->slot->engine);
  r->slot = NULL;
}

static void on_done(void *user, tn_ticket *t) {
  give_slot(t->user);
  push_record(user, t->user);
}

static void come_back(tni_record *r) {
  tni_flight *f = r->flight;
  pthread_mutex_lock(&f->waker.lock);
  push_record(f, r);
  pthread_cond_broadcast(&f->waker.cond);
  pthread_mutex_unlock(&f->waker.lock);
}

static tni_record *reverse_records(tni_record *r) {
  tni_record *out = NULL;
  while (r) {
    tni_record *next = r->next;
    r->next = out;
    out = r;
    r = next;
  }
  return out;
}

/* What has been in flight for longest. CPU tasks come back: something else is in flight. */
static const tni_record *oldest_record(const tni_lanes *l) {
  const tni_record *old = NULL;
  for (uint32_t i = 0; i < l->n_ids + l->n; i++) {
    const tni_record *r = &l->records[i];
    if (!r->in_flight || r->kind == TNI_REC_CPU) continue;
    if (!old || r->seq < old->seq || (r->seq == old->seq && r->kind == TNI_REC_ITEM && old->kind != TNI_REC_ITEM)) old = r;
  }
  return old;
}

/* Which item, of which task, for how long, and what became of its neighbours: a ticket that was forgotten looks
 * otherwise than an engine that stands still. */
static tn_status lost_lane(tni_lanes *l, int64_t timeout_ns, tn_error *err) {
  const tni_record *r = oldest_record(l);
  const tni_lane *lane = &l->lane[r->lane];
  const char *what = r->kind == TNI_REC_ITEM ? l->exec->tasks[r->task].label : "a submit";
  char more[96] = "";
  if (lane->busy)
    snprintf(more, sizeof more, "its submit has not returned");
  else if (lane->newest > r->seq)
    snprintf(more, sizeof more, "done was never called for its ticket, though it was for a later item");
  else
    snprintf(more, sizeof more, "done was not called for its ticket, nor for %u more", lane->in_flight - 1);
  const long long ms = (long long)((tni_now_ns() - r->since) / 1000000);
  l->lost = l->s->lost = true;
  if (lane->dev) tni_ask_abandon(l->s->model->rt, lane->dev);
  return tni_fail(err, TN_E_DEVICE_LOST, lane->track,
                  "%s did not complete '%s' within %lld ms: %s (submitted %lld ms ago); the device is lost",
                  lane->track, what, (long long)(timeout_ns / 1000000), more, ms);
}

static bool only_cpu(const tni_lanes *l) {
  for (uint32_t i = 0; i < l->n_ids + l->n; i++)
    if (l->records[i].in_flight && l->records[i].kind != TNI_REC_CPU) return false;
  return true;
}

/* Engines that can are asked once to end what they have. */
static void ask_to_end(tni_lanes *l) {
  if (l->asked || !__atomic_load_n(&l->s->cancel, __ATOMIC_RELAXED)) return;
  l->asked = true;
  for (uint32_t k = 1; k < l->n; k++) {
    const tni_lane *lane = &l->lane[k];
    if (lane->in_flight && !tni_ask_cancel(l->s->model->rt, lane->dev, lane->engine)) l->hangs = true;
  }
}

/* Asleep until something comes back or the deadline; a cancel is seen on the way. true: the deadline has passed. */
static bool sleep_once(tni_lanes *l, int64_t deadline) {
  enum { LOOK_NS = 20000000 };
  const int64_t look = tni_now_ns() + LOOK_NS;
  const bool late = tni_waker_sleep(&l->flight->waker, look < deadline ? look : deadline) && look >= deadline;
  if (!late && !l->asked && __atomic_load_n(&l->s->cancel, __ATOMIC_RELAXED)) {
    pthread_mutex_unlock(&l->flight->waker.lock); /* done may come inside cancel */
    ask_to_end(l);
    pthread_mutex_lock(&l->flight->waker.lock);
  }
  return late || (l->hangs && !l->flight->back); /* nothing is to be hoped for of who hangs in cancel */
}

tn_status tni_lanes_take(tni_lanes *l, bool wait, int64_t timeout_ns, tni_record **out, tn_error *err) {
  tni_flight *f = l->flight;
  const int64_t deadline = tni_now_ns() + timeout_ns;
  bool late = false;
  if (wait) ask_to_end(l);
  pthread_mutex_lock(&f->waker.lock);
  while (wait && !f->back && !late) late = sleep_once(l, deadline) && !only_cpu(l);
  *out = reverse_records(f->back);
  f->back = NULL;
  pthread_mutex_unlock(&f->waker.lock);
  if (late && !*out) return lost_lane(l, timeout_ns, err);
  for (tni_record *r = *out; r; r = r->next) {
    r->in_flight = false;
    l->in_flight--;
    if (r->kind == TNI_REC_ITEM) {
      tni_lane *lane = &l->lane[r->lane];
      lane->in_flight--;
      if (r->seq > lane->newest) lane->newest = r->seq;
    }
    if (r->kind == TNI_REC_SUBMIT) l->lane[r->lane].busy = false;
    if (r->kind == TNI_REC_CPU) l->helping[r->lane] = false;
  }
  return TN_OK;
}

/* --- room ---------------------------------------------------------------------------------------------------------- */

bool tni_lanes_room(tni_lanes *l, uint32_t lane) {
  tni_lane *to = &l->lane[lane];
  to->starved = to->depth && !tni_slot_take(to->dev->lock, to->engine, to->depth);
  return !to->starved;
}

void tni_lanes_unroom(tni_lanes *l, uint32_t lane) {
  if (l->lane[lane].depth) tni_slot_give(l->lane[lane].dev->lock, l->lane[lane].engine);
}

tn_status tni_lanes_await_room(tni_lanes *l, int64_t timeout_ns, tn_error *err) {
  enum { LOOK_NS = 20000000 };
  uint32_t k = 1;
  while (k < l->n && !l->lane[k].starved) k++;
  if (k == l->n) return tni_fail(err, TN_E_INTERNAL, NULL, "no lane waits for room");
  const tni_lane *lane = &l->lane[k];
  int64_t deadline = tni_now_ns() + timeout_ns, now = 0;
  for (uint64_t seen = 0; !__atomic_load_n(&l->s->cancel, __ATOMIC_RELAXED);) {
    bool room = false;
    const uint64_t given = tni_slot_wait(lane->dev->lock, lane->engine, lane->depth, tni_now_ns() + LOOK_NS, &room);
    if (room) return TN_OK;
    if (tni_devlock_lost(lane->dev->lock)) break;
    now = tni_now_ns();
    if (given != seen) deadline = now + timeout_ns;
    seen = given;
    if (now > deadline) break;
  }
  if (__atomic_load_n(&l->s->cancel, __ATOMIC_RELAXED)) return TN_OK;
  tni_devlock_lose(lane->dev->lock);
  return tni_fail(err, TN_E_DEVICE_LOST, lane->track, "%s is full of items that were not completed within %lld ms",
                  lane->track, (long long)(timeout_ns / 1000000));
}

/* --- going ------------------------------------------------------------------------------------------------------- */

/* Who waits for its fence is to come back too. */
static void fail_item(const tni_record *r, tn_status st, const tn_error *why) {
  if (r->item.signal) __atomic_store_n(r->signal.word, r->signal.value, __ATOMIC_RELEASE);
  tni_ticket_done(tni_ticket_handle(r->ticket), st, NULL, why);
}

static void fail_items(const tni_job *j, tn_status st, const tn_error *why) {
  for (uint32_t i = 0; i < j->n; i++)
    if (!tni_ticket_is_done(j->records[i]->ticket)) fail_item(j->records[i], st, why);
}

static void submit_job(tni_job *j, tn_run *run) {
  tn_error why;
  tni_error_init(&why);
  const tn_status st = tni_dev_submit(j->dev, j->engine, j->items, j->n, run, &why);
  if (st == TN_OK && run) {
    tni_fail(&why, TN_E_INTERNAL, j->dev->name, "submit of a blocking engine returned before done was called");
    fail_items(j, TN_E_INTERNAL, &why);
  } else if (st != TN_OK) {
    fail_items(j, st, &why);
  }
}

static void submit_and_return(void *arg) {
  tni_job *j = arg;
  tni_record *returned = j->returned;
  submit_job(j, &j->run.run);
  come_back(returned);
}

static void fly_record(tni_lanes *l, tni_record *r) {
  r->in_flight = true;
  r->seq = ++l->seq;
  r->since = tni_now_ns();
  l->in_flight++;
}

void tni_lanes_submit(tni_lanes *l, uint32_t lane, const uint32_t *ids, const int64_t *ready, uint32_t n) {
  tni_lane *to = &l->lane[lane];
  tni_job *j = to->job;
  const int64_t deadline = tni_now_ns() + l->s->model->rt->profile->timeout_ms * INT64_C(1000000);
  j->n = n;
  if (!l->in_flight) l->asked = false;
  for (uint32_t i = 0; i < n; i++) {
    tni_record *r = &l->records[ids[i]];
    const tni_stask *t = &r->x->tasks[r->task];
    r->item = (tn_item){.h = TN_HDR(tn_item),
                        .plan = t->plan,
                        .args = t->args,
                        .ticket = tni_ticket_arm(r->ticket),
                        .ready = ready ? ready[i] : tni_now_ns(),
                        .deadline = deadline,
                        .priority = l->s->model->rt->profile->priority,
                        .n_waits = r->n_waits,
                        .waits = r->waits,
                        .signal = to->signals ? &r->signal : NULL};
    if (to->signals)
      r->signal = (tn_fence){.h = TN_HDR(tn_fence), .kind = TN_FENCE_WORD, .word = to->word, .value = ++to->issued};
    r->n_waits = 0;
    r->slot = to->depth ? &j->slot : NULL;
    r->kind = TNI_REC_ITEM;
    r->lane = lane;
    if (!to->in_flight || r->item.ready < to->ready) to->ready = r->item.ready;
    fly_record(l, r);
    to->in_flight++;
    j->items[i] = &r->item;
    j->records[i] = r;
  }
  if (!to->hand) {
    submit_job(j, NULL);
    return;
  }
  j->run.run.step = l->s->step;
  to->busy = true;
  fly_record(l, j->returned);
  tni_hand_give(to->hand, submit_and_return, j);
}

void tni_lanes_after(tni_lanes *l, uint32_t id, uint32_t before) {
  tni_record *r = &l->records[id];
  const tn_fence *f = &l->records[before].signal;
  uint32_t i = 0;
  while (i < r->n_waits && r->wait[i].word != f->word) i++;
  if (i < r->n_waits && r->wait[i].value >= f->value) return; /* a lane is in order */
  r->wait[i] = *f;
  r->waits[i] = &r->wait[i];
  if (i == r->n_waits) r->n_waits++;
}

static void compute_job(void *arg) {
  tni_record *r = arg;
  tni_error_init(&r->error);
  r->start = tni_now_ns();
  r->status = tni_task_compute(r->x, r->task, &r->run.run, &r->error);
  r->end = tni_now_ns();
  come_back(r);
}

bool tni_lanes_help(tni_lanes *l, uint32_t id) {
  uint32_t h = 0;
  while (h < TNI_HELPERS && (!l->helpers[h] || l->helping[h])) h++;
  if (h == TNI_HELPERS) return false;
  tni_record *r = &l->records[id];
  r->kind = TNI_REC_CPU;
  r->lane = h;
  r->run.run.step = l->s->step + r->x->ahead;
  l->helping[h] = true;
  fly_record(l, r);
  tni_hand_give(l->helpers[h], compute_job, r);
  return true;
}

/* --- life -------------------------------------------------------------------------------------------------------- */

enum { FENCE_WORDS = 8 }; /* a cache line for each fence */

static uint32_t count_engines(const tn_model *m) {
  uint32_t n = 0;
  for (uint32_t d = 0; d < m->rt->n_devs; d++) n += m->rt->devs[d].device->caps->n_engines;
  return n;
}

static tn_status add_lane(tni_lanes *l, const tni_dev *d, uint32_t engine, const char *track) {
  const uint32_t n = l->n_ids;
  const tn_engine *e = d->device->caps->engines[engine - 1];
  tni_lane *lane = &l->lane[l->n];
  const tn_caps *caps = d->device->caps;
  const uint32_t word = 1u << TN_FENCE_WORD;
  *lane = (tni_lane){.dev = d,
                     .track = track,
                     .engine = engine,
                     .depth = e->depth,
                     .waits = TN_HAS(caps, tn_caps, signal_fences) && caps->wait_fences & word,
                     .signals = TN_HAS(caps, tn_caps, signal_fences) && caps->signal_fences & word,
                     .word = l->words + l->n * FENCE_WORDS};
  lane->queue = TNI_NEW_ARRAY(l->s->mem, uint32_t, n + 1);
  tni_job *j = lane->job = calloc(1, sizeof *j);
  l->n++;
  if (!lane->queue || !j) return TN_E_NO_MEMORY;
  j->dev = d;
  j->engine = engine;
  j->slot = (tni_lane_slot){d->lock, engine, e->depth};
  j->items = calloc((size_t)n + 1, sizeof *j->items);
  j->records = calloc((size_t)n + 1, sizeof *j->records);
  tni_pool_run_init(&j->run, l->s->model->rt->pool, &l->s->cancel);
  if (!j->items || !j->records) return TN_E_NO_MEMORY;
  if (!(e->flags & TN_ENGINE_BLOCKING)) return TN_OK;
  lane->hand = tni_hand_start();
  return lane->hand ? TN_OK : TN_E_NO_MEMORY;
}

static tn_status find_lanes(tni_lanes *l) {
  const tni_exec *x = l->exec;
  l->n = 1;
  for (uint32_t t = 0; t < x->n_tasks; t++) {
    const tni_dev *d = x->programs[x->tasks[t].program].dev;
    const uint32_t engine = x->tasks[t].info->engine;
    if (!tni_task_is_submitted(x, l->s->model->flags, t)) continue;
    uint32_t k = 1;
    while (k < l->n && (l->lane[k].dev != d || l->lane[k].engine != engine)) k++;
    l->of[t] = k;
    tn_status st = k == l->n ? add_lane(l, d, engine, x->tasks[t].track) : TN_OK;
    if (st != TN_OK) return st;
  }
  return TN_OK;
}

static tn_status init_records(tni_lanes *l) {
  const uint32_t n = l->n_ids;
  for (uint32_t i = 0; i < n + l->n; i++) {
    tni_record *r = &l->records[i];
    r->flight = l->flight;
    r->id = i < n ? i : TN_NONE;
    r->task = i < n ? i % l->exec->n_tasks : TN_NONE;
    r->session = l->s;
    tni_pool_run_init(&r->run, l->s->model->rt->pool, &l->s->cancel);
    if (i < n) {
      if (!(r->ticket = tni_tickets_take(&l->s->model->rt->tickets))) return TN_E_NO_MEMORY;
      tni_ticket_init(r->ticket, &l->flight->waker, &l->s->model->rt->log, l->exec->tasks[r->task].track);
      r->ticket->user = r;
      continue;
    }
    r->kind = TNI_REC_SUBMIT;
    r->lane = i - n;
    if (r->lane) l->lane[r->lane].job->returned = r;
  }
  return TN_OK;
}

tn_status tni_lanes_create(tn_session *s, const tni_exec *exec, uint32_t pieces, bool helpers, tni_lanes *out,
                           tn_error *err) {
  const uint32_t n = exec->n_tasks * pieces;
  *out = (tni_lanes){.s = s, .exec = exec, .n_ids = n};
  out->of = TNI_NEW_ARRAY(s->mem, uint32_t, exec->n_tasks + 1);
  out->lane = TNI_NEW_ARRAY(s->mem, tni_lane, exec->n_tasks + 1);
  const uint32_t lanes = count_engines(s->model) + 1;
  out->words = aligned_alloc(FENCE_WORDS * sizeof(uint64_t), (size_t)lanes * FENCE_WORDS * sizeof(uint64_t));
  if (out->words) memset(out->words, 0, (size_t)lanes * FENCE_WORDS * sizeof(uint64_t));
  tn_status st = out->of && out->lane && out->words ? find_lanes(out) : TN_E_NO_MEMORY;
  out->flight = calloc(1, sizeof *out->flight);
  out->records = calloc((size_t)n + out->n, sizeof *out->records);
  if (st == TN_OK && (!out->flight || !out->records || tni_waker_init(&out->flight->waker) != TN_OK)) {
    free(out->flight);
    out->flight = NULL; /* no waker to finish */
    st = TN_E_NO_MEMORY;
  }
  if (st == TN_OK) {
    out->flight->waker.hook = on_done;
    out->flight->waker.user = out->flight;
    st = init_records(out);
  }
  for (uint32_t h = 0; st == TN_OK && helpers && h < TNI_HELPERS; h++)
    if (!(out->helpers[h] = tni_hand_start())) st = TN_E_NO_MEMORY;
  return st == TN_OK ? st : tni_fail(err, st, NULL, "no memory or threads for the engines");
}

/* An engine that hangs in submit keeps what it was given for ever; others until their device is closed. */
static void let_go(tni_lanes *l, void *p, bool hangs) {
  if (!l->lost)
    free(p);
  else if (!hangs)
    tni_runtime_leave(l->s->model->rt, p);
}

void tni_lanes_destroy(tni_lanes *l) {
  static const volatile int32_t cancelled = 1; /* the session's own flag goes */
  bool any = false;
  for (uint32_t h = 0; h < TNI_HELPERS; h++) tni_hand_stop(l->helpers[h]);
  for (uint32_t k = 1; l->lane && k < l->n; k++) {
    tni_lane *lane = &l->lane[k];
    any = any || lane->busy;
    if (lane->busy) {
      __atomic_store_n(&lane->job->run.cancel, &cancelled, __ATOMIC_RELAXED);
      tni_hand_abandon(lane->hand);
    } else {
      tni_hand_stop(lane->hand);
    }
    if (!lane->job || lane->busy) continue;
    let_go(l, lane->job->items, false);
    let_go(l, lane->job->records, false);
    let_go(l, lane->job, false);
  }
  if (l->flight && !l->lost) tni_waker_finish(&l->flight->waker);
  for (uint32_t i = 0; l->records && !l->lost && i < l->n_ids; i++)
    tni_tickets_give(&l->s->model->rt->tickets, l->records[i].ticket);
  if (any) tni_tickets_leave(&l->s->model->rt->tickets);
  let_go(l, l->flight, any);
  let_go(l, l->records, any);
  let_go(l, l->words, any);
}
