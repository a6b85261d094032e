/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/fuzz/values.h"

#include <stdio.h>
#include <string.h>

static const struct {
  const char *name, *operands, *attrs;
  uint32_t in_min, in_max, out_max;
} contrib[] = {
    {"Attention", "hmld4", "num_heads:i scale:f unidirectional:i mask_filter_value:f qkv_hidden_sizes:I do_rotary:i", 2,
     7, 2},
    {"BiasAdd", "xlx", "", 3, 3, 1},
    {"BiasGelu", "xl", "", 2, 2, 1},
    {"BiasSplitGelu", "xl", "", 2, 2, 1},
    {"DequantizeLinear", "Qsu", "axis:i block_size:i", 2, 3, 1},
    {"DynamicQuantizeMatMul", "xMssl", "", 3, 5, 1},
    {"EmbedLayerNormalization", "ddmmmllbd", "epsilon:f mask_index_type:i", 7, 9, 3},
    {"FastGelu", "xl", "", 1, 2, 1},
    {"FusedConv", "xwkx",
     "activation:s activation_params:F group:i pads:I strides:I kernel_shape:I dilations:I auto_pad:s", 2, 4, 1},
    {"FusedGemm", "xml", "activation:s activation_alpha:f activation_beta:f alpha:f beta:f transA:i transB:i", 2, 3, 1},
    {"FusedMatMul", "xm", "alpha:f transA:i transB:i transBatchA:i transBatchB:i", 2, 2, 1},
    {"GatherBlockQuantized", "Qdsu", "bits:i block_size:i gather_axis:i quantize_axis:i", 3, 4, 1},
    {"Gelu", "x", "", 1, 1, 1},
    {"GroupNorm", "xcc", "activation:i channels_last:i epsilon:f groups:i", 3, 3, 1},
    {"GroupQueryAttention", "hhh44DNmmdfll",
     "num_heads:i kv_num_heads:i scale:f softcap:f local_window_size:i do_rotary:i "
     "rotary_interleaved:i smooth_softmax:i causal:i sliding_window_cache:i qk_norm_epsilon:f k_quant_type:s",
     7, 14, 3},
    {"MatMulIntegerToFloat", "QMssuul", "", 4, 7, 1},
    {"MatMulNBits", "hBsQdl", "K:i N:i bits:i block_size:i accuracy_level:i weight_prepacked:i", 3, 6, 1},
    {"MoE", "hmmmmmm",
     "activation_type:s k:i normalize_routing_weights:i use_sparse_mixer:i swiglu_fusion:i swiglu_limit:f", 3, 8, 1},
    {"MultiHeadAttention", "hhhldf44", "num_heads:i scale:f unidirectional:i mask_filter_value:f", 1, 8, 3},
    {"QAttention", "QMslsdu4", "num_heads:i scale:f unidirectional:i", 4, 9, 2},
    {"QGemm", "QsuMsulsu", "alpha:f transA:i transB:i", 6, 9, 1},
    {"QLinearAdd", "QsuQsusu", "", 7, 8, 1},
    {"QLinearConcat", "suQsuQsu", "axis:i", 3, 11, 1},
    {"QLinearGlobalAveragePool", "Qsusu", "channels_last:i", 4, 5, 1},
    {"QLinearLeakyRelu", "Qsusu", "alpha:f", 4, 5, 1},
    {"QLinearMul", "QsuQsusu", "", 7, 8, 1},
    {"QLinearSigmoid", "Qsusu", "", 4, 5, 1},
    {"QLinearSoftmax", "Qsusu", "axis:i opset:i", 4, 5, 1},
    {"QMoE", "hmBssBssBss", "activation_type:s k:i expert_weight_bits:i block_size:i swiglu_fusion:i", 3, 14, 1},
    {"QuantizeLinear", "xsu", "axis:i block_size:i", 2, 3, 1},
    {"QuickGelu", "x", "alpha:f", 1, 1, 1},
    {"RelativePositionBias", "mnn", "is_bidirectional:i max_distance:i", 3, 3, 1},
    {"RotaryEmbedding", "hdmm", "interleaved:i num_heads:i rotary_embedding_dim:i scale:f is_packed_batching:i", 4, 4,
     1},
    {"SimplifiedLayerNormalization", "xl", "axis:i epsilon:f stash_type:i", 2, 2, 1},
    {"SkipLayerNormalization", "xxlll", "epsilon:f", 3, 5, 4},
    {"SkipSimplifiedLayerNormalization", "xxll", "epsilon:f", 3, 4, 4},
    {"TransposeMatMul", "xm", "alpha:f transA:i transB:i", 2, 2, 1},
};
enum { N_CONTRIB = sizeof contrib / sizeof *contrib };

