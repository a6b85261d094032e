/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "runtime/graph/priv.h"

/* Takes from the outer value what is known there. A constant is shared: its elements live as long as the outer graph,
 * which owns this one. */
static void inherit_type(tni_value *v, const tni_value *up) {
  v->pub.dtype = up->pub.dtype;
  if (v->pub.rank == TNI_RANK_UNKNOWN) {
    v->pub.rank = up->pub.rank;
    v->pub.dims = up->pub.dims;
  }
  if (up->pub.kind != TN_VALUE_CONST) return;
  v->pub.kind = TN_VALUE_CONST;
  v->tensor = up->tensor;
  v->origin = up->origin;
  v->captured = TN_NONE;
}

/* The id in g of the value `name` of g or of a graph around it (then g gets a captured value), or TN_NONE. */
static tn_status graph_capture(tni_graph *g, const char *name, tn_id *id) {
  *id = tni_graph_find(g, name);
  if (*id != TN_NONE || !g->outer) return TN_OK;
  tn_id up;
  tn_status st = graph_capture(g->outer, name, &up);
  if (st != TN_OK || up == TN_NONE) return st;
  *id = tni_graph_add_value(g, name, TN_VALUE_INPUT, g->outer->values[up]->pub.dtype);
  if (*id == TN_NONE) return TN_E_NO_MEMORY;
  g->values[*id]->captured = up;
  inherit_type(g->values[*id], g->outer->values[up]);
  return TN_OK;
}

static tn_status check_values(const tni_graph *g, tn_error *err) {
  if (g->twice != TN_NONE)
    return tni_fail(err, TN_E_INVALID, g->values[g->twice]->pub.name, "two values of graph '%s' have this name",
                    g->name);
  for (uint32_t i = 0; i < g->n_values; i++) {
    const tni_value *v = g->values[i];
    if (v->pub.rank > TN_MAX_RANK && v->pub.rank != TNI_RANK_UNKNOWN)
      return tni_fail(err, TN_E_LIMIT, v->pub.name, "rank %u is above %d", v->pub.rank, TN_MAX_RANK);
    if (v->hint_rank > TN_MAX_RANK && v->hint_rank != TNI_RANK_UNKNOWN)
      return tni_fail(err, TN_E_LIMIT, v->pub.name, "its declared rank %u is above %d", v->hint_rank, TN_MAX_RANK);
    if (v->pub.kind != TN_VALUE_CONST) continue;
    char why[128];
    tn_status st = v->tensor ? tni_tensor_check(v->tensor, why, sizeof why) : TN_E_INTERNAL;
    if (st != TN_OK) return tni_fail(err, st, v->pub.name, "%s", v->tensor ? why : "a constant without elements");
  }
  return TN_OK;
}

static tn_status finish_subs(const tni_node *n, tn_error *err) {
  for (uint32_t i = 0; i < n->n_raw; i++) {
    for (uint32_t k = 0; k < n->raw[i].n_graphs; k++) {
      tn_status st = tni_graph_finish(n->raw[i].graphs[k], err);
      if (st == TN_OK) continue;
      tni_error_prefix(err, "in '%s' of node '%s' (%s)", n->raw[i].name, n->pub.name, n->type);
      return st;
    }
  }
  return TN_OK;
}

/* A STATE is made by the node that appends to it, and is one memory with what that node reads. */
static bool appends_state(const tni_graph *g, const tni_node *n, uint32_t k) {
  return g->values[n->pub.out[k]]->pub.kind == TN_VALUE_STATE && n->op && n->pub.op == TN_OP_TENSOR_SCATTER &&
         n->pub.n_in > 0 && n->pub.in[0] != TN_NONE && g->values[n->pub.in[0]]->pub.kind == TN_VALUE_STATE;
}

static tn_status set_producers(tni_graph *g, tn_error *err) {
  for (uint32_t i = 0; i < g->n_values; i++) g->values[i]->pub.producer = TN_NONE;
  for (tn_id i = 0; i < g->n_nodes; i++) {
    const tni_node *n = g->nodes[i];
    for (uint32_t k = 0; k < n->pub.n_out && !n->dead; k++) {
      if (n->pub.out[k] == TN_NONE) continue;
      tni_value *v = g->values[n->pub.out[k]];
      if (v->pub.kind != TN_VALUE_ACT && v->pub.kind != TN_VALUE_OUTPUT && !appends_state(g, n, k))
        return tni_fail_node(err, TN_E_INVALID, n, i, "output '%s' is a graph input or a constant", v->pub.name);
      if (v->pub.producer != TN_NONE)
        return tni_fail_node(err, TN_E_INVALID, n, i, "output '%s' is written by node '%s' too", v->pub.name,
                             g->nodes[v->pub.producer]->pub.name);
      v->pub.producer = i;
      v->out_index = k;
    }
  }
  return TN_OK;
}

