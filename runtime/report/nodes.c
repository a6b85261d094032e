/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/report/nodes.h"

#include <stdlib.h>
#include <string.h>

typedef struct named {
  const char *name;
  json_t *tensor;
} named;

static int by_name(const void *a, const void *b) {
  return strcmp(((const named *)a)->name, ((const named *)b)->name);
}

static void name_node(const named *all, size_t n, const char *value, const char *node) {
  const named key = {.name = value ? value : ""};
  named *at = bsearch(&key, all, n, sizeof *all, by_name);
  if (at && node && *node && !json_object_get(at->tensor, "node"))
    json_object_set_new(at->tensor, "node", json_string(node));
}

void tni_name_nodes(const tni_graph *g, json_t *tensors) {
  const size_t n = json_array_size(tensors);
  named *all = malloc((n + 1) * sizeof *all);
  if (!all) tni_json_lacked();
  for (size_t i = 0; all && i < n; i++) {
    json_t *t = json_array_get(tensors, i);
    const char *name = json_string_value(json_object_get(t, "name"));
    all[i] = (named){name ? name : "", t};
  }
  if (all) qsort(all, n, sizeof *all, by_name);
  for (tn_id i = 0; all && n && i < g->n_nodes; i++) {
    const tni_node *node = tni_graph_node(g, i);
    for (uint32_t k = 0; !node->dead && k < node->pub.n_in; k++)
      if (node->pub.in[k] != TN_NONE)
        name_node(all, n, tni_graph_value(g, node->pub.in[k])->pub.name, node->pub.name);
  }
  free(all);
}
