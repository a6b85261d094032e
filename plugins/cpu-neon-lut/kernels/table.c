/* SPDX-License-Identifier: Apache-2.0
 *
 * From five rows of x on, SMMLA over tiles of 8 rows; below, a tile would be mostly empty.
 */
#include "plugins/cpu-neon-lut/kernels/kernels.h"

#define NEON TNI_CPU_NEON
#define DOTPROD (NEON | TNI_CPU_DOTPROD)
#define I8MM (DOTPROD | TNI_CPU_I8MM)
#define W4G(op, group, features, min_m, layout, name) \
  TNI_CLT_ROW(TNI_CLT_##op, TNI_CLT_W4G, group, features, min_m, TNI_CLT_##layout, tni_arm_, name)
#define ANY(op, name) TNI_CLT_ROW(TNI_CLT_##op, TNI_CLT_ANY, 0, NEON, 0, 0, tni_arm_, name)
#define LUT(format, id, base)                                                                                      \
  TNI_CLT_ROW(TNI_CLT_QUANT, format, 128, 0, 5, TNI_CLT_HALVES8, tni_clt_, quant_q9g128h_f32_8x128_scalar),        \
      TNI_CLT_ROW(TNI_CLT_QUANT, format, 128, 0, 2, TNI_CLT_HALVES, tni_clt_, quant_q9g128h_f32_1x128_scalar),     \
      TNI_CLT_SCALAR_LUT_ROWS(format, id, base),                                                                   \
      TNI_CLT_ROW(TNI_CLT_QUANT, format, 128, NEON, 0, TNI_CLT_TABLES, tni_arm_, tables_##base##_f32_1x128_neon),  \
      TNI_CLT_ROW(TNI_CLT_QUANT, format, 128, NEON, 2, TNI_CLT_Q16, tni_arm_, quant_q9g128_f32_1x128_neon),        \
      TNI_CLT_ROW(TNI_CLT_GEMV, format, 128, NEON, 0, TNI_CLT_TABLES, tni_arm_, gemv_f32_##id##_1x16_neon),        \
      TNI_CLT_ROW(TNI_CLT_GEMM, format, 128, NEON, 0, TNI_CLT_Q16, tni_arm_, gemm_f32_##id##_4x16_neon),           \
      TNI_CLT_ROW(TNI_CLT_QUANT, format, 128, DOTPROD, 2, TNI_CLT_HALVES, tni_arm_, quant_q9g128h_f32_1x128_neon), \
      TNI_CLT_ROW(TNI_CLT_GEMM, format, 128, DOTPROD, 2, TNI_CLT_HALVES, tni_arm_, gemm_f32_##id##_4x8_dotprod),   \
      TNI_CLT_ROW(TNI_CLT_QUANT, format, 128, I8MM, 5, TNI_CLT_HALVES8, tni_arm_, quant_q9g128h_f32_8x128_neon),   \
      TNI_CLT_ROW(TNI_CLT_GEMM, format, 128, I8MM, 5, TNI_CLT_HALVES8, tni_arm_, gemm_f32_##id##_4x8_i8mm)

/* Activations as w4g has them, in groups of 16 and 64 too; the scalar kernels' own stay theirs. */
#define GRID(op, group, bits, features, min_m, layout, name) \
  TNI_CLT_ROW(TNI_CLT_##op, TNI_CLT_GRID##bits, group, features, min_m, TNI_CLT_##layout, tni_arm_, name),
#define GRID_REFERENCES(group, bits)                                                        \
  TNI_CLT_ROW(TNI_CLT_QUANT, TNI_CLT_GRID##bits, group, 0, 0, TNI_CLT_ROWS_S32, tni_clt_,   \
              quant_q8g##group##s_f32_1x##group##_scalar),                                  \
      TNI_CLT_ROW(TNI_CLT_QUANT, TNI_CLT_GRID##bits, group, 0, 0, TNI_CLT_TILES8, tni_clt_, \
                  quant_q8g##group##s_f32_8x##group##_scalar),
#define GRIDS(group, bits)                                                                       \
  GRID(QUANT, group, bits, NEON, 0, ROWS_S32, quant_q8g##group##s_f32_1x##group##_neon)          \
  GRID(QUANT, group, bits, I8MM, 5, TILES8, quant_q8g##group##s_f32_8x##group##_neon)            \
  GRID(GEMV, group, bits, NEON, 0, ROWS_S32, gemv_f32_q8g##group##_grid##bits##_1x16_neon)       \
  GRID(GEMV, group, bits, DOTPROD, 0, ROWS_S32, gemv_f32_q8g##group##_grid##bits##_1x16_dotprod) \
  GRID(GEMM, group, bits, NEON, 0, ROWS_S32, gemm_f32_q8g##group##_grid##bits##_2x16_neon)       \
  GRID(GEMM, group, bits, DOTPROD, 0, ROWS_S32, gemm_f32_q8g##group##_grid##bits##_4x8_dotprod)  \
  GRID(GEMM, group, bits, I8MM, 5, TILES8, gemm_f32_q8g##group##_grid##bits##_4x8_i8mm)
/* Formats of dot.h: what grids of groups of 128 have. */
#define DOT(op, ID, features, min_m, layout, name) \
  TNI_CLT_ROW(TNI_CLT_##op, TNI_CLT_##ID, 128, features, min_m, TNI_CLT_##layout, tni_arm_, name),
#define DOTS(ID, id)                                                                                                 \
  TNI_CLT_ROW(TNI_CLT_QUANT, TNI_CLT_##ID, 128, 0, 0, TNI_CLT_ROWS_S32, tni_clt_, quant_q8g128s_f32_1x128_scalar),   \
      TNI_CLT_ROW(TNI_CLT_QUANT, TNI_CLT_##ID, 128, 0, 0, TNI_CLT_TILES8, tni_clt_, quant_q8g128s_f32_8x128_scalar), \
      TNI_CLT_SCALAR_DOT_ROWS(TNI_CLT_##ID, id),                                                                     \
      DOT(QUANT, ID, NEON, 0, ROWS_S32, quant_q8g128s_f32_1x128_neon)                                                \
          DOT(QUANT, ID, I8MM, 5, TILES8, quant_q8g128s_f32_8x128_neon)                                              \
              DOT(GEMV, ID, NEON, 0, ROWS_S32, gemv_f32_q8g128_##id##_1x16_neon)                                     \
                  DOT(GEMV, ID, DOTPROD, 0, ROWS_S32, gemv_f32_q8g128_##id##_1x16_dotprod)                           \
                      DOT(GEMM, ID, NEON, 0, ROWS_S32, gemm_f32_q8g128_##id##_2x16_neon)                             \
                          DOT(GEMM, ID, DOTPROD, 0, ROWS_S32, gemm_f32_q8g128_##id##_4x8_dotprod)                    \
                              DOT(GEMM, ID, I8MM, 5, TILES8, gemm_f32_q8g128_##id##_4x8_i8mm)
/* Formats of lev.h: groups of 16 or 32. */
#define LEV(op, ID, group, features, min_m, layout, name) \
  TNI_CLT_ROW(TNI_CLT_##op, TNI_CLT_##ID, group, features, min_m, TNI_CLT_##layout, tni_arm_, name),
#define LEV_REFERENCES(id, ID, group)                                                 \
  TNI_CLT_ROW(TNI_CLT_QUANT, TNI_CLT_##ID, group, 0, 0, TNI_CLT_ROWS_S32, tni_clt_,   \
              quant_q8g##group##s_f32_1x##group##_scalar),                            \
      TNI_CLT_ROW(TNI_CLT_QUANT, TNI_CLT_##ID, group, 0, 0, TNI_CLT_TILES8, tni_clt_, \
                  quant_q8g##group##s_f32_8x##group##_scalar),
#define LEVS(id, ID, group)                                                             \
  LEV(QUANT, ID, group, NEON, 0, ROWS_S32, quant_q8g##group##s_f32_1x##group##_neon)    \
  LEV(QUANT, ID, group, I8MM, 5, TILES8, quant_q8g##group##s_f32_8x##group##_neon)      \
  LEV(GEMV, ID, group, NEON, 0, ROWS_S32, gemv_f32_q8g##group##_##id##_1x16_neon)       \
  LEV(GEMV, ID, group, DOTPROD, 0, ROWS_S32, gemv_f32_q8g##group##_##id##_1x16_dotprod) \
  LEV(GEMM, ID, group, NEON, 0, ROWS_S32, gemm_f32_q8g##group##_##id##_2x16_neon)       \
  LEV(GEMM, ID, group, DOTPROD, 0, ROWS_S32, gemm_f32_q8g##group##_##id##_4x8_dotprod)  \
  LEV(GEMM, ID, group, I8MM, 5, TILES8, gemm_f32_q8g##group##_##id##_4x8_i8mm)
#define BYTE_GEMV(group) GRID(GEMV, group, 8, I8MM, 0, ROWS_S32, gemv_f32_q8g##group##_grid8_1x16_i8mm)

static const tni_clt_kernel neon_rows[] = {
    /* References of the layouts below; what follows serves x of any length without features. */
    TNI_CLT_ROW(TNI_CLT_QUANT, TNI_CLT_W4G, 32, 0, 0, TNI_CLT_ROWS_S32, tni_clt_, quant_q8g32s_f32_1x32_scalar),
    TNI_CLT_ROW(TNI_CLT_QUANT, TNI_CLT_W4G, 128, 0, 0, TNI_CLT_ROWS_S32, tni_clt_, quant_q8g128s_f32_1x128_scalar),
    TNI_CLT_ROW(TNI_CLT_QUANT, TNI_CLT_W4G, 32, 0, 0, TNI_CLT_TILES8, tni_clt_, quant_q8g32s_f32_8x32_scalar),
    TNI_CLT_ROW(TNI_CLT_QUANT, TNI_CLT_W4G, 128, 0, 0, TNI_CLT_TILES8, tni_clt_, quant_q8g128s_f32_8x128_scalar),
    TNI_CLT_SCALAR_ROWS,
    DOTS(W8G, w8g) DOTS(W3G, w3g) DOTS(W2G, w2g) DOTS(W1G, w1g) DOTS(TERN20, tern20) DOTS(PAL16, pal16)
        DOT(GEMV, W8G, I8MM, 0, ROWS_S32, gemv_f32_q8g128_w8g_1x16_i8mm) LUT(TNI_CLT_LUT1, lut1p, lut1),
    LUT(TNI_CLT_LUT2, lut2p, lut2),
    LUT(TNI_CLT_LUT3, lut3p, lut3),
    LUT(TNI_CLT_LUT4, lut4p, lut4),
    LUT(TNI_CLT_LUTT, luttp, lutt),
    W4G(QUANT, 32, NEON, 0, ROWS_S32, quant_q8g32s_f32_1x32_neon),
    W4G(QUANT, 128, NEON, 0, ROWS_S32, quant_q8g128s_f32_1x128_neon),
    W4G(QUANT, 32, I8MM, 5, TILES8, quant_q8g32s_f32_8x32_neon),
    W4G(QUANT, 128, I8MM, 5, TILES8, quant_q8g128s_f32_8x128_neon),
    W4G(GEMV, 32, NEON, 0, ROWS_S32, gemv_f32_q8g32_w4g32_1x16_neon),
    W4G(GEMV, 128, NEON, 0, ROWS_S32, gemv_f32_q8g128_w4g128_1x16_neon),
    W4G(GEMV, 32, DOTPROD, 0, ROWS_S32, gemv_f32_q8g32_w4g32_1x16_dotprod),
    W4G(GEMV, 128, DOTPROD, 0, ROWS_S32, gemv_f32_q8g128_w4g128_1x16_dotprod),
    W4G(GEMM, 32, NEON, 0, ROWS_S32, gemm_f32_q8g32_w4g32_2x16_neon),
    W4G(GEMM, 128, NEON, 0, ROWS_S32, gemm_f32_q8g128_w4g128_2x16_neon),
    W4G(GEMM, 32, DOTPROD, 0, ROWS_S32, gemm_f32_q8g32_w4g32_4x8_dotprod),
    W4G(GEMM, 128, DOTPROD, 0, ROWS_S32, gemm_f32_q8g128_w4g128_4x8_dotprod),
    W4G(GEMM, 32, I8MM, 5, TILES8, gemm_f32_q8g32_w4g32_4x8_i8mm),
    W4G(GEMM, 128, I8MM, 5, TILES8, gemm_f32_q8g128_w4g128_4x8_i8mm),
    TNI_CLT_EACH_LEV(LEV_REFERENCES) TNI_CLT_SCALAR_LEV_ROWS TNI_CLT_EACH_LEV(LEVS) TNI_CLT_EACH_GRID(GRID_REFERENCES)
        TNI_CLT_SCALAR_GRID_ROWS TNI_CLT_EACH_GRID(GRIDS) BYTE_GEMV(16) BYTE_GEMV(32) BYTE_GEMV(64) BYTE_GEMV(128)
            ANY(MATMUL, matmul_f32_f32_f32_4x16_neon),
    ANY(BYTES, bytes_s32_u8_s8_2x16_neon),
    TNI_CLT_ROW(TNI_CLT_BYTES, TNI_CLT_ANY, 0, DOTPROD, 0, 0, tni_arm_, bytes_s32_u8_s8_4x16_dotprod),
    TNI_CLT_ROW(TNI_CLT_BYTES, TNI_CLT_ANY, 0, I8MM, 0, 0, tni_arm_, bytes_s32_u8_s8_8x8_i8mm),
    ANY(CHAIN, chain_f32_1x4_neon),
};
#undef BYTE_GEMV
#undef LEVS
#undef LEV_REFERENCES
#undef LEV
#undef DOTS
#undef DOT
#undef GRIDS
#undef GRID_REFERENCES
#undef GRID
#undef LUT
#undef ANY
#undef W4G
#undef I8MM
#undef DOTPROD
#undef NEON

const tni_clt_table tni_arm_kernels = {neon_rows, sizeof neon_rows / sizeof *neon_rows, 0};
