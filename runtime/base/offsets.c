/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/offsets.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base/checked.h"
#include "runtime/base/offsets_sweep.h"

enum { ALL_PAIRS = 4096 }; /* above so many regions time must not grow with their square */

typedef struct item {
  const tn_interval *iv;
  uint64_t area; /* bytes x life, saturated */
  uint32_t index;
} item;

typedef struct placed {
  uint64_t offset, end;
  int64_t first, last;
} placed;

static int by_index(const item *a, const item *b) { return a->index < b->index ? -1 : a->index > b->index; }
static int descending_u64(uint64_t a, uint64_t b) { return a > b ? -1 : a < b; }

static int by_size(const void *pa, const void *pb) {
  const item *a = pa, *b = pb;
  int c = descending_u64(a->iv->bytes, b->iv->bytes);
  if (!c) c = descending_u64(a->area, b->area);
  return c ? c : by_index(a, b);
}

static int by_birth(const void *pa, const void *pb) {
  const item *a = pa, *b = pb;
  if (a->iv->first != b->iv->first) return a->iv->first < b->iv->first ? -1 : 1;
  int c = descending_u64(a->iv->bytes, b->iv->bytes);
  return c ? c : by_index(a, b);
}

static int by_area(const void *pa, const void *pb) {
  const item *a = pa, *b = pb;
  int c = descending_u64(a->area, b->area);
  if (!c) c = descending_u64(a->iv->bytes, b->iv->bytes);
  return c ? c : by_index(a, b);
}

static uint64_t area_of(const tn_interval *iv) {
  uint64_t life = (uint64_t)iv->last - (uint64_t)iv->first, area;
  if (life < UINT64_MAX) life++;
  return __builtin_mul_overflow(iv->bytes, life, &area) ? UINT64_MAX : area;
}

static bool align_up(uint64_t v, uint64_t align, uint64_t *out) {
  if (align <= 1) return *out = v, true;
  if (__builtin_add_overflow(v, align - 1, &v)) return false;
  *out = v & ~(align - 1);
  return true;
}

/* Smallest gap between the regions alive with iv that holds it, else after them all. list is sorted by offset. */
static bool best_fit(const placed *list, uint32_t n, const tn_interval *iv, uint64_t *at) {
  uint64_t cursor = 0, best = 0, slack = UINT64_MAX;
  for (uint32_t i = 0; i < n; i++) {
    const placed *p = &list[i];
    if (p->last < iv->first || p->first > iv->last) continue;
    uint64_t start;
    if (!align_up(cursor, iv->align, &start)) return false;
    if (p->offset >= start && p->offset - start >= iv->bytes && p->offset - cursor - iv->bytes < slack) {
      best = start;
      slack = p->offset - cursor - iv->bytes;
    }
    if (p->end > cursor) cursor = p->end;
  }
  if (slack != UINT64_MAX) return *at = best, true;
  return align_up(cursor, iv->align, at);
}

static void insert_placed(placed *list, uint32_t n, placed p) {
  while (n > 0 && list[n - 1].offset > p.offset) {
    list[n] = list[n - 1];
    n--;
  }
  list[n] = p;
}

static bool place_items(const item *items, uint32_t n, placed *list, uint64_t *offsets, uint64_t *total) {
  uint32_t n_list = 0;
  *total = 0;
  for (uint32_t i = 0; i < n; i++) {
    const tn_interval *iv = items[i].iv;
    uint64_t at = 0, end;
    if (iv->bytes && !best_fit(list, n_list, iv, &at)) return false;
    if (__builtin_add_overflow(at, iv->bytes, &end) || end > INT64_MAX) return false;
    offsets[items[i].index] = at;
    if (!iv->bytes) continue;
    insert_placed(list, n_list++, (placed){at, end, iv->first, iv->last});
    if (end > *total) *total = end;
  }
  return true;
}

typedef struct planner {
  uint32_t n;
  const tn_interval *iv;
  item *items;
  placed *list;
  uint64_t *now, *best; /* offsets */
  uint64_t best_total;
} planner;

/* Places in the order of p->items; keeps what is better. false: sizes overflow. */
static bool attempt_plan(planner *p, uint64_t *total) {
  if (!place_items(p->items, p->n, p->list, p->now, total)) return false;
  if (*total >= p->best_total) return true;
  uint64_t *swap = p->best;
  p->best = p->now;
  p->now = swap;
  p->best_total = *total;
  return true;
}

