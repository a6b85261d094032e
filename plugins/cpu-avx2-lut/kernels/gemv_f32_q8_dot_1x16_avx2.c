/* SPDX-License-Identifier: Apache-2.0
 *
 * One activation row times 16 outputs, streaming the packed block once. Two ymm of s16 sums (rows 0-7 and 8-15) start
 * from the zero-point words of 64 k (made for a zero point of 8: shifted) and are widened after them.
 */
#include <immintrin.h>
#include <string.h>

#include "plugins/common/formats/formats.h"
#include "plugins/cpu-avx2-lut/kernels/kernels.h"

static inline __m256i load_codes_avx2(const uint8_t *p) { return _mm256_load_si256((const __m256i *)(const void *)p); }
static inline __m256i cut_nibbles_avx2(__m256i v, int shift, int mask) {
  return _mm256_and_si256(_mm256_srli_epi16(v, shift), _mm256_set1_epi8((char)mask));
}

/* sum += codes times q[0..3], in every lane. */
static inline __m256i dot_signed_avx2(__m256i sum, __m256i codes, const int8_t *q) {
  int32_t v;
  memcpy(&v, q, sizeof v);
  return _mm256_add_epi16(sum, _mm256_maddubs_epi16(codes, _mm256_set1_epi32(v)));
}

/* 64 k of eight rows -> s32 sums. `word`: what a zero point of 8 takes off; head: of the row block. */
typedef __m256i (*part_fn)(const uint8_t *u, const int8_t *q, __m256i word, const uint8_t *head);

/* Two bits stay where they are and count four times: s16 sums of 64 k stay within 8 * 3048. */
__attribute__((always_inline)) static inline __m256i two_bits(const uint8_t *u, const int8_t *q, __m256i start) {
  const __m256i low = _mm256_set1_epi8(3), high = _mm256_set1_epi8(12);
  __m256i one = start, four = _mm256_setzero_si256();
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++, u += 64, q += 16) {
    const __m256i v = load_codes_avx2(u), w = _mm256_srli_epi16(v, 4);
    one = dot_signed_avx2(one, _mm256_and_si256(v, low), q);
    four = dot_signed_avx2(four, _mm256_and_si256(v, high), q + 4);
    one = dot_signed_avx2(one, _mm256_and_si256(w, low), q + 8);
    four = dot_signed_avx2(four, _mm256_and_si256(w, high), q + 12);
  }
  const __m256i s = _mm256_madd_epi16(one, _mm256_set1_epi16(4));
  return _mm256_srai_epi32(_mm256_add_epi32(s, _mm256_madd_epi16(four, _mm256_set1_epi16(1))), 2);
}

__attribute__((always_inline)) static inline __m256i part_w2g(const uint8_t *u, const int8_t *q, __m256i word,
                                                              const uint8_t *head) {
  (void)head;
  return two_bits(u, q, _mm256_srai_epi16(word, 2));
}

__attribute__((always_inline)) static inline __m256i part_tern20(const uint8_t *u, const int8_t *q, __m256i word,
                                                                 const uint8_t *head) {
  (void)head;
  return two_bits(u, q, _mm256_srai_epi16(word, 3));
}

__attribute__((always_inline)) static inline __m256i part_w3g(const uint8_t *u, const int8_t *q, __m256i word,
                                                              const uint8_t *head) {
  (void)head;
  __m256i s = _mm256_srai_epi16(word, 1), t = _mm256_setzero_si256();
#pragma GCC unroll 2
  for (int i = 0; i < 2; i++, u += 192, q += 32) {
    const __m256i a = load_codes_avx2(u), b = load_codes_avx2(u + 64), c = load_codes_avx2(u + 128);
    s = dot_signed_avx2(s, cut_nibbles_avx2(a, 0, 7), q);
    t = dot_signed_avx2(t, cut_nibbles_avx2(a, 3, 7), q + 4);
    s = dot_signed_avx2(s, _mm256_or_si256(cut_nibbles_avx2(a, 6, 3), cut_nibbles_avx2(c, 4, 4)), q + 8);
    t = dot_signed_avx2(t, cut_nibbles_avx2(b, 0, 7), q + 12);
    s = dot_signed_avx2(s, cut_nibbles_avx2(b, 3, 7), q + 16);
    t = dot_signed_avx2(t, _mm256_or_si256(cut_nibbles_avx2(b, 6, 3), cut_nibbles_avx2(c, 5, 4)), q + 20);
    s = dot_signed_avx2(s, cut_nibbles_avx2(c, 0, 7), q + 24);
    t = dot_signed_avx2(t, cut_nibbles_avx2(c, 3, 7), q + 28);
  }
  return _mm256_madd_epi16(_mm256_add_epi16(s, t), _mm256_set1_epi16(1));
}

