/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/llm/grammar/places.h"

#include <stdlib.h>
#include <string.h>

/* A call that is open: where it goes on, and the one around it. Equal lists are one. */
typedef struct call {
  uint32_t to, around, dist, depth;
} call;

enum { CALLS_MOST = 1 << 22 };

/* Open addressing over numbers that are kept elsewhere. */
typedef struct table {
  uint32_t *v; /* number + 1; 0: free */
  size_t cap, n;
} table;

struct tni_places {
  const tni_auto *a;
  tni_place *v;
  uint32_t *rows;
  tni_way *ways;
  call *calls;
  size_t n, cap, n_ways, ways_cap, n_calls, calls_cap;
  table by_ways, by_call;
  tni_way *set; /* [TNI_PLACE_WAYS] what is being made: n_set, of which the first `done` are followed */
  size_t n_set;
  uint64_t *seen; /* what the set has: (state, calls) + 1 */
  uint32_t *stamp, now;
  bool whole;
  tn_status failed;
};

enum { SEEN = TNI_PLACE_WAYS * 4 };

static uint64_t mix(uint64_t x) {
  x ^= x >> 32;
  x *= UINT64_C(0x9e3779b97f4a7c15);
  return x ^ x >> 29;
}

tni_places *tni_places_create(const tni_auto *a) {
  tni_places *p = calloc(1, sizeof *p);
  if (!p) return NULL;
  p->a = a;
  p->set = malloc(TNI_PLACE_WAYS * sizeof *p->set);
  p->seen = malloc(SEEN * sizeof *p->seen);
  p->stamp = calloc(SEEN, sizeof *p->stamp);
  p->calls = calloc(64, sizeof *p->calls);
  p->calls_cap = 64;
  p->n_calls = 1; /* 0: none is open */
  if (p->set && p->seen && p->stamp && p->calls) {
    tni_places_forget(p);
    return p;
  }
  tni_places_destroy(p);
  return NULL;
}

void tni_places_destroy(tni_places *p) {
  if (!p) return;
  free(p->v);
  free(p->rows);
  free(p->ways);
  free(p->calls);
  free(p->by_ways.v);
  free(p->by_call.v);
  free(p->set);
  free(p->seen);
  free(p->stamp);
  free(p);
}

void tni_places_forget(tni_places *p) {
  p->n = TNI_PLACE_FIRST;
  p->n_ways = 0;
  free(p->by_ways.v);
  p->by_ways = (table){0};
}

bool tni_places_full(const tni_places *p) { return p->n >= TNI_PLACES_MANY; }

tn_status tni_places_status(const tni_places *p, tn_error *err) {
  if (p->failed == TN_E_NO_MEMORY) return tni_fail_memory(err, "grammar");
  if (p->failed != TN_OK)
    return tni_fail(err, p->failed, "grammar", "the text can be read in too many ways (%d at once, %d for one token)",
                    TNI_PLACE_WAYS, TNI_PLACES_MOST);
  return TN_OK;
}

tni_place *tni_places_at(tni_places *p, uint32_t place) { return &p->v[place]; }

const tni_way *tni_places_ways(const tni_places *p, uint32_t place) { return p->ways + p->v[place].first; }

static bool grow(tni_places *p, void **v, size_t *cap, size_t n, size_t size) {
  if (n <= *cap) return true;
  size_t more = *cap ? *cap : 64;
  while (more < n) more *= 2;
  void *q = realloc(*v, more * size);
  if (!q) p->failed = TN_E_NO_MEMORY;
  if (!q) return false;
  *v = q;
  *cap = more;
  return true;
}

/* --- what is equal is found once ---------------------------------------------------------------------------------- */

typedef uint64_t (*hash_fn)(const tni_places *p, uint32_t i);

static uint64_t hash_call(const tni_places *p, uint32_t i) {
  return mix((uint64_t)p->calls[i].to << 32 | p->calls[i].around);
}

static uint64_t hash_ways(const tni_way *w, size_t n, bool whole) {
  uint64_t h = n * 2 + whole;
  for (size_t i = 0; i < n; i++) h = mix(h ^ ((uint64_t)w[i].state << 32 | w[i].calls)) + i;
  return h;
}

