/* SPDX-License-Identifier: Apache-2.0
 *
 * A panel: 512 k of one row block, unpacked once and used by all rows of x. Which format it came from, tiles do not
 * know: codes are bytes whose zero point is 8 (a smaller one: raised to it), so the words of TNI_CLT_ROWS_S16 and
 * TNI_CLT_ROWS_SUM serve all of them; or 128, of eight bits; or signed bytes without one.
 */
#ifndef TENON_CPU_AVX2_PANEL_H
#define TENON_CPU_AVX2_PANEL_H

#include "plugins/cpu-avx2-lut/kernels/kernels.h"

enum { TNI_X86_PANEL_K = 512, TNI_X86_PANEL_QUADS = TNI_X86_PANEL_K / 4 };

typedef struct tni_x86_panel {
  _Alignas(64) uint8_t w[TNI_X86_PANEL_QUADS][64]; /* [k / 4][output][k % 4] */
  _Alignas(64) float scale[TNI_X86_PANEL_K / 32][TNI_CLT_ROWS];
  size_t groups, first_group;
  const uint8_t *next; /* packed bytes of the panel that follows, or whatever lies after the last */
  size_t next_bytes;
} tni_x86_panel;

/* Of a grid whose zero points no byte of a panel can hold: sums of codes start from zero * -t, t being the sum of the
 * activations, and of f32 zero points rest * -t in floats is added (formats/grid.h). */
typedef struct tni_x86_grid_panel {
  tni_x86_panel p; /* first: what tiles are given; or the first of two */
  /* Whole ones, less 128 of signed codes: s16 beside a half of zeros, for products of pairs. */
  _Alignas(64) int32_t zero[TNI_X86_PANEL_K / 32][TNI_CLT_ROWS];
  _Alignas(64) float rest[TNI_X86_PANEL_K / 32][TNI_CLT_ROWS]; /* zero point - whole */
  const uint8_t *codes;                                        /* as they are packed, of tiles that need no panel */
} tni_x86_grid_panel;

/* Tile i of n asks memory for its share of the packed bytes of the panel that comes next: all at once would wait.
 * Inlined by force: a function of nothing but prefetches counts as one without effect. */
__attribute__((always_inline)) static inline void tni_x86_ask(const tni_x86_panel *p, size_t i, size_t n) {
  const size_t lines = p->next_bytes / 64, begin = lines * i / n, end = lines * (i + 1) / n;
  for (size_t j = begin; j < end; j++) __builtin_prefetch(p->next + j * 64, 0, 2);
}

/* Rows [m0, m1) over one panel, groups of 32 or 128: acc[m1 - m0][16] += .. in the order of w4g.h; `first`: acc starts
 * at 0. */
typedef void (*tni_x86_tiles_fn)(const tni_x86_panel *p, const tni_clt_act *a, size_t m0, size_t m1, bool first,
                                 float *acc);
void tni_x86_tiles_g32_12x16_avx512vnni(const tni_x86_panel *p, const tni_clt_act *a, size_t m0, size_t m1, bool first,
                                        float *acc);
void tni_x86_tiles_g128_12x16_avx512vnni(const tni_x86_panel *p, const tni_clt_act *a, size_t m0, size_t m1, bool first,
                                         float *acc);
/* Codes of eight bits with a zero point of 128. */
void tni_x86_tiles_b8g16_12x16_avx512vnni(const tni_x86_panel *p, const tni_clt_act *a, size_t m0, size_t m1,
                                          bool first, float *acc);
void tni_x86_tiles_b8g32_12x16_avx512vnni(const tni_x86_panel *p, const tni_clt_act *a, size_t m0, size_t m1,
                                          bool first, float *acc);
void tni_x86_tiles_b8g128_12x16_avx512vnni(const tni_x86_panel *p, const tni_clt_act *a, size_t m0, size_t m1,
                                           bool first, float *acc);
/* The same over two panels of two row blocks: acc[i] has the rows of panel i. */
typedef void (*tni_x86_tiles2_fn)(const tni_x86_panel *p, const tni_clt_act *a, size_t m0, size_t m1, bool first,
                                  float *const *acc);
/* Over both panels where there is a tiles2, else over the first. */
static inline void tni_x86_tiles(tni_x86_tiles_fn tiles, tni_x86_tiles2_fn tiles2, const tni_x86_panel *p,
                                 const tni_clt_act *a, size_t m0, size_t m1, bool first, float *const *acc) {
  if (tiles2)
    tiles2(p, a, m0, m1, first, acc);
  else
    tiles(p, a, m0, m1, first, acc[0]);
}
void tni_x86_tiles_g32_6x32_avx512vnni(const tni_x86_panel *p, const tni_clt_act *a, size_t m0, size_t m1, bool first,
                                       float *const *acc);
void tni_x86_tiles_g128_12x32_avx512vnni(const tni_x86_panel *p, const tni_clt_act *a, size_t m0, size_t m1, bool first,
                                         float *const *acc);
void tni_x86_tiles_b8g16_6x32_avx512vnni(const tni_x86_panel *p, const tni_clt_act *a, size_t m0, size_t m1, bool first,
                                         float *const *acc);
void tni_x86_tiles_b8g32_6x32_avx512vnni(const tni_x86_panel *p, const tni_clt_act *a, size_t m0, size_t m1, bool first,
                                         float *const *acc);
void tni_x86_tiles_b8g128_12x32_avx512vnni(const tni_x86_panel *p, const tni_clt_act *a, size_t m0, size_t m1,
                                           bool first, float *const *acc);
void tni_x86_tiles_g32_6x16_avxvnni(const tni_x86_panel *p, const tni_clt_act *a, size_t m0, size_t m1, bool first,
                                    float *acc);
