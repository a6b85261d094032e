/* SPDX-License-Identifier: Apache-2.0
 *
 * One activation row times 16 outputs of w3g, w1g, ternaries and pal16 (dot.h) by SDOT. Codes that lie in the middle of
 * a byte stay there and have sums of their own, as many times too large as the place says; a shift at the group's end
 * brings them together. w8g and w2g are grids (gemv_f32_q8_1x16_dotprod.c).
 */
#include "plugins/cpu-neon-lut/kernels/kernels.h"
#include "plugins/cpu-neon-lut/kernels/tern17.h"

/* A lane for each output. */
typedef struct sums16 {
  int32x4_t s0, s1, s2, s3;
} sums16;

#define EACH(F) F(0) F(1) F(2) F(3)
#define DOT(s, w, q, i) s = vdotq_laneq_s32(s, vreinterpretq_s8_u8(w), q, i)

/* Loaded, register by register: tni_arm_start. */
static inline sums16 sums_from(const int32_t *four) {
  return (sums16){tni_arm_start(four), tni_arm_start(four), tni_arm_start(four), tni_arm_start(four)};
}
static const int32_t nothing[4] = {0, 0, 0, 0};

/* 32 k: the third code of a byte's three has its top bit in the last byte. */
#define W3G(i)                                                                        \
  {                                                                                   \
    const uint8x16_t b0 = vld1q_u8(code + 16 * i), b1 = vld1q_u8(code + 16 * i + 64); \
    const uint8x16_t b2 = vld1q_u8(code + 16 * i + 128);                              \
    DOT(t.s##i, vandq_u8(b0, m0), lo, 0);                                             \
    DOT(x8.s##i, vandq_u8(b0, m1), lo, 1);                                            \
    DOT(t.s##i, vsriq_n_u8(vandq_u8(vshrq_n_u8(b2, 4), m2), b0, 6), lo, 2);           \
    DOT(t.s##i, vandq_u8(b1, m0), lo, 3);                                             \
    DOT(x8.s##i, vandq_u8(b1, m1), hi, 0);                                            \
    DOT(t.s##i, vsriq_n_u8(vandq_u8(vshrq_n_u8(b2, 5), m2), b1, 6), hi, 1);           \
    DOT(t.s##i, vandq_u8(b2, m0), hi, 2);                                             \
    DOT(x8.s##i, vandq_u8(b2, m1), hi, 3);                                            \
  }
#define MERGE_W3G(i) t.s##i = vsraq_n_s32(t.s##i, x8.s##i, 3);

__attribute__((always_inline)) static inline sums16 sums_w3g(const uint8_t *code, const int8_t *q, sums16 t,
                                                             uint8x16_t levels) {
  const uint8x16_t m0 = vdupq_n_u8(0x07), m1 = vdupq_n_u8(0x38), m2 = vdupq_n_u8(0x04);
  sums16 x8 = sums_from(nothing);
  (void)levels;
  for (uint32_t k = 0; k < TNI_DOT_GROUP; k += 32, q += 32, code += 192) {
    const int8x16_t lo = vld1q_s8(q), hi = vld1q_s8(q + 16);
    EACH(W3G)
  }
  EACH(MERGE_W3G)
  return t;
}

/* 32 k: a bit that is set is -1 under vtst; the group's end makes 2 bit - 1 of it. */
#define W1G(i)                                    \
  {                                               \
    const uint8x16_t b = vld1q_u8(code + 16 * i); \
    DOT(t.s##i, vtstq_u8(b, m0), lo, 0);          \
    DOT(t.s##i, vtstq_u8(b, m1), lo, 1);          \
    DOT(t.s##i, vtstq_u8(b, m2), lo, 2);          \
    DOT(t.s##i, vtstq_u8(b, m3), lo, 3);          \
    DOT(t.s##i, vtstq_u8(b, m4), hi, 0);          \
    DOT(t.s##i, vtstq_u8(b, m5), hi, 1);          \
    DOT(t.s##i, vtstq_u8(b, m6), hi, 2);          \
    DOT(t.s##i, vtstq_u8(b, m7), hi, 3);          \
  }
__attribute__((always_inline)) static inline sums16 sums_w1g(const uint8_t *code, const int8_t *q, sums16 t,
                                                             uint8x16_t levels) {
  const uint8x16_t m0 = vdupq_n_u8(1), m1 = vdupq_n_u8(2), m2 = vdupq_n_u8(4), m3 = vdupq_n_u8(8);
  const uint8x16_t m4 = vdupq_n_u8(16), m5 = vdupq_n_u8(32), m6 = vdupq_n_u8(64), m7 = vdupq_n_u8(128);
  (void)levels;
  for (uint32_t k = 0; k < TNI_DOT_GROUP; k += 32, q += 32, code += 64) {
    const int8x16_t lo = vld1q_s8(q), hi = vld1q_s8(q + 16);
    EACH(W1G)
  }
  return t;
}

#define TERN20(i)                                 \
  {                                               \
    const uint8x16_t b = vld1q_u8(code + 16 * i); \
    DOT(t.s##i, vandq_u8(b, m0), a, 0);           \
    DOT(x4.s##i, vandq_u8(b, m1), a, 1);          \
    DOT(x16.s##i, vandq_u8(b, m2), a, 2);         \
    DOT(t.s##i, vshrq_n_u8(b, 6), a, 3);          \
  }
#define MERGE_TERN20(i)                     \
  t.s##i = vsraq_n_s32(t.s##i, x4.s##i, 2); \
  t.s##i = vsraq_n_s32(t.s##i, x16.s##i, 4);

__attribute__((always_inline)) static inline sums16 sums_tern20(const uint8_t *code, const int8_t *q, sums16 t,
                                                                uint8x16_t levels) {
  const uint8x16_t m0 = vdupq_n_u8(0x03), m1 = vdupq_n_u8(0x0c), m2 = vdupq_n_u8(0x30);
  sums16 x4 = sums_from(nothing), x16 = sums_from(nothing);
  (void)levels;
#pragma GCC unroll 2
  for (uint32_t k = 0; k < TNI_DOT_GROUP; k += 16, q += 16, code += 64) {
    const int8x16_t a = vld1q_s8(q);
    EACH(TERN20)
  }
  EACH(MERGE_TERN20)
  return t;
}

#define PAL16(i, at)                                              \
  {                                                               \
    const uint8x16_t b = vld1q_u8(code + 32 * at + 16 * i);       \
    DOT(t.s##i, vqtbl1q_u8(levels, vandq_u8(b, nibble)), a, at);  \
    DOT(t.s##i, vqtbl1q_u8(levels, vshrq_n_u8(b, 4)), a, at + 1); \
  }
#define PAL16_0(i) PAL16(i, 0)
#define PAL16_2(i) PAL16(i, 2)

__attribute__((always_inline)) static inline sums16 sums_pal16(const uint8_t *code, const int8_t *q, sums16 t,
                                                               uint8x16_t levels) {
  const uint8x16_t nibble = vdupq_n_u8(15);
#pragma GCC unroll 2
  for (uint32_t k = 0; k < TNI_DOT_GROUP; k += 16, q += 16, code += 128) {
    const int8x16_t a = vld1q_s8(q);
    EACH(PAL16_0) EACH(PAL16_2)
  }
  return t;
}

/* What a group's sums are, as floats. own: of codes, 1.5 * 2^23 + zero t, t being the sum of the activations, so that a
 * subtraction converts them and takes the zero point off; of bits, t. */
__attribute__((always_inline)) static inline float32x4_t plain_sum(int32x4_t s, float32x4_t own) {
  return vsubq_f32(vreinterpretq_f32_s32(s), own);
}
__attribute__((always_inline)) static inline float32x4_t signs_sum(int32x4_t s, float32x4_t own) {
  return vfmaq_n_f32(vnegq_f32(own), tni_arm_sum(s), -2.0f);
}

/* word: START - 8 t. */
enum { SIGNS = -1 };
__attribute__((always_inline)) static inline float32x4_t own_of(int32_t zero, const int32_t *word) {
  if (zero == SIGNS) return tni_arm_codes_sum_f32(word);
  if (zero == 0) return vdupq_n_f32(TNI_ARM_START_FLOAT);
  const int32x4_t start = tni_arm_start(tni_arm_plain), t8 = vsubq_s32(vdupq_n_s32(TNI_CLT_START), vld1q_s32(word));
  return vreinterpretq_f32_s32(zero == 4 ? vsraq_n_s32(start, t8, 1) : vsraq_n_s32(start, t8, 3));
}

typedef sums16 (*sums_fn)(const uint8_t *code, const int8_t *q, sums16 t, uint8x16_t levels);
typedef float32x4_t (*ended_fn)(int32x4_t s, float32x4_t own);

#define SCALES(i) const float32x4_t rows##i = head ? tni_arm_floats(block + 16 * i) : vdupq_n_f32(0);
#define ADD(i)                               \
  y##i = vfmaq_f32(y##i, ended(s.s##i, own), \
                   tni_arm_joined(by_row, head ? rows##i : tni_arm_scales(at.halves + 8 * i), sx));
#define STORE(i) vst1q_f32(acc + 4 * i, y##i);

/* zero: 4, 1, 0 or SIGNS. */
__attribute__((always_inline)) static inline void gemv_dot(sums_fn sums, ended_fn ended, size_t code_bytes, size_t head,
                                                           int32_t zero, bool palette, bool by_row,
                                                           const uint8_t *block, size_t superblocks,
                                                           const tni_clt_act *a, float *acc) {
  const uint8x16_t levels = palette ? tni_arm_palette(block) : vdupq_n_u8(0);
  const int8_t *q = a->q;
  const int32_t *word = a->zero;
  const float *sx = a->scale;
  float32x4_t y0 = vdupq_n_f32(0), y1 = y0, y2 = y0, y3 = y0;
  EACH(SCALES)
  for (size_t g = 0; g < 2 * superblocks; g++, q += TNI_DOT_GROUP, word += 4, sx++) {
    const tni_arm_dot_place at = tni_arm_dot_at(block, g, code_bytes, head);
    const sums16 s = sums(at.code, q, sums_from(tni_arm_plain), levels);
    const float32x4_t own = own_of(zero, word);
    EACH(ADD)
  }
  EACH(STORE)
}

#define KERNEL(id, code_bytes, head, zero, ended, palette)                                                          \
  TNI_ARM_BY_ROW(tni_arm_gemv_f32_q8g128_##id##_1x16_dotprod,                                                       \
                 gemv_dot(sums_##id, ended, code_bytes, head, zero, palette, true, row_block, superblocks, a, acc), \
                 gemv_dot(sums_##id, ended, code_bytes, head, zero, palette, false, row_block, superblocks, a, acc))
KERNEL(w3g, 768, 0, 4, plain_sum, false)
KERNEL(w1g, 256, 0, SIGNS, signs_sum, false)
KERNEL(tern20, 512, 64, 1, plain_sum, false)
KERNEL(pal16, 1024, 128, 0, plain_sum, true)

/* The tables of levels stay in these registers: compilers copy a pair before each use. */
typedef struct tern17_tables {
  uint8x16_t a0, a1, b0, b1, c0, c1;
} tern17_tables;
#define LOOK(label, x, y, vx, vy)                                                                            \
  __attribute__((always_inline)) static inline uint8x16_t look_##label(tern17_tables tables, uint8x16_t v) { \
    register uint8x16_t first __asm__(#vx) = tables.x;                                                       \
    register uint8x16_t second __asm__(#vy) = tables.y;                                                      \
    uint8x16_t out;                                                                                          \
    __asm__("tbl %0.16b, {" #vx ".16b, " #vy ".16b}, %1.16b" : "=w"(out) : "w"(v), "w"(first), "w"(second)); \
    return out;                                                                                              \
  }
LOOK(a, a0, a1, v26, v27)
LOOK(b, b0, b1, v28, v29)
LOOK(c, c0, c1, v30, v31)

/* One third of a unit, four outputs. */
#define THIRD(s, label, q)                                          \
  {                                                                 \
    const int8x16_t first = vld1q_s8(q), second = vld1q_s8(q + 16); \
    DOT(s, look_##label(tables, low.q0), first, 0);                 \
    DOT(s, look_##label(tables, low.q1), first, 1);                 \
    DOT(s, look_##label(tables, low.q2), first, 2);                 \
    DOT(s, look_##label(tables, low.q3), first, 3);                 \
    DOT(s, look_##label(tables, high.q0), second, 0);               \
    DOT(s, look_##label(tables, high.q1), second, 1);               \
    DOT(s, look_##label(tables, high.q2), second, 2);               \
    DOT(s, look_##label(tables, high.q3), second, 3);               \
  }

/* Three groups of four outputs. */
typedef struct span_sums {
  int32x4_t of[3];
} span_sums;

/* n units of a span, which has four: third t of unit i is in group (3 i + t) / 4. Four outputs at a time, so that there
 * are registers for the tables of levels. */
__attribute__((always_inline)) static inline span_sums span_tern17(const size_t n, const uint8_t *u, const int8_t *q,
                                                                   tern17_tables tables) {
  span_sums s = {{tni_arm_start(tni_arm_plain), tni_arm_start(tni_arm_plain), tni_arm_start(tni_arm_plain)}};
#pragma GCC unroll 4
  for (size_t i = 0; i < n; i++, u += TNI_ARM_TERN17_UNIT, q += 96) {
    const tni_arm_quads low = tni_arm_tern17_low(u), high = tni_arm_tern17_high(u);
    THIRD(s.of[3 * i / 4], a, q)
    THIRD(s.of[(3 * i + 1) / 4], b, q + 32)
    THIRD(s.of[(3 * i + 2) / 4], c, q + 64)
    __asm__("" ::: "memory"); /* unit by unit, or registers run out */
  }
  return s;
}

/* n units, which begin a span, of all outputs: acc += .. */
__attribute__((always_inline)) static inline void add_span(const size_t n, const uint8_t *block, const uint8_t *u,
                                                           const int8_t *q, const float *scale, tern17_tables tables,
                                                           float *acc) {
  const float32x4_t own = vdupq_n_f32(TNI_ARM_START_FLOAT);
#pragma GCC unroll 1
  for (size_t i = 0; i < TNI_CLT_ROWS; i += 4) {
    const span_sums s = span_tern17(n, u + 4 * i, q, tables);
    const float32x4_t rows = tni_arm_floats(block + 4 * i);
    float32x4_t y = vld1q_f32(acc + i);
#pragma GCC unroll 3
    for (size_t g = 0; g < tni_arm_tern17_groups(n); g++)
      y = vfmaq_f32(y, plain_sum(s.of[g], own), vmulq_n_f32(rows, scale[g]));
    vst1q_f32(acc + i, y);
  }
}

void tni_arm_gemv_f32_q8g128_tern17_1x16_dotprod(const uint8_t *block, size_t superblocks, const tni_clt_act *a,
                                                 float *acc) {
  enum { SPAN = 4, SPAN_GROUPS = 3 };
  const uint8x16x2_t one = tni_arm_tern17_levels(0), two = tni_arm_tern17_levels(1), three = tni_arm_tern17_levels(2);
  const tern17_tables tables = {one.val[0], one.val[1], two.val[0], two.val[1], three.val[0], three.val[1]};
  const uint8_t *u = block + TNI_DOT_SCALE_BYTES;
  const int8_t *q = a->q;
  const float *scale = a->scale;
  size_t left = superblocks;
  memset(acc, 0, TNI_CLT_ROWS * sizeof *acc);
  for (; left >= SPAN; left -= SPAN) {
    add_span(SPAN, block, u, q, scale, tables, acc);
    u += SPAN * TNI_ARM_TERN17_UNIT;
    q += SPAN_GROUPS * TNI_DOT_GROUP;
    scale += SPAN_GROUPS;
  }
  if (left == 1) add_span(1, block, u, q, scale, tables, acc);
  if (left == 2) add_span(2, block, u, q, scale, tables, acc);
  if (left == 3) add_span(3, block, u, q, scale, tables, acc);
}
