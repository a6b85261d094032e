/* SPDX-License-Identifier: Apache-2.0
 *
 * Prologues of the bit-serial formats. Tables: half of each is built from bytes modulo 256 and masks, the other half by
 * table[15 - i] = sum |q| - table[i].
 */
#include <arm_neon.h>
#include <string.h>

#include "plugins/common/formats/formats.h"
#include "plugins/cpu-neon-lut/kernels/kernels.h"
#include "plugins/cpu-neon-lut/kernels/scaled.h"

enum { GROUP = TNI_LUT_GROUP };

/* The scale of 128 values, and what they are multiplied by. */
static inline float group_scale(const float *x, float runs, float32x4_t *inv) {
  const tni_clt_scale s = tni_clt_scale_of(tni_arm_largest_run(x, GROUP), runs);
  *inv = vdupq_n_f32(s.inv);
  return s.of;
}

/* Of a NaN: -255, as the reference has it. */
static inline int32x4_t codes4(const float *x, float32x4_t inv) {
  const float32x4_t lo = vdupq_n_f32(-255.0f), hi = vdupq_n_f32(255.0f);
  return vcvtnq_s32_f32(vminnmq_f32(vmaxnmq_f32(vmulq_f32(vld1q_f32(x), inv), lo), hi));
}

static inline int16x8_t eight_codes_neon(const float *x, float32x4_t inv) {
  return vcombine_s16(vmovn_s32(codes4(x, inv)), vmovn_s32(codes4(x + 4, inv)));
}

void tni_arm_quant_q9g128_f32_1x128_neon(const float *x, size_t K, size_t K_padded, const tni_clt_act *a, size_t m) {
  int8_t *out = a->q + m * a->q_stride;
  for (size_t k = 0, g = 0; k < K_padded; k += GROUP, g++) {
    float tail[GROUP];
    const float *from = tni_clt_lut_group_at(x, K, k, tail);
    float32x4_t inv;
    a->scale[m * a->s_stride + g] = group_scale(from, a->runs, &inv);
    for (size_t i = 0; i < GROUP; i += 8, out += 16) vst1q_s16((int16_t *)(void *)out, eight_codes_neon(from + i, inv));
  }
}

/* Eight bytes, four or eight of them `pitch` after those before. */
__attribute__((always_inline)) static inline void put_eight(int8_t *out, size_t width, size_t pitch, int8x8_t v) {
  if (width == 8) {
    vst1_s8(out, v);
  } else {
    vst1_lane_s32((int32_t *)(void *)out, vreinterpret_s32_s8(v), 0);
    vst1_lane_s32((int32_t *)(void *)(out + pitch), vreinterpret_s32_s8(v), 1);
  }
}

/* `width` bytes `pitch` after those before; a scale `copies` times. */
__attribute__((always_inline)) static inline void put_halves_neon(const tni_clt_act *a, const float *x, size_t K,
                                                                  size_t K_padded, int8_t *out, size_t width,
                                                                  size_t pitch, float *scale, size_t copies,
                                                                  size_t scale_pitch) {
  const size_t eight = 8 / width * pitch;
  for (size_t k = 0; k < K_padded; k += GROUP, scale += scale_pitch) {
    float tail[GROUP];
    const float *from = tni_clt_lut_group_at(x, K, k, tail);
    float32x4_t inv;
    scale[0] = scale[copies - 1] = group_scale(from, a->runs, &inv);
    for (size_t i = 0; i < GROUP; i += 16, out += 4 * eight)
      for (size_t j = 0; j < 2; j++) {
        const int16x8_t q = eight_codes_neon(from + i + 8 * j, inv);
        put_eight(out + j * eight, width, pitch, vshrn_n_s16(q, 1));
        put_eight(out + (2 + j) * eight, width, pitch, vmovn_s16(vandq_s16(q, vdupq_n_s16(1))));
      }
  }
}

void tni_arm_quant_q9g128h_f32_1x128_neon(const float *x, size_t K, size_t K_padded, const tni_clt_act *a, size_t m) {
  put_halves_neon(a, x, K, K_padded, a->q + m * a->q_stride, 8, 8, a->scale + m * a->s_stride, 1, 1);
}

void tni_arm_quant_q9g128h_f32_8x128_neon(const float *x, size_t K, size_t K_padded, const tni_clt_act *a, size_t m) {
  put_halves_neon(a, x, K, K_padded, a->q + m / 8 * a->q_stride + m % 8 * 8, 8, 64,
                  a->scale + m / 8 * a->s_stride + m % 8 * 2, 2, 16);
}

void tni_arm_quant_q9g128h_f32_16x128_neon(const float *x, size_t K, size_t K_padded, const tni_clt_act *a, size_t m) {
  put_halves_neon(a, x, K, K_padded, a->q + m / 16 * a->q_stride + m % 16 * 4, 4, 64,
                  a->scale + m / 16 * a->s_stride + m % 16, 1, 16);
}

