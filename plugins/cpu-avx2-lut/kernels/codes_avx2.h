/* SPDX-License-Identifier: Apache-2.0
 *
 * Four codes of an activation in every lane, and the step of tiles that sum in s16.
 */
#ifndef TENON_CPU_AVX2_LUT_KERNELS_CODES_AVX2_H
#define TENON_CPU_AVX2_LUT_KERNELS_CODES_AVX2_H

#include <immintrin.h>
#include <stdint.h>
#include <string.h>

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
