/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "whole.h"

static tn_status nan_run(const tn_plan *plan, tn_args *a, tn_run *pool, tn_error *e) {
  const tn_status st = run(plan, a, pool, e);
  if (pool->step >= 5) ((float *)a->y.ptr)[0] = NAN;
  return st;
}

WHOLE(w->device.run = nan_run)
