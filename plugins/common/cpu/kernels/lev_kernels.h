/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels of the formats of plugins/common/formats/lev.h, as kernel.h has them. All read TNI_CLT_ROWS_SUM; groups of
 * activations are the blocks, and `superblocks` counts blocks along K.
 */
#ifndef TENON_COMMON_CPU_KERNELS_LEV_KERNELS_H
#define TENON_COMMON_CPU_KERNELS_LEV_KERNELS_H

#include "plugins/common/cpu/kernels/kernel.h"

/* F(id, ID, group) of every format. */
#define TNI_CLT_EACH_LEV(F) F(lev4, LEV4, 32) F(lev4s, LEV4S, 16) F(lev3, LEV3, 32) F(lev2, LEV2, 32) F(lev1, LEV1, 32)

#define TNI_CLT_DECLARE_LEV(id, ID, group)                                                            \
  void tni_clt_gemv_f32_q8g##group##_##id##_1x16_scalar(const uint8_t *row_block, size_t superblocks, \
                                                        const tni_clt_act *a, float *acc);            \
  void tni_clt_gemm_f32_q8g##group##_##id##_1x16_scalar(const uint8_t *row_block, size_t superblocks, \
                                                        const tni_clt_act *a, size_t m0, size_t m1, float *acc);
TNI_CLT_EACH_LEV(TNI_CLT_DECLARE_LEV)

/* Rows of a table. */
#define TNI_CLT_SCALAR_LEV_ROW(id, ID, group)                                                                      \
  TNI_CLT_ROW(TNI_CLT_QUANT, TNI_CLT_##ID, group, 0, 0, TNI_CLT_ROWS_SUM, tni_clt_,                                \
              quant_q8g##group##n_f32_1x##group##_scalar),                                                         \
      TNI_CLT_ROW(TNI_CLT_GEMV, TNI_CLT_##ID, group, 0, 0, 0, tni_clt_, gemv_f32_q8g##group##_##id##_1x16_scalar), \
      TNI_CLT_ROW(TNI_CLT_GEMM, TNI_CLT_##ID, group, 0, 0, 0, tni_clt_, gemm_f32_q8g##group##_##id##_1x16_scalar),
#define TNI_CLT_SCALAR_LEV_ROWS TNI_CLT_EACH_LEV(TNI_CLT_SCALAR_LEV_ROW)

#endif
