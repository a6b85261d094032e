/* SPDX-License-Identifier: Apache-2.0
 *
 * Operators of ONNX Runtime's domain com.microsoft, and MatMulLevels of ai.tenon, rewritten at import to operators of
 * ai.onnx (and tenon.Attention for sinks). Sources: ONNX Runtime's ContribOperators document, and for what it leaves
 * open what its CPU kernels compute.
 *
 * One function per operator, by family: contrib_simple.c (activations, products), contrib_norm.c, contrib_attention.c,
 * contrib_gqa.c, contrib_rotary.c, contrib_mask.c, contrib_nbits.c, contrib_quant.c, contrib_moe.c, contrib_fused.c,
 * contrib_nchwc.c; contrib_attrs.c is what attributes may say. docs/operators-contrib.md lists what each takes and refuses.
 */
#ifndef TENON_ONNX_CONTRIB_H
#define TENON_ONNX_CONTRIB_H

#include "runtime/onnx/emit.h"

/* *done: d was rewritten, its nodes are in g. Otherwise it stays as it is, unknown to the op table or not. */
TN_MUST_CHECK tn_status tni_contrib(tni_import *c, tni_graph *g, tni_draft *d, bool *done);

typedef void (*tni_contrib_fn)(tni_emit *e);
void tni_contrib_gelu(tni_emit *e); /* Gelu, BiasGelu */
void tni_contrib_fast_gelu(tni_emit *e);
void tni_contrib_quick_gelu(tni_emit *e);
void tni_contrib_bias_split_gelu(tni_emit *e);
void tni_contrib_bias_add(tni_emit *e);
void tni_contrib_fused_matmul(tni_emit *e);
void tni_contrib_layer_norm(tni_emit *e); /* SimplifiedLayerNormalization */
void tni_contrib_skip_layer_norm(tni_emit *e);
void tni_contrib_skip_simplified(tni_emit *e);
void tni_contrib_embed_layer_norm(tni_emit *e);
void tni_contrib_rotary(tni_emit *e);
void tni_contrib_attention(tni_emit *e);
void tni_contrib_multi_head(tni_emit *e);
void tni_contrib_gqa(tni_emit *e);
void tni_contrib_matmul_nbits(tni_emit *e);
void tni_contrib_matmul_levels(tni_emit *e); /* of ai.tenon */
void tni_contrib_gather_blocks(tni_emit *e);
void tni_contrib_qattention(tni_emit *e);
void tni_contrib_fused_conv(tni_emit *e);
void tni_contrib_fused_gemm(tni_emit *e);
void tni_contrib_relative_bias(tni_emit *e);
void tni_contrib_group_norm(tni_emit *e);
void tni_contrib_moe(tni_emit *e);
void tni_contrib_qmoe(tni_emit *e);
void tni_contrib_linear(tni_emit *e);         /* QuantizeLinear, DequantizeLinear */
void tni_contrib_qlinear_binary(tni_emit *e); /* QLinearAdd, QLinearMul */
void tni_contrib_qlinear_sigmoid(tni_emit *e);
void tni_contrib_qlinear_leaky_relu(tni_emit *e);
void tni_contrib_qlinear_softmax(tni_emit *e);
void tni_contrib_qlinear_global_pool(tni_emit *e);
void tni_contrib_qlinear_concat(tni_emit *e);
void tni_contrib_dynamic_matmul(tni_emit *e);
void tni_contrib_matmul_to_float(tni_emit *e);
void tni_contrib_qgemm(tni_emit *e);

/* --- contrib_fused.c --- */
/* The node as `type` of ai.onnx, with these operands; its attributes that are not of an activation come along. */
tn_id tni_contrib_plain(tni_emit *e, const char *type, const tn_id *in, uint32_t n);
/* Conv of x by w with bias, plus z, then the node's activation; operands but x and w may be TN_NONE. */
tn_id tni_contrib_conv(tni_emit *e, tn_id x, tn_id w, tn_id bias, tn_id z);

/* --- contrib_nchwc.c --- */
/* The same as tni_contrib for com.microsoft.nchwc. */
TN_MUST_CHECK tn_status tni_contrib_nchwc(tni_emit *e, bool *done);

/* --- contrib_attrs.c --- */
/* The node's attributes say what its operator's may. Otherwise it fails with the attribute's name. */
bool tni_contrib_attrs(tni_emit *e);

/* --- contrib_quant.c --- */
/* (A - a_zero) (B - b_zero), times both scales, plus bias; A of bytes [.., K], B [K, N]. */
tn_id tni_contrib_integer_product(tni_emit *e, tn_id a, tn_id b, tn_id a_zero, tn_id b_zero, tn_id a_scale,
                                  tn_id b_scale, tn_id bias);

/* --- contrib_nbits.c --- */
/* A constant of the codes, scales and zeros that these constants hold (zeros may be TN_NONE); q has bits, N, K, block
 * and transposed. */
tn_id tni_contrib_quantized(tni_emit *e, tni_quantized *q, tn_id codes, tn_id scales, tn_id zeros);

/* --- contrib_mask.c --- */
/* A mask of keys as ONNX Runtime's Attention and MultiHeadAttention take it, by its rank: [B] ends, [2B] ends and
 * starts, [B, T], [B, S, T]; as what is added to scores: 0, or filter where a key is masked. total: int64 [1], T.
 * dtype: of the scores. TN_NONE in, TN_NONE out. */
tn_id tni_contrib_mask(tni_emit *e, tn_id mask, tn_id query, tn_id total, float filter, uint32_t dtype);

/* --- contrib_rotary.c --- */
/* RotaryEmbedding of x [B, S, heads * size] (heads > 0) or [B, heads, S, size] (heads 0). dim 0: all of a head. */
tn_id tni_contrib_turn(tni_emit *e, tn_id x, tn_id cos, tn_id sin, tn_id positions, int64_t heads, bool interleaved,
                       int64_t dim);
/* int64 [B, S]: first + 0, 1, ..; B and S of x, first int64 [1] or [B, 1]. */
tn_id tni_contrib_positions(tni_emit *e, tn_id x, tn_id first);

#endif
