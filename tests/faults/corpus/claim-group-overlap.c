/* SPDX-License-Identifier: Apache-2.0
 *
 * A group that names one node twice.
 */
#include "whole.h"

static tn_status fault(tn_device *d, const tn_graph *g, const tn_dims *at, const tn_claim_sink *sink, tn_error *e) {
  tn_status st = claim(d, g, at, sink, e);
  const tn_id twice[2] = {0, 0};
  const tn_claim c = whole_answer(d, g, 0);
  return st == TN_OK ? sink->group(sink->ctx, twice, 2, &c) : st;
}

WHOLE(w->device.claim = fault)
