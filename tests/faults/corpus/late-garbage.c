/* SPDX-License-Identifier: Apache-2.0 */
#include "whole.h"

/* Finite, and not what it should be. */
static tn_status garbage_run(const tn_plan *plan, tn_args *a, tn_run *pool, tn_error *e) {
  const tn_status st = run(plan, a, pool, e);
  float *y = a->y.ptr;
  for (uint64_t i = 0; pool->step >= 5 && i < a->y.bytes / sizeof *y; i++) y[i] = -y[i];
  return st;
}

WHOLE(w->device.run = garbage_run)
