/* SPDX-License-Identifier: Apache-2.0
 *
 * The matrix product engine under MatMul and Gemm.
 *
 * Order of f32 (and halves, which are widened first): y[m,n] = sum over K blocks of TNI_KC, in order, of that block's
 * sum, which starts at 0 and adds a[m,k] * b[k,n] in ascending k, each product and each sum rounded to f32. Neither M,
 * N, tiles, threads nor instruction set change it: one row alone gives the bits that it gives in a batch.
 * f64 and integers: one sum in ascending k; integers wrap.
 */
#ifndef TENON_HOST_GEMM_H
#define TENON_HOST_GEMM_H

#include "runtime/host/internal.h"

/* y[batch][M,N] = alpha * a x b + beta * c. Strides in elements; y is dense. K may be 0. c NULL: none. */
typedef struct tni_gemm {
  uint32_t dtype;
  int64_t M, N, K, batches;
  const void *a, *b, *c;
  void *y;
  int64_t a_row, a_col, b_row, b_col, c_row, c_col;
  /* Batch i starts at a + sum_d idx_d * a_batch[d]; dims of the batch, outermost first. */
  uint32_t batch_rank;
  int64_t batch_dims[TN_MAX_RANK], a_batch[TN_MAX_RANK], b_batch[TN_MAX_RANK];
  float alpha, beta;
} tni_gemm;

uint64_t tni_gemm_scratch(uint32_t dtype, uint32_t n_workers);
/* Dtypes: f32, f16, bf16, f64, i32, i64, u32, u64, i8, u8, i16, u16. */
bool tni_gemm_accepts(uint32_t dtype);
/* TN_E_CANCELLED when the run is to stop; y is then undefined. */
tn_status tni_gemm_run(const tni_gemm *g, void *scratch, tn_run *run);

#endif
