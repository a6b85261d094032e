/* SPDX-License-Identifier: Apache-2.0
 *
 * Twelve rows times 32 outputs over two panels: each code of x is loaded once for two products. With 16 outputs every
 * product loads one, and a core whose other thread is busy has no loads left for that.
 *
 * The f32 sums live in memory, and 24 stores of 64 bytes in a row take longer than what a core can keep waiting: each
 * row's are stored right after its last product, while the others' products go on.
 */
#include <immintrin.h>

#include "plugins/cpu-avx2-lut/kernels/panel.h"
#include "plugins/cpu-avx2-lut/kernels/tiles_x32.h"

#define EACH(F) F(0) F(1) F(2) F(3) F(4) F(5) F(6) F(7) F(8) F(9) F(10) F(11)
enum { TILE_M = 12 };

/* Quad J of row i, four codes of x, times 16 outputs of both panels. In assembly, so that sums stay where they are. */
#define ROW(i, base, where, then)                                                  \
  __asm__("vpbroadcastd %c[d]" where ", %[x]"                                      \
          : [x] "=v"(x)                                                            \
          : [b] "r"(base), [s] "r"(stride), [s3] "r"(stride3), [d] "i"(4 * J));    \
  __asm__("vpdpbusd %[x], %[w], %[a]" : [a] "+v"(s##i) : [w] "v"(w0), [x] "v"(x)); \
  __asm__("vpdpbusd %[x], %[w], %[a]" : [a] "+v"(t##i) : [w] "v"(w1), [x] "v"(x)); \
  then(i)
#define FOUR(i0, i1, i2, i3, base, then) \
  ROW(i0, base, "(%[b])", then)          \
  ROW(i1, base, "(%[b],%[s])", then) ROW(i2, base, "(%[b],%[s],2)", then) ROW(i3, base, "(%[b],%[s3])", then)
#define QUAD(j, then)                                                                     \
  {                                                                                       \
    enum { J = j };                                                                       \
    const __m512i w0 = _mm512_load_si512(u + (j)*64), w1 = _mm512_load_si512(v + (j)*64); \
    __m512i x;                                                                            \
    FOUR(0, 1, 2, 3, b0, then) FOUR(4, 5, 6, 7, b1, then) FOUR(8, 9, 10, 11, b2, then)    \
  }
#define GO_ON(i)
#define ADVANCE u += 512, v += 512, b0 += 32, b1 += 32, b2 += 32;
/* Eight quads, and after each row's last product `then`. */
#define QUADS(then)                                                                                                 \
  {                                                                                                                 \
    QUAD(0, GO_ON)                                                                                                  \
    QUAD(1, GO_ON) QUAD(2, GO_ON) QUAD(3, GO_ON) QUAD(4, GO_ON) QUAD(5, GO_ON) QUAD(6, GO_ON) QUAD(7, then) ADVANCE \
  }

#define FINISH(i)                                                              \
  {                                                                            \
    const __m512 by = _mm512_set1_ps(sx[(i)*s_stride]);                        \
    finish_tile(s##i, _mm512_mul_ps(sw0, by), fresh, acc0 + (i)*TNI_CLT_ROWS); \
    finish_tile(t##i, _mm512_mul_ps(sw1, by), fresh, acc1 + (i)*TNI_CLT_ROWS); \
  }

static inline void finish_tile(__m512i sum, __m512 scale, bool fresh, float *acc) {
  const __m512 y = fresh ? _mm512_setzero_ps() : _mm512_loadu_ps(acc);
  _mm512_storeu_ps(acc, _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum), scale, y));
}

/* A function per length of groups, way and (of A) zero point (8 << shift). */
#define TILE(GROUP, id, WAY, shift)                                                                              \
  static void tile_##id(const tni_x86_panel *p, const tni_clt_act *a, size_t m, bool first, float *acc0,         \
                        float *acc1) {                                                                           \
    enum { SHIFT = shift };                                                                                      \
    const size_t stride = a->q_stride, stride3 = 3 * stride, z_stride = a->z_stride, s_stride = a->s_stride;     \
    const int8_t *b0 = a->q + m * stride + p->first_group * GROUP, *b1 = b0 + 4 * stride, *b2 = b1 + 4 * stride; \
    const int32_t *zero = a->zero + m * z_stride + p->first_group;                                               \
    const float *sx = a->scale + m * s_stride + p->first_group;                                                  \
    OPEN_##WAY const uint8_t *u = &p->w[0][0], *v = &p1->w[0][0];                                                \
    for (size_t g = 0; g < p->groups; g++, sx++, zero++) {                                                       \
      const __m512 sw0 = _mm512_load_ps(p->scale[g]), sw1 = _mm512_load_ps(p1->scale[g]);                        \
      const bool fresh = first && g == 0;                                                                        \
      ZEROS_##WAY EACH(START_##WAY) for (size_t k = 32; k < GROUP; k += 32) QUADS(GO_ON) QUADS(FINISH)           \
    }                                                                                                            \
  }

#define TILES(GROUP, id, WAY, shift)                                                                             \
  TILE(GROUP, id, WAY, shift)                                                                                    \
  void tni_x86_tiles_##id##_12x32_avx512vnni(const tni_x86_panel *p, const tni_clt_act *a, size_t m0, size_t m1, \
                                             bool first, float *const *acc) {                                    \
    OPEN_##WAY const tni_x86_panel *const both[] = {p, p1};                                                      \
    size_t m = m0;                                                                                               \
    for (; m + TILE_M <= m1; m += TILE_M) {                                                                      \
      const size_t at = (m - m0) * TNI_CLT_ROWS, i = (m - m0) / TILE_M, n = (m1 - m0) / TILE_M;                  \
      tni_x86_ask(p, i, n);                                                                                      \
      tni_x86_ask(p1, i, n);                                                                                     \
      tile_##id(p, a, m, first, acc[0] + at, acc[1] + at);                                                       \
    }                                                                                                            \
    for (size_t i = 0; m < m1 && i < 2; i++)                                                                     \
      tni_x86_tiles_##id##_12x16_avx512vnni(both[i], a, m, m1, first, acc[i] + (m - m0) * TNI_CLT_ROWS);         \
  }

TILES(128, g128, A, 0)
TILES(64, a64, A, 1)
TILES(128, a128, A, 1)
TILES(128, b8g128, A, 4)
TILES(64, z64, Z, 0)
TILES(128, z128, Z, 0)
