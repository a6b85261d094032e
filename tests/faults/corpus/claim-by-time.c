/* SPDX-License-Identifier: Apache-2.0
 *
 * Says yes and no in turns, as one that looks at the clock.
 */
#include "whole.h"

static int asked;

static tn_status fault(tn_device *d, const tn_graph *g, const tn_dims *at, const tn_claim_sink *sink, tn_error *e) {
  if (asked++ % 2 == 0) return claim(d, g, at, sink, e);
  tn_status st = TN_OK;
  for (tn_id i = 0; st == TN_OK && i < g->n_nodes; i++) {
    const tn_claim c = {.h = TN_HDR(tn_claim), .verdict = TN_NO, .reason = TN_WHY_OP, .text = "not at this hour"};
    st = sink->node(sink->ctx, i, &c);
  }
  return st;
}

WHOLE(w->device.claim = fault)
