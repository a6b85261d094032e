/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels of the formats of plugins/common/formats/grid.h, as kernel.h has them. All read TNI_CLT_ROWS_SUM; groups of
 * activations are the weights'. Scales and zero points are stored as the activations say (tni_clt_act.scale_bits,
 * zero_bits): a branch for each group, which no loop over k sees.
 */
#ifndef TENON_COMMON_CPU_KERNELS_GRID_KERNELS_H
#define TENON_COMMON_CPU_KERNELS_GRID_KERNELS_H

#include "plugins/common/cpu/kernels/kernel.h"

#define TNI_CLT_DECLARE_GRID(group, bits)                                                                   \
  void tni_clt_gemv_f32_q8g##group##_grid##bits##_1x16_scalar(const uint8_t *row_block, size_t superblocks, \
                                                              const tni_clt_act *a, float *acc);            \
  void tni_clt_gemm_f32_q8g##group##_grid##bits##_1x16_scalar(const uint8_t *row_block, size_t superblocks, \
                                                              const tni_clt_act *a, size_t m0, size_t m1, float *acc);
/* F(group, bits) of every one. */
#define TNI_CLT_EACH_GRID(F) \
  F(16, 2) F(32, 2) F(64, 2) F(128, 2) F(16, 4) F(32, 4) F(64, 4) F(128, 4) F(16, 8) F(32, 8) F(64, 8) F(128, 8)
TNI_CLT_EACH_GRID(TNI_CLT_DECLARE_GRID)

/* Rows of a table. */
#define TNI_CLT_SCALAR_GRID_ROW(group, bits)                                                 \
  TNI_CLT_ROW(TNI_CLT_QUANT, TNI_CLT_GRID##bits, group, 0, 0, TNI_CLT_ROWS_SUM, tni_clt_,    \
              quant_q8g##group##n_f32_1x##group##_scalar),                                   \
      TNI_CLT_ROW(TNI_CLT_GEMV, TNI_CLT_GRID##bits, group, 0, 0, TNI_CLT_ROWS_SUM, tni_clt_, \
                  gemv_f32_q8g##group##_grid##bits##_1x16_scalar),                           \
      TNI_CLT_ROW(TNI_CLT_GEMM, TNI_CLT_GRID##bits, group, 0, 0, TNI_CLT_ROWS_SUM, tni_clt_, \
                  gemm_f32_q8g##group##_grid##bits##_1x16_scalar),
#define TNI_CLT_SCALAR_GRID_ROWS TNI_CLT_EACH_GRID(TNI_CLT_SCALAR_GRID_ROW)

#endif
