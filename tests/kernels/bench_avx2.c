/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/kernels/bench_avx2.h"

#include <immintrin.h>

uint64_t bench_read(const void *p, size_t n) {
  const __m256i *v = p;
  __m256i a = _mm256_setzero_si256(), b = a, c = a, d = a;
  for (size_t i = 0; i < n / 32; i += 8) {
    a = _mm256_xor_si256(a, _mm256_xor_si256(_mm256_load_si256(v + i), _mm256_load_si256(v + i + 4)));
    b = _mm256_xor_si256(b, _mm256_xor_si256(_mm256_load_si256(v + i + 1), _mm256_load_si256(v + i + 5)));
    c = _mm256_xor_si256(c, _mm256_xor_si256(_mm256_load_si256(v + i + 2), _mm256_load_si256(v + i + 6)));
    d = _mm256_xor_si256(d, _mm256_xor_si256(_mm256_load_si256(v + i + 3), _mm256_load_si256(v + i + 7)));
  }
  a = _mm256_xor_si256(_mm256_xor_si256(a, b), _mm256_xor_si256(c, d));
  return (uint64_t)_mm256_extract_epi64(a, 0) ^ (uint64_t)_mm256_extract_epi64(a, 2);
}

#define EACH(F) F(0) F(1) F(2) F(3) F(4) F(5) F(6) F(7)
#define START(i) __m256i s##i = _mm256_set1_epi16(i);
/* The empty asm keeps the product in the loop and the sums in registers. */
#define STEP(i)                                              \
  s##i = _mm256_add_epi16(s##i, _mm256_maddubs_epi16(w, a)); \
  __asm__("" : "+x"(w), "+x"(s##i));
#define SUM(i) t = _mm256_xor_si256(t, s##i);

double bench_peak(size_t n, int32_t *sink) {
  __m256i w = _mm256_set1_epi8(7), a = _mm256_set1_epi8((char)*sink), t = _mm256_setzero_si256();
  EACH(START)
  for (size_t i = 0; i < n; i++) {
    EACH(STEP)
  }
  EACH(SUM)
  *sink += _mm256_extract_epi32(t, 0);
  return (double)n * 8 * 32;
}
