/* SPDX-License-Identifier: Apache-2.0
 *
 * Forms of fit.h for x86-64. All starts of a group at once, and no branch that depends on weights, so that groups
 * overlap. Sums of level * level are exact, so that a fused operation changes none of their bits; those of w * level
 * are not, and are rounded twice as everywhere.
 */
#include <float.h>

#include "plugins/common/formats/f16.h"
#include "plugins/common/formats/fit_form.h"

#if defined(__x86_64__)
#include <immintrin.h>

#define AVX2 __attribute__((target("avx2,fma")))
#define AVX512 __attribute__((target("avx2,fma,avx512f,avx512dq,avx512bw,avx512vl,avx512vbmi")))
#define INLINE static inline __attribute__((always_inline))
enum { LANES = TNI_FIT_LANES, TRIES = TNI_FIT_STARTS };
_Static_assert(TRIES == 8, "a register of 256 bits has all starts");

/* --- AVX2 ------------------------------------------------------------------------------------------------------- */

AVX2 INLINE __m256 avx2_nearest(__m256 v, __m256 lo, __m256 hi) {
  v = _mm256_min_ps(_mm256_max_ps(v, lo), hi);
  return _mm256_round_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

AVX2 INLINE __m256 avx2_abs(__m256 v) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), v); }

AVX2 INLINE int32_t avx2_largest(__m256i v) {
  __m128i a = _mm_max_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
  a = _mm_max_epi32(a, _mm_shuffle_epi32(a, 0x4e));
  return _mm_cvtsi128_si32(_mm_max_epi32(a, _mm_shuffle_epi32(a, 0xb1)));
}

static float first_of(const float *w, uint32_t n, float most) {
  for (uint32_t i = 0; i < n; i++)
    if (fabsf(w[i]) == most) return w[i];
  return most;
}

/* Floats of one sign are ordered as their bits are; NaN and infinity are beyond all others. */
AVX2 INLINE float avx2_extreme(const float *w, uint32_t n) {
  const __m256i sign = _mm256_set1_epi32(INT32_MIN);
  __m256i over = sign, under = sign; /* bits of the positive; of the negative, without their sign */
  for (uint32_t i = 0; i < n; i += LANES) {
    const __m256i v = _mm256_loadu_si256((const __m256i *)(const void *)(w + i));
    over = _mm256_max_epi32(over, v);
    under = _mm256_max_epi32(under, _mm256_xor_si256(v, sign));
  }
  const int32_t p = avx2_largest(over), m = avx2_largest(under), most = p > m ? p : m;
  const float size = _mm_cvtss_f32(_mm_castsi128_ps(_mm_cvtsi32_si128(most)));
  if (p == m) return first_of(w, n, size);
  return p > m ? size : -size;
}

/* a, b, c, d: eight partial sums of each in four pairs of registers -> the sums, in order. */
AVX2 INLINE __m256 avx2_sums(const __m256 *v) {
  __m256 x[4];
  for (int i = 0; i < 4; i++)
    x[i] = _mm256_add_ps(_mm256_permute2f128_ps(v[2 * i], v[2 * i + 1], 0x20),
                         _mm256_permute2f128_ps(v[2 * i], v[2 * i + 1], 0x31));
  const __m256 y = _mm256_hadd_ps(_mm256_hadd_ps(x[0], x[1]), _mm256_hadd_ps(x[2], x[3]));
  return _mm256_permutevar8x32_ps(y, _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7));
}

/* Sums of w * level and level * level, of steps whose inverses are inv[4]. halves: a constant where it is called. */
AVX2 INLINE __m256 avx2_try(const float *w, uint32_t n, tni_fit_range r, const float *inv, const int halves) {
  const __m256 lo = _mm256_set1_ps(r.lo), hi = _mm256_set1_ps(r.hi), half = _mm256_set1_ps(r.half);
  const __m256 none = _mm256_setzero_ps();
  __m256 by[4], sum[8] = {none, none, none, none, none, none, none, none};
#pragma GCC unroll 4
  for (int t = 0; t < 4; t++) by[t] = _mm256_broadcast_ss(inv + t);
  for (uint32_t i = 0; i < n; i += LANES) {
    const __m256 v = _mm256_loadu_ps(w + i);
#pragma GCC unroll 4
    for (int t = 0; t < 4; t++) {
      __m256 c = _mm256_mul_ps(v, by[t]);
      if (halves) c = _mm256_sub_ps(c, half);
      c = avx2_nearest(c, lo, hi);
      if (halves) c = _mm256_add_ps(c, half);
      sum[t] = _mm256_add_ps(sum[t], _mm256_mul_ps(v, c));
      sum[4 + t] = _mm256_fmadd_ps(c, c, sum[4 + t]);
    }
  }
  return avx2_sums(sum);
}

