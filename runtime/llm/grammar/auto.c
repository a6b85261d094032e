/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/llm/grammar/auto.h"

#include <stdlib.h>
#include <string.h>

void tni_auto_destroy(tni_auto *a) {
  if (!a) return;
  free(a->edges);
  free(a->rules);
  free(a->first);
  free(a->dist);
  free(a->need);
  free(a->ends);
  free(a);
}

static bool grow(tni_auto *a, void **v, size_t *cap, size_t n, size_t size) {
  if (a->failed != TN_OK) return false;
  if (n < *cap) return true;
  const size_t more = *cap ? *cap * 2 : 64;
  void *p = realloc(*v, more * size);
  if (!p) {
    a->failed = TN_E_NO_MEMORY;
    return false;
  }
  *v = p;
  *cap = more;
  return true;
}

uint32_t tni_auto_state(tni_auto *a) {
  if (a->failed == TN_OK && a->n_states >= TNI_AUTO_STATES) a->failed = TN_E_LIMIT;
  return a->failed == TN_OK ? a->n_states++ : 0;
}

uint32_t tni_auto_rule(tni_auto *a) {
  const uint32_t begin = tni_auto_state(a), end = tni_auto_state(a);
  if (!grow(a, (void **)&a->rules, &a->rules_cap, a->n_rules, sizeof *a->rules)) return 0;
  a->rules[a->n_rules] = (tni_rule){begin, end};
  return (uint32_t)a->n_rules++;
}

static void add_edge(tni_auto *a, tni_edge e) {
  if (a->failed == TN_OK && a->n_edges >= (size_t)TNI_AUTO_STATES * 4) a->failed = TN_E_LIMIT;
  if (grow(a, (void **)&a->edges, &a->edges_cap, a->n_edges, sizeof *a->edges)) a->edges[a->n_edges++] = e;
}

void tni_auto_free(tni_auto *a, uint32_t from, uint32_t to) {
  add_edge(a, (tni_edge){.from = from, .to = to, .kind = TNI_EDGE_FREE});
}

void tni_auto_bytes(tni_auto *a, uint32_t from, uint8_t lo, uint8_t hi, uint32_t to) {
  add_edge(a, (tni_edge){.from = from, .to = to, .kind = TNI_EDGE_BYTES, .lo = lo, .hi = hi});
}

void tni_auto_call(tni_auto *a, uint32_t from, uint32_t rule, uint32_t to) {
  add_edge(a, (tni_edge){.from = from, .to = to, .kind = TNI_EDGE_CALL, .rule = rule});
}

void tni_auto_text(tni_auto *a, uint32_t from, const char *s, size_t n, uint32_t to) {
  if (n == 0) tni_auto_free(a, from, to);
  for (size_t i = 0; i < n && a->failed == TN_OK; i++) {
    const uint32_t next = i + 1 == n ? to : tni_auto_state(a);
    tni_auto_bytes(a, from, (uint8_t)s[i], (uint8_t)s[i], next);
    from = next;
  }
}

/* --- when all is there -------------------------------------------------------------------------------------------- */

static bool sort_edges(tni_auto *a) {
  const size_t n = a->n_states;
  tni_edge *sorted = malloc((a->n_edges + 1) * sizeof *sorted);
  uint32_t *at = calloc(n + 2, sizeof *at);
  a->first = calloc(n + 2, sizeof *a->first);
  if (sorted && at && a->first) {
    for (size_t i = 0; i < a->n_edges; i++) a->first[a->edges[i].from + 1]++;
    for (size_t s = 0; s < n; s++) a->first[s + 1] += a->first[s];
    memcpy(at, a->first, (n + 1) * sizeof *at);
    for (size_t i = 0; i < a->n_edges; i++) sorted[at[a->edges[i].from]++] = a->edges[i];
    free(a->edges);
    a->edges = sorted;
    sorted = NULL;
  }
  const bool ok = at && a->first && !sorted;
  free(sorted);
  free(at);
  return ok;
}

