/* SPDX-License-Identifier: Apache-2.0
 *
 * What a form of fit.h consists of, and what all forms share. Only for fit*.c.
 */
#ifndef TENON_COMMON_FORMATS_FIT_FORM_H
#define TENON_COMMON_FORMATS_FIT_FORM_H

#include <math.h>

#include "plugins/common/formats/fit.h"

enum { TNI_FIT_LANES = 8, TNI_FIT_SHORT = 32 };

/* Codes less their zero are clipped to lo .. hi; half is added to them. */
typedef struct tni_fit_range {
  float lo, hi, half;
} tni_fit_range;

struct tni_fit {
  int (*group)(const tni_fit_grid *g, const float *w, uint32_t n, uint8_t *codes, uint16_t *scale); /* n: whole lanes */
  void (*codes)(const float *w, uint32_t n, tni_fit_range r, float inv, uint8_t *codes);            /* n: whole lanes */
  int (*size)(const float *w, size_t n, tni_fit_size *out);
  void (*above)(const float *w, size_t n, float from, float *sum, float *count);
  void (*stairs)(const uint8_t *byte, const tni_fit_stairs *s, uint8_t *out);              /* of TNI_FIT_STEP */
  void (*products)(const float *w, const int8_t *level, uint32_t n, float *wl, float *ll); /* n: whole lanes */
};

#if defined(__x86_64__)
extern const tni_fit tni_fit_avx2, tni_fit_avx512;
#endif

/* The search of one group. */
typedef struct tni_fit_search {
  tni_fit_range r;
  float unit, from;  /* d of a start is from / start */
  float least, most; /* of |d| */
  float gain, d;     /* the best: what it takes off the squared error */
} tni_fit_search;

/* extreme: the weight of largest magnitude, the first of equals; NaN or infinity where one is among them. 1; where
 * there is nothing to search, what tni_fit_group returns, with codes and scale set. */
int tni_fit_begin(const tni_fit_grid *g, float extreme, uint32_t n, tni_fit_search *s, uint8_t *codes, uint16_t *scale);
/* d refitted from the sums of w * level and level * level of its codes: kept where it is the best. */
void tni_fit_consider(tni_fit_search *s, float wc, float cc, float d);

/* Elements [i, n) onto sums of those before; i: whole lanes. Not 0 for NaN or infinity. */
uint32_t tni_fit_add_sizes(const float *w, size_t i, size_t n, float *sum, float *squares, float *most);
void tni_fit_add_above(const float *w, size_t i, size_t n, float from, float *sum, float *count);
/* Of eight partial sums of each. */
tni_fit_size tni_fit_size_from(const float *sum, const float *squares, const float *most);

static inline float tni_fit_lane_sum(const float *s) {
  return ((s[0] + s[4]) + (s[1] + s[5])) + ((s[2] + s[6]) + (s[3] + s[7]));
}

#endif