AVX2 INLINE void avx2_tries(const float *w, uint32_t n, tni_fit_range r, __m256 d, __m256 *wc, __m256 *cc,
                            const int halves) {
  float inv[TRIES];
  _mm256_storeu_ps(inv, _mm256_div_ps(_mm256_set1_ps(1.0f), d));
  const __m256 a = avx2_try(w, n, r, inv, halves), b = avx2_try(w, n, r, inv + 4, halves);
  *wc = _mm256_permute2f128_ps(a, b, 0x20);
  *cc = _mm256_permute2f128_ps(a, b, 0x31);
}

/* tni_fit_half of v >= 0. */
AVX2 INLINE __m256 avx2_half(__m256 v) {
  const __m256 most = _mm256_set1_ps(0.5f), tiny = _mm256_sub_ps(_mm256_add_ps(v, most), most);
  const __m256i b = _mm256_castps_si256(v), odd = _mm256_and_si256(_mm256_srli_epi32(b, 13), _mm256_set1_epi32(1));
  const __m256i up = _mm256_add_epi32(_mm256_add_epi32(b, _mm256_set1_epi32(0xfff)), odd);
  const __m256 other = _mm256_castsi256_ps(_mm256_andnot_si256(_mm256_set1_epi32(0x1fff), up));
  return _mm256_blendv_ps(other, tiny, _mm256_cmp_ps(v, _mm256_set1_ps(0x1p-14f), _CMP_LT_OQ));
}

/* tni_fit_consider of all starts. */
AVX2 INLINE void avx2_consider(tni_fit_search *s, __m256 wc, __m256 cc, __m256 d) {
  const __m256 none = _mm256_setzero_ps(), sign = _mm256_and_ps(d, _mm256_set1_ps(-0.0f));
  __m256 m = _mm256_blendv_ps(d, _mm256_div_ps(wc, cc), _mm256_cmp_ps(cc, none, _CMP_GT_OQ));
  m = _mm256_min_ps(_mm256_max_ps(avx2_abs(m), _mm256_set1_ps(s->least)), _mm256_set1_ps(s->most));
  m = _mm256_mul_ps(avx2_half(_mm256_mul_ps(m, _mm256_set1_ps(s->unit))), _mm256_set1_ps(1.0f / s->unit));
  const __m256 step = _mm256_or_ps(m, sign), two = _mm256_add_ps(wc, wc);
  __m256 gain = _mm256_mul_ps(step, _mm256_sub_ps(two, _mm256_mul_ps(step, cc)));
  gain = _mm256_blendv_ps(gain, _mm256_set1_ps(-FLT_MAX), _mm256_cmp_ps(m, none, _CMP_EQ_OQ));
  __m256 most = _mm256_max_ps(gain, _mm256_permute2f128_ps(gain, gain, 1));
  most = _mm256_max_ps(most, _mm256_shuffle_ps(most, most, 0x4e));
  most = _mm256_max_ps(most, _mm256_shuffle_ps(most, most, 0xb1));
  const float best = _mm256_cvtss_f32(most);
  if (!(best > s->gain)) return;
  const int at = __builtin_ctz((unsigned)_mm256_movemask_ps(_mm256_cmp_ps(gain, most, _CMP_EQ_OQ)));
  s->gain = best;
  s->d = _mm256_cvtss_f32(_mm256_permutevar8x32_ps(step, _mm256_set1_epi32(at)));
}

