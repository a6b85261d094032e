/* SPDX-License-Identifier: Apache-2.0 */
#include "whole.h"

static tn_status fault(const tn_format *f, int64_t N, int64_t K, const int64_t *params, uint32_t n, tn_pack_size *out) {
  const tn_status st = whole_size(f, N, K, params, n, out);
  out->align = 3;
  out->row_unit = 0;
  return st;
}

WHOLE(w->format.size = fault)
