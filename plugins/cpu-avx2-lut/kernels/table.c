/* SPDX-License-Identifier: Apache-2.0 */
#include "plugins/cpu-avx2-lut/kernels/kernels.h"

#define AVX2 (TNI_CPU_AVX2 | TNI_CPU_FMA | TNI_CPU_F16C)
#define ROW(op, group, features, name) \
  { op, group, features, 0, #name, (void (*)(void))tni_x86_##name }

static const tni_x86_kernel table[] = {
    ROW(TNI_X86_QUANT, 32, 0, quant_q8g32_f32_1x32_scalar),
    ROW(TNI_X86_QUANT, 32, AVX2, quant_q8g32_f32_1x32_avx2),
    ROW(TNI_X86_QUANT, 128, 0, quant_q8g128_f32_1x128_scalar),
    ROW(TNI_X86_QUANT, 128, AVX2, quant_q8g128_f32_1x128_avx2),
    ROW(TNI_X86_GEMV, 32, 0, gemv_f32_q8g32_w4g32_1x16_scalar),
    ROW(TNI_X86_GEMV, 32, AVX2, gemv_f32_q8g32_w4g32_1x16_avx2),
    ROW(TNI_X86_GEMV, 128, 0, gemv_f32_q8g128_w4g128_1x16_scalar),
    ROW(TNI_X86_GEMV, 128, AVX2, gemv_f32_q8g128_w4g128_1x16_avx2),
    ROW(TNI_X86_GEMM, 32, 0, gemm_f32_q8g32_w4g32_1x16_scalar),
    ROW(TNI_X86_GEMM, 32, AVX2, gemm_f32_q8g32_w4g32_6x16_avx2),
    ROW(TNI_X86_GEMM, 128, 0, gemm_f32_q8g128_w4g128_1x16_scalar),
    ROW(TNI_X86_GEMM, 128, AVX2, gemm_f32_q8g128_w4g128_6x16_avx2),
    ROW(TNI_X86_MATMUL, 0, 0, matmul_f32_f32_f32_1x1_scalar),
    ROW(TNI_X86_MATMUL, 0, AVX2, matmul_f32_f32_f32_6x16_avx2),
    ROW(TNI_X86_CHAIN, 0, 0, chain_f32_1x1_scalar),
    ROW(TNI_X86_CHAIN, 0, AVX2, chain_f32_1x8_avx2),
};
#undef ROW
#undef AVX2

const tni_x86_kernel *tni_x86_kernels(uint32_t *n) {
  *n = sizeof table / sizeof *table;
  return table;
}

const tni_x86_kernel *tni_x86_select(uint32_t op, uint32_t group, uint32_t features) {
  const tni_x86_kernel *best = NULL;
  for (size_t i = 0; i < sizeof table / sizeof *table; i++)
    if (table[i].op == op && table[i].group == group && !(table[i].features & ~features)) best = &table[i];
  return best;
}
