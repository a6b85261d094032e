/* SPDX-License-Identifier: Apache-2.0
 *
 * The product engine of bytes, under MatMulInteger, QLinearMatMul, ConvInteger, QLinearConv and tenon.QLinearGemm.
 *
 * Both operands are packed as 16-bit integers with their zero points taken off, so that sums need no correction and
 * what lies in a convolution's padding is 0. Where the processor multiplies bytes (dots.h) they stay signed bytes, and
 * sums of rows and columns take the zero points off at the end. Sums are those of integers modulo 2^32, in whatever
 * order: tiles, threads and instruction sets change nothing.
 */
#ifndef TENON_OPS_GEMM_BGEMM_H
#define TENON_OPS_GEMM_BGEMM_H

#include "runtime/ops/hot/hot.h"
#include "runtime/ops/kernel/kernel.h"

enum {
  TNI_BGEMM_ROWS = 96,                 /* that meet packed columns at a time */
  TNI_BGEMM_MOST = 4 * TNI_BGEMM_ROWS, /* of a tile */
  TNI_BGEMM_COLS = 128,
  TNI_BGEMM_KC = 512, /* even */
  /* of a worker's scratch */
  TNI_BGEMM_BYTES = 2 * TNI_BGEMM_KC * (TNI_BGEMM_ROWS + TNI_BGEMM_COLS) + 4 * TNI_BGEMM_MOST * TNI_BGEMM_COLS
};

/* c[batch][M,N] = a[batch][M,K] x b[batch][K,N]. Whoever knows the elements packs them, and takes the sums. K may be 0.
 */
typedef struct tni_bgemm {
  int64_t M, N, K, batches;
  const void *ctx;
  /* dst[mb][kc rounded up to even] = rows m0 .. m0 + mb, columns k0 .. k0 + kc of a; the odd one out is 0. */
  void (*pack_a)(const void *ctx, int64_t batch, int64_t m0, int64_t mb, int64_t k0, int64_t kc, int16_t *dst);
  /* dst [nb rounded up to panels of TNI_NR columns][(kc + 1) / 2][TNI_NR][2] = rows k0 .. k0 + kc, columns n0 .. n0 +
   * nb of b, two rows side by side; the odd one out is 0, columns past nb may be anything. */
  void (*pack_b)(const void *ctx, int64_t batch, int64_t k0, int64_t kc, int64_t n0, int64_t nb, int16_t *dst);
  /* The same as signed bytes: rows as the tile takes them, with ld elements, 0 past kc; their zero points; and what is
   * added to their sums. */
  void (*bytes_a)(const void *ctx, const tni_dots *dots, int64_t batch, int64_t m0, int64_t mb, int64_t k0, int64_t kc,
                  int64_t ld, int8_t *dst, int32_t *zero, int32_t *sum);
  /* dst[panels][ld / unit][TNI_NR][unit], 0 past kc, and the columns' zero points. */
  void (*bytes_b)(const void *ctx, const tni_dots *dots, int64_t batch, int64_t k0, int64_t kc, int64_t ld, int64_t n0,
                  int64_t nb, int8_t *dst, int32_t *zero);
  /* c[m * TNI_BGEMM_COLS + n] are the sums of rows m0 + m, m < mb, and columns n0 + n, n < nb. */
  void (*finish)(const void *ctx, int64_t batch, int64_t m0, int64_t mb, int64_t n0, int64_t nb, int32_t *c);
} tni_bgemm;

uint64_t tni_bgemm_scratch(uint32_t n_workers);
/* What finish gave is not all when the run was to stop. */
void tni_bgemm_run(const tni_bgemm *g, void *scratch, tn_run *run);

#endif
