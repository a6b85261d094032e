/* SPDX-License-Identifier: Apache-2.0
 *
 * Element-wise kernels: every row of the table gives the scalar row's bits, which lie within the errors that
 * chain_f32.h states, on a sweep over all exponents and on the values where formulas change.
 */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plugins/common/cpu/kernels/chain_f32.h"
#include "tests/kernels/harness.h"

enum { BATCH = 4096 };

typedef struct function {
  const char *name;
  double ulp; /* stated */
  float value;
  int which;
} function;
enum { SIGMOID, TANH, GELU_ERF, GELU_TANH, SWISH };

static const function functions[] = {
    {"sigmoid", TNI_CLT_ULP_SIGMOID, 0, SIGMOID},    {"tanh", TNI_CLT_ULP_TANH, 0, TANH},
    {"gelu erf", TNI_CLT_ULP_GELU_ERF, 0, GELU_ERF}, {"gelu tanh", TNI_CLT_ULP_GELU_TANH, 1, GELU_TANH},
    {"swish", TNI_CLT_ULP_SWISH, 1, SWISH},          {"swish 1.702", TNI_CLT_ULP_SWISH, 1.702f, SWISH},
    {"swish -1", TNI_CLT_ULP_SWISH, -1, SWISH},      {"swish 1e-20", TNI_CLT_ULP_SWISH, 1e-20f, SWISH},
    {"swish 3e10", TNI_CLT_ULP_SWISH, 3e10f, SWISH}};

static tni_cm_unary_fn kernel_of(const tni_cm_chain_kernels *k, const function *f) {
  const tni_cm_unary_fn fns[] = {k->sigmoid, k->tanh, k->gelu_erf, k->gelu_tanh, k->swish};
  return fns[f->which];
}

static double sigmoid(double z) { return z < 0 ? exp(z) / (1 + exp(z)) : 1 / (1 + exp(-z)); }

static double exact(const function *f, double x) {
  switch (f->which) {
    case SIGMOID:
      return sigmoid(x);
    case TANH:
      return tanh(x);
    case GELU_ERF:
      return 0.5 * x * erfc(-x * sqrt(0.5));
    case GELU_TANH:
      return x * sigmoid(2 * sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x));
    default:
      return x * sigmoid((double)f->value * x);
  }
}

static double ulp_of(double y) {
  int e;
  if (fabs(y) < 0x1p-126) return 0x1p-149;
  frexp(y, &e);
  return ldexp(1, e - 24);
}

/* Row i of the kernels, where it is a chain's that this processor has; else NULL. */
static const tni_cm_chain_kernels *chain_at(uint32_t i) {
  const tni_clt_kernel *k = &KERNELS.rows[i];
  if (k->op != TNI_CLT_CHAIN || k->features & ~tni_cm_cpu_features()) return NULL;
  return ((tni_clt_chain_fn)k->fn)();
}

static const tni_cm_chain_kernels *scalar(void) {
  return ((tni_clt_chain_fn)tni_clt_select(&KERNELS, TNI_CLT_CHAIN, TNI_CLT_ANY, 0, 0, 1)->fn)();
}

static bool same_float(float a, float b) { return memcmp(&a, &b, sizeof a) == 0 || (isnan(a) && isnan(b)); }

typedef struct buffers {
  _Alignas(64) float x[BATCH], y[BATCH], want[BATCH];
} buffers;

/* Checks one batch; the largest error, in ulp. */
static double check_batch(const function *f, buffers *b, uint32_t *wrong) {
  double worst = 0;
  kernel_of(scalar(), f)(b->want, b->x, f->value, BATCH);
  memcpy(b->y, b->want, sizeof b->y);
  for (uint32_t r = 0; r < KERNELS.n; r++) {
    if (!chain_at(r) || chain_at(r) == scalar()) continue;
    kernel_of(chain_at(r), f)(b->y, b->x, f->value, BATCH);
    for (size_t i = 0; i < BATCH; i++) *wrong += !same_float(b->y[i], b->want[i]);
  }
  for (size_t i = 0; i < BATCH; i++) {
    double want = exact(f, (double)b->x[i]), error = fabs((double)b->y[i] - want) / ulp_of(want);
    if (isnan(b->x[i])) *wrong += !isnan(b->y[i]);
    if (isnan(want) || isinf(want)) *wrong += isnan(want) ? !isnan(b->y[i]) : (double)b->y[i] != want;
    if (isfinite(want) && !(error <= worst)) worst = error;
  }
  return worst;
}

