/* SPDX-License-Identifier: Apache-2.0
 *
 * Which dtypes each operator's kernel takes: what claim() answers, so that no kernel is asked what it cannot do.
 */
#include <stdio.h>

#include "runtime/ops/nn/nn.h"

#define BIT(t) (UINT32_C(1) << TN_DT_##t)
enum {
  REAL = BIT(F32) | BIT(F64) | BIT(F16) | BIT(BF16),
  FLOATS = BIT(F32) | BIT(F16) | BIT(BF16),
  INTS = BIT(I8) | BIT(U8) | BIT(I16) | BIT(U16) | BIT(I32) | BIT(U32) | BIT(I64) | BIT(U64),
  NUM = REAL | INTS,
  BOOLS = BIT(BOOL),
  INDEX = BIT(I32) | BIT(I64),
  COMPLEX = BIT(C64) | BIT(C128),
  BYTES_INT = BIT(I8) | BIT(U8),
  BYTES8 = NUM | BOOLS | BIT(C64) | BIT(F8E4M3FN) | BIT(F8E4M3FNUZ) | BIT(F8E5M2) | BIT(F8E5M2FNUZ) | BIT(F8E8M0),
  ALL = BYTES8 | BIT(C128),
  BYTES = BIT(I8) | BIT(U8),
  F32S = BIT(F32),
  I32S = BIT(I32),
  SCALES = FLOATS | BIT(F8E8M0),
  CODES = BYTES | BIT(I16) | BIT(U16) | BIT(I4) | BIT(U4) | BIT(I2) | BIT(U2) | BIT(F4E2M1) | BIT(F8E4M3FN) |
          BIT(F8E4M3FNUZ) | BIT(F8E5M2) | BIT(F8E5M2FNUZ), /* what is quantized to */
  CODES32 = CODES | BIT(I32),
  SMALL = BIT(U4) | BIT(I4) | BIT(F4E2M1) | BIT(U2) | BIT(I2), /* below a byte */
  STORED = ALL | BIT(STRING) | SMALL,
  CASTABLE = NUM | BOOLS | SMALL | BIT(F8E4M3FN) | BIT(F8E4M3FNUZ) | BIT(F8E5M2) | BIT(F8E5M2FNUZ) | BIT(F8E8M0),
};
#undef BIT

/* Masks of inputs 0, 1, 2 (the last one also of all further ones); 0: as input 0, and the same dtype. */
typedef struct rule {
  uint32_t op, in[3];
} rule;

