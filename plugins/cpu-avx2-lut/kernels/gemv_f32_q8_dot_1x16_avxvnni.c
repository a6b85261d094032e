/* SPDX-License-Identifier: Apache-2.0
 *
 * One activation row times 16 outputs, streaming the packed block once: a register is eight outputs. Codes stay where
 * they lie in a byte as far as that goes and have sums of their own, which are shifted once per group; one starts from
 * the word of x (made for a zero point of 8: shifted).
 */
#include <immintrin.h>
#include <string.h>

#include "plugins/common/formats/formats.h"
#include "plugins/cpu-avx2-lut/kernels/kernels.h"

static inline __m256i load(const uint8_t *p) { return _mm256_load_si256((const __m256i *)(const void *)p); }
static inline __m256i keep(__m256i v, int mask) { return _mm256_and_si256(v, _mm256_set1_epi8((char)mask)); }

/* sum += codes times q[0..3], in every lane. */
static inline __m256i dot(__m256i sum, __m256i codes, const int8_t *q) {
  int32_t v;
  memcpy(&v, q, sizeof v);
  return _mm256_dpbusd_avx_epi32(sum, codes, _mm256_set1_epi32(v));
}

/* A group of 128 k, eight rows -> sums. `word`: what a zero point of 8 takes off; head: of the row block. */
typedef __m256i (*group_fn)(const uint8_t *u, const int8_t *q, __m256i word, const uint8_t *head);

__attribute__((always_inline)) static inline __m256i two_bits(const uint8_t *u, const int8_t *q, __m256i start) {
  __m256i s0 = start, s1 = _mm256_setzero_si256(), s2 = s1, s3 = s1;
#pragma GCC unroll 8
  for (int i = 0; i < 8; i++, u += 64, q += 16) {
    const __m256i v = load(u);
    s0 = dot(s0, keep(v, 0x03), q);
    s1 = dot(s1, keep(v, 0x0c), q + 4);
    s2 = dot(s2, keep(v, 0x30), q + 8);
    s3 = dot(s3, keep(v, 0xc0), q + 12);
  }
  s0 = _mm256_add_epi32(s0, _mm256_srai_epi32(s1, 2));
  return _mm256_add_epi32(s0, _mm256_add_epi32(_mm256_srai_epi32(s2, 4), _mm256_srai_epi32(s3, 6)));
}

__attribute__((always_inline)) static inline __m256i group_w2g(const uint8_t *u, const int8_t *q, __m256i word,
                                                               const uint8_t *head) {
  (void)head;
  return two_bits(u, q, _mm256_srai_epi32(word, 2));
}

__attribute__((always_inline)) static inline __m256i group_tern20(const uint8_t *u, const int8_t *q, __m256i word,
                                                                  const uint8_t *head) {
  (void)head;
  return two_bits(u, q, _mm256_srai_epi32(word, 3));
}

/* Bits 0 and 1 of `low`, bit 2 of `high`. */
static inline __m256i three_bits(__m256i low, __m256i high) { return _mm256_or_si256(keep(low, 3), keep(high, 4)); }

__attribute__((always_inline)) static inline __m256i group_w3g(const uint8_t *u, const int8_t *q, __m256i word,
                                                               const uint8_t *head) {
  (void)head;
  __m256i s0 = _mm256_srai_epi32(word, 1), s1 = _mm256_setzero_si256(), t0 = s1, t1 = s1;
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++, u += 192, q += 32) {
    const __m256i a = load(u), b = load(u + 64), c = load(u + 128);
    s0 = dot(s0, keep(a, 0x07), q);
    t0 = dot(t0, keep(a, 0x38), q + 4);
    s1 = dot(s1, three_bits(_mm256_srli_epi16(a, 6), _mm256_srli_epi16(c, 4)), q + 8);
    s0 = dot(s0, keep(b, 0x07), q + 12);
    t1 = dot(t1, keep(b, 0x38), q + 16);
    s1 = dot(s1, three_bits(_mm256_srli_epi16(b, 6), _mm256_srli_epi16(c, 5)), q + 20);
    s0 = dot(s0, keep(c, 0x07), q + 24);
    t0 = dot(t0, keep(c, 0x38), q + 28);
  }
  return _mm256_add_epi32(_mm256_add_epi32(s0, s1), _mm256_srai_epi32(_mm256_add_epi32(t0, t1), 3));
}

/* A bit counts as twice itself: sums of bit j are 2^j times too large, and half of what they should be. */
__attribute__((always_inline)) static inline __m256i group_w1g(const uint8_t *u, const int8_t *q, __m256i word,
                                                               const uint8_t *head) {
  const __m256i none = _mm256_setzero_si256();
  __m256i s0 = none, s1 = none, s2 = none, s3 = none, s4 = none, s5 = none, s6 = none, s7 = none;
  (void)head;
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++, u += 64, q += 32) {
    const __m256i v = load(u);
    s0 = dot(s0, keep(v, 0x01), q);
    s1 = dot(s1, keep(v, 0x02), q + 4);
    s2 = dot(s2, keep(v, 0x04), q + 8);
    s3 = dot(s3, keep(v, 0x08), q + 12);
    s4 = dot(s4, keep(v, 0x10), q + 16);
    s5 = dot(s5, keep(v, 0x20), q + 20);
    s6 = dot(s6, keep(v, 0x40), q + 24);
    s7 = dot(s7, keep(v, 0x80), q + 28);
  }
  s1 = _mm256_add_epi32(_mm256_slli_epi32(s0, 1), s1);
  s2 = _mm256_add_epi32(_mm256_srai_epi32(s2, 1), _mm256_srai_epi32(s3, 2));
  s4 = _mm256_add_epi32(_mm256_srai_epi32(s4, 3), _mm256_srai_epi32(s5, 4));
  s6 = _mm256_add_epi32(_mm256_srai_epi32(s6, 5), _mm256_srai_epi32(s7, 6));
  s1 = _mm256_add_epi32(s1, _mm256_srai_epi32(word, 3));
  return _mm256_add_epi32(_mm256_add_epi32(s1, s2), _mm256_add_epi32(s4, s6));
}

