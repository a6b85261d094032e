/* SPDX-License-Identifier: Apache-2.0
 *
 * Loops over bytes: products of pairs of 16-bit integers, which are exact, and conversions. Compiled once per
 * instruction set, as hot.c.
 */
#include "runtime/ops/hot/hot_lanes.h"
#include "runtime/ops/hot/hot_rows.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

typedef uint8_t u8u __attribute__((aligned(1), may_alias));

/* --- widening --- */

static int16_t wide_byte(uint32_t byte, tni_of_byte q) { return (int16_t)((int32_t)(byte ^ q.flip) - q.zero); }

void TNI_HOT_OWN(widen)(int16_t *dst, const void *src, tni_of_byte q, int64_t n) {
  const u8u *s = src;
  for (int64_t i = 0; i < n; i++) dst[i] = (int16_t)((int16_t)(uint8_t)(s[i] ^ q.flip) - (int16_t)q.zero);
}

void TNI_HOT_OWN(widen_pairs)(int16_t *dst, const void *r0, const void *r1, tni_of_byte q, int64_t n) {
  const u8u *a = r0, *b = r1;
  int64_t i = 0;
#ifdef __AVX2__
  const __m128i flip = _mm_set1_epi8((char)q.flip);
  const __m256i zero = _mm256_set1_epi16((short)q.zero);
  for (; b && i + 16 <= n; i += 16) {
    const __m128i x = _mm_xor_si128(_mm_loadu_si128((const __m128i *)(const void *)(a + i)), flip);
    const __m128i y = _mm_xor_si128(_mm_loadu_si128((const __m128i *)(const void *)(b + i)), flip);
    const __m256i lo = _mm256_cvtepu8_epi16(_mm_unpacklo_epi8(x, y)),
                  hi = _mm256_cvtepu8_epi16(_mm_unpackhi_epi8(x, y));
    _mm256_storeu_si256((__m256i *)(void *)(dst + 2 * i), _mm256_sub_epi16(lo, zero));
    _mm256_storeu_si256((__m256i *)(void *)(dst + 2 * i + 16), _mm256_sub_epi16(hi, zero));
  }
#endif
  for (; i < n; i++) {
    dst[2 * i] = wide_byte(a[i], q);
    dst[2 * i + 1] = b ? wide_byte(b[i], q) : 0;
  }
}

void TNI_HOT_OWN(widen_floats)(float *restrict dst, const void *src, int64_t stride, tni_of_byte q, int64_t n) {
  const u8u *restrict s = src;
  int64_t i = 0;
#ifdef __AVX2__
  const __m128i flip = _mm_set1_epi8((char)q.flip), low = _mm_set1_epi16(255);
  const __m256i zero = _mm256_set1_epi32(q.zero);
  for (; stride == 1 && i + 8 <= n; i += 8) {
    const __m128i x = _mm_xor_si128(_mm_loadl_epi64((const __m128i *)(const void *)(s + i)), flip);
    _mm256_storeu_ps(dst + i, _mm256_cvtepi32_ps(_mm256_sub_epi32(_mm256_cvtepu8_epi32(x), zero)));
  }
  for (; stride == 2 && i + 8 < n; i += 8) { /* the 16th byte is the next one's, or there is none */
    const __m128i x = _mm_xor_si128(_mm_loadu_si128((const __m128i *)(const void *)(s + 2 * i)), flip);
    _mm256_storeu_ps(dst + i, _mm256_cvtepi32_ps(_mm256_sub_epi32(_mm256_cvtepu16_epi32(_mm_and_si128(x, low)), zero)));
  }
#endif
  for (; i < n; i++) dst[i] = (float)((int32_t)(s[i * stride] ^ q.flip) - q.zero);
}

/* --- products --- */

#if defined(__AVX2__)

