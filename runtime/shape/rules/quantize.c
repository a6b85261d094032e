/* SPDX-License-Identifier: Apache-2.0
 *
 * Quantized operators that keep their input's dims. Products and convolutions: rules_matmul.c, rules_window.c.
 */
#include "runtime/shape/rules/table.h"

/* Dims of operand 0 with this dtype. */
static tn_status like_input(tni_infer *in, uint32_t dtype) {
  const tni_value *x = tni_rule_in(in, 0);
  if (!x) return tni_rule_fail(in, "operand 0 is missing");
  if (x->pub.rank == TNI_RANK_UNKNOWN) return tni_rule_set_unknown(in, 0, dtype);
  return tni_rule_set(in, 0, dtype, x->pub.rank, x->pub.dims);
}

/* What the attribute output_dtype says, or operand i's dtype, or dflt. */
static tn_status stated_dtype(tni_infer *in, uint32_t i, uint32_t dflt, uint32_t *dtype) {
  const int64_t said = tni_attr_i(&in->node->pub, "output_dtype", 0);
  const tni_value *v = tni_rule_in(in, i);
  if (said < 0 || said >= TN_DT_COUNT) return tni_rule_fail(in, "attribute 'output_dtype' is %lld", (long long)said);
  *dtype = v ? v->pub.dtype : dflt;
  if (said && v && i == 2 && *dtype && *dtype != said)
    return tni_rule_fail(in, "the zero point is %s, output_dtype says %s", tni_dtype_name(*dtype),
                         tni_dtype_name((uint32_t)said));
  if (said) *dtype = (uint32_t)said;
  return TN_OK;
}

tn_status tni_shape_quantize_linear(tni_infer *in) {
  uint32_t dtype = 0;
  tn_status st = stated_dtype(in, 2, TN_DT_U8, &dtype);
  return st ? st : like_input(in, dtype);
}

tn_status tni_shape_dequantize_linear(tni_infer *in) {
  uint32_t dtype = 0;
  tn_status st = stated_dtype(in, 1, TN_DT_UNDEFINED, &dtype);
  return st ? st : like_input(in, dtype);
}

tn_status tni_shape_dynamic_quantize_linear(tni_infer *in) {
  tn_status st = like_input(in, TN_DT_U8);
  if (!st) st = tni_rule_set(in, 1, TN_DT_F32, 0, NULL);
  return st ? st : tni_rule_set(in, 2, TN_DT_U8, 0, NULL);
}
