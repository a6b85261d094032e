/* SPDX-License-Identifier: Apache-2.0
 *
 * Drift: weights that make up for inputs which differ from the unquantized model's.
 */
#include <stdlib.h>
#include <string.h>

#include "quant_test.h"
#include "runtime/base/base.h"

enum { N = 2050, K = 40, T = 200, GROUPS = 2 }; /* more rows than are solved at once */

typedef struct drifted {
  float w[N * K], x[T * K], y[T * K], q[N * K], scales[N * GROUPS], zeros[N * GROUPS];
  uint8_t codes[N * K];
} drifted;

/* y: what the unquantized model gives; x: each channel smaller, and with some of the next one's. */
static drifted *any_drifted(void) {
  drifted *d = calloc(1, sizeof *d);
  for (int i = 0; i < N * K; i++) d->w[i] = any_normal() * .05f;
  for (int i = 0; i < T * K; i++) d->y[i] = any_normal();
  for (int t = 0; t < T; t++)
    for (int k = 0; k < K; k++) d->x[t * K + k] = .9f * d->y[t * K + k] + .2f * d->y[t * K + (k + 1) % K];
  return d;
}

static void solve_drifted(drifted *d, bool follow, uint32_t threads) {
  const tn_grid g = {.h = TN_HDR(tn_grid),
                     .kind = TN_GRID_AFFINE,
                     .flags = TN_GRID_SIGNED,
                     .n_codes = 256,
                     .group = 32,
                     .scale_dtype = TN_DT_F16,
                     .scale_unit = 1,
                     .zero_kind = TN_ZERO_HALF,
                     .zero = 128};
  float *h = calloc(K * K, sizeof *h), *drift = calloc(K * K, sizeof *drift);
  tni_pool *pool = threads > 1 ? tni_pool_create(threads) : NULL;
  tni_pool_run r;
  tni_quant_grid grid;
  tni_pool_run_init(&r, pool, NULL);
  CU_ASSERT_EQUAL_FATAL(tni_quant_grid_init(&g, &grid, NULL), TN_OK);
  CU_ASSERT_EQUAL(tni_quant_moments(h, d->x, T, K, &r.run, NULL), TN_OK);
  CU_ASSERT_EQUAL(tni_quant_drift(drift, d->x, d->y, 90, K, &r.run, NULL), TN_OK);
  CU_ASSERT_EQUAL(tni_quant_drift(drift, d->x + 90 * K, d->y + 90 * K, T - 90, K, &r.run, NULL), TN_OK);
  const tni_quant_task t = {
      .N = N, .K = K, .w = d->w, .h = h, .drift = follow ? drift : NULL, .grid = &grid, .damp = .01f, .sweeps = 1};
  const tni_quant_codes out = {.codes = d->codes, .scales = d->scales, .zeros = d->zeros, .q = d->q};
  CU_ASSERT_EQUAL(tni_quant_solve(&t, &out, &r.run, NULL), TN_OK);
  tni_quant_grid_finish(&grid);
  tni_pool_destroy(pool);
  free(h);
  free(drift);
}

/* Of rows [r0, N): how far q x is from w y, over what w y is. */
static double off(const drifted *d, int r0) {
  double sum = 0, power = 0;
  for (int r = r0; r < N; r += r < N - 10 ? 97 : 1)
    for (int t = 0; t < T; t++) {
      double is = 0, should = 0;
      for (int k = 0; k < K; k++) {
        is += (double)d->q[r * K + k] * (double)d->x[t * K + k];
        should += (double)d->w[r * K + k] * (double)d->y[t * K + k];
      }
      sum += (is - should) * (is - should);
      power += should * should;
    }
  return sum / power;
}

void test_drift(void) {
  drifted *d = any_drifted();
  solve_drifted(d, false, 1);
  const double none = off(d, 0);
  solve_drifted(d, true, 1);
  const double all = off(d, 0), last = off(d, 2048);
  CU_ASSERT(none > .03);
  CU_ASSERT(all < .01 * none);
  CU_ASSERT(last < .01 * none);
  free(d);
}

void test_drift_threads(void) {
  drifted *d = any_drifted();
  float *q = malloc(sizeof d->q);
  solve_drifted(d, true, 1);
  memcpy(q, d->q, sizeof d->q);
  for (uint32_t threads = 2; threads < 5; threads++) {
    memset(d->q, 0, sizeof d->q);
    solve_drifted(d, true, threads);
    CU_ASSERT_EQUAL(memcmp(q, d->q, sizeof d->q), 0);
  }
  free(q);
  free(d);
}
