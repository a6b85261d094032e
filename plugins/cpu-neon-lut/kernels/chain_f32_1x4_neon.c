/* SPDX-License-Identifier: Apache-2.0 */
#include <arm_neon.h>

#include "plugins/common/cpu_lut/chain_f32.h"
#include "plugins/cpu-neon-lut/kernels/kernels.h"

#define SET(v) vdupq_n_f32(v)
#define ADD(a, b) vaddq_f32(a, b)
#define SUB(a, b) vsubq_f32(a, b)
#define MUL(a, b) vmulq_f32(a, b)
#define DIV(a, b) vdivq_f32(a, b)
#define STEP(p, x, c) ADD(MUL(p, x), SET(c))

/* exp = m * s1 * s2. */
typedef struct expo {
  float32x4_t m, s1, s2;
} expo;

/* A double per lane. */
typedef struct wide {
  float64x2_t lo, hi;
} wide;

static inline wide widen(float32x4_t x) { return (wide){vcvt_f64_f32(vget_low_f32(x)), vcvt_high_f64_f32(x)}; }

static inline float32x4_t narrow(wide w) { return vcvt_high_f32_f64(vcvt_f32_f64(w.lo), w.hi); }

static inline wide wide_mul(wide a, wide b) { return (wide){vmulq_f64(a.lo, b.lo), vmulq_f64(a.hi, b.hi)}; }
static inline wide wide_sub(wide a, wide b) { return (wide){vsubq_f64(a.lo, b.lo), vsubq_f64(a.hi, b.hi)}; }
static inline wide wide_add(wide a, wide b) { return (wide){vaddq_f64(a.lo, b.lo), vaddq_f64(a.hi, b.hi)}; }
static inline wide wide_set(double v) { return (wide){vdupq_n_f64(v), vdupq_n_f64(v)}; }

static inline wide wide_neg_abs(wide a) { return (wide){vnegq_f64(vabsq_f64(a.lo)), vnegq_f64(vabsq_f64(a.hi))}; }

static inline float32x4_t neg_abs(float32x4_t x) { return vnegq_f32(vabsq_f32(x)); }
static inline float32x4_t magnitude(float32x4_t x) { return vabsq_f32(x); }

/* a where z's sign bit is set, else b. */
static inline float32x4_t by_sign(float32x4_t z, float32x4_t a, float32x4_t b) {
  return vbslq_f32(vreinterpretq_u32_s32(vshrq_n_s32(vreinterpretq_s32_f32(z), 31)), a, b);
}

static inline float32x4_t power_of_two(int32x4_t n) {
  return vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(n, vdupq_n_s32(127)), 23));
}

static inline expo exp_of(float32x4_t hi, float32x4_t lo) {
  hi = vmaxq_f32(SET(EXP_FLOOR), hi); /* NaN stays NaN */
  float32x4_t t = STEP(hi, SET(EXP_LOG2E), EXP_MAGIC), n = SUB(t, SET(EXP_MAGIC));
  float32x4_t r = ADD(SUB(SUB(hi, MUL(n, SET(EXP_C1))), MUL(n, SET(EXP_C2))), lo);
  float32x4_t q = STEP(SET(EXP_Q4), r, EXP_Q3);
  q = STEP(q, r, EXP_Q2);
  q = STEP(q, r, EXP_Q1);
  q = STEP(q, r, EXP_Q0);
  int32x4_t i = vsubq_s32(vreinterpretq_s32_f32(t), vreinterpretq_s32_f32(SET(EXP_MAGIC)));
  int32x4_t h = vshrq_n_s32(i, 1), l = vsubq_s32(i, h);
  return (expo){ADD(SET(1.0f), ADD(r, MUL(MUL(r, r), q))), power_of_two(h), power_of_two(l)};
}

static inline expo exp_of_wide(wide a) {
  const float64x2_t floor = vdupq_n_f64((double)EXP_FLOOR);
  a = (wide){vmaxq_f64(floor, a.lo), vmaxq_f64(floor, a.hi)};
  float32x4_t hi = narrow(a);
  return exp_of(hi, narrow(wide_sub(a, widen(hi))));
}

/* x * sigmoid(z), e = exp(-|z|); z's sign bits are all that is read of it. */
static inline float32x4_t times_sigmoid(float32x4_t x, float32x4_t z, expo e) {
  const float32x4_t one = SET(1.0f);
  float32x4_t d = ADD(one, MUL(MUL(e.m, e.s1), e.s2));
  float32x4_t u = DIV(by_sign(z, e.m, one), d);
  return MUL(MUL(MUL(u, by_sign(z, e.s1, one)), x), by_sign(z, e.s2, one));
}

/* NaN and -0 stay: the comparison is written so. */
static inline float32x4_t relu4(float32x4_t x) {
  const float32x4_t zero = vdupq_n_f32(0);
  return vbslq_f32(vcgtq_f32(zero, x), zero, x);
}

