/* SPDX-License-Identifier: Apache-2.0
 *
 * What activations are quantized by; four codes of one in every lane, and the step of tiles that sum in s16.
 */
#ifndef TENON_CPU_AVX2_LUT_KERNELS_CODES_AVX2_H
#define TENON_CPU_AVX2_LUT_KERNELS_CODES_AVX2_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

static inline __m256 magnitudes(const float *x) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), _mm256_loadu_ps(x)); }

static inline float largest_lane(__m256 m) {
  __m128 h = _mm_max_ps(_mm256_castps256_ps128(m), _mm256_extractf128_ps(m, 1));
  h = _mm_max_ps(h, _mm_movehl_ps(h, h));
  h = _mm_max_ss(h, _mm_shuffle_ps(h, h, 1));
  return _mm_cvtss_f32(h);
}

/* The largest sum of magnitudes of four, neighbours first; which lane has it does not matter. group: a multiple of 32.
 */
static inline float largest_run(const float *x, size_t group) {
  __m256 m = _mm256_setzero_ps();
  for (size_t i = 0; i < group; i += 32) {
    const __m256 a = _mm256_hadd_ps(magnitudes(x + i), magnitudes(x + i + 8));
    const __m256 b = _mm256_hadd_ps(magnitudes(x + i + 16), magnitudes(x + i + 24));
    m = _mm256_max_ps(_mm256_hadd_ps(a, b), m); /* of a NaN and m it is m */
  }
  return largest_lane(m);
}

static inline __m256i four_codes(const int8_t *q) {
  int32_t v;
  memcpy(&v, q, sizeof v);
  return _mm256_set1_epi32(v);
}

/* The products of row i, at q, with 16 outputs, w0 and w1, added to the sums s<i>0 and s<i>1.
 * In assembly, as compilers compute all products first and spill, or move sums from register to register. */
#define STEP_S16(i)                                                         \
  {                                                                         \
    __m256i b = four_codes(q + i * q_stride), t;                            \
    __asm__(                                                                \
        "vpmaddubsw %[b], %[w0], %[t]\n\t"                                  \
        "vpmaddubsw %[b], %[w1], %[b]\n\t"                                  \
        "vpaddw %[t], %[s0], %[s0]\n\t"                                     \
        "vpaddw %[b], %[s1], %[s1]"                                         \
        : [s0] "+x"(s##i##0), [s1] "+x"(s##i##1), [t] "=&x"(t), [b] "+x"(b) \
        : [w0] "x"(w0), [w1] "x"(w1));                                      \
  }

#endif