static uint32_t count_captures(const tni_graph *sub) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < sub->n_values; i++) n += sub->values[i]->captured != TN_NONE;
  return n;
}

static tn_status collect_captures(tni_graph *g, tni_node *n) {
  uint32_t total = 0, at = 0;
  for (uint32_t i = 0; i < n->n_raw; i++)
    for (uint32_t k = 0; k < n->raw[i].n_graphs; k++) total += count_captures(n->raw[i].graphs[k]);
  n->n_captures = total;
  if (total == 0) return TN_OK;
  tn_id *ids = TNI_NEW_ARRAY(g->arena, tn_id, total);
  if (!ids) return TN_E_NO_MEMORY;
  for (uint32_t i = 0; i < n->n_raw; i++) {
    for (uint32_t k = 0; k < n->raw[i].n_graphs; k++) {
      const tni_graph *sub = n->raw[i].graphs[k];
      for (uint32_t j = 0; j < sub->n_values; j++)
        if (sub->values[j]->captured != TN_NONE) ids[at++] = sub->values[j]->captured;
    }
  }
  n->captures = ids;
  return TN_OK;
}

/* Finds what makes value id; *found false: nothing does. */
static tn_status resolve_name(tni_graph *g, tn_id id, bool *found) {
  tni_value *v = g->values[id];
  *found = true;
  if (v->captured != TN_NONE) {
    inherit_type(v, g->outer->values[v->captured]);
    return TN_OK;
  }
  if (v->pub.producer != TN_NONE || (v->pub.kind != TN_VALUE_ACT && v->pub.kind != TN_VALUE_OUTPUT)) return TN_OK;
  tn_id up = TN_NONE;
  tn_status st = g->outer ? graph_capture(g->outer, v->pub.name, &up) : TN_OK;
  if (st != TN_OK) return st;
  *found = up != TN_NONE;
  if (!*found) return TN_OK;
  v->pub.kind = TN_VALUE_INPUT;
  v->captured = up;
  inherit_type(v, g->outer->values[up]);
  return TN_OK;
}

static tn_status resolve_inputs(tni_graph *g, tn_id id, tn_error *err) {
  const tni_node *n = g->nodes[id];
  for (uint32_t k = 0; k < n->pub.n_in + n->n_captures; k++) {
    bool in = k < n->pub.n_in, found;
    tn_id v = in ? n->pub.in[k] : n->captures[k - n->pub.n_in];
    if (v == TN_NONE) continue;
    tn_status st = resolve_name(g, v, &found);
    if (st != TN_OK) return tni_fail_memory(err, n->pub.name);
    const char *name = g->values[v]->pub.name;
    if (!found && in)
      return tni_fail_node(err, TN_E_INVALID, n, id, "input %u, '%s', is made by no node and is no graph input", k,
                           name);
    if (!found)
      return tni_fail_node(err, TN_E_INVALID, n, id,
                           "'%s', which its subgraph reads, is made by no node and is no graph "
                           "input",
                           name);
  }
  return TN_OK;
}

static bool is_present(const tni_graph *g, tn_id v) {
  for (uint32_t i = 0; i < g->n_states; i++)
    if (g->states[i].present == v) return true;
  return false;
}

static tn_status resolve_outputs(tni_graph *g, tn_error *err) {
  for (uint32_t i = 0; i < g->n_outputs; i++) {
    bool found;
    const char *name = g->values[g->outputs[i]]->pub.name;
    if (is_present(g, g->outputs[i])) continue; /* the session gives it out of the cache */
    if (resolve_name(g, g->outputs[i], &found) != TN_OK) return tni_fail_memory(err, name);
    if (!found) return tni_fail(err, TN_E_INVALID, name, "output %u of graph '%s' is made by no node", i, g->name);
  }
  return TN_OK;
}

/* Trailing empty names do not count. */
static uint32_t effective_count(const tn_id *ids, uint32_t n) {
  while (n && ids[n - 1] == TN_NONE) n--;
  return n;
}

static tn_status check_count(const tni_node *n, tn_id id, const char *what, uint32_t have, uint32_t min, uint32_t max,
                             tn_error *err) {
  if (have >= min && (have <= max || max == 99)) return TN_OK;
  if (min == max || max == 99)
    return tni_fail_node(err, TN_E_INVALID, n, id, "%u %s, takes %s%u", have, what, max == 99 ? "at least " : "", min);
  return tni_fail_node(err, TN_E_INVALID, n, id, "%u %s, takes %u to %u", have, what, min, max);
}