static uint64_t hash_place(const tni_places *p, uint32_t i) {
  return hash_ways(p->ways + p->v[i].first, p->v[i].n, p->v[i].whole);
}

/* Room for one more. */
static bool table_room(tni_places *p, table *t, hash_fn hash) {
  if (t->n * 2 < t->cap) return true;
  const size_t cap = t->cap ? t->cap * 2 : 256;
  uint32_t *v = calloc(cap, sizeof *v);
  if (!v) p->failed = TN_E_NO_MEMORY;
  if (!v) return false;
  for (size_t i = 0; i < t->cap; i++) {
    if (!t->v[i]) continue;
    size_t at = hash(p, t->v[i] - 1) & (cap - 1);
    while (v[at]) at = (at + 1) & (cap - 1);
    v[at] = t->v[i];
  }
  free(t->v);
  t->v = v;
  t->cap = cap;
  return true;
}

static uint32_t open_call(tni_places *p, uint32_t to, uint32_t around) {
  if (!table_room(p, &p->by_call, hash_call)) return 0;
  const size_t mask = p->by_call.cap - 1;
  size_t at = mix((uint64_t)to << 32 | around) & mask;
  for (; p->by_call.v[at]; at = (at + 1) & mask) {
    const call *c = &p->calls[p->by_call.v[at] - 1];
    if (c->to == to && c->around == around) return p->by_call.v[at] - 1;
  }
  if (p->n_calls >= CALLS_MOST) p->failed = TN_E_LIMIT;
  if (p->failed != TN_OK || !grow(p, (void **)&p->calls, &p->calls_cap, p->n_calls + 1, sizeof *p->calls)) return 0;
  const call *c = &p->calls[around];
  p->calls[p->n_calls] = (call){to, around, c->dist + p->a->dist[to], c->depth + 1};
  p->by_call.v[at] = (uint32_t)p->n_calls + 1;
  p->by_call.n++;
  return (uint32_t)p->n_calls++;
}

static int by_way(const void *pa, const void *pb) {
  const tni_way *a = pa, *b = pb;
  if (a->state != b->state) return a->state < b->state ? -1 : 1;
  return (a->calls > b->calls) - (a->calls < b->calls);
}

static uint32_t make_place(tni_places *p, const tni_way *w, size_t n, bool whole) {
  size_t cap = p->cap, rows_cap = p->cap * p->a->n_classes;
  if (p->n >= TNI_PLACES_MOST) p->failed = TN_E_LIMIT;
  if (p->failed != TN_OK || !grow(p, (void **)&p->v, &cap, p->n + 1, sizeof *p->v) ||
      !grow(p, (void **)&p->ways, &p->ways_cap, p->n_ways + n, sizeof *p->ways))
    return TNI_PLACE_NONE;
  if (cap != p->cap && !grow(p, (void **)&p->rows, &rows_cap, cap * p->a->n_classes, sizeof *p->rows))
    return TNI_PLACE_NONE;
  p->cap = cap;
  tni_place x = {.first = p->n_ways, .n = (uint32_t)n, .dist = TNI_AUTO_FAR, .tokens = -1, .mask = -1, .whole = whole};
  for (size_t i = 0; i < n; i++) {
    const uint64_t d = (uint64_t)p->a->dist[w[i].state] + p->calls[w[i].calls].dist;
    if (d < x.dist) x.dist = (uint32_t)d;
  }
  if (whole) x.dist = 0;
  if (n) memcpy(p->ways + p->n_ways, w, n * sizeof *w);
  p->n_ways += n;
  p->v[p->n] = x;
  memset(p->rows + p->n * p->a->n_classes, 0, p->a->n_classes * sizeof *p->rows);
  return (uint32_t)p->n++;
}

uint32_t tni_places_of(tni_places *p, const tni_way *w, size_t n, bool whole) {
  if (p->failed != TN_OK || !table_room(p, &p->by_ways, hash_place)) return TNI_PLACE_NONE;
  const size_t mask = p->by_ways.cap - 1;
  size_t at = hash_ways(w, n, whole) & mask;
  for (; p->by_ways.v[at]; at = (at + 1) & mask) {
    const uint32_t i = p->by_ways.v[at] - 1;
    if (p->v[i].n == n && p->v[i].whole == whole && (!n || !memcmp(p->ways + p->v[i].first, w, n * sizeof *w)))
      return i;
  }
  const uint32_t made = make_place(p, w, n, whole);
  if (made == TNI_PLACE_NONE) return made;
  p->by_ways.v[at] = made + 1;
  p->by_ways.n++;
  return made;
}

