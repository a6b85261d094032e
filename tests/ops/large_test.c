/* SPDX-License-Identifier: Apache-2.0
 *
 * Sizes that reach the tiles, pieces and threads of the kernels, against plain loops over coordinates.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ops_test.h"

typedef struct big {
  ht_node n;
  tni_tensor out;
  tni_pool *pool;
  tni_pool_run run;
} big;

/* The node on tensors of zeros with these dims; inputs are then filled. */
static bool big_make(big *b, const char *op, const char *attrs, const char *const *shapes, uint32_t workers) {
  const char *none[HT_IO] = {NULL};
  static const char *const scalars[HT_IO] = {"f32[] 0", "f32[] 0", "f32[] 0", "f32[] 0",
                                             "f32[] 0", "f32[] 0", "f32[] 0"};
  uint32_t n = 0;
  memset(b, 0, sizeof *b);
  for (; shapes[n]; n++) none[n] = scalars[n];
  if (!ht_node_make(&b->n, op, 25, attrs, none, 1)) return false;
  for (uint32_t i = 0; i < n; i++) {
    tni_tensor *t = &b->n.in[i];
    char *p = (char *)(uintptr_t)shapes[i];
    int64_t count;
    for (t->rank = 0; *p; p += *p == ',') t->dims[t->rank++] = strtoll(p, &p, 10);
    if (tni_dims_count(t->dims, t->rank, &count) || tni_dtype_bytes(TN_DT_F32, count, &t->bytes)) return false;
    t->data = (char *)tni_arena_alloc(b->n.g->arena, t->bytes + 1, 64) + 1;
    float *x = malloc(t->bytes + 1);
    ht_fill(x, count, i + 1);
    memcpy(t->data, x, t->bytes);
    free(x);
  }
  b->pool = tni_pool_create(workers);
  tni_pool_run_init(&b->run, b->pool, NULL);
  return tni_ops_eval(&b->run.run, b->n.node, b->n.ptr, b->n.n_in, &b->out, 1, b->n.g->arena, &b->n.err) == TN_OK;
}

static void big_free(big *b) {
  tni_pool_destroy(b->pool);
  ht_node_free(&b->n);
}

static float at(const tni_tensor *t, int64_t i) {
  float f;
  memcpy(&f, (const char *)t->data + i * 4, 4);
  return f;
}

static void coords(const tni_tensor *t, int64_t i, int64_t *c) {
  for (uint32_t d = t->rank; d-- > 0;) {
    c[d] = i % t->dims[d];
    i /= t->dims[d];
  }
}

static int64_t count(const tni_tensor *t) {
  int64_t n = 0;
  CU_ASSERT_EQUAL(tni_dims_count(t->dims, t->rank, &n), TN_OK);
  return n;
}

static const uint32_t worker_counts[] = {1, 3};

static void test_transpose(void) {
  static const struct {
    const char *shape, *attrs;
    int perm[5];
  } rows[] = {{"37,53", "perm=[1,0]", {1, 0}},
              {"3,37,53", "perm=[0,2,1]", {0, 2, 1}},
              {"19,3,35", "perm=[2,1,0]", {2, 1, 0}},
              {"2,33,4,17", "perm=[0,2,1,3]", {0, 2, 1, 3}},
              {"2,33,4,17", "perm=[3,0,2,1]", {3, 0, 2, 1}},
              {"5,2,9,4,18", "perm=[4,1,3,0,2]", {4, 1, 3, 0, 2}}};
  for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
    for (size_t w = 0; w < 2; w++) {
      big b;
      const char *shapes[] = {rows[r].shape, NULL};
      int bad = 0;
      CU_ASSERT_FATAL(big_make(&b, "Transpose", rows[r].attrs, shapes, worker_counts[w]));
      const tni_tensor *x = &b.n.in[0];
      for (int64_t i = 0; i < count(&b.out); i++) {
        int64_t c[TN_MAX_RANK], from = 0, src[TN_MAX_RANK];
        coords(&b.out, i, c);
        for (uint32_t d = 0; d < x->rank; d++) src[rows[r].perm[d]] = c[d];
        for (uint32_t d = 0; d < x->rank; d++) from = from * x->dims[d] + src[d];
        bad += at(&b.out, i) != at(x, from);
      }
      CU_ASSERT_EQUAL(bad, 0);
      big_free(&b);
    }
}

