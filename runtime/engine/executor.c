/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/engine/executor.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base/base.h"
#include "runtime/engine/lanes.h"
#include "runtime/engine/task.h"
#include "runtime/engine/vclock.h"
#include "runtime/memory/memory.h"
#include "runtime/plugin/plugin.h"

enum { CPU_LANE = 0 };

struct tni_executor {
  tn_session *s;
  const tni_exec *exec;
  tni_sexec *const *xs;        /* [n_pieces] of this run */
  uint32_t n_pieces, cap, per; /* cap: most pieces; per: tasks of one */
  uint32_t n;                  /* of this run: ids are piece * per + task */
  tni_taskgraph chain;         /* where the session's graph is missing */
  tni_taskgraph joint;         /* of several pieces */
  uint64_t *of_joint;          /* [cap] the graphs it was made from, the last of the run's pieces */
  uint32_t joined;             /* pieces of joint */
  const tni_taskgraph *graph;
  uint64_t of_succ; /* the graph that succ was made from */
  uint32_t *first_succ, *succ, *fill;
  uint32_t succ_room;
  uint32_t *wait;           /* [cap * per, as what follows] predecessors that are not done, nor before it in its lane */
  uint32_t *ready, n_ready; /* CPU tasks */
  int64_t *ready_at;        /* on the virtual clock */
  bool *passed;             /* submitted with a fence: what follows on lanes that wait for fences was let go then */
  uint32_t *stack, *batch;
  int64_t *batch_ready;
  uint32_t *users, *user; /* [cap * n_regions]: items in flight that use it; of which device */
  tni_lanes lanes;
  tni_vclock clock;
  bool virtual_time, one_by_one;
  uint32_t finished, started;
  uint64_t random; /* 0: tasks in their order */
  tn_error why;    /* code set once a device is lost */
};

/* --- the graph --------------------------------------------------------------------------------------------------- */

static tn_status make_successors(tni_executor *e) {
  const tni_taskgraph *g = e->graph;
  if (g->n_edges > e->succ_room || !e->succ) {
    free(e->succ);
    e->succ_room = g->n_edges + g->n_edges / 4;
    e->succ = calloc((size_t)e->succ_room + 1, sizeof *e->succ);
    if (!e->succ) return TN_E_NO_MEMORY;
  }
  memset(e->first_succ, 0, ((size_t)e->n + 2) * sizeof *e->first_succ);
  for (uint32_t i = 0; i < g->n_edges; i++) e->first_succ[g->pred[i] + 2]++;
  for (uint32_t t = 2; t < e->n + 2; t++) e->first_succ[t] += e->first_succ[t - 1];
  for (uint32_t t = 0; t < e->n; t++)
    for (uint32_t i = g->first[t]; i < g->first[t + 1]; i++) e->succ[e->first_succ[g->pred[i] + 1]++] = t;
  e->of_succ = g->id;
  return TN_OK;
}

/* A piece's graph, with the edges that its memory needs; it changes when memory is placed anew. */
static const tni_taskgraph *graph_of(const tni_executor *e, uint32_t piece) {
  return e->xs[piece]->graph.n == e->per ? &e->xs[piece]->graph : &e->chain;
}

static tn_status join_graphs(tni_executor *e) {
  tni_edges all = {0};
  bool ok = true;
  tni_taskgraph_destroy(&e->joint);
  e->joined = 0;
  for (uint32_t p = 0; ok && p < e->n_pieces; p++) {
    const tni_taskgraph *g = graph_of(e, p);
    for (uint32_t t = 0; t < e->per; t++)
      for (uint32_t i = g->first[t]; ok && i < g->first[t + 1]; i++)
        ok = tni_edges_add(&all, p * e->per + g->pred[i], p * e->per + t);
    for (uint32_t i = 0; ok && p && i < e->exec->n_carried; i++)
      ok = tni_edges_add(&all, (p - 1) * e->per + e->exec->carried[i].from, p * e->per + e->exec->carried[i].to);
    e->of_joint[p] = g->id;
  }
  tn_status st = ok ? tni_taskgraph_make(e->n, all.v, all.n, &e->joint) : TN_E_NO_MEMORY;
  free(all.v);
  if (st == TN_OK) e->joined = e->n_pieces;
  return st;
}

