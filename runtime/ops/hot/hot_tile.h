/* SPDX-License-Identifier: Apache-2.0
 *
 * The micro tile of 1 to TILE_MR rows and TNI_NR columns, and of two panels: `static void tile` and tile2, with the
 * parameters of tni_hot's gemm and gemm2; of gemm_b16 and gemm2_b16 with TILE_B16 defined, where words that are pairs
 * of bfloat16 take the ways of floats.
 */
#ifndef TENON_OPS_HOT_HOT_TILE_H
#define TENON_OPS_HOT_HOT_TILE_H

#include "runtime/ops/hot/hot_lanes.h"
#include "runtime/ops/hot/hot_rows.h"

#ifdef TILE_B16
#define MAC_8 pairs8
#define MAC_16 pairs16
#else
#define MAC_8 fma8
#define MAC_16 _mm512_fmadd_ps
#endif

#ifdef __AVX512F__
#include <immintrin.h>

/* A register for each row: twelve of them, which hides their latency. Rows in fours, as there are fewer registers for
 * addresses than rows. */
enum { TILE_MR = 12 };
#define A_0 p0[k]
#define A_1 p0[k + lda]
#define A_2 p0[k + 2 * lda]
#define A_3 p0[k + 3 * lda]
#define A_4 p1[k]
#define A_5 p1[k + lda]
#define A_6 p1[k + 2 * lda]
#define A_7 p1[k + 3 * lda]
#define A_8 p2[k]
#define A_9 p2[k + lda]
#define A_10 p2[k + 2 * lda]
#define A_11 p2[k + 3 * lda]
#define ACC(i) __m512 c##i = _mm512_setzero_ps();
#define STEP(i) c##i = MAC_16(_mm512_set1_ps(A_##i), b0, c##i);
#define OUT(i)                                                                   \
  {                                                                              \
    float *d = c + (i)*ldc;                                                      \
    _mm512_storeu_ps(d, first ? c##i : _mm512_add_ps(_mm512_loadu_ps(d), c##i)); \
  }
#define MICRO(n, LIST)                                                                                        \
  static void micro_##n(int64_t kc, const f32u *restrict a, int64_t lda, const f32u *restrict b, int64_t ldb, \
                        float *restrict c, int64_t ldc, int first) {                                          \
    const f32u *p0 = a, *p1 = a + 4 * lda, *p2 = a + 8 * lda;                                                 \
    (void)p1, (void)p2, (void)ldc;                                                                            \
    LIST(ACC) for (int64_t k = 0; k < kc; k++) {                                                              \
      const __m512 b0 = _mm512_loadu_ps(b + k * ldb);                                                         \
      LIST(STEP)                                                                                              \
    }                                                                                                         \
    LIST(OUT)                                                                                                 \
  }
MICRO(7, L7)
MICRO(8, L8)
MICRO(9, L9)
MICRO(10, L10)
MICRO(11, L11)
MICRO(12, L12)

