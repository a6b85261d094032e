/* SPDX-License-Identifier: Apache-2.0
 *
 * The built plugin through its vtable: hand-built graphs from claim to run.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/kernels/fakehost.h"

static const char *so;

static fake defaults(void) { return (fake){.group = 32, .min_k = 32, .min_n = 16, .act_matmul = 1, .isa = "auto"}; }

static float *feed(fake_graph *g, tn_id v, const int64_t *symbols) {
  int64_t n = fake_count(g, v, symbols);
  rng r = rng_of(9000 + v);
  free(g->data[v]);
  g->count[v] = n;
  g->data[v] = malloc((size_t)(n ? n : 1) * sizeof(float));
  if (!g->data[v]) abort();
  fill(g->data[v], (size_t)n, V_NORMAL, 1, &r);
  return g->data[v];
}

/* Part [n0, n0 + N) of blob times x, plus bias, against the value's data. */
static bool matches(const fake_graph *g, const tn_blob *blob, tn_id x, int64_t M, int64_t n0, tn_id y, tn_id bias,
                    double alpha, double beta) {
  int64_t N = blob->N, K = blob->K, ny = M ? g->count[y] / M : 0;
  const tn_numerics *num = numerics_of(blob);
  float *w = unpack_all(blob);
  double *ref = malloc((size_t)(M * N + 1) * sizeof *ref), *mag = malloc((size_t)(M * N + 1) * sizeof *mag);
  bool ok = ref && mag && g->count[y] == M * ny;
  reference(num, g->data[x], M, K, w, N, ref, mag);
  for (int64_t m = 0; ok && m < M; m++) {
    for (int64_t n = 0; n < ny; n++) {
      double c = bias == TN_NONE ? 0 : beta * (double)g->data[bias][g->count[bias] == 1 ? 0 : n];
      double want = alpha * ref[m * N + n0 + n] + c, got = (double)g->data[y][m * ny + n];
      ok = ok &&
           fabs(want - got) <= (reference_bound(num, K) + 3 * 0x1p-24) * (fabs(alpha) * mag[m * N + n0 + n] + fabs(c));
    }
  }
  free(ref);
  free(mag);
  free(w);
  return ok;
}

/* y[M,N] = x[M,K] * w, all row-major, in double. */
static bool float_matches(const float *x, const float *w, const float *y, int64_t M, int64_t K, int64_t N) {
  for (int64_t m = 0; m < M; m++) {
    for (int64_t n = 0; n < N; n++) {
      double s = 0, mag = 0;
      for (int64_t k = 0; k < K; k++) {
        s += (double)x[m * K + k] * w[k * N + n];
        mag += fabs((double)x[m * K + k] * w[k * N + n]);
      }
      if (!(fabs(s - (double)y[m * N + n]) <= (double)(K + 1) * 0x1p-24 * mag)) return false;
    }
  }
  return true;
}

#define OPEN(f) CU_ASSERT_FATAL(fake_open(&(f), so))
#define CLOSE(f)                    \
  do {                              \
    fake_close(&(f));               \
    CU_ASSERT_EQUAL((f).h.live, 0); \
  } while (0)

/* x[S,K] times a [K,N] constant. */
typedef struct matmul_case {
  int64_t group, K, N, M;
  const char *isa, *act_scales;
  uint32_t threads;
} matmul_case;

/* y of the case, checked against the blob's own numerics; free() it. */
static float *one_case(const matmul_case *c) {
  fake f = defaults();
  f.group = c->group;
  f.isa = c->isa;
  f.act_scales = c->act_scales;
  f.h.threads = c->threads;
  OPEN(f);
  fake_graph *g = malloc(sizeof *g);
  graph_init(g);
  int64_t S[1] = {c->M};
  tn_expr S_ = sym(g, "S", 0, 4096);
  tn_id x = value(g, TN_VALUE_INPUT, 3, (tn_expr[]){ex(g, 1), S_, ex(g, c->K)});
  tn_id w = constant(g, 2, (int64_t[]){c->K, c->N});
  tn_id y = value(g, TN_VALUE_OUTPUT, 3, (tn_expr[]){ex(g, 1), S_, ex(g, c->N)});
  node(g, TN_OP_MATMUL, x, w, TN_NONE, y);
  graph_finish(g);
  feed(g, x, S);
  walked r = walk(&f, g, S);
  CU_ASSERT_EQUAL_FATAL(r.st, TN_OK);
  CU_ASSERT(r.guards_ok && r.run_allocs == 0 && r.info->n_tasks == 1 && r.info->n_needs == 1);
  CU_ASSERT_EQUAL(r.info->tasks[0]->symbols, 1);
  CU_ASSERT_EQUAL(r.info->needs[0]->flags, TN_NEED_KN);
  CU_ASSERT_EQUAL(numerics_of(&r.blobs[0])->act_group, c->act_scales ? 0 : c->group);
  CU_ASSERT(matches(g, &r.blobs[0], x, S[0], 0, y, TN_NONE, 1, 0));
  size_t bytes = (size_t)(S[0] * c->N) * sizeof(float);
  float *out = memcpy(malloc(bytes + 1), g->data[y], bytes);
  walked_free(&f, &r);
  graph_free(g);
  free(g);
  CLOSE(f);
  return out;
}