static tn_status take_graph(tni_executor *e) {
  bool same = e->joined == e->n_pieces;
  tn_status st = e->chain.first ? TN_OK : tni_taskgraph_chain(e->per, &e->chain);
  if (st != TN_OK) return st;
  for (uint32_t p = 0; same && p < e->n_pieces; p++)
    same = e->of_joint[p] == graph_of(e, p)->id;
  if (e->n_pieces > 1 && !same) st = join_graphs(e);
  e->graph = e->n_pieces > 1 ? &e->joint : graph_of(e, 0);
  if (st != TN_OK || e->of_succ == e->graph->id) return st;
  return make_successors(e);
}

/* --- what is next ------------------------------------------------------------------------------------------------ */

static uint32_t random_below(tni_executor *e, uint32_t n) {
  e->random ^= e->random << 13;
  e->random ^= e->random >> 7;
  e->random ^= e->random << 17;
  return (uint32_t)(e->random % n);
}

static tni_sexec *piece_of(const tni_executor *e, uint32_t id) { return e->xs[id / e->per]; }
static const tni_etask *task_of(const tni_executor *e, uint32_t id) { return &e->exec->tasks[id % e->per]; }
static tni_stask *state_of(const tni_executor *e, uint32_t id) { return &piece_of(e, id)->tasks[id % e->per]; }

/* Guards after memory of engines are looked at around each item of the piece's first run. */
static bool is_watched(const tni_executor *e, uint32_t id) {
  return e->s->model->rt->checked && piece_of(e, id)->guarded;
}

static uint32_t lane_of(const tni_executor *e, uint32_t id) {
  return e->one_by_one ? CPU_LANE : e->lanes.of[id % e->per];
}

static void enqueue_task(tni_executor *e, uint32_t t) {
  const uint32_t lane = lane_of(e, t);
  if (e->virtual_time) e->ready_at[t] = tni_vclock_ready(&e->clock, e->graph, t);
  if (lane == CPU_LANE) {
    e->ready[e->n_ready++] = t;
    return;
  }
  tni_lane *l = &e->lanes.lane[lane];
  l->queue[(l->head + l->n++) % (e->n + 1)] = t; /* n of this run: queues are empty when it begins */
}

/* t waits for nothing any more. What follows it on its own lane may follow it there at once. */
static void release_task(tni_executor *e, uint32_t t) {
  uint32_t top = 0;
  e->stack[top++] = t;
  while (top) {
    const uint32_t now = e->stack[--top], lane = lane_of(e, now);
    enqueue_task(e, now);
    if (lane == CPU_LANE) continue;
    for (uint32_t i = e->first_succ[now + 1]; i-- > e->first_succ[now];)
      if (lane_of(e, e->succ[i]) == lane && --e->wait[e->succ[i]] == 0) e->stack[top++] = e->succ[i];
  }
}

/* Items of lane b can wait for those of a without the CPU. A virtual clock wants to know when each was done. */
static bool is_fenced(const tni_executor *e, uint32_t a, uint32_t b) {
  if (a == CPU_LANE || b == CPU_LANE || a == b || e->virtual_time || e->lanes.n > TNI_WAITS + 2) return false;
  return e->lanes.lane[a].signals && e->lanes.lane[b].waits;
}

static void finish_task(tni_executor *e, uint32_t t) {
  const uint32_t lane = lane_of(e, t);
  e->finished++;
  for (uint32_t i = e->first_succ[t]; i < e->first_succ[t + 1]; i++) {
    const uint32_t next = e->succ[i];
    if (lane != CPU_LANE && lane_of(e, next) == lane) continue; /* it follows there */
    if (e->passed[t] && is_fenced(e, lane, lane_of(e, next))) continue;
    if (--e->wait[next] == 0) release_task(e, next);
  }
}

/* t was submitted: what can wait for its fence need not wait for the CPU to see it done. */
static void pass_fence(tni_executor *e, uint32_t t) {
  const uint32_t lane = lane_of(e, t);
  e->passed[t] = true;
  for (uint32_t i = e->first_succ[t]; i < e->first_succ[t + 1]; i++) {
    const uint32_t next = e->succ[i];
    if (is_fenced(e, lane, lane_of(e, next)) && --e->wait[next] == 0) release_task(e, next);
  }
}

