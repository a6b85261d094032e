/* SPDX-License-Identifier: Apache-2.0
 *
 * Vector types of fixed width and what the files that are compiled per instruction set share: lanes, a product and a
 * sum rounded once (fma1, fma8), and exp of what is not positive.
 *
 * A rounded-once product needs an instruction. Where the instruction set lacks it, it is computed in double and rounded
 * to odd there, which gives the same bits and takes a hundred times as long; with TNI_HOT_TWICE it is rounded before it
 * is added.
 */
#ifndef TENON_OPS_HOT_HOT_LANES_H
#define TENON_OPS_HOT_HOT_LANES_H

#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "runtime/ops/hot/half_bits.h"
#include "runtime/ops/hot/loops.h"

#if defined(__aarch64__) && !defined(TNI_HOT_PORTABLE)
#define TNI_HOT_NEON /* registers of four lanes */
#include <arm_neon.h>
#elif defined(__AVX2__)
#include <immintrin.h>
#endif

typedef float f32u __attribute__((aligned(1), may_alias));
typedef float v8 __attribute__((vector_size(32)));
typedef float v8u __attribute__((vector_size(32), aligned(1), may_alias));
typedef double f64u __attribute__((aligned(1), may_alias));
typedef double v4d __attribute__((vector_size(32)));
typedef int32_t v8i __attribute__((vector_size(32)));
typedef uint32_t v8n __attribute__((vector_size(32)));

/* --- a * b + c, rounded once --- */

