/* SPDX-License-Identifier: Apache-2.0
 *
 * The sums of a group of a grid with VNNI, in registers of any width: who includes it has defined ints, OP(name),
 * load_codes, keep_bits and add_dot. Codes stay where they lie in a byte as far as that goes, and have sums of their
 * own, which are shifted once per group.
 */
#ifndef TENON_CPU_AVX2_LUT_KERNELS_GRID_SUMS_TEMPLATE_H
#define TENON_CPU_AVX2_LUT_KERNELS_GRID_SUMS_TEMPLATE_H

/* word: -8 * sum of q, what a zero point of 8 takes off. */
__attribute__((always_inline)) static inline ints sums_of_2(uint32_t group, const uint8_t *u, const int8_t *q,
                                                            int32_t word) {
  ints s0 = OP(set1_epi32)(word / 4), s1 = ZERO(), s2 = s1, s3 = s1;
#pragma GCC unroll 8
  for (uint32_t k = 0; k < group; k += 16, u += 64, q += 16) {
    const ints v = load_codes(u);
    s0 = add_dot(s0, keep_bits(v, 0x03), q);
    s1 = add_dot(s1, keep_bits(v, 0x0c), q + 4);
    s2 = add_dot(s2, keep_bits(v, 0x30), q + 8);
    s3 = add_dot(s3, keep_bits(v, 0xc0), q + 12);
  }
  s0 = OP(add_epi32)(s0, OP(srai_epi32)(s1, 2));
  return OP(add_epi32)(s0, OP(add_epi32)(OP(srai_epi32)(s2, 4), OP(srai_epi32)(s3, 6)));
}

__attribute__((always_inline)) static inline ints sums_of_4(uint32_t group, const uint8_t *u, const int8_t *q,
                                                            int32_t word) {
  ints s0 = OP(set1_epi32)(word), s1 = ZERO(), s2 = s1, s3 = s1;
#pragma GCC unroll 4
  for (uint32_t k = 0; k < group; k += 16, u += 128, q += 16) {
    const ints v = load_codes(u), w = load_codes(u + 64);
    s0 = add_dot(s0, keep_bits(v, 15), q);
    s1 = add_dot(s1, keep_bits(OP(srli_epi16)(v, 4), 15), q + 4);
    s2 = add_dot(s2, keep_bits(w, 15), q + 8);
    s3 = add_dot(s3, keep_bits(OP(srli_epi16)(w, 4), 15), q + 12);
  }
  return OP(add_epi32)(OP(add_epi32)(s0, s1), OP(add_epi32)(s2, s3));
}

__attribute__((always_inline)) static inline ints sums_of_8(uint32_t group, const uint8_t *u, const int8_t *q,
                                                            int32_t word) {
  ints s0 = OP(set1_epi32)(word * 16), s1 = ZERO(), s2 = s1, s3 = s1;
#pragma GCC unroll 4
  for (uint32_t k = 0; k < group; k += 16, u += 256, q += 16) {
    s0 = add_dot(s0, load_codes(u), q);
    s1 = add_dot(s1, load_codes(u + 64), q + 4);
    s2 = add_dot(s2, load_codes(u + 128), q + 8);
    s3 = add_dot(s3, load_codes(u + 192), q + 12);
  }
  return OP(add_epi32)(OP(add_epi32)(s0, s1), OP(add_epi32)(s2, s3));
}

__attribute__((always_inline)) static inline ints group_sums(uint32_t bits, uint32_t group, const uint8_t *u,
                                                             const int8_t *q, int32_t word) {
  return bits == 2   ? sums_of_2(group, u, q, word)
         : bits == 4 ? sums_of_4(group, u, q, word)
                     : sums_of_8(group, u, q, word);
}

#endif
