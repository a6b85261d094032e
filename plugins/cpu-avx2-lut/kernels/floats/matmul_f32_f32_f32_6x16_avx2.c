/* SPDX-License-Identifier: Apache-2.0
 *
 * Products of two activations: tiles of up to 6 rows x 16 columns, one FMA chain per element.
 */
#include <immintrin.h>
#include <string.h>

#include "plugins/cpu-avx2-lut/kernels/floats/floats.h"

enum { TILE_M = 6, TILE_N = 16 };

/* Columns that a tile has: lanes beyond n are neither read nor written. */
typedef struct tile_columns {
  __m256i lo, hi;
} tile_columns;

static tile_columns columns_of(size_t n) {
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  int32_t have = n > TILE_N ? TILE_N : (int32_t)n;
  return (tile_columns){_mm256_cmpgt_epi32(_mm256_set1_epi32(have), lane),
                        _mm256_cmpgt_epi32(_mm256_set1_epi32(have - 8), lane)};
}

/* A raw constant may lie at any address of a mapped file. */
static inline __m256 broadcast_float(const float *a) {
  float v;
  memcpy(&v, a, sizeof v);
  return _mm256_set1_ps(v);
}

#define START(i) __m256 c##i##0 = _mm256_setzero_ps(), c##i##1 = c##i##0;
#define STEP(i)                                  \
  {                                              \
    __m256 v = broadcast_float(a + i * lda + k); \
    c##i##0 = _mm256_fmadd_ps(v, b0, c##i##0);   \
    c##i##1 = _mm256_fmadd_ps(v, b1, c##i##1);   \
  }
#define STORE(i)                          \
  _mm256_storeu_ps(c + i * ldc, c##i##0); \
  _mm256_storeu_ps(c + i * ldc + 8, c##i##1);
#define STORE_TAIL(i)                                 \
  _mm256_maskstore_ps(c + i * ldc, cols.lo, c##i##0); \
  _mm256_maskstore_ps(c + i * ldc + 8, cols.hi, c##i##1);

#define TILE(M, REP)                                                                                             \
  static void tile_##M(const float *a, size_t lda, const float *b, size_t ldb, float *c, size_t ldc, size_t K) { \
    REP(START)                                                                                                   \
    for (size_t k = 0; k < K; k++, b += ldb) {                                                                   \
      __m256 b0 = _mm256_loadu_ps(b), b1 = _mm256_loadu_ps(b + 8);                                               \
      REP(STEP)                                                                                                  \
    }                                                                                                            \
    REP(STORE)                                                                                                   \
  }                                                                                                              \
  static void tail_##M(const float *a, size_t lda, const float *b, size_t ldb, float *c, size_t ldc, size_t K,   \
                       tile_columns cols) {                                                                      \
    REP(START)                                                                                                   \
    for (size_t k = 0; k < K; k++, b += ldb) {                                                                   \
      __m256 b0 = _mm256_maskload_ps(b, cols.lo), b1 = _mm256_maskload_ps(b + 8, cols.hi);                       \
      REP(STEP)                                                                                                  \
    }                                                                                                            \
    REP(STORE_TAIL)                                                                                              \
  }

TILE(1, TNI_X86_REP1)
TILE(2, TNI_X86_REP2)
TILE(3, TNI_X86_REP3)
TILE(4, TNI_X86_REP4)
TILE(5, TNI_X86_REP5)
TILE(6, TNI_X86_REP6)

#undef TILE
#undef STORE_TAIL
#undef STORE
#undef STEP
#undef START

typedef void (*float_tile_fn)(const float *a, size_t lda, const float *b, size_t ldb, float *c, size_t ldc, size_t K);
typedef void (*tail_fn)(const float *a, size_t lda, const float *b, size_t ldb, float *c, size_t ldc, size_t K,
                        tile_columns cols);
static const float_tile_fn float_tiles[TILE_M + 1] = {NULL, tile_1, tile_2, tile_3, tile_4, tile_5, tile_6};
static const tail_fn float_tails[TILE_M + 1] = {NULL, tail_1, tail_2, tail_3, tail_4, tail_5, tail_6};

void tni_x86_matmul_f32_f32_f32_6x16_avx2(const tni_clt_matmul *p) {
  for (size_t n = 0; n < p->N; n += TILE_N) {
    size_t left = p->N - n;
    tile_columns cols = columns_of(left);
    for (size_t m = 0; m < p->M; m += TILE_M) {
      size_t rows = p->M - m < TILE_M ? p->M - m : TILE_M;
      const float *a = p->a + m * p->lda;
      float *c = p->c + m * p->ldc + n;
      if (left >= TILE_N)
        float_tiles[rows](a, p->lda, p->b + n, p->ldb, c, p->ldc, p->K);
      else
        float_tails[rows](a, p->lda, p->b + n, p->ldb, c, p->ldc, p->K, cols);
    }
  }
}
