/* SPDX-License-Identifier: Apache-2.0
 *
 * Codes of the formats of dot.h that are no grids, as bytes that SDOT and SMMLA take: of four outputs, levels (code -
 * zero) of 16 k at a time. A panel of them (panel.h) has all in its bytes, so tiles know of no zero points.
 */
#ifndef TENON_CPU_NEON_UNPACK_H
#define TENON_CPU_NEON_UNPACK_H

#include "plugins/cpu-neon-lut/kernels/panel.h"

/* Where a group's codes and scales lie in a row block of dot.h: superblocks of two groups. */
typedef struct tni_arm_dot_place {
  const uint8_t *code, *halves; /* halves: NULL where rows have scales */
} tni_arm_dot_place;

/* code_bytes: of a group; head: bytes before the superblocks, 0 where groups have scales. */
static inline tni_arm_dot_place tni_arm_dot_at(const uint8_t *block, size_t g, size_t code_bytes, size_t head) {
  const size_t scales = head ? 0 : TNI_DOT_SCALE_BYTES;
  const uint8_t *sb = block + head + g / 2 * (scales + 2 * code_bytes);
  return (tni_arm_dot_place){sb + scales + g % 2 * code_bytes, head ? NULL : sb + g % 2 * (TNI_DOT_SCALE_BYTES / 2)};
}

/* Codes of w3g as they are, of eight quads of four outputs. */
typedef struct tni_arm_octet {
  tni_arm_quads low, high;
} tni_arm_octet;

static inline tni_arm_octet tni_arm_w3g_codes(const uint8_t *code) {
  const uint8x16_t m = vdupq_n_u8(7), four = vdupq_n_u8(4);
  const uint8x16_t a = vld1q_u8(code), b = vld1q_u8(code + 64), c = vld1q_u8(code + 128);
  const uint8x16_t q2 = vsriq_n_u8(vandq_u8(vshrq_n_u8(c, 4), four), a, 6);
  const uint8x16_t q5 = vsriq_n_u8(vandq_u8(vshrq_n_u8(c, 5), four), b, 6);
  return (tni_arm_octet){{vandq_u8(a, m), vandq_u8(vshrq_n_u8(a, 3), m), q2, vandq_u8(b, m)},
                         {vandq_u8(vshrq_n_u8(b, 3), m), q5, vandq_u8(c, m), vandq_u8(vshrq_n_u8(c, 3), m)}};
}

static inline tni_arm_quads tni_arm_quads_less(tni_arm_quads c, uint8x16_t zero) {
  return (tni_arm_quads){vsubq_u8(c.q0, zero), vsubq_u8(c.q1, zero), vsubq_u8(c.q2, zero), vsubq_u8(c.q3, zero)};
}

/* Four outputs: 32 k of w3g and w1g, 16 k of the others. consts: the format's levels. */
__attribute__((always_inline)) static inline tni_arm_octet tni_arm_levels_w3g(const uint8_t *code, uint8x16_t consts) {
  const tni_arm_octet c = tni_arm_w3g_codes(code);
  (void)consts;
  return (tni_arm_octet){tni_arm_quads_less(c.low, vdupq_n_u8(4)), tni_arm_quads_less(c.high, vdupq_n_u8(4))};
}

/* A bit that is set is 1, another -1. */
#define SIGN(j) vornq_u8(one, vtstq_u8(w, vdupq_n_u8(1u << j)))
__attribute__((always_inline)) static inline tni_arm_octet tni_arm_levels_w1g(const uint8_t *code, uint8x16_t consts) {
  const uint8x16_t one = vdupq_n_u8(1), w = vld1q_u8(code);
  (void)consts;
  return (tni_arm_octet){{SIGN(0), SIGN(1), SIGN(2), SIGN(3)}, {SIGN(4), SIGN(5), SIGN(6), SIGN(7)}};
}
#undef SIGN

