/* SPDX-License-Identifier: Apache-2.0
 *
 * The formats of lev.h in registers of 256 bits, two of which are 16 outputs: indices of a block, scales, and one row.
 * Who includes it for one row has defined lev_word, the start of a sum, and add_levels(sum, w, x): levels times four
 * codes of x.
 */
#ifndef TENON_CPU_AVX2_LUT_KERNELS_LEV_AVX2_H
#define TENON_CPU_AVX2_LUT_KERNELS_LEV_AVX2_H

#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>

#include "plugins/common/formats/formats.h"
#include "plugins/cpu-avx2-lut/kernels/codes_avx2.h"
#include "plugins/cpu-avx2-lut/kernels/kernels.h"

enum { LEV_LANES = 8, LEV_HALF = 32 }; /* rows of a register; bytes of a unit that are theirs */

static inline __m256i load_codes(const uint8_t *p) { return _mm256_loadu_si256((const __m256i *)(const void *)p); }
static inline __m256i keep_bits(__m256i v, int mask) { return _mm256_and_si256(v, _mm256_set1_epi8((char)mask)); }
static inline __m256i drop_bits(__m256i v, int mask) { return _mm256_andnot_si256(_mm256_set1_epi8((char)mask), v); }
static inline __m256i in_both_lanes(__m128i v) { return _mm256_broadcastsi128_si256(v); }

static inline __m256i lev_table(uint32_t which) {
  return in_both_lanes(_mm_load_si128((const __m128i *)(const void *)tni_lev_kinds[which].level));
}

/* Bits of `mask` of each byte, from so many places further down (or, below 0, up). A matrix has a row for each. */
#ifdef __GFNI__
#define MATRIX_ROW(bit, up, mask) \
  ((mask) >> (bit)&1 ? (uint64_t)1 << (((bit) - (up)) & 7) << 8 * (7 - (bit)) : (uint64_t)0)
__attribute__((always_inline)) static inline __m256i moved_bits(__m256i v, int up, int mask) {
  const uint64_t rows = MATRIX_ROW(0, up, mask) | MATRIX_ROW(1, up, mask) | MATRIX_ROW(2, up, mask) |
                        MATRIX_ROW(3, up, mask) | MATRIX_ROW(4, up, mask) | MATRIX_ROW(5, up, mask) |
                        MATRIX_ROW(6, up, mask) | MATRIX_ROW(7, up, mask);
  return _mm256_gf2p8affine_epi64_epi8(v, _mm256_set1_epi64x((int64_t)rows), 0);
}
#undef MATRIX_ROW
#else
__attribute__((always_inline)) static inline __m256i moved_bits(__m256i v, int up, int mask) {
  return keep_bits(up < 0 ? _mm256_srli_epi16(v, -up) : _mm256_slli_epi16(v, up), mask);
}
#endif

static inline __m256i low_levels(__m256i table, __m256i v) { return _mm256_shuffle_epi8(table, keep_bits(v, 15)); }
static inline __m256i high_levels(__m256i table, __m256i v) {
  return _mm256_shuffle_epi8(table, moved_bits(v, -4, 15));
}

/* --- indices ------------------------------------------------------------------------------------------------------ */

/* The bytes of the neighbours whose bits a window reads. */
static inline __m256i other_bytes(uint32_t which, __m256i v) {
  const __m128i pair = _mm_setr_epi8(1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14);
  const __m128i ring = _mm_setr_epi8(1, 2, 3, 0, 5, 6, 7, 4, 9, 10, 11, 8, 13, 14, 15, 12);
  return _mm256_shuffle_epi8(v, in_both_lanes(which == TNI_LEV3 ? pair : ring));
}

/* Fields of two bits of four quads from the unit of top bits: a weight's own and, above, that which its window reads.
 */
__attribute__((always_inline)) static inline __m256i top_fields(uint32_t which, __m256i top, uint32_t four) {
  const __m256i other = other_bytes(which, top);
  return four ? _mm256_or_si256(moved_bits(top, -1, 0x55), drop_bits(other, 0x55))
              : _mm256_or_si256(keep_bits(top, 0x55), moved_bits(other, 1, 0xaa));
}

