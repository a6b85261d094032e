/* SPDX-License-Identifier: Apache-2.0
 *
 * One activation row times 16 outputs: four registers of s32, a lane for each output. SDOT takes the four k of any
 * nibble from one lane of the activations, so that no broadcast is needed; the zero point is in the start value.
 */
#include "plugins/common/formats/formats.h"
#include "plugins/cpu-neon-lut/kernels/kernels.h"
#include "plugins/cpu-neon-lut/kernels/scaled.h"

#define DOT(t, w, i) t = vdotq_laneq_s32(t, vreinterpretq_s8_u8(w), a, i)

/* Eight k of 16 outputs; lanes i and i + 1 of a hold their codes. */
#define CHUNK(i)                                                                                                  \
  {                                                                                                               \
    uint8x16_t w0 = vld1q_u8(code), w1 = vld1q_u8(code + 16), w2 = vld1q_u8(code + 32), w3 = vld1q_u8(code + 48); \
    DOT(t0, vandq_u8(w0, nibble), i);                                                                             \
    DOT(t1, vandq_u8(w1, nibble), i);                                                                             \
    DOT(t2, vandq_u8(w2, nibble), i);                                                                             \
    DOT(t3, vandq_u8(w3, nibble), i);                                                                             \
    DOT(t0, vshrq_n_u8(w0, 4), i + 1);                                                                            \
    DOT(t1, vshrq_n_u8(w1, 4), i + 1);                                                                            \
    DOT(t2, vshrq_n_u8(w2, 4), i + 1);                                                                            \
    DOT(t3, vshrq_n_u8(w3, 4), i + 1);                                                                            \
    code += 64;                                                                                                   \
  }

__attribute__((always_inline)) static inline void gemv(size_t group, size_t sb_bytes, const uint8_t *block,
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
#pragma GCC unroll 8
      for (size_t k = 0; k < group; k += 16, q += 16) {
        int8x16_t a = vld1q_s8(q);
        CHUNK(0)
        CHUNK(2)
      }
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
#undef CHUNK
#undef DOT

void tni_arm_gemv_f32_q8g32_w4g32_1x16_dotprod(const uint8_t *row_block, size_t superblocks, const tni_clt_act *a,
                                               float *acc) {
  gemv(32, sizeof(tni_w4g_sb32), row_block, superblocks, a, acc);
}

void tni_arm_gemv_f32_q8g128_w4g128_1x16_dotprod(const uint8_t *row_block, size_t superblocks, const tni_clt_act *a,
                                                 float *acc) {
  gemv(128, sizeof(tni_w4g_sb128), row_block, superblocks, a, acc);
}
