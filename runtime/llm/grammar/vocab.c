/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/llm/grammar/vocab.h"

#include <stdlib.h>
#include <string.h>

typedef struct sorted {
  tni_view v;
  int32_t id;
} sorted;

static int by_bytes(const void *pa, const void *pb) {
  const sorted *a = pa, *b = pb;
  const size_t n = a->v.n < b->v.n ? a->v.n : b->v.n;
  int c = n ? memcmp(a->v.v, b->v.v, n) : 0;
  if (!c) c = (a->v.n > b->v.n) - (a->v.n < b->v.n);
  return c ? c : (a->id > b->id) - (a->id < b->id);
}

void tni_vocab_destroy(tni_vocab *v) {
  if (!v) return;
  free(v->nodes);
  free(v->bytes);
  free(v->memory);
  free(v->also);
  free(v);
}

/* Bytes of all tokens, one after the other, and where each lies. */
static bool read_bytes(tni_vocab *v, bool (*bytes)(void *user, int32_t id, tni_str *out), void *user) {
  tni_str all = {0};
  size_t *end = malloc((v->n + 1) * sizeof *end);
  bool ok = end != NULL;
  for (size_t i = 0; ok && i < v->n; i++) {
    ok = bytes(user, (int32_t)i, &all) && !all.failed;
    end[i] = all.n;
  }
  v->memory = all.v;
  for (size_t i = 0, at = 0; ok && i < v->n; at = end[i++])
    if (end[i] > at && end[i] - at <= UINT16_MAX) v->bytes[i] = (tni_view){all.v + at, end[i] - at};
  free(end);
  return ok;
}

static size_t common(tni_view a, tni_view b) {
  size_t k = 0;
  while (k < a.n && k < b.n && a.v[k] == b.v[k]) k++;
  return k;
}

/* Words come sorted: what the last one has in common with the next stays open. */
static void link_nodes(tni_vocab *v, const sorted *w, size_t n, uint32_t *open) {
  tni_view last = {"", 0};
  for (size_t i = 0; i < n; last = w[i++].v) {
    const size_t same = common(last, w[i].v);
    if (i && same == w[i].v.n && same == last.n) { /* the same bytes */
      int32_t *at = &v->nodes[open[same - 1]].id;
      while (v->also[*at] >= 0) at = &v->also[*at];
      v->also[*at] = w[i].id;
      continue;
    }
    for (size_t d = last.n; d-- > same;) v->nodes[open[d]].next = (uint32_t)v->n_nodes;
    for (size_t d = same; d < w[i].v.n; d++) {
      open[d] = (uint32_t)v->n_nodes;
      v->nodes[v->n_nodes++] = (tni_vocab_node){0, -1, (uint16_t)d, (uint8_t)w[i].v.v[d]};
    }
    v->nodes[v->n_nodes - 1].id = w[i].id;
    if (w[i].v.n > v->deepest) v->deepest = w[i].v.n;
  }
  for (size_t d = last.n; d-- > 0;) v->nodes[open[d]].next = (uint32_t)v->n_nodes;
}

static bool build_trie(tni_vocab *v) {
  sorted *w = malloc((v->n + 1) * sizeof *w);
  size_t n = 0, most = 0;
  uint32_t *open = malloc(((size_t)UINT16_MAX + 1) * sizeof *open);
  for (size_t i = 0; w && i < v->n; i++)
    if (v->bytes[i].n) w[n++] = (sorted){v->bytes[i], (int32_t)i};
  if (w && n) qsort(w, n, sizeof *w, by_bytes);
  for (size_t i = 0; w && i < n; i++) most += w[i].v.n - (i ? common(w[i - 1].v, w[i].v) : 0);
  if (w && open && most < UINT32_MAX) v->nodes = malloc((most + 1) * sizeof *v->nodes);
  if (v->nodes) link_nodes(v, w, n, open);
  free(w);
  free(open);
  return v->nodes != NULL;
}

tni_vocab *tni_vocab_create(size_t n, bool (*bytes)(void *user, int32_t id, tni_str *out), void *user) {
  tni_vocab *v = calloc(1, sizeof *v);
  if (!v) return NULL;
  v->n = n;
  v->bytes = calloc(n + 1, sizeof *v->bytes);
  v->also = malloc((n + 1) * sizeof *v->also);
  for (size_t i = 0; v->also && i < n; i++) v->also[i] = -1;
  if (v->bytes && v->also && read_bytes(v, bytes, user) && build_trie(v)) return v;
  tni_vocab_destroy(v);
  return NULL;
}

size_t tni_vocab_longest(const tni_vocab *v, const uint8_t *s, size_t n) {
  size_t best = 0;
  uint32_t at = 0, end = (uint32_t)v->n_nodes;
  for (size_t d = 0; d < n && at < end;) {
    while (at < end && v->nodes[at].byte != s[d]) at = v->nodes[at].next;
    if (at >= end) break;
    if (v->nodes[at].id >= 0) best = d + 1;
    end = v->nodes[at++].next;
    d++;
  }
  return best;
}
