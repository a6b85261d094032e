/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of activations times 16 outputs of the bit-serial formats. A group is unpacked once to levels in 16 bits (4 KiB)
 * and used by all rows, four at a time: smlal by lane takes a level of four outputs and one code. Codes have nine bits,
 * so the s32 sums are exact. f32 sums live in acc between groups; their order is that of the GEMV.
 */
#include <arm_neon.h>
#include <string.h>

#include "plugins/common/formats/formats.h"
#include "plugins/cpu-neon-lut/kernels/kernels.h"
#include "plugins/cpu-neon-lut/kernels/scaled.h"

enum { GROUP = TNI_LUT_GROUP, ROWS = TNI_LUT_ROWS };

typedef struct lut_panel_neon {
  int16_t w[GROUP][ROWS]; /* levels */
  float scale[ROWS];
} lut_panel_neon;

/* Four quads of 8 rows: [k][8 rows] into columns r of w. */
__attribute__((always_inline)) static inline void unpack_step(size_t planes, int16_t zero, const uint8_t *bytes,
                                                              size_t r, int16_t (*w)[ROWS]) {
  /* Bits of both bytes of a lane stay together; byte i is quad i (low nibble) and i + 2 (high). */
  uint16x8_t v[TNI_LUT_MAX_PLANES];
  for (size_t p = 0; p < planes; p++) v[p] = vreinterpretq_u16_u8(vld1q_u8(bytes + 32 * p + 2 * r));
  for (int bit = 0; bit < 8; bit++) {
    uint16x8_t even = vdupq_n_u16(0), odd = even;
    for (size_t p = 0; p < planes; p++) {
      const int16x8_t up = vdupq_n_s16((int16_t)(p + 1));
      uint16x8_t both = vshlq_u16(v[p], vdupq_n_s16((int16_t)-bit));
      even = vorrq_u16(even, vshlq_u16(vandq_u16(both, vdupq_n_u16(1)), up));
      odd = vorrq_u16(odd, vshlq_u16(vandq_u16(vshrq_n_u16(both, 8), vdupq_n_u16(1)), up));
    }
    const int k = bit / 4 * 8 + bit % 4; /* of quad 0 or 2 */
    vst1q_s16(&w[k][r], vsubq_s16(vreinterpretq_s16_u16(even), vdupq_n_s16(zero)));
    vst1q_s16(&w[k + 4][r], vsubq_s16(vreinterpretq_s16_u16(odd), vdupq_n_s16(zero)));
  }
}

__attribute__((always_inline)) static inline void unpack_planes(size_t planes, int16_t zero, const uint8_t *group,
                                                                lut_panel_neon *p) {
  for (size_t i = 0; i < ROWS; i += 4) vst1q_f32(p->scale + i, tni_arm_scales(group + 2 * i));
  group += TNI_LUT_SCALE_BYTES;
  for (size_t t = 0; t < TNI_LUT_QUADS / 4; t++, group += 32 * planes)
    for (size_t r = 0; r < ROWS; r += 8) unpack_step(planes, zero, group, r, p->w + 16 * t);
}

/* Four outputs: += level * code i of four. */
#define STEP(i)                                                       \
  {                                                                   \
    int16x8_t w0 = vld1q_s16(w[k + i]), w1 = vld1q_s16(w[k + i] + 8); \
    for (size_t m = 0; m < rows; m++) {                               \
      s[m][0] = vmlal_lane_s16(s[m][0], vget_low_s16(w0), q[m], i);   \
      s[m][1] = vmlal_high_lane_s16(s[m][1], w0, q[m], i);            \
      s[m][2] = vmlal_lane_s16(s[m][2], vget_low_s16(w1), q[m], i);   \
      s[m][3] = vmlal_high_lane_s16(s[m][3], w1, q[m], i);            \
    }                                                                 \
  }

/* rows of x from m0 on over group g: acc[rows][16] += .. */
__attribute__((always_inline)) static inline void tile_4x16(size_t rows, const lut_panel_neon *p, const tni_clt_act *a,
                                                            size_t m0, size_t g, float *acc) {
  const int16_t(*w)[ROWS] = p->w;
  int32x4_t s[4][4];
  for (size_t m = 0; m < rows; m++)
    for (size_t i = 0; i < 4; i++) s[m][i] = vdupq_n_s32(0);
  for (size_t k = 0; k < GROUP; k += 4) {
    int16x4_t q[4];
    for (size_t m = 0; m < rows; m++)
      q[m] = vld1_s16((const int16_t *)(const void *)(a->q + (m0 + m) * a->q_stride) + g * GROUP + k);
    STEP(0) STEP(1) STEP(2) STEP(3)
  }
  for (size_t m = 0; m < rows; m++) {
    const float sx = a->scale[(m0 + m) * a->s_stride + g];
    for (size_t i = 0; i < 4; i++) {
      float *y = acc + m * ROWS + 4 * i;
      vst1q_f32(y, vfmaq_f32(vld1q_f32(y), vcvtq_f32_s32(s[m][i]), vmulq_n_f32(vld1q_f32(p->scale + 4 * i), sx)));
    }
  }
}
#undef STEP

__attribute__((always_inline)) static inline void gemm_lut_neon(size_t planes, int16_t zero, const uint8_t *block,
                                                                size_t groups, const tni_clt_act *a, size_t m0,
                                                                size_t m1, float *acc) {
  lut_panel_neon p;
  memset(acc, 0, (m1 - m0) * ROWS * sizeof *acc);
  for (size_t g = 0; g < groups; g++, block += TNI_LUT_SCALE_BYTES + planes * TNI_LUT_PLANE_BYTES) {
    unpack_planes(planes, zero, block, &p);
    size_t m = m0;
    for (; m + 4 <= m1; m += 4) tile_4x16(4, &p, a, m, g, acc + (m - m0) * ROWS);
    for (; m < m1; m++) tile_4x16(1, &p, a, m, g, acc + (m - m0) * ROWS);
  }
}

#define GEMM(id, planes, zero)                                                                               \
  void tni_arm_gemm_f32_##id##_4x16_neon(const uint8_t *row_block, size_t superblocks, const tni_clt_act *a, \
                                         size_t m0, size_t m1, float *acc) {                                 \
    gemm_lut_neon(planes, zero, row_block, superblocks, a, m0, m1, acc);                                     \
  }
GEMM(lut1p, 1, 1)
GEMM(lut2p, 2, 3)
GEMM(lut3p, 3, 7)
GEMM(lut4p, 4, 15)
GEMM(luttp, 2, 2)
#undef GEMM