/* What t, about to be submitted, is to wait for. */
static void set_fences(tni_executor *e, uint32_t t) {
  for (uint32_t i = e->graph->first[t]; i < e->graph->first[t + 1]; i++) {
    const uint32_t p = e->graph->pred[i], lane = lane_of(e, p);
    if (is_fenced(e, lane, lane_of(e, t)) && e->lanes.records[p].in_flight) tni_lanes_after(&e->lanes, t, p);
  }
}

static uint32_t region_of_use(const tni_executor *e, uint32_t t, uint32_t use) {
  const uint32_t r = task_of(e, t)->regions[use];
  return r == TN_NONE || tni_region_is_plain(e->exec, r) ? TN_NONE : r;
}

/* In users: all pieces have the same caches. */
static uint32_t counted_at(const tni_executor *e, uint32_t t, uint32_t r) {
  return e->exec->regions[r].kind == TNI_R_STATE ? r : t / e->per * e->exec->n_regions + r;
}

/* Some memory of t is in use by a device other than dev (TN_NONE: the CPU). */
static bool is_taken(const tni_executor *e, uint32_t t, uint32_t dev) {
  for (uint32_t u = 0; u < task_of(e, t)->info->n_uses; u++) {
    const uint32_t r = region_of_use(e, t, u), at = r == TN_NONE ? 0 : counted_at(e, t, r);
    if (r == TN_NONE || !e->users[at] || e->user[at] == dev) continue;
    if (!tni_region_is_shared(piece_of(e, t), r, dev == TN_NONE)) return true;
  }
  return false;
}

static uint32_t device_of(const tni_executor *e, uint32_t t) {
  return e->exec->programs[task_of(e, t)->program].cluster->device;
}

static void count_users(tni_executor *e, uint32_t t, uint32_t by) {
  for (uint32_t u = 0; u < task_of(e, t)->info->n_uses; u++) {
    const uint32_t r = region_of_use(e, t, u);
    if (r == TN_NONE) continue;
    e->users[counted_at(e, t, r)] += by;
    e->user[counted_at(e, t, r)] = device_of(e, t);
  }
}

static void note_start(tni_executor *e, uint32_t t) {
  if (e->xs[0]->order && e->started < e->per) e->xs[0]->order[e->started] = t % e->per;
  e->started++;
}

/* --- engines ----------------------------------------------------------------------------------------------------- */

static uint32_t head_of(const tni_lane *l) { return l->queue[l->head]; }

static void drop_head(const tni_executor *e, tni_lane *l) {
  l->head = (l->head + 1) % (e->n + 1);
  l->n--;
}

/* When the inputs of t were there, on dev's clock. In random orders nobody keeps a virtual one. */
static int64_t ready_time(const tni_executor *e, const tni_dev *dev, uint32_t t) {
  const tn_clock *c = dev->device->caps->clock;
  if (e->virtual_time && e->clock.dev == dev) return tni_vclock_ready(&e->clock, e->graph, t);
  return c && c->kind == TN_CLOCK_VIRTUAL ? 0 : tni_now_ns();
}

/* Looked at alone when it has run: until then nothing follows it in its lane, nor on its fence elsewhere. */
static bool holds_lane(const tni_executor *e, uint32_t t) {
  return !e->one_by_one && tni_task_is_watched(e->s, piece_of(e, t), t % e->per);
}

/* As many tasks from the head of the queue as go in one submit. */
static tn_status gather_items(tni_executor *e, uint32_t lane, uint32_t *n, tn_error *err) {
  tni_lane *l = &e->lanes.lane[lane];
  for (*n = 0; l->n && !l->held;) {
    const uint32_t t = head_of(l);
    if (state_of(e, t)->empty || is_taken(e, t, device_of(e, t)) || !tni_lanes_room(&e->lanes, lane)) return TN_OK;
    tn_status st = tni_task_own(e->s, piece_of(e, t), t % e->per, false, err);
    if (st != TN_OK) {
      tni_lanes_unroom(&e->lanes, lane);
      return st;
    }
    count_users(e, t, 1);
    note_start(e, t);
    e->batch[*n] = t;
    e->batch_ready[(*n)++] = ready_time(e, l->dev, t);
    drop_head(e, l);
    l->held = holds_lane(e, t);
  }
  return TN_OK;
}