static tn_status check_arity(const tni_node *n, tn_id id, tn_error *err) {
  const tni_op *op = n->op;
  if (!op) return TN_OK;
  uint32_t n_in = effective_count(n->pub.in, n->pub.n_in);
  bool control =
      op->id == TN_OP_LOOP || op->id == TN_OP_SCAN; /* its first two inputs may be empty, and must stand there */
  tn_status st = check_count(n, id, "inputs", control ? n->pub.n_in : n_in, op->in_min, op->in_max, err);
  for (uint32_t i = 0; st == TN_OK && !control && i < op->in_min; i++)
    if (n->pub.in[i] == TN_NONE) st = tni_fail_node(err, TN_E_INVALID, n, id, "input %u is missing", i);
  return st == TN_OK ? check_count(n, id, "outputs", n->pub.n_out, op->out_min, op->out_max, err) : st;
}

static tn_status reorder_nodes(tni_graph *g, tn_error *err) {
  bool changed = false;
  tn_id *order = calloc(g->n_nodes ? g->n_nodes : 1, sizeof *order);
  tn_status st = order ? tni_graph_order(g, order, &changed, err) : tni_fail_memory(err, g->name);
  if (st == TN_OK && changed) {
    tni_node **nodes = TNI_NEW_ARRAY(g->arena, tni_node *, g->n_nodes);
    for (tn_id i = 0; nodes && i < g->n_nodes; i++) nodes[i] = g->nodes[order[i]];
    st = nodes ? TN_OK : tni_fail_memory(err, g->name);
    if (nodes) {
      g->nodes = nodes;
      g->cap_nodes = g->n_nodes;
      st = set_producers(g, err);
    }
  }
  free(order);
  return st;
}

static void each_use(tni_graph *g, bool count_only) {
  for (tn_id i = 0; i < g->n_nodes; i++) {
    const tni_node *n = g->nodes[i];
    for (uint32_t k = 0; k < n->pub.n_in + n->n_captures && !n->dead; k++) {
      tn_id id = k < n->pub.n_in ? n->pub.in[k] : n->captures[k - n->pub.n_in];
      if (id == TN_NONE) continue;
      if (count_only)
        g->values[id]->cap_uses++;
      else
        tni_value_push_use(g->values[id], i);
    }
  }
}

static tn_status set_uses(tni_graph *g, tn_error *err) {
  size_t total = 0;
  for (uint32_t i = 0; i < g->n_values; i++) g->values[i]->pub.n_uses = g->values[i]->cap_uses = 0;
  each_use(g, true);
  for (uint32_t i = 0; i < g->n_values; i++) total += g->values[i]->cap_uses;
  tn_id *at = TNI_NEW_ARRAY(g->arena, tn_id, total);
  if (!at) {
    for (uint32_t i = 0; i < g->n_values; i++) g->values[i]->cap_uses = 0;
    return tni_fail_memory(err, g->name);
  }
  for (uint32_t i = 0; i < g->n_values; i++) {
    g->values[i]->pub.uses = at;
    at += g->values[i]->cap_uses;
  }
  each_use(g, false);
  return TN_OK;
}

static void set_kinds(tni_graph *g) {
  for (uint32_t i = 0; i < g->n_values; i++) {
    tni_value *v = g->values[i];
    if (v->pub.kind == TN_VALUE_ACT && v->is_output) v->pub.kind = TN_VALUE_OUTPUT;
    if (v->pub.kind == TN_VALUE_OUTPUT && !v->is_output) v->pub.kind = TN_VALUE_ACT;
    if (!g->finished) v->pub.origin = i;
  }
  g->finished = true;
}

/* As resolve_inputs and resolve_outputs do where names need no look-up. */
static void inherit_types(tni_graph *g) {
  for (uint32_t i = 0; i < g->n_values; i++) {
    tni_value *v = g->values[i];
    if (v->captured != TN_NONE && (v->pub.n_uses || v->is_output)) inherit_type(v, g->outer->values[v->captured]);
  }
}

tn_status tni_graph_finish(tni_graph *g, tn_error *err) {
  if (tni_graph_unchanged(g)) {
    inherit_types(g);
    return TN_OK;
  }
  tn_status st = check_values(g, err);
  for (tn_id i = 0; st == TN_OK && i < g->n_nodes; i++)
    if (!g->nodes[i]->dead) st = finish_subs(g->nodes[i], err);
  if (st == TN_OK) st = set_producers(g, err);
  for (tn_id i = 0; st == TN_OK && i < g->n_nodes; i++) {
    tni_node *n = g->nodes[i];
    if (n->dead) continue;
    if (collect_captures(g, n) != TN_OK) return tni_fail_memory(err, n->pub.name);
    st = check_arity(n, i, err);
    if (st == TN_OK) st = resolve_inputs(g, i, err);
  }
  if (st == TN_OK) st = resolve_outputs(g, err);
  if (st == TN_OK) st = reorder_nodes(g, err);
  if (st == TN_OK) st = set_uses(g, err);
  if (st == TN_OK) set_kinds(g);
  g->stamp = st == TN_OK ? tni_graph_stamp(g) : 0;
  return st;
}
