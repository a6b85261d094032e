/* SPDX-License-Identifier: Apache-2.0
 *
 * Thirty-two rows times 16 outputs in AMX tiles over a panel of signed codes, whose bytes are tiles as they lie. Sums
 * leave through memory, become floats and are added, four groups at a time.
 *
 * While both threads of a core use tiles, a tile that is loaded waits for products that still read its register, and a
 * product for the one before on the same sums. So the loads of four products come first, each into a register of its
 * own, and then the products in turns over sums.
 */
#include <immintrin.h>
#include <string.h>

#include "plugins/cpu-avx2-lut/kernels/panel.h"

enum { TILE_M = 16, TILE_BYTES = 64, TILES = 8, AT_ONCE = 4 /* groups whose sums wait in memory */ };

typedef struct tile_config {
  uint8_t palette, start_row, reserved[14];
  uint16_t bytes[16]; /* of a row */
  uint8_t rows[16];
} tile_config;
_Static_assert(sizeof(tile_config) == 64, "as the instruction has it");

void tni_x86_amx_begin(void) {
  tile_config c = {.palette = 1};
  for (size_t i = 0; i < TILES; i++) c.rows[i] = TILE_M, c.bytes[i] = TILE_BYTES;
  __asm__ volatile("ldtilecfg %0" ::"m"(c)); /* gcc's intrinsic says that it reads eight bytes */
}

void tni_x86_amx_end(void) { _tile_release(); }

typedef int32_t sums[TILE_M][TNI_CLT_ROWS];

/* Where rows stand: x and what belongs to the first of them, from the panel's first group on. */
typedef struct place {
  const int8_t *q;
  const float *sx;
  size_t q_stride, s_stride;
} place;

/* One group of 128. `two`: of 32 rows, whose second half goes to `below`. */
__attribute__((always_inline)) static inline void product_128(bool two, const uint8_t *w, const int8_t *q,
                                                              size_t q_stride, sums *to, sums *below) {
  const int8_t *r = q + TILE_M * q_stride;
  const long stride = (long)q_stride;
  _tile_zero(0);
  if (two) _tile_zero(1);
  _tile_loadd(2, w, 64);
  _tile_loadd(3, q, stride);
  if (two) _tile_loadd(4, r, stride);
  _tile_loadd(5, w + TILE_M * 64, 64);
  _tile_loadd(6, q + TILE_BYTES, stride);
  if (two) _tile_loadd(7, r + TILE_BYTES, stride);
  _tile_dpbssd(0, 3, 2);
  if (two) _tile_dpbssd(1, 4, 2);
  _tile_dpbssd(0, 6, 5);
  if (two) _tile_dpbssd(1, 7, 5);
  _tile_stored(0, to, 64);
  if (two) _tile_stored(1, below, 64);
}

/* Two groups of 32, which are one tile of x; weights are as TNI_X86_PAIR_LINES has them. */
__attribute__((always_inline)) static inline void product_2x32(bool two, const uint8_t *w, const int8_t *q,
                                                               size_t q_stride, sums *to, sums *below) {
  const long stride = (long)q_stride;
  _tile_zero(0);
  _tile_zero(1);
  if (two) _tile_zero(2);
  if (two) _tile_zero(3);
  _tile_loadd(4, q, stride);
  if (two) _tile_loadd(5, q + TILE_M * q_stride, stride);
  _tile_loadd(6, w, 64);
  _tile_loadd(7, w + TNI_X86_PAIR_LINES / 3 * 64, 64);
  _tile_dpbssd(0, 4, 6);
  if (two) _tile_dpbssd(2, 5, 6);
  _tile_dpbssd(1, 4, 7);
  if (two) _tile_dpbssd(3, 5, 7);
  _tile_stored(0, to[0], 64);
  _tile_stored(1, to[1], 64);
  if (two) _tile_stored(2, below[0], 64);
  if (two) _tile_stored(3, below[1], 64);
}

/* n groups from g on; n is even. */
__attribute__((always_inline)) static inline void products(size_t group, size_t n, bool two, const tni_x86_panel *p,
                                                           const place *at, size_t g, sums *to, sums *below) {
#pragma GCC unroll 4
  for (size_t i = 0; group == 128 && i < n; i++)
    product_128(two, p->w[(g + i) * 32], at->q + (g + i) * 128, at->q_stride, to + i, below + i);
#pragma GCC unroll 2
  for (size_t i = 0; group == 32 && i < n; i += 2)
    product_2x32(two, p->w[(g + i) / 2 * TNI_X86_PAIR_LINES], at->q + (g + i) * 32, at->q_stride, to + i, below + i);
}

#define EACH(F) F(0) F(1) F(2) F(3) F(4) F(5) F(6) F(7) F(8) F(9) F(10) F(11) F(12) F(13) F(14) F(15)
#define LOAD(i) __m512 y##i = first ? _mm512_setzero_ps() : _mm512_loadu_ps(acc + (i)*TNI_CLT_ROWS);
#define ADD(i)                                                              \
  y##i = _mm512_fmadd_ps(_mm512_cvtepi32_ps(_mm512_load_si512(from[g][i])), \
                         _mm512_mul_ps(sw, _mm512_set1_ps(x[(i)*s_stride])), y##i);
