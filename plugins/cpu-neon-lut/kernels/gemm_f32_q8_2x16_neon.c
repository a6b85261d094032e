/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of activations times 16 outputs without SDOT, up to two rows at a time: sixteen registers of s16, each lane one
 * k of four of an output, for 32 k (8 products of at most 15 * 127), then added in pairs into s32. Of codes of eight
 * bits two products fill s16: eight outputs at a time, in registers of s32 that hold two halves of the sums.
 */
#include "plugins/cpu-neon-lut/kernels/kernels.h"
#include "plugins/cpu-neon-lut/kernels/levels.h"
#include "plugins/cpu-neon-lut/kernels/tern17.h"

enum { TILE_M = 2 };

#define REP1(F) F(0)
#define REP2(F) REP1(F) F(1)

#define START(i)                                                                                        \
  int32x4_t t##i##0 = tni_arm_start(z.at + i * z.stride), t##i##1 = tni_arm_start(z.at + i * z.stride); \
  int32x4_t t##i##2 = tni_arm_start(z.at + i * z.stride), t##i##3 = tni_arm_start(z.at + i * z.stride);
/* s i j: row i, outputs 2j and 2j + 1. */
#define CLEAR(i)                                                                                                  \
  int16x8_t s##i##0 = vdupq_n_s16(0), s##i##1 = s##i##0, s##i##2 = s##i##0, s##i##3 = s##i##0, s##i##4 = s##i##0, \
            s##i##5 = s##i##0, s##i##6 = s##i##0, s##i##7 = s##i##0;
#define STEP(i)                                                   \
  {                                                               \
    int8x16_t a = four_codes(q + i * q_stride);                   \
    s##i##0 = vmlal_s8(s##i##0, vget_low_s8(w0), vget_low_s8(a)); \
    s##i##1 = vmlal_high_s8(s##i##1, w0, a);                      \
    s##i##2 = vmlal_s8(s##i##2, vget_low_s8(w1), vget_low_s8(a)); \
    s##i##3 = vmlal_high_s8(s##i##3, w1, a);                      \
    s##i##4 = vmlal_s8(s##i##4, vget_low_s8(w2), vget_low_s8(a)); \
    s##i##5 = vmlal_high_s8(s##i##5, w2, a);                      \
    s##i##6 = vmlal_s8(s##i##6, vget_low_s8(w3), vget_low_s8(a)); \
    s##i##7 = vmlal_high_s8(s##i##7, w3, a);                      \
  }
#define WIDEN(i)                                                \
  t##i##0 = vpadalq_s16(t##i##0, vpaddq_s16(s##i##0, s##i##1)); \
  t##i##1 = vpadalq_s16(t##i##1, vpaddq_s16(s##i##2, s##i##3)); \
  t##i##2 = vpadalq_s16(t##i##2, vpaddq_s16(s##i##4, s##i##5)); \
  t##i##3 = vpadalq_s16(t##i##3, vpaddq_s16(s##i##6, s##i##7));
#define FINISH(i) END(i, 0) END(i, 1) END(i, 2) END(i, 3)
#define END(i, j) \
  finish_four(taking, p, g, 4 * j, t##i##j, word + i * act->z_stride, sx[i * s_stride], acc + i * 16 + 4 * j);

static inline int8x16_t four_codes(const int8_t *q) {
  int32_t v;
  memcpy(&v, q, sizeof v);
  return vreinterpretq_s8_s32(vdupq_n_s32(v));
}

/* Four outputs from n on. word: of the row's activations. */
__attribute__((always_inline)) static inline void finish_four(bool taking, const tni_arm_panel *p, size_t g, size_t n,
                                                              int32x4_t sum, const int32_t *word, float sx,
                                                              float *acc) {
  float32x4_t v = tni_arm_sum(sum);
  if (taking) {
    const float32x4_t t = tni_arm_codes_sum_f32(word);
    v = vfmaq_f32(v, vld1q_f32(&p->whole[g][n]), t);
    if (p->rests) v = vfmaq_f32(v, vld1q_f32(&p->rest[g][n]), t);
  }
  vst1q_f32(acc, vfmaq_f32(vld1q_f32(acc), v, vmulq_n_f32(vld1q_f32(&p->scale[g][n]), sx)));
}

/* Rows m .. of x over a panel: what both kinds of tiles walk along. */
#define WALK                                                                                   \
  const size_t q_stride = act->q_stride, s_stride = act->s_stride;                             \
  const int8_t *q = act->q + m * q_stride + p->first_group * group, *w = (const int8_t *)p->w; \
  const int32_t *word = act->zero + m * act->z_stride + p->first_group * 4;                    \
  const float *sx = act->scale + m * s_stride + p->first_group;

#define TILE(M, REP)                                                                                            \
  __attribute__((always_inline)) static inline void tile_##M(size_t group, bool taking, const tni_arm_panel *p, \
                                                             const tni_clt_act *act, size_t m, float *acc) {    \
    WALK tni_arm_words z = tni_arm_words_of(p, act, m);                                                         \
    const size_t part = group < 32 ? group : 32;                                                                \
    for (size_t g = 0; g < p->groups; g++, sx++, z.at += z.step, word += 4) {                                   \
      REP(START)                                                                                                \
      for (size_t k = 0; k < group; k += part) {                                                                \
        REP(CLEAR)                                                                                              \
        for (size_t j = 0; j < part; j += 4, q += 4, w += 64) {                                                 \
          int8x16_t w0 = vld1q_s8(w), w1 = vld1q_s8(w + 16), w2 = vld1q_s8(w + 32), w3 = vld1q_s8(w + 48);      \
          REP(STEP)                                                                                             \
        }                                                                                                       \
        REP(WIDEN)                                                                                              \
      }                                                                                                         \
      REP(FINISH)                                                                                               \
    }                                                                                                           \
  }

