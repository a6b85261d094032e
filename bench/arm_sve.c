/* SPDX-License-Identifier: Apache-2.0
 *
 * Loops of cpu-neon-lut written for vectors of 256 bits, to count what they would bring (arm_sve.py). Nothing runs
 * them.
 */
#include <arm_sve.h>
#include <stddef.h>
#include <stdint.h>

typedef svint32_t words __attribute__((arm_sve_vector_bits(256)));
typedef svint8_t codes __attribute__((arm_sve_vector_bits(256)));
typedef svuint8_t bytes __attribute__((arm_sve_vector_bits(256)));
typedef svfloat32_t floats __attribute__((arm_sve_vector_bits(256)));
#define START_FLOAT 12582912.0f

static inline floats scale_of(svbool_t p, const uint16_t *half, float x) {
  return svmul_x(p, svcvt_f32_f16_x(p, svreinterpret_f16(svld1uh_u32(p, half))), x);
}
static inline floats sum_of(svbool_t p, words s) { return svsub_x(p, svreinterpret_f32(s), START_FLOAT); }

/* w4g, one row: 16 outputs are two vectors. */
#define STEP(c, lane)                                    \
  s0 = svdot_lane(s0, svreinterpret_s8(c(c0)), x, lane); \
  s1 = svdot_lane(s1, svreinterpret_s8(c(c1)), x, lane);
#define LOW(c) (bytes) svand_u8_x(p, c, mask)
#define HIGH(c) (bytes) svlsr_n_u8_x(p, c, 4)
#define GEMV(group)                                                                                   \
  void gemv_w4g##group(const uint8_t *code, const uint16_t *scales, const int8_t *q, const float *sx, \
                       const int32_t *start, size_t groups, float *acc) {                             \
    const svbool_t p = svptrue_b8();                                                                  \
    svuint8_t mask = svdup_u8(15);                                                                    \
    __asm__("" : "+w"(mask)); /* in a register: AND with an immediate takes a copy */                 \
    floats y0 = svld1(p, acc), y1 = svld1(p, acc + 8);                                                \
    for (size_t g = 0; g < groups; g++, start += 4, scales += 16) {                                   \
      words s0 = svld1rq(p, start), s1 = svld1rq(p, start);                                           \
      _Pragma("GCC unroll 8") for (int k = 0; k < group; k += 16, q += 16, code += 128) {             \
        const svint8_t x = svld1rq(p, q);                                                             \
        bytes c0 = svld1(p, code), c1 = svld1(p, code + 32);                                          \
        STEP(LOW, 0) STEP(HIGH, 1) c0 = svld1(p, code + 64), c1 = svld1(p, code + 96);                \
        STEP(LOW, 2) STEP(HIGH, 3)                                                                    \
      }                                                                                               \
      y0 = svmla_x(p, y0, sum_of(p, s0), scale_of(p, scales, sx[g]));                                 \
      y1 = svmla_x(p, y1, sum_of(p, s1), scale_of(p, scales + 8, sx[g]));                             \
    }                                                                                                 \
    svst1(p, acc, y0);                                                                                \
    svst1(p, acc + 8, y1);                                                                            \
  }
GEMV(32)
GEMV(128)

/* SMMLA, four rows by 16 outputs: s i j: rows 2 i, 2 i + 1, outputs 4 j .. 4 j + 3. Scales lie as the tile takes them.
 */
#define EACH(F) F(0, 0) F(0, 1) F(0, 2) F(0, 3) F(1, 0) F(1, 1) F(1, 2) F(1, 3)
#define LOAD(i, j) floats y##i##j = svld1(p, acc + 32 * i + 8 * j);
#define BEGIN(i, j) words s##i##j = svld1rq(p, start);
#define MULTIPLY(i, j) s##i##j = svmmla(s##i##j, x##i, w##j);
#define FINISH(i, j) y##i##j = svmla_x(p, y##i##j, sum_of(p, s##i##j), svmul_x(p, t##j, sx##i));
#define STORE(i, j) svst1(p, acc + 32 * i + 8 * j, y##i##j);
#define TILE(group)                                                                                                \
  void tile_g##group(const int8_t *w, const int8_t *q, const float *scales, const float *sx, const int32_t *start, \
                     size_t groups, float *acc) {                                                                  \
    const svbool_t p = svptrue_b8();                                                                               \
    EACH(LOAD)                                                                                                     \
    for (size_t g = 0; g < groups; g++, scales += 32, sx += 16) {                                                  \
      EACH(BEGIN)                                                                                                  \
      _Pragma("GCC unroll 4") for (int k = 0; k < group; k += 8, q += 64, w += 128) {                              \
        const codes x0 = svld1rq(p, q), x1 = svld1rq(p, q + 16);                                                   \
        const codes w0 = svld1(p, w), w1 = svld1(p, w + 32), w2 = svld1(p, w + 64), w3 = svld1(p, w + 96);         \
        EACH(MULTIPLY)                                                                                             \
      }                                                                                                            \
      const floats sx0 = svld1rq(p, sx), sx1 = svld1rq(p, sx + 4);                                                 \
      const floats t0 = svld1(p, scales), t1 = svld1(p, scales + 8), t2 = svld1(p, scales + 16),                   \
                   t3 = svld1(p, scales + 24);                                                                     \
      EACH(FINISH)                                                                                                 \
    }                                                                                                              \
    EACH(STORE)                                                                                                    \
  }
TILE(32)
TILE(128)
