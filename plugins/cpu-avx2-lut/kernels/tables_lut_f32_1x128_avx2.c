/* SPDX-License-Identifier: Apache-2.0
 *
 * Prologues of the bit-serial formats. Tables: half of each is built from bytes modulo 256 and masks, the other half by
 * table[15 - i] = sum |q| - table[i].
 */
#include <immintrin.h>
#include <string.h>

#include "plugins/common/formats/formats.h"
#include "plugins/cpu-avx2-lut/kernels/codes_avx2.h"
#include "plugins/cpu-avx2-lut/kernels/kernels.h"

enum { GROUP = TNI_LUT_GROUP };

/* The scale of 128 values, and what they are multiplied by. */
static inline float group_scale(const float *x, float runs, __m256 *inv) {
  const tni_clt_scale s = tni_clt_scale_of(largest_run(x, GROUP), runs);
  *inv = _mm256_set1_ps(s.inv);
  return s.of;
}

static inline __m256i eight_codes_avx2(const float *x, __m256 inv) {
  const __m256 lo = _mm256_set1_ps(-255.0f), hi = _mm256_set1_ps(255.0f);
  return _mm256_cvtps_epi32(_mm256_min_ps(_mm256_max_ps(_mm256_mul_ps(_mm256_loadu_ps(x), inv), lo), hi));
}

/* 16 codes in memory order. */
static inline __m256i codes16(const float *x, __m256 inv) {
  return _mm256_permute4x64_epi64(_mm256_packs_epi32(eight_codes_avx2(x, inv), eight_codes_avx2(x + 8, inv)), 0xd8);
}

void tni_x86_quant_q9g128_f32_1x128_avx2(const float *x, size_t K, size_t K_padded, const tni_clt_act *a, size_t m) {
  int8_t *out = a->q + m * a->q_stride;
  for (size_t k = 0, g = 0; k < K_padded; k += GROUP, g++) {
    float tail[GROUP];
    const float *from = tni_clt_lut_group_at(x, K, k, tail);
    __m256 inv;
    a->scale[m * a->s_stride + g] = group_scale(from, a->runs, &inv);
    for (size_t i = 0; i < GROUP; i += 16, out += 32)
      _mm256_storeu_si256((__m256i *)(void *)out, codes16(from + i, inv));
  }
}

/* Every byte of a quad: element j of it. Two quads of a 128-bit lane have 8 bytes each. */
static inline __m256i quad_element(__m256i codes, int j) {
  const __m256i first =
      _mm256_setr_epi8(0, 0, 0, 0, 0, 0, 0, 0, 4, 4, 4, 4, 4, 4, 4, 4, 0, 0, 0, 0, 0, 0, 0, 0, 4, 4, 4, 4, 4, 4, 4, 4);
  return _mm256_shuffle_epi8(codes, _mm256_add_epi8(first, _mm256_set1_epi8((char)j)));
}

/* Tables of four quads, 64 bytes. codes: their bytes modulo 256, two quads at the front of each lane; base, abs: minus
 * the sum of the negative ones, and the sum of magnitudes, at the quad's first byte. */
static inline void tables4(__m256i codes, __m256i base, __m256i abs, uint8_t *out) {
  const __m256i bit0 = _mm256_set1_epi64x((long long)0xff00ff00ff00ff00), bit1 = _mm256_set1_epi32((int)0xffff0000),
                bit2 = _mm256_set1_epi64x((long long)0xffffffff00000000),
                turn = _mm256_setr_epi8(7, 6, 5, 4, 3, 2, 1, 0, 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0,
                                        15, 14, 13, 12, 11, 10, 9, 8);
  __m256i low = quad_element(base, 0);
  low = _mm256_add_epi8(low, _mm256_and_si256(quad_element(codes, 0), bit0));
  low = _mm256_add_epi8(low, _mm256_and_si256(quad_element(codes, 1), bit1));
  low = _mm256_add_epi8(low, _mm256_and_si256(quad_element(codes, 2), bit2));
  __m256i high = _mm256_shuffle_epi8(_mm256_sub_epi8(quad_element(abs, 0), low), turn);
  __m256i even = _mm256_unpacklo_epi64(low, high), odd = _mm256_unpackhi_epi64(low, high);
  _mm256_storeu_si256((__m256i *)(void *)out, _mm256_permute2x128_si256(even, odd, 0x20));
  _mm256_storeu_si256((__m256i *)(void *)(out + 32), _mm256_permute2x128_si256(even, odd, 0x31));
}

/* Sum of eight s32. */
static inline int32_t total_of_eight(__m256i v) {
  __m128i s = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4e));
  s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0xb1));
  return _mm_cvtsi128_si32(s);
}

__attribute__((always_inline)) static inline void build_tables_avx2(int32_t full, int32_t zero, const float *x,
                                                                    size_t K, size_t K_padded, const tni_clt_act *a,
                                                                    size_t m) {
  const __m256i ones = _mm256_set1_epi16(1), byte = _mm256_set1_epi16(255), none = _mm256_setzero_si256();
  uint8_t *out = (uint8_t *)a->q + m * a->q_stride;
  for (size_t k = 0, g = 0; k < K_padded; k += GROUP, g++) {
    float tail[GROUP];
    const float *from = tni_clt_lut_group_at(x, K, k, tail);
    __m256 inv;
    __m256i sum = none, abs = none;
    a->scale[m * a->s_stride + g] = group_scale(from, a->runs, &inv);
    for (size_t i = 0; i < GROUP; i += 16, out += 64) {
      __m256i q = codes16(from + i, inv), mag = _mm256_abs_epi16(q);
      __m256i negative = _mm256_max_epi16(_mm256_sub_epi16(none, q), none);
      sum = _mm256_add_epi32(sum, _mm256_madd_epi16(q, ones));
      abs = _mm256_add_epi32(abs, _mm256_madd_epi16(mag, ones));
      /* Pairs, then quads: lanes of s16 (quad 0 .. 1 of each 128 bits, twice). */
      __m256i per_quad = _mm256_hadd_epi16(_mm256_hadd_epi16(negative, mag), none);
      __m256i bases = _mm256_shuffle_epi8(per_quad, _mm256_set1_epi64x(0x0000000200000000));
      __m256i mags = _mm256_shuffle_epi8(per_quad, _mm256_set1_epi64x(0x0000000600000004));
      tables4(_mm256_packus_epi16(_mm256_and_si256(q, byte), none), bases, mags, out);
    }
    a->zero[m * a->z_stride + g] = (full - zero) * total_of_eight(sum) - full * total_of_eight(abs);
  }
}

#define TABLES(id, full, zero)                                                                               \
  void tni_x86_tables_##id##_f32_1x128_avx2(const float *x, size_t K, size_t K_padded, const tni_clt_act *a, \
                                            size_t m) {                                                      \
    build_tables_avx2(full, zero, x, K, K_padded, a, m);                                                     \
  }
TNI_CLT_LUT_TABLES(TABLES)
#undef TABLES
