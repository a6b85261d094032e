/* SPDX-License-Identifier: Apache-2.0
 *
 * Drift: weights that make up for inputs which differ from the unquantized model's, and for what their outputs are
 * added to.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "quant_test.h"
#include "runtime/base/base.h"

enum { N = 2050, K = 40, T = 200, GROUPS = 2 }; /* more rows than are solved at once */

typedef struct drifted {
  float w[N * K], x[T * K], y[T * K], r[T * N], r_unquantized[T * N], q[N * K], scales[N * GROUPS], zeros[N * GROUPS];
  uint8_t codes[N * K];
} drifted;

/* What solve_drifted is told. */
enum { NOTHING = 0, INPUTS = 1, ADDED = 2 };

/* y: what the unquantized model gives; x: each channel smaller, and with some of the next one's. r lacks some of x. */
static drifted *any_drifted(void) {
  drifted *d = calloc(1, sizeof *d);
  for (int i = 0; i < N * K; i++) d->w[i] = any_normal() * .05f;
  for (int i = 0; i < T * K; i++) d->y[i] = any_normal();
  for (int t = 0; t < T; t++)
    for (int k = 0; k < K; k++) d->x[t * K + k] = .9f * d->y[t * K + k] + .2f * d->y[t * K + (k + 1) % K];
  for (int i = 0; i < T * N; i++) {
    d->r_unquantized[i] = any_normal();
    d->r[i] = d->r_unquantized[i] - .3f * d->x[i / N * K + i % N * 7 % K];
  }
  return d;
}

static const tn_grid eight_bits = {.h = TN_HDR(tn_grid),
                                   .kind = TN_GRID_AFFINE,
                                   .flags = TN_GRID_SIGNED,
                                   .n_codes = 256,
                                   .group = 32,
                                   .scale_dtype = TN_DT_F16,
                                   .scale_unit = 1,
                                   .zero_kind = TN_ZERO_HALF,
                                   .zero = 128};

static void solve_drifted(drifted *d, int told, uint32_t threads) {
  float *h = calloc(K * K, sizeof *h), *drift = calloc(K * K, sizeof *drift), *added = calloc(N * K, sizeof *added);
  tni_pool *pool = threads > 1 ? tni_pool_create(threads) : NULL;
  tni_pool_run r;
  tni_quant_grid grid;
  tni_pool_run_init(&r, pool, NULL);
  CU_ASSERT_EQUAL_FATAL(tni_quant_grid_init(&eight_bits, &grid, NULL), TN_OK);
  CU_ASSERT_EQUAL(tni_quant_moments(h, d->x, T, K, &r.run, NULL), TN_OK);
  for (int t = 0; t < T; t += 110) {
    const int n = T - t < 110 ? T - t : 110;
    const tni_quant_drifts in = {n, K, K, d->x + t * K, d->x + t * K, d->y + t * K};
    const tni_quant_drifts out = {n, K, N, d->x + t * K, d->r + t * N, d->r_unquantized + t * N};
    CU_ASSERT_EQUAL(tni_quant_drift(drift, &in, &r.run, NULL), TN_OK);
    CU_ASSERT_EQUAL(tni_quant_drift(added, &out, &r.run, NULL), TN_OK);
  }
  const tni_quant_task t = {.N = N,
                            .K = K,
                            .w = d->w,
                            .h = h,
                            .drift = told & INPUTS ? drift : NULL,
                            .added = told & ADDED ? added : NULL,
                            .grid = &grid,
                            .damp = .001f,
                            .sweeps = 1};
  const tni_quant_codes out = {.codes = d->codes, .scales = d->scales, .zeros = d->zeros, .q = d->q};
  CU_ASSERT_EQUAL(tni_quant_solve(&t, &out, &r.run, NULL), TN_OK);
  tni_quant_grid_finish(&grid);
  tni_pool_destroy(pool);
  free(h);
  free(drift);
  free(added);
}

/* Of rows [r0, N): how far q x (and r) is from w y (and the unquantized r), over what w y is. */
static double off(const drifted *d, int r0, bool with_r) {
  double sum = 0, power = 0;
  for (int r = r0; r < N; r += r < N - 10 ? 97 : 1)
    for (int t = 0; t < T; t++) {
      double is = 0, should = 0;
      for (int k = 0; k < K; k++) {
        is += (double)d->q[r * K + k] * (double)d->x[t * K + k];
        should += (double)d->w[r * K + k] * (double)d->y[t * K + k];
      }
      const double more = with_r ? (double)(d->r[t * N + r] - d->r_unquantized[t * N + r]) : 0;
      sum += (is - should + more) * (is - should + more);
      power += should * should;
    }
  return sum / power;
}

