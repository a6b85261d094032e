/* SPDX-License-Identifier: Apache-2.0
 *
 * Blocks stand in a list by offset and cover the arena; a gap is a block that no region holds. Gaps hang in classes of
 * size, sixteen to a power of two, found by a bitmap (the "two-level segregated fit" of Masmano and others, 2004). The
 * last block is the rest of the address space, so that a search always ends.
 */
#include "runtime/base/offsets_sweep.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

enum { SPLIT_BITS = 4, CLASSES = 64 << SPLIT_BITS, NONE = -1 };

typedef struct swept_block {
  uint64_t offset, bytes;
  int32_t before, after;   /* by offset */
  int32_t smaller, larger; /* neighbours in the class of a gap */
  bool gap;
} swept_block;

typedef struct sweep {
  swept_block *blocks;
  int32_t n_blocks, unused; /* unused: blocks to take again, by `after` */
  int32_t first[CLASSES];
  uint64_t some[CLASSES / 64];
  uint64_t align, end;
} sweep;

static uint32_t class_of(uint64_t bytes) {
  if (bytes < 1 << SPLIT_BITS) return (uint32_t)bytes;
  uint32_t log = 63 - (uint32_t)__builtin_clzll(bytes);
  return (log - SPLIT_BITS + 1) << SPLIT_BITS | (uint32_t)(bytes >> (log - SPLIT_BITS) & ((1 << SPLIT_BITS) - 1));
}

/* The first class whose every gap holds so many bytes. */
static uint32_t class_holding(uint64_t bytes) {
  if (bytes < 1 << SPLIT_BITS) return (uint32_t)bytes;
  uint32_t log = 63 - (uint32_t)__builtin_clzll(bytes);
  uint64_t step = UINT64_C(1) << (log - SPLIT_BITS);
  return class_of(bytes) + ((bytes & (step - 1)) != 0);
}

static void gap_hang(sweep *s, int32_t b) {
  uint32_t c = class_of(s->blocks[b].bytes);
  s->blocks[b].gap = true;
  s->blocks[b].smaller = NONE;
  s->blocks[b].larger = s->first[c];
  if (s->first[c] != NONE) s->blocks[s->first[c]].smaller = b;
  s->first[c] = b;
  s->some[c / 64] |= UINT64_C(1) << c % 64;
}

static void gap_unhang(sweep *s, int32_t b) {
  swept_block *k = &s->blocks[b];
  uint32_t c = class_of(k->bytes);
  k->gap = false;
  if (k->larger != NONE) s->blocks[k->larger].smaller = k->smaller;
  if (k->smaller != NONE) {
    s->blocks[k->smaller].larger = k->larger;
    return;
  }
  s->first[c] = k->larger;
  if (k->larger == NONE) s->some[c / 64] &= ~(UINT64_C(1) << c % 64);
}

static int32_t gap_find(const sweep *s, uint64_t bytes) {
  int32_t same = s->first[class_of(bytes)]; /* regions of one size are common: theirs may fit exactly */
  if (same != NONE && s->blocks[same].bytes >= bytes) return same;
  uint32_t c = class_holding(bytes);
  for (uint32_t w = c / 64; w < CLASSES / 64; w++) {
    uint64_t bits = s->some[w];
    if (w == c / 64) bits &= ~UINT64_C(0) << c % 64;
    if (bits) return s->first[w * 64 + (uint32_t)__builtin_ctzll(bits)];
  }
  return NONE;
}

static int32_t block_new(sweep *s, swept_block v) {
  int32_t b = s->unused;
  if (b == NONE)
    b = s->n_blocks++;
  else
    s->unused = s->blocks[b].after;
  s->blocks[b] = v;
  return b;
}

/* b takes in the block after it. */
static void block_join(sweep *s, int32_t b) {
  int32_t a = s->blocks[b].after;
  s->blocks[b].bytes += s->blocks[a].bytes;
  s->blocks[b].after = s->blocks[a].after;
  if (s->blocks[a].after != NONE) s->blocks[s->blocks[a].after].before = b;
  s->blocks[a].after = s->unused;
  s->unused = a;
}

