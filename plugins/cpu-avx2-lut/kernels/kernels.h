/* SPDX-License-Identifier: Apache-2.0
 *
 * The x86-64 variants; shapes, layouts and names are those of plugins/common/cpu/kernels.h.
 */
#ifndef TENON_CPU_AVX2_KERNELS_H
#define TENON_CPU_AVX2_KERNELS_H

#include "plugins/common/cpu/kernels/kernels.h"
#include "plugins/cpu-avx2-lut/kernels/bytes/bytes.h"
#include "plugins/cpu-avx2-lut/kernels/floats/floats.h"

extern const tni_clt_table tni_x86_kernels;

/* AVX2 + FMA + F16C. */
void tni_x86_quant_q8g32_f32_1x32_avx2(const float *x, size_t K, size_t K_padded, const tni_clt_act *a, size_t m);
void tni_x86_quant_q8g128_f32_1x128_avx2(const float *x, size_t K, size_t K_padded, const tni_clt_act *a, size_t m);
void tni_x86_gemv_f32_q8g32_w4g32_1x16_avx2(const uint8_t *row_block, size_t superblocks, const tni_clt_act *a,
                                            float *acc);
void tni_x86_gemv_f32_q8g128_w4g128_1x16_avx2(const uint8_t *row_block, size_t superblocks, const tni_clt_act *a,
                                              float *acc);
void tni_x86_gemm_f32_q8g32_w4g32_6x16_avx2(const uint8_t *row_block, size_t superblocks, const tni_clt_act *a,
                                            size_t m0, size_t m1, float *acc);
void tni_x86_gemm_f32_q8g128_w4g128_6x16_avx2(const uint8_t *row_block, size_t superblocks, const tni_clt_act *a,
                                              size_t m0, size_t m1, float *acc);
void tni_x86_quant_q8g32n_f32_1x32_avx2(const float *x, size_t K, size_t K_padded, const tni_clt_act *a, size_t m);
void tni_x86_quant_q8g128n_f32_1x128_avx2(const float *x, size_t K, size_t K_padded, const tni_clt_act *a, size_t m);
void tni_x86_quant_q8g32k_f32_1x32_avx2(const float *x, size_t K, size_t K_padded, const tni_clt_act *a, size_t m);
void tni_x86_quant_q8g128k_f32_1x128_avx2(const float *x, size_t K, size_t K_padded, const tni_clt_act *a, size_t m);

/* AVX-VNNI; AVX-512 with VNNI and VBMI; AMX beside it, which reads TNI_CLT_SLABS, the others TNI_CLT_ROWS_SUM. */
#define DECLARE_GEMV(id, isa)                                                                                 \
  void tni_x86_gemv_f32_##id##_1x16_##isa(const uint8_t *row_block, size_t superblocks, const tni_clt_act *a, \
                                          float *acc);
#define DECLARE_GEMM(id, tile, isa)                                                                               \
  void tni_x86_gemm_f32_##id##_##tile##_##isa(const uint8_t *row_block, size_t superblocks, const tni_clt_act *a, \
                                              size_t m0, size_t m1, float *acc);
#define DECLARE_GEMM2(id, tile, isa)                                                                              \
  void tni_x86_gemm2_f32_##id##_##tile##_##isa(const uint8_t *row_blocks, size_t block_bytes, size_t superblocks, \
                                               const tni_clt_act *a, size_t m0, size_t m1, float *const *acc);
DECLARE_GEMM(q8g32_w4g32, 4x16, avx2)
DECLARE_GEMM(q8g128_w4g128, 4x16, avx2)
DECLARE_GEMM(q8g32_w4g32, 4x16, avx2_prefetch)
DECLARE_GEMM(q8g128_w4g128, 4x16, avx2_prefetch)
DECLARE_GEMV(q8g32_w4g32, avx2_prefetch)
DECLARE_GEMV(q8g128_w4g128, avx2_prefetch)
DECLARE_GEMV(q8g32_w4g32, avxvnni)
DECLARE_GEMV(q8g128_w4g128, avxvnni)
DECLARE_GEMV(q8g32_w4g32, avxvnni_prefetch)
DECLARE_GEMV(q8g128_w4g128, avxvnni_prefetch)
DECLARE_GEMM(q8g32_w4g32, 6x16, avxvnni)
DECLARE_GEMM(q8g128_w4g128, 6x16, avxvnni)
DECLARE_GEMV(q8g32_w4g32, avx512vnni)
DECLARE_GEMV(q8g128_w4g128, avx512vnni)
DECLARE_GEMV(q8g32_w4g32, avx512vnni_prefetch)
DECLARE_GEMV(q8g128_w4g128, avx512vnni_prefetch)
DECLARE_GEMM(q8g32_w4g32, 4x16, avx512vnni)
DECLARE_GEMM(q8g128_w4g128, 4x16, avx512vnni)
DECLARE_GEMM(q8g32_w4g32, 4x16, avx512vnni_prefetch)
DECLARE_GEMM(q8g128_w4g128, 4x16, avx512vnni_prefetch)
DECLARE_GEMM(q8g32_w4g32, 12x16, avx512vnni)
DECLARE_GEMM(q8g128_w4g128, 12x16, avx512vnni)
DECLARE_GEMM2(q8g32_w4g32, 6x32, avx512vnni)
DECLARE_GEMM2(q8g128_w4g128, 12x32, avx512vnni)
DECLARE_GEMM(q8g32_w4g32, 32x16, amx)
DECLARE_GEMM(q8g128_w4g128, 32x16, amx)
DECLARE_GEMM2(q8g32_w4g32, 16x32, amx)
DECLARE_GEMM2(q8g128_w4g128, 16x32, amx)

