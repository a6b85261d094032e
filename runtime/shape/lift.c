/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "runtime/shape/edit.h"
#include "runtime/shape/rules/rules.h"

static uint64_t bit_of(tn_id symbol) { return symbol == TN_NONE ? 0 : UINT64_C(1) << (symbol < 63 ? symbol : 63); }

uint64_t tni_given_symbols(const tni_graph *g) {
  uint64_t mask = bit_of(g->rows_symbol) | bit_of(g->rows_end);
  for (uint32_t i = 0; i < g->n_values; i++) {
    const tni_value *v = g->values[i];
    if (v->pub.kind != TN_VALUE_INPUT && v->pub.kind != TN_VALUE_STATE) continue;
    for (uint32_t d = 0; v->pub.rank != TNI_RANK_UNKNOWN && d < v->pub.rank; d++) {
      if (v->pub.dims[d] != TNI_EXPR_NONE) mask |= tni_ex_symbols(g->exprs, v->pub.dims[d]);
    }
  }
  return tni_ex_n_symbols(g->exprs) > 64 ? mask & ~(UINT64_C(1) << 63) : mask;
}

bool tni_symbols_given(const tni_graph *g, uint64_t given, const tn_expr *e, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) {
    if (e[i] == TNI_EXPR_NONE || (tni_ex_symbols(g->exprs, e[i]) & ~given)) return false;
  }
  return true;
}

/* A value made by node n that can be written before the step. */
static bool is_liftable(const tni_graph *g, uint64_t given, const tni_value *v) {
  if (v->pub.kind != TN_VALUE_ACT && v->pub.kind != TN_VALUE_OUTPUT) return false;
  if (!v->pub.n_uses && !v->is_output) return false;
  return tni_elems_complete(g, v) && tni_symbols_given(g, given, v->elems, v->n_elems);
}

static bool takes_dims(uint32_t op) {
  return op == TN_OP_RESHAPE || op == TN_OP_EXPAND || op == TN_OP_CONSTANT_OF_SHAPE;
}

/* The target of a Reshape and its like, unknown but with known effect, becomes the dims that it leads to. */
static tn_status replace_target(tni_graph *g, uint64_t given, tni_node *n, bool *changed, tn_error *err) {
  uint32_t at = n->pub.op == TN_OP_CONSTANT_OF_SHAPE ? 0 : 1;
  if (!takes_dims(n->pub.op) || n->pub.n_in <= at || n->pub.in[at] == TN_NONE || n->pub.out[0] == TN_NONE) return TN_OK;
  const tni_value *target = g->values[n->pub.in[at]], *y = g->values[n->pub.out[0]];
  if (target->pub.kind != TN_VALUE_ACT && target->pub.kind != TN_VALUE_OUTPUT && target->pub.kind != TN_VALUE_INPUT) {
    return TN_OK;
  }
  if (y->pub.rank == TNI_RANK_UNKNOWN || !tni_symbols_given(g, given, y->pub.dims, y->pub.rank)) return TN_OK;
  tn_id id = tni_graph_add_value(g, "", TN_VALUE_STEP, TN_DT_I64);
  tn_expr len = tni_ex_const(g->exprs, y->pub.rank);
  if (id == TN_NONE || tni_value_set_dims(g, id, 1, &len) != TN_OK) return tni_fail_memory(err, n->pub.name);
  g->values[id]->elems = y->pub.dims;
  g->values[id]->n_elems = y->pub.rank;
  ((tn_id *)n->pub.in)[at] = id; /* the graph's own array, shown const by the ABI's struct */
  *changed = true;
  return TN_OK;
}

tn_status tni_lift_shape_values(tni_graph *g, uint32_t *n_removed, tn_error *err) {
  uint64_t given = tni_given_symbols(g);
  uint32_t removed = 0;
  bool changed = false;
  for (uint32_t i = 0; i < g->n_nodes; i++) {
    tni_node *n = g->nodes[i];
    for (uint32_t o = 0; !n->dead && o < n->pub.n_out; o++) {
      if (n->pub.out[o] == TN_NONE) continue;
      tni_value *v = g->values[n->pub.out[o]];
      if (!is_liftable(g, given, v)) continue;
      v->pub.kind = TN_VALUE_STEP;
      changed = true;
      removed += tni_detach_output(g, n, o);
    }
    tn_status st = n->dead ? TN_OK : replace_target(g, given, n, &changed, err);
    if (st != TN_OK) return st;
  }
  tn_status st = changed ? tni_graph_finish(g, err) : TN_OK;
  if (st != TN_OK) return st;
  removed += tni_graph_dce(g);
  if (n_removed) *n_removed = removed;
  return TN_OK;
}