static inline float32x4_t sigmoid4(float32x4_t x) {
  return times_sigmoid(SET(1.0f), x, exp_of(neg_abs(x), vdupq_n_f32(0)));
}

static inline float32x4_t tanh4(float32x4_t x) {
  float32x4_t a = magnitude(x), s = MUL(a, a), one = SET(1.0f);
  float32x4_t p = STEP(SET(TANH_P4), s, TANH_P3);
  p = STEP(p, s, TANH_P2);
  p = STEP(p, s, TANH_P1);
  p = STEP(p, s, TANH_P0);
  expo e = exp_of(MUL(SET(-2.0f), a), vdupq_n_f32(0));
  float32x4_t v = MUL(MUL(e.m, e.s1), e.s2), big = DIV(SUB(one, v), ADD(one, v)), small = ADD(a, MUL(a, MUL(s, p)));
  float32x4_t y = vbslq_f32(vcltq_f32(a, SET(TANH_SMALL)), small, big);
  return vbslq_f32(vdupq_n_u32(0x80000000u), x, y);
}

static inline float32x4_t swish4(float32x4_t x, float alpha) {
  wide z = wide_mul(wide_set((double)alpha), widen(x));
  return times_sigmoid(x, vreinterpretq_f32_u32(veorq_u32(vreinterpretq_u32_f32(x), vreinterpretq_u32_f32(SET(alpha)))),
                       exp_of_wide(wide_neg_abs(z)));
}

/* alpha 1: the argument has no low part. */
static inline float32x4_t silu4(float32x4_t x) { return times_sigmoid(x, x, exp_of(neg_abs(x), vdupq_n_f32(0))); }

static inline float32x4_t gelu_tanh4(float32x4_t x) {
  wide d = widen(x), z = wide_mul(wide_set(GELU_C2), wide_mul(d, d));
  z = wide_mul(d, wide_add(wide_set(GELU_C1), z));
  return times_sigmoid(x, x, exp_of_wide(wide_neg_abs(z)));
}

static inline float32x4_t gelu_erf4(float32x4_t x) {
  const float32x4_t centre = SET(PHI_CENTRE);
  float32x4_t a = vminq_f32(SET(32.0f), magnitude(x));
  wide d = widen(x);
  expo e = exp_of_wide(wide_mul(wide_set(-0.5), wide_mul(d, d)));
  float32x4_t t = DIV(SET(1.0f), ADD(a, centre)), u = MUL(SUB(a, centre), t);
  float32x4_t r = STEP(SET(PHI_T10), u, PHI_T9);
  r = STEP(r, u, PHI_T8);
  r = STEP(r, u, PHI_T7);
  r = STEP(r, u, PHI_T6);
  r = STEP(r, u, PHI_T5);
  r = STEP(r, u, PHI_T4);
  r = STEP(r, u, PHI_T3);
  r = STEP(r, u, PHI_T2);
  r = STEP(r, u, PHI_T1);
  r = STEP(r, u, PHI_T0);
  float32x4_t f = MUL(MUL(e.m, MUL(r, t)), e.s1);
  float32x4_t below = MUL(MUL(f, x), e.s2), above = MUL(x, SUB(SET(1.0f), MUL(f, e.s2)));
  return by_sign(x, below, above);
}

#define BINARY(name, f)                                                                        \
  static void name(float *y, const float *a, const float *b, size_t n) {                       \
    for (size_t i = 0; i < n; i += 4) vst1q_f32(y + i, f(vld1q_f32(a + i), vld1q_f32(b + i))); \
  }
#define UNARY(name, expression)                                       \
  static void name(float *y, const float *x, float value, size_t n) { \
    (void)value;                                                      \
    for (size_t i = 0; i < n; i += 4) {                               \
      float32x4_t v = vld1q_f32(x + i);                               \
      vst1q_f32(y + i, expression);                                   \
    }                                                                 \
  }
BINARY(add, vaddq_f32)
BINARY(sub, vsubq_f32)
BINARY(mul, vmulq_f32)
BINARY(divide, vdivq_f32)
UNARY(neg, vnegq_f32(v))
UNARY(relu, relu4(v))
UNARY(sigmoid, sigmoid4(v))
UNARY(tanh_, tanh4(v))
UNARY(gelu_erf, gelu_erf4(v))
UNARY(gelu_tanh, gelu_tanh4(v))
UNARY(silu, silu4(v))
UNARY(swish_alpha, swish4(v, value))
#undef UNARY
#undef BINARY

static void swish(float *y, const float *x, float value, size_t n) {
  if (value == 1.0f)
    silu(y, x, value, n);
  else
    swish_alpha(y, x, value, n);
}

static const tni_cm_chain_kernels kernels = {.add = add,
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

const tni_cm_chain_kernels *tni_arm_chain_f32_1x4_neon(void) { return &kernels; }