/* MatMul with a [K,N] constant: groups, ISAs, threads, M from 0 up, odd N and K, scales of groups and of rows; equal
 * bits across ISA and threads. */
static void one_matmul(void) {
  /* The last: results that go past the caches, two blocks at a time and one. */
  static const int64_t sizes[][2] = {{32, 16}, {33, 17}, {64, 16}, {100, 47}, {300, 130}, {700, 33}, {33, 4400}};
  static const int64_t Ms[] = {0, 1, 2, 5, 6, 7, 97, 240, 299}; /* 299: two units of rows */
  static const char *const scales[] = {NULL, "row"};
  for (size_t i = 0; i < 2 * 2 * sizeof sizes / sizeof *sizes * (sizeof Ms / sizeof *Ms); i++) {
    const size_t is = i / 4 % (sizeof sizes / sizeof *sizes), im = i / 4 / (sizeof sizes / sizeof *sizes);
    float *first = NULL;
    for (int variant = 0; variant < 4; variant++) {
      const char *isa = variant == 1 ? "scalar" : variant == 3 ? FAKE_LESSER_ISA : "auto"; /* on AMX another kernel */
      const matmul_case c = {.group = i % 2 ? 128 : 32,
                             .K = sizes[is][0],
                             .N = sizes[is][1],
                             .M = Ms[im],
                             .isa = isa,
                             .act_scales = scales[i / 2 % 2],
                             .threads = variant == 2 ? 3 : 0};
      float *y = one_case(&c);
      if (first) CU_ASSERT_EQUAL(memcmp(first, y, (size_t)(c.M * c.N) * sizeof *y), 0);
      if (!first)
        first = y;
      else
        free(y);
    }
    free(first);
  }
}

/* q, k, v of unlike widths, none a multiple of 16, one through a Transpose of its own: one group per orientation. */
static void siblings(void) {
  for (int64_t M = 1; M <= 8; M += 7) {
    fake f = defaults();
    f.h.threads = 2;
    OPEN(f);
    fake_graph *g = malloc(sizeof *g);
    graph_init(g);
    int64_t K = 96, S[1] = {M};
    tn_expr S_ = sym(g, "S", 1, 512), e;
    tn_id x = value(g, TN_VALUE_ACT, 2, (tn_expr[]){S_, ex(g, K)}), y[5], w[5];
    const int64_t N[5] = {40, 17, 23, 33, 19};
    for (int i = 0; i < 3; i++) {
      e = ex(g, N[i]);
      w[i] = constant(g, 2, (int64_t[]){K, N[i]});
      y[i] = value(g, TN_VALUE_OUTPUT, 2, (tn_expr[]){S_, e});
      node(g, TN_OP_MATMUL, x, w[i], TN_NONE, y[i]);
    }
    for (int i = 3; i < 5; i++) {
      e = ex(g, N[i]);
      w[i] = constant(g, 2, (int64_t[]){N[i], K});
      tn_id t = value(g, TN_VALUE_ACT, 2, (tn_expr[]){ex(g, K), e});
      y[i] = value(g, TN_VALUE_OUTPUT, 2, (tn_expr[]){S_, e});
      node(g, TN_OP_TRANSPOSE, w[i], TN_NONE, TN_NONE, t);
      node(g, TN_OP_MATMUL, x, t, TN_NONE, y[i]);
    }
    graph_finish(g);
    feed(g, x, S);
    answers a;
    CU_ASSERT_EQUAL(fake_claim(&f, g, NULL, &a), TN_OK);
    CU_ASSERT_EQUAL(a.n_groups, 4); /* {q,k,v}, {T,a,T,b}, {T,a}, {T,b} */
    CU_ASSERT(a.group_n[0] == 3 && a.group_n[1] == 4 && a.group_n[2] == 2);
    CU_ASSERT(a.node[0].verdict == TN_YES && a.node[3].verdict == TN_GROUP_ONLY && a.node[4].verdict == TN_GROUP_ONLY);
    walked r = walk(&f, g, S);
    CU_ASSERT_EQUAL_FATAL(r.st, TN_OK);
    CU_ASSERT_EQUAL(r.info->n_tasks, 2);
    CU_ASSERT_EQUAL(r.info->n_needs, 2);
    CU_ASSERT(r.info->needs[0]->n_values == 3 && r.info->needs[0]->flags == TN_NEED_KN);
    CU_ASSERT(r.info->needs[1]->n_values == 2 && r.info->needs[1]->flags == 0);
    CU_ASSERT(r.info->tasks[0]->n_nodes == 3 && r.info->tasks[1]->n_nodes == 4);
    CU_ASSERT(r.guards_ok && r.run_allocs == 0);
    for (int i = 0, at = 0; i < 5; i++) {
      if (i == 3) at = 0;
      CU_ASSERT(matches(g, &r.blobs[i / 3], x, M, at, y[i], TN_NONE, 1, 0));
      at += (int)N[i];
    }
    walked_free(&f, &r);
    graph_free(g);
    free(g);
    CLOSE(f);
  }
}

