/* SPDX-License-Identifier: Apache-2.0
 *
 * One activation row times 16 outputs without SDOT: products of bytes are summed in s16, each lane one k of four of an
 * output, as long as that fits, then added in pairs into s32: of four bits 32 k (8 products of at most 15 * 127, twice
 * that in a pair), of two bits a group, of eight bits (two products of at most 128 * 127) eight k.
 */
#include "plugins/cpu-neon-lut/kernels/kernels.h"
#include "plugins/cpu-neon-lut/kernels/scaled.h"

/* A lane for each output. */
typedef struct sums16 {
  int32x4_t s0, s1, s2, s3;
} sums16;

/* Four outputs: two of them in each. */
typedef struct pair_sums {
  int16x8_t lo, hi;
} pair_sums;

static inline pair_sums pair_products(uint8x16_t w, int8x16_t a) {
  int8x16_t v = vreinterpretq_s8_u8(w);
  return (pair_sums){vmull_s8(vget_low_s8(v), vget_low_s8(a)), vmull_high_s8(v, a)};
}

static inline pair_sums add_products(pair_sums s, uint8x16_t w, int8x16_t a) {
  int8x16_t v = vreinterpretq_s8_u8(w);
  return (pair_sums){vmlal_s8(s.lo, vget_low_s8(v), vget_low_s8(a)), vmlal_high_s8(s.hi, v, a)};
}

#define EACH(F) F(0) F(1) F(2) F(3)
#define LOAD(i) const uint8x16_t w##i = vld1q_u8(code + 16 * i);
#define LANES(v, i) vreinterpretq_s8_s32(vdupq_laneq_s32(v, i))
#define CODES(q) vreinterpretq_s32_s8(vld1q_s8(q))
/* Sums of the pairs of four outputs, added in; they fit s16 in pairs. */
#define WIDEN(i) t.s##i = vpadalq_s16(t.s##i, vpaddq_s16(p##i.lo, p##i.hi));

/* Two bits, 16 k. FIRST: begins the sums. */
#define FIRST(i) p##i = pair_products(vandq_u8(w##i, m), a0);
#define NEXT(i) p##i = add_products(p##i, vandq_u8(w##i, m), a0);
#define REST(i)                                                    \
  p##i = add_products(p##i, vandq_u8(vshrq_n_u8(w##i, 2), m), a1); \
  p##i = add_products(p##i, vandq_u8(vshrq_n_u8(w##i, 4), m), a2); \
  p##i = add_products(p##i, vshrq_n_u8(w##i, 6), a3);
#define UNIT(BEGIN)                                                                         \
  {                                                                                         \
    const int32x4_t v = CODES(q);                                                           \
    const int8x16_t a0 = LANES(v, 0), a1 = LANES(v, 1), a2 = LANES(v, 2), a3 = LANES(v, 3); \
    EACH(LOAD)                                                                              \
    EACH(BEGIN)                                                                             \
    EACH(REST)                                                                              \
  }

__attribute__((always_inline)) static inline sums16 sums_of_2(uint32_t group, const uint8_t *code, const int8_t *q,
                                                              sums16 t) {
  const uint8x16_t m = vdupq_n_u8(3);
  pair_sums p0, p1, p2, p3;
  UNIT(FIRST)
  for (uint32_t k = 16; k < group; k += 16) {
    q += 16;
    code += 64;
    UNIT(NEXT)
  }
  EACH(WIDEN)
  return t;
}
#undef NEXT
#undef FIRST

/* Four bits, eight k; lanes i and i + 1 of v hold their codes. */
#define FIRST(i) p##i = pair_products(vandq_u8(w##i, nibble), a0);
#define NEXT(i) p##i = add_products(p##i, vandq_u8(w##i, nibble), a0);
#define HIGH(i) p##i = add_products(p##i, vshrq_n_u8(w##i, 4), a1);
#define CHUNK(BEGIN, lane)                                        \
  {                                                               \
    const int8x16_t a0 = LANES(v, lane), a1 = LANES(v, lane + 1); \
    EACH(LOAD)                                                    \
    EACH(BEGIN)                                                   \
    EACH(HIGH)                                                    \
    code += 64;                                                   \
  }

__attribute__((always_inline)) static inline sums16 sums_of_4(uint32_t group, const uint8_t *code, const int8_t *q,
                                                              sums16 t) {
  const uint8x16_t nibble = vdupq_n_u8(15);
  const uint32_t part = group < 32 ? group : 32;
  for (uint32_t k = 0; k < group; k += part, q += part) {
    pair_sums p0, p1, p2, p3;
    int32x4_t v = CODES(q);
    CHUNK(FIRST, 0)
    CHUNK(NEXT, 2)
    if (part == 32) {
      v = CODES(q + 16);
      CHUNK(NEXT, 0)
      CHUNK(NEXT, 2)
    }
    EACH(WIDEN)
  }
  return t;
}

/* Eight bits, eight k: lanes i and i + 1 of v. l, h: of two outputs each, two halves of their sums. */
#define SIGNED(at, i) veorq_u8(vld1q_u8(code + (at) + 16 * (i)), top)
#define BOTH(i)                                    \
  {                                                \
    pair_sums p = pair_products(SIGNED(0, i), a0); \
    p = add_products(p, SIGNED(64, i), a1);        \
    l##i = vpadalq_s16(l##i, p.lo);                \
    h##i = vpadalq_s16(h##i, p.hi);                \
  }
#define EIGHT(lane)                                               \
  {                                                               \
    const int8x16_t a0 = LANES(v, lane), a1 = LANES(v, lane + 1); \
    EACH(BOTH)                                                    \
    code += 128;                                                  \
  }
#define CLEAR(i) int32x4_t l##i = vdupq_n_s32(0), h##i = l##i;
#define MERGE(i) t.s##i = vaddq_s32(t.s##i, vpaddq_s32(l##i, h##i));

__attribute__((always_inline)) static inline sums16 sums_of_8(uint32_t group, const uint8_t *code, const int8_t *q,
                                                              sums16 t) {
  const uint8x16_t top = vdupq_n_u8(128);
  EACH(CLEAR)
  for (uint32_t k = 0; k < group; k += 16, q += 16) {
    const int32x4_t v = CODES(q);
    EIGHT(0)
    EIGHT(2)
  }
  EACH(MERGE)
  return t;
}
#undef CLEAR
#undef MERGE
#undef NEXT
#undef FIRST
#undef EACH

__attribute__((always_inline)) static inline sums16 group_sums(uint32_t bits, uint32_t group, const uint8_t *code,
                                                               const int8_t *q, sums16 t) {
  return bits == 2   ? sums_of_2(group, code, q, t)
         : bits == 4 ? sums_of_4(group, code, q, t)
                     : sums_of_8(group, code, q, t);
}

#define ISA neon
#define BYTES_LESS 128
#define KERNELS W4G(32, ISA) W4G(128, ISA) TNI_CLT_EACH_GRID(GRID) DOT_GRID(w8g, 8) DOT_GRID(w2g, 2)
#include "plugins/cpu-neon-lut/kernels/gemv_template.h"
