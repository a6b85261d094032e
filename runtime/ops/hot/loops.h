/* SPDX-License-Identifier: Apache-2.0
 *
 * The loops that take the time, compiled once per instruction set (hot.c, hot_attention.c) and chosen by processor.
 *
 * Every variant gives the same bits, but for products of bfloat16 where odd_b16 says so: lanes are written out with
 * vector types of fixed width, no order depends on the instruction set, and nothing is contracted but what says so:
 * products are added with one rounding, which is half the instructions where there is one that does it. Only processors
 * without one do it in two: "twice", x86-64 before FMA.
 */
#ifndef TENON_OPS_HOT_LOOPS_H
#define TENON_OPS_HOT_LOOPS_H

#include <stdbool.h>
#include <stdint.h>

enum {
  TNI_NR = 16,    /* columns of one packed panel */
  TNI_MR = 12,    /* most rows of one micro tile */
  TNI_KC = 256,   /* K block of the accumulation order */
  TNI_LANES = 16, /* partial sums of row reductions */
  TNI_BR = 6      /* most rows of one micro tile of bytes; it has TNI_NR columns */
};

/* What integers x are rounded to bytes with: y = saturate(round(x * scale) + zero), half to even. lo, hi: the range of
 * the byte's type. A NaN gives lo. */
typedef struct tni_to_byte {
  float zero, lo, hi;
} tni_to_byte;
/* What bytes are widened with: (byte ^ flip) - zero. int8 is flip 128 and its zero point + 128, uint8 flip 0. */
typedef struct tni_of_byte {
  uint32_t flip;
  int32_t zero;
} tni_of_byte;