static tn_status feed_lane(tni_executor *e, uint32_t lane, tn_error *err) {
  tni_lane *l = &e->lanes.lane[lane];
  l->starved = false;
  for (;;) {
    uint32_t n = 0;
    while (l->n && !l->in_flight && !l->busy && state_of(e, head_of(l))->empty) {
      const uint32_t t = head_of(l);
      drop_head(e, l);
      note_start(e, t);
      if (e->virtual_time) tni_vclock_end(&e->clock, t, e->ready_at[t]);
      finish_task(e, t);
    }
    if (!l->n || l->busy) return TN_OK;
    tn_status st = gather_items(e, lane, &n, err);
    for (uint32_t i = 0; i < n; i++) set_fences(e, e->batch[i]);
    if (n) tni_lanes_submit(&e->lanes, lane, e->batch, e->batch_ready, n);
    for (uint32_t i = 0; i < n; i++)
      if (!holds_lane(e, e->batch[i])) pass_fence(e, e->batch[i]);
    if (st != TN_OK || !n) return st;
  }
}

static tn_status feed_all(tni_executor *e, tn_error *err) {
  tn_status st = TN_OK;
  uint32_t before;
  do { /* what one lane was given may let another go */
    const uint32_t first = e->random && e->lanes.n > 2 ? random_below(e, e->lanes.n - 1) : 0;
    before = e->started;
    for (uint32_t k = 0; st == TN_OK && k + 1 < e->lanes.n; k++)
      st = feed_lane(e, 1 + (first + k) % (e->lanes.n - 1), err);
  } while (st == TN_OK && e->started != before);
  return st;
}

/* --- the CPU ----------------------------------------------------------------------------------------------------- */

static bool is_better(const tni_executor *e, uint32_t a, uint32_t b) {
  if (e->virtual_time && e->ready_at[a] != e->ready_at[b]) return e->ready_at[a] < e->ready_at[b];
  return a < b;
}

/* Index into ready, or n_ready: none can run now. */
static uint32_t pick_task(tni_executor *e) {
  uint32_t best = e->n_ready;
  const uint32_t first = e->random && e->n_ready ? random_below(e, e->n_ready) : 0;
  for (uint32_t k = 0; k < e->n_ready; k++) {
    const uint32_t i = (first + k) % e->n_ready;
    if (best < e->n_ready && (e->random || !is_better(e, e->ready[i], e->ready[best]))) continue;
    if (!is_taken(e, e->ready[i], TN_NONE)) best = i;
  }
  return best;
}

/* Whether something in flight may yet have an earlier task for the CPU. */
static bool must_wait(const tni_executor *e, uint32_t t) {
  if (!e->virtual_time || !e->lanes.in_flight) return false;
  const int64_t start = tni_vclock_cpu_start(&e->clock, e->ready_at[t]);
  for (uint32_t k = 1; k < e->lanes.n; k++)
    if (e->lanes.lane[k].in_flight && start > e->lanes.lane[k].ready) return true;
  return false;
}

/* The task ran here or on a helper. */
static void cpu_done(tni_executor *e, uint32_t t) {
  if (e->virtual_time) {
    int64_t start, end;
    tni_vclock_cpu(&e->clock, t, e->ready_at[t], state_of(e, t), &start, &end);
    if (!state_of(e, t)->empty)
      tni_task_trace(e->s, piece_of(e, t), t % e->per, e->clock.track, start, end, TN_CLOCK_VIRTUAL);
  }
  finish_task(e, t);
}

static int64_t timeout_of(const tni_executor *e) { return e->s->model->rt->profile->timeout_ms * INT64_C(1000000); }

/* Other sessions have all of a lane that this one has something for. */
static bool is_starved(const tni_executor *e) {
  bool any = false;
  for (uint32_t k = 1; k < e->lanes.n; k++) any = any || (e->lanes.lane[k].n && e->lanes.lane[k].starved);
  return any;
}

