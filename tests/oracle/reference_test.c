/* SPDX-License-Identifier: Apache-2.0
 *
 * The format reference: quantizers on values worked out by hand, and its bound against a kernel that obeys the
 * numerics.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "oracle_test.h"
#include "runtime/oracle/oracle.h"
#include "tests/kit/nodes.h"

static const tn_numerics i8 = {.h = TN_HDR(tn_numerics),
                               .act_dtype = TN_DT_I8,
                               .act_group = 4,
                               .act_scheme = TN_ACT_ABSMAX,
                               .act_round = TN_ROUND_HALF_EVEN,
                               .act_max = 127,
                               .acc_inner = TN_DT_I32,
                               .acc_outer = TN_DT_F32,
                               .scale_dtype = TN_DT_F16,
                               .denormals = TN_DENORM_FLUSH};

static void one_row(const tn_numerics *num, const float *x, int64_t K, const float *w, float *y, float *abs) {
  tn_run run;
  tni_run_inline(&run);
  CU_ASSERT_EQUAL(tni_reference_matmul(num, x, 1, K, w, 1, NULL, y, abs, &run), TN_OK);
}

static void test_quantizer(void) {
  tn_numerics num = i8;
  float y, abs;
  /* absmax 127: scale 1, ties to even: 0.5 -> 0, 1.5 -> 2, -2.5 -> -2 */
  const float x[4] = {127, 0.5f, 1.5f, -2.5f}, ones[5] = {1, 1, 1, 1, 1};
  one_row(&num, x, 4, ones, &y, &abs);
  CU_ASSERT_DOUBLE_EQUAL((double)y, 127 + 0 + 2 - 2, 0);
  CU_ASSERT_DOUBLE_EQUAL((double)abs, 127 + 0 + 2 + 2, 0);
  num.act_round = TN_ROUND_HALF_AWAY;
  one_row(&num, x, 4, ones, &y, &abs);
  CU_ASSERT_DOUBLE_EQUAL((double)y, 127 + 1 + 2 - 3, 0);
  /* A group of its own for the fifth element: it keeps its value though it is small. */
  const float tail[5] = {127, 0, 0, 0, 0.25f};
  num = i8;
  one_row(&num, tail, 5, ones, &y, NULL);
  CU_ASSERT_DOUBLE_EQUAL((double)y, 127.25, 1e-5);
  num.act_group = 0; /* one scale: 0.25 rounds to 0 */
  one_row(&num, tail, 5, ones, &y, NULL);
  CU_ASSERT_DOUBLE_EQUAL((double)y, 127, 0);
  /* Zeros, groups whose reciprocal overflows, not-a-number. */
  const float zero[4] = {0}, tiny[4] = {1e-40f, 0, 0, 0}, bad[4] = {NAN, 1, 1, 1};
  one_row(&i8, zero, 4, ones, &y, NULL);
  CU_ASSERT(y == 0);
  one_row(&i8, tiny, 4, ones, &y, NULL);
  CU_ASSERT(y == 0);
  one_row(&i8, bad, 4, ones, &y, NULL);
  CU_ASSERT(isnan(y));
  /* No quantizer: f16 activations are rounded to f16, f32 ones are not. */
  num = (tn_numerics){.h = TN_HDR(tn_numerics), .act_dtype = TN_DT_F16, .acc_inner = TN_DT_F32, .acc_outer = TN_DT_F32};
  const float third = 1.f / 3;
  one_row(&num, &third, 1, ones, &y, NULL);
  CU_ASSERT(y == tni_f16_to_f32(tni_f32_to_f16(third)));
  num.act_dtype = TN_DT_F32;
  one_row(&num, &third, 1, ones, &y, NULL);
  CU_ASSERT(y == third);
  /* Runs: the sum of the first run of four is 6, so the scale is 6 / 12; ties to even. */
  const float runs[6] = {1, -2, 3, 0, -0.75f, 5}, weights[6] = {1, 10, 100, 1000, 10000, 100000};
  num = i8;
  num.act_dtype = TN_DT_I16;
  num.act_scheme = TN_ACT_RUNSUM;
  num.act_run = 4;
  num.act_max = 12;
  num.act_group = 8;
  one_row(&num, runs, 6, weights, &y, NULL);
  CU_ASSERT(y == 1 - 20 + 300 - 1 * 10000.0f + 500000.0f); /* -0.75 is -1.5 steps: -2 */
  num.act_run = 2;                                         /* largest run -0.75, 5: scale 5.75 / 12 */
  one_row(&num, runs, 6, weights, &y, NULL);
  CU_ASSERT_DOUBLE_EQUAL((double)y, (5.75 / 12) * (2 - 40 + 600 - 2 * 10000.0 + 10 * 100000.0), 0.05);
  num.act_run = 3;
  tn_run one;
  tni_run_inline(&one);
  CU_ASSERT_EQUAL(tni_reference_matmul(&num, runs, 1, 6, weights, 1, NULL, &y, NULL, &one), TN_E_UNSUPPORTED);
  num.act_scheme = 77;
  CU_ASSERT_EQUAL(tni_reference_matmul(&num, &third, 1, 1, ones, 1, NULL, &y, NULL, &one), TN_E_UNSUPPORTED);
}

