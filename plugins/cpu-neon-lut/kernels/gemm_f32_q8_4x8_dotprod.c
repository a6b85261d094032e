/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of activations times 16 outputs, up to four rows by eight outputs at a time: eight registers of s32 and eight of
 * f32. SDOT takes four k of a row from one lane. Register tiles are named variables made by macros.
 */
#include "plugins/cpu-neon-lut/kernels/kernels.h"
#include "plugins/cpu-neon-lut/kernels/levels.h"
#include "plugins/cpu-neon-lut/kernels/tern17.h"

enum { TILE_M = 4, TILE_N = 8 };

#define REP1(F) F(0)
#define REP2(F) REP1(F) F(1)
#define REP3(F) REP2(F) F(2)
#define REP4(F) REP3(F) F(3)

#define LOAD(i) float32x4_t y##i##0 = vld1q_f32(acc + i * 16), y##i##1 = vld1q_f32(acc + i * 16 + 4);
#define START(i) int32x4_t s##i##0 = tni_arm_start(z.at + i * z.stride), s##i##1 = tni_arm_start(z.at + i * z.stride);
#define CODES(i) int8x16_t a##i = vld1q_s8(q + i * q_stride);
#define DOT(i, lane)                                  \
  s##i##0 = vdotq_laneq_s32(s##i##0, w0, a##i, lane); \
  s##i##1 = vdotq_laneq_s32(s##i##1, w1, a##i, lane);
#define DOT0(i) DOT(i, 0)
#define DOT1(i) DOT(i, 1)
#define DOT2(i) DOT(i, 2)
#define DOT3(i) DOT(i, 3)
/* The weights of the step after it are loaded before its products, so that these wait for none. Past the panel's last
 * weights that reads its scales, and nothing takes them. */