static void find_classes(tni_auto *a) {
  bool cut[257] = {true};
  for (size_t i = 0; i < a->n_edges; i++) {
    if (a->edges[i].kind != TNI_EDGE_BYTES) continue;
    cut[a->edges[i].lo] = true;
    cut[a->edges[i].hi + 1] = true;
  }
  uint32_t k = 0;
  for (int b = 0; b < 256; b++) {
    if (b && cut[b]) k++;
    a->class_of[b] = (uint8_t)k;
    a->byte_of[k] = (uint8_t)b;
  }
  a->n_classes = k + 1;
}

static uint32_t add_far(uint32_t x, uint32_t y) { return x >= TNI_AUTO_FAR - y ? TNI_AUTO_FAR : x + y; }

static uint32_t edge_cost(const tni_auto *a, const tni_edge *e, const uint32_t *v, bool depth) {
  const uint32_t to = v[e->to];
  if (e->kind == TNI_EDGE_FREE || (depth && e->kind == TNI_EDGE_BYTES)) return to;
  if (e->kind == TNI_EDGE_BYTES) return add_far(to, 1);
  const uint32_t in = v[a->rules[e->rule].begin];
  if (!depth) return add_far(to, in);
  if (to == TNI_AUTO_FAR || in == TNI_AUTO_FAR) return TNI_AUTO_FAR;
  return in + 1 > to ? in + 1 : to;
}

/* Who has to look again when a state's number falls: the edges that lead there or call the rule that begins there. */
typedef struct backward {
  uint32_t *first, *edge;
} backward;

static bool make_backward(const tni_auto *a, backward *b) {
  const size_t n = a->n_states;
  uint32_t *at = calloc(n + 2, sizeof *at);
  b->first = calloc(n + 2, sizeof *b->first);
  b->edge = malloc((2 * a->n_edges + 1) * sizeof *b->edge);
  if (at && b->first && b->edge) {
    for (int pass = 0; pass < 2; pass++) {
      for (size_t i = 0; i < a->n_edges; i++) {
        const tni_edge *e = &a->edges[i];
        for (int k = 0; k < (e->kind == TNI_EDGE_CALL ? 2 : 1); k++) {
          const uint32_t s = k ? a->rules[e->rule].begin : e->to;
          if (pass == 0)
            b->first[s + 1]++;
          else
            b->edge[at[s]++] = (uint32_t)i;
        }
      }
      for (size_t s = 0; pass == 0 && s < n; s++) b->first[s + 1] += b->first[s];
      if (pass == 0) memcpy(at, b->first, (n + 1) * sizeof *at);
    }
  }
  const bool ok = at && b->first && b->edge;
  free(at);
  return ok;
}

/* The least numbers that fulfil every edge, by a queue of states that have changed. */
static bool settle(const tni_auto *a, const backward *b, uint32_t *v, bool depth) {
  const uint32_t n = a->n_states;
  uint32_t *queue = malloc(((size_t)n + 1) * sizeof *queue), head = 0, tail = 0, waiting = 0;
  bool *in = calloc((size_t)n + 1, sizeof *in);
  if (!queue || !in) {
    free(queue);
    free(in);
    return false;
  }
  for (uint32_t s = 0; s < n; s++) {
    v[s] = a->ends[s] ? 0 : TNI_AUTO_FAR;
    if (!a->ends[s]) continue;
    queue[tail++] = s;
    in[s] = true;
    waiting++;
  }
  for (tail %= n + 1; waiting; waiting--) {
    const uint32_t s = queue[head];
    head = (head + 1) % (n + 1);
    in[s] = false;
    for (uint32_t k = b->first[s]; k < b->first[s + 1]; k++) {
      const tni_edge *e = &a->edges[b->edge[k]];
      const uint32_t cost = edge_cost(a, e, v, depth);
      if (cost >= v[e->from]) continue;
      v[e->from] = cost;
      if (in[e->from]) continue;
      in[e->from] = true;
      queue[tail] = e->from;
      tail = (tail + 1) % (n + 1);
      waiting++;
    }
  }
  free(queue);
  free(in);
  return true;
}