/* --- following edges that read nothing ---------------------------------------------------------------------------- */

static void begin_set(tni_places *p) {
  p->n_set = 0;
  p->whole = false;
  if (!++p->now) {
    memset(p->stamp, 0, SEEN * sizeof *p->stamp);
    p->now = 1;
  }
}

/* Left out where there is no way to the end of the text from there, or none within the depth. */
static void add_way(tni_places *p, uint32_t state, uint32_t calls) {
  const uint32_t depth = p->calls[calls].depth;
  if (p->a->dist[state] == TNI_AUTO_FAR || depth + p->a->need[state] > TNI_AUTO_DEPTH) return;
  const uint64_t key = (uint64_t)state << 32 | calls;
  size_t at = mix(key) % SEEN;
  for (; p->stamp[at] == p->now; at = (at + 1) % SEEN)
    if (p->seen[at] == key) return;
  if (p->n_set == TNI_PLACE_WAYS) p->failed = TN_E_LIMIT;
  if (p->failed != TN_OK) return;
  p->stamp[at] = p->now;
  p->seen[at] = key;
  p->set[p->n_set++] = (tni_way){state, calls};
}

static void follow(tni_places *p, tni_way w) {
  const tni_auto *a = p->a;
  if (a->ends[w.state] && !w.calls) p->whole = true;
  if (a->ends[w.state] && w.calls) add_way(p, p->calls[w.calls].to, p->calls[w.calls].around);
  for (uint32_t i = a->first[w.state]; i < a->first[w.state + 1]; i++) {
    const tni_edge *e = &a->edges[i];
    if (e->kind == TNI_EDGE_FREE) add_way(p, e->to, w.calls);
    if (e->kind != TNI_EDGE_CALL || a->dist[e->to] == TNI_AUTO_FAR) continue;
    /* What goes on at an end goes on after it: lists of rules that repeat do not grow. */
    const bool last = a->ends[e->to] && a->first[e->to] == a->first[e->to + 1];
    add_way(p, a->rules[e->rule].begin, last ? w.calls : open_call(p, e->to, w.calls));
  }
}

static bool reads(const tni_auto *a, uint32_t state) {
  for (uint32_t i = a->first[state]; i < a->first[state + 1]; i++)
    if (a->edges[i].kind == TNI_EDGE_BYTES) return true;
  return false;
}

static uint32_t end_set(tni_places *p) {
  for (size_t i = 0; i < p->n_set && p->failed == TN_OK; i++) follow(p, p->set[i]);
  size_t n = 0;
  for (size_t i = 0; i < p->n_set; i++)
    if (reads(p->a, p->set[i].state)) p->set[n++] = p->set[i];
  if (p->failed != TN_OK || (!n && !p->whole)) return TNI_PLACE_NONE;
  if (n) qsort(p->set, n, sizeof *p->set, by_way);
  return tni_places_of(p, p->set, n, p->whole);
}

uint32_t tni_places_begin(tni_places *p) {
  begin_set(p);
  add_way(p, p->a->rules[p->a->root].begin, 0);
  return end_set(p);
}

uint32_t tni_places_next(tni_places *p, uint32_t place, uint8_t b) {
  const tni_auto *a = p->a;
  const size_t cell = place * (size_t)a->n_classes + a->class_of[b];
  if (p->rows[cell] != TNI_PLACE_UNKNOWN) return p->rows[cell];
  const tni_place x = p->v[place];
  begin_set(p);
  for (size_t i = x.first; i < x.first + x.n; i++) {
    const tni_way w = p->ways[i];
    for (uint32_t k = a->first[w.state]; k < a->first[w.state + 1]; k++) {
      const tni_edge *e = &a->edges[k];
      if (e->kind == TNI_EDGE_BYTES && e->lo <= b && b <= e->hi) add_way(p, e->to, w.calls);
    }
  }
  const uint32_t next = end_set(p);
  if (p->failed == TN_OK) p->rows[cell] = next;
  return next;
}
