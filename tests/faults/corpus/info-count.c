/* SPDX-License-Identifier: Apache-2.0 */
#include "whole.h"

static tn_status fault(tn_device *d, const tn_subgraph *s, tn_program **out, tn_error *e) {
  const tn_status st = lower(d, s, out, e);
  if (st == TN_OK) (*out)->info.n_tasks = UINT32_MAX;
  return st;
}

WHOLE(w->device.lower = fault)
