/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of a weight as a packer reads them: floats, or the grid that the model brings, where that is of use.
 */
#ifndef TENON_COMMON_FORMATS_SOURCE_H
#define TENON_COMMON_FORMATS_SOURCE_H

#include <stdbool.h>
#include <tenon/plugin.h>

/* Some rows, or (codes not NULL) their grid. w: [rows][K]; codes: [rows][row_codes]; scales and zeros: [rows][blocks].
 */
typedef struct tni_cm_source {
  int64_t K;
  const float *w;
  const uint8_t *codes;
  const float *scales, *zeros;
  int64_t block, blocks; /* elements along K that share a scale; of a row */
  int64_t row_codes;     /* codes of a row: K, or fewer where one gives several weights */
  const uint8_t *index;  /* [rows][blocks] and [rows]: of scales that are steps (tn_quant.stepped); else NULL */
  const float *parents;
} tni_cm_source;

/* The weight's own grid where it is affine, has at most `bits` bits and groups made of whole ones of `group`, or rows
 * that are one group; else NULL. */
const tn_quant *tni_cm_grid_of(const tn_weight *w, uint32_t bits, int64_t group);

/* *g into the caller's struct, of whatever size. */
tn_status tni_cm_give_grid(tn_grid *out, const tn_grid *g);
/* Whether the weight is to be packed code by code on a grid (TN_QUANT_KEEP). */
bool tni_cm_keeps(const tn_weight *w);
/* What is to be kept, where it has the kind, the codes, levels, groups and steps of g; NULL where it does not. */
const tn_quant *tni_cm_given(const tn_weight *w, const tn_grid *g);

/* The same of a quant whether or not it is to be kept. */
const tn_quant *tni_cm_on_grid(const tn_weight *w, const tn_grid *g);

#define TNI_CM_SOURCE_ROWS 16 /* of a block */
/* Rows [row, row + n) of the source, n at most 16, into a block. */
typedef tn_status (*tni_cm_block_fn)(const void *ctx, const tni_cm_source *s, int64_t row, int64_t n, uint8_t *block);
/* Rows [n0, n1) block by block, read several blocks at a time; blob: where block 0 would begin; NULL: fn gets no block.
 * TN_E_INVALID where the rows are no blocks. */
TN_MUST_CHECK tn_status tni_cm_source_blocks(const tn_host *host, const tn_weight *w, const tn_quant *grid, int64_t n0,
                                             int64_t n1, tni_cm_block_fn fn, const void *ctx, uint8_t *blob,
                                             int64_t block_bytes);

/* The grid's own codes as ours: code - its zero + zero where that is in 0..top for all n, and the scale as binary16
 * where it is a normal one (or 0): the weights then are the source's, but for the rounding of a scale that has more
 * digits. False, and codes are whatever, where that cannot be. */
bool tni_cm_source_codes(const tni_cm_source *s, int64_t row, int64_t k0, uint32_t n, int32_t zero, int32_t top,
                         uint8_t *codes, uint16_t *scale);
/* The same, and the scale is kept exactly. */
bool tni_cm_keep_codes(const tni_cm_source *s, int64_t row, int64_t k0, uint32_t n, int32_t zero, int32_t top,
                       uint8_t *codes, uint16_t *scale);
/* The same of what is to be kept: codes as they are, scale / g->scale_unit and zero point of the group. False where g
 * does not hold one of them. */
bool tni_cm_source_keep(const tni_cm_source *s, const tn_grid *g, int64_t row, int64_t k0, uint32_t n, uint8_t *codes,
                        float *scale, float *zero);
/* The parent of a row / g->scale_unit. False where g does not hold it. */
bool tni_cm_source_parent(const tni_cm_source *s, const tn_grid *g, int64_t row, float *parent);
/* The same elements as floats, n <= block - k0 % block. */
void tni_cm_source_floats(const tni_cm_source *s, int64_t row, int64_t k0, uint32_t n, float *dst);

#endif
