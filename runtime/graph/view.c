/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/graph/view.h"

#include <string.h>

#include "runtime/graph/priv.h"
#include "runtime/graph/quantized.h"

static tn_status weight_rows(const tn_weight *w, int64_t n0, int64_t n1, float *dst) {
  if (n0 < 0 || n1 < n0 || n1 > w->N) return TN_E_INVALID;
  tni_tensor_to_f32(w->ctx, n0 * w->K, (n1 - n0) * w->K, dst);
  return TN_OK;
}

static bool is_matrix(const tni_value *v) {
  return v->pub.kind == TN_VALUE_CONST && v->tensor && v->tensor->rank == 2 && tni_dtype_bits(v->tensor->dtype) != 0 &&
         v->tensor->dtype != TN_DT_C64 && v->tensor->dtype != TN_DT_C128;
}

static tn_status set_weights(tni_graph *g) {
  for (uint32_t i = 0; i < g->n_values; i++) {
    tni_value *v = g->values[i];
    v->pub.data = NULL;
    if (!is_matrix(v)) continue;
    tn_weight *w = TNI_NEW(g->arena, tn_weight);
    if (!w) return TN_E_NO_MEMORY;
    w->h = (tn_hdr)TN_HDR(tn_weight);
    w->ctx = v->tensor;
    w->N = v->tensor->dims[0];
    w->K = v->tensor->dims[1];
    w->dtype = v->tensor->dtype;
    w->raw = v->tensor->data;
    w->rows = weight_rows;
    if (v->tensor->quantized && !tni_is_stored_halves(v->tensor->quantized)) {
      tn_quant *q = TNI_NEW(g->arena, tn_quant);
      if (!q) return TN_E_NO_MEMORY;
      tni_quantized_view(v->tensor->quantized, q);
      w->quant = q;
    }
    v->pub.data = w;
  }
  return TN_OK;
}

static const tn_symbol *const *make_symbols(tni_graph *g, uint32_t n) {
  tn_symbol *all = TNI_NEW_ARRAY(g->arena, tn_symbol, n);
  const tn_symbol **ptrs = TNI_NEW_ARRAY(g->arena, const tn_symbol *, n);
  tn_id step;
  for (uint32_t i = 0; all && ptrs && i < n; i++) {
    all[i].h = (tn_hdr)TN_HDR(tn_symbol);
    all[i].name = tni_arena_strdup(g->arena, tni_ex_symbol_name(g->exprs, i));
    tni_ex_symbol_bounds(g->exprs, i, &all[i].lo, &all[i].hi);
    if (g->padded != TNI_EXPR_NONE && i == g->padded_symbol) all[i].flags |= TN_SYM_PADDABLE;
    if (g->step != TNI_EXPR_NONE && !g->step_fixed && tni_ex_is_sym(g->exprs, g->step, &step) && i == step)
      all[i].flags |= TN_SYM_PADDABLE;
    ptrs[i] = &all[i];
    if (!all[i].name) return NULL;
  }
  return all ? ptrs : NULL;
}

tn_status tni_graph_view(tni_graph *g, uint32_t phase, tn_graph *out, tn_error *err) {
  uint32_t n_symbols = tni_ex_n_symbols(g->exprs);
  tn_graph_ctx *ctx = TNI_NEW(g->arena, tn_graph_ctx);
  const tn_node **nodes = TNI_NEW_ARRAY(g->arena, const tn_node *, g->n_nodes);
  const tn_value **values = TNI_NEW_ARRAY(g->arena, const tn_value *, g->n_values);
  const tn_symbol *const *symbols = make_symbols(g, n_symbols);
  if (!ctx || !nodes || !values || !symbols || set_weights(g) != TN_OK) return tni_fail_memory(err, g->name);
  ctx->of = g;
  ctx->exprs = g->exprs;
  ctx->padded = g->padded;
  ctx->step = g->step;
  ctx->step_fixed = g->step_fixed;
  for (tn_id i = 0; i < g->n_nodes; i++) {
    if (g->nodes[i]->dead)
      return tni_fail_node(err, TN_E_INTERNAL, g->nodes[i], i, "a dead node in a view: compact was not called");
    nodes[i] = &g->nodes[i]->pub;
  }
  for (uint32_t i = 0; i < g->n_values; i++) values[i] = &g->values[i]->pub;
  tn_graph view = {.h = TN_HDR(tn_graph),
                   .ctx = ctx,
                   .phase = phase,
                   .n_nodes = g->n_nodes,
                   .n_values = g->n_values,
                   .n_symbols = n_symbols,
                   .nodes = nodes,
                   .values = values,
                   .symbols = symbols};
  if (tni_graph_hash(g, phase, view.hash) != TN_OK) return tni_fail_memory(err, g->name);
  *out = view;
  g->phase = phase;
  return TN_OK;
}
