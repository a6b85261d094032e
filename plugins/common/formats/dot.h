/* SPDX-License-Identifier: Apache-2.0
 *
 * Weight formats for integer dot products, no params. Version 1; of w3g, w2g and pal16 2.
 *
 *   name     bits per weight  levels (times the scale)     scale
 *   w8g      8.125            -128 .. 127                  binary16, group of 128
 *   w3g      3.125            -4 .. 3                      binary16, group of 128
 *   w2g      2.125            -2 .. 1                      binary16, group of 128
 *   w1g      1.125            -1, 1                        binary16, group of 128
 *   tern20   2.008            -1, 0, 1                     f32, row
 *   tern17   1.688            -1, 0, 1                     f32, row
 *   pal16    4.016            16 int8 of the whole matrix  f32, row
 *
 * w[n,k] ~ (code - zero) * scale; zero is a power of two: 128, 4, 2, 1, 1, 1, 128. Codes are 0 .. top; of w1g 0 and 2,
 * of pal16 what its levels are. Bits per weight: for K of 4096.
 *
 * Bytes. Blocks of 16 rows, one after the other: bytes = ceil(N/16) * row_block_bytes. A block whose rows have scales
 * begins with 16 f32 by row; of pal16, 16 levels follow, one a byte, and 48 bytes of 0. Then superblocks along K: of 96
 * k (tern17) or 256; those with scales begin with 64 bytes of them, by group, then row; then the codes. Align 64.
 * Elements beyond N or K have code `zero`, of w1g 0 (their activations count as 0), of pal16 index 0; scales of rows
 * beyond N and of groups beyond K are 0.
 *
 * Codes are coded in units: quads of four k, of all 16 rows. Of a quad, byte 4r + b is row r, k = 4 quad + b, so that
 * eight lanes of a 256-bit (sixteen of a 512-bit) register are outputs; quads of a unit are combined byte by byte. With
 * c0, c1, .. the codes of quads 0, 1, .. of a unit:
 *   w8g      1 quad in 64 bytes
 *   w3g      8 quads in 3 x 64:   c0 | c1 << 3 | (c2 & 3) << 6;  c3 | c4 << 3 | (c5 & 3) << 6;
 *                                 c6 | c7 << 3 | (c2 >> 2) << 6 | (c5 >> 2) << 7
 *   w2g      4 quads in 64:       c0 | c1 << 2 | c2 << 4 | c3 << 6; tern20 likewise
 *   w1g      8 quads in 64:       bit j is c_j >> 1
 *   tern17   24 quads in 5 x 64:  v_j = c_j + 3 c_(8+j) + 9 c_(16+j), j = 0 .. 7, five bits each;
 *                                 v0 | (v5 & 7) << 5;  v1 | (v5 >> 3 & 3) << 5 | (v7 >> 3 & 1) << 7;
 *                                 v2 | (v6 & 7) << 5;  v3 | (v6 >> 3 & 3) << 5 | (v7 >> 4) << 7;  v4 | (v7 & 7) << 5
 *   pal16    2 quads in 64:       i0 | i1 << 4, indices of levels
 *
 * A weight that the model brings quantized (tn_quant, groups made of whole ones of ours) keeps its codes where code -
 * its zero + ours is a code of ours: unpack then gives (code - zero) * scale bit for bit where the scale is a normal
 * binary16, and with the scale rounded to one otherwise. Rows whose elements all are 0, -s or s are ternary exactly.
 * Other groups and rows go through dot_fit.h.
 *
 * How it computes (act8.h): as w4g with groups of 128. Activations in int8, s = absmax / 127, q =
 * round_half_even(x * (127 / absmax)); a group whose s would be denormal counts as zero. Per group an exact s32 sum of
 * (code - zero) * q; then y = fma((float)sum, weight scale * activation scale, y) in f32, groups in order of k: every
 * kernel gives the same bits. NaN or infinite activations: undefined, but harmless; such weights are refused.
 */
#ifndef TENON_COMMON_FORMATS_DOT_H
#define TENON_COMMON_FORMATS_DOT_H

#include <tenon/plugin.h>

enum {
  TNI_DOT_ROWS = 16,
  TNI_DOT_GROUP = 128,
  TNI_DOT_QUAD = 64,        /* bytes of a quad's codes, one each */
  TNI_DOT_SCALE_BYTES = 64, /* of a superblock with scales, of a block whose rows have them */
  TNI_DOT_LEVELS = 16
};
#define TNI_DOT_MAX_DIM (INT64_C(1) << 31) /* of N and K */

enum {
  TNI_DOT_W8G,
  TNI_DOT_W3G,
  TNI_DOT_W2G,
  TNI_DOT_W1G,
  TNI_DOT_TERN20,
  TNI_DOT_TERN17,
  TNI_DOT_PAL16,
  TNI_DOT_KINDS
};

/* F(format, bytes of the codes of 128 k of 16 rows, bytes before a row block's superblocks) of all but tern17, for
 * kernels that walk superblocks of 256 k; a test compares them with the kinds. */
#define TNI_DOT_SIZES(F) \
  F(w8g, 2048, 0) F(w3g, 768, 0) F(w2g, 512, 0) F(w1g, 256, 0) F(tern20, 512, 64) F(pal16, 1024, 128)

/* What one format of the family is. */
typedef struct tni_dot_kind {
  uint32_t which; /* TNI_DOT_* */
  uint32_t zero, top;
  uint32_t unit_quads, unit_bytes; /* what is coded together */
  uint32_t units;                  /* of a superblock */
  uint32_t head_bytes;             /* of a row block; 0: scales are in superblocks */
  /* quads[unit_quads][64] <-> unit, codes one a byte; pal16: indices. */
  void (*encode)(const uint8_t *quads, uint8_t *unit);
  void (*decode)(const uint8_t *unit, uint8_t *quads);
} tni_dot_kind;

extern const tn_format tni_dot_formats[TNI_DOT_KINDS];
/* Of a format of the family (any copy of it: by name); NULL for others. */
const tni_dot_kind *tni_dot_kind_of(const tn_format *f);

typedef struct tni_dot_geometry {
  int64_t N, K;
  int64_t sb_k, sb_bytes;
  int64_t row_blocks, superblocks;   /* of 16 rows; per row block */
  int64_t row_block_bytes, K_padded; /* K_padded: superblocks * sb_k, a multiple of 256 */
  uint64_t bytes;
} tni_dot_geometry;

/* TN_E_INVALID for dims outside 1..TNI_DOT_MAX_DIM. */
TN_MUST_CHECK tn_status tni_dot_geometry_of(const tni_dot_kind *kind, int64_t N, int64_t K, tni_dot_geometry *out);

/* Codes of superblock i of a row block -> quads[sb_k / 4][64]. */
void tni_dot_decode(const tni_dot_kind *kind, const uint8_t *row_block, size_t i, uint8_t *quads);
/* Scale of a row and group (along all K) of a row block. */
float tni_dot_scale(const tni_dot_kind *kind, const uint8_t *row_block, uint32_t row, size_t group);

#endif
