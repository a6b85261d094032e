/* SPDX-License-Identifier: Apache-2.0
 *
 * The factor that GPTQ needs: upper U with H^-1 = U^T U.
 *
 * H turned about its other diagonal is L L^T; so H = M M^T with M = L turned, upper, and U = M^-1 = (L^-1) turned. That
 * takes K^3 / 3 multiplications, where inverting H first and factoring then takes three times as many, and H is
 * inverted nowhere. Blocks look left; those on the diagonal are factored in double.
 */
#include <math.h>
#include <stdlib.h>

#include "runtime/quant/internal.h"

enum { NB = 64 };

typedef struct factor {
  float *a;
  int64_t K, j, nb; /* the block [j, j + nb) */
  float *y;
  double d[NB][NB]; /* its factor */
  void *scratch;
  tn_run *run;
} factor;

static void turn(float *a, int64_t count) {
  for (int64_t i = 0, k = count - 1; i < k; i++, k--) {
    const float t = a[i];
    a[i] = a[k];
    a[k] = t;
  }
}

/* y [nb,nb] of the block's own rows: its factor. */
static bool factor_block(factor *f) {
  for (int64_t i = 0; i < f->nb; i++)
    for (int64_t k = 0; k <= i; k++) {
      double sum = (double)f->a[(f->j + i) * f->K + f->j + k];
      for (int64_t t = 0; t < k; t++) sum -= f->d[i][t] * f->d[k][t];
      if (i == k && !(sum > 0)) return false;
      f->d[i][k] = i == k ? sqrt(sum) : sum / f->d[k][k];
    }
  return true;
}

/* Rows of the panel below: x L^T = a. */
static void solve_rows(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  factor *f = arg;
  (void)worker;
  for (int64_t r = begin; r < end; r++) {
    float *a = f->a + (f->j + f->nb + r) * f->K + f->j;
    double x[NB];
    for (int64_t k = 0; k < f->nb; k++) {
      double sum = (double)a[k];
      for (int64_t t = 0; t < k; t++) sum -= x[t] * f->d[k][t];
      x[k] = sum / f->d[k][k];
      a[k] = (float)x[k];
    }
  }
}

/* a, symmetric: its lower triangle becomes L. */
static tn_status factor_lower(factor *f, tn_error *err) {
  for (f->j = 0; f->j < f->K; f->j += NB) {
    f->nb = f->K - f->j < NB ? f->K - f->j : NB;
    const int64_t rows = f->K - f->j;
    float *a = f->a + f->j * f->K;
    if (f->j) {
      const tn_status st =
          tni_quant_multiply(&(tni_quant_product){rows, f->nb, f->j, a, a, f->K, 1, 1, f->K, f->y}, f->scratch, f->run);
      if (st) return st;
      for (int64_t i = 0; i < rows; i++)
        for (int64_t k = 0; k < f->nb; k++) a[i * f->K + f->j + k] -= f->y[i * f->nb + k];
    }
    if (!factor_block(f)) return tni_fail(err, TN_E_INVALID, NULL, "second moments are not positive definite");
    for (int64_t i = 0; i < f->nb; i++)
      for (int64_t k = 0; k <= i; k++) a[i * f->K + f->j + k] = (float)f->d[i][k];
    f->run->parallel_for(f->run, rows - f->nb, 8, solve_rows, f);
  }
  return TN_OK;
}

/* Columns of the block row: L x = -y, or of the identity in the block itself. */
static void solve_columns(void *arg, int64_t begin, int64_t end, uint32_t worker) {
  factor *f = arg;
  (void)worker;
  for (int64_t c = begin; c < end; c++) {
    double x[NB];
    for (int64_t i = 0; i < f->nb; i++) {
      double sum = c < f->j ? -(double)f->y[i * f->j + c] : (double)(i == c - f->j);
      for (int64_t t = 0; t < i; t++) sum -= f->d[i][t] * x[t];
      x[i] = sum / f->d[i][i];
      f->a[(f->j + i) * f->K + c] = (float)x[i];
    }
  }
}

/* The lower triangle L becomes L^-1; above it: 0. */
static tn_status invert_lower(factor *f) {
  for (f->j = 0; f->j < f->K; f->j += NB) {
    f->nb = f->K - f->j < NB ? f->K - f->j : NB;
    float *a = f->a + f->j * f->K;
    for (int64_t i = 0; i < f->nb; i++)
      for (int64_t k = 0; k <= i; k++) f->d[i][k] = (double)a[i * f->K + f->j + k];
    if (f->j) {
      const tn_status st = tni_quant_multiply(&(tni_quant_product){f->nb, f->j, f->j, a, f->a, f->K, 1, f->K, 1, f->y},
                                              f->scratch, f->run);
      if (st) return st;
    }
    f->run->parallel_for(f->run, f->j + f->nb, 16, solve_columns, f);
    for (int64_t i = 0; i < f->nb; i++)
      for (int64_t k = f->j + i + 1; k < f->K; k++) a[i * f->K + k] = 0;
  }
  return TN_OK;
}

tn_status tni_quant_factor(float *u, int64_t K, void *scratch, tn_run *run, tn_error *err) {
  factor *f = malloc(sizeof *f);
  float *y = malloc(NB * (size_t)K * sizeof *y);
  tn_status st = f && y ? TN_OK : tni_fail_memory(err, NULL);
  if (st == TN_OK) {
    f->a = u;
    f->K = K;
    f->y = y;
    f->scratch = scratch;
    f->run = run;
    turn(u, K * K);
    st = factor_lower(f, err);
  }
  if (st == TN_OK) st = invert_lower(f);
  if (st == TN_OK) turn(u, K * K);
  free(y);
  free(f);
  return st;
}
