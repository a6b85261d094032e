/* SPDX-License-Identifier: Apache-2.0
 *
 * Weight format "w4g" version 3, params [group], group 32 or 128: four-bit codes with one binary16 scale per group.
 *
 * w[n,k] ~ (code - 8) * scale of (row n, group k / group). Blocks of 16 rows; within a block, superblocks along K; both
 * one after the other without headers: bytes = ceil(N/16) * ceil(K/SB) * sizeof(superblock). Rows beyond N and elements
 * beyond K have code 8 (weight 0); groups wholly beyond have scale 0. Align 64.
 *
 * Within a superblock the codes of eight consecutive k form a chunk of 64 bytes: dword r belongs to row r of the block,
 * byte b of it holds k = 8c + b in the low nibble and k = 8c + 4 + b in the high one. Eight lanes of a 256-bit (sixteen
 * of a 512-bit) register are thus outputs, and unpacking is AND and shift.
 *
 * A weight that the model brings quantized (tn_quant, up to four bits, groups made of whole ones of ours) keeps its
 * codes where code - zero + 8 is in 0..15: unpack then gives (code - zero) * scale bit for bit where the scale is a
 * normal binary16, and with the scale rounded to one otherwise. Groups that do not fit, and floats, go through
 * quant4.h.
 *
 * How it computes (tni_w4g_numerics): activations in int8, groups as long as the weights' (32 or 128) with
 * s = absmax / 127, q = round_half_even(x * (127 / absmax)); a group whose s would be denormal counts as zero. Per
 * group an exact s32 sum of (code - 8) * q; then y = fma((float)sum, weight scale * activation scale, y) in f32, groups
 * in order of k: every kernel gives the same bits. NaN or infinite activations: undefined, but harmless; weights that
 * are NaN, infinite or over 8 * 65504 are refused by rows().
 */
#ifndef TENON_COMMON_FORMATS_W4G_H
#define TENON_COMMON_FORMATS_W4G_H

#include <tenon/plugin.h>

#define TNI_W4G_ROWS 16
#define TNI_W4G_MAX_DIM (INT64_C(1) << 31) /* of N and K */

/* 64 k, two groups of 32. */
typedef struct tni_w4g_sb32 {
  uint16_t scale[2][TNI_W4G_ROWS]; /* bytes 0..63: binary16, group then row */
  uint8_t code[8][64];             /* bytes 64..575: chunk c holds k = 8c .. 8c+7 */
} tni_w4g_sb32;
_Static_assert(sizeof(tni_w4g_sb32) == 576, "w4g group 32: 4.5 bits per weight");

/* 256 k, two groups of 128. */
typedef struct tni_w4g_sb128 {
  uint16_t scale[2][TNI_W4G_ROWS]; /* bytes 0..63 */
  uint8_t code[32][64];            /* bytes 64..2111 */
} tni_w4g_sb128;
_Static_assert(sizeof(tni_w4g_sb128) == 2112, "w4g group 128: 4.125 bits per weight");
_Static_assert(offsetof(tni_w4g_sb32, code) == 64 && offsetof(tni_w4g_sb128, code) == 64, "codes follow the scales");

typedef struct tni_w4g_geometry {
  int64_t N, K;
  int64_t group, sb_k, sb_bytes;     /* 32: 64, 576; 128: 256, 2112 */
  int64_t row_blocks, superblocks;   /* of 16 rows; per row block */
  int64_t row_block_bytes, K_padded; /* superblocks * sb_bytes; * sb_k */
  uint64_t bytes;
} tni_w4g_geometry;

/* TN_E_INVALID for a group other than 32 or 128 or dims outside 1..TNI_W4G_MAX_DIM. */
TN_MUST_CHECK tn_status tni_w4g_geometry_of(int64_t N, int64_t K, int64_t group, tni_w4g_geometry *out);

extern const tn_format tni_w4g_format;
/* Of a group; NULL for another than 32 or 128. */
const tn_numerics *tni_w4g_numerics(int64_t group);

#endif
