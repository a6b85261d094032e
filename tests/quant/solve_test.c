/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "quant_test.h"
#include "runtime/quant/internal.h"

static const float table4[16] = {-1.f,   -.819f, -.654f, -.512f, -.386f, -.276f, -.173f, -.079f,
                                 .0079f, .102f,  .197f,  .299f,  .417f,  .543f,  .7f,    .89f};
static const float pairs[] = {-1, -1, -1, 1, 1, -1, 1, 1, 0, 0, 0, 2, 2, 0, 0, -2, -2, 0, .5f, .5f, -.5f, .5f};
static const float steps[] = {.125f, .25f, .35f, .5f, .7f, 1};

static tn_grid affine(uint32_t n_codes, uint32_t group, uint32_t zero_kind) {
  return (tn_grid){.h = TN_HDR(tn_grid),
                   .kind = TN_GRID_AFFINE,
                   .flags = zero_kind == TN_ZERO_HALF ? TN_GRID_SIGNED : 0,
                   .n_codes = n_codes,
                   .group = group,
                   .scale_dtype = TN_DT_F16,
                   .scale_unit = 1,
                   .zero_kind = zero_kind,
                   .zero = (float)(n_codes / 2)};
}

static tn_grid levels(uint32_t n_codes, uint32_t vec, const float *table, uint32_t group, bool stepped) {
  tn_grid g = affine(n_codes, group, TN_ZERO_HALF);
  g.kind = TN_GRID_LEVELS;
  g.level_dtype = TN_DT_F32;
  g.vec = vec;
  g.levels = table;
  g.n_steps = stepped ? sizeof steps / sizeof *steps : 0;
  g.steps = stepped ? steps : NULL;
  return g;
}

/* Weight j of a code: the level that four of its bits name, two further each, around the end. */
static const float *windows(void) {
  static float of[256 * 4];
  for (uint32_t c = 0; c < 256; c++)
    for (uint32_t j = 0; j < 4; j++) of[c * 4 + j] = table4[((c | c << 8) >> 2 * j) & 15];
  return of;
}

static const float *spread(void) {
  static float of[39 * 2];
  for (int c = 0; c < 39; c++) {
    of[2 * c] = (float)(c % 8 * 3 - 11);
    of[2 * c + 1] = (float)(c * 5 % 37 - 18) * .7f;
  }
  return of;
}

enum { GRIDS = 11 };
static tn_grid grid_at(int i) {
  switch (i) {
    case 0:
      return affine(16, 32, TN_ZERO_HALF);
    case 1:
      return affine(16, 32, TN_ZERO_CODES);
    case 2:
      return affine(4, 16, TN_ZERO_CODES);
    case 3:
      return affine(8, 128, TN_ZERO_HALF);
    case 4:
      return affine(256, 0, TN_ZERO_HALF);
    case 5:
      return levels(16, 1, table4, 32, false);
    case 6:
      return levels(16, 1, table4, 16, true);
    case 7:
      return levels(11, 2, pairs, 32, true);
    case 8: /* windows of a table of 16, as vectors pick them */
      return levels(256, 4, windows(), 32, true);
    case 9: /* more than 16 values, and codes past the last whole vector */
      return levels(39, 2, spread(), 16, false);
    default:
      return affine(4, 32, TN_ZERO_VALUES);
  }
}

typedef struct solved {
  tn_grid g;
  int64_t N, K, G, per_row;
  float *w, *h;
  tni_quant_grid grid;
  tni_quant_codes out;
} solved;

static void start(solved *s, const tn_grid *g, int64_t N, int64_t K) {
  s->g = *g;
  CU_ASSERT_EQUAL_FATAL(tni_quant_grid_init(g, &s->grid, NULL), TN_OK);
  s->N = N;
  s->K = K;
  s->G = g->group ? (K + g->group - 1) / g->group : 1;
  s->per_row = (K + s->grid.vec - 1) / s->grid.vec;
  const bool zeros = g->kind == TN_GRID_AFFINE, stepped = g->n_steps != 0;
  s->out = (tni_quant_codes){.codes = calloc((size_t)(N * s->per_row), 1),
                             .scales = calloc((size_t)(N * s->G), sizeof(float)),
                             .zeros = zeros ? calloc((size_t)(N * s->G), sizeof(float)) : NULL,
                             .steps = stepped ? calloc((size_t)(N * s->G), 1) : NULL,
                             .parents = stepped ? calloc((size_t)N, sizeof(float)) : NULL,
                             .q = calloc((size_t)(N * K), sizeof(float))};
}

