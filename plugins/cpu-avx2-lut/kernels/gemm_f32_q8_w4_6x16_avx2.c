/* SPDX-License-Identifier: Apache-2.0
 *
 * w4g for the tiles of AVX2 and of AVX-VNNI: a panel is unpacked once to bytes and used by all rows. Below, few rows
 * without one.
 */
#include <immintrin.h>
#include <stdbool.h>
#include <string.h>

#include "plugins/common/formats/formats.h"
#include "plugins/cpu-avx2-lut/kernels/codes_avx2.h"
#include "plugins/cpu-avx2-lut/kernels/panel.h"

static void unpack_panel(tni_x86_panel *p, const uint8_t *sb, size_t n_sb, size_t group, size_t sb_bytes) {
  const __m256i nibble = _mm256_set1_epi8(15);
  uint8_t *out = &p->w[0][0];
  for (size_t s = 0; s < n_sb; s++, sb += sb_bytes) {
    for (size_t c = 0; c < group / 4; c++, out += 128) {
      for (size_t half = 0; half < 64; half += 32) {
        __m256i v = _mm256_load_si256((const __m256i *)(const void *)(sb + 64 + c * 64 + half));
        __m256i lo = _mm256_and_si256(v, nibble), hi = _mm256_and_si256(_mm256_srli_epi16(v, 4), nibble);
        _mm256_store_si256((__m256i *)(void *)(out + half), lo);
        _mm256_store_si256((__m256i *)(void *)(out + 64 + half), hi);
      }
    }
    for (size_t j = 0; j < 4; j++) {
      __m256 f = _mm256_cvtph_ps(_mm_load_si128((const __m128i *)(const void *)(sb + j * 16)));
      _mm256_store_ps(&p->scale[s * 2 + j / 2][j % 2 * 8], f);
    }
  }
  p->groups = n_sb * 2;
}

static void gemm_w4_avx2(size_t group, size_t sb_bytes, tni_x86_tiles_fn tiles, const uint8_t *block,
                         size_t superblocks, const tni_clt_act *a, size_t m0, size_t m1, float *acc) {
  tni_x86_panel p;
  const size_t per_panel = TNI_X86_PANEL_K / (2 * group);
  for (size_t sb = 0; sb < superblocks; sb += per_panel) {
    size_t n = superblocks - sb < per_panel ? superblocks - sb : per_panel;
    unpack_panel(&p, block + sb * sb_bytes, n, group, sb_bytes);
    p.next = block + (sb + per_panel) * sb_bytes;
    p.next_bytes = per_panel * sb_bytes;
    p.first_group = sb * 2;
    tiles(&p, a, m0, m1, sb == 0, acc);
  }
}

