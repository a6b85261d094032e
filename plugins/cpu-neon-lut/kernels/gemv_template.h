/* SPDX-License-Identifier: Apache-2.0
 *
 * One activation row times 16 outputs of w4g or of a grid: what is around a group. Who includes it has defined ISA as
 * the end of the kernels' names, KERNELS (some of W4G(group, ISA), GRID(group, bits), DOT_GRID(format, bits)),
 * BYTES_LESS and
 *
 *   sums16 group_sums(bits, group, code, q, starts)
 *
 * which adds the products of a group to the sums: of codes as they are, of eight bits less BYTES_LESS (128 or 0). Only
 * for gemv_f32_q8_1x16_*.c.
 */
#ifndef TENON_CPU_NEON_LUT_KERNELS_GEMV_TEMPLATE_H
#define TENON_CPU_NEON_LUT_KERNELS_GEMV_TEMPLATE_H

#define EACH(F) F(0) F(1) F(2) F(3)

/* Where the sums of a group begin, so that they end without their zero points: TNI_CLT_START - zero * sum of q. word:
 * TNI_CLT_START - 8 * sum of q, four times. Zero points in f32 begin as half, which is the integer part of none. */
__attribute__((always_inline)) static inline sums16 starts_of(const tni_grid_layout *l, const uint8_t *zeros,
                                                              const int32_t *word) {
  const int less = l->bits == 8 ? BYTES_LESS : 0, half = 1 << (l->bits - 1);
  if (l->zero_bits == 8) {
    const uint8x16_t z = vld1q_u8(zeros);
    const uint8x8_t from = vdup_n_u8((uint8_t)(8 + less));
    const int16x8_t lo = vreinterpretq_s16_u16(vsubl_u8(from, vget_low_u8(z)));
    const int16x8_t hi = vreinterpretq_s16_u16(vsubl_u8(from, vget_high_u8(z)));
    const int16x4_t t = vget_low_s16(vreinterpretq_s16_s32(tni_arm_codes_sum(word))); /* fits: +-128 * 127 */
    return (sums16){vmlal_lane_s16(tni_arm_start(word), vget_low_s16(lo), t, 0),
                    vmlal_high_lane_s16(tni_arm_start(word), lo, t, 0),
                    vmlal_lane_s16(tni_arm_start(word), vget_low_s16(hi), t, 0),
                    vmlal_high_lane_s16(tni_arm_start(word), hi, t, 0)};
  }
  if (less == half) word = tni_arm_plain;
  if (less != half && half != 8) {
    const int32x4_t s = vmlaq_n_s32(vld1q_s32(word), tni_arm_codes_sum(word), 8 + less - half);
    return (sums16){s, s, s, s};
  }
  return (sums16){tni_arm_start(word), tni_arm_start(word), tni_arm_start(word), tni_arm_start(word)};
}

/* Less what f32 zero points differ from half by, in two parts: an integer, which is exact, and the rest. */
static inline float32x4_t less_zeros(float32x4_t v, const uint8_t *zeros, float half, float32x4_t t) {
  const float32x4_t zero = tni_arm_floats(zeros), whole = vrndnq_f32(zero);
  return vfmaq_f32(vfmaq_f32(v, vsubq_f32(vdupq_n_f32(half), whole), t), vsubq_f32(whole, zero), t);
}

/* by_row: x has no scales of groups. */
__attribute__((always_inline)) static inline void gemv_arm(tni_grid_layout l, bool by_row, const uint8_t *block,
                                                           size_t superblocks, const tni_clt_act *act, float *acc) {
  const size_t code_bytes = l.group * TNI_CLT_ROWS * l.bits / 8;
  const int8_t *q = act->q;
  const float *sx = act->scale;
  const int32_t *word = act->zero;
  float32x4_t y0 = vdupq_n_f32(0), y1 = y0, y2 = y0, y3 = y0;
  for (size_t sb = 0; sb < superblocks; sb++, block += l.bytes) {
    const uint8_t *code = block + l.codes_at, *zeros = block + l.zeros_at;
    for (size_t g = 0; g < l.groups; g++, sx++, word += 4, q += l.group, code += code_bytes) {
      const size_t at = g * TNI_CLT_ROWS;
      const sums16 s = group_sums(l.bits, l.group, code, q, starts_of(&l, zeros + at, word));
#define CONVERT(i) float32x4_t v##i = tni_arm_sum(s.s##i);
#define TAKE(i) v##i = less_zeros(v##i, zeros + 4 * (at + 4 * i), (float)(1 << (l.bits - 1)), t);
#define ADD(i) y##i = vfmaq_f32(y##i, v##i, tni_arm_joined(by_row, tni_arm_scales_at(&l, block, at + 4 * i), sx));
      EACH(CONVERT)
      if (l.zero_bits == 32) {
        const float32x4_t t = tni_arm_codes_sum_f32(word);
        EACH(TAKE)
      }
      EACH(ADD)
#undef ADD
#undef TAKE
#undef CONVERT
    }
  }
#define STORE(i) vst1q_f32(acc + 4 * i, y##i);
  EACH(STORE)
#undef STORE
}
#undef EACH

#define KERNEL(name, layout)                                                                  \
  void name(const uint8_t *row_block, size_t superblocks, const tni_clt_act *a, float *acc) { \
    gemv_arm(layout, false, row_block, superblocks, a, acc);                                  \
  }
/* With a loop of its own where a row of x has one scale. */
#define KERNEL_TWICE(name, layout)                                             \
  TNI_ARM_BY_ROW(name, gemv_arm(layout, true, row_block, superblocks, a, acc), \
                 gemv_arm(layout, false, row_block, superblocks, a, acc))
#define W4G_NAMED(group, isa) tni_arm_gemv_f32_q8g##group##_w4g##group##_1x16_##isa
#define W4G_OF(group, isa) KERNEL_TWICE(W4G_NAMED(group, isa), tni_arm_w4g(group))
#define W4G(group, isa) W4G_OF(group, isa)
/* w8g and w2g (dot.h): grids of one way. */
#define DOT_GRID_NAMED(id, isa) tni_arm_gemv_f32_q8g128_##id##_1x16_##isa
#define DOT_GRID_OF(id, bits, isa) KERNEL_TWICE(DOT_GRID_NAMED(id, isa), tni_grid_layout_of(bits, TNI_DOT_GROUP, 16, 0))
#define DOT_GRID_WITH(id, bits, isa) DOT_GRID_OF(id, bits, isa)
#define DOT_GRID(id, bits) DOT_GRID_WITH(id, bits, ISA)
#define GRID_NAMED(group, bits, isa) tni_arm_gemv_f32_q8g##group##_grid##bits##_1x16_##isa
#define GRID_OF(group, bits, isa) \
  KERNEL(GRID_NAMED(group, bits, isa), tni_grid_layout_of(bits, group, a->scale_bits, a->zero_bits))
#define GRID_WITH(group, bits, isa) GRID_OF(group, bits, isa)
#define GRID(group, bits) GRID_WITH(group, bits, ISA)
KERNELS
#undef GRID
#undef DOT_GRID
#undef DOT_GRID_WITH
#undef DOT_GRID_OF
#undef DOT_GRID_NAMED
#undef GRID_WITH
#undef GRID_OF
#undef GRID_NAMED
#undef W4G
#undef W4G_OF
#undef W4G_NAMED
#undef KERNEL_TWICE
#undef KERNEL
#undef KERNELS
#undef BYTES_LESS

#endif
