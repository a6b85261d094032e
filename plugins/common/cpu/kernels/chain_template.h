/* SPDX-License-Identifier: Apache-2.0
 *
 * The chain kernels in registers of any width. Who includes it once has defined vf, vd, vi, wide, LANES and the
 * operations below by name: of floats SET ADD SUB MUL DIV MAX MIN OR AND ANDNOT XOR LOAD STORE, BY_SIGN(a, b, z): b
 * where z has its sign bit set, WHERE_LESS(x, y, a, b): a where x < y, RELU, which keeps NaN and -0; of doubles SETD
 * ADDD SUBD MULD MAXD; of integers SETI ADDI SUBI SRA SHL; FLOATS and INTS, the same bits; widen_floats, narrow_doubles
 * and wide_neg_abs. MAX and MIN keep a NaN in their second operand. Operations and their order are chain_f32.h's in
 * every lane, so the bits agree.
 */
#ifndef TENON_COMMON_CPU_KERNELS_CHAIN_TEMPLATE_H
#define TENON_COMMON_CPU_KERNELS_CHAIN_TEMPLATE_H

#include "plugins/common/cpu/kernels/chain_f32.h"

#define STEP(p, x, c) ADD(MUL(p, x), SET(c))

/* exp = m * s1 * s2. */
typedef struct exp_lanes {
  vf m, s1, s2;
} exp_lanes;

static inline wide wide_mul(wide a, wide b) { return (wide){MULD(a.lo, b.lo), MULD(a.hi, b.hi)}; }
static inline wide wide_sub(wide a, wide b) { return (wide){SUBD(a.lo, b.lo), SUBD(a.hi, b.hi)}; }
static inline wide wide_add(wide a, wide b) { return (wide){ADDD(a.lo, b.lo), ADDD(a.hi, b.hi)}; }
static inline wide wide_set(double v) { return (wide){SETD(v), SETD(v)}; }

static inline vf neg_abs(vf x) { return OR(SET(-0.0f), x); }
static inline vf magnitude(vf x) { return ANDNOT(SET(-0.0f), x); }
static inline vf power_of_two(vi n) { return FLOATS(SHL(ADDI(n, SETI(127)), 23)); }

static inline exp_lanes exp_of(vf hi, vf lo) {
  hi = MAX(SET(EXP_FLOOR), hi); /* this order keeps NaN */
  vf t = STEP(hi, SET(EXP_LOG2E), EXP_MAGIC), n = SUB(t, SET(EXP_MAGIC));
  vf r = ADD(SUB(SUB(hi, MUL(n, SET(EXP_C1))), MUL(n, SET(EXP_C2))), lo);
  vf q = STEP(SET(EXP_Q4), r, EXP_Q3);
  q = STEP(q, r, EXP_Q2);
  q = STEP(q, r, EXP_Q1);
  q = STEP(q, r, EXP_Q0);
  vi i = SUBI(INTS(t), INTS(SET(EXP_MAGIC)));
  vi h = SRA(i, 1), l = SUBI(i, h);
  return (exp_lanes){ADD(SET(1.0f), ADD(r, MUL(MUL(r, r), q))), power_of_two(h), power_of_two(l)};
}

static inline exp_lanes exp_of_wide(wide a) {
  const vd floor = SETD((double)EXP_FLOOR);
  a = (wide){MAXD(floor, a.lo), MAXD(floor, a.hi)};
  vf hi = narrow_doubles(a);
  return exp_of(hi, narrow_doubles(wide_sub(a, widen_floats(hi))));
}

/* x * sigmoid(z), e = exp(-|z|); z's sign bits are all that is read of it. */
static inline vf times_sigmoid(vf x, vf z, exp_lanes e) {
  const vf one = SET(1.0f);
  vf d = ADD(one, MUL(MUL(e.m, e.s1), e.s2));
  vf u = DIV(BY_SIGN(one, e.m, z), d);
  return MUL(MUL(MUL(u, BY_SIGN(one, e.s1, z)), x), BY_SIGN(one, e.s2, z));
}

static inline vf sigmoid_of(vf x) { return times_sigmoid(SET(1.0f), x, exp_of(neg_abs(x), SET(0.0f))); }

