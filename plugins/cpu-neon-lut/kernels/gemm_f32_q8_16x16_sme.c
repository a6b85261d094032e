/* SPDX-License-Identifier: Apache-2.0
 *
 * Many rows by SME's SMOPA, two tiles of up to 16 rows by 16 outputs at a time. Panels are unpacked by NEON.
 */
#include "plugins/cpu-neon-lut/kernels/gemm_sme.h"

TNI_SME_MULTIPLY(sme)

#define TILES_sme(bits, group) \
  (tni_arm_tiles) { false, tiles##group##_sme, taking##group##_sme }
#define W4G(group)                                                                                                    \
  void tni_arm_gemm_f32_q8g##group##_w4g##group##_16x16_sme(const uint8_t *row_block, size_t superblocks,             \
                                                            const tni_clt_act *a, size_t m0, size_t m1, float *acc) { \
    tni_arm_gemm(tni_arm_w4g(group), true, TILES_sme(4, group), row_block, superblocks, a, m0, m1, acc);              \
  }
W4G(32)
W4G(128)
#define GRID(group, bits) TNI_ARM_GEMM_GRID(group, bits, 16x16, sme)
TNI_CLT_EACH_GRID(GRID)
#define DOT(id, code_bytes, head, step, palette) \
  TNI_ARM_GEMM_DOT(id, sme, 16x16, false, code_bytes, head, step, palette, tiles128_sme)
TNI_ARM_EACH_DOT(DOT)
TNI_ARM_GEMM_TERN17(sme, 16x16, false, tiles128_sme)
TNI_ARM_GEMM_DOT_GRID(w8g, 8, 16x16, sme)
TNI_ARM_GEMM_DOT_GRID(w2g, 2, 16x16, sme)
TNI_ARM_GEMM_LUTS(sme, 16x16, false)
#define LEV(id, ID, group, bytes) TNI_ARM_GEMM_LEV(id, ID, group, bytes, sme, 16x16, false, tiles##group##_sme)
TNI_ARM_EACH_LEV(LEV)
