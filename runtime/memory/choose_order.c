/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/memory/choose_order.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base/base.h"

enum { SEEDED = 6, CANDIDATES = 3 + SEEDED, PLANNED = 4 };
enum { LOOKED_AT = 256 }; /* ready tasks that a choice looks at: half of those ready longest, half of the last */

static uint64_t next_random(uint64_t *s) {
  uint64_t z = *s += UINT64_C(0x9e3779b97f4a7c15);
  z = (z ^ z >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
  z = (z ^ z >> 27) * UINT64_C(0x94d049bb133111eb);
  return z ^ z >> 31;
}

static uint64_t plus_saturated(uint64_t a, uint64_t b) { return a > UINT64_MAX - b ? UINT64_MAX : a + b; }

/* --- tasks that are ready ---------------------------------------------------------------------------------------- */

/* The graph seen from the other side, and what is ready. */
typedef struct front {
  uint32_t n, n_ready, head;
  uint32_t *first, *next; /* followers of task t: next[first[t]] .. */
  uint32_t *waits;        /* for how many */
  uint32_t *ready;        /* ready[head] .. of n_ready, in the order they became ready */
} front;

static void free_front(front *f) {
  free(f->first);
  free(f->next);
  free(f->waits);
  free(f->ready);
}

static tn_status make_front(const tni_taskgraph *g, front *f) {
  *f = (front){.n = g->n};
  f->first = calloc((size_t)g->n + 2, sizeof *f->first);
  f->next = calloc((size_t)g->n_edges + 1, sizeof *f->next);
  f->waits = calloc((size_t)g->n + 1, sizeof *f->waits);
  f->ready = calloc((size_t)g->n + 1, sizeof *f->ready);
  if (!f->first || !f->next || !f->waits || !f->ready) return TN_E_NO_MEMORY;
  for (uint32_t i = 0; i < g->n_edges; i++) f->first[g->pred[i] + 2]++;
  for (uint32_t t = 2; t < g->n + 2; t++) f->first[t] += f->first[t - 1];
  for (uint32_t t = 0; t < g->n; t++)
    for (uint32_t i = g->first[t]; i < g->first[t + 1]; i++) f->next[f->first[g->pred[i] + 1]++] = t;
  return TN_OK;
}

static void restart_front(front *f, const tni_taskgraph *g) {
  f->n_ready = f->head = 0;
  for (uint32_t t = 0; t < g->n; t++) {
    f->waits[t] = g->first[t + 1] - g->first[t];
    if (!f->waits[t]) f->ready[f->n_ready++] = t;
  }
}

/* The i-th of those a choice looks at. */
static uint32_t looked_at(const front *f) { return f->n_ready < LOOKED_AT ? f->n_ready : LOOKED_AT; }

static uint32_t place_of(const front *f, uint32_t i) {
  return f->head + (i < LOOKED_AT / 2 ? i : f->n_ready - looked_at(f) + i);
}

/* Takes the i-th; what it was waited for becomes ready after the others. The shorter side moves up, so that the cost
 * does not grow with the number of ready tasks. */
static uint32_t take_ready(front *f, uint32_t i) {
  uint32_t at = place_of(f, i), t = f->ready[at], before = at - f->head;
  if (before < f->n_ready / 2) {
    memmove(f->ready + f->head + 1, f->ready + f->head, before * sizeof *f->ready);
    f->head++;
  } else {
    memmove(f->ready + at, f->ready + at + 1, (f->n_ready - before - 1) * sizeof *f->ready);
  }
  f->n_ready--;
  for (uint32_t k = f->first[t]; k < f->first[t + 1]; k++)
    if (--f->waits[f->next[k]] == 0) f->ready[f->head + f->n_ready++] = f->next[k];
  return t;
}

tn_status tni_order_random(const tni_taskgraph *g, uint64_t seed, uint32_t *order) {
  front f;
  tn_status st = make_front(g, &f);
  if (st == TN_OK) restart_front(&f, g);
  for (uint32_t p = 0; st == TN_OK && p < g->n; p++)
    order[p] = take_ready(&f, (uint32_t)(next_random(&seed) % looked_at(&f)));
  free_front(&f);
  return st;
}

/* --- memory on the way ------------------------------------------------------------------------------------------- */

typedef struct order_walk {
  const tni_taskgraph *g;
  const tni_life *lives;
  uint32_t n;
  uint32_t *first, *life; /* lives that task t uses */
  uint32_t *left;         /* uses of a life still to come */
  uint64_t live;
} order_walk;

static tn_status make_walk(order_walk *w) {
  size_t total = 0;
  for (uint32_t i = 0; i < w->n; i++) total += w->lives[i].n_tasks;
  w->first = calloc((size_t)w->g->n + 2, sizeof *w->first);
  w->life = calloc(total + 1, sizeof *w->life);
  w->left = calloc((size_t)w->n + 1, sizeof *w->left);
  if (!w->first || !w->life || !w->left) return TN_E_NO_MEMORY;
  for (uint32_t i = 0; i < w->n; i++)
    for (uint32_t k = 0; k < w->lives[i].n_tasks; k++) {
      if (w->lives[i].tasks[k] >= w->g->n) return TN_E_INVALID;
      w->first[w->lives[i].tasks[k] + 2]++;
    }
  for (uint32_t t = 2; t < w->g->n + 2; t++) w->first[t] += w->first[t - 1];
  for (uint32_t i = 0; i < w->n; i++)
    for (uint32_t k = 0; k < w->lives[i].n_tasks; k++) w->life[w->first[w->lives[i].tasks[k] + 1]++] = i;
  return TN_OK;
}

static void restart_walk(order_walk *w) {
  w->live = 0;
  for (uint32_t i = 0; i < w->n; i++) w->left[i] = w->lives[i].n_tasks;
}

/* Bytes that task t would begin and end to use. */
static void change_of_task(const order_walk *w, uint32_t t, uint64_t *more, uint64_t *less) {
  *more = *less = 0;
  for (uint32_t k = w->first[t]; k < w->first[t + 1]; k++) {
    const tni_life *l = &w->lives[w->life[k]];
    if (w->left[w->life[k]] == l->n_tasks) *more = plus_saturated(*more, l->bytes);
    if (w->left[w->life[k]] == 1) *less = plus_saturated(*less, l->bytes);
  }
}

/* Runs t: what is live while it runs. */
static uint64_t step_walk(order_walk *w, uint32_t t) {
  uint64_t more, less;
  change_of_task(w, t, &more, &less);
  for (uint32_t k = w->first[t]; k < w->first[t + 1]; k++) w->left[w->life[k]]--;
  uint64_t during = plus_saturated(w->live, more);
  w->live = during - less;
  return during;
}

/* The ready task that leaves the least behind it; of equals the last made ready (deep), or the smallest number. */
static uint32_t best_ready(const order_walk *w, const front *f, bool deep) {
  uint32_t best = 0;
  int64_t best_net = INT64_MAX;
  for (uint32_t i = 0; i < looked_at(f); i++) {
    uint64_t more, less;
    uint32_t t = f->ready[place_of(f, i)];
    change_of_task(w, t, &more, &less);
    int64_t net = (int64_t)(more - less);
    bool tie = net == best_net && (deep || t < f->ready[place_of(f, best)]);
    if (i && net >= best_net && !tie) continue;
    best = i;
    best_net = net;
  }
  return best;
}

/* Candidate c into order; its peak. */
static uint64_t make_candidate(order_walk *w, front *f, uint32_t c, uint32_t *order) {
  uint64_t peak = 0, seed = c;
  restart_front(f, w->g);
  restart_walk(w);
  for (uint32_t p = 0; p < w->g->n; p++) {
    uint32_t t = p;
    if (c >= 3 && next_random(&seed) % 8 == 0)
      t = take_ready(f, (uint32_t)(next_random(&seed) % looked_at(f)));
    else if (c)
      t = take_ready(f, best_ready(w, f, c != 2));
    order[p] = t;
    uint64_t during = step_walk(w, t);
    if (during > peak) peak = during;
  }
  return peak;
}

/* --- plans ------------------------------------------------------------------------------------------------------- */

static tn_status plan_intervals(const tni_life *lives, uint32_t n, const uint32_t *position, tn_interval *iv,
                                uint64_t *arena) {
  for (uint32_t i = 0; i < n; i++) {
    iv[i] = (tn_interval){INT64_MAX, 0, lives[i].bytes, lives[i].align, 0};
    for (uint32_t k = 0; k < lives[i].n_tasks; k++) {
      int64_t at = position ? position[lives[i].tasks[k]] : lives[i].tasks[k];
      if (at < iv[i].first) iv[i].first = at;
      if (at > iv[i].last) iv[i].last = at;
    }
  }
  return tni_plan_offsets(n, iv, arena);
}

tn_status tni_lives_plan(tni_life *lives, uint32_t n, uint64_t *arena) {
  tn_interval *iv = calloc((size_t)n + 1, sizeof *iv);
  if (!iv) return TN_E_NO_MEMORY;
  tn_status st = plan_intervals(lives, n, NULL, iv, arena);
  for (uint32_t i = 0; st == TN_OK && i < n; i++) lives[i].offset = iv[i].offset;
  free(iv);
  return st;
}

typedef struct order_candidate {
  uint32_t *order, index;
  uint64_t peak;
} order_candidate;

static int by_peak(const void *pa, const void *pb) {
  const order_candidate *a = pa, *b = pb;
  if (a->peak != b->peak) return a->peak < b->peak ? -1 : 1;
  return a->index < b->index ? -1 : 1;
}

/* The plan of an order is known where the best so far is the same one: a chain has but one. */
static bool is_known(const uint32_t *best, const uint32_t *order, uint32_t n) {
  return best && memcmp(best, order, n * sizeof *order) == 0;
}

/* Plans the best few by peak and takes the smallest arena. The numbering as it is is always among them. */
static tn_status plan_best(const order_walk *w, order_candidate *c, tn_interval *iv, uint32_t *position,
                           tni_order *out) {
  uint32_t planned = 0;
  uint32_t *best = NULL;
  qsort(c, CANDIDATES, sizeof *c, by_peak);
  out->bound = c[0].peak;
  out->arena = UINT64_MAX;
  for (uint32_t i = 0; i < CANDIDATES; i++) {
    uint64_t arena = out->arena;
    if ((planned >= PLANNED && c[i].index) || (i && c[i].index && c[i].peak >= out->arena)) continue;
    planned++;
    for (uint32_t p = 0; p < w->g->n; p++) position[c[i].order[p]] = p;
    tn_status st = is_known(best, c[i].order, w->g->n) ? TN_OK
                                                       : plan_intervals(w->lives, w->n, position, iv, &arena);
    if (st != TN_OK) return st;
    if (arena > out->arena || (arena == out->arena && c[i].index > out->chosen)) continue;
    out->arena = arena;
    out->chosen = c[i].index;
    best = c[i].order;
  }
  memcpy(out->task, best, w->g->n * sizeof *best);
  return TN_OK;
}

tn_status tni_order_choose(const tni_taskgraph *g, const tni_life *lives, uint32_t n, tni_order *out) {
  order_walk w = {.g = g, .lives = lives, .n = n};
  front f = {0};
  order_candidate c[CANDIDATES] = {{0}};
  uint32_t *orders = calloc(((size_t)g->n + 1) * (CANDIDATES + 1), sizeof *orders);
  tn_interval *iv = calloc((size_t)n + 1, sizeof *iv);
  *out = (tni_order){.task = calloc((size_t)g->n + 1, sizeof *out->task)};
  tn_status st = orders && iv && out->task ? make_walk(&w) : TN_E_NO_MEMORY;
  if (st == TN_OK) st = make_front(g, &f);
  for (uint32_t i = 0; st == TN_OK && i < CANDIDATES; i++) {
    c[i] = (order_candidate){.order = orders + (size_t)i * (g->n + 1), .index = i};
    c[i].peak = make_candidate(&w, &f, i, c[i].order);
  }
  if (st == TN_OK) st = plan_best(&w, c, iv, orders + (size_t)CANDIDATES * (g->n + 1), out);
  free_front(&f);
  free(w.first);
  free(w.life);
  free(w.left);
  free(orders);
  free(iv);
  if (st != TN_OK) {
    free(out->task);
    *out = (tni_order){0};
  }
  return st;
}
