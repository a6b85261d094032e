/* SPDX-License-Identifier: Apache-2.0
 *
 * Weight formats "grid2", "grid4", "grid8" version 1, params [group, scale, zero]: codes of 2, 4 or 8 bits, kept as the
 * model brings them (MatMulNBits, DequantizeLinear, GatherBlockQuantized).
 *
 *   w[n,k] = (code - zero) * scale of (row n, group k / group), in f32: a difference, then a product
 *
 * group: 16, 32, 64 or 128. scale: bits of a stored scale, 16 (binary16) or 32 (f32). zero: bits of a stored zero
 * point, 0 (half = 2^(bits-1) everywhere), 8 (a byte) or 32 (f32, |zero| <= TNI_GRID_MOST_ZERO). Longer groups and
 * whole rows repeat their scale every 128 k. Bits per weight: bits + (scale + zero) / group.
 *
 * Bytes. Blocks of 16 rows, one after the other; a block is superblocks along K of 4 * group k (group 128: 256). A
 * superblock begins with its scales, by group, then row; its zero points likewise; zeros up to a multiple of 64 bytes;
 * then codes. Codes are coded in units of 64 bytes: quads of four k, of all 16 rows; of a quad, byte 4r + b is row r, k
 * = 4 quad + b. With c0, c1, .. the codes of the quads of a unit: 8 bits c0; 4 bits c0 | c1 << 4; 2 bits c0 | c1 << 2 |
 * c2 << 4 | c3 << 6. Align 64. Elements beyond N or K have code half, groups and rows beyond have scale 0 and zero
 * half.
 *
 * A grid that the model brings keeps its codes, scales and zero points where each fits what the params state (the
 * plugin chooses them so); codes of fewer bits stay as they are. From floats: the range of a group, levels equally far
 * apart.
 *
 * How it computes (tni_grid_numerics): activations in int8, groups as long as the weights', as w4g. Per group the exact
 * s32 sums d of (code - half) * q and t of q. Then, in f32: v = (float)d; with bytes of zeros v = v - (zero - half) *
 * t, exact; with f32 zeros, i being zero rounded half to even: v = v - (i - half) * t, exact, and v = fma(-(zero - i),
 * t, v). y = fma(v, weight scale * activation scale, y), groups in order of k. Every kernel gives the same bits.
 */
#ifndef TENON_COMMON_FORMATS_GRID_H
#define TENON_COMMON_FORMATS_GRID_H

#include <tenon/plugin.h>

enum { TNI_GRID_ROWS = 16, TNI_GRID_MAX_GROUP = 128, TNI_GRID_MOST_ZERO = 256, TNI_GRID_PARAMS = 3 };
#define TNI_GRID_MAX_DIM (INT64_C(1) << 31) /* of N and K */

enum { TNI_GRID_2, TNI_GRID_4, TNI_GRID_8, TNI_GRID_KINDS };
extern const tn_format tni_grid_formats[TNI_GRID_KINDS];
/* Of a group and its scales' bits; NULL for another group than 16, 32, 64, 128. */
const tn_numerics *tni_grid_numerics(int64_t group, int64_t scale_bits);

/* Leaf of the geometry, all that kernels need: a superblock. */
typedef struct tni_grid_layout {
  uint32_t bits, group, scale_bits, zero_bits;
  uint32_t groups;             /* of a superblock: 4, or 2 of group 128 */
  uint32_t zeros_at, codes_at; /* bytes from its begin */
  uint32_t bytes;
} tni_grid_layout;

static inline tni_grid_layout tni_grid_layout_of(uint32_t bits, uint32_t group, uint32_t scale_bits,
                                                 uint32_t zero_bits) {
  tni_grid_layout l = {.bits = bits, .group = group, .scale_bits = scale_bits, .zero_bits = zero_bits};
  l.groups = group == TNI_GRID_MAX_GROUP ? 2 : 4;
  l.zeros_at = l.groups * TNI_GRID_ROWS * scale_bits / 8;
  l.codes_at = (l.zeros_at + l.groups * TNI_GRID_ROWS * zero_bits / 8 + 63) / 64 * 64;
  l.bytes = l.codes_at + l.groups * group * TNI_GRID_ROWS * bits / 8;
  return l;
}

typedef struct tni_grid_geometry {
  int64_t N, K;
  tni_grid_layout sb;
  int64_t sb_k;                    /* elements along K of a superblock */
  int64_t row_blocks, superblocks; /* of 16 rows; per row block */
  int64_t row_block_bytes, K_padded;
  uint64_t bytes;
} tni_grid_geometry;

/* f: a copy of one of the family. TN_E_INVALID for dims and params that it does not have, TN_E_LIMIT on overflow. */
TN_MUST_CHECK tn_status tni_grid_geometry_of(const tn_format *f, int64_t N, int64_t K, const int64_t *params,
                                             uint32_t n_params, tni_grid_geometry *out);

/* Byte of (row, k of the superblock) in its codes, and how far it is shifted. */
static inline uint32_t tni_grid_code(uint32_t bits, const uint8_t *codes, uint32_t row, uint32_t k) {
  const uint32_t per = 8 / bits, quad = k / 4;
  return (uint32_t)(codes[quad / per * 64 + row * 4 + k % 4] >> quad % per * bits) & ((1u << bits) - 1);
}
/* Scale and zero point of (group of the superblock, row). */
float tni_grid_scale_at(const tni_grid_layout *l, const uint8_t *sb, uint32_t group, uint32_t row);
float tni_grid_zero_at(const tni_grid_layout *l, const uint8_t *sb, uint32_t group, uint32_t row);

#endif
