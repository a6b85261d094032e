/* SPDX-License-Identifier: Apache-2.0
 *
 * One activation row times 16 outputs of w4g: what is around a group. Who includes it has defined GROUP_SUMS, and ISA
 * as the end of the kernels' names. Only for gemv_f32_q8_w4_1x16_*.c.
 *
 * GROUP_SUMS adds the products of a group of `group` k to t0 .. t3 (four outputs each) and moves code and q after it.
 */
#ifndef TENON_CPU_NEON_LUT_KERNELS_GEMV_W4_TEMPLATE_H
#define TENON_CPU_NEON_LUT_KERNELS_GEMV_W4_TEMPLATE_H

__attribute__((always_inline)) static inline void gemv_w4_arm(size_t group, size_t sb_bytes, const uint8_t *block,
                                                              size_t superblocks, const tni_clt_act *act, float *acc) {
  const uint8x16_t nibble = vdupq_n_u8(15);
  const int8_t *q = act->q;
  const float *sx = act->scale;
  const int32_t *zero = act->zero;
  float32x4_t y0 = vdupq_n_f32(0), y1 = y0, y2 = y0, y3 = y0;
  for (size_t sb = 0; sb < superblocks; sb++, block += sb_bytes) {
    const uint8_t *code = block + 64;
    for (size_t g = 0; g < 2; g++, sx++, zero += 4) {
      int32x4_t t0 = tni_arm_start(zero), t1 = tni_arm_start(zero), t2 = tni_arm_start(zero), t3 = tni_arm_start(zero);
      GROUP_SUMS
      const uint8_t *sw = block + g * 32;
      y0 = tni_arm_add(y0, t0, vmulq_n_f32(tni_arm_scales(sw), *sx));
      y1 = tni_arm_add(y1, t1, vmulq_n_f32(tni_arm_scales(sw + 8), *sx));
      y2 = tni_arm_add(y2, t2, vmulq_n_f32(tni_arm_scales(sw + 16), *sx));
      y3 = tni_arm_add(y3, t3, vmulq_n_f32(tni_arm_scales(sw + 24), *sx));
    }
  }
  vst1q_f32(acc, y0);
  vst1q_f32(acc + 4, y1);
  vst1q_f32(acc + 8, y2);
  vst1q_f32(acc + 12, y3);
}

#define KERNEL_NAMED(group, isa) tni_arm_gemv_f32_q8g##group##_w4g##group##_1x16_##isa
#define KERNEL_OF(group, isa)                                                                                     \
  void KERNEL_NAMED(group, isa)(const uint8_t *row_block, size_t superblocks, const tni_clt_act *a, float *acc) { \
    gemv_w4_arm(group, sizeof(tni_w4g_sb##group), row_block, superblocks, a, acc);                                \
  }
#define KERNEL(group, isa) KERNEL_OF(group, isa)
KERNEL(32, ISA)
KERNEL(128, ISA)
#undef KERNEL
#undef KERNEL_OF
#undef KERNEL_NAMED

#endif
