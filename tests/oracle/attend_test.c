/* SPDX-License-Identifier: Apache-2.0
 *
 * The bound of attention: what f32 gives in either order of the sums is within it whatever the scores are, 1e-5 of the
 * largest result is not enough where they are large, and a wrong scale leaves it where they are not.
 */
#include <math.h>

#include "oracle_test.h"
#include "runtime/oracle/oracle.h"
#include "tests/kit/nodes.h"

enum { D = 16, T = 24, ROWS = 200 };

static uint32_t state;
static float normal(void) {
  float s = -6;
  for (int i = 0; i < 12; i++) {
    state = state * 1664525u + 1013904223u;
    s += (float)(state >> 8) / 16777216.0f;
  }
  return s;
}

typedef struct attention {
  float q[D], k[T][D], v[T];
} attention;

static double length_of(const float *x) {
  double s = 0;
  for (int d = 0; d < D; d++) s += (double)x[d] * (double)x[d];
  return sqrt(s);
}

/* In f32, elements of a head from the first on or from the last; factor: of the scale. */
static float compute(const attention *a, bool back, float factor) {
  float score[T], most = -INFINITY, sum = 0, y = 0;
  for (int t = 0; t < T; t++) {
    score[t] = 0;
    for (int d = 0; d < D; d++) score[t] += a->q[back ? D - 1 - d : d] * a->k[t][back ? D - 1 - d : d];
    score[t] *= 0.25f * factor;
    most = fmaxf(most, score[t]);
  }
  for (int t = 0; t < T; t++) {
    const float p = expf(score[t] - most);
    sum += p;
    y += p * a->v[t];
  }
  return y / sum;
}

static double bound_of(const attention *a) {
  tni_attend_given g = {.T = T, .terms = 6 * sqrt(D + 8.0), .u = 0x1p-24, .tiny = 0x1p-126};
  double k = 0;
  for (int t = 0; t < T; t++) {
    k = fmax(k, length_of(a->k[t]));
    g.v = fmax(g.v, fabs((double)a->v[t]));
  }
  g.score = 0.25 * length_of(a->q) * k;
  return tni_reference_attend(&g);
}

/* How many of ROWS are apart by more than their bound, and by more than 1e-5 of the largest value. */
static void count(float large, float factor, int *over, int *rough) {
  *over = *rough = 0;
  for (int i = 0; i < ROWS; i++) {
    attention a;
    for (int d = 0; d < D; d++) a.q[d] = normal() * large;
    for (int t = 0; t < T; t++) {
      for (int d = 0; d < D; d++) a.k[t][d] = normal() * large;
      a.v[t] = normal();
    }
    const double apart = fabs((double)compute(&a, false, 1) - (double)compute(&a, true, factor));
    *over += apart > bound_of(&a);
    *rough += apart > 1e-5;
  }
}

static void test_bound(void) {
  int over, rough;
  state = 5;
  for (float large = 0.5f; large < 100; large *= 4) {
    count(large, 1, &over, &rough);
    CU_ASSERT_EQUAL(over, 0);
  }
  CU_ASSERT(rough > 0);
  count(1, 1.001f, &over, &rough);
  CU_ASSERT(over > ROWS / 2);
}

void suite_attend(void) {
  CU_pSuite s = CU_add_suite("bound of attention", NULL, NULL);
  CU_add_test(s, "holds and bites", test_bound);
}