static void finish(solved *s) {
  tni_quant_grid_finish(&s->grid);
  free(s->out.codes);
  free(s->out.scales);
  free(s->out.zeros);
  free(s->out.steps);
  free(s->out.parents);
  free(s->out.q);
  free(s->w);
  free(s->h);
}

static tn_status solve(solved *s, bool round, uint32_t threads, tn_error *err) {
  tni_pool *pool = threads > 1 ? tni_pool_create(threads) : NULL;
  tni_pool_run r;
  tni_pool_run_init(&r, pool, NULL);
  float *h = malloc((size_t)(s->K * s->K) * sizeof *h), *squares = malloc((size_t)s->K * sizeof *squares);
  memcpy(h, s->h, (size_t)(s->K * s->K) * sizeof *h);
  for (int64_t k = 0; k < s->K; k++) squares[k] = h[k * s->K + k];
  const tni_quant_task t = {.N = s->N,
                            .K = s->K,
                            .w = s->w,
                            .h = round ? NULL : h,
                            .squares = squares,
                            .grid = &s->grid,
                            .damp = .1f,
                            .sweeps = 3};
  const tn_status st = tni_quant_solve(&t, &s->out, &r.run, err);
  free(h);
  free(squares);
  tni_pool_destroy(pool);
  return st;
}

static void any_task(solved *s, const tn_grid *g, int64_t N, int64_t K) {
  tni_pool_run r;
  tni_pool_run_init(&r, NULL, NULL);
  start(s, g, N, K);
  s->w = any_matrix(N, K);
  s->h = any_moments(K, 2 * K + 8, &r.run);
}

/* The error with the solver's damping, in double. */
static double error_of(const solved *s, const float *q) {
  double trace = 0, sum = 0;
  for (int64_t k = 0; k < s->K; k++) trace += (double)s->h[k * s->K + k];
  for (int64_t r = 0; r < s->N; r++)
    for (int64_t i = 0; i < s->K; i++)
      for (int64_t k = 0; k < s->K; k++) {
        const double a = (double)q[r * s->K + i] - (double)s->w[r * s->K + i],
                     b = (double)q[r * s->K + k] - (double)s->w[r * s->K + k];
        sum += a * b * ((double)s->h[i * s->K + k] * (double)s->K / trace + (i == k ? .1 : 0));
      }
  return sum;
}

/* What the code of column k gives, in f32 as tn_quant says. */
static float value_at(const solved *s, int64_t r, int64_t k, uint32_t code) {
  const tn_grid *g = &s->grid.grid;
  const int64_t at = r * s->G + (g->group ? k / g->group : 0);
  if (g->kind == TN_GRID_LEVELS) return s->g.levels[code * s->grid.vec + k % s->grid.vec] * s->out.scales[at];
  return ((float)code - s->out.zeros[at]) * s->out.scales[at];
}

void test_exact(void) {
  const tn_grid g = affine(16, 32, TN_ZERO_HALF);
  solved s;
  any_task(&s, &g, 5, 64);
  for (int64_t i = 0; i < 5 * 64; i++) s.w[i] = ((float)(i * 7 % 16) - 8) * .25f;
  CU_ASSERT_EQUAL(solve(&s, false, 1, NULL), TN_OK);
  CU_ASSERT_EQUAL(memcmp(s.w, s.out.q, 5 * 64 * sizeof *s.w), 0);
  finish(&s);
}

/* Codes of K weights of 2 bits: all of them tried at the solver's scale, and every change of one or two codes. */
void test_brute_force(void) {
  enum { K = 5, TRIES = 200 };
  int exact = 0;
  double ours = 0, best = 0;
  for (int i = 0; i < TRIES; i++) {
    const tn_grid g = affine(4, 0, TN_ZERO_HALF);
    solved s;
    any_task(&s, &g, 1, K);
    CU_ASSERT_EQUAL(solve(&s, false, 1, NULL), TN_OK);
    const double got = error_of(&s, s.out.q);
    double least = INFINITY;
    for (uint32_t all = 0; all < 1u << (2 * K); all++) {
      float q[K];
      int changed = 0;
      for (int k = 0; k < K; k++) {
        const uint32_t code = all >> 2 * k & 3;
        q[k] = value_at(&s, 0, k, code);
        changed += code != s.out.codes[k];
      }
      const double e = error_of(&s, q);
      if (e < least) least = e;
      if (changed == 1) CU_ASSERT(e > got * (1 - 1e-5));
    }
    exact += got <= least * (1 + 1e-5);
    ours += got;
    best += least;
    finish(&s);
  }
  printf("%d of %d exact, error %.3f of the least ... ", exact, TRIES, ours / best);
  CU_ASSERT(exact > TRIES * 2 / 3);
  CU_ASSERT(ours < 1.1 * best);
}

