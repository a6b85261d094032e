/* SPDX-License-Identifier: Apache-2.0
 *
 * One activation row times 16 outputs of a grid (plugins/common/formats/grid.h), in registers of any width. Who
 * includes it has defined ints, floats, OP(name) (the intrinsic of that width), LANES (outputs of a register),
 * group_sums (bits, group, codes, q, word -> exact sums of (code - half) * q), halves_at, bytes_at, floats_at,
 * rounded and ISA as the end of the kernels' names. Only for gemv_f32_q8_grid_1x16_*.c.
 */
#ifndef TENON_CPU_AVX2_LUT_KERNELS_GEMV_GRID_TEMPLATE_H
#define TENON_CPU_AVX2_LUT_KERNELS_GEMV_GRID_TEMPLATE_H

/* Sums of LANES outputs of a group, less their zero points. at: the first of its scales and zeros. */
__attribute__((always_inline)) static inline floats less_zeros(const tni_grid_layout *l, const uint8_t *zeros,
                                                               size_t at, float t, floats v) {
  const floats half = OP(set1_ps)((float)(1 << (l->bits - 1))), sum = OP(set1_ps)(t);
  if (l->zero_bits == 8) return OP(fmadd_ps)(OP(sub_ps)(half, bytes_at(zeros + at)), sum, v);
  const floats zero = floats_at(zeros + 4 * at), whole = rounded(zero);
  v = OP(fmadd_ps)(OP(sub_ps)(half, whole), sum, v);
  return OP(fmadd_ps)(OP(sub_ps)(whole, zero), sum, v);
}

__attribute__((always_inline)) static inline floats add_group(const tni_grid_layout *l, const uint8_t *sb, size_t at,
                                                              ints sums, float sx, float t, floats y) {
  floats v = OP(cvtepi32_ps)(sums);
  if (l->zero_bits) v = less_zeros(l, sb + l->zeros_at, at, t, v);
  const floats sw = l->scale_bits == 16 ? halves_at(sb + 2 * at) : floats_at(sb + 4 * at);
  return OP(fmadd_ps)(v, OP(mul_ps)(sw, OP(set1_ps)(sx)), y);
}

__attribute__((always_inline)) static inline void gemv_grid(uint32_t bits, uint32_t group, bool fetch,
                                                            const uint8_t *block, size_t superblocks,
                                                            const tni_clt_act *a, float *acc) {
  const tni_grid_layout l = tni_grid_layout_of(bits, group, a->scale_bits, a->zero_bits);
  const int8_t *q = a->q;
  const float *sx = a->scale;
  const int32_t *zero = a->zero;
  const size_t code_bytes = group * TNI_CLT_ROWS * bits / 8;
  floats y[TNI_CLT_ROWS / LANES];
  for (size_t h = 0; h < TNI_CLT_ROWS / LANES; h++) y[h] = OP(setzero_ps)();
  for (size_t sb = 0; sb < superblocks; sb++, block += l.bytes) {
    const uint8_t *codes = block + l.codes_at;
    for (size_t i = 0; fetch && i < l.bytes; i += 64)
      _mm_prefetch((const char *)block + TNI_X86_AHEAD + i, _MM_HINT_T0);
    for (size_t g = 0; g < l.groups; g++, sx++, zero++, q += group, codes += code_bytes)
      for (size_t h = 0; h < TNI_CLT_ROWS / LANES; h++)
        y[h] = add_group(&l, block, g * TNI_CLT_ROWS + h * LANES,
                         group_sums(bits, group, codes + h * LANES * 4, q, *zero), *sx, -0.125f * (float)*zero, y[h]);
  }
  for (size_t h = 0; h < TNI_CLT_ROWS / LANES; h++) OP(storeu_ps)(acc + h * LANES, y[h]);
}

#define KERNEL_NAMED(group, bits, isa) tni_x86_gemv_f32_q8g##group##_grid##bits##_1x16_##isa
#define KERNEL_FETCHES(group, bits, isa) tni_x86_gemv_f32_q8g##group##_grid##bits##_1x16_##isa##_prefetch
#define KERNEL_OF(name, group, bits, fetch)                                                   \
  void name(const uint8_t *row_block, size_t superblocks, const tni_clt_act *a, float *acc) { \
    gemv_grid(bits, group, fetch, row_block, superblocks, a, acc);                            \
  }
#define KERNELS_OF(group, bits, isa)                            \
  KERNEL_OF(KERNEL_NAMED(group, bits, isa), group, bits, false) \
  KERNEL_OF(KERNEL_FETCHES(group, bits, isa), group, bits, true)
#define KERNELS_WITH(group, bits, isa) KERNELS_OF(group, bits, isa)
#define KERNELS(group, bits) KERNELS_WITH(group, bits, ISA)
TNI_CLT_EACH_GRID(KERNELS)
#undef KERNELS
#undef KERNELS_WITH
#undef KERNELS_OF
#undef KERNEL_OF
#undef KERNEL_FETCHES
#undef KERNEL_NAMED

#endif
