/* SPDX-License-Identifier: Apache-2.0
 *
 * Shapes of operators that a plugin brings (tn_custom_op.shape): "[b..., k], [k, n] -> [b..., 2 * n]".
 */
#ifndef TENON_SHAPE_CUSTOM_H
#define TENON_SHAPE_CUSTOM_H

#include "runtime/shape/rules/rules.h"

/* TN_E_INVALID where the operands contradict the rule, TN_E_INTERNAL for a rule that does not read as one. */
TN_MUST_CHECK tn_status tni_custom_shape(tni_infer *in, const char *rule);

#endif
