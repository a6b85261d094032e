/* SPDX-License-Identifier: Apache-2.0
 *
 * One activation row times 16 outputs of grids of eight bits: USDOT takes codes as they lie, where SDOT has to take 128
 * off each. Other widths have nothing to gain here over dotprod.
 */
#include "plugins/cpu-neon-lut/kernels/kernels.h"
#include "plugins/cpu-neon-lut/kernels/scaled.h"

/* A lane for each output. */
typedef struct sums16 {
  int32x4_t s0, s1, s2, s3;
} sums16;

#define EACH(F) F(0) F(1) F(2) F(3)
#define DOT(i) t.s##i = vusdotq_laneq_s32(t.s##i, vld1q_u8(code + 16 * i), a, lane);
#define QUAD(LANE)        \
  {                       \
    enum { lane = LANE }; \
    EACH(DOT)             \
    code += 64;           \
  }

__attribute__((always_inline)) static inline sums16 group_sums(uint32_t bits, uint32_t group, const uint8_t *code,
                                                               const int8_t *q, sums16 t) {
  (void)bits;
#pragma GCC unroll 8
  for (uint32_t k = 0; k < group; k += 16, q += 16) {
    const int8x16_t a = vld1q_s8(q);
    QUAD(0) QUAD(1) QUAD(2) QUAD(3)
  }
  return t;
}
#undef EACH

#define ISA i8mm
#define BYTES_LESS 0
#define KERNELS GRID(16, 8) GRID(32, 8) GRID(64, 8) GRID(128, 8) DOT_GRID(w8g, 8)
#include "plugins/cpu-neon-lut/kernels/gemv_template.h"
