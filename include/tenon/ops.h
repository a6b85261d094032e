/* SPDX-License-Identifier: Apache-2.0
 *
 * tenon/ops.h: operator ids.
 *
 * One id, one meaning: an id stands for the newest ONNX form of the operator. Older opsets are rewritten to it at import
 * (attributes that became inputs become constants, a Softmax before 13 carries coerce_2d = 1). Numbers are stable and
 * appended only; a plugin answers TN_NO with TN_WHY_OP to an id that it does not know. Attributes cross in the order of
 * tenon/attrs.h, defaults filled in; include that yourself, this header does not. The orders that backends need most
 * are the enums below. docs/operators.md (installed: share/doc/tenon/operators.md) has each operator's versions and
 * types.
 */
#ifndef TENON_OPS_H
#define TENON_OPS_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum {
  TN_OP_UNKNOWN = 0,
  /* element-wise, one input */
  TN_OP_IDENTITY = 1, TN_OP_NEG = 2, TN_OP_ABS = 3, TN_OP_SQRT = 4, TN_OP_EXP = 5, TN_OP_LOG = 6, TN_OP_COS = 7,
  TN_OP_SIN = 8, TN_OP_TANH = 9, TN_OP_SIGMOID = 10, TN_OP_ERF = 11, TN_OP_RELU = 12, TN_OP_RECIPROCAL = 13,
  TN_OP_FLOOR = 14, TN_OP_CEIL = 15, TN_OP_ROUND = 16, TN_OP_SIGN = 17, TN_OP_NOT = 18, TN_OP_ISNAN = 19,
  TN_OP_ISINF = 20, TN_OP_SOFTPLUS = 21, TN_OP_GELU = 22, TN_OP_SWISH = 23, TN_OP_CAST = 24, TN_OP_CLIP = 25,
  TN_OP_LEAKY_RELU = 26, TN_OP_ELU = 27, TN_OP_HARD_SIGMOID = 28, TN_OP_HARD_SWISH = 29, TN_OP_TAN = 30,
  TN_OP_DROPOUT = 31,
  /* element-wise, broadcast */
  TN_OP_ADD = 40, TN_OP_SUB = 41, TN_OP_MUL = 42, TN_OP_DIV = 43, TN_OP_POW = 44, TN_OP_MOD = 45, TN_OP_MIN = 46,
  TN_OP_MAX = 47, TN_OP_AND = 48, TN_OP_OR = 49, TN_OP_XOR = 50, TN_OP_EQUAL = 51, TN_OP_GREATER = 52,
  TN_OP_GREATER_OR_EQUAL = 53, TN_OP_LESS = 54, TN_OP_LESS_OR_EQUAL = 55, TN_OP_WHERE = 56, TN_OP_MEAN = 57,
  TN_OP_SUM = 58, TN_OP_PRELU = 59,
  /* shape, movement */
  TN_OP_SHAPE = 70, TN_OP_SIZE = 71, TN_OP_CONSTANT = 72, TN_OP_CONSTANT_OF_SHAPE = 73, TN_OP_RANGE = 74,
  TN_OP_RESHAPE = 75, TN_OP_FLATTEN = 76, TN_OP_SQUEEZE = 77, TN_OP_UNSQUEEZE = 78, TN_OP_TRANSPOSE = 79,
  TN_OP_CONCAT = 80, TN_OP_SPLIT = 81, TN_OP_SLICE = 82, TN_OP_GATHER = 83, TN_OP_GATHER_ELEMENTS = 84,
  TN_OP_GATHER_ND = 85, TN_OP_SCATTER_ND = 86, TN_OP_SCATTER_ELEMENTS = 87, TN_OP_EXPAND = 88, TN_OP_TILE = 89,
  TN_OP_TRILU = 90, TN_OP_PAD = 91, TN_OP_ONE_HOT = 92, TN_OP_NON_ZERO = 93, TN_OP_EYE_LIKE = 94,
  /* reductions and normalizations */
  TN_OP_REDUCE_SUM = 110, TN_OP_REDUCE_MEAN = 111, TN_OP_REDUCE_MAX = 112, TN_OP_REDUCE_MIN = 113,
  TN_OP_REDUCE_PROD = 114, TN_OP_REDUCE_SUM_SQUARE = 115, TN_OP_REDUCE_L2 = 116, TN_OP_ARG_MAX = 117,
  TN_OP_ARG_MIN = 118, TN_OP_CUM_SUM = 119, TN_OP_SOFTMAX = 120, TN_OP_LOG_SOFTMAX = 121,
  TN_OP_LAYER_NORMALIZATION = 122, TN_OP_RMS_NORMALIZATION = 123, TN_OP_TOP_K = 124,
  /* matrix products */
  TN_OP_MATMUL = 140, TN_OP_GEMM = 141,
  /* language models */
  TN_OP_ROTARY_EMBEDDING = 160, TN_OP_ATTENTION = 161, TN_OP_TENSOR_SCATTER = 162,
  /* control flow, parsed and verified; run by the host only */
  TN_OP_IF = 180, TN_OP_LOOP = 181, TN_OP_SCAN = 182,
  /* domain "tenon": what fusion makes; a device that refuses one is offered its parts (docs/passes.md) */
  TN_OP_FUSED_MATMUL = 200, TN_OP_ELEMENTWISE = 201, TN_OP_TENON_ATTENTION = 202,
  TN_OP_QLINEAR_GEMM = 203, TN_OP_QLINEAR_BINARY = 204, TN_OP_QLINEAR_GLOBAL_AVERAGE_POOL = 205, TN_OP_BYTE_LOOKUP = 206,
  TN_OP_TENON_LAYER_NORMALIZATION = 207, TN_OP_TENON_RMS_NORMALIZATION = 208,
  TN_OP_MATMUL_INTEGER_TO_FLOAT = 209, TN_OP_CONCAT_HEADS = 210,
  /* element-wise, continued */
  TN_OP_ACOS = 220, TN_OP_ACOSH = 221, TN_OP_ASIN = 222, TN_OP_ASINH = 223, TN_OP_ATAN = 224, TN_OP_ATANH = 225,
  TN_OP_COSH = 226, TN_OP_SINH = 227, TN_OP_CELU = 228, TN_OP_MISH = 229, TN_OP_SELU = 230, TN_OP_SHRINK = 231,
  TN_OP_SOFTSIGN = 232, TN_OP_THRESHOLDED_RELU = 233, TN_OP_BITWISE_NOT = 234, TN_OP_BIT_CAST = 235,
  TN_OP_CAST_LIKE = 236, TN_OP_BIT_SHIFT = 237, TN_OP_BITWISE_AND = 238, TN_OP_BITWISE_OR = 239,
  TN_OP_BITWISE_XOR = 240, TN_OP_SWIGLU = 241,
  /* reductions and normalizations, continued */
  TN_OP_REDUCE_L1 = 250, TN_OP_REDUCE_LOG_SUM = 251, TN_OP_REDUCE_LOG_SUM_EXP = 252, TN_OP_CUM_PROD = 253,
  TN_OP_HARDMAX = 254, TN_OP_LP_NORMALIZATION = 255, TN_OP_MEAN_VARIANCE_NORMALIZATION = 256,
  TN_OP_BATCH_NORMALIZATION = 257, TN_OP_INSTANCE_NORMALIZATION = 258, TN_OP_GROUP_NORMALIZATION = 259,
  TN_OP_LRN = 260,
  /* convolution, pooling, images */
  TN_OP_CONV = 270, TN_OP_CONV_TRANSPOSE = 271, TN_OP_DEFORM_CONV = 272, TN_OP_AVERAGE_POOL = 273,
  TN_OP_MAX_POOL = 274, TN_OP_LP_POOL = 275, TN_OP_GLOBAL_AVERAGE_POOL = 276, TN_OP_GLOBAL_MAX_POOL = 277,
  TN_OP_GLOBAL_LP_POOL = 278, TN_OP_MAX_UNPOOL = 279, TN_OP_MAX_ROI_POOL = 280, TN_OP_ROI_ALIGN = 281,
  TN_OP_RESIZE = 282, TN_OP_GRID_SAMPLE = 283, TN_OP_AFFINE_GRID = 284, TN_OP_DEPTH_TO_SPACE = 285,
  TN_OP_SPACE_TO_DEPTH = 286, TN_OP_COL2IM = 287, TN_OP_CENTER_CROP_PAD = 288, TN_OP_NON_MAX_SUPPRESSION = 289,
  /* quantization */
  TN_OP_QUANTIZE_LINEAR = 300, TN_OP_DEQUANTIZE_LINEAR = 301, TN_OP_DYNAMIC_QUANTIZE_LINEAR = 302,
  TN_OP_MATMUL_INTEGER = 303, TN_OP_QLINEAR_MATMUL = 304, TN_OP_CONV_INTEGER = 305, TN_OP_QLINEAR_CONV = 306,
  /* recurrences */
  TN_OP_RNN = 310, TN_OP_GRU = 311, TN_OP_LSTM = 312, TN_OP_LINEAR_ATTENTION = 313,
  TN_OP_CAUSAL_CONV_WITH_STATE = 314,
  /* signals, algebra */
  TN_OP_EINSUM = 320, TN_OP_DET = 321, TN_OP_DFT = 322, TN_OP_STFT = 323, TN_OP_HANN_WINDOW = 324,
  TN_OP_HAMMING_WINDOW = 325, TN_OP_BLACKMAN_WINDOW = 326, TN_OP_MEL_WEIGHT_MATRIX = 327,
  /* selection */
  TN_OP_COMPRESS = 330, TN_OP_UNIQUE = 331, TN_OP_REVERSE_SEQUENCE = 332,
  /* random numbers */
  TN_OP_RANDOM_NORMAL = 340, TN_OP_RANDOM_NORMAL_LIKE = 341, TN_OP_RANDOM_UNIFORM = 342,
  TN_OP_RANDOM_UNIFORM_LIKE = 343, TN_OP_MULTINOMIAL = 344, TN_OP_BERNOULLI = 345,
  /* losses */
  TN_OP_NEGATIVE_LOG_LIKELIHOOD_LOSS = 350, TN_OP_SOFTMAX_CROSS_ENTROPY_LOSS = 351,
  /* sequences and optionals; run by the host only */
  TN_OP_SEQUENCE_CONSTRUCT = 360, TN_OP_SEQUENCE_EMPTY = 361, TN_OP_SEQUENCE_AT = 362, TN_OP_SEQUENCE_ERASE = 363,
  TN_OP_SEQUENCE_INSERT = 364, TN_OP_SEQUENCE_LENGTH = 365, TN_OP_SEQUENCE_MAP = 366,
  TN_OP_SPLIT_TO_SEQUENCE = 367, TN_OP_CONCAT_FROM_SEQUENCE = 368, TN_OP_OPTIONAL = 369,
  TN_OP_OPTIONAL_GET_ELEMENT = 370, TN_OP_OPTIONAL_HAS_ELEMENT = 371,
  /* domain "com.microsoft"; what has a canonical form in the domains above is rewritten to it at import */
  TN_OP_MATMUL_NBITS = 400, TN_OP_GATHER_BLOCK_QUANTIZED = 401, TN_OP_MOE = 402, TN_OP_QMOE = 403
};