/* Gemm: both orientations, alpha, beta, bias [N], [1,N], scalar, absent; a raw bias at an odd address. */
static void gemm(void) {
  static const struct {
    int64_t trans_b;
    double alpha, beta;
    int bias; /* 0 none, 1 [N], 2 [1,N], 3 scalar [1], 4 scalar [] */
  } cases[] = {{0, 1, 1, 0}, {1, 1, 1, 1}, {0, 1, 1, 2}, {1, 0.5, 2, 1}, {1, 1, 1, 3}, {0, -2, 0.25, 4}, {0, 1, 0, 1}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    for (int64_t M = 1; M <= 3; M += 2) {
      fake f = defaults();
      OPEN(f);
      fake_graph *g = malloc(sizeof *g);
      graph_init(g);
      int64_t K = 70, N = 37, S[1] = {M};
      tn_expr S_ = sym(g, "S", 1, 512);
      tn_id x = value(g, TN_VALUE_INPUT, 2, (tn_expr[]){S_, ex(g, K)});
      tn_id w = constant(g, 2, cases[i].trans_b ? (int64_t[]){N, K} : (int64_t[]){K, N}), c = TN_NONE;
      if (cases[i].bias == 1) c = constant(g, 1, (int64_t[]){N});
      if (cases[i].bias == 2) c = constant(g, 2, (int64_t[]){1, N});
      if (cases[i].bias == 3) c = constant(g, 1, (int64_t[]){1});
      if (cases[i].bias == 4) c = constant(g, 0, NULL);
      tn_id y = value(g, TN_VALUE_OUTPUT, 2, (tn_expr[]){S_, ex(g, N)});
      gemm_attrs(g, node(g, TN_OP_GEMM, x, w, c, y), cases[i].alpha, cases[i].beta, 0, cases[i].trans_b);
      graph_finish(g);
      feed(g, x, S);
      walked r = walk(&f, g, S);
      CU_ASSERT_EQUAL_FATAL(r.st, TN_OK);
      CU_ASSERT(r.guards_ok);
      CU_ASSERT(matches(g, &r.blobs[0], x, M, 0, y, c, cases[i].alpha, cases[i].beta));
      walked_free(&f, &r);
      graph_free(g);
      free(g);
      CLOSE(f);
    }
  }
}

