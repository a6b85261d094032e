/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
#include <string.h>

#include "place_test.h"
#include "runtime/place/program_check.h"

enum { R = 300, C = 7 };

static tn_id add_matrix(tni_graph *g, const char *name, uint32_t dtype, int64_t rows, int64_t cols, void *data,
                        uint64_t bytes) {
  tn_id v = tni_graph_add_value(g, name, TN_VALUE_ACT, dtype);
  tni_tensor t = {.dtype = dtype, .rank = 2, .dims = {rows, cols}, .data = data, .bytes = bytes};
  CU_ASSERT_EQUAL_FATAL(tni_value_set_tensor(g, v, &t, NULL), TN_OK);
  return v;
}

static float at(int64_t r, int64_t c) { return (float)(r * 1000 + c); }

/* Element (n, k) of the [N,K] view is (n, k) of what is stored, or (k, n) of a [K,N] matrix; any range of rows. */
static void test_rows(void) {
  static float m[R][C], got[R * C];
  static uint16_t h[C][R];
  for (int r = 0; r < R; r++)
    for (int c = 0; c < C; c++) {
      m[r][c] = at(r, c);
      h[c][r] = tni_f32_to_f16((float)(r + 2 * c));
    }
  fixture f;
  fixture_init(&f, "Neg:x:y", "y");
  tn_id wide = add_matrix(f.g, "wide", TN_DT_F32, C, R, m, sizeof m); /* the same bytes as [7,300] */
  tn_id tall = add_matrix(f.g, "tall", TN_DT_F32, R, C, m, sizeof m);
  tn_id half = add_matrix(f.g, "half", TN_DT_F16, C, R, h, sizeof h);
  CU_ASSERT_EQUAL_FATAL(tni_graph_finish(f.g, &f.err), TN_OK);
  CU_ASSERT_EQUAL_FATAL(tni_graph_view(f.g, 0, &f.view, &f.err), TN_OK);
  static const int64_t ranges[][2] = {{0, 1}, {0, C}, {3, 6}, {6, 7}, {2, 2}};
  tn_weight *w;
  CU_ASSERT_EQUAL_FATAL(tni_weight_of(&f.view, tall, true, f.arena, &w, &f.err), TN_OK);
  CU_ASSERT(w->N == C && w->K == R && (w->flags & TN_WEIGHT_TRANSPOSED) && w->raw == m);
  size_t wrong = 0;
  for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++) {
    CU_ASSERT_EQUAL(w->rows(w, ranges[i][0], ranges[i][1], got), TN_OK);
    for (int64_t n = ranges[i][0]; n < ranges[i][1]; n++)
      for (int64_t k = 0; k < R; k++) wrong += got[(n - ranges[i][0]) * R + k] != at(k, n);
  }
  CU_ASSERT_EQUAL_FATAL(tni_weight_of(&f.view, tall, false, f.arena, &w, &f.err), TN_OK);
  CU_ASSERT(w->N == R && w->K == C && !(w->flags & TN_WEIGHT_TRANSPOSED));
  CU_ASSERT_EQUAL(w->rows(w, 5, R, got), TN_OK);
  for (int64_t n = 5; n < R; n++)
    for (int64_t k = 0; k < C; k++) wrong += got[(n - 5) * C + k] != at(n, k);
  /* More columns than one chunk of the transposing reader, and halves. */
  CU_ASSERT_EQUAL_FATAL(tni_weight_of(&f.view, half, true, f.arena, &w, &f.err), TN_OK);
  CU_ASSERT(w->N == R && w->K == C && w->dtype == TN_DT_F16);
  CU_ASSERT_EQUAL(w->rows(w, 0, R, got), TN_OK);
  for (int64_t n = 0; n < R; n++)
    for (int64_t k = 0; k < C; k++) wrong += got[n * C + k] != (float)(n + 2 * k);
  CU_ASSERT_EQUAL_FATAL(tni_weight_of(&f.view, wide, true, f.arena, &w, &f.err), TN_OK);
  CU_ASSERT_EQUAL(w->rows(w, 1, R, got), TN_OK);
  for (int64_t n = 1; n < R; n++)
    for (int64_t k = 0; k < C; k++) wrong += got[(n - 1) * C + k] != ((float *)m)[k * R + n];
  CU_ASSERT_EQUAL(wrong, 0);
  CU_ASSERT_EQUAL(tni_weight_of(&f.view, value_id(&f, "x"), true, f.arena, &w, &f.err), TN_E_INTERNAL);
  CU_ASSERT_PTR_NOT_NULL(strstr(f.err.message, "'x' is not a constant matrix"));
  fixture_finish(&f);
}

/* q, k and v of one layer: joined along N, read in ranges that cross the borders. */
static void test_joined(void) {
  static float q[4][6], k[2][6], v[3][6], got[9 * 6];
  for (int r = 0; r < 4; r++)
    for (int c = 0; c < 6; c++) q[r][c] = at(r, c);
  for (int r = 0; r < 2; r++)
    for (int c = 0; c < 6; c++) k[r][c] = at(r + 4, c);
  for (int r = 0; r < 3; r++)
    for (int c = 0; c < 6; c++) v[r][c] = at(r + 6, c);
  fixture f;
  fixture_init(&f, "Neg:x:y", "y");
  const tn_id ids[] = {add_matrix(f.g, "q", TN_DT_F32, 4, 6, q, sizeof q),
                       add_matrix(f.g, "k", TN_DT_F32, 2, 6, k, sizeof k),
                       add_matrix(f.g, "v", TN_DT_F32, 3, 6, v, sizeof v)};
  CU_ASSERT_EQUAL_FATAL(tni_graph_finish(f.g, &f.err), TN_OK);
  CU_ASSERT_EQUAL_FATAL(tni_graph_view(f.g, 0, &f.view, &f.err), TN_OK);
  static const tn_format format = {.h = TN_HDR(tn_format), .name = "f"};
  tn_need need = {.h = TN_HDR(tn_need), .format = &format, .values = ids, .n_values = 3};
  tni_need n;
  CU_ASSERT_EQUAL_FATAL(tni_need_prepare(&f.view, &need, f.arena, &n, &f.err), TN_OK);
  CU_ASSERT(n.joined.N == 9 && n.joined.K == 6 && n.joined.raw == NULL);
  size_t wrong = 0;
  for (int64_t a = 0; a <= 9; a++)
    for (int64_t b = a; b <= 9; b++) {
      memset(got, 0xff, sizeof got);
      CU_ASSERT_EQUAL(n.joined.rows(&n.joined, a, b, got), TN_OK);
      for (int64_t i = a; i < b; i++)
        for (int64_t c = 0; c < 6; c++) wrong += got[(i - a) * 6 + c] != at(i, c);
    }
  CU_ASSERT_EQUAL(wrong, 0);
  /* Stored [K,N]: the N's differ no more, the K's do. */
  need.flags = TN_NEED_KN;
  CU_ASSERT_EQUAL(tni_need_prepare(&f.view, &need, f.arena, &n, &f.err), TN_E_INTERNAL);
  CU_ASSERT_PTR_NOT_NULL(strstr(f.err.message, "differ in K: 4 and 2"));
  fixture_finish(&f);
}

void suite_weight(void) {
  CU_pSuite s = CU_add_suite("plan: weight", NULL, NULL);
  CU_add_test(s, "rows, stored and transposed", test_rows);
  CU_add_test(s, "rows of joined weights", test_joined);
}
