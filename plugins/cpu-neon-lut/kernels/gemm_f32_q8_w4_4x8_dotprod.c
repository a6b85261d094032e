/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of activations times 16 outputs, up to four rows by eight outputs at a time: eight registers of s32 and eight of
 * f32. SDOT takes four k of a row from one lane. Register tiles are named variables made by macros.
 */
#include "plugins/cpu-neon-lut/kernels/kernels.h"
#include "plugins/cpu-neon-lut/kernels/panel.h"

enum { TILE_M = 4, TILE_N = 8 };

#define REP1(F) F(0)
#define REP2(F) REP1(F) F(1)
#define REP3(F) REP2(F) F(2)
#define REP4(F) REP3(F) F(3)

#define LOAD(i) float32x4_t y##i##0 = vld1q_f32(acc + i * 16), y##i##1 = vld1q_f32(acc + i * 16 + 4);
#define START(i) int32x4_t s##i##0 = tni_arm_start(zero + i * z_stride), s##i##1 = tni_arm_start(zero + i * z_stride);
#define CODES(i) int8x16_t a##i = vld1q_s8(q + i * q_stride);
#define DOT(i, lane)                                  \
  s##i##0 = vdotq_laneq_s32(s##i##0, w0, a##i, lane); \
  s##i##1 = vdotq_laneq_s32(s##i##1, w1, a##i, lane);
#define DOT0(i) DOT(i, 0)
#define DOT1(i) DOT(i, 1)
#define DOT2(i) DOT(i, 2)
#define DOT3(i) DOT(i, 3)
#define QUAD(REP, lane)                                                        \
  {                                                                            \
    int8x16_t w0 = vld1q_s8(w + lane * 64), w1 = vld1q_s8(w + lane * 64 + 16); \
    REP(DOT##lane)                                                             \
  }
#define FINISH(i)                                                              \
  y##i##0 = tni_arm_add(y##i##0, s##i##0, vmulq_n_f32(sw0, sx[i * s_stride])); \
  y##i##1 = tni_arm_add(y##i##1, s##i##1, vmulq_n_f32(sw1, sx[i * s_stride]));
#define STORE(i)                    \
  vst1q_f32(acc + i * 16, y##i##0); \
  vst1q_f32(acc + i * 16 + 4, y##i##1);

#define TILE(M, REP)                                                                                                   \
  __attribute__((always_inline)) static inline void tile_##M(size_t group, const tni_arm_panel *p,                     \
                                                             const tni_clt_act *act, size_t m, size_t n, float *acc) { \
    const size_t q_stride = act->q_stride, z_stride = act->z_stride, s_stride = act->s_stride;                         \
    const int8_t *q = act->q + m * q_stride + p->first_group * group, *w = (const int8_t *)p->w + n * 4;               \
    const int32_t *zero = act->zero + m * z_stride + p->first_group * 4;                                               \
    const float *sx = act->scale + m * s_stride + p->first_group;                                                      \
    REP(LOAD)                                                                                                          \
    for (size_t g = 0; g < p->groups; g++, sx++, zero += 4) {                                                          \
      REP(START)                                                                                                       \
      for (size_t k = 0; k < group; k += 16, q += 16, w += 256) {                                                      \
        REP(CODES) QUAD(REP, 0) QUAD(REP, 1) QUAD(REP, 2) QUAD(REP, 3)                                                 \
      }                                                                                                                \
      float32x4_t sw0 = vld1q_f32(&p->scale[g][n]), sw1 = vld1q_f32(&p->scale[g][n + 4]);                              \
      REP(FINISH)                                                                                                      \
    }                                                                                                                  \
    REP(STORE)                                                                                                         \
  }

TILE(1, REP1)
TILE(2, REP2)
TILE(3, REP3)
TILE(4, REP4)

#undef TILE
#undef STORE
#undef FINISH
#undef QUAD
#undef DOT3
#undef DOT2
#undef DOT1
#undef DOT0
#undef DOT
#undef CODES
#undef START
#undef LOAD
#undef REP4
#undef REP3
#undef REP2
#undef REP1

__attribute__((always_inline)) static inline void multiply_tiles_dotprod(size_t group, const tni_arm_panel *p,
                                                                         const tni_clt_act *a, size_t m0, size_t m1,
                                                                         float *acc) {
  for (size_t m = m0; m < m1; m += TILE_M, acc += TILE_M * TNI_CLT_ROWS) {
    for (size_t n = 0; n < TNI_CLT_ROWS; n += TILE_N) {
      switch (m1 - m) {
        case 1:
          tile_1(group, p, a, m, n, acc + n);
          break;
        case 2:
          tile_2(group, p, a, m, n, acc + n);
          break;
        case 3:
          tile_3(group, p, a, m, n, acc + n);
          break;
        default:
          tile_4(group, p, a, m, n, acc + n);
      }
    }
  }
}

static void tiles32_dotprod(const tni_arm_panel *p, const tni_clt_act *a, size_t m0, size_t m1, float *acc) {
  multiply_tiles_dotprod(32, p, a, m0, m1, acc);
}

static void tiles128_dotprod(const tni_arm_panel *p, const tni_clt_act *a, size_t m0, size_t m1, float *acc) {
  multiply_tiles_dotprod(128, p, a, m0, m1, acc);
}

void tni_arm_gemm_f32_q8g32_w4g32_4x8_dotprod(const uint8_t *row_block, size_t superblocks, const tni_clt_act *a,
                                              size_t m0, size_t m1, float *acc) {
  tni_arm_gemm(32, sizeof(tni_w4g_sb32), tni_arm_unpack_quads, tiles32_dotprod, row_block, superblocks, a, m0, m1, acc);
}

void tni_arm_gemm_f32_q8g128_w4g128_4x8_dotprod(const uint8_t *row_block, size_t superblocks, const tni_clt_act *a,
                                                size_t m0, size_t m1, float *acc) {
  tni_arm_gemm(128, sizeof(tni_w4g_sb128), tni_arm_unpack_quads, tiles128_dotprod, row_block, superblocks, a, m0, m1,
               acc);
}
