/* SPDX-License-Identifier: Apache-2.0 */
#include "plugins/cpu-avx2-lut/kernels/kernels.h"

#define AVX2 (TNI_CPU_AVX2 | TNI_CPU_FMA | TNI_CPU_F16C)
#define FROM(group, features, min_m, name) \
  TNI_CLT_ROW(TNI_CLT_GEMM, TNI_CLT_W4G, group, features, min_m, TNI_CLT_ROWS_S16, tni_x86_, name)
#define W4G(op, group, name) TNI_CLT_ROW(TNI_CLT_##op, TNI_CLT_W4G, group, AVX2, 0, TNI_CLT_ROWS_S16, tni_x86_, name)
#define VNNI(op, group, features, min_m, name) \
  TNI_CLT_ROW(TNI_CLT_##op, TNI_CLT_W4G, group, features, min_m, TNI_CLT_ROWS_SUM, tni_x86_, name)
#define ANY(op, name) TNI_CLT_ROW(TNI_CLT_##op, TNI_CLT_ANY, 0, AVX2, 0, 0, tni_x86_, name)
#define LUT(format, id)                                                                                           \
  TNI_CLT_ROW(TNI_CLT_QUANT, format, 128, 0, 2, TNI_CLT_ROWS_SUM, tni_clt_, quant_r8g128n_f32_1x128_scalar),      \
      TNI_CLT_ROW(TNI_CLT_QUANT, format, 128, 0, 2, TNI_CLT_SLABS, tni_clt_, quant_r8g128k_f32_1x128_scalar),     \
      TNI_CLT_SCALAR_LUT_ROWS(format, id, id),                                                                    \
      TNI_CLT_ROW(TNI_CLT_QUANT, format, 128, AVX2, 0, TNI_CLT_TABLES, tni_x86_, tables_##id##_f32_1x128_avx2),   \
      TNI_CLT_ROW(TNI_CLT_QUANT, format, 128, AVX2, 2, TNI_CLT_Q16, tni_x86_, quant_q9g128_f32_1x128_avx2),       \
      TNI_CLT_ROW(TNI_CLT_GEMV, format, 128, AVX2, 0, TNI_CLT_TABLES, tni_x86_, gemv_f32_##id##_1x16_avx2),       \
      TNI_CLT_ROW(TNI_CLT_GEMV, format, 128, AVX2 | TNI_CPU_PREFETCH, 0, TNI_CLT_TABLES, tni_x86_,                \
                  gemv_f32_##id##_1x16_avx2_prefetch),                                                            \
      TNI_CLT_ROW(TNI_CLT_GEMM, format, 128, AVX2, 0, TNI_CLT_Q16, tni_x86_, gemm_f32_##id##_6x16_avx2),          \
      AVERAGES(format, 0, tni_clt_, gemv_f32_##id##avg_1x16_scalar),                                              \
      AVERAGES(format, AVX2, tni_x86_, gemv_f32_##id##avg_1x16_avx2),                                             \
      AVERAGES(format, AVX2 | TNI_CPU_PREFETCH, tni_x86_, gemv_f32_##id##avg_1x16_avx2_prefetch),                 \
      TNI_CLT_ROW(TNI_CLT_QUANT, format, 128, TNI_CLT_NARROW | AVXVNNI, 2, TNI_CLT_ROWS_SUM, tni_x86_,            \
                  quant_r8g128n_f32_1x128_avx2),                                                                  \
      TNI_CLT_ROW(TNI_CLT_GEMM, format, 128, TNI_CLT_NARROW | AVXVNNI, 2, TNI_CLT_ROWS_SUM, tni_x86_,             \
                  gemm_f32_q8g128_##id##_6x16_avxvnni),                                                           \
      TNI_CLT_ROW(TNI_CLT_QUANT, format, 128, TNI_CLT_NARROW | AVX512, 2, TNI_CLT_ROWS_SUM, tni_x86_,             \
                  quant_r8g128n_f32_1x128_avx2),                                                                  \
      TNI_CLT_ROW(TNI_CLT_GEMM, format, 128, TNI_CLT_NARROW | AVX512, 2, TNI_CLT_ROWS_SUM, tni_x86_,              \
                  gemm_f32_q8g128_##id##_12x16_avx512vnni),                                                       \
      TNI_CLT_ROW(TNI_CLT_GEMM2, format, 128, TNI_CLT_NARROW | AVX512, 12, TNI_CLT_ROWS_SUM, tni_x86_,            \
                  gemm2_f32_q8g128_##id##_12x32_avx512vnni),                                                      \
      TNI_CLT_ROW(TNI_CLT_QUANT, format, 128, TNI_CLT_NARROW | AVX512 | TNI_CPU_AMX, 16, TNI_CLT_SLABS, tni_x86_, \
                  quant_r8g128k_f32_1x128_avx2),                                                                  \
      TNI_CLT_ROW(TNI_CLT_GEMM, format, 128, TNI_CLT_NARROW | AVX512 | TNI_CPU_AMX, 16, TNI_CLT_SLABS, tni_x86_,  \
                  gemm_f32_q8g128_##id##_32x16_amx),                                                              \
      TNI_CLT_ROW(TNI_CLT_GEMM2, format, 128, TNI_CLT_NARROW | AVX512 | TNI_CPU_AMX, 16, TNI_CLT_SLABS, tni_x86_, \
                  gemm2_f32_q8g128_##id##_16x32_amx)
#define AVERAGES(format, features, prefix, name) \
  TNI_CLT_ROW(TNI_CLT_GEMV, format, 128, (features) | TNI_CLT_AVERAGES, 0, TNI_CLT_TABLES, prefix, name)
/* min_m: rows from which on AMX pays. */
#define AVX512 (AVX2 | TNI_CPU_AVX512VNNI)
#define AVXVNNI (AVX2 | TNI_CPU_AVXVNNI)
#define MANY 5 /* rows from which on a panel pays */
#define MANY_AVX2 13
#define AMX(op, group, name)                                                                                  \
  TNI_CLT_ROW(TNI_CLT_##op, TNI_CLT_W4G, group, AVX512 | TNI_CPU_AMX, (group) == 32 ? 32 : 16, TNI_CLT_SLABS, \
              tni_x86_, name)
#define DOT(op, format, features, min_m, layout, name) \
  TNI_CLT_ROW(TNI_CLT_##op, format, 128, features, min_m, TNI_CLT_##layout, tni_x86_, name)
#define FEW_DOT_w8g                                                                                             \
  DOT(GEMM, TNI_CLT_W8G, AVX2, 2, ROWS_S16, gemm_f32_q8g128_w8g_4x16_avx2_few),                                 \
      DOT(GEMM, TNI_CLT_W8G, AVX2 | TNI_CPU_PREFETCH, 2, ROWS_S16, gemm_f32_q8g128_w8g_4x16_avx2_few_prefetch), \
      DOT(GEMM, TNI_CLT_W8G, AVX2, MANY_AVX2, ROWS_S16, gemm_f32_q8g128_w8g_4x16_avx2),
#define FEW_DOT_w3g
#define FEW_DOT_w2g
#define FEW_DOT_w1g
#define FEW_DOT_tern20
#define FEW_DOT_tern17
#define FEW_DOT_pal16
#define DOTS(format, id, tile)                                                                                    \
  TNI_CLT_SCALAR_DOT_ROWS(format, id), DOT(QUANT, format, AVX2, 0, ROWS_S16, quant_q8g128_f32_1x128_avx2),        \
      DOT(GEMV, format, AVX2, 0, ROWS_S16, gemv_f32_q8g128_##id##_1x16_avx2),                                     \
      DOT(GEMV, format, AVX2 | TNI_CPU_PREFETCH, 0, ROWS_S16, gemv_f32_q8g128_##id##_1x16_avx2_prefetch),         \
      DOT(GEMM, format, AVX2, 0, ROWS_S16, gemm_f32_q8g128_##id##_##tile##_avx2),                                 \
      FEW_DOT_##id DOT(QUANT, format, AVXVNNI, 0, ROWS_SUM, quant_q8g128n_f32_1x128_avx2),                        \
      DOT(GEMV, format, AVXVNNI, 0, ROWS_SUM, gemv_f32_q8g128_##id##_1x16_avxvnni),                               \
      DOT(GEMV, format, AVXVNNI | TNI_CPU_PREFETCH, 0, ROWS_SUM, gemv_f32_q8g128_##id##_1x16_avxvnni_prefetch),   \
      DOT(GEMM, format, AVXVNNI, 0, ROWS_SUM, gemm_f32_q8g128_##id##_6x16_avxvnni),                               \
      DOT(QUANT, format, AVX512, 0, ROWS_SUM, quant_q8g128n_f32_1x128_avx2),                                      \
      DOT(GEMV, format, AVX512, 0, ROWS_SUM, gemv_f32_q8g128_##id##_1x16_avx512vnni),                             \
      DOT(GEMV, format, AVX512 | TNI_CPU_PREFETCH, 0, ROWS_SUM, gemv_f32_q8g128_##id##_1x16_avx512vnni_prefetch), \
      DOT(GEMM, format, AVX512, 0, ROWS_SUM, gemm_f32_q8g128_##id##_12x16_avx512vnni),                            \
      DOT(GEMM2, format, AVX512, 12, ROWS_SUM, gemm2_f32_q8g128_##id##_12x32_avx512vnni),                         \
      DOT(QUANT, format, AVX512 | TNI_CPU_AMX, 16, SLABS, quant_q8g128k_f32_1x128_avx2),                          \
      DOT(GEMM, format, AVX512 | TNI_CPU_AMX, 16, SLABS, gemm_f32_q8g128_##id##_32x16_amx),                       \
      DOT(GEMM2, format, AVX512 | TNI_CPU_AMX, 16, SLABS, gemm2_f32_q8g128_##id##_16x32_amx)

#define GRID(op, format, group, features, min_m, name) \
  TNI_CLT_ROW(TNI_CLT_##op, format, group, features, min_m, TNI_CLT_ROWS_SUM, tni_x86_, name),
/* A panel from so many rows on; below, four rows at a time. */
#define FEW_GRID(group, bits, many)                                                            \
  GRID(GEMM, TNI_CLT_GRID##bits, group, AVX2, 2, gemm_f32_q8g##group##_grid##bits##_4x16_avx2) \
  GRID(GEMM, TNI_CLT_GRID##bits, group, AVX2 | TNI_CPU_PREFETCH, 2,                            \
       gemm_f32_q8g##group##_grid##bits##_4x16_avx2_prefetch)                                  \
  GRID(GEMM, TNI_CLT_GRID##bits, group, AVX2, many, gemm_f32_q8g##group##_grid##bits##_6x16_avx2)
#define FEW_GRID_2(group)
#define FEW_GRID_4(group) FEW_GRID(group, 4, MANY_AVX2)
#define FEW_GRID_8(group) FEW_GRID(group, 8, MANY_AVX2)
#define GRIDS(group, bits)                                                                                             \
  GRID(QUANT, TNI_CLT_GRID##bits, group, AVX2, 0, quant_q8g##group##n_f32_1x##group##_avx2)                            \
  GRID(GEMV, TNI_CLT_GRID##bits, group, AVX2, 0, gemv_f32_q8g##group##_grid##bits##_1x16_avx2)                         \
  GRID(GEMV, TNI_CLT_GRID##bits, group, AVX2 | TNI_CPU_PREFETCH, 0,                                                    \
       gemv_f32_q8g##group##_grid##bits##_1x16_avx2_prefetch)                                                          \
  GRID(GEMM, TNI_CLT_GRID##bits, group, AVX2, 0, gemm_f32_q8g##group##_grid##bits##_6x16_avx2)                         \
  FEW_GRID_##bits(group)                                                                                               \
      GRID(GEMV, TNI_CLT_GRID##bits, group, AVXVNNI, 0, gemv_f32_q8g##group##_grid##bits##_1x16_avxvnni)               \
          GRID(GEMV, TNI_CLT_GRID##bits, group, AVXVNNI | TNI_CPU_PREFETCH, 0,                                         \
               gemv_f32_q8g##group##_grid##bits##_1x16_avxvnni_prefetch)                                               \
              GRID(GEMM, TNI_CLT_GRID##bits, group, AVXVNNI, 0, gemm_f32_q8g##group##_grid##bits##_6x16_avxvnni)       \
                  GRID(GEMV, TNI_CLT_GRID##bits, group, AVX512, 0, gemv_f32_q8g##group##_grid##bits##_1x16_avx512vnni) \
                      GRID(GEMV, TNI_CLT_GRID##bits, group, AVX512 | TNI_CPU_PREFETCH, 0,                              \
                           gemv_f32_q8g##group##_grid##bits##_1x16_avx512vnni_prefetch)                                \
                          GRID(GEMM, TNI_CLT_GRID##bits, group, AVX512, 0,                                             \
                               gemm_f32_q8g##group##_grid##bits##_12x16_avx512vnni)
#define LEVS(id, ID, group)                                                                                            \
  GRID(QUANT, TNI_CLT_##ID, group, AVX2, 0, quant_q8g##group##n_f32_1x##group##_avx2)                                  \
  GRID(GEMV, TNI_CLT_##ID, group, AVX2, 0, gemv_f32_q8g##group##_##id##_1x16_avx2)                                     \
  GRID(GEMV, TNI_CLT_##ID, group, AVX2 | TNI_CPU_PREFETCH, 0, gemv_f32_q8g##group##_##id##_1x16_avx2_prefetch)         \
  GRID(GEMM, TNI_CLT_##ID, group, AVX2, 0, gemm_f32_q8g##group##_##id##_4x16_avx2)                                     \
  GRID(GEMV, TNI_CLT_##ID, group, AVXVNNI | TNI_CPU_GFNI, 0, gemv_f32_q8g##group##_##id##_1x16_avxvnni)                \
  GRID(GEMV, TNI_CLT_##ID, group, AVXVNNI | TNI_CPU_GFNI | TNI_CPU_PREFETCH, 0,                                        \
       gemv_f32_q8g##group##_##id##_1x16_avxvnni_prefetch)                                                             \
  GRID(GEMM, TNI_CLT_##ID, group, AVXVNNI, 0, gemm_f32_q8g##group##_##id##_6x16_avxvnni)                               \
  GRID(GEMV, TNI_CLT_##ID, group, AVX512, 0, gemv_f32_q8g##group##_##id##_1x16_avx512vnni)                             \
  GRID(GEMV, TNI_CLT_##ID, group, AVX512 | TNI_CPU_PREFETCH, 0, gemv_f32_q8g##group##_##id##_1x16_avx512vnni_prefetch) \
  GRID(GEMM, TNI_CLT_##ID, group, AVX512, 0, gemm_f32_q8g##group##_##id##_12x16_avx512vnni)
#define LEV_AMX_ROW(op, ID, name) \
  TNI_CLT_ROW(TNI_CLT_##op, TNI_CLT_##ID, 32, AVX512 | TNI_CPU_AMX, 32, TNI_CLT_SLABS, tni_x86_, name),
#define LEV_AMX_READS(id, ID) \
  TNI_CLT_ROW(TNI_CLT_QUANT, TNI_CLT_##ID, 32, 0, 0, TNI_CLT_SLABS, tni_clt_, quant_q8g32k_f32_1x32_scalar),
#define LEV_AMX(id, ID)                                  \
  LEV_AMX_ROW(QUANT, ID, quant_q8g32k_f32_1x32_avx2)     \
  LEV_AMX_ROW(GEMM, ID, gemm_f32_q8g32_##id##_32x16_amx) \
  LEV_AMX_ROW(GEMM2, ID, gemm2_f32_q8g32_##id##_16x32_amx)
#define LEV_PAIRS(id, ID, group) \
  GRID(GEMM2, TNI_CLT_##ID, group, AVX512, 6, gemm2_f32_q8g##group##_##id##_6x32_avx512vnni)
#define PAIRS(group, bits, tile) \
  GRID(GEMM2, TNI_CLT_GRID##bits, group, AVX512, 12, gemm2_f32_q8g##group##_grid##bits##_##tile##_avx512vnni)

static const tni_clt_kernel avx2_rows[] = {
    /* What the AVX-512 and AMX rows read, by the scalar kernel: of no use but to compare with. */
    TNI_CLT_ROW(TNI_CLT_QUANT, TNI_CLT_W4G, 32, 0, 0, TNI_CLT_ROWS_SUM, tni_clt_, quant_q8g32n_f32_1x32_scalar),
    TNI_CLT_ROW(TNI_CLT_QUANT, TNI_CLT_W4G, 128, 0, 0, TNI_CLT_ROWS_SUM, tni_clt_, quant_q8g128n_f32_1x128_scalar),
    TNI_CLT_ROW(TNI_CLT_QUANT, TNI_CLT_W4G, 32, 0, 0, TNI_CLT_SLABS, tni_clt_, quant_q8g32k_f32_1x32_scalar),
    TNI_CLT_ROW(TNI_CLT_QUANT, TNI_CLT_W4G, 128, 0, 0, TNI_CLT_SLABS, tni_clt_, quant_q8g128k_f32_1x128_scalar),
    TNI_X86_EACH_LEV_AMX(LEV_AMX_READS) TNI_CLT_SCALAR_ROWS,
    LUT(TNI_CLT_LUT1, lut1),
    LUT(TNI_CLT_LUT2, lut2),
    LUT(TNI_CLT_LUT3, lut3),
    LUT(TNI_CLT_LUT4, lut4),
    LUT(TNI_CLT_LUTT, lutt),
    DOTS(TNI_CLT_W8G, w8g, 4x16),
    DOTS(TNI_CLT_W3G, w3g, 6x16),
    DOTS(TNI_CLT_W2G, w2g, 6x16),
    DOTS(TNI_CLT_W1G, w1g, 6x16),
    DOTS(TNI_CLT_TERN20, tern20, 6x16),
    DOTS(TNI_CLT_TERN17, tern17, 6x16),
    DOTS(TNI_CLT_PAL16, pal16, 4x16),
    W4G(QUANT, 32, quant_q8g32_f32_1x32_avx2),
    W4G(QUANT, 128, quant_q8g128_f32_1x128_avx2),
    W4G(GEMV, 32, gemv_f32_q8g32_w4g32_1x16_avx2),
    W4G(GEMV, 128, gemv_f32_q8g128_w4g128_1x16_avx2),
    TNI_CLT_ROW(TNI_CLT_GEMV, TNI_CLT_W4G, 32, AVX2 | TNI_CPU_PREFETCH, 0, TNI_CLT_ROWS_S16, tni_x86_,
                gemv_f32_q8g32_w4g32_1x16_avx2_prefetch),
    TNI_CLT_ROW(TNI_CLT_GEMV, TNI_CLT_W4G, 128, AVX2 | TNI_CPU_PREFETCH, 0, TNI_CLT_ROWS_S16, tni_x86_,
                gemv_f32_q8g128_w4g128_1x16_avx2_prefetch),
    FROM(32, AVX2, 2, gemm_f32_q8g32_w4g32_4x16_avx2),
    FROM(128, AVX2, 2, gemm_f32_q8g128_w4g128_4x16_avx2),
    FROM(32, AVX2 | TNI_CPU_PREFETCH, 2, gemm_f32_q8g32_w4g32_4x16_avx2_prefetch),
    FROM(128, AVX2 | TNI_CPU_PREFETCH, 2, gemm_f32_q8g128_w4g128_4x16_avx2_prefetch),
    FROM(32, AVX2, MANY_AVX2, gemm_f32_q8g32_w4g32_6x16_avx2),
    FROM(128, AVX2, MANY_AVX2, gemm_f32_q8g128_w4g128_6x16_avx2),
    VNNI(QUANT, 32, AVXVNNI, 0, quant_q8g32n_f32_1x32_avx2),
    VNNI(QUANT, 128, AVXVNNI, 0, quant_q8g128n_f32_1x128_avx2),
    VNNI(GEMV, 32, AVXVNNI, 0, gemv_f32_q8g32_w4g32_1x16_avxvnni),
    VNNI(GEMV, 128, AVXVNNI, 0, gemv_f32_q8g128_w4g128_1x16_avxvnni),
    VNNI(GEMV, 32, AVXVNNI | TNI_CPU_PREFETCH, 0, gemv_f32_q8g32_w4g32_1x16_avxvnni_prefetch),
    VNNI(GEMV, 128, AVXVNNI | TNI_CPU_PREFETCH, 0, gemv_f32_q8g128_w4g128_1x16_avxvnni_prefetch),
    VNNI(GEMM, 32, AVXVNNI, 0, gemm_f32_q8g32_w4g32_6x16_avxvnni),
    VNNI(GEMM, 128, AVXVNNI, 0, gemm_f32_q8g128_w4g128_6x16_avxvnni),
    VNNI(QUANT, 32, AVX2 | TNI_CPU_AVX512VNNI, 0, quant_q8g32n_f32_1x32_avx2),
    VNNI(QUANT, 128, AVX2 | TNI_CPU_AVX512VNNI, 0, quant_q8g128n_f32_1x128_avx2),
    VNNI(GEMV, 32, AVX2 | TNI_CPU_AVX512VNNI, 0, gemv_f32_q8g32_w4g32_1x16_avx512vnni),
    VNNI(GEMV, 128, AVX2 | TNI_CPU_AVX512VNNI, 0, gemv_f32_q8g128_w4g128_1x16_avx512vnni),
    VNNI(GEMV, 32, AVX512 | TNI_CPU_PREFETCH, 0, gemv_f32_q8g32_w4g32_1x16_avx512vnni_prefetch),
    VNNI(GEMV, 128, AVX512 | TNI_CPU_PREFETCH, 0, gemv_f32_q8g128_w4g128_1x16_avx512vnni_prefetch),
    VNNI(GEMM, 32, AVX512, 2, gemm_f32_q8g32_w4g32_4x16_avx512vnni),
    VNNI(GEMM, 128, AVX512, 2, gemm_f32_q8g128_w4g128_4x16_avx512vnni),
    VNNI(GEMM, 32, AVX512 | TNI_CPU_PREFETCH, 2, gemm_f32_q8g32_w4g32_4x16_avx512vnni_prefetch),
    VNNI(GEMM, 128, AVX512 | TNI_CPU_PREFETCH, 2, gemm_f32_q8g128_w4g128_4x16_avx512vnni_prefetch),
    VNNI(GEMM, 32, AVX512, MANY, gemm_f32_q8g32_w4g32_12x16_avx512vnni),
    VNNI(GEMM, 128, AVX512, MANY, gemm_f32_q8g128_w4g128_12x16_avx512vnni),
    VNNI(GEMM2, 32, AVX512, 6, gemm2_f32_q8g32_w4g32_6x32_avx512vnni),
    VNNI(GEMM2, 128, AVX512, 12, gemm2_f32_q8g128_w4g128_12x32_avx512vnni),
    AMX(QUANT, 32, quant_q8g32k_f32_1x32_avx2),
    AMX(QUANT, 128, quant_q8g128k_f32_1x128_avx2),
    AMX(GEMM, 32, gemm_f32_q8g32_w4g32_32x16_amx),
    AMX(GEMM, 128, gemm_f32_q8g128_w4g128_32x16_amx),
    AMX(GEMM2, 32, gemm2_f32_q8g32_w4g32_16x32_amx),
    AMX(GEMM2, 128, gemm2_f32_q8g128_w4g128_16x32_amx),
    TNI_CLT_SCALAR_GRID_ROWS TNI_CLT_EACH_GRID(GRIDS) TNI_X86_GRID_PAIRS(PAIRS)
        TNI_CLT_SCALAR_LEV_ROWS TNI_CLT_EACH_LEV(LEVS) TNI_CLT_EACH_LEV(LEV_PAIRS) TNI_X86_EACH_LEV_AMX(LEV_AMX)
            ANY(MATMUL, matmul_f32_f32_f32_6x16_avx2),
    ANY(BYTES, bytes_s32_u8_s8_6x16_avx2),
    TNI_CLT_ROW(TNI_CLT_BYTES, TNI_CLT_ANY, 0, AVXVNNI, 0, 0, tni_x86_, bytes_s32_u8_s8_2x32_avxvnni),
    TNI_CLT_ROW(TNI_CLT_BYTES, TNI_CLT_ANY, 0, AVX512, 0, 0, tni_x86_, bytes_s32_u8_s8_12x32_avx512vnni),
    TNI_CLT_ROW(TNI_CLT_BYTES, TNI_CLT_ANY, 0, AVX512 | TNI_CPU_AMX, 16, 0, tni_x86_, bytes_s32_u8_s8_32x32_amx),
    ANY(CHAIN, chain_f32_1x8_avx2),
    TNI_CLT_ROW(TNI_CLT_CHAIN, TNI_CLT_ANY, 0, AVX512, 0, 0, tni_x86_, chain_f32_1x16_avx512vnni),
};
#undef PAIRS
#undef LEV_PAIRS
#undef LEV_AMX
#undef LEV_AMX_READS
#undef LEV_AMX_ROW
#undef LEVS
#undef GRIDS
#undef FEW_GRID_8
#undef FEW_GRID_4
#undef FEW_GRID_2
#undef FEW_GRID
#undef GRID
#undef DOTS
#undef FEW_DOT_w8g
#undef FEW_DOT_w3g
#undef FEW_DOT_w2g
#undef FEW_DOT_w1g
#undef FEW_DOT_tern20
#undef FEW_DOT_tern17
#undef FEW_DOT_pal16
#undef DOT
#undef AMX
#undef MANY_AVX2
#undef MANY
#undef AVXVNNI
#undef AVX512
#undef AVERAGES
#undef LUT
#undef ANY
#undef VNNI
#undef W4G
#undef FROM
#undef AVX2

const tni_clt_table tni_x86_kernels = {avx2_rows, sizeof avx2_rows / sizeof *avx2_rows, 0};
