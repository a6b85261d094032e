/* SPDX-License-Identifier: Apache-2.0
 *
 * Activations in 8 bits, row by row or into tiles of 8 or 16 rows: one code, since only the places differ.
 */
#include <arm_neon.h>
#include <string.h>

#include "plugins/cpu-neon-lut/kernels/kernels.h"
#include "plugins/cpu-neon-lut/kernels/scaled.h"

enum { MAX_GROUP = 128, TILE_ROWS = 8, TALL_ROWS = 16 };

/* Where row m lies: eight codes at a time, or four in tall tiles, `step` bytes apart; `copies` equal scales and start
 * words for each group, `pitch` apart from those of the next. */
typedef struct code_place {
  int8_t *q;
  float *scale;
  int32_t *zero;
  size_t step, scale_pitch, zero_pitch;
} code_place;

static inline float absmax_of(const float *x, size_t group) {
  float32x4_t m = vdupq_n_f32(0);
  for (size_t i = 0; i < group; i += 4) m = vmaxnmq_f32(m, vabsq_f32(vld1q_f32(x + i)));
  return vmaxnmvq_f32(m);
}

/* Four at a time: a single chain of maxima would take longer than the codes. */
static float absmax_of_row(const float *x, size_t K) {
  enum { STEP = 16 };
  float tail[STEP] = {0};
  float32x4_t m0 = vdupq_n_f32(0), m1 = m0, m2 = m0, m3 = m0;
  for (size_t k = 0; k < K; k += STEP) {
    const float *from = x + k;
    if (K - k < STEP) from = memcpy(tail, from, (K - k) * sizeof *x);
    m0 = vmaxnmq_f32(m0, vabsq_f32(vld1q_f32(from)));
    m1 = vmaxnmq_f32(m1, vabsq_f32(vld1q_f32(from + 4)));
    m2 = vmaxnmq_f32(m2, vabsq_f32(vld1q_f32(from + 8)));
    m3 = vmaxnmq_f32(m3, vabsq_f32(vld1q_f32(from + 12)));
  }
  return vmaxnmvq_f32(vmaxnmq_f32(vmaxnmq_f32(m0, m1), vmaxnmq_f32(m2, m3)));
}

static inline int32x4_t rounded_codes(const float *x, float32x4_t inv) {
  const float32x4_t lo = vdupq_n_f32(-127.0f), hi = vdupq_n_f32(127.0f);
  return vcvtnq_s32_f32(vminnmq_f32(vmaxnmq_f32(vmulq_f32(vld1q_f32(x), inv), lo), hi));
}

/* The low halves of two vectors of s32 as one of s16: all values fit. */
static inline int16x8_t narrow_codes(int32x4_t a, int32x4_t b) {
  return vuzp1q_s16(vreinterpretq_s16_s32(a), vreinterpretq_s16_s32(b));
}

static inline int8x16_t codes_of(const float *x, float32x4_t inv) {
  int16x8_t a = narrow_codes(rounded_codes(x, inv), rounded_codes(x + 4, inv)),
            b = narrow_codes(rounded_codes(x + 8, inv), rounded_codes(x + 12, inv));
  return vuzp1q_s8(vreinterpretq_s8_s16(a), vreinterpretq_s8_s16(b));
}

static inline void put_four(int8_t *q, size_t step, int8x16_t c) {
  const int32x4_t v = vreinterpretq_s32_s8(c);
  vst1q_lane_s32((int32_t *)(void *)q, v, 0);
  vst1q_lane_s32((int32_t *)(void *)(q + step), v, 1);
  vst1q_lane_s32((int32_t *)(void *)(q + 2 * step), v, 2);
  vst1q_lane_s32((int32_t *)(void *)(q + 3 * step), v, 3);
}

/* One group; returns the sum of its codes. rows: of a tile, 1: no tile. */
__attribute__((always_inline)) static inline int32_t write_codes(const float *x, size_t group, float inv, size_t rows,
                                                                 int8_t *q, size_t step) {
  int16x8_t sum = vdupq_n_s16(0);
  for (size_t i = 0; i < group; i += 16) {
    int8x16_t c = codes_of(x + i, vdupq_n_f32(inv));
    sum = vpadalq_s8(sum, c);
    if (rows == TALL_ROWS) {
      put_four(q + i / 4 * step, step, c);
    } else if (rows == TILE_ROWS) {
      vst1_s8(q + i / 8 * step, vget_low_s8(c));
      vst1_s8(q + (i / 8 + 1) * step, vget_high_s8(c));
    } else {
      vst1q_s8(q + i, c);
    }
  }
  return vaddlvq_s16(sum);
}

