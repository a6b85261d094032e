/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums of bytes by SDOT, both sides signed: a - 128 is int8, and 128 times the sum of the codes comes back at the end.
 * Two rows of a times 16 outputs.
 */
#include <arm_neon.h>
#include <string.h>

#include "plugins/cpu-neon-lut/kernels/kernels.h"

static int8x16_t four(const uint8_t *a) {
  uint32_t x;
  memcpy(&x, a, sizeof x);
  return vreinterpretq_s8_u32(vdupq_n_u32(x ^ 0x80808080u));
}

#define EACH(F) F(0) F(1) F(2) F(3)
#define START(i) int32x4_t s##i = vdupq_n_s32(0), t##i = s##i, u##i = s##i;
#define DOT(i)                                                \
  {                                                           \
    const int8x16_t c = vld1q_s8((const int8_t *)w + (i)*16); \
    s##i = vdotq_s32(s##i, c, x);                             \
    t##i = vdotq_s32(t##i, c, y);                             \
    u##i = vdotq_s32(u##i, c, ones);                          \
  }
#define STORE(i)                                                 \
  vst1q_s32(acc + (i)*4, vaddq_s32(s##i, vshlq_n_s32(u##i, 7))); \
  if (two) vst1q_s32(acc + 32 + (i)*4, vaddq_s32(t##i, vshlq_n_s32(u##i, 7)));

static void bytes_2x16(const uint8_t *w, size_t quads, const uint8_t *a, size_t lda, bool two, int32_t *acc) {
  const uint8_t *b = two ? a + lda : a;
  const int8x16_t ones = vdupq_n_s8(1);
  EACH(START)
  for (size_t q = 0; q < quads; q++, w += 64, a += 4, b += 4) {
    const int8x16_t x = four(a), y = four(b);
    EACH(DOT)
  }
  EACH(STORE)
}

void tni_arm_bytes_s32_u8_s8_2x16_dotprod(const uint8_t *const *blocks, size_t quads, const uint8_t *a, size_t lda,
                                          size_t rows, int32_t *acc) {
  for (size_t m = 0; m < rows; m += 2)
    for (size_t i = 0; i < 2; i++) bytes_2x16(blocks[i], quads, a + m * lda, lda, m + 1 < rows, acc + m * 32 + i * 16);
}
