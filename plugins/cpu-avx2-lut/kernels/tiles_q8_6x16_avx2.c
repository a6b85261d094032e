/* SPDX-License-Identifier: Apache-2.0
 *
 * Up to six rows times 16 outputs over a panel: twelve ymm of s16 sums, which start from the zero-point words
 * (TNI_CLT_ROWS_S16), so that the zero point costs nothing. f32 sums live in acc between groups; their order is that of
 * the GEMV. Register tiles are named variables made by macros: arrays of vectors get spilled by some compilers.
 */
#include <immintrin.h>
#include <string.h>

#include "plugins/cpu-avx2-lut/kernels/codes_avx2.h"
#include "plugins/cpu-avx2-lut/kernels/panel.h"

enum { TILE_M = 6 };

/* acc[16] += sums * (weight scale * activation scale), one row. */
__attribute__((always_inline)) static inline void add_scaled(float *acc, __m256i t0, __m256i t1, const float *sw,
                                                             float sx) {
  __m256 s = _mm256_set1_ps(sx);
  __m256 s0 = _mm256_mul_ps(_mm256_load_ps(sw), s), s1 = _mm256_mul_ps(_mm256_load_ps(sw + 8), s);
  _mm256_storeu_ps(acc, _mm256_fmadd_ps(_mm256_cvtepi32_ps(t0), s0, _mm256_loadu_ps(acc)));
  _mm256_storeu_ps(acc + 8, _mm256_fmadd_ps(_mm256_cvtepi32_ps(t1), s1, _mm256_loadu_ps(acc + 8)));
}

#define START(i) __m256i s##i##0 = _mm256_set1_epi32(zero[i * z_stride]), s##i##1 = s##i##0;
#define WIDEN(i)                              \
  s##i##0 = _mm256_madd_epi16(s##i##0, ones); \
  s##i##1 = _mm256_madd_epi16(s##i##1, ones);
#define KEEP(i)         \
  kept[i][0] = s##i##0; \
  kept[i][1] = s##i##1;
#define JOIN(i)                                    \
  s##i##0 = _mm256_add_epi32(s##i##0, kept[i][0]); \
  s##i##1 = _mm256_add_epi32(s##i##1, kept[i][1]);
#define FINISH(i) add_scaled(acc + i * 16, s##i##0, s##i##1, sw, sx[i * s_stride]);

/* One sub-group: sums of `quads` quads, widened to s32. */
#define SUB_GROUP(REP, quads)                                                \
  REP(START)                                                                 \
  for (size_t j = 0; j < (quads); j++, w += 64, q += 4) {                    \
    __m256i w0 = _mm256_load_si256((const __m256i *)(const void *)w);        \
    __m256i w1 = _mm256_load_si256((const __m256i *)(const void *)(w + 32)); \
    REP(STEP_S16)                                                            \
  }                                                                          \
  zero++;                                                                    \
  REP(WIDEN)

#define TILE(M, REP)                                                                            \
  static void tile32_##M(const tni_x86_panel *p, const tni_clt_act *a, size_t m, float *acc) {  \
    const size_t q_stride = a->q_stride, z_stride = a->z_stride, s_stride = a->s_stride;        \
    const int8_t *q = a->q + m * q_stride + p->first_group * 32;                                \
    const int32_t *zero = a->zero + m * z_stride + p->first_group;                              \
    const float *sx = a->scale + m * s_stride + p->first_group;                                 \
    const uint8_t *w = &p->w[0][0];                                                             \
    const __m256i ones = _mm256_set1_epi16(1);                                                  \
    for (size_t g = 0; g < p->groups; g++, sx++) {                                              \
      const float *sw = p->scale[g];                                                            \
      SUB_GROUP(REP, 8)                                                                         \
      REP(FINISH)                                                                               \
    }                                                                                           \
  }                                                                                             \
  static void tile128_##M(const tni_x86_panel *p, const tni_clt_act *a, size_t m, float *acc) { \
    const size_t q_stride = a->q_stride, z_stride = a->z_stride, s_stride = a->s_stride;        \
    const int8_t *q = a->q + m * q_stride + p->first_group * 128;                               \
    const int32_t *zero = a->zero + m * z_stride + p->first_group * 2;                          \
    const float *sx = a->scale + m * s_stride + p->first_group;                                 \
    const uint8_t *w = &p->w[0][0];                                                             \
    const __m256i ones = _mm256_set1_epi16(1);                                                  \
    __m256i kept[M][2];                                                                         \
    for (size_t g = 0; g < p->groups; g++, sx++) {                                              \
      const float *sw = p->scale[g];                                                            \
      {SUB_GROUP(REP, 16) REP(KEEP)} {                                                          \
        SUB_GROUP(REP, 16)                                                                      \
        REP(JOIN)                                                                               \
        REP(FINISH)                                                                             \
      }                                                                                         \
    }                                                                                           \
  }

TILE(1, TNI_X86_REP1)
TILE(2, TNI_X86_REP2)
TILE(3, TNI_X86_REP3)
TILE(4, TNI_X86_REP4)
TILE(5, TNI_X86_REP5)
TILE(6, TNI_X86_REP6)

#undef TILE
#undef SUB_GROUP
#undef FINISH
#undef JOIN
#undef KEEP
#undef WIDEN
#undef START

typedef void (*q8_tile_fn)(const tni_x86_panel *p, const tni_clt_act *a, size_t m, float *acc);
static const q8_tile_fn tiles32[TILE_M + 1] = {NULL, tile32_1, tile32_2, tile32_3, tile32_4, tile32_5, tile32_6};
static const q8_tile_fn tiles128[TILE_M + 1] = {NULL, tile128_1, tile128_2, tile128_3, tile128_4, tile128_5, tile128_6};

static void all_rows(const q8_tile_fn *tiles, const tni_x86_panel *p, const tni_clt_act *a, size_t m0, size_t m1,
                     bool first, float *acc) {
  if (first) memset(acc, 0, (m1 - m0) * TNI_CLT_ROWS * sizeof *acc);
  for (size_t m = m0; m < m1; m += TILE_M) {
    tni_x86_ask(p, (m - m0) / TILE_M, (m1 - m0 + TILE_M - 1) / TILE_M);
    tiles[m1 - m < TILE_M ? m1 - m : TILE_M](p, a, m, acc + (m - m0) * TNI_CLT_ROWS);
  }
}

void tni_x86_tiles_g32_6x16_avx2(const tni_x86_panel *p, const tni_clt_act *a, size_t m0, size_t m1, bool first,
                                 float *acc) {
  all_rows(tiles32, p, a, m0, m1, first, acc);
}

void tni_x86_tiles_g128_6x16_avx2(const tni_x86_panel *p, const tni_clt_act *a, size_t m0, size_t m1, bool first,
                                  float *acc) {
  all_rows(tiles128, p, a, m0, m1, first, acc);
}