void test_below_rounding(void) {
  for (int i = 0; i < GRIDS; i++) {
    const tn_grid g = grid_at(i);
    double sum = 0, rounded = 0;
    for (int t = 0; t < 4; t++) {
      solved s;
      any_task(&s, &g, 12, 96 + 40 * t);
      CU_ASSERT_EQUAL(solve(&s, true, 1, NULL), TN_OK);
      const double r = error_of(&s, s.out.q);
      CU_ASSERT_EQUAL(solve(&s, false, 1, NULL), TN_OK);
      const double e = error_of(&s, s.out.q);
      CU_ASSERT(e < r);
      sum += e;
      rounded += r;
      finish(&s);
    }
    printf("%.2f ", sum / rounded);
    CU_ASSERT(sum < .8 * rounded);
  }
}

static bool scale_is_held(const solved *s, int64_t at, int64_t r) {
  const float v = s->out.scales[at];
  if (s->g.n_steps) {
    const float parent = s->out.parents[r], product = parent * s->g.steps[s->out.steps[at]];
    return v == product && tni_f16_to_f32(tni_f32_to_f16(parent)) == parent;
  }
  return tni_f16_to_f32(tni_f32_to_f16(v)) == v && (v == 0 || fabsf(v) >= 0x1p-14f);
}

void test_on_grid(void) {
  for (int i = 0; i < GRIDS; i++) {
    const tn_grid g = grid_at(i);
    solved s;
    any_task(&s, &g, 9, 100);
    CU_ASSERT_EQUAL(solve(&s, false, 1, NULL), TN_OK);
    for (int64_t r = 0; r < s.N; r++) {
      for (int64_t k = 0; k < s.K; k++) {
        const uint32_t code = s.out.codes[r * s.per_row + k / s.grid.vec];
        const float v = value_at(&s, r, k, code);
        CU_ASSERT(code < g.n_codes);
        CU_ASSERT_EQUAL(memcmp(&v, &s.out.q[r * s.K + k], sizeof v), 0);
      }
      for (int64_t b = 0; b < s.G; b++) {
        CU_ASSERT(scale_is_held(&s, r * s.G + b, r));
        if (g.kind != TN_GRID_AFFINE) continue;
        const float z = s.out.zeros[r * s.G + b];
        if (g.zero_kind == TN_ZERO_HALF) CU_ASSERT_EQUAL(z, g.zero);
        if (g.zero_kind == TN_ZERO_CODES) CU_ASSERT(z == rintf(z) && z >= 0 && z < (float)g.n_codes);
      }
    }
    finish(&s);
  }
}

/* One group has scale 1 and eight have .6, between the steps .5 and .7: a parent of 1.2 suits most of them. */
void test_parents(void) {
  enum { K = 9 * 16 };
  const tn_grid g = levels(16, 1, table4, 16, true);
  solved s;
  any_task(&s, &g, 3, K);
  for (int i = 0; i < 3 * K; i++) s.w[i] = table4[i * 7 % 16] * (i % K < 16 ? 1 : .6f);
  for (int round = 0; round < 2; round++) {
    CU_ASSERT_EQUAL(solve(&s, round, 1, NULL), TN_OK);
    for (int r = 0; r < 3; r++) CU_ASSERT(s.out.parents[r] > 1.1f && s.out.parents[r] < 1.3f);
  }
  finish(&s);
}