/* Two panels: a number of a is loaded for two products, and the asm keeps it from being loaded for each. */
#define ACC2(i) __m512 c##i = _mm512_setzero_ps(), d##i = _mm512_setzero_ps();
#define STEP2(i)                      \
  {                                   \
    __m512 s = _mm512_set1_ps(A_##i); \
    __asm__("" : "+v"(s));            \
    c##i = MAC_16(s, b0, c##i);       \
    d##i = MAC_16(s, b1, d##i);       \
  }
#define OUT2(i)                                                                              \
  {                                                                                          \
    float *to = c + (i)*ldc;                                                                 \
    _mm512_storeu_ps(to, first ? c##i : _mm512_add_ps(_mm512_loadu_ps(to), c##i));           \
    _mm512_storeu_ps(to + 16, first ? d##i : _mm512_add_ps(_mm512_loadu_ps(to + 16), d##i)); \
  }
#define MICRO2(n, LIST)                                                                                        \
  static void micro2_##n(int64_t kc, const f32u *restrict a, int64_t lda, const f32u *restrict b, int64_t ldb, \
                         int64_t step, float *restrict c, int64_t ldc, int first) {                            \
    const f32u *p0 = a, *p1 = a + 4 * lda, *p2 = a + 8 * lda;                                                  \
    (void)p1, (void)p2, (void)ldc;                                                                             \
    LIST(ACC2) for (int64_t k = 0; k < kc; k++) {                                                              \
      const __m512 b0 = _mm512_loadu_ps(b + k * ldb), b1 = _mm512_loadu_ps(b + step + k * ldb);                \
      LIST(STEP2)                                                                                              \
    }                                                                                                          \
    LIST(OUT2)                                                                                                 \
  }
MICRO2(1, L1)
MICRO2(2, L2)
MICRO2(3, L3)
MICRO2(4, L4)
MICRO2(5, L5)
MICRO2(6, L6)
MICRO2(7, L7)
MICRO2(8, L8)
MICRO2(9, L9)
MICRO2(10, L10)
MICRO2(11, L11)
MICRO2(12, L12)
#elif defined(TNI_HOT_NEON)
/* In registers of four lanes, as hot_neon.c has it. */
enum { TILE_MR = 6 };
static inline __attribute__((always_inline)) void micro(const int mr, int64_t kc, const f32u *restrict a, int64_t lda,
                                                        const f32u *restrict b, int64_t ldb, float *restrict c,
                                                        int64_t ldc, int first) {
  float32x4_t acc[TILE_MR][4];
#pragma GCC unroll 6
  for (int m = 0; m < mr; m++)
    for (int i = 0; i < 4; i++) acc[m][i] = vdupq_n_f32(0);
  for (int64_t k = 0; k < kc; k++, b += ldb) {
    const float32x4_t b0 = load4(b), b1 = load4(b + 4), b2 = load4(b + 8), b3 = load4(b + 12);
#pragma GCC unroll 6
    for (int m = 0; m < mr; m++) {
      const float s = a[m * lda + k];
      acc[m][0] = vfmaq_n_f32(acc[m][0], b0, s);
      acc[m][1] = vfmaq_n_f32(acc[m][1], b1, s);
      acc[m][2] = vfmaq_n_f32(acc[m][2], b2, s);
      acc[m][3] = vfmaq_n_f32(acc[m][3], b3, s);
    }
  }
#pragma GCC unroll 6
  for (int m = 0; m < mr; m++)
    for (int i = 0; i < 4; i++) {
      float *to = c + m * ldc + 4 * i;
      vst1q_f32(to, first ? acc[m][i] : vaddq_f32(load4(to), acc[m][i]));
    }
}
#else
enum { TILE_MR = 6 };
#define ACC(i) v8 c##i##0 = {0}, c##i##1 = {0};
#define ROW(i) const f32u *restrict a##i = a + (i)*lda;
#define STEP(i)                      \
  {                                  \
    const v8 s = all8(a##i[k]);      \
    c##i##0 = MAC_8(s, b0, c##i##0); \
    c##i##1 = MAC_8(s, b1, c##i##1); \
  }
#define OUT(i)                                      \
  {                                                 \
    v8u *restrict d = (v8u *)(void *)(c + (i)*ldc); \
    if (first) {                                    \
      d[0] = c##i##0;                               \
      d[1] = c##i##1;                               \
    } else {                                        \
      d[0] = d[0] + c##i##0;                        \
      d[1] = d[1] + c##i##1;                        \
    }                                               \
  }
#define MICRO(n, LIST)                                                                                        \
  static void micro_##n(int64_t kc, const f32u *restrict a, int64_t lda, const f32u *restrict b, int64_t ldb, \
                        float *restrict c, int64_t ldc, int first) {                                          \
    (void)lda;                                                                                                \
    (void)ldc;                                                                                                \
    LIST(ACC) LIST(ROW) for (int64_t k = 0; k < kc; k++) {                                                    \
      const v8u *p = (const v8u *)(const void *)(b + k * ldb);                                                \
      const v8 b0 = p[0], b1 = p[1];                                                                          \
      LIST(STEP)                                                                                              \
    }                                                                                                         \
    LIST(OUT)                                                                                                 \
  }
#endif
#ifdef MICRO
MICRO(1, L1)
MICRO(2, L2)
MICRO(3, L3)
MICRO(4, L4)
MICRO(5, L5)
MICRO(6, L6)
#define MICRO_OF(n, ...) micro_##n(__VA_ARGS__)
#else
#define MICRO_OF(n, ...) micro(n, __VA_ARGS__)
#endif

static void hot_tile(int mr, int64_t kc, const void *av, int64_t lda, const void *b, int64_t ldb, float *c, int64_t ldc,
                     int first) {
  const f32u *a = av;
#define CALL(n) MICRO_OF(n, kc, a, lda, b, ldb, c, ldc, first)
#ifdef __AVX512F__
  TNI_ROWS_12(mr, CALL)
#else
  for (; mr > TILE_MR; mr -= TILE_MR, a += TILE_MR * lda, c += TILE_MR * ldc) CALL(6);
  TNI_ROWS(mr, CALL)
#endif
#undef CALL
}

static void tile2(int mr, int64_t kc, const void *av, int64_t lda, const void *bv, int64_t ldb, int64_t step, float *c,
                  int64_t ldc, int first) {
  const f32u *a = av, *b = bv;
#ifdef __AVX512F__
#define CALL(n) micro2_##n(kc, a, lda, b, ldb, step, c, ldc, first)
  TNI_ROWS_12(mr, CALL)
#undef CALL
#else
  hot_tile(mr, kc, a, lda, b, ldb, c, ldc, first);
  hot_tile(mr, kc, a, lda, b + step, ldb, c + TNI_NR, ldc, first);
#endif
}

#endif
