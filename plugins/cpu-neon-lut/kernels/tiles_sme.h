/* SPDX-License-Identifier: Apache-2.0
 *
 * Tiles of SMOPA: what tiles_sme.S takes. One call is a panel (panel.h) times rows of x, in streaming mode.
 */
#ifndef TENON_CPU_NEON_TILES_SME_H
#define TENON_CPU_NEON_TILES_SME_H

#include <stddef.h>
#include <stdint.h>

/* What codes are: bytes as a panel has them; or indices of 4 or 2 bits into `table`, in units of 64 bytes as grid.h has
 * them (SME2). How a group ends: scaled.h's fma; the same less zero points, whole ones and others; a product and a
 * sum. */
enum { TNI_SME_BYTES = 0, TNI_SME_LUTI4 = 1, TNI_SME_LUTI2 = 2 };
enum { TNI_SME_FMA = 0, TNI_SME_TAKING = 1, TNI_SME_TAKING_RESTS = 2 };

/* Tiles are those of TNI_CLT_TILES16. tiles_sme.S has these places too. */
typedef struct tni_sme_call {
  const uint8_t *const *codes;         /* of each group, 16 outputs */
  const float *scale, *whole, *rest;   /* [groups][16]; whole, rest: as panel.h has them, where they are taken */
  const int8_t *q;                     /* of the first tile, from the first group on */
  const float *x_scale;                /* likewise, [groups][16 rows] */
  const int32_t *start;                /* likewise; read where zero points are taken off */
  float *acc;                          /* [end - begin][16], added to */
  size_t q_stride, s_stride, z_stride; /* bytes from a tile to the next */
  size_t groups, quads;                /* quads: of four k, of a group; a multiple of 4 */
  size_t begin, end;                   /* rows, from the first tile's first one on; begin: under 16 */
  size_t kind, ending;
  const uint32_t *table; /* 16 words of which the lowest byte counts */
} tni_sme_call;

/* Vectors may have 16, 32 or 64 bytes in streaming mode. What another function has left in ZA is saved first, where
 * TPIDR2_EL0 says. */
void tni_arm_tiles_sme(const tni_sme_call *call);
void tni_arm_tiles_sme2(const tni_sme_call *call);
/* sums[i][j] = x[4 i ..] times w[4 j ..] of one SMOPA, for i and j under a quarter of a vector's bytes. x, w: [64]. */
void tni_arm_smopa(const int8_t *x, const int8_t *w, int32_t (*sums)[16]);

#endif
