/* SPDX-License-Identifier: Apache-2.0
 *
 * Weight formats for integer dot products, version 1, no params: few bits, one scale per group or per row.
 *
 *   name    bits per weight  levels (times the scale)   scale
 *   w2g     2.125            -2 .. 1                    binary16, group of 128
 *   w3g     3.125            -4 .. 3                    binary16, group of 128
 *
 * w[n,k] ~ (code - zero) * scale; zero is a power of two. Elements beyond N or K have code `zero` (weight 0), their
 * scales are 0.
 *
 * Bytes. Blocks of 16 rows, one after the other without headers: bytes = ceil(N/16) * row_block_bytes. Within a block,
 * superblocks of 256 k along K: 64 bytes of scales (group, then row), then the codes of each group. Align 64.
 *
 * Codes are coded in units: quads of four k, of all 16 rows. Of a quad, byte 4r + b is row r, k = 4 quad + b, so that
 * eight lanes of a 256-bit (sixteen of a 512-bit) register are outputs; quads of a unit are combined byte by byte. With
 * c0, c1, .. the codes of quads 0, 1, .. of a unit:
 *   w2g     4 quads in 64 bytes:  c0 | c1 << 2 | c2 << 4 | c3 << 6
 *   w3g     8 quads in 3 x 64:    c0 | c1 << 3 | (c2 & 3) << 6;  c3 | c4 << 3 | (c5 & 3) << 6;
 *                                 c6 | c7 << 3 | (c2 >> 2) << 6 | (c5 >> 2) << 7
 *
 * A weight that the model brings quantized (tn_quant, groups made of whole ones of ours) keeps its codes where code -
 * its zero + ours is a code of ours: unpack then gives (code - zero) * scale bit for bit where the scale is a normal
 * binary16, and with the scale rounded to one otherwise. Groups that do not fit, and floats, go through dot_fit.h.
 *
 * How it computes (tni_dot_numerics): as w4g with groups of 128. Activations in int8, s = absmax / 127, q =
 * round_half_even(x * (127 / absmax)); a group whose s would be denormal counts as zero. Per group an exact s32 sum of
 * (code - zero) * q; then y = fma((float)sum, weight scale * activation scale, y) in f32, groups in order of k: every
 * kernel gives the same bits. NaN or infinite activations: undefined, but harmless; such weights are refused by rows().
 */
#ifndef TENON_COMMON_DOT_H
#define TENON_COMMON_DOT_H

#include <tenon/plugin.h>

enum {
  TNI_DOT_ROWS = 16,
  TNI_DOT_GROUP = 128,
  TNI_DOT_QUAD = 64,       /* bytes of a quad's codes, one each */
  TNI_DOT_SCALE_BYTES = 64 /* of a superblock with scales */
};
#define TNI_DOT_MAX_DIM (INT64_C(1) << 31) /* of N and K */

enum { TNI_DOT_W2G, TNI_DOT_W3G, TNI_DOT_KINDS };

/* What one format of the family is. */
typedef struct tni_dot_kind {
  uint32_t zero, top;              /* codes are 0 .. top */
  uint32_t unit_quads, unit_bytes; /* what is coded together */
  uint32_t units;                  /* of a superblock */
  /* quads[unit_quads][64] <-> unit, codes one a byte. */
  void (*encode)(const uint8_t *quads, uint8_t *unit);
  void (*decode)(const uint8_t *unit, uint8_t *quads);
} tni_dot_kind;

extern const tn_format tni_dot_formats[TNI_DOT_KINDS];
extern const tn_numerics tni_dot_numerics;
/* Of a format of the family (any copy of it: by name); NULL for others. */
const tni_dot_kind *tni_dot_kind_of(const tn_format *f);

typedef struct tni_dot_geometry {
  int64_t N, K;
  int64_t sb_k, sb_bytes;
  int64_t row_blocks, superblocks;   /* of 16 rows; per row block */
  int64_t row_block_bytes, K_padded; /* K_padded: superblocks * sb_k */
  uint64_t bytes;
} tni_dot_geometry;

/* TN_E_INVALID for dims outside 1..TNI_DOT_MAX_DIM. */
TN_MUST_CHECK tn_status tni_dot_geometry_of(const tni_dot_kind *kind, int64_t N, int64_t K, tni_dot_geometry *out);

/* Codes of a superblock -> quads[sb_k / 4][64]. */
void tni_dot_decode(const tni_dot_kind *kind, const uint8_t *sb, uint8_t *quads);
/* Scale of a row and group of a superblock. */
float tni_dot_scale(const uint8_t *sb, uint32_t row, uint32_t group);

#endif
