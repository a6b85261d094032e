/* SPDX-License-Identifier: Apache-2.0
 *
 * Up to twelve rows times 16 outputs over a panel: a register of s32 sums and one of floats for each row. Sums start
 * from the words of x, so that the zero point costs nothing; of grids whose zero points no byte of a panel can hold
 * (tni_x86_grid_panel), from these times the sums of x.
 */
#include <immintrin.h>

#include "plugins/cpu-avx2-lut/kernels/panel.h"

#define REP1(F) F(0)
#define REP2(F) REP1(F) F(1)
#define REP4(F) REP2(F) F(2) F(3)
#define REP8(F) REP4(F) F(4) F(5) F(6) F(7)
#define REP12(F) REP8(F) F(8) F(9) F(10) F(11)

/* Quad j of row i: four codes of x to all lanes, times 16 outputs. In assembly, so that the broadcast is part of the
 * instruction and the sums stay where they are. */
#define AT_0 "(%[b])"
#define AT_1 "(%[b],%[s])"
#define AT_2 "(%[b],%[s],2)"
#define AT_3 "(%[b],%[s3])"
#define DOT(sum, base, where, j)                         \
  __asm__("vpdpbusd %c[d]" where "%{1to16%}, %[w], %[a]" \
          : [a] "+v"(sum)                                \
          : [w] "v"(w##j), [b] "r"(base), [s] "r"(stride), [s3] "r"(stride3), [d] "i"(4 * j));
#define DOT_0(j) DOT(s0, b0, AT_0, j)
#define DOT_1(j) DOT(s1, b0, AT_1, j)
#define DOT_2(j) DOT(s2, b0, AT_2, j)
#define DOT_3(j) DOT(s3, b0, AT_3, j)
#define DOT_4(j) DOT(s4, b1, AT_0, j)
#define DOT_5(j) DOT(s5, b1, AT_1, j)
#define DOT_6(j) DOT(s6, b1, AT_2, j)
#define DOT_7(j) DOT(s7, b1, AT_3, j)
#define DOT_8(j) DOT(s8, b2, AT_0, j)
#define DOT_9(j) DOT(s9, b2, AT_1, j)
#define DOT_10(j) DOT(s10, b2, AT_2, j)
#define DOT_11(j) DOT(s11, b2, AT_3, j)

#define ROWS1(j) DOT_0(j)
#define ROWS2(j) ROWS1(j) DOT_1(j)
#define ROWS4(j) ROWS2(j) DOT_2(j) DOT_3(j)
#define ROWS8(j) ROWS4(j) DOT_4(j) DOT_5(j) DOT_6(j) DOT_7(j)
#define ROWS12(j) ROWS8(j) DOT_8(j) DOT_9(j) DOT_10(j) DOT_11(j)
#define QUAD(ROWS, j)                                   \
  {                                                     \
    const __m512i w##j = _mm512_load_si512(w + (j)*64); \
    ROWS(j)                                             \
  }

#define LOAD(i) __m512 f##i = first ? _mm512_setzero_ps() : _mm512_loadu_ps(acc + (i)*TNI_CLT_ROWS);
/* Ways to begin and to end a group: A one zero point in every byte, Z zero points of their own, R with rests. */
#define OPEN_A
#define OPEN_Z const __m512i zeros = _mm512_load_si512(z->zero[g]);
#define OPEN_R OPEN_Z const __m512 rest = _mm512_load_ps(z->rest[g]);
#define WORD(i) _mm512_set1_epi32(zero[(i)*z_stride])
#define MINUS_SUM(i) _mm512_srai_epi32(WORD(i), 3) /* within s16 */
#define START_A(i) __m512i s##i = _mm512_slli_epi32(WORD(i), SHIFT);
#define START_Z(i) __m512i s##i = _mm512_madd_epi16(MINUS_SUM(i), zeros);
#define START_R START_Z
#define ADD(i, v) f##i = _mm512_fmadd_ps(v, _mm512_mul_ps(sw, _mm512_set1_ps(sx[(i)*s_stride])), f##i);
#define FINISH_A(i) ADD(i, _mm512_cvtepi32_ps(s##i))
#define FINISH_Z FINISH_A
#define FINISH_R(i) ADD(i, _mm512_fmadd_ps(rest, _mm512_cvtepi32_ps(MINUS_SUM(i)), _mm512_cvtepi32_ps(s##i)))
#define STORE(i) _mm512_storeu_ps(acc + (i)*TNI_CLT_ROWS, f##i);

/* So many quads at a time: all of 16 k or of 32. */
#define QUADS_16(ROWS) QUAD(ROWS, 0) QUAD(ROWS, 1) QUAD(ROWS, 2) QUAD(ROWS, 3)
#define QUADS_32(ROWS) QUADS_16(ROWS) QUAD(ROWS, 4) QUAD(ROWS, 5) QUAD(ROWS, 6) QUAD(ROWS, 7)

/* A function per number of rows, length of groups, way and (of A) zero point (8 << shift). */
#define TILE(M, GROUP, STEP, id, WAY, shift)                                                                     \
  static void tile_##id##_##M(const tni_x86_panel *p, const tni_clt_act *a, size_t m, bool first, float *acc) {  \
    enum { SHIFT = shift };                                                                                      \
    const tni_x86_grid_panel *z = (const tni_x86_grid_panel *)(const void *)p; /* of Z and R */                  \
    const size_t stride = a->q_stride, stride3 = 3 * stride, z_stride = a->z_stride, s_stride = a->s_stride;     \
    const int8_t *b0 = a->q + m * stride + p->first_group * GROUP, *b1 = b0 + 4 * stride, *b2 = b1 + 4 * stride; \
    const int32_t *zero = a->zero + m * z_stride + p->first_group;                                               \
    const float *sx = a->scale + m * s_stride + p->first_group;                                                  \
    const uint8_t *w = &p->w[0][0];                                                                              \
    (void)b1, (void)b2, (void)stride3, (void)z;                                                                  \
    REP##M(LOAD) for (size_t g = 0; g < p->groups; g++, sx++, zero++) {                                          \
      const __m512 sw = _mm512_load_ps(p->scale[g]);                                                             \
      OPEN_##WAY REP##M(START_##WAY) for (size_t k = 0; k < GROUP;                                               \
                                          k += STEP, w += 16 * STEP, b0 += STEP, b1 += STEP,                     \
                                          b2 += STEP){QUADS_##STEP(ROWS##M)} REP##M(FINISH_##WAY)                \
    }                                                                                                            \
    REP##M(STORE)                                                                                                \
  }

