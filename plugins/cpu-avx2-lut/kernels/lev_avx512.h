/* SPDX-License-Identifier: Apache-2.0
 *
 * The formats of lev.h in registers of 512 bits, which are 16 outputs: levels of a block, and scales.
 *
 * A byte shuffle over 64 entries reads six bits of each index, so a table of 16 that stands there four times needs no
 * mask: only indices in high nibbles are shifted. Indices are put together from two registers of fields, either of
 * which may be the lower one: a table is there in each order that comes up.
 */
#ifndef TENON_CPU_AVX2_LUT_KERNELS_LEV_AVX512_H
#define TENON_CPU_AVX2_LUT_KERNELS_LEV_AVX512_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#include "plugins/common/formats/formats.h"
#include "plugins/cpu-avx2-lut/kernels/kernels.h"

/* Masks of bits in a byte. */
enum { LEV_PAIRS = TNI_LEV_MAX_BLOCK / 8, FIELDS_0_2 = 0x33, FIELDS_1_3 = 0xcc, EVEN_BITS = 0x55, ODD_BITS = 0xaa };

static inline __m512i load_codes(const uint8_t *p) { return _mm512_loadu_si512(p); } /* a quarter of a line */
static inline __m512i low_levels(__m512i table, __m512i v) { return _mm512_permutexvar_epi8(v, table); }
static inline __m512i high_levels(__m512i table, __m512i v) { return low_levels(table, _mm512_srli_epi16(v, 4)); }

/* Bits of `mask` of a, the others of b; into the register of b. */
static inline __m512i choose_bits(int mask, __m512i a, __m512i b) {
  enum { A_OR_B_BY_MASK = 0xb8 };
  return _mm512_ternarylogic_epi64(b, _mm512_set1_epi8((char)mask), a, A_OR_B_BY_MASK);
}

/* A table for indices whose bits come in another order, which is that of `order`. */
static inline __m512i reordered(__m512i table, __m128i order) {
  return _mm512_shuffle_epi8(table, _mm512_broadcast_i32x4(order));
}
static inline __m512i halves_swapped(__m512i table) {
  return reordered(table, _mm_setr_epi8(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15));
}
static inline __m512i upper_bits_swapped(__m512i table) {
  return reordered(table, _mm_setr_epi8(0, 1, 2, 3, 8, 9, 10, 11, 4, 5, 6, 7, 12, 13, 14, 15));
}

/* Of each pair of quads; raised to a zero point of 128. */
typedef struct lev_tables {
  __m512i t[LEV_PAIRS];
} lev_tables;

__attribute__((always_inline)) static inline lev_tables lev_tables_of(uint32_t which) {
  const __m128i levels = _mm_load_si128((const __m128i *)(const void *)tni_lev_kinds[which].level);
  const __m512i plain = _mm512_xor_si512(_mm512_broadcast_i32x4(levels), _mm512_set1_epi8(-128));
  const __m512i later = which == TNI_LEV3 || which == TNI_LEV1 ? upper_bits_swapped(plain) : plain;
  if (which == TNI_LEV4 || which == TNI_LEV4S) return (lev_tables){{plain, plain, plain, plain}};
  if (which == TNI_LEV1) return (lev_tables){{halves_swapped(plain), plain, halves_swapped(later), later}};
  return (lev_tables){{plain, halves_swapped(plain), later, halves_swapped(later)}};
}

/* Bits of the byte whose own ones a window reads beside those of each byte, so many places further up or down: the next
 * of a quad, or the other of a pair. What comes from elsewhere is not chosen. */
#define NEXT_OF_QUAD(v, up) _mm512_ror_epi32(v, 8 - (up))
static inline __m512i other_of_pair(__m512i v, int up) {
  const __m512i from = _mm512_set1_epi64(0x3038202810180008);
  return _mm512_multishift_epi64_epi8(_mm512_sub_epi8(from, _mm512_set1_epi8((char)up)), v);
}

/* Fields of two bits of the unit of top bits, [four quads]: a weight's own and that which its window reads, which is
 * the upper one of the first four quads, the lower one of the others. */