/* Attribute order of the operators that backends claim most; attrs.h has that of all. */
enum { TN_GEMM_ALPHA = 0, TN_GEMM_BETA = 1, TN_GEMM_TRANS_A = 2, TN_GEMM_TRANS_B = 3 };
enum { TN_SOFTMAX_AXIS = 0, TN_SOFTMAX_COERCE_2D = 1 };
enum { TN_TRANSPOSE_PERM = 0 };
enum {
  TN_ATTENTION_IS_CAUSAL = 0, TN_ATTENTION_Q_NUM_HEADS = 1, TN_ATTENTION_KV_NUM_HEADS = 2, TN_ATTENTION_SCALE = 3,
  TN_ATTENTION_SOFTCAP = 4, TN_ATTENTION_LEFT_WINDOW = 5, TN_ATTENTION_RIGHT_WINDOW = 6,
  TN_ATTENTION_SOFTMAX_PRECISION = 7, TN_ATTENTION_QK_OUTPUT_MODE = 8
};
enum { TN_ROTARY_INTERLEAVED = 0, TN_ROTARY_NUM_HEADS = 1, TN_ROTARY_DIM = 2 };

/* tenon.Elementwise (version 1) computes a chain of element-wise operators in one go.
 *   inputs   x_0 .. x_{n-1}; each broadcasts to the outputs as ONNX says. outputs: all of one shape.
 *   ops      triples  op, a, b  of TN_OP_* and registers. Registers 0 .. n-1 are the inputs; instruction i writes n + i.
 *            a and b < n + i; b is -1 where the operator has one operand. Binary: ADD SUB MUL DIV. Unary: NEG RELU SIGMOID
 *            TANH GELU SWISH.
 *   floats   one per instruction: SWISH its alpha, GELU 1 for tanh and 0 for erf; 0 otherwise.
 *   results  the register of each output.
 * Every register has the tensor's dtype; one that is computed in a wider type may stay so.
 *
 * tenon.FusedMatMul (version 1) is products of one activation, with such a chain after them.
 *   inputs   x [.., M, K]; n_weights matrices w_j [K, N_j] ([N_j, K] with trans_b = 1); then what else the chain reads,
 *            each dense and either one element (of any rank up to x's), [N] or of the products' full shape.
 *   parts    triples  weight, first, count: product p is x times columns [first, first + count) of that weight.
 *   ops, floats, results   as above; registers 0 .. parts-1 are the products, then come the other inputs. Every
 *            instruction reads a product or what was computed from one, all operands of it that do have one width N, and
 *            its result has the shape [.., M, N]. Results are products or instructions.
 * The host checks all of this and the limits below (a FusedMatMul's inputs: its chain's) before a plugin sees a node. */
