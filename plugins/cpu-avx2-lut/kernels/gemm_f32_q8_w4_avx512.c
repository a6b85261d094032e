/* SPDX-License-Identifier: Apache-2.0
 *
 * w4g for the tiles of AVX-512 VNNI and of AMX: panels are unpacked in registers of 64 bytes. Below, few rows without one.
 */
#include <immintrin.h>
#include <stdbool.h>
#include <string.h>

#include "plugins/common/formats/formats.h"
#include "plugins/cpu-avx2-lut/kernels/panel.h"

/* For AMX codes lose their zero point, and groups of 32 leave room for the zeros of a pair. */
__attribute__((always_inline)) static inline void unpack_w4_avx512(size_t group, size_t sb_bytes, bool amx,
                                                                   const uint8_t *sb, size_t n_sb, tni_x86_panel *p) {
  const __m512i nibble = _mm512_set1_epi8(15), minus = _mm512_set1_epi8(amx ? 8 : 0);
  uint8_t *out = &p->w[0][0];
  for (size_t s = 0; s < n_sb; s++, sb += sb_bytes) {
    for (size_t c = 0; c < group / 4; c++, out += 128) {
      if (amx && group == 32 && c == 4) out += TNI_X86_PAIR_LINES / 3 * 64;
      __m512i v = _mm512_load_si512(sb + 64 + c * 64);
      __m512i lo = _mm512_and_si512(v, nibble), hi = _mm512_and_si512(_mm512_srli_epi16(v, 4), nibble);
      _mm512_store_si512(out, _mm512_sub_epi8(lo, minus));
      _mm512_store_si512(out + 64, _mm512_sub_epi8(hi, minus));
    }
    for (size_t g = 0; g < 2; g++) {
      __m256i halves = _mm256_load_si256((const __m256i *)(const void *)(sb + g * 32));
      _mm512_store_ps(p->scale[s * 2 + g], _mm512_cvtph_ps(halves));
    }
  }
  p->groups = n_sb * 2;
}

/* One row block by `tiles`, or two, block_bytes apart, by `tiles2`. */
__attribute__((always_inline)) static inline void gemm_w4_avx512(size_t group, size_t sb_bytes, bool amx,
                                                                 tni_x86_tiles_fn tiles, tni_x86_tiles2_fn tiles2,
                                                                 const uint8_t *block, size_t block_bytes,
                                                                 size_t superblocks, const tni_clt_act *a, size_t m0,
                                                                 size_t m1, float *const *acc) {
  tni_x86_panel p[2];
  const bool pairs = amx && group == 32;
  const size_t per_panel = (pairs ? TNI_X86_PAIR_PANEL_K : TNI_X86_PANEL_K) / (2 * group), blocks = tiles2 ? 2 : 1;
  for (size_t i = 0; pairs && i < blocks; i++) memset(p[i].w, 0, sizeof p[i].w);
  if (amx) tni_x86_amx_begin();
  for (size_t sb = 0; sb < superblocks; sb += per_panel) {
    size_t n = superblocks - sb < per_panel ? superblocks - sb : per_panel;
    for (size_t i = 0; i < blocks; i++) {
      const uint8_t *from = block + i * block_bytes + sb * sb_bytes;
      unpack_w4_avx512(group, sb_bytes, amx, from, n, &p[i]);
      p[i].next = from + per_panel * sb_bytes;
      p[i].next_bytes = per_panel * sb_bytes;
      p[i].first_group = sb * 2;
    }
    tni_x86_tiles(tiles, tiles2, p, a, m0, m1, sb == 0, acc);
  }
  if (amx) tni_x86_amx_end();
}

#define GEMM(group, tile, isa, amx)                                                                                    \
  void tni_x86_gemm_f32_q8g##group##_w4g##group##_##tile##_##isa(                                                      \
      const uint8_t *row_block, size_t superblocks, const tni_clt_act *a, size_t m0, size_t m1, float *acc) {          \
    gemm_w4_avx512(group, sizeof(tni_w4g_sb##group), amx, tni_x86_tiles_g##group##_##tile##_##isa, NULL, row_block, 0, \
                   superblocks, a, m0, m1, &acc);                                                                      \
  }
#define GEMM2(group, tile, isa, amx)                                                                                   \
  void tni_x86_gemm2_f32_q8g##group##_w4g##group##_##tile##_##isa(const uint8_t *row_blocks, size_t block_bytes,       \
                                                                  size_t superblocks, const tni_clt_act *a, size_t m0, \
                                                                  size_t m1, float *const *acc) {                      \
    gemm_w4_avx512(group, sizeof(tni_w4g_sb##group), amx, NULL, tni_x86_tiles_g##group##_##tile##_##isa, row_blocks,   \
                   block_bytes, superblocks, a, m0, m1, acc);                                                          \
  }
GEMM(32, 12x16, avx512vnni, false)
GEMM(128, 12x16, avx512vnni, false)
GEMM2(32, 6x32, avx512vnni, false)
GEMM2(128, 12x32, avx512vnni, false)
GEMM(32, 32x16, amx, true)
GEMM(128, 32x16, amx, true)
GEMM2(32, 16x32, amx, true)
GEMM2(128, 16x32, amx, true)

/* --- few rows ------------------------------------------------------------------------------------------------------
 * Up to four rows of x times 16 outputs, streaming the packed block once: the GEMV with a pair of sums for each row, so
 * that eight chains of products run side by side. No panel: four rows do not pay for writing one. */

enum { FEW_M = 4 };

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
  __m512 y[FEW_M];
#pragma GCC unroll 4
  for (size_t i = 0; i < rows; i++) y[i] = _mm512_setzero_ps();
  for (size_t sb = 0; sb < superblocks; sb++, block += sb_bytes) {
    const uint8_t *code = block + 64;
    for (size_t i = 0; fetch && i < sb_bytes; i += 64)
      _mm_prefetch((const char *)block + TNI_X86_AHEAD + i, _MM_HINT_T0);
    for (size_t g = 0; g < 2; g++, sx++, zero++) {
      __m512i lo[FEW_M], hi[FEW_M];
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
    n = m1 - m < FEW_M ? m1 - m : FEW_M;
    switch (n) {
      case 1: few_rows(1, group, sb_bytes, fetch, block, superblocks, a, m, acc); break;
      case 2: few_rows(2, group, sb_bytes, fetch, block, superblocks, a, m, acc); break;
      case 3: few_rows(3, group, sb_bytes, fetch, block, superblocks, a, m, acc); break;
      default: few_rows(FEW_M, group, sb_bytes, fetch, block, superblocks, a, m, acc); break;
    }
  }
}

#define FEW(group, isa, fetch)                                                                                         \
  void tni_x86_gemm_f32_q8g##group##_w4g##group##_4x16_##isa(const uint8_t *row_block, size_t superblocks,             \
                                                             const tni_clt_act *a, size_t m0, size_t m1, float *acc) { \
    gemm_w4_few(group, sizeof(tni_w4g_sb##group), fetch, row_block, superblocks, a, m0, m1, acc);                      \
  }
FEW(32, avx512vnni, false)
FEW(128, avx512vnni, false)
FEW(32, avx512vnni_prefetch, true)
FEW(128, avx512vnni_prefetch, true)