/* One task after the other: capture compares each with what it read. */
static tn_status run_alone(tni_executor *e, uint32_t t, tn_error *err) {
  const uint32_t lane = e->lanes.of[t % e->per];
  const int64_t ready = e->virtual_time ? e->ready_at[t] : tni_now_ns();
  if (state_of(e, t)->empty) return TN_OK;
  tn_status st = tni_task_before(e->s, piece_of(e, t), t % e->per, err);
  if (st == TN_OK) st = tni_task_own(e->s, piece_of(e, t), t % e->per, false, err);
  if (st == TN_OK && is_watched(e, t)) st = tni_guard_before(e->s, piece_of(e, t), t % e->per, err);
  while (st == TN_OK && !tni_lanes_room(&e->lanes, lane)) {
    st = tni_lanes_await_room(&e->lanes, timeout_of(e), err);
    if (st == TN_OK && __atomic_load_n(&e->s->cancel, __ATOMIC_RELAXED))
      st = tni_fail(err, TN_E_CANCELLED, NULL, "cancelled");
  }
  if (st != TN_OK) return st;
  count_users(e, t, 1);
  tni_lanes_submit(&e->lanes, lane, &t, &ready, 1);
  return TN_OK;
}

/* Starts one CPU task. *ran: there was one. */
static tn_status run_one(tni_executor *e, bool *ran, tn_error *err) {
  const uint32_t at = pick_task(e);
  *ran = false;
  if (at == e->n_ready || must_wait(e, e->ready[at])) return TN_OK;
  const uint32_t t = e->ready[at];
  const tni_stask *k = state_of(e, t);
  if (e->one_by_one && e->lanes.in_flight) return TN_OK;
  const bool elsewhere = e->random && k->plain && !k->empty && !k->dynamic && !e->virtual_time && !e->one_by_one &&
                         !holds_lane(e, t);
  if (elsewhere && (random_below(e, 4) || e->lanes.in_flight) && !tni_lanes_help(&e->lanes, t)) return TN_OK;
  const bool helped = elsewhere && e->lanes.records[t].in_flight;
  e->ready[at] = e->ready[--e->n_ready];
  note_start(e, t);
  *ran = true;
  if (helped) return TN_OK;
  if (e->lanes.of[t % e->per] != CPU_LANE) {
    tn_status st = run_alone(e, t, err);
    if (st == TN_OK && k->empty) cpu_done(e, t);
    return st;
  }
  e->s->run.run.step = e->s->step + piece_of(e, t)->ahead;
  tn_status st = tni_task_run(e->s, piece_of(e, t), t % e->per, err);
  if (st == TN_OK) cpu_done(e, t);
  return st;
}

/* --- what comes back --------------------------------------------------------------------------------------------- */

static tn_status item_back(tni_executor *e, tni_record *r, tn_error *err) {
  const tni_etask *task = &e->exec->tasks[r->task];
  const tni_dev *d = e->exec->programs[task->program].dev;
  const tn_times *times = &r->ticket->times;
  count_users(e, r->id, UINT32_MAX); /* one less */
  tn_status st = tni_plugin_result(d->name, task->label, r->ticket->status, &r->ticket->error, err);
  if (st == TN_E_DEVICE_LOST) tni_devlock_lose(d->lock);
  if (st != TN_OK) return st;
  const tn_clock *c = d->device->caps->clock;
  const uint32_t clock = times->clock ? c && c->kind == TN_CLOCK_VIRTUAL ? TN_CLOCK_VIRTUAL : TN_CLOCK_DEVICE : 0;
  if (times->end > times->start) tni_task_trace(e->s, r->x, r->task, task->track, times->start, times->end, clock);
  if (e->virtual_time) {
    const bool said = e->clock.dev == d && clock == TN_CLOCK_VIRTUAL;
    const double cost = r->x->tasks[r->task].cost_ns;
    tni_vclock_end(
        &e->clock, r->id,
        said ? times->end : tni_vclock_ready(&e->clock, e->graph, r->id) + (int64_t)(cost < 1e15 ? cost : 1e15));
  }
  if (is_watched(e, r->id)) st = tni_guard_after(e->s, r->x, r->task, err);
  if (st == TN_OK) st = tni_task_after(e->s, r->x, r->task, err);
  if (holds_lane(e, r->id)) e->lanes.lane[r->lane].held = false;
  if (st == TN_OK) finish_task(e, r->id);
  return st;
}

static tn_status helper_back(tni_executor *e, const tni_record *r, tn_error *err) {
  const tni_etask *task = &e->exec->tasks[r->task];
  if (r->status != TN_OK) {
    (void)tni_error_pass(err, r->status, &r->error);
    return tni_fail(err, r->status, task->label, "'%s' failed without a reason", task->label);
  }
  tni_task_trace(e->s, r->x, r->task, task->track, r->start, r->end, 0);
  cpu_done(e, r->id);
  return TN_OK;
}

