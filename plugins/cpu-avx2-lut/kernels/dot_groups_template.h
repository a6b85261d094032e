/* SPDX-License-Identifier: Apache-2.0
 *
 * A group of 128 k of each format of plugins/common/formats/dot.h, with VNNI in registers of any width. Who includes it
 * has defined ints, OP(name) (the intrinsic of that width), ZERO(), load_codes, keep_bits, add_dot, three_bits and
 * in_all_lanes.
 */
#ifndef TENON_CPU_AVX2_LUT_KERNELS_DOT_GROUPS_TEMPLATE_H
#define TENON_CPU_AVX2_LUT_KERNELS_DOT_GROUPS_TEMPLATE_H

/* -> sums. `word`: what a zero point of 8 takes off; head: of the row block. */
typedef ints (*group_fn)(const uint8_t *u, const int8_t *q, ints word, const uint8_t *head);

__attribute__((always_inline)) static inline ints two_bits(const uint8_t *u, const int8_t *q, ints start) {
  ints s0 = start, s1 = ZERO(), s2 = s1, s3 = s1;
#pragma GCC unroll 8
  for (int i = 0; i < 8; i++, u += 64, q += 16) {
    const ints v = load_codes(u);
    s0 = add_dot(s0, keep_bits(v, 0x03), q);
    s1 = add_dot(s1, keep_bits(v, 0x0c), q + 4);
    s2 = add_dot(s2, keep_bits(v, 0x30), q + 8);
    s3 = add_dot(s3, keep_bits(v, 0xc0), q + 12);
  }
  s0 = OP(add_epi32)(s0, OP(srai_epi32)(s1, 2));
  return OP(add_epi32)(s0, OP(add_epi32)(OP(srai_epi32)(s2, 4), OP(srai_epi32)(s3, 6)));
}

__attribute__((always_inline)) static inline ints group_w2g(const uint8_t *u, const int8_t *q, ints word,
                                                            const uint8_t *head) {
  (void)head;
  return two_bits(u, q, OP(srai_epi32)(word, 2));
}

__attribute__((always_inline)) static inline ints group_tern20(const uint8_t *u, const int8_t *q, ints word,
                                                               const uint8_t *head) {
  (void)head;
  return two_bits(u, q, OP(srai_epi32)(word, 3));
}

__attribute__((always_inline)) static inline ints group_w3g(const uint8_t *u, const int8_t *q, ints word,
                                                            const uint8_t *head) {
  (void)head;
  ints s0 = OP(srai_epi32)(word, 1), s1 = ZERO(), t0 = s1, t1 = s1;
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++, u += 192, q += 32) {
    const ints a = load_codes(u), b = load_codes(u + 64), c = load_codes(u + 128);
    s0 = add_dot(s0, keep_bits(a, 0x07), q);
    t0 = add_dot(t0, keep_bits(a, 0x38), q + 4);
    s1 = add_dot(s1, three_bits(OP(srli_epi16)(a, 6), OP(srli_epi16)(c, 4)), q + 8);
    s0 = add_dot(s0, keep_bits(b, 0x07), q + 12);
    t1 = add_dot(t1, keep_bits(b, 0x38), q + 16);
    s1 = add_dot(s1, three_bits(OP(srli_epi16)(b, 6), OP(srli_epi16)(c, 5)), q + 20);
    s0 = add_dot(s0, keep_bits(c, 0x07), q + 24);
    t0 = add_dot(t0, keep_bits(c, 0x38), q + 28);
  }
  return OP(add_epi32)(OP(add_epi32)(s0, s1), OP(srai_epi32)(OP(add_epi32)(t0, t1), 3));
}

/* A bit counts as twice itself: sums of bit j are 2^j times too large, and half of what they should be. */
__attribute__((always_inline)) static inline ints group_w1g(const uint8_t *u, const int8_t *q, ints word,
                                                            const uint8_t *head) {
  const ints none = ZERO();
  ints s0 = none, s1 = none, s2 = none, s3 = none, s4 = none, s5 = none, s6 = none, s7 = none;
  (void)head;
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++, u += 64, q += 32) {
    const ints v = load_codes(u);
    s0 = add_dot(s0, keep_bits(v, 0x01), q);
    s1 = add_dot(s1, keep_bits(v, 0x02), q + 4);
    s2 = add_dot(s2, keep_bits(v, 0x04), q + 8);
    s3 = add_dot(s3, keep_bits(v, 0x08), q + 12);
    s4 = add_dot(s4, keep_bits(v, 0x10), q + 16);
    s5 = add_dot(s5, keep_bits(v, 0x20), q + 20);
    s6 = add_dot(s6, keep_bits(v, 0x40), q + 24);
    s7 = add_dot(s7, keep_bits(v, 0x80), q + 28);
  }
  s1 = OP(add_epi32)(OP(slli_epi32)(s0, 1), s1);
  s2 = OP(add_epi32)(OP(srai_epi32)(s2, 1), OP(srai_epi32)(s3, 2));
  s4 = OP(add_epi32)(OP(srai_epi32)(s4, 3), OP(srai_epi32)(s5, 4));
  s6 = OP(add_epi32)(OP(srai_epi32)(s6, 5), OP(srai_epi32)(s7, 6));
  s1 = OP(add_epi32)(s1, OP(srai_epi32)(word, 3));
  return OP(add_epi32)(OP(add_epi32)(s1, s2), OP(add_epi32)(s4, s6));
}

__attribute__((always_inline)) static inline ints group_w8g(const uint8_t *u, const int8_t *q, ints word,
                                                            const uint8_t *head) {
  ints s0 = OP(slli_epi32)(word, 4), s1 = ZERO(), s2 = s1, s3 = s1;
  (void)head;
#pragma GCC unroll 8
  for (int i = 0; i < 8; i++, u += 256, q += 16) {
    s0 = add_dot(s0, load_codes(u), q);
    s1 = add_dot(s1, load_codes(u + 64), q + 4);
    s2 = add_dot(s2, load_codes(u + 128), q + 8);
    s3 = add_dot(s3, load_codes(u + 192), q + 12);
  }
  return OP(add_epi32)(OP(add_epi32)(s0, s1), OP(add_epi32)(s2, s3));
}

__attribute__((always_inline)) static inline ints group_pal16(const uint8_t *u, const int8_t *q, ints word,
                                                              const uint8_t *head) {
  const __m128i levels = _mm_load_si128((const __m128i *)(const void *)(head + TNI_DOT_SCALE_BYTES));
  const ints table = in_all_lanes(levels);
  ints s0 = OP(slli_epi32)(word, 4), s1 = ZERO(), s2 = s1, s3 = s1;
#pragma GCC unroll 8
  for (int i = 0; i < 8; i++, u += 128, q += 16) {
    const ints v = load_codes(u), w = load_codes(u + 64);
    s0 = add_dot(s0, OP(shuffle_epi8)(table, keep_bits(v, 15)), q);
    s1 = add_dot(s1, OP(shuffle_epi8)(table, keep_bits(OP(srli_epi16)(v, 4), 15)), q + 4);
    s2 = add_dot(s2, OP(shuffle_epi8)(table, keep_bits(w, 15)), q + 8);
    s3 = add_dot(s3, OP(shuffle_epi8)(table, keep_bits(OP(srli_epi16)(w, 4), 15)), q + 12);
  }
  return OP(add_epi32)(OP(add_epi32)(s0, s1), OP(add_epi32)(s2, s3));
}

#endif
