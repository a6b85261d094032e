/* SPDX-License-Identifier: Apache-2.0
 *
 * What a linear must give, as one sum in int64, and inputs with planted outliers. Both return memory to free().
 */
#ifndef TENON_TESTS_NPU_REFERENCE_H
#define TENON_TESTS_NPU_REFERENCE_H

#include "tests/npu/minihost.h"

/* y[rows, N_j] = f32((f64) S * (s * s_w)), S = sum of q * code; wide: q to 20 bits, else to a byte. */
float *wide_product(const net *n, uint32_t j, const float *x, int64_t rows, float s, bool wide);
/* x[rows, K]: normal within the scale, and up to `most` outliers in each row: some channels again and again, others
 * once. */
float *plant(const net *n, int64_t rows, float s, int64_t most, rng *r);

#define OPEN(m) CU_ASSERT_FATAL(mini_open(&(m)))
#define CLOSE(m)                  \
  do {                            \
    mini_close(&(m));             \
    CU_ASSERT_EQUAL((m).h.live, 0); \
  } while (0)

#endif
