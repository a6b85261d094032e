/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums of bytes by VPDPBUSD in 32-byte registers: two rows of a times 32 outputs, eight sums in registers.
 */
#include <immintrin.h>
#include <string.h>

#include "plugins/cpu-avx2-lut/kernels/bytes/bytes.h"

static __m256i four(const uint8_t *a) {
  int32_t x;
  memcpy(&x, a, sizeof x);
  return _mm256_set1_epi32(x);
}

#define EACH(F) F(0, u, 0) F(1, u, 32) F(2, v, 0) F(3, v, 32)
#define START(i, w, at) __m256i s##i = _mm256_setzero_si256(), t##i = s##i;
#define DOT(i, w, at)                                                             \
  {                                                                               \
    const __m256i c = _mm256_load_si256((const __m256i *)(const void *)(w + at)); \
    s##i = _mm256_dpbusd_avx_epi32(s##i, x, c);                                   \
    t##i = _mm256_dpbusd_avx_epi32(t##i, y, c);                                   \
  }
#define STORE(i, w, at)                                        \
  _mm256_storeu_si256((__m256i *)(void *)(acc + (i)*8), s##i); \
  if (two) _mm256_storeu_si256((__m256i *)(void *)(acc + 32 + (i)*8), t##i);

/* One row: it stands for the second, too. */
static void bytes_2x32(const uint8_t *u, const uint8_t *v, size_t quads, const uint8_t *a, size_t lda, bool two,
                       int32_t *acc) {
  const uint8_t *b = two ? a + lda : a;
  EACH(START)
  for (size_t q = 0; q < quads; q++, u += 64, v += 64, a += 4, b += 4) {
    const __m256i x = four(a), y = four(b);
    EACH(DOT)
  }
  EACH(STORE)
}

void tni_x86_bytes_s32_u8_s8_2x32_avxvnni(const uint8_t *const *blocks, size_t quads, const uint8_t *a, size_t lda,
                                          size_t rows, const tni_clt_next *next, int32_t *acc) {
  (void)next;
  for (size_t m = 0; m < rows; m += 2)
    bytes_2x32(blocks[0], blocks[1], quads, a + m * lda, lda, m + 1 < rows, acc + m * 32);
}
