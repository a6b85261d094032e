/* SPDX-License-Identifier: Apache-2.0
 *
 * Keeps a pointer into the graph and writes through it when it is nobody's any more.
 */
#include "whole.h"

static const tn_value *const *kept;

static tn_status kept_claim(tn_device *d, const tn_graph *g, const tn_dims *at, const tn_claim_sink *sink, tn_error *e) {
  kept = g->values;
  return claim(d, g, at, sink, e);
}

static tn_status fault(const tn_plan *plan, tn_args *a, tn_run *pool, tn_error *e) {
  memset((void *)(uintptr_t)kept, 0, sizeof *kept); /* the host took it back when claim returned */
  return run(plan, a, pool, e);
}

WHOLE(w->device.claim = kept_claim; w->device.run = fault)
