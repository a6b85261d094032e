/* SPDX-License-Identifier: Apache-2.0
 *
 * One activation row times 16 outputs: four registers of s32, a lane for each output. SDOT takes the four k of any
 * nibble from one lane of the activations, so that no broadcast is needed; the zero point is in the start value.
 */
#include "plugins/common/formats/formats.h"
#include "plugins/cpu-neon-lut/kernels/kernels.h"
#include "plugins/cpu-neon-lut/kernels/scaled.h"

#define DOT(t, w, i) t = vdotq_laneq_s32(t, vreinterpretq_s8_u8(w), a, i)

/* Eight k of 16 outputs; lanes i and i + 1 of a hold their codes. */
#define CHUNK(i)                                                                                                  \
  {                                                                                                               \
    uint8x16_t w0 = vld1q_u8(code), w1 = vld1q_u8(code + 16), w2 = vld1q_u8(code + 32), w3 = vld1q_u8(code + 48); \
    DOT(t0, vandq_u8(w0, nibble), i);                                                                             \
    DOT(t1, vandq_u8(w1, nibble), i);                                                                             \
    DOT(t2, vandq_u8(w2, nibble), i);                                                                             \
    DOT(t3, vandq_u8(w3, nibble), i);                                                                             \
    DOT(t0, vshrq_n_u8(w0, 4), i + 1);                                                                            \
    DOT(t1, vshrq_n_u8(w1, 4), i + 1);                                                                            \
    DOT(t2, vshrq_n_u8(w2, 4), i + 1);                                                                            \
    DOT(t3, vshrq_n_u8(w3, 4), i + 1);                                                                            \
    code += 64;                                                                                                   \
  }

#define GROUP_SUMS                                                          \
  _Pragma("GCC unroll 8") for (size_t k = 0; k < group; k += 16, q += 16) { \
    int8x16_t a = vld1q_s8(q);                                              \
    CHUNK(0)                                                                \
    CHUNK(2)                                                                \
  }
#define ISA dotprod
#include "plugins/cpu-neon-lut/kernels/gemv_w4_template.h"
