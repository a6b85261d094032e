/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "runtime/memory/choose_order.h"

/* Every task that uses a comes before every task that uses b. */
static bool is_before(const tni_reach *r, const tni_life *a, const tni_life *b) {
  if (a->tasks[a->n_tasks - 1] >= b->tasks[0]) return false;
  for (uint32_t i = 0; i < a->n_tasks; i++)
    for (uint32_t k = 0; k < b->n_tasks; k++)
      if (!tni_precedes(r, a->tasks[i], b->tasks[k])) return false;
  return true;
}

static bool may_share(const tni_reach *r, const tni_life *a, const tni_life *b) {
  return !b->bytes || (a->serial && a->serial == b->serial) || is_before(r, a, b) || is_before(r, b, a);
}

typedef struct entry {
  const tni_life *life;
  uint32_t index;
} entry;

static int larger_first(const void *pa, const void *pb) {
  const entry *a = pa, *b = pb;
  if (a->life->bytes != b->life->bytes) return a->life->bytes > b->life->bytes ? -1 : 1;
  return a->index < b->index ? -1 : 1;
}

/* The lowest offset that is free for l. placed: by offset. TN_E_LIMIT: there is none. */
static tn_status find_place(const tni_reach *r, tni_life *const *placed, uint32_t n, tni_life *l) {
  const uint64_t align = l->align ? l->align : 1;
  uint64_t at = 0;
  for (uint32_t i = 0; i < n; i++) {
    const tni_life *p = placed[i];
    if (p->offset >= at && p->offset - at >= l->bytes) {
      /* It fits before this one; those after it may still begin before the end, but they begin no earlier. */
      break;
    }
    if (p->offset + p->bytes <= at || may_share(r, l, p)) continue;
    if (__builtin_add_overflow(p->offset + p->bytes, align - 1, &at)) return TN_E_LIMIT;
    at &= ~(align - 1);
  }
  l->offset = at;
  return at > UINT64_MAX - l->bytes ? TN_E_LIMIT : TN_OK;
}

static void insert_life(tni_life **placed, uint32_t n, tni_life *l) {
  uint32_t i = n;
  for (; i > 0 && placed[i - 1]->offset > l->offset; i--) placed[i] = placed[i - 1];
  placed[i] = l;
}

tn_status tni_lives_spread(const tni_taskgraph *g, tni_life *lives, uint32_t n, uint64_t *arena) {
  tni_reach r = {0};
  entry *by_size = calloc((size_t)n + 1, sizeof *by_size);
  tni_life **placed = calloc((size_t)n + 1, sizeof *placed);
  tn_status st = by_size && placed ? tni_reach_make(g, &r) : TN_E_NO_MEMORY;
  *arena = 0;
  for (uint32_t i = 0; st == TN_OK && i < n; i++) by_size[i] = (entry){&lives[i], i};
  if (st == TN_OK) qsort(by_size, n, sizeof *by_size, larger_first);
  for (uint32_t i = 0; st == TN_OK && i < n; i++) {
    tni_life *l = &lives[by_size[i].index];
    l->offset = 0;
    if (!l->bytes) continue;
    st = find_place(&r, placed, i, l);
    if (st == TN_OK) insert_life(placed, i, l);
    if (st == TN_OK && l->offset + l->bytes > *arena) *arena = l->offset + l->bytes;
  }
  tni_reach_destroy(&r);
  free(by_size);
  free(placed);
  return st;
}
