/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "calib_test.h"

enum { K = 4, ROWS = 5000 };

static float values[ROWS * K];

static void fill(unsigned seed) {
  uint64_t s = seed * 2654435761u + 1;
  for (int i = 0; i < ROWS * K; i++) {
    s = s * 6364136223846793005u + 1442695040888963407u;
    const double u = (double)(s >> 11) * 0x1p-53;
    values[i] = (float)(pow(2 * u - 1, 9) * pow(10, (double)(i % K) - 1)); /* few are large */
  }
}

static int ascending(const void *a, const void *b) {
  const float x = *(const float *)a, y = *(const float *)b;
  return (x > y) - (x < y);
}

/* Rows [a, b) of the values in one run. */
static tn_status feed(tni_recorder *r, tn_id x, int64_t a, int64_t b, tn_error *err) {
  tni_tensor t = {.dtype = TN_DT_F32, .rank = 3, .dims = {1, b - a, K}, .data = values + a * K};
  t.bytes = (uint64_t)(b - a) * K * sizeof(float);
  return tni_recorder_add(r, x, &t, err);
}

typedef struct recorded {
  tni_graph *g;
  tni_recorder *r;
  tni_arena *arena;
  const tni_calib_entry *e;
  uint32_t n;
} recorded;

static void finish(recorded *t) {
  tni_recorder_destroy(t->r);
  tni_graph_destroy(t->g);
  tni_arena_destroy(t->arena);
}

/* Two passes in pieces of `step` rows, the second from the end. */
static void record(recorded *t, int64_t step) {
  tn_error err = {0};
  *t = (recorded){.g = graph_of("MatMul x wa y;MatMul x wb z;Gemm y wc u"), .arena = tni_arena_create()};
  CU_ASSERT_EQUAL_FATAL(tni_recorder_create(t->g, &t->r, &err), TN_OK);
  const tn_id x = tni_recorder_value(t->r, 0);
  CU_ASSERT_EQUAL_FATAL(x, tni_graph_find(t->g, "x"));
  CU_ASSERT_EQUAL(tni_recorder_value(t->r, 1), TN_NONE); /* recorded once */
  CU_ASSERT_EQUAL(tni_recorder_value(t->r, 2), tni_graph_find(t->g, "y"));
  for (int64_t a = 0; a < ROWS; a += step)
    CU_ASSERT_EQUAL(feed(t->r, x, a, a + step < ROWS ? a + step : ROWS, &err), TN_OK);
  CU_ASSERT_EQUAL(tni_recorder_next(t->r, &err), TN_OK);
  for (int64_t a = (ROWS - 1) / step * step; a >= 0; a -= step)
    CU_ASSERT_EQUAL(feed(t->r, x, a, a + step < ROWS ? a + step : ROWS, &err), TN_OK);
  CU_ASSERT_EQUAL_FATAL(tni_recorder_result(t->r, t->arena, &t->e, &t->n, &err), TN_OK);
}

static void test_brute_force(void) {
  static float sorted[ROWS * K];
  for (unsigned seed = 1; seed <= 4; seed++) {
    recorded t;
    double mean[K] = {0}, square[K] = {0};
    fill(seed);
    record(&t, seed * 333);
    CU_ASSERT_EQUAL_FATAL(t.n, 1); /* y never ran */
    const tn_stats *s = &t.e[0].stats;
    for (int i = 0; i < ROWS * K; i++) sorted[i] = fabsf(values[i]);
    qsort(sorted, ROWS * K, sizeof *sorted, ascending);
    CU_ASSERT_EQUAL(s->absmax, sorted[ROWS * K - 1]);
    const float p = sorted[(ROWS * K * 999 + 999) / 1000 - 1];
    CU_ASSERT(s->p999 >= p && s->p999 < p * (1 + 0x1p-8f));
    CU_ASSERT_EQUAL(s->rows, ROWS);
    CU_ASSERT_EQUAL_FATAL(s->n, K);
    float over[K] = {0};
    for (int i = 0; i < ROWS * K; i++) {
      mean[i % K] += (double)values[i] / ROWS;
      square[i % K] += (double)values[i] * (double)values[i] / ROWS;
      over[i % K] += fabs((double)values[i]) > (double)(float)((double)s->p999 / 127 * 127.5);
    }
    for (int k = 0; k < K; k++) {
      CU_ASSERT_EQUAL(s->ch_over[k], over[k]);
      CU_ASSERT_DOUBLE_EQUAL(s->ch_mean[k], mean[k], 1e-6 * sqrt(square[k]));
      CU_ASSERT_DOUBLE_EQUAL(s->ch_weight[k], square[k], 1e-6 * square[k]);
    }
    CU_ASSERT(over[K - 1] > 0);
    CU_ASSERT_STRING_EQUAL(t.e[0].name, "x");
    CU_ASSERT_EQUAL_FATAL(t.e[0].n_weights, 2);
    CU_ASSERT_STRING_EQUAL(t.e[0].weights[0], "wa");
    CU_ASSERT_STRING_EQUAL(t.e[0].weights[1], "wb");
    finish(&t);
  }
}

