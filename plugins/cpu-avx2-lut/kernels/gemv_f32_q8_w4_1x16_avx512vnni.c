/* SPDX-License-Identifier: Apache-2.0
 *
 * One activation row times 16 outputs, streaming the packed block once: a register is 16 outputs, low and high nibbles
 * have sums of their own, one of which starts from the word of x. Long groups have two of each, which would wait for
 * themselves; short ones run beside the next.
 */
#include <immintrin.h>
#include <string.h>

#include "plugins/common/formats/formats.h"
#include "plugins/cpu-avx2-lut/kernels/kernels.h"

static inline __m512i four_codes(const int8_t *q) {
  int32_t v;
  memcpy(&v, q, sizeof v);
  return _mm512_set1_epi32(v);
}

__attribute__((always_inline)) static inline void gemv_w4_avx512vnni(size_t group, size_t sb_bytes, bool fetch,
                                                                     const uint8_t *block, size_t superblocks,
                                                                     const tni_clt_act *a, float *acc) {
  const __m512i nibble = _mm512_set1_epi8(15);
  const int8_t *q = a->q;
  const float *sx = a->scale;
  const int32_t *zero = a->zero;
  __m512 y = _mm512_setzero_ps();
  for (size_t sb = 0; sb < superblocks; sb++, block += sb_bytes) {
    const uint8_t *code = block + 64;
    for (size_t i = 0; fetch && i < sb_bytes; i += 64)
      _mm_prefetch((const char *)block + TNI_X86_AHEAD + i, _MM_HINT_T0);
#pragma GCC unroll 2
    for (size_t g = 0; g < 2; g++, sx++, zero++) {
      __m512i lo = _mm512_set1_epi32(*zero), hi = _mm512_setzero_si512(), lo1 = hi, hi1 = hi;
#pragma GCC unroll 4
      for (size_t k = 0; k < group; k += 8, q += 8, code += 64) {
        const __m512i v = _mm512_load_si512(code), low = _mm512_and_si512(v, nibble);
        const __m512i high = _mm512_and_si512(_mm512_srli_epi16(v, 4), nibble);
        if (group > 32 && k % 16) {
          lo1 = _mm512_dpbusd_epi32(lo1, low, four_codes(q));
          hi1 = _mm512_dpbusd_epi32(hi1, high, four_codes(q + 4));
        } else {
          lo = _mm512_dpbusd_epi32(lo, low, four_codes(q));
          hi = _mm512_dpbusd_epi32(hi, high, four_codes(q + 4));
        }
      }
      if (group > 32) lo = _mm512_add_epi32(lo, lo1), hi = _mm512_add_epi32(hi, hi1);
      __m512 sw = _mm512_cvtph_ps(_mm256_load_si256((const __m256i *)(const void *)(block + g * 32)));
      y = _mm512_fmadd_ps(_mm512_cvtepi32_ps(_mm512_add_epi32(lo, hi)), _mm512_mul_ps(sw, _mm512_set1_ps(*sx)), y);
    }
  }
  _mm512_storeu_ps(acc, y);
}

#define GEMV(group, isa, fetch)                                                                            \
  void tni_x86_gemv_f32_q8g##group##_w4g##group##_1x16_##isa(const uint8_t *row_block, size_t superblocks, \
                                                             const tni_clt_act *a, float *acc) {           \
    gemv_w4_avx512vnni(group, sizeof(tni_w4g_sb##group), fetch, row_block, superblocks, a, acc);           \
  }
GEMV(32, avx512vnni, false)
GEMV(128, avx512vnni, false)
GEMV(32, avx512vnni_prefetch, true)
GEMV(128, avx512vnni_prefetch, true)
