/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "runtime/quantize/write.h"

static size_t hash_of(const char *s) { /* FNV-1a */
  uint64_t h = UINT64_C(14695981039346656037);
  for (; *s; s++) h = (h ^ (uint8_t)*s) * UINT64_C(1099511628211);
  return (size_t)(h ^ h >> 32);
}

static size_t slot_of(const tni_qz_names *s, const char *name) {
  size_t i = hash_of(name) & (s->cap - 1);
  while (s->name[i] && strcmp(s->name[i], name) != 0) i = (i + 1) & (s->cap - 1);
  return i;
}

static bool grow(tni_qz_names *s) {
  tni_qz_names more = {.cap = s->cap ? 2 * s->cap : 64};
  more.name = calloc(more.cap, sizeof *more.name);
  more.number = calloc(more.cap, sizeof *more.number);
  if (!more.name || !more.number) {
    tni_qz_names_finish(&more);
    return false;
  }
  for (size_t i = 0; i < s->cap; i++) {
    if (!s->name[i]) continue;
    const size_t at = slot_of(&more, s->name[i]);
    more.name[at] = s->name[i];
    more.number[at] = s->number[i];
  }
  more.n = s->n;
  tni_qz_names_finish(s);
  *s = more;
  return true;
}

bool tni_qz_names_add(tni_qz_names *s, const char *name, uint32_t number) {
  if (2 * s->n >= s->cap && !grow(s)) return false;
  const size_t i = slot_of(s, name);
  if (s->name[i]) return true;
  s->name[i] = name;
  s->number[i] = number;
  s->n++;
  return true;
}

uint32_t tni_qz_names_find(const tni_qz_names *s, const char *name) {
  if (!s->cap) return UINT32_MAX;
  const size_t i = slot_of(s, name);
  return s->name[i] ? s->number[i] : UINT32_MAX;
}

void tni_qz_names_finish(tni_qz_names *s) {
  free(s->name);
  free(s->number);
  *s = (tni_qz_names){0};
}
