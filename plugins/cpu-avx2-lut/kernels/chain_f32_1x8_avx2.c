/* SPDX-License-Identifier: Apache-2.0 */
#include <immintrin.h>

#include "plugins/common/cpu_lut/chain_f32.h"
#include "plugins/cpu-avx2-lut/kernels/kernels.h"

#define SET(v) _mm256_set1_ps(v)
#define ADD(a, b) _mm256_add_ps(a, b)
#define SUB(a, b) _mm256_sub_ps(a, b)
#define MUL(a, b) _mm256_mul_ps(a, b)
#define DIV(a, b) _mm256_div_ps(a, b)
#define STEP(p, x, c) ADD(MUL(p, x), SET(c))

/* exp = m * s1 * s2. */
typedef struct expo {
  __m256 m, s1, s2;
} expo;

/* A double per lane. */
typedef struct wide {
  __m256d lo, hi;
} wide;

static inline wide widen(__m256 x) {
  return (wide){_mm256_cvtps_pd(_mm256_castps256_ps128(x)), _mm256_cvtps_pd(_mm256_extractf128_ps(x, 1))};
}

static inline __m256 narrow(wide w) { return _mm256_set_m128(_mm256_cvtpd_ps(w.hi), _mm256_cvtpd_ps(w.lo)); }

static inline wide wide_mul(wide a, wide b) { return (wide){_mm256_mul_pd(a.lo, b.lo), _mm256_mul_pd(a.hi, b.hi)}; }
static inline wide wide_sub(wide a, wide b) { return (wide){_mm256_sub_pd(a.lo, b.lo), _mm256_sub_pd(a.hi, b.hi)}; }
static inline wide wide_add(wide a, wide b) { return (wide){_mm256_add_pd(a.lo, b.lo), _mm256_add_pd(a.hi, b.hi)}; }
static inline wide wide_set(double v) { return (wide){_mm256_set1_pd(v), _mm256_set1_pd(v)}; }

static inline wide wide_neg_abs(wide a) {
  const __m256d sign = _mm256_set1_pd(-0.0);
  return (wide){_mm256_or_pd(sign, a.lo), _mm256_or_pd(sign, a.hi)};
}

static inline __m256 neg_abs(__m256 x) { return _mm256_or_ps(SET(-0.0f), x); }
static inline __m256 magnitude(__m256 x) { return _mm256_andnot_ps(SET(-0.0f), x); }

static inline __m256 power_of_two(__m256i n) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23));
}

static inline expo exp_of(__m256 hi, __m256 lo) {
  hi = _mm256_max_ps(SET(EXP_FLOOR), hi); /* this order keeps NaN */
  __m256 t = STEP(hi, SET(EXP_LOG2E), EXP_MAGIC), n = SUB(t, SET(EXP_MAGIC));
  __m256 r = ADD(SUB(SUB(hi, MUL(n, SET(EXP_C1))), MUL(n, SET(EXP_C2))), lo);
  __m256 q = STEP(SET(EXP_Q4), r, EXP_Q3);
  q = STEP(q, r, EXP_Q2);
  q = STEP(q, r, EXP_Q1);
  q = STEP(q, r, EXP_Q0);
  __m256i i = _mm256_sub_epi32(_mm256_castps_si256(t), _mm256_castps_si256(SET(EXP_MAGIC)));
  __m256i h = _mm256_srai_epi32(i, 1), l = _mm256_sub_epi32(i, h);
  return (expo){ADD(SET(1.0f), ADD(r, MUL(MUL(r, r), q))), power_of_two(h), power_of_two(l)};
}

static inline expo exp_of_wide(wide a) {
  const __m256d floor = _mm256_set1_pd((double)EXP_FLOOR);
  a = (wide){_mm256_max_pd(floor, a.lo), _mm256_max_pd(floor, a.hi)};
  __m256 hi = narrow(a);
  return exp_of(hi, narrow(wide_sub(a, widen(hi))));
}

/* x * sigmoid(z), e = exp(-|z|); z's sign bits are all that is read of it. */
static inline __m256 times_sigmoid(__m256 x, __m256 z, expo e) {
  const __m256 one = SET(1.0f);
  __m256 d = ADD(one, MUL(MUL(e.m, e.s1), e.s2));
  __m256 u = DIV(_mm256_blendv_ps(one, e.m, z), d);
  return MUL(MUL(MUL(u, _mm256_blendv_ps(one, e.s1, z)), x), _mm256_blendv_ps(one, e.s2, z));
}

static inline __m256 sigmoid8(__m256 x) { return times_sigmoid(SET(1.0f), x, exp_of(neg_abs(x), _mm256_setzero_ps())); }