/* Two activations: batches that broadcast, rank 1, empty sums, a constant operand, one value on both sides. */
static void activations(void) {
  static const struct {
    uint32_t rx, rw, ry;
    int64_t x[4], w[4], y[4];
  } cases[] = {
      {4, 4, 4, {2, 3, 5, 17}, {2, 3, 17, 9}, {2, 3, 5, 9}},
      {4, 4, 4, {1, 3, 1, 64}, {1, 3, 64, 100}, {1, 3, 1, 100}},
      {4, 4, 4, {2, 1, 7, 8}, {1, 3, 8, 33}, {2, 3, 7, 33}},
      {3, 2, 3, {4, 6, 10}, {10, 21}, {4, 6, 21}},
      {2, 3, 3, {5, 12}, {4, 12, 3}, {4, 5, 3}},
      {1, 2, 1, {30}, {30, 18}, {18}},
      {2, 1, 1, {9, 30}, {30}, {9}},
      {1, 1, 0, {41}, {41}, {0}},
      {3, 3, 3, {1, 32, 1}, {1, 1, 50}, {1, 32, 50}},
      {3, 3, 3, {2, 4, 0}, {2, 0, 5}, {2, 4, 5}},
      {3, 3, 3, {0, 4, 6}, {1, 6, 5}, {0, 4, 5}},
      {4, 4, 4, {1, 2, 60, 70}, {1, 2, 70, 90}, {1, 2, 60, 90}},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    for (int side = 0; side < 3; side++) { /* 1: x is a constant, 2: w is one */
      fake f = defaults();
      f.h.threads = 2;
      f.min_n = 1000000;
      OPEN(f);
      fake_graph *g = malloc(sizeof *g);
      graph_init(g);
      tn_expr e[4];
      const int64_t none[1] = {0};
      for (uint32_t d = 0; d < cases[i].rx; d++) e[d] = ex(g, cases[i].x[d]);
      tn_id x = side == 1 ? constant(g, cases[i].rx, cases[i].x) : value(g, TN_VALUE_ACT, cases[i].rx, e);
      for (uint32_t d = 0; d < cases[i].rw; d++) e[d] = ex(g, cases[i].w[d]);
      tn_id w = side == 2 ? constant(g, cases[i].rw, cases[i].w) : value(g, TN_VALUE_STEP, cases[i].rw, e);
      for (uint32_t d = 0; d < cases[i].ry; d++) e[d] = ex(g, cases[i].y[d]);
      tn_id y = value(g, TN_VALUE_OUTPUT, cases[i].ry, e);
      node(g, TN_OP_MATMUL, x, w, TN_NONE, y);
      graph_finish(g);
      if (side != 1) feed(g, x, none);
      if (side != 2) feed(g, w, none);
      walked r = walk(&f, g, none);
      CU_ASSERT_EQUAL_FATAL(r.st, TN_OK);
      CU_ASSERT(r.guards_ok && r.run_allocs == 0 && r.info->n_tasks == 1);
      CU_ASSERT_EQUAL(r.info->n_needs, side != 0);
      int64_t xd[4], wd[4], M, K, N; /* aligned to [b0, b1, M, K] and [b0, b1, K, N] */
      for (int d = 0; d < 4; d++) {
        int ax = d - 4 + (int)cases[i].rx, aw = d - 4 + (int)cases[i].rw;
        xd[d] = ax >= 0 ? cases[i].x[ax] : 1;
        wd[d] = aw >= 0 ? cases[i].w[aw] : 1;
      }
      if (cases[i].rw == 1) wd[2] = cases[i].w[0], wd[3] = 1;
      M = xd[2], K = xd[3], N = wd[3];
      int64_t b0 = xd[0] == 1 ? wd[0] : xd[0], b1 = xd[1] == 1 ? wd[1] : xd[1];
      bool ok = g->count[y] == b0 * b1 * M * N;
      for (int64_t b = 0; ok && b < b0 * b1; b++) {
        int64_t i0 = b / b1, i1 = b % b1;
        int64_t ox = ((xd[0] == 1 ? 0 : i0) * xd[1] + (xd[1] == 1 ? 0 : i1)) * M * K;
        int64_t ow = ((wd[0] == 1 ? 0 : i0) * wd[1] + (wd[1] == 1 ? 0 : i1)) * K * N;
        ok = float_matches(g->data[x] + ox, g->data[w] + ow, g->data[y] + b * M * N, M, K, N);
      }
      CU_ASSERT(ok);
      walked_free(&f, &r);
      graph_free(g);
      free(g);
      CLOSE(f);
    }
  }
}

/* Gemm that is not packed: two activations, C an activation, small constants; both orientations, an empty sum. */
static void float_gemm(void) {
  static const struct {
    int64_t M, K, N, trans_b, w_const;
    double alpha, beta;
    int bias; /* 0 none, 1 constant [N], 2 activation [1,N], 3 activation [1] */
  } cases[] = {{3, 20, 7, 0, 1, 1, 1, 1},   {70, 20, 90, 1, 1, 1, 1, 2}, {5, 64, 32, 1, 0, 0.5, 1, 0},
               {1, 64, 33, 0, 0, 2, -1, 3}, {50, 64, 70, 1, 1, 1, 1, 2}, {4, 0, 6, 1, 0, 1, 3, 1}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    fake f = defaults();
    f.h.threads = (int)(i % 3);
    OPEN(f);
    fake_graph *g = malloc(sizeof *g);
    graph_init(g);
    int64_t M = cases[i].M, K = cases[i].K, N = cases[i].N, wd[2] = {K, N}, S[1] = {0};
    if (cases[i].trans_b) wd[0] = N, wd[1] = K;
    tn_id x = value(g, TN_VALUE_INPUT, 2, (tn_expr[]){ex(g, M), ex(g, K)}), c = TN_NONE;
    tn_id w =
        cases[i].w_const ? constant(g, 2, wd) : value(g, TN_VALUE_ACT, 2, (tn_expr[]){ex(g, wd[0]), ex(g, wd[1])});
    if (cases[i].bias == 1) c = constant(g, 1, &N);
    if (cases[i].bias == 2) c = value(g, TN_VALUE_ACT, 2, (tn_expr[]){ex(g, 1), ex(g, N)});
    if (cases[i].bias == 3) c = value(g, TN_VALUE_ACT, 1, (tn_expr[]){ex(g, 1)});
    tn_id y = value(g, TN_VALUE_OUTPUT, 2, (tn_expr[]){ex(g, M), ex(g, N)});
    gemm_attrs(g, node(g, TN_OP_GEMM, x, w, c, y), cases[i].alpha, cases[i].beta, 0, cases[i].trans_b);
    graph_finish(g);
    feed(g, x, S);
    if (!cases[i].w_const) feed(g, w, S);
    if (cases[i].bias > 1) feed(g, c, S);
    walked r = walk(&f, g, S);
    CU_ASSERT_EQUAL_FATAL(r.st, TN_OK);
    CU_ASSERT(r.guards_ok && r.run_allocs == 0 && r.scratch == (cases[i].trans_b ? (uint64_t)(K * N) * 4 : 0));
    uint32_t wrong = 0;
    for (int64_t m = 0; m < M; m++) {
      for (int64_t n = 0; n < N; n++) {
        double s = 0, mag = 0, bias = c == TN_NONE ? 0 : cases[i].beta * (double)g->data[c][g->count[c] == 1 ? 0 : n];
        for (int64_t k = 0; k < K; k++) {
          double term = (double)g->data[x][m * K + k] * (double)g->data[w][cases[i].trans_b ? n * K + k : k * N + n];
          s += term;
          mag += fabs(term);
        }
        double want = cases[i].alpha * s + bias,
               bound = (double)(K + 4) * 0x1p-24 * (fabs(cases[i].alpha) * mag + fabs(bias));
        wrong += !(fabs(want - (double)g->data[y][m * N + n]) <= bound);
      }
    }
    CU_ASSERT_EQUAL(wrong, 0);
    walked_free(&f, &r);
    graph_free(g);
    free(g);
    CLOSE(f);
  }
}

