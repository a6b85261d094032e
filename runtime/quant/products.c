/* SPDX-License-Identifier: Apache-2.0
 *
 * Products of f32, by the host's engine, and what is made of them at once: second moments, errors.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "runtime/quant/internal.h"

tn_status tni_quant_multiply(const tni_quant_product *p, void *scratch, tn_run *run) {
  tni_gemm g = {.dtype = TN_DT_F32,
                .M = p->M,
                .N = p->N,
                .K = p->K,
                .batches = 1,
                .a = p->a,
                .b = p->b,
                .y = p->y,
                .a_row = p->a_row,
                .a_col = p->a_col,
                .b_row = p->b_row,
                .b_col = p->b_col,
                .alpha = 1};
  tni_gemm_run(&g, scratch, run);
  return run->cancelled(run) ? TN_E_CANCELLED : TN_OK;
}

void *tni_quant_scratch(const tn_run *run) {
  const size_t bytes = (size_t)tni_gemm_scratch(TN_DT_F32, run->n_workers);
  return aligned_alloc(64, (bytes + 63) & ~(size_t)63);
}

/* The upper triangle in stripes of rows, and then mirrored: about half of the products. */
enum { STRIPE = 432 };

static void mirror(float *h, int64_t K, int64_t i0, int64_t i1, const float *y) {
  const int64_t n = K - i0;
  for (int64_t i = i0; i < i1; i++) {
    const float *row = y + (i - i0) * n - i0;
    for (int64_t k = i; k < K; k++) h[i * K + k] += row[k];
    for (int64_t k = i + 1; k < K; k++) h[k * K + i] = h[i * K + k];
  }
}

tn_status tni_quant_moments(float *h, const float *x, int64_t T, int64_t K, tn_run *run, tn_error *err) {
  const int64_t stripe = K < STRIPE ? K : STRIPE;
  float *y = malloc((size_t)stripe * (size_t)K * sizeof *y + 1);
  void *scratch = tni_quant_scratch(run);
  tn_status st = y && scratch ? TN_OK : tni_fail_memory(err, NULL);
  for (int64_t i = 0; st == TN_OK && i < K; i += stripe) {
    const int64_t m = K - i < stripe ? K - i : stripe;
    st = tni_quant_multiply(&(tni_quant_product){m, K - i, T, x + i, x + i, 1, K, K, 1, y}, scratch, run);
    if (st == TN_OK) mirror(h, K, i, i + m, y);
  }
  free(y);
  free(scratch);
  return st;
}

tn_status tni_quant_drift(float *d, const tni_quant_drifts *of, tn_run *run, tn_error *err) {
  const int64_t T = of->T, K = of->K, M = of->M, stripe = M < STRIPE ? M : STRIPE;
  float *off = malloc((size_t)(T * M) * sizeof *off + 1), *sum = malloc((size_t)(stripe * K) * sizeof *sum + 1);
  void *scratch = tni_quant_scratch(run);
  tn_status st = off && sum && scratch ? TN_OK : tni_fail_memory(err, NULL);
  for (int64_t i = 0; st == TN_OK && i < T * M; i++) off[i] = of->unquantized[i] - of->y[i];
  for (int64_t i = 0; st == TN_OK && i < M; i += stripe) {
    const int64_t m = M - i < stripe ? M - i : stripe;
    st = tni_quant_multiply(&(tni_quant_product){m, K, T, off + i, of->x, 1, M, K, 1, sum}, scratch, run);
    for (int64_t k = 0; st == TN_OK && k < m * K; k++) d[i * K + k] += sum[k];
  }
  free(off);
  free(sum);
  free(scratch);
  return st;
}

static double row_error(const float *d, const float *y, int64_t n) {
  double sum = 0;
  for (int64_t k = 0; k < n; k++) sum += (double)d[k] * (double)y[k];
  return sum;
}

tn_status tni_quant_error(const float *w, const float *q, const float *h, int64_t N, int64_t K, tn_run *run,
                          double *out, tn_error *err) {
  enum { ROWS = 256 };
  float *d = malloc(ROWS * (size_t)K * sizeof *d), *y = malloc(ROWS * (size_t)K * sizeof *y);
  void *scratch = tni_quant_scratch(run);
  tn_status st = d && y && scratch ? TN_OK : tni_fail_memory(err, NULL);
  double sum = 0;
  for (int64_t r = 0; st == TN_OK && r < N; r += ROWS) {
    const int64_t m = N - r < ROWS ? N - r : ROWS;
    for (int64_t i = 0; i < m * K; i++) d[i] = q[r * K + i] - w[r * K + i];
    st = tni_quant_multiply(&(tni_quant_product){m, K, K, d, h, K, 1, K, 1, y}, scratch, run);
    for (int64_t i = 0; st == TN_OK && i < m; i++) sum += row_error(d + i * K, y + i * K, K);
  }
  if (st == TN_OK) *out = sum;
  free(d);
  free(y);
  free(scratch);
  return st;
}
