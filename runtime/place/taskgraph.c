/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/place/taskgraph.h"

#include <stdlib.h>
#include <string.h>

bool tni_edges_add(tni_edges *e, uint32_t from, uint32_t to) {
  if (e->n == e->cap) {
    uint32_t cap = e->cap ? e->cap * 2 : 64;
    tni_edge *grown = cap > e->cap ? realloc(e->v, cap * sizeof *grown) : NULL;
    if (!grown) return false;
    e->v = grown;
    e->cap = cap;
  }
  e->v[e->n++] = (tni_edge){from, to};
  return true;
}

static int by_task_id(const void *pa, const void *pb) {
  uint32_t a = *(const uint32_t *)pa, b = *(const uint32_t *)pb;
  return a < b ? -1 : a > b;
}

/* Sorts every task's list and drops doubles. */
static void tidy_graph(tni_taskgraph *g) {
  uint32_t to = 0;
  for (uint32_t t = 0; t < g->n; t++) {
    uint32_t from = g->first[t], end = g->first[t + 1], begin = to;
    qsort(g->pred + from, end - from, sizeof *g->pred, by_task_id);
    for (uint32_t i = from; i < end; i++)
      if (to == begin || g->pred[to - 1] != g->pred[i]) g->pred[to++] = g->pred[i];
    g->first[t] = begin;
  }
  g->first[g->n] = g->n_edges = to;
}

tn_status tni_taskgraph_make(uint32_t n, const tni_edge *edges, uint32_t n_edges, tni_taskgraph *out) {
  static uint64_t made;
  for (uint32_t i = 0; i < n_edges; i++)
    if (edges[i].from >= edges[i].to || edges[i].to >= n) return TN_E_INVALID;
  tni_taskgraph g = {.n = n, .n_edges = n_edges};
  g.first = calloc((size_t)n + 2, sizeof *g.first);
  g.pred = calloc((size_t)n_edges + 1, sizeof *g.pred);
  if (!g.first || !g.pred) {
    tni_taskgraph_destroy(&g);
    return TN_E_NO_MEMORY;
  }
  for (uint32_t i = 0; i < n_edges; i++) g.first[edges[i].to + 2]++; /* two ahead: filling moves them back by one */
  for (uint32_t t = 2; t < n + 2; t++) g.first[t] += g.first[t - 1];
  for (uint32_t i = 0; i < n_edges; i++) g.pred[g.first[edges[i].to + 1]++] = edges[i].from;
  tidy_graph(&g);
  g.id = __atomic_add_fetch(&made, 1, __ATOMIC_RELAXED);
  *out = g;
  return TN_OK;
}

tn_status tni_taskgraph_chain(uint32_t n, tni_taskgraph *out) {
  tni_edges e = {0};
  bool ok = true;
  for (uint32_t t = 1; ok && t < n; t++) ok = tni_edges_add(&e, t - 1, t);
  tn_status st = ok ? tni_taskgraph_make(n, e.v, e.n, out) : TN_E_NO_MEMORY;
  free(e.v);
  return st;
}

tn_status tni_taskgraph_permute(const tni_taskgraph *g, const uint32_t *order, tni_taskgraph *out) {
  uint32_t *at = malloc(((size_t)g->n + 1) * sizeof *at);
  tni_edges e = {0};
  tn_status st = at ? TN_OK : TN_E_NO_MEMORY;
  if (at) memset(at, 0xff, ((size_t)g->n + 1) * sizeof *at);
  for (uint32_t p = 0; st == TN_OK && p < g->n; p++) {
    if (order[p] >= g->n || at[order[p]] != TN_NONE)
      st = TN_E_INVALID;
    else
      at[order[p]] = p;
  }
  for (uint32_t t = 0; st == TN_OK && t < g->n; t++)
    for (uint32_t i = g->first[t]; st == TN_OK && i < g->first[t + 1]; i++)
      if (!tni_edges_add(&e, at[g->pred[i]], at[t])) st = TN_E_NO_MEMORY;
  if (st == TN_OK) st = tni_taskgraph_make(g->n, e.v, e.n, out);
  free(at);
  free(e.v);
  return st;
}

void tni_taskgraph_destroy(tni_taskgraph *g) {
  free(g->first);
  free(g->pred);
  *g = (tni_taskgraph){0};
}

/* --- reads and writes ------------------------------------------------------------------------------------------- */

typedef struct object {
  uint32_t writer; /* the last, or TN_NONE */
  uint32_t reader; /* index of the last access that only read since, or TN_NONE; then next[] */
} object;

static bool add_edge(tni_edges *e, uint32_t from, uint32_t to) { return from == to || tni_edges_add(e, from, to); }

tn_status tni_taskgraph_hazards(const tni_access *a, uint32_t n, uint32_t n_objects, tni_edges *out) {
  object *objects = malloc(((size_t)n_objects + 1) * sizeof *objects);
  uint32_t *next = malloc(((size_t)n + 1) * sizeof *next);
  bool ok = objects && next;
  for (uint32_t o = 0; ok && o < n_objects; o++) objects[o] = (object){TN_NONE, TN_NONE};
  for (uint32_t i = 0; ok && i < n; i++) {
    object *o = &objects[a[i].object];
    if (o->writer != TN_NONE) ok = add_edge(out, o->writer, a[i].task);
    if (!(a[i].access & (TN_WRITE | TN_APPEND))) {
      next[i] = o->reader;
      o->reader = i;
      continue;
    }
    for (uint32_t r = o->reader; ok && r != TN_NONE; r = next[r]) ok = add_edge(out, a[r].task, a[i].task);
    *o = (object){a[i].task, TN_NONE};
  }
  free(objects);
  free(next);
  return ok ? TN_OK : TN_E_NO_MEMORY;
}

