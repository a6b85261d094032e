/* SPDX-License-Identifier: Apache-2.0
 *
 * The matrix product engine under MatMul and Gemm.
 *
 * Order of f32 (and halves, which are widened first): y[m,n] = sum over K blocks of TNI_KC, in order, of that block's
 * sum, which starts at 0 and takes a[m,k] * b[k,n] + sum, rounded once, in ascending k. Neither M,
 * N, tiles, threads nor instruction set change it: one row alone gives the bits that it gives in a batch.
 * f64 and integers: one sum in ascending k; integers wrap.
 */
#ifndef TENON_OPS_GEMM_FLOATS_H
#define TENON_OPS_GEMM_FLOATS_H

#include "runtime/ops/hot/hot.h"
#include "runtime/ops/kernel/kernel.h"

/* dst [nb rounded up to panels of TNI_NR columns][kc][TNI_NR] = b[k0 .. k0 + kc, n0 .. n0 + nb] of a batch, widened to
 * f32; columns past nb are 0. */
typedef void (*tni_gemm_pack)(const void *ctx, int64_t batch, int64_t k0, int64_t kc, int64_t n0, int64_t nb,
                              float *dst);

/* y[batch][M,N] = alpha * a x b + beta * c. Strides in elements; y is dense. K may be 0. c NULL: none. */
typedef struct tni_gemm {
  uint32_t dtype, b_dtype; /* b_dtype 0: as all others; else float16 or bfloat16 where dtype is float32 */
  int64_t M, N, K, batches;
  const void *a, *b, *c;
  void *y;
  int64_t a_row, a_col, b_row, b_col, c_row, c_col;
  /* Batch i starts at a + sum_d idx_d * a_batch[d]; dims of the batch, outermost first. */
  uint32_t batch_rank;
  int64_t batch_dims[TN_MAX_RANK], a_batch[TN_MAX_RANK], b_batch[TN_MAX_RANK], c_batch[TN_MAX_RANK];
  float alpha, beta;
  /* Not NULL: there is no matrix b; whoever knows its elements packs them (f32 and halves only). */
  tni_gemm_pack pack;
  const void *pack_ctx;
  /* Not 0: columns are rows of `width` (the last may end early), and y has the first `keep` of each. */
  int64_t width, keep;
  /* Not NULL: y is bounded by it; f32 only. */
  const tni_bounds *bounds;
  /* Rows of a that are all zeros give zeros, and where a tile has no others, b is not read: experts that nobody chose.
   * The bits are those of the sums, unless b holds inf or NaN. f32 and halves, a_col 1. */
  bool skips_zeros;
  /* Of the pieces below: asked within long sums whether to stop; NULL: nobody is. tni_gemm_run sets it. */
  const tn_run *run;
} tni_gemm;

uint64_t tni_gemm_scratch(uint32_t dtype, uint32_t n_workers);
/* Dtypes: f32, f16, bf16, f64, i32, i64, u32, u64, i8, u8, i16, u16. */
bool tni_gemm_accepts(uint32_t dtype);
/* y is undefined when the run was to stop. */
void tni_gemm_run(tni_gemm *g, void *scratch, tn_run *run);

/* --- pieces of a product of f32 or halves, for kernels that go on with the sums before they leave the cache --- */
enum {
  TNI_GEMM_ROWS = 108, /* that meet packed columns at a time: with TNI_KC of a they stay in a second-level cache */
  TNI_GEMM_MOST = 4 * TNI_GEMM_ROWS, /* of a tile: so often packed columns are used */
  TNI_GEMM_COLS = 64,
  TNI_GEMM_ROW_COLS = 512, /* columns of one piece of a one-row product; at most 512 */
  TNI_GEMM_PACKED = TNI_KC * (TNI_GEMM_COLS + TNI_GEMM_ROWS) /* floats that a tile packs into */
};
/* Rows of a tile where `tiles` others share the workers with it and may have up to `most` rows: few enough that all
 * have work, and about as many in each. */
int64_t tni_gemm_rows(int64_t M, int64_t most, int64_t tiles, uint32_t n_workers);
/* c[m * TNI_GEMM_COLS + n] = sums of rows m0 + m, m < mb <= TNI_GEMM_MOST (TNI_GEMM_ROWS where zeros are left out), and
 * columns n0 + n, n < nb <= TNI_GEMM_COLS. alpha, beta, c, y, M and N of g are not read. All of c's rows may change. */
void tni_gemm_tile(const tni_gemm *g, const tni_hot *hot, int64_t batch, int64_t m0, int64_t mb, int64_t n0, int64_t nb,
                   float *packed, float *c);
/* Whether tni_gemm_row can have these sums: one row of f32 or halves, and columns of b as they lie. */
bool tni_gemm_one_row(const tni_gemm *g);
/* The same sums of row 0 for n <= TNI_GEMM_ROW_COLS columns. */
void tni_gemm_row(const tni_gemm *g, const tni_hot *hot, int64_t batch, int64_t n0, int64_t n, float *c);

#endif
