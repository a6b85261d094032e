/* SPDX-License-Identifier: Apache-2.0
 *
 * What ONNX's cases leave out of the general operators: sizes of 0, negative axes, wide integers, bad input, and that
 * random numbers are spread as they should be.
 */
#include <math.h>
#include <string.h>

#include "ops_test.h"
#include "runtime/ops/kernel/narrow.h"

typedef struct row {
  const char *op, *attrs;
  const char *in[6], *out[4];
  tn_status status; /* expected when out[0] is NULL */
} row;

static const row rows[] = {
    {"BitShift", "direction='RIGHT'", {"i8[4] -128 -1 5 7", "i8[4] 3 100 -1 1"}, {"i8[4] -16 -1 0 3"}, 0},
    {"BitShift", "direction='LEFT'", {"u64[2] 1 3", "u64[2] 63 64"}, {"u64[2] 9223372036854775808 0"}, 0},
    {"BitShift", "direction='UP'", {"u8[1] 1", "u8[1] 1"}, {NULL}, TN_E_INVALID},
    {"BitwiseNot", NULL, {"u64[1] 0"}, {"u64[1] 18446744073709551615"}, 0},
    {"Shrink", "lambd=1.5f bias=1f", {"i32[5] -3 -1 0 1 3"}, {"i32[5] -2 0 0 0 2"}, 0},
    {"Hardmax", "axis=-2", {"f32[2,2] 1 5 1 7"}, {"f32[2,2] 1 0 0 1"}, 0},
    {"Hardmax", NULL, {"f32[0,4]"}, {"f32[0,4]"}, 0},
    {"CumProd", "reverse=1 exclusive=1", {"i64[3] 2 3 4", "i64[] 0"}, {"i64[3] 12 4 1"}, 0},
    {"CumProd", NULL, {"i64[3] 2 3 4", "i64[] 1"}, {NULL}, TN_E_INVALID},
    {"ReduceL1", "keepdims=0", {"i64[2] -9223372036854775807 0", "i64[1] 0"}, {"i64[] 9223372036854775807"}, 0},
    {"ReduceLogSumExp", "keepdims=0", {"f32[2] 1000 1000", "i64[1] 0"}, {"f32[] 1000.69315"}, 0},
    {"ReduceLogSumExp", "keepdims=0", {"f32[2] -inf -inf", "i64[1] 0"}, {"f32[] -inf"}, 0},
    {"ReduceLogSumExp", "keepdims=0", {"f32[0,2]", "i64[1] 0"}, {"f32[2] -inf -inf"}, 0},
    {"Einsum", "equation='ii->i'", {"f32[2,2] 1 2 3 4"}, {"f32[2] 1 4"}, 0},
    {"Einsum", "equation='...ij,...jk'", {"i64[1,2] 3 4", "i64[2,2,1] 1 2 3 4"}, {"i64[2,1,1] 11 25"}, 0},
    {"Einsum", "equation='ij,jk->ik'", {"f32[2,0]", "f32[0,1]"}, {"f32[2,1] 0 0"}, 0},
    {"Einsum", "equation='ij->ii'", {"f32[1,1] 1"}, {NULL}, TN_E_INVALID},
    {"Einsum", "equation='ij,jk'", {"f32[1,1] 1"}, {NULL}, TN_E_INVALID},
    {"Einsum", "equation='i->j'", {"f32[1] 1"}, {NULL}, TN_E_INVALID},
    {"Det", NULL, {"f64[2,2] 0 1 1 0"}, {"f64[] -1"}, 0},
    {"Det", NULL, {"f32[2,0,0]"}, {"f32[2] 1 1"}, 0},
    {"Det", NULL, {"f32[2,3]"}, {NULL}, TN_E_INVALID},
    {"MaxRoiPool", "pooled_shape=[2,2]", {"f32[1,1,2,2] 1 2 3 4", "f32[1,5] 0 0 0 inf inf"}, {NULL}, TN_E_INVALID},
    /* 0.7 in float32: 5 times that is 3.5 there, and less in double */
    {"MaxRoiPool",
     "pooled_shape=[1,1] spatial_scale=0.699999988079071f",
     {"f32[1,1,1,6] 1 2 3 4 5 6", "f32[1,5] 0 0 0 5 0"},
     {"f32[1,1,1,1] 5"},
     0},
    {"Shrink", "lambd=1f bias=-1f", {"f32[4] nan inf -2 1"}, {"f32[4] 0 inf -3 0"}, 0},
    {"ThresholdedRelu", "alpha=-1f", {"f32[4] nan inf -inf -0.5"}, {"f32[4] 0 inf 0 -0.5"}, 0},
    {"Pad", "mode='edge'", {"f32[2] 1 2", "i64[2] -9223372036854775808 9223372036854775807"}, {"f32[1] 2"}, 0},
    {"DeformConv",
     "offset_group=9223372036854775807",
     {"f32[1,0,3,3]", "f32[1,0,1,2]", "f32[1,4,3,2]"},
     {NULL},
     TN_E_INVALID},
    {"DFT", NULL, {"f32[3,1] 1 2 3"}, {"f32[3,2] 6 0 -1.5 0.866025404 -1.5 -0.866025404"}, 0},
    {"DFT", "inverse=1 onesided=1", {"f64[2,2] 6 0 -1.5 0.8660254037844386", "i64[] 3"}, {"f64[3,1] 1 2 3"}, 0},
    {"DFT", NULL, {"f32[3,1] 1 2 3", "i64[] 2", "i64[] 1"}, {NULL}, TN_E_INVALID},
    {"STFT", NULL, {"f32[1,4,1] 1 2 3 4", "i64[] 2", "-", "i64[] 2"}, {"f32[1,2,2,2] 3 0 -1 0 7 0 -1 0"}, 0},
    {"STFT", NULL, {"f32[1,4,1] 1 2 3 4", "i64[] 0", "-", "i64[] 2"}, {NULL}, TN_E_INVALID},
    {"HannWindow", "periodic=0", {"i64[] 1"}, {"f32[1] 1"}, 0},
    {"HannWindow", NULL, {"i64[] -1"}, {NULL}, TN_E_INVALID},
    {"Compress", "axis=-1", {"i8[2,3] 1 2 3 4 5 6", "bool[2] 0 1"}, {"i8[2,1] 2 5"}, 0},
    {"Compress", NULL, {"i8[2] 1 2", "bool[3] 0 1 1"}, {NULL}, TN_E_INVALID},
    {"Unique",
     "sorted=0",
     {"u64[4] 18446744073709551615 1 18446744073709551615 0"},
     {"u64[3] 18446744073709551615 1 0", "i64[3] 0 1 3", "i64[4] 0 1 0 2", "i64[3] 2 1 1"},
     0},
    {"Unique", "axis=-1", {"f32[1,3] 2 nan nan"}, {"f32[1,2] 2 nan", "i64[2] 0 1", "i64[3] 0 1 1", "i64[2] 1 2"}, 0},
    {"Unique", NULL, {"f32[0]"}, {"f32[0]", "i64[0]", "i64[0]", "i64[0]"}, 0},
    {"tenon.ConcatHeads",
     "num_heads=2",
     {"f32[2,4] 1 2 3 4 5 6 7 8", "f32[2,2] 9 10 11 12"},
     {"f32[2,6] 1 2 9 3 4 10 5 6 11 7 8 12"},
     0},
    {"tenon.ConcatHeads",
     "num_heads=2 shared=2",
     {"i8[2,2] 1 2 3 4", "i8[2,2] 5 6 7 8"},
     {"i8[2,6] 1 5 6 2 5 6 3 7 8 4 7 8"},
     0},
    {"tenon.ConcatHeads", "num_heads=2 shared=1", {"f32[1,2] 1 2", "f32[1,0]"}, {"f32[1,4] 1 2 1 2"}, 0},
    {"tenon.ConcatHeads", "num_heads=2", {"f32[1,3] 1 2 3", "f32[1,2] 1 2"}, {NULL}, TN_E_INVALID},
    {"tenon.ConcatHeads", "num_heads=2", {"f32[2,2] 1 2 3 4", "f32[1,2] 1 2"}, {NULL}, TN_E_INVALID},
    {"ReverseSequence", NULL, {"i8[2,2] 1 2 3 4", "i64[2] 1 2"}, {"i8[2,2] 1 4 3 2"}, 0},
    {"ReverseSequence", NULL, {"i8[2,2] 1 2 3 4", "i64[2] 1 3"}, {NULL}, TN_E_INVALID},
    {"NegativeLogLikelihoodLoss", "reduction='sum'", {"f32[2,2] -1 -2 -3 -4", "i64[2] 0 1"}, {"f32[] 5"}, 0},
    {"NegativeLogLikelihoodLoss", NULL, {"f32[1,2] -1 -2", "i64[1] 2"}, {NULL}, TN_E_INVALID},
    {"NegativeLogLikelihoodLoss", "ignore_index=2", {"f32[1,2] -1 -2", "i64[1] 2"}, {"f32[] nan"}, 0},
    {"Multinomial", "sample_size=2", {"f32[1,2] 0 -inf"}, {"i32[1,2] 0 0"}, 0},
    {"Bernoulli", NULL, {"f32[4] 0 1 0 1"}, {"f32[4] 0 1 0 1"}, 0},
};