/* Broadcast offset of output coordinates in t. */
static int64_t operand(const tni_tensor *t, const tni_tensor *out, const int64_t *c) {
  int64_t i = 0;
  for (uint32_t d = 0; d < t->rank; d++) i = i * t->dims[d] + (t->dims[d] == 1 ? 0 : c[d + out->rank - t->rank]);
  return i;
}

static void test_broadcast(void) {
  static const char *const shapes[][3] = {{"20001", "20001"},         {"3,20001", "20001"}, {"3,20001", "3,1"},
                                          {"7,1,300", "1,11,300"},    {"7,1,300", "5,1"},   {"2,3,4,5,6", "3,1,5,1"},
                                          {"1,3,1,700", "4,1,9,700"}, {"513,1", "1,257"}};
  for (size_t r = 0; r < sizeof shapes / sizeof *shapes; r++)
    for (size_t w = 0; w < 2; w++)
      for (int op = 0; op < 2; op++) {
        big b;
        int bad = 0;
        CU_ASSERT_FATAL(big_make(&b, op ? "Max" : "Sub", NULL, shapes[r], worker_counts[w]));
        for (int64_t i = 0; i < count(&b.out); i++) {
          int64_t c[TN_MAX_RANK];
          coords(&b.out, i, c);
          const float x = at(&b.n.in[0], operand(&b.n.in[0], &b.out, c)),
                      y = at(&b.n.in[1], operand(&b.n.in[1], &b.out, c));
          bad += at(&b.out, i) != (op ? fmaxf(x, y) : x - y);
        }
        CU_ASSERT_EQUAL(bad, 0);
        big_free(&b);
      }
}

/* One-axis operators, against double sums over lines. */
static void check_lines(const char *op, const char *shape, int axis, uint32_t workers, float *keep) {
  big b;
  char attrs[32];
  const char *shapes[] = {shape, NULL};
  int bad = 0;
  snprintf(attrs, sizeof attrs, "axis=%d", axis);
  CU_ASSERT_FATAL(big_make(&b, op, attrs, shapes, workers));
  const tni_tensor *x = &b.n.in[0];
  int64_t inner = 1;
  for (uint32_t d = (uint32_t)axis + 1; d < x->rank; d++) inner *= x->dims[d];
  const int64_t n = x->dims[axis], lines = count(x) / n;
  for (int64_t l = 0; l < lines; l++) {
    const int64_t start = (l / inner) * n * inner + l % inner;
    double max = -INFINITY, sum = 0;
    for (int64_t j = 0; j < n; j++) max = fmax(max, (double)at(x, start + j * inner));
    for (int64_t j = 0; j < n; j++) sum += exp((double)at(x, start + j * inner) - max);
    for (int64_t j = 0; j < n; j++) {
      const double d = (double)at(x, start + j * inner) - max, want = op[0] == 'L' ? d - log(sum) : exp(d) / sum;
      bad += !(fabs((double)at(&b.out, start + j * inner) - want) <= 2e-6 * fabs(want));
    }
  }
  CU_ASSERT_EQUAL(bad, 0);
  if (keep[0] == 0) memcpy(keep, b.out.data, b.out.bytes);
  CU_ASSERT_EQUAL(memcmp(keep, b.out.data, b.out.bytes), 0);
  big_free(&b);
}

