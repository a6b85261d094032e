/* SPDX-License-Identifier: Apache-2.0
 *
 * Four-bit codes for one group of weights.
 */
#ifndef TENON_COMMON_FORMATS_QUANT4_H
#define TENON_COMMON_FORMATS_QUANT4_H

#include "plugins/common/formats/fit.h"

/* w[n], n up to 128 -> codes[n] in 0..15, w[i] ~ (codes[i] - 8) * *scale; scale is binary16 and may be negative
 * (fit.h): the weight of largest magnitude is at or near code 0. Its magnitude over |scale| stays within 7..9, so that
 * no weight is off by more than TNI_QUANT4_ERR of it, where it is at least 2^-16; below, by no more than 2^-18. Returns
 * 0; -1 for NaN, infinity, or a magnitude that no binary16 scale can reach (over 8 * 65504). */
int tni_cm_quant4(const tni_fit *f, const float *w, uint32_t n, uint8_t *codes, uint16_t *scale);

#define TNI_QUANT4_ERR 0.2233f /* a weight opposite to the largest one, clipped: (9 - 7) / 9 and the scale's rounding \
                                */

#endif
