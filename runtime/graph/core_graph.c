/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/graph/core_graph.h"

#include "runtime/graph/view.h"

static const tni_node *node_of(const tn_graph *g, tn_id node) {
  return g->ctx->of && node < g->ctx->of->n_nodes ? g->ctx->of->nodes[node] : NULL;
}

static const tni_tensor *constant_of(const tn_graph *g, tn_id value) {
  const tni_graph *of = g->ctx->of;
  if (!of || value >= of->n_values || of->values[value]->pub.kind != TN_VALUE_CONST) return NULL;
  return of->values[value]->tensor;
}

static bool node_is_dynamic(const tn_graph *g, tn_id node) {
  const tni_node *n = node_of(g, node);
  return n && n->dynamic;
}

static uint32_t captures_of(const tn_graph *g, tn_id node, const tn_id **ids) {
  const tni_node *n = node_of(g, node);
  *ids = n ? n->captures : NULL;
  return n ? n->n_captures : 0;
}

static int64_t version_of(const tn_graph *g, tn_id node) {
  const tni_node *n = node_of(g, node);
  return n ? n->version : 0;
}

static const tn_node *find_below(const tni_node *n, bool (*is)(const tn_node *n)) {
  if (is(&n->pub)) return &n->pub;
  for (uint32_t i = 0; i < n->n_raw; i++)
    for (uint32_t k = 0; k < n->raw[i].n_graphs; k++) {
      const tni_graph *sub = n->raw[i].graphs[k];
      for (uint32_t j = 0; j < sub->n_nodes; j++) {
        const tn_node *found = find_below(sub->nodes[j], is);
        if (found) return found;
      }
    }
  return NULL;
}

static const tn_node *find_node(const tn_graph *g, tn_id node, bool (*is)(const tn_node *n)) {
  const tni_node *n = node_of(g, node);
  return n ? find_below(n, is) : NULL;
}

const tni_core_graph *tni_core_graph_get(void) {
  static const tni_core_graph table = {.h = TN_HDR(tni_core_graph),
                                       .constant = constant_of,
                                       .is_dynamic = node_is_dynamic,
                                       .captures = captures_of,
                                       .version = version_of,
                                       .find = find_node};
  return &table;
}