/* The two bits that quads 4 * four .. share, of each row in all bytes of its dword; s: the block's 32 bytes of them. */
static inline __m256i shared_bits(const uint8_t *s, size_t half, uint32_t four) {
  const __m128i rows = _mm_setr_epi8(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
  return _mm256_shuffle_epi8(load_codes(s),
                             _mm256_add_epi8(in_both_lanes(rows), _mm256_set1_epi8((char)(half / 4 + 4 * four))));
}

/* Entries of four quads of a block whose units begin at u, of the outputs whose bytes begin `half` after a unit's:
 * quads 0 and 1 in low and high nibbles of e[0], 2 and 3 of e[1]. */
__attribute__((always_inline)) static inline void lev_entries(uint32_t which, const uint8_t *u, size_t half,
                                                              uint32_t four, __m256i e[2]) {
  if (which == TNI_LEV4 || which == TNI_LEV4S) {
    e[0] = load_codes(u + half + 128 * four);
    e[1] = load_codes(u + half + 128 * four + 64);
    return;
  }
  const __m256i own = which == TNI_LEV1 ? shared_bits(u + 64, half, four) : load_codes(u + half + 64 * four);
  const __m256i upper = which == TNI_LEV2
                            ? other_bytes(which, own)
                            : top_fields(which, load_codes(u + half + (which == TNI_LEV3 ? 128 : 0)), four);
  e[0] = _mm256_or_si256(keep_bits(own, 0x33), moved_bits(upper, 2, 0xcc));
  e[1] = _mm256_or_si256(moved_bits(own, -2, 0x33), drop_bits(upper, 0x33));
}

/* --- scales ------------------------------------------------------------------------------------------------------- */

/* Parents of eight rows. */
static inline __m256 lev_parents(const uint8_t *head, size_t row) {
  const __m128i halves = _mm_loadu_si128((const __m128i *)(const void *)(head + 2 * row));
  return _mm256_mul_ps(_mm256_cvtph_ps(halves), _mm256_set1_ps(TNI_LEV_SCALE_UNIT));
}

/* Steps of rows 0-7 (shift 0) or 8-15 (shift 4): eight of the table each, the upper ones where bit 3 is set. */
static inline __m256 lev_steps(const uint8_t *index, int shift) {
  const __m256i v = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)index));
  const __m256i i = _mm256_srli_epi32(v, shift);
  const __m256 low = _mm256_permutevar8x32_ps(_mm256_loadu_ps(tni_lev_steps), i);
  const __m256 high = _mm256_permutevar8x32_ps(_mm256_loadu_ps(tni_lev_steps + 8), i);
  return _mm256_blendv_ps(low, high, _mm256_castsi256_ps(_mm256_slli_epi32(v, 28 - shift)));
}

/* --- one row ------------------------------------------------------------------------------------------------------ */

#ifdef LEV_ROW
__attribute__((always_inline)) static inline __m256 add_scaled(__m256 y, __m256i sum, __m256 parents, __m256 steps,
                                                               float sx) {
  const __m256 scale = _mm256_mul_ps(_mm256_mul_ps(parents, steps), _mm256_set1_ps(sx));
  return _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum), scale, y);
}

/* Four quads of eight outputs at a time, the other outputs next. Entries of the next are found beside the sums of
 * these, which would wait for theirs; after the last block they are its first once more. */
__attribute__((always_inline)) static inline void gemv_lev(uint32_t which, uint32_t group, uint32_t block_bytes,
                                                           bool fetch, const uint8_t *head, size_t blocks,
                                                           const tni_clt_act *a, float *acc) {
  const uint32_t turns = group / 8;
  const uint8_t *codes = head + tni_lev_head_bytes(blocks), *index = head + 32;
  const int8_t *q = a->q;
  const __m256i table = lev_row_table(which);
  const __m256 parents0 = lev_parents(head, 0), parents1 = lev_parents(head, LEV_LANES);
  __m256 y0 = _mm256_setzero_ps(), y1 = y0;
  __m256i e[2], next[2];
  lev_entries(which, codes, 0, 0, e);
  for (size_t b = 0; b < blocks; b++, q += group, index += 8) {
    const uint8_t *after = b + 1 < blocks ? codes + block_bytes : codes;
    __m256i s[2] = {lev_word(a->zero[b]), lev_word(a->zero[b])};
    for (uint32_t i = 0; fetch && i < block_bytes; i += 64)
      _mm_prefetch((const char *)codes + LEV_AHEAD + i, _MM_HINT_T0);
#pragma GCC unroll 4
    for (uint32_t i = 0; i < turns; i++) {
      const uint32_t then = (i + 1) % turns, half = i % 2;
      const int8_t *x = q + 16 * (i / 2);
      lev_entries(which, then ? codes : after, LEV_HALF * (then % 2), then / 2, next);
      s[half] = add_levels(s[half], low_levels(table, e[0]), four_codes(x));
      s[half] = add_levels(s[half], high_levels(table, e[0]), four_codes(x + 4));
      s[half] = add_levels(s[half], low_levels(table, e[1]), four_codes(x + 8));
      s[half] = add_levels(s[half], high_levels(table, e[1]), four_codes(x + 12));
      e[0] = next[0];
      e[1] = next[1];
    }
    codes = after;
    y0 = add_scaled(y0, s[0], parents0, lev_steps(index, 0), a->scale[b]);
    y1 = add_scaled(y1, s[1], parents1, lev_steps(index, 4), a->scale[b]);
  }
  _mm256_storeu_ps(acc, y0);
  _mm256_storeu_ps(acc + LEV_LANES, y1);
}

#define LEV_GEMV_AS(id, ID, group, bytes, isa, fetch)                                                \
  void tni_x86_gemv_f32_q8g##group##_##id##_1x16_##isa(const uint8_t *row_block, size_t superblocks, \
                                                       const tni_clt_act *a, float *acc) {           \
    gemv_lev(TNI_##ID, group, bytes, fetch, row_block, superblocks, a, acc);                         \
  }
#define LEV_GEMV_OF(id, ID, group, bytes, isa)  \
  LEV_GEMV_AS(id, ID, group, bytes, isa, false) \
  LEV_GEMV_AS(id, ID, group, bytes, isa##_prefetch, true)
#define LEV_GEMVS(isa)                    \
  LEV_GEMV_OF(lev4, LEV4, 32, 256, isa)   \
  LEV_GEMV_OF(lev4s, LEV4S, 16, 128, isa) \
  LEV_GEMV_OF(lev3, LEV3, 32, 192, isa)   \
  LEV_GEMV_OF(lev2, LEV2, 32, 128, isa)   \
  LEV_GEMV_OF(lev1, LEV1, 32, 96, isa)
#endif

#endif
