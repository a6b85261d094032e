/* SPDX-License-Identifier: Apache-2.0
 *
 * What the machine can do at most: the yardsticks of the benchmark, built with AVX2.
 */
#ifndef TENON_TESTS_KERNELS_BENCH_AVX2_H
#define TENON_TESTS_KERNELS_BENCH_AVX2_H

#include <stddef.h>
#include <stdint.h>

/* Reads n bytes (a multiple of 256) and returns something of them. */
uint64_t bench_read(const void *p, size_t n);
/* n rounds of 8 independent maddubs + add of 32 byte products; returns the multiply-adds done. */
double bench_peak(size_t n, int32_t *sink);

#endif