/* Products that feed products: the value between is TEMP and orders the tasks; x * x^T reads one slot twice. */
static void chain(void) {
  fake f = defaults();
  OPEN(f);
  fake_graph *g = malloc(sizeof *g);
  graph_init(g);
  int64_t S[2] = {5, 9};
  tn_expr S_ = sym(g, "S", 1, 512), T_ = sym(g, "T", 1, INT64_MAX);
  tn_id x = value(g, TN_VALUE_INPUT, 2, (tn_expr[]){S_, ex(g, 64)}), w = constant(g, 2, (int64_t[]){64, 48});
  tn_id h = value(g, TN_VALUE_ACT, 2, (tn_expr[]){S_, ex(g, 48)});
  tn_id m = value(g, TN_VALUE_INPUT, 2, (tn_expr[]){ex(g, 48), ex2(g, E_ADD, S_, T_)});
  tn_id y = value(g, TN_VALUE_OUTPUT, 2, (tn_expr[]){S_, ex2(g, E_ADD, S_, T_)});
  tn_id q = value(g, TN_VALUE_INPUT, 2, (tn_expr[]){ex2(g, E_MAX, S_, T_), ex2(g, E_MAX, S_, T_)});
  tn_id z = value(g, TN_VALUE_OUTPUT, 2, (tn_expr[]){ex2(g, E_MAX, S_, T_), ex2(g, E_MAX, S_, T_)});
  node(g, TN_OP_MATMUL, x, w, TN_NONE, h);
  node(g, TN_OP_MATMUL, h, m, TN_NONE, y);
  node(g, TN_OP_MATMUL, q, q, TN_NONE, z);
  graph_finish(g);
  feed(g, x, S);
  feed(g, m, S);
  feed(g, q, S);
  walked r = walk(&f, g, S);
  CU_ASSERT_EQUAL_FATAL(r.st, TN_OK);
  CU_ASSERT(r.guards_ok && r.info->n_tasks == 3);
  CU_ASSERT_EQUAL(r.info->tasks[0]->symbols, 1);
  CU_ASSERT_EQUAL(r.info->tasks[1]->symbols, 3);
  CU_ASSERT_EQUAL(r.info->tasks[2]->symbols, 3);
  CU_ASSERT(r.info->tasks[1]->n_deps == 1 && r.info->tasks[1]->deps[0] == 0 && r.info->tasks[2]->n_deps == 0);
  CU_ASSERT_EQUAL(r.info->tasks[2]->n_uses, 2);
  uint32_t temps = 0;
  for (uint32_t i = 0; i < r.info->n_slots; i++) temps += r.info->slots[i]->kind == TN_SLOT_TEMP;
  CU_ASSERT_EQUAL(temps, 1);
  CU_ASSERT(matches(g, &r.blobs[0], x, 5, 0, h, TN_NONE, 1, 0));
  CU_ASSERT(float_matches(g->data[h], g->data[m], g->data[y], 5, 48, 14));
  CU_ASSERT(float_matches(g->data[q], g->data[q], g->data[z], 9, 9, 9));
  walked_free(&f, &r);
  graph_free(g);
  free(g);
  CLOSE(f);
}

