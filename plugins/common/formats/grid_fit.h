/* SPDX-License-Identifier: Apache-2.0
 *
 * Scale, zero point and codes of one group of floats for grid.h: its range, levels equally far apart. Plain f32
 * operations in a stated order: the same on every machine.
 */
#ifndef TENON_COMMON_FORMATS_GRID_FIT_H
#define TENON_COMMON_FORMATS_GRID_FIT_H

#include <stdint.h>

typedef struct tni_grid_fit {
  uint32_t bits, scale_bits, zero_bits; /* as grid.h has them */
} tni_grid_fit;

/* w[n] -> codes[n], w[i] ~ (codes[i] - *zero) * *scale. No weight is off by more than TNI_GRID_ERR(bits) of the largest
 * magnitude, where that is at least 2^-13. 0; -1 for NaN, infinity, or a range that no scale reaches. */
int tni_grid_fit_group(const tni_grid_fit *f, const float *w, uint32_t n, uint8_t *codes, float *scale, float *zero);

/* Smaller ones count as 0: their products with scales of activations would lose digits. */
#define TNI_GRID_LEAST_SCALE 0x1p-100f

/* A step of the range, which is at most twice the largest magnitude, and the rounding of a scale; half a step of the
 * levels without a zero point. */
#define TNI_GRID_ERR(bits) ((bits) == 2 ? 0.67f : (bits) == 4 ? 0.135f : 0.0086f)

#endif