/* Operands other than tensors of one kind; "x" repeated where nothing stands here. */
static const char *const forms[][2] = {
    {"Where", "bxx"},
    {"Reshape", "xi"},
    {"Squeeze", "xi"},
    {"Unsqueeze", "xi"},
    {"Slice", "xiiii"},
    {"Gather", "xd"},
    {"GatherElements", "xd"},
    {"GatherND", "xd"},
    {"ScatterND", "xdx"},
    {"ScatterElements", "xdx"},
    {"Expand", "xi"},
    {"Tile", "xi"},
    {"Trilu", "xn"},
    {"Pad", "xiSi"},
    {"OneHot", "dnl"},
    {"Range", "SSS"},
    {"TopK", "xi"},
    {"CumSum", "xn"},
    {"CumProd", "xn"},
    {"ReduceSum", "xi"},
    {"ReduceMean", "xi"},
    {"ReduceMax", "xi"},
    {"ReduceMin", "xi"},
    {"ReduceProd", "xi"},
    {"ReduceSumSquare", "xi"},
    {"ReduceL2", "xi"},
    {"ReduceL1", "xi"},
    {"ReduceLogSum", "xi"},
    {"ReduceLogSumExp", "xi"},
    {"Split", "xi"},
    {"Clip", "xSS"},
    {"Dropout", "xSb"},
    {"LayerNormalization", "xll"},
    {"RMSNormalization", "xl"},
    {"BatchNormalization", "xcccc"},
    {"InstanceNormalization", "xcc"},
    {"GroupNormalization", "xcc"},
    {"MatMul", "xm"},
    {"Gemm", "xml"},
    {"Conv", "xwk"},
    {"ConvTranspose", "xWk"},
    {"DeformConv", "xwxkx"},
    {"MaxRoiPool", "xm"},
    {"RoiAlign", "xmd"},
    {"Resize", "xlsi"},
    {"GridSample", "xx"},
    {"AffineGrid", "xi"},
    {"Col2Im", "xii"},
    {"CenterCropPad", "xi"},
    {"NonMaxSuppression", "44nss"},
    {"MaxUnpool", "xdi"},
    {"QuantizeLinear", "xsu"},
    {"DequantizeLinear", "Qsu"},
    {"MatMulInteger", "QMuu"},
    {"QLinearMatMul", "QsuMsusu"},
    {"ConvInteger", "QVuu"},
    {"QLinearConv", "QsuVsusud"},
    {"RNN", "xgrkdr"},
    {"GRU", "xgrkdr"},
    {"LSTM", "xgrkdrrk"},
    {"Attention", "hhhf44d"},
    {"TensorScatter", "xxd"},
    {"RotaryEmbedding", "hmmd"},
    {"DFT", "xnn"},
    {"STFT", "xnln"},
    {"HannWindow", "n"},
    {"HammingWindow", "n"},
    {"BlackmanWindow", "n"},
    {"MelWeightMatrix", "nnnss"},
    {"Compress", "xb"},
    {"ReverseSequence", "xd"},
    {"NegativeLogLikelihoodLoss", "xdc"},
    {"SoftmaxCrossEntropyLoss", "xdc"},
    {"If", "t"},
    {"Loop", "ntxx"},
    {"ConstantOfShape", "i"},
    {"LinearAttention", "hhh4fl"},
    {"CausalConvWithState", "xwkx"},
    {"And", "bb"},
    {"Or", "bb"},
    {"Xor", "bb"},
    {"Not", "b"},
    {"SequenceAt", "xn"},
    {"SequenceErase", "xn"},
    {"SequenceInsert", "xxn"},
    {"SplitToSequence", "xi"},
    {"BitShift", "QQ"},
    {"Det", "m"},
};

