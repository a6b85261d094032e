/* SPDX-License-Identifier: Apache-2.0
 *
 * Scale and codes of one group of few levels. Plain f32 multiplications, divisions and additions in a stated order, no
 * contraction: the result is the same on every machine.
 */
#ifndef TENON_COMMON_DOT_FIT_H
#define TENON_COMMON_DOT_FIT_H

#include <stdint.h>

/* w[128] -> codes[128] in 0..top, w[i] ~ (codes[i] - zero) * *scale; scale is binary16 and may be negative. (zero,
 * top): (2, 3) or (4, 7). Starts from eight scales, which map the weight of largest magnitude to fixed multiples on
 * either side, refits the one whose codes leave least squared error by least squares, and once more (sums of products
 * in eight partial sums, element i in sum i % 8; the first of equals wins). No weight is off by more than
 * tni_dot_err(zero) of the largest magnitude where that is at least 2^-14; below, by no more than 2^-16 more. Returns
 * 0; -1 for NaN, infinity, or a magnitude that no binary16 scale can reach (over zero * 65504). */
int tni_dot_fit(const float *w, uint32_t zero, uint32_t top, uint8_t *codes, uint16_t *scale);

float tni_dot_err(uint32_t zero);

#endif