/* Every 4099th float, a prime: all exponents and signs, infinities and NaNs. */
static void sweep(void) {
  buffers *b = aligned_alloc(64, sizeof *b);
  if (!b) abort();
  for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
    double worst = 0;
    uint32_t wrong = 0;
    for (uint64_t at = test_seed % 4099; at < UINT64_C(1) << 32;) {
      for (size_t k = 0; k < BATCH; k++, at += 4099) {
        uint32_t bits = (uint32_t)at; /* wraps in the last batch */
        memcpy(&b->x[k], &bits, 4);
      }
      double e = check_batch(&functions[i], b, &wrong);
      if (!(e <= worst)) worst = e;
    }
    if (!(worst <= functions[i].ulp) || wrong)
      printf("\n    %s: %.3f ulp, %u wrong\n", functions[i].name, worst, wrong);
    CU_ASSERT(worst <= functions[i].ulp);
    CU_ASSERT_EQUAL(wrong, 0);
  }
  free(b);
}

/* Around the places where a formula changes, and where results fade out, every float. */
static void borders(void) {
  static const float at[] = {0,  0.6f, 0.34657f, 1,      3,      5.5f, 9,   12.9f,   13.2f,   14.5f,   18.76f,
                             19, 32,   87.33f,   88.72f, 103.9f, 150,  176, FLT_MIN, FLT_MAX, INFINITY};
  buffers *b = aligned_alloc(64, sizeof *b);
  if (!b) abort();
  for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
    uint32_t wrong = 0;
    double worst = 0;
    for (size_t k = 0; k < sizeof at / sizeof *at; k++) {
      uint32_t bits;
      memcpy(&bits, &at[k], 4);
      for (uint32_t j = 0; j < BATCH; j++) {
        uint32_t v = (bits + j / 2 - (bits < BATCH ? 0 : BATCH / 4)) | (j & 1) << 31;
        memcpy(&b->x[j], &v, 4);
      }
      double e = check_batch(&functions[i], b, &wrong);
      if (!(e <= worst)) worst = e;
    }
    if (!(worst <= functions[i].ulp) || wrong)
      printf("\n    %s: %.3f ulp, %u wrong\n", functions[i].name, worst, wrong);
    CU_ASSERT(worst <= functions[i].ulp);
    CU_ASSERT_EQUAL(wrong, 0);
  }
  free(b);
}

/* The others: bits as C has them, in place too, nothing written behind n. */
static void simple(void) {
  enum { N = 96 };
  uint32_t wrong = 0;
  for (uint32_t v = 0; v < KERNELS.n; v++) {
    const tni_cm_chain_kernels *k = chain_at(v);
    if (!k) continue;
    const tni_cm_binary_fn fns[4] = {k->add, k->sub, k->mul, k->div};
    for (int p = 0; p < V_COUNT * 4; p++) {
      rng r = rng_of(700 + (uint64_t)p);
      guarded ga = guarded_new(N * 4), gb = guarded_new(N * 4);
      float *a = (float *)(void *)ga.p, *b = (float *)(void *)gb.p, want[N];
      fill(a, N, p / 4, 1e38f, &r);
      fill(b, N, V_TINY_MIXED, 1, &r);
      for (size_t i = 0; i < N; i++)
        want[i] = p % 4 == 0 ? a[i] + b[i] : p % 4 == 1 ? a[i] - b[i] : p % 4 == 2 ? a[i] * b[i] : a[i] / b[i];
      fns[p % 4](a, a, b, N);
      for (size_t i = 0; i < N; i++) wrong += !same_float(a[i], want[i]);
      a[3] = NAN;
      a[4] = -0.0f;
      for (size_t i = 0; i < N; i++) want[i] = a[i] > 0 || isnan(a[i]) ? a[i] : 0;
      k->neg(b, a, 0, N);
      for (size_t i = 0; i < N; i++) wrong += !same_float(b[i], -a[i]);
      k->relu(a, a, 0, N);
      for (size_t i = 0; i < N; i++) wrong += !(a[i] == want[i] || (isnan(a[i]) && isnan(want[i])));
      wrong += !guarded_ok(&ga) || !guarded_ok(&gb);
      guarded_free(&ga);
      guarded_free(&gb);
    }
  }
  CU_ASSERT_EQUAL(wrong, 0);
}

