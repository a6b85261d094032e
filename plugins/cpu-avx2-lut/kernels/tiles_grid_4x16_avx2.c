/* SPDX-License-Identifier: Apache-2.0
 *
 * Up to four rows times 16 outputs over a panel of a grid: codes up to 15 in s16 sums of 32 k (16 products of at most
 * 15 * 127), or signed codes of eight bits as magnitudes times activations with the weights' signs, widened at once.
 * Zero points are taken off in floats. Register tiles are named variables made by macros: arrays of vectors get spilled
 * by some compilers.
 */
#include <immintrin.h>
#include <string.h>

#include "plugins/cpu-avx2-lut/kernels/panel.h"

enum { TILE_M = 4 };

static inline __m256i four_codes(const int8_t *q) {
  int32_t v;
  memcpy(&v, q, sizeof v);
  return _mm256_set1_epi32(v);
}

__attribute__((always_inline)) static inline void add_less_zeros(float *acc, __m256i t0, __m256i t1,
                                                                 const tni_x86_grid_panel *z, size_t g, int32_t word,
                                                                 float sx) {
  const __m256 t = _mm256_set1_ps(-0.125f * (float)word), s = _mm256_set1_ps(sx);
  __m256 v[2] = {_mm256_cvtepi32_ps(t0), _mm256_cvtepi32_ps(t1)};
#pragma GCC unroll 2
  for (int i = 0; i < 2; i++) {
    if (z->n_zeros) v[i] = _mm256_fmadd_ps(_mm256_load_ps(z->zero[g] + i * 8), t, v[i]);
    if (z->n_zeros > 1) v[i] = _mm256_fmadd_ps(_mm256_load_ps(z->rest[g] + i * 8), t, v[i]);
    const __m256 by = _mm256_mul_ps(_mm256_load_ps(z->p.scale[g] + i * 8), s);
    _mm256_storeu_ps(acc + i * 8, _mm256_fmadd_ps(v[i], by, _mm256_loadu_ps(acc + i * 8)));
  }
}

#define CLEAR(i) __m256i s##i##0 = _mm256_setzero_si256(), s##i##1 = s##i##0;
#define START(i) __m256i t##i##0 = _mm256_set1_epi32(zero[i * z_stride]), t##i##1 = t##i##0;
#define START_AT_0(i) __m256i t##i##0 = _mm256_setzero_si256(), t##i##1 = t##i##0;
#define STEP_U(i)                                                     \
  {                                                                   \
    const __m256i b = four_codes(q + i * q_stride);                   \
    s##i##0 = _mm256_add_epi16(s##i##0, _mm256_maddubs_epi16(w0, b)); \
    s##i##1 = _mm256_add_epi16(s##i##1, _mm256_maddubs_epi16(w1, b)); \
  }
#define WIDEN(i)                                                         \
  t##i##0 = _mm256_add_epi32(t##i##0, _mm256_madd_epi16(s##i##0, ones)); \
  t##i##1 = _mm256_add_epi32(t##i##1, _mm256_madd_epi16(s##i##1, ones));
#define STEP_S(i)                                                              \
  {                                                                            \
    const __m256i b = four_codes(q + i * q_stride);                            \
    const __m256i s##i##0 = _mm256_maddubs_epi16(a0, _mm256_sign_epi8(b, w0)); \
    const __m256i s##i##1 = _mm256_maddubs_epi16(a1, _mm256_sign_epi8(b, w1)); \
    WIDEN(i)                                                                   \
  }
#define FINISH(i) add_less_zeros(acc + i * TNI_CLT_ROWS, t##i##0, t##i##1, z, g, zero[i * z_stride], sx[i * s_stride]);

