/* SPDX-License-Identifier: Apache-2.0
 *
 * The loops that take the time, compiled once per instruction set (hot.c, hot_attention.c) and chosen by processor.
 *
 * Every variant gives the same bits: lanes are written out with vector types of fixed width, no operation is
 * contracted, and no order depends on the instruction set.
 */
#ifndef TENON_HOST_HOT_H
#define TENON_HOST_HOT_H

#include <stdbool.h>
#include <stdint.h>

enum {
  TNI_NR = 16,   /* columns of one packed panel */
  TNI_MR = 6,    /* most rows of one micro tile */
  TNI_KC = 256,  /* K block of the accumulation order */
  TNI_LANES = 16 /* partial sums of row reductions */
};

typedef struct tni_hot {
  const char *name;
  /* c[mr, 16] (row stride ldc) = or += a[mr, kc] (row stride lda) * b[kc, 16] (row stride ldb; 16 where packed). Each
   * element: one accumulator that starts at 0 and adds a*b in ascending k; then c = acc (first) or c += acc. */
  void (*gemm)(int mr, int64_t kc, const void *a, int64_t lda, const void *b, int64_t ldb, float *c, int64_t ldc,
               int first);
  /* The same, every product added with one rounding: a * b + acc. */
  void (*fgemm)(int mr, int64_t kc, const void *a, int64_t lda, const void *b, int64_t ldb, float *c, int64_t ldc,
                int first);
  /* c[n, 8] = b[n, kc] (row stride ldb) times `rows` <= 8 rows that meet an unpacked b once; columns past them are 0 or
   * what `at` has there. Element k of row r lies at tni_dots8_at(rows, r, k) of at[(kc + 1) / 2 * 2 * (4 or 8)], and 0
   * where kc is odd. Each element of c: the sum over even k in ascending order, plus that over odd k, every product
   * added as by fgemm. c has room for n + 7 rows. next: as many bytes, of rows that lie side by side, are asked of
   * memory meanwhile; NULL: none. */
  void (*dots8)(int rows, int64_t n, int64_t kc, const float *at, const void *b, int64_t ldb, float *c,
                const void *next);
  /* Scores s[n, 8] of one block become probabilities under max[8], which grows to the block's, and sum[8] and decay[8]
   * follow as they would by max, exp and exp_sum, row by row. n: a multiple of 16. false, and nothing is done: a
   * largest score is not finite. */
  bool (*softmax8)(int64_t n, float *s, float *max, float *sum, float *decay);
  /* c[rows or up to 3 more, 16] (row stride ldc) = c * decay[rows] + p[n, 8]^T * b[n, 16] (row stride ldb), the sum as
   * by fgemm; rows <= 8; next as above, n * 64 bytes. */
  void (*values8)(int rows, int64_t n, const float *p, const void *b, int64_t ldb, const float *decay, float *c,
                  int64_t ldc, const void *next);
  /* The sums of gemm for one row and n <= 512 columns of an unpacked b[kc, n] with row stride ldb (elements). */
  void (*gemv)(int64_t kc, const void *a, const void *b, int64_t ldb, int64_t n, float *c, int first);
  /* dst[kc, 16] = transpose of src[n <= 16, kc] with row stride ld; columns from n on are 0. */
  void (*pack_t)(float *dst, const void *src, int64_t ld, int64_t n, int64_t kc);
  /* y[i] = f(x[i]); y may be x. */
  void (*exp)(float *y, const void *x, int64_t n);
  void (*sigmoid)(float *y, const void *x, int64_t n);
  void (*tanh)(float *y, const void *x, int64_t n);
  /* x * sigmoid(alpha x) */
  void (*swish)(float *y, const void *x, int64_t n, float alpha);
  /* y = exp(x - max), x <= max, 0 where that is under 2^-126, and returns the sum of y, in 16 interleaved partial sums
   * that are then added pairwise. */
  float (*exp_sum)(void *y, const void *x, int64_t n, float max);
  /* Row sums in the same order: of x, of (x - mean)^2. */
  float (*sum)(const void *x, int64_t n);
  float (*sum_sq)(const void *x, int64_t n, float mean);
  /* Largest element; NaN if there is one; -inf for n = 0. */
  float (*max)(const void *x, int64_t n);
} tni_hot;

static inline int64_t tni_dots8_at(int64_t rows, int64_t row, int64_t k) {
  if (rows <= 4) return k / 2 * 8 + row * 2 + k % 2;
  return k / 2 * 16 + (row / 2 % 2 * 4 + row / 4 * 2 + row % 2) * 2 + k % 2;
}

/* The best variant for this processor. */
const tni_hot *tni_hot_get(void);
/* All compiled variants that this processor runs: for tests. index past the end: NULL. */
const tni_hot *tni_hot_variant(uint32_t index);

#endif
