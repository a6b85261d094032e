/* SPDX-License-Identifier: Apache-2.0
 *
 * A task that waits for itself.
 */
#include "whole.h"

static tn_status fault(tn_device *d, const tn_subgraph *s, tn_program **out, tn_error *e) {
  const tn_status st = lower(d, s, out, e);
  if (st == TN_OK) {
    (*out)->deps[0][0] = 0;
    (*out)->tasks[0].n_deps = 1;
  }
  return st;
}

WHOLE(w->device.lower = fault)
