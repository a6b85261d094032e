/* SPDX-License-Identifier: Apache-2.0
 *
 * One activation row times 16 outputs of a grid: a register is eight outputs. Codes of two and four bits are summed in
 * s16 for 32 k (16 products of at most 15 * 127) and then widened; of eight bits, magnitudes times activations with the
 * weights' signs, widened at once.
 */
#include <immintrin.h>
#include <stdbool.h>
#include <string.h>

#include "plugins/common/formats/formats.h"
#include "plugins/cpu-avx2-lut/kernels/kernels.h"

typedef __m256i ints;
typedef __m256 floats;
enum { LANES = 8 };

static inline ints codes_at(const uint8_t *p) { return _mm256_load_si256((const __m256i *)(const void *)p); }
static inline ints cut_codes(ints v, int shift, int mask) {
  return _mm256_and_si256(_mm256_srli_epi16(v, shift), _mm256_set1_epi8((char)mask));
}
static inline ints four_codes(const int8_t *q) {
  int32_t v;
  memcpy(&v, q, sizeof v);
  return _mm256_set1_epi32(v);
}
static inline ints add_pairs(ints sum, ints codes, const int8_t *q) {
  return _mm256_add_epi16(sum, _mm256_maddubs_epi16(codes, four_codes(q)));
}
static inline ints widened(ints sum, ints pairs) {
  return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
}

__attribute__((always_inline)) static inline ints sums_of_2(uint32_t group, const uint8_t *u, const int8_t *q,
                                                            int32_t word) {
  ints s = _mm256_setzero_si256();
  for (uint32_t k = 0; k < group; k += 16, u += 64, q += 16) {
    const ints v = codes_at(u);
    s = add_pairs(s, cut_codes(v, 0, 3), q);
    s = add_pairs(s, cut_codes(v, 2, 3), q + 4);
    s = add_pairs(s, cut_codes(v, 4, 3), q + 8);
    s = add_pairs(s, cut_codes(v, 6, 3), q + 12);
  }
  return widened(_mm256_set1_epi32(word / 4), s);
}

__attribute__((always_inline)) static inline ints sums_of_4(uint32_t group, const uint8_t *u, const int8_t *q,
                                                            int32_t word) {
  ints sum = _mm256_set1_epi32(word);
  const uint32_t part = group < 32 ? group : 32;
  for (uint32_t at = 0; at < group; at += part) {
    ints s = _mm256_setzero_si256();
#pragma GCC unroll 4
    for (uint32_t k = 0; k < part; k += 8, u += 64, q += 8) {
      const ints v = codes_at(u);
      s = add_pairs(s, cut_codes(v, 0, 15), q);
      s = add_pairs(s, cut_codes(v, 4, 15), q + 4);
    }
    sum = widened(sum, s);
  }
  return sum;
}

__attribute__((always_inline)) static inline ints sums_of_8(uint32_t group, const uint8_t *u, const int8_t *q) {
  ints sum = _mm256_setzero_si256();
#pragma GCC unroll 4
  for (uint32_t k = 0; k < group; k += 4, u += 64, q += 4) {
    const ints w = _mm256_xor_si256(codes_at(u), _mm256_set1_epi8(-128));
    sum = widened(sum, _mm256_maddubs_epi16(_mm256_abs_epi8(w), _mm256_sign_epi8(four_codes(q), w)));
  }
  return sum;
}

__attribute__((always_inline)) static inline ints group_sums(uint32_t bits, uint32_t group, const uint8_t *u,
                                                             const int8_t *q, int32_t word) {
  return bits == 2 ? sums_of_2(group, u, q, word) : bits == 4 ? sums_of_4(group, u, q, word) : sums_of_8(group, u, q);
}

static inline floats floats_at(const uint8_t *p) { return _mm256_loadu_ps((const float *)(const void *)p); }
static inline floats halves_at(const uint8_t *p) {
  return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)p));
}
static inline floats bytes_at(const uint8_t *p) {
  return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p)));
}
static inline floats rounded(floats v) { return _mm256_round_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }

#define OP(name) _mm256_##name
#define ISA avx2
#include "plugins/cpu-avx2-lut/kernels/gemv_grid_template.h"
