/* SPDX-License-Identifier: Apache-2.0
 *
 * One activation row times 16 outputs by lookup in paired tables: a u16 lane is a row, its two bytes index two
 * neighbouring tables of 16 in one register pair, and uadalp adds what they give into the row's sum. The indices of odd
 * bytes have bit 4 set by a constant, whose top half neither bit nor sri touches: an index register is written once and
 * only its low halves change. Sums of a group fit in u16: 32 * 255 for a plane, 3 times that for two, twice that too.
 */
#include <arm_neon.h>

#include "plugins/common/formats/formats.h"
#include "plugins/cpu-neon-lut/kernels/kernels.h"
#include "plugins/cpu-neon-lut/kernels/scaled.h"

/* Eight rows of one plane: their sums, and two registers of indices. */
typedef struct lane_sums {
  uint16x8_t u;
  uint8x16_t low, high;
} lane_sums;

/* 16 bytes: 8 rows of one plane, four quads. asm: clang makes three instructions of vbsl under a constant. */
__attribute__((always_inline)) static inline void look_up(lane_sums *s, uint8x16_t v, uint8x16_t nibble,
                                                          uint8x16x2_t front, uint8x16x2_t back) {
  __asm__("bit %0.16b, %1.16b, %2.16b" : "+w"(s->low) : "w"(v), "w"(nibble));
  s->high = vsriq_n_u8(s->high, v, 4);
  s->u = vpadalq_u8(s->u, vqtbl2q_u8(front, s->low));
  s->u = vpadalq_u8(s->u, vqtbl2q_u8(back, s->high));
}

/* TNI_CLT_START + start + 2 * sum of 2^p u_p of eight rows; planes of `stride` sums. */
__attribute__((always_inline)) static inline void weigh_planes(size_t planes, const lane_sums *s, int32x4_t start,
                                                               uint32x4_t *sum) {
  uint16x8_t a = s[0].u;
  if (planes > 1) a = vaddq_u16(a, vaddq_u16(s[2].u, s[2].u));
  a = vaddq_u16(a, a);
  sum[0] = vaddw_u16(vreinterpretq_u32_s32(start), vget_low_u16(a));
  sum[1] = vaddw_high_u16(vreinterpretq_u32_s32(start), a);
  if (planes == 3) { /* 8 * 32 * 255 */
    const uint16x8_t b = vshlq_n_u16(s[4].u, 3);
    sum[0] = vaddw_u16(sum[0], vget_low_u16(b));
    sum[1] = vaddw_high_u16(sum[1], b);
  }
  if (planes == 4) {
    const uint16x8_t b = vaddq_u16(s[4].u, vaddq_u16(s[6].u, s[6].u));
    sum[0] = vaddq_u32(sum[0], vshll_n_u16(vget_low_u16(b), 3));
    sum[1] = vaddq_u32(sum[1], vshll_high_n_u16(b, 3));
  }
}

/* y += sum * (weight scale * sx), four rows. */
static inline float32x4_t finish_group_neon(float32x4_t y, uint32x4_t from_start, float32x4_t w, float sx) {
  return tni_arm_add(y, vreinterpretq_s32_u32(from_start), vmulq_n_f32(w, sx));
}

/* Unrolled by hand: clang leaves such a loop as it is, with s in memory. */
#define EACH_LANE(F)                      \
  F(0) F(1) if (planes > 1) { F(2) F(3) } \
  if (planes > 2) {                       \
    F(4) F(5)                             \
  }                                       \
  if (planes > 3) {                       \
    F(6) F(7)                             \
  }
#define INDICES(i) s[i].low = s[i].high = vreinterpretq_u8_u16(vdupq_n_u16(0x1000));
#define CLEAR(i) s[i].u = vdupq_n_u16(0);
#define LOOK_UP(i) look_up(&s[i], vld1q_u8(block + 16 * i), nibble, front, back);

__attribute__((always_inline)) static inline void gemv_lut_neon(size_t planes, const uint8_t *block, size_t groups,
                                                                const tni_clt_act *act, float *acc) {
  const uint8_t *table = (const uint8_t *)act->q;
  const uint8x16_t nibble = vdupq_n_u8(15);
  lane_sums s[2 * TNI_LUT_MAX_PLANES]; /* of each plane rows 0 .. 7, 8 .. 15 */
  float32x4_t y0 = vdupq_n_f32(0), y1 = y0, y2 = y0, y3 = y0;
  EACH_LANE(INDICES)
  for (size_t g = 0; g < groups; g++) {
    const uint8_t *scales = block;
    EACH_LANE(CLEAR)
    block += TNI_LUT_SCALE_BYTES;
#pragma GCC unroll 1
    for (size_t t = 0; t < TNI_LUT_QUADS / 4; t++, table += 64, block += 32 * planes) {
      const uint8x16x2_t front = vld1q_u8_x2(table), back = vld1q_u8_x2(table + 32);
      EACH_LANE(LOOK_UP)
    }
    const int32x4_t start = vdupq_n_s32(TNI_CLT_START + act->zero[g]);
    uint32x4_t sum[4];
    weigh_planes(planes, s, start, sum);
    weigh_planes(planes, s + 1, start, sum + 2);
    const float sx = act->scale[g];
    y0 = finish_group_neon(y0, sum[0], tni_arm_scales(scales), sx);
    y1 = finish_group_neon(y1, sum[1], tni_arm_scales(scales + 8), sx);
    y2 = finish_group_neon(y2, sum[2], tni_arm_scales(scales + 16), sx);
    y3 = finish_group_neon(y3, sum[3], tni_arm_scales(scales + 24), sx);
  }
  vst1q_f32(acc, y0);
  vst1q_f32(acc + 4, y1);
  vst1q_f32(acc + 8, y2);
  vst1q_f32(acc + 12, y3);
}

#undef LOOK_UP
#undef CLEAR
#undef INDICES
#undef EACH_LANE

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
