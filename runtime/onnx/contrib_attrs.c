/* SPDX-License-Identifier: Apache-2.0
 *
 * What attributes of com.microsoft's operators may say, from ONNX Runtime's ContribOperators document. Attributes that
 * a rewrite does not know are refused by tni_em_knows, values of those of ai.onnx's nodes by the op table.
 */
#include <string.h>

#include "runtime/onnx/contrib.h"

#define INT_IN(name, ...) \
  { name, TN_ATTR_INT, false, {.i = 0}, true, NULL, __VA_ARGS__ }
#define INT_REQUIRED(name, ...) \
  { name, TN_ATTR_INT, true, {.i = 0}, true, NULL, __VA_ARGS__ }
#define INTS_IN(name, ...) \
  { name, TN_ATTR_INTS, false, {.i = 0}, true, NULL, __VA_ARGS__ }
#define FLOAT(name) \
  { name, TN_ATTR_FLOAT, false, {.f = 0}, true, NULL, 0, 0 }
#define WORD(name, words) \
  { name, TN_ATTR_STRING, false, {.s = NULL}, true, words, 0, 0 }
#define SWITCH 0, 1
#define COUNT 1, INT32_MAX
#define COUNT_OR_0 0, INT32_MAX
#define BITS 2, 8
#define ANY 0, 0
#define EXPERTS                                                                                             \
  INT_IN("k", COUNT), WORD("activation_type", "relu|gelu|silu|swiglu|identity"), FLOAT("activation_alpha"), \
      FLOAT("activation_beta"), FLOAT("swiglu_limit"), INT_IN("normalize_routing_weights", SWITCH),         \
      INT_IN("swiglu_fusion", 0, 2), INT_IN("use_sparse_mixer", SWITCH)
#define MASKED FLOAT("mask_filter_value"), FLOAT("scale"), INT_IN("unidirectional", SWITCH)

