/* SPDX-License-Identifier: Apache-2.0
 *
 * Many rows by SMOPA: panels (panel.h) and the call of tiles_sme.S that multiplies one. All panels are plain: SMOPA's
 * sums begin at nothing.
 */
#ifndef TENON_CPU_NEON_GEMM_SME_H
#define TENON_CPU_NEON_GEMM_SME_H

#include "plugins/cpu-neon-lut/kernels/kernels.h"
#include "plugins/cpu-neon-lut/kernels/levels.h"
#include "plugins/cpu-neon-lut/kernels/tern17.h"
#include "plugins/cpu-neon-lut/kernels/tiles_sme.h"

enum { TNI_SME_ROWS = 16 }; /* of a tile of x */
/* tiles_sme.S has these numbers. */
_Static_assert(offsetof(tni_sme_call, q) == 32 && offsetof(tni_sme_call, q_stride) == 64, "");
_Static_assert(offsetof(tni_sme_call, groups) == 88 && offsetof(tni_sme_call, table) == 136, "");
_Static_assert(TNI_CLT_START == 0x4b400000, "");

typedef void (*tni_sme_tiles_fn)(const tni_sme_call *call);

/* Where the codes of each group of a panel lie, and what they are. */
typedef struct tni_sme_codes {
  const uint8_t *of[TNI_ARM_PANEL_GROUPS];
  size_t kind; /* TNI_SME_BYTES .. */
  const uint32_t *table;
} tni_sme_codes;

static inline void tni_sme_multiply(tni_sme_tiles_fn tiles, const tni_arm_panel *p, const tni_sme_codes *codes,
                                    size_t group, size_t ending, const tni_clt_act *a, size_t m0, size_t m1,
                                    float *acc) {
  const size_t t = m0 / TNI_SME_ROWS, at = p->first_group * TNI_SME_ROWS;
  const tni_sme_call call = {.codes = codes->of,
                             .scale = p->scale[0],
                             .whole = p->whole[0],
                             .rest = p->rest[0],
                             .q = a->q + t * a->q_stride + at * group,
                             .x_scale = a->scale + t * a->s_stride + at,
                             .start = a->z_stride ? a->zero + t * a->z_stride + at : a->zero,
                             .acc = acc,
                             .q_stride = a->q_stride,
                             .s_stride = a->s_stride * sizeof *a->scale,
                             .z_stride = a->z_stride * sizeof *a->zero,
                             .groups = p->groups,
                             .quads = group / 4,
                             .begin = m0 % TNI_SME_ROWS,
                             .end = m1 - t * TNI_SME_ROWS,
                             .kind = codes->kind,
                             .ending = ending,
                             .table = codes->table};
  tiles(&call);
}

/* A panel of bytes. */
static inline void tni_sme_bytes(tni_sme_tiles_fn tiles, size_t group, bool taking, const tni_arm_panel *p,
                                 const tni_clt_act *a, size_t m0, size_t m1, float *acc) {
  tni_sme_codes codes = {.kind = TNI_SME_BYTES};
  for (size_t g = 0; g < p->groups; g++) codes.of[g] = p->w + g * group * TNI_CLT_ROWS;
  const size_t less = p->rests ? TNI_SME_TAKING_RESTS : TNI_SME_TAKING;
  const size_t ending = taking ? less : TNI_SME_FMA;
  tni_sme_multiply(tiles, p, &codes, group, ending, a, m0, m1, acc);
}

/* The tiles that panel.h's and unpack.h's loops call; with TNI_ARM_TILES. */
#define TNI_SME_MULTIPLY(isa)                                                                                    \
  static void multiply_##isa(size_t group, bool taking, const tni_arm_panel *p, const tni_clt_act *a, size_t m0, \
                             size_t m1, float *acc) {                                                            \
    tni_sme_bytes(tni_arm_tiles_##isa, group, taking, p, a, m0, m1, acc);                                        \
  }                                                                                                              \
  TNI_ARM_TILES(tiles, 16, isa, multiply_##isa, false)                                                           \
  TNI_ARM_TILES(tiles, 32, isa, multiply_##isa, false)                                                           \
  TNI_ARM_TILES(tiles, 64, isa, multiply_##isa, false)                                                           \
  TNI_ARM_TILES(tiles, 128, isa, multiply_##isa, false)                                                          \
  TNI_ARM_TILES(tiles, 256, isa, multiply_##isa, false)                                                          \
  TNI_ARM_TILES(taking, 16, isa, multiply_##isa, true)                                                           \
  TNI_ARM_TILES(taking, 32, isa, multiply_##isa, true)                                                           \
  TNI_ARM_TILES(taking, 64, isa, multiply_##isa, true)                                                           \
  TNI_ARM_TILES(taking, 128, isa, multiply_##isa, true)

#endif