/* Entry i of the low half of a table: which elements it sums, two quads in a register. */
static const uint8_t shuffle_masks[3][16] = {
    {0, 255, 0, 255, 0, 255, 0, 255, 0, 255, 0, 255, 0, 255, 0, 255},
    {0, 0, 255, 255, 0, 0, 255, 255, 0, 0, 255, 255, 0, 0, 255, 255},
    {0, 0, 0, 0, 255, 255, 255, 255, 0, 0, 0, 0, 255, 255, 255, 255},
};
/* Element 0 of two quads, eight times each; of two s16, likewise. */
static const uint8_t first_of[16] = {0, 0, 0, 0, 0, 0, 0, 0, 4, 4, 4, 4, 4, 4, 4, 4};
static const uint8_t first_word[16] = {0, 0, 0, 0, 0, 0, 0, 0, 2, 2, 2, 2, 2, 2, 2, 2};

/* Tables of two quads. codes: their bytes modulo 256 in front; base, abs: minus the sum of the negative ones, and the
 * sum of magnitudes, in s16 from word `at` on. */
static inline void tables2(uint8x16_t codes, int16x8_t base, int16x8_t abs, uint8_t at, uint8_t *out) {
  const uint8x16_t first = vld1q_u8(first_of), word = vaddq_u8(vld1q_u8(first_word), vdupq_n_u8((uint8_t)(2 * at)));
  uint8x16_t low = vqtbl1q_u8(vreinterpretq_u8_s16(base), word);
  for (uint8_t j = 0; j < 3; j++)
    low = vaddq_u8(low, vandq_u8(vqtbl1q_u8(codes, vaddq_u8(first, vdupq_n_u8(j))), vld1q_u8(shuffle_masks[j])));
  uint8x16_t high = vrev64q_u8(vsubq_u8(vqtbl1q_u8(vreinterpretq_u8_s16(abs), word), low));
  vst1q_u8(out, vreinterpretq_u8_u64(vzip1q_u64(vreinterpretq_u64_u8(low), vreinterpretq_u64_u8(high))));
  vst1q_u8(out + 16, vreinterpretq_u8_u64(vzip2q_u64(vreinterpretq_u64_u8(low), vreinterpretq_u64_u8(high))));
}

__attribute__((always_inline)) static inline void build_tables_neon(int32_t full, int32_t zero, const float *x,
                                                                    size_t K, size_t K_padded, const tni_clt_act *a,
                                                                    size_t m) {
  const int16x8_t none = vdupq_n_s16(0);
  uint8_t *out = (uint8_t *)a->q + m * a->q_stride;
  for (size_t k = 0, g = 0; k < K_padded; k += GROUP, g++) {
    float tail[GROUP];
    const float *from = tni_clt_lut_group_at(x, K, k, tail);
    float32x4_t inv;
    int32x4_t sum = vdupq_n_s32(0), abs = sum;
    a->scale[m * a->s_stride + g] = group_scale(from, a->runs, &inv);
    for (size_t i = 0; i < GROUP; i += 16, out += 64) {
      int16x8_t q0 = eight_codes_neon(from + i, inv), q1 = eight_codes_neon(from + i + 8, inv), m0 = vabsq_s16(q0),
                m1 = vabsq_s16(q1);
      int16x8_t n0 = vmaxq_s16(vnegq_s16(q0), none), n1 = vmaxq_s16(vnegq_s16(q1), none);
      sum = vpadalq_s16(vpadalq_s16(sum, q0), q1);
      abs = vpadalq_s16(vpadalq_s16(abs, m0), m1);
      /* Pairs, then quads: four in front. */
      int16x8_t base = vpaddq_s16(vpaddq_s16(n0, n1), none), mag = vpaddq_s16(vpaddq_s16(m0, m1), none);
      uint8x16_t bytes = vreinterpretq_u8_s8(vuzp1q_s8(vreinterpretq_s8_s16(q0), vreinterpretq_s8_s16(q1)));
      tables2(bytes, base, mag, 0, out);
      tables2(vextq_u8(bytes, bytes, 8), base, mag, 2, out + 32);
    }
    a->zero[m * a->z_stride + g] = (full - zero) * vaddvq_s32(sum) - full * vaddvq_s32(abs);
  }
}

#define TABLES(id, full, zero)                                                                               \
  void tni_arm_tables_##id##_f32_1x128_neon(const float *x, size_t K, size_t K_padded, const tni_clt_act *a, \
                                            size_t m) {                                                      \
    build_tables_neon(full, zero, x, K, K_padded, a, m);                                                     \
  }
TNI_CLT_LUT_TABLES(TABLES)
#undef TABLES
