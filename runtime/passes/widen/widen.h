/* SPDX-License-Identifier: Apache-2.0
 *
 * The pass that computes graphs of float16 and bfloat16 in float32.
 * Uses must be current before a pass and are afterwards; *n: how often it fired. What it matches and keeps stands at
 * the head of widen.c, and in docs/passes.md.
 */
#ifndef TENON_PASSES_WIDEN_WIDEN_H
#define TENON_PASSES_WIDEN_WIDEN_H

#include "runtime/shape/shape.h"

/* float16 and bfloat16 become float32, but for the graph's inputs and outputs. */
TN_MUST_CHECK tn_status tni_pass_widen(tni_graph *g, uint32_t *n, tn_error *err);

#endif
