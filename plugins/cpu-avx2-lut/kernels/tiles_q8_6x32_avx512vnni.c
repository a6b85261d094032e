/* SPDX-License-Identifier: Apache-2.0
 *
 * Groups of 32 or 16: six rows times 32 outputs over two panels. The floats stay in registers beside the sums; with
 * twelve rows they would go through memory after every eight quads.
 */
#include <immintrin.h>

#include "plugins/cpu-avx2-lut/kernels/panel.h"
#include "plugins/cpu-avx2-lut/kernels/tiles_x32.h"

#define EACH(F) F(0) F(1) F(2) F(3) F(4) F(5)
enum { TILE_M = 6 };

/* Quad J of row i, four codes of x, times 16 outputs of both panels. In assembly, so that sums stay where they are. */
#define ROW(i, base, where)                                                                                    \
  __asm__("vpbroadcastd %c[d]" where ", %[x]" : [x] "=v"(x) : [b] "r"(base), [s] "r"(stride), [d] "i"(4 * J)); \
  __asm__("vpdpbusd %[x], %[w], %[a]" : [a] "+v"(s##i) : [w] "v"(w0), [x] "v"(x));                             \
  __asm__("vpdpbusd %[x], %[w], %[a]" : [a] "+v"(t##i) : [w] "v"(w1), [x] "v"(x));
#define THREE(i0, i1, i2, base) ROW(i0, base, "(%[b])") ROW(i1, base, "(%[b],%[s])") ROW(i2, base, "(%[b],%[s],2)")
#define QUAD(j)                                                                           \
  {                                                                                       \
    enum { J = j };                                                                       \
    const __m512i w0 = _mm512_load_si512(u + (j)*64), w1 = _mm512_load_si512(v + (j)*64); \
    __m512i x;                                                                            \
    THREE(0, 1, 2, b0) THREE(3, 4, 5, b1)                                                 \
  }

#define LOAD(i)                                                                           \
  __m512 y##i = first ? _mm512_setzero_ps() : _mm512_loadu_ps(acc[0] + (i)*TNI_CLT_ROWS), \
         z##i = first ? _mm512_setzero_ps() : _mm512_loadu_ps(acc[1] + (i)*TNI_CLT_ROWS);
#define FINISH(i)                                                                  \
  {                                                                                \
    const __m512 x = _mm512_set1_ps(sx[(i)*s_stride]);                             \
    y##i = _mm512_fmadd_ps(_mm512_cvtepi32_ps(s##i), _mm512_mul_ps(sw0, x), y##i); \
    z##i = _mm512_fmadd_ps(_mm512_cvtepi32_ps(t##i), _mm512_mul_ps(sw1, x), z##i); \
  }
#define STORE(i)                                     \
  _mm512_storeu_ps(acc[0] + (i)*TNI_CLT_ROWS, y##i); \
  _mm512_storeu_ps(acc[1] + (i)*TNI_CLT_ROWS, z##i);

#define QUADS_16 QUAD(0) QUAD(1) QUAD(2) QUAD(3)
#define QUADS_32 QUADS_16 QUAD(4) QUAD(5) QUAD(6) QUAD(7)

/* A function per length of groups, way and (of A) zero point (8 << shift). */
#define TILES(GROUP, id, WAY, shift)                                                                                   \
  static void tile_##id(const tni_x86_panel *p, const tni_clt_act *a, size_t m, bool first, float *const *acc) {       \
    enum { SHIFT = shift };                                                                                            \
    const size_t stride = a->q_stride, z_stride = a->z_stride, s_stride = a->s_stride;                                 \
    const int8_t *b0 = a->q + m * stride + p->first_group * GROUP, *b1 = b0 + 3 * stride;                              \
    const int32_t *zero = a->zero + m * z_stride + p->first_group;                                                     \
    const float *sx = a->scale + m * s_stride + p->first_group;                                                        \
    OPEN_##WAY const uint8_t *u = &p->w[0][0], *v = &p1->w[0][0];                                                      \
    EACH(LOAD)                                                                                                         \
    for (size_t g = 0; g < p->groups; g++, sx++, zero++, u += 16 * GROUP, v += 16 * GROUP, b0 += GROUP, b1 += GROUP) { \
      const __m512 sw0 = _mm512_load_ps(p->scale[g]), sw1 = _mm512_load_ps(p1->scale[g]);                              \
      ZEROS_##WAY EACH(START_##WAY) QUADS_##GROUP EACH(FINISH)                                                         \
    }                                                                                                                  \
    EACH(STORE)                                                                                                        \
  }                                                                                                                    \
  void tni_x86_tiles_##id##_6x32_avx512vnni(const tni_x86_panel *p, const tni_clt_act *a, size_t m0, size_t m1,        \
                                            bool first, float *const *acc) {                                           \
    OPEN_##WAY const tni_x86_panel *const both[] = {p, p1};                                                            \
    const size_t tiles = (m1 - m0) / TILE_M;                                                                           \
    size_t m = m0;                                                                                                     \
    for (size_t i = 0; i < tiles; i++, m += TILE_M) {                                                                  \
      const size_t at = i * TILE_M * TNI_CLT_ROWS;                                                                     \
      tni_x86_ask(p, i, tiles);                                                                                        \
      tni_x86_ask(p1, i, tiles);                                                                                       \
      tile_##id(p, a, m, first, (float *const[]){acc[0] + at, acc[1] + at});                                           \
    }                                                                                                                  \
    for (size_t i = 0; m < m1 && i < 2; i++)                                                                           \
      tni_x86_tiles_##id##_12x16_avx512vnni(both[i], a, m, m1, first, acc[i] + (m - m0) * TNI_CLT_ROWS);               \
  }

TILES(32, g32, A, 0)
TILES(16, b8g16, A, 4)
TILES(32, b8g32, A, 4)
TILES(32, a32, A, 1)
TILES(32, z32, Z, 0)
