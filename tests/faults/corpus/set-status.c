/* SPDX-License-Identifier: Apache-2.0 */
#include "whole.h"

static tn_status fault(tn_program *p, tn_id slot, const tn_view *view, const tn_blob *blob, tn_error *e) {
  (void)p, (void)slot, (void)view, (void)blob, (void)e;
  return -12345;
}

WHOLE(w->device.set = fault)
