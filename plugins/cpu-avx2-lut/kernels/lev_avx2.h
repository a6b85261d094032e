/* SPDX-License-Identifier: Apache-2.0
 *
 * What lev_template.h wants of registers of 256 bits.
 */
#ifndef TENON_CPU_AVX2_LUT_KERNELS_LEV_AVX2_H
#define TENON_CPU_AVX2_LUT_KERNELS_LEV_AVX2_H

#include <immintrin.h>
#include <stdbool.h>
#include <stdint.h>

#include "plugins/common/formats/formats.h"
#include "plugins/cpu-avx2-lut/kernels/kernels.h"

typedef __m256i ints;
typedef __m256 floats;
enum { LANES = 8 };
#define OP(name) _mm256_##name
#define OP_OR(a, b) _mm256_or_si256(a, b)

static inline ints load_codes(const uint8_t *p) { return _mm256_loadu_si256((const __m256i *)(const void *)p); }
static inline ints keep_bits(ints v, int mask) { return _mm256_and_si256(v, _mm256_set1_epi8((char)mask)); }
static inline ints in_all_lanes(__m128i v) { return _mm256_broadcastsi128_si256(v); }
/* The two bits that quads 4 * four .. share, of each row in all bytes of its dword; s: the block's 32 bytes of them. */
static inline ints quads_bits(const uint8_t *s, size_t half, uint32_t four) {
  const __m128i rows = _mm_setr_epi8(0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3);
  return _mm256_shuffle_epi8(load_codes(s),
                             _mm256_add_epi8(in_all_lanes(rows), _mm256_set1_epi8((char)(half / 4 + 4 * four))));
}
static inline floats halves_at(const uint8_t *p) {
  return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)p));
}

/* Steps of rows 0-7 (shift 0) or 8-15 (shift 4): eight of the table each, the upper ones where bit 3 is set. */
static inline floats steps_of(const uint8_t *index, int shift) {
  const __m256i v = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)index));
  const __m256i i = _mm256_srli_epi32(v, shift);
  const __m256 low = _mm256_permutevar8x32_ps(_mm256_loadu_ps(tni_lev_steps), i);
  const __m256 high = _mm256_permutevar8x32_ps(_mm256_loadu_ps(tni_lev_steps + 8), i);
  return _mm256_blendv_ps(low, high, _mm256_castsi256_ps(_mm256_slli_epi32(i, 28)));
}

#endif
