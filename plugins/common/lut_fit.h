/* SPDX-License-Identifier: Apache-2.0
 *
 * Scale and codes of one group on equidistant levels. Plain f32 multiplications, divisions and additions in a stated
 * order, no contraction: the result is the same on every machine.
 */
#ifndef TENON_COMMON_LUT_FIT_H
#define TENON_COMMON_LUT_FIT_H

#include <stdint.h>

/* w[n], n up to 128 -> codes[n] below `levels` (2 .. 16), w[i] ~ (2 codes[i] - zero) * *scale, scale
 * binary16 and >= 0; zero is levels - 1. For each of a fixed list of factors f, starts from scale = f * largest
 * magnitude / zero, refits twice by least squares, and keeps the least sum of squared errors (eight partial sums,
 * element i in sum i % 8; the first of equals wins). zero * scale stays at or above tni_lut_least(levels) of the
 * largest magnitude, so no weight is off by more than tni_lut_err(levels) of it, where it is at least 2^-10; below, by
 * no more than 2^-18 more. Returns 0; -1 for NaN, infinity, or a magnitude over zero * 65504. */
int tni_lut_fit(const float *w, uint32_t n, uint32_t levels, uint8_t *codes, uint16_t *scale);

float tni_lut_least(uint32_t levels);
float tni_lut_err(uint32_t levels);

#endif
