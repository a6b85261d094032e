/* SPDX-License-Identifier: Apache-2.0
 *
 * Scales and codes for dot.h, of one group, of one row, and the levels of a matrix. Plain f32 multiplications,
 * divisions and additions in a stated order, no contraction: the result is the same on every machine.
 */
#ifndef TENON_COMMON_FORMATS_DOT_FIT_H
#define TENON_COMMON_FORMATS_DOT_FIT_H

#include <stddef.h>
#include <stdint.h>

#include "plugins/common/formats/fit.h"

/* w[128] -> codes[128] in 0 .. 2 zero - 1, w[i] ~ (codes[i] - zero) * *scale; zero is 2 or 4, scale is binary16 and may
 * be negative (fit.h). No weight is off by more than tni_dot_err(zero) of the largest magnitude where that is at least
 * 2^-14; below, by no more than 2^-16 more. Returns 0; -1 for NaN, infinity, or a magnitude that no binary16 scale can
 * reach (over zero * 65504). */
int tni_dot_fit(const tni_fit *f, const float *w, uint32_t zero, uint8_t *codes, uint16_t *scale);
float tni_dot_err(uint32_t zero);

/* w[128] -> codes in 0..255, w[i] ~ (codes[i] - 128) * *scale; scale is the largest magnitude / 127, rounded up to
 * binary16. -1 as above (over 127 * 65504). */
int tni_dot_fit_bytes(const tni_fit *f, const float *w, uint8_t *codes, uint16_t *scale);

/* w[n], n <= 128 -> codes[128], 0 or (w[i] >= 0) 2; scale is the mean magnitude of the n as binary16. Codes after n
 * are 0. -1 for NaN, infinity, or a mean over 65504. */
int tni_dot_fit_signs(const tni_fit *f, const float *w, uint32_t n, uint8_t *codes, uint16_t *scale);

/* Scale of a row for levels -1, 0, 1: s where all elements are 0, -s or s; else of five steps of "threshold half the
 * scale, scale the mean magnitude above it", the first from 1.5 times the mean magnitude, the one that leaves least
 * squared error; 0 instead of a denormal. -1 for NaN or infinity. */
int tni_dot_ternary_scale(const tni_fit *f, const float *w, size_t n, float *scale);
/* 1 + w / scale rounded half to even, in 0..2. */
void tni_dot_ternary_codes(const tni_fit *f, const float *w, uint32_t n, float scale, uint8_t *codes);

/* How often values come, in 64ths of their row's root mean square; what is over 8 of them counts as 8. */
enum { TNI_DOT_BINS = 1024 };
typedef struct tni_dot_histogram {
  double count[TNI_DOT_BINS], sum[TNI_DOT_BINS]; /* sum: of the values themselves */
} tni_dot_histogram;
/* Adds a row. -1 for NaN or infinity. */
int tni_dot_count(const tni_fit *f, tni_dot_histogram *h, const float *w, size_t n);

typedef struct tni_dot_levels {
  int8_t level[16];               /* ascending, the largest magnitude 127 */
  tni_fit_stairs indices, values; /* of the level nearest to v, at v + 128; of two the lower */
  float reach;                    /* what 127 stands for, in root mean squares of a row */
} tni_dot_levels;
/* From the sixteen values that leave least squared error over the histogram's bins (dynamic programming: no better ones
 * exist). */
void tni_dot_levels_of(const tni_dot_histogram *h, tni_dot_levels *out);
/* Scale of a row over these levels: two steps of nearest levels and least squares; 0 instead of a denormal. -1 for NaN
 * or infinity. */
int tni_dot_level_scale(const tni_fit *f, const float *w, size_t n, const tni_dot_levels *l, float *scale);
/* Index of the level nearest to w / scale, rounded half to even before. */
void tni_dot_level_codes(const tni_fit *f, const float *w, uint32_t n, const tni_dot_levels *l, float scale,
                         uint8_t *index);

#endif
