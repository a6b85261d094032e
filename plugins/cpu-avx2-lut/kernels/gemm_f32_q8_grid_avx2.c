/* SPDX-License-Identifier: Apache-2.0
 *
 * Grids for the tiles of AVX2 and of AVX-VNNI. For VNNI codes of two and four bits lose their zero points while a panel
 * is unpacked and get one of 16; all other zero points the tiles take off.
 */
#include <immintrin.h>
#include <stdbool.h>
#include <string.h>

#include "plugins/common/formats/formats.h"
#include "plugins/cpu-avx2-lut/kernels/panel.h"

enum { ZERO_POINT = 16, HALF = TNI_CLT_ROWS / 2 };

/* Eight bytes of zeros, one a row, as four of each. */
static inline __m256i four_of_each(const uint8_t *zeros) {
  const __m256i v = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)zeros));
  return _mm256_mullo_epi32(v, _mm256_set1_epi32(0x01010101));
}

/* Half a unit of 64 bytes -> halves of quads, less `minus` in every byte. */
__attribute__((always_inline)) static inline void unpack_half(uint32_t bits, const uint8_t *unit, __m256i minus,
                                                              uint8_t *out) {
  const __m256i v = _mm256_load_si256((const __m256i *)(const void *)unit);
  const __m256i mask = _mm256_set1_epi8((char)((1 << bits) - 1));
#pragma GCC unroll 4
  for (uint32_t i = 0; i < 8 / bits; i++) {
    const __m256i c = bits == 8 ? v : _mm256_and_si256(_mm256_srli_epi16(v, (int)(i * bits)), mask);
    _mm256_store_si256((__m256i *)(void *)(out + i * 64), _mm256_sub_epi8(c, minus));
  }
}

static inline __m256 scales_at(const tni_grid_layout *l, const uint8_t *sb, size_t at) {
  if (l->scale_bits == 32) return _mm256_loadu_ps((const float *)(const void *)(sb + at * 4));
  return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(sb + at * 2)));
}

/* What tiles take off of eight rows: half - zero, and of f32 zero points what is left of them. */
static inline void put_zeros(const tni_grid_layout *l, const uint8_t *sb, size_t at, float *zero, float *rest) {
  const __m256 half = _mm256_set1_ps((float)(1 << (l->bits - 1)));
  const uint8_t *zeros = sb + l->zeros_at;
  if (l->zero_bits == 8) {
    const __m256i v = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)(zeros + at)));
    _mm256_store_ps(zero, _mm256_sub_ps(half, _mm256_cvtepi32_ps(v)));
  } else if (l->zero_bits == 32) {
    const __m256 v = _mm256_loadu_ps((const float *)(const void *)(zeros + 4 * at));
    const __m256 whole = _mm256_round_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    _mm256_store_ps(zero, _mm256_sub_ps(half, whole));
    _mm256_store_ps(rest, _mm256_sub_ps(whole, v));
  }
}

/* What codes lose in a panel. */
static inline __m256i lost(uint32_t bits, bool taken_off, bool vnni, const tni_grid_layout *l, const uint8_t *sb,
                           size_t at) {
  const __m256i point = _mm256_set1_epi8(ZERO_POINT);
  if (taken_off) return _mm256_set1_epi8((char)(bits == 2 ? 2 - 8 : bits == 8 && !vnni ? -128 : 0));
  if (l->zero_bits == 8) return _mm256_sub_epi8(four_of_each(sb + l->zeros_at + at), point);
  return _mm256_sub_epi8(_mm256_set1_epi8((char)(1 << (bits - 1))), point);
}