enum { M = 5, NN = 70, K = 200, G = 32 };

/* What a kernel does: integer codes and f32 scales apart, groups added in f32. */
static float device(const float *x, const int8_t *codes, const float *scales) {
  float y = 0;
  for (int g = 0; g * G < K; g++) {
    const int n = K - g * G < G ? K - g * G : G;
    float max = 0;
    int32_t sum = 0;
    for (int i = 0; i < n; i++) max = fmaxf(max, fabsf(x[g * G + i]));
    const float inv = 127.f / max;
    for (int i = 0; i < n; i++) sum += (int32_t)rintf(x[g * G + i] * inv) * codes[g * G + i];
    y += (float)sum * (scales[g] * (max / 127.f));
  }
  return y;
}

static void test_bound(void) {
  static float x[M * K], w[NN * K], y[M * NN], abs[M * NN], bias[NN];
  static int8_t codes[NN * K];
  static float scales[NN * (K / G + 1)];
  tn_numerics num = i8;
  num.act_group = G;
  ht_fill(x, M * K, 1);
  ht_fill(w, NN * K, 2);
  ht_fill(scales, NN * (K / G + 1), 3);
  for (int n = 0; n < NN; n++)
    for (int k = 0; k < K; k++) {
      codes[n * K + k] = (int8_t)lrintf(w[n * K + k] * 7);
      w[n * K + k] = (float)codes[n * K + k] * scales[n * (K / G + 1) + k / G];
    }
  const double rel = tni_reference_bound(&num, K);
  CU_ASSERT(rel > 7 * 0x1p-24 && rel < 20 * 0x1p-24);
  double used = 0;
  for (uint32_t workers = 1; workers <= 3; workers += 2) {
    tni_pool *pool = tni_pool_create(workers);
    tni_pool_run run;
    tni_pool_run_init(&run, pool, NULL);
    CU_ASSERT_EQUAL(tni_reference_matmul(&num, x, M, K, w, NN, NULL, y, abs, &run.run), TN_OK);
    for (int m = 0; m < M; m++)
      for (int n = 0; n < NN; n++) {
        const float d = device(x + m * K, codes + n * K, scales + n * (K / G + 1));
        const double err = fabs((double)d - (double)y[m * NN + n]), limit = rel * (double)abs[m * NN + n];
        CU_ASSERT(err <= limit);
        used = fmax(used, err / limit);
      }
    tni_pool_destroy(pool);
  }
  CU_ASSERT(used > 0.005); /* a bound that nothing comes near would let mistakes pass */
  /* One code off by one is outside the bound. */
  codes[0]++;
  const float wrong = device(x, codes, scales);
  CU_ASSERT(fabs((double)wrong - (double)y[0]) > rel * (double)abs[0]);
  for (int n = 0; n < NN; n++) bias[n] = (float)n;
  tn_run run;
  tni_run_inline(&run);
  const float before = y[3];
  CU_ASSERT_EQUAL(tni_reference_matmul(&num, x, M, K, w, NN, bias, y, abs, &run), TN_OK);
  CU_ASSERT_DOUBLE_EQUAL((double)y[3], (double)before + 3, 1e-6);
}

