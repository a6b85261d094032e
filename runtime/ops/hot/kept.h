/* SPDX-License-Identifier: Apache-2.0
 *
 * Attention over caches as they are kept: products of up to eight rows with rows of int8 or of halves, where the
 * processor multiplies those faster than floats. Elsewhere rows are widened to floats first.
 *
 * Numerics. All variants of a kind give the same bits.
 *
 * int8 (kvrow.h: codes and a scale): a query becomes codes and a scale by the rule of the cache's own rows. A score is
 * (sum of products of codes, exact) * the key's scale * the query's. Probabilities of a block are multiplied by the
 * scales of their rows of V; with a the largest of a query, code = w * (127 / a), half to even, and the block's sum is
 * (sum of products of codes, exact) * (a / 127). a below 2^-120 counts as 0, and what is no number stays none.
 *
 * Halves: a query is multiplied by a power of two that makes its largest element less than 2 / size, so that no sum
 * leaves the range of halves, and rounded to halves. A score is eight sums of halves, of the elements i with equal
 * i % 8 in ascending i, each product added with one rounding; neighbours of them are added twice over, as halves, and
 * the two that are left as floats; then that power of two is taken back. Probabilities are divided by 32 and rounded to
 * halves; 32 keys at a time are added up as halves, in ascending order, each product with one rounding; 32 times that
 * is added to the sum of the block in float32.
 */
#ifndef TENON_OPS_HOT_KEPT_H
#define TENON_OPS_HOT_KEPT_H

#include <stdint.h>

enum { TNI_KEPT_I8, TNI_KEPT_F16, TNI_KEPT_KINDS };
enum { TNI_KEPT_UNIT = 16, TNI_KEPT_MOST = 256 }; /* head sizes are multiples of the one, and the other at most */

typedef struct tni_kept {
  const char *name;
  int kind;
  /* Row r < 8 of queries: x[size] goes into at[8 * size floats], which the first row finds cleared. */
  void (*query)(void *at, int64_t r, const float *x, int64_t size);
  /* c[n, 8] = scores of rows b[n, size] (`pitch` bytes from one to the next), of rows from `rows` on 0. c has room for
   * n + 7 rows. next: as many bytes, of rows that lie side by side, are asked of memory meanwhile; NULL: none. */
  void (*dots8)(int rows, int64_t n, int64_t size, const void *at, const void *b, int64_t pitch, float *c,
                const void *next);
  /* p[n, 8] becomes what values8 takes, in its place, which has room for n + 7 rows; step[8] belongs to it. */
  void (*probs8)(float *p, int64_t n, const void *b, int64_t pitch, int64_t size, float *step);
  /* c[rows or up to 3 more, 16] (row stride ldc) = c * decay[rows] + the sum; b: 16 columns of the rows. */
  void (*values8)(int rows, int64_t n, const float *p, const float *step, const void *b, int64_t pitch,
                  const float *decay, float *c, int64_t ldc, const void *next);
} tni_kept;

/* The best for this processor; NULL: it has none of this kind. */
const tni_kept *tni_hot_kept(int kind);
/* All that this processor runs, for tests; past the last: NULL. */
const tni_kept *tni_hot_kept_variant(uint32_t index);

#endif
