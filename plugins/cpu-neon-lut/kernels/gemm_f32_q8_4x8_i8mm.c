/* SPDX-License-Identifier: Apache-2.0
 *
 * Tiles of activations times 16 outputs by SMMLA: a register of s32 is two rows by two outputs. Four rows by eight
 * outputs at a time; sums stay two by two until the panel's end, so scales come two by two as well.
 */
#include "plugins/cpu-neon-lut/kernels/kernels.h"
#include "plugins/cpu-neon-lut/kernels/levels.h"
#include "plugins/cpu-neon-lut/kernels/tern17.h"

enum { TILE_M = 8, TILE_N = 8 };

/* Outputs n, n + 1 of two rows. */
static inline float32x4_t load_pair(const float *r0, const float *r1, size_t n) {
  return vcombine_f32(vld1_f32(r0 + n), vld1_f32(r1 + n));
}

static inline void store_pair(float *r0, float *r1, size_t n, float32x4_t y) {
  vst1_f32(r0 + n, vget_low_f32(y));
  vst1_f32(r1 + n, vget_high_f32(y));
}

/* Two floats, for outputs n and n + 1, twice. */
static inline float32x4_t twice(const float *p) {
  return vreinterpretq_f32_f64(vld1q_dup_f64((const double *)(const void *)p));
}

/* A group's scales as the tiles take them: each two outputs' twice. Made once for all rows: a copy in the tile takes a
 * slot of the vector pipes, a load does not. */
enum { TWICE = 2 * TNI_CLT_ROWS };

static inline void put_twice(const tni_arm_panel *p, float *to) {
  for (size_t g = 0; g < p->groups; g++)
    for (size_t n = 0; n < TNI_CLT_ROWS; n += 2) vst1q_f32(to + g * TWICE + 2 * n, twice(&p->scale[g][n]));
}

static inline float32x4_t less_zeros_i8mm(float32x4_t v, const tni_arm_panel *p, size_t g, size_t n, float32x4_t t) {
  v = vfmaq_f32(v, twice(&p->whole[g][n]), t);
  return p->rests ? vfmaq_f32(v, twice(&p->rest[g][n]), t) : v;
}

/* s a b: rows 2a, 2a + 1, outputs 2b, 2b + 1. */
#define EACH(F) F(0, 0) F(0, 1) F(0, 2) F(0, 3) F(1, 0) F(1, 1) F(1, 2) F(1, 3)
#define LOAD(i, j) float32x4_t y##i##j = load_pair(row[2 * i], row[2 * i + 1], n + 2 * j);
#define START(i, j) int32x4_t s##i##j = tni_arm_start(begin + 4 * i);
#define DOT(i, j) s##i##j = vmmlaq_s32(s##i##j, a##i, w##j);
#define FINISH(i, j) y##i##j = tni_arm_add_as(group == TNI_ARM_HALVES_GROUP, y##i##j, s##i##j, vmulq_f32(sw##j, sx##i));
/* The same less zero points: the rows' sums of x are two by two too. */
#define SUM(i) const float32x4_t t##i = tni_arm_codes_sum_f32(zero + 4 * i);
#define TAKE(i, j) const float32x4_t v##i##j = less_zeros_i8mm(tni_arm_sum(s##i##j), p, g, n + 2 * j, t##i);
#define FINISH_TAKING(i, j) y##i##j = vfmaq_f32(y##i##j, v##i##j, vmulq_f32(sw##j, sx##i));
#define STORE(i, j) store_pair(row[2 * i], row[2 * i + 1], n + 2 * j, y##i##j);

