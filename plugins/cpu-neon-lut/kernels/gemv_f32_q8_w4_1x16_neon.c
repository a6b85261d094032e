/* SPDX-License-Identifier: Apache-2.0
 *
 * One activation row times 16 outputs without SDOT: products of bytes are summed in s16, each lane one k of four of an
 * output, for 32 k (8 products of at most 15 * 127), then added in pairs into s32.
 */
#include "plugins/common/formats/formats.h"
#include "plugins/cpu-neon-lut/kernels/kernels.h"
#include "plugins/cpu-neon-lut/kernels/scaled.h"

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

#define LANES(v, i) vreinterpretq_s8_s32(vdupq_laneq_s32(v, i))
#define START(s, w, a) s = pair_products(w, a)
#define ADD(s, w, a) s = add_products(s, w, a)

/* Eight k of 16 outputs; lanes i and i + 1 of a hold their codes. FIRST: START or ADD. */
#define CHUNK(FIRST, code, a, i)                                                                                  \
  {                                                                                                               \
    int8x16_t a0 = LANES(a, i), a1 = LANES(a, i + 1);                                                             \
    uint8x16_t w0 = vld1q_u8(code), w1 = vld1q_u8(code + 16), w2 = vld1q_u8(code + 32), w3 = vld1q_u8(code + 48); \
    FIRST(s0, vandq_u8(w0, nibble), a0);                                                                          \
    FIRST(s1, vandq_u8(w1, nibble), a0);                                                                          \
    FIRST(s2, vandq_u8(w2, nibble), a0);                                                                          \
    FIRST(s3, vandq_u8(w3, nibble), a0);                                                                          \
    ADD(s0, vshrq_n_u8(w0, 4), a1);                                                                               \
    ADD(s1, vshrq_n_u8(w1, 4), a1);                                                                               \
    ADD(s2, vshrq_n_u8(w2, 4), a1);                                                                               \
    ADD(s3, vshrq_n_u8(w3, 4), a1);                                                                               \
  }

#define GROUP_SUMS                                                                                 \
  for (size_t k = 0; k < group; k += 32, q += 32, code += 256) {                                   \
    int32x4_t q0 = vreinterpretq_s32_s8(vld1q_s8(q)), q1 = vreinterpretq_s32_s8(vld1q_s8(q + 16)); \
    pair_sums s0, s1, s2, s3;                                                                      \
    CHUNK(START, code, q0, 0)                                                                      \
    CHUNK(ADD, code + 64, q0, 2)                                                                   \
    CHUNK(ADD, code + 128, q1, 0)                                                                  \
    CHUNK(ADD, code + 192, q1, 2)                                                                  \
    t0 = vpadalq_s16(t0, vpaddq_s16(s0.lo, s0.hi));                                                \
    t1 = vpadalq_s16(t1, vpaddq_s16(s1.lo, s1.hi));                                                \
    t2 = vpadalq_s16(t2, vpaddq_s16(s2.lo, s2.hi));                                                \
    t3 = vpadalq_s16(t3, vpaddq_s16(s3.lo, s3.hi));                                                \
  }
#define ISA neon
#include "plugins/cpu-neon-lut/kernels/gemv_w4_template.h"
