/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/arena.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base/checked.h"

typedef struct block {
  struct block *next;
  size_t used, cap;
  _Alignas(64) unsigned char data[];
} block;

struct tni_arena {
  block *head;
  size_t next_cap;
  bool lacked;
  tni_budget *budget;
  uint64_t billed;
};

enum { FIRST_BLOCK = 256, MAX_BLOCK = 1 << 20 };

tni_arena *tni_arena_create(void) {
  tni_arena *a = calloc(1, sizeof *a);
  if (a) a->next_cap = FIRST_BLOCK;
  return a;
}

void tni_arena_destroy(tni_arena *a) {
  if (!a) return;
  tni_arena_bill(a, NULL);
  for (block *b = a->head, *next; b; b = next) {
    next = b->next;
    free(b);
  }
  free(a);
}

void tni_arena_bill(tni_arena *a, tni_budget *b) {
  tni_budget_give(a->budget, a->billed);
  a->budget = b;
  a->billed = 0;
}

static block *grow_arena(tni_arena *a, size_t bytes) {
  size_t cap = a->next_cap, total;
  if (cap < bytes) cap = bytes;
  if (!tni_add_size(sizeof(block), cap, &total) || !tni_add_size(total, 63, &total)) return NULL;
  total &= ~(size_t)63;
  block *b = tni_budget_bytes(a->budget, total) ? aligned_alloc(64, total) : NULL;
  if (!b) return NULL;
  if (a->budget) a->billed += total;
  b->cap = total - sizeof(block);
  b->used = 0;
  if (a->head && bytes > a->next_cap) { /* a large one goes after it, so that the current block stays in use */
    b->next = a->head->next;
    a->head->next = b;
  } else {
    b->next = a->head;
    a->head = b;
  }
  if (a->next_cap < MAX_BLOCK) a->next_cap *= 2;
  return b;
}

static void *take_from_block(block *b, size_t bytes, size_t align) {
  size_t at = (b->used + align - 1) & ~(align - 1);
  if (at > b->cap || bytes > b->cap - at) return NULL;
  b->used = at + bytes;
  return memset(b->data + at, 0, bytes);
}

void *tni_arena_alloc(tni_arena *a, size_t bytes, size_t align) {
  if (bytes == 0) bytes = 1;
  void *p = a->head ? take_from_block(a->head, bytes, align) : NULL;
  if (p) return p;
  size_t want;
  block *b = tni_add_size(bytes, align, &want) ? grow_arena(a, want) : NULL;
  a->lacked = a->lacked || !b;
  return b ? take_from_block(b, bytes, align) : NULL;
}

void *tni_arena_array(tni_arena *a, size_t count, size_t size, size_t align) {
  size_t bytes;
  if (tni_mul_size(count, size, &bytes)) return tni_arena_alloc(a, bytes, align);
  a->lacked = true;
  return NULL;
}

bool tni_arena_short(const tni_arena *a) { return a->lacked; }

void *tni_arena_memdup(tni_arena *a, const void *p, size_t bytes, size_t align) {
  void *d = tni_arena_alloc(a, bytes, align);
  if (d && bytes) memcpy(d, p, bytes);
  return d;
}

char *tni_arena_strndup(tni_arena *a, const char *s, size_t n) {
  size_t bytes;
  if (!tni_add_size(n, 1, &bytes)) return NULL;
  char *d = tni_arena_alloc(a, bytes, 1);
  if (d && n) memcpy(d, s, n);
  return d;
}

char *tni_arena_strdup(tni_arena *a, const char *s) { return tni_arena_strndup(a, s, strlen(s)); }
