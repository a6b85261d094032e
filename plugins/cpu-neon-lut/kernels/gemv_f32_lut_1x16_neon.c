/* SPDX-License-Identifier: Apache-2.0
 *
 * One activation row times 16 outputs by lookup in paired tables: a u16 lane is a row, its two bytes index two
 * neighbouring tables of 16 in one register pair, and uadalp adds what they give into the row's sum. The indices of odd
 * bytes have bit 4 set by a constant, whose top half neither bit nor sri touches. Sums of a group fit in u16: 32 * 255
 * for a plane, 3 times that for two.
 */
#include <arm_neon.h>

#include "plugins/common/formats/formats.h"
#include "plugins/cpu-neon-lut/kernels/kernels.h"
#include "plugins/cpu-neon-lut/kernels/scaled.h"

typedef struct sums_neon {
  uint16x8_t r0, r8; /* rows 0 .. 7, 8 .. 15 */
} sums_neon;

/* 16 bytes: 8 rows of one plane, four quads. */
static inline uint16x8_t look_up(uint16x8_t sum, uint8x16_t v, uint8x16_t odd, uint8x16x2_t front, uint8x16x2_t back) {
  uint8x16_t low = vbslq_u8(vdupq_n_u8(15), v, odd), high = vsriq_n_u8(odd, v, 4);
  sum = vpadalq_u8(sum, vqtbl2q_u8(front, low));
  return vpadalq_u8(sum, vqtbl2q_u8(back, high));
}

/* y += (2 sum + start) * (weight scale * sx), four rows. */
static inline float32x4_t finish_group_neon(float32x4_t y, uint32x4_t twice, int32x4_t start, float32x4_t w, float sx) {
  float32x4_t s = vcvtq_f32_s32(vaddq_s32(vreinterpretq_s32_u32(twice), start));
  return vaddq_f32(y, vmulq_f32(s, vmulq_n_f32(w, sx)));
}

__attribute__((always_inline)) static inline void gemv_lut_neon(size_t planes, const uint8_t *block, size_t groups,
                                                                const tni_clt_act *act, float *acc) {
  const uint8_t *table = (const uint8_t *)act->q;
  const uint8x16_t odd = vreinterpretq_u8_u16(vdupq_n_u16(0x1000));
  float32x4_t y[4];
  for (size_t i = 0; i < 4; i++) y[i] = vdupq_n_f32(0);
  for (size_t g = 0; g < groups; g++) {
    const uint8_t *scales = block;
    sums_neon s[TNI_LUT_MAX_PLANES];
    for (size_t p = 0; p < planes; p++) s[p] = (sums_neon){vdupq_n_u16(0), vdupq_n_u16(0)};
    block += TNI_LUT_SCALE_BYTES;
    for (size_t t = 0; t < TNI_LUT_QUADS / 4; t++, table += 64, block += 32 * planes) {
      uint8x16x2_t front = {{vld1q_u8(table), vld1q_u8(table + 16)}};
      uint8x16x2_t back = {{vld1q_u8(table + 32), vld1q_u8(table + 48)}};
      for (size_t p = 0; p < planes; p++) {
        s[p].r0 = look_up(s[p].r0, vld1q_u8(block + 32 * p), odd, front, back);
        s[p].r8 = look_up(s[p].r8, vld1q_u8(block + 32 * p + 16), odd, front, back);
      }
    }
    const int32x4_t start = vdupq_n_s32(act->zero[g]);
    for (size_t h = 0; h < 2; h++) {
      /* Planes 0 and 1 in 16 bits, and 2 and 3; their sum, doubled, in 32. */
      uint16x8_t a = h ? s[0].r8 : s[0].r0, b = vdupq_n_u16(0);
      if (planes > 1) a = vaddq_u16(a, vshlq_n_u16(h ? s[1].r8 : s[1].r0, 1));
      if (planes > 2) b = h ? s[2].r8 : s[2].r0;
      if (planes > 3) b = vaddq_u16(b, vshlq_n_u16(h ? s[3].r8 : s[3].r0, 1));
      uint32x4_t u0 = vshll_n_u16(vget_low_u16(a), 1), u1 = vshll_high_n_u16(a, 1);
      if (planes > 2) {
        u0 = vaddq_u32(u0, vshll_n_u16(vget_low_u16(b), 3));
        u1 = vaddq_u32(u1, vshll_high_n_u16(b, 3));
      }
      y[2 * h] = finish_group_neon(y[2 * h], u0, start, tni_arm_scales(scales + 16 * h), act->scale[g]);
      y[2 * h + 1] = finish_group_neon(y[2 * h + 1], u1, start, tni_arm_scales(scales + 16 * h + 8), act->scale[g]);
    }
  }
  for (size_t i = 0; i < 4; i++) vst1q_f32(acc + 4 * i, y[i]);
}

#define GEMV(id, planes)                                                                                     \
  void tni_arm_gemv_f32_##id##_1x16_neon(const uint8_t *row_block, size_t superblocks, const tni_clt_act *a, \
                                         float *acc) {                                                       \
    gemv_lut_neon(planes, row_block, superblocks, a, acc);                                                   \
  }
GEMV(lut1p, 1)
GEMV(lut2p, 2)
GEMV(lut3p, 3)
GEMV(lut4p, 4)
GEMV(luttp, 2)
#undef GEMV
