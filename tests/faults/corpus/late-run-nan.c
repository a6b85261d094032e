/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "whole.h"

/* One element of one product, from the sixth step on. */
static tn_status spoil(const tn_plan *plan, tn_args *a, tn_run *pool, tn_error *e) {
  const tn_status st = run(plan, a, pool, e);
  if (st == TN_OK && pool->step >= 5) ((float *)a->y.ptr)[1] = NAN;
  return st;
}

WHOLE(w->device.run = spoil)