static inline __m256 tanh8(__m256 x) {
  __m256 a = magnitude(x), s = MUL(a, a), one = SET(1.0f);
  __m256 p = STEP(SET(TANH_P4), s, TANH_P3);
  p = STEP(p, s, TANH_P2);
  p = STEP(p, s, TANH_P1);
  p = STEP(p, s, TANH_P0);
  expo e = exp_of(MUL(SET(-2.0f), a), _mm256_setzero_ps());
  __m256 v = MUL(MUL(e.m, e.s1), e.s2), big = DIV(SUB(one, v), ADD(one, v)), small = ADD(a, MUL(a, MUL(s, p)));
  __m256 y = _mm256_blendv_ps(big, small, _mm256_cmp_ps(a, SET(TANH_SMALL), _CMP_LT_OQ));
  return _mm256_or_ps(magnitude(y), _mm256_and_ps(SET(-0.0f), x));
}

static inline __m256 swish8(__m256 x, float alpha) {
  wide z = wide_mul(wide_set((double)alpha), widen(x));
  return times_sigmoid(x, _mm256_xor_ps(x, SET(alpha)), exp_of_wide(wide_neg_abs(z)));
}

/* alpha 1: the argument has no low part. */
static inline __m256 silu8(__m256 x) { return times_sigmoid(x, x, exp_of(neg_abs(x), _mm256_setzero_ps())); }

static inline __m256 gelu_tanh8(__m256 x) {
  wide d = widen(x), z = wide_mul(wide_set(GELU_C2), wide_mul(d, d));
  z = wide_mul(d, wide_add(wide_set(GELU_C1), z));
  return times_sigmoid(x, x, exp_of_wide(wide_neg_abs(z)));
}

static inline __m256 gelu_erf8(__m256 x) {
  const __m256 centre = SET(PHI_CENTRE);
  __m256 a = _mm256_min_ps(SET(32.0f), magnitude(x));
  wide d = widen(x);
  expo e = exp_of_wide(wide_mul(wide_set(-0.5), wide_mul(d, d)));
  __m256 t = DIV(SET(1.0f), ADD(a, centre)), u = MUL(SUB(a, centre), t);
  __m256 r = STEP(SET(PHI_T10), u, PHI_T9);
  r = STEP(r, u, PHI_T8);
  r = STEP(r, u, PHI_T7);
  r = STEP(r, u, PHI_T6);
  r = STEP(r, u, PHI_T5);
  r = STEP(r, u, PHI_T4);
  r = STEP(r, u, PHI_T3);
  r = STEP(r, u, PHI_T2);
  r = STEP(r, u, PHI_T1);
  r = STEP(r, u, PHI_T0);
  __m256 f = MUL(MUL(e.m, MUL(r, t)), e.s1);
  __m256 below = MUL(MUL(f, x), e.s2), above = MUL(x, SUB(SET(1.0f), MUL(f, e.s2)));
  return _mm256_blendv_ps(above, below, x);
}

#define BINARY(name, f)                                                                                        \
  static void name(float *y, const float *a, const float *b, size_t n) {                                       \
    for (size_t i = 0; i < n; i += 8) _mm256_store_ps(y + i, f(_mm256_load_ps(a + i), _mm256_load_ps(b + i))); \
  }
#define UNARY(name, expression)                                       \
  static void name(float *y, const float *x, float value, size_t n) { \
    (void)value;                                                      \
    for (size_t i = 0; i < n; i += 8) {                               \
      __m256 v = _mm256_load_ps(x + i);                               \
      _mm256_store_ps(y + i, expression);                             \
    }                                                                 \
  }
BINARY(add, _mm256_add_ps)
BINARY(sub, _mm256_sub_ps)
BINARY(mul, _mm256_mul_ps)
BINARY(divide, _mm256_div_ps)
UNARY(neg, _mm256_xor_ps(SET(-0.0f), v))
UNARY(relu, _mm256_max_ps(_mm256_setzero_ps(), v)) /* this order keeps NaN */
UNARY(sigmoid, sigmoid8(v))
UNARY(tanh_, tanh8(v))
UNARY(gelu_erf, gelu_erf8(v))
UNARY(gelu_tanh, gelu_tanh8(v))
UNARY(silu, silu8(v))
UNARY(swish_alpha, swish8(v, value))
#undef UNARY
#undef BINARY

static void swish(float *y, const float *x, float value, size_t n) {
  if (value == 1.0f)
    silu(y, x, value, n);
  else
    swish_alpha(y, x, value, n);
}

static void put(float *y, size_t ldy, const float *tiles, size_t rows, size_t blocks) {
  for (size_t m = 0; m < rows; m++)
    for (size_t b = 0; b < blocks; b++) {
      const float *from = tiles + (b * rows + m) * TNI_CM_CHAIN_UNIT;
      _mm256_stream_ps(y + m * ldy + b * TNI_CM_CHAIN_UNIT, _mm256_load_ps(from));
      _mm256_stream_ps(y + m * ldy + b * TNI_CM_CHAIN_UNIT + 8, _mm256_load_ps(from + 8));
    }
  _mm_sfence(); /* who is told that the task is done sees them */
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
                                             .swish = swish,
                                             .put = put};

const tni_cm_chain_kernels *tni_x86_chain_f32_1x8_avx2(void) { return &kernels; }
