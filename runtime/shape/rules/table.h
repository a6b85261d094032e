/* SPDX-License-Identifier: Apache-2.0
 *
 * Declares tni_shape_<shape> for every row of the op table (families in rules_*.c). infer.c builds the table itself.
 */
#ifndef TENON_SHAPE_RULES_TABLE_H
#define TENON_SHAPE_RULES_TABLE_H

#include "runtime/shape/rules/rule.h"

#define TNI_OP(id, domain, name, since, until, attrs, in_min, in_max, out_min, out_max, shape_in, shape, kernel, \
               flags)                                                                                            \
  tn_status tni_shape_##shape(tni_infer *in);
#include "runtime/graph/ops.def"
#undef TNI_OP

#endif