/* The best once more. */
AVX2 INLINE void avx2_again(const float *w, uint32_t n, tni_fit_search *s) {
  const __m256 lo = _mm256_set1_ps(s->r.lo), hi = _mm256_set1_ps(s->r.hi), half = _mm256_set1_ps(s->r.half);
  const __m256 by = _mm256_set1_ps(1.0f / s->d);
  __m256 wc = _mm256_setzero_ps(), cc = wc;
  for (uint32_t i = 0; i < n; i += LANES) {
    const __m256 v = _mm256_loadu_ps(w + i);
    const __m256 c = _mm256_add_ps(avx2_nearest(_mm256_sub_ps(_mm256_mul_ps(v, by), half), lo, hi), half);
    wc = _mm256_add_ps(wc, _mm256_mul_ps(v, c));
    cc = _mm256_fmadd_ps(c, c, cc);
  }
  float sum[2][LANES];
  _mm256_storeu_ps(sum[0], wc);
  _mm256_storeu_ps(sum[1], cc);
  tni_fit_consider(s, tni_fit_lane_sum(sum[0]), tni_fit_lane_sum(sum[1]), s->d);
}

AVX2 static void avx2_codes(const float *w, uint32_t n, tni_fit_range r, float inv, uint8_t *codes) {
  const __m256 by = _mm256_set1_ps(inv), lo = _mm256_set1_ps(r.lo), hi = _mm256_set1_ps(r.hi);
  const __m256 half = _mm256_set1_ps(r.half);
  for (uint32_t i = 0; i < n; i += LANES) {
    const __m256 c = avx2_nearest(_mm256_sub_ps(_mm256_mul_ps(_mm256_loadu_ps(w + i), by), half), lo, hi);
    const __m256i v = _mm256_cvtps_epi32(_mm256_sub_ps(c, lo));
    const __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    _mm_storel_epi64((__m128i *)(void *)(codes + i), _mm_packus_epi16(words, words));
  }
}

/* The search over one group: how it tries starts and writes codes is the instruction set's. */
#define GROUP(TARGET, isa)                                                                                            \
  TARGET static int isa##_group(const tni_fit_grid *g, const float *w, uint32_t n, uint8_t *codes, uint16_t *scale) { \
    tni_fit_search s;                                                                                                 \
    __m256 wc, cc;                                                                                                    \
    const int searched = tni_fit_begin(g, avx2_extreme(w, n), n, &s, codes, scale);                                   \
    if (searched < 1) return searched;                                                                                \
    const __m256 d = _mm256_div_ps(_mm256_set1_ps(s.from), _mm256_loadu_ps(g->start));                                \
    if (s.r.half > 0)                                                                                                 \
      isa##_tries(w, n, s.r, d, &wc, &cc, 1);                                                                         \
    else                                                                                                              \
      isa##_tries(w, n, s.r, d, &wc, &cc, 0);                                                                         \
    avx2_consider(&s, wc, cc, d);                                                                                     \
    if (n > TNI_FIT_SHORT) avx2_again(w, n, &s);                                                                      \
    isa##_codes(w, n, s.r, 1.0f / s.d, codes);                                                                        \
    *scale = tni_cm_f32_to_f16(s.d * s.unit);                                                                         \
    return 0;                                                                                                         \
  }
GROUP(AVX2, avx2)

AVX2 static int avx2_size(const float *w, size_t n, tni_fit_size *out) {
  __m256 s = _mm256_setzero_ps(), q = s, m = s, fine = _mm256_cmp_ps(s, s, _CMP_EQ_OQ);
  float sum[LANES], squares[LANES], most[LANES];
  size_t i = 0;
  for (; i + LANES <= n; i += LANES) {
    const __m256 v = avx2_abs(_mm256_loadu_ps(w + i));
    fine = _mm256_and_ps(fine, _mm256_cmp_ps(v, _mm256_set1_ps(FLT_MAX), _CMP_LE_OQ));
    s = _mm256_add_ps(s, v);
    q = _mm256_add_ps(q, _mm256_mul_ps(v, v));
    m = _mm256_max_ps(v, m);
  }
  _mm256_storeu_ps(sum, s);
  _mm256_storeu_ps(squares, q);
  _mm256_storeu_ps(most, m);
  const uint32_t odd = tni_fit_add_sizes(w, i, n, sum, squares, most);
  *out = tni_fit_size_from(sum, squares, most);
  return odd || _mm256_movemask_ps(fine) != 255 ? -1 : 0;
}

