/* SPDX-License-Identifier: Apache-2.0
 *
 * One activation row times 16 outputs of the formats of lev.h by SDOT: a nibble is one `tbl`, 16 levels of four
 * outputs.
 */
#include "plugins/cpu-neon-lut/kernels/kernels.h"
#include "plugins/cpu-neon-lut/kernels/levels.h"

#define EACH TNI_ARM_EACH4
#define DOT(s, w, q, lane) s = vdotq_laneq_s32(s, vreinterpretq_s8_u8(w), q, lane)

/* 16 k. */
#define QUADS(i)                                                     \
  {                                                                  \
    const uint8x16_t v = tni_arm_lev_nibbles(which, code, i, c);     \
    const uint8x16_t w = tni_arm_lev_nibbles(which, code, i, c + 1); \
    DOT(s##i, tni_arm_lev_low(table, v), x, 0);                      \
    DOT(s##i, tni_arm_lev_high(table, v), x, 1);                     \
    DOT(s##i, tni_arm_lev_low(table, w), x, 2);                      \
    DOT(s##i, tni_arm_lev_high(table, w), x, 3);                     \
  }
#define START(i) int32x4_t s##i = tni_arm_start(tni_arm_plain);
#define ADD(i) y##i = tni_arm_add(y##i, s##i, tni_arm_joined(by_row, vmulq_f32(parent.f##i, step.f##i), sx));
#define STORE(i) vst1q_f32(acc + 4 * i, y##i);

__attribute__((always_inline)) static inline void gemv_lev(uint32_t which, uint32_t group, uint32_t bytes, bool by_row,
                                                           const uint8_t *head, size_t blocks, const tni_clt_act *a,
                                                           float *acc) {
  const uint8x16_t table = tni_arm_lev_table(which);
  const uint8x16x4_t steps = tni_arm_lev_steps();
  const tni_arm_floats16 parent = tni_arm_lev_parents(head);
  const uint8_t *code = head + tni_lev_head_bytes(blocks), *index = head + 32;
  const int8_t *q = a->q;
  const float *sx = a->scale;
  float32x4_t y0 = vdupq_n_f32(0), y1 = y0, y2 = y0, y3 = y0;
  for (size_t b = 0; b < blocks; b++, code += bytes, index += 8, sx++) {
    EACH(START)
#pragma GCC unroll 2
    for (uint32_t c = 0; c < group / 8; c += 2, q += 16) {
      const int8x16_t x = vld1q_s8(q);
      EACH(QUADS)
    }
    const tni_arm_floats16 step = tni_arm_steps_of(steps, index);
    EACH(ADD)
  }
  EACH(STORE)
}

#define KERNEL(id, ID, group, bytes)                                                     \
  TNI_ARM_BY_ROW(tni_arm_gemv_f32_q8g##group##_##id##_1x16_dotprod,                      \
                 gemv_lev(TNI_##ID, group, bytes, true, row_block, superblocks, a, acc), \
                 gemv_lev(TNI_##ID, group, bytes, false, row_block, superblocks, a, acc))
TNI_ARM_EACH_LEV(KERNEL)