#if defined(TNI_HOT_TWICE)
static inline float fma1(float a, float b, float c) { return a * b + c; }
static inline v8 fma8(v8 a, v8 b, v8 c) { return a * b + c; }
#elif defined(__FMA__)
static inline float fma1(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
static inline v8 fma8(v8 a, v8 b, v8 c) { return __builtin_ia32_vfmaddps256(a, b, c); }
#elif defined(TNI_HOT_NEON)
static inline float fma1(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
static inline v8 fma8(v8 a, v8 b, v8 c) {
  float32x4_t x[2], y[2], z[2];
  memcpy(x, &a, sizeof a);
  memcpy(y, &b, sizeof b);
  memcpy(z, &c, sizeof c);
  for (int i = 0; i < 2; i++) z[i] = vfmaq_f32(z[i], x[i], y[i]);
  memcpy(&c, z, sizeof c);
  return c;
}
#else
typedef double v8d __attribute__((vector_size(64)));
typedef int64_t v8l __attribute__((vector_size(64)));
/* The product of two floats is exact in double. Where the sum is not, it moves to the neighbour on the side of what was
 * lost if its last bit is even: the rounding to float that follows then sees on which side of every midpoint it lies.
 */
static inline v8 fma8(v8 a, v8 b, v8 c) {
  const v8d p = __builtin_convertvector(a, v8d) * __builtin_convertvector(b, v8d), z = __builtin_convertvector(c, v8d);
  const v8d s = p + z, t = s - p, lost = (p - (s - t)) + (z - t), zero = {0};
  const v8l even = ((v8l)s & 1) - 1, inexact = ((lost < zero) | (lost > zero)) & even; /* neither where it is NaN */
  const v8l step = ((lost < zero) ^ (s < zero)) | 1;
  return __builtin_convertvector((v8d)((v8l)s + (step & inexact)), v8);
}
static inline float fma1(float a, float b, float c) {
  const v8 x = {a}, y = {b}, z = {c};
  return fma8(x, y, z)[0];
}
#endif

/* Asks memory for line i of what comes next, where something does. Inlined by force: gcc drops calls of a function of
 * nothing but prefetches. */
__attribute__((always_inline)) static inline void fetch(const char *next, int64_t i) {
  if (next) __builtin_prefetch(next + i * 64, 0, 2);
}

/* --- lanes --- */

static inline v8 all8(float f) { return (v8){f, f, f, f, f, f, f, f}; }
static inline v8 load8(const void *p) { return *(const v8u *)p; }
static inline void store8(float *p, v8 v) { *(v8u *)(void *)p = v; }
static inline v8 pick8(v8i mask, v8 yes, v8 no) { return (v8)((mask & (v8i)yes) | (~mask & (v8i)no)); }
/* a > b: all bits or none. gcc compares what is wider than a register lane by lane. */
#ifdef TNI_HOT_NEON
static inline v8i above8(v8 a, v8 b) {
  const float32x4_t a0 = __builtin_shufflevector(a, a, 0, 1, 2, 3), a1 = __builtin_shufflevector(a, a, 4, 5, 6, 7);
  const float32x4_t b0 = __builtin_shufflevector(b, b, 0, 1, 2, 3), b1 = __builtin_shufflevector(b, b, 4, 5, 6, 7);
  return __builtin_shufflevector((int32x4_t)vcgtq_f32(a0, b0), (int32x4_t)vcgtq_f32(a1, b1), 0, 1, 2, 3, 4, 5, 6, 7);
}
#else
static inline v8i above8(v8 a, v8 b) { return a > b; }
#endif
/* a > b ? a : b, so b where one is NaN. */
static inline v8 max8(v8 a, v8 b) {
#ifdef __AVX__
  return __builtin_ia32_maxps256(a, b);
#else
  return pick8(above8(a, b), a, b);
#endif
}

/* --- bfloat16, in pairs: an element each in the low and the high half of a word --- */

static inline v8 high8(v8 v) { return (v8)((v8n)v & 0xffff0000u); }
static inline v8 low8(v8 v) { return (v8)((v8n)v << 16); }
/* fma8 where the product is exact, as that of two bfloat16 is. */
#if defined(__FMA__) || defined(TNI_HOT_NEON)
static inline v8 exact8(v8 a, v8 b, v8 c) { return fma8(a, b, c); }
#else
static inline v8 exact8(v8 a, v8 b, v8 c) { return a * b + c; }
#endif

/* c + a * b of the high halves, and to that the product of the low ones. */
#ifdef __AVX512BF16__
static inline v8 pairs8(v8 a, v8 b, v8 c) { return (v8)_mm256_dpbf16_ps((__m256)c, (__m256bh)a, (__m256bh)b); }
static inline __m512 pairs16(__m512 a, __m512 b, __m512 c) { return _mm512_dpbf16_ps(c, (__m512bh)a, (__m512bh)b); }
#else
static inline v8 pairs8(v8 a, v8 b, v8 c) { return exact8(low8(a), low8(b), exact8(high8(a), high8(b), c)); }
#ifdef __AVX512F__
static inline __m512 high16(__m512 v) { return (__m512)_mm512_and_si512((__m512i)v, _mm512_set1_epi32(-65536)); }
static inline __m512 low16(__m512 v) { return (__m512)_mm512_slli_epi32((__m512i)v, 16); }
static inline __m512 pairs16(__m512 a, __m512 b, __m512 c) {
  return _mm512_fmadd_ps(low16(a), low16(b), _mm512_fmadd_ps(high16(a), high16(b), c));
}
#endif
#endif

/* Lanes of one register, where there are registers for four or for eight of them. */
#if defined(TNI_HOT_NEON)
typedef float32x4_t vr;
static inline vr load4(const f32u *p) { return vreinterpretq_f32_u8(vld1q_u8((const uint8_t *)p)); }
static inline vr loadr(const void *p) { return load4(p); }
static inline void storer(float *p, vr v) { vst1q_u8((uint8_t *)p, vreinterpretq_u8_f32(v)); }
static inline vr allr(float f) { return vdupq_n_f32(f); }
static inline vr fmar(vr a, vr b, vr c) { return vfmaq_f32(c, a, b); }
#else
typedef v8 vr;
static inline vr loadr(const void *p) { return load8(p); }
static inline void storer(float *p, vr v) { store8(p, v); }
static inline vr allr(float f) { return all8(f); }
static inline vr fmar(vr a, vr b, vr c) { return fma8(a, b, c); }
#endif
enum { LANES_R = sizeof(vr) / sizeof(float) };

/* acc[i] += w * x[i], every product added with one rounding. */
static inline void add_scaled(float *restrict acc, const f32u *restrict x, float w, int64_t n) {
  int64_t i = 0;
  for (; i + LANES_R <= n; i += LANES_R) storer(acc + i, fmar(allr(w), loadr(x + i), loadr(acc + i)));
  for (; i < n; i++) acc[i] = fma1(w, x[i], acc[i]);
}

/* --- exp(x), x <= 0 --- */

/* Within about 1 ulp, 0 where n < -126, which is under 2^-126: x = n ln2 + r, over |r| <= ln2 / 2 the polynomial of
 * degree 6 with the least relative error, 2^-28, in pairs. NaN stays. */
#define LOG2E 1.44269504f
#define MAGIC 12582912.f
#define LN2_HIGH 0.693359375f
#define LN2_REST -2.12194440e-4f
#define DECAY2 0x1.fffffcp-2f
#define DECAY3 0x1.555492p-3f
#define DECAY4 0x1.5558f2p-5f
#define DECAY5 0x1.1239e4p-7f
#define DECAY6 0x1.6a2430p-10f
#define DECAY_LEAST -88.f /* n = -127, and 2^n is then 0 */

/* The widest registers there are: `max` stands in each eight lanes, so in one or in both of two. */
#ifdef __AVX512F__
typedef __m512 vw;
static inline vw allw(float f) { return _mm512_set1_ps(f); }
static inline void eights(vw *to, v8 v) { *to = _mm512_broadcast_f32x8(v); }
static inline vw fmaw(vw a, vw b, vw c) { return _mm512_fmadd_ps(a, b, c); }
static inline vw maxw(vw a, vw b) { return _mm512_max_ps(a, b); }
#elif defined(TNI_HOT_NEON)
typedef float32x4_t vw;
static inline vw allw(float f) { return vdupq_n_f32(f); }
static inline void eights(vw *to, v8 v) { memcpy(to, &v, sizeof v); }
static inline vw fmaw(vw a, vw b, vw c) { return vfmaq_f32(c, a, b); }
static inline vw maxw(vw a, vw b) { return vbslq_f32(vcgtq_f32(a, b), a, b); }
static inline vw notbeloww(vw x, vw least) { return vmaxq_f32(x, least); }
static inline vw notabovew(vw x, vw most) { return vminq_f32(x, most); }
#else
typedef v8 vw;
static inline vw allw(float f) { return all8(f); }
static inline void eights(vw *to, v8 v) { *to = v; }
static inline vw fmaw(vw a, vw b, vw c) { return fma8(a, b, c); }
static inline vw maxw(vw a, vw b) { return max8(a, b); }
#endif
#ifndef TNI_HOT_NEON
/* x < least ? least : x, and x > most ? most : x, none being 0: a NaN stays. */
static inline vw notbeloww(vw x, vw least) { return maxw(least, x); }
static inline vw notabovew(vw x, vw most) {
#ifdef __AVX512F__
  return _mm512_min_ps(most, x);
#elif defined(__AVX__)
  return __builtin_ia32_minps256(most, x);
#else
  return pick8(most < x, most, x);
#endif
}
#endif
enum { LANES_W = sizeof(vw) / sizeof(float) };
typedef vw vwu __attribute__((aligned(1), may_alias));
typedef uint32_t vwn __attribute__((vector_size(sizeof(vw))));
typedef int32_t vwi __attribute__((vector_size(sizeof(vw))));
static inline vw pickw(vwi mask, vw yes, vw no) { return (vw)((mask & (vwi)yes) | (~mask & (vwi)no)); }

/* v[i] = exp(v[i] - max) for i < 4. Abreast, or the processor waits for each; at once as many as there are registers
 * for. */
enum { ABREAST = 4, WIDE_ABREAST = ABREAST * sizeof(v8) / sizeof(vw), REGS_W = WIDE_ABREAST < 4 ? WIDE_ABREAST : 4 };
#define EACH(e) \
  for (int u = 0; u < ABREAST; u++) e;
#define EACH_WIDE(e) \
  for (int u = 0; u < REGS_W; u++) e;
static inline __attribute__((always_inline)) void decay_wide(vwu *v, const vw *m, int many) {
  vw x[REGS_W], t[REGS_W], r[REGS_W], p[REGS_W], q[REGS_W], s[REGS_W];
  EACH_WIDE(x[u] = notbeloww(v[u] - m[u % many], allw(DECAY_LEAST)))
  EACH_WIDE(t[u] = fmaw(x[u], allw(LOG2E), allw(MAGIC)))
  EACH_WIDE(p[u] = t[u] - MAGIC)
  EACH_WIDE(r[u] = fmaw(p[u], allw(-LN2_HIGH), x[u]))
  EACH_WIDE(r[u] = fmaw(p[u], allw(-LN2_REST), r[u]))
  EACH_WIDE(s[u] = r[u] * r[u])
  EACH_WIDE(q[u] = fmaw(r[u], allw(DECAY5), allw(DECAY4)))
  EACH_WIDE(p[u] = fmaw(r[u], allw(DECAY3), allw(DECAY2)))
  EACH_WIDE(q[u] = fmaw(s[u], allw(DECAY6), q[u]))
  EACH_WIDE(r[u] = r[u] + 1.f)
  EACH_WIDE(r[u] = fmaw(s[u], p[u], r[u]))
  EACH_WIDE(s[u] = s[u] * s[u])
  EACH_WIDE(p[u] = fmaw(s[u], q[u], r[u]))
  EACH_WIDE(v[u] = p[u] * (vw)(((vwn)t[u] + 127) << 23))
}
static inline __attribute__((always_inline)) void decay8x4(v8u *v, v8 max) {
  vw m[sizeof max > sizeof(vw) ? 2 : 1];
  eights(m, max);
#pragma GCC unroll 1
  for (int i = 0; i < WIDE_ABREAST; i += REGS_W) decay_wide((vwu *)(void *)v + i, m, sizeof m / sizeof *m);
}

/* --- what hot_attention.c gives to the table of hot.c --- */

#define TNI_HOT_JOIN2(a, b) a##_##b
#define TNI_HOT_JOIN(a, b) TNI_HOT_JOIN2(a, b)
#define TNI_HOT_OWN(name) TNI_HOT_JOIN(TNI_HOT_NAME, name)
void TNI_HOT_OWN(widen)(int16_t *dst, const void *src, tni_of_byte q, int64_t n);
void TNI_HOT_OWN(widen_pairs)(int16_t *dst, const void *r0, const void *r1, tni_of_byte q, int64_t n);
void TNI_HOT_OWN(widen_floats)(float *dst, const void *src, int64_t stride, tni_of_byte q, int64_t n);
void TNI_HOT_OWN(bgemm)(int mr, int64_t pairs, const int16_t *a, int64_t lda, const int16_t *b, int32_t *c, int64_t ldc,
                        int first);
void TNI_HOT_OWN(taps)(float *acc, const float *x, const float *w, int64_t taps, int64_t step, int64_t n);
void TNI_HOT_OWN(requantize)(void *y, const int32_t *c, const float *scale, int per, tni_to_byte q, int64_t n);
void TNI_HOT_OWN(integers)(int32_t *y, const float *x, int32_t add, int64_t n);
void TNI_HOT_OWN(quantize)(void *y, const void *x, float scale, tni_to_byte q, int64_t n);
void TNI_HOT_OWN(range)(const void *x, int64_t n, float *lo, float *hi);
void TNI_HOT_OWN(dequantize)(float *y, const void *x, float scale, tni_of_byte q, int64_t n);
void TNI_HOT_OWN(dots8)(int rows, int64_t n, int64_t kc, const float *at, const void *b, int64_t ldb, float *c,
                        const void *next);
bool TNI_HOT_OWN(softmax8)(int64_t n, float *s, float *max, float *sum, float *decay);
void TNI_HOT_OWN(values8)(int rows, int64_t n, const float *p, const void *b, int64_t ldb, const float *decay, float *c,
                          int64_t ldc, const void *next);
/* --- and hot_exp.c --- */
void TNI_HOT_OWN(exp)(float *y, const void *x, int64_t n);
void TNI_HOT_OWN(sigmoid)(float *y, const void *x, int64_t n);
void TNI_HOT_OWN(tanh)(float *y, const void *x, int64_t n);
void TNI_HOT_OWN(erf)(float *y, const void *x, int64_t n);
void TNI_HOT_OWN(swish)(float *y, const void *x, int64_t n, float alpha);
/* --- and hot_b16.c --- */
void TNI_HOT_OWN(gemm_b16)(int mr, int64_t kc, const void *a, int64_t lda, const void *b, int64_t ldb, float *c,
                           int64_t ldc, int first);
void TNI_HOT_OWN(gemm2_b16)(int mr, int64_t kc, const void *a, int64_t lda, const void *b, int64_t ldb, int64_t step,
                            float *c, int64_t ldc, int first);
void TNI_HOT_OWN(dots8_b16)(int64_t n, int64_t kc, const void *at, const void *b, int64_t ldb, float *c,
                            const void *next);
void TNI_HOT_OWN(values8_b16)(int rows, int64_t n, const float *p, const void *b, int64_t ldb, const float *decay,
                              float *c, int64_t ldc, const void *next);
void TNI_HOT_OWN(to_b16)(void *dst, const void *src, int64_t n);
void TNI_HOT_OWN(words8_b16)(float *p, int64_t n);
void TNI_HOT_OWN(zip_b16)(void *dst, const void *low, const void *high, int64_t n);

#endif
