/* SPDX-License-Identifier: Apache-2.0
 *
 * The formats for dot products: errors, how good the scales are, where each code lies, weights that are levels, broken
 * copies of a kernel that must be caught. Boxes, splits and golden bytes: tests/formats; that all variants give the
 * same bits: test_kernels.c.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plugins/common/cpu/kernels/dot_kernels.h"
#include "plugins/common/formats/dot.h"
#include "plugins/common/formats/dot_fit.h"
#include "plugins/common/formats/f16.h"
#include "plugins/common/formats/lut_fit.h"
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
      const int64_t row = at / K * K, group = row + at % K / 128 * 128, from = f->group ? group : 0;
      const int64_t end = f->group ? (group + 128 < row + K ? group + 128 : row + K) : N * K;
      for (int64_t k = from; k < end; k++) absmax = fmaxf(absmax, fabsf(w[k]));
      const bool ok = fabsf(w[at] - back[at]) <= f->w_err * absmax + (absmax < 0x1p-13f ? 0x1p-16f : 0);
      if (!ok && !wrong++) printf("\n    %s: %g became %g, absmax %g", f->name, w[at], back[at], absmax);
    }
    const uint32_t which = tni_dot_kind_of(f)->which;
    CU_ASSERT((which != TNI_DOT_W2G && which != TNI_DOT_W3G) || f->w_err >= tni_dot_err(tni_dot_kind_of(f)->zero));
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
  for (int i = TNI_DOT_W3G; i <= TNI_DOT_W2G; i++) {
    const tni_dot_kind *kind = tni_dot_kind_of(&tni_dot_formats[i]);
    double found = 0, best = 0;
    for (int g = 0; g < GROUPS; g++) {
      const float *v = w + g * 128;
      uint8_t codes[128];
      uint16_t half;
      double least = 1e30, err = 0, absmax = 0;
      CU_ASSERT_EQUAL_FATAL(tni_dot_fit(tni_fit_best(), v, kind->zero, codes, &half), 0);
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
    CU_ASSERT_EQUAL(tni_dot_fit(tni_fit_best(), w, zero, codes, &half), 0);
    CU_ASSERT(half == 0 && codes[0] == zero && codes[127] == zero);
    const float bad[] = {NAN, INFINITY, -INFINITY, (float)zero * 65520.0f};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
      w[77] = bad[i];
      CU_ASSERT_EQUAL(tni_dot_fit(tni_fit_best(), w, zero, codes, &half), -1);
    }
  }
}

static double error_of(int i, const float *w, int64_t N, int64_t K) {
  tn_blob b;
  uint8_t *bytes = pack(i, w, N, K, &b);
  float *back = unpack_all(&b);
  double err = 0, all = 0;
  for (int64_t at = 0; at < N * K; at++) {
    err += pow((double)w[at] - (double)back[at], 2);
    all += pow((double)w[at], 2);
  }
  free(back);
  free(bytes);
  return err / all;
}

/* Of a Gaussian's squares (Max 1960): 0.363 with one bit, 0.190 with three levels, 0.00950 with sixteen; eight bits of
 * the largest magnitude. */
static void errors_are_near_the_least(void) {
  float *w = matrix_of(64 * 1024, V_NORMAL, 44);
  CU_ASSERT(error_of(TNI_DOT_W1G, w, 64, 1024) < 0.37);
  CU_ASSERT(error_of(TNI_DOT_TERN20, w, 64, 1024) < 0.195);
  CU_ASSERT_EQUAL(error_of(TNI_DOT_TERN17, w, 64, 1024), error_of(TNI_DOT_TERN20, w, 64, 1024));
  CU_ASSERT(error_of(TNI_DOT_PAL16, w, 64, 1024) < 0.0100);
  CU_ASSERT(error_of(TNI_DOT_W8G, w, 64, 1024) < 5e-5);
  free(w);
}

