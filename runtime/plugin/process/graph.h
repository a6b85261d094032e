/* SPDX-License-Identifier: Apache-2.0
 *
 * A graph as plugins see it (tn_graph), as bytes and back: nodes, attributes, values, symbols, statistics and the table
 * of expressions after it, so that the host's services on it answer in the child as they do in the host. The bytes of
 * constants are not in it: rows() of a constant asks the host.
 */
#ifndef TENON_PLUGIN_PROCESS_GRAPH_H
#define TENON_PLUGIN_PROCESS_GRAPH_H

#include "runtime/plugin/process/wire.h"

#include <tenon/plugin.h>

void tni_wgraph_put(tni_wire *w, const tn_graph *g);

typedef struct tni_wgraph_copy {
  tn_graph g;
  tni_arena *arena;
  struct tni_exprs *exprs;
} tni_wgraph_copy;

/* What asks the host for the content of constants: tn_weight.rows, tn_quant.grid and stepped. */
typedef struct tni_weight_readers {
  tn_status (*rows)(const tn_weight *, int64_t, int64_t, float *);
  tn_status (*grid)(const tn_quant *, int64_t, int64_t, uint8_t *, float *, float *);
  tn_status (*stepped)(const tn_quant *, int64_t, int64_t, uint8_t *, float *);
} tni_weight_readers;

/* *out is to be finished also on failure. */
TN_MUST_CHECK tn_status tni_wgraph_get(tni_rd *r, const tni_weight_readers *readers, tni_wgraph_copy *out);
void tni_wgraph_finish(tni_wgraph_copy *c);

/* Of a weight what is not its content; ctx of the copy is (void *)id. */
void tni_weight_put(tni_wire *w, const tn_weight *x);
tn_weight *tni_weight_get(tni_rd *r, tni_arena *a, uint32_t id, const tni_weight_readers *readers);

#endif
