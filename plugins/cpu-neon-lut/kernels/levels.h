/* SPDX-License-Identifier: Apache-2.0
 *
 * The formats of lev.h in registers of four outputs: nibbles that pick levels by `tbl`, steps that are scales, and
 * panels of bytes for the tiles of many rows.
 */
#ifndef TENON_CPU_NEON_LEVELS_H
#define TENON_CPU_NEON_LEVELS_H

#include "plugins/cpu-neon-lut/kernels/unpack.h"

/* Bits of `yes` where mask has ones. */
#define TNI_ARM_PICK(mask, yes, no) vbslq_u8(vdupq_n_u8(mask), yes, no)

/* Bytes of the neighbours whose bits a window reads: of the pair's other, of the quad's next. */
__attribute__((always_inline)) static inline uint8x16_t tni_arm_other_bytes(uint32_t which, uint8x16_t v) {
  const uint32x4_t d = vreinterpretq_u32_u8(v);
  return which == TNI_LEV3 ? vrev16q_u8(v) : vreinterpretq_u8_u32(vsriq_n_u32(vshlq_n_u32(d, 24), d, 8));
}

/* The two bits that quads 4 * four .. of lev1 share, of outputs 4i .. in all bytes of a row. */
static inline uint8x16_t tni_arm_quads_bits(const uint8_t *s, size_t i, uint32_t four) {
  static const uint8_t rows[16] = {0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3};
  const uint8x16_t v = vld1q_u8(s + 16 * (i % 2));
  return vqtbl1q_u8(v, vaddq_u8(vld1q_u8(rows), vdupq_n_u8((uint8_t)(8 * (i / 2) + 4 * four))));
}

/* Entries of quads 2c, in low nibbles, and 2c + 1 of outputs 4i .. of a block whose units begin at u. */
__attribute__((always_inline)) static inline uint8x16_t tni_arm_lev_nibbles(uint32_t which, const uint8_t *u, size_t i,
                                                                            uint32_t c) {
  if (which == TNI_LEV4 || which == TNI_LEV4S) return vld1q_u8(u + 16 * i + 64 * c);
  const uint8x16_t own = which == TNI_LEV1 ? tni_arm_quads_bits(u + 64, i, c / 2) : vld1q_u8(u + 16 * i + c / 2 * 64);
  uint8x16_t upper;
  if (which == TNI_LEV3 || which == TNI_LEV1) {
    const uint8x16_t top = vld1q_u8(u + 16 * i + (which == TNI_LEV3 ? 128 : 0)),
                     other = tni_arm_other_bytes(which, top);
    upper = c / 2 == 0 ? TNI_ARM_PICK(0x55, top, vshlq_n_u8(other, 1)) : TNI_ARM_PICK(0x55, vshrq_n_u8(top, 1), other);
  } else {
    upper = tni_arm_other_bytes(which, own);
  }
  return c % 2 == 0 ? TNI_ARM_PICK(0x33, own, vshlq_n_u8(upper, 2)) : TNI_ARM_PICK(0x33, vshrq_n_u8(own, 2), upper);
}

static inline uint8x16_t tni_arm_lev_table(uint32_t which) {
  return vreinterpretq_u8_s8(vld1q_s8(tni_lev_kinds[which].level));
}
static inline uint8x16_t tni_arm_lev_low(uint8x16_t table, uint8x16_t v) {
  return vqtbl1q_u8(table, vandq_u8(v, vdupq_n_u8(15)));
}
static inline uint8x16_t tni_arm_lev_high(uint8x16_t table, uint8x16_t v) {
  return vqtbl1q_u8(table, vshrq_n_u8(v, 4));
}

/* 16 floats, of the rows of a block. */
typedef struct tni_arm_floats16 {
  float32x4_t f0, f1, f2, f3;
} tni_arm_floats16;

static inline tni_arm_floats16 tni_arm_lev_parents(const uint8_t *head) {
  return (tni_arm_floats16){vmulq_n_f32(tni_arm_scales(head), TNI_LEV_SCALE_UNIT),
                            vmulq_n_f32(tni_arm_scales(head + 8), TNI_LEV_SCALE_UNIT),
                            vmulq_n_f32(tni_arm_scales(head + 16), TNI_LEV_SCALE_UNIT),
                            vmulq_n_f32(tni_arm_scales(head + 24), TNI_LEV_SCALE_UNIT)};
}

/* tni_lev_steps by bytes: t0 has the lowest byte of each of the 16 floats. */
static inline uint8x16x4_t tni_arm_lev_steps(void) { return vld4q_u8((const uint8_t *)(const void *)tni_lev_steps); }

