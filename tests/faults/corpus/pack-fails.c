/* SPDX-License-Identifier: Apache-2.0 */
#include "whole.h"

static tn_status fault(tn_pack *p, int64_t n0, int64_t n1, void *blob) {
  (void)p, (void)n0, (void)n1, (void)blob;
  return TN_E_INTERNAL;
}

WHOLE(w->format.rows = fault)
