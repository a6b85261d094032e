/* SPDX-License-Identifier: Apache-2.0
 *
 * Masks of ONNX Runtime's attention operators as what is added to the scores.
 */
#include "runtime/onnx/contrib.h"

/* bool -> 0 where it is true, filter where it is not. */
static tn_id added_mask(tni_emit *e, tn_id seen, float filter, uint32_t dtype) {
  return tni_em_3(e, "Where", seen, tni_em_scalar(e, dtype, 0), tni_em_scalar(e, dtype, (double)filter));
}

/* Ends [B], or ends and then starts [2B], int32: keys start <= j < end are seen. bool [B, 1, 1, T]. */
static tn_id by_ends(tni_emit *e, tn_id mask, tn_id query, tn_id total) {
  static const int64_t after[] = {1, 2, 3};
  const tn_id B = tni_em_shape(e, query, 0, 1), twice = tni_em_2(e, "Add", B, B);
  const tn_id none = tni_em_2(e, "Expand", tni_em_scalar(e, TN_DT_I32, 0), B);
  const tn_id pair[] = {mask, none}, both = tni_em_concat(e, pair, 2, 0); /* without starts: zeros */
  const tn_id end = tni_em_slice(e, both, 0, tni_em_index(e, 0), B), start = tni_em_slice(e, both, 0, B, twice);
  const tn_id T = tni_em_2(e, "Squeeze", tni_em_cast(e, total, TN_DT_I32), tni_em_index(e, 0));
  const tn_id j = tni_em_3(e, "Range", tni_em_scalar(e, TN_DT_I32, 0), T, tni_em_scalar(e, TN_DT_I32, 1));
  const tn_id under = tni_em_2(e, "Less", j, tni_em_unsqueeze(e, end, after, 3));
  return tni_em_2(e, "And", under, tni_em_2(e, "GreaterOrEqual", j, tni_em_unsqueeze(e, start, after, 3)));
}

tn_id tni_contrib_mask(tni_emit *e, tn_id mask, tn_id query, tn_id total, float filter, uint32_t dtype) {
  static const int64_t heads_and_rows[] = {1, 2}, heads[] = {1};
  if (mask == TN_NONE) return TN_NONE;
  const uint32_t rank = tni_em_rank(e, mask);
  if (rank == 1) return added_mask(e, by_ends(e, mask, query, total), filter, dtype);
  if (rank != 2 && rank != 3)
    return tni_em_fail(e, TN_E_UNSUPPORTED,
                       "a mask whose rank is neither 1, 2 nor 3, or that the model does not state");
  const tn_id seen = tni_em_cast(e, mask, TN_DT_BOOL);
  return added_mask(e, rank == 2 ? tni_em_unsqueeze(e, seen, heads_and_rows, 2) : tni_em_unsqueeze(e, seen, heads, 1),
                    filter, dtype);
}
