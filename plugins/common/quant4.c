/* SPDX-License-Identifier: Apache-2.0 */
#include "plugins/common/quant4.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "plugins/common/f16.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

enum { LANES = 8 };

/* What touches every weight; each has a portable form and one for AVX2, with the same bits. */
typedef struct passes {
  /* The weight of largest magnitude, the first of equals; 0 for all zeros. -1 for NaN or infinity. */
  int (*extreme)(const float *w, uint32_t n, float *out);
  /* Sum of squared errors of w[n] with scale d. */
  float (*error)(const float *w, uint32_t n, float d);
  /* The scale that least squares would have with the codes of d; 0 where all of them are 0. */
  float (*refit)(const float *w, uint32_t n, float d);
  void (*codes)(const float *w, uint32_t n, float d, uint8_t *codes);
} passes;

/* The nearest binary16, as a float; past 65504 some float past it. */
static inline float as_half(float v) {
  uint32_t b;
  memcpy(&b, &v, sizeof b);
  if ((b & 0x7fffffffu) < 0x38800000u) { /* multiples of 2^-24 */
    float m = (fabsf(v) + 0.5f) - 0.5f;
    return v < 0 ? -m : m;
  }
  b += 0xfffu + (b >> 13 & 1u);
  b &= ~0x1fffu;
  memcpy(&v, &b, sizeof v);
  return v;
}

static float lane_sum(const float *s) { return ((s[0] + s[4]) + (s[1] + s[5])) + ((s[2] + s[6]) + (s[3] + s[7])); }

static int usable(float d, float absmax) {
  float m = fabsf(d);
  return m > 0 && m <= 65504.0f && absmax <= 9.0f * m && absmax >= 7.0f * m;
}

static float search(const passes *p, const float *w, uint32_t n, float extreme, float first) {
  static const float ratio[] = {8.0f, 7.0f, 7.25f, 7.5f, 7.75f, 8.25f, 8.5f, 8.75f, 9.0f};
  float best_d = first, best = FLT_MAX, absmax = fabsf(extreme);
  for (uint32_t i = 0; i < sizeof ratio / sizeof *ratio; i++) {
    float d = as_half(-extreme / ratio[i]), err;
    if (usable(d, absmax) && (err = p->error(w, n, d)) < best) {
      best = err;
      best_d = d;
    }
  }
  float d = as_half(p->refit(w, n, best_d));
  return usable(d, absmax) && p->error(w, n, d) < best ? d : best_d;
}

static int quantize(const passes *p, const float *w, uint32_t n, uint8_t *codes, uint16_t *scale) {
  float extreme;
  if (p->extreme(w, n, &extreme)) return -1;
  float first = as_half(-extreme / 8.0f);
  if (!(fabsf(first) <= 65504.0f)) return -1;
  if (first == 0) { /* all zeros, or too small for any scale */
    memset(codes, 8, n);
    *scale = 0;
    return 0;
  }
  float d = search(p, w, n, extreme, first);
  p->codes(w, n, d, codes);
  *scale = tni_cm_f32_to_f16(d);
  return 0;
}

/* --- portable --------------------------------------------------------------------------------------------------- */

/* Adding and subtracting 1.5 * 2^23 rounds to an integer, half to even, for |v| < 2^22. */
static inline float nearest_code(float v) {
  const float magic = 12582912.0f;
  v = v < -8.0f ? -8.0f : v;
  v = v > 7.0f ? 7.0f : v;
  return (v + magic) - magic;
}

static int any_extreme(const float *w, uint32_t n, float *out) {
  float best = 0, at = 0;
  for (uint32_t i = 0; i < n; i++) {
    float m = fabsf(w[i]);
    if (!(m <= FLT_MAX)) return -1;
    if (m > best) {
      best = m;
      at = w[i];
    }
  }
  *out = at;
  return 0;
}

static float any_error(const float *w, uint32_t n, float d) {
  float inv = 1.0f / d, err[LANES] = {0};
  for (uint32_t i = 0; i < n; i += LANES)
    for (uint32_t l = 0; l < LANES; l++) {
      float e = w[i + l] - d * nearest_code(w[i + l] * inv);
      err[l] += e * e;
    }
  return lane_sum(err);
}

static float any_refit(const float *w, uint32_t n, float d) {
  float inv = 1.0f / d, wc[LANES] = {0}, cc[LANES] = {0};
  for (uint32_t i = 0; i < n; i += LANES)
    for (uint32_t l = 0; l < LANES; l++) {
      float c = nearest_code(w[i + l] * inv);
      wc[l] += w[i + l] * c;
      cc[l] += c * c;
    }
  float below = lane_sum(cc);
  return below > 0 ? lane_sum(wc) / below : 0;
}

static void any_codes(const float *w, uint32_t n, float d, uint8_t *codes) {
  float inv = 1.0f / d;
  for (uint32_t i = 0; i < n; i++) codes[i] = (uint8_t)(int32_t)(nearest_code(w[i] * inv) + 8.0f);
}

