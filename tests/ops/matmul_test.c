/* SPDX-License-Identifier: Apache-2.0
 *
 * The product engine: against a naive double product over shapes with tails and zeros, and bit for bit against itself
 * for other thread counts, instruction sets, batches and storage orders.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops_test.h"
#include "runtime/ops/gemm/floats.h"
#include "runtime/ops/hot/loops.h"

static const int64_t shapes[][3] = {/* M N K */
                                    {1, 1, 1},      {1, 1, 0},     {3, 5, 0},     {1, 7, 3},     {2, 3, 4},
                                    {6, 16, 8},     {7, 17, 9},    {5, 15, 255},  {1, 255, 256}, {1, 256, 257},
                                    {1, 513, 511},  {13, 33, 512}, {96, 64, 256}, {97, 65, 257}, {100, 130, 300},
                                    {191, 63, 513}, {0, 4, 4},     {4, 0, 4},     {1, 1, 700},   {24, 1, 40},
                                    {200, 16, 16}};
enum { N_SHAPES = sizeof shapes / sizeof *shapes };

/* y of one product; order: bit 0 a stored [K,M], bit 1 b stored [N,K]. b_dtype not 0: b is stored in it. */
static float *product_of(const int64_t *s, int order, const float *a, const float *b, uint32_t b_dtype, tn_run *run) {
  const int64_t M = s[0], N = s[1], K = s[2];
  float *at = malloc((size_t)(M * K + 1) * sizeof *at), *bt = malloc((size_t)(N * K + 1) * sizeof *bt);
  float *y = malloc((size_t)(M * N + 1) * sizeof *y), *wide = malloc((size_t)(N * K + 1) * sizeof *wide);
  void *scratch = aligned_alloc(64, (tni_gemm_scratch(TN_DT_F32, run->n_workers) + 63) & ~63ull);
  for (int64_t m = 0; m < M; m++)
    for (int64_t k = 0; k < K; k++) at[order & 1 ? k * M + m : m * K + k] = a[m * K + k];
  for (int64_t k = 0; k < K; k++)
    for (int64_t n = 0; n < N; n++) bt[order & 2 ? n * K + k : k * N + n] = b[k * N + n];
  if (b_dtype) tni_store_f32(b_dtype, bt, 0, N * K, memcpy(wide, bt, (size_t)(N * K) * sizeof *bt));
  tni_gemm g = {.dtype = TN_DT_F32,
                .b_dtype = b_dtype,
                .M = M,
                .N = N,
                .K = K,
                .batches = 1,
                .a = at,
                .b = bt,
                .y = y,
                .a_row = order & 1 ? 1 : K,
                .a_col = order & 1 ? M : 1,
                .b_row = order & 2 ? 1 : N,
                .b_col = order & 2 ? K : 1,
                .alpha = 1,
                .beta = 1};
  memset(y, 0xff, (size_t)(M * N + 1) * sizeof *y);
  tni_gemm_run(&g, scratch, run);
  uint32_t guard;
  memcpy(&guard, y + M * N, 4);
  CU_ASSERT_EQUAL(guard, 0xffffffffu);
  free(at);
  free(bt);
  free(wide);
  free(scratch);
  return y;
}
static float *product(const int64_t *s, int order, const float *a, const float *b, tn_run *run) {
  return product_of(s, order, a, b, 0, run);
}

static void test_naive(void) {
  tn_run run;
  tni_run_inline(&run);
  for (int i = 0; i < N_SHAPES; i++) {
    const int64_t M = shapes[i][0], N = shapes[i][1], K = shapes[i][2];
    float *a = malloc((size_t)(M * K + 1) * 4), *b = malloc((size_t)(N * K + 1) * 4);
    ht_fill(a, M * K, 1);
    ht_fill(b, N * K, 2);
    for (int order = 0; order < 4; order++) {
      float *y = product(shapes[i], order, a, b, &run);
      int bad = 0;
      for (int64_t m = 0; m < M; m++)
        for (int64_t n = 0; n < N; n++) {
          double sum = 0, mag = 0;
          for (int64_t k = 0; k < K; k++) {
            sum += (double)a[m * K + k] * (double)b[k * N + n];
            mag += fabs((double)a[m * K + k] * (double)b[k * N + n]);
          }
          bad += !(fabs((double)y[m * N + n] - sum) <= (double)(K + 1) * 0x1p-24 * mag);
        }
      if (bad) printf("\n    %lldx%lldx%lld order %d: %d wrong", (long long)M, (long long)N, (long long)K, order, bad);
      CU_ASSERT_EQUAL(bad, 0);
      free(y);
    }
    free(a);
    free(b);
  }
}

/* The stated order, computed literally. */
static void stated(const int64_t *s, const float *a, const float *b, float *y) {
  const int64_t M = s[0], N = s[1], K = s[2];
  for (int64_t m = 0; m < M; m++)
    for (int64_t n = 0; n < N; n++) {
      float total = 0;
      for (int64_t k0 = 0; k0 < K; k0 += TNI_KC) {
        float acc = 0;
        for (int64_t k = k0; k < K && k < k0 + TNI_KC; k++) {
          acc = fmaf(a[m * K + k], b[k * N + n], acc);
        }
        total = k0 ? total + acc : acc;
      }
      y[m * N + n] = total;
    }
}

