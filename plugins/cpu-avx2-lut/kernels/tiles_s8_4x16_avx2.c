/* SPDX-License-Identifier: Apache-2.0
 *
 * Up to four rows times 16 outputs over a panel of signed codes of eight bits: magnitudes times activations with the
 * weights' signs, whose pairs fit 16 bits (2 * 128 * 127) and are widened at once. Register tiles are named variables
 * made by macros: arrays of vectors get spilled by some compilers.
 */
#include <immintrin.h>
#include <string.h>

#include "plugins/cpu-avx2-lut/kernels/codes_avx2.h"
#include "plugins/cpu-avx2-lut/kernels/panel.h"

enum { TILE_M = 4, GROUP = 128 };

/* acc[16] += sums * (weight scale * activation scale), one row. */
__attribute__((always_inline)) static inline void add_scaled(float *acc, __m256i t0, __m256i t1, const float *sw,
                                                             float sx) {
  const __m256 s = _mm256_set1_ps(sx), s0 = _mm256_mul_ps(_mm256_load_ps(sw), s),
               s1 = _mm256_mul_ps(_mm256_load_ps(sw + 8), s);
  _mm256_storeu_ps(acc, _mm256_fmadd_ps(_mm256_cvtepi32_ps(t0), s0, _mm256_loadu_ps(acc)));
  _mm256_storeu_ps(acc + 8, _mm256_fmadd_ps(_mm256_cvtepi32_ps(t1), s1, _mm256_loadu_ps(acc + 8)));
}

#define START(i) __m256i s##i##0 = _mm256_setzero_si256(), s##i##1 = s##i##0;
#define STEP(i)                                                           \
  {                                                                       \
    const __m256i b = four_codes(q + i * q_stride);                       \
    const __m256i t0 = _mm256_maddubs_epi16(a0, _mm256_sign_epi8(b, w0)); \
    const __m256i t1 = _mm256_maddubs_epi16(a1, _mm256_sign_epi8(b, w1)); \
    s##i##0 = _mm256_add_epi32(s##i##0, _mm256_madd_epi16(t0, ones));     \
    s##i##1 = _mm256_add_epi32(s##i##1, _mm256_madd_epi16(t1, ones));     \
  }
#define FINISH(i) add_scaled(acc + i * TNI_CLT_ROWS, s##i##0, s##i##1, p->scale[g], sx[i * s_stride]);

#define TILE(M)                                                                              \
  static void tile_##M(const tni_x86_panel *p, const tni_clt_act *a, size_t m, float *acc) { \
    const size_t q_stride = a->q_stride, s_stride = a->s_stride;                             \
    const int8_t *q = a->q + m * q_stride + p->first_group * GROUP;                          \
    const float *sx = a->scale + m * s_stride + p->first_group;                              \
    const uint8_t *w = &p->w[0][0];                                                          \
    const __m256i ones = _mm256_set1_epi16(1);                                               \
    for (size_t g = 0; g < p->groups; g++, sx++) {                                           \
      TNI_X86_REP##M(START) for (size_t j = 0; j < GROUP / 4; j++, w += 64, q += 4) {        \
        const __m256i w0 = _mm256_load_si256((const __m256i *)(const void *)w);              \
        const __m256i w1 = _mm256_load_si256((const __m256i *)(const void *)(w + 32));       \
        const __m256i a0 = _mm256_abs_epi8(w0), a1 = _mm256_abs_epi8(w1);                    \
        TNI_X86_REP##M(STEP)                                                                 \
      }                                                                                      \
      TNI_X86_REP##M(FINISH)                                                                 \
    }                                                                                        \
  }
TILE(1)
TILE(2)
TILE(3)
TILE(4)

#undef TILE
#undef FINISH
#undef STEP
#undef START

typedef void (*s8_tile_fn)(const tni_x86_panel *p, const tni_clt_act *a, size_t m, float *acc);
static const s8_tile_fn s8_tiles[TILE_M + 1] = {NULL, tile_1, tile_2, tile_3, tile_4};

void tni_x86_tiles_s8g128_4x16_avx2(const tni_x86_panel *p, const tni_clt_act *a, size_t m0, size_t m1, bool first,
                                    float *acc) {
  if (first) memset(acc, 0, (m1 - m0) * TNI_CLT_ROWS * sizeof *acc);
  for (size_t m = m0; m < m1; m += TILE_M) {
    tni_x86_ask(p, (m - m0) / TILE_M, (m1 - m0 + TILE_M - 1) / TILE_M);
    s8_tiles[m1 - m < TILE_M ? m1 - m : TILE_M](p, a, m, acc + (m - m0) * TNI_CLT_ROWS);
  }
}
