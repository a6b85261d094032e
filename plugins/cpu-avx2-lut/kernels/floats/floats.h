/* SPDX-License-Identifier: Apache-2.0
 *
 * Products of floats and chains of element-wise operations; shapes, layouts and names are those of
 * plugins/common/cpu/kernels/kernels.h.
 */
#ifndef TENON_CPU_AVX2_FLOATS_H
#define TENON_CPU_AVX2_FLOATS_H

#include "plugins/common/cpu/kernels/kernels.h"

void tni_x86_matmul_f32_f32_f32_6x16_avx2(const tni_clt_matmul *m);
const tni_cm_chain_kernels *tni_x86_chain_f32_1x8_avx2(void);
const tni_cm_chain_kernels *tni_x86_chain_f32_1x16_avx512vnni(void);

/* F(0) .. F(n - 1): register tiles are named variables made by macros, as some compilers spill arrays of vectors. */
#define TNI_X86_REP1(F) F(0)
#define TNI_X86_REP2(F) TNI_X86_REP1(F) F(1)
#define TNI_X86_REP3(F) TNI_X86_REP2(F) F(2)
#define TNI_X86_REP4(F) TNI_X86_REP3(F) F(3)
#define TNI_X86_REP5(F) TNI_X86_REP4(F) F(4)
#define TNI_X86_REP6(F) TNI_X86_REP5(F) F(5)

#endif