/* Steps of 16 rows; index: their eight bytes. */
static inline tni_arm_floats16 tni_arm_steps_of(uint8x16x4_t steps, const uint8_t *index) {
  const uint8x8_t v = vld1_u8(index);
  const uint8x16_t i = vcombine_u8(vand_u8(v, vdup_n_u8(15)), vshr_n_u8(v, 4));
  const uint8x16_t b0 = vqtbl1q_u8(steps.val[0], i), b1 = vqtbl1q_u8(steps.val[1], i);
  const uint8x16_t b2 = vqtbl1q_u8(steps.val[2], i), b3 = vqtbl1q_u8(steps.val[3], i);
  const uint16x8_t l0 = vreinterpretq_u16_u8(vzip1q_u8(b0, b1)), l1 = vreinterpretq_u16_u8(vzip2q_u8(b0, b1));
  const uint16x8_t h0 = vreinterpretq_u16_u8(vzip1q_u8(b2, b3)), h1 = vreinterpretq_u16_u8(vzip2q_u8(b2, b3));
  return (tni_arm_floats16){vreinterpretq_f32_u16(vzip1q_u16(l0, h0)), vreinterpretq_f32_u16(vzip2q_u16(l0, h0)),
                            vreinterpretq_f32_u16(vzip1q_u16(l1, h1)), vreinterpretq_f32_u16(vzip2q_u16(l1, h1))};
}

/* The scales of a block's 16 rows; index: its eight bytes. */
static inline void tni_arm_lev_scales(tni_arm_floats16 parent, uint8x16x4_t steps, const uint8_t *index, float *to) {
  const tni_arm_floats16 s = tni_arm_steps_of(steps, index);
#define SCALE(i) vst1q_f32(to + 4 * i, vmulq_f32(parent.f##i, s.f##i));
  TNI_ARM_EACH4(SCALE)
#undef SCALE
}

/* n blocks from `first` on. */
__attribute__((always_inline)) static inline void tni_arm_fill_lev(uint32_t which, uint32_t group, uint32_t bytes,
                                                                   bool pairs, const uint8_t *head, size_t first,
                                                                   size_t n, tni_arm_panel *p) {
  const uint8x16_t table = tni_arm_lev_table(which);
  const uint8x16x4_t steps = tni_arm_lev_steps();
  const tni_arm_floats16 parent = tni_arm_lev_parents(head);
  const uint8_t *code = head + tni_lev_head_bytes(p->total) + first * bytes, *index = head + 32 + 8 * first;
  uint8_t *out = p->w;
  for (size_t g = 0; g < n; g++, code += bytes, index += 8) {
    tni_arm_lev_scales(parent, steps, index, p->scale[g]);
#pragma GCC unroll 2
    for (uint32_t c = 0; c < group / 8; c += 2, out += 256)
      for (size_t i = 0; i < 4; i++) {
        const uint8x16_t v = tni_arm_lev_nibbles(which, code, i, c);
        const uint8x16_t w = tni_arm_lev_nibbles(which, code, i, c + 1);
        tni_arm_put(pairs,
                    (tni_arm_quads){tni_arm_lev_low(table, v), tni_arm_lev_high(table, v), tni_arm_lev_low(table, w),
                                    tni_arm_lev_high(table, w)},
                    i, out);
      }
  }
  p->groups = n;
}

#define TNI_ARM_GEMM_LEV(id, ID, group, bytes, isa, tile, pairs, tiles)                                              \
  __attribute__((noinline)) static void fill_##id##_##isa(const uint8_t *block, size_t first, size_t n,              \
                                                          tni_arm_panel *p) {                                        \
    tni_arm_fill_lev(TNI_##ID, group, bytes, pairs, block, first, n, p);                                             \
  }                                                                                                                  \
  void tni_arm_gemm_f32_q8g##group##_##id##_##tile##_##isa(const uint8_t *row_block, size_t superblocks,             \
                                                           const tni_clt_act *a, size_t m0, size_t m1, float *acc) { \
    tni_arm_gemm_filled(fill_##id##_##isa, tiles, group, row_block, superblocks, a, m0, m1, acc);                    \
  }
/* F(id, ID, k of a block, bytes of its codes). */
#define TNI_ARM_EACH_LEV(F) \
  F(lev4, LEV4, 32, 256) F(lev4s, LEV4S, 16, 128) F(lev3, LEV3, 32, 192) F(lev2, LEV2, 32, 128) F(lev1, LEV1, 32, 96)

#endif
