/* SPDX-License-Identifier: Apache-2.0
 *
 * What the machine can do at most: the yardsticks of the benchmark, each for a processor that has its instructions.
 */
#ifndef TENON_TESTS_KERNELS_BENCH_AVX2_H
#define TENON_TESTS_KERNELS_BENCH_AVX2_H

#include <stddef.h>
#include <stdint.h>

/* Reads n bytes (a multiple of 256) and returns something of them. */
uint64_t bench_read(const void *p, size_t n);
/* n rounds of independent products of bytes, with their sums in registers; return the multiply-adds done. Eight of
 * maddubs + add of 32 bytes; twelve vpdpbusd of 32 and of 64; four products of AMX tiles. */
double bench_peak(size_t n, int32_t *sink);
double bench_peak_avxvnni(size_t n, int32_t *sink);
double bench_peak_avx512vnni(size_t n, int32_t *sink);
double bench_peak_amx(size_t n, int32_t *sink);

#endif
