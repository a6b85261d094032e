/* SPDX-License-Identifier: Apache-2.0
 *
 * Up to six rows times 16 outputs over a panel: twelve ymm of s32 sums, which start from the words of x
 * (TNI_CLT_ROWS_SUM), so that the zero point costs nothing. f32 sums live in acc between groups; their order is that of
 * the GEMV. Register tiles are named variables made by macros: arrays of vectors get spilled by some compilers.
 */
#include <immintrin.h>
#include <string.h>

#include "plugins/cpu-avx2-lut/kernels/codes_avx2.h"
#include "plugins/cpu-avx2-lut/kernels/panel.h"

enum { TILE_M = 6 };

/* acc[16] += sums * (weight scale * activation scale), one row. */
__attribute__((always_inline)) static inline void add_floats(float *acc, __m256 v0, __m256 v1, const float *sw,
                                                             float sx) {
  const __m256 s = _mm256_set1_ps(sx), s0 = _mm256_mul_ps(_mm256_load_ps(sw), s),
               s1 = _mm256_mul_ps(_mm256_load_ps(sw + 8), s);
  _mm256_storeu_ps(acc, _mm256_fmadd_ps(v0, s0, _mm256_loadu_ps(acc)));
  _mm256_storeu_ps(acc + 8, _mm256_fmadd_ps(v1, s1, _mm256_loadu_ps(acc + 8)));
}

static inline __m256i zeros_at(const int32_t *zero) { return _mm256_load_si256((const __m256i *)(const void *)zero); }

/* Ways to begin and to end a group: A one zero point in every byte, Z zero points of their own (tni_x86_grid_panel),
 * times the sums of x, R with rests. */
#define WORD(i) _mm256_set1_epi32(zero[i * z_stride])
#define MINUS_SUM(i) _mm256_srai_epi32(WORD(i), 3) /* within s16 */
#define START_A(i) __m256i s##i##0 = _mm256_slli_epi32(WORD(i), SHIFT), s##i##1 = s##i##0;
#define START_Z(i)                                                         \
  __m256i s##i##0 = _mm256_madd_epi16(MINUS_SUM(i), zeros_at(z->zero[g])), \
          s##i##1 = _mm256_madd_epi16(MINUS_SUM(i), zeros_at(z->zero[g] + 8));
#define START_R START_Z
#define ADD(i, v0, v1) add_floats(acc + i * TNI_CLT_ROWS, v0, v1, p->scale[g], sx[i * s_stride]);
#define FINISH_A(i) ADD(i, _mm256_cvtepi32_ps(s##i##0), _mm256_cvtepi32_ps(s##i##1))
#define FINISH_Z FINISH_A
#define REST(i, h) \
  _mm256_fmadd_ps(_mm256_load_ps(z->rest[g] + 8 * h), _mm256_cvtepi32_ps(MINUS_SUM(i)), _mm256_cvtepi32_ps(s##i##h))
#define FINISH_R(i) ADD(i, REST(i, 0), REST(i, 1))
/* In assembly, so that the sums stay where they are. */
#define STEP(i)                                     \
  {                                                 \
    const __m256i b = four_codes(q + i * q_stride); \
    __asm__(                                        \
        "%{vex%} vpdpbusd %[b], %[w0], %[s0]\n\t"   \
        "%{vex%} vpdpbusd %[b], %[w1], %[s1]"       \
        : [s0] "+x"(s##i##0), [s1] "+x"(s##i##1)    \
        : [w0] "x"(w0), [w1] "x"(w1), [b] "x"(b));  \
  }

/* A function per number of rows, length of groups, way and (of A) zero point (8 << shift). */
#define TILE(M, GROUP, id, WAY, shift)                                                              \
  static void tile_##id##_##M(const tni_x86_panel *p, const tni_clt_act *a, size_t m, float *acc) { \
    enum { SHIFT = shift };                                                                         \
    const tni_x86_grid_panel *z = (const tni_x86_grid_panel *)(const void *)p; /* of Z and R */     \
    const size_t q_stride = a->q_stride, z_stride = a->z_stride, s_stride = a->s_stride;            \
    const int8_t *q = a->q + m * q_stride + p->first_group * GROUP;                                 \
    const int32_t *zero = a->zero + m * z_stride + p->first_group;                                  \
    const float *sx = a->scale + m * s_stride + p->first_group;                                     \
    const uint8_t *w = &p->w[0][0];                                                                 \
    (void)z;                                                                                        \
    for (size_t g = 0; g < p->groups; g++, sx++, zero++) {                                          \
      TNI_X86_REP##M(START_##WAY) for (size_t j = 0; j < GROUP / 4; j++, w += 64, q += 4) {         \
        const __m256i w0 = _mm256_load_si256((const __m256i *)(const void *)w);                     \
        const __m256i w1 = _mm256_load_si256((const __m256i *)(const void *)(w + 32));              \
        TNI_X86_REP##M(STEP)                                                                        \
      }                                                                                             \
      TNI_X86_REP##M(FINISH_##WAY)                                                                  \
    }                                                                                               \
  }

typedef void (*vnni_tile_fn)(const tni_x86_panel *p, const tni_clt_act *a, size_t m, float *acc);

#define TILES(GROUP, id, WAY, shift)                                                                           \
  TILE(1, GROUP, id, WAY, shift)                                                                               \
  TILE(2, GROUP, id, WAY, shift)                                                                               \
  TILE(3, GROUP, id, WAY, shift)                                                                               \
  TILE(4, GROUP, id, WAY, shift)                                                                               \
  TILE(5, GROUP, id, WAY, shift)                                                                               \
  TILE(6, GROUP, id, WAY, shift)                                                                               \
  void tni_x86_tiles_##id##_6x16_avxvnni(const tni_x86_panel *p, const tni_clt_act *a, size_t m0, size_t m1,   \
                                         bool first, float *acc) {                                             \
    static const vnni_tile_fn tiles[TILE_M + 1] = {NULL,          tile_##id##_1, tile_##id##_2, tile_##id##_3, \
                                                   tile_##id##_4, tile_##id##_5, tile_##id##_6};               \
    if (first) memset(acc, 0, (m1 - m0) * TNI_CLT_ROWS * sizeof *acc);                                         \
    for (size_t m = m0; m < m1; m += TILE_M) {                                                                 \
      tni_x86_ask(p, (m - m0) / TILE_M, (m1 - m0 + TILE_M - 1) / TILE_M);                                      \
      tiles[m1 - m < TILE_M ? m1 - m : TILE_M](p, a, m, acc + (m - m0) * TNI_CLT_ROWS);                        \
    }                                                                                                          \
  }

TILES(32, g32, A, 0)
TILES(128, g128, A, 0)
TILES(16, b8g16, A, 4)
TILES(32, b8g32, A, 4)
TILES(128, b8g128, A, 4)
#define GRIDS(GROUP)           \
  TILES(GROUP, a##GROUP, A, 1) \
  TILES(GROUP, z##GROUP, Z, 0) \
  TILES(GROUP, r##GROUP, R, 0)
GRIDS(16)
GRIDS(32)
GRIDS(64)
GRIDS(128)