/* One graph of things to refuse: every node answered once, alike twice, with a reason. */
static void refusals(void) {
  fake f = defaults();
  f.act_matmul = 0;
  OPEN(f);
  fake_graph *g = malloc(sizeof *g);
  graph_init(g);
  tn_expr S_ = sym(g, "S", 1, 512), k = ex(g, 64), n = ex(g, 32);
  tn_id x = value(g, TN_VALUE_INPUT, 2, (tn_expr[]){S_, k}), y[12];
  for (int i = 0; i < 12; i++) y[i] = value(g, TN_VALUE_OUTPUT, 2, (tn_expr[]){S_, n});
  tn_id w = constant(g, 2, (int64_t[]){64, 32}), b = value(g, TN_VALUE_ACT, 2, (tn_expr[]){k, n});
  tn_id half = constant(g, 2, (int64_t[]){64, 32}), cube = constant(g, 3, (int64_t[]){2, 64, 32});
  tn_id thin = constant(g, 2, (int64_t[]){64, 15}), low = constant(g, 2, (int64_t[]){31, 32});
  tn_id bias = value(g, TN_VALUE_ACT, 1, &n), wide = constant(g, 2, (int64_t[]){5, 32});
  tn_id xs = value(g, TN_VALUE_INPUT, 2, (tn_expr[]){S_, ex(g, 31)});
  tn_id state = value(g, TN_VALUE_STATE, 2, (tn_expr[]){k, n});
  tn_id odd = value(g, TN_VALUE_INPUT, 2, (tn_expr[]){S_, S_}), unknown = value(g, TN_VALUE_INPUT, UINT32_MAX, NULL);
  g->values[half].dtype = TN_DT_F16;
  const struct {
    tn_id node;
    uint32_t reason;
  } want[] = {
      {node(g, TN_OP_ADD, x, x, TN_NONE, y[0]), TN_WHY_OP},
      {node(g, TN_OP_MATMUL, x, b, TN_NONE, y[1]), TN_WHY_OPTION},
      {node(g, TN_OP_MATMUL, x, half, TN_NONE, y[2]), TN_WHY_DTYPE},
      {node(g, TN_OP_MATMUL, x, cube, TN_NONE, y[3]), TN_WHY_SHAPE},
      {node(g, TN_OP_MATMUL, x, thin, TN_NONE, y[4]), TN_WHY_OPTION},
      {node(g, TN_OP_MATMUL, xs, low, TN_NONE, y[5]), TN_WHY_OPTION},
      {node(g, TN_OP_GEMM, x, w, bias, y[6]), TN_WHY_NOT_CONST},
      {node(g, TN_OP_GEMM, x, w, wide, y[7]), TN_WHY_SHAPE},
      {node(g, TN_OP_MATMUL, x, state, TN_NONE, y[8]), TN_WHY_OP},
      {node(g, TN_OP_MATMUL, odd, w, TN_NONE, y[9]), TN_WHY_SHAPE},
      {node(g, TN_OP_MATMUL, unknown, w, TN_NONE, y[10]), TN_WHY_SHAPE},
      {node(g, 9999, x, TN_NONE, TN_NONE, y[11]), TN_WHY_OP},
  };
  tn_id ta = node(g, TN_OP_GEMM, x, w, TN_NONE, y[0]);
  gemm_attrs(g, ta, 1, 1, 1, 0);
  graph_finish(g);
  answers a, again;
  CU_ASSERT_EQUAL(fake_claim(&f, g, NULL, &a), TN_OK);
  CU_ASSERT_EQUAL(fake_claim(&f, g, NULL, &again), TN_OK);
  CU_ASSERT_EQUAL(memcmp(&a, &again, sizeof a), 0);
  for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
    const tn_claim *c = &a.node[want[i].node];
    CU_ASSERT_EQUAL(a.n_answers[want[i].node], 1);
    CU_ASSERT(c->verdict == TN_NO && c->reason == want[i].reason && c->text[0]);
    if (c->reason != want[i].reason) printf("\n    case %zu: %u %s\n", i, c->reason, c->text);
  }
  CU_ASSERT(a.node[ta].verdict == TN_NO && a.node[ta].reason == TN_WHY_ATTR);
  CU_ASSERT_EQUAL(a.n_groups, 0);
  /* Lowering what was refused is an error that names the node, not a crash. */
  tn_id nodes[1] = {0}, group_of[1] = {TN_NONE};
  tn_subgraph s = {.h = TN_HDR(tn_subgraph), .graph = &g->pub, .nodes = nodes, .group_of = group_of, .n_nodes = 1};
  tn_program *p = NULL;
  CU_ASSERT_EQUAL(f.device->lower(f.device, &s, &p, &f.err), TN_E_INVALID);
  CU_ASSERT(p == NULL && f.err.message[0] && !strcmp(f.err.where, "node"));
  graph_free(g);
  free(g);
  CLOSE(f);
}

