/* SPDX-License-Identifier: Apache-2.0
 *
 * Nodes that are to become one, and whether that node would wait for itself: a way leads out of the set and back.
 *
 * Each live node has a level, above those of all nodes that it waits for. A way back into the set passes only nodes
 * below the set's highest level, so only those are looked at: few, since what is fused stands close together. Levels
 * of nodes that were written meanwhile are learned when the next set begins to grow.
 */
#include <stdlib.h>

#include "runtime/passes/fuse/fuse.h"

bool tni_fuse_set_init(tni_fuse_set *s, const tni_graph *g) {
  *s = (tni_fuse_set){.cap = 2 * g->n_nodes + 16};
  s->member = calloc(s->cap, 1);
  s->seen = calloc(s->cap, sizeof *s->seen);
  s->level = calloc(s->cap, sizeof *s->level);
  s->list = calloc(s->cap, sizeof *s->list);
  s->stack = calloc(s->cap, sizeof *s->stack);
  return s->member && s->seen && s->level && s->list && s->stack;
}

void tni_fuse_set_free(tni_fuse_set *s) {
  free(s->member);
  free(s->seen);
  free(s->level);
  free(s->list);
  free(s->stack);
}

typedef bool (*reader_fn)(const tni_graph *g, tni_fuse_set *s, tn_id node, tn_id reader);

/* Calls fn on each live reader of what node makes. true: fn was, of one of them. */
static bool any_reader(const tni_graph *g, tni_fuse_set *s, tn_id node, reader_fn fn) {
  const tni_node *n = g->nodes[node];
  for (uint32_t o = 0; o < n->pub.n_out; o++) {
    const tni_value *v = tni_match_value(g, n->pub.out[o]);
    for (uint32_t u = 0; v && u < v->pub.n_uses; u++)
      if (!g->nodes[v->pub.uses[u]]->dead && fn(g, s, node, v->pub.uses[u])) return true;
  }
  return false;
}

/* On the stack once at most, so that it has room. */
static void push_once(tni_fuse_set *s, tn_id node) {
  if (s->seen[node] == s->round) return;
  s->seen[node] = s->round;
  s->stack[s->top++] = node;
}

/* A reader stands above what it reads. */
static bool raise_reader(const tni_graph *g, tni_fuse_set *s, tn_id node, tn_id reader) {
  (void)g;
  if (reader >= s->known || s->level[reader] > s->level[node]) return false;
  s->level[reader] = s->level[node] + 1;
  push_once(s, reader);
  return false;
}

/* The level of the next node, and of those that wait for it. */
static void learn_level(const tni_graph *g, tni_fuse_set *s) {
  const tn_id node = s->known++;
  const tni_node *n = g->nodes[node];
  for (uint32_t i = 0; i < n->pub.n_in + n->n_captures; i++) {
    const tni_value *v = tni_match_value(g, i < n->pub.n_in ? n->pub.in[i] : n->captures[i - n->pub.n_in]);
    const tn_id from = v ? v->pub.producer : TN_NONE;
    if (from < s->known && from != node && s->level[from] >= s->level[node]) s->level[node] = s->level[from] + 1;
  }
  s->round++;
  push_once(s, node);
  while (s->top) {
    const tn_id next = s->stack[--s->top];
    s->seen[next] = 0; /* may be raised once more */
    (void)any_reader(g, s, next, raise_reader);
  }
}

/* node is a member, or was reached from one. true: it is not, and the reader is. */
static bool leads_back(const tni_graph *g, tni_fuse_set *s, tn_id node, tn_id reader) {
  (void)g;
  if (s->member[reader]) return !s->member[node];
  if (s->level[reader] < s->highest) push_once(s, reader);
  return false;
}

static bool is_cyclic(const tni_graph *g, tni_fuse_set *s) {
  s->highest = s->top = 0;
  s->round++;
  for (uint32_t i = 0; i < s->n; i++)
    if (s->level[s->list[i]] > s->highest) s->highest = s->level[s->list[i]];
  for (uint32_t i = 0; i < s->n; i++) (void)any_reader(g, s, s->list[i], leads_back);
  while (s->top)
    if (any_reader(g, s, s->stack[--s->top], leads_back)) return true;
  return false;
}

bool tni_fuse_set_add(const tni_graph *g, tni_fuse_set *s, tn_id node) {
  if (g->n_nodes > s->cap || s->member[node]) return false;
  while (s->known < g->n_nodes) learn_level(g, s);
  s->member[node] = 1;
  s->list[s->n++] = node;
  if (s->n == 1 || !is_cyclic(g, s)) return true; /* one node alone is where a graph without cycles leads away from */
  s->member[node] = 0;
  s->n--;
  return false;
}

void tni_fuse_set_clear(tni_graph *g, tni_fuse_set *s, bool kill) {
  for (uint32_t i = 0; i < s->n; i++) {
    s->member[s->list[i]] = 0;
    if (kill) g->nodes[s->list[i]]->dead = true;
  }
  s->n = 0;
}