enum { MOST = 16 };
static const struct {
  const char *type;
  tni_attr_spec attrs[MOST];
} table[] = {
    {"Attention",
     {INT_REQUIRED("num_heads", COUNT), MASKED, INTS_IN("qkv_hidden_sizes", COUNT), INT_IN("do_rotary", SWITCH),
      INT_IN("past_present_share_buffer", SWITCH), INT_IN("rotary_embedding_dim", COUNT_OR_0)}},
    {"DequantizeLinear", {INT_IN("block_size", COUNT_OR_0)}},
    {"EmbedLayerNormalization", {FLOAT("epsilon"), INT_IN("mask_index_type", SWITCH)}},
    {"FusedMatMul",
     {FLOAT("alpha"), INT_IN("transA", SWITCH), INT_IN("transB", SWITCH), INT_IN("transBatchA", SWITCH),
      INT_IN("transBatchB", SWITCH)}},
    {"GatherBlockQuantized", {INT_IN("bits", BITS), INT_IN("block_size", COUNT)}},
    {"GroupNorm",
     {FLOAT("epsilon"), INT_REQUIRED("groups", COUNT), INT_REQUIRED("activation", SWITCH),
      INT_IN("channels_last", SWITCH)}},
    {"GroupQueryAttention",
     {INT_REQUIRED("num_heads", COUNT), INT_REQUIRED("kv_num_heads", COUNT), INT_IN("do_rotary", SWITCH),
      INT_IN("rotary_interleaved", SWITCH), INT_IN("local_window_size", -1, INT32_MAX), FLOAT("scale"),
      FLOAT("softcap"), INT_IN("smooth_softmax", -1, 1), INT_IN("causal", SWITCH), FLOAT("qk_norm_epsilon"),
      INT_IN("sliding_window_cache", SWITCH), INT_IN("qk_output", 0, 2),
      WORD("k_quant_type", "NONE|PER_TENSOR|PER_CHANNEL"), WORD("v_quant_type", "NONE|PER_TENSOR|PER_CHANNEL")}},
    {"MatMulLevels",
     {INT_REQUIRED("K", COUNT), INT_REQUIRED("N", COUNT), INT_IN("bits", 1, 8), INT_REQUIRED("block_size", COUNT),
      INT_IN("index_bits", 1, 8)}},
    {"MatMulNBits",
     {INT_REQUIRED("K", COUNT), INT_REQUIRED("N", COUNT), INT_IN("bits", BITS), INT_REQUIRED("block_size", COUNT),
      INT_IN("accuracy_level", 0, 4)}},
    {"MoE", {EXPERTS}},
    {"MultiHeadAttention", {INT_REQUIRED("num_heads", COUNT), MASKED}},
    {"QAttention",
     {INT_REQUIRED("num_heads", COUNT), MASKED, INT_IN("do_rotary", SWITCH),
      INT_IN("past_present_share_buffer", SWITCH)}},
    {"QGemm", {FLOAT("alpha"), INT_IN("transA", SWITCH), INT_IN("transB", SWITCH)}},
    {"QLinearConcat", {INT_REQUIRED("axis", ANY)}},
    {"QLinearGlobalAveragePool", {INT_IN("channels_last", SWITCH)}},
    {"QLinearSoftmax", {INT_REQUIRED("opset", COUNT)}},
    {"QMoE",
     {EXPERTS, INT_IN("expert_weight_bits", BITS), INT_IN("fc1_expert_weight_bits", BITS),
      INT_IN("fc2_expert_weight_bits", BITS), INT_IN("fc3_expert_weight_bits", BITS),
      INT_IN("block_size", COUNT_OR_0)}},
    {"QuantizeLinear", {INT_IN("block_size", COUNT_OR_0)}},
    {"RelativePositionBias", {INT_IN("is_bidirectional", SWITCH), INT_REQUIRED("max_distance", COUNT)}},
    {"RotaryEmbedding",
     {INT_IN("interleaved", SWITCH), INT_IN("is_packed_batching", SWITCH), INT_IN("num_heads", COUNT_OR_0),
      INT_IN("rotary_embedding_dim", COUNT_OR_0), FLOAT("scale")}},
    {"SimplifiedLayerNormalization", {FLOAT("epsilon"), INT_IN("stash_type", 1, TN_DT_COUNT - 1)}},
    {"SkipLayerNormalization", {FLOAT("epsilon")}},
    {"SkipSimplifiedLayerNormalization", {FLOAT("epsilon")}},
    {"TransposeMatMul", {FLOAT("alpha"), INT_IN("transA", SWITCH), INT_IN("transB", SWITCH)}},
};
#undef INT_IN
#undef INT_REQUIRED
#undef INTS_IN
#undef FLOAT
#undef WORD
#undef SWITCH
#undef COUNT
#undef COUNT_OR_0
#undef BITS
#undef ANY
#undef EXPERTS
#undef MASKED

static void check_contrib_attrs(tni_emit *e, const tni_attr_spec *s) {
  uint32_t found = 0;
  char why[512];
  for (uint32_t i = 0; i < e->d->n_raw; i++) {
    const tni_raw_attr *r = &e->d->raw[i];
    if (strcmp(r->name, s->name) != 0) continue;
    if (found++) tni_em_fail(e, TN_E_INVALID, "attribute '%s' stands twice", s->name);
    if (!tni_attr_fits(s, &r->a, why, sizeof why)) tni_em_fail(e, TN_E_INVALID, "%s", why);
  }
  if (!found && s->required) tni_em_fail(e, TN_E_INVALID, "attribute '%s' is required and missing", s->name);
}

bool tni_contrib_attrs(tni_emit *e) {
  for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
    if (strcmp(table[i].type, e->d->type) != 0) continue;
    for (uint32_t k = 0; k < MOST && table[i].attrs[k].name; k++) check_contrib_attrs(e, &table[i].attrs[k]);
  }
  return e->st == TN_OK;
}
