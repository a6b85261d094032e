/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/llm/grammar/nfa.h"

#include <stdlib.h>
#include <string.h>

void tni_nfa_init(tni_nfa *x) { *x = (tni_nfa){.n_states = 2}; }

void tni_nfa_finish(tni_nfa *x) {
  for (size_t i = 0; i < x->n_sets; i++) tni_chars_finish(&x->sets[i]);
  free(x->sets);
  free(x->edges);
  free(x->first);
  *x = (tni_nfa){0};
}

static bool grow(tni_nfa *x, void **v, size_t *cap, size_t n, size_t size) {
  if (x->failed != TN_OK) return false;
  if (n < *cap) return true;
  const size_t more = *cap ? *cap * 2 : 16;
  void *p = realloc(*v, more * size);
  if (!p) x->failed = TN_E_NO_MEMORY;
  if (!p) return false;
  *v = p;
  *cap = more;
  return true;
}

uint32_t tni_nfa_state(tni_nfa *x) {
  if (x->failed == TN_OK && x->n_states >= TNI_NFA_STATES) x->failed = TN_E_LIMIT;
  return x->failed == TN_OK ? x->n_states++ : 0;
}

int32_t tni_nfa_set(tni_nfa *x, tni_chars *c) {
  if (c->failed) x->failed = TN_E_NO_MEMORY;
  for (size_t i = 0; i < x->n_sets; i++) {
    if (x->sets[i].n != c->n || (c->n && memcmp(x->sets[i].v, c->v, c->n * sizeof *c->v) != 0)) continue;
    tni_chars_finish(c);
    return (int32_t)i;
  }
  if (!grow(x, (void **)&x->sets, &x->sets_cap, x->n_sets, sizeof *x->sets)) {
    tni_chars_finish(c);
    return 0;
  }
  x->sets[x->n_sets] = *c;
  *c = (tni_chars){0};
  return (int32_t)x->n_sets++;
}

void tni_nfa_edge_add(tni_nfa *x, uint32_t from, int32_t set, uint32_t to) {
  if (x->failed == TN_OK && x->n_edges >= (size_t)TNI_NFA_STATES * 4) x->failed = TN_E_LIMIT;
  if (grow(x, (void **)&x->edges, &x->edges_cap, x->n_edges, sizeof *x->edges))
    x->edges[x->n_edges++] = (tni_nfa_edge){from, to, set};
}

static int by_from(const void *pa, const void *pb) {
  const tni_nfa_edge *a = pa, *b = pb;
  return (a->from > b->from) - (a->from < b->from);
}

static bool index_edges(tni_nfa *x) {
  if (x->first) return true;
  x->first = calloc((size_t)x->n_states + 2, sizeof *x->first);
  if (!x->first) return false;
  if (x->n_edges) qsort(x->edges, x->n_edges, sizeof *x->edges, by_from);
  for (size_t i = 0; i < x->n_edges; i++) x->first[x->edges[i].from + 1]++;
  for (size_t s = 0; s < x->n_states; s++) x->first[s + 1] += x->first[s];
  return true;
}

/* --- several and a length as one ---------------------------------------------------------------------------------- */

/* A state of each of them, and the characters so far as far as they matter. */
typedef struct together {
  uint32_t at[TNI_NFA_TOGETHER], count;
} together;

typedef struct product {
  tni_auto *a;
  const tni_string_form *f;
  tni_map *known;   /* together -> state of a */
  tni_map *of_sets; /* ranges -> rule of a */
  together *open;
  size_t n_open, open_cap, made;
  uint32_t to;
  bool json;
} product;

static void fail(product *p, tn_status st) {
  if (p->a->failed == TN_OK) p->a->failed = st;
}

static uint32_t state_of(product *p, const together *t) {
  uint64_t v;
  if (tni_map_get(p->known, t, sizeof *t, &v)) return (uint32_t)v;
  const uint32_t s = tni_auto_state(p->a);
  if (++p->made > TNI_NFA_STATES * 2) fail(p, TN_E_LIMIT);
  if (p->n_open == p->open_cap) {
    const size_t cap = p->open_cap ? p->open_cap * 2 : 64;
    together *open = realloc(p->open, cap * sizeof *open);
    if (!open) fail(p, TN_E_NO_MEMORY);
    if (!open) return s;
    p->open = open;
    p->open_cap = cap;
  }
  if (!tni_map_put(p->known, t, sizeof *t, s)) fail(p, TN_E_NO_MEMORY);
  p->open[p->n_open++] = *t;
  return s;
}

