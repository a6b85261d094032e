/* SPDX-License-Identifier: Apache-2.0
 *
 * The reference: what w4g.h declares, written down. GEMV is its first row.
 */
#include <math.h>
#include <string.h>

#include "plugins/common/cpu/kernels/kernel.h"
#include "plugins/common/formats/formats.h"

/* sum of (code - 8) * q over one group of row `lane`. */
static int32_t group_sum(const uint8_t *code, size_t group, size_t lane, const int8_t *q) {
  int32_t sum = 0;
  for (size_t k = 0; k < group; k += 8) {
    const uint8_t *dword = code + k * 8 + lane * 4;
    for (size_t b = 0; b < 4; b++) sum += ((dword[b] & 15) - 8) * q[k + b] + ((dword[b] >> 4) - 8) * q[k + 4 + b];
  }
  return sum;
}

static inline void w4_row(size_t group, size_t sb_bytes, const uint8_t *block, size_t superblocks, const int8_t *q,
                          const float *sx, float *acc) {
  for (size_t lane = 0; lane < TNI_W4G_ROWS; lane++) {
    float y = 0;
    for (size_t g = 0; g < superblocks * 2; g++) {
      const uint8_t *sb = block + g / 2 * sb_bytes;
      uint16_t half;
      memcpy(&half, sb + (g % 2 * TNI_W4G_ROWS + lane) * 2, sizeof half);
      int32_t sum = group_sum(sb + 64 + g % 2 * group * 8, group, lane, q + g * group);
      y = fmaf((float)sum, tni_cm_f16_to_f32(half) * sx[g], y);
    }
    acc[lane] = y;
  }
}

void tni_clt_gemv_f32_q8g32_w4g32_1x16_scalar(const uint8_t *row_block, size_t superblocks, const tni_clt_act *a,
                                              float *acc) {
  w4_row(32, sizeof(tni_w4g_sb32), row_block, superblocks, a->q, a->scale, acc);
}

void tni_clt_gemv_f32_q8g128_w4g128_1x16_scalar(const uint8_t *row_block, size_t superblocks, const tni_clt_act *a,
                                                float *acc) {
  w4_row(128, sizeof(tni_w4g_sb128), row_block, superblocks, a->q, a->scale, acc);
}

void tni_clt_gemm_f32_q8g32_w4g32_1x16_scalar(const uint8_t *row_block, size_t superblocks, const tni_clt_act *a,
                                              size_t m0, size_t m1, float *acc) {
  for (size_t m = m0; m < m1; m++)
    w4_row(32, sizeof(tni_w4g_sb32), row_block, superblocks, a->q + m * a->q_stride, a->scale + m * a->s_stride,
           acc + (m - m0) * TNI_W4G_ROWS);
}

void tni_clt_gemm_f32_q8g128_w4g128_1x16_scalar(const uint8_t *row_block, size_t superblocks, const tni_clt_act *a,
                                                size_t m0, size_t m1, float *acc) {
  for (size_t m = m0; m < m1; m++)
    w4_row(128, sizeof(tni_w4g_sb128), row_block, superblocks, a->q + m * a->q_stride, a->scale + m * a->s_stride,
           acc + (m - m0) * TNI_W4G_ROWS);
}
