/* SPDX-License-Identifier: Apache-2.0
 *
 * One activation row times 16 outputs, streaming the packed block once: two registers are the outputs, low and high
 * nibbles have sums of their own, one of which starts from the word of x.
 */
#include <immintrin.h>

#include "plugins/common/formats/formats.h"
#include "plugins/cpu-avx2-lut/kernels/codes_avx2.h"
#include "plugins/cpu-avx2-lut/kernels/kernels.h"

static inline __m256i load_nibbles(const uint8_t *p) { return _mm256_load_si256((const __m256i *)(const void *)p); }

static inline __m256 add_scaled(__m256 y, __m256i sum, const uint8_t *halves, float sx) {
  const __m256 sw = _mm256_cvtph_ps(_mm_load_si128((const __m128i *)(const void *)halves));
  return _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum), _mm256_mul_ps(sw, _mm256_set1_ps(sx)), y);
}

__attribute__((always_inline)) static inline void gemv_w4_avxvnni(size_t group, size_t sb_bytes, bool fetch,
                                                                  const uint8_t *block, size_t superblocks,
                                                                  const tni_clt_act *a, float *acc) {
  const __m256i nibble = _mm256_set1_epi8(15), none = _mm256_setzero_si256();
  const int8_t *q = a->q;
  const float *sx = a->scale;
  const int32_t *zero = a->zero;
  __m256 y0 = _mm256_setzero_ps(), y1 = y0;
  for (size_t sb = 0; sb < superblocks; sb++, block += sb_bytes) {
    const uint8_t *code = block + 64;
    for (size_t i = 0; fetch && i < sb_bytes; i += 64)
      _mm_prefetch((const char *)block + TNI_X86_AHEAD + i, _MM_HINT_T0);
    for (size_t g = 0; g < 2; g++, sx++, zero++) {
      __m256i lo0 = _mm256_set1_epi32(*zero), lo1 = lo0, hi0 = none, hi1 = none;
#pragma GCC unroll 4
      for (size_t k = 0; k < group; k += 8, q += 8, code += 64) {
        const __m256i v0 = load_nibbles(code), v1 = load_nibbles(code + 32), a0 = four_codes(q), a1 = four_codes(q + 4);
        lo0 = _mm256_dpbusd_avx_epi32(lo0, _mm256_and_si256(v0, nibble), a0);
        lo1 = _mm256_dpbusd_avx_epi32(lo1, _mm256_and_si256(v1, nibble), a0);
        hi0 = _mm256_dpbusd_avx_epi32(hi0, _mm256_and_si256(_mm256_srli_epi16(v0, 4), nibble), a1);
        hi1 = _mm256_dpbusd_avx_epi32(hi1, _mm256_and_si256(_mm256_srli_epi16(v1, 4), nibble), a1);
      }
      y0 = add_scaled(y0, _mm256_add_epi32(lo0, hi0), block + g * 32, *sx);
      y1 = add_scaled(y1, _mm256_add_epi32(lo1, hi1), block + g * 32 + 16, *sx);
    }
  }
  _mm256_storeu_ps(acc, y0);
  _mm256_storeu_ps(acc + 8, y1);
}

#define GEMV(group, isa, fetch)                                                                            \
  void tni_x86_gemv_f32_q8g##group##_w4g##group##_1x16_##isa(const uint8_t *row_block, size_t superblocks, \
                                                             const tni_clt_act *a, float *acc) {           \
    gemv_w4_avxvnni(group, sizeof(tni_w4g_sb##group), fetch, row_block, superblocks, a, acc);              \
  }
GEMV(32, avxvnni, false)
GEMV(128, avxvnni, false)
GEMV(32, avxvnni_prefetch, true)
GEMV(128, avxvnni_prefetch, true)