static void check(const row *r) {
  ht_node n;
  tni_tensor out[4] = {{0}}, want;
  tn_status st = TN_E_INTERNAL;
  tni_arena *a = tni_arena_create();
  uint32_t n_out = 0;
  while (n_out < 4 && r->out[n_out]) n_out++;
  const bool made = ht_node_make(&n, r->op, 28, r->attrs, r->in, n_out ? n_out : 1);
  CU_ASSERT(made || r->status); /* an attribute may be refused before there is a node */
  if (made) st = tni_ops_eval(NULL, n.node, n.ptr, n.n_in, out, n.n_out, a, &n.err);
  if (!n_out) CU_ASSERT_EQUAL(made ? st : n.err.code, r->status);
  if (n_out && st) printf("%s: %s\n", r->op, n.err.message);
  for (uint32_t i = 0; i < n_out; i++) {
    CU_ASSERT_EQUAL(st, TN_OK);
    const bool same = !st && ht_tensor(a, r->out[i], &want) && ht_same(&out[i], &want, 1e-6);
    if (!same) printf("%s %s: output %u\n", r->op, r->attrs ? r->attrs : "", i);
    CU_ASSERT_TRUE(same);
  }
  ht_node_free(&n);
  tni_arena_destroy(a);
}

static void test_rows(void) {
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) check(&rows[i]);
}