/* What ends at the top goes first in the next attempt, as long as that may help. */
static void improve_plan(planner *p, uint64_t bound) {
  enum { ATTEMPTS = 48, WORK = 1 << 24 };
  const uint64_t each = (uint64_t)p->n * p->n + 1;
  uint64_t total = p->best_total;
  const uint64_t *at = p->best;
  for (uint32_t i = 0; i < ATTEMPTS && i * each < WORK && p->best_total > bound; i++) {
    uint32_t top = 0;
    for (uint32_t k = 1; k < p->n; k++)
      if (at[p->items[k].index] + p->items[k].iv->bytes == total) top = k;
    const item first = p->items[top];
    memmove(p->items + 1, p->items, top * sizeof *p->items);
    p->items[0] = first;
    const uint64_t before = p->best_total;
    if (!attempt_plan(p, &total)) return;
    at = p->best_total < before ? p->best : p->now;
  }
}

/* Region i, by its birth and by its last step. */
static int first_birth(const void *pa, const void *pb) {
  const tn_interval *a = *(const tn_interval *const *)pa, *b = *(const tn_interval *const *)pb;
  return a->first < b->first ? -1 : a->first > b->first;
}

static int first_death(const void *pa, const void *pb) {
  const tn_interval *a = *(const tn_interval *const *)pa, *b = *(const tn_interval *const *)pb;
  return a->last < b->last ? -1 : a->last > b->last;
}

/* No placement can be smaller: the largest sum of bytes alive at one step. 0 where sums overflow. */
static uint64_t most_alive(uint32_t n, const tn_interval *iv) {
  const tn_interval **list = calloc(2 * (size_t)n, sizeof *list), **births = list, **deaths = list + n;
  uint64_t most = 0, sum = 0;
  for (uint32_t i = 0; list && i < n; i++) births[i] = deaths[i] = &iv[i];
  if (list) qsort(births, n, sizeof *births, first_birth);
  if (list) qsort(deaths, n, sizeof *deaths, first_death);
  for (uint32_t i = 0, gone = 0; list && i < n; i++) { /* the maximum is reached at some region's birth */
    for (; deaths[gone]->last < births[i]->first; gone++) sum -= deaths[gone]->bytes;
    if (__builtin_add_overflow(sum, births[i]->bytes, &sum)) {
      most = 0;
      break;
    }
    if (sum > most) most = sum;
  }
  free(list);
  return most;
}

static void plan_offsets(planner *p) {
  static int (*const orders[])(const void *, const void *) = {by_size, by_birth, by_area};
  const uint64_t bound = most_alive(p->n, p->iv);
  for (uint32_t o = 0; o < sizeof orders / sizeof *orders && p->best_total > bound; o++) {
    uint64_t total;
    for (uint32_t i = 0; i < p->n; i++) p->items[i] = (item){&p->iv[i], area_of(&p->iv[i]), i};
    qsort(p->items, p->n, sizeof *p->items, orders[o]);
    const uint64_t before = p->best_total;
    if (attempt_plan(p, &total) && p->best_total < before) improve_plan(p, bound);
  }
}

tn_status tni_plan_offsets(uint32_t n, tn_interval *iv, uint64_t *total) {
  for (uint32_t i = 0; i < n; i++)
    if (iv[i].first > iv[i].last || (iv[i].align & (iv[i].align - 1))) return TN_E_INVALID;
  if (n == 0) return *total = 0, TN_OK;

  planner p = {.n = n, .iv = iv, .best_total = UINT64_MAX};
  p.items = calloc(n, sizeof *p.items);
  p.list = calloc(n, sizeof *p.list);
  p.now = calloc(n, sizeof *p.now);
  p.best = calloc(n, sizeof *p.best);
  tn_status st = p.items && p.list && p.now && p.best ? TN_OK : TN_E_NO_MEMORY;
  if (st == TN_OK && n <= ALL_PAIRS) plan_offsets(&p);
  if (st == TN_OK && n > ALL_PAIRS) st = tni_sweep_offsets(n, iv, p.best, &p.best_total);
  if (st == TN_OK && p.best_total == UINT64_MAX) st = TN_E_LIMIT;
  if (st == TN_OK) {
    for (uint32_t i = 0; i < n; i++) iv[i].offset = p.best[i];
    *total = p.best_total;
  }
  free(p.items);
  free(p.list);
  free(p.now);
  free(p.best);
  return st;
}