/* Large sets are rules of their own: a string of a thousand characters refers to one. */
static void read_set(product *p, uint32_t from, const tni_chars *c, uint32_t to) {
  uint64_t rule;
  if (c->n == 1 && c->v[0].hi < 0x80 && !p->json) {
    tni_auto_bytes(p->a, from, (uint8_t)c->v[0].lo, (uint8_t)c->v[0].hi, to);
    return;
  }
  const size_t bytes = c->n * sizeof *c->v;
  if (!tni_map_get(p->of_sets, c->v, bytes, &rule)) {
    rule = tni_auto_rule(p->a);
    if (p->a->failed != TN_OK) return;
    tni_chars_emit(p->a, p->a->rules[rule].begin, c, p->json, p->a->rules[rule].end);
    if (!tni_map_put(p->of_sets, c->v, bytes, rule)) fail(p, TN_E_NO_MEMORY);
  }
  tni_auto_call(p->a, from, (uint32_t)rule, to);
}

/* One edge of each of them from the k-th on; c: what all before have read. */
static void step_all(product *p, const together *t, together *next, size_t k, const tni_chars *c, uint32_t from) {
  const tni_string_form *f = p->f;
  if (p->a->failed != TN_OK) return;
  if (k == f->n) {
    next->count = t->count < f->least || f->most != UINT32_MAX ? t->count + 1 : t->count;
    if (c->n && next->count <= f->most) read_set(p, from, c, state_of(p, next));
    return;
  }
  const tni_nfa *x = f->all[k];
  for (uint32_t i = x->first[t->at[k]]; i < x->first[t->at[k] + 1]; i++) {
    if (x->edges[i].set == TNI_NFA_FREE) continue;
    tni_chars both = {0};
    tni_chars_both(&both, c, &x->sets[x->edges[i].set]);
    if (both.failed) fail(p, TN_E_NO_MEMORY);
    next->at[k] = x->edges[i].to;
    if (both.n) step_all(p, t, next, k + 1, &both, from);
    tni_chars_finish(&both);
  }
}

static void step_free(product *p, const together *t, uint32_t from) {
  bool ends = t->count >= p->f->least;
  for (size_t k = 0; k < p->f->n; k++) {
    const tni_nfa *x = p->f->all[k];
    ends = ends && t->at[k] == 1;
    for (uint32_t i = x->first[t->at[k]]; i < x->first[t->at[k] + 1]; i++) {
      if (x->edges[i].set != TNI_NFA_FREE) continue;
      together next = *t;
      next.at[k] = x->edges[i].to;
      tni_auto_free(p->a, from, state_of(p, &next));
    }
  }
  if (ends) tni_auto_free(p->a, from, p->to);
}

void tni_nfa_emit(tni_auto *a, uint32_t from, const tni_string_form *f, bool json, uint32_t to) {
  product p = {.a = a, .f = f, .known = tni_map_create(), .of_sets = tni_map_create(), .to = to, .json = json};
  tni_char_range every = {0, TNI_CHAR_LAST};
  const tni_chars all = {&every, 1, 0, false};
  bool ok = p.known && p.of_sets;
  for (size_t k = 0; k < f->n; k++) {
    if (f->all[k]->failed != TN_OK) fail(&p, f->all[k]->failed);
    ok = ok && index_edges(f->all[k]);
  }
  if (!ok) fail(&p, TN_E_NO_MEMORY);
  together t = {0};
  if (a->failed == TN_OK) tni_auto_free(a, from, state_of(&p, &t));
  while (p.n_open && a->failed == TN_OK) {
    t = p.open[--p.n_open];
    const uint32_t s = state_of(&p, &t);
    together next = t;
    step_free(&p, &t, s);
    step_all(&p, &t, &next, 0, &all, s);
  }
  free(p.open);
  tni_map_destroy(p.known);
  tni_map_destroy(p.of_sets);
}
