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

/* --- sums of products of rows --- */

/* Sums run over rows of x, so that the left operand is wanted by columns: it is turned once, in blocks that stay in the
 * cache. */
enum { STRIPE = 432, BLOCK = 32 };

typedef struct turning {
  int64_t T, K;
  const float *x, *less; /* [T,K]; less: is taken off, or NULL */
  float *out;            /* [K,T] */
} turning;

static void turn_columns(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  const turning *t = arg;
  (void)worker;
  for (int64_t k0 = begin * BLOCK; k0 < end * BLOCK && k0 < t->K; k0 += BLOCK)
    for (int64_t r0 = 0; r0 < t->T; r0 += BLOCK) {
      const int64_t k1 = k0 + BLOCK < t->K ? k0 + BLOCK : t->K, r1 = r0 + BLOCK < t->T ? r0 + BLOCK : t->T;
      for (int64_t k = k0; k < k1; k++)
        for (int64_t r = r0; r < r1; r++) {
          const int64_t at = r * t->K + k;
          t->out[k * t->T + r] = t->less ? t->x[at] - t->less[at] : t->x[at];
        }
    }
}

static void turn(const turning *t, tn_run *run) {
  run->parallel_for(run, (t->K + BLOCK - 1) / BLOCK, 1, turn_columns, (void *)(uintptr_t)t);
}

typedef struct stripe {
  float *h;
  const float *y; /* [i1 - i0, K - i0] */
  int64_t K, i0, i1;
} stripe;

/* Columns of a stripe of the upper triangle are added, and mirrored. */
static void add_mirrored(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  const stripe *s = arg;
  const int64_t K = s->K, n = K - s->i0;
  (void)worker;
  for (int64_t k0 = s->i0 + begin * BLOCK; k0 < s->i0 + end * BLOCK && k0 < K; k0 += BLOCK) {
    const int64_t k1 = k0 + BLOCK < K ? k0 + BLOCK : K;
    for (int64_t i0 = s->i0; i0 < s->i1; i0 += BLOCK) {
      const int64_t i1 = i0 + BLOCK < s->i1 ? i0 + BLOCK : s->i1;
      for (int64_t i = i0; i < i1; i++)
        for (int64_t k = k0 > i ? k0 : i; k < k1; k++) s->h[i * K + k] += s->y[(i - s->i0) * n + k - s->i0];
      for (int64_t k = k0; k < k1; k++)
        for (int64_t i = i0; i < i1 && i < k; i++) s->h[k * K + i] = s->h[i * K + k];
    }
  }
}

/* The upper triangle in stripes of rows, and then mirrored: about half of the products. */
tn_status tni_quant_moments(float *h, const float *x, int64_t T, int64_t K, tn_run *run, tn_error *err) {
  const int64_t most = K < STRIPE ? K : STRIPE;
  float *y = malloc((size_t)most * (size_t)K * sizeof *y + 1), *turned = malloc((size_t)(T * K) * sizeof *turned + 1);
  void *scratch = tni_quant_scratch(run);
  tn_status st = y && turned && scratch ? TN_OK : tni_fail_memory(err, NULL);
  if (st == TN_OK) turn(&(turning){T, K, x, NULL, turned}, run);
  for (int64_t i = 0; st == TN_OK && i < K; i += most) {
    const int64_t m = K - i < most ? K - i : most;
    st = tni_quant_multiply(&(tni_quant_product){m, K - i, T, turned + i * T, x + i, T, 1, K, 1, y}, scratch, run);
    stripe s = {h, y, K, i, i + m};
    if (st == TN_OK) run->parallel_for(run, (K - i + BLOCK - 1) / BLOCK, 1, add_mirrored, &s);
  }
  free(y);
  free(turned);
  free(scratch);
  return st;
}

typedef struct sums {
  float *to;
  const float *from;
  int64_t n;
} sums;

static void add_rows(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  const sums *s = arg;
  (void)worker;
  for (int64_t i = begin * s->n; i < end * s->n; i++) s->to[i] += s->from[i];
}

tn_status tni_quant_drift(float *d, const tni_quant_drifts *of, tn_run *run, tn_error *err) {
  const int64_t T = of->T, K = of->K, M = of->M, most = M < STRIPE ? M : STRIPE;
  float *off = malloc((size_t)(T * M) * sizeof *off + 1), *sum = malloc((size_t)(most * K) * sizeof *sum + 1);
  void *scratch = tni_quant_scratch(run);
  tn_status st = off && sum && scratch ? TN_OK : tni_fail_memory(err, NULL);
  if (st == TN_OK) turn(&(turning){T, M, of->unquantized, of->y, off}, run);
  for (int64_t i = 0; st == TN_OK && i < M; i += most) {
    const int64_t m = M - i < most ? M - i : most;
    st = tni_quant_multiply(&(tni_quant_product){m, K, T, off + i * T, of->x, T, 1, K, 1, sum}, scratch, run);
    if (st == TN_OK) run->parallel_for(run, m, 4, add_rows, &(sums){d + i * K, sum, K});
  }
  free(off);
  free(sum);
  free(scratch);
  return st;
}

/* --- errors --- */

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
