/* SPDX-License-Identifier: Apache-2.0
 *
 * tern17, three trits in five bits: two lookups of 16 entries give a code's trits side by side, two bits each.
 */
#include <immintrin.h>
#include <string.h>

#include "plugins/common/formats/formats.h"
#include "plugins/cpu-avx2-lut/kernels/tern17.h"

enum { UNIT = TNI_X86_TERN17_UNIT };

static inline __m256i cut_trits(__m256i v, int shift, int mask) {
  return _mm256_and_si256(_mm256_srli_epi16(v, shift), _mm256_set1_epi8((char)mask));
}

/* sum += codes times q[0..3], in every lane. */
static inline __m256i dot_trits(__m256i sum, __m256i codes, const int8_t *q) {
  int32_t v;
  memcpy(&v, q, sizeof v);
  return _mm256_add_epi16(sum, _mm256_maddubs_epi16(codes, _mm256_set1_epi32(v)));
}

static inline __m256 add_scaled(__m256 y, __m256i sum, __m256 sw, float sx) {
  return _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum), _mm256_mul_ps(sw, _mm256_set1_ps(sx)), y);
}

/* What group g's zero points of 1 take off. */
static inline __m256i start_of(const tni_clt_act *a, size_t g) {
  const __m256i z0 = _mm256_set1_epi32(a->zero[2 * g]), z1 = _mm256_set1_epi32(a->zero[2 * g + 1]);
  return _mm256_add_epi16(_mm256_srai_epi16(z0, 3), _mm256_srai_epi16(z1, 3));
}

/* Eight rows. A group's s16 sums stay within 32 * 508. */
__attribute__((always_inline)) static inline void tern17(bool fetch, const uint8_t *u, size_t units, const float *scale,
                                                         const tni_clt_act *a, float *acc) {
  const __m256 sw = _mm256_load_ps(scale);
  const int8_t *q = a->q;
  __m256 y = _mm256_setzero_ps();
  __m256i s = start_of(a, 0);
  size_t part = 0; /* of 32 k */
  for (size_t i = 0; i < units; i++, u += 320) {
    __m256i v[8];
    for (size_t line = 0; fetch && line < UNIT; line += 64)
      _mm_prefetch((const char *)u + TNI_X86_AHEAD + line, _MM_HINT_T0);
    tni_x86_tern17_open(u, v);
#pragma GCC unroll 3
    for (int t = 0; t < 3; t++, q += 32) {
#pragma GCC unroll 8
      for (int j = 0; j < 8; j++) s = dot_trits(s, cut_trits(v[j], 2 * t, 3), q + j * 4);
      if (++part % 4) continue;
      y = add_scaled(y, _mm256_madd_epi16(s, _mm256_set1_epi16(1)), sw, a->scale[part / 4 - 1]);
      if (i + 1 < units || t < 2) s = start_of(a, part / 4);
    }
  }
  if (part % 4) y = add_scaled(y, _mm256_madd_epi16(s, _mm256_set1_epi16(1)), sw, a->scale[part / 4]);
  _mm256_storeu_ps(acc, y);
}

void tni_x86_gemv_f32_q8g128_tern17_1x16_avx2(const uint8_t *row_block, size_t superblocks, const tni_clt_act *a,
                                              float *acc) {
  const float *scale = (const float *)(const void *)row_block;
  tern17(false, row_block + TNI_DOT_SCALE_BYTES, superblocks, scale, a, acc);
  tern17(false, row_block + TNI_DOT_SCALE_BYTES + 32, superblocks, scale + 8, a, acc + 8);
}

/* The second half finds its weights in the cache. */
void tni_x86_gemv_f32_q8g128_tern17_1x16_avx2_prefetch(const uint8_t *row_block, size_t superblocks,
                                                       const tni_clt_act *a, float *acc) {
  const float *scale = (const float *)(const void *)row_block;
  tern17(true, row_block + TNI_DOT_SCALE_BYTES, superblocks, scale, a, acc);
  tern17(false, row_block + TNI_DOT_SCALE_BYTES + 32, superblocks, scale + 8, a, acc + 8);
}

static void unpack_third(const uint8_t *u, int t, int zero, uint8_t *out) {
  for (int half = 0; half < 64; half += 32) {
    __m256i v[8];
    tni_x86_tern17_open(u + half, v);
    for (int j = 0; j < 8; j++) {
      const __m256i code = _mm256_and_si256(_mm256_srl_epi16(v[j], _mm_cvtsi32_si128(2 * t)), _mm256_set1_epi8(3));
      _mm256_store_si256((__m256i *)(void *)(out + j * 64 + half),
                         _mm256_add_epi8(code, _mm256_set1_epi8((char)(zero - 1))));
    }
  }
}

void tni_x86_gemm_f32_q8g128_tern17_6x16_avx2(const uint8_t *row_block, size_t superblocks, const tni_clt_act *a,
                                              size_t m0, size_t m1, float *acc) {
  tni_x86_gemm_tern17(unpack_third, 8, tni_x86_tiles_g128_6x16_avx2, NULL, row_block, 0, superblocks, a, m0, m1, &acc);
}

void tni_x86_gemm_f32_q8g128_tern17_6x16_avxvnni(const uint8_t *row_block, size_t superblocks, const tni_clt_act *a,
                                                 size_t m0, size_t m1, float *acc) {
  tni_x86_gemm_tern17(unpack_third, 8, tni_x86_tiles_g128_6x16_avxvnni, NULL, row_block, 0, superblocks, a, m0, m1,
                      &acc);
}
