/* SPDX-License-Identifier: Apache-2.0
 *
 * Many rows by SMOPA with what SME2 has: groups end four rows at a time, and codes of 4 and 2 bits that have no zero
 * points of their own are not unpacked here: LUTI4 and LUTI2 make levels of them in the tile. The other formats have
 * panels of bytes.
 */
#include "plugins/cpu-neon-lut/kernels/gemm_sme.h"

TNI_SME_MULTIPLY(sme2)

/* Levels of a format, for LUTI. */
typedef struct level_table {
  uint32_t word[16];
} level_table;

static inline level_table levels_from(int32_t lowest) {
  level_table t;
  for (int32_t i = 0; i < 16; i++) t.word[i] = (uint8_t)(lowest + i);
  return t;
}

static inline level_table levels_of(const uint8_t *level) {
  level_table t;
  for (size_t i = 0; i < 16; i++) t.word[i] = level[i];
  return t;
}

/* Scales, and where codes lie, of groups [first, first + n) of a row block. */
typedef void (*find_fn)(const void *of, const uint8_t *block, size_t first, size_t n, tni_arm_panel *p,
                        tni_sme_codes *codes);

__attribute__((always_inline)) static inline void gemm_by_table(find_fn find, const void *of, uint32_t bits,
                                                                size_t group, const level_table *t,
                                                                const uint8_t *block, size_t groups,
                                                                const tni_clt_act *a, size_t m0, size_t m1,
                                                                float *acc) {
  const size_t most = TNI_ARM_PANEL_GROUPS;
  tni_sme_codes codes = {.kind = bits == 4 ? TNI_SME_LUTI4 : TNI_SME_LUTI2, .table = t->word};
  tni_arm_panel p;
  memset(acc, 0, (m1 - m0) * TNI_CLT_ROWS * sizeof *acc);
  for (size_t g = 0; g < groups; g += most) {
    p.first_group = g;
    p.groups = groups - g < most ? groups - g : most;
    p.total = groups;
    find(of, block, g, p.groups, &p, &codes);
    tni_sme_multiply(tni_arm_tiles_sme2, &p, &codes, group, TNI_SME_FMA, a, m0, m1, acc);
  }
}

/* --- grids without zero points, and w4g as one ------------------------------------------------------------------ */

static void find_grid(const void *of, const uint8_t *block, size_t first, size_t n, tni_arm_panel *p,
                      tni_sme_codes *codes) {
  const tni_grid_layout *l = of;
  const size_t bytes = (size_t)l->group * TNI_CLT_ROWS * l->bits / 8;
  for (size_t g = 0; g < n; g++) {
    const uint8_t *sb = block + (first + g) / l->groups * l->bytes;
    const size_t in = (first + g) % l->groups;
    for (size_t i = 0; i < TNI_CLT_ROWS; i += 4)
      vst1q_f32(&p->scale[g][i], tni_arm_scales_at(l, sb, in * TNI_CLT_ROWS + i));
    codes->of[g] = sb + l->codes_at + in * bytes;
  }
}

static void gemm_grid(tni_grid_layout l, const uint8_t *block, size_t superblocks, const tni_clt_act *a, size_t m0,
                      size_t m1, float *acc) {
  const level_table t = levels_from(-(1 << (l.bits - 1)));
  gemm_by_table(find_grid, &l, l.bits, l.group, &t, block, superblocks * l.groups, a, m0, m1, acc);
}

#define W4G(group)                                                                                                     \
  void tni_arm_gemm_f32_q8g##group##_w4g##group##_16x16_sme2(const uint8_t *row_block, size_t superblocks,             \
                                                             const tni_clt_act *a, size_t m0, size_t m1, float *acc) { \
    gemm_grid(tni_arm_w4g(group), row_block, superblocks, a, m0, m1, acc);                                             \
  }
W4G(32)
W4G(128)

#define TILES_sme2(bits, group) \
  (tni_arm_tiles) { false, tiles##group##_sme2, taking##group##_sme2 }
#define GRID(group, bits)                                                                                              \
  void tni_arm_gemm_f32_q8g##group##_grid##bits##_16x16_sme2(const uint8_t *row_block, size_t superblocks,             \
                                                             const tni_clt_act *a, size_t m0, size_t m1, float *acc) { \
    const tni_grid_layout l = tni_grid_layout_of(bits, group, a->scale_bits, a->zero_bits);                            \
    if (bits < 8 && !l.zero_bits)                                                                                      \
      gemm_grid(l, row_block, superblocks, a, m0, m1, acc);                                                            \
    else                                                                                                               \
      tni_arm_gemm(l, true, TILES_sme2(bits, group), row_block, superblocks, a, m0, m1, acc);                          \
  }
