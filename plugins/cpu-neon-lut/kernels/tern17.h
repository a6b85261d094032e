/* SPDX-License-Identifier: Apache-2.0
 *
 * tern17 (dot.h), x86's bytes: a unit of 320 bytes has 96 k of 16 rows as eight codes of three trits for each byte of a
 * quad. Trit t of code j is quad 8 t + j. A code is an index into a table of 27 levels for each t, which is one `tbl`
 * of two registers. Groups of 128 k are not whole units, but always whole thirds of them: in four units, which are
 * three groups, thirds 0 to 3, 4 to 7 and 8 to 11.
 */
#ifndef TENON_CPU_NEON_TERN17_H
#define TENON_CPU_NEON_TERN17_H

#include "plugins/cpu-neon-lut/kernels/unpack.h"

enum { TNI_ARM_TERN17_UNIT = 320, TNI_ARM_TERN17_QUADS = 24 };

/* Groups that have something in so many units. */
static inline size_t tni_arm_tern17_groups(size_t units) {
  const size_t quads = TNI_DOT_GROUP / 4;
  return (units * TNI_ARM_TERN17_QUADS + quads - 1) / quads;
}

/* Levels by code, for trit t. What no packer writes, from 27 on, means what it means to the unpacker. */
static inline uint8x16x2_t tni_arm_tern17_levels(size_t t) {
#define ONES(v) (uint8_t)((v) % 3 - 1)
#define THREES(v) (uint8_t)((v) / 3 % 3 - 1)
#define NINES(v) (uint8_t)((v) / 9 - 1)
#define FOUR(F, v) F(v), F((v) + 1), F((v) + 2), F((v) + 3)
#define ALL(F) FOUR(F, 0), FOUR(F, 4), FOUR(F, 8), FOUR(F, 12), FOUR(F, 16), FOUR(F, 20), FOUR(F, 24), FOUR(F, 28)
  static const uint8_t levels[3][32] = {{ALL(ONES)}, {ALL(THREES)}, {ALL(NINES)}};
#undef ALL
#undef FOUR
#undef NINES
#undef THREES
#undef ONES
  return (uint8x16x2_t){{vld1q_u8(levels[t]), vld1q_u8(levels[t] + 16)}};
}

/* Codes 0 to 3 of four outputs; u: the unit's bytes of the first of them. */
__attribute__((always_inline)) static inline tni_arm_quads tni_arm_tern17_low(const uint8_t *u) {
  const uint8x16_t m = vdupq_n_u8(31);
  return (tni_arm_quads){vandq_u8(vld1q_u8(u), m), vandq_u8(vld1q_u8(u + 64), m), vandq_u8(vld1q_u8(u + 128), m),
                         vandq_u8(vld1q_u8(u + 192), m)};
}

/* Codes 4 to 7: the last three have their bits above those of the others. A code's bits are brought to the top of a
 * byte, upper ones first, by shifts that insert; one more shift brings them down, and what lay below them is gone. */
__attribute__((always_inline)) static inline tni_arm_quads tni_arm_tern17_high(const uint8_t *u) {
  const uint8x16_t z0 = vld1q_u8(u), z1 = vld1q_u8(u + 64), z2 = vld1q_u8(u + 128), z3 = vld1q_u8(u + 192);
  const uint8x16_t z4 = vld1q_u8(u + 256);
  const uint8x16_t v5 = vsriq_n_u8(vaddq_u8(z1, z1), z0, 2), v6 = vsriq_n_u8(vaddq_u8(z3, z3), z2, 2);
  const uint8x16_t v7 = vsriq_n_u8(vsriq_n_u8(z3, z1, 1), z4, 2);
  return (tni_arm_quads){vandq_u8(z4, vdupq_n_u8(31)), vshrq_n_u8(v5, 3), vshrq_n_u8(v6, 3), vshrq_n_u8(v7, 3)};
}

__attribute__((always_inline)) static inline tni_arm_quads tni_arm_tern17_look(uint8x16x2_t levels, tni_arm_quads v) {
  return (tni_arm_quads){vqtbl2q_u8(levels, v.q0), vqtbl2q_u8(levels, v.q1), vqtbl2q_u8(levels, v.q2),
                         vqtbl2q_u8(levels, v.q3)};
}

/* n groups from the first-th on; what is beyond the units is 0. */
static inline void tni_arm_tern17_fill(bool pairs, const uint8_t *block, size_t units, size_t first, size_t n,
                                       tni_arm_panel *p) {
  const uint8x16_t none = vdupq_n_u8(0);
  uint8_t *out = p->w;
  for (size_t quad = first * TNI_DOT_GROUP / 4; quad < (first + n) * TNI_DOT_GROUP / 4; quad += 4, out += 256) {
    const size_t unit = quad / TNI_ARM_TERN17_QUADS, at = quad % TNI_ARM_TERN17_QUADS;
    const uint8_t *u = block + TNI_DOT_SCALE_BYTES + unit * TNI_ARM_TERN17_UNIT;
    const uint8x16x2_t levels = tni_arm_tern17_levels(at / 8);
    for (size_t i = 0; i < 4; i++) {
      tni_arm_quads c = {none, none, none, none};
      if (unit < units) {
        c = at % 8 ? tni_arm_tern17_high(u + 16 * i) : tni_arm_tern17_low(u + 16 * i);
        c = tni_arm_tern17_look(levels, c);
      }
      tni_arm_put(pairs, c, i, out);
    }
  }
  for (size_t g = 0; g < n; g++)
    for (size_t i = 0; i < TNI_CLT_ROWS; i += 4) vst1q_f32(&p->scale[g][i], tni_arm_floats(block + 4 * i));
  p->groups = n;
}

#define TNI_ARM_GEMM_TERN17(isa, tile, pairs, tiles)                                                           \
  void tni_arm_gemm_f32_q8g128_tern17_##tile##_##isa(const uint8_t *row_block, size_t superblocks,             \
                                                     const tni_clt_act *a, size_t m0, size_t m1, float *acc) { \
    const size_t groups = tni_arm_tern17_groups(superblocks), most = TNI_ARM_PANEL_K / TNI_DOT_GROUP;          \
    tni_arm_panel p;                                                                                           \
    p.plain = true;                                                                                            \
    p.total = groups;                                                                                          \
    p.rests = false;                                                                                           \
    memset(acc, 0, (m1 - m0) * TNI_CLT_ROWS * sizeof *acc);                                                    \
    for (size_t g = 0; g < groups; g += most) {                                                                \
      tni_arm_tern17_fill(pairs, row_block, superblocks, g, groups - g < most ? groups - g : most, &p);        \
      p.first_group = g;                                                                                       \
      tiles(&p, a, m0, m1, acc);                                                                               \
    }                                                                                                          \
  }

#endif