static void test_softmax(void) {
  static const struct {
    const char *shape;
    int axis;
  } rows[] = {{"40,1000", 1}, {"40,1000", 0}, {"6,50,7", 1}, {"3,700,301", 1}, {"3,1,5", 2}};
  float *keep = malloc(3 * 700 * 301 * sizeof *keep);
  for (size_t r = 0; r < sizeof rows / sizeof *rows; r++)
    for (int op = 0; op < 2; op++) {
      keep[0] = 0;
      for (size_t w = 0; w < 2; w++)
        check_lines(op ? "LogSoftmax" : "Softmax", rows[r].shape, rows[r].axis, worker_counts[w], keep);
    }
  free(keep);
}

/* Reductions of every pair of axes of a rank-4 tensor; the same bits for one worker and for three. */
static void test_reduce(void) {
  static const char *const ops[] = {"ReduceSum", "ReduceMean", "ReduceL2", "ReduceMin"};
  enum { OUT = 5 * 30 * 300 * 3 };
  float *keep = malloc(OUT * sizeof *keep);
  for (uint32_t mask = 1; mask < 16; mask++)
    for (int o = 0; o < 4; o++)
      for (size_t w = 0; w < 2; w++) {
        ht_node n;
        tni_tensor out;
        char axes[64];
        int k = 0, at_text = 0, bad = 0;
        for (int d = 0; d < 4; d++) k += (mask >> d) & 1;
        at_text = snprintf(axes, sizeof axes, "i64[%d]", k);
        for (int d = 0; d < 4; d++)
          if ((mask >> d) & 1) at_text += snprintf(axes + at_text, sizeof axes - (size_t)at_text, " %d", d);
        const char *in[] = {"f32[] 0", axes, NULL};
        CU_ASSERT_FATAL(ht_node_make(&n, ops[o], 25, NULL, in, 1));
        n.in[0] = (tni_tensor){.dtype = TN_DT_F32, .rank = 4, .dims = {5, 30, 300, 3}, .bytes = OUT * 4};
        n.in[0].data = tni_arena_alloc(n.g->arena, OUT * 4, 64);
        ht_fill(n.in[0].data, OUT, 7);
        tni_pool *pool = tni_pool_create(worker_counts[w]);
        tni_pool_run run;
        tni_pool_run_init(&run, pool, NULL);
        CU_ASSERT_EQUAL_FATAL(tni_ops_eval(&run.run, n.node, n.ptr, 2, &out, 1, n.g->arena, &n.err), TN_OK);
        const int64_t m = count(&out);
        double *sum = calloc((size_t)m, sizeof *sum), *mag = calloc((size_t)m, sizeof *mag);
        for (int64_t i = 0; i < m && o == 3; i++) sum[i] = INFINITY;
        for (int64_t i = 0; i < OUT; i++) {
          int64_t c[4];
          coords(&n.in[0], i, c);
          const int64_t to = operand(&out, &n.in[0], c);
          const double v = (double)at(&n.in[0], i), term = o == 2 ? v * v : v;
          sum[to] = o == 3 ? fmin(sum[to], v) : sum[to] + term;
          mag[to] += fabs(term);
        }
        const double per = (double)OUT / (double)m;
        for (int64_t i = 0; i < m; i++) {
          const double want = o == 1 ? sum[i] / per : o == 2 ? sqrt(sum[i]) : sum[i];
          const double slack = o == 3 ? 0 : o == 2 ? 1e-5 * want : 1e-6 * mag[i] / (o == 1 ? per : 1) * 4;
          bad += !(fabs((double)at(&out, i) - want) <= slack);
        }
        CU_ASSERT_EQUAL(bad, 0);
        if (w == 0) memcpy(keep, out.data, out.bytes);
        CU_ASSERT_EQUAL(memcmp(keep, out.data, out.bytes), 0);
        free(sum);
        free(mag);
        tni_pool_destroy(pool);
        ht_node_free(&n);
      }
  free(keep);
}

bool ht_add_large(void) {
  CU_pSuite s = CU_add_suite("host large tensors", NULL, NULL);
  return s && CU_add_test(s, "transpose", test_transpose) && CU_add_test(s, "broadcast", test_broadcast) &&
         CU_add_test(s, "softmax", test_softmax) && CU_add_test(s, "reduce", test_reduce);
}
