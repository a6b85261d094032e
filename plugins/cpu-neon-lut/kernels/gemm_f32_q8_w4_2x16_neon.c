/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of activations times 16 outputs without SDOT, up to two rows at a time: sixteen registers of s16, each lane one
 * k of four of an output, for 32 k (8 products of at most 15 * 127), then added in pairs into s32.
 */
#include "plugins/cpu-neon-lut/kernels/kernels.h"
#include "plugins/cpu-neon-lut/kernels/panel.h"

enum { TILE_M = 2 };

#define REP1(F) F(0)
#define REP2(F) REP1(F) F(1)

#define START(i)                                                                                        \
  int32x4_t t##i##0 = tni_arm_start(zero + i * z_stride), t##i##1 = tni_arm_start(zero + i * z_stride); \
  int32x4_t t##i##2 = tni_arm_start(zero + i * z_stride), t##i##3 = tni_arm_start(zero + i * z_stride);
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
#define FINISH(i)                                                  \
  add_scaled(acc + i * 16, t##i##0, sw, sx[i * s_stride]);         \
  add_scaled(acc + i * 16 + 4, t##i##1, sw + 4, sx[i * s_stride]); \
  add_scaled(acc + i * 16 + 8, t##i##2, sw + 8, sx[i * s_stride]); \
  add_scaled(acc + i * 16 + 12, t##i##3, sw + 12, sx[i * s_stride]);

static inline int8x16_t four_codes(const int8_t *q) {
  int32_t v;
  memcpy(&v, q, sizeof v);
  return vreinterpretq_s8_s32(vdupq_n_s32(v));
}

static inline void add_scaled(float *acc, int32x4_t t, const float *sw, float sx) {
  vst1q_f32(acc, tni_arm_add(vld1q_f32(acc), t, vmulq_n_f32(vld1q_f32(sw), sx)));
}

#define TILE(M, REP)                                                                                         \
  __attribute__((always_inline)) static inline void tile_##M(size_t group, const tni_arm_panel *p,           \
                                                             const tni_clt_act *act, size_t m, float *acc) { \
    const size_t q_stride = act->q_stride, z_stride = act->z_stride, s_stride = act->s_stride;               \
    const int8_t *q = act->q + m * q_stride + p->first_group * group, *w = (const int8_t *)p->w;             \
    const int32_t *zero = act->zero + m * z_stride + p->first_group * 4;                                     \
    const float *sx = act->scale + m * s_stride + p->first_group;                                            \
    for (size_t g = 0; g < p->groups; g++, sx++, zero += 4) {                                                \
      const float *sw = p->scale[g];                                                                         \
      REP(START)                                                                                             \
      for (size_t k = 0; k < group; k += 32) {                                                               \
        REP(CLEAR)                                                                                           \
        for (size_t j = 0; j < 8; j++, q += 4, w += 64) {                                                    \
          int8x16_t w0 = vld1q_s8(w), w1 = vld1q_s8(w + 16), w2 = vld1q_s8(w + 32), w3 = vld1q_s8(w + 48);   \
          REP(STEP)                                                                                          \
        }                                                                                                    \
        REP(WIDEN)                                                                                           \
      }                                                                                                      \
      REP(FINISH)                                                                                            \
    }                                                                                                        \
  }

TILE(1, REP1)
TILE(2, REP2)

#undef TILE
#undef FINISH
#undef WIDEN
#undef STEP
#undef CLEAR
#undef START
#undef REP2
#undef REP1

__attribute__((always_inline)) static inline void multiply_tiles_neon(size_t group, const tni_arm_panel *p,
                                                                      const tni_clt_act *a, size_t m0, size_t m1,
                                                                      float *acc) {
  for (size_t m = m0; m < m1; m += TILE_M, acc += TILE_M * TNI_CLT_ROWS) {
    if (m1 - m == 1)
      tile_1(group, p, a, m, acc);
    else
      tile_2(group, p, a, m, acc);
  }
}

static void tiles32_neon(const tni_arm_panel *p, const tni_clt_act *a, size_t m0, size_t m1, float *acc) {
  multiply_tiles_neon(32, p, a, m0, m1, acc);
}

static void tiles128_neon(const tni_arm_panel *p, const tni_clt_act *a, size_t m0, size_t m1, float *acc) {
  multiply_tiles_neon(128, p, a, m0, m1, acc);
}

void tni_arm_gemm_f32_q8g32_w4g32_2x16_neon(const uint8_t *row_block, size_t superblocks, const tni_clt_act *a,
                                            size_t m0, size_t m1, float *acc) {
  tni_arm_gemm(32, sizeof(tni_w4g_sb32), tni_arm_unpack_quads, tiles32_neon, row_block, superblocks, a, m0, m1, acc);
}

void tni_arm_gemm_f32_q8g128_w4g128_2x16_neon(const uint8_t *row_block, size_t superblocks, const tni_clt_act *a,
                                              size_t m0, size_t m1, float *acc) {
  tni_arm_gemm(128, sizeof(tni_w4g_sb128), tni_arm_unpack_quads, tiles128_neon, row_block, superblocks, a, m0, m1, acc);
}
