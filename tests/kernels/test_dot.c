/* SPDX-License-Identifier: Apache-2.0
 *
 * The formats for dot products: errors, how good the scales are, where each code lies, weights that are levels, broken
 * copies of a kernel that must be caught. Boxes, splits and golden bytes: tests/formats; that all variants give the
 * same bits: test_kernels.c.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plugins/common/cpu_lut/dot_kernels.h"
#include "plugins/common/dot.h"
#include "plugins/common/dot_fit.h"
#include "plugins/common/f16.h"
#include "tests/kernels/harness.h"

static float *matrix_of(int64_t n, int pattern, uint64_t stream) {
  rng r = rng_of(stream);
  float *w = malloc((size_t)n * sizeof *w);
  if (!w) abort();
  fill(w, (size_t)n, pattern, 1e4f, &r);
  return w;
}

static uint8_t *pack(int i, const float *w, int64_t N, int64_t K, tn_blob *b) {
  uint8_t *bytes = pack_as(&tni_dot_formats[i], NULL, 0, w, N, K, b);
  CU_ASSERT_PTR_NOT_NULL_FATAL(bytes);
  return bytes;
}

static void errors_are_bounded(void) {
  static const struct { int64_t N, K; } shapes[] = {{1, 1}, {15, 127}, {16, 128}, {17, 129}, {33, 300}};
  uint32_t wrong = 0, checked = 0;
  for (int i = 0; i < TNI_DOT_KINDS * 5 * V_COUNT; i++) {
    const tn_format *f = &tni_dot_formats[i % TNI_DOT_KINDS];
    int64_t N = shapes[i / TNI_DOT_KINDS % 5].N, K = shapes[i / TNI_DOT_KINDS % 5].K;
    float *w = matrix_of(N * K, i / TNI_DOT_KINDS / 5, 800 + (uint64_t)i);
    tn_blob b;
    uint8_t *bytes = pack(i % TNI_DOT_KINDS, w, N, K, &b);
    float *back = unpack_all(&b);
    for (int64_t at = 0; at < N * K; at++, checked++) {
      float absmax = 0;
      for (int64_t k = at % K / 128 * 128; k < K && k < (at % K / 128 + 1) * 128; k++)
        absmax = fmaxf(absmax, fabsf(w[at / K * K + k]));
      wrong += !(fabsf(w[at] - back[at]) <= f->w_err * absmax + (absmax < 0x1p-14f ? 0x1p-16f : 0));
    }
    CU_ASSERT(f->w_err >= tni_dot_err(tni_dot_kind_of(f)->zero));
    free(back);
    free(bytes);
    free(w);
  }
  CU_ASSERT_EQUAL(wrong, 0);
  CU_ASSERT(checked > 100000);
}

/* Of squares: what the best of 600 scales for each group would leave, and what was found. */
static void scales_are_good(void) {
  enum { GROUPS = 400 };
  float *w = matrix_of(GROUPS * 128, V_NORMAL, 43);
  for (int i = 0; i < TNI_DOT_KINDS; i++) {
    const tni_dot_kind *kind = tni_dot_kind_of(&tni_dot_formats[i]);
    double found = 0, best = 0;
    for (int g = 0; g < GROUPS; g++) {
      const float *v = w + g * 128;
      uint8_t codes[128];
      uint16_t half;
      double least = 1e30, err = 0, absmax = 0;
      CU_ASSERT_EQUAL_FATAL(tni_dot_fit(v, kind->zero, kind->top, codes, &half), 0);
      for (int k = 0; k < 128; k++) {
        err += pow((double)v[k] - ((double)codes[k] - kind->zero) * (double)tni_cm_f16_to_f32(half), 2);
        absmax = fmax(absmax, fabs((double)v[k]));
      }
      for (int t = -300; t < 300; t++) {
        const double d = absmax / (t < 0 ? t * 0.02 : (t + 1) * 0.02);
        double e = 0;
        for (int k = 0; k < 128; k++)
          e += pow((double)v[k] - d * fmin(fmax(nearbyint((double)v[k] / d), -(double)kind->zero),
                                           (double)(kind->top - kind->zero)),
                   2);
        least = fmin(least, e);
      }
      found += err;
      best += least;
    }
    CU_ASSERT(found < best * 1.03);
  }
  free(w);
}

static void refusals(void) {
  float w[128] = {0};
  uint8_t codes[128];
  uint16_t half = 1;
  for (uint32_t zero = 2; zero <= 4; zero += 2) {
    memset(w, 0, sizeof w);
    CU_ASSERT_EQUAL(tni_dot_fit(w, zero, 2 * zero - 1, codes, &half), 0);
    CU_ASSERT(half == 0 && codes[0] == zero && codes[127] == zero);
    const float bad[] = {NAN, INFINITY, -INFINITY, (float)zero * 65520.0f};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
      w[77] = bad[i];
      CU_ASSERT_EQUAL(tni_dot_fit(w, zero, 2 * zero - 1, codes, &half), -1);
    }
  }
}