/* One group: sums of codes up to 15, 32 k at a time; of signed ones. */
#define SUMS_U(REP, GROUP)                                                           \
  REP(START)                                                                         \
  for (size_t k = 0; k < GROUP; k += GROUP < 32 ? GROUP : 32) {                      \
    REP(CLEAR)                                                                       \
    for (size_t j = 0; j < (GROUP < 32 ? GROUP : 32) / 4; j++, w += 64, q += 4) {    \
      const __m256i w0 = _mm256_load_si256((const __m256i *)(const void *)w);        \
      const __m256i w1 = _mm256_load_si256((const __m256i *)(const void *)(w + 32)); \
      REP(STEP_U)                                                                    \
    }                                                                                \
    REP(WIDEN)                                                                       \
  }
#define SUMS_S(REP, GROUP)                                                         \
  REP(START_AT_0)                                                                  \
  for (size_t j = 0; j < GROUP / 4; j++, w += 64, q += 4) {                        \
    const __m256i w0 = _mm256_load_si256((const __m256i *)(const void *)w);        \
    const __m256i w1 = _mm256_load_si256((const __m256i *)(const void *)(w + 32)); \
    const __m256i a0 = _mm256_abs_epi8(w0), a1 = _mm256_abs_epi8(w1);              \
    REP(STEP_S)                                                                    \
  }

#define TILE(M, GROUP, id, SUMS)                                                                    \
  static void tile_##id##_##M(const tni_x86_panel *p, const tni_clt_act *a, size_t m, float *acc) { \
    const tni_x86_grid_panel *z = (const tni_x86_grid_panel *)(const void *)p;                      \
    const size_t q_stride = a->q_stride, z_stride = a->z_stride, s_stride = a->s_stride;            \
    const int8_t *q = a->q + m * q_stride + p->first_group * GROUP;                                 \
    const int32_t *zero = a->zero + m * z_stride + p->first_group;                                  \
    const float *sx = a->scale + m * s_stride + p->first_group;                                     \
    const uint8_t *w = &p->w[0][0];                                                                 \
    const __m256i ones = _mm256_set1_epi16(1);                                                      \
    for (size_t g = 0; g < p->groups; g++, sx++, zero++) {                                          \
      SUMS(TNI_X86_REP##M, GROUP)                                                                   \
      TNI_X86_REP##M(FINISH)                                                                        \
    }                                                                                               \
  }

typedef void (*grid_tile_fn)(const tni_x86_panel *p, const tni_clt_act *a, size_t m, float *acc);

#define TILES(GROUP, id, SUMS)                                                                                        \
  TILE(1, GROUP, id, SUMS)                                                                                            \
  TILE(2, GROUP, id, SUMS)                                                                                            \
  TILE(3, GROUP, id, SUMS)                                                                                            \
  TILE(4, GROUP, id, SUMS)                                                                                            \
  void tni_x86_tiles_##id##_4x16_avx2(const tni_x86_panel *p, const tni_clt_act *a, size_t m0, size_t m1, bool first, \
                                      float *acc) {                                                                   \
    static const grid_tile_fn tiles[TILE_M + 1] = {NULL, tile_##id##_1, tile_##id##_2, tile_##id##_3, tile_##id##_4}; \
    if (first) memset(acc, 0, (m1 - m0) * TNI_CLT_ROWS * sizeof *acc);                                                \
    for (size_t m = m0; m < m1; m += TILE_M) {                                                                        \
      tni_x86_ask(p, (m - m0) / TILE_M, (m1 - m0 + TILE_M - 1) / TILE_M);                                             \
      tiles[m1 - m < TILE_M ? m1 - m : TILE_M](p, a, m, acc + (m - m0) * TNI_CLT_ROWS);                               \
    }                                                                                                                 \
  }

TILES(16, zu16, SUMS_U)
TILES(32, zu32, SUMS_U)
TILES(64, zu64, SUMS_U)
TILES(128, zu128, SUMS_U)
TILES(16, zs16, SUMS_S)
TILES(32, zs32, SUMS_S)
TILES(64, zs64, SUMS_S)
TILES(128, zs128, SUMS_S)