#define STORE(i) _mm512_storeu_ps(acc + (i)*TNI_CLT_ROWS, y##i);

/* Sums of n groups to sixteen rows of floats. */
__attribute__((always_inline)) static inline void add(size_t n, const float (*scale)[TNI_CLT_ROWS], const float *sx,
                                                      size_t s_stride, sums *from, bool first, float *acc) {
  EACH(LOAD)
#pragma GCC unroll 4
  for (size_t g = 0; g < n; g++) {
    const __m512 sw = _mm512_load_ps(scale[g]);
    const float *x = sx + g;
    __asm__("" : "+r"(x)); /* else sixteen pointers stay in registers, and most of them move to and fro */
    EACH(ADD)
  }
  EACH(STORE)
}

__attribute__((always_inline)) static inline void some_groups(size_t group, size_t n, bool two, const tni_x86_panel *p,
                                                              const place *at, size_t g, bool first, float *acc) {
  _Alignas(64) sums t[2][AT_ONCE];
  const size_t s_stride = at->s_stride;
  const float *sx = at->sx + g;
  products(group, n, two, p, at, g, t[0], t[1]);
  add(n, p->scale + g, sx, s_stride, t[0], first, acc);
  if (two) add(n, p->scale + g, sx + TILE_M * s_stride, s_stride, t[1], first, acc + TILE_M * TNI_CLT_ROWS);
}

/* Sixteen rows or two times as many, over an even number of groups. */
__attribute__((always_inline)) static inline void full(size_t group, bool two, const tni_x86_panel *p, const place *at,
                                                       bool first, float *acc) {
  size_t g = 0;
  for (; g + AT_ONCE <= p->groups; g += AT_ONCE) some_groups(group, AT_ONCE, two, p, at, g, first && g == 0, acc);
  if (g < p->groups) some_groups(group, 2, two, p, at, g, first && g == 0, acc);
}

/* Fewer: tiles have sixteen rows, so x is copied to where sixteen may be read. */
__attribute__((always_inline)) static inline void fewer(size_t group, const tni_x86_panel *p, const place *x,
                                                        size_t rows, bool first, float *acc) {
  _Alignas(64) int8_t copy[TILE_M][TNI_X86_PANEL_K];
  _Alignas(64) sums t[2];
  const place at = {.q = copy[0], .q_stride = TNI_X86_PANEL_K};
  for (size_t i = 0; i < TILE_M; i++)
    if (i < rows)
      memcpy(copy[i], x->q + i * x->q_stride, p->groups * group);
    else
      memset(copy[i], 0, p->groups * group);
  for (size_t g = 0; g < p->groups; g += 2) {
    products(group, 2, false, p, &at, g, t, t);
    const __m512 sw0 = _mm512_load_ps(p->scale[g]), sw1 = _mm512_load_ps(p->scale[g + 1]);
    for (size_t i = 0; i < rows; i++) {
      const float *sx = x->sx + i * x->s_stride + g;
      __m512 y = first && g == 0 ? _mm512_setzero_ps() : _mm512_loadu_ps(acc + i * TNI_CLT_ROWS);
      y = _mm512_fmadd_ps(_mm512_cvtepi32_ps(_mm512_load_si512(t[0][i])), _mm512_mul_ps(sw0, _mm512_set1_ps(sx[0])), y);
      y = _mm512_fmadd_ps(_mm512_cvtepi32_ps(_mm512_load_si512(t[1][i])), _mm512_mul_ps(sw1, _mm512_set1_ps(sx[1])), y);
      _mm512_storeu_ps(acc + i * TNI_CLT_ROWS, y);
    }
  }
}

__attribute__((always_inline)) static inline void tiles(size_t group, const tni_x86_panel *p, const tni_clt_act *a,
                                                        size_t m0, size_t m1, bool first, float *acc) {
  for (size_t m = m0, n; m < m1; m += n, acc += n * TNI_CLT_ROWS) {
    const place at = {.q = a->q + m * a->q_stride + p->first_group * group,
                      .sx = a->scale + m * a->s_stride + p->first_group,
                      .q_stride = a->q_stride,
                      .s_stride = a->s_stride};
    n = m1 - m >= 2 * TILE_M ? 2 * TILE_M : m1 - m >= TILE_M ? TILE_M : m1 - m;
    tni_x86_ask(p, (m - m0) / (2 * TILE_M), (m1 - m0 + 2 * TILE_M - 1) / (2 * TILE_M));
    if (n == 2 * TILE_M)
      full(group, true, p, &at, first, acc);
    else if (n == TILE_M)
      full(group, false, p, &at, first, acc);
    else
      fewer(group, p, &at, n, first, acc);
  }
}

void tni_x86_tiles_g32_32x16_amx(const tni_x86_panel *p, const tni_clt_act *a, size_t m0, size_t m1, bool first,
                                 float *acc) {
  tiles(32, p, a, m0, m1, first, acc);
}

void tni_x86_tiles_g128_32x16_amx(const tni_x86_panel *p, const tni_clt_act *a, size_t m0, size_t m1, bool first,
                                  float *acc) {
  tiles(128, p, a, m0, m1, first, acc);
}
