/* SPDX-License-Identifier: Apache-2.0
 *
 * Up to four rows of x times 16 outputs, streaming the packed block once: the GEMV with a pair of sums for each row, so
 * that eight chains of products run side by side. No panel: four rows do not pay for writing one.
 */
#include <immintrin.h>
#include <string.h>

#include "plugins/common/formats/formats.h"
#include "plugins/cpu-avx2-lut/kernels/kernels.h"

enum { TILE_M = 4 };

static inline __m512i four_codes(const int8_t *q) {
  int32_t v;
  memcpy(&v, q, sizeof v);
  return _mm512_set1_epi32(v);
}

/* Rows [m, m + rows). */
__attribute__((always_inline)) static inline void few_rows(size_t rows, size_t group, size_t sb_bytes, bool fetch,
                                                           const uint8_t *block, size_t superblocks,
                                                           const tni_clt_act *a, size_t m, float *acc) {
  const __m512i nibble = _mm512_set1_epi8(15);
  const int8_t *q = a->q + m * a->q_stride;
  const float *sx = a->scale + m * a->s_stride;
  const int32_t *zero = a->zero + m * a->z_stride;
  __m512 y[TILE_M];
#pragma GCC unroll 4
  for (size_t i = 0; i < rows; i++) y[i] = _mm512_setzero_ps();
  for (size_t sb = 0; sb < superblocks; sb++, block += sb_bytes) {
    const uint8_t *code = block + 64;
    for (size_t i = 0; fetch && i < sb_bytes; i += 64)
      _mm_prefetch((const char *)block + TNI_X86_AHEAD + i, _MM_HINT_T0);
    for (size_t g = 0; g < 2; g++, sx++, zero++) {
      __m512i lo[TILE_M], hi[TILE_M];
#pragma GCC unroll 4
      for (size_t i = 0; i < rows; i++)
        lo[i] = _mm512_set1_epi32(zero[i * a->z_stride]), hi[i] = _mm512_setzero_si512();
#pragma GCC unroll 4
      for (size_t k = 0; k < group; k += 8, q += 8, code += 64) {
        const __m512i v = _mm512_load_si512(code), low = _mm512_and_si512(v, nibble);
        const __m512i high = _mm512_and_si512(_mm512_srli_epi16(v, 4), nibble);
#pragma GCC unroll 4
        for (size_t i = 0; i < rows; i++) {
          lo[i] = _mm512_dpbusd_epi32(lo[i], low, four_codes(q + i * a->q_stride));
          hi[i] = _mm512_dpbusd_epi32(hi[i], high, four_codes(q + i * a->q_stride + 4));
        }
      }
      const __m512 sw = _mm512_cvtph_ps(_mm256_load_si256((const __m256i *)(const void *)(block + g * 32)));
#pragma GCC unroll 4
      for (size_t i = 0; i < rows; i++)
        y[i] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(_mm512_add_epi32(lo[i], hi[i])),
                               _mm512_mul_ps(sw, _mm512_set1_ps(sx[i * a->s_stride])), y[i]);
    }
  }
#pragma GCC unroll 4
  for (size_t i = 0; i < rows; i++) _mm512_storeu_ps(acc + i * TNI_CLT_ROWS, y[i]);
}

__attribute__((always_inline)) static inline void gemm_w4_few(size_t group, size_t sb_bytes, bool fetch,
                                                              const uint8_t *block, size_t superblocks,
                                                              const tni_clt_act *a, size_t m0, size_t m1, float *acc) {
  for (size_t m = m0, n; m < m1; m += n, acc += n * TNI_CLT_ROWS) {
    n = m1 - m < TILE_M ? m1 - m : TILE_M;
    switch (n) {
      case 1: few_rows(1, group, sb_bytes, fetch, block, superblocks, a, m, acc); break;
      case 2: few_rows(2, group, sb_bytes, fetch, block, superblocks, a, m, acc); break;
      case 3: few_rows(3, group, sb_bytes, fetch, block, superblocks, a, m, acc); break;
      default: few_rows(TILE_M, group, sb_bytes, fetch, block, superblocks, a, m, acc); break;
    }
  }
}

#define GEMM(group, isa, fetch)                                                                                        \
  void tni_x86_gemm_f32_q8g##group##_w4g##group##_4x16_##isa(const uint8_t *row_block, size_t superblocks,             \
                                                             const tni_clt_act *a, size_t m0, size_t m1, float *acc) { \
    gemm_w4_few(group, sizeof(tni_w4g_sb##group), fetch, row_block, superblocks, a, m0, m1, acc);                      \
  }
GEMM(32, avx512vnni, false)
GEMM(128, avx512vnni, false)
GEMM(32, avx512vnni_prefetch, true)
GEMM(128, avx512vnni_prefetch, true)
