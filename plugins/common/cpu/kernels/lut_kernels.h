/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels of the bit-serial formats (plugins/common/formats/lut.h), as kernels.h has them. lut1, lut2, lut3, lut4, lutt
 * read plain bytes, lut1p .. luttp paired ones.
 *
 * One row (layout TNI_CLT_TABLES): the prologue builds the tables of all quads, once for all products that share x;
 * GEMV looks them up. Several rows (layout TNI_CLT_Q16): the prologue leaves the codes, and GEMM multiplies them with
 * unpacked weights. The integers are the same, so are the bits, but for GEMVs with averages (..avg_..), which rows of
 * TNI_CLT_AVERAGES have. Rows of TNI_CLT_NARROW multiply narrow codes as bytes; the others take those too.
 */
#ifndef TENON_COMMON_CPU_KERNELS_LUT_KERNELS_H
#define TENON_COMMON_CPU_KERNELS_LUT_KERNELS_H

#include <math.h>
#include <string.h>

#include "plugins/common/cpu/kernels/kernel.h"
#include "plugins/common/formats/formats.h"

void tni_clt_quant_q9g128_f32_1x128_scalar(const float *x, size_t K, size_t K_padded, const tni_clt_act *a, size_t m);

/* Codes in two bytes, row by row and in tiles of 8 and of 16 rows (TNI_CLT_HALVES, HALVES8, HALVES16). */
void tni_clt_quant_q9g128h_f32_1x128_scalar(const float *x, size_t K, size_t K_padded, const tni_clt_act *a, size_t m);
void tni_clt_quant_q9g128h_f32_8x128_scalar(const float *x, size_t K, size_t K_padded, const tni_clt_act *a, size_t m);
void tni_clt_quant_q9g128h_f32_16x128_scalar(const float *x, size_t K, size_t K_padded, const tni_clt_act *a, size_t m);

#define TNI_CLT_DECLARE_LUT(id, isa)                                                                          \
  void tni_clt_gemv_f32_##id##_1x16_##isa(const uint8_t *row_block, size_t superblocks, const tni_clt_act *a, \
                                          float *acc);                                                        \
  void tni_clt_gemm_f32_##id##_1x16_##isa(const uint8_t *row_block, size_t superblocks, const tni_clt_act *a, \
                                          size_t m0, size_t m1, float *acc);
#define TNI_CLT_DECLARE_TABLES(id, isa) \
  void tni_clt_tables_##id##_f32_1x128_##isa(const float *x, size_t K, size_t K_padded, const tni_clt_act *a, size_t m);

TNI_CLT_DECLARE_LUT(lut1, scalar)
TNI_CLT_DECLARE_LUT(lut2, scalar)
TNI_CLT_DECLARE_LUT(lut3, scalar)
TNI_CLT_DECLARE_LUT(lut4, scalar)
TNI_CLT_DECLARE_LUT(lutt, scalar)
TNI_CLT_DECLARE_LUT(lut1p, scalar)
TNI_CLT_DECLARE_LUT(lut2p, scalar)
TNI_CLT_DECLARE_LUT(lut3p, scalar)
TNI_CLT_DECLARE_LUT(lut4p, scalar)
TNI_CLT_DECLARE_LUT(luttp, scalar)
TNI_CLT_DECLARE_TABLES(lut1, scalar)
TNI_CLT_DECLARE_TABLES(lut2, scalar)
TNI_CLT_DECLARE_TABLES(lut3, scalar)
TNI_CLT_DECLARE_TABLES(lut4, scalar)
TNI_CLT_DECLARE_TABLES(lutt, scalar)

/* Trees of averages of a group (lut.h) that say anything: eight, but for those of the zeros that it ends with. Entry 15
 * of a quad is the sum of its positive codes, entry 0 that of the others' magnitudes. */
static inline int32_t tni_clt_lut_trees(const uint8_t *tables) {
  uint32_t quads = TNI_LUT_QUADS;
  while (quads && !(tables[quads * 16 - 1] | tables[quads * 16 - 16])) quads--;
  return (int32_t)(quads + 7) / 8 * 2;
}

#define TNI_CLT_DECLARE_AVERAGES(id)                                                                              \
  void tni_clt_gemv_f32_##id##avg_1x16_scalar(const uint8_t *row_block, size_t superblocks, const tni_clt_act *a, \
                                              float *acc);
TNI_CLT_DECLARE_AVERAGES(lut1)
TNI_CLT_DECLARE_AVERAGES(lut2)
TNI_CLT_DECLARE_AVERAGES(lut3)
TNI_CLT_DECLARE_AVERAGES(lut4)
TNI_CLT_DECLARE_AVERAGES(lutt)
#undef TNI_CLT_DECLARE_AVERAGES

/* The largest sum of magnitudes of four, neighbours first; n: a multiple of 4. */
static inline float tni_clt_largest_run(const float *x, size_t n) {
  float most = 0;
  for (size_t i = 0; i < n; i += 4) {
    const float sum = (fabsf(x[i]) + fabsf(x[i + 1])) + (fabsf(x[i + 2]) + fabsf(x[i + 3]));
    most = sum > most ? sum : most;
  }
  return most;
}

/* What a prologue makes of each format: F(id, full, zero); a group's word is (full - zero) * sum(q) - full * sum(|q|).
 */
#define TNI_CLT_LUT_TABLES(F) F(lut1, 1, 1) F(lut2, 3, 3) F(lut3, 7, 7) F(lut4, 15, 15) F(lutt, 3, 2)

/* The group of x at k, or a copy in tail[TNI_LUT_GROUP] with zeros where x ends. */
static inline const float *tni_clt_lut_group_at(const float *x, size_t K, size_t k, float *tail) {
  if (K - k >= TNI_LUT_GROUP) return x + k;
  memset(tail, 0, TNI_LUT_GROUP * sizeof *tail);
  memcpy(tail, x + k, (K - k) * sizeof *x);
  return tail;
}

/* Rows of a table for one format: bytes as `id` has them, tables of `base` (lut4p: base lut4). */
#define TNI_CLT_SCALAR_LUT_ROWS(format, id, base)                                                            \
  TNI_CLT_ROW(TNI_CLT_QUANT, format, 128, 0, 0, TNI_CLT_TABLES, tni_clt_, tables_##base##_f32_1x128_scalar), \
      TNI_CLT_ROW(TNI_CLT_QUANT, format, 128, 0, 2, TNI_CLT_Q16, tni_clt_, quant_q9g128_f32_1x128_scalar),   \
      TNI_CLT_ROW(TNI_CLT_GEMV, format, 128, 0, 0, TNI_CLT_TABLES, tni_clt_, gemv_f32_##id##_1x16_scalar),   \
      TNI_CLT_ROW(TNI_CLT_GEMM, format, 128, 0, 0, TNI_CLT_Q16, tni_clt_, gemm_f32_##id##_1x16_scalar)

#endif
