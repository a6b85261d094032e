/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/report/weights.h"

#include "runtime/graph/graph.h"

json_t *tni_weight_source_json(const tn_weight *w) {
  static const char *const zeros[] = {"unknown", "half", "codes", "values"};
  const tn_quant *q = w->quant;
  if (!q) return json_pack("{s:s}", "dtype", tni_dtype_name(w->dtype));
  const uint32_t kind = q->zero_kind < sizeof zeros / sizeof *zeros ? q->zero_kind : 0;
  return json_pack("{s:i, s:I, s:s, s:s}", "bits", (int)q->bits, "group", (json_int_t)q->group, "zeros", zeros[kind],
                   "scales", tni_dtype_name(q->scale_dtype));
}

const char *tni_weight_scales_name(const tn_format *f, const int64_t *params, uint32_t n) {
  const tn_numerics *num =
      TN_HAS(f, tn_format, numerics_of) && f->numerics_of ? f->numerics_of(f, params, n) : f->numerics;
  return num ? tni_dtype_name(num->scale_dtype) : "unknown";
}
