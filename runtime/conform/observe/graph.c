/* SPDX-License-Identifier: Apache-2.0
 *
 * A graph lent for a call: nodes, values, symbols, states, names, dims, uses and attributes are copies, which are taken
 * back after it. Weights, statistics, and attributes that are tensors or graphs are the host's own.
 */
#include <string.h>

#include "runtime/conform/observe/layer.h"

/* Twice over the same graph: first counting only. */
typedef struct walk {
  tni_cf_loan *l; /* NULL: counting */
  size_t bytes;
} walk;

static void *lend(walk *w, const void *p, size_t n) {
  if (!p) return NULL;
  w->bytes += (n + 15) / 16 * 16;
  return w->l ? tni_cf_loan_copy(w->l, p, n) : (void *)(uintptr_t)p;
}

/* lend() of a struct whose members are lent in turn: where it is only counted, `room` of n bytes takes what is set. oldest: its bytes
 * in ABI 1.0. */
static void *lend_head(walk *w, const void *p, size_t oldest, void *room, size_t n) {
  tn_hdr h;
  if (!p) return NULL;
  if (w->l) return tni_obs_lend_struct(w->l, p, oldest);
  memcpy(&h, p, sizeof h);
  w->bytes += (h.size + 15) / 16 * 16 + TNI_OBS_MORE;
  return memcpy(room, p, n < h.size ? n : h.size);
}

static const char *lend_text(walk *w, const char *s) { return s ? lend(w, s, strlen(s) + 1) : NULL; }

static const char *const *lend_texts(walk *w, const char *const *s, uint64_t n) {
  const char **list = lend(w, s, (size_t)n * sizeof *list);
  for (uint64_t i = 0; list && i < n; i++) {
    const char *text = lend_text(w, s[i]);
    if (w->l) list[i] = text;
  }
  return list;
}

static const tn_attr *lend_attr(walk *w, const tn_attr *a) {
  tn_attr none, *copy = lend_head(w, a, TN_UPTO(tn_attr, u), &none, sizeof none);
  if (!copy) return NULL;
  if (TN_HAS(copy, tn_attr, name)) copy->name = lend_text(w, a->name);
  if (a->n && a->type == TN_ATTR_STRING) copy->u.s = lend(w, a->u.s, (size_t)a->n + 1);
  if (a->n && a->type == TN_ATTR_INTS) copy->u.ints = lend(w, a->u.ints, (size_t)a->n * sizeof *a->u.ints);
  if (a->n && a->type == TN_ATTR_FLOATS) copy->u.floats = lend(w, a->u.floats, (size_t)a->n * sizeof *a->u.floats);
  if (a->n && a->type == TN_ATTR_STRINGS) copy->u.strings = lend_texts(w, a->u.strings, a->n);
  return w->l ? copy : a;
}

static const tn_node *lend_node(walk *w, const tn_node *n) {
  tn_node none, *copy = lend_head(w, n, TN_UPTO(tn_node, domain), &none, sizeof none);
  if (!copy) return n;
  copy->in = lend(w, n->in, n->n_in * sizeof *n->in);
  copy->out = lend(w, n->out, n->n_out * sizeof *n->out);
  copy->name = lend_text(w, n->name);
  copy->domain = lend_text(w, n->domain);
  if (TN_HAS(copy, tn_node, type)) copy->type = lend_text(w, n->type);
  const tn_attr **list = lend(w, n->attr, n->n_attr * sizeof *list);
  copy->attr = list;
  for (uint32_t i = 0; list && i < n->n_attr; i++) {
    const tn_attr *a = lend_attr(w, n->attr[i]);
    if (w->l) list[i] = a;
  }
  return w->l ? copy : n;
}

static const tn_value *lend_value(walk *w, const tn_value *v) {
  tn_value none, *copy = lend_head(w, v, sizeof *v, &none, sizeof none);
  if (!copy) return v;
  copy->dims = lend(w, v->dims, v->rank * sizeof *v->dims);
  copy->uses = lend(w, v->uses, v->n_uses * sizeof *v->uses);
  copy->name = lend_text(w, v->name);
  tn_state state;
  copy->state = lend_head(w, v->state, sizeof *v->state, &state, sizeof state);
  return w->l ? copy : v;
}

static const tn_symbol *lend_symbol(walk *w, const tn_symbol *s) {
  tn_symbol none, *copy = lend_head(w, s, sizeof *s, &none, sizeof none);
  if (!copy) return s;
  copy->name = lend_text(w, s->name);
  return w->l ? copy : s;
}

/* NULL where it is only counted. */
static const tn_graph *walk_graph(walk *w, const tn_graph *g) {
  tn_graph *head = w->l ? tni_obs_lend_struct(w->l, g, sizeof *g) : NULL;
  w->bytes += (sizeof *g + 15) / 16 * 16 + TNI_OBS_MORE;
  const tn_node **nodes = lend(w, g->nodes, g->n_nodes * sizeof *nodes);
  const tn_value **values = lend(w, g->values, g->n_values * sizeof *values);
  const tn_symbol **symbols = lend(w, g->symbols, g->n_symbols * sizeof *symbols);
  for (uint32_t i = 0; nodes && i < g->n_nodes; i++) {
    const tn_node *n = lend_node(w, g->nodes[i]);
    if (w->l) nodes[i] = n;
  }
  for (uint32_t i = 0; values && i < g->n_values; i++) {
    const tn_value *v = lend_value(w, g->values[i]);
    if (w->l) values[i] = v;
  }
  for (uint32_t i = 0; symbols && i < g->n_symbols; i++) {
    const tn_symbol *s = lend_symbol(w, g->symbols[i]);
    if (w->l) symbols[i] = s;
  }
  if (!head) return NULL;
  if (nodes) head->nodes = nodes;
  if (values) head->values = values;
  if (symbols) head->symbols = symbols;
  return head;
}

size_t tni_obs_graph_bytes(const tn_graph *g) {
  walk w = {.l = NULL};
  (void)walk_graph(&w, g);
  return w.bytes;
}

const tn_graph *tni_obs_lend_graph(tni_cf_loan *l, const tn_graph *g) {
  walk w = {.l = l};
  const tn_graph *head = walk_graph(&w, g);
  return head ? head : g;
}