/* Four rows of a tile, eight outputs from n on, over one panel. q, zero, scale: of the first of the rows. */
__attribute__((always_inline)) static inline void quarter(size_t group, bool taking, const tni_arm_panel *p,
                                                          const float *scales, const int8_t *q, const int32_t *zero,
                                                          const float *scale, size_t n, float *const row[4]) {
  static const int32_t plain[8] = {TNI_CLT_START, TNI_CLT_START, TNI_CLT_START, TNI_CLT_START,
                                   TNI_CLT_START, TNI_CLT_START, TNI_CLT_START, TNI_CLT_START};
  const int8_t *w = (const int8_t *)p->w + n * 8;
  const bool alike = taking || p->plain;
  const int32_t *begin = alike ? plain : zero;
  EACH(LOAD)
  for (size_t g = 0; g < p->groups; g++, zero += 16, begin += alike ? 0 : 16, scale += 16) {
    EACH(START)
#pragma GCC unroll 4
    for (size_t k = 0; k < group; k += 8, q += 64, w += 128) {
      int8x16_t a0 = vld1q_s8(q), a1 = vld1q_s8(q + 16);
      int8x16_t w0 = vld1q_s8(w), w1 = vld1q_s8(w + 16), w2 = vld1q_s8(w + 32), w3 = vld1q_s8(w + 48);
      EACH(DOT)
    }
    float32x4_t sx0 = vld1q_f32(scale), sx1 = vld1q_f32(scale + 4);
    const float *of = scales + g * TWICE + 2 * n;
    const float32x4_t sw0 = vld1q_f32(of), sw1 = vld1q_f32(of + 4), sw2 = vld1q_f32(of + 8), sw3 = vld1q_f32(of + 12);
    if (taking) {
      SUM(0) SUM(1) EACH(TAKE) EACH(FINISH_TAKING)
    } else {
      EACH(FINISH)
    }
  }
  EACH(STORE)
}
#undef STORE
#undef FINISH_TAKING
#undef TAKE
#undef SUM
#undef FINISH
#undef DOT
#undef START
#undef LOAD
#undef EACH

__attribute__((always_inline)) static inline void multiply_tiles_i8mm(size_t group, bool taking, const tni_arm_panel *p,
                                                                      const tni_clt_act *a, size_t m0, size_t m1,
                                                                      float *acc) {
  float nowhere[TNI_CLT_ROWS] = {0}; /* for rows that the last tile lacks */
  float scales[TNI_ARM_PANEL_GROUPS * TWICE];
  put_twice(p, scales);
  for (size_t m = m0; m < m1; m += 4) {
    size_t t = m / TILE_M, half = m % TILE_M / 4;
    const int8_t *q = a->q + t * a->q_stride + p->first_group * group * TILE_M + half * 32;
    const int32_t *zero = a->zero + t * a->z_stride + p->first_group * 16 + half * 8;
    const float *scale = a->scale + t * a->s_stride + p->first_group * 16 + half * 8;
    float *row[4];
    for (size_t i = 0; i < 4; i++) row[i] = m + i < m1 ? acc + (m + i - m0) * TNI_CLT_ROWS : nowhere;
    for (size_t n = 0; n < TNI_CLT_ROWS; n += TILE_N) quarter(group, taking, p, scales, q, zero, scale, n, row);
  }
}

#define TILES_OF(group)                                         \
  TNI_ARM_TILES(tiles, group, i8mm, multiply_tiles_i8mm, false) \
  TNI_ARM_TILES(taking, group, i8mm, multiply_tiles_i8mm, true)
TILES_OF(16)
TILES_OF(32)
TILES_OF(64)
TILES_OF(128)
TNI_ARM_TILES(tiles, 256, i8mm, multiply_tiles_i8mm, false)

#define TILES_i8mm(bits, group) \
  (tni_arm_tiles) { true, tiles##group##_i8mm, taking##group##_i8mm }
TNI_ARM_GEMM_W4G(32, 4x8, i8mm)
TNI_ARM_GEMM_W4G(128, 4x8, i8mm)
#define GRID(group, bits) TNI_ARM_GEMM_GRID(group, bits, 4x8, i8mm)
TNI_CLT_EACH_GRID(GRID)
#define DOT(id, code_bytes, head, step, palette) \
  TNI_ARM_GEMM_DOT(id, i8mm, 4x8, true, code_bytes, head, step, palette, tiles128_i8mm)
TNI_ARM_EACH_DOT(DOT)
TNI_ARM_GEMM_TERN17(i8mm, 4x8, true, tiles128_i8mm)
TNI_ARM_GEMM_DOT_GRID(w8g, 8, 4x8, i8mm)
TNI_ARM_GEMM_DOT_GRID(w2g, 2, 4x8, i8mm)
TNI_ARM_GEMM_LUTS(i8mm, 4x8, true)
#define LEV(id, ID, group, bytes) TNI_ARM_GEMM_LEV(id, ID, group, bytes, i8mm, 4x8, true, tiles##group##_i8mm)
TNI_ARM_EACH_LEV(LEV)