/* --- reachability ----------------------------------------------------------------------------------------------- */

static tn_status new_reach(uint32_t n, tni_reach *out) {
  if (n > TNI_REACH_MAX) return TN_E_LIMIT;
  out->n = n;
  out->words = n / 64 + 1;
  out->row = calloc((size_t)n * out->words + 1, sizeof *out->row);
  return out->row ? TN_OK : TN_E_NO_MEMORY;
}

/* a, and all that precedes it, precede t. */
static void join_reach(tni_reach *r, uint32_t a, uint32_t t) {
  uint64_t *to = r->row + (size_t)t * r->words;
  const uint64_t *from = r->row + (size_t)a * r->words;
  for (uint32_t w = 0; w <= a / 64; w++) to[w] |= from[w];
  to[a / 64] |= UINT64_C(1) << (a % 64);
}

static void join_preds(tni_reach *r, const tni_taskgraph *g, uint32_t t) {
  for (uint32_t i = g->first[t]; i < g->first[t + 1]; i++) join_reach(r, g->pred[i], t);
}

tn_status tni_reach_make(const tni_taskgraph *g, tni_reach *out) {
  tn_status st = new_reach(g->n, out);
  for (uint32_t t = 0; st == TN_OK && t < g->n; t++) join_preds(out, g, t);
  return st;
}

void tni_reach_destroy(tni_reach *r) {
  free(r->row);
  r->row = NULL;
}

/* --- shared memory ---------------------------------------------------------------------------------------------- */

/* Lives by the tasks that use them. */
typedef struct users {
  uint32_t *first, *life;
} users;

static tn_status index_users(const tni_life *lives, uint32_t n_lives, uint32_t n, users *u) {
  size_t total = 0;
  for (uint32_t i = 0; i < n_lives; i++) total += lives[i].n_tasks;
  u->first = calloc((size_t)n + 2, sizeof *u->first);
  u->life = calloc(total + 1, sizeof *u->life);
  if (!u->first || !u->life) return TN_E_NO_MEMORY;
  for (uint32_t i = 0; i < n_lives; i++)
    for (uint32_t k = 0; k < lives[i].n_tasks; k++) {
      if (lives[i].tasks[k] >= n || (k && lives[i].tasks[k] <= lives[i].tasks[k - 1])) return TN_E_INVALID;
      u->first[lives[i].tasks[k] + 2]++;
    }
  for (uint32_t t = 2; t < n + 2; t++) u->first[t] += u->first[t - 1];
  for (uint32_t i = 0; i < n_lives; i++)
    for (uint32_t k = 0; k < lives[i].n_tasks; k++) u->life[u->first[lives[i].tasks[k] + 1]++] = i;
  return TN_OK;
}

static uint32_t last_of(const tni_life *l) { return l->tasks[l->n_tasks - 1]; }

static bool share_bytes(const tni_life *a, const tni_life *b) {
  return a->bytes && b->bytes && a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes;
}

typedef struct sharing {
  const tni_life *lives;
  uint32_t n;
  tni_reach reach; /* rows of the tasks before the one at hand are final */
  users users;
  tni_edges edges;
} sharing;

/* Task t uses life b: all users of earlier lives in the same bytes come before it. The latest of them first: it may
 * bring the others along. */
static tn_status wait_for_others(sharing *s, const tni_life *b, uint32_t t) {
  for (uint32_t i = 0; i < s->n; i++) {
    const tni_life *a = &s->lives[i];
    if (a == b || !share_bytes(a, b) || (a->serial && a->serial == b->serial)) continue;
    if (a->tasks[0] > last_of(b)) continue; /* it will wait for us */
    if (last_of(a) >= b->tasks[0]) return TN_E_INTERNAL;
    for (uint32_t k = a->n_tasks; k-- > 0;) {
      if (tni_precedes(&s->reach, a->tasks[k], t)) continue;
      if (!tni_edges_add(&s->edges, a->tasks[k], t)) return TN_E_NO_MEMORY;
      join_reach(&s->reach, a->tasks[k], t);
    }
  }
  return TN_OK;
}

static tn_status copy_edges(const tni_taskgraph *g, tni_edges *e) {
  for (uint32_t t = 0; t < g->n; t++)
    for (uint32_t i = g->first[t]; i < g->first[t + 1]; i++)
      if (!tni_edges_add(e, g->pred[i], t)) return TN_E_NO_MEMORY;
  return TN_OK;
}

tn_status tni_taskgraph_share(const tni_taskgraph *g, const tni_life *lives, uint32_t n, tni_taskgraph *out) {
  sharing s = {.lives = lives, .n = n};
  tn_status st = new_reach(g->n, &s.reach);
  if (st == TN_OK) st = index_users(lives, n, g->n, &s.users);
  if (st == TN_OK) st = copy_edges(g, &s.edges);
  for (uint32_t t = 0; st == TN_OK && t < g->n; t++) {
    join_preds(&s.reach, g, t);
    for (uint32_t i = s.users.first[t]; st == TN_OK && i < s.users.first[t + 1]; i++)
      st = wait_for_others(&s, &lives[s.users.life[i]], t);
  }
  if (st == TN_OK) st = tni_taskgraph_make(g->n, s.edges.v, s.edges.n, out);
  tni_reach_destroy(&s.reach);
  free(s.users.first);
  free(s.users.life);
  free(s.edges.v);
  return st;
}
