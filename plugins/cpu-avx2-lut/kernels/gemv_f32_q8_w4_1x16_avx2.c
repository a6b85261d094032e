/* SPDX-License-Identifier: Apache-2.0
 *
 * One activation row times 16 outputs, streaming the packed block once. Two ymm of s16 sums (rows 0-7 and 8-15) start
 * from the zero-point word and take 32 or 64 k before they are widened.
 */
#include <immintrin.h>

#include "plugins/common/formats/formats.h"
#include "plugins/cpu-avx2-lut/kernels/codes_avx2.h"
#include "plugins/cpu-avx2-lut/kernels/kernels.h"

/* `chunks` chunks of 8 k into s16 sums, then pairs widened to s32. */
__attribute__((always_inline)) static inline void sub_group(const uint8_t *code, size_t chunks, const int8_t *q,
                                                            int32_t zero, __m256i *lo_rows, __m256i *hi_rows) {
  const __m256i nibble = _mm256_set1_epi8(15), ones = _mm256_set1_epi16(1);
  __m256i s0 = _mm256_set1_epi32(zero), s1 = s0;
#pragma GCC unroll 8
  for (size_t c = 0; c < chunks; c++) {
    __m256i v0 = _mm256_load_si256((const __m256i *)(const void *)(code + c * 64));
    __m256i v1 = _mm256_load_si256((const __m256i *)(const void *)(code + c * 64 + 32));
    __m256i a = four_codes(q + c * 8), b = four_codes(q + c * 8 + 4);
    s0 = _mm256_add_epi16(s0, _mm256_maddubs_epi16(_mm256_and_si256(v0, nibble), a));
    s1 = _mm256_add_epi16(s1, _mm256_maddubs_epi16(_mm256_and_si256(v1, nibble), a));
    v0 = _mm256_and_si256(_mm256_srli_epi16(v0, 4), nibble);
    v1 = _mm256_and_si256(_mm256_srli_epi16(v1, 4), nibble);
    s0 = _mm256_add_epi16(s0, _mm256_maddubs_epi16(v0, b));
    s1 = _mm256_add_epi16(s1, _mm256_maddubs_epi16(v1, b));
  }
  *lo_rows = _mm256_add_epi32(*lo_rows, _mm256_madd_epi16(s0, ones));
  *hi_rows = _mm256_add_epi32(*hi_rows, _mm256_madd_epi16(s1, ones));
}

static inline __m256 add_scaled(__m256 y, __m256i sum, const uint8_t *halves, float sx) {
  __m256 sw = _mm256_cvtph_ps(_mm_load_si128((const __m128i *)(const void *)halves));
  return _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum), _mm256_mul_ps(sw, _mm256_set1_ps(sx)), y);
}

__attribute__((always_inline)) static inline void gemv_w4_avx2(size_t group, size_t sub, size_t sb_bytes, bool fetch,
                                                               const uint8_t *block, size_t superblocks,
                                                               const tni_clt_act *a, float *acc) {
  const int8_t *q = a->q;
  const float *sx = a->scale;
  const int32_t *zero = a->zero;
  __m256 y0 = _mm256_setzero_ps(), y1 = y0;
  for (size_t sb = 0; sb < superblocks; sb++, block += sb_bytes) {
    const uint8_t *code = block + 64;
    for (size_t i = 0; fetch && i < sb_bytes; i += 64)
      _mm_prefetch((const char *)block + TNI_X86_AHEAD + i, _MM_HINT_T0);
    for (size_t g = 0; g < 2; g++, sx++) {
      __m256i t0 = _mm256_setzero_si256(), t1 = t0;
      for (size_t k = 0; k < group; k += sub, q += sub, code += sub * 8) sub_group(code, sub / 8, q, *zero++, &t0, &t1);
      y0 = add_scaled(y0, t0, block + g * 32, *sx);
      y1 = add_scaled(y1, t1, block + g * 32 + 16, *sx);
    }
  }
  _mm256_storeu_ps(acc, y0);
  _mm256_storeu_ps(acc + 8, y1);
}

#define GEMV(group, sub, isa, fetch)                                                                       \
  void tni_x86_gemv_f32_q8g##group##_w4g##group##_1x16_##isa(const uint8_t *row_block, size_t superblocks, \
                                                             const tni_clt_act *a, float *acc) {           \
    gemv_w4_avx2(group, sub, sizeof(tni_w4g_sb##group), fetch, row_block, superblocks, a, acc);            \
  }
GEMV(32, 32, avx2, false)
GEMV(128, 64, avx2, false)
GEMV(32, 32, avx2_prefetch, true)
GEMV(128, 64, avx2_prefetch, true)