__attribute__((always_inline)) static inline tni_arm_octet tni_arm_levels_tern20(const uint8_t *code,
                                                                                 uint8x16_t consts) {
  const tni_arm_quads c = tni_arm_quads_less(tni_arm_quads_of(2, code), vdupq_n_u8(1));
  (void)consts;
  return (tni_arm_octet){c, c};
}

__attribute__((always_inline)) static inline tni_arm_octet tni_arm_levels_pal16(const uint8_t *code,
                                                                                uint8x16_t consts) {
  const tni_arm_quads i = tni_arm_quads_of(4, code);
  const tni_arm_quads c = {vqtbl1q_u8(consts, i.q0), vqtbl1q_u8(consts, i.q1), vqtbl1q_u8(consts, i.q2),
                           vqtbl1q_u8(consts, i.q3)};
  return (tni_arm_octet){c, c};
}

/* Levels of a palette less its zero point, which is 128. */
static inline uint8x16_t tni_arm_palette(const uint8_t *block) {
  return veorq_u8(vld1q_u8(block + TNI_DOT_SCALE_BYTES), vdupq_n_u8(128));
}

/* n groups from the first-th on, of a format of dot.h. step: k that a unit of 64 or 192 bytes of codes holds. */
#define TNI_ARM_FILL_DOT(id, isa, pairs, code_bytes, head, step, palette)                                           \
  __attribute__((noinline)) static void fill_##id##_##isa(const uint8_t *block, size_t first, size_t n,             \
                                                          tni_arm_panel *p) {                                       \
    const uint8x16_t consts = palette ? tni_arm_palette(block) : vdupq_n_u8(0);                                     \
    uint8_t *out = p->w;                                                                                            \
    for (size_t g = 0; g < n; g++) {                                                                                \
      const tni_arm_dot_place at = tni_arm_dot_at(block, first + g, code_bytes, head);                              \
      const uint8_t *code = at.code;                                                                                \
      for (size_t i = 0; i < TNI_CLT_ROWS; i += 4)                                                                  \
        vst1q_f32(&p->scale[g][i], at.halves ? tni_arm_scales(at.halves + 2 * i) : tni_arm_floats(block + 4 * i));  \
      for (size_t k = 0; k < TNI_DOT_GROUP; k += step, code += (code_bytes)*step / TNI_DOT_GROUP, out += step * 16) \
        for (size_t i = 0; i < 4; i++) {                                                                            \
          const tni_arm_octet c = tni_arm_levels_##id(code + 16 * i, consts);                                       \
          tni_arm_put(pairs, c.low, i, out);                                                                        \
          if (step == 32) tni_arm_put(pairs, c.high, i, out + 256);                                                 \
        }                                                                                                           \
    }                                                                                                               \
    p->groups = n;                                                                                                  \
  }

/* Many rows by a panel at a time that `fill` makes; groups: of the row block. */
__attribute__((always_inline)) static inline void tni_arm_gemm_filled(
    void (*fill)(const uint8_t *, size_t, size_t, tni_arm_panel *), tni_arm_tiles_fn tiles, size_t group,
    const uint8_t *block, size_t groups, const tni_clt_act *a, size_t m0, size_t m1, float *acc) {
  tni_arm_panel p;
  const size_t per_panel = TNI_ARM_PANEL_K / group;
  memset(acc, 0, (m1 - m0) * TNI_CLT_ROWS * sizeof *acc);
  p.plain = true;
  p.total = groups;
  p.rests = false;
  for (size_t g = 0; g < groups; g += per_panel) {
    fill(block, g, groups - g < per_panel ? groups - g : per_panel, &p);
    p.first_group = g;
    tiles(&p, a, m0, m1, acc);
  }
}

