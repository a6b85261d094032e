/* SPDX-License-Identifier: Apache-2.0
 *
 * Sixteen rows times 16 outputs in AMX tiles over a panel of signed codes: a group is one product of 32 k or two of 64,
 * whose sums leave through memory, become floats and are added. Tiles of a panel are its bytes as they lie.
 */
#include <immintrin.h>
#include <string.h>

#include "plugins/cpu-avx2-lut/kernels/panel.h"

enum { TILE_M = 16 };

typedef struct tile_config {
  uint8_t palette, start_row, reserved[14];
  uint16_t bytes[16]; /* of a row */
  uint8_t rows[16];
} tile_config;
_Static_assert(sizeof(tile_config) == 64, "as the instruction has it");

/* Tiles 0-3: sums, 4 and 5: x, 6 and 7: weights, of up to 64 k. */
void tni_x86_amx_begin(size_t group) {
  const size_t k = group < 64 ? group : 64;
  tile_config c = {.palette = 1};
  for (size_t i = 0; i < 4; i++) c.rows[i] = TILE_M, c.bytes[i] = TNI_CLT_ROWS * 4;
  for (size_t i = 4; i < 6; i++) c.rows[i] = TILE_M, c.bytes[i] = (uint16_t)k;
  for (size_t i = 6; i < 8; i++) c.rows[i] = (uint8_t)(k / 4), c.bytes[i] = TNI_CLT_ROWS * 4;
  __asm__ volatile("ldtilecfg %0" ::"m"(c)); /* gcc's intrinsic says that it reads eight bytes */
}

void tni_x86_amx_end(void) { _tile_release(); }

typedef int32_t sums[TILE_M][TNI_CLT_ROWS];

/* Where one block of rows stands: x and what belongs to its first row, from the panel's first group on. */
typedef struct place {
  const int8_t *q;
  const float *sx;
  size_t q_stride, s_stride;
} place;

/* The product of group g into tile c, and from there to memory. Tiles take turns: one that is written again waits for
 * its last store. */
#define PRODUCT(c, x, v, g, to)                   \
  {                                               \
    const uint8_t *w = p->w[(g)*group / 4];       \
    const int8_t *q = at->q + (g)*group;          \
    _tile_zero(c);                                \
    _tile_loadd(x, q, (long)at->q_stride);        \
    _tile_loadd(v, w, 64);                        \
    _tile_dpbssd(c, x, v);                        \
    if (group == 128) {                           \
      _tile_loadd(x, q + 64, (long)at->q_stride); \
      _tile_loadd(v, w + 1024, 64);               \
      _tile_dpbssd(c, x, v);                      \
    }                                             \
    _tile_stored(c, to, 64);                      \
  }

#define EACH(F) F(0) F(1) F(2) F(3) F(4) F(5) F(6) F(7) F(8) F(9) F(10) F(11) F(12) F(13) F(14) F(15)
#define LOAD(i) __m512 y##i = first ? _mm512_setzero_ps() : _mm512_loadu_ps(acc + (i)*TNI_CLT_ROWS);
#define ADD(i)                                                           \
  y##i = _mm512_fmadd_ps(_mm512_cvtepi32_ps(_mm512_load_si512(from[i])), \
                         _mm512_mul_ps(sw, _mm512_set1_ps(sx[(i)*s_stride])), y##i);
#define STORE(i) _mm512_storeu_ps(acc + (i)*TNI_CLT_ROWS, y##i);

#define ADD_GROUP(g, t)                                                     \
  {                                                                         \
    const int32_t(*from)[TNI_CLT_ROWS] = (const int32_t(*)[TNI_CLT_ROWS])t; \
    const __m512 sw = _mm512_load_ps(p->scale[g]);                          \
    const float *sx = at->sx + (g);                                         \
    EACH(ADD)                                                               \
  }

/* Sixteen rows, whose floats stay in registers, over an even number of groups. Sums are added two groups after they
 * were stored: a load that follows a tile's store at once waits for it. */
__attribute__((always_inline)) static inline void sixteen(size_t group, const tni_x86_panel *p, const place *at,
                                                          bool first, float *acc) {
  _Alignas(64) sums t0, t1, t2, t3;
  const size_t s_stride = at->s_stride, n = p->groups;
  EACH(LOAD)
  for (size_t g = 0; g < n + 2; g += 4) {
    if (g < n) {
      PRODUCT(0, 4, 6, g, t0)
      PRODUCT(1, 5, 7, g + 1, t1)
    }
    if (g) {
      ADD_GROUP(g - 2, t2)
      ADD_GROUP(g - 1, t3)
    }
    if (g + 2 < n) {
      PRODUCT(2, 4, 6, g + 2, t2)
      PRODUCT(3, 5, 7, g + 3, t3)
    }
    if (g < n) {
      ADD_GROUP(g, t0)
      ADD_GROUP(g + 1, t1)
    }
  }
  EACH(STORE)
}

/* Fewer: tiles have sixteen rows, so x is copied to where sixteen may be read. */
__attribute__((always_inline)) static inline void fewer(size_t group, const tni_x86_panel *p, const place *x,
                                                        size_t rows, bool first, float *acc) {
  _Alignas(64) int8_t copy[TILE_M][TNI_X86_PANEL_K];
  _Alignas(64) sums t;
  const place of_copy = {.q = copy[0], .q_stride = TNI_X86_PANEL_K}, *at = &of_copy;
  for (size_t i = 0; i < TILE_M; i++)
    if (i < rows)
      memcpy(copy[i], x->q + i * x->q_stride, p->groups * group);
    else
      memset(copy[i], 0, p->groups * group);
  for (size_t g = 0; g < p->groups; g++) {
    PRODUCT(0, 4, 6, g, t)
    const __m512 sw = _mm512_load_ps(p->scale[g]);
    for (size_t i = 0; i < rows; i++) {
      __m512 y = first && g == 0 ? _mm512_setzero_ps() : _mm512_loadu_ps(acc + i * TNI_CLT_ROWS);
      __m512 s = _mm512_mul_ps(sw, _mm512_set1_ps(x->sx[i * x->s_stride + g]));
      _mm512_storeu_ps(acc + i * TNI_CLT_ROWS, _mm512_fmadd_ps(_mm512_cvtepi32_ps(_mm512_load_si512(t[i])), s, y));
    }
  }
}

__attribute__((always_inline)) static inline void tiles(size_t group, const tni_x86_panel *p, const tni_clt_act *a,
                                                        size_t m0, size_t m1, bool first, float *acc) {
  for (size_t m = m0; m < m1; m += TILE_M, acc += TILE_M * TNI_CLT_ROWS) {
    const place at = {.q = a->q + m * a->q_stride + p->first_group * group,
                      .sx = a->scale + m * a->s_stride + p->first_group,
                      .q_stride = a->q_stride,
                      .s_stride = a->s_stride};
    tni_x86_ask(p, (m - m0) / TILE_M, (m1 - m0 + TILE_M - 1) / TILE_M);
    if (m1 - m >= TILE_M)
      sixteen(group, p, &at, first, acc);
    else
      fewer(group, p, &at, m1 - m, first, acc);
  }
}

void tni_x86_tiles_g32_16x16_amx(const tni_x86_panel *p, const tni_clt_act *a, size_t m0, size_t m1, bool first,
                                 float *acc) {
  tiles(32, p, a, m0, m1, first, acc);
}

void tni_x86_tiles_g128_16x16_amx(const tni_x86_panel *p, const tni_clt_act *a, size_t m0, size_t m1, bool first,
                                  float *acc) {
  tiles(128, p, a, m0, m1, first, acc);
}
