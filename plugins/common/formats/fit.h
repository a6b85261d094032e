/* SPDX-License-Identifier: Apache-2.0
 *
 * How packers find scales: levels that are equally far apart, and what touches every weight. Plain f32 multiplications,
 * divisions and additions in a stated order, no contraction, no square roots: the result is the same on every machine.
 */
#ifndef TENON_COMMON_FORMATS_FIT_H
#define TENON_COMMON_FORMATS_FIT_H

#include <stddef.h>
#include <stdint.h>

/* Levels (code - zero + half) * d for codes 0 .. top, and how d is searched. Largest magnitude over |d| is in least ..
 * most; a negative start has the largest weight on the side with fewer levels. What is stored is unit * d. */
enum { TNI_FIT_STARTS = 8 };
typedef struct tni_fit_grid {
  uint32_t zero, top;
  float half, unit; /* 0 and 1, or 0.5 and 0.5: odd multiples of the scale */
  float least, most;
  float start[TNI_FIT_STARTS]; /* largest magnitude over d */
} tni_fit_grid;

/* Of a row or group, in eight partial sums: of magnitudes, of their squares; and the largest magnitude. */
typedef struct tni_fit_size {
  float sum, squares, most;
} tni_fit_size;

/* Forms of what touches every weight: 0 portable, 1 with AVX2 and FMA, 2 with AVX-512 (VBMI); the same bits. NULL: not
 * here. */
typedef struct tni_fit tni_fit;
enum { TNI_FIT_FORMS = 3 };
const tni_fit *tni_fit_form(uint32_t i);
const tni_fit *tni_fit_best(void); /* of this processor: asked once per matrix */

/* w[n], n up to 128 -> codes[n] and the scale, binary16. The codes of each start are refitted by least squares, within
 * least .. most; the one that leaves least squared error is refitted once more where n is over 32 (sums of products in
 * eight partial sums, element i in sum i % 8; the first of equals wins). No weight is off by more than tni_fit_err of
 * the largest magnitude, but for the rounding of scales that are not normal. 0; -1 for NaN, infinity, or a magnitude
 * that no scale reaches. */
int tni_fit_group(const tni_fit *f, const tni_fit_grid *g, const float *w, uint32_t n, uint8_t *codes, uint16_t *scale);
float tni_fit_err(const tni_fit_grid *g);

/* w[i] * inv, clipped to lo .. hi and rounded half to even, minus lo. */
void tni_fit_codes(const tni_fit *f, const float *w, uint32_t n, float lo, float hi, float inv, uint8_t *codes);
/* -1 for NaN or infinity. */
int tni_fit_size_of(const tni_fit *f, const float *w, size_t n, tni_fit_size *out);
/* What is of magnitude `from` and above: its mean magnitude (0: nothing is), and what that as the scale takes off the
 * squared error. */
float tni_fit_mean_above(const tni_fit *f, const float *w, size_t n, float from, float *gain);

/* out = first + the up of all steps that byte is above, modulo 256; of 256 bytes. table: of every byte, by
 * tni_fit_stairs_ready. */
enum { TNI_FIT_STAIRS = 15, TNI_FIT_STEP = 256 };
typedef struct tni_fit_stairs {
  uint8_t first, above[TNI_FIT_STAIRS], up[TNI_FIT_STAIRS];
  uint8_t table[256];
} tni_fit_stairs;
void tni_fit_stairs_ready(tni_fit_stairs *s);
void tni_fit_climb(const tni_fit *f, const uint8_t *byte, const tni_fit_stairs *s, uint8_t *out);
/* Sums of w * level and of level * level onto wl[8] and ll[8], element i onto i % 8. */
void tni_fit_products(const tni_fit *f, const float *w, const int8_t *level, uint32_t n, float *wl, float *ll);

/* The nearest binary16, as a float; past 65504 some float past it. */
float tni_fit_half(float v);

#endif
