/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/npu/reference.h"

#include <math.h>
#include <stdlib.h>

/* --- the reference ----------------------------------------------------------------------------------------------- */

/* Codes and scale of weight j, by another way than the packer's. */
static int8_t *codes_of(const net *n, uint32_t j, double *scale) {
  float max = 0;
  int e;
  int8_t *c = malloc((size_t)(n->K * n->N[j]));
  if (!c) abort();
  for (int64_t i = 0; i < n->K * n->N[j]; i++) max = fmaxf(max, fabsf(n->w[j][i]));
  const double m = frexp((double)(max / 127.0f), &e);
  *scale = ldexp(ceil(ldexp(m, 17)), e - 17);
  for (int64_t i = 0; i < n->N[j]; i++)
    for (int64_t k = 0; k < n->K; k++) c[i * n->K + k] = (int8_t)nearbyintf(net_weight(n, j, i, k) / (float)*scale);
  return c;
}

static int64_t q_of(float x, float s, bool wide) {
  const double top = wide ? 1048575 : 127, v = nearbyint((double)(x / s));
  return isnan(x) ? 0 : (int64_t)(v > top ? top : v < -top - 1 ? -top - 1 : v);
}

float *wide_product(const net *n, uint32_t j, const float *x, int64_t rows, float s, bool wide) {
  double sw;
  int8_t *c = codes_of(n, j, &sw);
  float *y = malloc((size_t)(rows * n->N[j]) * sizeof *y);
  int64_t *q = malloc((size_t)n->K * sizeof *q);
  if (!y || !q) abort();
  for (int64_t m = 0; m < rows; m++) {
    for (int64_t k = 0; k < n->K; k++) q[k] = q_of(x[m * n->K + k], s, wide);
    for (int64_t i = 0; i < n->N[j]; i++) {
      int64_t sum = 0;
      for (int64_t k = 0; k < n->K; k++) sum += q[k] * c[i * n->K + k];
      y[m * n->N[j] + i] = (float)((double)sum * ((double)s * sw));
    }
  }
  free(q);
  free(c);
  return y;
}

/* --- inputs ------------------------------------------------------------------------------------------------------ */

float *plant(const net *n, int64_t rows, float s, int64_t most, rng *r) {
  float *x = malloc((size_t)(rows * n->K) * sizeof *x);
  if (!x) abort();
  int64_t usual[8];
  for (int i = 0; i < 8; i++) usual[i] = rng_below(r, n->K);
  for (int64_t m = 0; m < rows; m++) {
    float *row = x + m * n->K;
    for (int64_t k = 0; k < n->K; k++) row[k] = s * 40 * (float)rng_normal(r);
    for (int64_t i = most ? rng_below(r, most + 1) : 0; i > 0; i--) {
      const int64_t k = rng_below(r, 4) ? usual[rng_below(r, 8)] : rng_below(r, n->K);
      const float size[] = {127.5f, 128.5f, 200, 3000, 100000, 3e6f};
      row[k] = s * size[rng_below(r, 6)] * (rng_next(r) & 1 ? 1.0f : -1.0f) * (float)(1 + rng_below(r, 3));
    }
  }
  return x;
}
