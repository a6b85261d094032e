/* SPDX-License-Identifier: Apache-2.0
 *
 * Weight formats "lut1" .. "lut4", "lutt" and their paired forms "lut1p" .. "luttp", version 2, no params: bit-serial
 * weights for table lookup (T-MAC), groups of 128 along K with one binary16 scale.
 *
 * Values. A weight of P planes is an odd number of steps: with bits b_p and s_p = 2 b_p - 1,
 *   w = scale * sum_p 2^p s_p = scale * (2 code - (2^P - 1)),
 * so lut1 has levels -1, 1; lut2 -3, -1, 1, 3; lut3 -7 .. 7; lut4 -15 .. 15. "lutt" is ternary: two planes, codes 0, 1,
 * 2, w = scale * (2 code - 2), and zero is exact. scale is finite and >= 0; scale * level is exact in f32.
 *
 * How it computes (numerics): activations in groups of 128, cut into runs of four ("quads"): M = largest sum of |x|
 * over a quad, (|x0| + |x1|) + (|x2| + |x3|) in f32; s = M / 253, q = round_half_even(x * (253 / M)), nine bits with
 * the sign; a group whose s would be denormal counts as zero. Since rounding four numbers adds 2 at most, sum |q| of a
 * quad is at most 255. Per group an exact s32 sum of (2 code - z) * q; then y = fma((float)sum, weight scale * s, y) in
 * f32, groups in order of k: every kernel gives the same bits, whether it looks up or multiplies, for one row or many.
 * NaN or infinite activations: undefined, but harmless.
 *
 * Narrow codes (where a backend is told to): s = M / 127 and q = round_half_even(x * (127 / M)), so that q fits a byte
 * and several rows multiply it by bytes, as other formats do. An element has half as many steps.
 *
 * Tables. For a quad, u[i] = sum of q_j over bits j of i, minus the sum of the negative q_j: a byte, exact. Half of it
 * is built, since u[15 - i] = sum |q_j| - u[i]. With U_p the sum of u[nibble of plane p] over a group's quads, the
 * group's sum is 2 * sum_p 2^p U_p + start, start = (2^P - 1 - z) * sum q - (2^P - 1) * sum |q|: one word per group.
 *
 * Averages (fast aggregation, T-MAC's option; plain bytes only, where a backend offers it and is told to). One row then
 * adds entries in bytes: of four, avg(avg(a, b), avg(c, d)) with avg(a, b) = (a + b + 1) >> 1, times 4. An avg adds 0
 * or 1/2, so a tree says 0 to 4 too much; 2 is taken off for each, 16 for each plane of a group: U_p is off by 16 at
 * most. Where a group ends with quads of zeros (after K), trees of eight such quads at a time say nothing, and nothing
 * is taken off for them. a, b, c, d are quads 4t, 4t+1, 4t+2, 4t+3 of a plane with a partner, and 8t+i, 8t+i+2, 8t+i+4,
 * 8t+i+6, i = 0, 1, of one without. Several rows multiply as ever.
 *
 * Bytes. Blocks of 16 rows; within a block, groups along K; all one after the other without headers, in the order that
 * a kernel reads: bytes = ceil(N/16) * ceil(K/128) * (32 + 256 P). A group is 16 binary16 scales (by row) and 8 steps
 * of 32 P bytes; a step is quads 4t .. 4t+3 of the group. A nibble is four bits of one plane of one quad, bit j for k =
 * 4 quad + j. Rows beyond N have scale 0 and code 0, so have elements beyond K (their activations count as 0). Plain
 * (x86, one table serves a register): for h = 0, 1 and each pair of planes (2j, 2j+1): 32 bytes, byte 2r + i is plane
 * 2j + i of row r, low nibble quad 4t+2h, high nibble quad 4t+2h+1. A plane without a partner: 32 bytes after the
 * pairs of the step, byte 16 i + 2 (r % 8) + r / 8, low nibble quad 4t+i, high nibble quad 4t+2+i. Paired (Arm, a
 * two-register table serves two quads): for each plane 32 bytes, byte 2r + i: low nibble quad 4t+i, high nibble quad
 * 4t+2+i.
 */
#ifndef TENON_COMMON_FORMATS_LUT_H
#define TENON_COMMON_FORMATS_LUT_H

#include <stdbool.h>
#include <tenon/plugin.h>

enum {
  TNI_LUT_ROWS = 16,
  TNI_LUT_GROUP = 128,
  TNI_LUT_QUADS = 32,        /* of a group */
  TNI_LUT_TABLE = 32 * 16,   /* bytes of a group's tables: 16 of each quad, quads in order */
  TNI_LUT_SCALE_BYTES = 32,  /* of a group of a block; the planes follow */
  TNI_LUT_PLANE_BYTES = 256, /* of a group of a block, per plane */
  TNI_LUT_MAX_PLANES = 4,
  TNI_LUT_TREE_DEPTH = 2 /* of averages */
};
/* What the largest quad of a group sums up to. */
#define TNI_LUT_WIDE 253.0f
#define TNI_LUT_NARROW 127.0f
#define TNI_LUT_MAX_DIM (INT64_C(1) << 31) /* of N and K */

/* What one format of the family is. zero: z above. */
typedef struct tni_lut_kind {
  uint32_t planes, levels, zero, paired;
} tni_lut_kind;

/* lut1, lut2, lut3, lut4, lutt; [1]: the paired forms. */
enum { TNI_LUT_KINDS = 5 };
extern const tn_format tni_lut_formats[2][TNI_LUT_KINDS];
/* Of a format of the family (any copy of it: by name); NULL for others. */
const tni_lut_kind *tni_lut_kind_of(const tn_format *f);

/* Numerics of such a format where a backend is told to: averages (of plain forms), and narrow codes. NULL for other
 * formats, and for averages of paired ones. */
const tn_numerics *tni_lut_numerics(const tn_format *f, bool averages, bool narrow);

typedef struct tni_lut_geometry {
  int64_t N, K;
  int64_t groups, row_blocks;           /* of 128 k; of 16 rows */
  int64_t group_bytes, row_block_bytes; /* 32 + 256 P; groups * group_bytes */
  int64_t K_padded;                     /* groups * 128 */
  uint64_t bytes;
} tni_lut_geometry;

/* TN_E_INVALID for dims outside 1..TNI_LUT_MAX_DIM. */
TN_MUST_CHECK tn_status tni_lut_geometry_of(const tni_lut_kind *kind, int64_t N, int64_t K, tni_lut_geometry *out);

/* Byte of (row, quad, plane) in the planes of a group (after its scales), and how far its nibble is shifted. */
typedef struct tni_lut_place {
  uint32_t byte, shift;
} tni_lut_place;
tni_lut_place tni_lut_place_of(const tni_lut_kind *kind, uint32_t row, uint32_t quad, uint32_t plane);

#endif
