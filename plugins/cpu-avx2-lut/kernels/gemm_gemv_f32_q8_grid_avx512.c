/* SPDX-License-Identifier: Apache-2.0
 *
 * Grids with AVX-512 VNNI: one row, a register being 16 outputs, and what fills panels for tiles.
 *
 * Codes of two and four bits lose their zero points while a panel is unpacked and get one of 16; what a byte cannot
 * hold (f32 zero points, those of eight bits) the tiles take off.
 */
#include <immintrin.h>
#include <stdbool.h>
#include <string.h>

#include "plugins/common/formats/formats.h"
#include "plugins/cpu-avx2-lut/kernels/panel.h"

/* --- one row ---------------------------------------------------------------------------------------------------- */

typedef __m512i ints;
typedef __m512 floats;
enum { LANES = 16 };

static inline ints load_codes(const uint8_t *p) { return _mm512_load_si512(p); }
static inline ints keep_bits(ints v, int mask) { return _mm512_and_si512(v, _mm512_set1_epi8((char)mask)); }
static inline ints add_dot(ints sum, ints codes, const int8_t *q) {
  int32_t v;
  memcpy(&v, q, sizeof v);
  return _mm512_dpbusd_epi32(sum, codes, _mm512_set1_epi32(v));
}
static inline floats floats_at(const uint8_t *p) { return _mm512_loadu_ps(p); }
static inline floats halves_at(const uint8_t *p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)p));
}
static inline floats bytes_at(const uint8_t *p) {
  return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p)));
}
static inline floats rounded(floats v) { return _mm512_roundscale_ps(v, _MM_FROUND_TO_NEAREST_INT); }

#define OP(name) _mm512_##name
#define ZERO() _mm512_setzero_si512()
#define ISA avx512vnni
#include "plugins/cpu-avx2-lut/kernels/grid_sums_template.h"

#include "plugins/cpu-avx2-lut/kernels/gemv_grid_template.h"

/* --- panels ------------------------------------------------------------------------------------------------------ */

enum { ZERO_POINT = 16, MAX_GROUPS = TNI_X86_PANEL_K / 32 };

/* Bytes of zeros, one a row, as four of each. */
static inline __m512i four_of_each(const uint8_t *zeros) {
  const __m512i v = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)zeros));
  return _mm512_mullo_epi32(v, _mm512_set1_epi32(0x01010101));
}

/* A unit of 64 bytes -> quads, less `minus` in every byte. */
__attribute__((always_inline)) static inline void unpack_unit(uint32_t bits, const uint8_t *unit, __m512i minus,
                                                              uint8_t *out) {
  const __m512i v = _mm512_load_si512(unit), mask = _mm512_set1_epi8((char)((1 << bits) - 1));
#pragma GCC unroll 4
  for (uint32_t i = 0; i < 4; i++) { /* gcc refuses to unroll a loop that has one turn, as of 8 bits */
    if (i >= 8 / bits) break;
    const __m512i c = bits == 8 ? v : _mm512_and_si512(_mm512_srli_epi16(v, i * bits), mask);
    _mm512_store_si512(out + i * 64, _mm512_sub_epi8(c, minus));
  }
}

static inline __m512 scales_at(const tni_grid_layout *l, const uint8_t *sb, size_t g) {
  if (l->scale_bits == 32) return _mm512_loadu_ps(sb + g * 64);
  return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)(sb + g * 32)));
}

/* What tiles take off, and of f32 zero points what is left of them. */
static inline void put_zeros(const tni_grid_layout *l, const uint8_t *sb, size_t g, tni_x86_grid_panel *z, size_t to) {
  const uint8_t *zeros = sb + l->zeros_at;
  __m512i whole = _mm512_set1_epi32(1 << (l->bits - 1));
  if (l->zero_bits == 8) whole = _mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i *)(const void *)(zeros + g * 16)));
  if (l->zero_bits == 32) {
    const __m512 v = _mm512_loadu_ps(zeros + g * 64);
    whole = _mm512_cvtps_epi32(v);
    _mm512_store_ps(z->rest[to], _mm512_sub_ps(v, _mm512_cvtepi32_ps(whole)));
  }
  _mm512_store_si512(z->zero[to], _mm512_and_si512(whole, _mm512_set1_epi32(0xffff)));
}

