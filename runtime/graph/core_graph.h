/* SPDX-License-Identifier: Apache-2.0
 *
 * What the built-in device asks of the core beyond the ABI, as an extension of the host's services:
 * tn_host.get_extension(TNI_CORE_GRAPH, 1). Every other plugin packs its weights through formats and leaves nodes
 * without dims to the host; the host runs both as they lie, so it must learn of them.
 * Nodes and values are those of a tn_graph that the core handed out. Any thread.
 */
#ifndef TENON_GRAPH_CORE_GRAPH_H
#define TENON_GRAPH_CORE_GRAPH_H

#include "runtime/graph/ir.h"

#define TNI_CORE_GRAPH "tenon.core-graph"

typedef struct tni_core_graph {
  tn_hdr h;
  /* A constant's elements, codes (quantized.h) or packed rows (rows.h); NULL: v is none. Lives as long as the graph. */
  const tni_tensor *(*constant)(const tn_value *v);
  /* Only the run knows the dims of n: the session runs it (runtime/interp), and its task is never bound. */
  bool (*is_dynamic)(const tn_node *n);
  /* Values that n's subgraphs read besides its inputs. */
  uint32_t (*captures)(const tn_node *n, const tn_id **ids);
  /* ONNX type and opset version of n, also where the table lacks it. */
  const char *(*type)(const tn_node *n, int64_t *version);
  /* The first of n and all nodes of its subgraphs that `is`, or NULL. */
  const tn_node *(*find)(const tn_node *n, bool (*is)(const tn_node *n));
} tni_core_graph;

/* The table for graphs of this core. */
const tni_core_graph *tni_core_graph_get(void);

#endif
