/* SPDX-License-Identifier: Apache-2.0
 *
 * The formats of lev.h on AVX-512 VNNI: one row, a register is 16 outputs, and panels for the tiles of grids with zero
 * points of their own, all of which are 128.
 */
#include <immintrin.h>
#include <stdbool.h>
#include <string.h>

#include "plugins/common/formats/formats.h"
#include "plugins/cpu-avx2-lut/kernels/panel.h"

typedef __m512i ints;
typedef __m512 floats;
enum { LANES = 16 };
#define OP(name) _mm512_##name
#define OP_OR(a, b) _mm512_or_si512(a, b)
#define OP_XOR(a, b) _mm512_xor_si512(a, b)
#define DPBUSD(sum, u, s) _mm512_dpbusd_epi32(sum, u, s)

static inline ints load_codes(const uint8_t *p) { return _mm512_loadu_si512(p); } /* a quarter of a line */
static inline ints keep_bits(ints v, int mask) { return _mm512_and_si512(v, _mm512_set1_epi8((char)mask)); }
static inline ints in_all_lanes(__m128i v) { return _mm512_broadcast_i32x4(v); }
/* The two bits that quads 4 * four .. share, of each row in all bytes of its dword; s: the block's 32 bytes of them. */
static inline ints quads_bits(const uint8_t *s, size_t half, uint32_t four) {
  const __m128i rows = _mm_setr_epi8(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
  const __m512i upper = _mm512_setr_epi32(0, 0, 0, 0, 0, 0, 0, 0, 0x08080808, 0x08080808, 0x08080808, 0x08080808,
                                          0x08080808, 0x08080808, 0x08080808, 0x08080808);
  const ints at = _mm512_add_epi8(_mm512_add_epi8(in_all_lanes(rows), upper), _mm512_set1_epi8((char)(4 * four)));
  const __m256i bits = _mm256_loadu_si256((const __m256i *)(const void *)s);
  (void)half;
  return _mm512_shuffle_epi8(_mm512_broadcast_i64x4(bits), at);
}
static inline floats halves_at(const uint8_t *p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)p));
}

/* The permutation reads the low four bits of each index. */
static inline floats steps_of(const uint8_t *index, int shift) {
  const __m256i v = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)index));
  const __m512i i = _mm512_inserti64x4(_mm512_castsi256_si512(v), _mm256_srli_epi32(v, 4), 1);
  (void)shift;
  return _mm512_permutexvar_ps(i, _mm512_loadu_ps(tni_lev_steps));
}

static inline ints four_in_all(const int8_t *q) {
  int32_t v;
  memcpy(&v, q, sizeof v);
  return _mm512_set1_epi32(v);
}

#include "plugins/cpu-avx2-lut/kernels/lev_template.h"

LEV_GEMVS(avx512vnni)

/* --- panels ------------------------------------------------------------------------------------------------------ */

enum { MOST_BLOCKS = TNI_X86_PANEL_K / 32, ZERO = 128 };

__attribute__((always_inline)) static inline void open_lev_panel(uint32_t which, uint32_t group, uint32_t block_bytes,
                                                                 const uint8_t *head, const uint8_t *codes,
                                                                 size_t first, size_t n, tni_x86_grid_panel *z) {
  const ints table = _mm512_xor_si512(lev_table(which), _mm512_set1_epi8(-128));
  const floats parents = lev_parents(head, 0);
  uint8_t *out = &z->p.w[0][0];
  for (size_t b = 0; b < n; b++, codes += block_bytes) {
#pragma GCC unroll 4
    for (uint32_t c = 0; c < group / 8; c++, out += 128) {
      const ints v = lev_nibbles(which, codes, 0, c);
      _mm512_store_si512(out, lev_low(table, v));
      _mm512_store_si512(out + 64, lev_high(table, v));
    }
    _mm512_store_ps(z->p.scale[b], _mm512_mul_ps(parents, steps_of(head + 32 + 8 * (first + b), 0)));
  }
  z->p.groups = n;
  z->p.first_group = first;
  z->p.next = codes;
  z->p.next_bytes = n * block_bytes;
}

/* One row block by `tiles`, or two, row_block_bytes apart, by `tiles2`. */
__attribute__((always_inline)) static inline void gemm_lev_avx512(uint32_t which, uint32_t group, uint32_t block_bytes,
                                                                  tni_x86_tiles_fn tiles, tni_x86_tiles2_fn tiles2,
                                                                  const uint8_t *head, size_t row_block_bytes,
                                                                  size_t blocks, const tni_clt_act *a, size_t m0,
                                                                  size_t m1, float *const *acc) {
  const size_t row_blocks = tiles2 ? 2 : 1, head_bytes = tni_lev_head_bytes(blocks);
  tni_x86_grid_panel z[2];
  for (size_t i = 0; i < row_blocks; i++)
    for (size_t g = 0; g < MOST_BLOCKS; g++) _mm512_store_si512(z[i].zero[g], _mm512_set1_epi32(ZERO));
  for (size_t b = 0; b < blocks; b += MOST_BLOCKS) {
    const size_t n = blocks - b < MOST_BLOCKS ? blocks - b : MOST_BLOCKS;
    for (size_t i = 0; i < row_blocks; i++) {
      const uint8_t *own = head + i * row_block_bytes;
      open_lev_panel(which, group, block_bytes, own, own + head_bytes + b * block_bytes, b, n, &z[i]);
    }
    tni_x86_tiles(tiles, tiles2, &z->p, a, m0, m1, b == 0, acc);
  }
}

#define GEMM(id, ID, group, bytes)                                                                                     \
  void tni_x86_gemm_f32_q8g##group##_##id##_12x16_avx512vnni(const uint8_t *row_block, size_t superblocks,             \
                                                             const tni_clt_act *a, size_t m0, size_t m1, float *acc) { \
    gemm_lev_avx512(TNI_##ID, group, bytes, tni_x86_tiles_z##group##_12x16_avx512vnni, NULL, row_block, 0,             \
                    superblocks, a, m0, m1, &acc);                                                                     \
  }
#define GEMM2(id, ID, group, bytes)                                                                                  \
  void tni_x86_gemm2_f32_q8g##group##_##id##_6x32_avx512vnni(const uint8_t *row_blocks, size_t block_bytes,          \
                                                             size_t superblocks, const tni_clt_act *a, size_t m0,    \
                                                             size_t m1, float *const *acc) {                         \
    gemm_lev_avx512(TNI_##ID, group, bytes, NULL, tni_x86_tiles_z##group##_6x32_avx512vnni, row_blocks, block_bytes, \
                    superblocks, a, m0, m1, acc);                                                                    \
  }
GEMM(lev4, LEV4, 32, 256)
GEMM(lev4s, LEV4S, 16, 128)
GEMM(lev3, LEV3, 32, 192)
GEMM(lev2, LEV2, 32, 128)
GEMM(lev1, LEV1, 32, 96)
GEMM2(lev4, LEV4, 32, 256)
GEMM2(lev3, LEV3, 32, 192)
GEMM2(lev2, LEV2, 32, 128)
GEMM2(lev1, LEV1, 32, 96)
