/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums of bytes in 16 bits: VPMADDUBSW would saturate, so both sides are widened and VPMADDWD adds two exact products.
 * Two rows of a times 16 outputs; a sum of an output stands in two lanes until the end.
 */
#include <immintrin.h>
#include <string.h>

#include "plugins/cpu-avx2-lut/kernels/bytes/bytes.h"

/* Four of k, as 16 bits, four times. */
static __m256i four(const uint8_t *a) {
  int32_t x;
  memcpy(&x, a, sizeof x);
  return _mm256_broadcastq_epi64(_mm_cvtepu8_epi16(_mm_cvtsi32_si128(x)));
}

#define EACH(F) F(0) F(1) F(2) F(3)
#define START(i) __m256i s##i = _mm256_setzero_si256(), t##i = s##i;
#define DOT(i)                                                                                           \
  {                                                                                                      \
    const __m256i c = _mm256_cvtepi8_epi16(_mm_load_si128((const __m128i *)(const void *)(w + (i)*16))); \
    s##i = _mm256_add_epi32(s##i, _mm256_madd_epi16(x, c));                                              \
    t##i = _mm256_add_epi32(t##i, _mm256_madd_epi16(y, c));                                              \
  }

/* Neighbouring lanes added, outputs in order. */
static void put(int32_t *acc, __m256i p, __m256i q) {
  const __m256i s = _mm256_permute4x64_epi64(_mm256_hadd_epi32(p, q), 0xd8);
  _mm256_storeu_si256((__m256i *)(void *)acc, s);
}

static void bytes_2x16(const uint8_t *w, size_t quads, const uint8_t *a, size_t lda, bool two, int32_t *acc) {
  const uint8_t *b = two ? a + lda : a;
  EACH(START)
  for (size_t q = 0; q < quads; q++, w += 64, a += 4, b += 4) {
    const __m256i x = four(a), y = four(b);
    EACH(DOT)
  }
  put(acc, s0, s1);
  put(acc + 8, s2, s3);
  if (!two) return;
  put(acc + 32, t0, t1);
  put(acc + 40, t2, t3);
}

void tni_x86_bytes_s32_u8_s8_2x16_avx2(const uint8_t *const *blocks, size_t quads, const uint8_t *a, size_t lda,
                                       size_t rows, const tni_clt_next *next, int32_t *acc) {
  (void)next;
  for (size_t m = 0; m < rows; m += 2)
    for (size_t i = 0; i < 2; i++) bytes_2x16(blocks[i], quads, a + m * lda, lda, m + 1 < rows, acc + m * 32 + i * 16);
}
