/* SPDX-License-Identifier: Apache-2.0
 *
 * Passes over quantized weights and operators.
 * Uses must be current before a pass and are afterwards; *n: how often it fired. What each matches and keeps stands at
 * the head of its file, and in docs/passes.md.
 */
#ifndef TENON_PASSES_QUANT_QUANT_H
#define TENON_PASSES_QUANT_QUANT_H

#include "runtime/shape/shape.h"

/* Operators between DequantizeLinear and QuantizeLinear on bytes. */
TN_MUST_CHECK tn_status tni_pass_qdq(tni_graph *g, uint32_t *n, tn_error *err);
/* Constants that lie quantized from DequantizeLinear of a weight. */
TN_MUST_CHECK tn_status tni_pass_codes(tni_graph *g, uint32_t *n, tn_error *err);

/* tenon.MatMulIntegerToFloat from MatMulInteger and what scales its sums. */
TN_MUST_CHECK tn_status tni_pass_integers(tni_graph *g, uint32_t *n, tn_error *err);

#endif