#define TNI_ARM_GEMM_DOT(id, isa, tile, pairs, code_bytes, head, step, palette, tiles)                         \
  TNI_ARM_FILL_DOT(id, isa, pairs, code_bytes, head, step, palette)                                            \
  void tni_arm_gemm_f32_q8g128_##id##_##tile##_##isa(const uint8_t *row_block, size_t superblocks,             \
                                                     const tni_clt_act *a, size_t m0, size_t m1, float *acc) { \
    tni_arm_gemm_filled(fill_##id##_##isa, tiles, TNI_DOT_GROUP, row_block, 2 * superblocks, a, m0, m1, acc);  \
  }
/* F(id, bytes of a group's codes, head, k of a unit, whether levels are the matrix's). */
#define TNI_ARM_EACH_DOT(F) \
  F(w3g, 768, 0, 32, 0) F(w1g, 256, 0, 32, 0) F(tern20, 512, 64, 16, 0) F(pal16, 1024, 128, 16, 1)

/* w8g and w2g are grids: fp16 scales in groups of 128, zero points in the middle. */
static inline tni_grid_layout tni_arm_dot_grid(uint32_t bits) { return tni_grid_layout_of(bits, TNI_DOT_GROUP, 16, 0); }
#define TNI_ARM_GEMM_DOT_GRID(id, bits, tile, isa)                                                              \
  void tni_arm_gemm_f32_q8g128_##id##_##tile##_##isa(const uint8_t *row_block, size_t superblocks,              \
                                                     const tni_clt_act *a, size_t m0, size_t m1, float *acc) {  \
    tni_arm_gemm(tni_arm_dot_grid(bits), true, TILES_##isa(bits, 128), row_block, superblocks, a, m0, m1, acc); \
  }

/* Bit-serial formats (lut.h): activations of nine bits are two bytes, q = 2 h + l (TNI_CLT_HALVES), and so level * q =
 * (2 level) * h + level * l. A panel has both: for each 16 k first twice the levels, then the levels. To tiles that is
 * a group of 256. */
enum { TNI_ARM_HALVES_GROUP = 2 * TNI_LUT_GROUP };

/* Levels of four outputs, 16 k; bytes: of their first plane's step, whose planes are 32 bytes apart. */
__attribute__((always_inline)) static inline tni_arm_quads tni_arm_levels_lut(size_t planes, uint8_t zero,
                                                                              const uint8_t *bytes) {
  static const uint8_t first[16] = {0, 0, 0, 0, 2, 2, 2, 2, 4, 4, 4, 4, 6, 6, 6, 6};
  static const uint8_t low_bits[16] = {1, 2, 4, 8, 1, 2, 4, 8, 1, 2, 4, 8, 1, 2, 4, 8};
  const uint8x16_t even = vld1q_u8(first), odd = vorrq_u8(even, vdupq_n_u8(1)), less = vdupq_n_u8(zero);
  const uint8x16_t low = vld1q_u8(low_bits), high = vshlq_n_u8(low, 4);
  uint8x16_t q0 = vdupq_n_u8(0), q1 = q0, q2 = q0, q3 = q0;
#pragma GCC unroll 4
  for (size_t p = 0; p < planes; p++) {
    const uint8x8_t half = vld1_u8(bytes + 32 * p);
    const uint8x16_t v = vcombine_u8(half, half), w = vdupq_n_u8((uint8_t)(2u << p));
    const uint8x16_t a = vqtbl1q_u8(v, even), b = vqtbl1q_u8(v, odd);
    q0 = vorrq_u8(q0, vandq_u8(vtstq_u8(a, low), w));
    q1 = vorrq_u8(q1, vandq_u8(vtstq_u8(b, low), w));
    q2 = vorrq_u8(q2, vandq_u8(vtstq_u8(a, high), w));
    q3 = vorrq_u8(q3, vandq_u8(vtstq_u8(b, high), w));
  }
  return tni_arm_quads_less((tni_arm_quads){q0, q1, q2, q3}, less);
}

static inline tni_arm_quads tni_arm_twice(tni_arm_quads c) {
  return (tni_arm_quads){vaddq_u8(c.q0, c.q0), vaddq_u8(c.q1, c.q1), vaddq_u8(c.q2, c.q2), vaddq_u8(c.q3, c.q3)};
}

/* n groups from `first` on; halves: for codes in two bytes. */
__attribute__((always_inline)) static inline void tni_arm_fill_lut(size_t planes, uint8_t zero, bool halves, bool pairs,
                                                                   const uint8_t *block, size_t first, size_t n,
                                                                   tni_arm_panel *p) {
  uint8_t *out = p->w;
  block += first * (TNI_LUT_SCALE_BYTES + planes * TNI_LUT_PLANE_BYTES);
  for (size_t g = 0; g < n; g++) {
    for (size_t i = 0; i < TNI_CLT_ROWS; i += 4) vst1q_f32(&p->scale[g][i], tni_arm_scales(block + 2 * i));
    block += TNI_LUT_SCALE_BYTES;
    for (size_t t = 0; t < TNI_LUT_QUADS / 4; t++, block += 32 * planes, out += 256) {
      for (size_t i = 0; i < 4; i++) {
        const tni_arm_quads c = tni_arm_levels_lut(planes, zero, block + 8 * i);
        if (halves) tni_arm_put(pairs, tni_arm_twice(c), i, out);
        tni_arm_put(pairs, c, i, halves ? out + 256 : out);
      }
      if (halves) out += 256;
    }
  }
  p->groups = n;
}

/* Codes of nine bits, and narrow ones. */
#define TNI_ARM_GEMM_LUT(id, isa, tile, pairs, planes, zero)                                                        \
  __attribute__((noinline)) static void fill_##id##_##isa(const uint8_t *block, size_t first, size_t n,             \
                                                          tni_arm_panel *p) {                                       \
    tni_arm_fill_lut(planes, zero, true, pairs, block, first, n, p);                                                \
  }                                                                                                                 \
  TNI_ARM_GEMM_NARROW(id, isa, tile, pairs, planes, zero)                                                           \
  void tni_arm_gemm_f32_##id##_##tile##_##isa(const uint8_t *row_block, size_t superblocks, const tni_clt_act *a,   \
                                              size_t m0, size_t m1, float *acc) {                                   \
    tni_arm_gemm_filled(fill_##id##_##isa, tiles256_##isa, TNI_ARM_HALVES_GROUP, row_block, superblocks, a, m0, m1, \
                        acc);                                                                                       \
  }
