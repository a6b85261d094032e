/* SPDX-License-Identifier: Apache-2.0
 *
 * The reference: what grid.h declares, written down. GEMV is its first row.
 */
#include <math.h>
#include <string.h>

#include "plugins/common/cpu/kernels/grid_kernels.h"
#include "plugins/common/formats/formats.h"

/* The exact sums of one group: of (code - half) * q of a row, of q. */
static int32_t grid_sum(const tni_grid_layout *l, const uint8_t *codes, uint32_t row, uint32_t k0, const int8_t *q) {
  int32_t sum = 0;
  for (uint32_t k = k0; k < k0 + l->group; k++)
    sum += ((int32_t)tni_grid_code(l->bits, codes, row, k) - (1 << (l->bits - 1))) * q[k];
  return sum;
}

static float less_zero(const tni_grid_layout *l, const uint8_t *sb, uint32_t group, uint32_t row, const int8_t *q,
                       float v) {
  if (!l->zero_bits) return v;
  int32_t sum = 0;
  for (uint32_t k = 0; k < l->group; k++) sum += q[group * l->group + k];
  const float zero = tni_grid_zero_at(l, sb, group, row), whole = rintf(zero), half = (float)(1 << (l->bits - 1));
  v = fmaf(half - whole, (float)sum, v);
  return l->zero_bits == 32 ? fmaf(whole - zero, (float)sum, v) : v;
}

static void grid_rows(uint32_t bits, uint32_t group, const uint8_t *block, size_t superblocks, const tni_clt_act *a,
                      size_t m0, size_t m1, float *acc) {
  const tni_grid_layout l = tni_grid_layout_of(bits, group, a->scale_bits, a->zero_bits);
  memset(acc, 0, (m1 - m0) * TNI_CLT_ROWS * sizeof *acc);
  for (size_t i = 0; i < superblocks; i++, block += l.bytes)
    for (size_t m = m0; m < m1; m++) {
      const int8_t *q = a->q + m * a->q_stride + i * l.groups * group;
      const float *sx = a->scale + m * a->s_stride + i * l.groups;
      for (uint32_t g = 0; g < l.groups; g++)
        for (uint32_t row = 0; row < TNI_CLT_ROWS; row++) {
          const float v = (float)grid_sum(&l, block + l.codes_at, row, g * group, q);
          float *y = acc + (m - m0) * TNI_CLT_ROWS + row;
          *y = fmaf(less_zero(&l, block, g, row, q, v), tni_grid_scale_at(&l, block, g, row) * sx[g], *y);
        }
    }
}

#define KERNELS(group, bits)                                                                                  \
  void tni_clt_gemm_f32_q8g##group##_grid##bits##_1x16_scalar(                                                \
      const uint8_t *row_block, size_t superblocks, const tni_clt_act *a, size_t m0, size_t m1, float *acc) { \
    grid_rows(bits, group, row_block, superblocks, a, m0, m1, acc);                                           \
  }                                                                                                           \
  void tni_clt_gemv_f32_q8g##group##_grid##bits##_1x16_scalar(const uint8_t *row_block, size_t superblocks,   \
                                                              const tni_clt_act *a, float *acc) {             \
    grid_rows(bits, group, row_block, superblocks, a, 0, 1, acc);                                             \
  }
TNI_CLT_EACH_GRID(KERNELS)
#undef KERNELS