/* A static scale: the bits of a sum in int64, what does not fit the range is cut off at its ends. */
static void test_static(void) {
  tn_numerics num = {.h = TN_HDR(tn_numerics),
                     .act_dtype = TN_DT_I32,
                     .act_scheme = TN_ACT_STATIC,
                     .act_max = 1048575,
                     .acc_inner = TN_DT_I64,
                     .acc_outer = TN_DT_F64,
                     .act_scale = 0.0123f};
  enum { LONG = 3000 };
  static float x[LONG], w[LONG];
  const float sw = 0x1.2345p-9f; /* 17 bits */
  int64_t sum = 0;
  tn_run run;
  tni_run_inline(&run);
  for (int k = 0; k < LONG; k++) {
    const int code = (k * 37) % 255 - 127;
    x[k] = k % 50 ? sinf((float)k) : (float)k * (k % 100 ? 3.f : -3.f);
    w[k] = (float)code * sw;
    sum += (int64_t)rintf(x[k] / num.act_scale) * code;
  }
  float y = 0;
  CU_ASSERT_EQUAL(tni_reference_matmul(&num, x, 1, LONG, w, 1, NULL, &y, NULL, &run), TN_OK);
  CU_ASSERT(y == (float)((double)sum * ((double)num.act_scale * (double)sw)));
  CU_ASSERT_EQUAL(tni_reference_bound(&num, LONG), 0);
  const float far[4] = {1e30f, -1e30f, NAN, 2.5f}, ones[4] = {1, 1, 1, 1};
  num.act_max = 127;
  num.act_scale = 1;
  CU_ASSERT_EQUAL(tni_reference_matmul(&num, far, 1, 4, ones, 1, NULL, &y, NULL, &run), TN_OK);
  CU_ASSERT_EQUAL(y, 127.f - 128.f + 0.f + 2.f);
  num.act_scale = 0;
  CU_ASSERT_EQUAL(tni_reference_matmul(&num, far, 1, 4, ones, 1, NULL, &y, NULL, &run), TN_E_UNSUPPORTED);
}

/* One scale for a row whose sums are those of groups: the bound is that of the groups, not of K terms in f32. */
static void test_sums_below_a_scale(void) {
  tn_numerics num = i8;
  num.acc_inner = TN_DT_I32;
  num.act_group = 32;
  const double groups = tni_reference_bound(&num, 4096);
  num.act_group = 0;
  CU_ASSERT(tni_reference_bound(&num, 4096) < groups); /* one sum of integers */
  num.acc_group = 32;
  CU_ASSERT_EQUAL(tni_reference_bound(&num, 4096), groups);
  num.acc_inner = TN_DT_F16;
  num.act_group = 32;
  num.acc_group = 0;
  const double halves = tni_reference_bound(&num, 4096);
  num.act_group = 0;
  num.acc_group = 32;
  CU_ASSERT_EQUAL(tni_reference_bound(&num, 4096), halves);
  /* x has one scale all the same: the second half of the row is below half a step of the first's. */
  float x[64], w[64], y, abs;
  for (int k = 0; k < 64; k++) x[k] = k < 32 ? 127 : 0.4f, w[k] = 1;
  one_row(&num, x, 64, w, &y, &abs);
  CU_ASSERT_EQUAL(y, 32 * 127);
  num.act_group = 48; /* made of whole sums or not at all */
  tn_run run;
  tni_run_inline(&run);
  CU_ASSERT_EQUAL(tni_reference_matmul(&num, x, 1, 64, w, 1, NULL, &y, &abs, &run), TN_E_UNSUPPORTED);
  num.h.size = TN_UPTO(tn_numerics, avg_unit); /* of a plugin that does not know the field */
  CU_ASSERT_EQUAL(tni_reference_matmul(&num, x, 1, 64, w, 1, NULL, &y, &abs, &run), TN_OK);
}

