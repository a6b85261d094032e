/* SPDX-License-Identifier: Apache-2.0
 *
 * Passes over what decoders consist of: attention, rotary embeddings, experts, caches, the last rows.
 * Uses must be current before a pass and are afterwards; *n: how often it fired. What each matches and keeps stands at
 * the head of its file, and in docs/passes.md.
 */
#ifndef TENON_PASSES_DECODER_DECODER_H
#define TENON_PASSES_DECODER_DECODER_H

#include "runtime/shape/shape.h"

/* Attention (24) from MatMul, scale, cap, mask, Softmax, MatMul. */
TN_MUST_CHECK tn_status tni_pass_attention(tni_graph *g, uint32_t *n, tn_error *err);
/* RotaryEmbedding (23) from turns of halves or of pairs side by side. */
TN_MUST_CHECK tn_status tni_pass_rotary(tni_graph *g, uint32_t *n, tn_error *err);
/* One table of RotaryEmbedding in place of two that an If chooses. */
TN_MUST_CHECK tn_status tni_pass_tables(tni_graph *g, uint32_t *n, tn_error *err);
/* Experts over all tokens, with those that do not go there as zeros, from NonZero, Gather and ScatterElements. */
TN_MUST_CHECK tn_status tni_pass_experts(tni_graph *g, uint32_t *n, tn_error *err);
/* Past and present of Attention as caches in place: TensorScatter on STATE values. */
TN_MUST_CHECK tn_status tni_pass_cache(tni_graph *g, uint32_t *n, tn_error *err);
/* Logits for the last rows only. */
TN_MUST_CHECK tn_status tni_pass_last_rows(tni_graph *g, uint32_t *n, tn_error *err);
/* Attention and RotaryEmbedding in 3D form; past and present inside Attention. */
TN_MUST_CHECK tn_status tni_pass_heads(tni_graph *g, uint32_t *n, tn_error *err);

#endif
