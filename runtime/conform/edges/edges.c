/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/conform/edges/edges.h"
#include "runtime/conform/edges/parts.h"

void tni_cf_edge_cases(const tni_cf_listing *l, tni_cf_add add, void *ctx) {
  tni_cf_edge_struct_cases(l, add, ctx);
  tni_cf_edge_far_cases(l, add, ctx);
  tni_cf_edge_packed_cases(l, add, ctx);
  tni_cf_edge_wide_cases(l, add, ctx);
  tni_cf_edge_weight_cases(l, add, ctx);
  tni_cf_edge_width_cases(l, add, ctx);
  tni_cf_edge_end_cases(l, add, ctx);
  tni_cf_edge_host_cases(l, add, ctx);
  tni_cf_edge_error_cases(l, add, ctx);
  tni_cf_edge_ahead_cases(l, add, ctx);
}
