/* SPDX-License-Identifier: Apache-2.0
 *
 * The aarch64 variants; shapes, layouts and names are those of plugins/common/cpu/kernels.h. Suffixes: neon is
 * plain ARMv8.0, dotprod has SDOT, i8mm has SMMLA too, sme SMOPA and sme2 LUTI.
 */
#ifndef TENON_CPU_NEON_KERNELS_H
#define TENON_CPU_NEON_KERNELS_H

#include "plugins/common/cpu/kernels/kernels.h"

extern const tni_clt_table tni_arm_kernels;
/* Of TNI_CPU_* those that kernels may rely on. */
uint32_t tni_arm_usable(uint32_t features);

/* Plain NEON. 1x: row by row; 8x, 16x: into tiles of so many rows. */
#define TNI_ARM_QUANT(group)                                                                        \
  void tni_arm_quant_q8g##group##s_f32_1x##group##_neon(const float *x, size_t K, size_t K_padded,  \
                                                        const tni_clt_act *a, size_t m);            \
  void tni_arm_quant_q8g##group##s_f32_8x##group##_neon(const float *x, size_t K, size_t K_padded,  \
                                                        const tni_clt_act *a, size_t m);            \
  void tni_arm_quant_q8g##group##s_f32_16x##group##_neon(const float *x, size_t K, size_t K_padded, \
                                                         const tni_clt_act *a, size_t m);
TNI_ARM_QUANT(16)
TNI_ARM_QUANT(32)
TNI_ARM_QUANT(64)
TNI_ARM_QUANT(128)
#undef TNI_ARM_QUANT
/* Narrow codes for tables. */
void tni_arm_quant_r8g128s_f32_1x128_neon(const float *x, size_t K, size_t K_padded, const tni_clt_act *a, size_t m);
void tni_arm_quant_r8g128s_f32_8x128_neon(const float *x, size_t K, size_t K_padded, const tni_clt_act *a, size_t m);
void tni_arm_quant_r8g128s_f32_16x128_neon(const float *x, size_t K, size_t K_padded, const tni_clt_act *a, size_t m);
void tni_arm_matmul_f32_f32_f32_4x16_neon(const tni_clt_matmul *m);
void tni_arm_matmul_f32_f32_f32_16x48_sme(const tni_clt_matmul *m);
const tni_cm_chain_kernels *tni_arm_chain_f32_1x4_neon(void);

/* Bit-serial formats (plugins/common/cpu/kernels/lut_kernels.h), plain NEON. */
#define TNI_ARM_DECLARE(id, base)                                                                                      \
  void tni_arm_tables_##base##_f32_1x128_neon(const float *x, size_t K, size_t K_padded, const tni_clt_act *a,         \
                                              size_t m);                                                               \
  void tni_arm_gemv_f32_##id##_1x16_neon(const uint8_t *row_block, size_t superblocks, const tni_clt_act *a,           \
                                         float *acc);                                                                  \
  void tni_arm_gemm_f32_##id##_4x16_neon(const uint8_t *row_block, size_t superblocks, const tni_clt_act *a,           \
                                         size_t m0, size_t m1, float *acc);                                            \
  void tni_arm_gemm_f32_##id##_4x8_dotprod(const uint8_t *row_block, size_t superblocks, const tni_clt_act *a,         \
                                           size_t m0, size_t m1, float *acc);                                          \
  void tni_arm_gemm_f32_##id##_4x8_i8mm(const uint8_t *row_block, size_t superblocks, const tni_clt_act *a, size_t m0, \
                                        size_t m1, float *acc);                                                        \
  void tni_arm_gemm_f32_##id##_16x16_sme(const uint8_t *row_block, size_t superblocks, const tni_clt_act *a,           \
                                         size_t m0, size_t m1, float *acc);                                            \
  void tni_arm_gemm_f32_##id##_16x16_sme2(const uint8_t *row_block, size_t superblocks, const tni_clt_act *a,          \
                                          size_t m0, size_t m1, float *acc);