/* Rules that rule r may call before it has read a byte: counted in `called`, and with `order` what that leaves. */
typedef struct lefts {
  uint32_t *stack, *called, *ready;
  uint32_t *seen; /* [n_states] the rule that was here last, + 1 */
  size_t n_ready;
} lefts;

static void walk_left(const tni_auto *a, lefts *l, uint32_t r, bool release) {
  const uint32_t mark = release ? (uint32_t)a->n_rules + r + 1 : r + 1;
  size_t n = 0;
  l->stack[n++] = a->rules[r].begin;
  l->seen[a->rules[r].begin] = mark;
  while (n) {
    const uint32_t s = l->stack[--n];
    for (uint32_t i = a->first[s]; i < a->first[s + 1]; i++) {
      const tni_edge *e = &a->edges[i];
      if (e->kind == TNI_EDGE_BYTES) continue;
      if (e->kind == TNI_EDGE_CALL) {
        if (!release) l->called[e->rule]++;
        if (release && --l->called[e->rule] == 0) l->ready[l->n_ready++] = e->rule;
        if (a->dist[a->rules[e->rule].begin] != 0) continue;
      }
      if (l->seen[e->to] == mark) continue;
      l->seen[e->to] = mark;
      l->stack[n++] = e->to;
    }
  }
}

/* *left: some rule calls itself before it has read a byte. False without memory. */
static bool find_left(const tni_auto *a, bool *left) {
  const size_t n = (size_t)a->n_states + 1, r = a->n_rules + 1;
  lefts l = {malloc(n * sizeof *l.stack), calloc(r, sizeof *l.called), malloc(r * sizeof *l.ready),
             calloc(n, sizeof *l.seen), 0};
  const bool ok = l.stack && l.called && l.ready && l.seen;
  for (uint32_t i = 0; ok && i < a->n_rules; i++) walk_left(a, &l, i, false);
  for (uint32_t i = 0; ok && i < a->n_rules; i++)
    if (!l.called[i]) l.ready[l.n_ready++] = i;
  for (size_t i = 0; ok && i < l.n_ready; i++) walk_left(a, &l, l.ready[i], true);
  *left = l.n_ready < a->n_rules;
  free(l.stack);
  free(l.called);
  free(l.ready);
  free(l.seen);
  return ok;
}

static bool measure(tni_auto *a) {
  backward b = {NULL, NULL};
  bool ok = make_backward(a, &b) && settle(a, &b, a->dist, false) && settle(a, &b, a->need, true);
  free(b.first);
  free(b.edge);
  return ok;
}

tn_status tni_auto_finish(tni_auto *a, uint32_t root, tn_error *err) {
  const size_t n = (size_t)a->n_states + 1;
  bool left = false;
  if (a->failed == TN_E_LIMIT) return tni_fail(err, TN_E_LIMIT, "grammar", "more than %d states", TNI_AUTO_STATES);
  a->root = root;
  a->dist = malloc(n * sizeof *a->dist);
  a->need = malloc(n * sizeof *a->need);
  a->ends = calloc(n, sizeof *a->ends);
  if (a->failed != TN_OK || !a->dist || !a->need || !a->ends || !sort_edges(a)) return tni_fail_memory(err, "grammar");
  for (size_t i = 0; i < a->n_rules; i++) a->ends[a->rules[i].end] = true;
  find_classes(a);
  if (!measure(a) || !find_left(a, &left)) return tni_fail_memory(err, "grammar");
  const uint32_t begin = a->rules[root].begin;
  if (left) return tni_fail(err, TN_E_INVALID, "grammar", "a rule begins with itself (left recursion)");
  if (a->dist[begin] == TNI_AUTO_FAR) return tni_fail(err, TN_E_INVALID, "grammar", "no text has this form");
  if (a->need[begin] > TNI_AUTO_DEPTH)
    return tni_fail(err, TN_E_LIMIT, "grammar", "%u parts inside of parts, at most %d", a->need[begin], TNI_AUTO_DEPTH);
  return TN_OK;
}