/* Any levels survive, each in the bits where dot.h has them. */
static uint32_t code_at(int i, const uint8_t *group, uint32_t row, uint32_t k) {
  static const uint8_t low[8][2] = {{0, 0}, {0, 3}, {0, 6}, {1, 0}, {1, 3}, {1, 6}, {2, 0}, {2, 3}}; /* byte, bit */
  const uint32_t quad = k / 4, lane = row * 4 + k % 4;
  if (i == TNI_DOT_W2G) return group[quad / 4 * 64 + lane] >> quad % 4 * 2 & 3;
  const uint8_t *unit = group + quad / 8 * 192, j = quad % 8;
  const uint32_t bits = unit[low[j][0] * 64 + lane] >> low[j][1], high = unit[128 + lane];
  if (j == 2) return (bits & 3) | (high >> 6 & 1) << 2;
  if (j == 5) return (bits & 3) | (high >> 7 & 1) << 2;
  return bits & 7;
}

static void levels_survive(void) {
  enum { N = 19, K = 300 };
  for (int i = 0; i < TNI_DOT_KINDS; i++) {
    const tni_dot_kind *kind = tni_dot_kind_of(&tni_dot_formats[i]);
    const uint64_t group_bytes = (uint64_t)kind->unit_bytes * kind->units / 2, sb_bytes = 64 + 2 * group_bytes;
    static float w[N * K];
    uint32_t codes[N * K], wrong = 0;
    rng r = rng_of(78);
    for (int at = 0; at < N * K; at++) {
      codes[at] = at % K % 128 == 0 ? 0 : (uint32_t)(rng_next(&r) % (kind->top + 1));
      w[at] = (float)((int)codes[at] - (int)kind->zero) * 0.0625f;
    }
    tn_blob b;
    uint8_t *bytes = pack(i, w, N, K, &b);
    float *back = unpack_all(&b);
    CU_ASSERT_EQUAL(memcmp(w, back, sizeof w), 0);
    CU_ASSERT_EQUAL(b.bytes, 2 * 2 * sb_bytes);
    for (uint32_t n = 0; n < 32; n++)
      for (uint32_t k = 0; k < 512; k++) {
        const uint8_t *sb = bytes + (n / 16 * 2 + k / 256) * sb_bytes;
        const uint32_t want = n < N && k < K ? codes[n * K + k] : kind->zero;
        wrong += code_at(i, sb + 64 + k / 128 % 2 * group_bytes, n % 16, k % 128) != want;
      }
    CU_ASSERT_EQUAL(wrong, 0);
    free(back);
    free(bytes);
  }
}

/* Broken copies: the zero point of one group forgotten, two rows swapped, a quad left out, one bit of one product. */
static int breakage;

static void broken_gemv(const uint8_t *block, size_t superblocks, const tni_clt_act *a, float *acc) {
  int8_t q[512];
  tni_clt_act copy = *a;
  memcpy(q, a->q, superblocks * 256);
  if (breakage == 2) memset(q + 132, 0, 4);
  copy.q = q;
  tni_clt_gemv_f32_q8g128_w3g_1x16_scalar(block, superblocks, &copy, acc);
  if (breakage == 0) {
    int32_t sum = 0;
    for (size_t k = 0; k < 128; k++) sum += q[k];
    for (uint32_t r = 0; r < 16; r++) acc[r] += 4 * (float)sum * (tni_dot_scale(block, r, 0) * a->scale[0]);
  }
  if (breakage == 1) {
    float t = acc[3];
    acc[3] = acc[4];
    acc[4] = t;
  }
  if (breakage == 3) acc[7] += 4 * (tni_dot_scale(block, 7, 1) * a->scale[1]); /* a third bit, times 1 */
}

static void broken_kernels_are_caught(void) {
  enum { K = 200 };
  const tni_clt_kernel prologue =
      TNI_CLT_ROW(TNI_CLT_QUANT, TNI_CLT_W3G, 128, 0, 0, TNI_CLT_ROWS_S16, tni_clt_, quant_q8g128_f32_1x128_scalar);
  tni_clt_geometry geo;
  CU_ASSERT_EQUAL_FATAL(tni_clt_w3g.geometry(&tni_clt_w3g, 16, K, NULL, &geo), TN_OK);
  for (breakage = 0; breakage < 4; breakage++) {
    tn_blob b;
    float *x = matrix_of(K, V_NORMAL, 21), *w = matrix_of(16 * K, V_NORMAL, 22), acc[16];
    double y[16], mag[16];
    uint8_t *packed = pack(TNI_DOT_W3G, w, 16, K, &b);
    float *back = unpack_all(&b);
    act_buf a = act_make(&prologue, x, 1, &geo);
    bool within = true;
    broken_gemv(packed, (size_t)geo.superblocks, &a.a, acc);
    reference(&tni_dot_numerics, x, 1, K, back, 16, y, mag);
    for (int i = 0; i < 16; i++)
      within = within && fabs(y[i] - (double)acc[i]) <= reference_bound(&tni_dot_numerics, K) * mag[i];
    CU_ASSERT_FALSE(within);
    act_free(&a);
    free(back);
    free(packed);
    free(w);
    free(x);
  }
}

int add_dot_suite(void) {
  CU_TestInfo tests[] = {{"errors_are_bounded", errors_are_bounded},
                         {"scales_are_good", scales_are_good},
                         {"refusals", refusals},
                         {"levels_survive", levels_survive},
                         {"broken_kernels_are_caught", broken_kernels_are_caught},
                         CU_TEST_INFO_NULL};
  CU_SuiteInfo suites[] = {{"dot", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
  return CU_register_suites(suites) == CUE_SUCCESS;
}