TNI_CLT_EACH_GRID(GRID)

void tni_arm_gemm_f32_q8g128_w2g_16x16_sme2(const uint8_t *row_block, size_t superblocks, const tni_clt_act *a,
                                            size_t m0, size_t m1, float *acc) {
  gemm_grid(tni_arm_dot_grid(2), row_block, superblocks, a, m0, m1, acc);
}
TNI_ARM_GEMM_DOT_GRID(w8g, 8, 16x16, sme2)

/* --- the others of dot.h ---------------------------------------------------------------------------------------- */

/* of: bytes of a group's codes and before the superblocks; rows have scales. */
static void find_dot(const void *of, const uint8_t *block, size_t first, size_t n, tni_arm_panel *p,
                     tni_sme_codes *codes) {
  const size_t *bytes = of;
  for (size_t g = 0; g < n; g++) {
    memcpy(p->scale[g], block, sizeof p->scale[g]);
    codes->of[g] = tni_arm_dot_at(block, first + g, bytes[0], bytes[1]).code;
  }
}

void tni_arm_gemm_f32_q8g128_tern20_16x16_sme2(const uint8_t *row_block, size_t superblocks, const tni_clt_act *a,
                                               size_t m0, size_t m1, float *acc) {
  static const size_t bytes[] = {512, TNI_DOT_SCALE_BYTES};
  const level_table t = levels_from(-1);
  gemm_by_table(find_dot, bytes, 2, TNI_DOT_GROUP, &t, row_block, 2 * superblocks, a, m0, m1, acc);
}

void tni_arm_gemm_f32_q8g128_pal16_16x16_sme2(const uint8_t *row_block, size_t superblocks, const tni_clt_act *a,
                                              size_t m0, size_t m1, float *acc) {
  static const size_t bytes[] = {1024, 128};
  uint8_t level[16];
  vst1q_u8(level, tni_arm_palette(row_block));
  const level_table t = levels_of(level);
  gemm_by_table(find_dot, bytes, 4, TNI_DOT_GROUP, &t, row_block, 2 * superblocks, a, m0, m1, acc);
}

#define DOT(id, code_bytes, head, step, palette) \
  TNI_ARM_GEMM_DOT(id, sme2, 16x16, false, code_bytes, head, step, palette, tiles128_sme2)
DOT(w3g, 768, 0, 32, 0)
DOT(w1g, 256, 0, 32, 0)
TNI_ARM_GEMM_TERN17(sme2, 16x16, false, tiles128_sme2)
TNI_ARM_GEMM_LUTS(sme2, 16x16, false)

/* --- levels ----------------------------------------------------------------------------------------------------- */

/* of: bytes of a block's codes. */
static void find_lev(const void *of, const uint8_t *block, size_t first, size_t n, tni_arm_panel *p,
                     tni_sme_codes *codes) {
  const size_t bytes = *(const size_t *)of;
  const uint8x16x4_t steps = tni_arm_lev_steps();
  const tni_arm_floats16 parent = tni_arm_lev_parents(block);
  for (size_t g = 0; g < n; g++) {
    tni_arm_lev_scales(parent, steps, block + 32 + 8 * (first + g), p->scale[g]);
    codes->of[g] = block + tni_lev_head_bytes(p->total) + (first + g) * bytes;
  }
}

#define NIBBLES(id, ID, group)                                                                                   \
  void tni_arm_gemm_f32_q8g##group##_##id##_16x16_sme2(const uint8_t *row_block, size_t superblocks,             \
                                                       const tni_clt_act *a, size_t m0, size_t m1, float *acc) { \
    static const size_t bytes = (group)*TNI_CLT_ROWS / 2;                                                        \
    const level_table t = levels_of((const uint8_t *)tni_lev_kinds[TNI_##ID].level);                             \
    gemm_by_table(find_lev, &bytes, 4, group, &t, row_block, superblocks, a, m0, m1, acc);                       \
  }
NIBBLES(lev4, LEV4, 32)
NIBBLES(lev4s, LEV4S, 16)
#define LEV(id, ID, bytes) TNI_ARM_GEMM_LEV(id, ID, 32, bytes, sme2, 16x16, false, tiles32_sme2)
LEV(lev3, LEV3, 192)
LEV(lev2, LEV2, 128)
LEV(lev1, LEV1, 96)
