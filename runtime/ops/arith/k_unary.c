/* SPDX-License-Identifier: Apache-2.0
 *
 * Element-wise operators of one input. Floats in their own precision, halves through f32.
 */
#include <math.h>

#include "runtime/ops/arith/chain.h"
#include "runtime/ops/hot/hot.h"

typedef struct unary {
  uint32_t op;
  double alpha, beta; /* Selu: alpha, gamma; Shrink: lambd, bias */
  bool tanh_gelu;
  const tni_hot *hot;
  uint32_t dtype;
  char *dst;
  const char *src;
} unary;

/* Half to even whatever the rounding mode's history: rint follows the default mode, which nobody here changes. */
#define EACH(E)                     \
  for (int64_t i = 0; i < n; i++) { \
    const REAL x = s[i];            \
    d[i] = (E);                     \
  }                                 \
  break;
#define BODY                                                                                             \
  switch (u->op) {                                                                                       \
    case TN_OP_NEG:                                                                                      \
      EACH(-x)                                                                                           \
    case TN_OP_ABS:                                                                                      \
      EACH(F(fabs)(x))                                                                                   \
    case TN_OP_SQRT:                                                                                     \
      EACH(F(sqrt)(x))                                                                                   \
    case TN_OP_EXP:                                                                                      \
      EACH(F(exp)(x))                                                                                    \
    case TN_OP_LOG:                                                                                      \
      EACH(F(log)(x))                                                                                    \
    case TN_OP_COS:                                                                                      \
      EACH(F(cos)(x))                                                                                    \
    case TN_OP_SIN:                                                                                      \
      EACH(F(sin)(x))                                                                                    \
    case TN_OP_TAN:                                                                                      \
      EACH(F(tan)(x))                                                                                    \
    case TN_OP_TANH:                                                                                     \
      EACH(F(tanh)(x))                                                                                   \
    case TN_OP_SIGMOID:                                                                                  \
      EACH(1 / (1 + F(exp)(-x)))                                                                         \
    case TN_OP_ERF:                                                                                      \
      EACH(F(erf)(x))                                                                                    \
    case TN_OP_RELU:                                                                                     \
      EACH(x < 0 ? 0 : x)                                                                                \
    case TN_OP_RECIPROCAL:                                                                               \
      EACH(1 / x)                                                                                        \
    case TN_OP_FLOOR:                                                                                    \
      EACH(F(floor)(x))                                                                                  \
    case TN_OP_CEIL:                                                                                     \
      EACH(F(ceil)(x))                                                                                   \
    case TN_OP_ROUND:                                                                                    \
      EACH(F(rint)(x))                                                                                   \
    case TN_OP_SIGN:                                                                                     \
      EACH(x > 0 ? 1 : x < 0 ? -1 : x)                                                                   \
    case TN_OP_SOFTPLUS:                                                                                 \
      EACH((x > 0 ? x : 0) + F(log1p)(F(exp)(-F(fabs)(x))))                                              \
    case TN_OP_GELU:                                                                                     \
      if (u->tanh_gelu) {                                                                                \
        EACH((REAL)0.5 * x * (1 + F(tanh)((REAL)0.7978845608028654 * (x + (REAL)0.044715 * x * x * x)))) \
      }                                                                                                  \
      EACH((REAL)0.5 * x * (1 + F(erf)(x * (REAL)0.7071067811865476)))                                   \
    case TN_OP_SWISH:                                                                                    \
      EACH(x / (1 + F(exp)(-(alpha * x))))                                                               \
    case TN_OP_LEAKY_RELU:                                                                               \
      EACH(x < 0 ? alpha * x : x)                                                                        \
    case TN_OP_ELU:                                                                                      \
      EACH(x < 0 ? alpha * F(expm1)(x) : x)                                                              \
    case TN_OP_HARD_SIGMOID:                                                                             \
      EACH(clamp01_##REAL(alpha *x + beta))                                                              \
    case TN_OP_HARD_SWISH:                                                                               \
      EACH(x *clamp01_##REAL(x / 6 + (REAL)0.5))                                                         \
    case TN_OP_ACOS:                                                                                     \
      EACH(F(acos)(x))                                                                                   \
    case TN_OP_ACOSH:                                                                                    \
      EACH(F(acosh)(x))                                                                                  \
    case TN_OP_ASIN:                                                                                     \
      EACH(F(asin)(x))                                                                                   \
    case TN_OP_ASINH:                                                                                    \
      EACH(F(asinh)(x))                                                                                  \
    case TN_OP_ATAN:                                                                                     \
      EACH(F(atan)(x))                                                                                   \
    case TN_OP_ATANH:                                                                                    \
      EACH(F(atanh)(x))                                                                                  \
    case TN_OP_COSH:                                                                                     \
      EACH(F(cosh)(x))                                                                                   \
    case TN_OP_SINH:                                                                                     \
      EACH(F(sinh)(x))                                                                                   \
    case TN_OP_CELU:                                                                                     \
      EACH(x < 0 ? alpha * F(expm1)(x / alpha) : x)                                                      \
    case TN_OP_SELU:                                                                                     \
      EACH(x > 0 ? beta * x : beta * (alpha * F(expm1)(x)))                                              \
    case TN_OP_MISH:                                                                                     \
      EACH(x *F(tanh)((x > 0 ? x : 0) + F(log1p)(F(exp)(-F(fabs)(x)))))                                  \
    case TN_OP_SHRINK:                                                                                   \
      EACH(x<-alpha ? x + beta : x> alpha ? x - beta : 0)                                                \
    case TN_OP_SOFTSIGN:                                                                                 \
      EACH(x / (1 + F(fabs)(x)))                                                                         \
    case TN_OP_THRESHOLDED_RELU:                                                                         \
      EACH(x > alpha ? x : 0)                                                                            \
    default:                                                                                             \
      break;                                                                                             \
  }

static inline float clamp01_f32(float x) { return x < 0 ? 0 : x > 1 ? 1 : x; }
static inline double clamp01_f64(double x) { return x < 0 ? 0 : x > 1 ? 1 : x; }

/* The tanh form through the vector tanh, as the primitives of a model have it. */
static void gelu_tanh_f32(const tni_hot *hot, float *dst, const void *src, int64_t n) {
  f32u *d = (f32u *)dst;
  const f32u *s = src;
  float arg[TNI_CHUNK], t[TNI_CHUNK];
  for (int64_t i = 0; i < n; i += TNI_CHUNK) {
    const int64_t m = n - i < TNI_CHUNK ? n - i : TNI_CHUNK;
    for (int64_t k = 0; k < m; k++)
      arg[k] = 0.7978845608028654f * (s[i + k] + 0.044715f * s[i + k] * s[i + k] * s[i + k]);
    hot->tanh(t, arg, m);
    for (int64_t k = 0; k < m; k++) d[i + k] = 0.5f * s[i + k] * (1 + t[k]);
  }
}

static void gelu_f32(const tni_hot *hot, float *dst, const void *src, int64_t n) {
  f32u *d = (f32u *)dst;
  const f32u *s = src;
  float t[TNI_CHUNK];
  for (int64_t i = 0; i < n; i += TNI_CHUNK) {
    const int64_t m = n - i < TNI_CHUNK ? n - i : TNI_CHUNK;
    for (int64_t k = 0; k < m; k++) t[k] = s[i + k] * 0.7071067811865476f;
    hot->erf(t, t, m);
    for (int64_t k = 0; k < m; k++) d[i + k] = 0.5f * s[i + k] * (1 + t[k]);
  }
}

static void run_f32(const unary *u, float *dst, const void *src, int64_t n) {
  f32u *d = (f32u *)dst;
  const f32u *s = src;
  const float alpha = (float)u->alpha, beta = (float)u->beta;
  if (u->op == TN_OP_EXP) {
    u->hot->exp(dst, src, n);
    return;
  }
  if (u->op == TN_OP_SIGMOID) {
    u->hot->sigmoid(dst, src, n);
    return;
  }
  if (u->op == TN_OP_TANH) {
    u->hot->tanh(dst, src, n);
    return;
  }
  if (u->op == TN_OP_ERF) {
    u->hot->erf(dst, src, n);
    return;
  }
  if (u->op == TN_OP_GELU) {
    (u->tanh_gelu ? gelu_tanh_f32 : gelu_f32)(u->hot, dst, src, n);
    return;
  }
  if (u->op == TN_OP_SWISH) {
    u->hot->swish(dst, src, n, alpha);
    return;
  }
#define REAL float
#define clamp01_REAL clamp01_f32
#define F(g) g##f
  BODY
#undef REAL
#undef clamp01_REAL
#undef F
}

static void run_f64(const unary *u, void *dst, const void *src, int64_t n) {
  f64u *d = dst;
  const f64u *s = src;
  const double alpha = u->alpha, beta = u->beta;
#define REAL double
#define clamp01_REAL clamp01_f64
#define F(g) g
  BODY
#undef REAL
#undef clamp01_REAL
#undef F
}

void tni_unary_real(uint32_t op, uint32_t dtype, float value, void *dst, const void *src, int64_t n) {
  const unary u = {.op = op, .alpha = (double)value, .tanh_gelu = value != 0, .hot = tni_hot_get(), .dtype = dtype};
  if (dtype == TN_DT_F64)
    run_f64(&u, dst, src, n);
  else
    run_f32(&u, dst, src, n);
}

static void run_half(const unary *u, int64_t at, int64_t n) {
  float x[TNI_CHUNK], y[TNI_CHUNK];
  for (; n > 0; at += TNI_CHUNK, n -= TNI_CHUNK) {
    const int64_t m = n < TNI_CHUNK ? n : TNI_CHUNK;
    tni_load_f32(u->dtype, u->src, at, m, x);
    run_f32(u, y, x, m);
    tni_store_f32(u->dtype, u->dst, at, m, y);
  }
}

static double shrunk_value(const unary *u, double x) {
  return x < -u->alpha ? x + u->beta : x > u->alpha ? x - u->beta : 0;
}

/* Wraps as two's complement does. */
static bool run_int(const unary *u, void *dst, const void *src, int64_t n) {
  switch (u->dtype) {
#define X(DT, U, T, LO, HI)                                  \
  case TN_DT_##DT: {                                         \
    U *d = dst;                                              \
    const U *s = src;                                        \
    for (int64_t i = 0; i < n; i++) {                        \
      const T x = s[i];                                      \
      const T neg = (T)(0 - (uint64_t)x);                    \
      const bool below = LO < 0 && x < (T)1 && x != 0;       \
      if (u->op == TN_OP_NEG)                                \
        d[i] = neg;                                          \
      else if (u->op == TN_OP_ABS)                           \
        d[i] = below ? neg : x;                              \
      else if (u->op == TN_OP_SIGN)                          \
        d[i] = (T)(below ? -1 : x != 0);                     \
      else if (u->op == TN_OP_RELU)                          \
        d[i] = below ? 0 : x;                                \
      else if (u->op == TN_OP_BITWISE_NOT)                   \
        d[i] = (T)~x;                                        \
      else if (u->op == TN_OP_SHRINK)                        \
        d[i] = (T)tni_clamp_i64(shrunk_value(u, (double)x)); \
      else                                                   \
        return false;                                        \
    }                                                        \
    return true;                                             \
  }
    TNI_INT_TYPES(X)
#undef X
    default:
      return false;
  }
}

static void unary_body(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  const unary *u = arg;
  const uint32_t size = tni_elem_size(u->dtype);
  (void)worker;
  if (u->dtype == TN_DT_F32)
    run_f32(u, (float *)(void *)(u->dst + begin * 4), u->src + begin * 4, end - begin);
  else if (u->dtype == TN_DT_F64)
    run_f64(u, u->dst + begin * 8, u->src + begin * 8, end - begin);
  else if (tni_is_half(u->dtype))
    run_half(u, begin, end - begin);
  else
    run_int(u, u->dst + begin * size, u->src + begin * size, end - begin);
}

static bool int_op(uint32_t op) {
  return op == TN_OP_NEG || op == TN_OP_ABS || op == TN_OP_SIGN || op == TN_OP_RELU || op == TN_OP_BITWISE_NOT ||
         op == TN_OP_SHRINK;
}

/* Names and defaults of the two numbers that an operator takes. */
static void read_params(unary *u, const tn_node *n) {
  const uint32_t op = u->op;
  const bool shrink = op == TN_OP_SHRINK;
  const double alpha = op == TN_OP_LEAKY_RELU     ? 0.01
                       : op == TN_OP_HARD_SIGMOID ? 0.2
                       : op == TN_OP_SELU         ? (double)1.67326319217681884765625f
                                                  : 1.0;
  u->alpha = shrink ? tni_at_f(n, TNI_A_LAMBD, 0.5) : tni_at_f(n, TNI_A_ALPHA, alpha);
  if (op == TN_OP_SELU)
    u->beta = tni_at_f(n, TNI_A_GAMMA, (double)1.05070102214813232421875f);
  else
    u->beta = shrink ? tni_at_f(n, TNI_A_BIAS, 0) : tni_at_f(n, TNI_A_BETA, 0.5);
}

tn_status tni_k_unary(const tni_kargs *a) {
  const tni_tensor *x = a->in[0];
  const bool real = x->dtype == TN_DT_F32 || x->dtype == TN_DT_F64 || tni_is_half(x->dtype);
  const bool integer = !real && x->dtype != TN_DT_BOOL && tni_elem_size(x->dtype) && int_op(a->node->op);
  if (real ? a->node->op == TN_OP_BITWISE_NOT : !integer) return tni_kdtype(a, x->dtype);
  unary u = {.op = a->node->op, .dtype = x->dtype, .hot = tni_hot_get(), .dst = a->out[0]->data, .src = x->data};
  read_params(&u, a->node);
  u.tanh_gelu = tni_at_word(a->node, TNI_A_APPROXIMATE) == TN_WORD_GELU_APPROXIMATE_TANH;
  tni_kfor(a->run, tni_knumel(x), 4, unary_body, &u);
  return TN_OK;
}

/* --- Not, IsNaN, IsInf, Dropout --- */

tn_status tni_k_not(const tni_kargs *a) {
  const u8u *x = a->in[0]->data;
  u8u *y = a->out[0]->data;
  const int64_t n = tni_knumel(a->in[0]);
  for (int64_t i = 0; i < n; i++) y[i] = !x[i];
  return TN_OK;
}

tn_status tni_k_isnan(const tni_kargs *a) {
  const tni_tensor *x = a->in[0];
  u8u *y = a->out[0]->data;
  const int64_t n = tni_knumel(x);
  const bool neg = tni_at_i(a->node, TNI_A_DETECT_NEGATIVE, 1), pos = tni_at_i(a->node, TNI_A_DETECT_POSITIVE, 1);
  if (x->dtype != TN_DT_F32 && x->dtype != TN_DT_F64 && !tni_is_half(x->dtype)) return tni_kdtype(a, x->dtype);
  for (int64_t i = 0; i < n; i++) {
    const double v = tni_get_f64(x, i);
    y[i] = a->node->op == TN_OP_ISNAN ? isnan(v) != 0 : isinf(v) && (v < 0 ? neg : pos);
  }
  return TN_OK;
}

/* Inference: the identity, and a mask of ones. */
tn_status tni_k_dropout(const tni_kargs *a) {
  const tni_tensor *ratio = a->n_in > 1 ? a->in[1] : NULL, *train = a->n_in > 2 ? a->in[2] : NULL;
  if (train && tni_knumel(train) == 1 && tni_get_i64(train, 0) && (!ratio || tni_get_f64(ratio, 0) != 0))
    return tni_kfail(a, TN_E_UNSUPPORTED, "Dropout: training_mode is not run");
  if (a->out[0]) tni_kcopy(a->run, a->out[0]->data, a->in[0]->data, a->out[0]->bytes); /* else it was folded */
  if (a->n_out > 1 && a->out[1] && tni_knumel(a->out[1])) memset(a->out[1]->data, 1, (size_t)tni_knumel(a->out[1]));
  return TN_OK;
}