/* Accumulators by name: compilers keep them in registers then. */
#ifdef __AVX512VNNI__
/* vpdpwssd: both products of a pair and the sum. */
#define ACC(i) __m512i c##i = _mm512_setzero_si512();
#define ROW(i) const int16_t *restrict a##i = a + (i)*lda;
#define STEP(i) c##i = _mm512_dpwssd_epi32(c##i, _mm512_set1_epi32(pair_at(a##i + 2 * k)), b0);
#define OUT(i)                                                                            \
  {                                                                                       \
    int32_t *d = c + (i)*ldc;                                                             \
    _mm512_storeu_si512(d, first ? c##i : _mm512_add_epi32(c##i, _mm512_loadu_si512(d))); \
  }
#define LOAD const __m512i b0 = _mm512_loadu_si512(b + k * 32);
#else
#define ACC(i) __m256i c##i##0 = _mm256_setzero_si256(), c##i##1 = c##i##0;
#define ROW(i) const int16_t *restrict a##i = a + (i)*lda;
#define STEP(i)                                                       \
  {                                                                   \
    const __m256i s = _mm256_set1_epi32(pair_at(a##i + 2 * k));       \
    c##i##0 = _mm256_add_epi32(c##i##0, _mm256_madd_epi16(s, b0));    \
    c##i##1 = _mm256_add_epi32(c##i##1, _mm256_madd_epi16(s, b1));    \
    __asm__("" : "+x"(c##i##0), "+x"(c##i##1)); /* rows one by one */ \
  }
#define OUT(i)                                                                                  \
  {                                                                                             \
    __m256i *d = (__m256i *)(void *)(c + (i)*ldc);                                              \
    _mm256_storeu_si256(d, first ? c##i##0 : _mm256_add_epi32(c##i##0, _mm256_loadu_si256(d))); \
    d++;                                                                                        \
    _mm256_storeu_si256(d, first ? c##i##1 : _mm256_add_epi32(c##i##1, _mm256_loadu_si256(d))); \
  }
#define LOAD                                                                          \
  const __m256i b0 = _mm256_loadu_si256((const __m256i *)(const void *)(b + k * 32)); \
  const __m256i b1 = _mm256_loadu_si256((const __m256i *)(const void *)(b + k * 32 + 16));
#endif
#define MICRO(n, LIST)                                                                                    \
  static void micro_##n(int64_t pairs, const int16_t *restrict a, int64_t lda, const int16_t *restrict b, \
                        int32_t *restrict c, int64_t ldc, int first) {                                    \
    (void)lda;                                                                                            \
    (void)ldc;                                                                                            \
    LIST(ACC) LIST(ROW) for (int64_t k = 0; k < pairs; k++){LOAD LIST(STEP)} LIST(OUT)                    \
  }
static inline int32_t pair_at(const int16_t *a) {
  int32_t pair;
  memcpy(&pair, a, sizeof pair);
  return pair;
}

MICRO(1, L1)
MICRO(2, L2)
MICRO(3, L3)
MICRO(4, L4)
MICRO(5, L5)
MICRO(6, L6)
#define TILE(n) micro_##n(pairs, a, lda, b, c, ldc, first)

#elif defined(TNI_HOT_NEON)

/* The pair `at` of four, whose elements are lanes of x. */
#define SMLAL(acc, w, x, lane)                                    \
  (acc)[0] = vmlal_laneq_s16((acc)[0], vget_low_s16(w), x, lane); \
  (acc)[1] = vmlal_high_laneq_s16((acc)[1], w, x, lane);
#define PAIR(at, even, odd)                                                          \
  {                                                                                  \
    const int16x8x2_t b0 = vld2q_s16(b + (at)*32), b1 = vld2q_s16(b + (at)*32 + 16); \
    int16x8_t x = vld1q_s16(a);                                                      \
    _Pragma("GCC unroll 6") for (int m = 0; m < mr; m++) {                           \
      const int16x8_t then = vld1q_s16(a + (m + 1 < mr ? m + 1 : m) * lda);          \
      SMLAL(acc[m], b0.val[0], x, even)                                              \
      SMLAL(acc[m] + 2, b1.val[0], x, even)                                          \
      SMLAL(acc[m], b0.val[1], x, odd)                                               \
      SMLAL(acc[m] + 2, b1.val[1], x, odd)                                           \
      x = then;                                                                      \
    }                                                                                \
  }

static inline __attribute__((always_inline)) void micro(const int mr, int64_t pairs, const int16_t *restrict a,
                                                        int64_t lda, const int16_t *restrict b, int32_t *restrict c,
                                                        int64_t ldc, int first) {
  int32x4_t acc[TNI_BR][4];
#pragma GCC unroll 6
  for (int m = 0; m < mr; m++)
    for (int h = 0; h < 4; h++) acc[m][h] = vdupq_n_s32(0);
  for (; pairs >= 4; pairs -= 4, a += 8, b += 128) {
    PAIR(0, 0, 1)
    PAIR(1, 2, 3)
    PAIR(2, 4, 5)
    PAIR(3, 6, 7)
  }
  for (; pairs > 0; pairs--, a += 2, b += 32) {
    const int16x8x2_t b0 = vld2q_s16(b), b1 = vld2q_s16(b + 16);
#pragma GCC unroll 6
    for (int m = 0; m < mr; m++)
      for (int p = 0; p < 2; p++) {
        const int16x8_t x = vld1q_dup_s16(a + m * lda + p);
        SMLAL(acc[m], b0.val[p], x, 0)
        SMLAL(acc[m] + 2, b1.val[p], x, 0)
      }
  }
#pragma GCC unroll 6
  for (int m = 0; m < mr; m++)
    for (int h = 0; h < 4; h++) {
      int32_t *d = c + m * ldc + h * 4;
      vst1q_s32(d, first ? acc[m][h] : vaddq_s32(acc[m][h], vld1q_s32(d)));
    }
}

#else

static inline __attribute__((always_inline)) void micro(const int mr, int64_t pairs, const int16_t *restrict a,
                                                        int64_t lda, const int16_t *restrict b, int32_t *restrict c,
                                                        int64_t ldc, int first) {
  for (int m = 0; m < mr; m++) {
    uint32_t acc[TNI_NR] = {0};
    for (int64_t k = 0; k < pairs; k++) {
      const int32_t s = a[m * lda + 2 * k], t = a[m * lda + 2 * k + 1];
      for (int j = 0; j < TNI_NR; j++)
        acc[j] += (uint32_t)(s * b[k * 2 * TNI_NR + 2 * j] + t * b[k * 2 * TNI_NR + 2 * j + 1]);
    }
    for (int j = 0; j < TNI_NR; j++) c[m * ldc + j] = (int32_t)(acc[j] + (first ? 0 : (uint32_t)c[m * ldc + j]));
  }
}

#endif

#ifndef TILE
#define TILE(n) micro(n, pairs, a, lda, b, c, ldc, first)
#endif

void TNI_HOT_OWN(bgemm)(int mr, int64_t pairs, const int16_t *a, int64_t lda, const int16_t *b, int32_t *c, int64_t ldc,
                        int first) {
  TNI_ROWS(mr, TILE)
}

void TNI_HOT_OWN(taps)(float *restrict acc, const float *x, const float *w, int64_t taps, int64_t step, int64_t n) {
  int64_t t = 0;
  for (; t + 3 <= taps; t += 3) {
    const float *restrict x0 = x + t * step, *restrict x1 = x0 + step, *restrict x2 = x1 + step;
    const vr w0 = allr(w[t]), w1 = allr(w[t + 1]), w2 = allr(w[t + 2]);
    int64_t i = 0;
    for (; i + LANES_R <= n; i += LANES_R)
      storer(acc + i, fmar(w2, loadr(x2 + i), fmar(w1, loadr(x1 + i), fmar(w0, loadr(x0 + i), loadr(acc + i)))));
    for (; i < n; i++) acc[i] = fma1(w[t + 2], x2[i], fma1(w[t + 1], x1[i], fma1(w[t], x0[i], acc[i])));
  }
  for (; t < taps; t++) add_scaled(acc, x + t * step, w[t], n);
}

/* --- to bytes and back --- */

/* v is within the range around zero: integers of at most 9 bits, to which 1.5 * 2^23 rounds, half to even. */
static inline uint8_t byte_of(float v, float least, float most, float zero) {
  v = !(v >= least) ? least : v;
  v = v > most ? most : v;
  v = v + 12582912.f;
  return (uint8_t)(int32_t)((v - 12582912.f) + zero);
}

#ifdef __AVX2__
/* 8 codes as 32-bit integers; what is not a number becomes the lowest one, as max takes its second operand then. */
static inline __m256i codes8(__m256 v, __m256 least, __m256 most, __m256i zero) {
  return _mm256_add_epi32(_mm256_cvtps_epi32(_mm256_min_ps(_mm256_max_ps(v, least), most)), zero);
}

/* 32 of them as bytes in order: within their range, so that the low bytes are they. */
static inline void bytes32(u8u *y, __m256i a, __m256i b, __m256i c, __m256i d) {
  const __m256i low = _mm256_set1_epi32(255), order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
  const __m256i ab = _mm256_packus_epi32(_mm256_and_si256(a, low), _mm256_and_si256(b, low));
  const __m256i cd = _mm256_packus_epi32(_mm256_and_si256(c, low), _mm256_and_si256(d, low));
  const __m256i all = _mm256_permutevar8x32_epi32(_mm256_packus_epi16(ab, cd), order);
  _mm256_storeu_si256((__m256i *)(void *)y, all);
}

static inline void bytes8(u8u *y, __m256i a) {
  const __m256i low = _mm256_set1_epi32(255), p = _mm256_packus_epi32(_mm256_and_si256(a, low), _mm256_setzero_si256());
  const __m256i q = _mm256_packus_epi16(p, p);
  const uint32_t lo = (uint32_t)_mm256_extract_epi32(q, 0), hi = (uint32_t)_mm256_extract_epi32(q, 4);
  const uint64_t both = lo | (uint64_t)hi << 32;
  memcpy(y, &both, sizeof both);
}

static int64_t requantize8(u8u *y, const int32_t *c, const float *scale, int per, tni_to_byte q, int64_t n) {
  const __m256 least = _mm256_set1_ps(q.lo - q.zero), most = _mm256_set1_ps(q.hi - q.zero);
  const __m256 one = _mm256_set1_ps(scale[0]);
  const __m256i zero = _mm256_set1_epi32((int32_t)q.zero);
  int64_t i = 0;
#define EIGHT(at)                                                                                         \
  codes8(_mm256_mul_ps(_mm256_cvtepi32_ps(_mm256_loadu_si256((const __m256i *)(const void *)(c + (at)))), \
                       per ? _mm256_loadu_ps(scale + (at)) : one),                                        \
         least, most, zero)
  for (; i + 32 <= n; i += 32) bytes32(y + i, EIGHT(i), EIGHT(i + 8), EIGHT(i + 16), EIGHT(i + 24));
  for (; i + 8 <= n; i += 8) bytes8(y + i, EIGHT(i));
#undef EIGHT
  return i;
}
#endif

void TNI_HOT_OWN(requantize)(void *yv, const int32_t *restrict c, const float *restrict scale, int per, tni_to_byte q,
                             int64_t n) {
  u8u *restrict y = yv;
  const float least = q.lo - q.zero, most = q.hi - q.zero;
  int64_t i = 0;
#ifdef __AVX2__
  i = requantize8(y, c, scale, per, q, n);
#endif
  for (; i < n; i++) y[i] = byte_of((float)c[i] * scale[per ? i : 0], least, most, q.zero);
}

void TNI_HOT_OWN(integers)(int32_t *restrict y, const float *restrict x, int32_t add, int64_t n) {
  for (int64_t i = 0; i < n; i++) y[i] = (int32_t)((uint32_t)(int32_t)x[i] + (uint32_t)add);
}

void TNI_HOT_OWN(quantize)(void *yv, const void *xv, float scale, tni_to_byte q, int64_t n) {
  u8u *restrict y = yv;
  const f32u *restrict x = xv;
  const float least = q.lo - q.zero, most = q.hi - q.zero;
  for (int64_t i = 0; i < n; i++) {
    const float v = x[i] / scale;
    y[i] = byte_of(v != v ? 0 : v, least, most, q.zero);
  }
}

void TNI_HOT_OWN(range)(const void *xv, int64_t n, float *lo, float *hi) {
  enum { WIDE = 64 };
  const f32u *x = xv;
  float least[WIDE], most[WIDE];
  for (int j = 0; j < WIDE; j++) least[j] = *lo, most[j] = *hi;
  int64_t i = 0;
  for (; i + WIDE <= n; i += WIDE)
    for (int j = 0; j < WIDE; j++) {
      least[j] = x[i + j] < least[j] ? x[i + j] : least[j];
      most[j] = x[i + j] > most[j] ? x[i + j] : most[j];
    }
  for (int j = 0; i + j < n; j++) {
    least[j] = x[i + j] < least[j] ? x[i + j] : least[j];
    most[j] = x[i + j] > most[j] ? x[i + j] : most[j];
  }
  for (int j = 0; j < WIDE; j++) {
    *lo = least[j] < *lo ? least[j] : *lo;
    *hi = most[j] > *hi ? most[j] : *hi;
  }
}

void TNI_HOT_OWN(dequantize)(float *restrict y, const void *xv, float scale, tni_of_byte q, int64_t n) {
  const u8u *restrict x = xv;
  for (int64_t i = 0; i < n; i++) y[i] = (float)((int32_t)(x[i] ^ q.flip) - q.zero) * scale;
}