/* A shared Transpose is no one's: its products stay f32. Alone, a GROUP_ONLY product is refused at lowering. */
static void transposes(void) {
  fake f = defaults();
  OPEN(f);
  fake_graph *g = malloc(sizeof *g);
  graph_init(g);
  tn_expr S_ = sym(g, "S", 1, 512);
  tn_id x = value(g, TN_VALUE_INPUT, 2, (tn_expr[]){S_, ex(g, 64)}), w = constant(g, 2, (int64_t[]){32, 64});
  tn_id t = value(g, TN_VALUE_ACT, 2, (tn_expr[]){ex(g, 64), ex(g, 32)});
  tn_id u = value(g, TN_VALUE_ACT, 2, (tn_expr[]){ex(g, 64), ex(g, 32)});
  tn_id y[3];
  for (int i = 0; i < 3; i++) y[i] = value(g, TN_VALUE_OUTPUT, 2, (tn_expr[]){S_, ex(g, 32)});
  node(g, TN_OP_TRANSPOSE, w, TN_NONE, TN_NONE, t);
  node(g, TN_OP_MATMUL, x, t, TN_NONE, y[0]);
  node(g, TN_OP_MATMUL, x, t, TN_NONE, y[1]);
  node(g, TN_OP_TRANSPOSE, w, TN_NONE, TN_NONE, u);
  node(g, TN_OP_MATMUL, x, u, TN_NONE, y[2]);
  graph_finish(g);
  answers a;
  CU_ASSERT_EQUAL(fake_claim(&f, g, NULL, &a), TN_OK);
  CU_ASSERT(a.node[0].verdict == TN_NO && a.node[1].verdict == TN_YES && a.node[1].format == NULL);
  CU_ASSERT(a.node[3].verdict == TN_GROUP_ONLY && a.node[4].verdict == TN_GROUP_ONLY && a.n_groups == 1);
  tn_id nodes[1] = {4}, group_of[1] = {TN_NONE};
  tn_subgraph s = {.h = TN_HDR(tn_subgraph), .graph = &g->pub, .nodes = nodes, .group_of = group_of, .n_nodes = 1};
  tn_program *p = NULL;
  CU_ASSERT_EQUAL(f.device->lower(f.device, &s, &p, &f.err), TN_E_INVALID);
  graph_free(g);
  free(g);
  CLOSE(f);
}

static fake_graph *simple_graph(void) {
  fake_graph *g = malloc(sizeof *g);
  graph_init(g);
  tn_expr S_ = sym(g, "S", 1, 512);
  tn_id x = value(g, TN_VALUE_INPUT, 2, (tn_expr[]){S_, ex(g, 64)}), w = constant(g, 2, (int64_t[]){64, 32});
  tn_id c = constant(g, 1, (int64_t[]){32});
  tn_id y = value(g, TN_VALUE_OUTPUT, 2, (tn_expr[]){S_, ex(g, 32)});
  node(g, TN_OP_GEMM, x, w, c, y);
  graph_finish(g);
  feed(g, x, (int64_t[]){3});
  return g;
}

/* Every allocation fails once: a status, no leak. */
static void no_memory(void) {
  for (int64_t at = 1; at < 200; at++) {
    fake f = defaults();
    OPEN(f);
    fake_graph *g = simple_graph();
    int64_t S[1] = {3}, live = f.h.live;
    f.h.fail_at = at;
    walked r = walk(&f, g, S);
    bool reached = f.h.fail_at == 0;
    CU_ASSERT_EQUAL(r.st, reached ? TN_E_NO_MEMORY : TN_OK);
    f.h.fail_at = 0;
    walked_free(&f, &r);
    CU_ASSERT_EQUAL(f.h.live, live);
    graph_free(g);
    free(g);
    CLOSE(f);
    if (!reached) return;
  }
  CU_FAIL("never ran out of allocations to fail");
}

static void cancel(void) {
  fake f = defaults();
  OPEN(f);
  fake_graph *g = simple_graph();
  int64_t S[1] = {3};
  f.h.cancel_after = 2;
  walked r = walk(&f, g, S);
  CU_ASSERT_EQUAL(r.st, TN_E_CANCELLED);
  CU_ASSERT_EQUAL(f.err.code, TN_E_CANCELLED);
  walked_free(&f, &r);
  graph_free(g);
  free(g);
  CLOSE(f);
}