/* 100,000 numbers: mean and variance within 5 of their standard errors, no two neighbours alike, and the same with any
 * number of threads. */
static void test_random(void) {
  static const struct {
    const char *op, *attrs;
    double mean, variance, fourth; /* fourth central moment */
  } want[] = {{"RandomUniform", "shape=[100000] low=-1f high=3f", 1, 16.0 / 12, 256.0 / 80},
              {"RandomNormal", "shape=[100000] mean=2f scale=3f", 2, 9, 3 * 81}};
  const double count = 100000;
  tni_pool *pool = tni_pool_create(3);
  tni_pool_run run;
  tni_pool_run_init(&run, pool, NULL);
  for (size_t k = 0; k < 2; k++) {
    static const char *const none[] = {NULL};
    ht_node n;
    tni_tensor x, y;
    tni_arena *a = tni_arena_create();
    CU_ASSERT_TRUE_FATAL(ht_node_make(&n, want[k].op, 22, want[k].attrs, none, 1));
    CU_ASSERT_EQUAL_FATAL(tni_ops_eval(NULL, n.node, n.ptr, 0, &x, 1, a, &n.err), TN_OK);
    CU_ASSERT_EQUAL_FATAL(tni_ops_eval(&run.run, n.node, n.ptr, 0, &y, 1, a, &n.err), TN_OK);
    CU_ASSERT_EQUAL(memcmp(x.data, y.data, (size_t)x.bytes), 0);
    double sum = 0, square = 0;
    uint32_t alike = 0;
    const float *v = x.data;
    for (int64_t i = 0; i < 100000; i++) {
      sum += (double)v[i];
      square += ((double)v[i] - want[k].mean) * ((double)v[i] - want[k].mean);
      alike += i && v[i] == v[i - 1];
    }
    CU_ASSERT_TRUE(fabs(sum / count - want[k].mean) < 5 * sqrt(want[k].variance / count));
    CU_ASSERT_TRUE(fabs(square / count - want[k].variance) <
                   5 * sqrt((want[k].fourth - want[k].variance * want[k].variance) / count));
    CU_ASSERT_TRUE(alike < 5);
    ht_node_free(&n);
    tni_arena_destroy(a);
  }
  tni_pool_destroy(pool);
}

/* FLOAT8E8M0: codes of 2^(code - 127); ONNX's cases only round up. */
static void test_powers(void) {
  static const struct {
    double x;
    tni_round round;
    bool saturate;
    uint8_t code;
  } want[] = {
      {1, TNI_ROUND_UP, true, 127},        {1.1, TNI_ROUND_UP, true, 128},       {1.9, TNI_ROUND_DOWN, true, 127},
      {1.5, TNI_ROUND_NEAREST, true, 128}, {1.49, TNI_ROUND_NEAREST, true, 127}, {-3, TNI_ROUND_DOWN, true, 128},
      {0, TNI_ROUND_UP, true, 0},          {0, TNI_ROUND_NEAREST, false, 255},   {1e-300, TNI_ROUND_UP, true, 0},
      {1e-300, TNI_ROUND_UP, false, 255},  {1e300, TNI_ROUND_UP, true, 254},     {1e300, TNI_ROUND_NEAREST, false, 255},
      {INFINITY, TNI_ROUND_UP, true, 254}, {NAN, TNI_ROUND_UP, true, 255}};
  for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
    const tni_narrowing n = {TN_DT_F8E8M0, want[i].saturate, want[i].round};
    CU_ASSERT_EQUAL(tni_narrow(&n, want[i].x), want[i].code);
  }
}

bool ht_add_general(void) {
  CU_pSuite s = CU_add_suite("general operators", NULL, NULL);
  return s && CU_add_test(s, "rows", test_rows) && CU_add_test(s, "random numbers", test_random) &&
         CU_add_test(s, "powers of two", test_powers);
}
