/* SPDX-License-Identifier: Apache-2.0
 *
 * From five rows of x on, SMMLA over tiles of 8 rows, and where SME is asked for from 16 on SMOPA over tiles of 16;
 * below, a tile would be mostly empty.
 */
#include "plugins/cpu-neon-lut/kernels/kernels.h"

#define NEON TNI_CPU_NEON
#define DOTPROD (NEON | TNI_CPU_DOTPROD)
#define I8MM (DOTPROD | TNI_CPU_I8MM)
#define SME (I8MM | TNI_CPU_SME)
#define SME2 (SME | TNI_CPU_SME2)
#define W4G(op, group, features, min_m, layout, name) \
  TNI_CLT_ROW(TNI_CLT_##op, TNI_CLT_W4G, group, features, min_m, TNI_CLT_##layout, tni_arm_, name)
#define ANY(op, name) TNI_CLT_ROW(TNI_CLT_##op, TNI_CLT_ANY, 0, NEON, 0, 0, tni_arm_, name)
#define NARROW TNI_CLT_NARROW
#define LUT(format, id, base)                                                                                      \
  TNI_CLT_ROW(TNI_CLT_QUANT, format, 128, 0, 16, TNI_CLT_TILES16, tni_clt_, quant_r8g128s_f32_16x128_scalar),      \
      TNI_CLT_ROW(TNI_CLT_QUANT, format, 128, 0, 5, TNI_CLT_TILES8, tni_clt_, quant_r8g128s_f32_8x128_scalar),     \
      TNI_CLT_ROW(TNI_CLT_QUANT, format, 128, 0, 2, TNI_CLT_ROWS_S32, tni_clt_, quant_r8g128s_f32_1x128_scalar),   \
      TNI_CLT_ROW(TNI_CLT_QUANT, format, 128, 0, 16, TNI_CLT_HALVES16, tni_clt_, quant_q9g128h_f32_16x128_scalar), \
      TNI_CLT_ROW(TNI_CLT_QUANT, format, 128, 0, 5, TNI_CLT_HALVES8, tni_clt_, quant_q9g128h_f32_8x128_scalar),    \
      TNI_CLT_ROW(TNI_CLT_QUANT, format, 128, 0, 2, TNI_CLT_HALVES, tni_clt_, quant_q9g128h_f32_1x128_scalar),     \
      TNI_CLT_SCALAR_LUT_ROWS(format, id, base),                                                                   \
      TNI_CLT_ROW(TNI_CLT_QUANT, format, 128, NEON, 0, TNI_CLT_TABLES, tni_arm_, tables_##base##_f32_1x128_neon),  \
      TNI_CLT_ROW(TNI_CLT_QUANT, format, 128, NEON, 2, TNI_CLT_Q16, tni_arm_, quant_q9g128_f32_1x128_neon),        \
      TNI_CLT_ROW(TNI_CLT_GEMV, format, 128, NEON, 0, TNI_CLT_TABLES, tni_arm_, gemv_f32_##id##_1x16_neon),        \
      TNI_CLT_ROW(TNI_CLT_GEMM, format, 128, NEON, 0, TNI_CLT_Q16, tni_arm_, gemm_f32_##id##_4x16_neon),           \
      TNI_CLT_ROW(TNI_CLT_QUANT, format, 128, DOTPROD, 2, TNI_CLT_HALVES, tni_arm_, quant_q9g128h_f32_1x128_neon), \
      TNI_CLT_ROW(TNI_CLT_GEMM, format, 128, DOTPROD, 2, TNI_CLT_HALVES, tni_arm_, gemm_f32_##id##_4x8_dotprod),   \
      TNI_CLT_ROW(TNI_CLT_QUANT, format, 128, I8MM, 5, TNI_CLT_HALVES8, tni_arm_, quant_q9g128h_f32_8x128_neon),   \
      TNI_CLT_ROW(TNI_CLT_GEMM, format, 128, I8MM, 5, TNI_CLT_HALVES8, tni_arm_, gemm_f32_##id##_4x8_i8mm),        \
      TNI_CLT_ROW(TNI_CLT_QUANT, format, 128, SME, 16, TNI_CLT_HALVES16, tni_arm_, quant_q9g128h_f32_16x128_neon), \
      TNI_CLT_ROW(TNI_CLT_GEMM, format, 128, SME, 16, TNI_CLT_HALVES16, tni_arm_, gemm_f32_##id##_16x16_sme),      \
      TNI_CLT_ROW(TNI_CLT_GEMM, format, 128, SME2, 16, TNI_CLT_HALVES16, tni_arm_, gemm_f32_##id##_16x16_sme2),    \
      TNI_CLT_ROW(TNI_CLT_QUANT, format, 128, NARROW | NEON, 2, TNI_CLT_ROWS_S32, tni_arm_,                        \
                  quant_r8g128s_f32_1x128_neon),                                                                   \
      TNI_CLT_ROW(TNI_CLT_GEMM, format, 128, NARROW | NEON, 2, TNI_CLT_ROWS_S32, tni_arm_,                         \
                  gemm_f32_q8g128_##id##_2x16_neon),                                                               \
      TNI_CLT_ROW(TNI_CLT_GEMM, format, 128, NARROW | DOTPROD, 2, TNI_CLT_ROWS_S32, tni_arm_,                      \
                  gemm_f32_q8g128_##id##_4x8_dotprod),                                                             \
      TNI_CLT_ROW(TNI_CLT_QUANT, format, 128, NARROW | I8MM, 5, TNI_CLT_TILES8, tni_arm_,                          \
                  quant_r8g128s_f32_8x128_neon),                                                                   \
      TNI_CLT_ROW(TNI_CLT_GEMM, format, 128, NARROW | I8MM, 5, TNI_CLT_TILES8, tni_arm_,                           \
                  gemm_f32_q8g128_##id##_4x8_i8mm),                                                                \
      TNI_CLT_ROW(TNI_CLT_QUANT, format, 128, NARROW | SME, 16, TNI_CLT_TILES16, tni_arm_,                         \
                  quant_r8g128s_f32_16x128_neon),                                                                  \
      TNI_CLT_ROW(TNI_CLT_GEMM, format, 128, NARROW | SME, 16, TNI_CLT_TILES16, tni_arm_,                          \
                  gemm_f32_q8g128_##id##_16x16_sme),                                                               \
      TNI_CLT_ROW(TNI_CLT_GEMM, format, 128, NARROW | SME2, 16, TNI_CLT_TILES16, tni_arm_,                         \
                  gemm_f32_q8g128_##id##_16x16_sme2)

/* Formats whose activations are those of w4g, in groups of 16 to 128; the scalar kernels' own stay theirs. */
#define ROW(op, ID, group, features, min_m, layout, name) \
  TNI_CLT_ROW(TNI_CLT_##op, TNI_CLT_##ID, group, features, min_m, TNI_CLT_##layout, tni_arm_, name),
#define REFERENCES(id, ID, group)                                                      \
  TNI_CLT_ROW(TNI_CLT_QUANT, TNI_CLT_##ID, group, 0, 0, TNI_CLT_ROWS_S32, tni_clt_,    \
              quant_q8g##group##s_f32_1x##group##_scalar),                             \
      TNI_CLT_ROW(TNI_CLT_QUANT, TNI_CLT_##ID, group, 0, 0, TNI_CLT_TILES8, tni_clt_,  \
                  quant_q8g##group##s_f32_8x##group##_scalar),                         \
      TNI_CLT_ROW(TNI_CLT_QUANT, TNI_CLT_##ID, group, 0, 0, TNI_CLT_TILES16, tni_clt_, \
                  quant_q8g##group##s_f32_16x##group##_scalar),
#define KERNELS(id, ID, group)                                                          \
  ROW(QUANT, ID, group, NEON, 0, ROWS_S32, quant_q8g##group##s_f32_1x##group##_neon)    \
  ROW(QUANT, ID, group, I8MM, 5, TILES8, quant_q8g##group##s_f32_8x##group##_neon)      \
  ROW(GEMV, ID, group, NEON, 0, ROWS_S32, gemv_f32_q8g##group##_##id##_1x16_neon)       \
  ROW(GEMV, ID, group, DOTPROD, 0, ROWS_S32, gemv_f32_q8g##group##_##id##_1x16_dotprod) \
  ROW(GEMM, ID, group, NEON, 0, ROWS_S32, gemm_f32_q8g##group##_##id##_2x16_neon)       \
  ROW(GEMM, ID, group, DOTPROD, 0, ROWS_S32, gemm_f32_q8g##group##_##id##_4x8_dotprod)  \
  ROW(GEMM, ID, group, I8MM, 5, TILES8, gemm_f32_q8g##group##_##id##_4x8_i8mm)          \
  ROW(QUANT, ID, group, SME, 16, TILES16, quant_q8g##group##s_f32_16x##group##_neon)    \
  ROW(GEMM, ID, group, SME, 16, TILES16, gemm_f32_q8g##group##_##id##_16x16_sme)        \
  ROW(GEMM, ID, group, SME2, 16, TILES16, gemm_f32_q8g##group##_##id##_16x16_sme2)
#define GRID_REFERENCES(group, bits) REFERENCES(grid##bits, GRID##bits, group)
#define GRID_KERNELS(group, bits) KERNELS(grid##bits, GRID##bits, group)
#define DOTS(ID, id) REFERENCES(id, ID, 128) TNI_CLT_SCALAR_DOT_ROWS(TNI_CLT_##ID, id), KERNELS(id, ID, 128)
#define BYTE_GEMV(group) ROW(GEMV, GRID8, group, I8MM, 0, ROWS_S32, gemv_f32_q8g##group##_grid8_1x16_i8mm)

static const tni_clt_kernel neon_rows[] = {
    /* References of the layouts below; what follows serves x of any length without features. */
    TNI_CLT_ROW(TNI_CLT_QUANT, TNI_CLT_W4G, 32, 0, 0, TNI_CLT_ROWS_S32, tni_clt_, quant_q8g32s_f32_1x32_scalar),
    TNI_CLT_ROW(TNI_CLT_QUANT, TNI_CLT_W4G, 128, 0, 0, TNI_CLT_ROWS_S32, tni_clt_, quant_q8g128s_f32_1x128_scalar),
    TNI_CLT_ROW(TNI_CLT_QUANT, TNI_CLT_W4G, 32, 0, 0, TNI_CLT_TILES8, tni_clt_, quant_q8g32s_f32_8x32_scalar),
    TNI_CLT_ROW(TNI_CLT_QUANT, TNI_CLT_W4G, 32, 0, 0, TNI_CLT_TILES16, tni_clt_, quant_q8g32s_f32_16x32_scalar),
    TNI_CLT_ROW(TNI_CLT_QUANT, TNI_CLT_W4G, 128, 0, 0, TNI_CLT_TILES8, tni_clt_, quant_q8g128s_f32_8x128_scalar),
    TNI_CLT_ROW(TNI_CLT_QUANT, TNI_CLT_W4G, 128, 0, 0, TNI_CLT_TILES16, tni_clt_, quant_q8g128s_f32_16x128_scalar),
    TNI_CLT_SCALAR_ROWS,
    DOTS(W8G, w8g) DOTS(W3G, w3g) DOTS(W2G, w2g) DOTS(W1G, w1g) DOTS(TERN20, tern20) DOTS(TERN17, tern17)
        DOTS(PAL16, pal16) ROW(GEMV, W8G, 128, I8MM, 0, ROWS_S32, gemv_f32_q8g128_w8g_1x16_i8mm)
            LUT(TNI_CLT_LUT1, lut1p, lut1),
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
    W4G(QUANT, 32, SME, 16, TILES16, quant_q8g32s_f32_16x32_neon),
    W4G(GEMM, 32, SME, 16, TILES16, gemm_f32_q8g32_w4g32_16x16_sme),
    W4G(GEMM, 32, SME2, 16, TILES16, gemm_f32_q8g32_w4g32_16x16_sme2),
    W4G(QUANT, 128, SME, 16, TILES16, quant_q8g128s_f32_16x128_neon),
    W4G(GEMM, 128, SME, 16, TILES16, gemm_f32_q8g128_w4g128_16x16_sme),
    W4G(GEMM, 128, SME2, 16, TILES16, gemm_f32_q8g128_w4g128_16x16_sme2),
    TNI_CLT_EACH_LEV(REFERENCES) TNI_CLT_SCALAR_LEV_ROWS TNI_CLT_EACH_LEV(KERNELS) TNI_CLT_EACH_GRID(GRID_REFERENCES)
        TNI_CLT_SCALAR_GRID_ROWS TNI_CLT_EACH_GRID(GRID_KERNELS) BYTE_GEMV(16) BYTE_GEMV(32) BYTE_GEMV(64)
            BYTE_GEMV(128) ANY(MATMUL, matmul_f32_f32_f32_4x16_neon),
    ANY(BYTES, bytes_s32_u8_s8_2x16_neon),
    TNI_CLT_ROW(TNI_CLT_BYTES, TNI_CLT_ANY, 0, DOTPROD, 0, 0, tni_arm_, bytes_s32_u8_s8_4x16_dotprod),
    TNI_CLT_ROW(TNI_CLT_BYTES, TNI_CLT_ANY, 0, I8MM, 0, 0, tni_arm_, bytes_s32_u8_s8_8x8_i8mm),
    TNI_CLT_ROW(TNI_CLT_BYTES, TNI_CLT_ANY, 0, SME, 16, 0, tni_arm_, bytes_s32_u8_s8_16x32_sme),
    TNI_CLT_ROW(TNI_CLT_MATMUL, TNI_CLT_ANY, 0, SME, 16, 0, tni_arm_, matmul_f32_f32_f32_16x48_sme),
    ANY(CHAIN, chain_f32_1x4_neon),
};
#undef BYTE_GEMV
#undef DOTS
#undef GRID_KERNELS
#undef GRID_REFERENCES
#undef KERNELS
#undef REFERENCES
#undef ROW
#undef LUT
#undef NARROW
#undef ANY
#undef W4G
#undef SME2
#undef SME
#undef I8MM
#undef DOTPROD
#undef NEON

const tni_clt_table tni_arm_kernels = {neon_rows, sizeof neon_rows / sizeof *neon_rows, 0};