fz_op fz_pick_op(uint32_t n) {
  uint32_t rows;
  const tni_op *table = tni_op_table(&rows);
  n %= rows + N_CONTRIB;
  if (n >= rows) {
    n -= rows;
    return (fz_op){"com.microsoft",     contrib[n].name,
                   contrib[n].operands, contrib[n].in_min,
                   contrib[n].in_max,   1,
                   contrib[n].out_max,  NULL,
                   contrib[n].attrs};
  }
  const tni_op *r = &table[n];
  fz_op op = {r->domain, r->name, "x", r->in_min, r->in_max, r->out_min, r->out_max, r, NULL};
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
    if (strcmp(forms[i][0], r->name) == 0) op.operands = forms[i][1];
  return op;
}

int64_t fz_int(fz_bytes *b) {
  static const int64_t odd[] = {INT64_MAX, INT64_MIN, INT32_MAX, INT32_MIN, 1 << 16, -128,
                                255,       65,        1LL << 40, 1 << 20,   7,       100};
  const uint8_t r = fz_u8(b);
  if (r < 160) return (r & 7) % 5;
  if (r < 200) return r & 15;
  if (r < 236) return -(int64_t)(r & 3) - 1;
  return odd[r % (sizeof odd / sizeof *odd)];
}

float fz_float(fz_bytes *b) {
  static const float v[] = {0,
                            1,
                            -1,
                            0.5f,
                            2,
                            1e-5f,
                            0.1f,
                            -0.75f,
                            3,
                            1e30f,
                            -2.f,
                            1e-8f,
                            __builtin_inff(),
                            255,
                            16,
                            -1e30f,
                            __builtin_nanf("")};
  return v[fz_u8(b) % (sizeof v / sizeof *v)];
}

uint32_t fz_dtype(fz_bytes *b) {
  static const uint8_t usual[] = {TN_DT_F32, TN_DT_I64, TN_DT_F16,  TN_DT_I32,
                                  TN_DT_U8,  TN_DT_I8,  TN_DT_BOOL, TN_DT_F64};
  const uint8_t r = fz_u8(b);
  return r < 128 ? TN_DT_F32 : r < 208 ? usual[r & 7] : r % (TN_DT_COUNT + 1u);
}

const char *fz_string(fz_bytes *b) {
  static const char *const v[] = {"NOTSET",
                                  "VALID",
                                  "SAME_UPPER",
                                  "SAME_LOWER",
                                  "nearest",
                                  "linear",
                                  "cubic",
                                  "bilinear",
                                  "bicubic",
                                  "half_pixel",
                                  "asymmetric",
                                  "align_corners",
                                  "pytorch_half_pixel",
                                  "tf_crop_and_resize",
                                  "half_pixel_symmetric",
                                  "tf_half_pixel_for_nn",
                                  "output_half_pixel",
                                  "floor",
                                  "ceil",
                                  "round_prefer_floor",
                                  "round_prefer_ceil",
                                  "stretch",
                                  "not_larger",
                                  "not_smaller",
                                  "constant",
                                  "reflect",
                                  "edge",
                                  "wrap",
                                  "zeros",
                                  "border",
                                  "reflection",
                                  "none",
                                  "add",
                                  "mul",
                                  "max",
                                  "min",
                                  "mean",
                                  "sum",
                                  "LEFT",
                                  "RIGHT",
                                  "tanh",
                                  "DCR",
                                  "CRD",
                                  "avg",
                                  "forward",
                                  "reverse",
                                  "bidirectional",
                                  "circular",
                                  "up",
                                  "down",
                                  "ij,jk->ik",
                                  "ii->i",
                                  "...ij->...ji",
                                  "i,j->ij",
                                  "bhwc,bkc->bhwk",
                                  "->",
                                  "ij",
                                  "a...b,...->b",
                                  "gated_delta",
                                  "delta",
                                  "gated",
                                  "linear",
                                  "silu",
                                  "swish",
                                  "relu",
                                  "Relu",
                                  "Tanh",
                                  "Sigmoid",
                                  "HardSigmoid",
                                  "Affine",
                                  "Elu",
                                  "LeakyRelu",
                                  "ThresholdedRelu",
                                  "ScaledTanh",
                                  "Softsign",
                                  "Softplus",
                                  "gelu",
                                  "swiglu",
                                  "NONE",
                                  "PER_TENSOR",
                                  "",
                                  "x",
                                  "nearest ",
                                  "\xff",
                                  "a,b,c,d,e->abcde"};
  return v[fz_u8(b) % (sizeof v / sizeof *v)];
}

