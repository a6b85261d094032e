/* SPDX-License-Identifier: Apache-2.0 */
#include <immintrin.h>
#include <string.h>

#include "plugins/cpu-avx2-lut/kernels/codes_avx2.h"
#include "plugins/cpu-avx2-lut/kernels/kernels.h"

enum { MAX_GROUP = 128, STEP = 32 };

static inline float absmax_of(const float *x, size_t group) {
  __m256 m = _mm256_setzero_ps();
  for (size_t i = 0; i < group; i += 8) m = _mm256_max_ps(m, magnitudes(x + i));
  return largest_lane(m);
}

/* Piece by piece: a single chain of maxima would take longer than the codes. */
static float absmax_of_row(const float *x, size_t K) {
  float tail[STEP] = {0};
  __m256 m[4] = {_mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps(), _mm256_setzero_ps()};
  for (size_t k = 0; k < K; k += STEP) {
    const float *from = x + k;
    if (K - k < STEP) from = memcpy(tail, from, (K - k) * sizeof *x);
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) m[i] = _mm256_max_ps(m[i], magnitudes(from + i * 8));
  }
  return largest_lane(_mm256_max_ps(_mm256_max_ps(m[0], m[1]), _mm256_max_ps(m[2], m[3])));
}

/* 32 floats -> 32 codes in memory order. The conversion rounds half to even, the FP mode that every task runs in. */
static inline __m256i codes_of(const float *x, __m256 inv) {
  const __m256 lo = _mm256_set1_ps(-127.0f), hi = _mm256_set1_ps(127.0f);
  __m256i v[4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++) {
    __m256 f = _mm256_mul_ps(_mm256_loadu_ps(x + i * 8), inv);
    v[i] = _mm256_cvtps_epi32(_mm256_min_ps(_mm256_max_ps(f, lo), hi));
  }
  __m256i b = _mm256_packs_epi16(_mm256_packs_epi32(v[0], v[1]), _mm256_packs_epi32(v[2], v[3]));
  return _mm256_permutevar8x32_epi32(b, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

/* -8 * (pair sums): maddubs of ones with codes gives s16 pair sums; add all dwords lane by lane. */
static inline __m256i pair_sums(__m256i codes) { return _mm256_maddubs_epi16(_mm256_set1_epi8(1), codes); }

static inline int32_t zero_word(__m256i sums) {
  __m128i s = _mm_add_epi16(_mm256_castsi256_si128(sums), _mm256_extracti128_si256(sums, 1));
  s = _mm_add_epi16(s, _mm_shuffle_epi32(s, 0x4e));
  s = _mm_add_epi16(s, _mm_shuffle_epi32(s, 0xb1));
  return _mm_cvtsi128_si32(_mm_slli_epi16(_mm_sub_epi16(_mm_setzero_si128(), s), 3));
}

/* -8 * the sum of all. */
static inline int32_t sum_word(__m256i sums) {
  __m256i w = _mm256_madd_epi16(sums, _mm256_set1_epi16(1));
  __m128i s = _mm_add_epi32(_mm256_castsi256_si128(w), _mm256_extracti128_si256(w, 1));
  s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0x4e));
  s = _mm_add_epi32(s, _mm_shuffle_epi32(s, 0xb1));
  return -8 * _mm_cvtsi128_si32(s);
}

/* Where the codes of row m from k on and the scale of group g lie. */
static inline int8_t *codes_at(uint32_t layout, const tni_clt_act *a, size_t m, size_t k) {
  int8_t *q = a->q + m * a->q_stride;
  return layout == TNI_CLT_SLABS ? q + k / TNI_CLT_SLAB_K * a->slab_stride + k % TNI_CLT_SLAB_K : q + k;
}

static inline float *scale_at(uint32_t layout, const tni_clt_act *a, size_t m, size_t g) {
  return a->scale + m * a->s_stride + g * (layout == TNI_CLT_SLABS ? a->group_stride : 1);
}

__attribute__((always_inline)) static inline void quantize_q8_avx2(size_t group, bool runs, size_t sub, uint32_t layout,
                                                                   const float *x, size_t K, size_t K_padded,
                                                                   const tni_clt_act *a, size_t m) {
  int32_t *zero = a->zero + m * a->z_stride;
  const tni_clt_scale row = tni_clt_scale_of(a->row ? absmax_of_row(x, K) : 0, TNI_CLT_STEPS);
  if (a->row) a->row[m] = row.of;
  for (size_t k = 0; k < K_padded; k += group) {
    float tail[MAX_GROUP];
    const float *from = x + k;
    if (k + group > K || group < STEP) {
      memset(tail, 0, sizeof tail);
      if (k < K) memcpy(tail, from, (k + group > K ? K - k : group) * sizeof *x);
      from = tail;
    }
    const tni_clt_scale scale =
        a->row ? row : tni_clt_scale_of(runs ? largest_run(from, group) : absmax_of(from, group), TNI_CLT_STEPS);
    *scale_at(layout, a, m, k / group) = a->row ? 1.0f : scale.of;
    const __m256 inv = _mm256_set1_ps(scale.inv);
    for (size_t at = 0; at < group; at += sub) {
      __m256i sums = _mm256_setzero_si256();
      for (size_t i = at; i < at + sub; i += 32) {
        __m256i c = codes_of(from + i, inv);
        if (group < STEP)
          _mm_storeu_si128((__m128i *)(void *)codes_at(layout, a, m, k + i), _mm256_castsi256_si128(c));
        else
          _mm256_storeu_si256((__m256i *)(void *)codes_at(layout, a, m, k + i), c);
        sums = _mm256_add_epi16(sums, pair_sums(c));
      }
      if (layout == TNI_CLT_ROWS_S16) *zero++ = zero_word(sums);
      if (layout == TNI_CLT_ROWS_SUM) *zero++ = sum_word(sums);
    }
  }
}

#define QUANT(name, group, sub, layout) QUANT_OF(name, group, false, sub, layout)
#define QUANT_OF(name, group, runs, sub, layout)                                                                \
  void tni_x86_quant_##name##_avx2(const float *x, size_t K, size_t K_padded, const tni_clt_act *a, size_t m) { \
    quantize_q8_avx2(group, runs, sub, layout, x, K, K_padded, a, m);                                           \
  }
QUANT(q8g32_f32_1x32, 32, 32, TNI_CLT_ROWS_S16)
QUANT(q8g128_f32_1x128, 128, 64, TNI_CLT_ROWS_S16)
QUANT(q8g16n_f32_1x16, 16, 16, TNI_CLT_ROWS_SUM)
QUANT(q8g32n_f32_1x32, 32, 32, TNI_CLT_ROWS_SUM)
QUANT(q8g64n_f32_1x64, 64, 64, TNI_CLT_ROWS_SUM)
QUANT(q8g128n_f32_1x128, 128, 128, TNI_CLT_ROWS_SUM)
QUANT(q8g32k_f32_1x32, 32, 32, TNI_CLT_SLABS)
QUANT(q8g128k_f32_1x128, 128, 128, TNI_CLT_SLABS)
/* Narrow codes for tables. */
QUANT_OF(r8g128n_f32_1x128, 128, true, 128, TNI_CLT_ROWS_SUM)
QUANT_OF(r8g128k_f32_1x128, 128, true, 128, TNI_CLT_SLABS)