__attribute__((always_inline)) static inline void top_fields(uint32_t which, const uint8_t *u, __m512i fields[2]) {
  const __m512i top = load_codes(u);
  fields[0] = choose_bits(EVEN_BITS, top, which == TNI_LEV3 ? other_of_pair(top, 1) : NEXT_OF_QUAD(top, 1));
  fields[1] = choose_bits(ODD_BITS, top, which == TNI_LEV3 ? other_of_pair(top, -1) : NEXT_OF_QUAD(top, -1));
}

/* The two bits that each quad shares, four quads a byte as in other units, from 32 bytes on: eight of them are for two
 * lanes of rows, of which a dword has one of quads 0-3 and one of quads 4-7. */
static inline __m512i lanes_of_shared(const uint8_t *s) {
  const __m256i bytes = _mm256_loadu_si256((const __m256i *)(const void *)s);
  return _mm512_permutexvar_epi64(_mm512_setr_epi64(0, 0, 2, 2, 1, 1, 3, 3), _mm512_castsi256_si512(bytes));
}
static inline __m512i shared_bits(__m512i lanes, int four, int up) {
  const int64_t even = 0x0808080800000000, odd = 0x1818181810101010;
  const __m512i at = _mm512_setr_epi64(even, odd, even, odd, even, odd, even, odd);
  return _mm512_multishift_epi64_epi8(_mm512_add_epi8(at, _mm512_set1_epi8((char)(32 * four - up))), lanes);
}

/* Entries of a block whose units begin at u, in the order of its tables: quads 2i in low nibbles, 2i + 1 in high ones.
 */
__attribute__((always_inline)) static inline void lev_entries(uint32_t which, const uint8_t *u, __m512i e[LEV_PAIRS]) {
  __m512i top[2], lanes;
  if (which == TNI_LEV4 || which == TNI_LEV4S) {
    e[0] = load_codes(u);
    e[1] = load_codes(u + 64);
    if (which == TNI_LEV4) e[2] = load_codes(u + 128), e[3] = load_codes(u + 192);
    return;
  }
  if (which != TNI_LEV2) top_fields(which, which == TNI_LEV3 ? u + 128 : u, top);
  if (which == TNI_LEV1) lanes = lanes_of_shared(u + 64);
#pragma GCC unroll 2
  for (int f = 0; f < 2; f++) {
    if (which == TNI_LEV1) {
      e[2 * f] = choose_bits(FIELDS_0_2, top[f], shared_bits(lanes, f, 2));
      e[2 * f + 1] = choose_bits(FIELDS_1_3, top[f], shared_bits(lanes, f, -2));
    } else {
      const __m512i own = load_codes(u + 64 * f);
      e[2 * f] = choose_bits(FIELDS_0_2, own, which == TNI_LEV2 ? NEXT_OF_QUAD(own, 2) : _mm512_slli_epi16(top[f], 2));
      e[2 * f + 1] =
          choose_bits(FIELDS_1_3, own, which == TNI_LEV2 ? NEXT_OF_QUAD(own, -2) : _mm512_srli_epi16(top[f], 2));
    }
  }
}

/* Parents of 16 rows. */
static inline __m512 lev_parents(const uint8_t *head) {
  const __m256i halves = _mm256_loadu_si256((const __m256i *)(const void *)head);
  return _mm512_mul_ps(_mm512_cvtph_ps(halves), _mm512_set1_ps(TNI_LEV_SCALE_UNIT));
}

/* Steps of a block: the permutation reads the low four bits of each dword, where rows' nibbles are brought. */
static inline __m512 lev_steps(const uint8_t *index) {
  const __m512i nibbles =
      _mm512_setr_epi64(0x0000000800000000, 0x0000001800000010, 0x0000002800000020, 0x0000003800000030,
                        0x0000000c00000004, 0x0000001c00000014, 0x0000002c00000024, 0x0000003c00000034);
  int64_t v;
  memcpy(&v, index, sizeof v);
  return _mm512_permutexvar_ps(_mm512_multishift_epi64_epi8(nibbles, _mm512_set1_epi64(v)),
                               _mm512_loadu_ps(tni_lev_steps));
}

#endif
