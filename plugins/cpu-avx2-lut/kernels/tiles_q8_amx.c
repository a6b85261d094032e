/* SPDX-License-Identifier: Apache-2.0
 *
 * AMX tiles over panels of signed codes, whose bytes are tiles as they lie: 32 rows times 16 outputs of one panel, or
 * 16 rows times the 32 outputs of two. Weights of a group stay in registers while rows pass by, two tiles of sums a
 * step. Sums leave through memory, become floats there and are added. x is in TNI_CLT_SLABS.
 *
 * Steps overlap: what a step loads comes before the stores of the step before it, since loads do not overtake stores
 * that wait for products; and the adds of that step come between products, which leave the vector units free.
 */
#include <immintrin.h>
#include <string.h>

#include "plugins/cpu-avx2-lut/kernels/panel.h"

enum {
  TILE_M = 16,
  TILE_BYTES = 64,
  PASS_ROWS = 96 /* rows that take a group's weights before the next group's come: their sums stay in L1 */
};

_Static_assert((int)TILE_BYTES == (int)TNI_CLT_SLAB_K, "a row of a tile is one of a slab");

typedef int32_t sums[TILE_M][TNI_CLT_ROWS];

/* A step whose sums wait in tiles 0 and 1; i: of which of them. */
typedef struct step {
  sums *to;
  const float *sw[2], *sx[2];
  float *acc[2];
  bool fresh; /* acc starts at 0 */
} step;

/* What kernels are compiled for: length of groups; two panels (`wide`) or one. */
#define SHAPE size_t group, bool wide
#define INLINE __attribute__((always_inline)) static inline

INLINE void add_row(__m512 sw, float sx, const int32_t *sum, bool fresh, float *acc) {
  const __m512 s = _mm512_mul_ps(sw, _mm512_set1_ps(sx)), y = fresh ? _mm512_setzero_ps() : _mm512_loadu_ps(acc);
  _mm512_storeu_ps(acc, _mm512_fmadd_ps(_mm512_cvtepi32_ps(_mm512_load_si512(sum)), s, y));
}

INLINE void add_eight(bool wide, bool fresh, const step *s, size_t from) {
  const __m512 sw0 = _mm512_load_ps(s->sw[0]), sw1 = wide ? _mm512_load_ps(s->sw[1]) : sw0;
#pragma GCC unroll 8
  for (size_t i = from; i < from + TILE_M / 2; i++) {
    add_row(sw0, s->sx[0][i], s->to[0][i], fresh, s->acc[0] + i * TNI_CLT_ROWS);
    add_row(sw1, s->sx[!wide][i], s->to[1][i], fresh, s->acc[1] + i * TNI_CLT_ROWS);
  }
}

INLINE void add_half(bool wide, const step *s, size_t from) {
  if (s->fresh)
    add_eight(wide, true, s, from);
  else
    add_eight(wide, false, s, from);
}

INLINE void store(const step *s) {
  _tile_stored(0, s->to[0], TILE_BYTES);
  _tile_stored(1, s->to[1], TILE_BYTES);
}

/* Where a group of 128 has two tiles of 64 k, two groups of 32 have the two tiles of a pair (panel.h). */
INLINE void load_weights(SHAPE, const tni_x86_panel *p, size_t g) {
  const size_t at = group == 128 ? g * 32 : g / 2 * TNI_X86_PAIR_LINES;
  const size_t second = group == 128 ? TILE_M : TNI_X86_PAIR_LINES / 3;
  _tile_loadd(4, p[0].w[at], TILE_BYTES);
  _tile_loadd(5, p[0].w[at + second], TILE_BYTES);
  if (wide) _tile_loadd(6, p[1].w[at], TILE_BYTES);
  if (wide) _tile_loadd(7, p[1].w[at + second], TILE_BYTES);
}

/* Rows of 64 k, slabs of them slab_stride apart. */
INLINE void load_rows(SHAPE, const int8_t *q, size_t slab_stride) {
  const int8_t *next = q + slab_stride, *below = q + TILE_M * TILE_BYTES;
  _tile_loadd(2, q, TILE_BYTES);
  if (group == 128) _tile_loadd(3, next, TILE_BYTES);
  if (wide) return;
  if (group == 32) _tile_loadd(3, below, TILE_BYTES);
  if (group == 128) _tile_loadd(6, below, TILE_BYTES);
  if (group == 128) _tile_loadd(7, next + TILE_M * TILE_BYTES, TILE_BYTES);
}

/* The first tile of sums. half: which group of a pair. */
INLINE void product_0(SHAPE, size_t half) {
  _tile_zero(0);
  if (group == 128 || half == 0) _tile_dpbssd(0, 2, 4);
  if (group == 128) _tile_dpbssd(0, 3, 5);
  if (group == 32 && half == 1) _tile_dpbssd(0, 2, 5);
  (void)wide;
}

INLINE void product_1(SHAPE, size_t half) {
  _tile_zero(1);
  if (group == 128 && wide) {
    _tile_dpbssd(1, 2, 6);
    _tile_dpbssd(1, 3, 7);
  } else if (group == 128) {
    _tile_dpbssd(1, 6, 4);
    _tile_dpbssd(1, 7, 5);
  } else if (wide) {
    if (half == 0) _tile_dpbssd(1, 2, 6);
    if (half == 1) _tile_dpbssd(1, 2, 7);
  } else {
    if (half == 0) _tile_dpbssd(1, 3, 4);
    if (half == 1) _tile_dpbssd(1, 3, 5);
  }
}

/* Where the first row stands: x and what belongs to it, from the panel's first group on. */
typedef struct amx_place {
  const int8_t *q;
  const float *sx;
  size_t slab_stride, group_stride;
  float *acc[2];
} amx_place;

