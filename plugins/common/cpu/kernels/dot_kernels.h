/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels of the formats of plugins/common/formats/dot.h, as kernels.h has them: int8 activations in groups of 128, one row or
 * many. The scalar ones read every layout that is row by row.
 */
#ifndef TENON_COMMON_CPU_KERNELS_DOT_KERNELS_H
#define TENON_COMMON_CPU_KERNELS_DOT_KERNELS_H

#include "plugins/common/cpu/kernels/kernel.h"

#define TNI_CLT_DECLARE_DOT(id)                                                                                       \
  void tni_clt_gemv_f32_q8g128_##id##_1x16_scalar(const uint8_t *row_block, size_t superblocks, const tni_clt_act *a, \
                                                  float *acc);                                                        \
  void tni_clt_gemm_f32_q8g128_##id##_1x16_scalar(const uint8_t *row_block, size_t superblocks, const tni_clt_act *a, \
                                                  size_t m0, size_t m1, float *acc);
TNI_CLT_DECLARE_DOT(w8g)
TNI_CLT_DECLARE_DOT(w3g)
TNI_CLT_DECLARE_DOT(w2g)
TNI_CLT_DECLARE_DOT(w1g)
TNI_CLT_DECLARE_DOT(tern20)
TNI_CLT_DECLARE_DOT(tern17)
TNI_CLT_DECLARE_DOT(pal16)

/* Rows of a table for one format. */
#define TNI_CLT_SCALAR_DOT_ROWS(format, id)                                                                      \
  TNI_CLT_ROW(TNI_CLT_QUANT, format, 128, 0, 0, TNI_CLT_ROWS_S16, tni_clt_, quant_q8g128_f32_1x128_scalar),      \
      TNI_CLT_ROW(TNI_CLT_QUANT, format, 128, 0, 0, TNI_CLT_SLABS, tni_clt_, quant_q8g128k_f32_1x128_scalar),    \
      TNI_CLT_ROW(TNI_CLT_QUANT, format, 128, 0, 0, TNI_CLT_ROWS_SUM, tni_clt_, quant_q8g128n_f32_1x128_scalar), \
      TNI_CLT_ROW(TNI_CLT_GEMV, format, 128, 0, 0, 0, tni_clt_, gemv_f32_q8g128_##id##_1x16_scalar),             \
      TNI_CLT_ROW(TNI_CLT_GEMM, format, 128, 0, 0, 0, tni_clt_, gemm_f32_q8g128_##id##_1x16_scalar)

#endif
