/* SPDX-License-Identifier: Apache-2.0
 *
 * Inputs of exported decoders that choose what is computed, and have one right value where a session runs step by step:
 *
 *   use_cache_branch   bool, of Optimum's merged decoders: condition of an If around the whole model, a decoder with
 *                      past inputs and one without. True: the caches may be empty.
 *   num_logits_to_keep int64, counted from the last row. 0: all; the pass `last_rows` leaves out what nobody asks for.
 *
 * Such an input becomes a constant and leaves the graph's inputs.
 */
#include <string.h>

#include "runtime/passes/build/build.h"
#include "runtime/passes/decoder/decoder.h"

static bool is_scalar(const tni_graph *g, const tni_value *v) {
  int64_t n;
  return v->pub.rank == 0 || (v->pub.rank == 1 && tni_ex_is_const(g->exprs, v->pub.dims[0], &n) && n == 1);
}

/* TN_NONE: no such input, or another kind of one. */
static tn_id find_choice(const tni_graph *g, const char *name, uint32_t dtype) {
  for (uint32_t i = 0; i < g->n_inputs; i++) {
    const tni_value *v = g->values[g->inputs[i]];
    if (strcmp(v->pub.name, name) == 0 && v->pub.dtype == dtype && is_scalar(g, v)) return g->inputs[i];
  }
  return TN_NONE;
}

static tn_status fix_input(tni_graph *g, tn_id v, int64_t value, tn_error *err) {
  const uint32_t bytes = g->values[v]->pub.dtype == TN_DT_BOOL ? 1 : 8;
  void *data = tni_arena_alloc(g->arena, 8, 8);
  tn_id *inputs = TNI_NEW_ARRAY(g->arena, tn_id, g->n_inputs);
  uint32_t n = 0;
  if (!data || !inputs) return tni_fail_memory(err, g->name);
  memcpy(data, &value, 8); /* little-endian: a bool is its first byte */
  for (uint32_t i = 0; i < g->n_inputs; i++)
    if (g->inputs[i] != v) inputs[n++] = g->inputs[i];
  const tni_tensor t = {
      .dtype = g->values[v]->pub.dtype, .rank = g->values[v]->pub.rank, .dims = {1}, .data = data, .bytes = bytes};
  tn_status st = tni_graph_set_io(g, inputs, n, g->outputs, g->n_outputs);
  if (st == TN_OK) st = tni_value_set_tensor(g, v, &t, NULL);
  return st == TN_OK ? tni_graph_finish(g, err) : tni_fail(err, st, g->values[v]->pub.name, "cannot become a constant");
}

/* The only node is an If on this input. */
static bool is_branching(const tni_graph *g, tn_id v) {
  return g->n_nodes == 1 && g->nodes[0]->pub.op == TN_OP_IF && g->nodes[0]->pub.n_in == 1 &&
         g->nodes[0]->pub.in[0] == v;
}

static tn_expr past_length(const tni_graph *g) {
  for (uint32_t i = 0; i < g->n_inputs; i++) {
    const tni_value *v = g->values[g->inputs[i]];
    if (strncmp(v->pub.name, "past", 4) == 0 && v->pub.rank == 4) return v->pub.dims[2];
  }
  return TNI_EXPR_NONE;
}

/* Merging takes the declarations of the decoder without past: a mask over the past and the run is declared as one over
 * the run. */
static tn_status declare_mask(tni_graph *g, tn_error *err) {
  const tn_id ids = tni_graph_find(g, "input_ids"), mask = tni_graph_find(g, "attention_mask");
  const tn_expr past = past_length(g);
  if (ids == TN_NONE || mask == TN_NONE || past == TNI_EXPR_NONE) return TN_OK;
  const tni_value *a = g->values[ids], *m = g->values[mask];
  if (a->pub.rank != 2 || m->pub.rank != 2 || m->pub.kind != TN_VALUE_INPUT || a->pub.dims[1] != m->pub.dims[1])
    return TN_OK;
  const tn_expr dims[2] = {m->pub.dims[0], tni_ex_add(g->exprs, a->pub.dims[1], past)};
  return tni_value_set_dims(g, mask, 2, dims) == TN_OK ? TN_OK : tni_fail_memory(err, g->name);
}

/* What is read by one branch is as it was declared once that branch is all there is. */
static tn_status restore_dims(tni_graph *g, tn_error *err) {
  for (uint32_t i = 0; i < g->n_inputs; i++) {
    const tni_value *v = g->values[g->inputs[i]];
    if (v->branch_dims && tni_value_set_dims(g, g->inputs[i], v->pub.rank, v->branch_dims) != TN_OK)
      return tni_fail_memory(err, v->pub.name);
  }
  return TN_OK;
}

tn_status tni_choose_cache(tni_graph *g, bool past, bool *there, tn_error *err) {
  const tn_id v = find_choice(g, "use_cache_branch", TN_DT_BOOL);
  *there = v != TN_NONE && is_branching(g, v);
  if (!*there) return TN_OK;
  tn_status st = restore_dims(g, err);
  if (st == TN_OK && past) st = declare_mask(g, err);
  return st == TN_OK ? fix_input(g, v, past, err) : st;
}

tn_status tni_choose_logits(tni_graph *g, tn_error *err) {
  const tn_id v = find_choice(g, "num_logits_to_keep", TN_DT_I64);
  return v == TN_NONE ? TN_OK : fix_input(g, v, 0, err);
}