/* Rows from r on, group g. */
INLINE step step_at(bool wide, const tni_x86_panel *p, const amx_place *at, size_t r, size_t g, bool first, sums *to) {
  const float *sx = at->sx + g * at->group_stride + r;
  float *acc = at->acc[0] + r * TNI_CLT_ROWS;
  return (step){.to = to,
                .sw = {p[0].scale[g], wide ? p[1].scale[g] : NULL},
                .sx = {sx, sx + TILE_M},
                .acc = {acc, wide ? at->acc[1] + r * TNI_CLT_ROWS : acc + TILE_M * TNI_CLT_ROWS},
                .fresh = first && g == 0};
}

/* Rows [begin, end), whole steps: pass i of n. */
INLINE void pass(SHAPE, const tni_x86_panel *p, const amx_place *at, size_t begin, size_t end, bool first, size_t i,
                 size_t n) {
  const size_t per_step = wide ? TILE_M : 2 * TILE_M, at_once = group == 128 ? 1 : 2;
  _Alignas(64) sums t[2][2];
  step last = {.to = NULL};
  for (size_t g = 0; g < p->groups; g += at_once) {
    for (size_t k = 0; k < (wide ? 2 : 1); k++)
      tni_x86_ask(&p[k], (i * p->groups + g) / at_once, n * p->groups / at_once);
    for (size_t r = begin; r < end; r += per_step) {
      load_rows(group, wide, at->q + g * group / TILE_BYTES * at->slab_stride + r * TILE_BYTES, at->slab_stride);
      if (r == begin) load_weights(group, wide, p, g);
#pragma GCC unroll 2
      for (size_t half = 0; half < at_once; half++) {
        const step s = step_at(wide, p, at, r, g + half, first, last.to == t[0] ? t[1] : t[0]);
        if (last.to) store(&last);
        product_0(group, wide, half);
        if (last.to) add_half(wide, &last, 0);
        product_1(group, wide, half);
        if (last.to) add_half(wide, &last, TILE_M / 2);
        last = s;
      }
    }
  }
  store(&last);
  add_half(wide, &last, 0);
  add_half(wide, &last, TILE_M / 2);
}

/* Rows that are no whole step: tiles have sixteen, so x is copied to where so many may be read. */
INLINE void fewer(SHAPE, const tni_x86_panel *p, const amx_place *at, size_t begin, size_t rows, bool first) {
  _Alignas(64) int8_t copy[TNI_X86_PANEL_K / TILE_BYTES][2 * TILE_M][TILE_BYTES];
  _Alignas(64) sums t[2];
  const size_t at_once = group == 128 ? 1 : 2, slabs = p->groups * group / TILE_BYTES;
  memset(copy, 0, slabs * sizeof copy[0]);
  for (size_t s = 0; s < slabs; s++)
    memcpy(copy[s], at->q + s * at->slab_stride + begin * TILE_BYTES, rows * TILE_BYTES);
  for (size_t g = 0; g < p->groups; g += at_once) {
    load_rows(group, wide, copy[g * group / TILE_BYTES][0], sizeof copy[0]);
    load_weights(group, wide, p, g);
#pragma GCC unroll 2
    for (size_t half = 0; half < at_once; half++) {
      const step s = step_at(wide, p, at, begin, g + half, first, t);
      product_0(group, wide, half);
      product_1(group, wide, half);
      store(&s);
      for (size_t k = 0; k < 2; k++) {
        const __m512 sw = _mm512_load_ps(s.sw[wide ? k : 0]);
        const size_t before = wide ? 0 : k * TILE_M, n = rows < before ? 0 : rows - before;
        for (size_t i = 0; i < n && i < TILE_M; i++)
          add_row(sw, s.sx[wide ? 0 : k][i], t[k][i], s.fresh, s.acc[k] + i * TNI_CLT_ROWS);
      }
    }
  }
}

INLINE void tiles(SHAPE, const tni_x86_panel *p, const tni_clt_act *a, size_t m0, size_t m1, bool first,
                  float *const *acc) {
  const amx_place at = {.q = a->q + p->first_group * group / TILE_BYTES * a->slab_stride + m0 * TILE_BYTES,
                        .sx = a->scale + p->first_group * a->group_stride + m0,
                        .slab_stride = a->slab_stride,
                        .group_stride = a->group_stride,
                        .acc = {acc[0], wide ? acc[1] : NULL}};
  const size_t per_step = wide ? TILE_M : 2 * TILE_M, rows = m1 - m0, whole = rows / per_step * per_step;
  const size_t passes = (whole + PASS_ROWS - 1) / PASS_ROWS;
  for (size_t i = 0; i < passes; i++) {
    const size_t end = (i + 1) * PASS_ROWS < whole ? (i + 1) * PASS_ROWS : whole;
    pass(group, wide, p, &at, i * PASS_ROWS, end, first, i, passes);
  }
  if (whole < rows) fewer(group, wide, p, &at, whole, rows - whole, first);
}

#define TILES(group)                                                                                          \
  void tni_x86_tiles_g##group##_32x16_amx(const tni_x86_panel *p, const tni_clt_act *a, size_t m0, size_t m1, \
                                          bool first, float *acc) {                                           \
    tiles(group, false, p, a, m0, m1, first, &acc);                                                           \
  }                                                                                                           \
  void tni_x86_tiles_g##group##_16x32_amx(const tni_x86_panel *p, const tni_clt_act *a, size_t m0, size_t m1, \
                                          bool first, float *const *acc) {                                    \
    tiles(group, true, p, a, m0, m1, first, acc);                                                             \
  }
TILES(32)
TILES(128)
