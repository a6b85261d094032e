/* SPDX-License-Identifier: Apache-2.0 */
#include "whole.h"

static tn_status fault(tn_device *d, const tn_graph *g, const tn_dims *at, const tn_claim_sink *sink, tn_error *e) {
  tn_status st = TN_OK;
  (void)at, (void)e;
  for (tn_id i = 0; st == TN_OK && i < g->n_nodes; i++) {
    tn_claim c = whole_answer(d, g, i);
    c.cost_ns = __builtin_nan("");
    st = sink->node(sink->ctx, i, &c);
  }
  return st;
}

WHOLE(w->device.claim = fault)