enum { TN_CHAIN_MAX_INPUTS = 16, TN_CHAIN_MAX_OPS = 32, TN_FUSED_MAX_PARTS = 16 };
enum { TN_ELEMENTWISE_OPS = 0, TN_ELEMENTWISE_FLOATS = 1, TN_ELEMENTWISE_RESULTS = 2 };
enum {
  TN_FUSED_OPS = 0, TN_FUSED_FLOATS = 1, TN_FUSED_RESULTS = 2, TN_FUSED_N_WEIGHTS = 3, TN_FUSED_TRANS_B = 4,
  TN_FUSED_PARTS = 5
};

/* tenon.Attention (version 1) is ONNX Attention of version 25, with the same attributes in the same order (TN_ATTENTION_*),
 * the same inputs 0 to 6 and outputs, and two inputs more, either of which may be absent; both have Q's dtype:
 *   sinks    input 7 [q_num_heads]: a logit per head that takes part in the softmax and has no value. With m the largest of
 *            sink and scores, p = exp(s - m) / (sum of exp(s - m) + exp(sink - m)). Neither scale, softcap nor mask act on it.
 *   slopes   input 8 [q_num_heads]: slope * (j - i) is added to the scaled and capped score before the mask (ALiBi); j is the
 *            key's position, i the query's, counted as is_causal counts it: from the past's end, or with nonpad_kv_seqlen
 *            from there back.
 * K and V may have four axes, [batch, heads, keys, size], where Q has three and says its heads in q_num_heads; then there is no past,
 * kv_num_heads is 0, and Y has three axes as Q has. So an encoder's keys are read as they come.
 * A query that sees no key gives zeros, with a sink or without. A graph has it only where one of the three is there. */
