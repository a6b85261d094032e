/* SPDX-License-Identifier: Apache-2.0
 *
 * How many guesses a step tries, on devices that are made up: what pays is found, and found again when the device
 * changes.
 */
#include <CUnit/Basic.h>
#include <stdio.h>

#include "runtime/llm/pace.h"

enum { STEPS = 2000, TEXTS = 4, MOST = 3 };

/* A step of so many rows, in ns; noise: what else the machine did. */
typedef double (*device)(size_t rows);
static double flat(size_t rows) { return 1e6 + 1e4 * (double)rows; }
static double steep(size_t rows) { return 1e6 * (double)rows; }
/* Few-row kernels of four: a step of 16 rows takes 7 times one of a single row (AVX2), one of four 1.4 times. */
static double avx2(size_t rows) { return rows <= 4 ? 1e6 + 1.33e5 * (double)(rows - 1) : 1e6 * 7 / 16 * (double)rows; }

static uint32_t draw(uint32_t *state) { return (*state = *state * 1664525u + 1013904223u) >> 8; }

typedef struct outcome {
  double rate; /* tokens in the time of a step of one row and text, against no guesses */
  size_t tried;
} outcome;

/* n texts whose guesses come with likelihood right, the first after a single token with likelihood first (0: two tokens stood
 * before); one step in eight is longer than the device, up to four times. */
static outcome run_after(tni_pace *p, device d, size_t n, double right, double first, int steps) {
  const bool single = first > 0;
  uint32_t state = 7;
  double ns = 0, tokens = 0;
  tni_pace_odds own[TEXTS];
  outcome out = {0, 0};
  for (size_t i = 0; i < n; i++) own[i] = p->odds;
  for (int s = 0; s < steps; s++) {
    tni_pace_text texts[TEXTS];
    for (size_t i = 0; i < n; i++) texts[i] = (tni_pace_text){MOST, own[i], single};
    const size_t m = tni_pace_worth(p, texts, n, MOST);
    const double t = d(n * (m + 1));
    ns += t;
    tni_pace_took(p, n * (m + 1), (int64_t)(draw(&state) % 8 ? t : t * (1 + draw(&state) % 4)));
    for (size_t i = 0; i < n; i++) {
      size_t came = 0;
      while (came < m && draw(&state) % 1000 < (single && !came ? first : right) * 1000) came++;
      tokens += 1 + (double)came;
      if (m) {
        tni_pace_learn(&own[i], single, m, came);
        tni_pace_learn(&p->odds, single, m, came);
      } else {
        tni_pace_forget(&own[i], single);
      }
      out.tried += m;
    }
  }
  out.rate = tokens / ns * d(n) / (double)n;
  return out;
}

static outcome run(tni_pace *p, device d, size_t n, double right, int steps) { return run_after(p, d, n, right, 0, steps); }

static outcome fresh(device d, size_t n, double right) {
  tni_pace p;
  tni_pace_init(&p);
  return run(&p, d, n, right, STEPS);
}

static void what_pays_is_tried(void) {
  CU_ASSERT(fresh(flat, 1, 0.9).rate > 3);
  CU_ASSERT(fresh(flat, TEXTS, 0.8).rate > 2.3);
  CU_ASSERT(fresh(avx2, 1, 0.8).rate > 1.8);
}

static void nothing_loses_much(void) {
  static const device all[] = {flat, steep, avx2};
  for (size_t k = 0; k < 3; k++)
    for (size_t n = 1; n <= TEXTS; n *= 2)
      for (int tenth = 0; tenth <= 10; tenth++) {
        const outcome o = fresh(all[k], n, tenth / 10.0);
        CU_ASSERT(o.rate > 0.9);
        if (o.rate <= 0.9)
          printf("device %zu, %zu texts, right %.1f: %.3f, %zu tried\n", k, n, tenth / 10.0, o.rate, o.tried);
      }
}

static void what_does_not_pay_is_left(void) {
  CU_ASSERT(fresh(steep, TEXTS, 0.5).tried < STEPS * TEXTS * MOST / 20);
  CU_ASSERT(fresh(avx2, TEXTS, 0.5).tried < STEPS * TEXTS * MOST / 20);
}

/* A device that was slow, and texts that did not repeat, are not so for ever. */
static void what_was_left_is_tried_again(void) {
  tni_pace p;
  tni_pace_init(&p);
  (void)run(&p, steep, TEXTS, 0.1, STEPS);
  (void)run(&p, flat, TEXTS, 0.9, 2 * STEPS);
  CU_ASSERT(run(&p, flat, TEXTS, 0.9, STEPS).rate > 2);
}

/* Where single tokens stood before, and nothing is like that: their guesses are left, and others are thought of as before. */
static void single_tokens(void) {
  static const device all[] = {flat, steep, avx2};
  tni_pace p;
  for (size_t k = 0; k < 3; k++)
    for (int tenth = 1; tenth <= 10; tenth++) {
      tni_pace_init(&p);
      const outcome o = run_after(&p, all[k], 1, 0.8, tenth / 10.0, STEPS);
      CU_ASSERT(o.rate > 0.9);
      if (o.rate <= 0.9) printf("device %zu, first %.1f: %.3f, %zu tried\n", k, tenth / 10.0, o.rate, o.tried);
    }
  tni_pace_init(&p);
  CU_ASSERT(run_after(&p, avx2, 1, 0.9, 0.8, STEPS).rate > 1.8);
  tni_pace_init(&p);
  const double right = p.odds.right;
  CU_ASSERT(run_after(&p, steep, TEXTS, 0.8, 0.01, STEPS).tried < STEPS * TEXTS * MOST / 20);
  CU_ASSERT(p.odds.right >= right * 0.9);
  CU_ASSERT(p.odds.first < 0.3);
}

int main(void) {
  if (CU_initialize_registry() != CUE_SUCCESS) return 1;
  CU_pSuite s = CU_add_suite("pace", NULL, NULL);
  CU_add_test(s, "what pays is tried", what_pays_is_tried);
  CU_add_test(s, "nothing loses much", nothing_loses_much);
  CU_add_test(s, "what does not pay is left", what_does_not_pay_is_left);
  CU_add_test(s, "what was left is tried again", what_was_left_is_tried_again);
  CU_add_test(s, "single tokens", single_tokens);
  CU_basic_set_mode(CU_BRM_VERBOSE);
  CU_basic_run_tests();
  const unsigned failed = CU_get_number_of_failures();
  CU_cleanup_registry();
  return failed ? 1 : 0;
}
