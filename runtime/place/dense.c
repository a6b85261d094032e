/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/place/dense.h"

#include "runtime/graph/graph.h"
#include "runtime/ops/gemm/gemm.h"
#include "runtime/ops/kernel/kernel.h"
#include "runtime/place/exec.h"

static bool is_quantized(const tni_value *v) {
  return v->pub.kind == TN_VALUE_CONST && v->tensor && v->tensor->quantized && !v->tensor->data;
}

static tn_status make_dense(tn_model *m, tn_id id, tn_error *err) {
  const tni_value *v = tni_graph_value(m->graph, id);
  if (!is_quantized(v)) return TN_OK;
  tn_status st = tni_quantized_dense(v->tensor, m->graph->arena);
  return st == TN_OK ? st : tni_fail(err, st, v->pub.name, "'%s' cannot be kept as floats", v->pub.name);
}

/* Every reader on the host reads codes; all readers are asked, whoever runs them. */
static bool host_reads_codes(const tn_model *m, const tni_value *v) {
  for (uint32_t u = 0; u < v->pub.n_uses; u++) {
    const tni_node *n = tni_graph_node(m->graph, v->pub.uses[u]);
    for (uint32_t k = 0; k < n->n_captures; k++)
      if (tni_graph_value(m->graph, n->captures[k]) == v) return false;
    for (uint32_t i = 0; i < n->pub.n_in; i++)
      if (n->pub.in[i] != TN_NONE && tni_graph_value(m->graph, n->pub.in[i]) == v &&
          (n->dynamic || !tni_ops_takes_quantized(&n->pub, i, v->tensor)))
        return false;
  }
  return true;
}

/* Nodes of subgraphs run one by one, by kernels that want floats. */
static tn_status dense_inside(tni_graph *g, tn_error *err) {
  tn_status st = TN_OK;
  for (uint32_t s = 0; st == TN_OK && s < g->n_subs; s++) {
    for (uint32_t i = 0; st == TN_OK && i < g->subs[s]->n_values; i++) {
      const tni_value *v = tni_graph_value(g->subs[s], i);
      if (!is_quantized(v)) continue;
      st = tni_quantized_dense(v->tensor, g->subs[s]->arena);
      if (st) tni_fail(err, st, v->pub.name, "'%s' cannot be kept as floats", v->pub.name);
    }
    if (st == TN_OK) st = dense_inside(g->subs[s], err);
  }
  return st;
}

tn_status tni_dense_constants(tn_model *m, tn_error *err) {
  tn_status st = dense_inside(m->graph, err);
  for (uint32_t x = 0; x < m->n_execs; x++)
    for (uint32_t p = 0; p < m->execs[x].n_programs; p++) {
      const tni_program *prog = &m->execs[x].programs[p];
      for (uint32_t k = 0; st == TN_OK && k < prog->info->n_needs; k++) {
        const tn_need *n = prog->info->needs[k];
        const tni_value *v = tni_graph_value(m->graph, n->values[0]);
        if (n->format || !is_quantized(v) || (prog->dev->is_host && host_reads_codes(m, v))) continue;
        st = make_dense(m, n->values[0], err);
      }
    }
  for (uint32_t i = 0; st == TN_OK && i < m->graph->n_nodes; i++) {
    const tni_node *n = tni_graph_node(m->graph, i);
    for (uint32_t k = 0; st == TN_OK && k < n->n_captures; k++) st = make_dense(m, n->captures[k], err);
    for (uint32_t k = 0; st == TN_OK && n->dynamic && k < n->pub.n_in; k++)
      if (n->pub.in[k] != TN_NONE) st = make_dense(m, n->pub.in[k], err);
  }
  for (uint32_t i = 0; st == TN_OK && i < m->graph->n_outputs; i++) st = make_dense(m, m->graph->outputs[i], err);
  return st;
}