_Static_assert(offsetof(tni_arm_panel, scale) == sizeof(((tni_arm_panel *)0)->w), "scales lie behind weights");
#define QUAD(REP, lane)                                                                    \
  {                                                                                        \
    int8x16_t v0 = vld1q_s8(w + (lane + 1) * 64), v1 = vld1q_s8(w + (lane + 1) * 64 + 16); \
    REP(DOT##lane)                                                                         \
    w0 = v0, w1 = v1;                                                                      \
  }
#define FINISH(i)                                                              \
  y##i##0 = tni_arm_add(y##i##0, s##i##0, vmulq_n_f32(sw0, sx[i * s_stride])); \
  y##i##1 = tni_arm_add(y##i##1, s##i##1, vmulq_n_f32(sw1, sx[i * s_stride]));
#define FINISH_ROW(i)                           \
  y##i##0 = tni_arm_add(y##i##0, s##i##0, sw0); \
  y##i##1 = tni_arm_add(y##i##1, s##i##1, sw1);
/* The same less zero points. */
#define FINISH_TAKING(i)                                                                 \
  {                                                                                      \
    const float32x4_t t = tni_arm_codes_sum_f32(word + i * act->z_stride);               \
    float32x4_t v0 = vfmaq_f32(tni_arm_sum(s##i##0), vld1q_f32(&p->whole[g][n]), t);     \
    float32x4_t v1 = vfmaq_f32(tni_arm_sum(s##i##1), vld1q_f32(&p->whole[g][n + 4]), t); \
    if (p->rests) {                                                                      \
      v0 = vfmaq_f32(v0, vld1q_f32(&p->rest[g][n]), t);                                  \
      v1 = vfmaq_f32(v1, vld1q_f32(&p->rest[g][n + 4]), t);                              \
    }                                                                                    \
    y##i##0 = vfmaq_f32(y##i##0, v0, vmulq_n_f32(sw0, sx[i * s_stride]));                \
    y##i##1 = vfmaq_f32(y##i##1, v1, vmulq_n_f32(sw1, sx[i * s_stride]));                \
  }
#define STORE(i)                    \
  vst1q_f32(acc + i * 16, y##i##0); \
  vst1q_f32(acc + i * 16 + 4, y##i##1);

#define TILE(M, REP)                                                                                                   \
  __attribute__((always_inline)) static inline void tile_##M(size_t group, bool taking, bool by_row,                   \
                                                             const tni_arm_panel *p, const tni_clt_act *act, size_t m, \
                                                             size_t n, float *acc) {                                   \
    const size_t q_stride = act->q_stride, s_stride = act->s_stride;                                                   \
    const int8_t *q = act->q + m * q_stride + p->first_group * group, *w = (const int8_t *)p->w + n * 4;               \
    const int32_t *word = act->zero + m * act->z_stride + p->first_group * 4;                                          \
    tni_arm_words z = tni_arm_words_of(p, act, m);                                                                     \
    const float *sx = act->scale + m * s_stride + p->first_group;                                                      \
    int8x16_t w0 = vld1q_s8(w), w1 = vld1q_s8(w + 16);                                                                 \
    REP(LOAD)                                                                                                          \
    for (size_t g = 0; g < p->groups; g++, sx++, z.at += z.step, word += 4) {                                          \
      REP(START)                                                                                                       \
      for (size_t k = 0; k < group; k += 16, q += 16, w += 256) {                                                      \
        REP(CODES) QUAD(REP, 0) QUAD(REP, 1) QUAD(REP, 2) QUAD(REP, 3)                                                 \
      }                                                                                                                \
      float32x4_t sw0 = vld1q_f32(&p->scale[g][n]), sw1 = vld1q_f32(&p->scale[g][n + 4]);                              \
      if (taking) {                                                                                                    \
        REP(FINISH_TAKING)                                                                                             \
      } else if (by_row) {                                                                                             \
        REP(FINISH_ROW)                                                                                                \
      } else {                                                                                                         \
        REP(FINISH)                                                                                                    \
      }                                                                                                                \
    }                                                                                                                  \
    REP(STORE)                                                                                                         \
  }

TILE(1, REP1)
TILE(2, REP2)
TILE(3, REP3)
TILE(4, REP4)

#undef TILE
#undef STORE
#undef FINISH_TAKING
#undef FINISH_ROW
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

/* by_row: x has no scales of groups. */
__attribute__((always_inline)) static inline void multiply_tiles(size_t group, bool taking, bool by_row,
                                                                 const tni_arm_panel *p, const tni_clt_act *a,
                                                                 size_t m0, size_t m1, float *acc) {
  for (size_t m = m0; m < m1; m += TILE_M, acc += TILE_M * TNI_CLT_ROWS) {
    for (size_t n = 0; n < TNI_CLT_ROWS; n += TILE_N) {
      switch (m1 - m) {
        case 1:
          tile_1(group, taking, by_row, p, a, m, n, acc + n);
          break;
        case 2:
          tile_2(group, taking, by_row, p, a, m, n, acc + n);
          break;
        case 3:
          tile_3(group, taking, by_row, p, a, m, n, acc + n);
          break;
        default:
          tile_4(group, taking, by_row, p, a, m, n, acc + n);
      }
    }
  }
}

TNI_ARM_TILES_OF(16, dotprod, multiply_tiles)
TNI_ARM_TILES_OF(32, dotprod, multiply_tiles)
TNI_ARM_TILES_OF(64, dotprod, multiply_tiles)
TNI_ARM_TILES_OF(128, dotprod, multiply_tiles)
TNI_ARM_TILES_BY(tiles, 256, dotprod, multiply_tiles, false, false)

#define TILES_dotprod(bits, group) \
  (tni_arm_tiles) { false, tiles##group##_dotprod, taking##group##_dotprod }
TNI_ARM_GEMM_W4G(32, 4x8, dotprod)
TNI_ARM_GEMM_W4G(128, 4x8, dotprod)
#define GRID(group, bits) TNI_ARM_GEMM_GRID(group, bits, 4x8, dotprod)
TNI_CLT_EACH_GRID(GRID)
#define DOT(id, code_bytes, head, step, palette) \
  TNI_ARM_GEMM_DOT(id, dotprod, 4x8, false, code_bytes, head, step, palette, tiles128_dotprod)
TNI_ARM_EACH_DOT(DOT)
TNI_ARM_GEMM_TERN17(dotprod, 4x8, false, tiles128_dotprod)
TNI_ARM_GEMM_DOT_GRID(w8g, 8, 4x8, dotprod)
TNI_ARM_GEMM_DOT_GRID(w2g, 2, 4x8, dotprod)
TNI_ARM_GEMM_LUTS(dotprod, 4x8, false)
#define LEV(id, ID, group, bytes) TNI_ARM_GEMM_LEV(id, ID, group, bytes, dotprod, 4x8, false, tiles##group##_dotprod)
TNI_ARM_EACH_LEV(LEV)
