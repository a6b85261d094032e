/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/graph/core_graph.h"

static const tni_tensor *constant_of(const tn_value *v) {
  return v->kind == TN_VALUE_CONST ? ((const tni_value *)v)->tensor : NULL;
}

static bool node_is_dynamic(const tn_node *n) { return ((const tni_node *)n)->dynamic; }

static uint32_t captures_of(const tn_node *n, const tn_id **ids) {
  const tni_node *node = (const tni_node *)n;
  *ids = node->captures;
  return node->n_captures;
}

static const char *type_of(const tn_node *n, int64_t *version) {
  const tni_node *node = (const tni_node *)n;
  *version = node->version;
  return node->type ? node->type : "?";
}

static const tn_node *find_node(const tn_node *n, bool (*is)(const tn_node *n)) {
  const tni_node *node = (const tni_node *)n;
  if (is(n)) return n;
  for (uint32_t i = 0; i < node->n_raw; i++)
    for (uint32_t k = 0; k < node->raw[i].n_graphs; k++) {
      const tni_graph *sub = node->raw[i].graphs[k];
      for (uint32_t j = 0; j < sub->n_nodes; j++) {
        const tn_node *found = find_node(&sub->nodes[j]->pub, is);
        if (found) return found;
      }
    }
  return NULL;
}

const tni_core_graph *tni_core_graph_get(void) {
  static const tni_core_graph table = {.h = TN_HDR(tni_core_graph),
                                       .constant = constant_of,
                                       .is_dynamic = node_is_dynamic,
                                       .captures = captures_of,
                                       .type = type_of,
                                       .find = find_node};
  return &table;
}