static void test_pieces_agree(void) {
  recorded a, b;
  fill(9);
  record(&a, ROWS);
  record(&b, 17);
  CU_ASSERT_EQUAL(a.e->stats.p999, b.e->stats.p999);
  CU_ASSERT_EQUAL(a.e->stats.absmax, b.e->stats.absmax);
  CU_ASSERT_EQUAL(memcmp(a.e->stats.ch_over, b.e->stats.ch_over, K * sizeof(float)), 0);
  finish(&a);
  finish(&b);
}

static void test_edges(void) {
  recorded t;
  memset(values, 0, sizeof values);
  record(&t, ROWS);
  CU_ASSERT_EQUAL(t.e->stats.absmax, 0);
  CU_ASSERT_EQUAL(t.e->stats.p999, 0);
  CU_ASSERT_EQUAL(t.e->stats.ch_over[0], 0);
  finish(&t);
  for (int i = 0; i < ROWS * K; i++) values[i] = i % 2 ? -3.25f : 3.25f;
  record(&t, ROWS);
  CU_ASSERT_EQUAL(t.e->stats.p999, 3.25f); /* never above the largest */
  finish(&t);
}

static void test_refusals(void) {
  tn_error err = {0};
  recorded t = {.g = graph_of("MatMul x wa y"), .arena = tni_arena_create()};
  fill(3);
  CU_ASSERT_EQUAL_FATAL(tni_recorder_create(t.g, &t.r, &err), TN_OK);
  const tn_id x = tni_recorder_value(t.r, 0);
  CU_ASSERT_EQUAL(feed(t.r, x, 0, 10, &err), TN_OK);
  CU_ASSERT_EQUAL(tni_recorder_result(t.r, t.arena, &t.e, &t.n, &err), TN_E_INVALID);
  CU_ASSERT(says(&err, "10 rows in the first pass, 0 in the second"));
  err = (tn_error){0};
  values[7] = NAN;
  CU_ASSERT_EQUAL(feed(t.r, x, 0, 10, &err), TN_E_INVALID);
  CU_ASSERT(says(&err, "activation 'x' has a value that is not finite"));
  values[7] = 1;
  CU_ASSERT_EQUAL(tni_recorder_next(t.r, NULL), TN_OK);
  CU_ASSERT_EQUAL(tni_recorder_next(t.r, NULL), TN_E_INVALID);
  CU_ASSERT_EQUAL(feed(t.r, x, 0, 9, NULL), TN_OK);
  CU_ASSERT_EQUAL(tni_recorder_result(t.r, t.arena, &t.e, &t.n, NULL), TN_E_INVALID);
  tni_tensor wrong = {.dtype = TN_DT_F32, .rank = 2, .dims = {2, 3}, .data = values, .bytes = 24};
  CU_ASSERT_EQUAL(tni_recorder_add(t.r, x, &wrong, NULL), TN_E_INTERNAL);
  finish(&t);
}

void suite_record(void) {
  CU_pSuite s = CU_add_suite("record", NULL, NULL);
  CU_add_test(s, "brute force", test_brute_force);
  CU_add_test(s, "pieces in any order", test_pieces_agree);
  CU_add_test(s, "zeros and constants", test_edges);
  CU_add_test(s, "refusals", test_refusals);
}
