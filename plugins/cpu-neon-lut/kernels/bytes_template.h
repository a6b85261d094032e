/* SPDX-License-Identifier: Apache-2.0
 *
 * Sums of bytes: up to four rows of a times the 16 outputs of a block, a lane for each output. Who includes it has
 * defined codes16 (a vector), LOAD(p) (16 codes as DOT takes them) and DOT(sum, codes, a, lane), which adds the
 * products of four codes of each output with the four bytes of a lane of a. Only for bytes_u8_s8_4x16_*.c.
 */
#ifndef TENON_CPU_NEON_LUT_KERNELS_BYTES_TEMPLATE_H
#define TENON_CPU_NEON_LUT_KERNELS_BYTES_TEMPLATE_H

enum { TILE_M = 4 };

#define REP1(F) F(0)
#define REP2(F) REP1(F) F(1)
#define REP3(F) REP2(F) F(2)
#define REP4(F) REP3(F) F(3)

#define START(i) int32x4_t s##i##0 = vdupq_n_s32(take[i]), s##i##1 = s##i##0, s##i##2 = s##i##0, s##i##3 = s##i##0;
#define BYTES(i) const uint8x16_t a##i = vld1q_u8(a + i * lda);
#define ADD(i)                          \
  s##i##0 = DOT(s##i##0, w0, a##i, at); \
  s##i##1 = DOT(s##i##1, w1, a##i, at); \
  s##i##2 = DOT(s##i##2, w2, a##i, at); \
  s##i##3 = DOT(s##i##3, w3, a##i, at);
#define QUAD(REP, lane)                                                                  \
  {                                                                                      \
    enum { at = lane };                                                                  \
    const codes16 w0 = LOAD(w), w1 = LOAD(w + 16), w2 = LOAD(w + 32), w3 = LOAD(w + 48); \
    REP(ADD)                                                                             \
    w += 64;                                                                             \
  }
#define STORE(i)                        \
  vst1q_s32(acc + i * 32, s##i##0);     \
  vst1q_s32(acc + i * 32 + 4, s##i##1); \
  vst1q_s32(acc + i * 32 + 8, s##i##2); \
  vst1q_s32(acc + i * 32 + 12, s##i##3);

/* take: what sums of a row begin with. */
#define TILE(M, REP)                                                                                      \
  static void tile_##M(const uint8_t *w, size_t quads, const uint8_t *a, size_t lda, const int32_t *take, \
                       int32_t *acc) {                                                                    \
    REP(START)                                                                                            \
    for (size_t q = 0; q < quads; q += 4, a += 16) {                                                      \
      REP(BYTES)                                                                                          \
      QUAD(REP, 0) QUAD(REP, 1) QUAD(REP, 2) QUAD(REP, 3)                                                 \
    }                                                                                                     \
    REP(STORE)                                                                                            \
  }

TILE(1, REP1)
TILE(2, REP2)
TILE(3, REP3)
TILE(4, REP4)

#undef TILE
#undef STORE
#undef QUAD
#undef ADD
#undef BYTES
#undef START
#undef REP4
#undef REP3
#undef REP2
#undef REP1

static void multiply_bytes(const uint8_t *const *blocks, size_t quads, const uint8_t *a, size_t lda, size_t rows,
                           const int32_t *take, int32_t *acc) {
  static void (*const tiles[])(const uint8_t *, size_t, const uint8_t *, size_t, const int32_t *, int32_t *) = {
      tile_1, tile_2, tile_3, tile_4};
  for (size_t i = 0; i < 2; i++) tiles[rows - 1](blocks[i], quads, a, lda, take, acc + 16 * i);
}

#endif