/* n superblocks. taken_off: by the tiles, which get z, and p is its own. */
__attribute__((always_inline)) static inline void unpack_grid_avx512(uint32_t bits, uint32_t group, bool taken_off,
                                                                     const tni_grid_layout *l, const uint8_t *sb,
                                                                     size_t n, tni_x86_panel *p,
                                                                     tni_x86_grid_panel *z) {
  const uint32_t half = 1u << (bits - 1), code_bytes = group * TNI_CLT_ROWS * bits / 8;
  const __m512i point = _mm512_set1_epi8(ZERO_POINT);
  uint8_t *out = &p->w[0][0];
  size_t to = 0;
  for (size_t s = 0; s < n; s++, sb += l->bytes) {
    const uint8_t *codes = sb + l->codes_at;
    for (size_t g = 0; g < l->groups; g++, to++) {
      __m512i minus = _mm512_sub_epi8(_mm512_set1_epi8((char)half), point);
      if (l->zero_bits == 8) minus = _mm512_sub_epi8(four_of_each(sb + l->zeros_at + g * 16), point);
      if (taken_off) minus = _mm512_setzero_si512();
      _mm512_store_ps(p->scale[to], scales_at(l, sb, g));
      if (taken_off) put_zeros(l, sb, g, z, to);
      for (uint32_t i = 0; i < code_bytes; i += 64, codes += 64, out += 64 * (8 / bits))
        unpack_unit(bits, codes, minus, out);
    }
  }
  p->groups = to;
}

/* Tiles of a length of groups: [zero points in the bytes, taken off], over one panel or (NULL: there are none) two, and
 * those for rests. */
typedef struct grid_tiles {
  tni_x86_tiles_fn one[2], rests;
  tni_x86_tiles2_fn two[2];
} grid_tiles;

__attribute__((always_inline)) static inline void gemm_grid_avx512(uint32_t bits, uint32_t group, grid_tiles tiles,
                                                                   size_t blocks, const uint8_t *block,
                                                                   size_t block_bytes, size_t superblocks,
                                                                   const tni_clt_act *a, size_t m0, size_t m1,
                                                                   float *const *acc) {
  const tni_grid_layout l = tni_grid_layout_of(bits, group, a->scale_bits, a->zero_bits);
  const bool rests = l.zero_bits == 32, taken_off = bits == 8 || rests;
  const size_t per_panel = (group == 16 ? TNI_X86_PANEL_K / 2 : TNI_X86_PANEL_K) / (l.groups * group);
  const tni_x86_tiles_fn one = rests ? tiles.rests : tiles.one[taken_off];
  tni_x86_grid_panel z[2];
  tni_x86_panel p[2];
  for (size_t sb = 0; sb < superblocks; sb += per_panel) {
    const size_t n = superblocks - sb < per_panel ? superblocks - sb : per_panel;
    for (size_t i = 0; i < blocks; i++) {
      const uint8_t *from = block + i * block_bytes + sb * l.bytes;
      tni_x86_panel *to = taken_off ? &z[i].p : &p[i];
      unpack_grid_avx512(bits, group, taken_off, &l, from, n, to, &z[i]);
      to->first_group = sb * l.groups;
      to->next = from + n * l.bytes;
      to->next_bytes = n * l.bytes;
      if (rests || blocks == 1) one(to, a, m0, m1, sb == 0, acc[i]);
    }
    if (!rests && blocks == 2) tiles.two[taken_off](taken_off ? &z->p : p, a, m0, m1, sb == 0, acc);
  }
}

#define ONE_PANEL(group)                                                                         \
  .one = {tni_x86_tiles_a##group##_12x16_avx512vnni, tni_x86_tiles_z##group##_12x16_avx512vnni}, \
  .rests = tni_x86_tiles_r##group##_12x16_avx512vnni
#define GEMM(group, bits)                                                                                         \
  void tni_x86_gemm_f32_q8g##group##_grid##bits##_12x16_avx512vnni(                                               \
      const uint8_t *row_block, size_t superblocks, const tni_clt_act *a, size_t m0, size_t m1, float *acc) {     \
    gemm_grid_avx512(bits, group, (grid_tiles){ONE_PANEL(group)}, 1, row_block, 0, superblocks, a, m0, m1, &acc); \
  }
TNI_CLT_EACH_GRID(GEMM)
#define GEMM2(group, bits, tile)                                                                                      \
  void tni_x86_gemm2_f32_q8g##group##_grid##bits##_##tile##_avx512vnni(const uint8_t *row_blocks, size_t block_bytes, \
                                                                       size_t superblocks, const tni_clt_act *a,      \
                                                                       size_t m0, size_t m1, float *const *acc) {     \
    const grid_tiles tiles = {ONE_PANEL(group), .two = {tni_x86_tiles_a##group##_##tile##_avx512vnni,                 \
                                                        tni_x86_tiles_z##group##_##tile##_avx512vnni}};               \
    gemm_grid_avx512(bits, group, tiles, 2, row_blocks, block_bytes, superblocks, a, m0, m1, acc);                    \
  }
TNI_X86_GRID_PAIRS(GEMM2)