/* In virtual time what came back at the same time is taken in the tasks' order, not in that of this machine. */
static tni_record *next_back(const tni_executor *e, tni_record **list) {
  tni_record **best = list;
  for (tni_record **p = list; e->virtual_time && *p; p = &(*p)->next)
    if ((*p)->id < (*best)->id) best = p;
  tni_record *r = *best;
  *best = r->next;
  return r;
}

static tn_status take_done(tni_executor *e, bool wait, tn_status before, tn_error *err) {
  const int64_t timeout = timeout_of(e);
  tni_record *back = NULL, *more = NULL;
  tn_error why;
  tni_error_init(&why);
  tn_status st = tni_lanes_take(&e->lanes, wait, timeout, &back, &why);
  while (st == TN_OK && e->virtual_time && e->lanes.in_flight) {
    st = tni_lanes_take(&e->lanes, true, timeout, &more, &why);
    tni_record **end = &back;
    while (*end) end = &(*end)->next;
    *end = more;
  }
  if (st != TN_OK) {
    e->why = why;
    if (before == TN_OK) tni_error_give(err, &why);
    return st;
  }
  st = before;
  while (back) {
    tni_record *r = next_back(e, &back);
    tni_error_init(&why);
    tn_status one = r->kind == TNI_REC_ITEM  ? item_back(e, r, &why)
                    : r->kind == TNI_REC_CPU ? helper_back(e, r, &why)
                                             : TN_OK;
    if (one == TN_OK || st != TN_OK) continue;
    st = one;
    tni_error_give(err, &why);
  }
  return st;
}

/* --- a run ------------------------------------------------------------------------------------------------------- */

static void begin_graph(tni_executor *e) {
  const uint64_t seed = e->s->model->order_seed;
  e->random = seed ? (seed + e->s->step) * UINT64_C(0x9E3779B97F4A7C15) | 1 : 0;
  e->one_by_one = e->s->watch.before || (e->s->watch.after && e->s->watch.only == TN_NONE);
  for (uint32_t p = 0; p < e->n_pieces; p++) e->one_by_one = e->one_by_one || is_watched(e, p * e->per);
  e->finished = e->started = e->n_ready = 0;
  memset(e->passed, 0, e->n * sizeof *e->passed);
  for (uint32_t k = 1; k < e->lanes.n; k++) {
    e->lanes.lane[k].head = e->lanes.lane[k].n = 0;
    e->lanes.lane[k].held = false;
  }
  for (uint32_t t = 0; t < e->n; t++) e->wait[t] = e->graph->first[t + 1] - e->graph->first[t];
  if (e->virtual_time) tni_vclock_begin(&e->clock);
  for (uint32_t t = 0; e->virtual_time && t < e->n; t++) e->clock.ends[t] = e->clock.start;
  for (uint32_t i = 0; i < e->n; i++) e->lanes.records[i].x = piece_of(e, i);
}

/* wait[t] of what release_task() lets follow becomes 0 on the way: roots are those that wait for nothing at all. */
static void release_roots(tni_executor *e) {
  for (uint32_t t = 0; t < e->n; t++)
    if (e->graph->first[t + 1] == e->graph->first[t]) release_task(e, t);
}

/* Who cancelled hears that, and the next run the rest. */
static tn_status end_lost(const tni_executor *e, tn_error *err) {
  if (!__atomic_load_n(&e->s->cancel, __ATOMIC_RELAXED)) return e->why.code;
  tni_error_begin(err);
  return tni_fail(err, TN_E_CANCELLED, NULL, "cancelled");
}

