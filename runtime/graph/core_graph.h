/* SPDX-License-Identifier: Apache-2.0
 *
 * What the built-in device asks of the core beyond the ABI, as an extension of the host's services:
 * tn_host.get_extension(TNI_CORE_GRAPH, 1). Every other plugin packs its weights through formats and leaves nodes
 * without dims to the host; the host runs both as they lie, so it must learn of them.
 * Nodes and values are asked for by id: what a tn_graph shows of them may be copies, lent for a call, and only its ctx is
 * the core's own. Any thread.
 */
#ifndef TENON_GRAPH_CORE_GRAPH_H
#define TENON_GRAPH_CORE_GRAPH_H

#include "runtime/graph/ir.h"

#define TNI_CORE_GRAPH "tenon.core-graph"

typedef struct tni_core_graph {
  tn_hdr h;
  /* A constant's elements, codes (quantized.h) or packed rows (rows.h); NULL: it is none. Lives as long as the graph. */
  const tni_tensor *(*constant)(const tn_graph *g, tn_id value);
  /* Only the run knows the node's dims: the session runs it (runtime/interp), and its task is never bound. */
  bool (*is_dynamic)(const tn_graph *g, tn_id node);
  /* Values that the node's subgraphs read besides its inputs. */
  uint32_t (*captures)(const tn_graph *g, tn_id node, const tn_id **ids);
  /* The opset version of the node's domain. */
  int64_t (*version)(const tn_graph *g, tn_id node);
  /* The first of the node and all nodes of its subgraphs that `is`, the core's own, or NULL. */
  const tn_node *(*find)(const tn_graph *g, tn_id node, bool (*is)(const tn_node *n));
} tni_core_graph;

/* The table for graphs of this core. */
const tni_core_graph *tni_core_graph_get(void);

#endif