/* Averages of table entries: an error of absolute size for each group, from depth and unit alone. */
static void test_averages(void) {
  tn_numerics num = i8;
  num.act_dtype = TN_DT_I16;
  num.act_scheme = TN_ACT_RUNSUM;
  num.act_run = 4;
  num.act_max = 253;
  num.act_group = 32;
  const double plain = tni_reference_bound(&num, 40);
  float x[40] = {0}, w[40], y, abs, e;
  tn_run run;
  tni_run_inline(&run);
  for (int k = 0; k < 40; k++) w[k] = k % 3 == 0 ? 0 : k == 7 ? -0.25f : 3;
  x[1] = 253;   /* a scale of 1 */
  x[33] = -506; /* a scale of 2; the smallest weight of this group is 3 */
  one_row(&num, x, 40, w, &y, &abs);
  CU_ASSERT_EQUAL(tni_reference_product(&num, x, 1, 40, w, 1, &y, &e, &run), TN_OK);
  CU_ASSERT_DOUBLE_EQUAL((double)e, plain * (double)abs, 1e-9);
  num.avg_depth = 2;
  num.avg_unit = 30;
  CU_ASSERT_EQUAL(tni_reference_averages(&num), 8 * 0.5 * 30);
  CU_ASSERT_EQUAL(tni_reference_product(&num, x, 1, 40, w, 1, &y, &e, &run), TN_OK);
  CU_ASSERT_DOUBLE_EQUAL((double)e, 120 * (1 * 0.25 + 2 * 3), 0.01);
  CU_ASSERT_EQUAL(tni_reference_bound(&num, 40), plain);
  CU_ASSERT_DOUBLE_EQUAL(tni_reference_averages_at(&num, w, 40, 1, 253), 120 * 0.25, 1e-3);
  CU_ASSERT_DOUBLE_EQUAL(tni_reference_averages_at(&num, w, 40, 39, -253), 120 * 3, 1e-3);
  /* Nothing but zeros, in x or in w, is exact. */
  const float zero[40] = {0};
  CU_ASSERT_EQUAL(tni_reference_product(&num, zero, 1, 40, w, 1, &y, &e, &run), TN_OK);
  CU_ASSERT_EQUAL(e, 0);
  CU_ASSERT_EQUAL(tni_reference_product(&num, x, 1, 40, zero, 1, &y, &e, &run), TN_OK);
  CU_ASSERT_EQUAL(e, 0);
  /* A plugin that does not know the fields has none. */
  tn_numerics old = num;
  old.h.size = TN_UPTO(tn_numerics, act_scale);
  CU_ASSERT_EQUAL(tni_reference_averages(&old), 0);
  CU_ASSERT(tni_numerics_of(&old).avg_depth == 0 && tni_numerics_of(&num).avg_depth == 2);
  CU_ASSERT(tni_numerics_of(&old).act_run == 4 && tni_numerics_of(&old).h.size == sizeof(tn_numerics));
  CU_ASSERT_EQUAL(tni_reference_product(&old, x, 1, 40, w, 1, &y, &e, &run), TN_OK);
  CU_ASSERT_DOUBLE_EQUAL((double)e, plain * (double)abs, 1e-9);
  /* What no tables have. */
  const tn_numerics good = num;
  for (int i = 0; i < 5; i++) {
    num = good;
    if (i == 0) num.avg_depth = 4; /* trees of 16 of 8 runs */
    if (i == 1) num.avg_unit = 0;
    if (i == 2) num.avg_unit = NAN;
    if (i == 3) num.act_scheme = TN_ACT_ABSMAX;
    if (i == 4) num.avg_depth = 40;
    CU_ASSERT_EQUAL(tni_reference_product(&num, x, 1, 40, w, 1, &y, &e, &run), TN_E_UNSUPPORTED);
  }
}