enum { TN_ATTENTION_SINKS = 7, TN_ATTENTION_SLOPES = 8 }; /* inputs */

/* tenon.LayerNormalization and tenon.RMSNormalization (version 1) are ONNX's over the last axis, head by head: x [.., num_heads *
 * size], each `size` elements a row of their own. scale and bias (of the first, may be absent): [size], or [num_heads * size].
 * One output. The pass `heads` makes them of a norm between a Reshape that splits heads and what joins them again. */
enum { TN_HEAD_NORM_EPSILON = 0, TN_HEAD_NORM_NUM_HEADS = 1, TN_HEAD_NORM_STASH_TYPE = 2 };

/* tenon.ConcatHeads (version 1): x_0 .. x_{n-1} [.., num_heads * size_i] -> [.., num_heads * sum of size_i]: head h of the result is
 * head h of all operands, one after the other. Bit i of `shared`: x_i is [.., size_i], one head that stands in all of them. n is
 * at most TN_CONCAT_HEADS_MAX. The pass `heads` makes it of a Concat of heads along their last axis (DeepSeek's keys). */
enum { TN_CONCAT_HEADS_NUM_HEADS = 0, TN_CONCAT_HEADS_SHARED = 1 };
enum { TN_CONCAT_HEADS_MAX = 16 };

