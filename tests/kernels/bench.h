/* SPDX-License-Identifier: Apache-2.0
 *
 * What the parts of kernels-test --bench share.
 */
#ifndef TENON_TESTS_KERNELS_BENCH_H
#define TENON_TESTS_KERNELS_BENCH_H

#include "tests/kernels/harness.h"

/* Packed matrices of the subject one behind the other, any codes, scales of 2^-7; free() it. */
uint8_t *bench_blob(const subject *s, uint64_t copies);

double bench_now(void); /* seconds */
int run_bench(void);
void run_nmse_bench(void);
/* Kernels beside the machine's limits by shape; part: of "ISA FORMAT", "": all. */
void run_targets_bench(const char *part);
/* Grids beside the plain formats; part: of "ISA gridBITS:GROUP,SCALE,ZERO", "": all. */
void run_grids_bench(const char *part);
/* Fused products of the plugin beside the unfused form. */
int run_fused_bench(const char *so_path);

#endif
