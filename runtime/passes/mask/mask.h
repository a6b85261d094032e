/* SPDX-License-Identifier: Apache-2.0
 *
 * The pass that reads attention masks.
 * Uses must be current before a pass and are afterwards; *n: how often it fired. What each matches and keeps stands at
 * the head of its file, and in docs/passes.md.
 */
#ifndef TENON_PASSES_MASK_MASK_H
#define TENON_PASSES_MASK_MASK_H

#include "runtime/shape/shape.h"

/* is_causal and windows from masks that say them. */
TN_MUST_CHECK tn_status tni_pass_mask(tni_graph *g, uint32_t *n, tn_error *err);

#endif