AVX2 static void avx2_above(const float *w, size_t n, float from, float *sum, float *count) {
  const __m256 least = _mm256_set1_ps(from), one = _mm256_set1_ps(1.0f);
  __m256 s = _mm256_setzero_ps(), c = s;
  float sums[LANES], counts[LANES];
  size_t i = 0;
  for (; i + LANES <= n; i += LANES) {
    const __m256 v = avx2_abs(_mm256_loadu_ps(w + i)), is = _mm256_cmp_ps(v, least, _CMP_GE_OQ);
    s = _mm256_add_ps(s, _mm256_and_ps(v, is));
    c = _mm256_add_ps(c, _mm256_and_ps(one, is));
  }
  _mm256_storeu_ps(sums, s);
  _mm256_storeu_ps(counts, c);
  tni_fit_add_above(w, i, n, from, sums, counts);
  *sum = tni_fit_lane_sum(sums);
  *count = tni_fit_lane_sum(counts);
}

AVX2 static void avx2_stairs(const uint8_t *byte, const tni_fit_stairs *s, uint8_t *out) {
  enum { BYTES = 32 };
  const __m256i sign = _mm256_set1_epi8(INT8_MIN); /* comparisons are of signed bytes */
  for (int i = 0; i < TNI_FIT_STEP; i += 2 * BYTES) {
    const __m256i a = _mm256_xor_si256(sign, _mm256_loadu_si256((const __m256i *)(const void *)(byte + i)));
    const __m256i b = _mm256_xor_si256(sign, _mm256_loadu_si256((const __m256i *)(const void *)(byte + i + BYTES)));
    __m256i x = _mm256_set1_epi8((char)s->first), y = x;
    for (int j = 0; j < TNI_FIT_STAIRS; j++) {
      const __m256i above = _mm256_set1_epi8((char)(s->above[j] ^ 128)), up = _mm256_set1_epi8((char)s->up[j]);
      x = _mm256_add_epi8(x, _mm256_and_si256(up, _mm256_cmpgt_epi8(a, above)));
      y = _mm256_add_epi8(y, _mm256_and_si256(up, _mm256_cmpgt_epi8(b, above)));
    }
    _mm256_storeu_si256((__m256i *)(void *)(out + i), x);
    _mm256_storeu_si256((__m256i *)(void *)(out + i + BYTES), y);
  }
}

AVX2 static void avx2_products(const float *w, const int8_t *level, uint32_t n, float *wl, float *ll) {
  __m256 a = _mm256_loadu_ps(wl), b = _mm256_loadu_ps(ll);
  for (uint32_t i = 0; i < n; i += LANES) {
    const __m128i bytes = _mm_loadl_epi64((const __m128i *)(const void *)(level + i));
    const __m256 v = _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(bytes));
    a = _mm256_add_ps(a, _mm256_mul_ps(_mm256_loadu_ps(w + i), v));
    b = _mm256_add_ps(b, _mm256_mul_ps(v, v));
  }
  _mm256_storeu_ps(wl, a);
  _mm256_storeu_ps(ll, b);
}

const tni_fit tni_fit_avx2 = {avx2_group, avx2_codes, avx2_size, avx2_above, avx2_stairs, avx2_products};

/* --- AVX-512 ---------------------------------------------------------------------------------------------------- */

/* v[4]: of two tries in each half, eight partial sums each -> a half of sums for the first two, one for the others. */
AVX512 INLINE __m512 avx512_sums(const __m512 *v) {
  __m512 x[4], y[2];
  for (int i = 0; i < 4; i++)
    x[i] = _mm512_add_ps(_mm512_shuffle_f32x4(v[2 * i], v[2 * i + 1], 0x88),
                         _mm512_shuffle_f32x4(v[2 * i], v[2 * i + 1], 0xdd));
  for (int i = 0; i < 2; i++)
    y[i] =
        _mm512_add_ps(_mm512_shuffle_ps(x[2 * i], x[2 * i + 1], 0x88), _mm512_shuffle_ps(x[2 * i], x[2 * i + 1], 0xdd));
  const __m512 z = _mm512_add_ps(_mm512_shuffle_ps(y[0], y[1], 0x88), _mm512_shuffle_ps(y[0], y[1], 0xdd));
  return _mm512_permutexvar_ps(_mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15), z);
}