TNI_ARM_DECLARE(lut1p, lut1)
TNI_ARM_DECLARE(lut2p, lut2)
TNI_ARM_DECLARE(lut3p, lut3)
TNI_ARM_DECLARE(lut4p, lut4)
TNI_ARM_DECLARE(luttp, lutt)
#undef TNI_ARM_DECLARE
void tni_arm_quant_q9g128h_f32_1x128_neon(const float *x, size_t K, size_t K_padded, const tni_clt_act *a, size_t m);
void tni_arm_quant_q9g128h_f32_8x128_neon(const float *x, size_t K, size_t K_padded, const tni_clt_act *a, size_t m);
void tni_arm_quant_q9g128h_f32_16x128_neon(const float *x, size_t K, size_t K_padded, const tni_clt_act *a, size_t m);
void tni_arm_quant_q9g128_f32_1x128_neon(const float *x, size_t K, size_t K_padded, const tni_clt_act *a, size_t m);

/* w4g (plugins/common/formats/w4g.h) and grids (grid.h): plain NEON, SDOT, SMMLA, SMOPA. */
#define TNI_ARM_GEMV(id, isa)                                                                                 \
  void tni_arm_gemv_f32_##id##_1x16_##isa(const uint8_t *row_block, size_t superblocks, const tni_clt_act *a, \
                                          float *acc);
#define TNI_ARM_GEMM(id, tile, isa)                                                                               \
  void tni_arm_gemm_f32_##id##_##tile##_##isa(const uint8_t *row_block, size_t superblocks, const tni_clt_act *a, \
                                              size_t m0, size_t m1, float *acc);
#define TNI_ARM_GEMMS(id)        \
  TNI_ARM_GEMM(id, 2x16, neon)   \
  TNI_ARM_GEMM(id, 4x8, dotprod) \
  TNI_ARM_GEMM(id, 4x8, i8mm)    \
  TNI_ARM_GEMM(id, 16x16, sme)   \
  TNI_ARM_GEMM(id, 16x16, sme2)
TNI_ARM_GEMMS(q8g128_lut1p)
TNI_ARM_GEMMS(q8g128_lut2p)
TNI_ARM_GEMMS(q8g128_lut3p)
TNI_ARM_GEMMS(q8g128_lut4p)
TNI_ARM_GEMMS(q8g128_luttp)
#define TNI_ARM_PRODUCTS(id) \
  TNI_ARM_GEMV(id, neon)     \
  TNI_ARM_GEMV(id, dotprod)  \
  TNI_ARM_GEMMS(id)
/* Formats of dot.h: on plain NEON one row goes through the kernel of many. */
#define TNI_ARM_DOT(id) TNI_ARM_PRODUCTS(q8g128_##id)
TNI_ARM_DOT(w8g)
TNI_ARM_DOT(w3g)
TNI_ARM_DOT(w2g)
TNI_ARM_DOT(w1g)
TNI_ARM_DOT(tern20)
TNI_ARM_DOT(tern17)
TNI_ARM_DOT(pal16)
TNI_ARM_GEMV(q8g128_w8g, i8mm)
#undef TNI_ARM_DOT
TNI_ARM_PRODUCTS(q8g32_lev4)
TNI_ARM_PRODUCTS(q8g16_lev4s)
TNI_ARM_PRODUCTS(q8g32_lev3)
TNI_ARM_PRODUCTS(q8g32_lev2)
TNI_ARM_PRODUCTS(q8g32_lev1)
#define TNI_ARM_GRID(group, bits) TNI_ARM_PRODUCTS(q8g##group##_grid##bits)
TNI_ARM_PRODUCTS(q8g32_w4g32)
TNI_ARM_PRODUCTS(q8g128_w4g128)
TNI_CLT_EACH_GRID(TNI_ARM_GRID)
TNI_ARM_GEMV(q8g16_grid8, i8mm)
TNI_ARM_GEMV(q8g32_grid8, i8mm)
TNI_ARM_GEMV(q8g64_grid8, i8mm)
TNI_ARM_GEMV(q8g128_grid8, i8mm)
#undef TNI_ARM_GRID
#undef TNI_ARM_PRODUCTS
#undef TNI_ARM_GEMMS
#undef TNI_ARM_GEMM
#undef TNI_ARM_GEMV

/* Bytes (plugins/common/formats/int8.h). */
#define TNI_ARM_BYTES(tile, isa)                                                                            \
  void tni_arm_bytes_s32_u8_s8_##tile##_##isa(const uint8_t *const *blocks, size_t quads, const uint8_t *a, \
                                              size_t lda, size_t rows, const tni_clt_next *next, int32_t *acc);
TNI_ARM_BYTES(2x16, neon)
TNI_ARM_BYTES(4x16, dotprod)
TNI_ARM_BYTES(8x8, i8mm)
TNI_ARM_BYTES(16x32, sme)
#undef TNI_ARM_BYTES

#endif
