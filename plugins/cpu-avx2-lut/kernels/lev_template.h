/* SPDX-License-Identifier: Apache-2.0
 *
 * What the formats of lev.h are in registers of any width: nibbles that pick levels, steps that are scales, and one row
 * times 16 outputs. Who includes it has defined ints, floats, LANES, OP(name) (the intrinsic of that width), ISA,
 * load_codes, keep_bits, in_all_lanes, quads_bits, halves_at, steps_of; and for the sums of one block and register
 * DPBUSD, the intrinsic that adds products of unsigned and signed bytes, with four_in_all, or lev_sums itself.
 */
#ifndef TENON_CPU_AVX2_LUT_KERNELS_LEV_TEMPLATE_H
#define TENON_CPU_AVX2_LUT_KERNELS_LEV_TEMPLATE_H

/* The bytes of the neighbours whose bits a window reads. */
static inline ints other_bytes(uint32_t which, ints v) {
  const __m128i pair = _mm_setr_epi8(1, 0, 3, 2, 5, 4, 7, 6, 9, 8, 11, 10, 13, 12, 15, 14);
  const __m128i ring = _mm_setr_epi8(1, 2, 3, 0, 5, 6, 7, 4, 9, 10, 11, 8, 13, 14, 15, 12);
  return OP(shuffle_epi8)(v, in_all_lanes(which == TNI_LEV3 ? pair : ring));
}

/* Entries of quads 2c, in low nibbles, and 2c + 1 of a block whose units begin at u, of the outputs whose bytes begin
 * `half` after a unit's. */
__attribute__((always_inline)) static inline ints lev_nibbles(uint32_t which, const uint8_t *u, size_t half,
                                                              uint32_t c) {
  if (which == TNI_LEV4 || which == TNI_LEV4S) return load_codes(u + half + 64 * c);
  const ints own = which == TNI_LEV1 ? quads_bits(u + 64, half, c / 2) : load_codes(u + half + c / 2 * 64);
  ints upper;
  if (which == TNI_LEV3 || which == TNI_LEV1) {
    const ints top = load_codes(u + half + (which == TNI_LEV3 ? 128 : 0)), other = other_bytes(which, top);
    upper = c / 2 == 0 ? OP_OR(keep_bits(top, 0x55), OP(slli_epi16)(keep_bits(other, 0x55), 1))
                       : OP_OR(keep_bits(OP(srli_epi16)(top, 1), 0x55), keep_bits(other, 0xaa));
  } else {
    upper = other_bytes(which, own);
  }
  return c % 2 == 0 ? OP_OR(keep_bits(own, 0x33), OP(slli_epi16)(keep_bits(upper, 0x33), 2))
                    : OP_OR(keep_bits(OP(srli_epi16)(own, 2), 0x33), keep_bits(upper, 0xcc));
}

static inline ints lev_low(ints table, ints v) { return OP(shuffle_epi8)(table, keep_bits(v, 15)); }
static inline ints lev_high(ints table, ints v) { return OP(shuffle_epi8)(table, keep_bits(OP(srli_epi16)(v, 4), 15)); }
static inline ints lev_table(uint32_t which) {
  return in_all_lanes(_mm_load_si128((const __m128i *)(const void *)tni_lev_kinds[which].level));
}

#ifdef DPBUSD
/* Levels are raised to a zero point of 128, which the word of x takes off. */
__attribute__((always_inline)) static inline ints lev_sums(uint32_t which, uint32_t group, ints table, const uint8_t *u,
                                                           size_t half, const int8_t *q, int32_t word) {
  const ints raised = OP_XOR(table, OP(set1_epi8)(-128));
  ints s0 = OP(slli_epi32)(OP(set1_epi32)(word), 4), s1 = OP_XOR(s0, s0);
#pragma GCC unroll 4
  for (uint32_t c = 0; c < group / 8; c++) {
    const ints v = lev_nibbles(which, u, half, c);
    s0 = DPBUSD(s0, lev_low(raised, v), four_in_all(q + 8 * c));
    s1 = DPBUSD(s1, lev_high(raised, v), four_in_all(q + 8 * c + 4));
  }
  return OP(add_epi32)(s0, s1);
}
#endif

/* Parents of LANES rows from `row` on. */
static inline floats lev_parents(const uint8_t *head, size_t row) {
  return OP(mul_ps)(halves_at(head + 2 * row), OP(set1_ps)(TNI_LEV_SCALE_UNIT));
}

__attribute__((always_inline)) static inline void gemv_lev(uint32_t which, uint32_t group, uint32_t block_bytes,
                                                           bool fetch, const uint8_t *head, size_t blocks,
                                                           const tni_clt_act *a, float *acc) {
  enum { REGISTERS = TNI_CLT_ROWS / LANES };
  const uint8_t *codes = head + tni_lev_head_bytes(blocks), *index = head + 32;
  const int8_t *q = a->q;
  const ints table = lev_table(which);
  const floats parent0 = lev_parents(head, 0), parent1 = lev_parents(head, TNI_CLT_ROWS - LANES);
  floats y0 = OP(setzero_ps)(), y1 = y0;
  for (size_t b = 0; b < blocks; b++, q += group, codes += block_bytes, index += 8) {
    for (uint32_t i = 0; fetch && i < block_bytes; i += 64)
      _mm_prefetch((const char *)codes + TNI_X86_AHEAD + i, _MM_HINT_T0);
    const floats sx = OP(set1_ps)(a->scale[b]);
    const ints s0 = lev_sums(which, group, table, codes, 0, q, a->zero[b]);
    y0 = OP(fmadd_ps)(OP(cvtepi32_ps)(s0), OP(mul_ps)(OP(mul_ps)(parent0, steps_of(index, 0)), sx), y0);
    if (REGISTERS == 1) continue;
    const ints s1 = lev_sums(which, group, table, codes, 32, q, a->zero[b]);
    y1 = OP(fmadd_ps)(OP(cvtepi32_ps)(s1), OP(mul_ps)(OP(mul_ps)(parent1, steps_of(index, 4)), sx), y1);
  }
  OP(storeu_ps)(acc, y0);
  if (REGISTERS == 2) OP(storeu_ps)(acc + TNI_CLT_ROWS - LANES, y1);
}

#define LEV_GEMV_AS(id, ID, group, bytes, isa, fetch)                                                \
  void tni_x86_gemv_f32_q8g##group##_##id##_1x16_##isa(const uint8_t *row_block, size_t superblocks, \
                                                       const tni_clt_act *a, float *acc) {           \
    gemv_lev(TNI_##ID, group, bytes, fetch, row_block, superblocks, a, acc);                         \
  }
#define LEV_GEMV_OF(id, ID, group, bytes, isa)  \
  LEV_GEMV_AS(id, ID, group, bytes, isa, false) \
  LEV_GEMV_AS(id, ID, group, bytes, isa##_prefetch, true)
#define LEV_GEMVS(isa)                    \
  LEV_GEMV_OF(lev4, LEV4, 32, 256, isa)   \
  LEV_GEMV_OF(lev4s, LEV4S, 16, 128, isa) \
  LEV_GEMV_OF(lev3, LEV3, 32, 192, isa)   \
  LEV_GEMV_OF(lev2, LEV2, 32, 128, isa)   \
  LEV_GEMV_OF(lev1, LEV1, 32, 96, isa)

#endif
