/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/graph/priv.h"

/* Depth first over producers, in file order: a node that stands too late moves to just before its first reader, all
 * others keep their places. (Taking the smallest ready index would keep the file's order too, but would put every
 * consumer of an appended node after all that does not need it.) No recursion: files choose the depth. */
typedef struct walk {
  const tni_graph *g;
  uint8_t *state;   /* per node: 0 new, 1 on the stack, 2 done */
  uint32_t *cursor; /* per node: next input to look at */
  tn_id *stack, *order;
  uint32_t depth, done;
} walk;

static tn_id input_at(const tni_node *n, uint32_t i) {
  return i < n->pub.n_in ? n->pub.in[i] : n->captures[i - n->pub.n_in];
}

/* The producer of the next input that is not in order yet, or TN_NONE. */
static tn_id next_producer(walk *w, tn_id id) {
  const tni_node *n = w->g->nodes[id];
  uint32_t total = n->dead ? 0 : n->pub.n_in + n->n_captures;
  while (w->cursor[id] < total) {
    tn_id v = input_at(n, w->cursor[id]++);
    tn_id p = v == TN_NONE ? TN_NONE : w->g->values[v]->pub.producer;
    if (p != TN_NONE && w->state[p] != 2) return p;
  }
  return TN_NONE;
}

/* The stack holds readers below what they read; the text goes the way of the data. */
static tn_status fail_cycle(const walk *w, tn_id again, tn_error *err) {
  char text[180] = "";
  const tni_node *n = w->g->nodes[again];
  uint32_t first = w->depth - 1;
  while (w->stack[first] != again) first--;
  size_t used = (size_t)snprintf(text, sizeof text, "'%s'", n->pub.name);
  for (uint32_t i = w->depth; i-- > first && used < sizeof text;)
    used += (size_t)snprintf(text + used, sizeof text - used, " -> '%s'", w->g->nodes[w->stack[i]]->pub.name);
  if (used >= sizeof text) memcpy(text + sizeof text - 4, "...", 4);
  uint32_t count = w->depth - first;
  return tni_fail_node(err, TN_E_INVALID, n, again, "reads its own result: a cycle of %u node%s, %s", count,
                       count == 1 ? "" : "s", text);
}

static tn_status place_producers(walk *w, tn_id start, tn_error *err) {
  w->stack[w->depth++] = start;
  w->state[start] = 1;
  while (w->depth) {
    tn_id top = w->stack[w->depth - 1], p = next_producer(w, top);
    if (p == TN_NONE) {
      w->state[top] = 2;
      w->order[w->done++] = top;
      w->depth--;
    } else if (w->state[p] == 1) {
      return fail_cycle(w, p, err);
    } else {
      w->state[p] = 1;
      w->stack[w->depth++] = p;
    }
  }
  return TN_OK;
}

tn_status tni_graph_order(const tni_graph *g, tn_id *order, bool *changed, tn_error *err) {
  size_t n = g->n_nodes ? g->n_nodes : 1;
  walk w = {.g = g, .order = order};
  w.state = calloc(n, sizeof *w.state);
  w.cursor = calloc(n, sizeof *w.cursor);
  w.stack = calloc(n, sizeof *w.stack);
  tn_status st = w.state && w.cursor && w.stack ? TN_OK : tni_fail_memory(err, g->name);
  for (tn_id i = 0; st == TN_OK && i < g->n_nodes; i++)
    if (w.state[i] == 0) st = place_producers(&w, i, err);
  *changed = false;
  for (tn_id i = 0; st == TN_OK && i < g->n_nodes; i++) *changed = *changed || order[i] != i;
  free(w.state);
  free(w.cursor);
  free(w.stack);
  return st;
}
