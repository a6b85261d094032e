/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "quant_test.h"
#include "runtime/quant/internal.h"

static uint64_t seed = 11;

static float uniform(void) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (float)((double)(seed >> 11) * 0x1p-53);
}

float any_normal(void) {
  float sum = -6;
  for (int i = 0; i < 12; i++) sum += uniform();
  return sum;
}

float *any_matrix(int64_t N, int64_t K) {
  float *w = malloc((size_t)(N * K) * sizeof *w);
  for (int64_t i = 0; i < N * K; i++) w[i] = any_normal() * .05f;
  return w;
}

static float *any_rows(int64_t T, int64_t K) {
  float *x = malloc((size_t)(T * K) * sizeof *x);
  for (int64_t t = 0; t < T; t++) {
    const float common = any_normal();
    for (int64_t k = 0; k < K; k++) {
      const float own = any_normal() + (k ? x[t * K + k - 1] * .5f : 0) + common * .4f;
      x[t * K + k] = own * (k % 7 == 3 ? 3.f : 1.f);
      if (k % 7 == 3) x[t * K + k] = own;
    }
  }
  return x;
}

float *any_moments(int64_t K, int64_t T, tn_run *run) {
  float *x = any_rows(T, K), *h = calloc((size_t)(K * K), sizeof *h);
  CU_ASSERT_EQUAL_FATAL(tni_quant_moments(h, x, T, K, run, NULL), TN_OK);
  free(x);
  return h;
}

void test_moments(void) {
  enum { K = 450, T = 70 };
  tni_pool_run r;
  tni_pool_run_init(&r, NULL, NULL);
  float *x = any_rows(T, K), *h = calloc(K * K, sizeof *h);
  CU_ASSERT_EQUAL(tni_quant_moments(h, x, 30, K, &r.run, NULL), TN_OK);
  CU_ASSERT_EQUAL(tni_quant_moments(h, x + 30 * K, T - 30, K, &r.run, NULL), TN_OK);
  double worst = 0;
  for (int i = 0; i < K; i++)
    for (int k = 0; k < K; k++) {
      double sum = 0, most = 0;
      for (int t = 0; t < T; t++) {
        sum += (double)x[t * K + i] * (double)x[t * K + k];
        most += fabs((double)x[t * K + i] * (double)x[t * K + k]);
      }
      worst = fmax(worst, fabs(sum - (double)h[i * K + k]) / most);
      CU_ASSERT_EQUAL(memcmp(&h[i * K + k], &h[k * K + i], sizeof *h), 0);
    }
  CU_ASSERT(worst < 1e-5);
  free(x);
  free(h);
}

static void check_factor(int64_t K) {
  tni_pool_run r;
  tni_pool_run_init(&r, NULL, NULL);
  float *h = any_moments(K, 2 * K, &r.run), *u = malloc((size_t)(K * K) * sizeof *u);
  void *scratch = tni_quant_scratch(&r.run);
  for (int64_t k = 0; k < K; k++) h[k * K + k] += .1f * h[0];
  memcpy(u, h, (size_t)(K * K) * sizeof *u);
  CU_ASSERT_EQUAL(tni_quant_factor(u, K, scratch, &r.run, NULL), TN_OK);
  double worst = 0;
  for (int64_t i = 0; i < K; i++) /* U H U^T = I */
    for (int64_t k = 0; k <= i; k++) {
      double sum = 0;
      for (int64_t s = i; s < K; s++) {
        double inner = 0;
        for (int64_t t = k; t < K; t++) inner += (double)h[s * K + t] * (double)u[k * K + t];
        sum += (double)u[i * K + s] * inner;
      }
      worst = fmax(worst, fabs(sum - (i == k)));
      if (k < i) CU_ASSERT_EQUAL(u[i * K + k], 0);
    }
  if (worst >= 1e-3) printf("\n  K %lld: %g\n", (long long)K, worst);
  CU_ASSERT(worst < 1e-3);
  free(h);
  free(u);
  free(scratch);
}

void test_factor(void) {
  check_factor(1);
  check_factor(5);
  check_factor(64);
  check_factor(150);
}

void test_factor_refuses(void) {
  float h[4] = {1, 2, 2, 1};
  tni_pool_run r;
  tn_error err = {.h = TN_HDR(tn_error)};
  tni_pool_run_init(&r, NULL, NULL);
  void *scratch = tni_quant_scratch(&r.run);
  CU_ASSERT_EQUAL(tni_quant_factor(h, 2, scratch, &r.run, &err), TN_E_INVALID);
  CU_ASSERT_PTR_NOT_NULL(strstr(err.message, "positive definite"));
  free(scratch);
}
