/* SPDX-License-Identifier: Apache-2.0
 *
 * Products of two activations: tiles of up to 4 rows x 16 columns, one FMA chain per element; columns that do not fill
 * a register one by one.
 */
#include <arm_neon.h>
#include <math.h>
#include <string.h>

#include "plugins/cpu-neon-lut/kernels/kernels.h"

enum { TILE_M = 4, TILE_N = 16 };

/* A raw constant may lie at any address of a mapped file. */
static inline float one_row(const float *a) {
  float v;
  memcpy(&v, a, sizeof v);
  return v;
}

static inline float32x4_t load_four(const float *b) { return vreinterpretq_f32_u8(vld1q_u8((const uint8_t *)b)); }

#define REP1(F) F(0)
#define REP2(F) REP1(F) F(1)
#define REP3(F) REP2(F) F(2)
#define REP4(F) REP3(F) F(3)

#define START(i) float32x4_t c##i##0 = vdupq_n_f32(0), c##i##1 = c##i##0, c##i##2 = c##i##0, c##i##3 = c##i##0;
#define STEP(i)                            \
  {                                        \
    float v = one_row(a + i * lda + k);    \
    c##i##0 = vfmaq_n_f32(c##i##0, b0, v); \
    c##i##1 = vfmaq_n_f32(c##i##1, b1, v); \
    c##i##2 = vfmaq_n_f32(c##i##2, b2, v); \
    c##i##3 = vfmaq_n_f32(c##i##3, b3, v); \
  }
#define STORE(i)                       \
  vst1q_f32(c + i * ldc, c##i##0);     \
  vst1q_f32(c + i * ldc + 4, c##i##1); \
  vst1q_f32(c + i * ldc + 8, c##i##2); \
  vst1q_f32(c + i * ldc + 12, c##i##3);

#define TILE(M, REP)                                                                                             \
  static void tile_##M(const float *a, size_t lda, const float *b, size_t ldb, float *c, size_t ldc, size_t K) { \
    REP(START)                                                                                                   \
    for (size_t k = 0; k < K; k++, b += ldb) {                                                                   \
      float32x4_t b0 = load_four(b), b1 = load_four(b + 4), b2 = load_four(b + 8), b3 = load_four(b + 12);       \
      REP(STEP)                                                                                                  \
    }                                                                                                            \
    REP(STORE)                                                                                                   \
  }

TILE(1, REP1)
TILE(2, REP2)
TILE(3, REP3)
TILE(4, REP4)

#undef TILE
#undef STORE
#undef STEP
#undef START
#undef REP1
#undef REP2
#undef REP3
#undef REP4

typedef void (*float_tile_fn_neon)(const float *a, size_t lda, const float *b, size_t ldb, float *c, size_t ldc,
                                   size_t K);
static const float_tile_fn_neon neon_float_tiles[TILE_M + 1] = {NULL, tile_1, tile_2, tile_3, tile_4};

static void tail_row(const float *a, const float *b, size_t ldb, float *c, size_t n, size_t K) {
  size_t i = 0;
  for (; i + 4 <= n; i += 4) {
    float32x4_t y = vdupq_n_f32(0);
    for (size_t k = 0; k < K; k++) y = vfmaq_n_f32(y, load_four(b + k * ldb + i), one_row(a + k));
    vst1q_f32(c + i, y);
  }
  for (; i < n; i++) {
    float y = 0;
    for (size_t k = 0; k < K; k++) y = fmaf(one_row(a + k), one_row(b + k * ldb + i), y);
    c[i] = y;
  }
}

void tni_arm_matmul_f32_f32_f32_4x16_neon(const tni_clt_matmul *p) {
  size_t n = 0;
  for (; n + TILE_N <= p->N; n += TILE_N) {
    for (size_t m = 0; m < p->M; m += TILE_M) {
      size_t rows = p->M - m < TILE_M ? p->M - m : TILE_M;
      neon_float_tiles[rows](p->a + m * p->lda, p->lda, p->b + n, p->ldb, p->c + m * p->ldc + n, p->ldc, p->K);
    }
  }
  for (size_t m = 0; n < p->N && m < p->M; m++)
    tail_row(p->a + m * p->lda, p->b + n, p->ldb, p->c + m * p->ldc + n, p->N - n, p->K);
}
