/* SPDX-License-Identifier: Apache-2.0
 *
 * Rows of a weight as a packer reads them: floats, or the grid that the model brings, where that is of use.
 */
#ifndef TENON_COMMON_SOURCE_H
#define TENON_COMMON_SOURCE_H

#include <stdbool.h>
#include <tenon/plugin.h>

/* Some rows, or (codes not NULL) their grid. w, codes: [rows][K]; scales and zeros: [rows][blocks]. */
typedef struct tni_cm_source {
  int64_t K;
  const float *w;
  const uint8_t *codes;
  const float *scales, *zeros;
  int64_t block, blocks; /* elements along K that share a scale; of a row */
} tni_cm_source;

/* The weight's own grid where it is affine, has at most `bits` bits and groups made of whole ones of `group`; else
 * NULL. */
const tn_quant *tni_cm_grid_of(const tn_weight *w, uint32_t bits, int64_t group);

/* How many rows to read at once: a multiple of 16, fewer where K is large. */
int64_t tni_cm_source_step(int64_t K);
/* Room for the rows of one step; grid: NULL for floats. */
size_t tni_cm_source_bytes(const tn_weight *w, const tn_quant *grid);
/* Rows [n0, n1), at most a step, into room. */
TN_MUST_CHECK tn_status tni_cm_source_read(const tn_weight *w, const tn_quant *grid, int64_t n0, int64_t n1, void *room,
                                           tni_cm_source *out);

/* The grid's own codes as ours: code - its zero + zero where that is in 0..top for all n, and the scale as binary16
 * where it is a normal one (or 0): the weights then are the source's, but for the rounding of a scale that has more
 * digits. False, and codes are whatever, where that cannot be. */
bool tni_cm_source_codes(const tni_cm_source *s, int64_t row, int64_t k0, uint32_t n, int32_t zero, int32_t top,
                         uint8_t *codes, uint16_t *scale);
/* The same elements as floats, n <= block - k0 % block. */
void tni_cm_source_floats(const tni_cm_source *s, int64_t row, int64_t k0, uint32_t n, float *dst);

#endif