/* Code of row `row` (of the block), element k, from the bits where dot.h has it. */
static uint32_t code_at(int i, const uint8_t *block, uint32_t row, uint32_t k) {
  static const uint8_t low[8][2] = {{0, 0}, {0, 3}, {0, 6}, {1, 0}, {1, 3}, {1, 6}, {2, 0}, {2, 3}}; /* byte, bit */
  static const uint32_t bits[] = {8, 3, 2, 1, 2, 0, 4}, head[] = {0, 0, 0, 0, 64, 64, 128};
  const uint32_t quad = k / 4, lane = row * 4 + k % 4;
  if (i == TNI_DOT_TERN17) {
    const uint8_t *u = block + 64 + quad / 24 * 320 + lane;
    const uint32_t j = quad % 24, z[5] = {u[0], u[64], u[128], u[192], u[256]};
    const uint32_t v[8] = {z[0] % 32,
                           z[1] % 32,
                           z[2] % 32,
                           z[3] % 32,
                           z[4] % 32,
                           z[0] / 32 + z[1] / 32 % 4 * 8,
                           z[2] / 32 + z[3] / 32 % 4 * 8,
                           z[4] / 32 + z[1] / 128 * 8 + z[3] / 128 * 16};
    return j < 8 ? v[j] % 3 : j < 16 ? v[j - 8] / 3 % 3 : v[j - 16] / 9;
  }
  const uint32_t scales = head[i] ? 0 : 64, group = 128 * 16 * bits[i] / 8;
  const uint8_t *g = block + head[i] + (k / 256 + 1) * scales + k / 128 * group;
  const uint32_t q = quad % 32, per = 8 / bits[i];
  if (i != TNI_DOT_W3G) {
    const uint32_t code = g[q / per * 64 + lane] >> q % per * bits[i] & ((1u << bits[i]) - 1);
    return i == TNI_DOT_W1G ? 2 * code : i == TNI_DOT_PAL16 ? block[64 + code] : code;
  }
  const uint8_t *unit = g + q / 8 * 192, j = q % 8;
  const uint32_t three = unit[low[j][0] * 64 + lane] >> low[j][1], high = unit[128 + lane];
  return j == 2 ? (three & 3) | (high >> 6 & 1) << 2 : j == 5 ? (three & 3) | (high >> 7 & 1) << 2 : three & 7;
}

/* Any levels survive (of pal16: what was unpacked is what stands there), each in the bits where dot.h has them. */
static void levels_survive(void) {
  enum { N = 19, K = 300 };
  for (int i = 0; i < TNI_DOT_KINDS; i++) {
    const tni_dot_kind *kind = tni_dot_kind_of(&tni_dot_formats[i]);
    static float w[N * K];
    uint32_t wrong = 0;
    rng r = rng_of(78);
    tni_dot_geometry geo;
    CU_ASSERT_EQUAL_FATAL(tni_dot_geometry_of(kind, N, K, &geo), TN_OK);
    for (int at = 0; at < N * K; at++) {
      uint32_t code = at % K % 128 == 0 ? (i == TNI_DOT_W8G ? 255 : 0) : (uint32_t)(rng_next(&r) % (kind->top + 1));
      if (i == TNI_DOT_W8G && code == 0) code = 1;
      if (i == TNI_DOT_W1G) code = code / 2 * 2;
      w[at] = (float)((int)code - (int)kind->zero) * 0.0625f;
    }
    tn_blob b;
    uint8_t *bytes = pack(i, w, N, K, &b);
    float *back = unpack_all(&b);
    CU_ASSERT_EQUAL(b.bytes, 2 * (uint64_t)geo.row_block_bytes);
    if (i != TNI_DOT_PAL16) CU_ASSERT_EQUAL(memcmp(w, back, sizeof w), 0);
    for (uint32_t n = 0; n < 32; n++)
      for (uint32_t k = 0; k < (uint32_t)(geo.superblocks * geo.sb_k); k++) {
        const uint8_t *block = bytes + n / 16 * geo.row_block_bytes;
        const uint32_t pad = i == TNI_DOT_W1G ? 0 : i == TNI_DOT_PAL16 ? block[64] : kind->zero;
        const uint32_t code = code_at(i, block, n % 16, k);
        if (n < N && k < K)
          wrong += ((float)code - (float)kind->zero) * tni_dot_scale(kind, block, n % 16, k / 128) != back[n * K + k];
        else
          wrong += code != pad;
      }
    CU_ASSERT_EQUAL(wrong, 0);
    free(back);
    free(bytes);
  }
}

/* A row of 0, -s and s keeps s, whatever f32 it is. */
static void ternary_is_exact(void) {
  enum { N = 17, K = 200 };
  static float w[N * K];
  rng r = rng_of(79);
  for (int n = 0; n < N; n++)
    for (int k = 0; k < K; k++) w[n * K + k] = (float)((int)(rng_next(&r) % 3) - 1) * (0.0123456789f * (float)(n + 1));
  CU_ASSERT_EQUAL(error_of(TNI_DOT_TERN20, w, N, K), 0);
  CU_ASSERT_EQUAL(error_of(TNI_DOT_TERN17, w, N, K), 0);
}

/* The sizes that kernels are compiled with. */
static void sizes_are_the_kinds(void) {
  static const struct {
    const char *name;
    uint32_t group, head;
  } sizes[] = {
#define SIZE(id, group, head) {#id, group, head},
      TNI_DOT_SIZES(SIZE)
#undef SIZE
  };
  CU_ASSERT_EQUAL(sizeof sizes / sizeof *sizes, TNI_DOT_KINDS - 1);
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    const tni_dot_kind *kind = tni_dot_kind_of(&(tn_format){.name = sizes[i].name});
    CU_ASSERT_PTR_NOT_NULL_FATAL(kind);
    CU_ASSERT(kind->units * kind->unit_bytes == 2 * sizes[i].group && kind->head_bytes == sizes[i].head);
    CU_ASSERT_EQUAL(kind->units * kind->unit_quads * 4, 256);
  }
}

