/* SPDX-License-Identifier: Apache-2.0
 *
 * Tiles of 32 outputs over two panels: how the sums of row i, s<i> and t<i>, begin. Who includes it has p, g, zero,
 * z_stride and SHIFT in its scope. Only for tiles_q8_*x32_avx512vnni.c.
 */
#ifndef TENON_CPU_AVX2_LUT_KERNELS_TILES_X32_H
#define TENON_CPU_AVX2_LUT_KERNELS_TILES_X32_H

/* A: one zero point in every byte; Z: zero points of their own (tni_x86_grid_panel), times the sums of x. */
#define OPEN_A const tni_x86_panel *p1 = &p[1];
#define OPEN_Z                                                               \
  const tni_x86_grid_panel *z = (const tni_x86_grid_panel *)(const void *)p; \
  const tni_x86_panel *p1 = &z[1].p;
#define ZEROS_A
#define ZEROS_Z const __m512i zeros0 = _mm512_load_si512(z[0].zero[g]), zeros1 = _mm512_load_si512(z[1].zero[g]);
#define START_A(i) __m512i s##i = _mm512_slli_epi32(_mm512_set1_epi32(zero[(i)*z_stride]), SHIFT), t##i = s##i;
#define START_Z(i)                                                                  \
  const __m512i n##i = _mm512_srai_epi32(_mm512_set1_epi32(zero[(i)*z_stride]), 3); \
  __m512i s##i = _mm512_madd_epi16(n##i, zeros0), t##i = _mm512_madd_epi16(n##i, zeros1);

#endif