TILE(1, REP1)
TILE(2, REP2)

#undef TILE
#undef END
#undef FINISH
#undef WIDEN
#undef STEP
#undef CLEAR
#undef START

/* t i j: row i, outputs 2j and 2j + 1, two halves of each. */
#define CLEAR(i) int32x4_t t##i##0 = vdupq_n_s32(0), t##i##1 = t##i##0, t##i##2 = t##i##0, t##i##3 = t##i##0;
#define STEP(i)                                                                             \
  {                                                                                         \
    const int8x16_t a = four_codes(q + i * q_stride), b = four_codes(q + i * q_stride + 4); \
    t##i##0 = add_both(t##i##0, vmull_s8(vget_low_s8(w0), vget_low_s8(a)), w2, b);          \
    t##i##1 = add_both_high(t##i##1, vmull_high_s8(w0, a), w2, b);                          \
    t##i##2 = add_both(t##i##2, vmull_s8(vget_low_s8(w1), vget_low_s8(a)), w3, b);          \
    t##i##3 = add_both_high(t##i##3, vmull_high_s8(w1, a), w3, b);                          \
  }
#define FINISH(i) END(i, 0, 0, 1) END(i, 4, 2, 3)
#define END(i, at, j, h)                                                                                 \
  finish_four(taking, p, g, n + at, vaddq_s32(vpaddq_s32(t##i##j, t##i##h), vdupq_n_s32(TNI_CLT_START)), \
              word + i * act->z_stride, sx[i * s_stride], acc + i * 16 + n + at);

static inline int32x4_t add_both(int32x4_t t, int16x8_t first, int8x16_t w, int8x16_t a) {
  return vpadalq_s16(t, vmlal_s8(first, vget_low_s8(w), vget_low_s8(a)));
}
static inline int32x4_t add_both_high(int32x4_t t, int16x8_t first, int8x16_t w, int8x16_t a) {
  return vpadalq_s16(t, vmlal_high_s8(first, w, a));
}

#define TILE(M, REP)                                                                                               \
  __attribute__((always_inline)) static inline void bytes_##M(                                                     \
      size_t group, bool taking, const tni_arm_panel *p, const tni_clt_act *act, size_t m, size_t n, float *acc) { \
    WALK w += n * 4;                                                                                               \
    for (size_t g = 0; g < p->groups; g++, sx++, word += 4) {                                                      \
      REP(CLEAR)                                                                                                   \
      for (size_t k = 0; k < group; k += 8, q += 8, w += 128) {                                                    \
        int8x16_t w0 = vld1q_s8(w), w1 = vld1q_s8(w + 16), w2 = vld1q_s8(w + 64), w3 = vld1q_s8(w + 80);           \
        REP(STEP)                                                                                                  \
      }                                                                                                            \
      REP(FINISH)                                                                                                  \
    }                                                                                                              \
  }

TILE(1, REP1)
TILE(2, REP2)

#undef TILE
#undef END
#undef FINISH
#undef STEP
#undef CLEAR
#undef WALK
#undef REP2
#undef REP1

__attribute__((always_inline)) static inline void multiply_tiles_neon(size_t group, bool taking, const tni_arm_panel *p,
                                                                      const tni_clt_act *a, size_t m0, size_t m1,
                                                                      float *acc) {
  for (size_t m = m0; m < m1; m += TILE_M, acc += TILE_M * TNI_CLT_ROWS) {
    if (m1 - m == 1)
      tile_1(group, taking, p, a, m, acc);
    else
      tile_2(group, taking, p, a, m, acc);
  }
}

__attribute__((always_inline)) static inline void multiply_bytes_neon(size_t group, bool taking, const tni_arm_panel *p,
                                                                      const tni_clt_act *a, size_t m0, size_t m1,
                                                                      float *acc) {
  for (size_t m = m0; m < m1; m += TILE_M, acc += TILE_M * TNI_CLT_ROWS)
    for (size_t n = 0; n < TNI_CLT_ROWS; n += TNI_CLT_ROWS / 2) {
      if (m1 - m == 1)
        bytes_1(group, taking, p, a, m, n, acc);
      else
        bytes_2(group, taking, p, a, m, n, acc);
    }
}

#define TILES_OF(group)                                         \
  TNI_ARM_TILES(tiles, group, neon, multiply_tiles_neon, false) \
  TNI_ARM_TILES(taking, group, neon, multiply_tiles_neon, true) \
  TNI_ARM_TILES(bytes, group, neon, multiply_bytes_neon, false) \
  TNI_ARM_TILES(bytes_taking, group, neon, multiply_bytes_neon, true)
TILES_OF(16)
TILES_OF(32)
TILES_OF(64)
TILES_OF(128)

#define TILES_neon(bits, group)                                       \
  (tni_arm_tiles) {                                                   \
    false, bits == 8 ? bytes##group##_neon : tiles##group##_neon,     \
        bits == 8 ? bytes_taking##group##_neon : taking##group##_neon \
  }
TNI_ARM_GEMM_W4G(32, 2x16, neon)
TNI_ARM_GEMM_W4G(128, 2x16, neon)
#define GRID(group, bits) TNI_ARM_GEMM_GRID(group, bits, 2x16, neon)
TNI_CLT_EACH_GRID(GRID)
#define DOT(id, code_bytes, head, step, palette) \
  TNI_ARM_GEMM_DOT(id, neon, 2x16, false, code_bytes, head, step, palette, palette ? bytes128_neon : tiles128_neon)
TNI_ARM_EACH_DOT(DOT)
TNI_ARM_GEMM_TERN17(neon, 2x16, false, tiles128_neon)
TNI_ARM_GEMM_DOT_GRID(w8g, 8, 2x16, neon)
TNI_ARM_GEMM_DOT_GRID(w2g, 2, 2x16, neon)

TNI_ARM_GEMM_NARROW(lut1p, neon, 2x16, false, 1, 1)
TNI_ARM_GEMM_NARROW(lut2p, neon, 2x16, false, 2, 3)
TNI_ARM_GEMM_NARROW(lut3p, neon, 2x16, false, 3, 7)
TNI_ARM_GEMM_NARROW(lut4p, neon, 2x16, false, 4, 15)
TNI_ARM_GEMM_NARROW(luttp, neon, 2x16, false, 2, 2)

/* One row: what is unpacked serves it alone. */
#undef DOT
#define DOT(id, code_bytes, head, step, palette)                                                                    \
  void tni_arm_gemv_f32_q8g128_##id##_1x16_neon(const uint8_t *row_block, size_t superblocks, const tni_clt_act *a, \
                                                float *acc) {                                                       \
    tni_arm_gemm_f32_q8g128_##id##_2x16_neon(row_block, superblocks, a, 0, 1, acc);                                 \
  }
TNI_ARM_EACH_DOT(DOT)
DOT(tern17, 0, 0, 0, 0)
#define LEV(id, ID, group, codes) TNI_ARM_GEMM_LEV(id, ID, group, codes, neon, 2x16, false, bytes##group##_neon)
TNI_ARM_EACH_LEV(LEV)
#undef LEV
#define LEV(id, ID, group, codes)                                                                   \
  void tni_arm_gemv_f32_q8g##group##_##id##_1x16_neon(const uint8_t *row_block, size_t superblocks, \
                                                      const tni_clt_act *a, float *acc) {           \
    tni_arm_gemm_f32_q8g##group##_##id##_2x16_neon(row_block, superblocks, a, 0, 1, acc);           \
  }
TNI_ARM_EACH_LEV(LEV)