__attribute__((always_inline)) static inline void unpack_grid_avx2(uint32_t bits, uint32_t group, bool taken_off,
                                                                   bool vnni, const tni_grid_layout *l,
                                                                   const uint8_t *sb, size_t n, tni_x86_grid_panel *z) {
  const uint32_t code_bytes = group * TNI_CLT_ROWS * bits / 8;
  uint8_t *out = &z->p.w[0][0];
  size_t to = 0;
  for (size_t s = 0; s < n; s++, sb += l->bytes)
    for (size_t g = 0; g < l->groups; g++, to++, out += group * TNI_CLT_ROWS)
      for (size_t h = 0; h < 2; h++) {
        const size_t at = g * TNI_CLT_ROWS + h * HALF;
        const __m256i minus = lost(bits, taken_off, vnni, l, sb, at);
        const uint8_t *codes = sb + l->codes_at + g * code_bytes + h * 32;
        _mm256_store_ps(&z->p.scale[to][h * HALF], scales_at(l, sb, at));
        if (taken_off) put_zeros(l, sb, at, &z->zero[to][h * HALF], &z->rest[to][h * HALF]);
        for (uint32_t i = 0; i < code_bytes / 64; i++)
          unpack_half(bits, codes + i * 64, minus, out + i * 64 * (8 / bits) + h * 32);
      }
  z->p.groups = to;
  z->n_zeros = l->zero_bits / 8 > 1 ? 2 : l->zero_bits / 8;
  z->shift = bits == 8 ? 4 : 0;
}

/* tiles: of codes that lost their zero points; NULL: all are taken off. */
__attribute__((always_inline)) static inline void gemm_grid_avx2(uint32_t bits, uint32_t group, bool vnni,
                                                                 tni_x86_tiles_fn tiles, tni_x86_tiles_fn taking,
                                                                 const uint8_t *block, size_t superblocks,
                                                                 const tni_clt_act *a, size_t m0, size_t m1,
                                                                 float *acc) {
  const tni_grid_layout l = tni_grid_layout_of(bits, group, a->scale_bits, a->zero_bits);
  const bool taken_off = !vnni || bits == 8 || l.zero_bits == 32;
  const size_t per_panel = (group == 16 ? TNI_X86_PANEL_K / 2 : TNI_X86_PANEL_K) / (l.groups * group);
  tni_x86_grid_panel z;
  for (size_t sb = 0; sb < superblocks; sb += per_panel, block += per_panel * l.bytes) {
    const size_t n = superblocks - sb < per_panel ? superblocks - sb : per_panel;
    unpack_grid_avx2(bits, group, taken_off, vnni, &l, block, n, &z);
    z.p.first_group = sb * l.groups;
    z.p.next = block + n * l.bytes;
    z.p.next_bytes = n * l.bytes;
    (taken_off ? taking : tiles)(&z.p, a, m0, m1, sb == 0, acc);
  }
}

#define SIGNS_2(group) tni_x86_tiles_zu##group##_4x16_avx2
#define SIGNS_4(group) tni_x86_tiles_zu##group##_4x16_avx2
#define SIGNS_8(group) tni_x86_tiles_zs##group##_4x16_avx2
#define GEMM(group, bits)                                                                                             \
  void tni_x86_gemm_f32_q8g##group##_grid##bits##_4x16_avx2(const uint8_t *row_block, size_t superblocks,             \
                                                            const tni_clt_act *a, size_t m0, size_t m1, float *acc) { \
    gemm_grid_avx2(bits, group, false, NULL, SIGNS_##bits(group), row_block, superblocks, a, m0, m1, acc);            \
  }                                                                                                                   \
  void tni_x86_gemm_f32_q8g##group##_grid##bits##_6x16_avxvnni(                                                       \
      const uint8_t *row_block, size_t superblocks, const tni_clt_act *a, size_t m0, size_t m1, float *acc) {         \
    gemm_grid_avx2(bits, group, true, tni_x86_tiles_a##group##_6x16_avxvnni, tni_x86_tiles_z##group##_6x16_avxvnni,   \
                   row_block, superblocks, a, m0, m1, acc);                                                           \
  }
TNI_CLT_EACH_GRID(GEMM)
