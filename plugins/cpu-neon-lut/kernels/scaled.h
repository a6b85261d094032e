/* SPDX-License-Identifier: Apache-2.0
 *
 * What ends a group in every product: y = fma((float)sum, weight scale * activation scale, y), as w4g.h and grid.h have
 * it, and where sums begin.
 */
#ifndef TENON_CPU_NEON_SCALED_H
#define TENON_CPU_NEON_SCALED_H

#include <arm_neon.h>
#include <string.h>

#include "plugins/common/cpu/kernels/kernels.h"
#include "plugins/common/formats/formats.h"

/* Four binary16 scales. */
static inline float32x4_t tni_arm_scales(const uint8_t *halves) {
  uint16x4_t h = vld1_u16((const uint16_t *)(const void *)halves);
  return vcvt_f32_f16(vreinterpret_f16_u16(h));
}

static inline float32x4_t tni_arm_floats(const uint8_t *p) { return vld1q_f32((const float *)(const void *)p); }

/* Four scales as a superblock has them; at: the first. */
static inline float32x4_t tni_arm_scales_at(const tni_grid_layout *l, const uint8_t *sb, size_t at) {
  return l->scale_bits == 16 ? tni_arm_scales(sb + 2 * at) : tni_arm_floats(sb + 4 * at);
}

/* The largest sum of magnitudes of four, neighbours first; group: a multiple of 16. */
static inline float tni_arm_largest_run(const float *x, size_t group) {
  float32x4_t m = vdupq_n_f32(0);
  for (size_t i = 0; i < group; i += 16) {
    const float32x4_t a = vpaddq_f32(vabsq_f32(vld1q_f32(x + i)), vabsq_f32(vld1q_f32(x + i + 4)));
    const float32x4_t b = vpaddq_f32(vabsq_f32(vld1q_f32(x + i + 8)), vabsq_f32(vld1q_f32(x + i + 12)));
    m = vmaxnmq_f32(m, vpaddq_f32(a, b));
  }
  return vmaxnmvq_f32(m);
}

/* The weights' scales times that of a group of x; by_row: x has none. */
__attribute__((always_inline)) static inline float32x4_t tni_arm_joined(bool by_row, float32x4_t scales,
                                                                        const float *of_x) {
  return by_row ? scales : vmulq_n_f32(scales, *of_x);
}

/* A GEMV with a function of its own for rows of x that have one scale, name_by_row: `rows` there, else `groups`. */
#define TNI_ARM_BY_ROW(name, rows, groups) TNI_ARM_BY_ROW_NAMED(name, rows, groups)
#define TNI_ARM_BY_ROW_NAMED(name, rows, groups)                                                    \
  __attribute__((noinline)) static void name##_by_row(const uint8_t *row_block, size_t superblocks, \
                                                      const tni_clt_act *a, float *acc) {           \
    rows;                                                                                           \
  }                                                                                                 \
  void name(const uint8_t *row_block, size_t superblocks, const tni_clt_act *a, float *acc) {       \
    if (a->row)                                                                                     \
      name##_by_row(row_block, superblocks, a, acc);                                                \
    else                                                                                            \
      groups;                                                                                       \
  }

/* A sum that began at TNI_CLT_START is, read as a float, 1.5 * 2^23 + sum: a subtraction converts it, exactly while
 * |sum| < 2^22 (128 * 255 * 127 is less), at several times the rate of a conversion. */
#define TNI_ARM_START_FLOAT 12582912.0f
static inline float32x4_t tni_arm_sum(int32x4_t from_start) {
  return vsubq_f32(vreinterpretq_f32_s32(from_start), vdupq_n_f32(TNI_ARM_START_FLOAT));
}

static inline float32x4_t tni_arm_add(float32x4_t y, int32x4_t from_start, float32x4_t scale) {
  return vfmaq_f32(y, tni_arm_sum(from_start), scale);
}

/* A load for each register: a copy from another takes a slot of the vector pipes, a load does not. */
static inline int32x4_t tni_arm_start(const int32_t *zero) {
  int32x4_t s;
  __asm__ volatile("ldr %q0, %1" : "=w"(s) : "m"(*(const int32x4_t *)(const void *)zero));
  return s;
}

/* Where sums begin from which nothing is taken off. */
static const int32_t tni_arm_plain[4] = {TNI_CLT_START, TNI_CLT_START, TNI_CLT_START, TNI_CLT_START};

/* The sum of a group's activations, four times, from their start words TNI_CLT_START - 8 * sum. */
static inline int32x4_t tni_arm_codes_sum(const int32_t *word) {
  return vshrq_n_s32(vsubq_s32(vdupq_n_s32(TNI_CLT_START), vld1q_s32(word)), 3);
}
static inline float32x4_t tni_arm_codes_sum_f32(const int32_t *word) {
  return vmulq_n_f32(tni_arm_sum(vld1q_s32(word)), -0.125f);
}

/* w4g as a layout of grids: two groups, scales in binary16, no zero points. */
static inline tni_grid_layout tni_arm_w4g(uint32_t group) {
  return (tni_grid_layout){.bits = 4,
                           .group = group,
                           .scale_bits = 16,
                           .groups = 2,
                           .codes_at = 64,
                           .bytes = 64 + 2 * group * TNI_CLT_ROWS / 2};
}

#endif
