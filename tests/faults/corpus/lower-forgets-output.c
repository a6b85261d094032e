/* SPDX-License-Identifier: Apache-2.0
 *
 * Nobody writes the output that it promised.
 */
#include "whole.h"

static tn_status fault(tn_device *d, const tn_subgraph *s, tn_program **out, tn_error *e) {
  const tn_status st = lower(d, s, out, e);
  if (st == TN_OK) (*out)->uses[s->n_nodes - 1][2].access = TN_READ;
  return st;
}

WHOLE(w->device.lower = fault)
