/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/base/map.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "runtime/base/arena.h"

typedef struct slot {
  const void *key; /* NULL: free */
  size_t n;
  uint64_t hash, value;
} slot;

struct tni_map {
  tni_arena *keys; /* NULL: lent */
  slot *slots;
  size_t cap, count;
};

tni_map *tni_map_create_lent(void) {
  tni_map *m = calloc(1, sizeof *m);
  if (!m) return NULL;
  m->cap = 8;
  m->slots = calloc(m->cap, sizeof *m->slots);
  if (m->slots) return m;
  free(m);
  return NULL;
}

tni_map *tni_map_create(void) {
  tni_map *m = tni_map_create_lent();
  if (!m) return NULL;
  m->keys = tni_arena_create();
  if (m->keys) return m;
  tni_map_destroy(m);
  return NULL;
}

void tni_map_destroy(tni_map *m) {
  if (!m) return;
  tni_arena_destroy(m->keys);
  free(m->slots);
  free(m);
}

static slot *find_map_slot(slot *slots, size_t cap, const void *key, size_t n, uint64_t hash) {
  for (size_t i = hash & (cap - 1);; i = (i + 1) & (cap - 1)) {
    slot *s = &slots[i];
    if (!s->key || (s->hash == hash && s->n == n && memcmp(s->key, key, n) == 0)) return s;
  }
}

bool tni_map_get(const tni_map *m, const void *key, size_t n, uint64_t *value) {
  const slot *s = find_map_slot(m->slots, m->cap, key, n, XXH3_64bits(key, n));
  if (!s->key) return false;
  *value = s->value;
  return true;
}

static bool rehash_map(tni_map *m, size_t cap) {
  slot *slots = calloc(cap, sizeof *slots);
  if (!slots) return false;
  for (size_t i = 0; i < m->cap; i++)
    if (m->slots[i].key) *find_map_slot(slots, cap, m->slots[i].key, m->slots[i].n, m->slots[i].hash) = m->slots[i];
  free(m->slots);
  m->slots = slots;
  m->cap = cap;
  return true;
}

/* Keys that so many slots take. */
static size_t slots_room(size_t cap) { return cap / 4 * 3; }

bool tni_map_reserve(tni_map *m, size_t n) {
  size_t cap = m->cap;
  while (slots_room(cap) < n) {
    if (cap > SIZE_MAX / 2 / sizeof *m->slots) return false;
    cap *= 2;
  }
  return cap == m->cap || rehash_map(m, cap);
}

bool tni_map_put(tni_map *m, const void *key, size_t n, uint64_t value) {
  if (m->count >= slots_room(m->cap) && !rehash_map(m, m->cap * 2)) return false;
  uint64_t hash = XXH3_64bits(key, n);
  slot *s = find_map_slot(m->slots, m->cap, key, n, hash);
  if (!s->key) {
    const void *own = m->keys ? tni_arena_memdup(m->keys, key, n, 1) : key;
    if (!own) return false;
    *s = (slot){own, n, hash, value};
    m->count++;
  }
  s->value = value;
  return true;
}

size_t tni_map_count(const tni_map *m) { return m->count; }
bool tni_map_get_str(const tni_map *m, const char *key, uint64_t *value) {
  return tni_map_get(m, key, strlen(key), value);
}
bool tni_map_put_str(tni_map *m, const char *key, uint64_t value) { return tni_map_put(m, key, strlen(key), value); }
