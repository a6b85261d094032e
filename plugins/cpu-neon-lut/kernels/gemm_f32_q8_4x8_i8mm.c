/* SPDX-License-Identifier: Apache-2.0
 *
 * Tiles of activations times 16 outputs by SMMLA: a register of s32 is two rows by two outputs. Six rows by eight
 * outputs at a time, or four where groups are short: at their many ends registers run out. Sums stay two by two until
 * the panel's end, so scales come two by two as well.
 */
#include "plugins/cpu-neon-lut/kernels/kernels.h"
#include "plugins/cpu-neon-lut/kernels/levels.h"
#include "plugins/cpu-neon-lut/kernels/tern17.h"

enum { TILE_M = 8, TILE_N = 8, MOST_ROWS = 6, LONG_GROUP = 64 };

/* Outputs n, n + 1 of two rows. */
static inline float32x4_t load_pair(const float *r0, const float *r1, size_t n) {
  return vcombine_f32(vld1_f32(r0 + n), vld1_f32(r1 + n));
}

static inline void store_pair(float *r0, float *r1, size_t n, float32x4_t y) {
  vst1_f32(r0 + n, vget_low_f32(y));
  vst1_f32(r1 + n, vget_high_f32(y));
}

/* Two floats, for outputs n and n + 1, twice. */
static inline float32x4_t twice(const float *p) {
  return vreinterpretq_f32_f64(vld1q_dup_f64((const double *)(const void *)p));
}

/* A group's scales as the tiles take them: each two outputs' twice. Made once for all rows: a copy in the tile takes a
 * slot of the vector pipes, a load does not. */
enum { TWICE = 2 * TNI_CLT_ROWS };

static inline void put_twice(const tni_arm_panel *p, float *to) {
  for (size_t g = 0; g < p->groups; g++)
    for (size_t n = 0; n < TNI_CLT_ROWS; n += 2) vst1q_f32(to + g * TWICE + 2 * n, twice(&p->scale[g][n]));
}

static inline float32x4_t less_zeros_i8mm(float32x4_t v, const tni_arm_panel *p, size_t g, size_t n, float32x4_t t) {
  v = vfmaq_f32(v, twice(&p->whole[g][n]), t);
  return p->rests ? vfmaq_f32(v, twice(&p->rest[g][n]), t) : v;
}

/* y, s of i, j: rows 2i, 2i + 1, outputs 2j, 2j + 1. */
#define FOUR(F, i) F(i, 0) F(i, 1) F(i, 2) F(i, 3)
#define PAIRS2(F) F(0) F(1)
#define PAIRS3(F) PAIRS2(F) F(2)
#define TAKE_PLACE(i)               \
  const int8_t *q##i = at[i].q;     \
  const float *sx##i = at[i].scale; \
  const int32_t *zero##i = at[i].zero, *begin##i = alike ? tni_arm_plain : at[i].zero;
#define LOAD_ONE(i, j) float32x4_t y##i##j = load_pair(row[2 * i], row[2 * i + 1], n + 2 * j);
#define LOAD(i) FOUR(LOAD_ONE, i)
#define START_ONE(i, j) int32x4_t s##i##j = tni_arm_start(begin##i);
#define START(i) FOUR(START_ONE, i)
#define CODES(i) const int8x16_t a##i = vld1q_s8(q##i);
#define DOT_ONE(i, j) s##i##j = vmmlaq_s32(s##i##j, a##i, w##j);
#define DOT(i) FOUR(DOT_ONE, i) q##i += 64;
#define FINISH_ROW_ONE(i, j) y##i##j = tni_arm_add(y##i##j, s##i##j, sw##j);
#define FINISH_ROW(i) FOUR(FINISH_ROW_ONE, i)
#define FINISH_ONE(i, j) y##i##j = tni_arm_add(y##i##j, s##i##j, vmulq_f32(sw##j, x##i));
#define SCALES(i) const float32x4_t x##i = by_row ? vdupq_n_f32(1) : vld1q_f32(sx##i);
#define FINISH(i) FOUR(FINISH_ONE, i)
/* The same less zero points: the rows' sums of x are two by two too. */
#define TAKING_ONE(i, j) \
  y##i##j = vfmaq_f32(y##i##j, less_zeros_i8mm(tni_arm_sum(s##i##j), p, g, n + 2 * j, sum), vmulq_f32(sw##j, x##i));
