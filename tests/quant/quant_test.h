/* SPDX-License-Identifier: Apache-2.0 */
#ifndef TENON_TESTS_QUANT_TEST_H
#define TENON_TESTS_QUANT_TEST_H

#include <CUnit/Basic.h>

#include "runtime/quant/quant.h"

float any_normal(void);
/* h [K,K] of T rows whose channels depend on each other and differ in size. */
float *any_moments(int64_t K, int64_t T, tn_run *run);
float *any_matrix(int64_t N, int64_t K);

void test_moments(void);
void test_factor(void);
void test_factor_refuses(void);
void test_exact(void);
void test_brute_force(void);
void test_below_rounding(void);
void test_on_grid(void);
void test_parents(void);
void test_threads(void);
void test_odd_shapes(void);
void test_refuses(void);
void test_drift(void);
void test_drift_of_sums(void);
void test_drift_threads(void);
void test_drift_of_long_rows(void);
void test_variants(void);
void budget_tests(CU_pSuite s);
void spill_tests(CU_pSuite s);

#endif