#define TNI_ARM_GEMM_NARROW(id, isa, tile, pairs, planes, zero)                                                      \
  __attribute__((noinline)) static void narrow_##id##_##isa(const uint8_t *block, size_t first, size_t n,            \
                                                            tni_arm_panel *p) {                                      \
    tni_arm_fill_lut(planes, zero, false, pairs, block, first, n, p);                                                \
  }                                                                                                                  \
  void tni_arm_gemm_f32_q8g128_##id##_##tile##_##isa(const uint8_t *row_block, size_t superblocks,                   \
                                                     const tni_clt_act *a, size_t m0, size_t m1, float *acc) {       \
    tni_arm_gemm_filled(narrow_##id##_##isa, tiles128_##isa, TNI_LUT_GROUP, row_block, superblocks, a, m0, m1, acc); \
  }
#define TNI_ARM_GEMM_LUTS(isa, tile, pairs)        \
  TNI_ARM_GEMM_LUT(lut1p, isa, tile, pairs, 1, 1)  \
  TNI_ARM_GEMM_LUT(lut2p, isa, tile, pairs, 2, 3)  \
  TNI_ARM_GEMM_LUT(lut3p, isa, tile, pairs, 3, 7)  \
  TNI_ARM_GEMM_LUT(lut4p, isa, tile, pairs, 4, 15) \
  TNI_ARM_GEMM_LUT(luttp, isa, tile, pairs, 2, 2)

#endif
