/* SPDX-License-Identifier: Apache-2.0
 *
 * The formats of lev.h on AVX2: one row, and panels for the tiles of AVX2, which want signed bytes, and of AVX-VNNI,
 * whose bytes have a zero point of 128. One row multiplies magnitudes by activations with the weights' signs, widened
 * at once.
 */
#include <immintrin.h>
#include <stdbool.h>
#include <string.h>

#include "plugins/common/formats/formats.h"
#include "plugins/cpu-avx2-lut/kernels/codes_avx2.h"
#include "plugins/cpu-avx2-lut/kernels/lev_avx2.h"
#include "plugins/cpu-avx2-lut/kernels/panel.h"

static inline ints lev_table(uint32_t which);
static inline ints lev_low(ints table, ints v);
static inline ints lev_high(ints table, ints v);
__attribute__((always_inline)) static inline ints lev_nibbles(uint32_t which, const uint8_t *u, size_t half,
                                                              uint32_t c);

static inline ints add_signed(ints sum, ints w, ints x) {
  const ints pairs = _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(x, w));
  return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

/* Levels are signed: x needs no word. */
__attribute__((always_inline)) static inline ints lev_sums(uint32_t which, uint32_t group, ints table, const uint8_t *u,
                                                           size_t half, const int8_t *q, int32_t word) {
  ints s0 = _mm256_setzero_si256(), s1 = s0;
  (void)word;
#pragma GCC unroll 4
  for (uint32_t c = 0; c < group / 8; c++) {
    const ints v = lev_nibbles(which, u, half, c);
    s0 = add_signed(s0, lev_low(table, v), four_codes(q + 8 * c));
    s1 = add_signed(s1, lev_high(table, v), four_codes(q + 8 * c + 4));
  }
  return _mm256_add_epi32(s0, s1);
}

#include "plugins/cpu-avx2-lut/kernels/lev_template.h"

LEV_GEMVS(avx2)

/* --- panels ------------------------------------------------------------------------------------------------------ */

enum { MOST_BLOCKS = TNI_X86_PANEL_K / 32 };

/* n blocks from `first` on. zero: the zero point of the bytes, 0 or 128. */
__attribute__((always_inline)) static inline void open_lev_panel(uint32_t which, uint32_t group, uint32_t block_bytes,
                                                                 int zero, const uint8_t *head, const uint8_t *codes,
                                                                 size_t first, size_t n, tni_x86_grid_panel *z) {
  const ints table = _mm256_add_epi8(lev_table(which), _mm256_set1_epi8((char)zero));
  const floats parent0 = lev_parents(head, 0), parent1 = lev_parents(head, LANES);
  uint8_t *out = &z->p.w[0][0];
  for (size_t b = 0; b < n; b++, codes += block_bytes) {
    const uint8_t *index = head + 32 + 8 * (first + b);
#pragma GCC unroll 4
    for (uint32_t c = 0; c < group / 8; c++, out += 128)
      for (size_t half = 0; half < 64; half += 32) {
        const ints v = lev_nibbles(which, codes, half, c);
        _mm256_store_si256((__m256i *)(void *)(out + half), lev_low(table, v));
        _mm256_store_si256((__m256i *)(void *)(out + 64 + half), lev_high(table, v));
      }
    _mm256_store_ps(z->p.scale[b], _mm256_mul_ps(parent0, steps_of(index, 0)));
    _mm256_store_ps(z->p.scale[b] + LANES, _mm256_mul_ps(parent1, steps_of(index, 4)));
  }
  z->p.groups = n;
  z->p.first_group = first;
  z->p.next = codes;
  z->p.next_bytes = n * block_bytes;
}

__attribute__((always_inline)) static inline void gemm_lev_avx2(uint32_t which, uint32_t group, uint32_t block_bytes,
                                                                int zero, tni_x86_tiles_fn tiles, const uint8_t *head,
                                                                size_t blocks, const tni_clt_act *a, size_t m0,
                                                                size_t m1, float *acc) {
  const uint8_t *codes = head + tni_lev_head_bytes(blocks);
  tni_x86_grid_panel z;
  for (size_t g = 0; g < MOST_BLOCKS; g++)
    for (int r = 0; r < TNI_CLT_ROWS; r++) z.zero[g][r] = zero;
  for (size_t b = 0; b < blocks; b += MOST_BLOCKS) {
    const size_t n = blocks - b < MOST_BLOCKS ? blocks - b : MOST_BLOCKS;
    open_lev_panel(which, group, block_bytes, zero, head, codes + b * block_bytes, b, n, &z);
    tiles(&z.p, a, m0, m1, b == 0, acc);
  }
}

#define GEMM(id, ID, group, bytes, tile, isa, tiles, zero)                                                             \
  void tni_x86_gemm_f32_q8g##group##_##id##_##tile##_##isa(const uint8_t *row_block, size_t superblocks,               \
                                                           const tni_clt_act *a, size_t m0, size_t m1, float *acc) {   \
    gemm_lev_avx2(TNI_##ID, group, bytes, zero, tni_x86_tiles_##tiles##group##_##tile##_##isa, row_block, superblocks, \
                  a, m0, m1, acc);                                                                                     \
  }
#define GEMMS(id, ID, group, bytes)             \
  GEMM(id, ID, group, bytes, 4x16, avx2, zs, 0) \
  GEMM(id, ID, group, bytes, 6x16, avxvnni, z, 128)
GEMMS(lev4, LEV4, 32, 256)
GEMMS(lev4s, LEV4S, 16, 128)
GEMMS(lev3, LEV3, 32, 192)
GEMMS(lev2, LEV2, 32, 128)
GEMMS(lev1, LEV1, 32, 96)