/* Wrong blobs, dims, views: statuses. */
static void misuse(void) {
  fake f = defaults();
  OPEN(f);
  fake_graph *g = simple_graph();
  int64_t S[1] = {3}, negative[1] = {-1};
  walked r = walk(&f, g, S);
  CU_ASSERT_EQUAL_FATAL(r.st, TN_OK);
  tn_dims dims, wrong;
  fake_dims(&dims, g, S);
  fake_dims(&wrong, g, negative);
  tn_plan *plan = NULL;
  tn_args *args = NULL;
  tn_measure m = {.h = TN_HDR(tn_measure)};
  CU_ASSERT_EQUAL(f.device->bind(r.program, 7, &dims, &plan, NULL), TN_E_INVALID);
  CU_ASSERT_EQUAL(f.device->bind(r.program, 0, &wrong, &plan, NULL), TN_E_INVALID);
  CU_ASSERT_EQUAL(f.device->measure(r.program, 7, &dims, &m), TN_E_INVALID);
  CU_ASSERT_EQUAL(f.device->measure(r.program, 0, &wrong, &m), TN_E_INVALID);
  uint32_t ws = TN_NONE;
  for (uint32_t i = 0; i < r.info->n_slots; i++)
    if (r.info->slots[i]->kind == TN_SLOT_WEIGHT && r.info->needs[r.info->slots[i]->need]->format) ws = i;
  CU_ASSERT_FATAL(ws != TN_NONE);
  tn_view v = {.h = TN_HDR(tn_view), .ptr = r.packed[0], .bytes = r.blobs[0].bytes};
  tn_blob b = r.blobs[0];
  CU_ASSERT_EQUAL(f.device->set(r.program, ws, &v, NULL, NULL), TN_E_INVALID);
  b.K++;
  CU_ASSERT_EQUAL(f.device->set(r.program, ws, &v, &b, NULL), TN_E_INVALID);
  b = r.blobs[0];
  b.bytes--;
  CU_ASSERT_EQUAL(f.device->set(r.program, ws, &v, &b, NULL), TN_E_INVALID);
  b = r.blobs[0];
  b.params = (int64_t[]){128};
  CU_ASSERT_EQUAL(f.device->set(r.program, ws, &v, &b, NULL), TN_E_INVALID);
  v.ptr = r.packed[0] + 32;
  CU_ASSERT_EQUAL(f.device->set(r.program, ws, &v, &r.blobs[0], NULL), TN_E_INVALID);
  CU_ASSERT_EQUAL(f.device->set(r.program, 99, &v, &r.blobs[0], NULL), TN_E_INVALID);
  CU_ASSERT_EQUAL_FATAL(f.device->bind(r.program, 0, &dims, &plan, NULL), TN_OK);
  const tn_view *none[8] = {0};
  uint32_t n = r.info->tasks[0]->n_uses + 1;
  CU_ASSERT_EQUAL(f.device->args(plan, none, n - 1, &args, NULL), TN_E_INVALID);
  CU_ASSERT_EQUAL(f.device->args(plan, none, n, &args, NULL), TN_E_INVALID);
  f.device->unbind(plan);
  walked_free(&f, &r);
  graph_free(g);
  free(g);
  CLOSE(f);
}

/* Whatever `isa` allows, GEMVs fetch ahead on processors that gain by it. */
static void fetches_ahead(void) {
  const char *isas[] = {"auto", "avx2", "avxvnni", "avx512vnni", "amx"};
  for (size_t i = 0; tni_cm_cpu_features() & TNI_CPU_PREFETCH && i < sizeof isas / sizeof *isas; i++) {
    fake f = defaults();
    f.isa = isas[i];
    OPEN(f);
    CU_ASSERT_PTR_NOT_NULL(strstr(f.h.line, "_prefetch, "));
    CLOSE(f);
  }
}

static void bad_options(void) {
  fake f = defaults();
  f.group = 64;
  CU_ASSERT_FALSE(fake_open(&f, so));
  CU_ASSERT(f.device == NULL && strstr(f.err.message, "group") != NULL);
  CLOSE(f);
  f = defaults();
  f.isa = "mmx";
  CU_ASSERT_FALSE(fake_open(&f, so));
  CU_ASSERT(strstr(f.err.message, "isa") != NULL);
  CLOSE(f);
}

int add_plugin_suite(const char *so_path) {
  so = so_path;
  CU_TestInfo tests[] = {
      {"one_matmul", one_matmul},       {"siblings", siblings}, {"gemm", gemm},         {"activations", activations},
      {"float_gemm", float_gemm},       {"chain", chain},       {"refusals", refusals}, {"transposes", transposes},
      {"no_memory", no_memory},         {"cancel", cancel},     {"misuse", misuse},     {"bad_options", bad_options},
      {"fetches_ahead", fetches_ahead}, CU_TEST_INFO_NULL};
  CU_SuiteInfo suites[] = {{"plugin", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
  return CU_register_suites(suites) == CUE_SUCCESS;
}