/* Halves that are flushed: 2^-14 of each weight, of whatever the activations are. Not of who keeps them, nor of BF16. */
static void test_flushed(void) {
  tn_numerics num = {.h = TN_HDR(tn_numerics), .act_dtype = TN_DT_F16, .acc_inner = TN_DT_F16, .acc_outer = TN_DT_F32};
  float x[70] = {0}, w[70], y, abs, kept, flushed;
  double sum = 0;
  tn_run run;
  tni_run_inline(&run);
  for (int k = 0; k < 70; k++) sum += fabs((double)(w[k] = k % 2 ? -3.0f : 0.5f));
  x[3] = 0x1p-10f;
  one_row(&num, x, 70, w, &y, &abs);
  num.denormals = TN_DENORM_KEEP;
  CU_ASSERT_EQUAL(tni_reference_product(&num, x, 1, 70, w, 1, &y, &kept, &run), TN_OK);
  CU_ASSERT_DOUBLE_EQUAL((double)kept, tni_reference_bound(&num, 70) * (double)abs, 1e-9);
  num.denormals = TN_DENORM_FLUSH;
  CU_ASSERT_EQUAL(tni_reference_product(&num, x, 1, 70, w, 1, &y, &flushed, &run), TN_OK);
  CU_ASSERT_DOUBLE_EQUAL((double)flushed - (double)kept, 0x1p-14 * sum, 1e-9);
  num.act_dtype = TN_DT_BF16;
  CU_ASSERT_EQUAL(tni_reference_product(&num, x, 1, 70, w, 1, &y, &flushed, &run), TN_OK);
  CU_ASSERT_DOUBLE_EQUAL((double)flushed, (double)kept, 1e-9);
}

static void test_bound_grows(void) {
  tn_numerics f = {.h = TN_HDR(tn_numerics), .act_dtype = TN_DT_F32, .acc_inner = TN_DT_F32, .acc_outer = TN_DT_F32};
  CU_ASSERT(tni_reference_bound(&f, 1000) > 1000 * 0x1p-24);
  CU_ASSERT(tni_reference_bound(&i8, 4096) > tni_reference_bound(&i8, 64));
  f.acc_inner = TN_DT_F16;
  CU_ASSERT(tni_reference_bound(&f, 100) > 100 * 0x1p-11);
}

/* One code, and few: what a half may do. */
static void test_codes(void) {
  uint8_t want[320], got[320];
  int most;
  for (int i = 0; i < 320; i++) want[i] = (uint8_t)(i * 7);
  memcpy(got, want, sizeof got);
  CU_ASSERT(tni_reference_codes(got, want, false, 320, &most) && most == 0);
  for (int i = 0; i < 12; i++) got[20 * i + 1] = (uint8_t)(got[20 * i + 1] + (i % 2 ? 1 : -1)); /* 2 + 320 / 32 */
  CU_ASSERT(tni_reference_codes(got, want, false, 320, &most) && most == 1);
  CU_ASSERT(!tni_reference_codes(got, want, false, 319, &most)); /* 2 + 9 */
  got[5]++;
  CU_ASSERT(!tni_reference_codes(got, want, false, 320, &most) && most == 1);
  memcpy(got, want, sizeof got);
  got[9] = (uint8_t)(got[9] + 2);
  CU_ASSERT(!tni_reference_codes(got, want, false, 320, &most) && most == 2);
  /* 127 and -128 are far apart, 255 and 0 too; -1 and 0 are not. */
  const uint8_t top[1] = {0x7f}, low[1] = {0x80}, ones[1] = {0xff}, zero[1] = {0};
  CU_ASSERT(!tni_reference_codes(top, low, true, 1, &most) && most == 255);
  CU_ASSERT(tni_reference_codes(top, low, false, 1, &most));
  CU_ASSERT(tni_reference_codes(ones, zero, true, 1, &most));
  CU_ASSERT(!tni_reference_codes(ones, zero, false, 1, &most) && most == 255);
  CU_ASSERT(tni_reference_rounds(TN_OP_QLINEAR_CONV) && !tni_reference_rounds(TN_OP_MAX_POOL));
}

void suite_reference(void) {
  CU_pSuite s = CU_add_suite("format reference", NULL, NULL);
  CU_add_test(s, "quantizer", test_quantizer);
  CU_add_test(s, "bound holds and bites", test_bound);
  CU_add_test(s, "static scale", test_static);
  CU_add_test(s, "averages", test_averages);
  CU_add_test(s, "sums below a scale", test_sums_below_a_scale);
  CU_add_test(s, "halves that are flushed", test_flushed);
  CU_add_test(s, "bound grows", test_bound_grows);
  CU_add_test(s, "codes of 8 bits", test_codes);
}
