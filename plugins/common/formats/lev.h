/* SPDX-License-Identifier: Apache-2.0
 *
 * Weight formats of levels from a table, no params. Version 2; lev3 is at 3.
 *
 *   name    bits per weight  a weight's level is picked by                     scales
 *   lev4    4.125            its 4 bits                                        a block of 32
 *   lev4s   4.25             its 4 bits                                        a block of 16
 *   lev3    3.125            its 3 bits and the top bit of its pair's other    a block of 32
 *   lev2    2.125            its 2 bits and both of its quad's next weight     a block of 32
 *   lev1    1.625            its bit, its quad's next weight's, 2 of the quad  a block of 32
 *
 * and 16 / K bits for the scale of a row. w[n,k] = level * scale, levels are int8 of a table of 16 that belongs to the
 * format (lev_tables.h); scale = parent * 2^(-i/5) in f32, i of 4 bits for a block, parent a binary16 of the row times
 * 2^-7. Windows (lev3, lev2): pairs are k = 2i, 2i + 1, quads k = 4i .. 4i + 3, whose last one's next is the first. As
 * a grid (tn_format.grid) lev3 is codes of 6 bits for 2 weights, lev2 codes of 8 bits for 4; own bits of the first
 * weight lowest. lev1 has codes of 6 bits for 4: the two of the quad lowest, then a bit of each weight. Here own bits
 * of a weight of lev1 are three: the quad's two, and its own.
 *
 * Bytes. Blocks of 16 rows, one after the other. A block begins with 16 binary16 by row; then 8 bytes for each block
 * along K, byte r has i of row r in its low nibble and of row r + 8 in its high one; bytes of 0 up to a multiple of 16.
 * Then, for each block along K, its codes in 64 byte units. In a unit, byte 4r + b belongs to row r and to k = b (mod
 * 4) of quads of k, as in dot.h. Elements beyond N or K have code 0.
 *
 * - lev4, lev4s: a unit is two quads, the first in low nibbles, the second in high ones.
 * - lev2: a unit is four quads, fields of two bits, from the low ones up quads 0, 2, 1, 3.
 * - lev3: three units are eight quads. Two are as in lev2, of the low two bits. The third has the top bits, those of
 * quads 0, 2, 1, 3 in bits 0, 2, 4, 6 and of quads 4, 6, 5, 7 in bits 1, 3, 5, 7.
 * - lev1: a unit of own bits, as the third of lev3, then 32 bytes of the quads' two bits. One byte has four quads of
 * row r, fields as in lev2; that of quads 4f .. 4f + 3 is byte 16 * (r / 4 % 2) + 8 * (r / 8) + 4f + r % 4, so that
 * lanes of 16 bytes have what their rows need.
 *
 * AND and shift make of all of them nibbles as lev4 has them, and one byte shuffle levels.
 *
 * How it computes (act8.h): as w4g. Activations in int8, groups as long as the blocks, s = absmax / 127, q =
 * round_half_even(x * (127 / absmax)); a group whose s would be denormal counts as zero. Per group an exact s32 sum of
 * level * q; then y = fma((float)sum, weight scale * activation scale, y) in f32, groups in order of k: every kernel
 * gives the same bits. NaN or infinite activations: undefined, but harmless; such weights are refused.
 */
#ifndef TENON_COMMON_FORMATS_LEV_H
#define TENON_COMMON_FORMATS_LEV_H

#include <stdbool.h>
#include <tenon/plugin.h>

enum { TNI_LEV4, TNI_LEV4S, TNI_LEV3, TNI_LEV2, TNI_LEV1, TNI_LEV_KINDS };
enum { TNI_LEV_ROWS = 16, TNI_LEV_STEPS = 16, TNI_LEV_LEVELS = 16, TNI_LEV_UNIT = 64, TNI_LEV_MAX_BLOCK = 32 };
#define TNI_LEV_MAX_DIM (INT64_C(1) << 31) /* of N and K */
#define TNI_LEV_SCALE_UNIT 0x1p-7f         /* of a parent */

typedef struct tni_lev_kind {
  uint32_t which, bits; /* TNI_LEV4 ..; of a weight, those included that its quad shares */
  uint32_t shared;      /* of these, the lowest: the same for all weights of a code */
  uint32_t block, vec;  /* elements that share a scale; that one code of the grid gives */
  uint32_t block_bytes; /* codes of a block of 16 rows */
  _Alignas(16) int8_t level[TNI_LEV_LEVELS];
} tni_lev_kind;

extern const tni_lev_kind tni_lev_kinds[TNI_LEV_KINDS];
extern const tn_format tni_lev_formats[TNI_LEV_KINDS];
/* 2^(-i/5), rounded to f32. */
extern const float tni_lev_steps[TNI_LEV_STEPS];
/* Codes of the grid, and the levels that they give, [codes][vec]. */
static inline uint32_t tni_lev_codes(const tni_lev_kind *k) {
  return 1u << ((k->bits - k->shared) * k->vec + k->shared);
}
const float *tni_lev_levels(const tni_lev_kind *kind);
/* Of a format of the family (any copy of it: by name); NULL for others. */
const tni_lev_kind *tni_lev_kind_of(const tn_format *f);

/* Whether the weight comes quantized with this kind's levels and steps. */
bool tni_lev_holds(const tni_lev_kind *kind, const tn_weight *w);

typedef struct tni_lev_geometry {
  int64_t N, K;
  int64_t row_blocks, blocks; /* of 16 rows; along K */
  int64_t head_bytes, row_block_bytes, K_padded;
  uint64_t bytes;
} tni_lev_geometry;
/* TN_E_INVALID for dims outside 1..TNI_LEV_MAX_DIM. */
TN_MUST_CHECK tn_status tni_lev_geometry_of(const tni_lev_kind *kind, int64_t N, int64_t K, tni_lev_geometry *out);
/* Bytes before the codes of a row block with so many blocks along K. */
static inline size_t tni_lev_head_bytes(size_t blocks) { return (32 + 8 * blocks + 15) / 16 * 16; }

/* Levels of a block's codes -> [block / 4][64], as bytes of a quad lie; its scales by row. */
void tni_lev_decode(const tni_lev_kind *kind, const uint8_t *codes, int8_t *quads);
float tni_lev_scale(const uint8_t *row_block, uint32_t row, size_t block);

/* Own bits of weight j of a code. */
static inline uint32_t tni_lev_own(const tni_lev_kind *k, uint32_t code, uint32_t j) {
  const uint32_t single = k->bits - k->shared, bit = code >> (k->shared + single * j) & ((1u << single) - 1);
  return (code & ((1u << k->shared) - 1)) | bit << k->shared;
}

/* Entry of the table that weight j of a group of vec reads under a code of the grid. */
static inline uint32_t tni_lev_entry(const tni_lev_kind *k, uint32_t code, uint32_t j) {
  const uint32_t own = tni_lev_own(k, code, j), more = 4 - k->bits;
  return more ? own | tni_lev_own(k, code, (j + 1) % k->vec) >> (k->bits - more) << k->bits : own;
}

/* lev_fit.c. One row of floats -> codes of the grid, [ceil(K / vec)], index of each block, and the parent in units of
 * TNI_LEV_SCALE_UNIT, binary16. 0; -1 for NaN, infinity, or a magnitude that no parent reaches. */
int tni_lev_fit_row(const tni_lev_kind *k, const float *w, int64_t K, uint8_t *codes, uint8_t *index, uint16_t *parent);

#endif
