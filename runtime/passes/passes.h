/* SPDX-License-Identifier: Apache-2.0
 *
 * Graph passes: after them a graph is smaller and says the same. Most keep every bit; those that recognise an operator
 * in its primitives keep results up to rounding (docs/passes.md says which, and what each matches and keeps).
 *
 * tni_passes_run repeats rounds of  infer -> fold -> infer -> branch (these as long as it fires) -> the passes in the order of run.c -> compact  until
 * nothing fires any more, for six stages one after the other: quantized operators are put on bytes and quantized weights
 * kept as they are (in graphs that have any), operators are recognised, then brought into the forms that plugins and caches want, then caches put into memory that stays, then operators fused. Ids of nodes and values change. Subgraphs of If, Loop and Scan are left as they are, but for
 * the branch of an If that is known to be taken.
 */
#ifndef TENON_PASSES_PASSES_H
#define TENON_PASSES_PASSES_H

#include "runtime/shape/infer.h"

enum { TNI_PASSES_MAX = 32, TNI_PASSES_ROUNDS = 8 };
/* Larger results are not folded: a transposed weight stays an operation on the mapped file. */
#define TNI_FOLD_MAX_BYTES (UINT64_C(64) << 10)

typedef struct tni_passes_options {
  const char *const *disabled; /* names of passes to leave out, see tni_pass_name; "all" is all of them */
  uint32_t n_disabled;
  uint64_t max_fold_bytes; /* 0: TNI_FOLD_MAX_BYTES */
} tni_passes_options;

typedef struct tni_passes_report {
  struct {
    const char *name; /* static */
    uint64_t fired;   /* nodes or values that it changed or removed, all rounds together */
  } entries[TNI_PASSES_MAX];
  uint32_t n, rounds;
  uint32_t nodes_before, nodes_after;
} tni_passes_report;

/* opt, report: may be NULL. eval and ctx: see tni_fold_constants. TN_E_INVALID: contradicting shapes, or a name in
 * opt->disabled that is no pass. After a failure the graph is only good for tni_graph_destroy. */
TN_MUST_CHECK tn_status tni_passes_run(tni_graph *g, const tni_passes_options *opt, tni_eval_fn eval, void *ctx,
                                       tni_passes_report *report, tn_error *err);

/* The name of pass i in order, NULL past the last. *rounds (may be NULL): results may differ in their last bits. */
const char *tni_pass_name(uint32_t i, bool *rounds);

/* --- one file each. Uses must be current before and are afterwards; *n: how often it fired. */

/* Nodes that hand their input on unchanged: Identity, Dropout in inference, Cast to the same type, Concat or Split of
 * one, and Reshape, Flatten, Squeeze, Unsqueeze, Expand, Tile, Slice, Transpose whose shapes are proved equal and that
 * move nothing; x * 1, x / 1, x and true, x or false. */
TN_MUST_CHECK tn_status tni_pass_identity(tni_graph *g, uint32_t *n, tn_error *err);
/* Equal constants (up to 64 KiB), equal STEP values, and nodes with equal operator, attributes and operands. */
TN_MUST_CHECK tn_status tni_pass_cse(tni_graph *g, uint32_t *n, tn_error *err);
/* The branch that an If takes, where its condition is constant. */
TN_MUST_CHECK tn_status tni_pass_branch(tni_graph *g, uint32_t *n, tn_error *err);
/* What each of the following matches and keeps stands at the head of its file, and in docs/passes.md. */
TN_MUST_CHECK tn_status tni_pass_reshape(tni_graph *g, uint32_t *n, tn_error *err);
TN_MUST_CHECK tn_status tni_pass_layer_norm(tni_graph *g, uint32_t *n, tn_error *err);
TN_MUST_CHECK tn_status tni_pass_rms_norm(tni_graph *g, uint32_t *n, tn_error *err);
TN_MUST_CHECK tn_status tni_pass_gelu(tni_graph *g, uint32_t *n, tn_error *err);
TN_MUST_CHECK tn_status tni_pass_silu(tni_graph *g, uint32_t *n, tn_error *err);
TN_MUST_CHECK tn_status tni_pass_conv_scale(tni_graph *g, uint32_t *n, tn_error *err);
/* Operators between DequantizeLinear and QuantizeLinear on bytes. */
TN_MUST_CHECK tn_status tni_pass_qdq(tni_graph *g, uint32_t *n, tn_error *err);
/* MatMul from Einsum of two operands. */
TN_MUST_CHECK tn_status tni_pass_einsum(tni_graph *g, uint32_t *n, tn_error *err);
/* Constants that lie quantized from DequantizeLinear of a weight. */
TN_MUST_CHECK tn_status tni_pass_codes(tni_graph *g, uint32_t *n, tn_error *err);
/* Products of [batch * heads, ..] that are unfolded behind: on [batch, heads, ..]. */
TN_MUST_CHECK tn_status tni_pass_unflatten(tni_graph *g, uint32_t *n, tn_error *err);
/* Attention (24) from MatMul, scale, cap, mask, Softmax, MatMul. */
TN_MUST_CHECK tn_status tni_pass_attention(tni_graph *g, uint32_t *n, tn_error *err);
/* RotaryEmbedding (23) from turns of halves or of pairs side by side. */
TN_MUST_CHECK tn_status tni_pass_rotary(tni_graph *g, uint32_t *n, tn_error *err);
/* Experts over all tokens, with those that do not go there as zeros, from NonZero, Gather and ScatterElements. */
TN_MUST_CHECK tn_status tni_pass_experts(tni_graph *g, uint32_t *n, tn_error *err);
/* Past and present of Attention as caches in place: TensorScatter on STATE values. */
TN_MUST_CHECK tn_status tni_pass_cache(tni_graph *g, uint32_t *n, tn_error *err);
/* Logits for the last rows only. */
TN_MUST_CHECK tn_status tni_pass_last_rows(tni_graph *g, uint32_t *n, tn_error *err);
/* Attention and RotaryEmbedding in 3D form; past and present inside Attention. */
TN_MUST_CHECK tn_status tni_pass_heads(tni_graph *g, uint32_t *n, tn_error *err);
/* is_causal and windows from masks that say them. */
TN_MUST_CHECK tn_status tni_pass_mask(tni_graph *g, uint32_t *n, tn_error *err);
/* tenon.FusedMatMul of products of one activation, and of parts of one product. */
TN_MUST_CHECK tn_status tni_pass_siblings(tni_graph *g, uint32_t *n, tn_error *err);
/* Element-wise operators become part of the product before them, or one tenon.Elementwise. */
TN_MUST_CHECK tn_status tni_pass_chain(tni_graph *g, uint32_t *n, tn_error *err);

#endif