static const passes any_passes = {any_extreme, any_error, any_refit, any_codes};

int tni_cm_quant4_portable(const float *w, uint32_t n, uint8_t *codes, uint16_t *scale) {
  return quantize(&any_passes, w, n, codes, scale);
}

/* --- AVX2 ------------------------------------------------------------------------------------------------------- */

#if defined(__x86_64__)
#define AVX2 __attribute__((target("avx2")))

AVX2 static inline __m256 avx2_code(__m256 v) {
  v = _mm256_min_ps(_mm256_max_ps(v, _mm256_set1_ps(-8.0f)), _mm256_set1_ps(7.0f));
  return _mm256_round_ps(v, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
}

AVX2 static inline float avx2_sum(__m256 v) {
  float s[LANES];
  _mm256_storeu_ps(s, v);
  return lane_sum(s);
}

AVX2 static int avx2_extreme(const float *w, uint32_t n, float *out) {
  const __m256 sign = _mm256_set1_ps(-0.0f), most = _mm256_set1_ps(FLT_MAX);
  __m256 max = _mm256_setzero_ps(), fine = _mm256_cmp_ps(max, max, _CMP_EQ_OQ);
  for (uint32_t i = 0; i < n; i += LANES) {
    __m256 m = _mm256_andnot_ps(sign, _mm256_loadu_ps(w + i));
    fine = _mm256_and_ps(fine, _mm256_cmp_ps(m, most, _CMP_LE_OQ));
    max = _mm256_max_ps(max, m);
  }
  if (_mm256_movemask_ps(fine) != 255) return -1;
  max = _mm256_max_ps(max, _mm256_permute2f128_ps(max, max, 1));
  max = _mm256_max_ps(max, _mm256_shuffle_ps(max, max, 0x4e));
  max = _mm256_max_ps(max, _mm256_shuffle_ps(max, max, 0xb1));
  for (uint32_t i = 0; i < n; i += LANES) {
    __m256 m = _mm256_andnot_ps(sign, _mm256_loadu_ps(w + i));
    int at = _mm256_movemask_ps(_mm256_cmp_ps(m, max, _CMP_EQ_OQ));
    if (!at) continue;
    *out = w[i + (uint32_t)__builtin_ctz((unsigned)at)];
    break;
  }
  if (*out == 0) *out = 0;
  return 0;
}

AVX2 static float avx2_error(const float *w, uint32_t n, float d) {
  const __m256 inv = _mm256_set1_ps(1.0f / d), by = _mm256_set1_ps(d);
  __m256 err = _mm256_setzero_ps();
  for (uint32_t i = 0; i < n; i += LANES) {
    __m256 v = _mm256_loadu_ps(w + i);
    __m256 e = _mm256_sub_ps(v, _mm256_mul_ps(by, avx2_code(_mm256_mul_ps(v, inv))));
    err = _mm256_add_ps(err, _mm256_mul_ps(e, e));
  }
  return avx2_sum(err);
}

AVX2 static float avx2_refit(const float *w, uint32_t n, float d) {
  const __m256 inv = _mm256_set1_ps(1.0f / d);
  __m256 wc = _mm256_setzero_ps(), cc = wc;
  for (uint32_t i = 0; i < n; i += LANES) {
    __m256 v = _mm256_loadu_ps(w + i), c = avx2_code(_mm256_mul_ps(v, inv));
    wc = _mm256_add_ps(wc, _mm256_mul_ps(v, c));
    cc = _mm256_add_ps(cc, _mm256_mul_ps(c, c));
  }
  float below = avx2_sum(cc);
  return below > 0 ? avx2_sum(wc) / below : 0;
}

AVX2 static void avx2_codes(const float *w, uint32_t n, float d, uint8_t *codes) {
  const __m256 inv = _mm256_set1_ps(1.0f / d);
  for (uint32_t i = 0; i < n; i += LANES) {
    __m256i c = _mm256_cvtps_epi32(avx2_code(_mm256_mul_ps(_mm256_loadu_ps(w + i), inv)));
    __m128i h = _mm_packs_epi32(_mm256_castsi256_si128(c), _mm256_extracti128_si256(c, 1));
    _mm_storel_epi64((__m128i *)(void *)(codes + i), _mm_add_epi8(_mm_packs_epi16(h, h), _mm_set1_epi8(8)));
  }
}

static const passes avx2_passes = {avx2_extreme, avx2_error, avx2_refit, avx2_codes};

int tni_cm_quant4(const float *w, uint32_t n, uint8_t *codes, uint16_t *scale) {
  return quantize(__builtin_cpu_supports("avx2") ? &avx2_passes : &any_passes, w, n, codes, scale);
}
#else
int tni_cm_quant4(const float *w, uint32_t n, uint8_t *codes, uint16_t *scale) {
  return quantize(&any_passes, w, n, codes, scale);
}
#endif