static void test_bits(void) {
  static const uint32_t workers[] = {1, 2, 3, 8};
  for (int i = 0; i < N_SHAPES; i++) {
    const int64_t M = shapes[i][0], N = shapes[i][1], K = shapes[i][2];
    float *a = malloc((size_t)(M * K + 1) * 4), *b = malloc((size_t)(N * K + 1) * 4),
          *want = malloc((size_t)(M * N + 1) * 4);
    ht_fill(a, M * K, 3);
    ht_fill(b, N * K, 4);
    stated(shapes[i], a, b, want);
    for (int w = 0; w < 4; w++) {
      tni_pool *pool = tni_pool_create(workers[w]);
      tni_pool_run run;
      tni_pool_run_init(&run, pool, NULL);
      for (int order = 0; order < 4; order++) {
        float *y = product(shapes[i], order, a, b, &run.run);
        CU_ASSERT_EQUAL(memcmp(y, want, (size_t)(M * N) * 4), 0);
        free(y);
      }
      tni_pool_destroy(pool);
    }
    /* One row alone has the bits that it has in the batch. */
    tn_run one;
    tni_run_inline(&one);
    for (int64_t m = 0; m < M && m < 3; m++)
      for (int order = 0; order < 4; order += 2) {
        const int64_t row[3] = {1, N, K};
        float *y = product(row, order, a + m * K, b, &one);
        CU_ASSERT_EQUAL(memcmp(y, want + m * N, (size_t)N * 4), 0);
        free(y);
      }
    free(a);
    free(b);
    free(want);
  }
}

/* Weights that lie as halves give the sums of the floats that they are. */
static void test_stored_halves(void) {
  static const uint32_t dtypes[] = {TN_DT_F16, TN_DT_BF16};
  tn_run run;
  tni_run_inline(&run);
  for (int i = 0; i < N_SHAPES; i++)
    for (int d = 0; d < 2; d++)
      for (int64_t M = shapes[i][0]; M > 0; M = M > 1 ? 1 : 0) {
        const int64_t s[3] = {M, shapes[i][1], shapes[i][2]}, n = s[1] * s[2];
        float *a = malloc((size_t)(M * s[2] + 1) * 4), *b = malloc((size_t)(n + 1) * 4);
        float *half = malloc((size_t)(n + 1) * 4);
        ht_fill(a, M * s[2], 5);
        ht_fill(b, n, 6);
        tni_store_f32(dtypes[d], half, 0, n, b);
        tni_load_f32(dtypes[d], half, 0, n, b);
        for (int order = 0; order < 4; order += 2) {
          float *want = product(s, order, a, b, &run), *y = product_of(s, order, a, b, dtypes[d], &run);
          CU_ASSERT_EQUAL(memcmp(y, want, (size_t)(M * s[1]) * 4), 0);
          free(want);
          free(y);
        }
        free(a);
        free(b);
        free(half);
      }
}

static int32_t always(const tn_run *run) {
  (void)run;
  return 1;
}

static void test_cancel(void) {
  tn_run run;
  const char *in[] = {"f32[1,2] 1 2", "f32[2,1] 3 4", NULL};
  tni_tensor out;
  ht_node n;
  tni_run_inline(&run);
  run.cancelled = always;
  CU_ASSERT(ht_node_make(&n, "MatMul", 0, NULL, in, 1));
  CU_ASSERT_EQUAL(tni_ops_eval(&run, n.node, n.ptr, 2, &out, 1, n.g->arena, &n.err), TN_E_CANCELLED);
  ht_node_free(&n);
}

/* Tiles: whole micro tiles, no larger than allowed, enough of them for all workers where rows allow it. */
static void test_tiles(void) {
  for (int64_t M = 0; M < 1300; M += 1 + M / 40)
    for (int64_t tiles = 0; tiles < 40; tiles += 1 + tiles / 3)
      for (uint32_t workers = 1; workers <= 9; workers += 4)
        for (int64_t most = TNI_GEMM_ROWS; most <= TNI_GEMM_MOST; most *= 2) {
          const int64_t rows = tni_gemm_rows(M, most, tiles, workers), n = (M + rows - 1) / rows;
          CU_ASSERT_FATAL(rows > 0 && rows % TNI_MR == 0 && rows <= most);
          CU_ASSERT(tiles == 0 || n * tiles >= 2 * workers || rows <= TNI_GEMM_ROWS);
          CU_ASSERT(n == 0 || M - (n - 1) * rows > 0);
        }
}

bool ht_add_matmul(void) {
  CU_pSuite s = CU_add_suite("host products", NULL, NULL);
  return s && CU_add_test(s, "against a naive product", test_naive) && CU_add_test(s, "same bits", test_bits) &&
         CU_add_test(s, "stored halves", test_stored_halves) &&
         CU_add_test(s, "tiles", test_tiles) && CU_add_test(s, "cancel", test_cancel);
}
