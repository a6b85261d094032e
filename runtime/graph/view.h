/* SPDX-License-Identifier: Apache-2.0
 *
 * What stands behind tn_graph.ctx, for the host services that answer questions about symbolic dims, and for what the
 * built-in device asks (core_graph.h). It lives on the graph's arena.
 */
#ifndef TENON_GRAPH_VIEW_H
#define TENON_GRAPH_VIEW_H

#include "runtime/expr/expr.h"

struct tni_graph;

struct tn_graph_ctx {
  tni_exprs *exprs;
  tn_expr padded, step;   /* tni_graph.padded, step */
  const char *step_fixed; /* tni_graph.step_fixed */
  const struct tni_graph *of; /* NULL: a copy in another process */
};

#endif