static const rule accept_rules[] = {
    {TN_OP_IDENTITY, {ALL}},
    {TN_OP_NEG, {NUM}},
    {TN_OP_ABS, {NUM}},
    {TN_OP_SQRT, {REAL}},
    {TN_OP_EXP, {REAL}},
    {TN_OP_LOG, {REAL}},
    {TN_OP_COS, {REAL}},
    {TN_OP_SIN, {REAL}},
    {TN_OP_TAN, {REAL}},
    {TN_OP_TANH, {REAL}},
    {TN_OP_SIGMOID, {REAL}},
    {TN_OP_ERF, {REAL}},
    {TN_OP_RELU, {NUM}},
    {TN_OP_RECIPROCAL, {REAL}},
    {TN_OP_FLOOR, {REAL}},
    {TN_OP_CEIL, {REAL}},
    {TN_OP_ROUND, {REAL}},
    {TN_OP_SIGN, {NUM}},
    {TN_OP_SOFTPLUS, {REAL}},
    {TN_OP_GELU, {REAL}},
    {TN_OP_SWISH, {REAL}},
    {TN_OP_LEAKY_RELU, {REAL}},
    {TN_OP_ELU, {REAL}},
    {TN_OP_HARD_SIGMOID, {REAL}},
    {TN_OP_HARD_SWISH, {REAL}},
    {TN_OP_ACOS, {REAL}},
    {TN_OP_ACOSH, {REAL}},
    {TN_OP_ASIN, {REAL}},
    {TN_OP_ASINH, {REAL}},
    {TN_OP_ATAN, {REAL}},
    {TN_OP_ATANH, {REAL}},
    {TN_OP_COSH, {REAL}},
    {TN_OP_SINH, {REAL}},
    {TN_OP_CELU, {REAL}},
    {TN_OP_MISH, {REAL}},
    {TN_OP_SELU, {REAL}},
    {TN_OP_SOFTSIGN, {REAL}},
    {TN_OP_THRESHOLDED_RELU, {REAL}},
    {TN_OP_SHRINK, {NUM}},
    {TN_OP_BITWISE_NOT, {INTS}},
    {TN_OP_BITWISE_AND, {INTS}},
    {TN_OP_BITWISE_OR, {INTS}},
    {TN_OP_BITWISE_XOR, {INTS}},
    {TN_OP_BIT_SHIFT, {INTS}},
    {TN_OP_SWIGLU, {REAL}},
    {TN_OP_REDUCE_L1, {NUM, INDEX}},
    {TN_OP_REDUCE_LOG_SUM, {REAL, INDEX}},
    {TN_OP_REDUCE_LOG_SUM_EXP, {REAL, INDEX}},
    {TN_OP_EINSUM, {NUM}},
    {TN_OP_DET, {REAL}},
    {TN_OP_DFT, {REAL, INDEX, INDEX}},
    {TN_OP_STFT, {REAL, INDEX, REAL | INDEX}},
    {TN_OP_HANN_WINDOW, {INDEX}},
    {TN_OP_HAMMING_WINDOW, {INDEX}},
    {TN_OP_BLACKMAN_WINDOW, {INDEX}},
    {TN_OP_MEL_WEIGHT_MATRIX, {INDEX, INDEX, INDEX | REAL}},
    {TN_OP_COMPRESS, {ALL, BOOLS}},
    {TN_OP_UNIQUE, {NUM | BOOLS | COMPLEX}},
    {TN_OP_REVERSE_SEQUENCE, {ALL, INDEX}},
    {TN_OP_RANDOM_NORMAL, {REAL}},
    {TN_OP_RANDOM_NORMAL_LIKE, {STORED}},
    {TN_OP_RANDOM_UNIFORM, {REAL}},
    {TN_OP_RANDOM_UNIFORM_LIKE, {STORED}},
    {TN_OP_MULTINOMIAL, {REAL}},
    {TN_OP_BERNOULLI, {REAL}},
    {TN_OP_NEGATIVE_LOG_LIKELIHOOD_LOSS, {REAL, INDEX, REAL}},
    {TN_OP_SOFTMAX_CROSS_ENTROPY_LOSS, {REAL, INDEX, REAL}},
    {TN_OP_CUM_PROD, {NUM, INDEX}},
    {TN_OP_HARDMAX, {REAL}},
    {TN_OP_NOT, {BOOLS}},
    {TN_OP_ISNAN, {REAL}},
    {TN_OP_ISINF, {REAL}},
    {TN_OP_CAST, {CASTABLE}},
    {TN_OP_CAST_LIKE, {CASTABLE, CASTABLE}},
    {TN_OP_BIT_CAST, {ALL | SMALL}},
    {TN_OP_CLIP, {NUM}},
    {TN_OP_DROPOUT, {ALL, NUM, BOOLS}},
    {TN_OP_ADD, {NUM}},
    {TN_OP_SUB, {NUM}},
    {TN_OP_MUL, {NUM}},
    {TN_OP_DIV, {NUM}},
    {TN_OP_POW, {NUM, NUM}},
    {TN_OP_MOD, {NUM}},
    {TN_OP_PRELU, {NUM}},
    {TN_OP_MIN, {NUM}},
    {TN_OP_MAX, {NUM}},
    {TN_OP_SUM, {NUM}},
    {TN_OP_MEAN, {REAL}},
    {TN_OP_AND, {BOOLS}},
    {TN_OP_OR, {BOOLS}},
    {TN_OP_XOR, {BOOLS}},
    {TN_OP_EQUAL, {NUM | BOOLS}},
    {TN_OP_GREATER, {NUM}},
    {TN_OP_GREATER_OR_EQUAL, {NUM}},
    {TN_OP_LESS, {NUM}},
    {TN_OP_LESS_OR_EQUAL, {NUM}},
    {TN_OP_WHERE, {BOOLS, BYTES8, BYTES8}},
    {TN_OP_SHAPE, {STORED}},
    {TN_OP_SIZE, {STORED}},
    {TN_OP_CONSTANT, {ALL}},
    {TN_OP_CONSTANT_OF_SHAPE, {INDEX}},
    {TN_OP_RANGE, {NUM}},
    {TN_OP_RESHAPE, {STORED & ~(UINT32_C(1) << TN_DT_STRING), INDEX}},
    {TN_OP_FLATTEN, {STORED & ~(UINT32_C(1) << TN_DT_STRING)}},
    {TN_OP_SQUEEZE, {STORED & ~(UINT32_C(1) << TN_DT_STRING), INDEX}},
    {TN_OP_UNSQUEEZE, {STORED & ~(UINT32_C(1) << TN_DT_STRING), INDEX}},
    {TN_OP_TRANSPOSE, {ALL}},
    {TN_OP_CONCAT, {ALL}},
    {TN_OP_CONCAT_HEADS, {ALL}},
    {TN_OP_SPLIT, {ALL, INDEX}},
    {TN_OP_SLICE, {ALL, INDEX, INDEX}},
    {TN_OP_GATHER, {ALL, INDEX}},
    {TN_OP_GATHER_ELEMENTS, {ALL, INDEX}},
    {TN_OP_GATHER_ND, {ALL, INDEX}},
    {TN_OP_SCATTER_ND, {ALL, INDEX, ALL}},
    {TN_OP_SCATTER_ELEMENTS, {ALL, INDEX, ALL}},
    {TN_OP_EXPAND, {ALL, INDEX}},
    {TN_OP_TILE, {ALL, INDEX}},
    {TN_OP_TRILU, {ALL, INDEX}},
    {TN_OP_PAD, {ALL, INDEX, ALL}},
    {TN_OP_ONE_HOT, {NUM, NUM, ALL}},
    {TN_OP_EYE_LIKE, {STORED}},
    {TN_OP_NON_ZERO, {NUM | BOOLS}},
    {TN_OP_REDUCE_SUM, {NUM, INDEX}},
    {TN_OP_REDUCE_MEAN, {NUM, INDEX}},
    {TN_OP_REDUCE_MAX, {NUM | BOOLS, INDEX}},
    {TN_OP_REDUCE_MIN, {NUM | BOOLS, INDEX}},
    {TN_OP_REDUCE_PROD, {NUM, INDEX}},
    {TN_OP_REDUCE_SUM_SQUARE, {NUM, INDEX}},
    {TN_OP_REDUCE_L2, {NUM, INDEX}},
    {TN_OP_ARG_MAX, {NUM}},
    {TN_OP_ARG_MIN, {NUM}},
    {TN_OP_CUM_SUM, {NUM, INDEX}},
    {TN_OP_SOFTMAX, {REAL}},
    {TN_OP_LOG_SOFTMAX, {REAL}},
    {TN_OP_LAYER_NORMALIZATION, {REAL, REAL, REAL}},
    {TN_OP_RMS_NORMALIZATION, {REAL, REAL}},
    {TN_OP_TENON_LAYER_NORMALIZATION, {REAL, REAL, REAL}},
    {TN_OP_TENON_RMS_NORMALIZATION, {REAL, REAL}},
    {TN_OP_BATCH_NORMALIZATION, {REAL, REAL, REAL}},
    {TN_OP_INSTANCE_NORMALIZATION, {REAL}},
    {TN_OP_GROUP_NORMALIZATION, {REAL}},
    {TN_OP_LRN, {REAL}},
    {TN_OP_LP_NORMALIZATION, {REAL}},
    {TN_OP_MEAN_VARIANCE_NORMALIZATION, {REAL}},
    {TN_OP_TOP_K, {NUM, INDEX}},
    {TN_OP_MATMUL, {NUM}},
    {TN_OP_GEMM, {NUM}},
    {TN_OP_CONV, {REAL}},
    {TN_OP_AVERAGE_POOL, {REAL}},
    {TN_OP_MAX_POOL, {REAL | BYTES_INT}},
    {TN_OP_LP_POOL, {REAL}},
    {TN_OP_GLOBAL_AVERAGE_POOL, {REAL}},
    {TN_OP_GLOBAL_MAX_POOL, {REAL}},
    {TN_OP_GLOBAL_LP_POOL, {REAL}},
    {TN_OP_CONV_TRANSPOSE, {REAL}},
    {TN_OP_DEFORM_CONV, {REAL}},
    {TN_OP_MAX_ROI_POOL, {REAL}},
    {TN_OP_ROI_ALIGN, {REAL, REAL, INDEX}},
    {TN_OP_RESIZE, {ALL, REAL, REAL | INDEX}},
    {TN_OP_GRID_SAMPLE, {ALL, REAL}},
    {TN_OP_AFFINE_GRID, {REAL, INDEX}},
    {TN_OP_DEPTH_TO_SPACE, {ALL}},
    {TN_OP_SPACE_TO_DEPTH, {ALL}},
    {TN_OP_COL2IM, {NUM | BOOLS | COMPLEX, INDEX, INDEX}},
    {TN_OP_CENTER_CROP_PAD, {ALL, INDEX}},
    {TN_OP_NON_MAX_SUPPRESSION, {FLOATS, FLOATS, FLOATS | INDEX}},
    {TN_OP_MAX_UNPOOL, {REAL, INDEX, INDEX}},
    {TN_OP_QUANTIZE_LINEAR, {FLOATS | I32S, SCALES, CODES}},
    {TN_OP_DEQUANTIZE_LINEAR, {CODES32, SCALES, CODES32}},
    {TN_OP_DYNAMIC_QUANTIZE_LINEAR, {F32S}},
    {TN_OP_MATMUL_INTEGER, {BYTES, BYTES, BYTES}},
    {TN_OP_MATMUL_INTEGER_TO_FLOAT, {BYTES, BYTES, BYTES | F32S}},
    {TN_OP_QLINEAR_MATMUL, {BYTES, FLOATS, BYTES | FLOATS}},
    {TN_OP_CONV_INTEGER, {BYTES, BYTES, BYTES}},
    {TN_OP_QLINEAR_CONV, {BYTES, FLOATS, BYTES | FLOATS | I32S}},
    {TN_OP_QLINEAR_GEMM, {BYTES, FLOATS, BYTES | FLOATS | I32S}},
    {TN_OP_QLINEAR_BINARY, {BYTES, F32S, BYTES | F32S}},
    {TN_OP_QLINEAR_GLOBAL_AVERAGE_POOL, {BYTES, F32S, BYTES | F32S}},
    {TN_OP_BYTE_LOOKUP, {BYTES, BYTES}},
    {TN_OP_FUSED_MATMUL, {REAL}},
    {TN_OP_RNN, {REAL, REAL, REAL | I32S}},
    {TN_OP_GRU, {REAL, REAL, REAL | I32S}},
    {TN_OP_LSTM, {REAL, REAL, REAL | I32S}},
    {TN_OP_LINEAR_ATTENTION, {FLOATS, FLOATS, FLOATS}},
    {TN_OP_CAUSAL_CONV_WITH_STATE, {FLOATS, FLOATS, FLOATS}},
    {TN_OP_ELEMENTWISE, {REAL}},
    {TN_OP_ATTENTION, {REAL, REAL, REAL | BOOLS | INDEX}},
    {TN_OP_TENON_ATTENTION, {REAL, REAL, REAL | BOOLS | INDEX}},
    {TN_OP_TENSOR_SCATTER, {ALL, 0, INDEX}},
    {TN_OP_ROTARY_EMBEDDING, {FLOATS, FLOATS, FLOATS | INDEX}},
};