void tni_x86_tiles_g128_6x16_avxvnni(const tni_x86_panel *p, const tni_clt_act *a, size_t m0, size_t m1, bool first,
                                     float *acc);
void tni_x86_tiles_b8g16_6x16_avxvnni(const tni_x86_panel *p, const tni_clt_act *a, size_t m0, size_t m1, bool first,
                                      float *acc);
void tni_x86_tiles_b8g32_6x16_avxvnni(const tni_x86_panel *p, const tni_clt_act *a, size_t m0, size_t m1, bool first,
                                      float *acc);
void tni_x86_tiles_b8g128_6x16_avxvnni(const tni_x86_panel *p, const tni_clt_act *a, size_t m0, size_t m1, bool first,
                                       float *acc);
/* TNI_CLT_ROWS_S16. Codes up to 15. */
void tni_x86_tiles_g32_6x16_avx2(const tni_x86_panel *p, const tni_clt_act *a, size_t m0, size_t m1, bool first,
                                 float *acc);
void tni_x86_tiles_g128_6x16_avx2(const tni_x86_panel *p, const tni_clt_act *a, size_t m0, size_t m1, bool first,
                                  float *acc);
/* Signed codes. */
void tni_x86_tiles_s8g128_4x16_avx2(const tni_x86_panel *p, const tni_clt_act *a, size_t m0, size_t m1, bool first,
                                    float *acc);
/* Between tni_x86_amx_begin and _end. Signed codes. Of groups of 32, two are a pair of
 * three parts: the first group's codes, zeros, the second's. With or without the last part this is a tile of 64 k in
 * which the other group counts nothing. */
enum { TNI_X86_PAIR_LINES = 24, TNI_X86_PAIR_PANEL_K = 256 };
_Static_assert(TNI_X86_PAIR_PANEL_K / 64 * TNI_X86_PAIR_LINES <= TNI_X86_PANEL_QUADS, "pairs fit a panel");
void tni_x86_tiles_g32_32x16_amx(const tni_x86_panel *p, const tni_clt_act *a, size_t m0, size_t m1, bool first,
                                 float *acc);
void tni_x86_tiles_g128_32x16_amx(const tni_x86_panel *p, const tni_clt_act *a, size_t m0, size_t m1, bool first,
                                  float *acc);
void tni_x86_tiles_g32_16x32_amx(const tni_x86_panel *p, const tni_clt_act *a, size_t m0, size_t m1, bool first,
                                 float *const *acc);
void tni_x86_tiles_g128_16x32_amx(const tni_x86_panel *p, const tni_clt_act *a, size_t m0, size_t m1, bool first,
                                  float *const *acc);

/* Grids. a: codes with a zero point of 16. z, r: of a tni_x86_grid_panel, without and with rests. */
#define TNI_X86_DECLARE_TILES(id, tile_isa)                                                                            \
  void tni_x86_tiles_##id##_##tile_isa(const tni_x86_panel *p, const tni_clt_act *a, size_t m0, size_t m1, bool first, \
                                       float *acc);
#define TNI_X86_DECLARE_TILES2(id, tile_isa)                                                                           \
  void tni_x86_tiles_##id##_##tile_isa(const tni_x86_panel *p, const tni_clt_act *a, size_t m0, size_t m1, bool first, \
                                       float *const *acc);
#define TNI_X86_EACH_GROUP(F, id, tile_isa) \
  F(id##16, tile_isa) F(id##32, tile_isa) F(id##64, tile_isa) F(id##128, tile_isa)
TNI_X86_EACH_GROUP(TNI_X86_DECLARE_TILES, a, 12x16_avx512vnni)
TNI_X86_EACH_GROUP(TNI_X86_DECLARE_TILES, z, 12x16_avx512vnni)
TNI_X86_EACH_GROUP(TNI_X86_DECLARE_TILES, r, 12x16_avx512vnni)
TNI_X86_DECLARE_TILES2(a32, 6x32_avx512vnni)
TNI_X86_DECLARE_TILES2(a64, 12x32_avx512vnni)
TNI_X86_DECLARE_TILES2(a128, 12x32_avx512vnni)
TNI_X86_DECLARE_TILES2(z32, 6x32_avx512vnni)
TNI_X86_DECLARE_TILES2(z64, 12x32_avx512vnni)
TNI_X86_DECLARE_TILES2(z128, 12x32_avx512vnni)
TNI_X86_EACH_GROUP(TNI_X86_DECLARE_TILES, a, 6x16_avxvnni)
TNI_X86_EACH_GROUP(TNI_X86_DECLARE_TILES, z, 6x16_avxvnni)
TNI_X86_EACH_GROUP(TNI_X86_DECLARE_TILES, r, 6x16_avxvnni)
/* TNI_CLT_ROWS_SUM: u codes up to 15, s signed codes of eight bits. */
TNI_X86_EACH_GROUP(TNI_X86_DECLARE_TILES, zu, 6x16_avx2)
TNI_X86_EACH_GROUP(TNI_X86_DECLARE_TILES, ru, 6x16_avx2)
TNI_X86_EACH_GROUP(TNI_X86_DECLARE_TILES, zs, 4x16_avx2)
TNI_X86_EACH_GROUP(TNI_X86_DECLARE_TILES, rs, 4x16_avx2)
/* Of a tni_x86_grid_panel's packed codes of eight bits, for few rows. */
TNI_X86_DECLARE_TILES(zb128, 4x16_avx2)
#undef TNI_X86_EACH_GROUP
#undef TNI_X86_DECLARE_TILES2
#undef TNI_X86_DECLARE_TILES

#endif
