/* SPDX-License-Identifier: Apache-2.0
 *
 * tern17 in registers of 32 bytes, for AVX2 and AVX-VNNI, and its products of many rows: every ISA gives a function
 * that unpacks a third of a unit.
 */
#ifndef TENON_CPU_AVX2_TERN17_H
#define TENON_CPU_AVX2_TERN17_H

#include "plugins/cpu-avx2-lut/kernels/panel.h"

enum { TNI_X86_TERN17_UNIT = 320 };

/* 32 k of 16 rows, trits t of a unit, as [8][64] bytes with this zero point. */
typedef void (*tni_x86_third_fn)(const uint8_t *unit, int t, int zero, uint8_t *out);

/* One row block by `tiles`, or two, block_bytes apart, by `tiles2`. Groups in pairs, as the tiles of AMX want them. */
void tni_x86_gemm_tern17(tni_x86_third_fn unpack, int zero, tni_x86_tiles_fn tiles, tni_x86_tiles2_fn tiles2,
                         const uint8_t *row_block, size_t block_bytes, size_t superblocks, const tni_clt_act *a,
                         size_t m0, size_t m1, float *const *acc);

#if defined(__AVX2__)
#include <immintrin.h>

/* What five bits say, two bits for each trit: below 16, and from there on. An index with its high bit gives 0. */
#define TNI_X86_TRITS(v) ((v) % 3 | (v) / 3 % 3 << 2 | (v) / 9 << 4)
#define TNI_X86_TRITS4(v) TNI_X86_TRITS(v), TNI_X86_TRITS((v) + 1), TNI_X86_TRITS((v) + 2), TNI_X86_TRITS((v) + 3)

/* A code in each byte -> its trits. */
static inline __m256i tni_x86_tern17_trits(__m256i v) {
  const __m256i low = _mm256_broadcastsi128_si256(
      _mm_setr_epi8(TNI_X86_TRITS4(0), TNI_X86_TRITS4(4), TNI_X86_TRITS4(8), TNI_X86_TRITS4(12)));
  const __m256i high = _mm256_broadcastsi128_si256(_mm_setr_epi8(
      TNI_X86_TRITS4(16), TNI_X86_TRITS4(20), TNI_X86_TRITS(24), TNI_X86_TRITS(25), TNI_X86_TRITS(26), 0, 0, 0, 0, 0));
  const __m256i a = _mm256_shuffle_epi8(low, _mm256_add_epi8(v, _mm256_set1_epi8(0x70)));
  return _mm256_or_si256(a, _mm256_shuffle_epi8(high, _mm256_sub_epi8(v, _mm256_set1_epi8(16))));
}
#undef TNI_X86_TRITS4
#undef TNI_X86_TRITS

static inline __m256i tni_x86_tern17_cut(const uint8_t *p, int shift, int mask) {
  const __m256i v = _mm256_load_si256((const __m256i *)(const void *)p);
  return _mm256_and_si256(_mm256_srli_epi16(v, shift), _mm256_set1_epi8((char)mask));
}

/* The eight codes of eight rows of a unit, as trits. */
__attribute__((always_inline)) static inline void tni_x86_tern17_open(const uint8_t *u, __m256i *v) {
  for (int j = 0; j < 5; j++) v[j] = tni_x86_tern17_trits(tni_x86_tern17_cut(u + j * 64, 0, 31));
  v[5] = _mm256_or_si256(tni_x86_tern17_cut(u, 5, 7), tni_x86_tern17_cut(u + 64, 2, 0x18));
  v[6] = _mm256_or_si256(tni_x86_tern17_cut(u + 128, 5, 7), tni_x86_tern17_cut(u + 192, 2, 0x18));
  v[7] = _mm256_or_si256(tni_x86_tern17_cut(u + 64, 4, 8), tni_x86_tern17_cut(u + 192, 3, 16));
  v[7] = _mm256_or_si256(v[7], tni_x86_tern17_cut(u + 256, 5, 7));
  for (int j = 5; j < 8; j++) v[j] = tni_x86_tern17_trits(v[j]);
}
#endif

#endif