static inline vf tanh_of(vf x) {
  vf a = magnitude(x), s = MUL(a, a), one = SET(1.0f);
  vf p = STEP(SET(TANH_P4), s, TANH_P3);
  p = STEP(p, s, TANH_P2);
  p = STEP(p, s, TANH_P1);
  p = STEP(p, s, TANH_P0);
  exp_lanes e = exp_of(MUL(SET(-2.0f), a), SET(0.0f));
  vf v = MUL(MUL(e.m, e.s1), e.s2), big = DIV(SUB(one, v), ADD(one, v)), small = ADD(a, MUL(a, MUL(s, p)));
  vf y = WHERE_LESS(a, SET(TANH_SMALL), small, big);
  return OR(magnitude(y), AND(SET(-0.0f), x));
}

static inline vf swish_of(vf x, float alpha) {
  wide z = wide_mul(wide_set((double)alpha), widen_floats(x));
  return times_sigmoid(x, XOR(x, SET(alpha)), exp_of_wide(wide_neg_abs(z)));
}

/* alpha 1: the argument has no low part. */
static inline vf silu_of(vf x) { return times_sigmoid(x, x, exp_of(neg_abs(x), SET(0.0f))); }

static inline vf gelu_tanh_of(vf x) {
  wide d = widen_floats(x), z = wide_mul(wide_set(GELU_C2), wide_mul(d, d));
  z = wide_mul(d, wide_add(wide_set(GELU_C1), z));
  return times_sigmoid(x, x, exp_of_wide(wide_neg_abs(z)));
}

static inline vf gelu_erf_of(vf x) {
  const vf centre = SET(PHI_CENTRE);
  vf a = MIN(SET(32.0f), magnitude(x));
  wide d = widen_floats(x);
  exp_lanes e = exp_of_wide(wide_mul(wide_set(-0.5), wide_mul(d, d)));
  vf t = DIV(SET(1.0f), ADD(a, centre)), u = MUL(SUB(a, centre), t);
  vf r = STEP(SET(PHI_T10), u, PHI_T9);
  r = STEP(r, u, PHI_T8);
  r = STEP(r, u, PHI_T7);
  r = STEP(r, u, PHI_T6);
  r = STEP(r, u, PHI_T5);
  r = STEP(r, u, PHI_T4);
  r = STEP(r, u, PHI_T3);
  r = STEP(r, u, PHI_T2);
  r = STEP(r, u, PHI_T1);
  r = STEP(r, u, PHI_T0);
  vf f = MUL(MUL(e.m, MUL(r, t)), e.s1);
  vf below = MUL(MUL(f, x), e.s2), above = MUL(x, SUB(SET(1.0f), MUL(f, e.s2)));
  return BY_SIGN(above, below, x);
}

#define BINARY(name, f)                                                              \
  static void name(float *y, const float *a, const float *b, size_t n) {             \
    for (size_t i = 0; i < n; i += LANES) STORE(y + i, f(LOAD(a + i), LOAD(b + i))); \
  }
#define UNARY(name, expression)                                       \
  static void name(float *y, const float *x, float value, size_t n) { \
    (void)value;                                                      \
    for (size_t i = 0; i < n; i += LANES) {                           \
      vf v = LOAD(x + i);                                             \
      STORE(y + i, expression);                                       \
    }                                                                 \
  }
BINARY(add, ADD)
BINARY(sub, SUB)
BINARY(mul, MUL)
BINARY(divide, DIV)
UNARY(neg, XOR(SET(-0.0f), v))
UNARY(relu, RELU(v))
UNARY(sigmoid, sigmoid_of(v))
UNARY(tanh_, tanh_of(v))
UNARY(gelu_erf, gelu_erf_of(v))
UNARY(gelu_tanh, gelu_tanh_of(v))
UNARY(silu, silu_of(v))
UNARY(swish_alpha, swish_of(v, value))
#undef UNARY
#undef BINARY

static void swish(float *y, const float *x, float value, size_t n) {
  if (value == 1.0f)
    silu(y, x, value, n);
  else
    swish_alpha(y, x, value, n);
}

/* Initializers of a tni_cm_chain_kernels. */
#define CHAIN_KERNELS                                                                                             \
  .add = add, .sub = sub, .mul = mul, .div = divide, .neg = neg, .relu = relu, .sigmoid = sigmoid, .tanh = tanh_, \
  .gelu_erf = gelu_erf, .gelu_tanh = gelu_tanh, .swish = swish

#endif