static int32_t region_take(sweep *s, uint64_t bytes) {
  int32_t b = gap_find(s, bytes);
  if (b == NONE) return NONE;
  gap_unhang(s, b);
  if (s->blocks[b].bytes > bytes) {
    swept_block *k = &s->blocks[b];
    int32_t rest = block_new(s, (swept_block){k->offset + bytes, k->bytes - bytes, b, k->after, NONE, NONE, false});
    if (s->blocks[rest].after != NONE) s->blocks[s->blocks[rest].after].before = rest;
    s->blocks[b].after = rest;
    s->blocks[b].bytes = bytes;
    gap_hang(s, rest);
  }
  return b;
}

static void region_give(sweep *s, int32_t b) {
  int32_t after = s->blocks[b].after, before = s->blocks[b].before;
  if (after != NONE && s->blocks[after].gap) {
    gap_unhang(s, after);
    block_join(s, b);
  }
  if (before != NONE && s->blocks[before].gap) {
    gap_unhang(s, before);
    block_join(s, before);
    b = before;
  }
  gap_hang(s, b);
}

typedef struct event {
  int64_t at;
  uint32_t index;
  bool death;
} event;

/* A life includes its last step: deaths come after the births of the same step. */
static int by_time(const void *pa, const void *pb) {
  const event *a = pa, *b = pb;
  if (a->at != b->at) return a->at < b->at ? -1 : 1;
  if (a->death != b->death) return a->death ? 1 : -1;
  return a->index < b->index ? -1 : a->index > b->index;
}

static bool round_up(uint64_t v, uint64_t align, uint64_t *out) {
  if (__builtin_add_overflow(v, align - 1, &v)) return false;
  *out = v & ~(align - 1);
  return true;
}

static tn_status sweep_walk(sweep *s, const tn_interval *iv, const event *events, uint64_t n, int32_t *holds,
                            uint64_t *offsets) {
  for (uint64_t i = 0; i < n; i++) {
    uint32_t k = events[i].index;
    if (events[i].death) {
      region_give(s, holds[k]);
      continue;
    }
    uint64_t bytes;
    holds[k] = round_up(iv[k].bytes, s->align, &bytes) ? region_take(s, bytes) : NONE;
    if (holds[k] == NONE) return TN_E_LIMIT;
    offsets[k] = s->blocks[holds[k]].offset;
    if (offsets[k] + iv[k].bytes > s->end) s->end = offsets[k] + iv[k].bytes;
  }
  return TN_OK;
}

static uint64_t list_events(uint32_t n, const tn_interval *iv, event *events) {
  uint64_t n_events = 0;
  for (uint32_t i = 0; i < n; i++) {
    if (!iv[i].bytes) continue;
    events[n_events++] = (event){iv[i].first, i, false};
    events[n_events++] = (event){iv[i].last, i, true};
  }
  return n_events;
}

tn_status tni_sweep_offsets(uint32_t n, const tn_interval *iv, uint64_t *offsets, uint64_t *total) {
  if (n > INT32_MAX / 2 - 1) return TN_E_LIMIT;
  sweep s = {.unused = NONE, .align = 1};
  memset(s.first, NONE, sizeof s.first);
  for (uint32_t i = 0; i < n; i++) {
    offsets[i] = 0;
    if (iv[i].align > s.align) s.align = iv[i].align;
  }
  event *events = calloc(2 * (size_t)n + 1, sizeof *events);
  int32_t *holds = calloc((size_t)n + 1, sizeof *holds);
  s.blocks = calloc(2 * (size_t)n + 2, sizeof *s.blocks);
  tn_status st = events && holds && s.blocks ? TN_OK : TN_E_NO_MEMORY;
  if (st == TN_OK) {
    uint64_t n_events = list_events(n, iv, events);
    qsort(events, n_events, sizeof *events, by_time);
    uint64_t all = INT64_MAX & ~(s.align - 1);
    gap_hang(&s, block_new(&s, (swept_block){0, all, NONE, NONE, NONE, NONE, false}));
    st = sweep_walk(&s, iv, events, n_events, holds, offsets);
    *total = s.end;
  }
  free(s.blocks);
  free(holds);
  free(events);
  return st;
}
