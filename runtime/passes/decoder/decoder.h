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
/* Heads of one product of q, k and v: parts of it, or products of their own. */
TN_MUST_CHECK tn_status tni_pass_lanes(tni_graph *g, uint32_t *n, tn_error *err);
/* Attention, norms of heads and RotaryEmbedding in 3D form; past and present inside Attention. */
TN_MUST_CHECK tn_status tni_pass_heads(tni_graph *g, uint32_t *n, tn_error *err);

/* Not passes, but before them: inputs that choose are fixed (choose_inputs.c). */
/* use_cache_branch: the decoder with past inputs, or the one without. *there false: the model is not two of them. */
TN_MUST_CHECK tn_status tni_choose_cache(tni_graph *g, bool past, bool *there, tn_error *err);
/* num_logits_to_keep: all. */
TN_MUST_CHECK tn_status tni_choose_logits(tni_graph *g, tn_error *err);
/* Decoders of encoder-decoders (cross.c). Whether g reads keys and values of an encoder's output as a past. */
bool tni_cross_there(const tni_graph *g);
/* The output of the decoder without a past that such an input of the one with a past is; TN_NONE. */
tn_id tni_cross_made(const tni_graph *without, const tni_value *past);
/* One sequence, one position, no past: inputs get these dims. Before passes. */
TN_MUST_CHECK tn_status tni_cross_one_position(tni_graph *g, tn_error *err);
/* Those keys and values are no outputs any more, */
TN_MUST_CHECK tn_status tni_cross_leave(tni_graph *g, tn_error *err);
/* nor is the encoder's output an input where nothing reads it after passes, */
TN_MUST_CHECK tn_status tni_cross_unread(tni_graph *g, tn_error *err);
/* or they are all that there is: g, whose branch was chosen and inlined, makes them of what it still reads. */
TN_MUST_CHECK tn_status tni_cross_only(tni_graph *g, tn_error *err);
/* Whether `with`, run with an empty past, computes what `without` does; both with one branch chosen and inlined,
 * constants folded. *same false: why says which value is not seen to be the same. */
TN_MUST_CHECK tn_status tni_same_decoder(const tni_graph *with, const tni_graph *without, bool *same, char *why,
                                         size_t room, tn_error *err);

#endif