static ProtobufCBinaryData text(tni_arena *a, const char *s) {
  return (ProtobufCBinaryData){strlen(s), (uint8_t *)fz_text(a, "%s", s)};
}

Onnx__AttributeProto *fz_attribute(tni_arena *a, fz_bytes *b, const char *name, uint32_t type, uint64_t seed) {
  static const uint8_t kinds[] = {[TN_ATTR_INT] = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT,
                                  [TN_ATTR_FLOAT] = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT,
                                  [TN_ATTR_STRING] = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING,
                                  [TN_ATTR_INTS] = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS,
                                  [TN_ATTR_FLOATS] = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOATS,
                                  [TN_ATTR_TENSOR] = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TENSOR,
                                  [TN_ATTR_STRINGS] = ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRINGS};
  static const char *const numbers[] = {
      "to", "dtype", "output_dtype", "output_datatype", "stash_type", "softmax_precision"};
  Onnx__AttributeProto *at = FZ_NEW(a, AttributeProto, attribute_proto);
  at->name = fz_text(a, "%s", name);
  FZ_SET(at, type, type < sizeof kinds ? kinds[type] : 0);
  const uint32_t n = type == TN_ATTR_INTS || type == TN_ATTR_FLOATS || type == TN_ATTR_STRINGS ? fz_below(b, 6) : 0;
  if (type == TN_ATTR_INT) {
    FZ_SET(at, i, fz_int(b));
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
      if (strcmp(name, numbers[i]) == 0) at->i = fz_dtype(b);
  }
  if (type == TN_ATTR_FLOAT) FZ_SET(at, f, fz_float(b));
  if (type == TN_ATTR_STRING) FZ_SET(at, s, text(a, fz_string(b)));
  for (uint32_t i = 0; i < n && type == TN_ATTR_INTS; i++) FZ_PUSH(a, at, ints, fz_int(b));
  for (uint32_t i = 0; i < n && type == TN_ATTR_FLOATS; i++) FZ_PUSH(a, at, floats, fz_float(b));
  for (uint32_t i = 0; i < n && type == TN_ATTR_STRINGS; i++) FZ_PUSH(a, at, strings, text(a, fz_string(b)));
  if (type == TN_ATTR_TENSOR) {
    int64_t dims[3];
    const uint32_t rank = fz_below(b, 3);
    for (uint32_t i = 0; i < rank; i++) dims[i] = fz_below(b, 4);
    at->t = fz_tensor(a, "", fz_dtype(b), dims, rank, seed);
  }
  return at;
}

static uint32_t letter_type(char c) {
  switch (c) {
    case 'i':
      return TN_ATTR_INT;
    case 'f':
      return TN_ATTR_FLOAT;
    case 's':
      return TN_ATTR_STRING;
    case 'I':
      return TN_ATTR_INTS;
    default:
      return TN_ATTR_FLOATS;
  }
}

bool fz_attr_spec(const fz_op *op, uint32_t i, char name[64], uint32_t *type, bool *required) {
  *required = false;
  if (op->row) {
    if (i >= op->row->n_attrs) return false;
    const tni_attr_spec *s = &op->row->attrs[i];
    snprintf(name, 64, "%s", s->name);
    *type = s->type;
    *required = s->required;
    return true;
  }
  const char *p = op->attrs;
  for (; i && *p; i--) {
    p += strcspn(p, " ");
    p += *p == ' ';
  }
  const size_t n = strcspn(p, ":");
  if (!*p || !p[n] || n > 63) return false;
  memcpy(name, p, n);
  name[n] = '\0';
  *type = letter_type(p[n + 1]);
  return true;
}
