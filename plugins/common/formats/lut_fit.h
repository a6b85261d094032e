/* SPDX-License-Identifier: Apache-2.0
 *
 * Scale and codes of one group on odd multiples of the scale, or three levels.
 */
#ifndef TENON_COMMON_FORMATS_LUT_FIT_H
#define TENON_COMMON_FORMATS_LUT_FIT_H

#include "plugins/common/formats/fit.h"

/* w[n], n up to 128 -> codes[128] (n of them count) below `levels` (2, 3, 4, 8, 16), w[i] ~ (2 codes[i] - zero) *
 * *scale, scale binary16 and >= 0; zero is levels - 1. Two levels: the mean magnitude and signs; others by search
 * (fit.h). No weight is off by more than tni_lut_err(levels) of the largest magnitude, where it is at least 2^-10;
 * below, by no more than 2^-18 more. Returns 0; -1 for NaN, infinity, or a magnitude over zero * 65504. */
int tni_lut_fit(const tni_fit *f, const float *w, uint32_t n, uint32_t levels, uint8_t *codes, uint16_t *scale);

float tni_lut_err(uint32_t levels);

#endif
