/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "plugins/common/cpu/kernels/chain_f32.h"
#include "plugins/common/cpu/kernels/kernel.h"

static uint32_t bits_of(float x) {
  uint32_t u;
  memcpy(&u, &x, sizeof u);
  return u;
}

static float float_of(uint32_t u) {
  float x;
  memcpy(&x, &u, sizeof x);
  return x;
}

/* exp = m * s1 * s2. */
typedef struct exp_scalar {
  float m, s1, s2;
} exp_scalar;

/* NaN stays NaN: the comparison is written so. */
static exp_scalar exp_of(float hi, float lo) {
  hi = EXP_FLOOR > hi ? EXP_FLOOR : hi;
  float t = hi * EXP_LOG2E + EXP_MAGIC, n = t - EXP_MAGIC;
  float r = ((hi - n * EXP_C1) - n * EXP_C2) + lo;
  float q = EXP_Q4 * r + EXP_Q3;
  q = q * r + EXP_Q2;
  q = q * r + EXP_Q1;
  q = q * r + EXP_Q0;
  uint32_t i = bits_of(t) - bits_of(EXP_MAGIC), h = (uint32_t)((int32_t)i >> 1), l = i - h;
  return (exp_scalar){1.0f + (r + (r * r) * q), float_of((h + 127) << 23), float_of((l + 127) << 23)};
}

/* exp(a) of a double a <= 0. */
static exp_scalar exp_of_double(double a) {
  a = (double)EXP_FLOOR > a ? (double)EXP_FLOOR : a;
  float hi = (float)a;
  return exp_of(hi, (float)(a - (double)hi));
}

/* x * sigmoid(z), e = exp(-|z|); x 1 gives the sigmoid itself. */
static float times_sigmoid(float x, bool negative, exp_scalar e) {
  float d = 1.0f + e.m * e.s1 * e.s2;
  float u = (negative ? e.m : 1.0f) / d;
  return u * (negative ? e.s1 : 1.0f) * x * (negative ? e.s2 : 1.0f);
}

static float sigmoid1(float x) { return times_sigmoid(1.0f, signbit(x), exp_of(-fabsf(x), 0.0f)); }

static float tanh_scalar(float x) {
  float a = fabsf(x), s = a * a;
  float p = TANH_P4 * s + TANH_P3;
  p = p * s + TANH_P2;
  p = p * s + TANH_P1;
  p = p * s + TANH_P0;
  exp_scalar e = exp_of(-2.0f * a, 0.0f);
  float v = e.m * e.s1 * e.s2, big = (1.0f - v) / (1.0f + v), small = a + a * (s * p);
  return copysignf(a < TANH_SMALL ? small : big, x);
}

static float swish1(float x, float alpha) {
  double z = (double)alpha * (double)x;
  return times_sigmoid(x, signbit(x) != signbit(alpha), exp_of_double(-fabs(z)));
}

static float gelu_tanh1(float x) {
  double d = (double)x, z = d * (GELU_C1 + GELU_C2 * (d * d));
  return times_sigmoid(x, signbit(x), exp_of_double(-fabs(z)));
}

static float gelu_erf1(float x) {
  float a = fabsf(x);
  a = 32.0f < a ? 32.0f : a;
  double d = (double)x;
  exp_scalar e = exp_of_double(-0.5 * (d * d));
  float t = 1.0f / (a + PHI_CENTRE), u = (a - PHI_CENTRE) * t;
  float r = PHI_T10 * u + PHI_T9;
  r = r * u + PHI_T8;
  r = r * u + PHI_T7;
  r = r * u + PHI_T6;
  r = r * u + PHI_T5;
  r = r * u + PHI_T4;
  r = r * u + PHI_T3;
  r = r * u + PHI_T2;
  r = r * u + PHI_T1;
  r = r * u + PHI_T0;
  float f = e.m * (r * t) * e.s1;
  return signbit(x) ? f * x * e.s2 : x * (1.0f - f * e.s2);
}

#define BINARY(name, op)                                                 \
  static void name(float *y, const float *a, const float *b, size_t n) { \
    for (size_t i = 0; i < n; i++) y[i] = a[i] op b[i];                  \
  }
#define UNARY(name, expression)                                       \
  static void name(float *y, const float *x, float value, size_t n) { \
    (void)value;                                                      \
    for (size_t i = 0; i < n; i++) y[i] = expression;                 \
  }
BINARY(add, +)
BINARY(sub, -)
BINARY(mul, *)
BINARY(divide, /)
UNARY(neg, -x[i])
UNARY(relu, 0.0f > x[i] ? 0.0f : x[i])
UNARY(sigmoid, sigmoid1(x[i]))
UNARY(tanh_, tanh_scalar(x[i]))
UNARY(gelu_erf, gelu_erf1(x[i]))
UNARY(gelu_tanh, gelu_tanh1(x[i]))
UNARY(swish, swish1(x[i], value))
#undef UNARY
#undef BINARY

static const tni_cm_chain_kernels scalar_chain_kernels = {.add = add,
                                                          .sub = sub,
                                                          .mul = mul,
                                                          .div = divide,
                                                          .neg = neg,
                                                          .relu = relu,
                                                          .sigmoid = sigmoid,
                                                          .tanh = tanh_,
                                                          .gelu_erf = gelu_erf,
                                                          .gelu_tanh = gelu_tanh,
                                                          .swish = swish};

const tni_cm_chain_kernels *tni_clt_chain_f32_1x1_scalar(void) { return &scalar_chain_kernels; }