/* Two tries share a register, so that each has its eight sums. */
AVX512 INLINE void avx512_tries(const float *w, uint32_t n, tni_fit_range r, __m256 d, __m256 *wc, __m256 *cc,
                                const int halves) {
  enum { PAIRS = TRIES / 2 };
  const __m512 lo = _mm512_set1_ps(r.lo), hi = _mm512_set1_ps(r.hi), half = _mm512_set1_ps(r.half);
  const __m512 inv = _mm512_castps256_ps512(_mm256_div_ps(_mm256_set1_ps(1.0f), d));
  const __m512 none = _mm512_setzero_ps();
  __m512 by[PAIRS], sum[2 * PAIRS] = {none, none, none, none, none, none, none, none};
#pragma GCC unroll 4
  for (int p = 0; p < PAIRS; p++) {
    const int a = 2 * p, b = 2 * p + 1;
    by[p] = _mm512_permutexvar_ps(_mm512_setr_epi32(a, a, a, a, a, a, a, a, b, b, b, b, b, b, b, b), inv);
  }
  for (uint32_t i = 0; i < n; i += LANES) {
    const __m512 v = _mm512_broadcast_f32x8(_mm256_loadu_ps(w + i));
#pragma GCC unroll 4
    for (int p = 0; p < PAIRS; p++) {
      __m512 c = _mm512_mul_ps(v, by[p]);
      if (halves) c = _mm512_sub_ps(c, half);
      c = _mm512_min_ps(_mm512_max_ps(c, lo), hi);
      c = _mm512_roundscale_ps(c, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
      if (halves) c = _mm512_add_ps(c, half);
      sum[p] = _mm512_add_ps(sum[p], _mm512_mul_ps(v, c));
      sum[PAIRS + p] = _mm512_fmadd_ps(c, c, sum[PAIRS + p]);
    }
  }
  const __m512 all = avx512_sums(sum);
  *wc = _mm512_castps512_ps256(all);
  *cc = _mm512_extractf32x8_ps(all, 1);
}

AVX512 static void avx512_codes(const float *w, uint32_t n, tni_fit_range r, float inv, uint8_t *codes) {
  enum { WIDE = 16 };
  const __m512 by = _mm512_set1_ps(inv), lo = _mm512_set1_ps(r.lo), hi = _mm512_set1_ps(r.hi);
  const __m512 half = _mm512_set1_ps(r.half);
  const __m512i zero = _mm512_set1_epi32(-(int32_t)r.lo);
  for (uint32_t i = 0; i < n; i += WIDE) {
    const __mmask16 have = n - i < WIDE ? 0xff : 0xffff;
    const __m512 v = _mm512_sub_ps(_mm512_mul_ps(_mm512_maskz_loadu_ps(have, w + i), by), half);
    const __m512i c = _mm512_cvt_roundps_epi32(_mm512_min_ps(_mm512_max_ps(v, lo), hi),
                                               _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
    _mm512_mask_cvtepi32_storeu_epi8(codes + i, have, _mm512_add_epi32(c, zero));
  }
}

GROUP(AVX512, avx512)

/* A table of 256 bytes, looked up 64 at a time. */
AVX512 static void avx512_stairs(const uint8_t *byte, const tni_fit_stairs *s, uint8_t *out) {
  enum { BYTES = 64 };
  __m512i t[4];
  for (int i = 0; i < 4; i++) t[i] = _mm512_loadu_si512(s->table + i * BYTES);
  for (int i = 0; i < TNI_FIT_STEP; i += BYTES) {
    const __m512i b = _mm512_loadu_si512(byte + i);
    const __m512i low = _mm512_permutex2var_epi8(t[0], b, t[1]), high = _mm512_permutex2var_epi8(t[2], b, t[3]);
    _mm512_storeu_si512(out + i, _mm512_mask_blend_epi8(_mm512_movepi8_mask(b), low, high));
  }
}

const tni_fit tni_fit_avx512 = {avx512_group, avx512_codes, avx2_size, avx2_above, avx512_stairs, avx2_products};
#endif
