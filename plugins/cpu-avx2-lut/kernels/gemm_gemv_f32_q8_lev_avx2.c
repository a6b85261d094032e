/* SPDX-License-Identifier: Apache-2.0
 *
 * The formats of lev.h on AVX2: one row, and panels for the tiles of AVX2, which want signed bytes, and of AVX-VNNI,
 * whose bytes have a zero point of 128. One row multiplies magnitudes by activations with the weights' signs, widened
 * at once.
 */
#include "plugins/cpu-avx2-lut/kernels/panel.h"

/* Levels are signed: x needs no word. Magnitudes of x, which both registers of outputs share, times levels with its
 * signs. */
#define LEV_ROW
#define LEV_AHEAD TNI_X86_AHEAD
#define lev_row_table lev_table
#define lev_word(word) ((void)(word), _mm256_setzero_si256())
#define add_levels(sum, w, x) \
  _mm256_add_epi32(           \
      sum, _mm256_madd_epi16(_mm256_maddubs_epi16(_mm256_abs_epi8(x), _mm256_sign_epi8(w, x)), _mm256_set1_epi16(1)))
#include "plugins/cpu-avx2-lut/kernels/lev_avx2.h"

LEV_GEMVS(avx2)

/* --- panels ------------------------------------------------------------------------------------------------------ */

enum { MOST_BLOCKS = TNI_X86_PANEL_K / 32 };

/* n blocks from `first` on. zero: the zero point of the bytes, 0 or 128. */
__attribute__((always_inline)) static inline void open_lev_panel(uint32_t which, uint32_t group, uint32_t block_bytes,
                                                                 int zero, const uint8_t *head, const uint8_t *codes,
                                                                 size_t first, size_t n, tni_x86_panel *p) {
  const __m256i table = _mm256_add_epi8(lev_table(which), _mm256_set1_epi8((char)zero));
  const __m256 parents0 = lev_parents(head, 0), parents1 = lev_parents(head, LEV_LANES);
  __m256i *out = (__m256i *)(void *)p->w[0];
  for (size_t b = 0; b < n; b++, codes += block_bytes) {
    const uint8_t *index = head + 32 + 8 * (first + b);
#pragma GCC unroll 4
    for (uint32_t i = 0; i < group / 8; i++, out += i % 2 ? 1 : 7) {
      __m256i e[2];
      lev_entries(which, codes, LEV_HALF * (i % 2), i / 2, e);
      _mm256_store_si256(out, low_levels(table, e[0]));
      _mm256_store_si256(out + 2, high_levels(table, e[0]));
      _mm256_store_si256(out + 4, low_levels(table, e[1]));
      _mm256_store_si256(out + 6, high_levels(table, e[1]));
    }
    _mm256_store_ps(p->scale[b], _mm256_mul_ps(parents0, lev_steps(index, 0)));
    _mm256_store_ps(p->scale[b] + LEV_LANES, _mm256_mul_ps(parents1, lev_steps(index, 4)));
  }
  p->groups = n;
  p->first_group = first;
  p->next = codes;
  p->next_bytes = n * block_bytes;
}

__attribute__((always_inline)) static inline void gemm_lev_avx2(uint32_t which, uint32_t group, uint32_t block_bytes,
                                                                int zero, tni_x86_tiles_fn tiles, const uint8_t *head,
                                                                size_t blocks, const tni_clt_act *a, size_t m0,
                                                                size_t m1, float *acc) {
  const uint8_t *codes = head + tni_lev_head_bytes(blocks);
  tni_x86_grid_panel z;
  memset(z.zero, 0, sizeof z.zero); /* of AVX2; tiles of AVX-VNNI know theirs */
  for (size_t b = 0; b < blocks; b += MOST_BLOCKS) {
    const size_t n = blocks - b < MOST_BLOCKS ? blocks - b : MOST_BLOCKS;
    open_lev_panel(which, group, block_bytes, zero, head, codes + b * block_bytes, b, n, &z.p);
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
  GEMM(id, ID, group, bytes, 6x16, avxvnni, b8g, 128)
GEMMS(lev4, LEV4, 32, 256)
GEMMS(lev4s, LEV4S, 16, 128)
GEMMS(lev3, LEV3, 32, 192)
GEMMS(lev2, LEV2, 32, 128)
GEMMS(lev1, LEV1, 32, 96)