void test_threads(void) {
  for (int i = 0; i < GRIDS; i++) {
    const tn_grid g = grid_at(i);
    solved s;
    any_task(&s, &g, 70, 300);
    float *q = malloc(70 * 300 * sizeof *q);
    CU_ASSERT_EQUAL(solve(&s, false, 1, NULL), TN_OK);
    memcpy(q, s.out.q, 70 * 300 * sizeof *q);
    for (uint32_t threads = 2; threads < 6; threads++) {
      memset(s.out.q, 0, 70 * 300 * sizeof *q);
      CU_ASSERT_EQUAL(solve(&s, false, threads, NULL), TN_OK);
      CU_ASSERT_EQUAL(memcmp(q, s.out.q, 70 * 300 * sizeof *q), 0);
    }
    free(q);
    finish(&s);
  }
}

/* The scalar loops, and this processor's. */
void test_variants(void) {
  enum { ROWS = 9, LONG = 301 };
  uint32_t n_variants = 0;
  while (tni_quant_loops_variant(n_variants)) n_variants++;
  CU_ASSERT_FATAL(n_variants > 0);
  tni_pool_run r;
  tni_pool_run_init(&r, NULL, NULL);
  for (int i = 0; i < GRIDS; i++) {
    const tn_grid g = grid_at(i);
    solved s;
    any_task(&s, &g, ROWS, LONG);
    float *q = malloc(ROWS * LONG * sizeof *q), *h = malloc(LONG * LONG * sizeof *h);
    for (uint32_t v = 0; v < n_variants; v++) {
      const tni_quant_task t = {.N = ROWS, .K = LONG, .w = s.w, .h = h, .grid = &s.grid, .damp = .1f, .sweeps = 3};
      memcpy(h, s.h, LONG * LONG * sizeof *h);
      memset(s.out.q, 0, ROWS * LONG * sizeof *q);
      CU_ASSERT_EQUAL(tni_quant_solve_by(tni_quant_loops_variant(v), &t, &s.out, &r.run, NULL), TN_OK);
      if (v == 0) memcpy(q, s.out.q, ROWS * LONG * sizeof *q);
      CU_ASSERT_EQUAL(memcmp(q, s.out.q, ROWS * LONG * sizeof *q), 0);
    }
    free(q);
    free(h);
    finish(&s);
  }
}

void test_odd_shapes(void) {
  static const int64_t shapes[][2] = {{1, 1}, {3, 31}, {2, 33}, {5, 129}, {2050, 17}, {1, 520}};
  for (int i = 0; i < GRIDS; i++)
    for (size_t n = 0; n < sizeof shapes / sizeof *shapes; n++) {
      const tn_grid g = grid_at(i);
      solved s;
      any_task(&s, &g, shapes[n][0], shapes[n][1]);
      const int64_t K = s.K;
      for (int64_t k = 0; k < K; k++) s.w[k] = 0; /* a row of zeros, a channel that never is */
      for (int64_t k = 0; k < K; k++) s.h[k] = s.h[k * K] = 0;
      CU_ASSERT_EQUAL(solve(&s, false, 2, NULL), TN_OK);
      for (int64_t k = 0; k < K; k++) CU_ASSERT(fabsf(s.out.q[k]) < 2e-4f);
      for (int64_t k = 0; k < s.N * K; k++) CU_ASSERT(isfinite(s.out.q[k]));
      memset(s.h, 0, (size_t)(K * K) * sizeof *s.h);
      CU_ASSERT_EQUAL(solve(&s, false, 2, NULL), TN_OK);
      finish(&s);
    }
}

void test_refuses(void) {
  const tn_grid g = affine(16, 32, TN_ZERO_HALF);
  const tn_grid none = levels(16, 1, NULL, 32, false);
  tn_error err = {.h = TN_HDR(tn_error)};
  tni_quant_grid grid;
  solved s;
  CU_ASSERT_EQUAL(tni_quant_grid_init(&none, &grid, &err), TN_E_UNSUPPORTED);
  any_task(&s, &g, 3, 40);
  s.w[50] = INFINITY;
  tni_error_begin(&err);
  CU_ASSERT_EQUAL(solve(&s, false, 1, &err), TN_E_INVALID);
  CU_ASSERT_PTR_NOT_NULL(strstr(err.message, "weight is not finite"));
  s.w[50] = 0;
  s.h[41] = NAN;
  tni_error_begin(&err);
  CU_ASSERT_EQUAL(solve(&s, false, 1, &err), TN_E_INVALID);
  CU_ASSERT_PTR_NOT_NULL(strstr(err.message, "second moments"));
  finish(&s);
}
