/* SPDX-License-Identifier: Apache-2.0
 *
 * From limits (longest context, most positions of a step) to dims and lengths: what the memory statement is for.
 */
#ifndef TENON_MEMORY_LIMITS_H
#define TENON_MEMORY_LIMITS_H

#include "runtime/place/place.h"

/* Dims for the model's limits, by symbol: the largest step of a prompt at the end of the context, or (decode) one
 * position there. Models whose caches cannot be kept: a prompt as long as the context. dims [symbols of the graph]. */
TN_MUST_CHECK tn_status tni_limit_dims(const tn_model *m, bool decode, int64_t *dims, tn_error *err);
/* The whole context as one step. */
TN_MUST_CHECK tn_status tni_limit_context(const tn_model *m, int64_t *dims, tn_error *err);
/* The longest context. */
int64_t tni_limit_longest(const tn_model *m);
/* Positions that the caches hold at these limits. */
int64_t tni_limit_capacity(const tn_model *m);
/* Most positions of a step at them. */
int64_t tni_limit_step(const tn_model *m);

#endif