#define TILES(GROUP, STEP, id, WAY, shift)                                                                       \
  TILE(1, GROUP, STEP, id, WAY, shift)                                                                           \
  TILE(2, GROUP, STEP, id, WAY, shift)                                                                           \
  TILE(4, GROUP, STEP, id, WAY, shift)                                                                           \
  TILE(8, GROUP, STEP, id, WAY, shift)                                                                           \
  TILE(12, GROUP, STEP, id, WAY, shift)                                                                          \
  void tni_x86_tiles_##id##_12x16_avx512vnni(const tni_x86_panel *p, const tni_clt_act *a, size_t m0, size_t m1, \
                                             bool first, float *acc) {                                           \
    for (size_t m = m0, n; m < m1; m += n, acc += n * TNI_CLT_ROWS) {                                            \
      n = m1 - m >= 12 ? 12 : m1 - m >= 8 ? 8 : m1 - m >= 4 ? 4 : m1 - m >= 2 ? 2 : 1;                           \
      tni_x86_ask(p, (m - m0) / 12, (m1 - m0 + 11) / 12);                                                        \
      (n == 12  ? tile_##id##_12                                                                                 \
       : n == 8 ? tile_##id##_8                                                                                  \
       : n == 4 ? tile_##id##_4                                                                                  \
       : n == 2 ? tile_##id##_2                                                                                  \
                : tile_##id##_1)(p, a, m, first, acc);                                                           \
    }                                                                                                            \
  }

TILES(32, 32, g32, A, 0)
TILES(128, 32, g128, A, 0)
TILES(16, 16, b8g16, A, 4)
TILES(32, 32, b8g32, A, 4)
TILES(128, 32, b8g128, A, 4)
#define GRIDS(GROUP, STEP)           \
  TILES(GROUP, STEP, a##GROUP, A, 1) \
  TILES(GROUP, STEP, z##GROUP, Z, 0) \
  TILES(GROUP, STEP, r##GROUP, R, 0)
GRIDS(16, 16)
GRIDS(32, 32)
GRIDS(64, 32)
GRIDS(128, 32)
