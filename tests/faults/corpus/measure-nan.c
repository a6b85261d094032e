/* SPDX-License-Identifier: Apache-2.0 */
#include "whole.h"

static tn_status fault(const tn_program *p, tn_id task, const tn_dims *dims, tn_measure *out) {
  const tn_status st = measure(p, task, dims, out);
  out->cost_ns = out->macs = out->moved_bytes = __builtin_nan("");
  return st;
}

WHOLE(w->device.measure = fault)
