/* SPDX-License-Identifier: Apache-2.0
 *
 * Discrete Fourier transforms of any length, in double: mixed radix, decimation in time, n * (sum of n's prime factors)
 * steps. Twiddles come from one table of n-th roots, so every one has the error of one cos and sin only.
 */
#ifndef TENON_OPS_ARITH_FFT_H
#define TENON_OPS_ARITH_FFT_H

#include <stdbool.h>
#include <stdint.h>

#include "runtime/base/base.h"

typedef struct tni_complex {
  double re, im;
} tni_complex;

/* root[n]: exp(-2 pi i k / n), of the inverse exp(+2 pi i k / n). */
void tni_fft_roots(tni_complex *root, int64_t n, bool inverse, tni_poll *poll);
/* y[n] = the transform of x[n], unscaled. room[n]. None of the three overlap. */
void tni_fft(const tni_complex *root, int64_t n, const tni_complex *x, tni_complex *y, tni_complex *room,
             tni_poll *poll);

#endif