#define TAKING(i)                                           \
  {                                                         \
    const float32x4_t sum = tni_arm_codes_sum_f32(zero##i); \
    FOUR(TAKING_ONE, i)                                     \
  }
#define NEXT(i) zero##i += 16, begin##i += alike ? 0 : 16, sx##i += 16;
#define STORE_ONE(i, j) store_pair(row[2 * i], row[2 * i + 1], n + 2 * j, y##i##j);
#define STORE(i) FOUR(STORE_ONE, i)

/* Where two rows of a tile lie. */
typedef struct pair_place {
  const int8_t *q;
  const int32_t *zero;
  const float *scale;
} pair_place;

/* So many pairs of rows, eight outputs from n on, over one panel. by_row: x has no scales of groups. */
#define TILE(name, PAIRS)                                                                                      \
  __attribute__((always_inline)) static inline void name(size_t group, bool taking, bool by_row,               \
                                                         const tni_arm_panel *p, const float *scales,          \
                                                         const pair_place *at, size_t n, float *const *row) {  \
    const int8_t *w = (const int8_t *)p->w + n * 8;                                                            \
    const bool alike = taking || p->plain;                                                                     \
    PAIRS(TAKE_PLACE)                                                                                          \
    PAIRS(LOAD)                                                                                                \
    for (size_t g = 0; g < p->groups; g++) {                                                                   \
      PAIRS(START)                                                                                             \
      _Pragma("GCC unroll 4") for (size_t k = 0; k < group; k += 8, w += 128) {                                \
        PAIRS(CODES)                                                                                           \
        const int8x16_t w0 = vld1q_s8(w), w1 = vld1q_s8(w + 16), w2 = vld1q_s8(w + 32), w3 = vld1q_s8(w + 48); \
        PAIRS(DOT)                                                                                             \
      }                                                                                                        \
      PAIRS(SCALES)                                                                                            \
      const float *of = scales + g * TWICE + 2 * n;                                                            \
      const float32x4_t sw0 = vld1q_f32(of), sw1 = vld1q_f32(of + 4), sw2 = vld1q_f32(of + 8),                 \
                        sw3 = vld1q_f32(of + 12);                                                              \
      if (taking) {                                                                                            \
        PAIRS(TAKING)                                                                                          \
      } else if (by_row) {                                                                                     \
        PAIRS(FINISH_ROW)                                                                                      \
      } else {                                                                                                 \
        PAIRS(FINISH)                                                                                          \
      }                                                                                                        \
      PAIRS(NEXT)                                                                                              \
    }                                                                                                          \
    PAIRS(STORE)                                                                                               \
  }
TILE(four_rows, PAIRS2)
TILE(six_rows, PAIRS3)
#undef TILE
#undef STORE
#undef STORE_ONE
#undef NEXT
#undef TAKING
#undef TAKING_ONE
#undef FINISH
#undef FINISH_ONE
#undef FINISH_ROW
#undef FINISH_ROW_ONE
#undef DOT
#undef DOT_ONE
#undef CODES
#undef START
#undef START_ONE
#undef LOAD
#undef LOAD_ONE
#undef TAKE_PLACE
#undef PAIRS3
#undef PAIRS2
#undef FOUR

/* Rows m .. of a, two by two. */
static pair_place place_of(const tni_arm_panel *p, const tni_clt_act *a, size_t group, size_t m) {
  const size_t t = m / TILE_M, pair = m % TILE_M / 2;
  return (pair_place){.q = a->q + t * a->q_stride + p->first_group * group * TILE_M + pair * 16,
                      .zero = a->zero + t * a->z_stride + p->first_group * 16 + pair * 4,
                      .scale = a->scale + t * a->s_stride + p->first_group * 16 + pair * 4};
}

/* Of so many rows that are left those to take next: seven and eight as two times four. */
static size_t rows_next(size_t group, size_t left) {
  return group < LONG_GROUP || left < 5 || left == 7 || left == 8 ? 4 : 6;
}

__attribute__((always_inline)) static inline void multiply_tiles(size_t group, bool taking, bool by_row,
                                                                 const tni_arm_panel *p, const tni_clt_act *a,
                                                                 size_t m0, size_t m1, float *acc) {
  float nowhere[TNI_CLT_ROWS] = {0}; /* for rows that the last tile lacks */
  float scales[TNI_ARM_PANEL_GROUPS * TWICE];
  put_twice(p, scales);
  for (size_t m = m0, rows; m < m1; m += rows) {
    pair_place at[MOST_ROWS / 2];
    float *row[MOST_ROWS];
    rows = rows_next(group, m1 - m);
    for (size_t i = 0; i < rows; i += 2) at[i / 2] = place_of(p, a, group, m + i < m1 ? m + i : m);
    if (group < LONG_GROUP) at[1].q = at[0].q + 16; /* as it is; said so that one address serves both */
    for (size_t i = 0; i < rows; i++) row[i] = m + i < m1 ? acc + (m + i - m0) * TNI_CLT_ROWS : nowhere;
    for (size_t n = 0; n < TNI_CLT_ROWS; n += TILE_N) {
      if (group < LONG_GROUP || rows == 4)
        four_rows(group, taking, by_row, p, scales, at, n, row);
      else
        six_rows(group, taking, by_row, p, scales, at, n, row);
    }
  }
}

TNI_ARM_TILES_OF(16, i8mm, multiply_tiles)
TNI_ARM_TILES_OF(32, i8mm, multiply_tiles)
TNI_ARM_TILES_OF(64, i8mm, multiply_tiles)
TNI_ARM_TILES_OF(128, i8mm, multiply_tiles)
TNI_ARM_TILES_BY(tiles, 256, i8mm, multiply_tiles, false, false)

#define TILES_i8mm(bits, group) \
  (tni_arm_tiles) { true, tiles##group##_i8mm, taking##group##_i8mm }
TNI_ARM_GEMM_W4G(32, 4x8, i8mm)
TNI_ARM_GEMM_W4G(128, 4x8, i8mm)
#define GRID(group, bits) TNI_ARM_GEMM_GRID(group, bits, 4x8, i8mm)
TNI_CLT_EACH_GRID(GRID)
#define DOT(id, code_bytes, head, step, palette) \
  TNI_ARM_GEMM_DOT(id, i8mm, 4x8, true, code_bytes, head, step, palette, tiles128_i8mm)
TNI_ARM_EACH_DOT(DOT)
TNI_ARM_GEMM_TERN17(i8mm, 4x8, true, tiles128_i8mm)
TNI_ARM_GEMM_DOT_GRID(w8g, 8, 4x8, i8mm)
TNI_ARM_GEMM_DOT_GRID(w2g, 2, 4x8, i8mm)
TNI_ARM_GEMM_LUTS(i8mm, 4x8, true)
#define LEV(id, ID, group, bytes) TNI_ARM_GEMM_LEV(id, ID, group, bytes, i8mm, 4x8, true, tiles##group##_i8mm)
TNI_ARM_EACH_LEV(LEV)
