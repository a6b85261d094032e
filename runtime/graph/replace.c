/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "runtime/graph/priv.h"

static bool is_made(const tni_value *v) { return v->pub.kind == TN_VALUE_ACT || v->pub.kind == TN_VALUE_OUTPUT; }

static bool exchange_names(tni_graph *g, tn_id a, tn_id b) {
  tni_value *va = g->values[a], *vb = g->values[b];
  if (!tni_map_put_str(g->names, va->pub.name, b)) return false;
  if (!tni_map_put_str(g->names, vb->pub.name, a)) return false; /* cannot happen: both keys are there */
  const char *name = va->pub.name;
  va->pub.name = vb->pub.name;
  vb->pub.name = name;
  return true;
}

static tn_status move_output(tni_graph *g, tn_id from, tn_id to) {
  tni_value *vf = g->values[from], *vt = g->values[to];
  if (!is_made(vf) || !is_made(vt) || vt->is_output) return TN_E_UNSUPPORTED;
  if (!exchange_names(g, from, to)) return TN_E_NO_MEMORY;
  for (uint32_t i = 0; i < g->n_outputs; i++)
    if (g->outputs[i] == from) g->outputs[i] = to;
  vf->is_output = false;
  vf->pub.kind = TN_VALUE_ACT;
  vt->is_output = true;
  vt->pub.kind = TN_VALUE_OUTPUT;
  return TN_OK;
}

static void swap_id(const tn_id *ids, uint32_t n, tn_id from, tn_id to) {
  for (uint32_t i = 0; i < n; i++)
    if (ids[i] == from) ((tn_id *)ids)[i] = to; /* our own array, shown const by the ABI's struct */
}

static void swap_captured(const tni_node *n, tn_id from, tn_id to) {
  for (uint32_t i = 0; i < n->n_raw; i++) {
    for (uint32_t k = 0; k < n->raw[i].n_graphs; k++) {
      const tni_graph *sub = n->raw[i].graphs[k];
      for (uint32_t j = 0; j < sub->n_values; j++)
        if (sub->values[j]->captured == from) sub->values[j]->captured = to;
    }
  }
}

tn_status tni_graph_replace(tni_graph *g, tn_id from, tn_id to) {
  if (from >= g->n_values || to >= g->n_values) return TN_E_INTERNAL;
  if (from == to) return TN_OK;
  tni_value *vf = g->values[from], *vt = g->values[to];
  if (!tni_value_reserve_uses(g, vt, vf->pub.n_uses)) return TN_E_NO_MEMORY;
  tn_status st = vf->is_output ? move_output(g, from, to) : TN_OK;
  if (st != TN_OK) return st;
  for (uint32_t i = 0; i < vf->pub.n_uses; i++) {
    const tni_node *n = g->nodes[vf->pub.uses[i]];
    swap_id(n->pub.in, n->pub.n_in, from, to);
    swap_id(n->captures, n->n_captures, from, to);
    if (n->n_captures) swap_captured(n, from, to);
    tni_value_push_use(vt, vf->pub.uses[i]);
  }
  vf->pub.n_uses = 0;
  return TN_OK;
}

/* --- many at once --- */

bool tni_replacing_init(tni_replacing *r, const tni_graph *g) {
  *r = (tni_replacing){.to = malloc(((size_t)g->n_values + 1) * sizeof *r->to), .n = g->n_values};
  for (tn_id i = 0; r->to && i < r->n; i++) r->to[i] = i;
  return r->to != NULL;
}

void tni_replacing_free(tni_replacing *r) {
  free(r->to);
  *r = (tni_replacing){0};
}

static tn_id replaced_id(const tni_replacing *r, tn_id id) {
  while (id < r->n && r->to[id] != id) id = r->to[id];
  return id;
}

tn_status tni_replacing_add(tni_graph *g, tni_replacing *r, tn_id from, tn_id to) {
  if (from >= r->n || to >= r->n) return TN_E_INTERNAL;
  to = replaced_id(r, to);
  if (from == to) return TN_OK;
  const tn_status st = g->values[from]->is_output ? move_output(g, from, to) : TN_OK;
  if (st != TN_OK) return st;
  r->to[from] = to;
  r->any = true;
  return TN_OK;
}

void tni_replacing_node(const tni_replacing *r, const tni_node *n) {
  if (!r->any) return;
  /* Our own arrays, shown const by the ABI's struct. */
  for (uint32_t i = 0; i < n->pub.n_in; i++) ((tn_id *)n->pub.in)[i] = replaced_id(r, n->pub.in[i]);
  for (uint32_t i = 0; i < n->n_captures; i++) ((tn_id *)n->captures)[i] = replaced_id(r, n->captures[i]);
  for (uint32_t i = 0; n->n_captures && i < n->n_raw; i++) {
    for (uint32_t k = 0; k < n->raw[i].n_graphs; k++) {
      const tni_graph *sub = n->raw[i].graphs[k];
      for (uint32_t j = 0; j < sub->n_values; j++) sub->values[j]->captured = replaced_id(r, sub->values[j]->captured);
    }
  }
}

tn_status tni_replacing_finish(tni_graph *g, const tni_replacing *r, tn_error *err) {
  if (!r->any) return TN_OK;
  for (tn_id i = 0; i < g->n_nodes; i++)
    if (!g->nodes[i]->dead) tni_replacing_node(r, g->nodes[i]);
  return tni_graph_finish(g, err);
}
