/* SPDX-License-Identifier: Apache-2.0 */
#include "runtime/onnx/contrib.h"

#include <string.h>

static const struct {
  const char *type;
  tni_contrib_fn fn;
} table[] = {
    {"Attention", tni_contrib_attention},
    {"BiasAdd", tni_contrib_bias_add},
    {"BiasGelu", tni_contrib_gelu},
    {"BiasSplitGelu", tni_contrib_bias_split_gelu},
    {"DequantizeLinear", tni_contrib_linear},
    {"DynamicQuantizeMatMul", tni_contrib_dynamic_matmul},
    {"EmbedLayerNormalization", tni_contrib_embed_layer_norm},
    {"FastGelu", tni_contrib_fast_gelu},
    {"FusedConv", tni_contrib_fused_conv},
    {"FusedGemm", tni_contrib_fused_gemm},
    {"FusedMatMul", tni_contrib_fused_matmul},
    {"GatherBlockQuantized", tni_contrib_gather_blocks},
    {"Gelu", tni_contrib_gelu},
    {"GroupNorm", tni_contrib_group_norm},
    {"GroupQueryAttention", tni_contrib_gqa},
    {"MatMulIntegerToFloat", tni_contrib_matmul_to_float},
    {"MatMulNBits", tni_contrib_matmul_nbits},
    {"MoE", tni_contrib_moe},
    {"MultiHeadAttention", tni_contrib_multi_head},
    {"QAttention", tni_contrib_qattention},
    {"QGemm", tni_contrib_qgemm},
    {"QLinearAdd", tni_contrib_qlinear_binary},
    {"QLinearConcat", tni_contrib_qlinear_concat},
    {"QLinearGlobalAveragePool", tni_contrib_qlinear_global_pool},
    {"QLinearLeakyRelu", tni_contrib_qlinear_leaky_relu},
    {"QLinearMul", tni_contrib_qlinear_binary},
    {"QLinearSigmoid", tni_contrib_qlinear_sigmoid},
    {"QLinearSoftmax", tni_contrib_qlinear_softmax},
    {"QMoE", tni_contrib_qmoe},
    {"QuantizeLinear", tni_contrib_linear},
    {"QuickGelu", tni_contrib_quick_gelu},
    {"RelativePositionBias", tni_contrib_relative_bias},
    {"RotaryEmbedding", tni_contrib_rotary},
    {"SimplifiedLayerNormalization", tni_contrib_layer_norm},
    {"SkipLayerNormalization", tni_contrib_skip_layer_norm},
    {"SkipSimplifiedLayerNormalization", tni_contrib_skip_simplified},
    {"TransposeMatMul", tni_contrib_fused_matmul},
};

const char *tni_contrib_name(uint32_t i) { return i < sizeof table / sizeof *table ? table[i].type : NULL; }

tn_status tni_contrib(tni_import *c, tni_graph *g, tni_draft *d, bool *done) {
  /* Exporters write this one in the standard domain, where ONNX Runtime registers it. */
  const bool stray = !*d->domain && strcmp(d->type, "SimplifiedLayerNormalization") == 0;
  *done = false;
  tni_emit e = {.c = c, .g = g, .d = d};
  if (strcmp(d->domain, "com.microsoft.nchwc") == 0) return tni_contrib_nchwc(&e, done);
  if (strcmp(d->domain, TNI_OWN_DOMAIN) == 0 && strcmp(d->type, "MatMulLevels") == 0) {
    *done = true;
    if (tni_contrib_attrs(&e)) tni_contrib_matmul_levels(&e);
    return e.st;
  }
  if (!stray && strcmp(d->domain, "com.microsoft") != 0) return TN_OK;
  for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
    if (strcmp(table[i].type, d->type) != 0) continue;
    *done = true;
    if (tni_contrib_attrs(&e)) table[i].fn(&e);
    return e.st;
  }
  return TN_OK;
}