#define GEMM(group, isa)                                                                                               \
  void tni_x86_gemm_f32_q8g##group##_w4g##group##_6x16_##isa(const uint8_t *row_block, size_t superblocks,             \
                                                             const tni_clt_act *a, size_t m0, size_t m1, float *acc) { \
    gemm_w4_avx2(group, sizeof(tni_w4g_sb##group), tni_x86_tiles_g##group##_6x16_##isa, row_block, superblocks, a, m0, \
                 m1, acc);                                                                                             \
  }
GEMM(32, avx2)
GEMM(128, avx2)
GEMM(32, avxvnni)
GEMM(128, avxvnni)

/* --- few rows ------------------------------------------------------------------------------------------------------
 * Up to four rows of x times 16 outputs, streaming the packed block once: the GEMV with two registers of s16 sums for
 * each row. f32 sums live in acc; their order is that of the GEMV. No panel: four rows do not pay for writing one. */

enum { FEW_M = 4 };

#define START(i) __m256i s##i##0 = _mm256_set1_epi32(zero[i * z_stride]), s##i##1 = s##i##0;
#define WIDEN(i)                                                               \
  kept[i][0] = _mm256_add_epi32(kept[i][0], _mm256_madd_epi16(s##i##0, ones)); \
  kept[i][1] = _mm256_add_epi32(kept[i][1], _mm256_madd_epi16(s##i##1, ones));
#define CLEAR(i) kept[i][0] = kept[i][1] = _mm256_setzero_si256();
#define FINISH(i)                                                                                                      \
  {                                                                                                                    \
    const __m256 by = _mm256_set1_ps(sx[i * s_stride]);                                                                \
    float *y = acc + i * TNI_CLT_ROWS;                                                                                 \
    _mm256_storeu_ps(y, _mm256_fmadd_ps(_mm256_cvtepi32_ps(kept[i][0]), _mm256_mul_ps(sw0, by), _mm256_loadu_ps(y)));  \
    _mm256_storeu_ps(y + 8,                                                                                            \
                     _mm256_fmadd_ps(_mm256_cvtepi32_ps(kept[i][1]), _mm256_mul_ps(sw1, by), _mm256_loadu_ps(y + 8))); \
  }

static inline __m256 halves_at(const uint8_t *p) {
  return _mm256_cvtph_ps(_mm_load_si128((const __m128i *)(const void *)p));
}

/* Rows [m, m + rows). */
#define FEW_ROWS(rows, REP)                                                                            \
  __attribute__((always_inline)) static inline void few_rows_##rows(                                   \
      size_t group, size_t sub, size_t sb_bytes, bool fetch, const uint8_t *block, size_t superblocks, \
      const tni_clt_act *a, size_t m, float *acc) {                                                    \
    const size_t q_stride = a->q_stride, z_stride = a->z_stride, s_stride = a->s_stride;               \
    const __m256i nibble = _mm256_set1_epi8(15), ones = _mm256_set1_epi16(1);                          \
    const int8_t *q = a->q + m * q_stride;                                                             \
    const float *sx = a->scale + m * s_stride;                                                         \
    const int32_t *zero = a->zero + m * z_stride;                                                      \
    memset(acc, 0, (rows)*TNI_CLT_ROWS * sizeof *acc);                                                 \
    for (size_t sb = 0; sb < superblocks; sb++, block += sb_bytes) {                                   \
      const uint8_t *code = block + 64;                                                                \
      for (size_t i = 0; fetch && i < sb_bytes; i += 64)                                               \
        _mm_prefetch((const char *)block + TNI_X86_AHEAD + i, _MM_HINT_T0);                            \
      for (size_t g = 0; g < 2; g++, sx++) {                                                           \
        __m256i kept[rows][2];                                                                         \
        REP(CLEAR)                                                                                     \
        for (size_t k = 0; k < group; k += sub, zero++) {                                              \
          REP(START)                                                                                   \
          for (size_t c = 0; c < sub; c += 8, code += 64, q += 4) {                                    \
            const __m256i v0 = _mm256_load_si256((const __m256i *)(const void *)code);                 \
            const __m256i v1 = _mm256_load_si256((const __m256i *)(const void *)(code + 32));          \
            __m256i w0 = _mm256_and_si256(v0, nibble), w1 = _mm256_and_si256(v1, nibble);              \
            REP(STEP_S16)                                                                              \
            q += 4;                                                                                    \
            w0 = _mm256_and_si256(_mm256_srli_epi16(v0, 4), nibble);                                   \
            w1 = _mm256_and_si256(_mm256_srli_epi16(v1, 4), nibble);                                   \
            REP(STEP_S16)                                                                              \
          }                                                                                            \
          REP(WIDEN)                                                                                   \
        }                                                                                              \
        const __m256 sw0 = halves_at(block + g * 32), sw1 = halves_at(block + g * 32 + 16);            \
        REP(FINISH)                                                                                    \
      }                                                                                                \
    }                                                                                                  \
  }
FEW_ROWS(1, TNI_X86_REP1)
FEW_ROWS(2, TNI_X86_REP2)
FEW_ROWS(3, TNI_X86_REP3)
FEW_ROWS(4, TNI_X86_REP4)
#undef FEW_ROWS
#undef FINISH
#undef CLEAR
#undef WIDEN
#undef START

__attribute__((always_inline)) static inline void gemm_w4_few(size_t group, size_t sub, size_t sb_bytes, bool fetch,
                                                              const uint8_t *block, size_t superblocks,
                                                              const tni_clt_act *a, size_t m0, size_t m1, float *acc) {
  for (size_t m = m0, n; m < m1; m += n, acc += n * TNI_CLT_ROWS) {
    n = m1 - m < FEW_M ? m1 - m : FEW_M;
    switch (n) {
      case 1:
        few_rows_1(group, sub, sb_bytes, fetch, block, superblocks, a, m, acc);
        break;
      case 2:
        few_rows_2(group, sub, sb_bytes, fetch, block, superblocks, a, m, acc);
        break;
      case 3:
        few_rows_3(group, sub, sb_bytes, fetch, block, superblocks, a, m, acc);
        break;
      default:
        few_rows_4(group, sub, sb_bytes, fetch, block, superblocks, a, m, acc);
        break;
    }
  }
}

#define FEW(group, sub, isa, fetch)                                                                                    \
  void tni_x86_gemm_f32_q8g##group##_w4g##group##_4x16_##isa(const uint8_t *row_block, size_t superblocks,             \
                                                             const tni_clt_act *a, size_t m0, size_t m1, float *acc) { \
    gemm_w4_few(group, sub, sizeof(tni_w4g_sb##group), fetch, row_block, superblocks, a, m0, m1, acc);                 \
  }
FEW(32, 32, avx2, false)
FEW(128, 64, avx2, false)
FEW(32, 32, avx2_prefetch, true)
FEW(128, 64, avx2_prefetch, true)