/* Operators on bytes (int8 or uint8), all of version 1, which the pass qdq makes beside ONNX's QLinearConv and QLinearMatMul.
 * A value x has a scale (f32, one element) and a zero point (one element of x's dtype), and stands for (x - zero) * scale.
 * A result v is rounded to y = saturate(round(v / y_scale) + y_zero), half to even.
 *   tenon.QLinearGemm               a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero, bias: ONNX QLinearMatMul with an
 *                                   int32 bias [N] (may be absent) that is added to the sums: its scale is a_scale * b_scale.
 *                                   trans_b 1: b is [.., N, K]. b_scale and b_zero: one element, or [N].
 *   tenon.QLinearBinary             a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero; a and b broadcast as ONNX says.
 *                                   op: TN_OP_ADD, SUB, MUL or DIV of the floats that a and b stand for, each rounded to f32.
 *   tenon.QLinearGlobalAveragePool  x, x_scale, x_zero, y_scale, y_zero: ONNX GlobalAveragePool of x [N, C, ..].
 *   tenon.ByteLookup                x, table [256] of bytes: y = table[x], with x's bits read as uint8. */
enum { TN_QLINEAR_GEMM_TRANS_B = 0 };

/* tenon.MatMulIntegerToFloat (version 1): a, b, scale, a_zero, b_zero, bias. ONNX MatMulInteger of a and b with these zero
 * points (either may be absent: 0), each sum rounded to f32, times scale (f32, one element or [N]), plus bias (f32 [N], may
 * be absent). The pass `integers` makes it of what quantize_dynamic writes; a is what DynamicQuantizeLinear gives, with one
 * scale and one zero point for all of the run's rows. Numbered by input: */
enum { TN_INTEGER_A = 0, TN_INTEGER_B = 1, TN_INTEGER_SCALE = 2, TN_INTEGER_A_ZERO = 3, TN_INTEGER_B_ZERO = 4, TN_INTEGER_BIAS = 5 };
enum { TN_QLINEAR_BINARY_OP = 0 };

/* Operands of an operator that chains have (tenon.Elementwise, tenon.FusedMatMul), else 0. */
static inline uint32_t tn_chain_arity(uint32_t op) {
  switch (op) {
    case TN_OP_ADD:
    case TN_OP_SUB:
    case TN_OP_MUL:
    case TN_OP_DIV:
      return 2;
    case TN_OP_NEG:
    case TN_OP_RELU:
    case TN_OP_SIGMOID:
    case TN_OP_TANH:
    case TN_OP_GELU:
    case TN_OP_SWISH:
      return 1;
    default:
      return 0;
  }
}

#ifdef __cplusplus
}
#endif
#endif