__attribute__((always_inline)) static inline void quantize_q8_neon(size_t group, bool runs, size_t rows, const float *x,
                                                                   size_t K, size_t K_padded, float *row_scale,
                                                                   code_place p) {
  const tni_clt_scale row = tni_clt_scale_of(row_scale ? absmax_of_row(x, K) : 0, TNI_CLT_STEPS);
  if (row_scale) *row_scale = row.of;
  for (size_t k = 0; k < K_padded; k += group, p.scale += p.scale_pitch, p.zero += p.zero_pitch) {
    float tail[MAX_GROUP];
    const float *from = x + k;
    if (k + group > K) {
      memset(tail, 0, sizeof tail);
      if (k < K) memcpy(tail, from, (K - k) * sizeof *x);
      from = tail;
    }
    const tni_clt_scale c =
        row_scale ? row
                  : tni_clt_scale_of(runs ? tni_arm_largest_run(from, group) : absmax_of(from, group), TNI_CLT_STEPS);
    const float s = row_scale ? 1.0f : c.of;
    int8_t *q = p.q + k / (rows == TALL_ROWS ? 4 : 8) * p.step;
    int32_t sum = write_codes(from, group, c.inv, rows, q, p.step);
    int32_t start = TNI_CLT_START - 8 * sum;
    if (rows == TALL_ROWS) {
      *p.scale = s;
      *p.zero = start;
    } else if (rows == TILE_ROWS) {
      vst1_f32(p.scale, vdup_n_f32(s));
      vst1_s32(p.zero, vdup_n_s32(start));
    } else {
      *p.scale = s;
      vst1q_s32(p.zero, vdupq_n_s32(start));
    }
  }
}

/* Where the scale of row m goes, of those that have one. */
static float *scale_of_row(const tni_clt_act *a, size_t m) { return a->row ? a->row + m : NULL; }

static code_place row_of(const tni_clt_act *a, size_t m) {
  return (code_place){.q = a->q + m * a->q_stride,
                      .scale = a->scale + m * a->s_stride,
                      .zero = a->zero + m * a->z_stride,
                      .step = 8,
                      .scale_pitch = 1,
                      .zero_pitch = 4};
}

static code_place row_of_tile(const tni_clt_act *a, size_t m) {
  size_t tile = m / TILE_ROWS, r = m % TILE_ROWS;
  return (code_place){.q = a->q + tile * a->q_stride + r * 8,
                      .scale = a->scale + tile * a->s_stride + r * 2,
                      .zero = a->zero + tile * a->z_stride + r * 2,
                      .step = TILE_ROWS * 8,
                      .scale_pitch = TILE_ROWS * 2,
                      .zero_pitch = TILE_ROWS * 2};
}

static code_place row_of_tall(const tni_clt_act *a, size_t m) {
  size_t tile = m / TALL_ROWS, r = m % TALL_ROWS;
  return (code_place){.q = a->q + tile * a->q_stride + r * 4,
                      .scale = a->scale + tile * a->s_stride + r,
                      .zero = a->zero + tile * a->z_stride + r,
                      .step = TALL_ROWS * 4,
                      .scale_pitch = TALL_ROWS,
                      .zero_pitch = TALL_ROWS};
}

#define QUANT(codes, group, runs)                                                                                      \
  void tni_arm_quant_##codes##s_f32_1x##group##_neon(const float *x, size_t K, size_t K_padded, const tni_clt_act *a,  \
                                                     size_t m) {                                                       \
    quantize_q8_neon(group, runs, 1, x, K, K_padded, scale_of_row(a, m), row_of(a, m));                                \
  }                                                                                                                    \
  void tni_arm_quant_##codes##s_f32_8x##group##_neon(const float *x, size_t K, size_t K_padded, const tni_clt_act *a,  \
                                                     size_t m) {                                                       \
    quantize_q8_neon(group, runs, TILE_ROWS, x, K, K_padded, scale_of_row(a, m), row_of_tile(a, m));                   \
  }                                                                                                                    \
  void tni_arm_quant_##codes##s_f32_16x##group##_neon(const float *x, size_t K, size_t K_padded, const tni_clt_act *a, \
                                                      size_t m) {                                                      \
    quantize_q8_neon(group, runs, TALL_ROWS, x, K, K_padded, scale_of_row(a, m), row_of_tall(a, m));                   \
  }
QUANT(q8g16, 16, false)
QUANT(q8g32, 32, false)
QUANT(q8g64, 64, false)
QUANT(q8g128, 128, false)
QUANT(r8g128, 128, true)
