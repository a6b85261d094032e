/* SPDX-License-Identifier: Apache-2.0
 *
 * What rms_norm and layer_norm share: the normalisation d / sqrt(mean(d^2) + eps) over the last axis, and what may
 * follow as scale and bias.
 */
#ifndef TENON_PASSES_FORMS_NORM_H
#define TENON_PASSES_FORMS_NORM_H

#include "runtime/passes/build/build.h"

typedef struct tni_norm_core {
  tn_id d;    /* what is normalised, any rank >= 1 */
  tn_id gain; /* the factor inside  d * (rsqrt * gain),  or TN_NONE */
  double eps; /* > 0 or 0 */
} tni_norm_core;

/* v is  1 / sqrt(mean(d^2) + eps)  with the mean over the last axis, kept, as Reciprocal or 1 / x of a root or Pow
 * -0.5, perhaps times a gain. The root is Sqrt or Pow 0.5, the square d * d or Pow 2; d is a float. */
bool tni_norm_rsqrt(const tni_graph *g, tn_id v, tni_norm_core *c);
/* v is  d * (such a value)  in either order, or  d / root, and has d's shape. */
bool tni_norm_core_of(const tni_graph *g, tn_id v, tni_norm_core *c);

/* w can be the scale or bias of a normalisation of x's last axis: dtype of x, one element per element of that axis, as
 * proved; a vector, or a constant with leading 1s of no higher rank than x. */
bool tni_norm_is_weight(const tni_graph *g, tn_id x, tn_id w);
/* The weight as a vector: w itself, or a view. TN_NONE: without memory. */
tn_id tni_norm_weight(tni_graph *g, tn_id w);
/* Node `last` becomes type(x, scale[, bias]) over the last axis; scale TN_NONE: ones. bias may be TN_NONE. *fired
 * counts it; nothing happens where ones cannot be made. */
TN_MUST_CHECK tn_status tni_norm_put(tni_graph *g, tni_node *last, const char *type, int64_t version,
                                     const tn_id x_scale_bias[3], double eps, uint32_t *fired, tn_error *err);

#endif
