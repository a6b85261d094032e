/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "runtime/graph/priv.h"

/* A subgraph that takes the place of its node. to[v]: the value of g that value v of the subgraph becomes. */
typedef struct move {
  tni_graph *g, *sub;
  tni_node *node;
  tn_id *to;
  tn_error *err;
} move;

static bool is_made(const tni_value *v) {
  return v->captured == TN_NONE && (v->pub.kind == TN_VALUE_ACT || v->pub.kind == TN_VALUE_OUTPUT);
}

static bool can_move(const move *m) {
  if (m->sub->n_inputs || m->sub->n_states || m->sub->n_outputs != m->node->pub.n_out) return false;
  for (uint32_t i = 0; i < m->sub->n_values; i++) {
    const tni_value *v = m->sub->values[i];
    if (v->captured == TN_NONE && !is_made(v) && v->pub.kind != TN_VALUE_CONST) return false;
  }
  return true;
}

/* Names stay where the graph around has none of them. */
static tn_id copy_value(move *m, const tni_value *v) {
  const char *name = tni_graph_find(m->g, v->pub.name) == TN_NONE ? v->pub.name : "";
  const tn_id id = tni_graph_add_value(m->g, name, TN_VALUE_ACT, v->pub.dtype);
  if (id == TN_NONE) return id;
  tni_value *c = m->g->values[id];
  if (v->pub.kind == TN_VALUE_CONST) return tni_value_set_tensor(m->g, id, v->tensor, &v->origin) ? TN_NONE : id;
  c->declared = v->declared;
  c->hint_rank = v->hint_rank;
  c->hint_dims = v->hint_dims;
  c->type = v->type;
  return id;
}

/* What the subgraph makes and gives out, it makes in the node's own result. */
static tn_status map_values(move *m) {
  for (uint32_t i = 0; i < m->sub->n_values; i++) m->to[i] = m->sub->values[i]->captured;
  for (uint32_t o = 0; o < m->sub->n_outputs; o++) {
    const tn_id v = m->sub->outputs[o];
    if (is_made(m->sub->values[v]) && m->to[v] == TN_NONE) m->to[v] = m->node->pub.out[o];
  }
  for (uint32_t i = 0; i < m->sub->n_values; i++)
    if (m->to[i] == TN_NONE && (m->to[i] = copy_value(m, m->sub->values[i])) == TN_NONE)
      return tni_fail_memory(m->err, m->node->pub.name);
  return TN_OK;
}

/* A graph of one of the moved nodes comes along: what it captures lies in g now. */
static void move_graph(move *m, tni_graph *inner) {
  for (uint32_t i = 0; i < m->sub->n_subs; i++)
    if (m->sub->subs[i] == inner) m->sub->subs[i--] = m->sub->subs[--m->sub->n_subs];
  inner->owned = false;
  for (uint32_t i = 0; i < inner->n_values; i++)
    if (inner->values[i]->captured != TN_NONE) inner->values[i]->captured = m->to[inner->values[i]->captured];
}

static tn_status move_node(move *m, const tni_node *n) {
  const uint32_t n_in = n->pub.n_in, n_out = n->pub.n_out;
  tn_id *v = calloc((size_t)n_in + n_out + 1, sizeof *v);
  if (!v) return tni_fail_memory(m->err, n->pub.name);
  for (uint32_t i = 0; i < n_in + n_out; i++) {
    const tn_id id = i < n_in ? n->pub.in[i] : n->pub.out[i - n_in];
    v[i] = id == TN_NONE ? TN_NONE : m->to[id];
  }
  for (uint32_t a = 0; a < n->n_raw; a++)
    for (uint32_t k = 0; k < n->raw[a].n_graphs; k++) move_graph(m, n->raw[a].graphs[k]);
  const tn_status st = tni_graph_add_node(m->g, n->pub.name, n->pub.domain, n->type, n->version, v, n_in, v + n_in,
                                          n_out, n->raw, n->n_raw, NULL, m->err);
  free(v);
  return st;
}

static tn_status move_nodes(move *m) {
  tn_status st = TN_OK;
  m->node->dead = true;
  for (uint32_t i = 0; i < m->sub->n_nodes && !st; i++)
    if (!m->sub->nodes[i]->dead) st = move_node(m, m->sub->nodes[i]);
  m->sub->n_nodes = 0;
  for (uint32_t o = 0; o < m->sub->n_outputs && !st; o++) {
    const tn_id v = m->to[m->sub->outputs[o]], out = m->node->pub.out[o];
    if (out != TN_NONE && v != out)
      st = tni_graph_add_node(m->g, "", "", "Identity", 16, &v, 1, &out, 1, NULL, 0, NULL, m->err);
  }
  return st;
}

tn_status tni_graph_inline(tni_graph *g, tn_id node, tni_graph *sub, bool *done, tn_error *err) {
  move m = {.g = g, .sub = sub, .node = g->nodes[node], .err = err};
  *done = can_move(&m);
  if (!*done) return TN_OK;
  m.to = malloc(((size_t)sub->n_values + 1) * sizeof *m.to);
  tn_status st = m.to ? map_values(&m) : tni_fail_memory(err, m.node->pub.name);
  if (!st) st = move_nodes(&m);
  free(m.to);
  return st;
}
