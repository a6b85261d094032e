/* SPDX-License-Identifier: Apache-2.0
 *
 * Errors of e0m2, e0m3, e0m4, e0m8 on normal weights: beside INT of the same bits with extremes and whole zero points,
 * beside extremes without a search, and beside the best scales and zero points of a fine lattice.
 */
#include <CUnit/Basic.h>
#include <math.h>
#include <stdio.h>

#include "plugins/common/formats/e0m.h"
#include "plugins/common/formats/e0m_fit.h"
#include "plugins/common/formats/f16.h"
#include "tests/adreno/draws.h"

static float value_of(uint32_t bits, const uint16_t sc[2], uint8_t code) {
  return tni_cm_f16_to_f32(sc[0]) * (1.0f + (float)code / (float)(1u << bits) - tni_cm_f16_to_f32(sc[1]));
}

typedef struct errors {
  double sum, squares;
} errors;

static void add_error(errors *e, float off) {
  e->sum += (double)fabsf(off);
  e->squares += (double)off * (double)off;
}

/* Extremes and a whole zero point. */
static void add_int(uint32_t bits, const float *w, errors *e) {
  const float top = (float)((1u << bits) - 1);
  float lo = 0, hi = 0;
  for (int i = 0; i < 128; i++) {
    lo = fminf(lo, w[i]);
    hi = fmaxf(hi, w[i]);
  }
  const float d = (hi - lo) / top, z = rintf(-lo / d);
  for (int i = 0; i < 128; i++) add_error(e, (fminf(fmaxf(rintf(w[i] / d) + z, 0), top) - z) * d - w[i]);
}

/* Extremes as they are mapped without a search: s = highest - lowest, the bias whatever half it needs. */
static void add_plain(uint32_t bits, const float *w, errors *e) {
  const float codes = (float)(1u << bits);
  float lo = 0, hi = 0;
  for (int i = 0; i < 128; i++) {
    lo = fminf(lo, w[i]);
    hi = fmaxf(hi, w[i]);
  }
  const uint16_t sc[2] = {tni_cm_f32_to_f16(hi - lo), tni_cm_f32_to_f16(1.0f - lo / (hi - lo))};
  const float s = tni_cm_f16_to_f32(sc[0]), c = tni_cm_f16_to_f32(sc[1]);
  for (int i = 0; i < 128; i++) {
    const float q = floorf((w[i] / s + c - 1.0f) * codes + 0.5f);
    add_error(e, value_of(bits, sc, (uint8_t)fminf(fmaxf(q, 0), codes - 1)) - w[i]);
  }
}

static void add_found(uint32_t bits, int exact, const float *w, errors *e) {
  uint8_t codes[128];
  uint16_t sc[2];
  CU_ASSERT_FATAL(tni_e0m_fit(bits, exact, w, NULL, 128, codes, sc) == 0);
  for (int i = 0; i < 128; i++) add_error(e, value_of(bits, sc, codes[i]) - w[i]);
}

/* The best of a fine lattice of steps and zero points. */
static double least_squares(uint32_t bits, const float *w) {
  const float top = (float)((1u << bits) - 1);
  float lo = 0, hi = 0;
  double best = INFINITY;
  for (int i = 0; i < 128; i++) {
    lo = fminf(lo, w[i]);
    hi = fmaxf(hi, w[i]);
  }
  for (int a = 0; a <= 48; a++)
    for (int b = 0; b <= 48; b++) {
      const float d = (hi - lo) / top * (0.3f + 0.75f * (float)a / 48),
                  z = -lo / (hi - lo) * top + (float)(b - 24) / 24;
      double e = 0;
      if (z < 0 || z > top) continue;
      for (int i = 0; i < 128; i++) {
        const float off = (fminf(fmaxf(rintf(w[i] / d + z), 0), top) - z) * d - w[i];
        e += (double)(off * off);
      }
      best = e < best ? e : best;
    }
  return best;
}

/* Beside INT-m with extremes and a whole zero point. */
static void quality(void) {
  static const double most[TNI_E0M_KINDS][2] = {{0.64, 0.70}, {0.80, 0.85}, {0.90, 0.94}, {0.95, 0.99}};
  for (int f = 0; f < TNI_E0M_KINDS; f++) {
    const uint32_t bits = tni_e0m_formats[f].bits;
    errors whole = {0}, plain = {0}, found[2] = {{0}};
    double least = 0, searched = 0;
    state = 7;
    for (int g = 0; g < 4000; g++) {
      float w[128];
      for (int i = 0; i < 128; i++) w[i] = normal();
      add_int(bits, w, &whole);
      add_plain(bits, w, &plain);
      for (int exact = 0; exact < 2; exact++) add_found(bits, exact, w, &found[exact]);
      if (g >= 60 || bits == 8) continue;
      errors one = {0};
      add_found(bits, 0, w, &one);
      searched += one.squares;
      least += least_squares(bits, w);
    }
    printf(
        "\n    e0m%u beside INT%u: mean error %.3f free, %.3f zero exact, %.3f without search; root mean square %.3f, "
        "%.3f, %.3f; squares beside a lattice of 2401: %.3f",
        bits, bits, found[0].sum / whole.sum, found[1].sum / whole.sum, plain.sum / whole.sum,
        sqrt(found[0].squares / whole.squares), sqrt(found[1].squares / whole.squares),
        sqrt(plain.squares / whole.squares), least > 0 ? searched / least : 1);
    for (int exact = 0; exact < 2; exact++) {
      CU_ASSERT(found[exact].sum / whole.sum < most[f][exact]);
      CU_ASSERT(bits == 8 || found[exact].squares < plain.squares);
    }
    CU_ASSERT(least == 0 || searched < 1.022 * least);
  }
  printf("\n");
}

int main(void) {
  CU_TestInfo tests[] = {{"beside INT, extremes and the best", quality}, CU_TEST_INFO_NULL};
  CU_SuiteInfo suites[] = {{"e0m errors", NULL, NULL, NULL, NULL, tests}, CU_SUITE_INFO_NULL};
  if (CU_initialize_registry() != CUE_SUCCESS || CU_register_suites(suites) != CUE_SUCCESS) return 2;
  CU_basic_set_mode(CU_BRM_VERBOSE);
  CU_basic_run_tests();
  const unsigned failed = CU_get_number_of_failures(), ran = CU_get_number_of_tests_run();
  CU_cleanup_registry();
  return failed || !ran;
}
