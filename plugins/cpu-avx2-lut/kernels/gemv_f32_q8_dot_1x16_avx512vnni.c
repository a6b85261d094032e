/* SPDX-License-Identifier: Apache-2.0
 *
 * One activation row times 16 outputs, streaming the packed block once: a register is 16 outputs. Codes stay where they
 * lie in a byte as far as that goes and have sums of their own, which are shifted once per group; one starts from the
 * word of x (made for a zero point of 8: shifted). No software prefetch, which costs bandwidth.
 */
#include <immintrin.h>
#include <string.h>

#include "plugins/common/dot.h"
#include "plugins/cpu-avx2-lut/kernels/kernels.h"

static inline __m512i dot(__m512i sum, __m512i codes, const int8_t *q) {
  int32_t v;
  memcpy(&v, q, sizeof v);
  return _mm512_dpbusd_epi32(sum, codes, _mm512_set1_epi32(v));
}

static inline __m512i keep(__m512i v, int mask) { return _mm512_and_si512(v, _mm512_set1_epi8((char)mask)); }

/* A group of 128 k -> sums. `word`: what a zero point of 8 takes off. */
typedef __m512i (*group_fn)(const uint8_t *u, const int8_t *q, __m512i word);

__attribute__((always_inline)) static inline __m512i group_w2g(const uint8_t *u, const int8_t *q, __m512i word) {
  __m512i s0 = _mm512_srai_epi32(word, 2), s1 = _mm512_setzero_si512(), s2 = s1, s3 = s1;
#pragma GCC unroll 8
  for (int i = 0; i < 8; i++, u += 64, q += 16) {
    const __m512i v = _mm512_load_si512(u);
    s0 = dot(s0, keep(v, 0x03), q);
    s1 = dot(s1, keep(v, 0x0c), q + 4);
    s2 = dot(s2, keep(v, 0x30), q + 8);
    s3 = dot(s3, keep(v, 0xc0), q + 12);
  }
  s0 = _mm512_add_epi32(s0, _mm512_srai_epi32(s1, 2));
  return _mm512_add_epi32(s0, _mm512_add_epi32(_mm512_srai_epi32(s2, 4), _mm512_srai_epi32(s3, 6)));
}

/* Bits 0 and 1 of `low`, bit 2 of `high`. */
static inline __m512i three_bits(__m512i low, __m512i high) {
  enum { LOW_OR_HIGH_BY_MASK = 0xca };
  return keep(_mm512_ternarylogic_epi64(_mm512_set1_epi8(3), low, high, LOW_OR_HIGH_BY_MASK), 7);
}

__attribute__((always_inline)) static inline __m512i group_w3g(const uint8_t *u, const int8_t *q, __m512i word) {
  __m512i s0 = _mm512_srai_epi32(word, 1), s1 = _mm512_setzero_si512(), t0 = s1, t1 = s1;
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++, u += 192, q += 32) {
    const __m512i a = _mm512_load_si512(u), b = _mm512_load_si512(u + 64), c = _mm512_load_si512(u + 128);
    s0 = dot(s0, keep(a, 0x07), q);
    t0 = dot(t0, keep(a, 0x38), q + 4);
    s1 = dot(s1, three_bits(_mm512_srli_epi16(a, 6), _mm512_srli_epi16(c, 4)), q + 8);
    s0 = dot(s0, keep(b, 0x07), q + 12);
    t1 = dot(t1, keep(b, 0x38), q + 16);
    s1 = dot(s1, three_bits(_mm512_srli_epi16(b, 6), _mm512_srli_epi16(c, 5)), q + 20);
    s0 = dot(s0, keep(c, 0x07), q + 24);
    t0 = dot(t0, keep(c, 0x38), q + 28);
  }
  return _mm512_add_epi32(_mm512_add_epi32(s0, s1), _mm512_srai_epi32(_mm512_add_epi32(t0, t1), 3));
}

__attribute__((always_inline)) static inline void gemv(group_fn group, size_t group_bytes, const uint8_t *block,
                                                       size_t superblocks, const tni_clt_act *a, float *acc) {
  const int8_t *q = a->q;
  const float *sx = a->scale;
  const int32_t *zero = a->zero;
  __m512 y = _mm512_setzero_ps();
  for (size_t sb = 0; sb < superblocks; sb++) {
    const uint8_t *scales = block;
    block += TNI_DOT_SCALE_BYTES;
#pragma GCC unroll 2
    for (size_t g = 0; g < 2; g++, sx++, q += 128, block += group_bytes) {
      const __m512i s = group(block, q, _mm512_set1_epi32(*zero++));
      const __m512 sw = _mm512_cvtph_ps(_mm256_load_si256((const __m256i *)(const void *)(scales + g * 32)));
      y = _mm512_fmadd_ps(_mm512_cvtepi32_ps(s), _mm512_mul_ps(sw, _mm512_set1_ps(*sx)), y);
    }
  }
  _mm512_storeu_ps(acc, y);
}

#define GEMV(id, group_bytes)                                                                       \
  void tni_x86_gemv_f32_q8g128_##id##_1x16_avx512vnni(const uint8_t *row_block, size_t superblocks, \
                                                      const tni_clt_act *a, float *acc) {           \
    gemv(group_##id, group_bytes, row_block, superblocks, a, acc);                                  \
  }
GEMV(w2g, 512)
GEMV(w3g, 768)
