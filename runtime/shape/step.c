/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "runtime/shape/edit.h"
#include "runtime/shape/rules/rules.h"

tn_status tni_step_write(const tni_graph *g, tn_id id, const int64_t *dims, uint32_t n_dims, void *dst,
                         uint64_t bytes) {
  const tni_value *v = tni_graph_value(g, id);
  uint64_t need;
  if (!v || v->pub.kind != TN_VALUE_STEP || !tni_elems_complete(g, v)) return TN_E_INVALID;
  if (tni_dtype_bytes(v->pub.dtype, v->n_elems, &need) != TN_OK || need != bytes) return TN_E_INVALID;
  for (uint32_t i = 0; i < v->n_elems; i++) {
    int64_t e;
    tn_status st = tni_ex_eval(g->exprs, v->elems[i], dims, n_dims, &e);
    if (st != TN_OK) return st;
    if (!tni_store_index(v->pub.dtype, dst, i, e)) return TN_E_INVALID;
  }
  return TN_OK;
}

/* An operand of n that only its shape rule reads. The mask has 32 bits; later operands are data. */
static bool is_shape_operand(const tni_node *n, uint32_t i) {
  return n->op && i < 32 && (n->op->shape_inputs >> i & 1);
}

bool tni_step_is_read(const tni_graph *g, tn_id id) {
  const tni_value *v = tni_graph_value(g, id);
  if (!v) return false;
  if (v->is_output) return true;
  for (uint32_t k = 0; k < v->pub.n_uses; k++) {
    const tni_node *n = g->nodes[v->pub.uses[k]];
    if (n->dead) continue;
    for (uint32_t i = 0; i < n->pub.n_in; i++) {
      if (n->pub.in[i] == id && !is_shape_operand(n, i)) return true;
    }
    for (uint32_t i = 0; i < n->n_captures; i++) {
      if (n->captures[i] == id) return true;
    }
  }
  return false;
}

static bool is_small(const tni_graph *g, const tni_node *n) {
  for (uint32_t o = 0; o < n->pub.n_out; o++) {
    int64_t count = 1, d;
    const tni_value *v = tni_graph_value(g, n->pub.out[o]);
    if (!v) continue;
    if (v->pub.rank > TN_MAX_RANK) return false;
    for (uint32_t k = 0; k < v->pub.rank; k++) {
      if (v->pub.dims[k] == TNI_EXPR_NONE || !tni_ex_is_const(g->exprs, v->pub.dims[k], &d)) return false;
      if (d < 0 || d > TNI_MAX_ELEMS) return false;
      count *= d;
      if (count > TNI_MAX_ELEMS) return false;
    }
  }
  return true;
}

/* Whether all that n reads comes from shapes and constants. */
static bool reads_shapes_only(const tni_graph *g, const tni_node *n, const bool *shaped) {
  if (n->pub.n_in == 0 || n->n_captures) return false;
  for (uint32_t i = 0; i < n->pub.n_in; i++) {
    const tni_value *v = tni_graph_value(g, n->pub.in[i]);
    if (!v || v->pub.kind == TN_VALUE_CONST || v->pub.kind == TN_VALUE_STEP) continue;
    if (!shaped[n->pub.in[i]]) return false;
  }
  return true;
}

uint32_t tni_shape_ops_left(const tni_graph *g, tn_id *nodes, uint32_t cap) {
  uint32_t left = 0;
  bool *shaped = calloc(g->n_values ? g->n_values : 1, sizeof *shaped);
  if (!shaped) return UINT32_MAX;
  for (uint32_t i = 0; i < g->n_nodes; i++) {
    const tni_node *n = g->nodes[i];
    if (n->dead || !n->op) continue;
    bool source = n->pub.op == TN_OP_SHAPE || n->pub.op == TN_OP_SIZE;
    if (!source && !reads_shapes_only(g, n, shaped)) continue;
    for (uint32_t o = 0; o < n->pub.n_out; o++) {
      if (n->pub.out[o] != TN_NONE) shaped[n->pub.out[o]] = true;
    }
    if (!source && !is_small(g, n)) continue;
    if (left < cap && nodes) nodes[left] = i;
    left++;
  }
  free(shaped);
  return left;
}
