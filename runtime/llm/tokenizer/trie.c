/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/llm/tokenizer/trie.h"

#include <stdlib.h>
#include <string.h>

#include "runtime/base/base.h"

typedef struct word {
  tni_view v;
  int32_t id;
} word;

/* Words that share a node's bytes. */
typedef struct range {
  uint32_t lo, hi, depth;
} range;

typedef struct trie_build {
  const word *words;
  tni_trie_node *nodes;
  range *ranges; /* beside nodes */
  size_t n, cap;
} trie_build;

static int by_text(const void *pa, const void *pb) {
  const word *a = pa, *b = pb;
  int c = memcmp(a->v.v, b->v.v, a->v.n < b->v.n ? a->v.n : b->v.n);
  if (c == 0) c = (a->v.n > b->v.n) - (a->v.n < b->v.n);
  return c ? c : (a->id > b->id) - (a->id < b->id);
}

static bool same_words(const word *a, const word *b) { return a->v.n == b->v.n && memcmp(a->v.v, b->v.v, a->v.n) == 0; }

/* Sorted, without empty words, of equal ones the last. */
static size_t sort_words(word *out, const tni_view *words, size_t n) {
  size_t k = 0;
  for (size_t i = 0; i < n; i++)
    if (words[i].n) out[k++] = (word){words[i], (int32_t)i};
  if (k) qsort(out, k, sizeof *out, by_text);
  size_t m = 0;
  for (size_t i = 0; i < k; i++) {
    if (m && same_words(&out[m - 1], &out[i])) m--;
    out[m++] = out[i];
  }
  return m;
}

static bool add_node(trie_build *b, uint8_t label, range r) {
  if (b->n == b->cap) {
    size_t cap = b->cap ? b->cap * 2 : 256, bytes;
    if (cap > UINT32_MAX || !tni_mul_size(cap, sizeof *b->ranges, &bytes)) return false;
    void *p = realloc(b->nodes, cap * sizeof *b->nodes);
    if (p) b->nodes = p;
    void *q = realloc(b->ranges, bytes);
    if (q) b->ranges = q;
    if (!p || !q) return false;
    b->cap = cap;
  }
  b->nodes[b->n] = (tni_trie_node){0, -1, 0, label};
  b->ranges[b->n++] = r;
  return true;
}

/* Breadth first, so that the children of a node lie side by side. */
static bool add_children(trie_build *b, size_t at) {
  range r = b->ranges[at];
  if (r.hi - r.lo == 1 && at) {
    b->nodes[at].id = b->words[r.lo].id;
    return true;
  }
  uint32_t i = r.lo, children = 0;
  if (i < r.hi && b->words[i].v.n == r.depth) b->nodes[at].id = b->words[i++].id;
  b->nodes[at].first = (uint32_t)b->n;
  for (uint32_t e; i < r.hi; i = e, children++) {
    char c = b->words[i].v.v[r.depth];
    for (e = i + 1; e < r.hi && b->words[e].v.v[r.depth] == c;) e++;
    if (!add_node(b, (uint8_t)c, (range){i, e, r.depth + 1})) return false;
  }
  b->nodes[at].children = (uint16_t)children;
  return true;
}

bool tni_trie_build(tni_trie *t, tni_arena *arena, const tni_view *words, size_t n) {
  size_t bytes;
  word *sorted = n < INT32_MAX && tni_mul_size(n + 1, sizeof *sorted, &bytes) ? malloc(bytes) : NULL;
  if (!sorted) return false;
  trie_build b = {.words = sorted};
  bool ok = add_node(&b, 0, (range){0, (uint32_t)sort_words(sorted, words, n), 0});
  for (size_t i = 0; ok && i < b.n; i++) ok = add_children(&b, i);
  tni_trie_node *nodes = ok ? tni_arena_memdup(arena, b.nodes, b.n * sizeof *nodes, _Alignof(tni_trie_node)) : NULL;
  if (nodes) *t = (tni_trie){nodes, b.n, words};
  free(b.nodes);
  free(b.ranges);
  free(sorted);
  return nodes != NULL;
}

/* --- walking ------------------------------------------------------------------------------------------------------ */

tni_trie_walk tni_trie_begin(const tni_trie *t, const char *s, size_t n) {
  return (tni_trie_walk){t, s, n, 0, t->nodes};
}

static const tni_trie_node *trie_child(const tni_trie *t, const tni_trie_node *x, uint8_t label) {
  size_t lo = x->first, hi = lo + x->children;
  while (lo < hi) {
    size_t mid = lo + (hi - lo) / 2;
    if (t->nodes[mid].label < label)
      lo = mid + 1;
    else
      hi = mid;
  }
  return lo < (size_t)x->first + x->children && t->nodes[lo].label == label ? &t->nodes[lo] : NULL;
}

/* The rest of a leaf's word. */
static int32_t trie_leaf(tni_trie_walk *w) {
  int32_t id = w->at->id;
  const tni_view *v = &w->t->words[id];
  bool whole = v->n <= w->n && memcmp(w->s + w->depth, v->v + w->depth, v->n - w->depth) == 0;
  w->at = NULL;
  return whole ? id : -1;
}

int32_t tni_trie_next(tni_trie_walk *w) {
  while (w->at && w->depth < w->n) {
    w->at = trie_child(w->t, w->at, (uint8_t)w->s[w->depth]);
    w->depth++;
    if (w->at && !w->at->children) return trie_leaf(w);
    if (w->at && w->at->id >= 0) return w->at->id;
  }
  w->at = NULL;
  return -1;
}
