/* SPDX-License-Identifier: Apache-2.0 */
#include <string.h>

#include "runtime/shape/rules/table.h"

/* Scores [N, C, S...] and labels [N, S...]: a scalar, or the labels' dims with reduction "none"; then the scores' dims.
 */
tn_status tni_shape_loss(tni_infer *in) {
  const tni_value *x = tni_rule_in(in, 0), *t = tni_rule_ranked(in, 1);
  const char *reduction = tni_attr_s(&in->node->pub, "reduction", "mean");
  if (!reduction || (strcmp(reduction, "none") && strcmp(reduction, "mean") && strcmp(reduction, "sum")))
    return tni_rule_fail(in, "reduction is none of none, mean, sum");
  if (!x) return tni_rule_fail(in, "operand 0 is missing");
  tn_status st = TN_OK;
  if (x->pub.rank != TNI_RANK_UNKNOWN && (x->pub.rank < 2 || (t && t->pub.rank != x->pub.rank - 1)))
    return tni_rule_fail(in, "labels have one axis less than scores, which have two or more");
  if (strcmp(reduction, "none"))
    st = tni_rule_set(in, 0, x->pub.dtype, 0, NULL);
  else if (t)
    st = tni_rule_set(in, 0, x->pub.dtype, t->pub.rank, t->pub.dims);
  else
    st = tni_rule_set_unknown(in, 0, x->pub.dtype);
  return st ? st : tni_rule_set_like(in, 1, 0);
}