static const rule *find_accept_rule(uint32_t op) {
  for (size_t i = 0; i < sizeof accept_rules / sizeof *accept_rules; i++)
    if (accept_rules[i].op == op) return &accept_rules[i];
  return NULL;
}

uint32_t tni_ops_dtypes(uint32_t op, uint32_t input) {
  const rule *r = find_accept_rule(op);
  if (!r) return 0;
  const uint32_t given = r->in[input < 3 ? input : 2];
  return given ? given : input > 1 && r->in[1] ? r->in[1] : r->in[0];
}

bool tni_ops_accepts(const tn_node *node, const tn_value *const *in, uint32_t n_in, char *why, size_t n) {
  const rule *r = find_accept_rule(node->op);
  const tni_op *op = tni_op_by_id(node->op);
  const char *name = op ? op->name : "this operator";
  if (n) why[0] = 0;
  if (!r) {
    snprintf(why, n, "no host kernel for %s", name);
    return false;
  }
  if (node->op == TN_OP_CAST) {
    const int64_t to = tni_at_i(node, TNI_A_TO, 0);
    if (to < 0 || to >= TN_DT_COUNT || !(((uint32_t)CASTABLE >> to) & 1)) {
      snprintf(why, n, "Cast: no host kernel to %s", tni_dtype_name((uint32_t)to));
      return false;
    }
  }
  uint32_t first = TN_DT_UNDEFINED;
  for (uint32_t i = 0; i < n_in; i++) {
    if (!in[i]) continue;
    const uint32_t given = r->in[i < 3 ? i : 2], t = in[i]->dtype;
    const bool same = i > 0 && !given && !(i > 2 && r->in[2]) && !(i > 1 && r->in[1]);
    const uint32_t mask = given ? given : i > 1 && r->in[1] ? r->in[1] : r->in[0];
    if (i == 0) first = t;
    if (t >= TN_DT_COUNT || !((mask >> t) & 1) || (same && first != TN_DT_UNDEFINED && t != first)) {
      snprintf(why, n, "%s: no host kernel for input %u of %s", name, i, tni_dtype_name(t));
      return false;
    }
  }
  return !tni_is_attention(node->op) || tni_attention_accepts(in, n_in, why, n);
}

bool tni_ops_takes(const tn_node *node, const tni_tensor *const *in, uint32_t n_in, char *why, size_t n) {
  enum { MANY = 32 };
  tn_value v[MANY];
  const tn_value *p[MANY];
  for (uint32_t at = 0; at < n_in || at == 0; at += MANY - 1) {
    const uint32_t lead = at ? 1 : 0, rest = n_in - at < MANY - 1 ? n_in - at : MANY - 1;
    for (uint32_t i = 0; i < rest; i++) { /* operand 0 stays in place: the others are compared with it */
      const tni_tensor *t = in[at + i];
      p[lead + i] = t ? &v[lead + i] : NULL;
      if (t) v[lead + i] = (tn_value){.h = TN_HDR(tn_value), .dtype = t->dtype, .rank = t->rank, .name = ""};
    }
    if (!tni_ops_accepts(node, p, lead + rest, why, n)) return false;
  }
  return true;
}

bool tni_ops_is_empty(const tni_tensor *const *out, uint32_t n_out) {
  for (uint32_t i = 0; i < n_out; i++)
    if (out[i] && out[i]->bytes) return false;
  return true;
}
