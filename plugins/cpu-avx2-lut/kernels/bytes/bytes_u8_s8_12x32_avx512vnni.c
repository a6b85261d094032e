/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums of bytes by VPDPBUSD, which does not saturate: twelve rows of a times 32 outputs, four at the end, then one by
 * one.
 */
#include <immintrin.h>
#include <string.h>

#include "plugins/cpu-avx2-lut/kernels/bytes/bytes.h"

/* Four of k of row i times both blocks. In assembly, so that sums stay where they are. */
#define ROW(i, base, where)                                                                                          \
  __asm__("vpbroadcastd %c[d]" where ", %[x]" : [x] "=v"(x) : [b] "r"(base), [s] "r"(lda), [d] "i"(4 * J), "m"(*a)); \
  __asm__("vpdpbusd %[w], %[x], %[a]" : [a] "+v"(s##i) : [w] "v"(w0), [x] "v"(x));                                   \
  __asm__("vpdpbusd %[w], %[x], %[a]" : [a] "+v"(t##i) : [w] "v"(w1), [x] "v"(x));
#define THREE(i0, i1, i2, base) ROW(i0, base, "(%[b])") ROW(i1, base, "(%[b],%[s])") ROW(i2, base, "(%[b],%[s],2)")
#define QUAD(j, ROWS)                                                                     \
  {                                                                                       \
    enum { J = j };                                                                       \
    const __m512i w0 = _mm512_load_si512(u + (j)*64), w1 = _mm512_load_si512(v + (j)*64); \
    __m512i x;                                                                            \
    ROWS                                                                                  \
  }
#define START(i) __m512i s##i = _mm512_setzero_si512(), t##i = s##i;
#define STORE(i)                           \
  _mm512_storeu_si512(acc + (i)*32, s##i); \
  _mm512_storeu_si512(acc + (i)*32 + 16, t##i);
#define EACH12(F) F(0) F(1) F(2) F(3) F(4) F(5) F(6) F(7) F(8) F(9) F(10) F(11)
#define EACH4(F) F(0) F(1) F(2) F(3)

/* With each 8 of k, `step` bytes of what is read next are asked for: from memory, while these are used from a cache. */
static void bytes_12x32(const uint8_t *u, const uint8_t *v, size_t quads, const uint8_t *a, size_t lda, int32_t *acc,
                        const uint8_t *ahead, size_t step) {
  const uint8_t *b0 = a, *b1 = a + 3 * lda, *b2 = b1 + 3 * lda, *b3 = b2 + 3 * lda;
  EACH12(START)
  for (size_t q = 0; q < quads; q += 2, u += 128, v += 128, b0 += 8, b1 += 8, b2 += 8, b3 += 8, ahead += step) {
    _mm_prefetch((const char *)ahead, _MM_HINT_T0);
    QUAD(0, THREE(0, 1, 2, b0) THREE(3, 4, 5, b1) THREE(6, 7, 8, b2) THREE(9, 10, 11, b3))
    QUAD(1, THREE(0, 1, 2, b0) THREE(3, 4, 5, b1) THREE(6, 7, 8, b2) THREE(9, 10, 11, b3))
  }
  EACH12(STORE)
}

static void bytes_4x32(const uint8_t *u, const uint8_t *v, size_t quads, const uint8_t *a, size_t lda, int32_t *acc) {
  const uint8_t *b0 = a, *b1 = a + 3 * lda;
  EACH4(START)
  for (size_t q = 0; q < quads; q += 2, u += 128, v += 128, b0 += 8, b1 += 8) {
    QUAD(0, THREE(0, 1, 2, b0) ROW(3, b1, "(%[b])"))
    QUAD(1, THREE(0, 1, 2, b0) ROW(3, b1, "(%[b])"))
  }
  EACH4(STORE)
}

static __m512i four(const uint8_t *a) {
  int32_t x;
  memcpy(&x, a, sizeof x);
  return _mm512_set1_epi32(x);
}

/* Weights are asked for ahead: one row reads each of them once. One block after the other: of two streams at a time a
 * Zen 5 reads 8 to 11 % less. */
static void bytes_1x16(const uint8_t *u, size_t quads, const uint8_t *a, int32_t *acc) {
  __m512i s0 = _mm512_setzero_si512(), s1 = s0, s2 = s0, s3 = s0;
  size_t q = 0;
  for (; q + 4 <= quads; q += 4, u += 256, a += 16) {
    for (int i = 0; i < 256; i += 64) _mm_prefetch((const char *)u + TNI_X86_AHEAD + i, _MM_HINT_T0);
    s0 = _mm512_dpbusd_epi32(s0, four(a), _mm512_load_si512(u));
    s1 = _mm512_dpbusd_epi32(s1, four(a + 4), _mm512_load_si512(u + 64));
    s2 = _mm512_dpbusd_epi32(s2, four(a + 8), _mm512_load_si512(u + 128));
    s3 = _mm512_dpbusd_epi32(s3, four(a + 12), _mm512_load_si512(u + 192));
  }
  for (; q < quads; q++, u += 64, a += 4) s0 = _mm512_dpbusd_epi32(s0, four(a), _mm512_load_si512(u));
  _mm512_storeu_si512(acc, _mm512_add_epi32(_mm512_add_epi32(s0, s1), _mm512_add_epi32(s2, s3)));
}

void tni_x86_bytes_s32_u8_s8_12x32_avx512vnni(const uint8_t *const *blocks, size_t quads, const uint8_t *a, size_t lda,
                                              size_t rows, const tni_clt_next *next, int32_t *acc) {
  const size_t turns = rows / 12 * (quads / 2), step = next && turns ? (next->bytes + turns - 1) / turns : 0;
  const uint8_t *ahead = step ? next->p : a;
  size_t m = 0;
  for (; m + 12 <= rows; m += 12, ahead += step * (quads / 2))
    bytes_12x32(blocks[0], blocks[1], quads, a + m * lda, lda, acc + m * 32, ahead, step);
  for (; m + 4 <= rows; m += 4) bytes_4x32(blocks[0], blocks[1], quads, a + m * lda, lda, acc + m * 32);
  for (; m < rows; m++)
    for (size_t b = 0; b < 2; b++) bytes_1x16(blocks[b], quads, a + m * lda, acc + m * 32 + b * 16);
}
