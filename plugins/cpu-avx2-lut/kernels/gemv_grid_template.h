/* SPDX-License-Identifier: Apache-2.0
 *
 * One activation row times 16 outputs of a grid (plugins/common/formats/grid.h), in registers of any width. Who
 * includes it has defined ints, floats, OP(name) (the intrinsic of that width), LANES (outputs of a register),
 * group_sums (bits, group, codes, q, word -> exact sums of (code - half) * q), halves_at, bytes_at, floats_at,
 * rounded and ISA as the end of the kernels' names. Only for gemv_f32_q8_grid_1x16_*.c.
 */
#ifndef TENON_CPU_AVX2_LUT_KERNELS_GEMV_GRID_TEMPLATE_H
#define TENON_CPU_AVX2_LUT_KERNELS_GEMV_GRID_TEMPLATE_H

enum { TNI_X86_GRID_HALVES = TNI_CLT_ROWS / LANES, TNI_X86_GRID_GROUPS = 4 };

/* What the sums of a superblock's groups meet, half by half: read before its codes, so that memory is read in order. v
 * = fma(rest, t, fma(less, t, sum)), y = fma(v, by, y). */
typedef struct grid_head {
  floats by[TNI_X86_GRID_GROUPS][TNI_X86_GRID_HALVES];
  floats less[TNI_X86_GRID_GROUPS][TNI_X86_GRID_HALVES]; /* half - zero point, whole */
  floats rest[TNI_X86_GRID_GROUPS][TNI_X86_GRID_HALVES]; /* what is left of an f32 one */
} grid_head;

__attribute__((always_inline)) static inline void read_head(uint32_t groups, uint32_t zero_bits,
                                                            const tni_grid_layout *l, const uint8_t *sb,
                                                            const float *sx, grid_head *h) {
  const floats half = OP(set1_ps)((float)(1 << (l->bits - 1)));
  const uint8_t *zeros = sb + l->zeros_at;
#pragma GCC unroll 8
  for (uint32_t i = 0; i < groups * TNI_X86_GRID_HALVES; i++) {
    const uint32_t g = i / TNI_X86_GRID_HALVES, k = i % TNI_X86_GRID_HALVES, at = i * LANES;
    const floats sw = l->scale_bits == 16 ? halves_at(sb + 2 * at) : floats_at(sb + 4 * at);
    h->by[g][k] = OP(mul_ps)(sw, OP(set1_ps)(sx[g]));
    if (zero_bits == 8) h->less[g][k] = OP(sub_ps)(half, bytes_at(zeros + at));
    if (zero_bits != 32) continue;
    const floats zero = floats_at(zeros + 4 * at), whole = rounded(zero);
    h->less[g][k] = OP(sub_ps)(half, whole);
    h->rest[g][k] = OP(sub_ps)(whole, zero);
  }
}

__attribute__((always_inline)) static inline void gemv_grid_with(uint32_t bits, uint32_t group, uint32_t zero_bits,
                                                                 bool fetch, const tni_grid_layout *l,
                                                                 const uint8_t *block, size_t superblocks,
                                                                 const tni_clt_act *a, float *acc) {
  const uint32_t groups = group == TNI_GRID_MAX_GROUP ? 2 : 4;
  const int8_t *q = a->q;
  const float *sx = a->scale;
  const int32_t *zero = a->zero;
  const size_t code_bytes = group * TNI_CLT_ROWS * bits / 8;
  floats y[TNI_X86_GRID_HALVES];
  grid_head head;
  for (size_t h = 0; h < TNI_X86_GRID_HALVES; h++) y[h] = OP(setzero_ps)();
  for (size_t sb = 0; sb < superblocks; sb++, block += l->bytes, sx += groups) {
    const uint8_t *codes = block + l->codes_at;
    for (size_t i = 0; fetch && i < l->bytes; i += 64)
      _mm_prefetch((const char *)block + TNI_X86_AHEAD + i, _MM_HINT_T0);
    read_head(groups, zero_bits, l, block, sx, &head);
#pragma GCC unroll 4
    for (size_t g = 0; g < groups; g++, zero++, q += group, codes += code_bytes) {
      const floats t = OP(set1_ps)(-0.125f * (float)*zero);
      for (size_t h = 0; h < TNI_X86_GRID_HALVES; h++) {
        floats v = OP(cvtepi32_ps)(group_sums(bits, group, codes + h * LANES * 4, q, *zero));
        if (zero_bits) v = OP(fmadd_ps)(head.less[g][h], t, v);
        if (zero_bits == 32) v = OP(fmadd_ps)(head.rest[g][h], t, v);
        y[h] = OP(fmadd_ps)(v, head.by[g][h], y[h]);
      }
    }
  }
  for (size_t h = 0; h < TNI_X86_GRID_HALVES; h++) OP(storeu_ps)(acc + h * LANES, y[h]);
}

__attribute__((always_inline)) static inline void gemv_grid(uint32_t bits, uint32_t group, bool fetch,
                                                            const uint8_t *block, size_t superblocks,
                                                            const tni_clt_act *a, float *acc) {
  const tni_grid_layout l = tni_grid_layout_of(bits, group, a->scale_bits, a->zero_bits);
  if (l.zero_bits == 0)
    gemv_grid_with(bits, group, 0, fetch, &l, block, superblocks, a, acc);
  else if (l.zero_bits == 8)
    gemv_grid_with(bits, group, 8, fetch, &l, block, superblocks, a, acc);
  else
    gemv_grid_with(bits, group, 32, fetch, &l, block, superblocks, a, acc);
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
