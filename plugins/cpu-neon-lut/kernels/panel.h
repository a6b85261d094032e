/* SPDX-License-Identifier: Apache-2.0
 *
 * A panel of 512 k of one row block of w4g or of a grid, unpacked once and used by all rows of x: bytes as the kernel's
 * tiles read them, 8 KiB, stay in L1.
 *
 * Codes of w4g stay as they are: sums begin at the start words of x. Codes of grids lose their zero points while they
 * are unpacked, and sums begin at TNI_CLT_START; tiles then do not know of zero points. What does not fit a byte the
 * tiles take off: zero points of eight bits (codes lose 128) and what f32 ones differ from half by.
 */
#ifndef TENON_CPU_NEON_PANEL_H
#define TENON_CPU_NEON_PANEL_H

#include "plugins/common/formats/formats.h"
#include "plugins/cpu-neon-lut/kernels/scaled.h"

enum { TNI_ARM_PANEL_K = 512, TNI_ARM_PANEL_GROUPS = TNI_ARM_PANEL_K / 16 };

typedef struct tni_arm_panel {
  _Alignas(64) uint8_t w[TNI_ARM_PANEL_K * TNI_CLT_ROWS];
  float scale[TNI_ARM_PANEL_GROUPS][TNI_CLT_ROWS];
  /* What the sum of x is multiplied with where tiles take zero points off, an integer and, of f32 ones, the rest. */
  float whole[TNI_ARM_PANEL_GROUPS][TNI_CLT_ROWS], rest[TNI_ARM_PANEL_GROUPS][TNI_CLT_ROWS];
  size_t groups, first_group;
  size_t total; /* groups of the row block; tni_arm_gemm_filled says it */
  bool plain;   /* sums begin at TNI_CLT_START, not at x's words */
  bool rests;
} tni_arm_panel;

/* All rows [m0, m1) over one panel: acc[m1 - m0][16] += .. */
typedef void (*tni_arm_tiles_fn)(const tni_arm_panel *p, const tni_clt_act *a, size_t m0, size_t m1, float *acc);

/* How a GEMM unpacks, and its tiles. */
typedef struct tni_arm_tiles {
  bool pairs;                /* [k / 8][pair of outputs][output][k % 8]; else [k / 4][output][k % 4] */
  tni_arm_tiles_fn of_bytes; /* all that is in the bytes */
  tni_arm_tiles_fn taking;   /* zero points are taken off */
} tni_arm_tiles;

/* Of four outputs: 16 k of their codes, or their zero points, four times each. */
typedef struct tni_arm_quads {
  uint8x16_t q0, q1, q2, q3;
} tni_arm_quads;

/* code: of the first of four outputs. */
__attribute__((always_inline)) static inline tni_arm_quads tni_arm_quads_of(uint32_t bits, const uint8_t *code) {
  const uint8x16_t m = vdupq_n_u8((uint8_t)((1 << bits) - 1)), v = vld1q_u8(code);
  if (bits == 2)
    return (tni_arm_quads){vandq_u8(v, m), vandq_u8(vshrq_n_u8(v, 2), m), vandq_u8(vshrq_n_u8(v, 4), m),
                           vshrq_n_u8(v, 6)};
  const uint8x16_t w = vld1q_u8(code + 64);
  if (bits == 4) return (tni_arm_quads){vandq_u8(v, m), vshrq_n_u8(v, 4), vandq_u8(w, m), vshrq_n_u8(w, 4)};
  return (tni_arm_quads){v, w, vld1q_u8(code + 128), vld1q_u8(code + 192)};
}

/* i: which four outputs. */
__attribute__((always_inline)) static inline void tni_arm_put(bool pairs, tni_arm_quads c, size_t i, uint8_t *out) {
  if (pairs) {
    const uint32x4_t a = vreinterpretq_u32_u8(c.q0), b = vreinterpretq_u32_u8(c.q1);
    const uint32x4_t d = vreinterpretq_u32_u8(c.q2), e = vreinterpretq_u32_u8(c.q3);
    vst1q_u8(out + i * 32, vreinterpretq_u8_u32(vzip1q_u32(a, b)));
    vst1q_u8(out + i * 32 + 16, vreinterpretq_u8_u32(vzip2q_u32(a, b)));
    vst1q_u8(out + 128 + i * 32, vreinterpretq_u8_u32(vzip1q_u32(d, e)));
    vst1q_u8(out + 128 + i * 32 + 16, vreinterpretq_u8_u32(vzip2q_u32(d, e)));
  } else {
    vst1q_u8(out + i * 16, c.q0);
    vst1q_u8(out + 64 + i * 16, c.q1);
    vst1q_u8(out + 128 + i * 16, c.q2);
    vst1q_u8(out + 192 + i * 16, c.q3);
  }
}

