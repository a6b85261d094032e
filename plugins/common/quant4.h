/* SPDX-License-Identifier: Apache-2.0
 *
 * Four-bit codes for one group of weights. Plain f32 multiplications and additions in a stated order, no contraction,
 * no square roots: the result is the same on every machine.
 */
#ifndef TENON_COMMON_QUANT4_H
#define TENON_COMMON_QUANT4_H

#include <stdint.h>

/* w[n], n a multiple of 8 up to 128 -> codes[n] in 0..15, w[i] ~ (codes[i] - 8) * *scale; scale is binary16 and may be
 * negative. Starts from the scale that maps the weight of largest magnitude to code 0, tries fixed factors around it,
 * keeps the least sum of squared errors (eight partial sums, element i in sum i % 8; the first of equals wins), and
 * refits that one by least squares (refitting all of them would gain 0.1 % of the squared error at 1.6 times the work). The largest magnitude over |scale| stays within 7..9, so that no weight is off by more
 * than TNI_QUANT4_ERR of the largest magnitude, where that is at least 2^-16; below, by no more than 2^-18.
 * Returns 0; -1 for NaN, infinity, or a magnitude that no binary16 scale can reach (over 8 * 65504). */
int tni_cm_quant4(const float *w, uint32_t n, uint8_t *codes, uint16_t *scale);

/* The same bits without the processor's vector instructions. */
int tni_cm_quant4_portable(const float *w, uint32_t n, uint8_t *codes, uint16_t *scale);

#define TNI_QUANT4_ERR 0.2223f /* a weight opposite to the largest one, clipped: (9 - 7) / 9 */

#endif
