/* SPDX-License-Identifier: Apache-2.0 */
#include "whole.h"

static tn_status fault(tn_plan *plan, const tn_view *const *uses, uint32_t n, tn_args **out, tn_error *e) {
  (void)plan, (void)uses, (void)n, (void)e;
  *out = NULL;
  return TN_OK;
}

WHOLE(w->device.args = fault)
