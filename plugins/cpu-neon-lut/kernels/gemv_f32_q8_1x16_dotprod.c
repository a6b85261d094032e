/* SPDX-License-Identifier: Apache-2.0
 *
 * One activation row times 16 outputs: four registers of s32, a lane for each output. SDOT takes the four k of any
 * quad of codes from one lane of the activations, so that no broadcast is needed; the zero point is in the start value.
 */
#include "plugins/cpu-neon-lut/kernels/kernels.h"
#include "plugins/cpu-neon-lut/kernels/scaled.h"

/* A lane for each output. */
typedef struct sums16 {
  int32x4_t s0, s1, s2, s3;
} sums16;

#define EACH(F) F(0) F(1) F(2) F(3)
#define DOT(s, w, i) s = vdotq_laneq_s32(s, vreinterpretq_s8_u8(w), a, i)
#define LOAD(i) const uint8x16_t w##i = vld1q_u8(code + 16 * i);

/* Two bits, 16 k. Codes in the middle of a byte stay there and have sums of their own, four and sixteen times what they
 * should be; those at the top would be negative. */
#define ENDS(i)                       \
  DOT(t.s##i, vandq_u8(w##i, m0), 0); \
  DOT(t.s##i, vshrq_n_u8(w##i, 6), 3);
#define MIDDLE(i)                      \
  DOT(x4.s##i, vandq_u8(w##i, m1), 1); \
  DOT(x16.s##i, vandq_u8(w##i, m2), 2);
#define MERGE(i)                            \
  t.s##i = vsraq_n_s32(t.s##i, x4.s##i, 2); \
  t.s##i = vsraq_n_s32(t.s##i, x16.s##i, 4);
#define SHIFTED(i)                                   \
  DOT(t.s##i, vandq_u8(vshrq_n_u8(w##i, 2), m0), 1); \
  DOT(t.s##i, vandq_u8(vshrq_n_u8(w##i, 4), m0), 2);

__attribute__((always_inline)) static inline sums16 sums_of_2(uint32_t group, const uint8_t *code, const int8_t *q,
                                                              sums16 t) {
  const uint8x16_t m0 = vdupq_n_u8(0x03), m1 = vdupq_n_u8(0x0c), m2 = vdupq_n_u8(0x30);
  const int32x4_t none = vdupq_n_s32(0);
  sums16 x4 = {none, none, none, none}, x16 = x4;
#pragma GCC unroll 2
  for (uint32_t k = 0; k < group; k += 16, q += 16, code += 64) {
    const int8x16_t a = vld1q_s8(q);
    EACH(LOAD)
    EACH(ENDS)
    if (group == 16) { /* one addition of what stands elsewhere costs as much as one shift */
      EACH(SHIFTED)
    } else {
      EACH(MIDDLE)
    }
  }
  if (group > 16) {
    EACH(MERGE)
  }
  return t;
}

/* Four bits, eight k; lanes i and i + 1 of a hold their codes. */
#define LOW(i) DOT(t.s##i, vandq_u8(w##i, nibble), lane);
#define HIGH(i) DOT(t.s##i, vshrq_n_u8(w##i, 4), lane + 1);
#define CHUNK(LANE)       \
  {                       \
    enum { lane = LANE }; \
    EACH(LOAD)            \
    EACH(LOW)             \
    EACH(HIGH)            \
    code += 64;           \
  }

__attribute__((always_inline)) static inline sums16 sums_of_4(uint32_t group, const uint8_t *code, const int8_t *q,
                                                              sums16 t) {
  const uint8x16_t nibble = vdupq_n_u8(15);
#pragma GCC unroll 8
  for (uint32_t k = 0; k < group; k += 16, q += 16) {
    const int8x16_t a = vld1q_s8(q);
    CHUNK(0)
    CHUNK(2)
  }
  return t;
}

/* Eight bits, four k. */
#define SIGNED(i) DOT(t.s##i, veorq_u8(w##i, top), lane);
#define QUAD(LANE)        \
  {                       \
    enum { lane = LANE }; \
    EACH(LOAD)            \
    EACH(SIGNED)          \
    code += 64;           \
  }

__attribute__((always_inline)) static inline sums16 sums_of_8(uint32_t group, const uint8_t *code, const int8_t *q,
                                                              sums16 t) {
  const uint8x16_t top = vdupq_n_u8(128);
#pragma GCC unroll 8
  for (uint32_t k = 0; k < group; k += 16, q += 16) {
    const int8x16_t a = vld1q_s8(q);
    QUAD(0) QUAD(1) QUAD(2) QUAD(3)
  }
  return t;
}
#undef EACH

__attribute__((always_inline)) static inline sums16 group_sums(uint32_t bits, uint32_t group, const uint8_t *code,
                                                               const int8_t *q, sums16 t) {
  return bits == 2   ? sums_of_2(group, code, q, t)
         : bits == 4 ? sums_of_4(group, code, q, t)
                     : sums_of_8(group, code, q, t);
}

#define ISA dotprod
#define BYTES_LESS 128
#define KERNELS W4G(32, ISA) W4G(128, ISA) TNI_CLT_EACH_GRID(GRID) DOT_GRID(w8g, 8) DOT_GRID(w2g, 2)
#include "plugins/cpu-neon-lut/kernels/gemv_template.h"
