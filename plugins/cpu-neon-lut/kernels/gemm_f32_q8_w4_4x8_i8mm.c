/* SPDX-License-Identifier: Apache-2.0
 *
 * Tiles of activations times 16 outputs by SMMLA: a register of s32 is two rows by two outputs. Four rows by eight
 * outputs at a time; sums stay two by two until the panel's end, so scales come two by two as well.
 */
#include "plugins/cpu-neon-lut/kernels/kernels.h"
#include "plugins/cpu-neon-lut/kernels/panel.h"

enum { TILE_M = 8, TILE_N = 8 };

/* [k / 8][pair of outputs][output][k % 8] */
static inline void unpack_pairs(const uint8_t *chunk, uint8_t *out) {
  const uint8x16_t nibble = vdupq_n_u8(15);
  for (size_t i = 0; i < 64; i += 16) {
    uint8x16_t w = vld1q_u8(chunk + i);
    uint32x4_t lo = vreinterpretq_u32_u8(vandq_u8(w, nibble)), hi = vreinterpretq_u32_u8(vshrq_n_u8(w, 4));
    vst1q_u8(out + i * 2, vreinterpretq_u8_u32(vzip1q_u32(lo, hi)));
    vst1q_u8(out + i * 2 + 16, vreinterpretq_u8_u32(vzip2q_u32(lo, hi)));
  }
}

/* Outputs n, n + 1 of two rows. */
static inline float32x4_t load_pair(const float *r0, const float *r1, size_t n) {
  return vcombine_f32(vld1_f32(r0 + n), vld1_f32(r1 + n));
}

static inline void store_pair(float *r0, float *r1, size_t n, float32x4_t y) {
  vst1_f32(r0 + n, vget_low_f32(y));
  vst1_f32(r1 + n, vget_high_f32(y));
}

/* s a b: rows 2a, 2a + 1, outputs 2b, 2b + 1. */
#define EACH(F) F(0, 0) F(0, 1) F(0, 2) F(0, 3) F(1, 0) F(1, 1) F(1, 2) F(1, 3)
#define LOAD(i, j) float32x4_t y##i##j = load_pair(row[2 * i], row[2 * i + 1], n + 2 * j);
#define START(i, j) int32x4_t s##i##j = tni_arm_start(zero + 4 * i);
#define DOT(i, j) s##i##j = vmmlaq_s32(s##i##j, a##i, w##j);
#define FINISH(i, j) y##i##j = tni_arm_add(y##i##j, s##i##j, vmulq_f32(sw##j, sx##i));
#define STORE(i, j) store_pair(row[2 * i], row[2 * i + 1], n + 2 * j, y##i##j);

/* Four rows of a tile, eight outputs from n on, over one panel. q, zero, scale: of the first of the rows. */
__attribute__((always_inline)) static inline void quarter(size_t group, const tni_arm_panel *p, const int8_t *q,
                                                          const int32_t *zero, const float *scale, size_t n,
                                                          float *const row[4]) {
  const int8_t *w = (const int8_t *)p->w + n * 8;
  EACH(LOAD)
  for (size_t g = 0; g < p->groups; g++, zero += 16, scale += 16) {
    EACH(START)
#pragma GCC unroll 4
    for (size_t k = 0; k < group; k += 8, q += 64, w += 128) {
      int8x16_t a0 = vld1q_s8(q), a1 = vld1q_s8(q + 16);
      int8x16_t w0 = vld1q_s8(w), w1 = vld1q_s8(w + 16), w2 = vld1q_s8(w + 32), w3 = vld1q_s8(w + 48);
      EACH(DOT)
    }
    float32x4_t sx0 = vld1q_f32(scale), sx1 = vld1q_f32(scale + 4);
    float64x2_t lo = vreinterpretq_f64_f32(vld1q_f32(&p->scale[g][n]));
    float64x2_t hi = vreinterpretq_f64_f32(vld1q_f32(&p->scale[g][n + 4]));
    float32x4_t sw0 = vreinterpretq_f32_f64(vdupq_laneq_f64(lo, 0)),
                sw1 = vreinterpretq_f32_f64(vdupq_laneq_f64(lo, 1));
    float32x4_t sw2 = vreinterpretq_f32_f64(vdupq_laneq_f64(hi, 0)),
                sw3 = vreinterpretq_f32_f64(vdupq_laneq_f64(hi, 1));
    EACH(FINISH)
  }
  EACH(STORE)
}
#undef STORE
#undef FINISH
#undef DOT
#undef START
#undef LOAD
#undef EACH

__attribute__((always_inline)) static inline void multiply_tiles_i8mm(size_t group, const tni_arm_panel *p,
                                                                      const tni_clt_act *a, size_t m0, size_t m1,
                                                                      float *acc) {
  float nowhere[TNI_CLT_ROWS] = {0}; /* for rows that the last tile lacks */
  for (size_t m = m0; m < m1; m += 4) {
    size_t t = m / TILE_M, half = m % TILE_M / 4;
    const int8_t *q = a->q + t * a->q_stride + p->first_group * group * TILE_M + half * 32;
    const int32_t *zero = a->zero + t * a->z_stride + p->first_group * 16 + half * 8;
    const float *scale = a->scale + t * a->s_stride + p->first_group * 16 + half * 8;
    float *row[4];
    for (size_t i = 0; i < 4; i++) row[i] = m + i < m1 ? acc + (m + i - m0) * TNI_CLT_ROWS : nowhere;
    for (size_t n = 0; n < TNI_CLT_ROWS; n += TILE_N) quarter(group, p, q, zero, scale, n, row);
  }
}

static void tiles32_i8mm(const tni_arm_panel *p, const tni_clt_act *a, size_t m0, size_t m1, float *acc) {
  multiply_tiles_i8mm(32, p, a, m0, m1, acc);
}

static void tiles128_i8mm(const tni_arm_panel *p, const tni_clt_act *a, size_t m0, size_t m1, float *acc) {
  multiply_tiles_i8mm(128, p, a, m0, m1, acc);
}

void tni_arm_gemm_f32_q8g32_w4g32_4x8_i8mm(const uint8_t *row_block, size_t superblocks, const tni_clt_act *a,
                                           size_t m0, size_t m1, float *acc) {
  tni_arm_gemm(32, sizeof(tni_w4g_sb32), unpack_pairs, tiles32_i8mm, row_block, superblocks, a, m0, m1, acc);
}

void tni_arm_gemm_f32_q8g128_w4g128_4x8_i8mm(const uint8_t *row_block, size_t superblocks, const tni_clt_act *a,
                                             size_t m0, size_t m1, float *acc) {
  tni_arm_gemm(128, sizeof(tni_w4g_sb128), unpack_pairs, tiles128_i8mm, row_block, superblocks, a, m0, m1, acc);
}