/* Blocks of 16 columns side by side, and nothing beside them. */
static void check_put(const tni_cm_chain_kernels *k) {
  enum { ROWS = 5, LD = 64, AT = 16 };
  _Alignas(64) float tiles[2 * ROWS * 16], y[ROWS * LD];
  if (!k->put) return;
  for (size_t i = 0; i < sizeof tiles / sizeof *tiles; i++) tiles[i] = (float)i;
  for (size_t rows = 1; rows <= ROWS; rows++)
    for (size_t blocks = 1; blocks <= 2; blocks++) {
      uint32_t wrong = 0;
      for (size_t i = 0; i < ROWS * LD; i++) y[i] = -1;
      k->put(y + AT, LD, tiles, rows, blocks);
      for (size_t m = 0; m < ROWS; m++)
        for (size_t c = 0; c < LD; c++) {
          const size_t at = c - AT;
          const bool in = m < rows && c >= AT && at < blocks * 16;
          wrong += y[m * LD + c] != (in ? tiles[(at / 16 * rows + m) * 16 + at % 16] : -1);
        }
      CU_ASSERT_EQUAL(wrong, 0);
    }
}

static void put(void) {
  for (uint32_t i = 0; i < KERNELS.n; i++)
    if (chain_at(i)) check_put(chain_at(i));
}

/* Tiles are reused, and no operand is lost by it: a chain that keeps many registers alive, against plain C. */
static void strips(void) {
  static const int64_t ops[] = {TN_OP_ADD, 0, 2, TN_OP_MUL, 0, 1, TN_OP_SUB,  4, 3, TN_OP_NEG, 5, -1,
                                TN_OP_ADD, 6, 4, TN_OP_MUL, 7, 7, TN_OP_RELU, 3, -1};
  static const float floats[7];
  static const int64_t parts[] = {0, 0, 5, 0, 5, 5}, results[] = {8, 5};
  const tn_attr a[6] = {{.h = TN_HDR(tn_attr), .type = TN_ATTR_INTS, .n = 21, .u.ints = ops},
                        {.h = TN_HDR(tn_attr), .type = TN_ATTR_FLOATS, .n = 7, .u.floats = floats},
                        {.h = TN_HDR(tn_attr), .type = TN_ATTR_INTS, .n = 2, .u.ints = results},
                        {.h = TN_HDR(tn_attr), .type = TN_ATTR_INT, .n = 1, .u.i = 1},
                        {.h = TN_HDR(tn_attr), .type = TN_ATTR_INT, .n = 1, .u.i = 0},
                        {.h = TN_HDR(tn_attr), .type = TN_ATTR_INTS, .n = 6, .u.ints = parts}};
  const tn_attr *attrs[6] = {&a[0], &a[1], &a[2], &a[3], &a[4], &a[5]};
  const tn_id in[3] = {0, 1, 2}, out[2] = {3, 4};
  tn_node n = {.h = TN_HDR(tn_node), .n_in = 3, .n_out = 2, .n_attr = 6, .in = in, .out = out, .attr = attrs};
  tni_cm_fused f;
  tni_cm_strip s;
  uint32_t strip[TNI_CM_MAX_REGISTERS];
  CU_ASSERT_PTR_NULL_FATAL(tni_cm_fused_read(&n, &f));
  CU_ASSERT_EQUAL_FATAL(tni_cm_strips(&f, strip), 1);
  tni_cm_strip_make(&f, strip, 0, &s);
  CU_ASSERT(s.n_parts == 2 && s.n_loads == 1 && s.n_steps == 6 && s.n_stores == 2 && s.n_tiles <= 4);
  enum { N = 2096 }; /* pieces, the last a short one */
  static _Alignas(64) float tiles[4][N + 16];
  const float q = -2.25f, e = 0.375f;
  for (int i = 0; i < N + 16; i++) {
    tiles[0][i] = (float)i;
    tiles[1][i] = q;
    tiles[s.loads[0].tile][i] = e;
  }
  tni_cm_strip_run(&s, scalar(), &tiles[0][0], N + 16, N);
  uint32_t wrong = 0;
  for (int i = 0; i < N; i++) {
    const float p = (float)i, r4 = p * q, r5 = r4 - (p + e), r7 = -r5 + r4;
    wrong += tiles[s.stores[0].tile][i] != r7 * r7 || tiles[s.stores[1].tile][i] != r5;
  }
  CU_ASSERT(s.stores[0].what == 0 && s.stores[1].what == 1);
  CU_ASSERT_EQUAL(wrong, 0);
  CU_ASSERT_EQUAL(tiles[s.loads[0].tile][N], e); /* nothing is computed behind the end */
}

int add_chain_suite(void) {
  CU_TestInfo tests[] = {{"sweep", sweep}, {"borders", borders}, {"simple", simple},
                         {"put", put},     {"strips", strips},   CU_TEST_INFO_NULL};
  CU_SuiteInfo suites[] = {{"chain", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
  return CU_register_suites(suites) == CUE_SUCCESS;
}
