/* SPDX-License-Identifier: Apache-2.0
 *
 * One activation row times 16 outputs, streaming the packed block once: a register is 16 outputs. Codes stay where they
 * lie in a byte as far as that goes and have sums of their own, which are shifted once per group; one starts from the
 * word of x (made for a zero point of 8: shifted).
 */
#include <immintrin.h>
#include <string.h>

#include "plugins/common/formats/formats.h"
#include "plugins/cpu-avx2-lut/kernels/kernels.h"

static inline __m512i dot(__m512i sum, __m512i codes, const int8_t *q) {
  int32_t v;
  memcpy(&v, q, sizeof v);
  return _mm512_dpbusd_epi32(sum, codes, _mm512_set1_epi32(v));
}

static inline __m512i keep(__m512i v, int mask) { return _mm512_and_si512(v, _mm512_set1_epi8((char)mask)); }

/* A group of 128 k -> sums. `word`: what a zero point of 8 takes off; head: of the row block. */
typedef __m512i (*group_fn)(const uint8_t *u, const int8_t *q, __m512i word, const uint8_t *head);

__attribute__((always_inline)) static inline __m512i two_bits(const uint8_t *u, const int8_t *q, __m512i start) {
  __m512i s0 = start, s1 = _mm512_setzero_si512(), s2 = s1, s3 = s1;
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

__attribute__((always_inline)) static inline __m512i group_w2g(const uint8_t *u, const int8_t *q, __m512i word,
                                                               const uint8_t *head) {
  (void)head;
  return two_bits(u, q, _mm512_srai_epi32(word, 2));
}

__attribute__((always_inline)) static inline __m512i group_tern20(const uint8_t *u, const int8_t *q, __m512i word,
                                                                  const uint8_t *head) {
  (void)head;
  return two_bits(u, q, _mm512_srai_epi32(word, 3));
}

/* Bits 0 and 1 of `low`, bit 2 of `high`. */
static inline __m512i three_bits(__m512i low, __m512i high) {
  enum { LOW_OR_HIGH_BY_MASK = 0xca };
  return keep(_mm512_ternarylogic_epi64(_mm512_set1_epi8(3), low, high, LOW_OR_HIGH_BY_MASK), 7);
}

__attribute__((always_inline)) static inline __m512i group_w3g(const uint8_t *u, const int8_t *q, __m512i word,
                                                               const uint8_t *head) {
  (void)head;
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

/* A bit counts as twice itself: sums of bit j are 2^j times too large, and half of what they should be. */
__attribute__((always_inline)) static inline __m512i group_w1g(const uint8_t *u, const int8_t *q, __m512i word,
                                                               const uint8_t *head) {
  const __m512i none = _mm512_setzero_si512();
  __m512i s0 = none, s1 = none, s2 = none, s3 = none, s4 = none, s5 = none, s6 = none, s7 = none;
  (void)head;
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++, u += 64, q += 32) {
    const __m512i v = _mm512_load_si512(u);
    s0 = dot(s0, keep(v, 0x01), q);
    s1 = dot(s1, keep(v, 0x02), q + 4);
    s2 = dot(s2, keep(v, 0x04), q + 8);
    s3 = dot(s3, keep(v, 0x08), q + 12);
    s4 = dot(s4, keep(v, 0x10), q + 16);
    s5 = dot(s5, keep(v, 0x20), q + 20);
    s6 = dot(s6, keep(v, 0x40), q + 24);
    s7 = dot(s7, keep(v, 0x80), q + 28);
  }
  s1 = _mm512_add_epi32(_mm512_slli_epi32(s0, 1), s1);
  s2 = _mm512_add_epi32(_mm512_srai_epi32(s2, 1), _mm512_srai_epi32(s3, 2));
  s4 = _mm512_add_epi32(_mm512_srai_epi32(s4, 3), _mm512_srai_epi32(s5, 4));
  s6 = _mm512_add_epi32(_mm512_srai_epi32(s6, 5), _mm512_srai_epi32(s7, 6));
  s1 = _mm512_add_epi32(s1, _mm512_srai_epi32(word, 3));
  return _mm512_add_epi32(_mm512_add_epi32(s1, s2), _mm512_add_epi32(s4, s6));
}

__attribute__((always_inline)) static inline __m512i group_w8g(const uint8_t *u, const int8_t *q, __m512i word,
                                                               const uint8_t *head) {
  __m512i s0 = _mm512_slli_epi32(word, 4), s1 = _mm512_setzero_si512(), s2 = s1, s3 = s1;
  (void)head;
#pragma GCC unroll 8
  for (int i = 0; i < 8; i++, u += 256, q += 16) {
    s0 = dot(s0, _mm512_load_si512(u), q);
    s1 = dot(s1, _mm512_load_si512(u + 64), q + 4);
    s2 = dot(s2, _mm512_load_si512(u + 128), q + 8);
    s3 = dot(s3, _mm512_load_si512(u + 192), q + 12);
  }
  return _mm512_add_epi32(_mm512_add_epi32(s0, s1), _mm512_add_epi32(s2, s3));
}

__attribute__((always_inline)) static inline __m512i group_pal16(const uint8_t *u, const int8_t *q, __m512i word,
                                                                 const uint8_t *head) {
  const __m128i levels = _mm_load_si128((const __m128i *)(const void *)(head + TNI_DOT_SCALE_BYTES));
  const __m512i table = _mm512_broadcast_i32x4(levels);
  __m512i s0 = _mm512_slli_epi32(word, 4), s1 = _mm512_setzero_si512(), s2 = s1, s3 = s1;
#pragma GCC unroll 8
  for (int i = 0; i < 8; i++, u += 128, q += 16) {
    const __m512i v = _mm512_load_si512(u), w = _mm512_load_si512(u + 64);
    s0 = dot(s0, _mm512_shuffle_epi8(table, keep(v, 15)), q);
    s1 = dot(s1, _mm512_shuffle_epi8(table, keep(_mm512_srli_epi16(v, 4), 15)), q + 4);
    s2 = dot(s2, _mm512_shuffle_epi8(table, keep(w, 15)), q + 8);
    s3 = dot(s3, _mm512_shuffle_epi8(table, keep(_mm512_srli_epi16(w, 4), 15)), q + 12);
  }
  return _mm512_add_epi32(_mm512_add_epi32(s0, s1), _mm512_add_epi32(s2, s3));
}

static inline __m512 halves_at(const uint8_t *p) {
  return _mm512_cvtph_ps(_mm256_load_si256((const __m256i *)(const void *)p));
}

static inline __m512 add_scaled(__m512 y, __m512i sum, __m512 sw, float sx) {
  return _mm512_fmadd_ps(_mm512_cvtepi32_ps(sum), _mm512_mul_ps(sw, _mm512_set1_ps(sx)), y);
}

/* Superblocks of two groups. head_bytes: 0 where they have scales. */
__attribute__((always_inline)) static inline void gemv(group_fn group, size_t group_bytes, size_t head_bytes,
                                                       bool fetch, const uint8_t *block, size_t superblocks,
                                                       const tni_clt_act *a, float *acc) {
  const uint8_t *head = block;
  const int8_t *q = a->q;
  const float *sx = a->scale;
  const int32_t *zero = a->zero;
  __m512 y = _mm512_setzero_ps(), s0 = y, s1 = y;
  if (head_bytes) s0 = s1 = _mm512_load_ps((const float *)(const void *)block);
  block += head_bytes;
  for (size_t sb = 0; sb < superblocks; sb++, q += 256, sx += 2, zero += 2, block += 2 * group_bytes) {
    for (size_t i = 0; fetch && i < 2 * group_bytes + (head_bytes ? 0 : 64); i += 64)
      _mm_prefetch((const char *)block + TNI_X86_AHEAD + i, _MM_HINT_T0);
    if (!head_bytes) {
      s0 = halves_at(block);
      s1 = halves_at(block + 32);
      block += TNI_DOT_SCALE_BYTES;
    }
    y = add_scaled(y, group(block, q, _mm512_set1_epi32(zero[0]), head), s0, sx[0]);
    __asm__ volatile(
        "" ::
            : "memory"); /* clang 14 reads both groups in turns: of w8g at half the speed of one stream (Zen 4) */
    y = add_scaled(y, group(block + group_bytes, q + 128, _mm512_set1_epi32(zero[1]), head), s1, sx[1]);
  }
  _mm512_storeu_ps(acc, y);
}

#define GEMV_OF(id, isa, group_bytes, head_bytes, fetch)                                                             \
  void tni_x86_gemv_f32_q8g128_##id##_1x16_##isa(const uint8_t *row_block, size_t superblocks, const tni_clt_act *a, \
                                                 float *acc) {                                                       \
    gemv(group_##id, group_bytes, head_bytes, fetch, row_block, superblocks, a, acc);                                \
  }
#define GEMV(id, group_bytes, head_bytes)                 \
  GEMV_OF(id, avx512vnni, group_bytes, head_bytes, false) \
  GEMV_OF(id, avx512vnni_prefetch, group_bytes, head_bytes, true)
TNI_DOT_SIZES(GEMV)