void test_drift(void) {
  drifted *d = any_drifted();
  solve_drifted(d, NOTHING, 1);
  const double none = off(d, 0, false);
  solve_drifted(d, INPUTS, 1);
  const double all = off(d, 0, false), last = off(d, 2048, false);
  CU_ASSERT(none > .03);
  CU_ASSERT(all < .01 * none);
  CU_ASSERT(last < .01 * none);
  free(d);
}

void test_drift_of_sums(void) {
  drifted *d = any_drifted();
  solve_drifted(d, INPUTS, 1);
  const double none = off(d, 0, true);
  solve_drifted(d, INPUTS | ADDED, 1);
  const double all = off(d, 0, true), last = off(d, 2048, true);
  CU_ASSERT(none > .3);
  CU_ASSERT(all < .01 * none);
  CU_ASSERT(last < .01 * none);
  for (int i = 0; i < T * K; i++) d->y[i] = d->x[i]; /* inputs as they were: sums alone count */
  solve_drifted(d, ADDED, 1);
  CU_ASSERT(off(d, 0, true) < .01 * none);
  free(d);
}

void test_drift_threads(void) {
  drifted *d = any_drifted();
  float *q = malloc(sizeof d->q);
  solve_drifted(d, INPUTS | ADDED, 1);
  memcpy(q, d->q, sizeof d->q);
  for (uint32_t threads = 2; threads < 5; threads++) {
    memset(d->q, 0, sizeof d->q);
    solve_drifted(d, INPUTS | ADDED, threads);
    CU_ASSERT_EQUAL(memcmp(q, d->q, sizeof d->q), 0);
  }
  free(q);
  free(d);
}

/* Not by fmax, on which gcc 12 for aarch64 ends with an internal error. */
static double larger(double most, double x) { return x > most ? x : most; }

/* Rows longer than what is multiplied at once. D and A are made of H, so that what comes out is known. */
void test_drift_of_long_rows(void) {
  enum { ROWS = 5, LONG = 1100 };
  static const float damp = .1f;
  tni_pool_run r;
  tni_quant_grid grid;
  tni_pool_run_init(&r, NULL, NULL);
  CU_ASSERT_EQUAL_FATAL(tni_quant_grid_init(&eight_bits, &grid, NULL), TN_OK);
  float *h = any_moments(LONG, 2 * LONG, &r.run), *w = any_matrix(ROWS, LONG), *v = any_matrix(ROWS, LONG);
  float *drift = malloc(sizeof *drift * LONG * LONG), *added = malloc(sizeof *added * ROWS * LONG);
  float *q = malloc(sizeof *q * ROWS * LONG), *scales = malloc(sizeof *scales * ROWS * (LONG / 32 + 1));
  float *zeros = malloc(sizeof *zeros * ROWS * (LONG / 32 + 1));
  uint8_t *codes = malloc(ROWS * LONG);
  double trace = 0, off_most = 0, most = 0;
  for (int k = 0; k < LONG; k++) trace += (double)h[k * LONG + k];
  for (int i = 0; i < LONG; i++)
    for (int k = 0; k < LONG; k++)
      drift[i * LONG + k] = .5f * (h[i * LONG + k] + (i == k ? damp * (float)trace / LONG : 0));
  for (int n = 0; n < ROWS; n++)
    for (int k = 0; k < LONG; k++) {
      double sum = 0;
      for (int i = 0; i < LONG; i++) sum += (double)v[n * LONG + i] * 2 * (double)drift[i * LONG + k];
      added[n * LONG + k] = (float)sum;
    }
  const tni_quant_task t = {
      .N = ROWS, .K = LONG, .w = w, .h = h, .drift = drift, .added = added, .grid = &grid, .damp = damp};
  const tni_quant_codes out = {.codes = codes, .scales = scales, .zeros = zeros, .q = q};
  CU_ASSERT_EQUAL(tni_quant_solve(&t, &out, &r.run, NULL), TN_OK);
  for (int i = 0; i < ROWS * LONG; i++) {
    const double should = 1.5 * (double)w[i] + (double)v[i];
    off_most = larger(off_most, fabs((double)q[i] - should));
    most = larger(most, fabs(should));
  }
  CU_ASSERT(off_most < .02 * most);
  tni_quant_grid_finish(&grid);
  free(h);
  free(w);
  free(v);
  free(drift);
  free(added);
  free(q);
  free(scales);
  free(zeros);
  free(codes);
}