static uint32_t differs(const tni_fit *f, const float *w, uint32_t which, uint32_t n) {
  static const uint32_t levels[] = {2, 3, 4, 8, 16};
  uint8_t codes[2][128];
  uint16_t half[2] = {1, 2};
  int rc[2];
  for (int i = 0; i < 2; i++) {
    const tni_fit *form = i ? f : tni_fit_form(0);
    rc[i] = which < 2 ? tni_dot_fit(form, w, which ? 4 : 2, codes[i], &half[i])
                      : tni_lut_fit(form, w, n, levels[which - 2], codes[i], &half[i]);
  }
  return rc[0] != rc[1] || (!rc[0] && (half[0] != half[1] || memcmp(codes[0], codes[1], which < 2 ? 128 : n) != 0));
}

static uint32_t rows_differ(const tni_fit *f, const float *w, size_t n) {
  tni_dot_histogram h = {{0}, {0}};
  tni_dot_levels l;
  float scale[4] = {1, 2, 3, 4};
  uint8_t index[2][512];
  uint32_t wrong = (uint32_t)tni_dot_count(tni_fit_form(0), &h, w, n);
  tni_dot_levels_of(&h, &l);
  wrong += tni_dot_ternary_scale(f, w, n, scale) || tni_dot_ternary_scale(tni_fit_form(0), w, n, scale + 1);
  wrong += tni_dot_level_scale(f, w, n, &l, scale + 2) || tni_dot_level_scale(tni_fit_form(0), w, n, &l, scale + 3);
  tni_dot_level_codes(f, w, 500, &l, scale[2], index[0]);
  tni_dot_level_codes(tni_fit_form(0), w, 500, &l, scale[2], index[1]);
  return wrong + (memcmp(scale, scale + 1, 4) || memcmp(scale + 2, scale + 3, 4) || memcmp(index[0], index[1], 500));
}

/* With the processor's vector instructions and without. */
static void fits_are_portable(void) {
  enum { GROUPS = 60, K = 1003 };
  uint32_t wrong = 0;
  for (int v = 0; v < V_COUNT; v++) {
    float *w = matrix_of(GROUPS * 128, v, 90 + (uint64_t)v);
    for (uint32_t form = 1; form < TNI_FIT_FORMS && tni_fit_form(form); form++) {
      for (uint32_t g = 0; g < GROUPS; g++)
        for (uint32_t which = 0; which < 7; which++)
          wrong += differs(tni_fit_form(form), w + g * 128, which, g % 3 ? 128 : 1 + g);
      for (size_t n = K - 17; n <= K; n++) wrong += rows_differ(tni_fit_form(form), w, n);
    }
    free(w);
  }
  CU_ASSERT_EQUAL(wrong, 0);
}

/* Broken copies: the zero point of one group forgotten, two rows swapped, a quad left out, one bit of one product. */
static int breakage;

static void broken_gemv(const uint8_t *block, size_t superblocks, const tni_clt_act *a, float *acc) {
  int8_t q[512];
  tni_clt_act copy = *a;
  const tni_dot_kind *w3g = tni_dot_kind_of(&tni_dot_formats[TNI_DOT_W3G]);
  memcpy(q, a->q, superblocks * 256);
  if (breakage == 2) memset(q + 132, 0, 4);
  copy.q = q;
  tni_clt_gemv_f32_q8g128_w3g_1x16_scalar(block, superblocks, &copy, acc);
  if (breakage == 0) {
    int32_t sum = 0;
    for (size_t k = 0; k < 128; k++) sum += q[k];
    for (uint32_t r = 0; r < 16; r++) acc[r] += 4 * (float)sum * (tni_dot_scale(w3g, block, r, 0) * a->scale[0]);
  }
  if (breakage == 1) {
    float t = acc[3];
    acc[3] = acc[4];
    acc[4] = t;
  }
  if (breakage == 3) acc[7] += 4 * (tni_dot_scale(w3g, block, 7, 1) * a->scale[1]); /* a third bit, times 1 */
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
    reference(TNI_ACT8_G128_F16, x, 1, K, back, 16, y, mag);
    for (int i = 0; i < 16; i++)
      within = within && fabs(y[i] - (double)acc[i]) <= reference_bound(TNI_ACT8_G128_F16, K) * mag[i];
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
                         {"errors_are_near_the_least", errors_are_near_the_least},
                         {"refusals", refusals},
                         {"levels_survive", levels_survive},
                         {"sizes_are_the_kinds", sizes_are_the_kinds},
                         {"fits_are_portable", fits_are_portable},
                         {"ternary_is_exact", ternary_is_exact},
                         {"broken_kernels_are_caught", broken_kernels_are_caught},
                         CU_TEST_INFO_NULL};
  CU_SuiteInfo suites[] = {{"dot", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
  return CU_register_suites(suites) == CUE_SUCCESS;
}