typedef struct tni_hot {
  const char *name;
  int mr; /* rows of gemm's micro tile: TNI_MR is a multiple of it */
  /* Sums of words are those of aarch64's BFMMLA: in ascending words, the sum of a word's two products is rounded, and
   * then the accumulator's sum with it, both to odd (what is cut off sets the last bit). What is below 2^-126, and
   * makes it, is 0. A step is off by less than 2^-23 of its result where the other variants' are by 2^-24. */
  bool odd_b16;
  /* c[mr, 16] (row stride ldc) = or += a[mr, kc] (row stride lda) * b[kc, 16] (row stride ldb; 16 where packed), mr up
   * to TNI_MR. Each element: one accumulator that starts at 0 and takes a * b + acc, rounded once, in ascending k; then
   * c = acc (first) or c += acc. */
  void (*gemm)(int mr, int64_t kc, const void *a, int64_t lda, const void *b, int64_t ldb, float *c, int64_t ldc,
               int first);
  /* The same for c[mr, 32]: columns 16 to 31 are those of b + step. */
  void (*gemm2)(int mr, int64_t kc, const void *a, int64_t lda, const void *b, int64_t ldb, int64_t step, float *c,
                int64_t ldc, int first);
  /* c[n, 8] = b[n, kc] (row stride ldb) times `rows` <= 8 rows that meet an unpacked b once; columns past them are 0 or
   * what `at` has there. Element k of row r lies at tni_dots8_at(rows, r, k) of at[(kc + 1) / 2 * 2 * (4 or 8)], and 0
   * where kc is odd. Each element of c: the sum over even k in ascending order, plus that over odd k, every product
   * added as by gemm. c has room for n + 7 rows. next: as many bytes, of rows that lie side by side, are asked of
   * memory meanwhile; NULL: none. */
  void (*dots8)(int rows, int64_t n, int64_t kc, const float *at, const void *b, int64_t ldb, float *c,
                const void *next);
  /* Scores s[n, 8] of one block become probabilities under max[8], which grows to the block's, and sum[8] and decay[8]
   * follow as they would by max, exp and exp_sum, row by row. n: a multiple of 16. false, and nothing is done: a
   * largest score is not finite. */
  bool (*softmax8)(int64_t n, float *s, float *max, float *sum, float *decay);
  /* c[rows or up to 3 more, 16] (row stride ldc) = c * decay[rows] + p[n, 8]^T * b[n, 16] (row stride ldb), the sum as
   * by gemm; rows <= 8; next as above, n * 64 bytes. */
  void (*values8)(int rows, int64_t n, const float *p, const void *b, int64_t ldb, const float *decay, float *c,
                  int64_t ldc, const void *next);
  /* --- bfloat16, in words of two elements: an even element in the low half, the odd one after it in the high half ---
   *
   * The same tiles over words: kc, lda, ldb and step count them. Each element of c: one accumulator that starts at 0
   * and takes, in ascending words, the product of the high halves and then that of the low ones, each added with one
   * rounding, as x86's instruction for it (vdpbf16ps) has it. That one takes what is below 2^-126, and makes it, 0. */
  void (*gemm_b16)(int mr, int64_t kc, const void *a, int64_t lda, const void *b, int64_t ldb, float *c, int64_t ldc,
                   int first);
  void (*gemm2_b16)(int mr, int64_t kc, const void *a, int64_t lda, const void *b, int64_t ldb, int64_t step, float *c,
                    int64_t ldc, int first);
  /* c[n, 8] = b[n, kc words] (row stride ldb) times eight rows, the sums as by gemm_b16. Word k of row r lies at
   * tni_words8_at(hot, r, k) of at[(kc + 1) / 2 * 2 * 8], which is 0 where kc is odd. c has room for n + 7 rows; next
   * as above, of rows without gaps. */
  void (*dots8_b16)(int64_t n, int64_t kc, const void *at, const void *b, int64_t ldb, float *c, const void *next);
  /* c[rows or up to 3 more, 16] (row stride ldc) = c * decay[rows] + the sums by gemm_b16 over words of two rows of
   * b[n, 16] (row stride ldb, in elements), with p as words8_b16 leaves it; next: n * 32 bytes. */
  void (*values8_b16)(int rows, int64_t n, const float *p, const void *b, int64_t ldb, const float *decay, float *c,
                      int64_t ldc, const void *next);
  /* dst[n] = the bfloat16 nearest to floats src[n], half to even; dst may be src. */
  void (*to_b16)(void *dst, const void *src, int64_t n);
  /* p[n, 8] becomes words of rows 2i and 2i + 1, in its place; n is even. Word i of row r is at tni_words8_at(hot, r,
   * i), with odd_b16 one more of 0 after an odd number of them. */
  void (*words8_b16)(float *p, int64_t n);
  /* Words of two rows: low[n] and high[n]. */
  void (*zip_b16)(void *dst, const void *low, const void *high, int64_t n);
  /* The sums of gemm for one row of floats and n <= 512 columns of an unpacked b[kc, n] with row stride ldb (elements):
   * b of floats, halves, bfloat16. */
  void (*gemv[3])(int64_t kc, const void *a, const void *b, int64_t ldb, int64_t n, float *c, int first);
  /* dst[kc, 16] = transpose of src[n <= 16, kc] with row stride ld; columns from n on are 0. */
  void (*pack_t)(float *dst, const void *src, int64_t ld, int64_t n, int64_t kc);
  /* --- bytes; integers wrap modulo 2^32 --- */
  /* dst[i] = src[i] widened, i < n. */
  void (*widen)(int16_t *dst, const void *src, tni_of_byte q, int64_t n);
  /* dst[i][2] = (r0[i], r1[i]) widened; r1 NULL: 0. */
  void (*widen_pairs)(int16_t *dst, const void *r0, const void *r1, tni_of_byte q, int64_t n);
  /* dst[i] = src[i * stride] widened, as floats. */
  void (*widen_floats)(float *dst, const void *src, int64_t stride, tni_of_byte q, int64_t n);
  /* c[mr, 16] (row stride ldc) = or += a[mr, pairs, 2] (row stride lda) * b[pairs, 16, 2]: sums over both of a pair.
   * Factors from -255 to 255. */
  void (*bgemm)(int mr, int64_t pairs, const int16_t *a, int64_t lda, const int16_t *b, int32_t *c, int64_t ldc,
                int first);
  /* acc[i] = w[t] * x[i + t * step] + acc[i], rounded once, for every t < taps in ascending order. */
  void (*taps)(float *acc, const float *x, const float *w, int64_t taps, int64_t step, int64_t n);
  /* y[i] = byte of c[i] (an f32, rounded once) and scale[i], or scale[0] where per is 0. */
  void (*requantize)(void *y, const int32_t *c, const float *scale, int per, tni_to_byte q, int64_t n);
  /* y[i] = x[i], which are integers below 2^24, + add. */
  void (*integers)(int32_t *y, const float *x, int32_t add, int64_t n);
  /* y[i] = byte of x[i] divided by scale; a NaN gives zero. */
  void (*quantize)(void *y, const void *x, float scale, tni_to_byte q, int64_t n);
  /* *lo and *hi become as far as x reaches beyond them; NaNs do not count. */
  void (*range)(const void *x, int64_t n, float *lo, float *hi);
  /* y[i] = x[i] widened * scale. */
  void (*dequantize)(float *y, const void *x, float scale, tni_of_byte q, int64_t n);
  /* dst[i] = src[i], binary16; exact, and NaNs quiet. */
  void (*from_half)(float *dst, const void *src, int64_t n);
  /* y[i] = f(x[i]); y may be x. */
  void (*exp)(float *y, const void *x, int64_t n);
  void (*sigmoid)(float *y, const void *x, int64_t n);
  void (*tanh)(float *y, const void *x, int64_t n);
  void (*erf)(float *y, const void *x, int64_t n); /* within 1.3 ulp */
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

/* gemm2, or gemm where there are no more columns than one panel has; b16: those of words. */
static inline void tni_hot_panels(const tni_hot *hot, bool b16, int64_t columns, int mr, int64_t kc, const void *a,
                                  int64_t lda, const void *b, int64_t ldb, int64_t step, float *c, int64_t ldc,
                                  int first) {
  if (columns > TNI_NR)
    (b16 ? hot->gemm2_b16 : hot->gemm2)(mr, kc, a, lda, b, ldb, step, c, ldc, first);
  else
    (b16 ? hot->gemm_b16 : hot->gemm)(mr, kc, a, lda, b, ldb, c, ldc, first);
}

static inline int64_t tni_dots8_at(int64_t rows, int64_t row, int64_t k) {
  if (rows <= 4) return k / 2 * 8 + row * 2 + k % 2;
  return k / 2 * 16 + (row / 2 % 2 * 4 + row / 4 * 2 + row % 2) * 2 + k % 2;
}

static inline int64_t tni_words8_at(const tni_hot *hot, int64_t row, int64_t k) {
  return hot->odd_b16 ? k / 2 * 16 + row * 2 + k % 2 : k * 8 + row;
}

/* The best variant for this processor. */
const tni_hot *tni_hot_get(void);
/* All variants of the library that this processor runs and that give the same bits: for tests. index past the end:
 * NULL. On x86-64 portable C is none of them: a processor without AVX2 and FMA takes `twice`. Tests link it by
 * themselves (tni_hot_base). */
const tni_hot *tni_hot_variant(uint32_t index);

#endif