/* Formats of plugins/common/formats/dot.h. */
#define DECLARE_DOT(id, tile)                    \
  DECLARE_GEMV(q8g128_##id, avx2)                \
  DECLARE_GEMV(q8g128_##id, avx2_prefetch)       \
  DECLARE_GEMM(q8g128_##id, tile, avx2)          \
  DECLARE_GEMV(q8g128_##id, avxvnni)             \
  DECLARE_GEMV(q8g128_##id, avxvnni_prefetch)    \
  DECLARE_GEMM(q8g128_##id, 6x16, avxvnni)       \
  DECLARE_GEMV(q8g128_##id, avx512vnni)          \
  DECLARE_GEMV(q8g128_##id, avx512vnni_prefetch) \
  DECLARE_GEMM(q8g128_##id, 12x16, avx512vnni)   \
  DECLARE_GEMM2(q8g128_##id, 12x32, avx512vnni)  \
  DECLARE_GEMM(q8g128_##id, 32x16, amx)          \
  DECLARE_GEMM2(q8g128_##id, 16x32, amx)
DECLARE_DOT(w8g, 4x16)
DECLARE_DOT(w3g, 6x16)
DECLARE_DOT(w2g, 6x16)
DECLARE_DOT(w1g, 6x16)
DECLARE_DOT(tern20, 6x16)
DECLARE_DOT(tern17, 6x16)
DECLARE_DOT(pal16, 4x16)
#undef DECLARE_DOT
DECLARE_GEMM(q8g128_w8g, 4x16, avx2_few)
DECLARE_GEMM(q8g128_w8g, 4x16, avx2_few_prefetch)

/* One row and many on each tier; tile: that of AVX2. */
#define DECLARE_TIERS(id, tile)         \
  DECLARE_GEMV(id, avx2)                \
  DECLARE_GEMV(id, avx2_prefetch)       \
  DECLARE_GEMM(id, tile, avx2)          \
  DECLARE_GEMV(id, avxvnni)             \
  DECLARE_GEMV(id, avxvnni_prefetch)    \
  DECLARE_GEMM(id, 6x16, avxvnni)       \
  DECLARE_GEMV(id, avx512vnni)          \
  DECLARE_GEMV(id, avx512vnni_prefetch) \
  DECLARE_GEMM(id, 12x16, avx512vnni)

/* Formats of plugins/common/formats/grid.h. PAIRS: those with tiles over two row blocks, F(group, bits, tile). */
#define DECLARE_FEW(group, bits)                    \
  DECLARE_GEMM(q8g##group##_grid##bits, 4x16, avx2) \
  DECLARE_GEMM(q8g##group##_grid##bits, 4x16, avx2_prefetch)
#define DECLARE_FEW_2(group)
#define DECLARE_FEW_4(group) DECLARE_FEW(group, 4)
#define DECLARE_FEW_8(group) DECLARE_FEW(group, 8)
#define DECLARE_GRID(group, bits) DECLARE_TIERS(q8g##group##_grid##bits, 6x16) DECLARE_FEW_##bits(group)
TNI_CLT_EACH_GRID(DECLARE_GRID)
#define TNI_X86_GRID_PAIRS(F) \
  F(32, 2, 6x32)              \
  F(64, 2, 12x32)             \
  F(128, 2, 12x32) F(32, 4, 6x32) F(64, 4, 12x32) F(128, 4, 12x32) F(32, 8, 6x32) F(64, 8, 12x32) F(128, 8, 12x32)
#define DECLARE_PAIR(group, bits, tile) DECLARE_GEMM2(q8g##group##_grid##bits, tile, avx512vnni)
TNI_X86_GRID_PAIRS(DECLARE_PAIR)
#undef DECLARE_PAIR
#undef DECLARE_GRID
#undef DECLARE_FEW_8
#undef DECLARE_FEW_4
#undef DECLARE_FEW_2
#undef DECLARE_FEW

/* Formats of plugins/common/formats/lev.h. */
#define DECLARE_LEV(id, ID, group)       \
  DECLARE_TIERS(q8g##group##_##id, 4x16) \
  DECLARE_GEMM2(q8g##group##_##id, 6x32, avx512vnni)
TNI_CLT_EACH_LEV(DECLARE_LEV)
#undef DECLARE_LEV
/* Those with blocks of 32. */
#define TNI_X86_EACH_LEV_AMX(F) F(lev4, LEV4) F(lev3, LEV3) F(lev2, LEV2) F(lev1, LEV1)
#define DECLARE_LEV(id, ID) DECLARE_GEMM(q8g32_##id, 32x16, amx) DECLARE_GEMM2(q8g32_##id, 16x32, amx)
TNI_X86_EACH_LEV_AMX(DECLARE_LEV)
#undef DECLARE_LEV
#undef DECLARE_TIERS
void tni_x86_quant_q8g16n_f32_1x16_avx2(const float *x, size_t K, size_t K_padded, const tni_clt_act *a, size_t m);
void tni_x86_quant_q8g64n_f32_1x64_avx2(const float *x, size_t K, size_t K_padded, const tni_clt_act *a, size_t m);
#undef DECLARE_GEMV
#undef DECLARE_GEMM
#undef DECLARE_GEMM2

/* Bit-serial formats (plugins/common/cpu/kernels/lut_kernels.h). */
#define DECLARE(id)                                                                                                   \
  void tni_x86_tables_##id##_f32_1x128_avx2(const float *x, size_t K, size_t K_padded, const tni_clt_act *a,          \
                                            size_t m);                                                                \
  void tni_x86_gemv_f32_##id##_1x16_avx2(const uint8_t *row_block, size_t superblocks, const tni_clt_act *a,          \
                                         float *acc);                                                                 \
  void tni_x86_gemv_f32_##id##_1x16_avx2_prefetch(const uint8_t *row_block, size_t superblocks, const tni_clt_act *a, \
                                                  float *acc);                                                        \
  void tni_x86_gemv_f32_##id##avg_1x16_avx2(const uint8_t *row_block, size_t superblocks, const tni_clt_act *a,       \
                                            float *acc);                                                              \
  void tni_x86_gemv_f32_##id##avg_1x16_avx2_prefetch(const uint8_t *row_block, size_t superblocks,                    \
                                                     const tni_clt_act *a, float *acc);                               \
  void tni_x86_gemm_f32_##id##_6x16_avx2(const uint8_t *row_block, size_t superblocks, const tni_clt_act *a,          \
                                         size_t m0, size_t m1, float *acc);
DECLARE(lut1)
DECLARE(lut2)
DECLARE(lut3)
DECLARE(lut4)
DECLARE(lutt)
#undef DECLARE
/* Narrow codes. */
#define DECLARE(id)                                                                                                    \
  void tni_x86_gemm_f32_q8g128_##id##_6x16_avxvnni(const uint8_t *row_block, size_t superblocks, const tni_clt_act *a, \
                                                   size_t m0, size_t m1, float *acc);                                  \
  void tni_x86_gemm_f32_q8g128_##id##_12x16_avx512vnni(const uint8_t *row_block, size_t superblocks,                   \
                                                       const tni_clt_act *a, size_t m0, size_t m1, float *acc);        \
  void tni_x86_gemm2_f32_q8g128_##id##_12x32_avx512vnni(const uint8_t *row_blocks, size_t block_bytes,                 \
                                                        size_t superblocks, const tni_clt_act *a, size_t m0,           \
                                                        size_t m1, float *const *acc);                                 \
  void tni_x86_gemm_f32_q8g128_##id##_32x16_amx(const uint8_t *row_block, size_t superblocks, const tni_clt_act *a,    \
                                                size_t m0, size_t m1, float *acc);                                     \
  void tni_x86_gemm2_f32_q8g128_##id##_16x32_amx(const uint8_t *row_blocks, size_t block_bytes, size_t superblocks,    \
                                                 const tni_clt_act *a, size_t m0, size_t m1, float *const *acc);
DECLARE(lut1)
DECLARE(lut2)
DECLARE(lut3)
DECLARE(lut4)
DECLARE(lutt)
#undef DECLARE
void tni_x86_quant_r8g128n_f32_1x128_avx2(const float *x, size_t K, size_t K_padded, const tni_clt_act *a, size_t m);
void tni_x86_quant_r8g128k_f32_1x128_avx2(const float *x, size_t K, size_t K_padded, const tni_clt_act *a, size_t m);
void tni_x86_quant_q9g128_f32_1x128_avx2(const float *x, size_t K, size_t K_padded, const tni_clt_act *a, size_t m);

#endif
