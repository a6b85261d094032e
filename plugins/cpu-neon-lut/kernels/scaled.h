/* SPDX-License-Identifier: Apache-2.0
 *
 * What ends a group of w4g in every product: y = fma((float)sum, weight scale * activation scale, y), as w4g.h has it.
 */
#ifndef TENON_CPU_NEON_SCALED_H
#define TENON_CPU_NEON_SCALED_H

#include <arm_neon.h>
#include <string.h>

#include "plugins/common/cpu/kernels/kernels.h"

/* Four binary16 scales. */
static inline float32x4_t tni_arm_scales(const uint8_t *halves) {
  uint16x4_t h = vld1_u16((const uint16_t *)(const void *)halves);
  return vcvt_f32_f16(vreinterpret_f16_u16(h));
}

/* A sum that began at TNI_CLT_START is, read as a float, 1.5 * 2^23 + sum: a subtraction converts it, exactly while
 * |sum| < 2^22 (128 * 8 * 127 is less), at several times the rate of a conversion. */
static inline float32x4_t tni_arm_sum(int32x4_t from_start) {
  return vsubq_f32(vreinterpretq_f32_s32(from_start), vdupq_n_f32(12582912.0f));
}

static inline float32x4_t tni_arm_add(float32x4_t y, int32x4_t from_start, float32x4_t scale) {
  return vfmaq_f32(y, tni_arm_sum(from_start), scale);
}

/* A load for each register: a copy from another takes a slot of the vector pipes, a load does not. */
static inline int32x4_t tni_arm_start(const int32_t *zero) {
  __asm__ volatile("" : "+r"(zero));
  return vld1q_s32(zero);
}

#endif