tn_status tni_executor_run(tni_executor *e, tni_sexec *const *xs, uint32_t n, tn_error *err) {
  tn_status st = e->why.code;
  if (n < 1 || n > e->cap) return tni_fail(err, TN_E_INTERNAL, NULL, "%u pieces at once, not 1 to %u", n, e->cap);
  e->xs = xs;
  e->n_pieces = n;
  e->n = n * e->per;
  if (st != TN_OK) {
    tni_error_give(err, &e->why);
    return st;
  }
  st = take_graph(e);
  if (st != TN_OK) return tni_fail_memory(err, e->s->model->path);
  begin_graph(e);
  release_roots(e);
  for (;;) {
    bool ran = false;
    if (st == TN_OK && __atomic_load_n(&e->s->cancel, __ATOMIC_RELAXED))
      st = tni_fail(err, TN_E_CANCELLED, NULL, "cancelled");
    if (st == TN_OK) st = feed_all(e, err);
    if (st == TN_OK) st = run_one(e, &ran, err);
    if (!e->lanes.in_flight && !ran && st == TN_OK && !e->n_ready && is_starved(e)) {
      st = tni_lanes_await_room(&e->lanes, timeout_of(e), err);
      if (st == TN_OK) continue;
    }
    if (!e->lanes.in_flight && !ran && (st != TN_OK || !e->n_ready)) break;
    if (!e->lanes.in_flight || (ran && e->virtual_time)) continue;
    st = take_done(e, !ran, st, err);
    if (e->lanes.lost) return end_lost(e, err);
  }
  if (st == TN_OK && e->finished != e->n)
    st = tni_fail(err, TN_E_INTERNAL, e->s->model->path, "%u of %u tasks never became ready", e->n - e->finished, e->n);
  return st;
}

/* --- life -------------------------------------------------------------------------------------------------------- */

bool tni_executor_wanted(const tn_model *m, const tni_exec *x) {
  if (m->order_seed) return true;
  for (uint32_t t = 0; t < x->n_tasks; t++)
    if (tni_task_is_submitted(x, m->flags, t)) return true;
  return false;
}

tn_status tni_executor_create(tn_session *s, tni_sexec *x, uint32_t pieces, tni_executor **out, tn_error *err) {
  tni_executor *e = calloc(1, sizeof *e);
  if (!e) return tni_fail_memory(err, s->model->path);
  const uint32_t n = pieces * x->exec->n_tasks, r = pieces * x->exec->n_regions + 1;
  const tni_dev *dev;
  e->s = s;
  e->exec = x->exec;
  e->per = x->exec->n_tasks;
  e->cap = pieces;
  tni_error_init(&e->why);
  e->of_joint = TNI_NEW_ARRAY(s->mem, uint64_t, pieces);
  e->first_succ = TNI_NEW_ARRAY(s->mem, uint32_t, n + 2);
  e->wait = TNI_NEW_ARRAY(s->mem, uint32_t, n + 1);
  e->passed = TNI_NEW_ARRAY(s->mem, bool, n + 1);
  e->ready = TNI_NEW_ARRAY(s->mem, uint32_t, n + 1);
  e->stack = TNI_NEW_ARRAY(s->mem, uint32_t, n + 1);
  e->batch = TNI_NEW_ARRAY(s->mem, uint32_t, n + 1);
  e->ready_at = TNI_NEW_ARRAY(s->mem, int64_t, n + 1);
  e->batch_ready = TNI_NEW_ARRAY(s->mem, int64_t, n + 1);
  e->users = TNI_NEW_ARRAY(s->mem, uint32_t, r);
  e->user = TNI_NEW_ARRAY(s->mem, uint32_t, r);
  if (s->model->order_seed && !x->order) x->order = TNI_NEW_ARRAY(s->mem, uint32_t, n + 1);
  bool ok = e->of_joint && e->first_succ && e->wait && e->passed && e->ready && e->stack && e->batch && e->ready_at &&
            e->batch_ready && e->users && e->user && (x->order || !s->model->order_seed);
  tn_status st = ok ? tni_lanes_create(s, x->exec, pieces, s->model->order_seed != 0, &e->lanes, err) : TN_E_NO_MEMORY;
  e->virtual_time = !s->model->order_seed && tni_vclock_find(s->model, x->exec, &dev);
  if (st == TN_OK && e->virtual_time) st = tni_vclock_init(&e->clock, s->mem, dev, n);
  if (st == TN_OK) {
    *out = e;
    return TN_OK;
  }
  tni_executor_destroy(e);
  return tni_fail(err, st, s->model->path, "no memory for running %u tasks", n);
}

void tni_executor_destroy(tni_executor *e) {
  if (!e) return;
  tni_lanes_destroy(&e->lanes);
  tni_taskgraph_destroy(&e->chain);
  tni_taskgraph_destroy(&e->joint);
  free(e->succ);
  free(e);
}