#define TNI_ARM_EACH4(F) F(0) F(1) F(2) F(3)

/* A group of 16 outputs; minus: what codes lose, NULL: nothing. */
__attribute__((always_inline)) static inline void tni_arm_unpack(uint32_t bits, uint32_t group, bool pairs,
                                                                 const uint8_t *code, const tni_arm_quads *minus,
                                                                 uint8_t *out) {
  for (uint32_t k = 0; k < group; k += 16, code += 32 * bits, out += 256) {
#define FOUR(i)                                              \
  {                                                          \
    tni_arm_quads c = tni_arm_quads_of(bits, code + 16 * i); \
    if (minus) {                                             \
      c.q0 = vsubq_u8(c.q0, minus->q##i);                    \
      c.q1 = vsubq_u8(c.q1, minus->q##i);                    \
      c.q2 = vsubq_u8(c.q2, minus->q##i);                    \
      c.q3 = vsubq_u8(c.q3, minus->q##i);                    \
    }                                                        \
    tni_arm_put(pairs, c, i, out);                           \
  }
    TNI_ARM_EACH4(FOUR)
#undef FOUR
  }
}

/* What codes of a group lose; zeros: bytes, NULL: half. */
static inline tni_arm_quads tni_arm_minus(uint32_t bits, const uint8_t *zeros) {
  const uint8x16_t z = zeros ? vld1q_u8(zeros) : vdupq_n_u8((uint8_t)(1 << (bits - 1)));
  const uint16x8_t a = vreinterpretq_u16_u8(vzip1q_u8(z, z)), b = vreinterpretq_u16_u8(vzip2q_u8(z, z));
  return (tni_arm_quads){vreinterpretq_u8_u16(vzip1q_u16(a, a)), vreinterpretq_u8_u16(vzip2q_u16(a, a)),
                         vreinterpretq_u8_u16(vzip1q_u16(b, b)), vreinterpretq_u8_u16(vzip2q_u16(b, b))};
}

/* half - zero of four outputs, and of f32 zero points what is left. at: the first of them. */
static inline void tni_arm_put_zeros(const tni_grid_layout *l, const uint8_t *zeros, size_t at, float *whole,
                                     float *rest) {
  const float32x4_t half = vdupq_n_f32((float)(1 << (l->bits - 1)));
  if (l->zero_bits == 32) {
    const float32x4_t zero = tni_arm_floats(zeros + 4 * at), rounded = vrndnq_f32(zero);
    vst1q_f32(whole, vsubq_f32(half, rounded));
    vst1q_f32(rest, vsubq_f32(rounded, zero));
  } else {
    uint32_t four;
    memcpy(&four, zeros + at, sizeof four);
    const uint16x8_t z = vmovl_u8(vreinterpret_u8_u32(vdup_n_u32(four)));
    vst1q_f32(whole, vsubq_f32(half, vcvtq_f32_u32(vmovl_u16(vget_low_u16(z)))));
  }
}

/* n superblocks. */
__attribute__((always_inline)) static inline void tni_arm_fill(const tni_grid_layout *l, bool grid, bool pairs,
                                                               bool taking, const uint8_t *sb, size_t n,
                                                               tni_arm_panel *p) {
  uint8_t *out = p->w;
  size_t to = 0;
  for (size_t s = 0; s < n; s++, sb += l->bytes) {
    const uint8_t *code = sb + l->codes_at, *zeros = sb + l->zeros_at;
    for (size_t g = 0; g < l->groups; g++, to++) {
      const size_t at = g * TNI_CLT_ROWS;
      const tni_arm_quads minus = tni_arm_minus(l->bits, l->zero_bits == 8 && !taking ? zeros + at : NULL);
      tni_arm_unpack(l->bits, l->group, pairs, code, grid ? &minus : NULL, out);
      for (size_t i = 0; i < TNI_CLT_ROWS; i += 4) {
        vst1q_f32(&p->scale[to][i], tni_arm_scales_at(l, sb, at + i));
        if (taking) tni_arm_put_zeros(l, zeros, at + i, &p->whole[to][i], &p->rest[to][i]);
      }
      code += l->group * TNI_CLT_ROWS * l->bits / 8;
      out += l->group * TNI_CLT_ROWS;
    }
  }
  p->groups = to;
}

__attribute__((always_inline)) static inline void tni_arm_gemm(tni_grid_layout l, bool grid, tni_arm_tiles t,
                                                               const uint8_t *block, size_t superblocks,
                                                               const tni_clt_act *a, size_t m0, size_t m1, float *acc) {
  tni_arm_panel p;
  const bool taking = grid && l.zero_bits != 0 && (l.bits == 8 || l.zero_bits == 32);
  const size_t per_panel = TNI_ARM_PANEL_K / (l.groups * l.group);
  memset(acc, 0, (m1 - m0) * TNI_CLT_ROWS * sizeof *acc);
  p.plain = grid;
  p.rests = l.zero_bits == 32;
  for (size_t sb = 0; sb < superblocks; sb += per_panel, block += per_panel * l.bytes) {
    tni_arm_fill(&l, grid, t.pairs, taking, block, superblocks - sb < per_panel ? superblocks - sb : per_panel, &p);
    p.first_group = sb * l.groups;
    (taking ? t.taking : t.of_bytes)(&p, a, m0, m1, acc);
  }
}

/* The words of row m of x, row by row, and how far to those of the next row and group: where sums begin. */
typedef struct tni_arm_words {
  const int32_t *at;
  size_t stride, step;
} tni_arm_words;

static inline tni_arm_words tni_arm_words_of(const tni_arm_panel *p, const tni_clt_act *a, size_t m) {
  if (p->plain) return (tni_arm_words){tni_arm_plain, 0, 0};
  return (tni_arm_words){a->zero + m * a->z_stride + p->first_group * 4, a->z_stride, 4};
}

/* The entry `name` of tni_arm_tiles for groups of this many k: `multiply`, with zero points to take off or without. */
#define TNI_ARM_TILES(name, group, isa, multiply, taking)                                                           \
  static void name##group##_##isa(const tni_arm_panel *p, const tni_clt_act *a, size_t m0, size_t m1, float *acc) { \
    multiply(group, taking, p, a, m0, m1, acc);                                                                     \
  }

/* The same of a function that takes scales by row, and one for each group of k: by rows where x has those. */
#define TNI_ARM_TILES_BY(name, group, isa, multiply, taking, by_row)                                                \
  static void name##group##_##isa(const tni_arm_panel *p, const tni_clt_act *a, size_t m0, size_t m1, float *acc) { \
    multiply(group, taking, by_row, p, a, m0, m1, acc);                                                             \
  }
#define TNI_ARM_TILES_OF(group, isa, multiply)                                                \
  __attribute__((noinline))                                                                   \
  TNI_ARM_TILES_BY(rows, group, isa, multiply, false, true) static void tiles##group##_##isa( \
      const tni_arm_panel *p, const tni_clt_act *a, size_t m0, size_t m1, float *acc) {       \
    if (a->row)                                                                               \
      rows##group##_##isa(p, a, m0, m1, acc);                                                 \
    else                                                                                      \
      multiply(group, false, false, p, a, m0, m1, acc);                                       \
  }                                                                                           \
  TNI_ARM_TILES_BY(taking, group, isa, multiply, true, false)

/* Kernels of w4g and of grids; TILES_isa(bits, group) gives their tni_arm_tiles. */
#define TNI_ARM_GEMM_W4G(group, tile, isa)                                                                    \
  void tni_arm_gemm_f32_q8g##group##_w4g##group##_##tile##_##isa(                                             \
      const uint8_t *row_block, size_t superblocks, const tni_clt_act *a, size_t m0, size_t m1, float *acc) { \
    tni_arm_gemm(tni_arm_w4g(group), false, TILES_##isa(4, group), row_block, superblocks, a, m0, m1, acc);   \
  }
#define TNI_ARM_GEMM_GRID(group, bits, tile, isa)                                                              \
  void tni_arm_gemm_f32_q8g##group##_grid##bits##_##tile##_##isa(                                              \
      const uint8_t *row_block, size_t superblocks, const tni_clt_act *a, size_t m0, size_t m1, float *acc) {  \
    tni_arm_gemm(tni_grid_layout_of(bits, group, a->scale_bits, a->zero_bits), true, TILES_##isa(bits, group), \
                 row_block, superblocks, a, m0, m1, acc);                                                      \
  }

#endif