/* A bit counts as twice itself; bits stay where they are in a nibble: s16 sums stay within 4 * 8 * 254. */
__attribute__((always_inline)) static inline __m256i part_w1g(const uint8_t *u, const int8_t *q, __m256i word,
                                                              const uint8_t *head) {
  __m256i s0 = _mm256_setzero_si256(), s1 = s0, s2 = s0, s3 = s0;
  (void)head;
#pragma GCC unroll 2
  for (int i = 0; i < 2; i++, u += 64, q += 32) {
    const __m256i v = load_codes_avx2(u), w = _mm256_srli_epi16(v, 4);
    s0 = dot_signed_avx2(s0, cut_nibbles_avx2(v, 0, 1), q);
    s1 = dot_signed_avx2(s1, cut_nibbles_avx2(v, 0, 2), q + 4);
    s2 = dot_signed_avx2(s2, cut_nibbles_avx2(v, 0, 4), q + 8);
    s3 = dot_signed_avx2(s3, cut_nibbles_avx2(v, 0, 8), q + 12);
    s0 = dot_signed_avx2(s0, cut_nibbles_avx2(w, 0, 1), q + 16);
    s1 = dot_signed_avx2(s1, cut_nibbles_avx2(w, 0, 2), q + 20);
    s2 = dot_signed_avx2(s2, cut_nibbles_avx2(w, 0, 4), q + 24);
    s3 = dot_signed_avx2(s3, cut_nibbles_avx2(w, 0, 8), q + 28);
  }
  s0 = _mm256_add_epi32(_mm256_madd_epi16(s0, _mm256_set1_epi16(8)), _mm256_madd_epi16(s1, _mm256_set1_epi16(4)));
  s2 = _mm256_add_epi32(_mm256_madd_epi16(s2, _mm256_set1_epi16(2)), _mm256_madd_epi16(s3, _mm256_set1_epi16(1)));
  const __m256i zero = _mm256_madd_epi16(_mm256_srai_epi16(word, 3), _mm256_set1_epi16(1));
  return _mm256_add_epi32(_mm256_srai_epi32(_mm256_add_epi32(s0, s2), 2), zero);
}

/* Magnitudes times activations with the weights' signs: pairs stay within 2 * 128 * 127. */
static inline __m256i dot_signed(__m256i sum, __m256i w, __m256i size, const int8_t *q) {
  int32_t v;
  memcpy(&v, q, sizeof v);
  const __m256i t = _mm256_maddubs_epi16(size, _mm256_sign_epi8(_mm256_set1_epi32(v), w));
  return _mm256_add_epi32(sum, _mm256_madd_epi16(t, _mm256_set1_epi16(1)));
}

__attribute__((always_inline)) static inline __m256i part_w8g(const uint8_t *u, const int8_t *q, __m256i word,
                                                              const uint8_t *head) {
  const __m256i sign = _mm256_set1_epi8(-128);
  __m256i s = _mm256_setzero_si256();
  (void)word, (void)head;
#pragma GCC unroll 4
  for (int i = 0; i < 16; i++) {
    const __m256i w = _mm256_xor_si256(load_codes_avx2(u + i * 64), sign);
    s = dot_signed(s, w, _mm256_abs_epi8(w), q + i * 4);
  }
  return s;
}

__attribute__((always_inline)) static inline __m256i part_pal16(const uint8_t *u, const int8_t *q, __m256i word,
                                                                const uint8_t *head) {
  const __m128i levels = _mm_load_si128((const __m128i *)(const void *)(head + TNI_DOT_SCALE_BYTES));
  const __m256i table = _mm256_xor_si256(_mm256_broadcastsi128_si256(levels), _mm256_set1_epi8(-128));
  const __m256i sizes = _mm256_abs_epi8(table);
  __m256i s = _mm256_setzero_si256();
  (void)word;
#pragma GCC unroll 4
  for (int i = 0; i < 8; i++, q += 8) {
    const __m256i v = load_codes_avx2(u + i * 64), lo = cut_nibbles_avx2(v, 0, 15), hi = cut_nibbles_avx2(v, 4, 15);
    s = dot_signed(s, _mm256_shuffle_epi8(table, lo), _mm256_shuffle_epi8(sizes, lo), q);
    s = dot_signed(s, _mm256_shuffle_epi8(table, hi), _mm256_shuffle_epi8(sizes, hi), q + 4);
  }
  return s;
}

static inline __m256 halves_at(const uint8_t *p) {
  return _mm256_cvtph_ps(_mm_load_si128((const __m128i *)(const void *)p));
}

static inline __m256 add_scaled(__m256 y, __m256i sum, __m256 sw, float sx) {
  return _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum), _mm256_mul_ps(sw, _mm256_set1_ps(sx)), y);
}

/* part_bytes: codes of 64 k. head_bytes: 0 where superblocks have scales. */
__attribute__((always_inline)) static inline void gemv_dot_avx2(part_fn part, size_t part_bytes, size_t head_bytes,
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
  for (size_t g = 0; g < 2 * superblocks; g++, sx++, q += 128, zero += 2, block += 2 * part_bytes) {
    for (size_t i = 0; fetch && i < 2 * part_bytes + 32; i += 64)
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
    const __m256i z0 = _mm256_set1_epi32(zero[0]), z1 = _mm256_set1_epi32(zero[1]);
    __m256i s0 = part(block, q, z0, head), s1 = part(block + 32, q, z0, head);
    s0 = _mm256_add_epi32(s0, part(block + part_bytes, q + 64, z1, head));
    s1 = _mm256_add_epi32(s1, part(block + part_bytes + 32, q + 64, z1, head));
    y0 = add_scaled(y0, s0, w0, *sx);
    y1 = add_scaled(y1, s1, w1, *sx);
  }
  _mm256_storeu_ps(acc, y0);
  _mm256_storeu_ps(acc + 8, y1);
}

#define GEMV_OF(id, isa, group_bytes, head_bytes, fetch)                                                             \
  void tni_x86_gemv_f32_q8g128_##id##_1x16_##isa(const uint8_t *row_block, size_t superblocks, const tni_clt_act *a, \
                                                 float *acc) {                                                       \
    gemv_dot_avx2(part_##id, group_bytes / 2, head_bytes, fetch, row_block, superblocks, a, acc);                    \
  }
#define GEMV(id, group_bytes, head_bytes)           \
  GEMV_OF(id, avx2, group_bytes, head_bytes, false) \
  GEMV_OF(id, avx2_prefetch, group_bytes, head_bytes, true)
TNI_DOT_SIZES(GEMV)