__attribute__((always_inline)) static inline __m256i group_w8g(const uint8_t *u, const int8_t *q, __m256i word,
                                                               const uint8_t *head) {
  __m256i s0 = _mm256_slli_epi32(word, 4), s1 = _mm256_setzero_si256(), s2 = s1, s3 = s1;
  (void)head;
#pragma GCC unroll 8
  for (int i = 0; i < 8; i++, u += 256, q += 16) {
    s0 = dot(s0, load(u), q);
    s1 = dot(s1, load(u + 64), q + 4);
    s2 = dot(s2, load(u + 128), q + 8);
    s3 = dot(s3, load(u + 192), q + 12);
  }
  return _mm256_add_epi32(_mm256_add_epi32(s0, s1), _mm256_add_epi32(s2, s3));
}

__attribute__((always_inline)) static inline __m256i group_pal16(const uint8_t *u, const int8_t *q, __m256i word,
                                                                 const uint8_t *head) {
  const __m128i levels = _mm_load_si128((const __m128i *)(const void *)(head + TNI_DOT_SCALE_BYTES));
  const __m256i table = _mm256_broadcastsi128_si256(levels);
  __m256i s0 = _mm256_slli_epi32(word, 4), s1 = _mm256_setzero_si256(), s2 = s1, s3 = s1;
#pragma GCC unroll 8
  for (int i = 0; i < 8; i++, u += 128, q += 16) {
    const __m256i v = load(u), w = load(u + 64);
    s0 = dot(s0, _mm256_shuffle_epi8(table, keep(v, 15)), q);
    s1 = dot(s1, _mm256_shuffle_epi8(table, keep(_mm256_srli_epi16(v, 4), 15)), q + 4);
    s2 = dot(s2, _mm256_shuffle_epi8(table, keep(w, 15)), q + 8);
    s3 = dot(s3, _mm256_shuffle_epi8(table, keep(_mm256_srli_epi16(w, 4), 15)), q + 12);
  }
  return _mm256_add_epi32(_mm256_add_epi32(s0, s1), _mm256_add_epi32(s2, s3));
}

static inline __m256 halves_at(const uint8_t *p) {
  return _mm256_cvtph_ps(_mm_load_si128((const __m128i *)(const void *)p));
}

static inline __m256 add_scaled(__m256 y, __m256i sum, __m256 sw, float sx) {
  return _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum), _mm256_mul_ps(sw, _mm256_set1_ps(sx)), y);
}

/* group_bytes: codes of 128 k of 16 rows. head_bytes: 0 where superblocks, of two groups, have scales. */
__attribute__((always_inline)) static inline void gemv(group_fn group, size_t group_bytes, size_t head_bytes,
                                                       bool fetch, const uint8_t *block, size_t superblocks,
                                                       const tni_clt_act *a, float *acc) {
  const uint8_t *head = block, *scales = block;
  const int8_t *q = a->q;
  const float *sx = a->scale;
  const int32_t *zero = a->zero;
  __m256 y0 = _mm256_setzero_ps(), y1 = y0, w0 = y0, w1 = y0;
  if (head_bytes) {
    w0 = _mm256_load_ps((const float *)(const void *)head);
    w1 = _mm256_load_ps((const float *)(const void *)(head + 32));
  }
  block += head_bytes;
  for (size_t g = 0; g < 2 * superblocks; g++, sx++, q += 128, zero++, block += group_bytes) {
    for (size_t i = 0; fetch && i < group_bytes + (head_bytes ? 0 : 32); i += 64)
      _mm_prefetch((const char *)block + TNI_X86_AHEAD + i, _MM_HINT_T0);
    if (!head_bytes) {
      scales += 32;
      if (g % 2 == 0) {
        scales = block;
        block += TNI_DOT_SCALE_BYTES;
      }
      w0 = halves_at(scales);
      w1 = halves_at(scales + 16);
    }
    const __m256i word = _mm256_set1_epi32(*zero);
    y0 = add_scaled(y0, group(block, q, word, head), w0, *sx);
    y1 = add_scaled(y1, group(block + 32, q, word, head), w1, *sx);
  }
  _mm256_storeu_ps(acc, y0);
  _mm256_storeu_ps(acc + 8, y1);
}

#define GEMV_OF(id, isa, group_bytes, head_bytes, fetch)                                                             \
  void tni_x86_gemv_f32_q8g128_##id##_1x16_##isa(const uint8_t *row_block, size_t superblocks, const tni_clt_act *a, \
                                                 float *acc) {                                                       \
    gemv(group_##id, group_bytes, head_bytes, fetch, row_block, superblocks, a, acc);                                \
  }
#define GEMV(id, group_bytes, head_bytes)              \
  GEMV_OF(id, avxvnni, group_bytes, head_bytes, false) \
  GEMV_OF(id, avxvnni_prefetch, group_bytes, head_bytes, true)
TNI_DOT_SIZES(GEMV)
