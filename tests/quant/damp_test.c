/* SPDX-License-Identifier: Apache-2.0
 *
 * The damping by tokens that were kept out: the one that loses least there, summed up token by token.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "quant_test.h"
#include "runtime/base/base.h"

enum { N = 64, K = 32, HELD = 400, MOST = 3000, DAMPS = 4 };
static const float damps[DAMPS] = {.1f, .01f, 1, 10};

/* Tokens: x, what the unquantized model has for it, and for what outputs are added to. */
typedef struct tokens {
  int T;
  float *x, *y, *r, *r_unquantized;
} tokens;

typedef struct moments {
  float h[K * K], drift[K * K], added[N * K];
} moments;

/* noise: of the drift, which tells nothing of other tokens. */
static tokens any_tokens(int T, float noise) {
  tokens t = {T, malloc((size_t)(T * K) * sizeof(float)), malloc((size_t)(T * K) * sizeof(float)),
              malloc((size_t)(T * N) * sizeof(float)), malloc((size_t)(T * N) * sizeof(float))};
  for (int i = 0; i < T; i++) {
    float own[K], common = any_normal();
    for (int k = 0; k < K; k++) own[k] = any_normal() * (k % 4 ? .3f : 1.f) + common;
    for (int k = 0; k < K; k++) {
      t.x[i * K + k] = own[k];
      t.y[i * K + k] = 1.1f * own[k] + .2f * own[(k + 1) % K] + noise * any_normal();
    }
    for (int n = 0; n < N; n++) {
      t.r[i * N + n] = any_normal();
      t.r_unquantized[i * N + n] = t.r[i * N + n] + .05f * own[n % K] + noise * any_normal();
    }
  }
  return t;
}

static void finish(const tokens *t) {
  free(t->x);
  free(t->y);
  free(t->r);
  free(t->r_unquantized);
}

static moments *sum(const tokens *t, tn_run *run) {
  moments *m = calloc(1, sizeof *m);
  const tni_quant_drifts in = {t->T, K, K, t->x, t->x, t->y}, out = {t->T, K, N, t->x, t->r, t->r_unquantized};
  CU_ASSERT_EQUAL(tni_quant_moments(m->h, t->x, t->T, K, run, NULL), TN_OK);
  CU_ASSERT_EQUAL(tni_quant_drift(m->drift, &in, run, NULL), TN_OK);
  CU_ASSERT_EQUAL(tni_quant_drift(m->added, &out, run, NULL), TN_OK);
  return m;
}

/* Solved on the moments with a damping: what that loses on the held tokens. */
static double lost(const float *w, const moments *m, const tokens *held, const tni_quant_grid *g, float damp,
                   tn_run *run) {
  moments *own = malloc(sizeof *own);
  float *q = malloc(N * K * sizeof *q), scales[N * 2], zeros[N * 2];
  uint8_t *codes = malloc(N * K);
  memcpy(own, m, sizeof *own);
  const tni_quant_task t = {.N = N,
                            .K = K,
                            .w = w,
                            .h = own->h,
                            .drift = own->drift,
                            .added = own->added,
                            .grid = g,
                            .damp = damp,
                            .sweeps = 1};
  const tni_quant_codes out = {.codes = codes, .scales = scales, .zeros = zeros, .q = q};
  CU_ASSERT_EQUAL(tni_quant_solve(&t, &out, run, NULL), TN_OK);
  double all = 0;
  for (int i = 0; i < held->T; i++)
    for (int n = 0; n < N; n++) {
      double d = (double)held->r_unquantized[i * N + n] - (double)held->r[i * N + n];
      for (int k = 0; k < K; k++)
        d += (double)w[n * K + k] * (double)held->y[i * K + k] - (double)q[n * K + k] * (double)held->x[i * K + k];
      all += d * d;
    }
  free(own);
  free(q);
  free(codes);
  return all;
}

/* The damping that is chosen, T tokens to solve on; it is the best of all, and nothing of the task changes. */
static float chosen(int T, float noise, uint32_t threads) {
  const tn_grid grid = {.h = TN_HDR(tn_grid),
                        .kind = TN_GRID_AFFINE,
                        .flags = TN_GRID_SIGNED,
                        .n_codes = 16,
                        .group = 16,
                        .scale_dtype = TN_DT_F16,
                        .scale_unit = 1,
                        .zero_kind = TN_ZERO_HALF,
                        .zero = 8};
  tni_pool *pool = tni_pool_create(threads);
  tni_pool_run r;
  tni_quant_grid g;
  tni_pool_run_init(&r, pool, NULL);
  CU_ASSERT_EQUAL_FATAL(tni_quant_grid_init(&grid, &g, NULL), TN_OK);
  const tokens t = any_tokens(T, noise), kept = any_tokens(HELD, noise);
  moments *m = sum(&t, &r.run), *held = sum(&kept, &r.run), *all = malloc(sizeof *all), *before = malloc(sizeof *all);
  for (size_t i = 0; i < sizeof *all / sizeof(float); i++) ((float *)all)[i] = ((float *)m)[i] + ((float *)held)[i];
  memcpy(before, all, sizeof *all);
  float *w = any_matrix(N, K), damp = 0;
  const tni_quant_task task = {.N = N,
                               .K = K,
                               .w = w,
                               .h = all->h,
                               .drift = all->drift,
                               .added = all->added,
                               .grid = &g,
                               .damp = 5,
                               .sweeps = 1};
  const tni_quant_held out = {held->h, held->drift, held->added};
  CU_ASSERT_EQUAL(tni_quant_choose_damp(&task, &out, damps, DAMPS, &r.run, &damp, NULL), TN_OK);
  CU_ASSERT_EQUAL(memcmp(all, before, sizeof *all), 0);
  const double own = lost(w, m, &kept, &g, damp, &r.run);
  for (int i = 0; i < DAMPS; i++) CU_ASSERT(own <= lost(w, m, &kept, &g, damps[i], &r.run) * (1 + 1e-4));
  tni_quant_grid_finish(&g);
  tni_pool_destroy(pool);
  finish(&t);
  finish(&kept);
  free(m);
  free(held);
  free(all);
  free(before);
  free(w);
  return damp;
}

void test_damp(void) {
  const float few = chosen(24, .5f, 1), many = chosen(MOST, .02f, 2);
  CU_ASSERT(few >= 1);
  CU_ASSERT(many <= .1f);
}
